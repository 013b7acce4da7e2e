"""Gradients of functions of sparse tensors beside finite differences."""

import functools

from .. import _C
from ._tensor import SparseTensor, make


def _pattern(x, masked):
    """A sparse tensor with the places that are varied, and their values."""
    x = x.detach()
    if masked:
        return x.coalesce() if x.is_sparse else x
    dense = x.to_dense()
    every = _C._functions["ones_like"](dense).to_sparse(x.sparse_dim(), layout=x.layout)
    return _with_values(every, dense.reshape(-1, *dense.shape[x.sparse_dim() :]))


def _with_values(pattern, values):
    indices, rows, _, coalesced = _C._sparse_parts(pattern)
    return make(pattern.shape, indices, rows, values, coalesced)


def _dense(x):
    return x.to_dense() if isinstance(x, SparseTensor) else x


def as_sparse_gradcheck(gradcheck):
    """A gradcheck (autograd.gradcheck, or a partial of it) for functions that take or return sparse
    tensors too: of a sparse input all elements are varied, with masked=True those that it stores; a
    sparse result is compared as a dense one.
    """

    @functools.wraps(gradcheck)
    def sparse_gradcheck(func, inputs, **kwargs):
        masked = bool(kwargs.pop("masked", False))
        leaves, patterns = [], []
        for x in [inputs] if isinstance(inputs, _C.Tensor) else inputs:
            patterns.append(_pattern(x, masked) if isinstance(x, SparseTensor) else None)
            if patterns[-1] is not None:
                x = patterns[-1].values().clone().requires_grad_(x.requires_grad)
            leaves.append(x)

        def of_dense(*values):
            found = func(
                *(v if p is None else _with_values(p, v) for v, p in zip(values, patterns))
            )
            if isinstance(found, tuple | list):
                return tuple(_dense(f) for f in found)
            return _dense(found)

        return gradcheck(of_dense, tuple(leaves), **kwargs)

    return sparse_gradcheck
