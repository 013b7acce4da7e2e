"""Functions that give what a view shows as a tensor of its own: `permute_copy` of `permute`, and the others."""

import functools
import inspect

from . import _C, _ops
from ._named_errors import name_errors as _name_errors


def _copied(view, out):
    if isinstance(view, (list, tuple)):
        if out is None:
            return tuple(v.clone() for v in view)
        if len(out) != len(view):
            raise _C.ValueError(
                f"pf.out: got {len(out)} tensors as out= for {len(view)} results; expected one for each"
            )
        for o, v in zip(out, view):
            _copied(v, o)
        return out
    if out is None:
        return view.clone()
    if out.dtype != view.dtype:
        raise _C.DTypeError(
            f"pf.out: got out= of {out.dtype} for a result of {view.dtype}; expected that dtype; convert "
            "the result"
        )
    if out.numel() == 0:
        out.resize_(view.shape)
    elif out.shape != view.shape:
        raise _C.ShapeError(
            f"pf.out: got out= of shape {list(out.shape)} for a result of {list(view.shape)}; expected "
            "that shape, or no elements"
        )
    return out.copy_(view)


def _copy_of(f):
    """The function `f`, which gives a view or several, as one that gives copies and takes `out`."""

    @functools.wraps(f)
    def copying(input, *args, out=None, **kwargs):
        if not isinstance(input, _C.Tensor):
            raise TypeError(
                f"pf.{f.__name__}: got {type(input).__name__} as the input; expected a tensor; call "
                "pf.tensor"
            )
        return _copied(f(input, *args, **kwargs), out)

    del copying.__wrapped__
    given = inspect.signature(f)
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    copying.__signature__ = given.replace(parameters=[*given.parameters.values(), out])
    return copying


@_copy_of
def alias_copy(input):
    """A copy."""
    return input


@_copy_of
def detach_copy(input):
    """A copy without history."""
    return input.detach()


@_copy_of
def as_strided_copy(input, size, stride, storage_offset=None):
    """as_strided() as a copy."""
    return input.as_strided(size, stride, storage_offset)


@_copy_of
def diagonal_copy(input, offset=0, dim1=0, dim2=1):
    """diagonal() as a copy."""
    return input.diagonal(offset, dim1, dim2)


@_copy_of
def expand_copy(input, size, *, implicit=False):
    """expand() as a copy."""
    return input.expand(size)


@_copy_of
def permute_copy(input, dims):
    """permute() as a copy."""
    return input.permute(dims)


@_copy_of
def select_copy(input, dim, index):
    """select() as a copy."""
    return input.select(dim, index)


@_copy_of
def slice_copy(input, dim=0, start=None, end=None, step=1):
    """The elements from start to end along dim, each step-th, as a copy."""
    if step < 1:
        raise _C.ValueError(f"pf.slice_copy: got step {step}; expected at least 1")
    moved = input.movedim(dim, 0)
    return moved[start:end:step].movedim(0, dim)


@_copy_of
def split_copy(input, split_size, dim=0):
    """split() as copies."""
    return input.split(split_size, dim)


@_copy_of
def split_with_sizes_copy(input, split_sizes, dim=0):
    """split() into these sizes as copies."""
    return input.split(list(split_sizes), dim)


@_copy_of
def squeeze_copy(input, dim=None):
    """squeeze() as a copy."""
    return input.squeeze() if dim is None else input.squeeze(dim)


@_copy_of
def t_copy(input):
    """t() as a copy."""
    return input.t()


@_copy_of
def transpose_copy(input, dim0, dim1):
    """transpose() as a copy."""
    return input.transpose(dim0, dim1)


@_copy_of
def unbind_copy(input, dim=0):
    """unbind() as copies."""
    return input.unbind(dim)


@_copy_of
def unfold_copy(input, dimension, size, step):
    """Tensor.unfold() as a copy."""
    return input.unfold(dimension, size, step)


@_copy_of
def unsqueeze_copy(input, dim):
    """unsqueeze() as a copy."""
    return input.unsqueeze(dim)


@_copy_of
def view_as_complex_copy(input):
    """view_as_complex() as a copy."""
    return _ops.view_as_complex(input)


@_copy_of
def view_as_real_copy(input):
    """view_as_real() as a copy."""
    return _ops.view_as_real(input)


@_copy_of
def view_copy(input, size_or_dtype):
    """view() of a size or a dtype as a copy."""
    return input.view(size_or_dtype)


@_copy_of
def values_copy(input):
    """The values of a sparse tensor as a copy."""
    return input.values()


@_copy_of
def indices_copy(input):
    """The indices of a sparse tensor of layout COO as a copy."""
    return input.indices()


@_copy_of
def crow_indices_copy(input):
    """Where rows begin in a sparse tensor of layout CSR, as a copy."""
    return input.crow_indices()


@_copy_of
def col_indices_copy(input):
    """The columns of a sparse tensor of layout CSR as a copy."""
    return input.col_indices()


_name_errors(__name__)
