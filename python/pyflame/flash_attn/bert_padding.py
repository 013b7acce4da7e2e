"""Batches of padded sequences to rows of all sequences, and back."""

from .. import _ops
from .._named_errors import name_errors as _name_errors

__all__ = ["index_first_axis", "pad_input", "unpad_input"]


def index_first_axis(x, indices):
    """Rows `indices` of x [rows, ...]."""
    return x[indices]


def unpad_input(hidden_states, attention_mask, unused_mask=None):
    """The rows of hidden_states [B, L, ...] where attention_mask [B, L] is nonzero (or unused_mask, which
    keeps room for later rows), as flash_attn_varlen_func takes them.

    Returns (rows, their places in [B L], cu_seqlens int32 [B + 1], the longest length, numbers of rows
    that are used int32 [B]).
    """
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = kept.sum(-1, dtype=_ops.int32)
    indices = kept.flatten().nonzero().flatten()
    starts = _ops.cat([lengths.new_zeros(1), lengths.cumsum(0, dtype=_ops.int32)])
    longest = int(lengths.max()) if lengths.numel() else 0
    used = attention_mask.sum(-1, dtype=_ops.int32)
    return hidden_states.flatten(0, 1)[indices], indices, starts, longest, used


def pad_input(hidden_states, indices, batch, seqlen):
    """Rows at their places of [batch, seqlen, ...], which unpad_input said; zeros elsewhere."""
    shape = tuple(hidden_states.shape[1:])
    zeros = _ops.zeros(
        (batch * seqlen, *shape), dtype=hidden_states.dtype, device=hidden_states.device
    )
    return zeros.index_copy(0, indices, hidden_states).unflatten(0, (batch, seqlen))


_name_errors(__name__)
