"""Parameter: a tensor that a Module counts as its own."""

from .._C import Tensor


class Parameter(Tensor):
    """A leaf tensor that is registered when it is assigned to an attribute of a Module.

    `Parameter(data, requires_grad=True)` shares the memory of `data`.
    """

    __torch_function__ = None  # operations give plain tensors

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            from .. import empty

            data = empty(0)
        return Tensor._make_subclass(cls, data.detach(), requires_grad)

    def __init__(self, data=None, requires_grad=True):
        pass  # __new__ has done it; a base class must not see the arguments again

    def __deepcopy__(self, memo):
        found = memo.get(id(self))
        if found is None:
            found = type(self)(self.detach().clone(), self.requires_grad)
            memo[id(self)] = found
        return found

    def __repr__(self):
        return "Parameter containing:\n" + Tensor.__repr__(self)
