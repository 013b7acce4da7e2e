"""Running sums, products and extremes."""

import numpy as np
import pytest
from finite import check_grad, layouts, same

import pyflame as pf

pytestmark = pytest.mark.kernels

RNG = np.random.default_rng(0)


@pytest.mark.races("shape2--1")
@pytest.mark.parametrize(
    "shape,dim", [((7,), 0), ((3, 5), 0), ((3, 5), -1), ((2, 3, 40), 1), ((0, 3), 0), ((3, 0), 1)]
)
def test_sums_and_products(shape, dim):
    a = RNG.standard_normal(shape)
    for t in layouts(a):
        same(t.cumsum(dim), np.cumsum(a, dim), rtol=1e-12)
        same(t.cumprod(dim), np.cumprod(a, dim), rtol=1e-12)
        same(t.logcumsumexp(dim), np.logaddexp.accumulate(a, dim), rtol=1e-10)
    i = RNG.integers(-5, 5, shape)
    assert pf.tensor(i.astype(np.int8)).cumsum(dim).dtype == pf.int64
    same(pf.tensor(i.astype(np.int8)).cumsum(dim), np.cumsum(i, dim))
    same(pf.tensor(i).cumprod(dim), np.cumprod(i, dim))
    same(pf.tensor(i > 0).cumsum(dim), np.cumsum(i > 0, dim))


@pytest.mark.large
def test_long_sums_stay_exact():
    ones = pf.ones(2**25).cumsum(0)
    assert ones[-1].item() == 2**25
    assert pf.ones(1000, dtype=pf.bfloat16).cumsum(0)[-1].item() == 1000


@pytest.mark.races
def test_extremes():
    a = RNG.integers(-9, 9, (4, 30)).astype(np.float64)
    for t in layouts(a):
        for dim in (0, 1):
            v, i = t.cummax(dim)
            same(v, np.maximum.accumulate(a, dim))
            same(np.take_along_axis(a, i.cpu().numpy(), dim), v.cpu().numpy())
            v, i = t.cummin(dim)
            same(v, np.minimum.accumulate(a, dim))
    v, i = pf.tensor([1.0, float("nan"), 3.0, 3.0]).cummax(0)
    same(v, [1, np.nan, np.nan, np.nan])
    same(pf.tensor([2, 1, 2, 2]).cummax(0)[1], [0, 0, 2, 3])


@pytest.mark.races
def test_logcumsumexp_extremes():
    inf = float("inf")
    got = pf.tensor([-inf, -inf, 1e4, 1e4, -1e4]).logcumsumexp(0)
    same(got, [-inf, -inf, 1e4, 1e4 + np.log(2), 1e4 + np.log(2)], rtol=1e-6)
    assert pf.tensor([0.0, inf, 1.0]).logcumsumexp(0)[2].item() == inf
    assert np.isnan(pf.tensor([0.0, float("nan"), 1.0]).logcumsumexp(0)[2].item())


@pytest.mark.parametrize("dim", [0, 1])
def test_gradients(dim):
    a = RNG.standard_normal((4, 3))
    check_grad(lambda t: t.cumsum(dim) ** 2, a)
    check_grad(lambda t: t.cumprod(dim), a)
    check_grad(lambda t: t.logcumsumexp(dim), a)
    check_grad(lambda t: t.cummax(dim)[0] ** 2, a)
    check_grad(lambda t: t.cummin(dim)[0] ** 2, a)
    check_grad(lambda t: t.diff(dim=dim) ** 2, a)


def test_cumprod_gradient_at_zeros():
    check_grad(lambda t: t.cumprod(0), np.array([2.0, 0.0, 3.0, 4.0]), second=False)
    check_grad(lambda t: t.cumprod(0), np.array([2.0, 0.0, 3.0, 0.0, 5.0]), second=False)
    check_grad(lambda t: t.cumprod(0), np.array([0.0, 0.0, 3.0]), second=False)


def test_diff():
    a = RNG.standard_normal((4, 5))
    t = pf.tensor(a)
    same(t.diff(), np.diff(a))
    same(t.diff(2, 0), np.diff(a, 2, 0))
    same(
        t.diff(dim=0, prepend=pf.zeros(1, 5, dtype=pf.float64)),
        np.diff(a, axis=0, prepend=np.zeros((1, 5))),
    )
    same(pf.tensor([True, False, False]).diff(), [True, False])
    none = t.diff(n=0)
    none.fill_(7)
    same(t, a)


def test_scalars():
    for name in ["cumsum", "cumprod", "logcumsumexp"]:
        assert getattr(pf.tensor(3.0), name)(0).item() == 3
    assert pf.tensor(3.0).cummax(0)[1].item() == 0
    with pytest.raises(IndexError):
        pf.zeros(3).cumsum(1)
