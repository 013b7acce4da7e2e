"""Order statistics, means without NaN, covariances, special functions, norms of pyflame.linalg."""

import mpmath
import numpy as np
import pytest
from finite import check_grad, layouts, same

import pyflame as pf

pytestmark = pytest.mark.kernels(0.5)

RNG = np.random.default_rng(7)
X = RNG.standard_normal((4, 5, 3))
HOLES = X.copy()
HOLES[0, 1, 2] = HOLES[3, 4, 0] = np.nan
METHODS = {"linear": "linear", "lower": "lower", "higher": "higher", "midpoint": "midpoint"}


@pytest.mark.parametrize("how", [*METHODS, "nearest"])
@pytest.mark.parametrize("dim", [None, 0, 1, -1])
@pytest.mark.parametrize("q", [0.3, 0.0, 1.0, [0.1, 0.5, 0.9]], ids=str)
def test_quantile(how, dim, q):
    given = q if isinstance(q, float) else pf.tensor(q, dtype=pf.float64)
    for name, values in (("quantile", X), ("nanquantile", HOLES)):
        want = getattr(np, name)(values, q, axis=dim, method=how)
        for t in layouts(values):
            same(getattr(pf, name)(t, given, dim, interpolation=how), want, rtol=1e-12, atol=1e-12)
        kept = getattr(np, name)(values, q, axis=dim, method=how, keepdims=True)
        got = getattr(pf.tensor(values), name)(given, dim, True, interpolation=how)
        same(got, kept, rtol=1e-12, atol=1e-12)


def test_quantile_of_nan_and_of_few():
    t = pf.tensor(HOLES)
    same(t.quantile(0.5, 1).isnan(), np.isnan(HOLES).any(1))
    assert pf.tensor([float("nan")] * 3).nanquantile(0.5).isnan().item()
    assert pf.tensor(2.0).quantile(0.3).item() == 2.0
    assert pf.tensor([3.0]).quantile(pf.tensor([0.0, 1.0])).tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="from 0 to 1"):
        t.quantile(1.5)
    with pytest.raises(pf.ShapeError, match="at least one"):
        pf.zeros(0).quantile(0.5)
    with pytest.raises(pf.DTypeError):
        pf.arange(3).quantile(0.5)
    with pytest.raises(ValueError, match="interpolation"):
        t.quantile(0.5, interpolation="cubic")


def test_quantile_gradient():
    q = pf.tensor([0.2, 0.7], dtype=pf.float64)
    check_grad(lambda x: pf.quantile(x, q, 1), X[0], second=False)
    check_grad(lambda x: pf.quantile(x, 0.35), X[0], second=False)


@pytest.mark.parametrize("dim", [None, 0, 2, (0, 1)], ids=str)
def test_sums_without_nan(dim):
    for name in ("nansum", "nanmean"):
        want = getattr(np, name)(HOLES, axis=dim)
        for t in layouts(HOLES):
            same(getattr(t, name)() if dim is None else getattr(t, name)(dim), want, rtol=1e-12)
    x = pf.tensor(HOLES, requires_grad=True)
    x.nanmean().backward()
    same(x.grad, np.where(np.isnan(HOLES), 0, 1 / (HOLES.size - 2)), rtol=1e-12)
    assert pf.tensor([float("nan")]).nansum().item() == 0
    assert pf.tensor([float("nan")]).nanmean().isnan().item()
    assert pf.arange(4).nansum().item() == 6


@pytest.mark.races
def test_nanmedian_and_mode():
    for dim in (0, 1, 2):
        values, indices = pf.tensor(HOLES).nanmedian(dim)
        lower = np.nanquantile(HOLES, 0.5, axis=dim, method="lower")
        same(values, lower)
        at = np.expand_dims(indices.cpu().numpy(), dim)
        same(values, np.take_along_axis(HOLES, at, dim).squeeze(dim))
    assert pf.tensor([float("nan"), 3.0, 1.0, 2.0]).nanmedian().item() == 2.0
    assert pf.tensor([float("nan")]).nanmedian().isnan().item()
    values, indices = pf.tensor([[2, 1, 2, 1, 0], [5, 4, 3, 2, 1]]).mode(1)
    assert values.tolist() == [1, 1] and indices.tolist() == [3, 4]
    values, indices = pf.tensor([[2.0, 1.0], [2.0, 0.0]]).mode(0, keepdim=True)
    assert values.tolist() == [[2.0, 0.0]] and indices.tolist() == [[1, 1]]
    assert pf.tensor(7).mode().values.item() == 7
    with pytest.raises(pf.IndexError):
        pf.zeros(2, 0).mode()
    low, high = pf.tensor(X).aminmax(dim=1, keepdim=True)
    same(low, X.min(1, keepdims=True))
    same(high, X.max(1, keepdims=True))


@pytest.mark.races
def test_covariance():
    m = RNG.standard_normal((3, 8))
    often, much = RNG.integers(1, 4, 8), RNG.random(8)
    for t in layouts(m):
        same(pf.cov(t), np.cov(m), rtol=1e-12)
        same(pf.corrcoef(t), np.corrcoef(m), rtol=1e-12)
    same(pf.cov(pf.tensor(m[0])), np.cov(m[0]), rtol=1e-12)
    same(pf.corrcoef(pf.tensor(m[0])), np.corrcoef(m[0]), rtol=1e-12)
    got = pf.tensor(m).cov(correction=0, fweights=pf.tensor(often), aweights=pf.tensor(much))
    same(got, np.cov(m, ddof=0, fweights=often, aweights=much), rtol=1e-12)
    got = pf.tensor(m).cov(aweights=pf.tensor(much))
    same(got, np.cov(m, aweights=much), rtol=1e-12)
    check_grad(pf.cov, m[:, :4])
    check_grad(pf.corrcoef, m[:, :4], tol=1e-5)
    with pytest.raises(pf.ShapeError, match="one each"):
        pf.tensor(m).cov(aweights=pf.ones(3))


def test_trapezoid():
    at = np.sort(RNG.random(5))
    same(pf.trapezoid(pf.tensor(X), dx=0.5, dim=0), np.trapezoid(X, dx=0.5, axis=0), rtol=1e-12)
    same(pf.trapz(pf.tensor(X), pf.tensor(at), dim=1), np.trapezoid(X, at, axis=1), rtol=1e-12)
    assert pf.trapezoid(pf.zeros(0)).item() == 0
    for n in (1, 2, 3):
        same(pf.trapezoid(pf.tensor(X[:n]), dim=0), np.trapezoid(X[:n], axis=0), rtol=1e-12)
    same(pf.trapezoid(pf.tensor([1, 2, 4])), np.float32(4.5))
    assert pf.trapezoid(pf.tensor([float("inf"), 1.0])).item() == float("inf")
    check_grad(lambda y: pf.trapezoid(y, dx=0.5, dim=0), X[:3])
    check_grad(lambda y, x: pf.trapezoid(y, x), X[0], X[1].cumsum(-1))


SPECIAL = {
    "lgamma": (pf.lgamma, lambda v: mpmath.log(abs(mpmath.gamma(v)))),
    "digamma": (pf.digamma, mpmath.digamma),
    "trigamma": (lambda t: pf.polygamma(1, t), lambda v: mpmath.polygamma(1, v)),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_gamma_functions(name):
    fn, reference = SPECIAL[name]
    x = np.concatenate([RNG.normal(size=60) * 5, [0.5, 1, 2, 7.9, 8, 100, 1e5, 1e-5, -0.3, -10.5]])
    want = np.array([float(reference(mpmath.mpf(float(v)))) for v in x])
    for t in layouts(x):
        same(fn(t), want, rtol=3e-14, atol=3e-14)
    same(fn(pf.tensor(x[60:], dtype=pf.float32)), want[60:], rtol=3e-6, atol=1e-14)
    check_grad(fn, x[:8], tol=1e-5)


def test_ends_of_special_functions():
    inf, nan = float("inf"), float("nan")
    x = pf.tensor([0.0, -0.0, -1.0, -2.0, inf, -inf, nan])
    same(pf.lgamma(x), np.array([inf, inf, inf, inf, inf, inf, nan], np.float32))
    same(pf.digamma(x), np.array([-inf, inf, nan, nan, inf, nan, nan], np.float32))
    assert pf.lgamma(pf.arange(1, 6)).dtype == pf.float32
    y = np.concatenate([RNG.uniform(-1, 1, 60), [1 - 1e-12, -1 + 1e-15, 0.5, 1e-10, 1 - 2**-53]])
    want = np.array([float(mpmath.erfinv(mpmath.mpf(float(v)))) for v in y])
    for t in layouts(y):
        same(pf.erfinv(t), want, rtol=2e-14)
    e = pf.erfinv(pf.tensor([0.0, -0.0, 1.0, -1.0, 1.5, nan]))
    same(e, np.array([0, -0.0, inf, -inf, nan, nan], np.float32))
    assert np.signbit(e.cpu().numpy()).tolist()[:2] == [False, True]
    check_grad(pf.erfinv, RNG.uniform(-0.9, 0.9, 7), tol=1e-5)
    z = pf.tensor([0.5])
    assert z.erfinv_() is z and abs(z.item() - 0.476936) < 1e-6


@pytest.mark.parametrize("ord", [None, 1, -1, "fro", float("inf"), -float("inf"), 3, 0])
@pytest.mark.parametrize("dim", [None, 0, (0, 1)], ids=str)
def test_linalg_norm(ord, dim):
    m = RNG.standard_normal((4, 5))
    matrix = dim == (0, 1) or (dim is None and ord is not None)
    if (matrix and ord in (3, 0)) or (ord == "fro" and dim == 0):
        with pytest.raises((pf.ValueError, pf.ShapeError)):
            pf.linalg.norm(pf.tensor(m), ord, dim)
        return
    for keepdim in (False, True):
        got = pf.linalg.norm(pf.tensor(m), ord, dim, keepdim)
        same(got, np.linalg.norm(m, ord, dim, keepdims=keepdim), rtol=1e-12)


def test_other_linalg_names():
    a, b, c = RNG.standard_normal((3, 4)), RNG.standard_normal((4, 5)), RNG.standard_normal(5)
    t = [pf.tensor(v) for v in (a, b, c)]
    same(pf.linalg.multi_dot(t), np.linalg.multi_dot([a, b, c]), rtol=1e-12)
    same(pf.linalg.vector_norm(t[0], 3), (np.abs(a) ** 3).sum() ** (1 / 3), rtol=1e-12)
    same(pf.linalg.matrix_norm(pf.tensor(X)), np.linalg.norm(X, axis=(-2, -1)), rtol=1e-12)
    check_grad(lambda x: pf.linalg.matrix_norm(x, 1), a, second=False)
    same(pf.linalg.matrix_norm(t[0], 2), np.linalg.norm(a, 2), rtol=1e-12)


def test_trapezoids_of_integers_do_not_overflow():
    x = pf.tensor([127, 127, 127], dtype=pf.int8)
    assert pf.trapezoid(x).item() == 254 and pf.trapezoid(x).dtype == pf.float32
    assert pf.trapezoid(pf.tensor([1, 1]), x=pf.tensor([5, 2], dtype=pf.uint8)).item() == -3
