"""nn.attention.flex_attention against NumPy in float64, and PyTorch's where it is installed."""

import numpy as np
import pytest
from attention_reference import attention as reference

import pyflame as pf
from pyflame.nn.attention import flex_attention as flex

RNG = np.random.default_rng(0)
BOUND = {pf.float64: 1e-12, pf.float32: 2e-5, pf.bfloat16: 2e-2}


def wide(t):
    return t.detach().to(pf.float64).numpy()


def causal(b, h, q, k):
    return q >= k


def window(b, h, q, k):
    return (q - k <= 20) & (k - q <= 3)


DOCUMENTS = pf.tensor(np.sort(RNG.integers(0, 4, (2, 200)), 1))


def documents(b, h, q, k):
    return DOCUMENTS[b, q] == DOCUMENTS[b, k]


def blind_heads(b, h, q, k):
    return (h == 1) & (q % 7 != 3) & (k > q - 30)


def scattered(b, h, q, k):
    return ((q // 32) * 5 + k // 32) % 3 == 0


MASKS = {
    "causal": (causal, None, None), "window": (window, None, None), "documents": (documents, 2, None),
    "heads": (blind_heads, None, 2), "scattered": (scattered, 1, 1),
    "both": (flex.and_masks(causal, documents), 2, None), "either": (flex.or_masks(causal, window), None, None),
}  # fmt: skip


def dense(mask_mod, length, keys):
    b, h, q, k = np.ogrid[:2, :2, :length, :keys]
    return np.broadcast_to(
        np.asarray(mask_mod(*(pf.tensor(x) for x in (b, h, q, k))).numpy()), (2, 2, length, keys)
    )


def run(q, k, v, g, **options):
    leaves = [t.detach().clone().requires_grad_() for t in (q, k, v)]
    out = flex.flex_attention(*leaves, **options)
    out.backward(g)
    return [out, *(t.grad for t in leaves)]


def tensors(length, keys, dtype=pf.float64, heads=2, shared=2, e=8, ev=6):
    shapes = [
        (2, heads, length, e),
        (2, shared, keys, e),
        (2, shared, keys, ev),
        (2, heads, length, ev),
    ]
    return [pf.tensor(RNG.standard_normal(s)).to(dtype) for s in shapes]


def compare(got, want, dtype):
    for n, (a, b) in enumerate(zip(got, want)):
        bound = BOUND[dtype] * max(1, np.abs(b).max(initial=0))
        np.testing.assert_allclose(wide(a), b, rtol=0, atol=bound, err_msg=str(n))


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize("block", [32, (64, 16)])
@pytest.mark.parametrize("length, keys", [(200, 200), (70, 130), (1, 200)])
@pytest.mark.parametrize("kind", list(MASKS))
@pytest.mark.parametrize("with_scores", [False, True])
def test_masks(kind, length, keys, block, dtype, with_scores):
    mod, b, h = MASKS[kind]
    mask = flex.create_block_mask(mod, b, h, length, keys, BLOCK_SIZE=block)
    q, k, v, g = tensors(length, keys, dtype)
    score_mod = (lambda s, b, h, i, j: s * 1.0) if with_scores else None
    got = run(q, k, v, g, block_mask=mask, score_mod=score_mod)
    want = reference(*(wide(t) for t in (q, k, v, g)), mask=dense(mod, length, keys))
    compare(got, [want[0], *want[2:5]], dtype)


def test_what_is_a_band_needs_no_mask():
    def band(mod, length=50, keys=70):
        return flex.create_block_mask(mod, None, None, length, keys, BLOCK_SIZE=16)._band

    assert band(causal) == (-1, 0)
    assert band(window) == (20, 3)
    assert band(lambda b, h, q, k: k >= q - 5) == (5, -1)
    assert band(flex.noop_mask) == (-1, -1)
    assert band(lambda b, h, q, k: (q >= k) & (k != 3)) is None
    assert band(lambda b, h, q, k: q > k) is None
    assert band(scattered) is None


def test_scores_change():
    length, keys, heads = 90, 75, 4
    q, k, v, g = tensors(length, keys, heads=heads, shared=2)
    slopes = pf.tensor([0.5, 0.25, 0.1, 0.0], dtype=pf.float64)
    table = pf.tensor(RNG.standard_normal((heads, length + keys))).requires_grad_()

    def alibi(score, b, h, i, j):
        return score - slopes[h] * (i - j).abs()

    def cap(score, b, h, i, j):
        return 2.0 * pf.tanh(score / 2.0)

    def relative(score, b, h, i, j):
        return score + table[h][i - j + keys]

    def in_turn(score, b, h, i, j):
        return pf.where(i >= j, relative(cap(score, b, h, i, j), b, h, i, j), -float("inf"))

    arrays = [wide(q), *(wide(t).repeat(2, 1) for t in (k, v)), wide(g)]

    def grouped(want):
        shape = (2, 2, 2, keys)
        return [want[0], want[2], *(x.reshape(*shape, -1).sum(2) for x in want[3:5])]

    i, j = np.ogrid[:length, :keys]
    options = {"enable_gqa": True}
    compare(
        run(q, k, v, g, score_mod=alibi, **options),
        grouped(reference(*arrays, slopes=slopes.numpy()[:, None, None])), pf.float64,
    )  # fmt: skip
    compare(
        run(q, k, v, g, score_mod=cap, **options),
        grouped(reference(*arrays, softcap=2.0)),
        pf.float64,
    )
    bias = table.detach().numpy()[:, i - j + keys]
    want = reference(*arrays, softcap=2.0, mask=bias, right=0)
    compare(run(q, k, v, g, score_mod=in_turn, **options), grouped(want), pf.float64)
    of_table = np.zeros(table.shape)
    np.add.at(of_table, (np.arange(heads)[:, None, None], i - j + keys), want[5].sum(0))
    np.testing.assert_allclose(table.grad.numpy(), of_table, atol=1e-11)


def test_logarithms_of_sums_and_highest_scores():
    q, k, v, g = tensors(40, 30)
    mask = flex.create_block_mask(blind_heads, None, 2, 40, 30, BLOCK_SIZE=16)
    want, sums = reference(*(wide(t) for t in (q, k, v)), mask=dense(blind_heads, 40, 30))
    out, lse = flex.flex_attention(q, k, v, block_mask=mask, return_lse=True)
    np.testing.assert_allclose(lse.numpy(), sums, atol=1e-12)
    out, aux = flex.flex_attention(q, k, v, block_mask=mask, return_aux=flex.AuxRequest(True, True))
    np.testing.assert_allclose(out.numpy(), want, atol=1e-12)
    np.testing.assert_allclose(aux.lse.numpy(), sums, atol=1e-12)
    scores = np.where(
        dense(blind_heads, 40, 30), wide(q) @ wide(k).swapaxes(-1, -2) / 8**0.5, -np.inf
    )
    np.testing.assert_allclose(aux.max_scores.numpy(), scores.max(-1), atol=1e-12)
    q = q.requires_grad_()  # its gradient through the logarithms: softmax(s) k scale
    flex.flex_attention(q, k, v, return_lse=True)[1].sum().backward()
    p = wide(q) @ wide(k).swapaxes(-1, -2) / 8**0.5
    p = np.exp(p - p.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    np.testing.assert_allclose(q.grad.numpy(), p @ wide(k) / 8**0.5, atol=1e-12)


@pytest.mark.cpu_only
def test_memory_is_linear_in_the_length():
    length = 8192  # the scores would be 256 MiB, and several tensors of them
    q, k, v = (pf.randn(1, 1, length, 4).requires_grad_() for _ in range(3))
    mask = flex.create_block_mask(causal, None, None, length, length)
    pf.memory.reset_peak_memory_stats()
    before = pf.memory.memory_allocated()

    def closer(score, b, h, i, j):
        return score + 0.01 * (j - i)

    step = flex._SCORES
    flex._SCORES = 1 << 21
    try:
        out = flex.flex_attention(q, k, v, closer, mask)
        out.sum().backward()
    finally:
        flex._SCORES = step
    assert pf.memory.max_memory_allocated() - before < 120 << 20
    row = 5000
    s = (wide(q)[0, 0, row] @ wide(k)[0, 0, : row + 1].T) / 2 + 0.01 * (np.arange(row + 1) - row)
    p = np.exp(s - s.max())
    np.testing.assert_allclose(
        wide(out)[0, 0, row], p / p.sum() @ wide(v)[0, 0, : row + 1], atol=1e-5
    )


@pytest.mark.cpu_only
def test_chains_of_indices_go_through_vmap():
    q, k, v, g = tensors(20, 30)
    bias = pf.tensor(RNG.standard_normal((2, 2, 20, 30)))
    chain = run(q, k, v, g, score_mod=lambda s, b, h, i, j: s + bias[b][h][i][j])
    at_once = run(q, k, v, g, score_mod=lambda s, b, h, i, j: s + bias[b, h, i, j])
    want = reference(*(wide(t) for t in (q, k, v, g)), mask=wide(bias))
    for got in (chain, at_once):
        compare(got, [want[0], *want[2:5]], pf.float64)


def test_block_masks_are_what_pytorch_makes():
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torch.nn.attention.flex_attention")
    for mod, b, h in ((causal, None, None), (window, 1, 1), (scattered, 2, 2)):
        # As many blocks along both sides: PyTorch's lists by keys go wrong for others.
        mine = flex.create_block_mask(mod, b, h, 300, 150, BLOCK_SIZE=(64, 32))
        other = theirs.create_block_mask(mod, b, h, 300, 150, device="cpu", BLOCK_SIZE=(64, 32))
        assert mine.shape == tuple(other.shape)
        assert abs(mine.sparsity() - other.sparsity()) < 1e-3
        for name in flex.BlockMask._TENSORS:
            a, c = getattr(mine, name), getattr(other, name)
            counts = name.replace("indices", "num_blocks")
            if name != counts:  # behind the list there may be anything
                n = getattr(other, counts).unsqueeze(-1)
                c = torch.where(torch.arange(c.shape[-1]) < n, c, -1)
                a = np.where(np.arange(a.shape[-1]) < n.numpy(), a.numpy(), -1)
                assert (np.sort(a, -1) == np.sort(c.numpy(), -1)).all(), name
            else:
                assert (a.numpy() == c.numpy()).all(), name
        assert (mine.to_dense().numpy() == other.to_dense().numpy()).all()
        assert (
            mine._adjust(200, 100).to_dense().numpy() == other._adjust(200, 100).to_dense().numpy()
        ).all()
        got = flex.create_mask(mod, b, h, 30, 20).numpy()
        assert (got == theirs.create_mask(mod, b, h, 30, 20, device="cpu").numpy()).all()


def test_lists_of_blocks_are_a_mask_of_their_own():
    counts, indices = (
        pf.tensor([[[1, 2]]], dtype=pf.int32),
        pf.tensor([[[[1, 0], [0, 1]]]], dtype=pf.int32),
    )
    mask = flex.BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=16)
    assert mask.shape == (1, 1, 32, 32)
    q, k, v, g = tensors(32, 32)
    sees = np.ones((32, 32), bool)
    sees[:16, :16] = False
    want = reference(*(wide(t) for t in (q, k, v, g)), mask=sees)
    compare(run(q, k, v, g, block_mask=mask), [want[0], *want[2:5]], pf.float64)
    compare(
        run(q, k, v, g, block_mask=mask, score_mod=lambda s, b, h, i, j: s),
        [want[0], *want[2:5]],
        pf.float64,
    )
    assert mask[0].shape == (1, 1, 32, 32) and "BlockMask" in repr(mask)


def test_empty():
    for shape in ((0, 5), (5, 0)):
        q, k, v, g = tensors(*shape)
        for mod in (None, lambda s, b, h, i, j: s):
            out = flex.flex_attention(q, k, v, mod)
            assert out.shape == (2, 2, shape[0], 6) and (out == 0).all()


def test_what_is_wrong_is_said():
    q, k, v, g = tensors(10, 12)
    mask = flex.create_block_mask(causal, None, None, 10, 11)
    with pytest.raises(pf.ShapeError, match="block_mask"):
        flex.flex_attention(q, k, v, block_mask=mask)
    with pytest.raises(pf.ShapeError, match="heads"):
        flex.flex_attention(q, k[:, :1], v[:, :1])
    with pytest.raises(pf.ShapeError, match="query"):
        flex.flex_attention(q[0], k, v)
    with pytest.raises(TypeError, match="score_mod"):
        flex.flex_attention(q, k, v, 3)
    with pytest.raises(pf.DTypeError, match="mask_mod"):
        flex.create_block_mask(lambda b, h, q, k: q - k, None, None, 10, 10)
    with pytest.raises(ValueError, match="Q_LEN"):
        flex.create_block_mask(causal, None, None, -1, 10)
