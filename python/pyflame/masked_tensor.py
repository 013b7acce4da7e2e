"""Tensors with a mask of what counts, by the names of torch.masked: each operation takes data and mask along.

Functions of elements need equal masks; reductions leave out what is masked, and mask a result where
nothing was left. Gradients of what is masked are 0, NaN and infinities behind the mask included.
"""

from . import _C, _ops, masked

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]

_ELEMENTS = """abs absolute acos acosh add angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh
atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clip clone cos cosh deg2rad digamma div
divide double eq erf erfc erfinv exp exp2 expm1 fix float floor floor_divide fmax fmin fmod frac ge greater
greater_equal gt half i0 isfinite isinf isnan le less less_equal lgamma log log10 log1p log2 logaddexp logaddexp2
logit logical_not long lt maximum minimum mul multiply nan_to_num ne neg negative nextafter not_equal pow positive
rad2deg reciprocal relu remainder round rsqrt rsub sgn sigmoid sign signbit sin sinc sinh sqrt square sub subtract
tan tanh to true_divide trunc type_as""".split()
_REDUCED = "amax amin argmax argmin mean norm prod std sum var".split()
_ALONG = "log_softmax softmax softmin cumsum cumprod".split()
_MOVES = """contiguous detach expand flatten flip index_select movedim narrow permute reshape select squeeze t
transpose unflatten unfold unsqueeze view""".split()
_TOLD = """shape dtype device ndim requires_grad is_leaf size dim numel nelement layout is_sparse stride element_size
is_contiguous is_floating_point is_complex""".split()
_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt",
    "ge": "ge", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip


class MaskedTensor:
    """`data` where `mask` (bools of its shape) is True, nothing elsewhere."""

    def __init__(self, data, mask, requires_grad=False):
        _check(data, mask)
        self._data = data.detach().clone().requires_grad_(requires_grad)
        self._mask = mask

    @classmethod
    def _of(cls, data, mask):
        out = cls.__new__(cls)
        out._data, out._mask = data, mask
        return out

    def get_data(self):
        return self._data

    def get_mask(self):
        return self._mask

    def to_tensor(self, value):
        """A tensor with `value` where nothing is."""
        return self._data.masked_fill(~self._mask, value)

    def _counted(self):
        """The data, whose gradient is 0 where it is masked."""
        x = self._data
        return _ops.where(self._mask, x, x.detach()) if x.requires_grad else x

    @property
    def grad(self):
        g = self._data.grad
        return None if g is None else MaskedTensor._of(g, self._mask)

    @property
    def data(self):
        return self.detach()

    def all(self, *args, **kwargs):
        """Whether all that is not masked is true."""
        return _call("all", (self, *args), kwargs)

    def split(self, *args, **kwargs):
        if any(isinstance(given, MaskedTensor) for given in (*args, *kwargs.values())):
            raise TypeError(
                "pf.split: got a masked tensor as sizes; expected an integer or a list of them"
            )
        parts = zip(*(t.split(*args, **kwargs) for t in (self._data, self._mask)))
        return tuple(MaskedTensor._of(*p) for p in parts)

    def copy_(self, other):
        _common("copy_", (self, other))
        self._data.copy_(other._data)
        return self

    def backward(self, *args, **kwargs):
        self._data.backward(*args, **kwargs)

    def requires_grad_(self, requires_grad=True):
        self._data.requires_grad_(requires_grad)
        return self

    def __getattr__(self, name):
        if name in _TOLD:
            return getattr(self._data, name)
        if name in _KNOWN:
            return lambda *args, **kwargs: _call(name, (self, *args), kwargs)
        if name.endswith("_") and name[:-1] in _ELEMENTS and hasattr(self._data, name):
            return lambda *args, **kwargs: self._written(name, args, kwargs)
        raise AttributeError(
            f"pf.masked.MaskedTensor has no {name!r}; use get_data() and get_mask(), or to_tensor(value)"
        )

    def _written(self, name, args, kwargs):
        """The operation in place of the data."""
        _common(name, (self, *args))
        others = [a._counted() if isinstance(a, MaskedTensor) else a for a in args]
        getattr(self._data, name)(*others, **kwargs)
        return self

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func.__name__ not in _KNOWN:
            return NotImplemented
        return _call(func.__name__, args, kwargs or {})

    def __getitem__(self, index):
        if isinstance(index, MaskedTensor):
            raise TypeError(
                "pf.masked: got a MaskedTensor as an index; expected a tensor; see get_data()"
            )
        return MaskedTensor._of(self._data[index], self._mask[index])

    def __len__(self):
        return len(self._data)

    def __neg__(self):
        return _call("neg", (self,), {})

    def __abs__(self):
        return _call("abs", (self,), {})

    def __invert__(self):
        return MaskedTensor._of(~self._data, self._mask)

    __hash__ = object.__hash__

    def __repr__(self):
        def text(data, mask, width=0):
            if isinstance(data, list):
                if not any(isinstance(d, list) for d in data):
                    return "[" + ", ".join(text(d, m, 8) for d, m in zip(data, mask)) + "]"
                parts = ",\n".join(map(text, data, mask)).split("\n")
                return "[\n" + "\n".join("  " + p for p in parts) + "\n]"
            if not mask:
                return "--".rjust(width)
            return f"{data:8.4f}" if isinstance(data, float) else str(data)

        shown = text(self._data.tolist(), self._mask.tolist())
        return "MaskedTensor(\n  " + shown.replace("\n", "\n  ") + "\n)"


def _operator(name, function, reflected):
    def operate(self, other):
        return _call(function, (other, self) if reflected else (self, other), {})

    operate.__name__ = name
    setattr(MaskedTensor, name, operate)


for _name, _function in _OPERATORS.items():
    _operator(f"__{_name}__", _function, False)
    if _name not in ("eq", "ne", "lt", "le", "gt", "ge"):
        _operator(f"__r{_name}__", _function, True)
_KNOWN = {*_ELEMENTS, *_REDUCED, *_ALONG, *_MOVES, "where", "all", "cat", "stack", "split"}


def _check(data, mask):
    for what, t in (("data", data), ("mask", mask)):
        if not isinstance(t, _C.Tensor):
            raise TypeError(
                f"pf.masked.masked_tensor: got {type(t).__name__} as {what}; expected a tensor; call pf.tensor"
            )
    if mask.dtype != _C.bool:
        raise TypeError(
            f"pf.masked.masked_tensor: got a mask of {mask.dtype}; expected bool; compare it first"
        )
    if data.shape != mask.shape:
        raise _C.ValueError(
            f"pf.masked.masked_tensor: got data of shape {list(data.shape)} and a mask of shape "
            f"{list(mask.shape)}; expected the same"
        )


def _common(name, args):
    masks = [a._mask for a in args if isinstance(a, MaskedTensor)]
    for other in masks[1:]:
        if other is not masks[0] and not _ops.equal(other, masks[0]):
            raise _C.ValueError(
                f"pf.masked: got different masks in {name}; expected equal ones; use to_tensor(value)"
            )
    return masks[0]


def _call(name, args, kwargs):
    if name in ("cat", "stack"):
        parts, *rest = args
        both = ([p._data for p in parts], [p._mask for p in parts])
        return MaskedTensor._of(*(getattr(_ops, name)(list(b), *rest, **kwargs) for b in both))
    if name == "split":
        return MaskedTensor.split(*args, **kwargs)
    if name == "all":
        x, *rest = args
        out = (x._data.bool() | ~x._mask).all(*rest, **kwargs)
        return MaskedTensor._of(out, x._mask.any(*rest, **kwargs))
    if name == "where":
        condition, x, y = args
        if isinstance(condition, MaskedTensor):
            raise TypeError(
                "pf.masked: got a MaskedTensor as a condition; expected bools; see get_data()"
            )
        given = [a for a in (x, y) if isinstance(a, MaskedTensor)]
        mask = _ops.where(condition, *(getattr(a, "_mask", True) for a in (x, y)))
        shown = [a._counted() if isinstance(a, MaskedTensor) else a for a in (x, y)]
        return MaskedTensor._of(_ops.where(condition, *shown), mask) if given else NotImplemented
    if name in _REDUCED or name in _ALONG:
        x, *rest = args
        f = getattr(masked, name)
        if name in _ALONG:
            return MaskedTensor._of(f(x._data, *rest, mask=x._mask, **kwargs), x._mask)
        if name == "norm" and rest[:1] == [None]:
            rest[0] = 2.0
        out = f(x._data, *rest, mask=x._mask, **kwargs)
        at = 1 if name == "norm" else 0
        dim = kwargs.get("dim", rest[at] if len(rest) > at else None)
        dims = tuple(range(x.ndim)) if dim is None else dim
        kept = x._mask.sum(dims, keepdim=kwargs.get("keepdim", False)) > 0
        return MaskedTensor._of(out, kept.reshape(out.shape))
    if name in _MOVES:
        x, *rest = args
        return MaskedTensor._of(*(getattr(t, name)(*rest, **kwargs) for t in (x._data, x._mask)))
    mask = _common(name, args)
    data = [a._counted() if isinstance(a, MaskedTensor) else a for a in args]
    first, *rest = data
    if isinstance(first, _C.Tensor) and hasattr(first, name):
        out = getattr(first, name)(*rest, **kwargs)
    else:
        out = getattr(_ops, name)(*data, **kwargs)
    if out.shape != mask.shape:
        mask = mask.expand(out.shape)
    return MaskedTensor._of(out, mask)


def masked_tensor(data, mask, requires_grad=False):
    """A :class:`MaskedTensor` of its own, a leaf."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data, mask):
    """One through which gradients reach `data`."""
    _check(data, mask)
    return MaskedTensor._of(data.clone(), mask)


def is_masked_tensor(obj):
    return isinstance(obj, MaskedTensor)
