"""Norms of gradients, and clipping them."""

import warnings

from ... import _ops
from ..._C import Tensor
from ..._named_errors import listed
from ..._named_errors import name_errors as _name_errors

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "get_total_norm",
]  # fmt: skip


def _grads(name, parameters):
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    grads = []
    for p in listed(f"nn.utils.{name}", parameters):
        g = p.grad
        if g is not None:
            grads.append(g)
    return grads


def _check_finite(name, norm, norm_type):
    if not norm.isfinite().item():
        raise RuntimeError(
            f"pf.nn.utils.{name}: the norm of order {norm_type} of the gradients is not finite, so they "
            "cannot be clipped; pass error_if_nonfinite=False to go on"
        )


def _total(tensors, norm_type):
    if norm_type > 0 or norm_type != norm_type or not tensors:
        return _ops._multi_norm(tensors, norm_type)
    # Orders of 0 and below: the norm of the tensors' norms, as PyTorch has it.
    of_each = [
        _ops.linalg_vector_norm(t.detach(), norm_type).to(tensors[0].device) for t in tensors
    ]
    return _ops.linalg_vector_norm(_ops.stack(of_each), norm_type)


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Norm of all elements of the tensors together, as a 0-d tensor."""
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm = _total(tensors, float(norm_type))
    if error_if_nonfinite:
        _check_finite("get_total_norm", norm, norm_type)
    return norm


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scales the gradients by min(1, max_norm / total_norm), in place."""
    _scale(_grads("clip_grads_with_norm_", parameters), max_norm, total_norm)


def _scale(grads, max_norm, total_norm):
    for g in grads:
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        g.mul_(factor.to(g.device))


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales the gradients down so that their common norm is at most max_norm.

    Returns the norm from before as a 0-d tensor. Nothing waits for it, unless
    error_if_nonfinite asks to look.
    """
    grads, norm_type = _grads("clip_grad_norm_", parameters), float(norm_type)
    if not grads:
        return _ops.tensor(0.0)
    if error_if_nonfinite:
        _check_finite("clip_grad_norm_", _total(grads, norm_type), norm_type)
    if norm_type <= 0:
        norm = _total(grads, norm_type)
        _scale(grads, max_norm, norm)
        return norm
    return _ops._clip_grad_norm_(grads, float(max_norm), norm_type)


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """clip_grad_norm_, under its old name."""
    warnings.warn(
        "pf.nn.utils.clip_grad_norm is deprecated; use nn.utils.clip_grad_norm_", FutureWarning, 2
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Limits each element of the gradients to [-clip_value, clip_value]."""
    _ops._clip_grad_value_(_grads("clip_grad_value_", parameters), float(clip_value))


_name_errors(__name__)
