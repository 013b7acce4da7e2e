"""Nested tensors: components that differ in the size of one dimension, as one tensor.

They lie one behind the other without padding, in :meth:`~NestedTensor.values`; ``offsets()`` says where each
begins. Pointwise operations, linear layers, norms, softmax, sums and means, attention and what changes
dimensions take them, gradients included.
"""

import itertools

from .. import _C, _layouts, _ops
from .._named_errors import name_errors as _name_errors
from . import _rows
from ._tensor import NestedTensor, leaf, make, refuse

__all__ = [
    "NestedTensor", "as_nested_tensor", "masked_select", "narrow", "nested_tensor",
    "nested_tensor_from_jagged", "to_padded_tensor",
]  # fmt: skip


def _layout(layout):
    layout = _layouts.strided if layout is None else layout
    if layout not in (_layouts.strided, _layouts.jagged):
        raise _C.ValueError(
            f"pf.nested: got layout {layout!r}; expected pf.jagged or pf.strided; pass one of them"
        )
    return layout


def _packed(tensors, name):
    """(values, rows, the ragged dimension) of components."""
    if not tensors:
        raise _C.ValueError(
            f"pf.nested.{name}: Cannot construct a nested tensor from an empty tensor list; expected at "
            "least one component"
        )
    first = tensors[0]
    for t in tensors:
        if t.dim() == 0:
            raise _C.ShapeError(
                f"pf.nested.{name}: Cannot construct a nested tensor from a list of zero-dim tensors; "
                "expected a dimension or more; use pf.stack"
            )
        if (t.dim(), t.dtype, t.device) != (first.dim(), first.dtype, first.device):
            raise _C.ValueError(
                f"pf.nested.{name}: got components with {first.dim()} and {t.dim()} dimensions, of "
                f"{first.dtype} and {t.dtype}, on {first.device} and {t.device}; expected the same of all; "
                "convert some"
            )
    ragged = [d for d in range(first.dim()) if len({t.shape[d] for t in tensors}) > 1]
    if len(ragged) > 1:
        raise _C.NotSupportedError(
            f"pf.nested.{name}: got components of shapes {[list(t.shape) for t in tensors[:4]]}, which "
            "differ in several dimensions; expected one; pad the others"
        )
    at = ragged[0] if ragged else 0
    rows = _rows.of_lengths([t.shape[at] for t in tensors], first.device)
    return _ops.cat(list(tensors), at), rows, at + 1


def nested_tensor(
    tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False
):
    """A nested tensor with the values of `tensor_list` (tensors or lists of numbers), copied: a leaf.

    All components have the same sizes but for one dimension. layout pf.jagged is the one to use;
    pf.strided, PyTorch's default, is the same here, but has no `shape`.
    """
    layout = _layout(layout)
    tensors = [
        t.detach().to(device=device, dtype=dtype)
        if isinstance(t, _C.Tensor)
        else _C.tensor(t, dtype=dtype, device=device)
        for t in tensor_list
    ]
    values, rows, ragged = _packed(tensors, "nested_tensor")
    if pin_memory:
        values = values.pin_memory()
    return leaf(values, rows, ragged, layout, requires_grad)


def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """A nested tensor of components, part of their history: a list of tensors, a dense tensor whose rows are
    the components, or a nested tensor, which stays what it is."""
    layout = _layout(layout)
    if isinstance(ts, NestedTensor):
        if layout != ts.layout:
            raise _C.NotSupportedError(
                f"pf.nested.as_nested_tensor: got a nested tensor of layout {ts.layout} for {layout}; "
                "expected the same; make it of unbind()"
            )
        return ts.to(device=device, dtype=dtype)
    if isinstance(ts, _C.Tensor):
        if ts.dim() < 2:
            raise _C.ShapeError(
                f"pf.nested.as_nested_tensor: got a tensor of shape {list(ts.shape)}; expected two "
                "dimensions or more; pass a list of tensors"
            )
        ts = ts.to(device=device, dtype=dtype)
        rows = _rows.of_lengths([ts.shape[1]] * ts.shape[0], ts.device)
        return make(ts.flatten(0, 1), rows, 1, layout)
    tensors = list(ts)
    if not all(isinstance(t, _C.Tensor) for t in tensors):
        raise TypeError(
            "pf.nested.as_nested_tensor: got a list with what is no tensor; expected tensors; use "
            "nested_tensor for numbers"
        )
    tensors = [t.to(device=device, dtype=dtype) for t in tensors]
    values, rows, ragged = _packed(tensors, "as_nested_tensor")
    return make(values, rows, ragged, layout)


def nested_tensor_from_jagged(
    values, offsets=None, lengths=None, jagged_dim=None, min_seqlen=None, max_seqlen=None
):
    """A nested tensor of values that lie one behind the other along dimension `jagged_dim` - 1: component i
    from offsets[i] to offsets[i + 1], or offsets[i] + lengths[i], where the rows in between are left out
    (which copies); without offsets without gaps. A view of the values where nothing is left out."""
    ragged = 1 if jagged_dim is None else jagged_dim
    if not 1 <= ragged <= values.dim():
        raise _C.ValueError(
            f"pf.nested.nested_tensor_from_jagged: got jagged_dim {jagged_dim} for values of shape "
            f"{list(values.shape)}; expected 1 to {values.dim()}"
        )
    if offsets is None and lengths is None:
        raise _C.ValueError(
            "pf.nested.nested_tensor_from_jagged: got neither offsets nor lengths; expected one of them"
        )
    for name, t in (("offsets", offsets), ("lengths", lengths)):
        if t is not None and (t.dim() != 1 or t.dtype not in (_C.int32, _C.int64)):
            raise _C.ValueError(
                f"pf.nested.nested_tensor_from_jagged: got {name} of shape {list(t.shape)} and {t.dtype}; "
                "expected one dimension of int64 or int32"
            )
    starts = None if offsets is None else offsets.tolist()
    if lengths is None:
        ends = starts[1:]
    elif starts is None:
        sizes = lengths.tolist()
        starts = [0, *itertools.accumulate(sizes)]
        offsets, lengths, ends = (
            _C.tensor(starts, dtype=lengths.dtype, device=lengths.device),
            None,
            starts[1:],
        )
    else:
        ends = [a + n for a, n in zip(starts, lengths.tolist())]
        if lengths.shape[0] != len(starts) - 1:
            raise _C.ShapeError(
                f"pf.nested.nested_tensor_from_jagged: got {lengths.shape[0]} lengths and {len(starts)} "
                "offsets; expected one offset more"
            )
    total = values.shape[ragged - 1]
    if not starts or starts[0] < 0 or any(not a <= b <= total for a, b in zip(starts, ends)):
        raise _C.ValueError(
            f"pf.nested.nested_tensor_from_jagged: got components from {starts[:5]} to {ends[:4]}, ... in "
            f"{total} rows; expected offsets that do not fall, from 0 to the number of rows"
        )
    if lengths is None and starts[0] == 0 and starts[-1] == total:
        return make(values, _rows.Rows(offsets, starts), ragged)
    return _gathered(values, starts[: len(ends)], [b - a for a, b in zip(starts, ends)], ragged)


def _of_file(values, offsets, ragged, kind):
    """A nested tensor that a file holds, whose parts may be anything."""
    made = nested_tensor_from_jagged(values, offsets, jagged_dim=ragged)
    return make(made.values(), made._rows, ragged, _layout(_layouts.layout(kind)))


def _gathered(values, starts, sizes, ragged, layout=_layouts.jagged):
    """Components that begin at `starts` of the values' packed dimension, without what is between them."""
    rows = _rows.of_lengths(sizes, values.device)
    at = _C.tensor(starts, dtype=_C.int64, device=values.device).index_select(0, rows.row)
    return make(values.index_select(ragged - 1, at + rows.position), rows, ragged, layout)


def narrow(tensor, dim, start, length, layout=None):
    """A nested tensor of parts of the rows of a dense tensor [components, size, ...]: `length[i]` from
    `start[i]` on, or numbers that are the same for all. dim is 1. The parts are copied."""
    layout = _layout(layout)
    if dim != 1 or tensor.dim() < 2 or isinstance(tensor, NestedTensor):
        raise _C.ValueError(
            f"pf.nested.narrow: got dim {dim} and a tensor of {tensor.dim()} dimensions; expected a dense "
            "tensor and dim 1; transpose it"
        )
    count, size = tensor.shape[:2]
    begin, many = (
        t.tolist() if isinstance(t, _C.Tensor) and t.dim() else [int(t)] * count
        for t in (start, length)
    )
    if not len(begin) == len(many) == count:
        raise _C.ShapeError(
            f"pf.nested.narrow: got {len(begin)} starts and {len(many)} lengths for {count} components; "
            "expected one of each for each"
        )
    if any(a < 0 or n < 0 or a + n > size for a, n in zip(begin, many)):
        raise _C.ValueError(
            f"pf.nested.narrow: got parts that begin at {begin[:4]} with {many[:4]} rows, ... of {size}; "
            "expected parts of these"
        )
    starts = [i * size + a for i, a in enumerate(begin)]
    return _gathered(tensor.flatten(0, 1), starts, many, 1, layout)


def masked_select(tensor, mask):
    """The elements of each row of a dense tensor for which the mask, which is broadcast to it, says so: a
    nested tensor [rows, j]. Of two dimensions."""
    if tensor.dim() != 2:
        refuse(
            f"a tensor of {tensor.dim()} dimensions for masked_select", "two", "flatten the others"
        )
    mask = mask.expand(tensor.shape)
    rows = _rows.of_lengths(mask.sum(1).tolist(), tensor.device)
    return make(tensor.masked_select(mask), rows)


def to_padded_tensor(input, padding, output_size=None, out=None):
    """A dense tensor [components, longest, ...] of a nested one: Tensor.to_padded_tensor."""
    return input.to_padded_tensor(padding, output_size, out)


_name_errors(
    __name__,
    "narrow",
    "masked_select",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
)
