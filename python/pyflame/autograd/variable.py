"""Variable, which tensors were called before they had gradients of their own."""

from .. import _C

__all__ = ["Variable"]


class _Engine:
    """What programs know the backward pass by."""

    @staticmethod
    def queue_callback(callback):
        """Calls callback() when the backward pass that runs ends."""
        _C._when_pass_ends(callback)


class _Meta(type):
    def __instancecheck__(cls, other):
        return isinstance(other, _C.Tensor)


class Variable(metaclass=_Meta):
    """Variable(tensor, requires_grad=False): the tensor's values as a leaf; a Tensor."""

    _execution_engine = _Engine

    def __new__(cls, data=None, requires_grad=False, volatile=False):
        if data is None:
            return _C._functions["empty"](0, requires_grad=requires_grad)
        if not isinstance(data, _C.Tensor):
            raise TypeError(
                f"pf.autograd.Variable: got data of type {type(data).__name__}; expected a Tensor"
            )
        return data.detach().requires_grad_(bool(requires_grad))
