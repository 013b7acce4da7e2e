"""torch.nn.attention.varlen: attention of sequences of several lengths, one behind the other."""

from typing import NamedTuple

from ... import _C, _ops
from ..._named_errors import name_errors as _name_errors

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]


class AuxRequest(NamedTuple):
    """What varlen_attn is to give beside its result."""

    lse: bool = False


def varlen_attn(
    query,
    key,
    value,
    cu_seq_q,
    cu_seq_k,
    max_q,
    max_k,
    *,
    return_aux=None,
    scale=None,
    window_size=(-1, -1),
    enable_gqa=False,
    seqused_k=None,
    block_table=None,
    num_splits=None,
):
    """softmax(scale query key^T) value within each sequence: query [rows, H, E], key and value [rows, Hk,
    E] give [rows, H, E].

    int32 cu_seq_q and cu_seq_k [sequences + 1] say where each begins and the last ends; max_q and max_k
    are the longest lengths. window_size (left, right): how many keys before and behind its own a query
    sees, -1 for all; (-1, 0) is causal. The last query stands beside the last key. seqused_k [sequences]:
    how many keys are used. With block_table [sequences, pages] key and value are [pages, page size, Hk, E],
    and cu_seq_k may be None: no gradients then. return_aux with lse: (output, [H, rows]).
    """
    page = 0
    if block_table is not None:
        if seqused_k is None or key.dim() != 4:
            raise _C.ValueError(
                f"pf.nn.attention.varlen_attn: got a block_table with key {list(key.shape)} and seqused_k "
                f"{seqused_k}; expected pages [N, page size, heads, E] and numbers of keys"
            )
        page = key.shape[1]
        key, value = key.flatten(0, 1), value.flatten(0, 1)
    if cu_seq_k is None:
        if seqused_k is None:
            raise _C.ValueError(
                "pf.nn.attention.varlen_attn: got neither cu_seq_k nor seqused_k; pass one of them"
            )
        cu_seq_k = _ops.zeros_like(cu_seq_q)
    out, lse = _ops.flash_attention(
        query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1), scale=scale,
        left=window_size[0], right=window_size[1], bottom_right=True, enable_gqa=enable_gqa,
        cu_seqlens_q=cu_seq_q, cu_seqlens_k=cu_seq_k, max_seqlen_q=max_q, max_seqlen_k=max_k,
        seqused_k=seqused_k, block_table=block_table, page_size=page,
    )  # fmt: skip
    out = out.transpose(0, 1)
    return (out, lse) if return_aux is not None and return_aux.lse else out


def varlen_attn_out(out, query, *args, **kwargs):
    """varlen_attn with the result written into `out`."""
    result = varlen_attn(query, *args, **kwargs)
    if isinstance(result, tuple):
        return out.copy_(result[0]), result[1]
    return out.copy_(result)


_name_errors(__name__)
