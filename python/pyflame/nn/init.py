"""Filling tensors with start values. The fills themselves are in C++ (include/pyflame/init.h)."""

from .. import _ops

__all__ = [
    "calculate_gain", "uniform_", "normal_", "trunc_normal_", "constant_", "ones_", "zeros_",
    "eye_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_",
    "orthogonal_", "sparse_", "dirac_",
]  # fmt: skip


def calculate_gain(nonlinearity, param=None):
    """Recommended gain of a nonlinearity: 1 for linear and sigmoid, 5/3 for tanh, ..."""
    return _ops._init_calculate_gain(nonlinearity, 0.01 if param is None else float(param))


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    return _ops._init_uniform_(tensor, a, b)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    return _ops._init_normal_(tensor, mean, std)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Normal numbers, drawn from the part of the distribution inside [a, b]."""
    return _ops._init_trunc_normal_(tensor, mean, std, a, b)


def constant_(tensor, val):
    return _ops._init_constant_(tensor, val)


def ones_(tensor):
    return _ops._init_constant_(tensor, 1.0)


def zeros_(tensor):
    return _ops._init_constant_(tensor, 0.0)


def eye_(tensor):
    """The identity matrix in a 2-d tensor."""
    return _ops._init_eye_(tensor)


def xavier_uniform_(tensor, gain=1.0, generator=None):
    return _ops._init_xavier_uniform_(tensor, gain)


def xavier_normal_(tensor, gain=1.0, generator=None):
    return _ops._init_xavier_normal_(tensor, gain)


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    return _ops._init_kaiming_uniform_(tensor, float(a), mode, nonlinearity)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
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
