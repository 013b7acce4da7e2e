"""Attention to a cache of keys and values."""

from .. import _C, _ops
from .._grad_mode import no_grad
from .interface import window_of

__all__ = ["flash_attn_with_kvcache"]

_NAME = "pf.flash_attn.flash_attn_with_kvcache"


def _rotated(x, positions, cos, sin, interleaved):
    """x [B, L, H, E] turned by the angles of its positions [B, L]; cos and sin [positions, R / 2] are of
    the first R columns."""
    n = 2 * cos.shape[-1]
    cos, sin = (t[positions].unsqueeze(2).to(x.dtype) for t in (cos, sin))  # [B, L, 1, R / 2]
    head, rest = x[..., :n], x[..., n:]
    if interleaved:
        a, b = head[..., 0::2], head[..., 1::2]
        turned = _ops.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    else:
        a, b = head.chunk(2, -1)
        turned = _ops.cat([a * cos - b * sin, b * cos + a * sin], -1)
    return _ops.cat([turned, rest], -1) if rest.shape[-1] else turned


def _numbers(x, batch, device, name):
    """int32 [batch] of a number or a tensor."""
    if isinstance(x, int):
        return _ops.full((batch,), x, dtype=_ops.int32, device=device)
    if x.dim() != 1 or x.shape[0] != batch:
        raise _C.ShapeError(
            f"{_NAME}: got {name} {list(x.shape)}; expected [{batch}], a number for each query's cache"
        )
    return x.to(_ops.int32)


def flash_attn_with_kvcache(
    q,
    k_cache,
    v_cache,
    k=None,
    v=None,
    rotary_cos=None,
    rotary_sin=None,
    cache_seqlens=None,
    cache_batch_idx=None,
    cache_leftpad=None,
    block_table=None,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    rotary_interleaved=True,
    alibi_slopes=None,
    num_splits=0,
    return_softmax_lse=False,
):
    """Attention of q [B, L, H, E] to what a cache holds, [N, S, Hk, E], without gradients: [B, L, H, E].

    cache_seqlens (a number or int32 [B], all by default) says how many rows of each are there; k and v
    [B, new, Hk, E], if given, are written behind them, in place, and seen. cache_batch_idx int32 [B]
    names the row of the cache for each query (its own by default), cache_leftpad int32 [B] where it
    begins. With block_table int32 [B, pages] the caches are pages [N, page size, Hk, E]. rotary_cos and
    rotary_sin [positions, R / 2] turn the first R columns of k, and of q as far as causal or a window
    give it positions (else all of q by that of the first new key). Everything else is as in
    flash_attn_func; num_splits is accepted. With return_softmax_lse: (output, [B, H, L]).
    """
    if q.dim() != 4 or k_cache.dim() != 4 or v_cache.dim() != 4:
        raise _C.ShapeError(
            f"{_NAME}: got q {list(q.shape)}, k_cache {list(k_cache.shape)} and v_cache "
            f"{list(v_cache.shape)}; expected [batch, rows, heads, E] for each"
        )
    if (k is None) != (v is None):
        raise _C.ValueError(f"{_NAME}: got one of k and v; expected both or none; pass the other")
    if k is not None and cache_seqlens is None:
        raise _C.ValueError(f"{_NAME}: got k without cache_seqlens; expected where it begins")
    if (rotary_cos is None) != (rotary_sin is None) or (rotary_cos is not None and k is None):
        raise _C.ValueError(
            f"{_NAME}: got rotary_cos or rotary_sin alone, or without k; expected all three"
        )
    if block_table is not None and (cache_batch_idx is not None or cache_leftpad is not None):
        raise _C.ValueError(
            f"{_NAME}: got block_table with cache_batch_idx or cache_leftpad; expected it alone"
        )
    left, right = window_of(window_size, causal, "flash_attn_with_kvcache")
    batch, length = q.shape[:2]
    page = k_cache.shape[1]
    room = page if block_table is None else block_table.shape[1] * page
    with no_grad():
        there = _numbers(
            room if cache_seqlens is None else cache_seqlens, batch, q.device, "cache_seqlens"
        )
        which = _ops.arange(batch, dtype=_ops.int32, device=q.device)
        if cache_batch_idx is not None:
            which = _numbers(cache_batch_idx, batch, q.device, "cache_batch_idx")
        used = there
        if k is not None:
            new = k.shape[1]
            places = there.to(_ops.int64).unsqueeze(1) + _ops.arange(new, device=q.device)
            if rotary_cos is not None:
                k = _rotated(k, places, rotary_cos, rotary_sin, rotary_interleaved)
                at = there.to(_ops.int64).unsqueeze(1) + _ops.arange(length, device=q.device)
                if left < 0 and right < 0:
                    at = there.to(_ops.int64).unsqueeze(1).expand(batch, length)
                q = _rotated(q, at, rotary_cos, rotary_sin, rotary_interleaved)
            rows = which.to(_ops.int64).unsqueeze(1)
            if block_table is not None:
                rows = block_table.to(_ops.int64).gather(1, places // page)
                places = places % page
            k_cache[rows, places] = k.to(k_cache.dtype)
            v_cache[rows, places] = v.to(v_cache.dtype)
            used = there + new
        starts = which * page
        if cache_leftpad is not None:
            pad = _numbers(cache_leftpad, batch, q.device, "cache_leftpad")
            starts, used = starts + pad, used - pad
        out, lse = _ops.flash_attention(
            q.flatten(0, 1).transpose(0, 1), k_cache.flatten(0, 1).transpose(0, 1),
            v_cache.flatten(0, 1).transpose(0, 1), scale=softmax_scale, left=left, right=right,
            bottom_right=True, softcap=softcap, alibi_slopes=alibi_slopes, enable_gqa=True,
            cu_seqlens_q=_ops.arange(batch + 1, dtype=_ops.int32, device=q.device) * length,
            cu_seqlens_k=_ops.cat([starts, starts[-1:]]) if batch else starts.new_zeros(1),
            max_seqlen_q=length, max_seqlen_k=room, seqused_k=used, block_table=block_table,
            page_size=page if block_table is not None else 0,
        )  # fmt: skip
    out = out.transpose(0, 1).unflatten(0, (batch, length))
    if not return_softmax_lse:
        return out
    return out, lse.unflatten(1, (batch, length)).transpose(0, 1)
