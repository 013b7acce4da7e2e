"""Sparse tensors from their parts, which are looked at first."""

from .. import _C, _ops
from ._tensor import COO, CSR, make, refuse

Tensor = _C.Tensor


class check_sparse_tensor_invariants:
    """Whether sparse tensors are looked at in full when they are made of their parts: a switch, a context
    manager, a decorator.

    Indices in the memory of the CPU are always checked for their range. With invariants on those of a
    GPU are, too (which waits for it), and columns of pf.sparse_csr must be in order, each once.
    `check_invariants` of the functions that make tensors goes before the switch.
    """

    _on = False

    def __init__(self, enable=True):
        self._state, self._before = bool(enable), []

    @staticmethod
    def is_enabled():
        """Whether it is on."""
        return check_sparse_tensor_invariants._on

    @staticmethod
    def enable():
        """Turns it on."""
        check_sparse_tensor_invariants._on = True

    @staticmethod
    def disable():
        """Turns it off."""
        check_sparse_tensor_invariants._on = False

    def __enter__(self):
        self._before.append(self._on)
        check_sparse_tensor_invariants._on = self._state
        return self

    def __exit__(self, *unused):
        check_sparse_tensor_invariants._on = self._before.pop()

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def checked(*args, **kwargs):
            with type(self)(self._state):
                return function(*args, **kwargs)

        return checked


def _tensor(data, dtype, device, name):
    if not isinstance(data, Tensor):
        try:
            return _C.tensor(data, dtype=dtype, device=device)
        except TypeError as e:
            raise TypeError(
                f"pf.{name}: got {type(data).__name__} data; expected a tensor, an array or a list of "
                f"numbers; convert it ({e})"
            ) from None
    if data.layout != "strided":
        raise TypeError(
            f"pf.{name}: got a sparse tensor as a part; expected a dense one; take values()"
        )
    if device is not None:
        data = data.to(device)
    return data if dtype is None else data.to(dtype)


def _index(data, device, name, what, dims):
    t = _tensor(data, None, None, name)
    if t.numel() == 0 and not isinstance(data, Tensor):
        t = t.to(_C.int64)
    if t.dtype.is_floating_point or t.dtype.is_complex or t.dtype == _C.bool:
        raise _C.DTypeError(
            f"pf.{name}: got {what} of dtype {t.dtype}; expected whole numbers; convert with .long()"
        )
    if t.dim() != dims:
        shape = "[sparse dimensions, nnz]" if dims == 2 else "one dimension"
        raise _C.ShapeError(
            f"pf.{name}: got {what} of shape {list(t.shape)}; expected {shape}; reshape them"
        )
    return t.detach().to(device, _C.int64)


def _values(data, dtype, device, requires_grad, name):
    values = _tensor(data, dtype, device, name)
    if requires_grad:
        return values.detach().requires_grad_(True)
    # A leaf of the caller's own stays one: the sparse tensor is made of it.
    return values.view(values.shape) if values.requires_grad and values.is_leaf else values


def _size(size, name):
    try:
        shape = [int(n) for n in size]
    except TypeError:
        raise TypeError(
            f"pf.{name}: got the size {size!r}; expected a tuple of whole numbers; correct it"
        ) from None
    if any(n < 0 for n in shape):
        raise _C.ShapeError(
            f"pf.{name}: got the size {shape}; expected no negative sizes; correct it"
        )
    return shape


def _looks(check, index):
    """(whether to look at all, whether in full)"""
    full = check_sparse_tensor_invariants._on if check is None else bool(check)
    return full or (check is None and index.device.type == "cpu"), full


def _is_size(args):
    return args is not None and all(isinstance(n, int) and not isinstance(n, bool) for n in args)


def sparse_coo_tensor(
    indices=None, values=None, size=None, *, dtype=None, device=None, pin_memory=False,
    requires_grad=False, check_invariants=None, is_coalesced=None,
):  # fmt: skip
    """A sparse tensor of coordinates: `indices` [sparse dimensions, nnz] and `values` [nnz, dense
    dimensions]; what is there more than once counts as its sum.

    Without `size` it is as large as the indices ask for; with a size alone it is empty. Gradients flow
    to `values`; requires_grad=True makes it a leaf of its own. `check_invariants=False` leaves out the
    look at the range of the indices. `is_coalesced` says that they are in order, each of them once.
    """
    name = "sparse_coo_tensor"
    if values is None:
        if size is None and isinstance(indices, (tuple, list)) and _is_size(indices):
            indices, size = None, indices
        if indices is not None or size is None:
            raise TypeError(
                f"pf.{name}: got no values; expected indices and values, or a size; pass them"
            )
        shape = _size(size, name)
        if not shape:
            refuse(f"{name}: got the size []", "one dimension or more", "use a dense tensor")
        values = _ops.empty((0,), dtype=dtype, device=device)
        indices = _ops.empty((len(shape), 0), dtype=_C.int64, device=values.device)
        made = make(shape, indices, None, values, True)
        return made.requires_grad_(True) if requires_grad else made
    values = _values(values, dtype, device, requires_grad, name)
    at = _index(indices, values.device, name, "indices", 2)
    dims, n = at.shape
    if dims == 0:
        refuse(f"{name}: got indices of no dimensions", "one or more", "use a dense tensor")
    if values.dim() == 0:
        values = values.expand(n)
    if values.size(0) != n:
        raise _C.ShapeError(
            f"pf.{name}: got {n} indices and {values.size(0)} values; expected as many; correct one of them"
        )
    looks, _ = _looks(check_invariants, at)
    low = high = None
    if n and (looks or size is None):
        low, high = at.amin(1).tolist(), at.amax(1).tolist()
        if min(low) < 0:
            raise _C.IndexError(
                f"pf.{name}: got the index {min(low)} in dimension {low.index(min(low))}; expected "
                "none below 0; negative ones do not count from the end: add the size to them"
            )
    if size is None:
        shape = [h + 1 for h in high or [-1] * dims] + list(values.shape[1:])
    else:
        shape = _size(size, name)
        if len(shape) != dims + values.dim() - 1 or shape[dims:] != list(values.shape[1:]):
            raise _C.ShapeError(
                f"pf.{name}: got the size {shape} for {dims} sparse dimensions and values of shape "
                f"{list(values.shape)}; expected {dims} sizes, then {list(values.shape[1:])}; correct it"
            )
        for d, most in enumerate(high or ()):
            if most >= shape[d]:
                raise _C.IndexError(
                    f"pf.{name}: got the index {most} in dimension {d} of size {shape[d]}; expected "
                    "indices below the size; correct one of them"
                )
    made = make(shape, at, None, values, n < 2 and is_coalesced is not False)
    if is_coalesced:
        if looks and not _in_order(made):
            raise _C.ValueError(
                f"pf.{name}: got is_coalesced=True for indices that are not in order, each of them once; "
                "expected such; leave it out"
            )
        made._coalesced_(True)
    return made.pin_memory() if pin_memory else made


def _in_order(t):
    from ._convert import _ascending, keys

    return _ascending(keys(_C._sparse_coordinates(t), t.shape))


def sparse_csr_tensor(
    crow_indices, col_indices, values, size=None, *, dtype=None, device=None, pin_memory=False,
    requires_grad=False, check_invariants=None,
):  # fmt: skip
    """A sparse matrix by rows: row i has the columns and values from crow_indices[i] to
    crow_indices[i + 1].

    crow_indices are [rows + 1], from 0 to nnz; col_indices and values are [nnz]. Without `size` it has
    as many columns as the largest asks for. Indices become int64. See sparse_coo_tensor for the rest.
    """
    name = "sparse_csr_tensor"
    values = _values(values, dtype, device, requires_grad, name)
    rows = _index(crow_indices, values.device, name, "crow_indices", 1)
    columns = _index(col_indices, values.device, name, "col_indices", 1)
    n = columns.size(0)
    if values.shape != columns.shape:
        raise _C.ShapeError(
            f"pf.{name}: got {n} col_indices and values of shape {list(values.shape)}; expected one value "
            "for each; correct one of them"
        )
    if rows.size(0) == 0:
        raise _C.ShapeError(
            f"pf.{name}: got no crow_indices; expected one more than rows; correct them"
        )
    looks, full = _looks(check_invariants, columns)
    most = -1
    if n and (looks or size is None):
        least, most = columns.min().item(), columns.max().item()
        if least < 0:
            raise _C.IndexError(
                f"pf.{name}: got the column {least}; expected none below 0; correct col_indices"
            )
    shape = [rows.size(0) - 1, most + 1] if size is None else _size(size, name)
    if len(shape) != 2 or shape[0] != rows.size(0) - 1:
        raise _C.ShapeError(
            f"pf.{name}: got the size {shape} and {rows.size(0)} crow_indices; expected a matrix, and one "
            "more than it has rows; correct one of them"
        )
    if looks:
        _check_rows(name, rows, n)
        if most >= shape[1]:
            raise _C.IndexError(
                f"pf.{name}: got the column {most} of {shape[1]}; expected columns below the size; correct "
                "one of them"
            )
    made = make(shape, columns, rows, values)
    if full and n:
        if not _in_order(made):
            raise _C.ValueError(
                f"pf.{name}: got col_indices that are not in order within a row, or twice the same; "
                "expected each column once, from left to right; sort them: "
                "pf.sparse_coo_tensor(...).coalesce().to_sparse_csr()"
            )
        made = make(shape, columns, rows, values, True)
    return made.pin_memory() if pin_memory else made


def _check_rows(name, rows, n):
    first, last = rows[0].item(), rows[-1].item()
    if first != 0 or last != n:
        raise _C.ValueError(
            f"pf.{name}: got crow_indices from {first} to {last} for {n} values; expected 0 to {n}; "
            "correct them"
        )
    less = rows[1:] < rows[:-1]
    if less.any():
        at = int(less.nonzero()[0, 0])
        raise _C.ValueError(
            f"pf.{name}: got crow_indices that fall from {rows[at].item()} to {rows[at + 1].item()} at row "
            f"{at}; expected that none is less than the one before it; correct them"
        )


def sparse_compressed_tensor(
    compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None, device=None,
    pin_memory=False, requires_grad=False, check_invariants=None,
):  # fmt: skip
    """sparse_csr_tensor, the one compressed layout that there is."""
    if layout != CSR:
        refuse(
            f"sparse_compressed_tensor: got the layout {layout!r}",
            "pf.sparse_csr",
            f"use it, or {COO} (pf.sparse_coo_tensor)",
        )
    return sparse_csr_tensor(
        compressed_indices, plain_indices, values, size, dtype=dtype, device=device,
        pin_memory=pin_memory, requires_grad=requires_grad, check_invariants=check_invariants,
    )  # fmt: skip


def of_file(shape, indices, rows, values, coalesced):
    """A sparse tensor that a file holds, whose parts may be anything."""
    shape = _size(shape, "load")
    checks = {"check_invariants": True, "device": values.device}
    if rows is None:
        return sparse_coo_tensor(indices, values, shape, is_coalesced=coalesced is True, **checks)
    checks["check_invariants"] = None if coalesced is not True else True
    return sparse_csr_tensor(rows, indices, values, shape, **checks)
