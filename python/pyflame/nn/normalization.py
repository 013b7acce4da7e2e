"""Norms of channels: of the batch, of examples, of groups, of neighbours; see nn.functional."""

from .. import _C, _ops
from .._grad_mode import recomputation
from . import functional as F
from .module import Module
from .parameter import Parameter
from .sizes import whole_numbers

__all__ = [
    *(f"{kind}Norm{d}d" for kind in ("Batch", "Instance") for d in (1, 2, 3)),
    "CrossMapLRN2d",
    "GroupNorm",
    "LocalResponseNorm",
    "SyncBatchNorm",
]


def check_ranks(layer, input, ranks):
    """ValueError unless `input` has one of so many dimensions."""
    if input.dim() not in ranks:
        expected = " or ".join(f"{n}-d" for n in ranks)
        raise ValueError(
            f"pf.nn.{type(layer).__name__}: got input of shape {tuple(input.shape)}; expected "
            f"{expected} input; reshape it"
        )


class _Affine(Module):
    """A weight of ones and a bias of zeros for each channel, or none."""

    def _add_affine(self, channels, affine, bias, device, dtype):
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            value = _ops.empty((channels,), device=device, dtype=dtype) if wanted else None
            self.register_parameter(name, Parameter(value) if wanted else None)

    def reset_parameters(self):
        if self.weight is not None:
            _ops._init_constant_(self.weight, 1.0)
        if self.bias is not None:
            _ops._init_constant_(self.bias, 0.0)


class _RunningNorm(_Affine):
    """What batch and instance norms share: running statistics, and how many batches they saw."""

    _version = 2
    _ranks = ()

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
        device=None, dtype=None, *, bias=True,
    ):  # fmt: skip
        super().__init__()
        whole_numbers(self, num_features=num_features)
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._add_affine(num_features, affine, bias, device, dtype)
        self._add_running(num_features, device, dtype)
        self.reset_parameters()

    def _add_running(self, channels, device, dtype):
        kept = self.track_running_stats
        empty = _ops.empty
        for name in ("running_mean", "running_var"):
            value = empty((channels,), device=device, dtype=dtype) if kept else None
            self.register_buffer(name, value)
        # A whole number: it has no part in casts.
        count = _ops.tensor(0, dtype=_ops.int64, device=device) if kept else None
        self.register_buffer("num_batches_tracked", count)

    def reset_running_stats(self):
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        self.reset_running_stats()
        super().reset_parameters()

    def _running(self):
        """What a call may count in: copies where a checkpoint runs it a second time."""
        running = self.running_mean, self.running_var, self.num_batches_tracked
        if recomputation.on and self.training:
            return tuple(None if t is None else t.clone() for t in running)
        return running

    def _check_input_dim(self, input):
        check_ranks(self, input, self._ranks)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *lists):
        # States from before there was a count, and plain dicts, may lack it.
        key = prefix + "num_batches_tracked"
        old = local_metadata.get("version", 1) < 2
        if old and self.track_running_stats and key not in state_dict:
            state_dict[key] = self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *lists)

    def extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_RunningNorm):
    def forward(self, input):
        self._check_input_dim(input)
        mean, var, count = self._running()
        training = self.training or (mean is None and var is None)
        momentum = self.momentum or 0.0
        if self.training and self.track_running_stats and count is not None:
            count.add_(1)
            if self.momentum is None:  # the mean of all batches so far
                momentum = 1.0 / count.item()
        if self.training and not self.track_running_stats:
            mean = var = None
        return F.batch_norm(input, mean, var, self.weight, self.bias, training, momentum, self.eps)


class _InstanceNorm(_RunningNorm):
    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False,
        device=None, dtype=None, *, bias=True,
    ):  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, input):
        self._check_input_dim(input)
        alone = input.dim() == self._ranks[0]  # one example
        channels = input.shape[0 if alone else 1]
        if channels != self.num_features and self.affine:
            raise ValueError(
                f"pf.nn.{type(self).__name__}: got input of shape {tuple(input.shape)} with "
                f"{channels} channels; expected {self.num_features}; change num_features"
            )
        mean, var, _ = self._running()
        y = F.instance_norm(
            input.unsqueeze(0) if alone else input,
            mean,
            var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum or 0.0,
            self.eps,
        )
        return y.squeeze(0) if alone else y


def _layer(name, base, ranks, doc):
    space = {"__doc__": doc, "__module__": __name__, "_ranks": ranks}
    return type(name, (base,), space)


_SHAPES = {1: "[N, C] or [N, C, L]", 2: "[N, C, H, W]", 3: "[N, C, D, H, W]"}
for _d in (1, 2, 3):
    globals()[f"BatchNorm{_d}d"] = _layer(
        f"BatchNorm{_d}d",
        _BatchNorm,
        (2, 3) if _d == 1 else (_d + 2,),
        f"Each channel of {_SHAPES[_d]} with mean 0 and variance 1, times a weight plus a bias: in "
        "training over the batch, whose statistics go into the running ones (momentum=None: as "
        "the mean of all batches), in evaluation by those.",
    )
    globals()[f"InstanceNorm{_d}d"] = _layer(
        f"InstanceNorm{_d}d",
        _InstanceNorm,
        (_d + 1, _d + 2),
        f"Each channel of each example of {_SHAPES[_d].split(' or ')[-1]}, or of one without N, "
        "with mean 0 and variance 1.",
    )


class GroupNorm(_Affine):
    """Groups of channels of each example with mean 0 and variance 1, times a weight plus a bias for
    each channel."""

    def __init__(
        self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None, *, bias=True
    ):
        super().__init__()
        if num_groups <= 0 or num_channels % num_groups:
            raise ValueError(
                f"pf.nn.GroupNorm: got {num_channels} channels in {num_groups} groups; expected "
                "groups that divide them"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._add_affine(num_channels, affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Each element by the squares of `size` neighbouring channels; see nn.functional."""

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0):
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input):
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self):
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """LocalResponseNorm, as programs from Torch7 call it."""

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1):
        super().__init__(size, alpha, beta, k)


class SyncBatchNorm(_BatchNorm):
    """A batch norm over the batches of all processes. There is one process: what BatchNorm does."""

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
        process_group=None, device=None, dtype=None, *, bias=True,
    ):  # fmt: skip
        if process_group is not None:
            raise _C.NotSupportedError(
                "pf.nn.SyncBatchNorm: got a process group; several processes are not there yet; "
                "expected None"
            )
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = None

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(
                f"pf.nn.SyncBatchNorm: got input of shape {tuple(input.shape)}; expected at least two "
                "dimensions"
            )

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """`module` with its batch norms replaced by SyncBatchNorm of the same state."""
        result = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            result = cls(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group,
            )  # fmt: skip
            result._parameters.update(module._parameters)
            result._buffers.update(module._buffers)
            result.training = module.training
        for name, child in module._modules.items():
            if child is not None:
                result._modules[name] = cls.convert_sync_batchnorm(child, process_group)
        return result
