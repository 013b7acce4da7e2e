"""What is done to the elements of sparse tensors: sums, products, functions, reductions."""

import numbers

from .. import _C, _ops
from ._convert import coalesce, distinct, group_numbers, in_order, keys, to_coo, to_csr
from ._tensor import CSR, SparseTensor, make, refuse, zeros

Tensor = _C.Tensor


def _is_sparse(t):
    return isinstance(t, SparseTensor)


def _is_number(x):
    return isinstance(x, numbers.Number) or (
        isinstance(x, Tensor) and not _is_sparse(x) and x.dim() == 0
    )


def _parts(t):
    indices, _, values, _ = _C._sparse_parts(to_coo(t))
    return indices, values


def _same_shape(name, a, b):
    if a.shape != b.shape:
        raise _C.ShapeError(
            f"pf.{name}: got shapes {list(a.shape)} and {list(b.shape)}; expected one shape beside a sparse "
            "tensor; expand the dense one, or call to_dense()"
        )


def add(input, other, *, alpha=1, name="add"):
    """input + alpha * other: sparse of two sparse tensors, dense with a dense one."""
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        refuse(
            f"{name}: got a number beside a sparse tensor",
            "a tensor",
            "call to_dense() first: a number would be added to what is not stored, too",
        )
    _same_shape(name, input, other)
    if not (_is_sparse(input) and _is_sparse(other)):
        return _add_dense(input, other, alpha)
    if input.sparse_dim() != other.sparse_dim():
        raise _C.ShapeError(
            f"pf.{name}: got {input.sparse_dim()} and {other.sparse_dim()} sparse dimensions; expected as "
            "many; call to_dense()"
        )
    (at, values), (more, others) = _parts(input), _parts(other)
    dtype = _C.promote_types(values.dtype, others.dtype)
    values = _ops.cat([values.to(dtype), (others if alpha == 1 else others * alpha).to(dtype)])
    found = make(input.shape, _ops.cat([at, more], 1), None, values)
    if input.layout == CSR:
        return to_csr(found)
    known = _C._sparse_parts(input)[3] and _C._sparse_parts(other)[3]
    return coalesce(found) if known else found


def _add_dense(a, b, alpha):
    if _is_sparse(a):
        return _ops.add(a.to_dense(), b, alpha=alpha)
    dtype = _C.promote_types(a.dtype, b.dtype)
    if b.sparse_dim() != 1 or dtype != a.dtype or _C.is_grad_enabled():
        return _ops.add(a, b.to_dense(), alpha=alpha)
    return add_rows_(a.clone(), b, alpha)


def add_rows_(dense, t, factor=1):
    """dense += factor * t, in place, for a tensor of one sparse dimension; others by way of a dense one."""
    indices, rows, values, _ = _C._sparse_parts(t)
    if rows is None and indices.size(0) == 1:
        values = values.to(dense.dtype)
        return dense.index_add_(0, indices[0], values if factor == 1 else values * factor)
    return dense.add_(t.to_dense(), alpha=factor)


def sub(input, other, *, alpha=1):
    return add(input, other, alpha=-alpha, name="sub")


def add_(input, other, *, alpha=1):
    if not _is_sparse(input):
        _same_shape("add_", input, other)
        if not _C.is_grad_enabled() or not (input.requires_grad or other.requires_grad):
            add_rows_(input, other, alpha)
            return input
        return input.add_(other.to_dense(), alpha=alpha)
    if not _is_sparse(other):
        refuse("add_: got a dense tensor to be added to a sparse one", "a sparse one", "use add()")
    return input._set(_as(add(input, other, alpha=alpha, name="add_"), input))


def sub_(input, other, *, alpha=1):
    return add_(input, other, alpha=-alpha)


def _as(found, input):
    return found if found.dtype == input.dtype else found.to(input.dtype)


def _at(dense, t):
    """The elements of a dense tensor where a sparse one has some."""
    indices = _C._sparse_coordinates(t)
    dense = dense.expand(t.shape)
    return dense[tuple(indices)]


def mul(input, other, name="mul"):
    """The product with a number, a dense tensor (broadcast to the sparse one) or a sparse one, whose
    places are those that both have."""
    if not _is_sparse(input):
        input, other = other, input
    if _is_number(other):
        return input._with(_C._sparse_parts(input)[2] * other)
    if not _is_sparse(other):
        _broadcasts(name, input, other)
        return input._with(_C._sparse_parts(input)[2] * _at(other, input))
    _same_shape(name, input, other)
    layout = input.layout
    a, b = coalesce(to_coo(input)), coalesce(to_coo(other))
    (at, left), (of_b, right) = _parts(a), _parts(b)
    if not left.size(0) or not right.size(0):  # still a result of both
        found = make(input.shape, at[:, :0], None, left[:0] * right[:0], True)
        return to_csr(found) if layout == CSR else found
    shape = input.shape[: at.size(0)]
    mine, theirs = keys(at, shape), keys(of_b, shape)
    place = _ops.searchsorted(theirs, mine).clamp(max=theirs.numel() - 1)
    both = (theirs[place] == mine).nonzero().squeeze(1)
    found = make(input.shape, at[:, both], None, left[both] * right[place[both]], True)
    return to_csr(found) if layout == CSR else found


def _broadcasts(name, t, dense):
    pairs = zip(reversed(t.shape), reversed(dense.shape))
    if dense.dim() > t.dim() or not all(n in (1, m) for m, n in pairs):
        raise _C.ShapeError(
            f"pf.{name}: got a sparse tensor of shape {list(t.shape)} and a dense one of "
            f"{list(dense.shape)}; expected one that broadcasts to the sparse one's shape; reshape it"
        )


def div(input, other, *, rounding_mode=None):
    """The quotient by a number or a dense tensor."""
    if not _is_sparse(input) or _is_sparse(other):
        refuse("div: got a sparse divisor", "a number or a dense tensor", "call to_dense() first")
    input = coalesce(input) if rounding_mode is not None and input.is_sparse else input
    if not _is_number(other):
        _broadcasts("div", input, other)
        other = _at(other, input)
    return input._with(_ops.div(_C._sparse_parts(input)[2], other, rounding_mode=rounding_mode))


def power(input, exponent):
    if not _is_sparse(input) or not isinstance(exponent, numbers.Real) or not exponent > 0:
        refuse(
            f"pow: got the exponent {exponent!r} for a sparse tensor" if _is_sparse(input)
            else "pow: got a sparse exponent",
            "a number above 0, which keeps zeros",
            "call to_dense() first",
        )  # fmt: skip
    t = coalesce(input) if input.is_sparse else input
    return t._with(_C._sparse_parts(t)[2] ** exponent)


def inplace(function):
    """The in-place form of a function over sparse tensors."""

    def form(input, *args, **kwargs):
        found = _as(function(input, *args, **kwargs), input)
        (mine, _, values, _), (theirs, _, new, _) = map(_C._sparse_parts, (input, found))
        free = not (values.requires_grad or new.requires_grad)
        if mine is theirs and free and values.is_contiguous():
            values.copy_(new)  # what looks at the same values (detach(), data) sees it, too
            return input
        return input._set(found)

    return form


# Functions that keep 0. The first are linear, so equal coordinates need not be added before.
LINEAR = ("neg", "negative", "positive", "deg2rad", "rad2deg", "conj", "real")
KEEP_ZERO = (
    "abs", "absolute", "asin", "asinh", "arcsin", "arcsinh", "atan", "atanh", "arctan", "arctanh", "ceil",
    "erf", "erfinv", "expm1", "floor", "frac", "isinf", "isnan", "isneginf", "isposinf", "log1p",
    "nan_to_num", "relu", "round", "sgn", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh",
    "trunc", "fix", "leaky_relu", "silu", "hardtanh", "dropout",
)  # fmt: skip


def mapped(name, func):
    """A function of values, for sparse tensors."""
    linear = name in LINEAR

    def form(input, *args, **kwargs):
        t = input if linear or not input.is_sparse else coalesce(input)
        return t._with(func(_C._sparse_parts(t)[2], *args, **kwargs))

    return form


# ---- reductions ---------------------------------------------------------------------------------


def _dims(name, dim, t):
    n = t.dim()
    dims = [dim] if isinstance(dim, int) else list(dim)
    for d in dims:
        if not -n <= d < n:
            raise _C.IndexError(
                f"pf.{name}: got dimension {d} of a tensor of {n}; expected {-n} to {n - 1}; correct it"
            )
    dims = [d % n for d in dims]
    if len(set(dims)) != len(dims):
        raise _C.ValueError(f"pf.{name}: got a dimension twice in {dims}; expected each once")
    return dims


def sum_of(input, dim=None, keepdim=False, *, dtype=None, name="sum"):
    """The sum: dense over all, or all sparse, dimensions; else sparse."""
    if not _is_sparse(input):
        # What brought us here is then no input.
        if not isinstance(input, _C.Tensor) or not isinstance(dim, (int, tuple, list, type(None))):
            raise TypeError(
                f"pf.{name}: got a sparse tensor as another argument; expected it as input"
            )
        return _ops.sum(input, dim, keepdim, dtype=dtype)
    if dtype is not None:
        input = input.to(dtype)
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return _C._sparse_parts(input)[2].sum()
    dims = _dims(name, dim, input)
    t = to_coo(input)
    indices, values = _parts(t)
    dims_sparse = indices.size(0)
    inner = [d - dims_sparse + 1 for d in dims if d >= dims_sparse]
    if inner:
        values = values.sum(inner, keepdim)
    kept = [d for d in range(dims_sparse) if d not in dims]
    shape = [1 if d in dims else n for d, n in enumerate(t.shape) if keepdim or d not in dims]
    if not kept:
        return values.sum(0).reshape(shape)
    if dtype is None and not inner:  # as a sum of dense values has it
        values = values.to(values[:0].sum().dtype)
    if keepdim:
        indices = _ops.stack(
            [_ops.zeros_like(indices[d]) if d in dims else indices[d] for d in range(dims_sparse)]
        )
    else:
        indices = indices[kept]
    return coalesce(make(shape, indices, None, values))


def mean_of(input, dim=None, keepdim=False, *, dtype=None):
    total = sum_of(input, dim, keepdim, dtype=dtype, name="mean")
    count = 1
    for d in range(input.dim()) if dim is None else _dims("mean", dim, input):
        count *= input.shape[d]
    return total / count


def norm_of(input, p=2, dim=None, keepdim=False, dtype=None, ord=None):
    p = ord if ord is not None else p
    if dim is not None:
        refuse("norm: got a dimension for a sparse tensor", "none", "call to_dense() first")
    if p in (None, "fro"):
        p = 2
    return _ops.norm(all_values(input).flatten(), p)


def all_values(t):
    """Values where none is stored twice."""
    return _C._sparse_parts(coalesce(t) if t.is_sparse else t)[2]


def softmax(input, dim, dtype=None, *, log=False):
    """softmax, or its logarithm, along a dimension over the elements that are stored: what is not stored
    counts as -inf."""
    name = "sparse.log_softmax" if log else "sparse.softmax"
    if not _is_sparse(input):
        raise TypeError(
            f"pf.{name}: got a {type(input).__name__}; expected a sparse tensor; call to_sparse()"
        )
    if dtype is not None:
        input = input.to(dtype)
    (dim,) = _dims(name, dim, input)
    t = coalesce(to_coo(input))
    indices, values = _parts(t)
    if not values.dtype.is_floating_point:
        raise _C.DTypeError(
            f"pf.{name}: got {values.dtype}; expected a floating-point dtype; convert with .to(dtype)"
        )
    if dim >= indices.size(0):
        function = _ops.log_softmax if log else _ops.softmax
        values = function(values, dim - indices.size(0) + 1)
    else:
        values = _grouped(values, *_groups(indices, t.shape, dim), log)
    found = t._with(values)
    return to_csr(found) if input.layout == CSR else found


def _groups(indices, shape, dim):
    """What elements differ in beside `dim`: a number below a count for each."""
    others = [d for d in range(indices.size(0)) if d != dim]
    if not others:
        return _ops.zeros_like(indices[0]), 1
    sizes = [shape[d] for d in others]
    key = keys(indices[others], sizes)
    count = 1
    for n in sizes:
        count *= n
    if count <= 8 * key.numel():
        return key, count
    order = in_order(key, count)
    some, starts = distinct(key, order)
    number = group_numbers(starts, order)
    return _ops.empty_like(number).index_copy_(0, order, number), some.numel()


def _grouped(values, group, count, log):
    if not values.size(0):
        return values
    with_no_grad = values.detach()
    most = with_no_grad.new_full((count, *values.shape[1:]), float("-inf"))
    most = most.index_reduce_(0, group, with_no_grad, "amax")
    shifted = values - most[group]
    e = shifted.exp()
    sums = _C._sparse_sums(e, group, count)
    return shifted - sums.log()[group] if log else e / sums[group]


# ---- shape --------------------------------------------------------------------------------------


def permute(input, *dims):
    dims = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    dims = _dims("permute", dims, input)
    if sorted(dims) != list(range(input.dim())):
        raise _C.ValueError(
            f"pf.permute: got the order {dims} of {input.dim()} dimensions; expected each once; correct it"
        )
    t = to_coo(input)
    n = t.sparse_dim()
    if sorted(dims[:n]) != list(range(n)):
        refuse(
            f"permute: got the order {dims} of {n} sparse dimensions and {t.dense_dim()} dense ones",
            "an order within each kind",
            "call to_dense() first",
        )
    indices, _, values, known = _C._sparse_parts(t)
    if dims[n:] != list(range(n, t.dim())):
        values = values.permute(0, *(d - n + 1 for d in dims[n:]))
    same = dims[:n] == list(range(n))
    shape = [t.shape[d] for d in dims]
    found = make(shape, indices[dims[:n]], None, values, known and same)
    return to_csr(found) if input.layout == CSR else found


def transpose(input, dim0, dim1):
    a, b = _dims("transpose", [dim0], input)[0], _dims("transpose", [dim1], input)[0]
    order = list(range(input.dim()))
    order[a], order[b] = order[b], order[a]
    return permute(input, order)


def t_of(input):
    if input.dim() > 2:
        raise _C.ShapeError(
            f"pf.t: got shape {list(input.shape)}; expected a matrix or a vector; use transpose()"
        )
    return input if input.dim() < 2 else transpose(input, 0, 1)


def select(input, dim, index):
    """The part with one index of a dimension, without that dimension."""
    (dim,) = _dims("select", [dim], input)
    size = input.shape[dim]
    if not -size <= index < size:
        raise _C.IndexError(
            f"pf.select: got the index {index} of dimension {dim} of size {size}; expected {-size} to "
            f"{size - 1}; correct it"
        )
    index %= size
    t = to_coo(input)
    indices, _, values, known = _C._sparse_parts(t)
    shape = [n for d, n in enumerate(t.shape) if d != dim]
    n = indices.size(0)
    if dim >= n:
        return make(shape, indices, None, values.select(dim - n + 1, index), known)
    there = (indices[dim] == index).nonzero().squeeze(1)
    if n == 1:
        return values[there].sum(0)
    left = indices[[d for d in range(n) if d != dim]][:, there]
    return make(shape, left, None, values[there], known or left.size(1) < 2)


def getitem(input, key):
    if isinstance(key, int) and not isinstance(key, bool):
        return select(input, 0, key)
    if (
        isinstance(key, tuple)
        and key
        and all(type(k) is int for k in key)
        and len(key) <= input.dim()
    ):
        for k in key:
            input = select(input, 0, k)
        return input
    refuse(f"Tensor.__getitem__: got the index {key!r} of a sparse tensor", "whole numbers",
           "call to_dense() first, or use index_select()")  # fmt: skip


def index_select(input, dim, index):
    """Rows of a dimension, in the order of `index`."""
    (dim,) = _dims("index_select", [dim], input)
    t = to_coo(input)
    indices, _, values, known = _C._sparse_parts(t)
    n = indices.size(0)
    index = index.reshape(-1).to(_C.int64)
    shape = [index.numel() if d == dim else size for d, size in enumerate(t.shape)]
    if dim >= n:
        return make(shape, indices, None, values.index_select(dim - n + 1, index), known)
    if index.numel() and not 0 <= index.min().item() <= index.max().item() < t.shape[dim]:
        raise _C.IndexError(
            f"pf.index_select: got indices from {index.min().item()} to {index.max().item()} of a "
            f"dimension of {t.shape[dim]}; expected 0 to {t.shape[dim] - 1}; correct them"
        )
    starts, order = _C._sparse_order(indices[dim].contiguous(), t.shape[dim])
    count = (starts[1:] - starts[:-1])[index]
    which = _ops.repeat_interleave(count)
    at = _ops.arange(which.numel(), device=which.device) - (count.cumsum(0) - count)[which]
    picked = order[at + starts[index[which]]]
    rows = [which if d == dim else indices[d][picked] for d in range(n)]
    # In order where the first dimension is picked from, which is sorted by its new indices.
    known = known and dim == 0 or picked.numel() < 2
    return make(shape, _ops.stack(rows), None, values[picked], known)


def cat(tensors, dim=0):
    tensors = list(tensors)
    if not all(map(_is_sparse, tensors)):
        refuse(
            "cat: got sparse and dense tensors", "one kind", "call to_dense() of the sparse ones"
        )
    (dim,) = _dims("cat", [dim], tensors[0])
    parts = [_parts(t) for t in tensors]
    n = parts[0][0].size(0)
    first = list(tensors[0].shape)
    at, moved = 0, []
    for t, (indices, _) in zip(tensors, parts):
        shape = list(t.shape)
        if indices.size(0) != n or shape[:dim] + shape[dim + 1 :] != first[:dim] + first[dim + 1 :]:
            raise _C.ShapeError(
                f"pf.cat: got shapes {first} and {shape}; expected one shape but for dimension {dim}, and "
                "as many sparse dimensions; correct one of them"
            )
        if dim >= n:
            refuse("cat: got a dense dimension", "a sparse one", "call to_dense() first")
        rows = [indices[d] + at if d == dim else indices[d] for d in range(n)]
        moved.append(_ops.stack(rows))
        at += shape[dim]
    shape = [at if d == dim else size for d, size in enumerate(first)]
    found = make(shape, _ops.cat(moved, 1), None, _ops.cat([v for _, v in parts]))
    return to_csr(found) if tensors[0].layout == CSR else found


def unsqueeze(input, dim):
    t = to_coo(input)
    n = t.dim() + 1
    if not -n <= dim < n:
        raise _C.IndexError(
            f"pf.unsqueeze: got dimension {dim}; expected {-n} to {n - 1}; correct it"
        )
    dim %= n
    indices, _, values, known = _C._sparse_parts(t)
    shape = [*t.shape[:dim], 1, *t.shape[dim:]]
    if dim > indices.size(0):
        return make(shape, indices, None, values.unsqueeze(dim - indices.size(0) + 1), known)
    zero = _ops.zeros_like(indices[:1])
    return make(shape, _ops.cat([indices[:dim], zero, indices[dim:]]), None, values, known)


def equal(input, other):
    """Whether two tensors have the same elements."""
    if not (_is_sparse(input) and _is_sparse(other)) or input.shape != other.shape:
        return _is_sparse(input) and _is_sparse(other) and False
    (at, values), (of, others) = _parts(coalesce(to_coo(input))), _parts(coalesce(to_coo(other)))
    return at.shape == of.shape and _ops.equal(at, of) and _ops.equal(values, others)


def like(input, fill=None, *, dtype=None, device=None, layout=None, requires_grad=False, **unused):
    """zeros_like and empty_like: without elements."""
    if layout == "strided":
        return _ops.zeros(input.shape, dtype=dtype or input.dtype, device=device or input.device)
    found = zeros(input.shape, input)
    if dtype is not None or device is not None:
        found = found.to(device or found.device, dtype or found.dtype)
    return found.requires_grad_(True) if requires_grad else found
