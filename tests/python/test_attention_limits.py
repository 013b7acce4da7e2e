"""Attention of sizes, heads, lengths, pages and masks at the ends of what there is: the result that their
definition gives, or an error that says what was given; eager and captured."""

import numpy as np
import pytest
from captured_steps import CAPTURED, calls

import pyflame as pf
import pyflame.flash_attn as fa
import pyflame.nn.functional as F
from pyflame.nn.attention import flex_attention as flex

SDPA = F.scaled_dot_product_attention
NAN, INF = float("nan"), float("inf")


def padded(q, k, v, **options):
    return fa.flash_attn_func(*(t.transpose(1, 2) for t in (q, k, v)), **options).transpose(1, 2)


WAYS = {
    "sdpa": lambda *t: SDPA(*t, enable_gqa=True),
    "flash_attention": lambda *t: F.flash_attention(*t, enable_gqa=True)[0],
    "flash_attn_func": padded,
    "flex_attention": lambda *t: flex.flex_attention(*t, enable_gqa=True),
    "flex by operations": lambda *t: flex.flex_attention(
        *t, lambda s, b, h, i, j: s * (1 + 0 * i).to(s.dtype), enable_gqa=True
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "heads, shared, length, keys, e, ev",
    [
        (0, 0, 3, 3, 8, 8), (0, 2, 3, 3, 8, 8), (4, 2, 0, 3, 8, 8), (4, 2, 3, 0, 8, 8), (4, 4, 3, 5, 0, 4),
        (4, 2, 3, 5, 8, 0), (4, 4, 0, 0, 8, 8), (3, 1, 1, 1, 1, 1), (2, 1, 3, 5, 513, 3),
    ],
)  # fmt: skip
def test_sizes_of_nothing_and_of_one(way, heads, shared, length, keys, e, ev):
    rng = np.random.default_rng(0)
    shapes = (2, heads, length, e), (2, shared, keys, e), (2, shared, keys, ev)
    q, k, v = (pf.tensor(rng.standard_normal(s)).requires_grad_() for s in shapes)
    out = WAYS[way](q, k, v)
    assert out.shape == (2, heads, length, ev)
    out.sum().backward()
    for t in (q, k, v):
        assert t.grad.shape == t.shape and t.grad.isfinite().all()
    if 0 in (heads, length, ev):
        return
    repeats = heads // shared
    k, v = (t.detach().cpu().numpy().repeat(repeats, 1) for t in (k, v))
    scores = q.detach().cpu().numpy() @ np.swapaxes(k, -1, -2) / max(e, 1) ** 0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e9))
    want = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300) @ v
    np.testing.assert_allclose(out.detach().cpu().numpy(), want, atol=1e-12)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("heads, shared", [(4, 0), (1, 0), (3, 2), (2, 4)])
def test_heads_that_do_not_divide(way, heads, shared):
    q, k = pf.zeros(1, heads, 3, 8), pf.zeros(1, shared, 3, 8)
    with pytest.raises(
        pf.ShapeError, match=f"got {heads} heads of query.* {shared} of key.*multiple"
    ):
        WAYS[way](q, k, k)


@pytest.mark.parametrize("dtype", [pf.float32, pf.bfloat16, pf.float64])
@pytest.mark.parametrize("how", ["bool", "numbers", "a row", "block", "window", "captured"])
def test_masks_that_hide_everything(how, dtype):
    """Zeros, and no gradient; where one row sees nothing, that row."""
    q, k, v = (pf.randn(2, 3, 40, 16).to(dtype).requires_grad_() for _ in range(3))
    mask = pf.zeros(40, 40, dtype=pf.bool)
    hidden = slice(None)
    if how == "a row":
        mask, hidden = pf.ones(40, 40, dtype=pf.bool), slice(7, 8)
        mask[7] = False
    if how == "numbers":
        mask = pf.full((40, 40), -INF, dtype=dtype)
    if how == "block":
        none = flex.create_block_mask(lambda b, h, i, j: i < 0, None, None, 40, 40)
        out = flex.flex_attention(q, k, v, block_mask=none)
    elif how == "window":  # more queries than keys: the first ones stand before all
        k, v = (pf.randn(2, 3, 4, 16).to(dtype).requires_grad_() for _ in range(2))
        out = F.flash_attention(q, k, v, right=0, bottom_right=True)[0]
        hidden = slice(0, 36)
    elif how == "captured":
        call = pf.compile(lambda q, k, v: SDPA(q, k, v, attn_mask=mask), **CAPTURED)
        for _ in range(5):
            call(q, k, v).sum().backward()
        q.grad = k.grad = v.grad = None
        out = call(q, k, v)
        assert calls(call)[0] >= 3
    else:
        out = SDPA(q, k, v, attn_mask=mask)
    out.sum().backward()
    out = out.detach()
    assert out.isfinite().all() and (out[:, :, hidden] == 0).all()
    assert all(t.grad.isfinite().all() for t in (q, k, v)) and (q.grad[:, :, hidden] == 0).all()
    if how == "a row":
        assert (out[:, :, 8:] != 0).any() and (q.grad[:, :, 8:] != 0).any()


def starts(*numbers, dtype=pf.int32):
    return pf.tensor(numbers, dtype=dtype)


GOOD = (0, 1, 4)


def varlen(a=GOOD, b=GOOD, most=4, **options):
    x = pf.randn(4, 2, 8)
    a, b = (starts(*t) if isinstance(t, tuple) else t for t in (a, b))
    return fa.flash_attn_varlen_func(x, x, x, a, b, most, most, **options)


def cached(new=None, pages=None, lengths=(3, 7), **options):
    rng = np.random.default_rng(1)
    q = pf.tensor(rng.standard_normal((2, 1, 2, 8)))
    k, v = (
        pf.tensor(rng.standard_normal((6, 4, 2, 8) if pages is not None else (2, 8, 2, 8)))
        for _ in range(2)
    )
    before = k.clone()
    if new is not None:
        options["k"], options["v"] = pf.ones(*new).double(), pf.ones(*new).double()
    try:
        lengths = starts(*lengths) if isinstance(lengths, tuple) else lengths
        return fa.flash_attn_with_kvcache(
            q, k, v, cache_seqlens=lengths, block_table=pages, **options
        )
    except Exception:
        assert pf.equal(k, before), "a call that failed has written to the cache"
        raise


def scored(score, **options):
    q = pf.zeros(1, 2, 5, 8)
    return flex.flex_attention(q, q, q, score, **options)


def blocks(size):
    return flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 5, 5, BLOCK_SIZE=size)


X = (1, 4, 2, 8)
NEW = (2, 1, 2, 8)
WRONG = {
    "no tensor": (lambda: fa.flash_attn_func(None, pf.zeros(X), pf.zeros(X)), TypeError, "q of type NoneType"),
    "window of one": (lambda: padded(*[pf.zeros(X)] * 3, window_size=1), pf.ValueError, "window_size 1; expected two"),
    "window text": (lambda: padded(*[pf.zeros(X)] * 3, window_size="ab"), pf.ValueError, "window_size 'ab'; expected two"),
    "softcap nan": (lambda: padded(*[pf.zeros(X)] * 3, softcap=NAN), pf.ValueError, "softcap nan"),
    "dropout nan": (lambda: padded(*[pf.zeros(X)] * 3, dropout_p=NAN), pf.ValueError, "dropout_p nan"),
    "keys and values": (lambda: padded(pf.zeros(X), pf.zeros(X), pf.zeros(1, 4, 3, 8)), pf.ShapeError, "expected"),
    "batches": (lambda: SDPA(pf.zeros(2, 2, 3, 4), *[pf.zeros(3, 2, 3, 4)] * 2), pf.ShapeError, "sizes must be equal or 1"),
    "vectors": (lambda: SDPA(*[pf.zeros(4)] * 3), pf.ShapeError, "expected"),
    "integers": (lambda: SDPA(*[pf.zeros(X, dtype=pf.int64)] * 3), pf.DTypeError, "floating"),
    "a mask of more rows": (lambda: SDPA(*[pf.zeros(X)] * 3, attn_mask=pf.zeros(3, 2)), pf.ShapeError, "attn_mask"),
    "starts: one is less": (lambda: varlen(a=starts(0, 4)), pf.ShapeError, "cu_seqlens"),
    "starts: none": (lambda: varlen(a=starts(), b=starts()), pf.ShapeError, "cu_seqlens"),
    "starts: float": (lambda: varlen(a=starts(*GOOD, dtype=pf.float32)), pf.DTypeError, "cu_seqlens_q of dtype float32"),
    "starts: bool": (lambda: varlen(b=starts(0, 1, 1, dtype=pf.bool)), pf.DTypeError, "cu_seqlens_k of dtype bool"),
    "starts: a list": (lambda: varlen(a=[0, 1, 4]), TypeError, "cu_seqlens_q=list"),
    "starts: missing": (lambda: varlen(a=None), pf.ValueError, "cu_seqlens_q"),
    "longest below 0": (lambda: varlen(most=-1), pf.ValueError, "max_seqlen_q -1"),
    "lengths: float": (lambda: cached(lengths=starts(3, 7, dtype=pf.float32)), pf.DTypeError, "cache_seqlens of dtype"),
    "lengths: a list": (lambda: cached(lengths=[3, 7]), TypeError, "cache_seqlens of type list"),
    "lengths: three": (lambda: cached(lengths=(3, 7, 1)), pf.ShapeError, r"cache_seqlens \[3\]"),
    "row: float": (lambda: cached(cache_batch_idx=pf.zeros(2)), pf.DTypeError, "cache_batch_idx of dtype"),
    "new keys: heads": (lambda: cached((2, 1, 3, 8)), pf.ShapeError, r"k \[2, 1, 3, 8\]; expected \[2, 1, 2, 8\]"),
    "new keys: batch": (lambda: cached((1, 1, 2, 8)), pf.ShapeError, r"k \[1, 1, 2, 8\]; expected \[2, 1, 2, 8\]"),
    "new keys: columns": (lambda: cached((2, 1, 2, 9)), pf.ShapeError, r"expected \[2, 1, 2, 8\]"),
    "angles: wide": (lambda: cached(NEW, rotary_cos=pf.zeros(9, 5), rotary_sin=pf.zeros(9, 5)), pf.ShapeError, "rotary_cos"),
    "angles: unlike": (lambda: cached(NEW, rotary_cos=pf.zeros(9, 4), rotary_sin=pf.zeros(8, 4)), pf.ShapeError, "rotary_cos"),
    "pages: a row": (lambda: cached(pages=starts(0, 1)), pf.ShapeError, r"block_table \[2\]"),
    "pages: three": (lambda: cached(pages=starts(0, 1, 2).reshape(3, 1)), pf.ShapeError, r"block_table \[3, 1\]"),
    "pages: float": (lambda: cached(pages=pf.zeros(2, 2)), pf.DTypeError, "block_table of dtype"),
    "block of nothing": (lambda: blocks(0), pf.ValueError, "BLOCK_SIZE 0"),
    "block below 0": (lambda: blocks((16, -1)), pf.ValueError, "BLOCK_SIZE"),
    "block of three": (lambda: blocks((16, 16, 16)), pf.ValueError, "BLOCK_SIZE"),
    "block of text": (lambda: blocks("a"), pf.ValueError, "BLOCK_SIZE 'a'"),
    "scores: a vector": (lambda: scored(lambda s, b, h, i, j: pf.ones(3)), pf.ShapeError, r"got \[3\] from score_mod"),
    "scores: nothing": (lambda: scored(lambda s, b, h, i, j: None), pf.ValueError, "result of type NoneType"),
    "scores: arguments": (lambda: scored(lambda s: s), TypeError, "positional argument"),
    "a mask of 0 batches": (
        lambda: scored(None, block_mask=flex.create_block_mask(lambda b, h, i, j: i >= j, 0, None, 5, 5)),
        pf.ShapeError, "0 batches",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said(what):
    call, error, words = WRONG[what]
    with pytest.raises(error, match=words):
        call()


NUMBERS = {
    "starts fall": (lambda: varlen(b=(0, 3, 1)), "cu_seqlens_k with 1 at position 2"),
    "starts beyond": (lambda: varlen(a=(0, 1, 5)), "cu_seqlens_q with 5 at position 2"),
    "starts below 0": (lambda: varlen(a=(-1, 1, 4)), "cu_seqlens_q with -1 at position 0"),
    "starts far beyond": (lambda: varlen(a=(0, 2**31 - 1, 4)), "cu_seqlens_q with 2147483647"),
    "longer than said": (lambda: varlen(most=1), "cu_seqlens_q with 3 rows in sequence 1"),
    "used beyond": (lambda: varlen(seqused_k=starts(1, 4)), "4 keys from row 1 on for sequence 1"),
    "used below 0": (lambda: varlen(seqused_k=starts(1, -1)), "-1 keys that are used of sequence 1"),
    "used from below 0": (lambda: varlen(b=(0, -1, 4), seqused_k=starts(1, 2)), "2 keys from row -1 on"),
    "lengths beyond": (lambda: cached(lengths=(3, 9)), "9 keys that are used of sequence 1"),
    "a length beyond": (lambda: cached(lengths=9), "9 keys that are used of sequence 0"),
    "no room for new keys": (lambda: cached(NEW, lengths=(3, 8)), "cache_seqlens 8 for sequence 1; .* from 0 to 7"),
    "new keys before 0": (lambda: cached(NEW, lengths=(-1, 7)), "cache_seqlens -1 for sequence 0"),
    "more than the cache": (lambda: cached((2, 9, 2, 8), lengths=(0, 0)), "cache_seqlens 0 for sequence 0"),
    "row beyond": (lambda: cached(cache_batch_idx=starts(0, 2)), "cache_batch_idx 2 for sequence 1; .* from 0 to 1"),
    "row below 0": (lambda: cached(cache_batch_idx=starts(-1, 0)), "cache_batch_idx -1 for sequence 0"),
    "begins behind its end": (lambda: cached(cache_leftpad=starts(0, 8)), "cache_leftpad 8 for sequence 1; .* from 0 to 7"),
    "begins before 0": (lambda: cached(cache_leftpad=starts(0, -1)), "cache_leftpad -1 for sequence 1"),
    "page beyond": (lambda: cached(pages=starts(0, 1, 2, 6).reshape(2, 2)), "page 6 for sequence 1"),
    "page below 0": (lambda: cached(pages=starts(0, 1, 2, -1).reshape(2, 2)), "page -1 for sequence 1"),
    "more than pages": (lambda: cached(pages=starts(0, 1, 2, 3).reshape(2, 2), lengths=(3, 9)), "9 keys"),
    "no room on pages": (
        lambda: cached(NEW, starts(0, 1, 2, 3).reshape(2, 2), (3, 8)), "cache_seqlens 8 for sequence 1",
    ),
    "angles of fewer positions": (
        lambda: cached(NEW, rotary_cos=pf.zeros(7, 4), rotary_sin=pf.zeros(7, 4)), "index 7 is out of bounds",
    ),
    "a bias of fewer rows": (lambda: scored(lambda s, b, h, i, j: s + pf.ones(3)[i]), "index 3 is out of bounds"),
}  # fmt: skip


@pytest.mark.parametrize("what", NUMBERS)
def test_numbers_out_of_range(what):
    """Told at the call on the CPU; elsewhere told by the operation that finds them, or nothing outside of
    the tensors is read."""
    call, words = NUMBERS[what]
    if pf.zeros(1).is_cpu:
        with pytest.raises((pf.ValueError, pf.IndexError), match=words):
            call()
        return
    try:
        out = call()
        assert out.isfinite().all()
        pf.synchronize()
    except (pf.ValueError, pf.IndexError) as e:
        assert "out of bounds" in str(e) or "expected" in str(e)


def test_a_cache_that_is_full_at_a_captured_call():
    """The write that has no room says so, and the next call goes on."""
    cache, q = pf.randn(2, 8, 2, 8), pf.randn(2, 1, 2, 8)
    lengths = pf.tensor([3, 7], dtype=pf.int32)

    def step(q, k):
        return fa.flash_attn_with_kvcache(q, cache, cache, k, k, cache_seqlens=lengths)

    c = pf.compile(step, **CAPTURED)
    with pf.no_grad():
        for n in range(6):
            k = pf.full((2, 1, 2, 8), float(n))
            got = c(q, k)
            assert pf.equal(got, step(q, k))
        assert calls(c)[0] == 3, c.report()
        before = cache.clone()
        lengths[1] = 8
        with pytest.raises(pf.IndexError, match="index 8 is out of bounds for a size of 8"):
            c(q, k * 5)
            pf.synchronize()
        lengths[1] = 7
        cache.copy_(before)
        assert pf.equal(c(q, k), step(q, k)) and calls(c)[0] >= 4


def test_numbers_of_another_device():
    """An index that somebody put on another device is no index here."""
    here = pf.zeros(1).device.type  # by name: what was given none goes where the others are
    other = "cpu" if here != "cpu" else "paranoid"
    far = pf.tensor(GOOD, dtype=pf.int32, device=other)
    x = pf.randn(4, 2, 8, device=here)
    good = pf.tensor(GOOD, dtype=pf.int32, device=here)
    with pytest.raises(pf.DeviceError, match="flash_attention"):
        fa.flash_attn_varlen_func(x, x, x, far, good, 4, 4)
    cache = pf.randn(2, 8, 2, 8, device=here)
    with pytest.raises(pf.DeviceError):
        fa.flash_attn_with_kvcache(cache[:, :1], cache, cache, cache_seqlens=far[:2])


@pytest.mark.parametrize("length, keys", [(0, 5), (5, 0), (0, 0)])
def test_blocks_of_nothing(length, keys):
    q, k = pf.ones(2, 3, length, 8, requires_grad=True), pf.ones(2, 3, keys, 8)
    for mod in (lambda b, h, i, j: i >= j, lambda b, h, i, j: (i + j) % 3 == 0):
        mask = flex.create_block_mask(mod, None, None, length, keys)
        for score in (None, lambda s, b, h, i, j: s + i):
            for aux in (flex.AuxRequest(), flex.AuxRequest(lse=True, max_scores=True)):
                out, more = flex.flex_attention(q, k, k, score, mask, return_aux=aux)
                assert out.shape == q.shape and (out == 0).all()
                out.sum().backward()
                for t, wanted in zip(more, aux):
                    assert (t.shape == (2, 3, length)) if wanted else t is None
                    assert not wanted or (t == -INF).all()


def test_scores_that_are_no_numbers():
    """NaN comes through; what is -inf everywhere gives zeros."""
    q, k, v = (pf.randn(1, 2, 5, 8) for _ in range(3))
    for out in (
        SDPA(q, k, v, attn_mask=pf.full((5, 5), NAN)),
        SDPA(q, k, v, scale=NAN),
        flex.flex_attention(q, k, v, lambda s, b, h, i, j: s * NAN),
        flex.flex_attention(q, k, v, scale=NAN),
    ):
        assert out.isnan().all()
    hidden = flex.flex_attention(q, k, v, lambda s, b, h, i, j: pf.where(i < 0, s, -INF))
    assert (hidden == 0).all()


@pytest.mark.parametrize("dtype", [pf.float32, pf.float16])
@pytest.mark.parametrize("length, keys", [(0, 5), (0, 127), (3, 0), (0, 0)])
def test_gradients_of_masks_over_nothing(length, keys, dtype):
    """Nothing is written behind an empty one (the paranoid device looks); shared rows and columns get zeros."""
    for shape in ((2, length, keys), (length, keys), (1, keys), (length, 1), (1, 1), (2, 1, 1)):
        q, k, v = (pf.randn(2, n, 8, dtype=dtype) for n in (length, keys, keys))
        mask = pf.randn(*shape, dtype=dtype, requires_grad=True)
        SDPA(q.requires_grad_(), k, v, attn_mask=mask).sum().backward()
        assert mask.grad.shape == shape and not mask.grad.count_nonzero().item()
        assert not q.grad.count_nonzero().item()
