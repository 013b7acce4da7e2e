"""SparseTensor: a tensor of which only some elements are stored.

Its parts are dense tensors: the values, and where they are. What is done to it is done to them by the
operations that there are, on any device, and gradients flow to the values. docs/sparse.md says what it
can do, docs/architecture.md how it hangs together.
"""

from .. import _C, _layouts
from .._format import tensor_text, with_suffixes

Tensor = _C.Tensor
COO, CSR = _layouts.sparse_coo, _layouts.sparse_csr


def make(shape, indices, rows, values, coalesced=False):
    """A sparse tensor of its parts: coordinates [dims, n], or columns [n] and where rows begin."""
    return _C._sparse_tensor(list(shape), indices, rows, values, coalesced)


def refuse(what, expected, hint):
    raise _C.NotSupportedError(f"pf.{what}; expected {expected}; {hint}")


class SparseTensor(Tensor):
    """A tensor in the layout pf.sparse_coo or pf.sparse_csr: pf.sparse_coo_tensor, pf.sparse_csr_tensor
    and Tensor.to_sparse make one."""

    def __new__(cls, *args, **kwargs):
        raise TypeError(
            "pf.sparse.SparseTensor: got a call; expected pf.sparse_coo_tensor, "
            "pf.sparse_csr_tensor or Tensor.to_sparse, which make one; call one of them"
        )

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        from ._dispatch import call

        return call(func, args, kwargs or {})

    # ---- parts ----------------------------------------------------------------------------------

    @property
    def is_sparse(self):
        return _C._sparse_parts(self)[1] is None

    @property
    def is_sparse_csr(self):
        return _C._sparse_parts(self)[1] is not None

    @property
    def layout(self):
        return COO if self.is_sparse else CSR

    def _coo(self, name):
        indices, rows, values, coalesced = _C._sparse_parts(self)
        if rows is not None:
            raise RuntimeError(
                f"pf.Tensor.{name}: got a tensor of layout pf.sparse_csr; expected pf.sparse_coo; call "
                "to_sparse_coo() first"
            )
        return indices, values, coalesced

    def _csr(self, name):
        indices, rows, values, _ = _C._sparse_parts(self)
        if rows is None:
            raise RuntimeError(
                f"pf.Tensor.{name}: got a tensor of layout pf.sparse_coo; expected pf.sparse_csr; call "
                "to_sparse_csr() first"
            )
        return rows, indices, values

    def _indices(self):
        """Coordinates [sparse_dim, nnz], coalesced or not."""
        return self._coo("_indices")[0]

    def _values(self):
        """Values [nnz, dense dimensions], coalesced or not, without history."""
        return _C._sparse_parts(self)[2].detach()

    def indices(self):
        """Coordinates [sparse_dim, nnz] of a coalesced tensor."""
        indices, _, coalesced = self._coo("indices")
        if not coalesced:
            raise RuntimeError(
                "pf.Tensor.indices: got an uncoalesced tensor; expected a coalesced one; call "
                "coalesce() first"
            )
        return indices

    def values(self):
        """Values [nnz, dense dimensions]; those of coordinates must be coalesced. Differentiable."""
        _, rows, values, coalesced = _C._sparse_parts(self)
        if rows is None and not coalesced:
            raise RuntimeError(
                "pf.Tensor.values: got an uncoalesced tensor; expected a coalesced one; call "
                "coalesce() first"
            )
        return values

    def crow_indices(self):
        """Where rows begin, [rows + 1], of layout pf.sparse_csr."""
        return self._csr("crow_indices")[0]

    def col_indices(self):
        """The column of each value, [nnz], of layout pf.sparse_csr."""
        return self._csr("col_indices")[1]

    def is_coalesced(self):
        """Whether coordinates are in order and each of them is there once, as far as is known."""
        return self._coo("is_coalesced")[2]

    def _coalesced_(self, flag):
        indices, values, _ = self._coo("_coalesced_")
        _C._sparse_set(self, indices, None, values, bool(flag))
        return self

    def _nnz(self):
        """How many values are stored."""
        return _C._sparse_parts(self)[2].size(0)

    def sparse_dim(self):
        """Dimensions that coordinates belong to."""
        indices, rows, _, _ = _C._sparse_parts(self)
        return indices.size(0) if rows is None else 2

    _dimI = sparse_dim

    def dense_dim(self):
        """Dimensions of each value."""
        return _C._sparse_parts(self)[2].dim() - 1

    _dimV = dense_dim

    # ---- layouts --------------------------------------------------------------------------------

    def coalesce(self):
        """The same tensor with coordinates in order, each of them once: values of equal ones are
        added."""
        from ._convert import coalesce

        return coalesce(self)

    def to_dense(self, dtype=None, *, masked_grad=None):
        """The tensor with all its elements."""
        dense = _C._sparse_to_dense(self)
        return dense if dtype is None else dense.to(dtype)

    def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
        from ._convert import relayout

        return relayout(self, sparse_dim, layout, blocksize, dense_dim)

    def to_sparse_coo(self):
        return self.to_sparse(layout=COO)

    def to_sparse_csr(self, dense_dim=None):
        return self.to_sparse(layout=CSR)

    def _with(self, values, coalesced=None):
        """Other values at the same places."""
        indices, rows, _, known = _C._sparse_parts(self)
        return make(self.shape, indices, rows, values, known if coalesced is None else coalesced)

    def _set(self, other):
        """Becomes `other`, in place."""
        indices, rows, values, coalesced = _C._sparse_parts(other)
        _C._sparse_set(self, indices, rows, values, coalesced)
        return self

    def _pattern(self):
        """How products go through it; kept until its parts change."""
        indices, rows, _, _ = _C._sparse_parts(self)
        key = (self._version, indices._version, None if rows is None else rows._version)
        kept = self.__dict__.get("_kept_pattern")
        if kept is None or kept[0] != key:
            from ._products import Pattern

            kept = self.__dict__["_kept_pattern"] = (key, Pattern.of(self))
        return kept[1]

    # ---- history --------------------------------------------------------------------------------

    @property
    def requires_grad(self):
        return _C._sparse_parts(self)[2].requires_grad

    @requires_grad.setter
    def requires_grad(self, flag):
        self.requires_grad_(flag)

    def requires_grad_(self, requires_grad=True):
        indices, rows, values, coalesced = _C._sparse_parts(self)
        if requires_grad and not values.requires_grad:
            values = values.detach()  # nobody else's leaf
            values.requires_grad_(True)
            _C._sparse_set(self, indices, rows, values, coalesced)
        elif not requires_grad:
            values.requires_grad_(False)
        return self

    @property
    def is_leaf(self):
        return _C._sparse_parts(self)[2].is_leaf

    @property
    def grad_fn(self):
        return _C._sparse_parts(self)[2].grad_fn

    @property
    def grad(self):
        g = _C._sparse_parts(self)[2].grad
        return None if g is None else self._with(g)

    @grad.setter
    def grad(self, value):
        values = _C._sparse_parts(self)[2]
        if value is None:
            values.grad = None
        elif isinstance(value, SparseTensor) and value._nnz() == self._nnz():
            values.grad = value._values()
        else:
            raise _C.ShapeError(
                "pf.Tensor.grad: got a gradient with other places than the sparse tensor; expected one "
                "value for each of its own; use sparse_mask()"
            )

    def retain_grad(self):
        _C._sparse_parts(self)[2].retain_grad()

    def register_hook(self, hook):
        shape, (indices, rows, values, coalesced) = self.shape, _C._sparse_parts(self)

        def of_values(g):  # without self, which holds the values
            result = hook(make(shape, indices, rows, g, coalesced))
            return _C._sparse_parts(result)[2] if isinstance(result, SparseTensor) else result

        return values.register_hook(of_values)

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        if isinstance(gradient, SparseTensor):
            gradient = _C._sparse_parts(gradient)[2]
        _C._sparse_parts(self)[2].backward(gradient, retain_graph, create_graph, inputs)

    def detach(self):
        return self._with(_C._sparse_parts(self)[2].detach())

    def detach_(self):
        return self._set(self.detach())

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, value):
        if not isinstance(value, SparseTensor):
            raise TypeError(
                "pf.Tensor.data: got a dense tensor for a sparse one; expected a sparse one; call "
                "to_sparse()"
            )
        self._set(value)

    # ---- copies ---------------------------------------------------------------------------------

    def _each(self, fn, values=None):
        indices, rows, old, coalesced = _C._sparse_parts(self)
        return make(
            self.shape,
            fn(indices),
            None if rows is None else fn(rows),
            (values or fn)(old),
            coalesced,
        )

    def clone(self, *, memory_format=None):
        return self._each(lambda t: t.clone())

    def to(self, *args, **kwargs):
        """As of dense tensors; a dtype is that of the values."""
        kwargs.pop("memory_format", None)
        values = _C._sparse_parts(self)[2]
        new = values.to(*args, **kwargs)
        if new is values:
            return self
        return self._each(lambda t: t.to(new.device), lambda _: new)

    def cpu(self):
        return self.to("cpu")

    def cuda(self, device=None, non_blocking=False):
        values = _C._sparse_parts(self)[2].cuda(device, non_blocking)
        return self._each(lambda t: t.to(values.device), lambda _: values)

    def type(self, dtype=None, non_blocking=False):
        if dtype is not None:
            return self.to(dtype)
        package, _, kind = _C._sparse_parts(self)[2].type().rpartition(".")
        return f"{package}.sparse.{kind}"

    def type_as(self, other):
        if not isinstance(other, Tensor):
            raise TypeError(
                f"pf.Tensor.type_as: got {type(other).__name__}; expected a Tensor; call to(dtype)"
            )
        return self.to(other.dtype)

    def pin_memory(self):
        return self._each(lambda t: t.pin_memory())

    def contiguous(self, memory_format=None):
        return self

    def is_contiguous(self, memory_format=None):
        return True

    def copy_(self, src, non_blocking=False):
        """Takes over places and values of another sparse tensor of its shape."""
        if not isinstance(src, SparseTensor) or src.shape != self.shape:
            raise _C.ShapeError(
                f"pf.Tensor.copy_: got a {getattr(src, 'layout', type(src).__name__)} tensor of shape "
                f"{list(getattr(src, 'shape', []))} for a sparse one of shape {list(self.shape)}; "
                "expected a sparse one of this shape; call to_sparse()"
            )
        return self._set(src.to(self.device, self.dtype).clone())

    def zero_(self):
        """Forgets all elements."""
        return self._set(zeros(self.shape, self))

    def __deepcopy__(self, memo):
        found = memo.get(id(self))
        if found is None:
            if not self.is_leaf:
                raise _C.AutogradError(
                    "pf.deepcopy: got a tensor with history; expected a leaf; use detach().clone()"
                )
            found = memo[id(self)] = self.detach().clone().requires_grad_(self.requires_grad)
        return found

    def __copy__(self):
        return self.detach().requires_grad_(self.requires_grad)

    def __reduce_ex__(self, protocol):
        indices, rows, values, coalesced = _C._sparse_parts(self)
        return make, (list(self.shape), indices, rows, values, coalesced)

    def _plain(self):
        """What pf.save writes, _making.of_file reads."""
        indices, rows, values, coalesced = _C._sparse_parts(self)
        return [list(self.shape), indices, rows, values.detach(), coalesced]

    def numpy(self, *, force=False):
        raise TypeError(
            "pf.Tensor.numpy: got a sparse tensor; expected a dense one; call to_dense() first"
        )

    def __array__(self, dtype=None, copy=None):
        return self.numpy()

    # ---- printing -------------------------------------------------------------------------------

    def __repr__(self, *, tensor_contents=None):
        indices, rows, values, _ = _C._sparse_parts(self)
        named = [("indices", indices)] if rows is None else [
            ("crow_indices", rows), ("col_indices", indices),
        ]  # fmt: skip
        lines = []
        for name, t in [*named, ("values", values)]:
            begin = f"{name}=tensor("
            size = "" if t.numel() else f", size={tuple(t.shape)}"
            lines.append(begin + tensor_text(t.detach().cpu(), 7 + len(begin)) + size + ")")
        rest = [f"size={tuple(self.shape)}", f"nnz={self._nnz()}"]
        if self.device.type != "cpu":
            rest.append(f"device='{self.device}'")
        if self.dtype != _C.get_default_dtype():
            rest.append(f"dtype={self.dtype}")
        rest.append(f"layout={self.layout}")
        if values.grad_fn is not None:
            rest.append(f"grad_fn=<{values.grad_fn.name()}>")
        elif self.requires_grad:
            rest.append("requires_grad=True")
        if rows is None:
            lines.append(rest.pop(0))  # as PyTorch has it: of rows behind the values where it fits
        return with_suffixes("tensor(" + ",\n       ".join(lines), rest, 7)

    __str__ = __repr__

    def __format__(self, spec):
        return object.__format__(self, spec)

    def __bool__(self):
        return bool(self.to_dense())

    def __len__(self):
        return self.shape[0]

    def __iter__(self):
        return (self.select(0, i) for i in range(self.shape[0]))

    __hash__ = Tensor.__hash__


def zeros(shape, like):
    """An empty sparse tensor of the layout, dtype and device of another one."""
    indices, rows, values, _ = _C._sparse_parts(like)
    values = values.detach()[:0]
    if rows is None:
        return make(shape, indices[:, :0], None, values, True)
    return make(shape, indices[:0], rows.new_zeros(shape[0] + 1), values, True)
