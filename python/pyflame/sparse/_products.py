"""Products of sparse matrices."""

from .. import _C, _ops
from ..autograd import Function
from ._convert import coalesce, to_coo, to_csr
from ._tensor import CSR, SparseTensor, make, refuse


class Pattern:
    """Where the elements of a matrix are, by rows: row i has the columns from starts[i] to starts[i + 1],
    and `order` says which values these are (None: as they come)."""

    def __init__(self, starts, columns, order, width):
        self.starts, self.columns, self.order, self.width = starts, columns, order, width
        self._transposed = None

    @classmethod
    def of(cls, t):
        indices, rows, _, known = _C._sparse_parts(t)
        if rows is not None:
            return cls(rows, indices, None, t.shape[1])
        if known:
            return cls(_C._sparse_starts(indices[0], t.shape[0]), indices[1], None, t.shape[1])
        starts, order = _C._sparse_order(indices[0], t.shape[0])
        return cls(starts, indices[1][order], order, t.shape[1])

    @property
    def transposed(self):
        if self._transposed is None:
            starts, order = _C._sparse_order(self.columns, self.width)
            rows = _C._sparse_rows(self.starts, self.columns.numel())[order]
            values = order if self.order is None else self.order[order]
            # It keeps nothing of this one, which would be a cycle.
            self._transposed = Pattern(starts, rows, values, self.starts.numel() - 1)
        return self._transposed


def _conj(t):
    return t.conj() if t.dtype.is_complex else t


class _Multiply(Function):
    """Of a matrix with these values and a dense one."""

    @staticmethod
    def forward(ctx, values, dense, pattern):
        ctx.save_for_backward(values, dense)
        ctx.pattern = pattern
        return _C._sparse_product(pattern.starts, pattern.columns, values, pattern.order, dense)

    @staticmethod
    def backward(ctx, g):
        values, dense = ctx.saved_tensors
        of_values = of_dense = None
        if ctx.needs_input_grad[0]:
            of_values = _Dots.apply(g, _conj(dense), ctx.pattern)
        if ctx.needs_input_grad[1]:
            of_dense = _Multiply.apply(_conj(values), g, ctx.pattern.transposed)
        return of_values, of_dense, None


class _Dots(Function):
    """The elements of a @ b.T where the matrix has some, in the order of its values."""

    @staticmethod
    def forward(ctx, a, b, pattern):
        ctx.save_for_backward(a, b)
        ctx.pattern = pattern
        found = _C._sparse_dots(pattern.starts, pattern.columns, a, b)
        if pattern.order is None:
            return found
        return _ops.empty_like(found).index_copy_(0, pattern.order, found)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        of_a = of_b = None
        if ctx.needs_input_grad[0]:
            of_a = _Multiply.apply(g, _conj(b), ctx.pattern)
        if ctx.needs_input_grad[1]:
            of_b = _Multiply.apply(g, _conj(a), ctx.pattern.transposed)
        return of_a, of_b, None


def matrix(t, name):
    if t.dim() != 2 or t.dense_dim() != 0:
        raise _C.ShapeError(
            f"pf.{name}: got a sparse tensor of shape {list(t.shape)} with {t.sparse_dim()} sparse "
            "dimensions; expected a matrix without dense dimensions; call to_dense()"
        )
    return t


def _fits(name, a, b):
    if a.shape[1] != b.shape[0]:
        raise _C.ShapeError(
            f"pf.{name}: got shapes {list(a.shape)} and {list(b.shape)}; expected as many columns of the "
            "first as rows of the second; transpose one of them"
        )
    if a.dtype != b.dtype:
        raise _C.DTypeError(
            f"pf.{name}: got {a.dtype} and {b.dtype}; expected one dtype; convert with .to(dtype)"
        )


def times_dense(a, b, name, pattern=None):
    """A sparse matrix times a dense one."""
    matrix(a, name)
    if b.dim() != 2:
        raise _C.ShapeError(
            f"pf.{name}: got a dense tensor of shape {list(b.shape)} beside a sparse matrix; expected a "
            "matrix; reshape it"
        )
    _fits(name, a, b)
    values = _C._sparse_parts(a)[2]
    pattern = pattern or a._pattern()
    if _C.is_grad_enabled() and (values.requires_grad or b.requires_grad):
        return _Multiply.apply(values, b, pattern)
    return _C._sparse_product(pattern.starts, pattern.columns, values, pattern.order, b)


def dense_times(a, b, name):
    """A dense matrix times a sparse one."""
    matrix(b, name)
    if a.dim() != 2:
        raise _C.ShapeError(
            f"pf.{name}: got a dense tensor of shape {list(a.shape)} beside a sparse matrix; expected a "
            "matrix; reshape it"
        )
    _fits(name, a, b)
    values, pattern = _C._sparse_parts(b)[2], b._pattern().transposed
    return _Multiply.apply(values, a.t(), pattern).t()


def times_sparse(a, b, name):
    """Of two sparse matrices, in the layout of the first."""
    _fits(name, matrix(a, name), matrix(b, name))
    left, right = to_coo(a), to_csr(b)
    rows, inner = _C._sparse_coordinates(left)
    starts, columns, of_right = right._csr(name)[0], right.col_indices(), right.values()
    count = (starts[1:] - starts[:-1])[inner]  # products of each element on the left
    before = count.cumsum(0) - count
    total = int(count.sum())
    which = _ops.repeat_interleave(count)
    at = _ops.arange(total, device=which.device) - before[which] + starts[inner[which]]
    values = _C._sparse_parts(left)[2][which] * of_right[at]
    indices = _ops.stack([rows[which], columns[at]])
    found = coalesce(make((a.shape[0], b.shape[1]), indices, None, values))
    return to_csr(found) if a.layout == CSR else found


def multiply(a, b, name="mm"):
    """Of matrices, one of them sparse or both."""
    if not isinstance(a, SparseTensor):
        return dense_times(a, b, name)
    if isinstance(b, SparseTensor):
        return times_sparse(a, b, name)
    return times_dense(a, b, name)


def matmul(a, b, name="matmul"):
    """`@`, with vectors, too."""
    if a.dim() == 1 and b.dim() == 2 and not isinstance(a, SparseTensor):
        return dense_times(a.unsqueeze(0), b, name).squeeze(0)
    if b.dim() == 1 and a.dim() == 2 and not isinstance(b, SparseTensor):
        return times_dense(a, b.unsqueeze(1), name).squeeze(1)
    if a.dim() != 2 or b.dim() != 2:
        refuse(
            f"{name}: got shapes {list(a.shape)} and {list(b.shape)}, one of them sparse",
            "matrices, or a dense vector",
            "multiply the matrices of a batch one by one",
        )
    return multiply(a, b, name)


def _scaled(t, factor):
    return t if factor == 1 else t * factor


def addmm(input, mat1, mat2, *, beta=1, alpha=1, name="addmm"):
    """beta * input + alpha * (mat1 @ mat2)"""
    product = _scaled(multiply(mat1, mat2, name), alpha)
    return product if beta == 0 else _scaled(input, beta) + product


def sampled(input, mat1, mat2, *, beta=1.0, alpha=1.0):
    """beta * input + alpha * (mat1 @ mat2), where `input`, a sparse matrix, has elements."""
    if not isinstance(input, SparseTensor):
        raise TypeError(
            f"pf.sparse.sampled_addmm: got a {type(input).__name__} as input; expected a sparse matrix; "
            "call to_sparse_csr()"
        )
    name = "sparse.sampled_addmm"
    matrix(input, name)
    _fits(name, mat1, mat2)
    if input.shape != (mat1.shape[0], mat2.shape[1]):
        raise _C.ShapeError(
            f"pf.{name}: got an input of shape {list(input.shape)} for a product of "
            f"{[mat1.shape[0], mat2.shape[1]]}; expected one shape; correct it"
        )
    values = _scaled(_Dots.apply(mat1, mat2.t(), input._pattern()), alpha)
    return input._with(values if beta == 0 else values + _scaled(_C._sparse_parts(input)[2], beta))


def reduced(a, dense, reduce):
    """The mean, or largest or smallest, of the products of each row of `a` with rows of `dense`."""
    matrix(a, "sparse.mm")
    _fits("sparse.mm", a, dense)
    a = coalesce(to_coo(a))
    rows, columns = a.indices()
    terms = a.values().unsqueeze(1) * dense[columns]
    result = terms.new_zeros((a.shape[0], dense.shape[1]))
    return result.index_reduce(0, rows, terms, reduce, include_self=False)
