"""Gradient clipping, parameters as one vector, batch norms folded into what is before them."""

from ... import _ops
from ..._C import Tensor
from . import rnn
from .fusion import *  # noqa: F403
from .fusion import __all__ as _FUSION

__all__ = [
    *_FUSION,
    "clip_grad_norm_",
    "clip_grad_value_",
    "get_total_norm",
    "parameters_to_vector",
    "rnn",
    "vector_to_parameters",
]


def _grads(parameters):
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    grads = []
    for p in parameters:
        g = p.grad
        if g is not None:
            grads.append(g)
    return grads


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Norm of all elements of the tensors together, as a 0-d tensor."""
    return _ops._multi_norm(list(tensors), float(norm_type))


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales the gradients down so that their common norm is at most max_norm.

    Returns the norm from before as a 0-d tensor. Nothing waits for it, unless
    error_if_nonfinite asks to look.
    """
    grads = _grads(parameters)
    if not grads:
        return _ops.tensor(0.0)
    if error_if_nonfinite:
        norm = _ops._multi_norm(grads, float(norm_type))
        if not norm.isfinite().item():
            raise RuntimeError(
                f"pf.nn.utils.clip_grad_norm_: the norm of order {norm_type} of the gradients is "
                "not finite, so they cannot be clipped; pass error_if_nonfinite=False to go on"
            )
    return _ops._clip_grad_norm_(grads, float(max_norm), float(norm_type))


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Limits each element of the gradients to [-clip_value, clip_value]."""
    _ops._clip_grad_value_(_grads(parameters), float(clip_value))


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
