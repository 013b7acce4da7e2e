"""flash_attn's functions for training and for prompts."""

import contextlib

from .. import _C, _ops
from .._named_errors import name_errors as _name_errors

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
]


def window_of(window_size, causal, name):
    """(left, right) of a window_size, which a triangle narrows."""
    window = tuple(window_size) if isinstance(window_size, (tuple, list)) else ()
    if len(window) != 2 or not all(isinstance(n, int) and n >= -1 for n in window):
        raise _C.ValueError(
            f"pf.flash_attn.{name}: got window_size {window_size!r}; expected two numbers of keys, "
            "before and behind a query's own; pass -1 for all"
        )
    return window[0], 0 if causal else window[1]


def check(name, dims, **tensors):
    for argument, tensor in tensors.items():
        if not isinstance(tensor, _C.Tensor):
            raise TypeError(
                f"pf.flash_attn.{name}: got {argument} of type {type(tensor).__name__}; expected a Tensor"
            )
        if tensor.dim() != dims:
            form = "[batch, rows, heads, E]" if dims == 4 else "[rows of all sequences, heads, E]"
            raise _C.ShapeError(
                f"pf.flash_attn.{name}: got {argument} {list(tensor.shape)}; expected {form}; "
                "reshape it"
            )


@contextlib.contextmanager
def _repeating(deterministic):
    if not deterministic or _C._deterministic():
        yield
        return
    _C._set_deterministic(True)
    try:
        yield
    finally:
        _C._set_deterministic(False)


def flash_attn_func(
    q,
    k,
    v,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """softmax(softmax_scale q k^T) v for q [B, L, H, E], k [B, S, Hk, E] and v [B, S, Hk, Ev], where Hk
    divides H: [B, L, H, Ev].

    The last query stands beside the last key; causal lets a query see no key behind its own, and
    window_size (left, right) so many before and behind it (-1: all). softcap c makes a score s
    c tanh(s / c); alibi_slopes [H] or [B, H] times the distance are subtracted. softmax_scale is
    1 / sqrt(E) by default. The gradient has the same bits in every run unless
    `pf.use_deterministic_algorithms(False)` was called, and with deterministic=True even then. With
    return_attn_probs the result is (output, logarithms of the sums of exponentials [B, H, L], None).
    """
    check("flash_attn_func", 4, q=q, k=k, v=v)
    left, right = window_of(window_size, causal, "flash_attn_func")
    with _repeating(deterministic):
        out, lse = _ops.flash_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), dropout_p=dropout_p,
            scale=softmax_scale, left=left, right=right, bottom_right=True, softcap=softcap,
            alibi_slopes=alibi_slopes, enable_gqa=True,
        )  # fmt: skip
        out = out.transpose(1, 2)
    return (out, lse, None) if return_attn_probs else out


def flash_attn_kvpacked_func(q, kv, *args, **kwargs):
    """flash_attn_func with kv [B, S, 2, Hk, E]; the arguments behind it are the same."""
    return flash_attn_func(q, *kv.unbind(2), *args, **kwargs)


def flash_attn_qkvpacked_func(qkv, *args, **kwargs):
    """flash_attn_func with qkv [B, L, 3, H, E]; the arguments behind it are the same."""
    return flash_attn_func(*qkv.unbind(2), *args, **kwargs)


def flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
    block_table=None,
    *,
    seqused_k=None,
):
    """flash_attn_func for sequences of several lengths one behind the other: q [rows, H, E], k and v
    [rows, Hk, E]; int32 cu_seqlens [sequences + 1] say where each begins and the last one ends, and
    max_seqlen the longest length. Result: [rows, H, Ev].

    seqused_k [sequences]: how many keys of each are used. With block_table int32 [sequences, pages],
    k and v are pages [N, page size, Hk, E]: no gradients then. cu_seqlens that fall or reach beyond
    the rows raise on the CPU; elsewhere nothing outside of the tensors is read.
    """
    name = "flash_attn_varlen_func"
    left, right = window_of(window_size, causal, name)
    page = 0
    if block_table is not None:
        check(name, 4, k=k, v=v)
        page = k.shape[1]
        k, v = k.flatten(0, 1), v.flatten(0, 1)
    check(name, 3, q=q, k=k, v=v)
    out, lse = _ops.flash_attention(
        q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1), dropout_p=dropout_p,
        scale=softmax_scale, left=left, right=right, bottom_right=True, softcap=softcap,
        alibi_slopes=alibi_slopes, enable_gqa=True, cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k, max_seqlen_q=int(max_seqlen_q), max_seqlen_k=int(max_seqlen_k),
        seqused_k=seqused_k, block_table=block_table, page_size=page,
    )  # fmt: skip
    out = out.transpose(0, 1)
    return (out, lse, None) if return_attn_probs else out


def flash_attn_varlen_kvpacked_func(q, kv, *args, **kwargs):
    """flash_attn_varlen_func with kv [rows, 2, Hk, E]; the arguments behind it are the same."""
    return flash_attn_varlen_func(q, *kv.unbind(1), *args, **kwargs)


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, *args, **kwargs):
    """flash_attn_varlen_func with qkv [rows, 3, H, E] and one cu_seqlens and max_seqlen; the arguments
    behind them are the same."""
    return flash_attn_varlen_func(
        *qkv.unbind(1), cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *args, **kwargs
    )


_name_errors(__name__)
