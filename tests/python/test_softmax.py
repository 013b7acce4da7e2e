"""softmax, log_softmax and softmin against NumPy in float64."""

import numpy as np
import pytest
from rows_helpers import FLOATS, LAYOUTS, check, gradcheck, in_layout, values_of

import pyflame as pf
import pyflame.nn.functional as F

pytestmark = pytest.mark.kernels(0.8)

RNG = np.random.default_rng(1)


def softmax(a, axis):
    e = np.exp(a - a.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


SHAPES = [(1,), (5,), (64,), (3, 10), (4, 65), (2, 3, 4), (3, 4097), (130, 1), (2, 2, 2, 9)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_against_numpy(shape, layout):
    for dtype in FLOATS:
        t = in_layout(RNG.standard_normal(shape) * 3, layout, dtype)
        a = values_of(t)
        for dim in range(-len(shape), len(shape)):
            want = softmax(a, dim)
            for got in (t.softmax(dim), pf.softmax(t, dim), F.softmax(t, dim=dim)):
                assert got.dtype == dtype
                check(got, want, dtype)
            with np.errstate(divide="ignore"):
                check(t.log_softmax(dim), np.log(want), dtype)
            check(F.softmin(t, dim=dim), softmax(-a, dim), dtype)


def test_special_values():
    inf, nan = np.inf, np.nan
    a = np.array([[1, 2, -inf, 3], [-inf] * 4, [1, nan, 2, 3], [1, inf, 2, 3]], np.float32)
    for values in (a, np.tile(a, (1, 33))):
        t = pf.tensor(values)
        s, l = t.softmax(1).numpy(), t.log_softmax(1).numpy()
        np.testing.assert_allclose(s[0].sum(), 1, rtol=1e-6)
        assert s[0, 2] == 0 and l[0, 2] == -inf
        assert np.isnan(s[1:]).all() and np.isnan(l[1:]).all()


def test_large_inputs_stay_finite():
    a = np.array([[1e4, -1e4, 9999.0], [-1e4, -1e4 - 1, -1e4 - 2]])
    want = np.log(softmax(a, 1)[1]) if False else a - a.max(1, keepdims=True)
    want = want - np.log(np.exp(want).sum(1, keepdims=True))
    got = pf.tensor(a, dtype=pf.float32).log_softmax(1)
    assert np.isfinite(got.numpy()).all()
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        pf.tensor(a, dtype=pf.float32).softmax(1).numpy(), softmax(a, 1), atol=1e-6
    )


@pytest.mark.parametrize("dtype", [pf.float32, pf.float64])
def test_far_below_the_maximum_is_0(dtype):
    most = pf.finfo(dtype).max
    for below in (-88.0, -104.0, -710.0, -760.0, -1e5, -1e10, -1e30, -most, -np.inf):
        a = np.zeros((3, 80), np.float64)
        a[:, 5] = below
        a[1, 7] = np.nan
        s = pf.tensor(a, dtype=dtype).softmax(1).numpy()
        assert np.isnan(s[1]).all()
        small = np.exp(below) / 79  # or 0, if it is no normal number
        assert ((s[[0, 2], 5] == 0) | np.isclose(s[[0, 2], 5], small, rtol=1e-5, atol=1e-44)).all()
        np.testing.assert_allclose(s[0].sum(), 1, rtol=1e-6)


def test_empty_and_scalar():
    assert pf.zeros(0, 3).softmax(1).shape == (0, 3)
    assert pf.zeros(3, 0).softmax(1).shape == (3, 0)
    assert pf.zeros(3, 0).log_softmax(0).shape == (3, 0)
    assert pf.tensor(5.0).softmax(0).item() == 1
    assert pf.tensor(5.0).log_softmax(-1).item() == 0
    with pytest.raises(pf.IndexError, match="pf.softmax"):
        pf.zeros(2, 3).softmax(2)


def test_dtype_argument():
    t = pf.tensor([1, 2, 3])
    with pytest.raises(pf.DTypeError, match="pf.softmax"):
        t.softmax(0)
    got = t.softmax(0, dtype=pf.float64)
    check(got, softmax(np.array([1.0, 2, 3]), 0), pf.float64)
    h = pf.tensor(RNG.standard_normal(100)).to(pf.bfloat16)
    assert F.log_softmax(h, 0, dtype=pf.float32).dtype == pf.float32


def test_default_dim_of_functional():
    for shape, dim in [((3,), 0), ((2, 3), 1), ((2, 3, 4), 0), ((2, 3, 4, 5), 1)]:
        a = RNG.standard_normal(shape)
        check(F.softmax(pf.tensor(a, dtype=pf.float64)), softmax(a, dim), pf.float64)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gradients(dim):
    a = RNG.standard_normal((3, 5))
    gradcheck(lambda x: x.softmax(dim), a)
    gradcheck(lambda x: x.log_softmax(dim), a)
    gradcheck(lambda x: x.transpose(0, 1).softmax(dim), a)
    gradcheck(lambda x: x.softmax(dim), a * 30)
    gradcheck(lambda x: F.softmin(x, dim), a)


@pytest.mark.races("70", "4100")
@pytest.mark.parametrize("n", [10, 70, 4100])
def test_backward_kernels(n):
    a, g = RNG.standard_normal((5, n)), RNG.standard_normal((5, n))
    p = softmax(a, 1)
    for dtype in FLOATS:
        x = pf.tensor(a, dtype=dtype, requires_grad=True)
        w = pf.tensor(g).to(dtype)
        (d,) = pf.autograd.grad((x.softmax(1) * w).sum(), [x])
        check(d, p * (g - (g * p).sum(1, keepdims=True)), dtype, scale=3)
        (d,) = pf.autograd.grad((x.log_softmax(1) * w).sum(), [x])
        check(d, g - p * g.sum(1, keepdims=True), dtype, scale=3)


def test_bits_do_not_depend_on_threads_or_rows():
    a = RNG.standard_normal((200, 300)).astype(np.float32)
    t = pf.tensor(a)
    want = t.softmax(1).numpy()
    before = pf.get_num_threads()
    pf.set_num_threads(1)
    np.testing.assert_array_equal(t.softmax(1).numpy(), want)
    pf.set_num_threads(before)
    for r in (0, 7, 199):
        np.testing.assert_array_equal(t[r].softmax(0).numpy(), want[r])
