"""Attention by cuDNN itself, on a GPU that has it: against float64, the same bits in every run and
layout, and gradients of the one by the other."""

import numpy as np
import pytest
from attention_reference import attention as reference

import pyflame as pf
import pyflame.nn.functional as F
from pyflame.nn.attention import SDPBackend, sdpa_kernel
from pyflame.nn.attention.bias import causal_lower_right

BOUND = {pf.bfloat16: 2e-2, pf.float16: 3e-3}
CUDNN, OURS = SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION


def by(report):
    return [s["by"] for s in report.served for _ in range(s["count"])]


@pytest.fixture(autouse=True)
def cudnn(device):
    """Skips where there is none."""
    x = pf.zeros(1, 1, 64, 64, dtype=pf.bfloat16)
    with sdpa_kernel(CUDNN), pf.explain() as report:
        F.scaled_dot_product_attention(x, x, x)
        pf.synchronize()
    if not any(b.startswith("cuDNN") for b in by(report)):
        pytest.skip("no cuDNN")
    before = pf.are_deterministic_algorithms_enabled()
    pf.use_deterministic_algorithms(False)
    yield
    pf.use_deterministic_algorithms(before)


def numbers(seed, *shape, dtype=pf.bfloat16):
    return pf.tensor(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


def wide(t):
    return t.detach().to(pf.float64).numpy()


def attend(kind, q, k, v, dout=None, **how):
    """The result, and gradients where asked for."""
    with sdpa_kernel(kind), pf.explain() as report:
        if dout is None:
            got = [F.scaled_dot_product_attention(q, k, v, **how)]
        else:
            x = [t.detach().requires_grad_() for t in (q, k, v)]
            y = F.scaled_dot_product_attention(*x, **how)
            got = [y.detach(), *pf.autograd.grad(y, x, dout)]
        pf.synchronize()
    for slow in report.slow:
        if "too old" in slow["what"]:
            pytest.skip(slow["what"])
    assert all(b.startswith("cuDNN") == (kind is CUDNN) for b in by(report)), report
    return got


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize(
    ("batch", "heads", "groups", "length", "keys", "e", "ev", "causal"),
    [
        (2, 3, 3, 64, 64, 64, 64, 0),
        (2, 3, 3, 77, 77, 64, 64, 1),
        (1, 2, 2, 333, 200, 128, 128, 1),
        (1, 2, 2, 200, 333, 128, 128, 1),
        (1, 2, 2, 200, 333, 128, 128, 2),
        (3, 6, 2, 130, 131, 40, 72, 1),
        (3, 4, 1, 129, 257, 64, 32, 0),
        (1, 2, 2, 300, 300, 256, 256, 1),
        (1, 1, 1, 2, 3, 8, 8, 0),
        (1, 1, 1, 17, 1, 16, 16, 0),
    ],
)
def test_against_float64(dtype, batch, heads, groups, length, keys, e, ev, causal):
    q, dout = numbers(1, batch, heads, length, e, dtype=dtype), numbers(2, batch, heads, length, ev)
    k, v = numbers(3, batch, groups, keys, e, dtype=dtype), numbers(4, batch, groups, keys, ev)
    v, dout = v.to(dtype), dout.to(dtype)
    how = {"enable_gqa": groups != heads}
    if causal == 2:
        how["attn_mask"] = causal_lower_right(length, keys)
    else:
        how["is_causal"] = causal == 1
    K, V = (np.repeat(wide(t), heads // groups, axis=1) for t in (k, v))
    out, _, dq, dk, dv, _ = reference(
        wide(q), K, V, wide(dout), right=0 if causal else -1, bottom_right=causal == 2
    )
    dk, dv = (t.reshape(batch, groups, -1, *t.shape[-2:]).sum(2) for t in (dk, dv))
    got = attend(CUDNN, q, k, v, dout, **how)
    for g, w in zip(got, (out, dq, dk, dv), strict=True):
        size = max(1, np.abs(w).max())
        np.testing.assert_allclose(wide(g), w, rtol=0, atol=BOUND[dtype] * size)


def test_grouped_gradients():
    """Enough keys that the sums over heads are the kernel's, and not made behind it."""
    q, dout = numbers(1, 64, 4, 65, 64), numbers(2, 64, 4, 65, 64)
    k, v = numbers(3, 64, 2, 258, 64), numbers(4, 64, 2, 258, 64)
    got = attend(CUDNN, q, k, v, dout, enable_gqa=True)
    K, V = (np.repeat(wide(t), 2, axis=1) for t in (k, v))
    out, _, dq, dk, dv, _ = reference(wide(q), K, V, wide(dout))
    dk, dv = (t.reshape(64, 2, 2, *t.shape[-2:]).sum(2) for t in (dk, dv))
    for g, w in zip(got, (out, dq, dk, dv), strict=True):
        np.testing.assert_allclose(wide(g), w, rtol=0, atol=2e-2 * max(1, np.abs(w).max()))


def test_bits_repeat_in_every_layout():
    """The forward pass, of slices of one tensor, of transposed and of copied ones."""
    x = numbers(1, 3, 1000, 3, 4, 64)
    q, k, v = (x[:, :, i].transpose(1, 2) for i in range(3))
    want = attend(CUDNN, q, k, v, is_causal=True)[0]
    odd = numbers(0, 3, 4, 1000, 65)[..., 1:]  # rows at multiples of 2 bytes
    odd[:] = q
    for a in (q, q.contiguous(), odd):
        for _ in range(3):
            got = attend(CUDNN, a, k.contiguous(), v, is_causal=True)[0]
            assert (got == want).all().item()


def test_one_makes_what_the_gradient_of_the_other_reads():
    q, k, v, dout = (numbers(s, 2, 4, 257, 64) for s in range(4))
    _, want, *_ = attend(OURS, q, k, v, dout, is_causal=True)
    pf.use_deterministic_algorithms(True)
    with sdpa_kernel(CUDNN), pf.explain() as report:
        x = [t.detach().requires_grad_() for t in (q, k, v)]
        grads = pf.autograd.grad(F.scaled_dot_product_attention(*x, is_causal=True), x, dout)
        pf.synchronize()
    first, second = by(report)
    assert first.startswith("cuDNN") and second.startswith("our"), report
    np.testing.assert_allclose(wide(grads[0]), wide(want), rtol=0, atol=2e-2)


@pytest.mark.parametrize("change", ["large", "inf", "nan"])
def test_extremes(change):
    """As ours: scores of 1e5, an infinity in a key, a NaN in a query stay in their rows."""
    q, k, v = (numbers(s, 1, 2, 300, 64) for s in range(3))
    if change == "large":
        q, k = q * 100, k * 100
    elif change == "inf":
        k[0, 0, 17, 3] = float("inf")
    else:
        q[0, 1, 200, 5] = float("nan")
    got, want = (attend(kind, q, k, v, is_causal=True)[0] for kind in (CUDNN, OURS))
    assert (pf.isnan(got) == pf.isnan(want)).all().item()
    np.testing.assert_allclose(np.nan_to_num(wide(got)), np.nan_to_num(wide(want)), atol=2e-2)


@pytest.mark.skipif(
    not pf.cuda.is_available() or pf.cuda.get_device_capability() != (9, 0),
    reason="the table is of Hopper",
)
def test_the_table():
    """Who serves where nobody says: cuDNN what it is quicker at, gradients only if they may differ."""

    def go(*shape):
        q, k, v, dout = (pf.randn(*shape).to(pf.bfloat16) for _ in range(4))
        x = [t.requires_grad_() for t in (q, k, v)]
        with pf.explain() as report:
            y = F.scaled_dot_product_attention(*x, is_causal=True)
            pf.autograd.grad(y, x, dout)
            pf.synchronize()
        return ["cuDNN" if b.startswith("cuDNN") else "ours" for b in by(report)]

    assert go(8, 12, 1024, 64) == ["cuDNN", "cuDNN"]
    assert go(1, 4, 4096, 128) == ["ours", "cuDNN"]
    assert go(1, 2, 256, 64) == ["ours", "ours"]
    pf.use_deterministic_algorithms(True)
    assert go(8, 12, 1024, 64) == ["cuDNN", "ours"]
