"""From one layout to another, and elements in order."""

import math

from .. import _C, _ops
from ._tensor import COO, CSR, SparseTensor, make, refuse


def keys(indices, shape):
    """The number of each place [n] among all of `shape`."""
    key = indices[0]
    for d in range(1, indices.size(0)):
        key = key * shape[d] + indices[d]
    return key


def places(key, shape):
    """Coordinates [dims, n] of such numbers."""
    found = []
    for size in reversed(shape):
        found.append(key % max(size, 1))
        key = key // max(size, 1)
    return _ops.stack(found[::-1])


def _ascending(key):
    return key.numel() < 2 or bool((key[1:] > key[:-1]).all())


def in_order(key, limit):
    """The order that sorts numbers below `limit`, equal ones as they come."""
    return (
        _ops.argsort(key, stable=True)
        if limit > 4 * key.numel()
        else _C._sparse_order(key, limit)[1]
    )


def distinct(key, order):
    """Of numbers and the order that sorts them: those that differ, and where in the order each begins."""
    key = key[order]
    first = _ops.cat([_ops.ones_like(key[:1]).to(_C.bool), key[1:] != key[:-1]])
    starts = first.nonzero().reshape(-1)
    return key[starts], starts


def _with_end(starts, order):
    return _ops.cat([starts, starts.new_full((1,), order.numel())])


def group_numbers(starts, order):
    """Which of the groups that begin at `starts` each place of the order has."""
    return _C._sparse_rows(_with_end(starts, order), order.numel())


def _sums(values, order, starts):
    """The rows of values added up that the order has from each start on."""
    if not values.dtype.is_floating_point or (_C.is_grad_enabled() and values.requires_grad):
        return _C._sparse_sums(values[order], group_numbers(starts, order), starts.numel())
    rows = values.detach().reshape(order.numel(), -1)
    found = _C._sparse_product(_with_end(starts, order), order, None, None, rows)
    return found.reshape(starts.numel(), *values.shape[1:])


def coalesce(t):
    indices, values, known = t._coo("coalesce")
    if known:
        return t
    shape = t.shape[: indices.size(0)]
    key = keys(indices, shape)
    # To look waits for a GPU, and a sort finds it, too.
    if key.device.type == "cpu" and _ascending(key):
        return make(t.shape, indices, None, values, True)
    if len(shape) == 2 and max(shape) <= 4 * key.numel():
        # By columns, then by rows, where equal ones stay in order.
        order = _C._sparse_order(indices[1], shape[1])[1]
        order = order[_C._sparse_order(indices[0][order], shape[0])[1]]
    else:
        order = in_order(key, math.prod(shape))
    key, starts = distinct(key, order)
    if key.numel() == order.numel():
        return make(t.shape, indices[:, order], None, values[order], True)
    return make(t.shape, places(key, shape), None, _sums(values, order, starts), True)


def to_coo(t):
    indices, rows, values, ordered = _C._sparse_parts(t)
    if rows is None:
        return t
    at = _C._sparse_coordinates(t)
    if not ordered and _ascending(keys(at, t.shape)):  # looked at once
        ordered = True
        _C._sparse_set(t, indices, rows, values, ordered)
    return make(t.shape, at, None, values, ordered)


def to_csr(t):
    if t.layout == CSR:
        return t
    if t.sparse_dim() != 2 or t.dense_dim() != 0:
        refuse(
            f"Tensor.to_sparse_csr: got {t.sparse_dim()} sparse and {t.dense_dim()} dense dimensions",
            "a matrix without dense dimensions",
            "use the layout pf.sparse_coo",
        )
    t = coalesce(t)
    indices, _, values, _ = _C._sparse_parts(t)
    return make(t.shape, indices[1], _C._sparse_starts(indices[0], t.shape[0]), values, True)


def _check_layout(layout, blocksize):
    if layout not in (None, COO, CSR):
        refuse(
            f"Tensor.to_sparse: got the layout {layout!r}",
            "pf.sparse_coo or pf.sparse_csr",
            "use one of these",
        )
    if blocksize is not None:
        refuse("Tensor.to_sparse: got a blocksize", "none, for there are no blocks", "leave it out")


def relayout(t, sparse_dim, layout, blocksize, dense_dim):
    """to_sparse() of a sparse tensor."""
    if isinstance(sparse_dim, str):
        sparse_dim, layout = None, sparse_dim
    _check_layout(layout, blocksize)
    if sparse_dim not in (None, t.sparse_dim()) or dense_dim not in (None, t.dense_dim()):
        refuse(
            f"Tensor.to_sparse: got sparse_dim={sparse_dim} for a tensor that has {t.sparse_dim()}",
            "the same number",
            "call to_dense() first",
        )
    return to_csr(t) if layout == CSR else to_coo(t)


def from_dense(t, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """to_sparse() of a dense tensor: the elements that are not 0. Gradients go back as dense ones."""
    if isinstance(sparse_dim, str):
        sparse_dim, layout = None, sparse_dim
    if isinstance(t, SparseTensor):
        return relayout(t, sparse_dim, layout, blocksize, dense_dim)
    _check_layout(layout, blocksize)
    dims = t.dim()
    if sparse_dim is None:
        sparse_dim = dims - (dense_dim or 0)
    if not 0 < sparse_dim <= dims:
        raise _C.ValueError(
            f"pf.Tensor.to_sparse: got sparse_dim={sparse_dim} for a tensor of shape {list(t.shape)}; "
            "expected one dimension or more, at most as many as it has; correct it"
        )
    if layout == CSR and (dims != 2 or sparse_dim != 2):
        refuse(
            f"Tensor.to_sparse_csr: got a tensor of shape {list(t.shape)}",
            "a matrix without dense dimensions",
            "use the layout pf.sparse_coo",
        )
    there = t.detach() != 0
    if sparse_dim < dims:
        there = there.flatten(sparse_dim).any(sparse_dim)
    indices = there.nonzero().t().contiguous()
    found = make(t.shape, indices, None, t[tuple(indices)], True)
    return to_csr(found) if layout == CSR else found


def from_mask(t, mask):
    """The elements of a dense tensor where a sparse one has some, as the latter has them."""
    if not isinstance(mask, SparseTensor) or isinstance(t, SparseTensor) or mask.shape != t.shape:
        raise _C.ShapeError(
            "pf.Tensor.sparse_mask: got "
            f"{'a sparse tensor' if isinstance(t, SparseTensor) else 'a tensor'} of shape "
            f"{list(t.shape)} and a mask of {list(getattr(mask, 'shape', ()))}; expected a dense tensor and "
            "a sparse mask of its shape; correct one of them"
        )
    return mask._with(t[tuple(_C._sparse_coordinates(mask))])
