"""torch.nn.attention.flex_attention: attention whose scores and masks are functions of one element.

A mask alone runs in attention's own kernel: what lies between two diagonals (a triangle, a window) as
such, any other mask some rows of queries at a time, of which only that mask is in memory. On a GPU a
score_mod that is arithmetic of single numbers (score_text.py) becomes text of that kernel. Any other
runs in operations, some rows at a time, which the backward pass computes again: memory stays linear in
the length. There functions are called with all elements side by side where that is the same (is_pointwise),
else through vmap; of the latter the backward pass needs what was computed, so scores are kept.
"""

import math
from typing import NamedTuple

from ... import _C, _ops
from ..._C import Tensor
from ...utils.checkpoint import checkpoint
from .block_mask import (
    _DEFAULT_SPARSE_BLOCK_SIZE,  # noqa: F401 (a name that programs read)
    BlockMask,
    and_masks,
    bool_mask,
    create_block_mask,
    create_mask,
    is_pointwise,
    noop_mask,
    or_masks,
    over_all,
)
from .score_text import kernel_score

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask",
    "create_mask", "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

_NAME = "pf.nn.attention.flex_attention"
_SCORES = 1 << 24  # scores that are in memory together


class FlexKernelOptions(dict):
    """Options of PyTorch's kernels, accepted and without influence here; but BACKEND="OPERATIONS" has no
    kernel compute a score_mod."""


class AuxRequest(NamedTuple):
    """What flex_attention is to give beside its result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What flex_attention gives beside its result: [B, H, L] each, or None."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def _check(query, key, value, score_mod, block_mask, enable_gqa):
    for name, t in (("query", query), ("key", key), ("value", value)):
        if not isinstance(t, Tensor) or t.dim() != 4:
            what = list(t.shape) if isinstance(t, Tensor) else type(t).__name__
            raise _C.ShapeError(
                f"{_NAME}: got {name} {what}; expected [batch, heads, length, columns]"
            )
    b, h, length, e = query.shape
    if key.shape[:3] != value.shape[:3] or key.shape[3] != e or key.shape[0] not in (1, b):
        raise _C.ShapeError(
            f"{_NAME}: got query {list(query.shape)}, key {list(key.shape)} and value "
            f"{list(value.shape)}; expected [B, H, L, E], [B, H, S, E] and [B, H, S, Ev]"
        )
    heads = key.shape[1]
    if h != heads and (not enable_gqa or heads == 0 or h % heads):
        expected = (
            "a multiple of them" if enable_gqa else "as many, or with enable_gqa=True a multiple"
        )
        raise _C.ShapeError(
            f"{_NAME}: got {h} heads of query and {heads} of key; expected {expected}; check the number "
            "of heads"
        )
    if score_mod is not None and not callable(score_mod):
        raise TypeError(f"{_NAME}: got score_mod {score_mod!r}; expected a function or None")
    if block_mask is None:
        return
    if not isinstance(block_mask, BlockMask):
        raise TypeError(f"{_NAME}: got block_mask {block_mask!r}; expected a BlockMask or None")
    if block_mask.seq_lengths != (length, key.shape[2]):
        raise _C.ShapeError(
            f"{_NAME}: got a block_mask for {block_mask.seq_lengths} queries and keys, and "
            f"{(length, key.shape[2])} of them; expected the same numbers; make a mask of that size, or "
            "cut it with block_mask._adjust(queries, keys)"
        )
    for have, want, what in zip(block_mask.shape, (b, h), ("batches", "heads")):
        if have not in (1, want):
            raise _C.ShapeError(
                f"{_NAME}: got a block_mask of {have} {what} and {want} of query; expected 1 or as many"
            )


class _Rows:
    """Blocks of queries with the keys that they may see, some rows at a time."""

    def __init__(self, query, key, block_mask, gather=True):
        self.gather = gather  # columns that lie apart; else all from the first to the last
        self.length, self.keys = query.shape[2], key.shape[2]
        self.mask = block_mask
        self.device = query.device
        most = max(1, _SCORES // max(1, query.shape[0] * query.shape[1] * self.keys))
        self.size = block_mask.BLOCK_SIZE if block_mask is not None else (most, self.keys)
        # Whole blocks of queries, or parts of one.
        self.step = max(1, most // self.size[0]) * self.size[0] if most >= self.size[0] else most

    def __iter__(self):
        """(first row, behind the last, columns): those are a slice, or int64 indices."""
        first = 0
        while first < self.length:
            step = self.step
            if self.mask is not None and step < self.size[0]:  # not across a border of blocks
                step = min(step, self.size[0] - first % self.size[0])
            end = min(first + step, self.length)
            yield first, end, self.columns(first, end)
            first = end

    def columns(self, first, end):
        if self.mask is None:
            return slice(0, self.keys)
        rows = self.mask.rows()
        blocks = sorted(
            {j for i in range(first // self.size[0], -(-end // self.size[0])) for j in rows[i]}
        )
        n = self.size[1]
        if not blocks:
            return slice(0, 0)
        if blocks[-1] - blocks[0] + 1 == len(blocks) or not self.gather:
            return slice(blocks[0] * n, min((blocks[-1] + 1) * n, self.keys))
        starts = _ops.tensor(blocks, device=self.device).unsqueeze(-1) * n
        return (starts + _ops.arange(n, device=self.device)).flatten()[: self._count(blocks)]

    def _count(self, blocks):
        n = self.size[1]
        return sum(min((j + 1) * n, self.keys) - j * n for j in blocks)

    def allowed(self, first, end, columns):
        """bool [1 or B, 1 or H, rows, columns]: what the block mask lets see."""
        mask, device = self.mask, self.device
        q_idx, kv_idx = _ops.arange(first, end, device=device), self.indices(columns)
        b, h = (_ops.arange(n, device=device) for n in mask.shape[:2])
        seen = bool_mask(mask.mask_mod, b, h, q_idx, kv_idx)
        if mask._says_all:
            return seen
        part, full = mask._maps()
        i, j = (q_idx // self.size[0]).unsqueeze(-1), kv_idx // self.size[1]
        return (seen & part[..., i, j]) | full[..., i, j]

    def indices(self, columns):
        if isinstance(columns, slice):
            return _ops.arange(columns.start, columns.stop, device=self.device)
        return columns


def _taken(t, columns):
    """Some rows of keys or values."""
    return t[:, :, columns] if isinstance(columns, slice) else t.index_select(2, columns)


def _by_scored_kernel(query, key, value, block_mask, scale, enable_gqa, scored):
    """(output, lse) with a score_mod that the kernel computes: (number, tables) of kernel_score()."""
    options = {"scale": scale, "enable_gqa": enable_gqa}
    if block_mask is None:
        return _ops._scored_attention(query, key, value, *scored, **options)
    if block_mask._band is not None:
        left, right = block_mask._band
        return _ops._scored_attention(query, key, value, *scored, left=left, right=right, **options)
    rows, outs = _Rows(query, key, block_mask, gather=False), []
    for first, end, columns in rows:
        outs.append(
            _ops._scored_attention(
                query[:, :, first:end], _taken(key, columns), _taken(value, columns), *scored,
                attn_mask=rows.allowed(first, end, columns), first_query=first,
                first_key=columns.start, **options,
            )
        )  # fmt: skip
    return tuple(_ops.cat(parts, 2) for parts in zip(*outs))


def _by_kernel(query, key, value, block_mask, scale, enable_gqa):
    """(output, lse) of a mask without a score_mod."""
    options = {"scale": scale, "enable_gqa": enable_gqa}
    if block_mask is None:
        return _ops.flash_attention(query, key, value, **options)
    if block_mask._band is not None:
        left, right = block_mask._band
        return _ops.flash_attention(query, key, value, left=left, right=right, **options)
    rows, outs = _Rows(query, key, block_mask), []
    for first, end, columns in rows:
        outs.append(
            _ops.flash_attention(
                query[:, :, first:end], _taken(key, columns), _taken(value, columns),
                attn_mask=rows.allowed(first, end, columns), **options,
            )
        )  # fmt: skip
    return tuple(_ops.cat(parts, 2) for parts in zip(*outs))


def _by_operations(query, key, value, score_mod, block_mask, scale):
    """(output, lse, highest scores), some rows at a time; each is computed again for its gradient."""
    rows = _Rows(query, key, block_mask)
    batch, heads = query.shape[:2]
    shared = key.shape[1]
    b, h = (_ops.arange(n, device=query.device) for n in (batch, heads))
    wide = _ops.float64 if query.dtype == _ops.float64 else _ops.float32

    def part(query, key, value, first, end, columns):
        q = query[:, :, first:end].to(wide).unflatten(1, (shared, heads // shared))
        k, v = (_taken(t, columns).to(wide).unsqueeze(2) for t in (key, value))
        scores = ((q @ k.transpose(-1, -2)) * scale).flatten(1, 2)
        if score_mod is not None and 0 not in scores.shape:
            index = _ops.arange(first, end, device=query.device), rows.indices(columns)
            shape = scores.shape
            scores = over_all(score_mod, scores, b, h, *index).to(wide)
            if scores.shape != shape:
                raise _C.ShapeError(
                    f"{_NAME}: got {list(scores.shape[len(shape) :])} from score_mod for a score; expected "
                    "one number, shape []"
                )
        if block_mask is not None:
            scores = scores.masked_fill(~rows.allowed(first, end, columns), -math.inf)
        if scores.shape[-1] == 0:
            low = scores.new_full(scores.shape[:-1], -math.inf)
            return (q @ k.transpose(-1, -2) @ v).flatten(1, 2).to(query.dtype), low, low
        top = scores.detach().amax(-1)
        nothing = top == -math.inf  # zeros, in the gradient too
        open_scores = scores.masked_fill(nothing.unsqueeze(-1), 0.0)
        weights = open_scores.softmax(-1).masked_fill(nothing.unsqueeze(-1), 0.0)
        lse = open_scores.logsumexp(-1).masked_fill(nothing, -math.inf)
        out = weights.unflatten(1, (shared, heads // shared)) @ v
        return out.flatten(1, 2).to(query.dtype), lse, top

    outs = []
    # What went through vmap cannot be computed again under the levels of the first time.
    index = (_ops.arange(n, device=query.device) for n in (query.shape[2], key.shape[2]))
    again = score_mod is None or not key.shape[2] or is_pointwise(score_mod, wide, b, h, *index)
    for first, end, columns in rows:
        if _C.is_grad_enabled() and again:
            outs.append(
                checkpoint(part, query, key, value, first, end, columns, use_reentrant=False)
            )
        else:
            outs.append(part(query, key, value, first, end, columns))
    return tuple(_ops.cat(parts, 2) for parts in zip(*outs))


def flex_attention(
    query,
    key,
    value,
    score_mod=None,
    block_mask=None,
    scale=None,
    enable_gqa=False,
    return_lse=False,
    kernel_options=None,
    *,
    return_aux=None,
):
    """softmax(score_mod(scale query @ key.T)) @ value for query [B, H, L, E], key [B, Hk, S, E] and value
    [B, Hk, S, Ev]: [B, H, L, Ev].

    score_mod(score, b, h, q_idx, kv_idx) changes one score, in any operations on scalars and in what
    tensors of its closure hold at such indices; they get gradients. block_mask (create_block_mask) says
    which keys a query sees; one that sees nothing gives zeros. With enable_gqa H is a multiple of Hk.
    return_lse: (output, lse [B, H, L]); return_aux (an AuxRequest): (output, AuxOutput). kernel_options are
    accepted. ShapeError where shapes do not fit.
    """
    _check(query, key, value, score_mod, block_mask, enable_gqa)
    scale = 1 / math.sqrt(max(1, query.shape[-1])) if scale is None else scale
    wants = return_aux or AuxRequest(lse=return_lse)
    differentiable = _C.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    by_kernel = not wants.max_scores and not (wants.lse and differentiable)
    scored = None
    if 0 in query.shape[:3]:  # nothing is asked of score_mod and block_mask
        score_mod = block_mask = None
    if (
        score_mod is not None
        and by_kernel
        and (kernel_options or {}).get("BACKEND") != "OPERATIONS"
    ):
        scored = kernel_score(score_mod, query, key.shape[2])
    if scored is not None:
        out, lse = _by_scored_kernel(
            query, key, value, block_mask, scale, query.shape[1] != key.shape[1], scored
        )
        top = None
    elif score_mod is None and (by_kernel or 0 in query.shape[:3]):
        out, lse = _by_kernel(query, key, value, block_mask, scale, query.shape[1] != key.shape[1])
        top = lse  # asked for where both are empty
    else:
        out, lse, top = _by_operations(query, key, value, score_mod, block_mask, scale)
    if return_aux is not None:
        return out, AuxOutput(lse if wants.lse else None, top if wants.max_scores else None)
    return (out, lse) if return_lse else out
