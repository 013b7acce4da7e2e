"""Sequences of different lengths, padded to one tensor or packed step by step."""

from collections import namedtuple

from ... import _C, _ops
from ..._named_errors import name_errors as _name_errors

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


def invert_permutation(permutation):
    """The permutation that undoes this one; None for None."""
    if permutation is None:
        return None
    n = permutation.numel()
    places = _ops.arange(n, device=permutation.device, dtype=permutation.dtype)
    return _ops.empty_like(permutation).scatter_(0, permutation, places)


_Packed = namedtuple("PackedSequence", "data batch_sizes sorted_indices unsorted_indices")


class PackedSequence(_Packed):
    """Sequences without their padding: the rows of the first step, of the second, and so on.

    `data` is [rows of all steps, ...]; `batch_sizes` (int64, on the CPU) says how many sequences
    have each step; `sorted_indices` puts the batch in the order of falling lengths and
    `unsorted_indices` undoes that, both None where it was in order. Made by pack_sequence and
    pack_padded_sequence.
    """

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if batch_sizes is None:
            if len(data) != 2:
                raise _C.ValueError(
                    f"pf.nn.utils.rnn.PackedSequence: got {len(data)} values; expected (data, "
                    "batch_sizes)"
                )
            data, batch_sizes = data
        if batch_sizes.device.type != "cpu":
            raise _C.ValueError(
                f"pf.nn.utils.rnn.PackedSequence: got batch_sizes on {batch_sizes.device}; expected "
                "the CPU; call .cpu() on them"
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _with(self, data, *how):
        if data is self.data:
            return self
        moved = [i if i is None else i.to(*how) for i in self[2:]] if how else self[2:]
        return type(self)(data, self.batch_sizes, *moved)

    def to(self, *args, **kwargs):
        """data.to(...); the permutations follow to the device."""
        data = self.data.to(*args, **kwargs)
        return self._with(data, data.device)

    def cuda(self, *args, **kwargs):
        data = self.data.cuda(*args, **kwargs)
        return self._with(data, data.device)

    def cpu(self, *args, **kwargs):
        data = self.data.cpu(*args, **kwargs)
        return self._with(data, data.device)

    def pin_memory(self):
        pinned = [t if t is None else t.pin_memory() for t in self[2:]]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *pinned)

    def is_pinned(self):
        return self.data.is_pinned()

    @property
    def is_cuda(self):
        return self.data.is_cuda


def _cast(dtype):
    def cast(self):
        return self._with(getattr(self.data, dtype)())

    cast.__name__ = dtype
    cast.__doc__ = f"With data.{dtype}()."
    return cast


for _name in ("double", "float", "half", "bfloat16", "long", "int", "short", "char", "byte"):
    setattr(PackedSequence, _name, _cast(_name))


def _places(batch_sizes, batch, like):
    """Where the rows of packed data lie among [steps * batch]."""
    places = [t * batch + b for t, n in enumerate(batch_sizes) for b in range(n)]
    return _C.tensor(places, dtype=_C.int64, device=like.device)


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs [steps, batch, ...] (or batch first), whose sequences have these lengths, 1 or more.

    Lengths must fall unless enforce_sorted is False: then the batch is put in order, and what comes
    out of a layer back again.
    """
    name = "pf.nn.utils.rnn.pack_padded_sequence"
    if isinstance(lengths, _C.Tensor):
        lengths = lengths.tolist()
    lengths = [int(n) for n in lengths]
    if batch_first:
        input = input.transpose(0, 1)
    steps, batch = input.shape[:2]
    if len(lengths) != batch:
        raise _C.ValueError(
            f"{name}: got {len(lengths)} lengths for a batch of {batch}; expected one for each "
            "sequence; check batch_first"
        )
    if not lengths or min(lengths) <= 0 or max(lengths) > steps:
        raise _C.ValueError(
            f"{name}: got lengths {lengths} for {steps} steps; expected numbers from 1 to {steps}; "
            "leave empty sequences out"
        )
    order = None
    if not enforce_sorted:
        by = sorted(range(batch), key=lambda i: -lengths[i])
        lengths = [lengths[i] for i in by]
        order = _C.tensor(by, dtype=_C.int64, device=input.device)
        input = input.index_select(1, order)
    elif any(a < b for a, b in zip(lengths, lengths[1:])):
        raise _C.ValueError(
            f"{name}: got lengths {lengths}; expected falling ones; sort the batch, or pass "
            "enforce_sorted=False"
        )
    sizes, live = [], batch
    for t in range(lengths[0]):
        while lengths[live - 1] <= t:
            live -= 1
        sizes.append(live)
    rows = input.reshape(steps * batch, *input.shape[2:])
    data = rows.index_select(0, _places(sizes, batch, input))
    return PackedSequence(data, _C.tensor(sizes, dtype=_C.int64, device="cpu"), order, None)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """(padded, lengths) of a PackedSequence; padded to total_length steps, or to the longest."""
    name = "pf.nn.utils.rnn.pad_packed_sequence"
    data, batch_sizes, _, back = sequence
    sizes = batch_sizes.tolist()
    steps, batch = len(sizes), sizes[0]
    if total_length is not None:
        if total_length < steps:
            raise _C.ValueError(
                f"{name}: got total_length {total_length} for sequences of {steps} steps; expected "
                "at least that"
            )
        steps = total_length
    lengths = [sum(n > b for n in sizes) for b in range(batch)]
    lengths = _C.tensor(lengths, dtype=_C.int64, device="cpu")
    padded = _ops.full(
        (steps * batch, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device
    ).index_copy(0, _places(sizes, batch, data), data)
    padded = padded.reshape(steps, batch, *data.shape[1:])
    if back is not None:
        padded, lengths = padded.index_select(1, back), lengths[back.cpu()]
    return padded.transpose(0, 1) if batch_first else padded, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Sequences [length, ...] as one tensor [longest, batch, ...], or batch first."""
    return _ops.pad_sequence(list(sequences), batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The sequences that pad_sequence joined, given their lengths. Copies."""
    rows = padded_sequences.unbind(0 if batch_first else 1)
    return [row[: int(n)].clone() for row, n in zip(rows, lengths)]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs sequences [length, ...] of lengths that fall (or any, with enforce_sorted=False)."""
    lengths = [len(s) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The sequences that pack_sequence packed."""
    return unpad_sequence(
        *pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True
    )


_name_errors(__name__)
