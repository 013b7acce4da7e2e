"""Samples of distributions by name: poisson, binomial, and what overwrites a tensor."""

import numpy as np
import pytest

import pyflame as pf

stats = pytest.importorskip("scipy.stats")
N = 20_000


def fits(sample, distribution):
    """By the test of Kolmogorov and Smirnov."""
    assert stats.kstest(sample.cpu().double().numpy(), distribution.cdf).pvalue > 1e-4


def counts_fit(sample, distribution):
    """By chi-square over counts of which at least ten are expected."""
    x = sample.cpu().double().numpy().ravel()
    assert (x == np.floor(x)).all()
    low, high = int(distribution.ppf(1e-3)), int(distribution.ppf(1 - 1e-3))
    edges = np.unique(np.linspace(low, high, 40).astype(int))  # groups (., e0], (e0, e1], ...
    below = distribution.cdf(edges)
    expected = N * np.diff(np.concatenate([[0], below, [1]]))
    seen = np.diff(np.concatenate([[0], [(x <= e).sum() for e in edges], [x.size]]))
    keep = expected >= 10
    seen = np.append(seen[keep], seen[~keep].sum())
    expected = np.append(expected[keep], expected[~keep].sum())
    if expected[-1] < 1:
        assert seen[-1] <= 10
        seen, expected = seen[:-1], expected[:-1]
    expected *= seen.sum() / expected.sum()
    assert len(seen) < 2 or stats.chisquare(seen, expected).pvalue > 1e-4


@pytest.mark.parametrize("rate", [0.0, 0.3, 4.0, 9.99, 10.0, 35.0, 1e4, 3e6])
def test_poisson(rate):
    pf.manual_seed(11)
    x = pf.poisson(pf.full((N,), rate, dtype=pf.float64))
    assert x.dtype == pf.float64 and x.shape == (N,)
    if rate == 0:
        assert not x.any()
    else:
        counts_fit(x, stats.poisson(rate))


@pytest.mark.parametrize(
    "n, p",
    [(1, 0.5), (7, 0.2), (30, 0.9), (40, 0.25), (1000, 0.5), (5e6, 0.03), (12, 1.0), (0, 0.4)],
)
def test_binomial(n, p):
    pf.manual_seed(12)
    x = pf.binomial(pf.tensor(float(n)), pf.full((N,), p))  # float32, broadcast
    assert x.dtype == pf.float32
    if n == 0 or p == 1:
        assert (x == n).all()
    else:
        assert 0 <= x.min() and x.max() <= n
        counts_fit(x, stats.binom(int(n), np.float64(np.float32(p))))


def test_overwriting():
    pf.manual_seed(13)
    x = pf.empty(N)
    assert x.cauchy_(2.0, 0.5) is x
    fits(x, stats.cauchy(2.0, 0.5))
    fits(x.log_normal_(0.5, 0.25), stats.lognorm(0.25, scale=np.exp(0.5)))
    fits(x.exponential_(3.0), stats.expon(scale=1 / 3))
    counts_fit(x.geometric_(0.07), stats.geom(0.07))
    whole = pf.empty(N, dtype=pf.int64).geometric_(0.6)
    assert whole.dtype == pf.int64 and whole.min() == 1
    counts_fit(whole, stats.geom(0.6))
    part = pf.zeros(4, 6)
    part.t()[::2].log_normal_()
    assert (part[:, ::2] > 0).all() and not part[:, 1::2].any()
    assert pf.empty(0).cauchy_().shape == (0,)
    for dtype in (pf.float16, pf.bfloat16, pf.float64):
        assert pf.empty(100, dtype=dtype).geometric_(0.5).ge(1).all()


def test_seeds_generators_and_gradients():
    rate = pf.tensor([[0.5, 20.0, 3.0]]).expand(5, 3)
    for draw in (
        lambda g: pf.poisson(rate, generator=g),
        lambda g: pf.binomial(rate.floor(), rate / 40, generator=g),
        lambda g: pf.empty(50).cauchy_(generator=g),
        lambda g: pf.empty(50).log_normal_(generator=g),
        lambda g: pf.empty(50).geometric_(0.1, generator=g),
    ):
        one, two = (draw(pf.Generator().manual_seed(4)) for _ in range(2))
        assert pf.equal(one, two)
        g = pf.Generator().manual_seed(4)
        draw(g)
        assert not pf.equal(draw(g), one)
    w = pf.tensor([3.0, 30.0], requires_grad=True)
    (pf.poisson(w) + pf.binomial(w.detach(), w / 50)).sum().backward()
    assert w.grad is None or w.grad.tolist() == [0, 0]
    leaf = pf.ones(3, requires_grad=True)
    with pytest.raises(pf.AutogradError, match="cauchy_"):
        leaf.cauchy_()
    y = leaf * 2
    y.log_normal_()
    y.sum().backward()
    assert leaf.grad.tolist() == [0, 0, 0]


def test_errors():
    for call, error, words in (
        (lambda: pf.poisson(pf.tensor([1])), TypeError, "floating-point"),
        (lambda: pf.binomial(pf.ones(2), pf.ones(2).double()), TypeError, "one dtype"),
        (lambda: pf.binomial(pf.ones(2), pf.ones(3)), ValueError, "binomial"),
        (lambda: pf.empty(2).cauchy_(sigma=0.0), ValueError, "sigma"),
        (lambda: pf.empty(2).log_normal_(0.0, -1.0), ValueError, "std"),
        (lambda: pf.empty(2).geometric_(1.0), ValueError, "0 < p < 1"),
        (lambda: pf.empty(2).bool().geometric_(0.5), TypeError, "holds counts"),
        (lambda: pf.empty(2, dtype=pf.int32).cauchy_(), TypeError, "floating-point"),
    ):
        with pytest.raises(error, match=words):
            call()
    wrong = (
        lambda: pf.poisson(pf.tensor([1.0, -1.0, float("nan")])),
        lambda: pf.binomial(pf.tensor([3.0, -1, 3]), pf.tensor([0.5, 0.5, 1.5])),
    )
    for call in wrong:
        if pf.get_device().type == "cpu":
            with pytest.raises(ValueError, match="at least 0"):
                call()
        else:  # which is not waited for
            assert call().isnan().tolist() == [False, True, True]
