"""NestedTensor: several tensors that differ in the size of one dimension, as one.

They lie one behind the other in a dense tensor, the *values*, whose dimension `ragged - 1` is the packed
one; `rows` says where each begins. What is done to a nested tensor is done to its values by the operations
that there are, so gradients are theirs.
"""

from .. import _C, _layouts
from ._rows import Rows

Tensor = _C.Tensor


def make(values, rows, ragged=1, layout=_layouts.jagged):
    """A nested tensor of plain values, part of their history."""
    return _described(Tensor.as_subclass(values, NestedTensor), rows, ragged, layout)


def leaf(values, rows, ragged, layout, requires_grad):
    """The same as a leaf."""
    made = Tensor._make_subclass(NestedTensor, values, bool(requires_grad))
    return _described(made, rows, ragged, layout)


def _described(made, rows, ragged, layout):
    made.__dict__.update(_rows=rows, _ragged_idx=ragged, _kind=layout)
    return made


def plain(nested):
    """The values as a plain tensor of the same memory and history."""
    return Tensor.as_subclass(nested, Tensor)


def refuse(what, expected, hint="take unbind() or values(), or to_padded_tensor()"):
    raise _C.NotSupportedError(f"pf.nested: got {what}; expected {expected}; {hint}")


class NestedTensor(Tensor):
    """Several tensors that differ in the size of one dimension: pf.nested.nested_tensor and its
    neighbours make them."""

    def __new__(cls, *args, **kwargs):
        raise TypeError(
            "pf.nested.NestedTensor: got a call; expected pf.nested.nested_tensor, as_nested_tensor or "
            "nested_tensor_from_jagged, which make one; call one of them"
        )

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        from ._dispatch import call

        return call(func, args, kwargs or {})

    def _with(self, values, ragged=None):
        """Other values with the same rows."""
        return make(values, self._rows, self._ragged_idx if ragged is None else ragged, self._kind)

    # ---- parts ----------------------------------------------------------------------------------

    @property
    def is_nested(self):
        return True

    @property
    def layout(self):
        return self._kind

    def values(self):
        """The components one behind the other, a view: [rows, ...]. Differentiable."""
        return plain(self)

    _values = property(values)

    def offsets(self):
        """Where each component begins in values(), and where the last ends: [components + 1]."""
        return self._rows.offsets

    _offsets = property(offsets)

    def lengths(self):
        """None: components lie without gaps."""
        return None

    _lengths = property(lengths)
    _max_seqlen = property(lambda self: self._rows.longest)
    _min_seqlen = property(lambda self: self._rows.shortest)

    def _get_max_seqlen(self):
        return self._rows.longest

    def _get_min_seqlen(self):
        return self._rows.shortest

    # ---- sizes ----------------------------------------------------------------------------------

    def _sizes(self):
        sizes = [self._rows.count, *Tensor.size(self)]
        sizes[self._ragged_idx] = self._rows.size
        return tuple(sizes)

    def size(self, dim=None):
        """The shape, whose ragged size (j1) is equal to itself alone, or the size of one dimension."""
        strided = self._kind == _layouts.strided
        if dim is None:
            if strided:
                raise RuntimeError(
                    "pf.Tensor.size: got a nested tensor of layout pf.strided, which has no sizes; expected "
                    "a dimension; pass one, or make it with layout=pf.jagged"
                )
            return self._sizes()
        dim = self._dim(dim)
        if strided and dim == self._ragged_idx:
            raise RuntimeError(
                f"pf.Tensor.size: Given dimension {dim} is irregular and does not have a size; take those of "
                "unbind()"
            )
        return self._sizes()[dim]

    @property
    def shape(self):
        return self.size()

    def dim(self):
        """Number of dimensions, that of the components counted."""
        return Tensor.dim(self) + 1

    ndimension = dim
    ndim = property(dim)

    def _dim(self, dim):
        n = self.dim()
        if not -n <= dim < n:
            raise _C.IndexError(
                f"pf.nested: got dimension {dim} of a nested tensor with {n}; expected {-n} to {n - 1}"
            )
        return dim % n

    def _inner(self, dim, what):
        """The dimension of the values for one of the nested tensor that is neither the first nor ragged."""
        found = self._dim(dim)
        if found in (0, self._ragged_idx):
            refuse(f"{what} along dimension {dim}, of which components differ", "another one")
        return found - 1

    def __len__(self):
        return self._rows.count

    def __iter__(self):
        return iter(self.unbind())

    # ---- forms ----------------------------------------------------------------------------------

    def unbind(self, dim=0):
        """The components, views of the values."""
        if self._dim(dim) != 0:
            refuse(f"unbind along dimension {dim}", "0")
        at = self._ragged_idx - 1
        return plain(self).split(self._rows.host_lengths, at) if self._rows.count else ()

    def to_padded_tensor(self, padding, output_size=None, out=None):
        """A dense tensor [components, longest, ...] with `padding` where a component has nothing, or one of
        `output_size`, which is at least as large."""
        from ._dispatch import to_padded

        result = to_padded(self, padding, output_size)
        return result if out is None else out.copy_(result)

    def tolist(self):
        return [c.tolist() for c in self.unbind()]

    def numpy(self, *, force=False):
        raise TypeError(
            "pf.Tensor.numpy: got a nested tensor; expected a dense one; take unbind() or "
            "to_padded_tensor()"
        )

    def __array__(self, dtype=None, copy=None):
        return self.numpy()

    def is_contiguous(self, memory_format=None):
        return plain(self).is_contiguous()

    # ---- history --------------------------------------------------------------------------------

    @property
    def grad(self):
        g = Tensor.grad.__get__(self)
        return None if g is None else self._with(plain(g))

    @grad.setter
    def grad(self, value):
        Tensor.grad.__set__(self, plain(value) if isinstance(value, NestedTensor) else value)

    def __deepcopy__(self, memo):
        found = memo.get(id(self))
        if found is None:
            values = plain(self).detach().clone()
            found = memo[id(self)] = leaf(
                values, self._rows, self._ragged_idx, self._kind, self.requires_grad
            )
        return found

    def __reduce_ex__(self, protocol):
        values, keeps = plain(self).detach(), self.requires_grad and self.is_leaf
        return _again, (values, self._rows.offsets, self._ragged_idx, self._kind, keeps)

    def _plain(self):
        """What pf.save writes, _of_file reads."""
        return [plain(self).detach(), self._rows.offsets, self._ragged_idx, str.__str__(self._kind)]

    # ---- printing -------------------------------------------------------------------------------

    def __repr__(self, *, tensor_contents=None):
        if self._kind == _layouts.strided:
            parts = [repr(c.detach()).replace("\n", "\n  ") for c in self.unbind()]
            rest = ", requires_grad=True" if self.requires_grad and self.is_leaf else ""
            return "nested_tensor([\n  " + ",\n  ".join(parts) + f"\n]{rest})"
        rest = [f"size={self._sizes()}", f"offsets={self._rows.offsets}"]
        if self.grad_fn is not None:
            rest.append(f"grad_fn=<{self.grad_fn.name()}>")
        elif self.requires_grad:
            rest.append("requires_grad=True")
        return f"NestedTensor({', '.join(rest)}, contiguous={self.is_contiguous()})"

    __str__ = __repr__

    def __format__(self, spec):
        return object.__format__(self, spec)

    __hash__ = Tensor.__hash__


def _again(values, offsets, ragged, kind, requires_grad):
    return leaf(values, Rows(offsets), ragged, kind, requires_grad)
