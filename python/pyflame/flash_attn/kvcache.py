"""Attention to a cache of keys and values."""

from .. import _C, _ops
from .._grad_mode import no_grad
from .interface import check, window_of

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
    _check_indices(x, name)
    if x.dim() != 1 or x.shape[0] != batch:
        raise _C.ShapeError(
            f"{_NAME}: got {name} {list(x.shape)}; expected [{batch}], a number for each query's cache"
        )
    return x.to(_ops.int32)


def _check_indices(x, name):
    if not isinstance(x, _C.Tensor):
        raise TypeError(
            f"{_NAME}: got {name} of type {type(x).__name__}; expected a Tensor of int32"
        )
    if x.is_floating_point() or x.is_complex() or x.dtype == _ops.bool:
        raise _C.DTypeError(f"{_NAME}: got {name} of dtype {x.dtype}; expected int32")


def _check_range(x, low, high, name, what):
    """Of numbers that lie on the host, as _ops.flash_attention: low and high are numbers or tensors."""
    if x.device.type != "cpu" or _C._capturing() or _C._hidden_levels(x):
        return
    wrong = (x < low) | (x > high)
    if wrong.any():
        i = int(wrong.to(_ops.int32).argmax())
        most = high if isinstance(high, int) else int(high[i])
        raise _C.ValueError(
            f"{_NAME}: got {name} {int(x[i])} for sequence {i}; expected {what}, from {low} to {most}"
        )


def _check_new(q, k_cache, v_cache, k, v, cos, sin):
    check("flash_attn_with_kvcache", 4, k=k, v=v)
    for name, new, cache in (("k", k, k_cache), ("v", v, v_cache)):
        want = [q.shape[0], k.shape[1], *cache.shape[2:]]
        if list(new.shape) != want:
            raise _C.ShapeError(f"{_NAME}: got {name} {list(new.shape)}; expected {want}")
    if cos is None:
        return
    if cos.dim() != 2 or cos.shape != sin.shape or 2 * cos.shape[1] > q.shape[3]:
        raise _C.ShapeError(
            f"{_NAME}: got rotary_cos {list(cos.shape)} and rotary_sin {list(sin.shape)} for heads of "
            f"{q.shape[3]}; expected [positions, R / 2] for both, R at most {q.shape[3]}"
        )


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
    check("flash_attn_with_kvcache", 4, q=q, k_cache=k_cache, v_cache=v_cache)
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
    if block_table is not None:
        _check_indices(block_table, "block_table")
        if block_table.dim() != 2 or block_table.shape[0] != q.shape[0]:
            raise _C.ShapeError(
                f"{_NAME}: got block_table {list(block_table.shape)} for {q.shape[0]} queries; expected "
                "[batch, pages of one]"
            )
    if k is not None:
        _check_new(q, k_cache, v_cache, k, v, rotary_cos, rotary_sin)
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
            rows = k_cache.shape[0] - 1
            _check_range(which, 0, rows, "cache_batch_idx", "a row of the cache")
        used = there
        if k is not None:
            new = k.shape[1]
            last = room - new
            _check_range(there, 0, last, "cache_seqlens", f"room for {new} more")
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
            _check_range(pad, 0, used, "cache_leftpad", "at most what is used")
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
