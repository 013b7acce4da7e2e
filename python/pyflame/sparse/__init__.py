"""Sparse tensors: matrices by coordinates or by rows, their products, and gradients of embeddings.

pf.sparse_coo_tensor, pf.sparse_csr_tensor and Tensor.to_sparse make them; docs/sparse.md says more.
"""

from .. import _C
from . import _elementwise as elementwise
from . import _products as products
from ._gradcheck import as_sparse_gradcheck
from ._making import (  # noqa: F401 (names of the package itself)
    check_sparse_tensor_invariants,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csr_tensor,
)
from ._tensor import SparseTensor

__all__ = [
    "SparseTensor", "addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm",
    "sampled_addmm", "softmax", "spdiags", "sum",
]  # fmt: skip


def _matrices(name, *tensors):
    for t in tensors:
        if not isinstance(t, _C.Tensor):
            raise TypeError(
                f"pf.sparse.{name}: got a {type(t).__name__}; expected tensors; pass them"
            )


def _product(name, a, b):
    _matrices(name, a, b)
    if isinstance(a, SparseTensor) or isinstance(b, SparseTensor):
        return products.multiply(a, b, f"sparse.{name}")
    return _C._functions["mm"](a, b)


def mm(mat1, mat2, reduce=None):
    """mat1 @ mat2, of matrices of which one or both are sparse; sparse if both are.

    Gradients flow to the values of the sparse one and to the dense one, to any order.

    reduce: what is made of the products of a row of a sparse mat1, "sum", "mean", "amax" or "amin" over
    those that are stored (all but the sum take memory for each of these times the columns of mat2); a row
    without any gives 0.
    """
    if reduce in (None, "sum"):
        return _product("mm", mat1, mat2)
    _matrices("mm", mat1, mat2)
    if reduce not in ("mean", "amax", "amin"):
        raise _C.ValueError(
            f"pf.sparse.mm: got reduce={reduce!r}; expected 'sum', 'mean', 'amax' or 'amin'; pass one of "
            "these"
        )
    if not isinstance(mat1, SparseTensor) or isinstance(mat2, SparseTensor):
        raise TypeError(
            f"pf.sparse.mm: got reduce={reduce!r} of other tensors than a sparse and a dense one; expected "
            "these; call to_sparse_csr() of mat1, to_dense() of mat2"
        )
    return products.reduced(mat1, mat2, reduce)


def spmm(input, mat2):
    """sparse.mm under its old name."""
    return _product("spmm", input, mat2)


def smm(input, mat):
    """input @ mat, of a sparse and a dense matrix, as a sparse one."""
    return _product("smm", input, mat).to_sparse()


def sspaddmm(input, mat1, mat2, *, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2), of sparse matrices and a dense mat2, as a sparse matrix."""
    _matrices("sspaddmm", input, mat1, mat2)
    product = _product("sspaddmm", mat1, mat2).to_sparse()
    return input * beta + product * alpha


def addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """beta * mat + alpha * (mat1 @ mat2), mat1 sparse."""
    _matrices("addmm", mat, mat1, mat2)
    return products.addmm(mat, mat1, mat2, beta=beta, alpha=alpha, name="sparse.addmm")


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0):
    """beta * input + alpha * (mat1 @ mat2) in the places that the sparse matrix `input` has."""
    _matrices("sampled_addmm", input, mat1, mat2)
    return products.sampled(input, mat1, mat2, beta=beta, alpha=alpha)


def sum(input, dim=None, dtype=None):
    """The sum over `dim`, an int or several; over all elements without. Dense over all sparse dimensions,
    else sparse."""
    _matrices("sum", input)
    return elementwise.sum_of(input, dim, dtype=dtype, name="sparse.sum")


def softmax(input, dim, *, dtype=None):
    """softmax along `dim` over the elements that are stored; what is not counts as -inf."""
    _matrices("softmax", input)
    return elementwise.softmax(input, dim, dtype)


def log_softmax(input, dim, *, dtype=None):
    """The logarithm of sparse.softmax."""
    _matrices("log_softmax", input)
    return elementwise.softmax(input, dim, dtype, log=True)


def spdiags(diagonals, offsets, shape, layout=None):
    """A sparse matrix of diagonals: row i of `diagonals` [n, width] is the one at offsets[i]; element j of
    it is in column j."""
    _matrices("spdiags", diagonals, offsets)
    if diagonals.dim() == 1:
        diagonals = diagonals.unsqueeze(0)
    offsets = offsets.reshape(-1)
    if diagonals.dim() != 2 or diagonals.size(0) != offsets.numel() or len(shape) != 2:
        raise _C.ShapeError(
            f"pf.sparse.spdiags: got diagonals of shape {list(diagonals.shape)}, {offsets.numel()} offsets and "
            f"the shape {list(shape)}; expected [offsets, width] and a matrix; correct one of them"
        )
    if len(set(offsets.tolist())) != offsets.numel():
        raise _C.ValueError(
            f"pf.sparse.spdiags: got the offsets {offsets.tolist()}; expected each once; correct them"
        )
    columns = _C._functions["arange"](diagonals.size(1), device=diagonals.device).expand(
        diagonals.shape
    )
    rows = columns - offsets.unsqueeze(1)
    there = (rows >= 0) & (rows < shape[0]) & (columns < shape[1])
    indices = _C._functions["stack"]([rows[there], columns[there]])
    made = sparse_coo_tensor(indices, diagonals[there], shape)
    return made if layout is None else made.to_sparse(layout=layout)
