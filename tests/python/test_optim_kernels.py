"""Optimizer steps and gradient clipping against torch.optim's formulas in NumPy float64."""

import numpy as np
import pytest
from optim_reference import adam_step
from rows_helpers import TOLERANCE

import pyflame as pf
from pyflame import _ops

pytestmark = pytest.mark.kernels

C = _ops
RNG = np.random.default_rng(5)
SHAPES = [(3, 5), (), (1,), (64,), (1025,), (0, 3), (130, 70)]


def lists(k, dtype, scale=1.0):
    arrays = [[RNG.standard_normal(s) * scale for s in SHAPES] for _ in range(k)]
    tensors = [[pf.tensor(a, dtype=pf.float64).to(dtype) for a in group] for group in arrays]
    return [[t.to(pf.float64).numpy().copy() for t in group] for group in tensors], tensors


def compare(tensors, arrays, dtype, scale=2):
    for t, a in zip(tensors, arrays, strict=True):
        np.testing.assert_allclose(
            t.to(pf.float64).numpy(),
            a,
            rtol=TOLERANCE[dtype] * scale,
            atol=TOLERANCE[dtype] * scale,
        )


@pytest.mark.parametrize("dtype", [pf.float32, pf.float64], ids=str)
@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_adamw(dtype, decoupled, amsgrad, maximize):
    (p, g), (tp, _) = lists(2, dtype)
    zeros = [np.zeros(s) for s in SHAPES]
    m, v, top = list(zeros), list(zeros), list(zeros)
    tm, tv, tt = ([pf.zeros(s, dtype=dtype) for s in SHAPES] for _ in range(3))
    for step in (1, 2, 3):
        (g,), (tg,) = lists(1, dtype)
        args = (3e-2, 0.9, 0.99, 1e-8, 0.1, step, decoupled, maximize)
        C._adamw(tp, tg, tm, tv, *args, tt if amsgrad else None)
        for i in range(len(SHAPES)):
            p[i], m[i], v[i], x = adam_step(
                p[i], g[i], m[i], v[i], top[i] if amsgrad else None, *args
            )
            if amsgrad:
                top[i] = x
        compare(tp, p, dtype)
        compare(tm, m, dtype)
        compare(tv, v, dtype)
        if amsgrad:
            compare(tt, top, dtype)


@pytest.mark.parametrize("dtype", [pf.float32, pf.float64, pf.bfloat16], ids=str)
@pytest.mark.parametrize(
    "momentum,dampening,nesterov", [(0, 0, False), (0.9, 0.1, False), (0.9, 0, True)]
)
@pytest.mark.parametrize("maximize", [False, True])
def test_sgd(dtype, momentum, dampening, nesterov, maximize):
    (p,), (tp,) = lists(1, dtype)
    b = [None] * len(SHAPES)
    tb = [pf.full(s, 7.0, dtype=dtype) for s in SHAPES] if momentum else []
    for step in range(3):
        (g,), (tg,) = lists(1, dtype)
        C._sgd(
            tp, tg, tb, 0.1, float(momentum), float(dampening), 0.01, nesterov, maximize, step == 0
        )
        for i in range(len(SHAPES)):
            d = -g[i] if maximize else g[i]
            d = d + 0.01 * p[i]
            if momentum:
                b[i] = d if step == 0 else momentum * b[i] + (1 - dampening) * d
                d = d + momentum * b[i] if nesterov else b[i]
            p[i] = p[i] - 0.1 * d
        compare(tp, p, dtype, 4)


def test_strided_parameters_and_gradients():
    base = pf.tensor(RNG.standard_normal((4, 6)), dtype=pf.float64)
    before = base.numpy().copy()
    p, g = base.t(), pf.ones(1, 1, dtype=pf.float64).expand(6, 4)
    C._sgd([p], [g], [], 0.5, 0.0, 0.0, 0.0, False, False, False)
    np.testing.assert_allclose(base.numpy(), before - 0.5)


def test_steps_work_on_leaves_that_require_gradients():
    p = pf.ones(3, requires_grad=True)
    C._sgd([p], [pf.ones(3)], [], 0.5, 0.0, 0.0, 0.0, False, False, False)
    assert p.requires_grad and p.is_leaf
    np.testing.assert_array_equal(p.detach().numpy(), [0.5] * 3)


@pytest.mark.races("2.0", "inf")
@pytest.mark.parametrize("p", [2.0, 1.0, 3.0, float("inf")])
def test_norm_and_clipping(p):
    for dtype in (pf.float32, pf.float64, pf.bfloat16):
        (g,), (tg,) = lists(1, dtype)
        flat = np.concatenate([a.ravel() for a in g])
        want = np.abs(flat).max() if np.isinf(p) else (np.abs(flat) ** p).sum() ** (1 / p)
        got = C._multi_norm(tg, p)
        assert got.shape == ()
        np.testing.assert_allclose(got.item(), want, rtol=1e-5)
        total = C._clip_grad_norm_(tg, 1.5, p)
        np.testing.assert_allclose(total.item(), want, rtol=1e-5)
        factor = min(1, 1.5 / (want + 1e-6))
        compare(tg, [a * factor for a in g], dtype)
        again = [t.to(pf.float64).numpy().copy() for t in tg]
        C._clip_grad_norm_(tg, 1e9, p)  # small enough already
        compare(tg, again, dtype, 0)


def test_norm_does_not_depend_on_threads():
    tg = [pf.randn(s) for s in [(300, 300), (17,), (1000, 70)]]
    want = C._multi_norm(tg).item()
    before = pf.get_num_threads()
    pf.set_num_threads(1)
    assert C._multi_norm(tg).item() == want
    pf.set_num_threads(before)


def test_clipping_of_values_strided_and_special():
    nan, inf = np.nan, np.inf
    g = pf.tensor([-5.0, -0.5, 0.0, 0.5, 5.0, inf, -inf, nan])
    C._clip_grad_value_([g], 1.0)
    np.testing.assert_array_equal(g.numpy(), [-1, -0.5, 0, 0.5, 1, 1, -1, nan])
    base = pf.ones(4, 6)
    C._clip_grad_norm_([base.t()], 1.0)
    np.testing.assert_allclose(base.numpy(), np.full((4, 6), 1 / np.sqrt(24)), rtol=1e-5)
    assert np.isnan(C._clip_grad_norm_([pf.tensor([1.0, nan])], 1.0).item())
    assert C._multi_norm([], 2.0).item() == 0


@pytest.mark.races
def test_found_nonfinite():
    good = [pf.randn(1000), pf.zeros(0), pf.ones(3, dtype=pf.float64)]
    assert not C._found_nonfinite(good).item()
    for bad in (np.nan, np.inf, -np.inf):
        for at in (0, 5, 999):
            x = pf.zeros(1000)
            x[at] = bad
            assert C._found_nonfinite([*good, x]).item()
            assert C._found_nonfinite([x.to(pf.bfloat16)]).item()


def test_errors():
    p, g = [pf.zeros(2, 3)], [pf.zeros(2, 3)]
    args = (0.1, 0.0, 0.0, 0.0, False, False, False)
    with pytest.raises(pf.PyFlameError, match="equal length"):
        C._sgd(p, [], [], *args)
    with pytest.raises(pf.ShapeError, match=r"\[2, 3\].*\[3, 2\]"):
        C._sgd(p, [pf.zeros(3, 2)], [], *args)
    with pytest.raises(pf.DTypeError):
        C._sgd(p, [pf.zeros(2, 3, dtype=pf.float64)], [], *args)
    with pytest.raises(pf.PyFlameError, match="step"):
        C._adamw(p, g, g, g, 0.1, 0.9, 0.99, 1e-8, 0.0, 0, True, False)
    C._sgd([], [], [], *args)
