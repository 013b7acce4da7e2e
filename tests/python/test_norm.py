"""layer_norm and rms_norm against NumPy in float64."""

import numpy as np
import pytest
from rows_helpers import FLOATS, LAYOUTS, check, gradcheck, in_layout, values_of

import pyflame as pf
import pyflame.nn.functional as F

pytestmark = pytest.mark.kernels

RNG = np.random.default_rng(2)


def layer_norm(x, k, w=None, b=None, eps=1e-5):
    axes = tuple(range(x.ndim - k, x.ndim))
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    return y * (1 if w is None else w) + (0 if b is None else b)


def rms_norm(x, k, w=None, eps=1e-5):
    axes = tuple(range(x.ndim - k, x.ndim))
    y = x / np.sqrt((x * x).mean(axes, keepdims=True) + eps)
    return y * (1 if w is None else w)


@pytest.mark.races("pyflame.bfloat16-plain", "pyflame.float32-plain")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_forward(dtype, layout):
    for shape, k in [
        ((5,), 1),
        ((3, 1), 1),
        ((4, 70), 1),
        ((2, 3, 5), 2),
        ((9, 64), 1),
        ((2, 4099), 1),
    ]:
        if layout == "broadcast" and len(shape) == 1:
            continue  # all equal: only rounding is left to be normalised
        t = in_layout(RNG.standard_normal(shape) * 2 + 1, layout, dtype)
        x = values_of(t)
        tail = shape[-k:]
        w = pf.tensor(RNG.standard_normal(tail)).to(dtype)
        b = pf.tensor(RNG.standard_normal(tail)).to(dtype)
        got = F.layer_norm(t, tail, w, b)
        assert got.dtype == dtype
        check(got, layer_norm(x, k, values_of(w), values_of(b)), dtype, 4)
        check(F.layer_norm(t, tail), layer_norm(x, k), dtype, 4)
        check(F.rms_norm(t, tail, w, eps=1e-5), rms_norm(x, k, values_of(w)), dtype, 4)
        check(F.rms_norm(t, tail, eps=1e-5), rms_norm(x, k), dtype, 4)


def test_float32_weights_of_bfloat16_inputs():
    x = pf.tensor(RNG.standard_normal((4, 40))).to(pf.bfloat16).requires_grad_(True)
    w = pf.tensor(RNG.standard_normal(40), dtype=pf.float32, requires_grad=True)
    b = pf.tensor(RNG.standard_normal(40), dtype=pf.float32, requires_grad=True)
    y = F.layer_norm(x, (40,), w, b)
    assert y.dtype == pf.bfloat16
    check(y, layer_norm(values_of(x), 1, values_of(w), values_of(b)), pf.bfloat16, 2)
    gx, gw, gb = pf.autograd.grad(y.sum(), [x, w, b])
    assert (gx.dtype, gw.dtype, gb.dtype) == (pf.bfloat16, pf.float32, pf.float32)


@pytest.mark.parametrize("shape", [(4, 5), (2, 3, 4), (40, 3)], ids=str)
def test_gradients(shape):
    x, w, b = (
        RNG.standard_normal(shape),
        RNG.standard_normal(shape[-1:]),
        RNG.standard_normal(shape[-1:]),
    )
    n = shape[-1:]
    gradcheck(
        lambda x, w, b: F.layer_norm(x, n, w, b), x, w, b, second=len(shape) == 2 and shape[0] < 9
    )
    gradcheck(lambda x, w: F.rms_norm(x, n, w, 1e-5), x, w, second=shape[0] < 9)
    gradcheck(lambda x: F.layer_norm(x, n), x, second=False)
    gradcheck(lambda x: F.layer_norm(x, n) * F.rms_norm(x, n), x, second=False)
    gradcheck(lambda x, b: F.layer_norm(x, n, None, b), x, b, second=False)


@pytest.mark.races("130")
@pytest.mark.parametrize("n", [5, 64, 130])
def test_backward_kernel_against_formulas(n):
    rows = 150
    drawn = [RNG.standard_normal(s) for s in ((rows, n), (rows, n), (n,))]
    for dtype in FLOATS:
        tx, tg, tw = (pf.tensor(v).to(dtype) for v in drawn)
        x, g, w = (values_of(t) for t in (tx, tg, tw))
        rstd = 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        hat = (x - x.mean(1, keepdims=True)) * rstd
        h = g * w
        dx = rstd * (h - h.mean(1, keepdims=True) - hat * (h * hat).mean(1, keepdims=True))
        tx.requires_grad_(True)
        tw.requires_grad_(True)
        tb = pf.zeros(n, dtype=dtype, requires_grad=True)
        got = pf.autograd.grad((F.layer_norm(tx, (n,), tw, tb) * tg).sum(), [tx, tw, tb])
        check(got[0], dx, dtype, 4)
        check(got[1], (g * hat).sum(0), dtype, 4)
        check(got[2], g.sum(0), dtype, 4)


def test_edges():
    one = pf.tensor([[3.0], [4.0]])
    np.testing.assert_array_equal(F.layer_norm(one, (1,)).numpy(), [[0], [0]])
    assert F.layer_norm(pf.zeros(0, 4), (4,)).shape == (0, 4)
    assert F.layer_norm(pf.zeros(3, 0), (0,)).shape == (3, 0)
    x = pf.zeros(0, 4, requires_grad=True)
    w = pf.ones(4, requires_grad=True)
    gx, gw = pf.autograd.grad(F.layer_norm(x, (4,), w).sum(), [x, w])
    assert gx.shape == (0, 4)
    np.testing.assert_array_equal(gw.numpy(), np.zeros(4))
    for norm, n in ((F.layer_norm, 2), (F.rms_norm, 1)):
        x = pf.zeros(3, 0, requires_grad=True)
        given = [pf.ones(0, requires_grad=True) for _ in range(n)]
        norm(x, (0,), *given).backward(pf.ones(3, 0))
        assert [tuple(t.grad.shape) for t in (x, *given)] == [(3, 0)] + [(0,)] * n
    t = pf.tensor([[1.0, np.nan, 2.0], [1.0, 2.0, 3.0], [np.inf, 0.0, 1.0]])
    y = F.layer_norm(t, (3,)).numpy()
    assert np.isnan(y[0]).all() and np.isfinite(y[1]).all() and np.isnan(y[2]).all()
    big = F.layer_norm(pf.tensor([[1e4, 1e4 + 1, 1e4 + 2]]), (3,))
    np.testing.assert_allclose(big.numpy(), layer_norm(np.array([[0.0, 1, 2]]), 1), atol=1e-3)


def test_errors():
    x = pf.zeros(2, 3)
    with pytest.raises(pf.ShapeError, match="pf.layer_norm.*normalized_shape"):
        F.layer_norm(x, (2,))
    with pytest.raises(pf.ShapeError, match="weight"):
        F.layer_norm(x, (3,), pf.ones(2))
    with pytest.raises(pf.DTypeError, match="pf.rms_norm"):
        F.rms_norm(pf.tensor([1, 2]), (2,))


@pytest.mark.parametrize("n", [3, 64, 768, 4100, 20000])
@pytest.mark.parametrize("shift, first", [(1e6, 0), (0, 1e4), (-3e4, 1e3), (0, -3e6)])
def test_far_from_zero_and_far_from_the_others(n, shift, first):
    """Each element to its own last places, whatever the row's mean and its greatest element are."""
    x = RNG.standard_normal((3, n)) + shift
    x[:, 0] += first
    x = x.astype(np.float32)
    g = RNG.standard_normal((3, n)).astype(np.float32)
    t = pf.tensor(x, requires_grad=True)
    y = F.layer_norm(t, (n,))
    y.backward(pf.tensor(g))
    wide = x.astype(np.float64)
    want = layer_norm(wide, 1)
    rstd = 1 / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    slope = g - g.mean(-1, keepdims=True) - want * (g * want).mean(-1, keepdims=True)
    apart = np.abs(wide - wide.mean(-1, keepdims=True))
    bound = 2e-6 * np.abs(want) + 1e-6 * rstd * (1 + apart)
    assert (np.abs(y.detach().cpu().numpy() - want) <= bound).all()
    got = t.grad.cpu().numpy()
    bound = 1e-5 * rstd * (np.abs(g) + np.abs(slope) + np.abs(want) + 1)
    assert (np.abs(got - rstd * slope) <= bound).all()
