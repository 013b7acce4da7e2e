"""Parameters as one vector, modules without start values, layouts of weights."""

import inspect

from ... import _C, _ops
from ..._C import Tensor
from ..._named_errors import name_errors as _name_errors
from ..module import Module

__all__ = [
    "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format",
    "parameters_to_vector", "skip_init", "vector_to_parameters",
]  # fmt: skip


def parameters_to_vector(parameters):
    """All parameters as one vector."""
    return _ops.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    """Writes the vector's values into the parameters, in their order."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected a Tensor; got {type(vec).__name__}")
    start = 0
    for p in parameters:
        p.data = vec.detach()[start : start + p.numel()].view(p.shape).clone()
        start += p.numel()


def skip_init(module_cls, *args, **kwargs):
    """module_cls(*args, **kwargs) whose own parameters have any values: they are loaded next.

    Nothing is drawn for them. Of layers inside of it, the start values are as always.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(
            f"pf.nn.utils.skip_init: got {module_cls}; expected a subclass of nn.Module"
        )
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(
            f"pf.nn.utils.skip_init: {module_cls.__name__} takes no device; expected a class that does"
        )
    nothing = {name: lambda self: None for name in ("reset_parameters", "_reset_parameters")}
    module = type(module_cls.__name__, (module_cls,), nothing)(*args, **kwargs)
    module.__class__ = module_cls
    return module


def _convert(module, memory_format, kinds):
    for m in module.modules():
        if type(m).__name__ in kinds:
            m.weight.data = m.weight.detach().to(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    """Lays the weights of Conv2d and ConvTranspose2d in the module out so; returns it."""
    _C._check_memory_format(memory_format, "nn.utils.convert_conv2d_weight_memory_format")
    return _convert(module, memory_format, ("Conv2d", "ConvTranspose2d"))


def convert_conv3d_weight_memory_format(module, memory_format):
    """Lays the weights of Conv3d and ConvTranspose3d in the module out so; returns it."""
    _C._check_memory_format(memory_format, "nn.utils.convert_conv3d_weight_memory_format")
    return _convert(module, memory_format, ("Conv3d", "ConvTranspose3d"))


_name_errors(__name__)
