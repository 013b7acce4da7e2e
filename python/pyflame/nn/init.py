"""Filling tensors with start values. The fills themselves are in C++ (include/pyflame/init.h)."""

import functools
import warnings

from .. import _C, _ops
from ..autograd import no_grad

__all__ = [
    "calculate_gain", "uniform_", "normal_", "trunc_normal_", "constant_", "ones_", "zeros_",
    "eye_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_",
    "orthogonal_", "sparse_", "dirac_",
    "uniform", "normal", "constant", "eye", "dirac", "xavier_uniform", "xavier_normal",
    "kaiming_uniform", "kaiming_normal", "orthogonal", "sparse",
]  # fmt: skip


def calculate_gain(nonlinearity, param=None):
    """Recommended gain of a nonlinearity: 1 for linear and sigmoid, 5/3 for tanh, ..."""
    return _ops._init_calculate_gain(nonlinearity, 0.01 if param is None else float(param))


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Uniform numbers of [a, b)."""
    return _ops._init_uniform_(tensor, a, b)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Normal numbers."""
    return _ops._init_normal_(tensor, mean, std)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Normal numbers, drawn from the part of the distribution inside [a, b]."""
    return _ops._init_trunc_normal_(tensor, mean, std, a, b)


def constant_(tensor, val):
    """One number everywhere."""
    return _ops._init_constant_(tensor, val)


def ones_(tensor):
    """Ones."""
    return _ops._init_constant_(tensor, 1.0)


def zeros_(tensor):
    """Zeros."""
    return _ops._init_constant_(tensor, 0.0)


def eye_(tensor):
    """The identity matrix in a 2-d tensor."""
    return _ops._init_eye_(tensor)


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Uniform numbers whose variance is gain² * 2 / (inputs + outputs) (Glorot and Bengio, 2010)."""
    return _ops._init_xavier_uniform_(tensor, gain)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Normal numbers whose variance is gain² * 2 / (inputs + outputs) (Glorot and Bengio, 2010)."""
    return _ops._init_xavier_normal_(tensor, gain)


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Uniform numbers that keep the variance through layers with this nonlinearity (He and others, 2015)."""
    return _ops._init_kaiming_uniform_(tensor, float(a), mode, nonlinearity)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Normal numbers that keep the variance through layers with this nonlinearity (He and others, 2015)."""
    return _ops._init_kaiming_normal_(tensor, float(a), mode, nonlinearity)


def orthogonal_(tensor, gain=1, generator=None):
    """Orthonormal rows (or columns, whichever are fewer) of the tensor seen as a matrix."""
    return _ops._init_orthogonal_(tensor, float(gain))


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normal numbers with a fraction `sparsity` of each column set to zero."""
    return _ops._init_sparse_(tensor, float(sparsity), float(std))


def dirac_(tensor, groups=1):
    """The identity for a convolution: ones in the middle of the kernels."""
    return _ops._init_dirac_(tensor, groups)


# ---- what programs take from PyTorch's module ----------------------------------------------------


def _calculate_fan_in_and_fan_out(tensor):
    """(inputs, outputs) of each element of a layer with this weight."""
    if tensor.dim() < 2:
        raise ValueError(
            f"pf.nn.init: got a tensor of shape {list(tensor.shape)}; expected two dimensions or more "
            "to count what goes in and out"
        )
    field = 1
    for size in tensor.shape[2:]:
        field *= size
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"pf.nn.init: got mode {mode!r}; expected 'fan_in' or 'fan_out'")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def _no_grad_uniform_(tensor, a, b, generator=None):
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def _no_grad_normal_(tensor, mean, std, generator=None):
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def _no_grad_trunc_normal_(tensor, mean, std, a, b, generator=None):
    return trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_fill_(tensor, val):
    with no_grad():
        return tensor.fill_(val)


def _no_grad_zero_(tensor):
    return _no_grad_fill_(tensor, 0)


def _old(function):
    """The function under its old name, without the underscore."""
    name = function.__name__

    @functools.wraps(function)
    def old(*args, **kwargs):
        warnings.warn(f"pf.nn.init.{name[:-1]} is deprecated; use nn.init.{name}", FutureWarning, 2)
        return function(*args, **kwargs)

    old.__name__ = name[:-1]
    old.__doc__ = f"{name}, under its old name."
    return old


uniform, normal, constant, eye = _old(uniform_), _old(normal_), _old(constant_), _old(eye_)
dirac, orthogonal, sparse = _old(dirac_), _old(orthogonal_), _old(sparse_)
xavier_uniform, xavier_normal = _old(xavier_uniform_), _old(xavier_normal_)
kaiming_uniform, kaiming_normal = _old(kaiming_uniform_), _old(kaiming_normal_)

# Modes of torch.overrides are asked for them.
globals().update({n: _C._asking(globals()[n]) for n in __all__ if n != "calculate_gain"})
