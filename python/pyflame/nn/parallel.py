"""Modules over several devices, with the names of torch.nn.parallel: over one they are plain calls."""

import contextlib

from .. import _C
from .._named_errors import name_errors as _name_errors
from .._processes import group_module
from .module import Module

__path__ = []  # nn.parallel.distributed and its like: _aliases.py

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply",
    "replicate", "scatter",
]  # fmt: skip


def _one(devices, name):
    """The one device that is meant, None for wherever the module is."""
    if devices is None:
        return None
    devices = [devices] if isinstance(devices, (int, str, _C.device)) else list(devices)
    if len(devices) > 1:
        raise _C.NotSupportedError(
            f"pf.nn.parallel.{name}: got the devices {devices}; expected one; several are not there yet"
        )
    if not devices:
        return None
    return _C.device(f"gpu:{devices[0]}") if isinstance(devices[0], int) else _C.device(devices[0])


def _moved(value, device):
    from ..utils.data.collate import moved

    return value if device is None else moved(value, device)


class DataParallel(Module):
    """`module`, called with whole batches: over one device there is nothing to share out.

    The module stands under `module`, as in PyTorch, so that state dicts have the same names. Inputs go
    to `device_ids[0]` where that is given. Several devices are refused.
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        device = _one(device_ids, "DataParallel")
        self.module = module if device is None else module.to(device)
        self.device_ids = [] if device is None else [device.index or 0]
        self.output_device = output_device
        self.dim = dim
        self._device = device

    def forward(self, *inputs, **kwargs):
        result = self.module(*_moved(inputs, self._device), **_moved(kwargs, self._device))
        return _moved(result, _one(self.output_device, "DataParallel"))


class DistributedDataParallel(DataParallel):
    """`module` in a process group of one (torch.distributed): its gradients are already everybody's.

    Without a group, making one raises RuntimeError, as do a module without parameters that learn.
    Options of how several processes exchange gradients are accepted.
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=True,
                 init_sync=True, process_group=None, bucket_cap_mb=None,
                 find_unused_parameters=False, check_reduction=False, gradient_as_bucket_view=False,
                 static_graph=False, **options):  # fmt: skip
        distributed = group_module()
        if distributed is None:
            raise RuntimeError(
                "pf.nn.parallel.DistributedDataParallel: there is no process group; call "
                "torch.distributed.init_process_group() first, or train the module itself"
            )
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "pf.nn.parallel.DistributedDataParallel: got a module without a parameter that requires "
                "a gradient; call the module itself"
            )
        super().__init__(module, device_ids, output_device, dim)
        self.process_group = process_group or distributed.group.WORLD
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.static_graph = static_graph
        self.require_backward_grad_sync = True

    @contextlib.contextmanager
    def no_sync(self):
        """Within it gradients would not be exchanged: with one process nothing changes."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(
        self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False
    ):
        """A block for processes with unequal numbers of batches: nothing here."""
        return contextlib.nullcontext()

    def register_comm_hook(self, state, hook):
        """Accepted: nothing is exchanged, so the hook is not called."""


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """module(*inputs) on one device."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    module_kwargs = module_kwargs or {}
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **module_kwargs)


def replicate(network, devices, detach=False):
    """[network], on the one device."""
    device = _one(devices, "replicate")
    return [network if device is None else network.to(device)]


def scatter(inputs, target_gpus, dim=0):
    """[inputs], on the one device."""
    return [_moved(inputs, _one(target_gpus, "scatter"))]


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """([inputs], [kwargs]), on the one device."""
    return tuple(scatter(inputs, target_gpus, dim)), tuple(scatter(kwargs or {}, target_gpus, dim))


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """The results of modules for inputs, each for its own."""
    if len(modules) != len(inputs):
        raise AssertionError(
            f"pf.nn.parallel.parallel_apply: got {len(modules)} modules and {len(inputs)} inputs; "
            "expected as many"
        )
    kwargs_tup = kwargs_tup or [{}] * len(modules)
    return [
        module(*(x if isinstance(x, (tuple, list)) else (x,)), **kwargs)
        for module, x, kwargs in zip(modules, inputs, kwargs_tup)
    ]


def gather(outputs, target_device, dim=0):
    """Results of several devices as one, on a device: tensors are joined along `dim`."""
    device = _one(target_device, "gather")
    first = outputs[0]
    if isinstance(first, _C.Tensor):
        parts = [_moved(o, device) for o in outputs]
        if first.dim() == 0:
            return _C._functions["stack"](parts)
        return _C._functions["cat"](parts, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((k, gather([o[k] for o in outputs], target_device, dim)) for k in first)
    parts = [gather(list(o), target_device, dim) for o in zip(*outputs)]
    return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)


_name_errors(__name__)
