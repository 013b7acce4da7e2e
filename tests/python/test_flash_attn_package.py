"""pyflame.flash_attn: the call forms of the package flash-attn, against NumPy in float64."""

import inspect

import numpy as np
import pytest
from attention_reference import attention as reference

import pyflame as pf
import pyflame.flash_attn as fa

pytestmark = pytest.mark.kernels(0.3)

BOUND = {pf.float64: 1e-12, pf.float32: 2e-5, pf.bfloat16: 2e-2, pf.float16: 3e-3}
OPTIONS = [
    {},
    {"causal": True},
    {"window_size": (5, 2)},
    {"causal": True, "window_size": (7, 0), "softcap": 2.0, "softmax_scale": 0.4},
    {"alibi_slopes": "heads"},
    {"alibi_slopes": "samples", "causal": True},
]


def wide(t):
    return t.detach().to(pf.float64).numpy()


def draw(rng, shape, dtype):
    return pf.tensor(rng.standard_normal(shape)).to(dtype)


def split(options, batch, heads, rng):
    """Keywords of the package and those of the reference, with slopes [batch, heads, 1, 1]."""
    kind = options.get("alibi_slopes")
    ours, theirs = dict(options), {"bottom_right": True}
    if kind:
        slopes = rng.random((heads,) if kind == "heads" else (batch, heads)).astype(np.float32)
        ours["alibi_slopes"] = pf.tensor(slopes)
        theirs["slopes"] = np.broadcast_to(slopes, (batch, heads)).astype(float)[..., None, None]
    window = options.get("window_size", (-1, -1))
    theirs |= {"left": window[0], "right": 0 if options.get("causal") else window[1]}
    theirs["softcap"] = options.get("softcap", 0.0)
    theirs["scale"] = options.get("softmax_scale")
    return ours, theirs


def by_heads(x):
    return np.swapaxes(x, -2, -3)


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize("options", OPTIONS)
def test_padded_batches(options, dtype):
    rng = np.random.default_rng(0)
    batch, length, keys, heads, kv, e = 2, 13, 29, 6, 2, 16
    q, k, v = (
        draw(rng, s, dtype).requires_grad_()
        for s in ((batch, length, heads, e), (batch, keys, kv, e), (batch, keys, kv, e))
    )
    g = draw(rng, (batch, length, heads, e), dtype)
    ours, theirs = split(options, batch, heads, rng)
    out, lse, probs = fa.flash_attn_func(q, k, v, **ours, return_attn_probs=True)
    assert probs is None and out.is_contiguous()
    out.backward(g)
    wq, wk, wv, wg = (by_heads(wide(t)) for t in (q, k, v, g))
    wk, wv = (x.repeat(heads // kv, 1) for x in (wk, wv))
    want = reference(wq, wk, wv, wg, **theirs)
    bound = BOUND[dtype] * 4
    np.testing.assert_allclose(wide(out), by_heads(want[0]), atol=bound)
    np.testing.assert_allclose(wide(lse), want[1], atol=bound)
    np.testing.assert_allclose(wide(q.grad), by_heads(want[2]), atol=bound)
    shape = (batch, kv, heads // kv, keys, e)
    for t, x in ((k, want[3]), (v, want[4])):
        np.testing.assert_allclose(wide(t.grad), by_heads(x.reshape(shape).sum(2)), atol=bound * 2)
    np.testing.assert_array_equal(wide(fa.flash_attn_func(q, k, v, **ours)), wide(out))
    packed = fa.flash_attn_kvpacked_func(q, pf.stack([k, v], 2), **ours)
    np.testing.assert_array_equal(wide(packed), wide(out))


LENGTHS = [
    ([5, 0, 17, 1, 70], [5, 3, 40, 1, 70]),
    ([0, 0], [4, 0]),
    ([9], [130]),
    ([33, 64, 2], [0, 64, 5]),
]


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize("lengths, keys", LENGTHS)
@pytest.mark.parametrize("options", OPTIONS)
def test_sequences_of_several_lengths(options, lengths, keys, dtype):
    rng = np.random.default_rng(1)
    heads, kv, e, more = 4, 2, 12, 3  # rows behind the last sequence belong to none
    batch = len(lengths)
    starts_q, starts_k = (np.cumsum([0, *n]).astype(np.int32) for n in (lengths, keys))
    q = draw(rng, (sum(lengths) + more, heads, e), dtype).requires_grad_()
    k = draw(rng, (sum(keys) + more, kv, e), dtype).requires_grad_()
    v = draw(rng, (sum(keys) + more, kv, e), dtype).requires_grad_()
    g = draw(rng, q.shape, dtype)
    ours, theirs = split(options, batch, heads, rng)
    out, lse, _ = fa.flash_attn_varlen_func(
        q, k, v, pf.tensor(starts_q), pf.tensor(starts_k), max(lengths), max(keys), **ours,
        return_attn_probs=True,
    )  # fmt: skip
    out.backward(g)
    wq, wk, wv, wg = (by_heads(wide(t)) for t in (q, k, v, g))
    wk, wv = (x.repeat(heads // kv, 0) for x in (wk, wv))
    want = [np.zeros_like(x) for x in (wq, wq, wk, wv)]
    sums = np.full((heads, q.shape[0]), -np.inf)
    slopes = theirs.pop("slopes", None)
    for b in range(batch):
        i, j = slice(*starts_q[b : b + 2]), slice(*starts_k[b : b + 2])
        r = reference(
            wq[:, i], wk[:, j], wv[:, j], wg[:, i], slopes=None if slopes is None else slopes[b], **theirs
        )  # fmt: skip
        want[0][:, i], sums[:, i], want[1][:, i], want[2][:, j], want[3][:, j] = r[:5]
    bound = BOUND[dtype] * 4
    np.testing.assert_allclose(wide(out), by_heads(want[0]), atol=bound)
    np.testing.assert_allclose(wide(lse), sums, atol=bound)
    np.testing.assert_allclose(wide(q.grad), by_heads(want[1]), atol=bound)
    for t, x in ((k, want[2]), (v, want[3])):
        x = x.reshape(kv, heads // kv, *x.shape[1:]).sum(1)
        np.testing.assert_allclose(wide(t.grad), by_heads(x), atol=bound * 2)


@pytest.mark.parametrize("dtype", [pf.float32, pf.bfloat16])
def test_dropout_of_sequences_has_one_draw_for_both_passes(dtype):
    rng = np.random.default_rng(2)
    lengths = [7, 1, 20]
    starts = pf.tensor(np.cumsum([0, *lengths]).astype(np.int32))
    q, k = (draw(rng, (sum(lengths), 2, 8), dtype).requires_grad_() for _ in range(2))
    eye = pf.zeros(sum(lengths), 2, 20, dtype=dtype)  # the weights themselves come out
    for b, n in enumerate(lengths):
        first = sum(lengths[:b])
        eye[first : first + n, :, :n] = pf.eye(n, dtype=dtype).unsqueeze(1)
    p = 0.4

    def run(v):
        pf.manual_seed(9)
        return fa.flash_attn_varlen_func(q, k, v, starts, starts, 20, 20, dropout_p=p, causal=True)

    weights = wide(run(eye))
    whole = wide(fa.flash_attn_varlen_func(q, k, eye, starts, starts, 20, 20, causal=True))
    np.testing.assert_allclose(weights[weights != 0], whole[weights != 0] / (1 - p), rtol=2e-2)
    kept = (weights != 0)[whole > 0]
    assert 0.45 < kept.mean() < 0.75  # of 484, 0.6 are expected
    v = draw(rng, (sum(lengths), 2, 8), dtype).requires_grad_()
    g = draw(rng, v.shape, dtype)
    out = run(v)
    out.backward(g)
    for b, n in enumerate(lengths):
        i = slice(sum(lengths[:b]), sum(lengths[: b + 1]))
        w = by_heads(weights[i])[..., :n]
        factors = np.where(w != 0, 65536 / (65536 - round(p * 65536)), 0.0)
        parts = [by_heads(wide(t)[i]) for t in (q, k, v, g)]
        want = reference(*parts, right=0, factors=factors)
        bound = BOUND[dtype] * 4
        np.testing.assert_allclose(wide(out)[i], by_heads(want[0]), atol=bound)
        for t, x in zip((q, k, v), want[2:5]):
            np.testing.assert_allclose(wide(t.grad)[i], by_heads(x), atol=bound)


@pytest.mark.parametrize("dtype", [pf.float64, pf.float32, pf.bfloat16])
@pytest.mark.parametrize("paged", [0, 64, 5])
@pytest.mark.parametrize("options", OPTIONS)
def test_decoding_equals_the_whole(options, paged, dtype):
    """Step by step over a cache as all at once."""
    rng = np.random.default_rng(3)
    batch, heads, kv, e, room = 3, 4, 2, 16, 130
    before = np.array([100, 0, 17])
    steps = [1, 4, 1]
    ours, theirs = split(options, batch, heads, rng)
    total = before + sum(steps)
    ks, vs = (rng.standard_normal((batch, room, kv, e)) for _ in range(2))
    q = rng.standard_normal((batch, sum(steps), heads, e))
    if paged:
        pages = -(-room // paged)
        table = rng.permutation(batch * pages).reshape(batch, pages).astype(np.int32)
        caches = [pf.zeros(batch * pages, paged, kv, e, dtype=dtype) for _ in range(2)]
    else:
        caches = [pf.zeros(batch + 1, room, kv, e, dtype=dtype) for _ in range(2)]
    rows = np.array([2, 0, 3])
    for cache, x in zip(caches, (ks, vs)):
        for b in range(batch):
            for j in range(before[b]):
                at = (int(table[b, j // paged]), j % paged) if paged else (int(rows[b]), j)
                cache[at] = pf.tensor(x[b, j]).to(dtype)
    where = {"block_table": pf.tensor(table)} if paged else {
        "cache_batch_idx": pf.tensor(rows.astype(np.int32))
    }  # fmt: skip
    at = 0
    outs = []
    for n in steps:
        places = before[:, None] + at + np.arange(n)
        new = [
            pf.tensor(np.take_along_axis(x, places[..., None, None], 1)).to(dtype) for x in (ks, vs)
        ]
        seqlens = pf.tensor((before + at).astype(np.int32))
        out, lse = fa.flash_attn_with_kvcache(
            pf.tensor(q[:, at : at + n]).to(dtype), *caches, *new, cache_seqlens=seqlens, **where, **ours,
            return_softmax_lse=True,
        )  # fmt: skip
        assert lse.shape == (batch, heads, n)
        outs.append((wide(out), wide(lse), before + at + n))
        at += n
    at = 0
    slopes = theirs.pop("slopes", None)
    for n, (out, lse, seen) in zip(steps, outs):
        for b in range(batch):
            wk, wv = (
                by_heads(wide(pf.tensor(x[b, : seen[b]]).to(dtype))).repeat(heads // kv, 0)
                for x in (ks, vs)
            )
            wq = by_heads(wide(pf.tensor(q[b, at : at + n]).to(dtype)))
            want = reference(wq, wk, wv, slopes=None if slopes is None else slopes[b], **theirs)
            np.testing.assert_allclose(out[b], by_heads(want[0]), atol=BOUND[dtype] * 3)
            np.testing.assert_allclose(lse[b], want[1], atol=BOUND[dtype] * 3)
        at += n
    assert (total == outs[-1][2]).all()


@pytest.mark.parametrize("interleaved", [True, False])
def test_rotary_keys_and_left_padding(interleaved):
    rng = np.random.default_rng(4)
    batch, heads, e, room, r = 2, 2, 8, 20, 6
    cos, sin = (f(rng.random((room, r // 2)) * 6) for f in (np.cos, np.sin))
    caches = rng.standard_normal((2, batch, room, heads, e))
    q, k, v = rng.standard_normal((3, batch, 3, heads, e))
    there, pad = np.array([9, 12]), np.array([2, 0])

    def turned(x, first):
        x = x.copy()
        for i in range(3):
            c, s = cos[first + i], sin[first + i]
            a, b = (
                (slice(0, r, 2), slice(1, r, 2))
                if interleaved
                else (slice(0, r // 2), slice(r // 2, r))
            )
            one, two = x[i, :, a].copy(), x[i, :, b].copy()
            x[i, :, a], x[i, :, b] = one * c - two * s, two * c + one * s
        return x

    held = [pf.tensor(c) for c in caches]
    out = fa.flash_attn_with_kvcache(
        pf.tensor(q), *held, pf.tensor(k), pf.tensor(v), pf.tensor(cos), pf.tensor(sin),
        cache_seqlens=pf.tensor(there.astype(np.int32)), cache_leftpad=pf.tensor(pad.astype(np.int32)),
        causal=True, rotary_interleaved=interleaved,
    )  # fmt: skip
    for b in range(batch):
        caches[0, b, there[b] : there[b] + 3] = turned(k[b], there[b])
        caches[1, b, there[b] : there[b] + 3] = v[b]
        seen = slice(pad[b], there[b] + 3)
        want = reference(
            by_heads(turned(q[b], there[b])), by_heads(caches[0, b, seen]), by_heads(caches[1, b, seen]),
            right=0, bottom_right=True,
        )  # fmt: skip
        np.testing.assert_allclose(wide(out)[b], by_heads(want[0]), atol=1e-12)
    for mine, c in zip(held, caches):
        np.testing.assert_allclose(mine.numpy(), c, atol=1e-15)


def test_padding_comes_and_goes():
    rng = np.random.default_rng(5)
    x = pf.tensor(rng.standard_normal((3, 6, 2)))
    mask = pf.tensor([[1, 1, 0, 0, 0, 0], [0, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0]])
    rows, places, starts, longest, used = fa.unpad_input(x, mask)
    assert starts.tolist() == [0, 2, 6, 6] and longest == 4 and used.tolist() == [2, 4, 0]
    assert starts.dtype == pf.int32
    back = fa.pad_input(rows, places, 3, 6)
    np.testing.assert_array_equal(back.numpy(), x.numpy() * mask.numpy()[..., None])


def test_what_is_wrong_is_said():
    q = pf.zeros(1, 4, 3, 8)
    with pytest.raises(pf.ShapeError, match="enable_gqa"):
        fa.flash_attn_func(q, pf.zeros(1, 4, 2, 8), pf.zeros(1, 4, 2, 8))
    with pytest.raises(ValueError, match="window_size"):
        fa.flash_attn_func(q, q, q, window_size=(-2, 0))
    with pytest.raises(ValueError, match="softcap"):
        fa.flash_attn_func(q, q, q, softcap=-1.0)
    with pytest.raises(ValueError, match="dropout_p"):
        fa.flash_attn_func(q, q, q, dropout_p=1.5)
    with pytest.raises(pf.ShapeError, match="alibi_slopes"):
        fa.flash_attn_func(q, q, q, alibi_slopes=pf.zeros(4))
    with pytest.raises(pf.ShapeError, match="expected"):
        fa.flash_attn_func(q[0], q[0], q[0])
    x = pf.zeros(4, 3, 8)
    good, long = pf.tensor([0, 1, 4], dtype=pf.int32), pf.tensor([0, 4], dtype=pf.int32)
    with pytest.raises(pf.ShapeError, match="cu_seqlens"):
        fa.flash_attn_varlen_func(x, x, x, good, long, 4, 4)
    with pytest.raises(pf.DTypeError, match="cu_seqlens_q"):
        fa.flash_attn_varlen_func(x, x, x, good.float(), good, 4, 4)
    table = pf.zeros(2, 1, dtype=pf.int32)
    with pytest.raises(ValueError, match="block_table"):
        fa.flash_attn_varlen_func(
            x.clone().requires_grad_(), q, q, good, good, 4, 4, block_table=table
        )
    with pytest.raises(ValueError, match="cache_seqlens"):
        fa.flash_attn_with_kvcache(q, q, q, q, q)
    with pytest.raises(pf.ShapeError, match="cache_seqlens"):
        fa.flash_attn_with_kvcache(q, q, q, cache_seqlens=pf.zeros(3, dtype=pf.int32))


@pytest.mark.parametrize("bad", [[0, 3, 2], [0, 2, 5], [-1, 2, 4]])
def test_starts_that_fall_or_reach_too_far(bad):
    x = pf.tensor(np.random.default_rng(6).standard_normal((4, 3, 8)))
    good, bad = pf.tensor([0, 1, 4], dtype=pf.int32), pf.tensor(bad, dtype=pf.int32)
    if x.is_cpu:
        for a, b in ((good, bad), (bad, good)):
            with pytest.raises(ValueError, match="cu_seqlens"):
                fa.flash_attn_varlen_func(x, x, x, a, b, 4, 4)
    else:  # nothing outside is read: the stand-in's memory lies between guard pages
        for a, b in ((good, bad), (bad, good)):
            assert fa.flash_attn_varlen_func(x, x, x, a, b, 4, 4).isfinite().all()


@pytest.mark.parametrize(
    "used, table, error",
    [
        ([5, 9], None, "9 keys that are used of sequence 1"),
        ([-1, 2], None, "-1 keys that are used of sequence 0"),
        ([5, 13], [[0, 1, 2], [3, 4, 5]], "13 keys that are used of sequence 1"),
        ([5, 9], [[0, 1, 2], [3, 4, 6]], "page 6 for sequence 1"),
        ([5, 8], [[0, -1, 2], [3, 4, 6]], "page -1 for sequence 0"),
        ([4, 8], [[0, -1, 9], [3, 4, 6]], None),  # pages that nobody uses
    ],
)
def test_keys_that_a_cache_does_not_have(used, table, error):
    """Said on the CPU; elsewhere nothing outside is read."""
    rng = np.random.default_rng(7)
    q = pf.tensor(rng.standard_normal((2, 1, 3, 8)))
    cache = pf.tensor(rng.standard_normal((6, 4, 3, 8) if table else (2, 8, 3, 8)))
    lengths = pf.tensor(used, dtype=pf.int32)
    pages = pf.tensor(table, dtype=pf.int32) if table else None

    def attend():
        return fa.flash_attn_with_kvcache(
            q, cache, cache, cache_seqlens=lengths, block_table=pages, causal=True
        )

    if error and q.is_cpu:
        with pytest.raises((ValueError, pf.IndexError), match=error):
            attend()
    else:
        assert attend().isfinite().all()


def test_sequences_longer_than_was_said():
    x, starts = pf.randn(6, 2, 8), pf.tensor([0, 1, 6], dtype=pf.int32)
    if x.is_cpu:
        for most in ((4, 5), (5, 4)):
            with pytest.raises(ValueError, match=r"cu_seqlens_[qk] with 5 rows in sequence 1"):
                fa.flash_attn_varlen_func(x, x, x, starts, starts, *most)
    assert fa.flash_attn_varlen_func(x, x, x, starts, starts, 5, 7).isfinite().all()


def test_the_call_forms_are_those_of_the_package():
    positional = (
        "q k v dropout_p softmax_scale causal window_size softcap alibi_slopes deterministic"
    )
    got = list(inspect.signature(fa.flash_attn_func).parameters)
    assert got == [*positional.split(), "return_attn_probs"]
    got = list(inspect.signature(fa.flash_attn_varlen_func).parameters)
    lengths = "q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k"
    assert got[:-1] == [
        *lengths.split(),
        *positional.split()[3:],
        "return_attn_probs",
        "block_table",
    ]


def test_pytorchs_function_for_sequences():
    from pyflame.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out

    rng = np.random.default_rng(10)
    starts = pf.tensor([0, 4, 11], dtype=pf.int32)
    q, k, v = (draw(rng, (11, 2, 8), pf.float64) for _ in range(3))
    got, lse = varlen_attn(
        q, k, v, starts, starts, 7, 7, window_size=(3, 0), return_aux=AuxRequest(lse=True)
    )
    want, sums, _ = fa.flash_attn_varlen_func(
        q, k, v, starts, starts, 7, 7, window_size=(3, 0), return_attn_probs=True
    )
    np.testing.assert_array_equal(wide(got), wide(want))
    np.testing.assert_array_equal(wide(lse), wide(sums))
    out = pf.zeros_like(q)
    assert varlen_attn_out(out, q, k, v, starts, starts, 7, 7, window_size=(3, 0)) is out
    np.testing.assert_array_equal(wide(out), wide(want))
    with pytest.raises(ValueError, match="cu_seq_k"):
        varlen_attn(q, k, v, starts, None, 7, 7)
