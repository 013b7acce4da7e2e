"""Parameter: a tensor that a Module counts as its own."""

from .._C import Tensor
from .._named_errors import name_errors as _name_errors


class Parameter(Tensor):
    """A leaf tensor that is registered when it is assigned to an attribute of a Module.

    `Parameter(data, requires_grad=True)` shares the memory of `data`.
    """

    __torch_function__ = None  # operations give plain tensors

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            from .. import empty

            data = empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(
                f"pf.nn.Parameter: got {type(data).__module__}.{type(data).__qualname__}; expected a "
                "Tensor of PyFlame; make one with pf.tensor(data)"
            )
        return Tensor._make_subclass(cls, data.detach(), requires_grad)

    def __init__(self, *args, **kwargs):
        pass  # __new__ has done it; a base class must not see the arguments again

    def __deepcopy__(self, memo):
        found = memo.get(id(self))
        if found is None:
            found = type(self)(self.detach().clone(), self.requires_grad)
            memo[id(self)] = found
        return found

    def __repr__(self):
        text = Tensor.__repr__(self)
        text = text if type(self) is Parameter else f"Parameter({text})"
        return f"Parameter containing:\n{text}"


def _not_yet(name):
    def refuse(self, *args, **kwargs):
        raise ValueError(
            f"pf.nn.{type(self).__name__}: got a call of {name}() on what has no shape yet; run the "
            "module forward once, or materialize() it, first"
        )

    refuse.__name__ = name
    return refuse


class _WithoutShape:
    numel, nelement, dim, stride, element_size, sum, __len__ = map(
        _not_yet, "numel nelement dim stride element_size sum __len__".split()
    )

    @property
    def shape(self):
        raise RuntimeError(
            f"pf.nn.{type(self).__name__}: Can't access the shape of an uninitialized parameter or buffer. "
            "This error usually happens in `load_state_dict` when trying to load an uninitialized parameter "
            "into an initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )


class UninitializedParameter(_WithoutShape, Parameter):
    """The parameter of a lazy layer: it has no shape yet, and becomes a Parameter when it gets one."""

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        from .. import empty

        return super().__new__(cls, empty(0, device=device, dtype=dtype), requires_grad)

    def __init__(self, requires_grad=True, device=None, dtype=None):
        pass

    def __deepcopy__(self, memo):
        found = memo.get(id(self))
        if found is None:
            found = type(self)(self.requires_grad, self.device, self.dtype)
            memo[id(self)] = found
        return found

    def __repr__(self):
        return "<UninitializedParameter>"

    def _become(self, value):
        self.data = value.detach()
        self.__class__ = Parameter

    def materialize(self, shape, device=None, dtype=None):
        """Memory of this shape, whose values are anything."""
        from .. import empty

        self._become(empty(shape, device=device or self.device, dtype=dtype or self.dtype))


class Buffer(Tensor):
    """A tensor that a Module registers as a buffer when it is assigned to an attribute.

    `Buffer(data, persistent=True)` shares the memory of `data`; a state dict has it if persistent.
    """

    __torch_function__ = None  # operations give plain tensors

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            from .. import empty

            data = empty(0)
        made = Tensor._make_subclass(cls, data.detach(), data.requires_grad)
        made.persistent = persistent
        return made

    def __init__(self, data=None, *, persistent=True):
        pass


class UninitializedBuffer(_WithoutShape, Buffer):
    """The buffer of a lazy layer: it has no shape yet."""

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        from .. import empty

        return super().__new__(cls, empty(0, device=device, dtype=dtype), persistent=persistent)

    def __init__(self, requires_grad=False, device=None, dtype=None, persistent=True):
        pass

    def __deepcopy__(self, memo):
        found = memo.get(id(self))
        if found is None:
            found = type(self)(False, self.device, self.dtype, self.persistent)
            memo[id(self)] = found
        return found

    def __repr__(self):
        return "<UninitializedBuffer>"

    def materialize(self, shape, device=None, dtype=None):
        """Memory of this shape, whose values are anything."""
        from .. import empty

        self.data = empty(shape, device=device or self.device, dtype=dtype or self.dtype)
        self.__class__ = Buffer


def is_lazy(param):
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(param, (UninitializedParameter, UninitializedBuffer))


_name_errors(__name__, "Buffer")
