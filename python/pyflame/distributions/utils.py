"""What distributions share."""

from .. import _C, _misc, _ops


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


def eps_of(x):
    return _misc.finfo(x.dtype).eps


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


class lazy_property:
    """A property that is calculated once and kept in the object."""

    def __init__(self, wrapped):
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__
        self.name = wrapped.__name__

    def __get__(self, obj, kind=None):
        if obj is None:
            return self
        value = self.wrapped(obj)
        obj.__dict__[self.name] = value
        return value
