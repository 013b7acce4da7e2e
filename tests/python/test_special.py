"""pyflame.special against SciPy, gradients against finite differences; histograms, differences and
floats taken apart against NumPy."""

import math

import numpy as np
import pytest
from finite import check_grad, layouts, same

import pyflame as pf

S = pf.special
RNG = np.random.default_rng(3)
X = np.concatenate([np.linspace(-30, 30, 121), [0.0, 1e-8, 1e-3, 5, 8, 100, 700, -700, -0.5, 1.0]])
POSITIVE = np.abs(X[X != 0])


def of(t):
    return t.detach().cpu().numpy()


def close(got, want, rtol=1e-11, atol=1e-12):
    got = of(got)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


ONE = {
    "bessel_j0": ("j0", X), "bessel_j1": ("j1", X), "bessel_y0": ("y0", POSITIVE), "bessel_y1": ("y1", POSITIVE),
    "i0": ("i0", X), "i0e": ("i0e", X), "i1": ("i1", X), "i1e": ("i1e", X),
    "modified_bessel_i0": ("i0", X), "modified_bessel_i1": ("i1", X),
    "modified_bessel_k0": ("k0", POSITIVE), "modified_bessel_k1": ("k1", POSITIVE),
    "scaled_modified_bessel_k0": ("k0e", POSITIVE), "scaled_modified_bessel_k1": ("k1e", POSITIVE),
    "erfcx": ("erfcx", X[X > -26]), "log_ndtr": ("log_ndtr", X), "ndtr": ("ndtr", X), "entr": ("entr", X),
    "ndtri": ("ndtri", np.array([0, 1e-300, 1e-5, 0.1, 0.5, 0.9, 1.0])), "gammaln": ("gammaln", X), "psi": ("psi", POSITIVE),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one(name):
    sp = pytest.importorskip("scipy.special")
    reference, x = ONE[name]
    with np.errstate(all="ignore"):
        want = getattr(sp, reference)(x)
        single = getattr(sp, reference)(x.astype(np.float32).astype(np.float64)).astype(np.float32)
    f = getattr(S, name)
    close(f(pf.tensor(x)), want, atol=1e-11 if "bessel" in name else 1e-12)
    np.testing.assert_allclose(of(f(pf.tensor(x, dtype=pf.float32))), single, rtol=2e-5, atol=2e-5)
    for t in layouts(x[:6].reshape(2, 3)):
        close(f(t), want[:6].reshape(2, 3), atol=1e-11)
    assert np.isnan(of(f(pf.tensor([math.nan])))).all()
    assert f(pf.ones(2, dtype=pf.int64)).dtype == pf.float32
    assert f(pf.ones(0, 3)).shape == (0, 3)
    assert f(pf.ones(2, dtype=pf.float16)).dtype == pf.float16


def test_airy_and_spherical():
    sp = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(-40, 20, 301), [0.0, -7.4999, -7.5001, 1.0001, 105.0]])
    close(S.airy_ai(pf.tensor(x)), sp.airy(x)[0], rtol=1e-9, atol=1e-11)
    close(S.spherical_bessel_j0(pf.tensor(x)), np.sinc(x / np.pi))
    with pytest.raises(pf.NotSupportedError, match="derivative"):
        S.airy_ai(pf.ones(2, requires_grad=True)).sum().backward()


# x in units of a: far below, near from both sides, at it, where the expansion for large a begins, far above.
@pytest.mark.parametrize("a", [0.3, 5.0, 19.9, 20.1, 25.0, 99.0, 1500.0, 6e3])
def test_incomplete_gamma_functions(a):
    mp = pytest.importorskip("mpmath")
    near = [1 + s * k / math.sqrt(a) for k in (0.01, 0.3, 1, 3) for s in (-1, 1)]
    x = a * np.array([0.5, 0.69, 0.71, 0.99, 1, 1.01, 1.29, 1.31, 2, *near])
    x = x[x > 0]
    lower = of(pf.igamma(pf.tensor(a, dtype=pf.float64), pf.tensor(x)))
    upper = of(pf.igammac(pf.tensor(a, dtype=pf.float64), pf.tensor(x)))
    with mp.workdps(40):
        for at, low, high in zip(x, lower, upper):
            for got, ends in ((low, (0, at)), (high, (at, mp.inf))):
                want = mp.gammainc(mp.mpf(a), *ends, regularized=True)
                # The logarithm of a tail is right to a few units of the last place.
                tail = 4e-16 * max(a, at, 1) if want < 1e-3 else 0
                assert abs(got - want) <= want * (2e-14 + tail) + 1e-300, (a, at, got)


def test_incomplete_gamma_functions_of_large_numbers():
    """A hundred rounds an element at the most, whatever the numbers: these took 1e8."""
    a = pf.tensor([1e8, 1e12, 1e16, 1e300], dtype=pf.float64)
    half = pf.igamma(a, a)
    # 1/2 + 1 / (3 sqrt(2 pi a)) + ...
    want = 0.5 + 1 / (3 * (2 * math.pi * a).sqrt())
    assert pf.allclose(half, want, rtol=1e-12) and pf.allclose(half + pf.igammac(a, a), a / a)
    sure = pf.igamma(a, a * pf.tensor([[0.5], [0.99], [1.01], [2.0]], dtype=pf.float64))
    assert sure.tolist() == [[0] * 4, [0] * 4, [1] * 4, [1] * 4]


def test_zeta_of_negative_numbers():
    for s, q in ((2, -5.5), (3, -5.5), (5, -13.7), (4, -0.3)):
        direct = math.fsum((q + k) ** -s for k in range(200_000))
        assert S.zeta(pf.tensor(float(s), dtype=pf.float64), q).item() == pytest.approx(
            direct, rel=1e-5
        )
    far = S.zeta(pf.tensor(2.0, dtype=pf.float64), pf.tensor(-1e15 - 0.25, dtype=pf.float64)).item()
    assert far == pytest.approx(math.pi**2 / math.sin(math.pi / 4) ** 2, rel=1e-12)


def test_as_much_work_as_there_is():
    """Counts that arguments name, of nothing."""
    many = 2**62
    assert pf.vander(pf.zeros(0), N=many).shape == (0, many)
    assert pf.linalg.vander(pf.zeros(3, 0), N=many).shape == (3, 0, many)
    none = pf.zeros(0, 0, dtype=pf.int64)
    losses = pf.zeros(2**40, 0, 3, requires_grad=True)
    loss = pf.nn.functional.ctc_loss(losses, none, [], [], reduction="sum")
    assert loss.item() == 0
    loss.backward()
    assert losses.grad.shape == losses.shape
    with pytest.raises(pf.ValueError, match="groups"):
        pf.nn.init.dirac_(pf.zeros(3, 2, 1), groups=many)
    assert pf.nn.init.dirac_(pf.zeros(0, 2, 1), groups=many).shape == (0, 2, 1)


def test_functions_of_two():
    sp = pytest.importorskip("scipy.special")
    a = np.array([0.1, 0.5, 1, 2.5, 10, 19, 21, 100, 1000, 1e5])[:, None]
    x = np.array([0, 1e-8, 0.1, 1, 2, 9, 25, 99, 101, 990, 1.001e5, np.inf])
    close(pf.igamma(pf.tensor(a), pf.tensor(x)), sp.gammainc(a, x), rtol=1e-9, atol=1e-11)
    close(S.gammaincc(pf.tensor(a), pf.tensor(x)), sp.gammaincc(a, x), rtol=1e-8, atol=1e-11)
    s = np.array([1.0, 1.01, 1.5, 2, 5, 30, 0.5])[:, None]
    q = np.array([0.1, 1, 2.5, 10, 1e4, -0.0])
    close(S.zeta(pf.tensor(s), pf.tensor(q)), sp.zeta(s, q), rtol=1e-11)
    close(S.zeta(2.0, pf.tensor(q)), sp.zeta(2.0, q), rtol=1e-11)
    close(S.zeta(pf.tensor(s), 3), sp.zeta(s, 3), rtol=1e-11)
    y = np.array([-0.5, 0.0, 2.0, np.inf, np.nan])
    close(
        S.xlog1py(pf.tensor([[0.0], [2.0]], dtype=pf.float64), pf.tensor(y)),
        sp.xlog1py([[0.0], [2.0]], y),
    )
    z = np.array([3.0, 2.1, 10])
    close(pf.mvlgamma(pf.tensor(z), 3), np.array([sp.multigammaln(v, 3) for v in z]))
    assert S.multigammaln is S.multigammaln and np.isnan(
        of(pf.igamma(pf.tensor([-1.0]), pf.tensor([1.0])))
    )
    t = pf.tensor(z)
    t.igamma_(pf.tensor(z))
    close(t, sp.gammainc(z, z), rtol=1e-10)


POLYNOMIALS = {
    "chebyshev_polynomial_t": "eval_chebyt", "chebyshev_polynomial_u": "eval_chebyu",
    "shifted_chebyshev_polynomial_t": "eval_sh_chebyt", "shifted_chebyshev_polynomial_u": "eval_sh_chebyu",
    "hermite_polynomial_h": "eval_hermite", "hermite_polynomial_he": "eval_hermitenorm",
    "laguerre_polynomial_l": "eval_laguerre", "legendre_polynomial_p": "eval_legendre",
}  # fmt: skip


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    sp = pytest.importorskip("scipy.special")
    x, n = np.linspace(-1, 1, 7), np.arange(8)[:, None]
    f, g = getattr(S, name), getattr(sp, POLYNOMIALS[name])
    close(f(pf.tensor(x), pf.tensor(n)), g(n, x), rtol=1e-10, atol=1e-10)
    close(f(pf.tensor(x), 3), g(3, x), rtol=1e-10, atol=1e-10)
    close(f(0.5, pf.tensor(n[:, 0])), g(n[:, 0], 0.5), rtol=1e-5, atol=1e-5)
    assert of(f(pf.tensor(x), -1)).max() == 0


def test_other_chebyshev_polynomials():
    a = np.linspace(0.1, 3, 5)
    x = np.cos(a)
    for n in range(5):
        close(
            S.chebyshev_polynomial_v(pf.tensor(x), n),
            np.cos((n + 0.5) * a) / np.cos(a / 2),
            rtol=1e-9,
            atol=1e-10,
        )
        close(
            S.chebyshev_polynomial_w(pf.tensor(x), n),
            np.sin((n + 0.5) * a) / np.sin(a / 2),
            rtol=1e-9,
            atol=1e-10,
        )
        close(
            S.shifted_chebyshev_polynomial_v(pf.tensor((x + 1) / 2), n),
            np.cos((n + 0.5) * a) / np.cos(a / 2),
            rtol=1e-9,
            atol=1e-10,
        )


def test_gradients():
    x = np.array([-2.3, -0.4, 0.7, 1.9])
    for name in ("i0", "i0e", "i1", "i1e", "bessel_j0", "bessel_j1", "erfcx", "log_ndtr", "ndtr"):
        check_grad(getattr(S, name), x, tol=2e-5)
    for name in ("bessel_y0", "bessel_y1", "entr", "modified_bessel_k0", "modified_bessel_k1",
                 "scaled_modified_bessel_k0", "scaled_modified_bessel_k1"):  # fmt: skip
        check_grad(getattr(S, name), np.abs(x) + 0.3, tol=2e-5)
    a, p = pf.tensor([1.5, 3.0], dtype=pf.float64), np.array([0.8, 2.5])
    check_grad(lambda t: pf.igamma(a, t), p)
    check_grad(lambda t: pf.igammac(a, t), p)
    check_grad(lambda t: S.zeta(a + 1, t), p)
    check_grad(S.xlog1py, p, p)
    check_grad(lambda t: pf.mvlgamma(t, 2), p + 1)
    with pytest.raises(pf.NotSupportedError, match="first argument"):
        pf.igamma(pf.ones(1, requires_grad=True), pf.ones(1)).sum().backward()
    for f in (S.i1, S.bessel_j1, S.i1e):
        t = pf.zeros(1, dtype=pf.float64, requires_grad=True)
        f(t).sum().backward()
        same(t.grad, [0.5])


# ---- histograms, differences, bits --------------------------------------------------------------


def test_histogram():
    x = RNG.standard_normal(500)
    w = RNG.random(500)
    for how in ({}, {"range": (-1.0, 2.0)}, {"density": True}, {"weight": w}):
        given = {k: pf.tensor(v) if k == "weight" else v for k, v in how.items()}
        want = {("weights" if k == "weight" else k): v for k, v in how.items()}
        h, edges = pf.histogram(pf.tensor(x), 17, **given)
        close(h, np.histogram(x, 17, **want)[0], rtol=1e-9)
        close(edges, np.histogram(x, 17, **want)[1], rtol=1e-9)
    e = np.array([-3.0, -1, 0, 0.5, 4])
    h, edges = pf.tensor(x).histogram(pf.tensor(e))
    same(h, np.histogram(x, e)[0].astype(float))
    same(edges, e)
    h, _ = pf.histogram(pf.tensor([1.0, 1.0, np.nan]).double()[:2], 4)
    same(h, np.histogram([1.0, 1.0], 4)[0].astype(float))
    same(pf.histogram(pf.empty(0), 3).hist, np.zeros(3, np.float32))
    points = RNG.standard_normal((200, 3))
    h, edges = pf.histogramdd(pf.tensor(points), [4, 5, 6])
    want = np.histogramdd(points, [4, 5, 6])
    same(h, want[0])
    for a, b in zip(edges, want[1]):
        close(a, b)
    r = pf.histogramdd(pf.tensor(points), 3, range=[-1.0, 1, -2, 2, -3, 3], density=True)
    close(r.hist, np.histogramdd(points, 3, range=[(-1, 1), (-2, 2), (-3, 3)], density=True)[0])
    edges = [np.array([-1.0, 0, 1])] * 3
    same(
        pf.histogramdd(pf.tensor(points), [pf.tensor(v) for v in edges]).hist,
        np.histogramdd(points, edges)[0],
    )
    for error, text, f in (
        (pf.ValueError, "at least 1", lambda: pf.histogram(pf.ones(2), 0)),
        (pf.DTypeError, "float32", lambda: pf.histogram(pf.ones(2, dtype=pf.int64), 3)),
        (pf.ValueError, "range", lambda: pf.histogram(pf.ones(2), 3, range=(2.0, 1.0))),
        (pf.ValueError, "finite", lambda: pf.histogram(pf.tensor([pf.nan]), 3)),
        (pf.ShapeError, "weights", lambda: pf.histogram(pf.ones(2), 3, weight=pf.ones(3))),
        (pf.ShapeError, "points in rows", lambda: pf.histogramdd(pf.ones(3), [3])),
    ):
        with pytest.raises(error, match=text):
            f()


@pytest.mark.parametrize("how", ["range", "none", "edges", "many", "dd"])
@pytest.mark.parametrize("dtype", [pf.float32, pf.float64])
def test_weighted_histogram(how, dtype):
    """Weights of any sign count, and those that are no finite numbers stay in their bins."""
    x = RNG.random((60000, 2))
    x[:5, 0] = [0.0, 1.0, -0.1, 1.1, 0.5]
    w = RNG.standard_normal(60000)
    numpy_of = {pf.float32: np.float32, pf.float64: np.float64}[dtype]
    x, w = x.astype(numpy_of), w.astype(numpy_of)
    bins = {"many": 3000, "edges": np.sort(RNG.random(40)).astype(numpy_of)}.get(how, 30)
    given = {"range": (0.0, 1.0)} if how in ("range", "many") else {}

    def ours(weights):
        if how == "dd":
            return pf.histogramdd(pf.tensor(x), [9, 7], weight=pf.tensor(weights)).hist
        at = pf.tensor(bins) if how == "edges" else bins
        return pf.histogram(pf.tensor(x[:, 0]), at, weight=pf.tensor(weights), **given).hist

    def wanted(weights):
        weights = weights.astype(float)
        if how == "dd":
            return np.histogramdd(x, [9, 7], weights=weights)[0]
        edges = (
            pf.histogram(pf.tensor(x[:, 0]), bins, **given).bin_edges if how != "edges" else bins
        )
        edges, v = np.asarray(edges.tolist()), x[:, 0]
        sums = np.zeros(len(edges) - 1)  # NumPy's own are of running sums, in which NaN spreads
        place = np.minimum(np.searchsorted(edges, v, "right") - 1, len(sums) - 1)
        inside = (v >= edges[0]) & (v <= edges[-1])
        np.add.at(sums, place[inside], weights[inside])
        return sums

    close(ours(w), wanted(w), rtol=1e-3, atol=1e-3 if dtype == pf.float32 else 1e-9)
    w[4], w[2] = np.inf, np.nan  # the second lies outside but for the range of all values
    for _ in range(2):
        got, want = np.asarray(ours(w).tolist()), wanted(w)
        assert np.array_equal(np.isinf(got), np.isinf(want)) and np.isinf(want).sum() <= 1
        assert np.array_equal(np.isnan(got), np.isnan(want))
        w[4], w[7] = -np.inf, np.nan


# Of the last many float32 edges are the same, and far from where a product has them.
@pytest.mark.parametrize("ends", [(0.0, 1e-3), (-2.0, 3.0), (1e6, 1e6 + 1)])
@pytest.mark.parametrize("seed", range(8))
def test_histograms_drawn(seed, ends):
    r = np.random.default_rng([seed, int(ends[1])])
    dtype, (low, high) = (np.float32, np.float64)[seed % 2], ends
    bins, n = int(r.choice([1, 2, 7, 100, 3000])), int(r.choice([1, 50, 40_000]))
    even = pf.linspace(low, high, bins + 1, dtype=pf.tensor(dtype(0)).dtype).numpy()
    x = (low + (high - low) * (0.5 + 0.3 * r.standard_normal(n))).astype(dtype)
    x[::3] = r.choice(even, len(x[::3]))  # on an edge
    x[1::7] = r.choice(np.array([np.nan, np.inf, -np.inf, high, low], dtype), len(x[1::7]))
    w = r.standard_normal(n).astype(dtype)
    uneven = np.sort(low + (high - low) * r.random(bins + 1)).astype(dtype)
    real = ~np.isnan(x)
    for edges, to, how in ((even, bins, {"range": (low, high)}), (uneven, pf.tensor(uneven), {})):
        for weight in (None, w):
            given = {} if weight is None else {"weight": pf.tensor(w)}
            ours = pf.histogram(pf.tensor(x), to, **how, **given)
            assert (ours.bin_edges.numpy() == edges).all()
            want = np.histogram(x[real], edges, weights=None if weight is None else w[real])[0]
            bound = 0 if weight is None else 1e-6 * abs(w).sum()  # of what was added up
            np.testing.assert_allclose(ours.hist.numpy(), want, rtol=0, atol=bound)
    rows = np.stack([x, x[::-1]], 1)[np.isfinite(x) & np.isfinite(x[::-1])]
    ours = pf.histogramdd(pf.tensor(rows), [pf.tensor(even), pf.tensor(uneven)]).hist.numpy()
    assert (ours == np.histogramdd(rows, [even, uneven])[0]).all()
    line = np.sort(r.choice(x, min(n, bins)))  # with repeats and NaN
    for side in ("left", "right"):
        ours = pf.searchsorted(pf.tensor(line), pf.tensor(x), side=side).numpy()
        assert (ours == np.searchsorted(line, x, side=side)).all()
    for n in range(9):
        ours = pf.bucketize(pf.tensor([-1, 0, 0.5, 3, 7, 9]), pf.arange(n).float()).tolist()
        assert ours == [0, 0, min(n, 1), min(n, 3), min(n, 7), n]


def test_gradient_and_areas():
    a = RNG.standard_normal((5, 6))
    at = [np.sort(RNG.random(5)) * 4, np.sort(RNG.random(6)) * 4]
    for order in (1, 2):
        for got, want in (
            (pf.gradient(pf.tensor(a), edge_order=order), np.gradient(a, edge_order=order)),
            (pf.gradient(pf.tensor(a), spacing=0.5, edge_order=order), np.gradient(a, 0.5, edge_order=order)),
            (pf.gradient(pf.tensor(a), spacing=(0.5, 2.0), edge_order=order), np.gradient(a, 0.5, 2.0, edge_order=order)),
            (pf.gradient(pf.tensor(a), spacing=[pf.tensor(v) for v in at], edge_order=order), np.gradient(a, *at, edge_order=order)),
        ):  # fmt: skip
            for x, y in zip(got, want):
                close(x, y, rtol=1e-9, atol=1e-9)
        (one,) = pf.gradient(pf.tensor(a), dim=1, edge_order=order)
        close(one, np.gradient(a, axis=1, edge_order=order), rtol=1e-9)
    check_grad(
        lambda t: pf.stack(list(pf.gradient(t, spacing=[pf.tensor(v) for v in at], edge_order=2))),
        a,
    )
    with pytest.raises(pf.ShapeError, match="edge_order"):
        pf.gradient(pf.ones(1))
    scipy = pytest.importorskip("scipy.integrate")
    close(
        pf.cumulative_trapezoid(pf.tensor(a), dx=0.5, dim=0),
        scipy.cumulative_trapezoid(a, dx=0.5, axis=0),
    )
    close(
        pf.cumulative_trapezoid(pf.tensor(a), pf.tensor(at[1])),
        scipy.cumulative_trapezoid(a, at[1]),
    )
    assert pf.cumulative_trapezoid(pf.ones(1)).shape == (0,)


def test_renorm_and_index_reduce():
    torch = pytest.importorskip("torch")
    a = RNG.standard_normal((4, 3, 2)) * 3
    for p in (1, 2, 3, np.inf):
        for dim in (0, -1):
            close(
                pf.renorm(pf.tensor(a), p, dim, 2.0),
                torch.renorm(torch.tensor(a), p, dim, 2.0).numpy(),
                rtol=1e-6,
            )
    check_grad(lambda t: t.renorm(2, 0, 2.0), a)
    index, source = np.array([0, 3, 0, 1]), RNG.standard_normal((4, 4, 2))
    x = RNG.standard_normal((4, 5, 2))
    for reduce in ("prod", "mean", "amax", "amin"):
        for include in (True, False):
            got = pf.index_reduce(
                pf.tensor(x), 1, pf.tensor(index), pf.tensor(source), reduce, include_self=include
            )
            want = torch.tensor(x).index_reduce(
                1, torch.tensor(index), torch.tensor(source), reduce, include_self=include
            )
            close(got, want.numpy(), rtol=1e-9)
    check_grad(lambda t, s: t.index_reduce(1, pf.tensor(index), s, "mean"), x, source)
    with pytest.raises(pf.ValueError, match="'prod'"):
        pf.ones(3).index_reduce(0, pf.tensor([0]), pf.ones(1), "sum")


def test_bits():
    for dtype in (np.float32, np.float64):
        tiny = np.finfo(dtype).smallest_subnormal
        x = np.array(
            [
                0,
                -0.0,
                1,
                -1,
                0.1,
                tiny,
                -tiny,
                3 * tiny,
                1e10,
                np.inf,
                -np.inf,
                np.nan,
                np.finfo(dtype).max,
                np.finfo(dtype).tiny,
            ],
            dtype,
        )
        m, e = pf.frexp(pf.tensor(x))
        wm, we = np.frexp(x)
        same(m, wm)
        finite = np.isfinite(x)
        same(of(e)[finite], we[finite])
        assert e.dtype == pf.int32
        for y in (0, 5, -5, np.inf, np.nan):
            same(pf.nextafter(pf.tensor(x), pf.tensor(y, dtype=m.dtype)), np.nextafter(x, dtype(y)))
    check_grad(lambda t: pf.frexp(t).mantissa, np.array([0.3, 3.7, -2.2]), second=False)
    with pytest.raises(pf.DTypeError):
        pf.frexp(pf.ones(2, dtype=pf.int64))


def test_resize():
    t = pf.arange(6)
    assert t.resize_(2, 2) is t and t.tolist() == [[0, 1], [2, 3]]
    t.resize_(3, 2)
    assert t.tolist() == [[0, 1], [2, 3], [4, 5]]
    t.resize_(10)
    assert t.shape == (10,) and t[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert pf.empty(0).resize_(2, 3).shape == (2, 3)
    assert pf.ones(4).resize_as_(pf.ones(2, 1)).shape == (2, 1)
    with pytest.raises(pf.AutogradError):
        pf.ones(2, requires_grad=True).resize_(1)


def test_low_rank():
    a = pf.tensor(RNG.standard_normal((30, 4)) @ RNG.standard_normal((4, 20)))
    for x in (a, a.mT):
        u, s, v = pf.svd_lowrank(x, q=6)
        close((u * s) @ v.mT, of(x), atol=1e-9)
    u, s, v = pf.pca_lowrank(a, q=5)
    centered = of(a) - of(a).mean(0)
    close(s, np.linalg.svd(centered)[1][:5], atol=1e-8)
    with pytest.raises(pf.ValueError, match="q 0"):
        pf.svd_lowrank(a, q=0)


@pytest.mark.parametrize("name", ["xlog1py", "xlogy", "entr"])
def test_gradients_where_a_factor_vanishes(name):
    """PyTorch's; where it multiplies 0 and an infinity the slope is 0 here."""
    torch = pytest.importorskip("torch")
    points = [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0]
    for x in points:
        for y in points if name != "entr" else [None]:
            found = []
            for lib in (pf, torch):
                at = [
                    lib.tensor(v, dtype=lib.float64, requires_grad=True)
                    for v in (x, y)
                    if v is not None
                ]
                result = getattr(lib.special, name)(*at)
                slopes = lib.autograd.grad(result, at)
                found.append([result.item(), *(s.item() for s in slopes)])
            if name == "xlog1py" and (x, y) == (0, -1):
                assert found[0] == [0, 0, 0] and math.isnan(found[1][2])
                continue
            np.testing.assert_allclose(*found, rtol=1e-12, err_msg=f"{x}, {y}")


def test_entropy_of_a_negative_zero():
    x = pf.tensor([0.0, -0.0], requires_grad=True)
    y = pf.special.entr(x)
    y.sum().backward()
    assert x.grad.tolist() == [math.inf, math.inf]
    assert [math.copysign(1, v) for v in y.tolist()] == [1, 1]
