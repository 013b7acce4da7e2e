"""What distributions share."""

from .. import _C, _misc, _ops
from .._named_errors import name_errors as _name_errors
from ..autograd import enable_grad as _enable_grad


def broadcast_all(*values):
    """Tensors of one shape, of tensors and numbers; numbers take the dtype and device of the first tensor."""
    like = next((v for v in values if isinstance(v, _C.Tensor)), None)
    if not all(isinstance(v, _C.Tensor | int | float) for v in values):
        raise TypeError("pf.distributions: got a parameter that is no tensor and no number")
    if like is None:
        made = [_ops.tensor(float(v)) for v in values]
    else:
        dtype = like.dtype if like.dtype.is_floating_point else _C.get_default_dtype()
        made = [
            v if isinstance(v, _C.Tensor) else _ops.full((), v, dtype=dtype, device=like.device)
            for v in values
        ]
    return list(_ops.broadcast_tensors(*made))


def eps_of(x, which="eps"):
    return getattr(_misc.finfo(x.dtype), which)


def clamp_probs(probs):
    """Probabilities that are neither 0 nor 1, by a rounding."""
    eps = eps_of(probs)
    return probs.clamp(eps, 1 - eps)


def logits_to_probs(logits, is_binary=False):
    return _ops.sigmoid(logits) if is_binary else _ops.softmax(logits, -1)


def probs_to_logits(probs, is_binary=False):
    p = clamp_probs(probs)
    return _ops.log(p) - _ops.log1p(-p) if is_binary else _ops.log(p)


def sum_rightmost(value, dims):
    """`value` summed over its last `dims` dimensions."""
    return value.flatten(-dims).sum(-1) if dims else value


_sum_rightmost = sum_rightmost


def _standard_normal(shape, dtype, device):
    return _ops.randn(shape, dtype=dtype, device=device)


def vec_to_tril_matrix(vec, diag=0):
    """Lower triangular matrices of their rows one behind the other, [..., n * (n + 1) / 2] for diag=0;
    above the diagonal `diag` stand zeros."""
    n = (
        -(1 + 2 * diag)
        + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5
    ) / 2
    if n != int(n):
        raise _C.ValueError(
            f"pf.distributions.utils.vec_to_tril_matrix: got {vec.shape[-1]} elements; expected as many "
            "as a triangle has: 1, 3, 6, ..."
        )
    n = int(n)
    i, j = _ops.tril_indices(n, n, diag, device=vec.device)
    made = vec.new_zeros((*vec.shape[:-1], n, n))
    made[..., i, j] = vec
    return made


def tril_matrix_to_vec(mat, diag=0):
    """The rows of lower triangular matrices one behind the other."""
    n = mat.shape[-1]
    i, j = _ops.tril_indices(n, n, diag, device=mat.device)
    return mat[..., i, j]


class lazy_property:
    """A property that is calculated once and kept in the object."""

    def __init__(self, wrapped):
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__
        self.name = wrapped.__name__

    def __get__(self, obj, kind=None):
        if obj is None:
            return self
        # Kept for later uses, which may want gradients where the first (`sample`) does not.
        with _enable_grad():
            value = self.wrapped(obj)
        obj.__dict__[self.name] = value
        return value


_name_errors(__name__)
