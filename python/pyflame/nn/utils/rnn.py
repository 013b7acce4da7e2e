"""Sequences of different lengths."""

from ... import _ops

__all__ = ["pad_sequence", "unpad_sequence"]


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Sequences [length, ...] as one tensor [longest, batch, ...], or batch first."""
    return _ops.pad_sequence(list(sequences), batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The sequences that pad_sequence joined, given their lengths."""
    rows = padded_sequences.unbind(0 if batch_first else 1)
    return [row[: int(n)] for row, n in zip(rows, lengths)]
