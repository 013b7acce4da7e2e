"""Distributions beside PyTorch's and SciPy's: densities, moments, samples, gradients through samples."""

import importlib
import math

import numpy as np
import pytest
import scipy.stats as st

import pyflame as pf

D = pf.distributions
F8 = {"dtype": pf.float64}


def t(*values):
    return pf.tensor(list(values), **F8)


def np_of(x):
    return x.detach().cpu().numpy()


# Name, parameters, values of the support: with two of a batch.
CASES = {
    "Normal": ([[0.5, -2.0], [1.5, 0.2]], [0.3, -2.1]),
    "LogNormal": ([[0.5, -1.0], [0.7, 0.2]], [1.3, 0.4]),
    "HalfNormal": ([[1.5, 0.2]], [0.3, 0.1]),
    "HalfCauchy": ([[1.5, 0.2]], [0.3, 3.0]),
    "Uniform": ([[0.0, -2.0], [1.5, 4.0]], [0.3, 3.9]),
    "Exponential": ([[0.5, 3.0]], [0.3, 2.0]),
    "Laplace": ([[0.5, -2.0], [1.5, 0.2]], [0.3, -2.1]),
    "Cauchy": ([[0.5, -2.0], [1.5, 0.2]], [0.3, -9.0]),
    "Gumbel": ([[0.5, -2.0], [1.5, 0.2]], [0.3, -2.1]),
    "Gamma": ([[0.3, 5.0], [1.5, 0.2]], [0.3, 20.0]),
    "InverseGamma": ([[2.3, 5.0], [1.5, 0.2]], [0.3, 0.1]),
    "Chi2": ([[0.7, 5.0]], [0.3, 7.0]),
    "Beta": ([[0.3, 5.0], [1.5, 2.0]], [0.3, 0.9]),
    "Kumaraswamy": ([[0.3, 5.0], [1.5, 2.0]], [0.3, 0.9]),
    "StudentT": ([[3.3, 5.0], [0.5, -2.0], [1.5, 0.2]], [0.3, -2.5]),
    "FisherSnedecor": ([[3.3, 5.0], [4.5, 6.0]], [0.3, 2.5]),
    "Pareto": ([[0.5, 2.0], [3.0, 1.5]], [0.8, 2.5]),
    "Weibull": ([[0.5, 2.0], [3.0, 0.8]], [0.8, 2.5]),
    "VonMises": ([[0.5, -2.0], [1.5, 0.2]], [0.3, -2.5]),
    "Bernoulli": ([[0.3, 0.9]], [1.0, 0.0]),
    "ContinuousBernoulli": ([[0.3, 0.5003]], [0.2, 0.7]),
    "Geometric": ([[0.3, 0.9]], [4.0, 0.0]),
    "Poisson": ([[0.3, 20.0]], [1.0, 15.0]),
    "Binomial": ([[7.0, 30.0], [0.3, 0.9]], [2.0, 28.0]),
    "NegativeBinomial": ([[7.0, 0.5], [0.3, 0.9]], [2.0, 8.0]),
}
VECTORS = {
    "Dirichlet": ([[[0.3, 2.0, 1.0], [5.0, 5.0, 5.0]]], [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]),
    "Categorical": ([[[0.3, 0.2, 0.5], [0.1, 0.9, 0.0]]], [2, 1]),
    "OneHotCategorical": ([[[0.3, 0.2, 0.5], [0.1, 0.8, 0.1]]], [[0, 0, 1.0], [0, 1.0, 0]]),
    "LogisticNormal": ([[[0.3, -1.0], [1.0, 0.0]], [[1.0, 0.5], [2.0, 1.0]]], [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]),
    "MultivariateNormal": ([[[0.3, -1.0], [1.0, 0.0]], [[[2.0, 0.3], [0.3, 1.0]]] * 2], [[0.2, 0.3], [2.0, 1.0]]),
    "LowRankMultivariateNormal": (
        [[[0.3, -1.0], [1.0, 0.0]], [[[2.0], [0.3]]] * 2, [[1.0, 0.5]] * 2], [[0.2, 0.3], [2.0, 1.0]],
    ),
}  # fmt: skip
# No form that PyTorch has, or another: SciPy's are compared below.
WITHOUT = {
    "entropy": {
        "FisherSnedecor",
        "VonMises",
        "Poisson",
        "NegativeBinomial",
        "LogisticNormal",
        "Binomial",
    },
    "mean": {"Categorical", "LogisticNormal", "HalfCauchy", "Cauchy"},
    "variance": {"Categorical", "LogisticNormal", "VonMises", "HalfCauchy", "Cauchy"},
    "mode": {
        "Uniform",
        "LogisticNormal",
        "Kumaraswamy",
        "ContinuousBernoulli",
        "NegativeBinomial",
        "Weibull",
    },
    "cdf": {"Gamma", "Chi2"},  # where the incomplete gamma function is
}


def pair(name, parameters):
    torch = pytest.importorskip("torch")
    whole = name in (
        "Bernoulli",
        "ContinuousBernoulli",
        "Geometric",
        "Categorical",
        "OneHotCategorical",
    )
    ours = [pf.tensor(p, **F8) for p in parameters]
    theirs = [torch.tensor(p, dtype=torch.float64) for p in parameters]
    keys = ["probs"] if whole else [None] * len(ours)
    if name in ("Binomial", "NegativeBinomial"):
        keys = [None, "probs"]
    make = lambda kind, values: kind(  # noqa: E731
        *[v for k, v in zip(keys, values) if k is None],
        **{k: v for k, v in zip(keys, values) if k is not None},
    )
    return make(getattr(D, name), ours), make(getattr(torch.distributions, name), theirs)


@pytest.mark.parametrize("name", [*CASES, *VECTORS])
def test_densities_and_moments_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    parameters, value = {**CASES, **VECTORS}[name]
    ours, theirs = pair(name, parameters)
    kind = {} if name == "Categorical" else {"dtype": torch.float64}
    x, y = pf.tensor(value, **({} if name == "Categorical" else F8)), torch.tensor(value, **kind)
    close = dict(rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(np_of(ours.log_prob(x)), theirs.log_prob(y).numpy(), **close)
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(ours.event_shape) == tuple(theirs.event_shape)
    assert ours.has_rsample == theirs.has_rsample
    for what in ("mean", "variance", "mode", "entropy"):
        if name in WITHOUT[what]:
            continue
        got, want = getattr(ours, what), getattr(theirs, what)
        if what == "entropy":
            got, want = got(), want()
        np.testing.assert_allclose(np_of(got), want.numpy(), err_msg=what, **close)
    if name in CASES and name not in WITHOUT["cdf"]:
        try:
            want = theirs.cdf(y).numpy()
        except NotImplementedError:
            return
        # PyTorch's Kumaraswamy is of a base that begins at 1e-7.
        wide = dict(rtol=1e-6) if name == "Kumaraswamy" else close
        np.testing.assert_allclose(np_of(ours.cdf(x)), want, **wide)
        if name not in ("VonMises", "StudentT", "InverseGamma"):
            np.testing.assert_allclose(
                np_of(ours.icdf(pf.tensor(want, **F8))), np.array(value), rtol=1e-6
            )


@pytest.mark.parametrize("name", [*CASES, *VECTORS])
def test_shapes_and_expanding(name):
    parameters, _ = {**CASES, **VECTORS}[name]
    ours, theirs = pair(name, parameters)
    for shape in ((), (3,), (2, 3)):
        assert tuple(ours.sample(shape).shape) == tuple(theirs.sample(shape).shape)
    wide, want = ours.expand((4, 2)), theirs.expand((4, 2))
    assert tuple(wide.batch_shape) == tuple(want.batch_shape)
    assert tuple(wide.sample().shape) == tuple(want.sample().shape)
    assert wide.log_prob(wide.sample()).shape[:2] == (4, 2)
    assert name in repr(ours)


MOMENTS = [
    n
    for n in CASES
    if n not in ("Cauchy", "HalfCauchy", "VonMises", "Pareto", "FisherSnedecor", "InverseGamma")
]


@pytest.mark.parametrize("name", MOMENTS)
def test_samples_have_the_moments(name):
    pf.manual_seed(11)
    ours, _ = pair(name, CASES[name][0])
    n = 20_000
    x = np_of(ours.sample((n,)))
    mean, var = np_of(ours.mean), np_of(ours.variance)
    assert np.all(np.abs(x.mean(0) - mean) < 6 * np.sqrt(var / n) + 1e-12), (x.mean(0), mean)
    assert np.allclose(x.var(0), var, rtol=0.35), (x.var(0), var)


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (lambda: D.Gamma(t(0.05), t(1.0)), st.gamma(0.05)),
        (lambda: D.Gamma(t(1.0), t(1.0)), st.gamma(1.0)),
        (lambda: D.Gamma(t(37.0), t(1.0)), st.gamma(37.0)),
        (lambda: D.Beta(t(0.4), t(3.0)), st.beta(0.4, 3.0)),
        (lambda: D.VonMises(t(0.0), t(2.5)), st.vonmises(2.5)),
        (lambda: D.VonMises(t(0.0), t(0.01)), st.vonmises(0.01)),
        (lambda: D.StudentT(t(3.0)), st.t(3.0)),
        (lambda: D.Cauchy(t(0.0), t(1.0)), st.cauchy()),
        (lambda: D.Pareto(t(1.0), t(2.0)), st.pareto(2.0)),
    ],
)
def test_samples_are_distributed_so(ours, theirs):
    pf.manual_seed(5)
    x = np_of(ours().sample((4000,))).ravel()
    assert st.kstest(x, theirs.cdf).pvalue > 1e-4


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (lambda: D.Poisson(t(0.7)), st.poisson(0.7)),
        (lambda: D.Poisson(t(9.9)), st.poisson(9.9)),
        (lambda: D.Poisson(t(10.1)), st.poisson(10.1)),
        (lambda: D.Poisson(t(300.0)), st.poisson(300.0)),
        (lambda: D.Binomial(t(12.0), probs=t(0.3)), st.binom(12, 0.3)),
        (lambda: D.Binomial(t(1000.0), probs=t(0.003)), st.binom(1000, 0.003)),
        (lambda: D.Binomial(t(1000.0), probs=t(0.4)), st.binom(1000, 0.4)),
        (lambda: D.Binomial(t(1000.0), probs=t(0.97)), st.binom(1000, 0.97)),
        (lambda: D.Geometric(t(0.2)), st.geom(0.2, loc=-1)),
        (lambda: D.NegativeBinomial(t(5.0), probs=t(0.4)), st.nbinom(5, 0.6)),
    ],
)
def test_counts_are_distributed_so(ours, theirs):
    pf.manual_seed(6)
    n = 8000
    x = np_of(ours().sample((n,))).ravel()
    assert np.array_equal(x, np.round(x)) and x.min() >= 0
    cuts = np.unique(theirs.ppf(np.linspace(0.1, 0.9, 9)))
    edges = np.concatenate([[-1], cuts, [np.inf]])
    want = np.diff(np.concatenate([[0], theirs.cdf(cuts), [1]])) * n
    got = np.histogram(x, edges + 0.5)[0]
    keep = want > 5
    assert st.chisquare(got[keep], want[keep] * got[keep].sum() / want[keep].sum()).pvalue > 1e-4


def test_counts_of_nothing():
    assert D.Poisson(t(0.0)).sample((50,)).sum().item() == 0
    assert D.Binomial(t(0.0, 5.0), probs=t(0.5, 0.0)).sample((50,)).sum().item() == 0
    assert D.Binomial(t(5.0), probs=t(1.0)).sample((50,)).eq(5).all().item()


@pytest.mark.parametrize("a", [0.02, 0.3, 1.0, 4.5, 80.0, 3000.0])
def test_gamma_samples_move_with_their_shape(a):
    from pyflame.distributions.sampling import gamma_gradient

    q = np.array([1e-3, 0.1, 0.5, 0.9, 0.999])
    z = st.gamma.ppf(q, a)
    z, q = z[z > 1e-290], q[z > 1e-290]
    h = a * 1e-4
    want = (
        -st.gamma.ppf(q, a + 2 * h) + 8 * st.gamma.ppf(q, a + h)
        - 8 * st.gamma.ppf(q, a - h) + st.gamma.ppf(q, a - 2 * h)
    ) / (12 * h)  # fmt: skip
    got = np_of(gamma_gradient(pf.full((len(z),), a, **F8), pf.tensor(z, **F8)))
    np.testing.assert_allclose(got, want, rtol=5e-6)


@pytest.mark.parametrize(
    "name", ["Gamma", "Beta", "Dirichlet", "StudentT", "Normal", "Kumaraswamy", "Weibull"]
)
def test_gradients_through_samples_are_those_of_the_mean(name):
    parameters, _ = {**CASES, **VECTORS}[name]
    ours = [pf.tensor(p, **F8).requires_grad_() for p in parameters]
    pf.manual_seed(3)
    x = getattr(D, name)(*ours).rsample((40_000,))
    weights = pf.arange(x[0].numel(), **F8).reshape(x[0].shape) + 1
    (x.mean(0) * weights).sum().backward()
    exact = [p.detach().clone().requires_grad_() for p in ours]
    (getattr(D, name)(*exact).mean * weights).sum().backward()
    for p, e in zip(ours, exact):
        want = np.zeros(tuple(p.shape)) if e.grad is None else np_of(e.grad)
        got = np_of(p.grad)
        assert np.all(np.abs(got - want) < 0.06 * (1 + np.abs(want))), (got, want)


PAIRS = {
    "Normal": "Normal", "Uniform": None, "Exponential": "Exponential", "Laplace": "Laplace", "Gamma": "Gamma",
    "Beta": "Beta", "Bernoulli": "Bernoulli", "Geometric": "Geometric", "Poisson": "Poisson",
    "HalfNormal": "HalfNormal", "Gumbel": "Gumbel", "LogNormal": "LogNormal",
    "ContinuousBernoulli": "ContinuousBernoulli", "Dirichlet": "Dirichlet", "Categorical": "Categorical",
    "OneHotCategorical": "OneHotCategorical", "MultivariateNormal": "MultivariateNormal", "Cauchy": "Cauchy",
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n, m in PAIRS.items() if m])
def test_divergences_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    parameters, _ = {**CASES, **VECTORS}[name]
    turned = [p[::-1] for p in parameters]
    p, p2 = pair(name, parameters)
    q, q2 = pair(name, turned)
    want = torch.distributions.kl_divergence(p2, q2).numpy()
    np.testing.assert_allclose(np_of(D.kl_divergence(p, q)), want, rtol=1e-7, atol=1e-9)
    whole = D.kl_divergence(D.Independent(p, 1), D.Independent(q, 1))
    np.testing.assert_allclose(np_of(whole), want.sum(-1), rtol=1e-7)


def across(module, v, w):
    """One distribution of each kind; supports that hold one another and such that do not."""
    d = module.distributions
    return [
        d.Normal(v, w), d.Beta(v, w), d.Gamma(v, w), d.Exponential(v), d.Laplace(v, w),
        d.Uniform(v * 0.1, v * 0.1 + w * 0.2), d.Uniform(-v, v + w), d.Gumbel(v, w),
        d.Pareto(v * 0.1, w + 1.5), d.Pareto(v, w), d.ContinuousBernoulli(v / 4), d.Poisson(v),
        d.Bernoulli(v / 4), d.Binomial(3, v / 4),
    ]  # fmt: skip


def divergence(module, p, q):
    try:
        return module.distributions.kl_divergence(p, q).numpy()
    except NotImplementedError:
        return None


@pytest.mark.parametrize("v, w", [((0.3, 0.7), (0.4, 0.2)), ((2.3, 2.7), (1.1, 3.2))])
def test_divergences_across_kinds_are_pytorchs(v, w):
    torch = pytest.importorskip("torch")
    both = [(m, m.tensor(v, dtype=m.float64), m.tensor(w, dtype=m.float64)) for m in (pf, torch)]
    (ours, ours_turned), (theirs, theirs_turned) = [
        (across(m, a, b), across(m, b, a)) for m, a, b in both
    ]
    finite = 0
    for p, p2 in zip(ours, theirs):
        for q, q2 in zip(ours_turned, theirs_turned):
            got, want = divergence(pf, p, q), divergence(torch, p2, q2)
            assert (got is None) == (want is None), (p, q)
            if want is not None:
                np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9, err_msg=f"{p} {q}")
                finite += np.isfinite(want).any()
    assert finite > 30


def test_divergence_from_a_kind_without_a_mean():
    v = pf.tensor([0.3, 0.7])
    got = D.kl_divergence(D.Uniform(v, v + 1), D.Pareto(v, v))
    np.testing.assert_allclose(np_of(got), [1.17810976, 0.86430639], rtol=1e-6)  # PyTorch's


def test_gradients_of_divergences_across_kinds():
    scale = pf.tensor(0.7, dtype=pf.float64, requires_grad=True)
    assert pf.autograd.gradcheck(
        lambda s: D.kl_divergence(D.Normal(0.2 * s, s), D.Laplace(0.1 + s, 1 + s)), scale
    )


def test_moments_and_modes():
    k = pf.tensor([0.3, 2.5])
    np.testing.assert_allclose(
        np_of(D.VonMises(0.0, k).variance), [1 - st.vonmises(a).expect(np.cos, lb=-np.pi, ub=np.pi)
                                             for a in (0.3, 2.5)], rtol=1e-5)  # fmt: skip
    x = np.linspace(1e-4, 1 - 1e-4, 100001)
    density = 2 * 3 * x * (1 - x**2) ** 2  # of a = 2, b = 3
    assert D.Kumaraswamy(2.0, 3.0).mode.item() == pytest.approx(x[density.argmax()], abs=1e-4)
    assert math.isnan(D.Kumaraswamy(0.5, 3.0).mode.item())


def test_divergences_that_are_none():
    with pytest.raises(NotImplementedError, match="Normal and VonMises"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.VonMises(1.0, 1.0))
    assert D.kl_divergence(D.Uniform(0.0, 2.0), D.Uniform(0.0, 1.0)).item() == math.inf

    class Mine(D.Normal):
        pass

    @D.register_kl(Mine, D.Normal)
    def _rule(p, q):
        return pf.tensor(7.0)

    assert D.kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0)).item() == 7
    assert D.kl_divergence(D.Normal(0.0, 1.0), Mine(0.0, 1.0)).item() == 0


TRANSFORMS = {
    "ExpTransform": (), "SigmoidTransform": (), "TanhTransform": (), "SoftplusTransform": (),
    "AffineTransform": (0.5, -2.0), "PowerTransform": (1.7,), "StickBreakingTransform": (),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    torch = pytest.importorskip("torch")
    args = TRANSFORMS[name]
    ours = getattr(D, name)(*args)
    theirs = getattr(torch.distributions, name)(
        *[torch.tensor(a) if name[0] == "P" else a for a in args]
    )
    x = np.abs(np.random.default_rng(0).normal(size=(3, 4))) + 0.1
    a, b = pf.tensor(x), torch.tensor(x)
    y, z = ours(a), theirs(b)
    np.testing.assert_allclose(np_of(y), z.numpy(), rtol=1e-6)
    np.testing.assert_allclose(np_of(ours.inv(y)), x, rtol=1e-6)
    np.testing.assert_allclose(
        np_of(ours.log_abs_det_jacobian(a, y)), theirs.log_abs_det_jacobian(b, z).numpy(), rtol=1e-6
    )
    np.testing.assert_allclose(
        np_of(ours.inv.log_abs_det_jacobian(y, a)),
        -theirs.log_abs_det_jacobian(b, z).numpy(),
        rtol=1e-6,
    )
    assert ours.inv.inv is ours and tuple(ours.forward_shape((3, 4))) == tuple(y.shape)
    kept = ours.with_cache() if not args else type(ours)(*args, cache_size=1)
    assert kept.inv(kept(a)) is a


def test_transformed_distributions():
    torch = pytest.importorskip("torch")
    for module, tensor in ((D, pf.tensor), (torch.distributions, torch.tensor)):
        base = module.Normal(tensor([0.5, 1.0]), tensor([1.0, 2.0]))
        parts = [module.AffineTransform(1.0, -2.0), module.SigmoidTransform()]
        both = module.TransformedDistribution(base, parts)
        value = tensor([0.2, 0.9])
        result = [both.log_prob(value), both.cdf(value), both.icdf(value)]
        stick = module.TransformedDistribution(base, transforms=module.StickBreakingTransform())
        result.append(stick.log_prob(tensor([0.2, 0.3, 0.5])))
        assert tuple(stick.event_shape) == (3,) and tuple(stick.batch_shape) == ()
        if module is D:
            ours = result
    for a, b in zip(ours, result):
        np.testing.assert_allclose(np_of(a), b.numpy(), rtol=1e-5)


def test_registry():
    for constraint in (
        D.constraints.positive, D.constraints.unit_interval, D.constraints.interval(2.0, 5.0),
        D.constraints.simplex, D.constraints.greater_than(3.0), D.constraints.less_than(-1.0),
        D.constraints.real, D.constraints.real_vector, D.constraints.lower_cholesky,
    ):  # fmt: skip
        x = pf.randn(3, 3, **F8)
        assert constraint.check(D.transform_to(constraint)(x)).all().item(), constraint
        if constraint is not D.constraints.lower_cholesky:
            back = D.biject_to(constraint)
            assert pf.allclose(back.inv(back(x)), x, atol=1e-6), constraint
    with pytest.raises(NotImplementedError, match="register"):
        D.biject_to(D.constraints.boolean)


def test_mixtures():
    torch = pytest.importorskip("torch")
    results = []
    for module, tensor in ((D, pf.tensor), (torch.distributions, torch.tensor)):
        mixture = module.Categorical(probs=tensor([0.3, 0.7]))
        m = module.MixtureSameFamily(mixture, module.Normal(tensor([0.0, 5.0]), tensor([1.0, 0.5])))
        x = tensor([0.3, 4.0])
        results.append([m.log_prob(x), m.cdf(x), m.mean, m.variance])
        assert tuple(m.sample((5, 2)).shape) == (5, 2)
        vectors = module.Independent(module.Normal(tensor([[0.0, 1.0], [5.0, 6.0]]), 1.0), 1)
        v = module.MixtureSameFamily(mixture, vectors)
        results[-1] += [v.log_prob(tensor([0.3, 4.0])), v.mean, v.variance]
        assert tuple(v.sample((5,)).shape) == (5, 2)
    for a, b in zip(*results):
        np.testing.assert_allclose(np_of(a), b.numpy(), rtol=1e-4)


def test_multinomial_and_relaxed():
    torch = pytest.importorskip("torch")
    p = [0.2, 0.3, 0.5]
    ours, theirs = (
        D.Multinomial(10, probs=t(*p)),
        torch.distributions.Multinomial(10, torch.tensor(p, dtype=torch.float64)),
    )
    x = [2.0, 3.0, 5.0]
    assert ours.log_prob(t(*x)).item() == pytest.approx(
        theirs.log_prob(torch.tensor(x, dtype=torch.float64)).item()
    )
    assert ours.entropy().item() == pytest.approx(theirs.entropy().item())
    pf.manual_seed(0)
    s = ours.sample((4000,))
    assert s.sum(-1).eq(10).all().item() and np.allclose(np_of(s.mean(0)), [2, 3, 5], atol=0.15)
    for name, value in (("RelaxedBernoulli", [0.3, 0.8, 0.5]), ("RelaxedOneHotCategorical", p)):
        a = getattr(D, name)(t(0.7), probs=t(*p))
        b = getattr(torch.distributions, name)(
            torch.tensor([0.7], dtype=torch.float64), probs=torch.tensor(p, dtype=torch.float64)
        )
        np.testing.assert_allclose(
            np_of(a.log_prob(t(*value))),
            b.log_prob(torch.tensor(value, dtype=torch.float64)).numpy(),
            rtol=1e-7,
        )
        assert a.rsample((5,)).shape == (5, 3)
    straight = D.OneHotCategoricalStraightThrough(probs=t(*p).requires_grad_())
    (straight.rsample() * t(1.0, 2.0, 3.0)).sum().backward()


def test_listing_the_support():
    assert D.Bernoulli(t(0.1, 0.2)).enumerate_support().tolist() == [[0, 0], [1, 1]]
    assert D.Categorical(probs=t(0.5, 0.5)).enumerate_support().tolist() == [0, 1]
    assert D.Binomial(2, probs=t(0.5)).enumerate_support(False).tolist() == [[0], [1], [2]]
    assert D.OneHotCategorical(probs=t(0.5, 0.5)).enumerate_support().tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: D.Normal(0.0, -1.0), "scale"),
        (lambda: D.Normal(t(math.nan), 1.0), "loc"),
        (lambda: D.Uniform(2.0, 1.0), "low"),
        (lambda: D.Bernoulli(t(1.5)), "probs"),
        (lambda: D.Bernoulli(), "neither"),
        (lambda: D.Bernoulli(probs=t(0.1), logits=t(0.1)), "both"),
        (lambda: D.Categorical(probs=pf.tensor(0.3)), "0 dimensions"),
        (lambda: D.Dirichlet(pf.tensor(0.3)), "0 dimensions"),
        (lambda: D.HalfNormal(-1.0), "scale"),
        (lambda: D.Normal(0.0, 1.0).log_prob(3.0), "tensor"),
        (lambda: D.Gamma(1.0, 1.0).log_prob(t(-1.0)), "a value"),
        (lambda: D.Normal(t(0.0, 1.0), 1.0).log_prob(t(0.0, 1.0, 2.0)), "batch shape"),
        (lambda: D.Dirichlet(t(1.0, 1.0)).log_prob(t(0.2, 0.3, 0.5)), "events of shape"),
        (lambda: D.Independent(D.Normal(0.0, 1.0), 1), "at most 0"),
        (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [3]), "transforms"),
        (lambda: D.ReshapeTransform((2,), (3,)), "as many"),
        (lambda: D.ExpTransform(cache_size=2), "cache_size"),
    ],
)
def test_what_is_refused(make, says):
    with pytest.raises(pf.ValueError, match=says):
        make()


def test_checks_can_be_left_away():
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    with pytest.raises(TypeError, match="no number"):
        D.Normal("a", 1.0)
    with pytest.raises(NotImplementedError, match="no rsample"):
        D.Poisson(t(1.0)).rsample()


def test_a_policy_learns():
    """REINFORCE on a bandit, as programs of reinforcement learning write it."""
    pf.manual_seed(0)
    logits = pf.zeros(3, requires_grad=True)
    optimizer = pf.optim.Adam([logits], lr=0.1)
    for _ in range(100):
        policy = D.Categorical(logits=logits)
        action = policy.sample((16,))
        reward = (action == 2).float()
        loss = (
            -(policy.log_prob(action) * (reward - reward.mean())).mean() - 0.001 * policy.entropy()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert D.Categorical(logits=logits).probs[2].item() > 0.9


# ---- matrices -----------------------------------------------------------------------------------

MATRIX = [[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 1.5]]


@pytest.mark.parametrize("name", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_wishart_beside_pytorch(name):
    torch = pytest.importorskip("torch")
    matrix = np.array([MATRIX, np.eye(3).tolist()])
    if name == "scale_tril":
        matrix = np.linalg.cholesky(matrix)
    df = [4.5, 7.0]
    ours = D.Wishart(t(*df), **{name: pf.tensor(matrix, **F8)})
    theirs = torch.distributions.Wishart(
        torch.tensor(df).double(), **{name: torch.tensor(matrix, dtype=torch.float64)}
    )
    x = np.array([np.array(MATRIX) * 3, np.eye(3) * 2])
    close = dict(rtol=1e-9, atol=1e-10)
    for what in ("mean", "mode", "variance", "covariance_matrix", "precision_matrix", "scale_tril"):
        want = getattr(theirs, what).numpy()
        np.testing.assert_allclose(np_of(getattr(ours, what)), want, err_msg=what, **close)
    np.testing.assert_allclose(np_of(ours.entropy()), theirs.entropy().numpy(), **close)
    got, want = ours.log_prob(pf.tensor(x, **F8)), theirs.log_prob(torch.tensor(x))
    np.testing.assert_allclose(np_of(got), want.numpy(), **close)
    assert ours.expand((4, 2)).sample((3,)).shape == (3, 4, 2, 3, 3)


def test_wishart_samples():
    pf.manual_seed(3)
    tril = pf.tensor(np.linalg.cholesky(np.array(MATRIX)), requires_grad=True)
    d = D.Wishart(pf.tensor(5.0, **F8), scale_tril=tril)
    x = d.rsample((20_000,))
    mean, spread = np_of(d.mean), np.sqrt(np_of(d.variance) / 20_000)
    assert (np.abs(np_of(x.mean(0)) - mean) < 6 * spread).all()
    np.testing.assert_allclose(np_of(x).var(0), np_of(d.variance), rtol=0.1)
    assert (np.linalg.eigvalsh(np_of(x[:100])) > 0).all()
    x.mean().backward()
    assert tril.grad.isfinite().all() and tril.grad.abs().sum() > 0
    for bad in (
        lambda: D.Wishart(t(2.0), covariance_matrix=pf.eye(3, **F8)),
        lambda: D.Wishart(t(5.0)),
        lambda: D.Wishart(t(5.0), covariance_matrix=pf.ones(2, 3)),
    ):
        with pytest.raises(pf.ValueError, match="Wishart"):
            bad()


@pytest.mark.parametrize("n", [2, 3, 5])
def test_correlations(n):
    torch = pytest.importorskip("torch")
    pf.manual_seed(7)
    eta = [0.5, 1.0, 3.0]
    ours, theirs = (
        D.LKJCholesky(n, t(*eta)),
        torch.distributions.LKJCholesky(n, torch.tensor(eta).double()),
    )
    x = ours.sample((6000,))
    assert x.shape == (6000, 3, n, n) and ours.support.check(x).all()
    want = theirs.log_prob(torch.tensor(np_of(x))).numpy()
    np.testing.assert_allclose(np_of(ours.log_prob(x)), want, rtol=1e-9, atol=1e-9)
    r = np_of(x @ x.mT)
    for i, e in enumerate(eta):  # each correlation is distributed as 2 Beta - 1
        b = e - 1 + n / 2
        for j, k in ((1, 0), (n - 1, n - 2), (n - 1, 0)):
            assert st.kstest((r[:, i, j, k] + 1) / 2, st.beta(b, b).cdf).pvalue > 1e-4
    assert ours.expand((2, 3)).sample().shape == (2, 3, n, n)
    with pytest.raises(pf.ValueError, match="dim 1"):
        D.LKJCholesky(1)
    with pytest.raises(pf.ValueError, match="corr"):
        ours.log_prob(2 * x)


def test_transforms_of_matrices():
    torch = pytest.importorskip("torch")
    T = torch.distributions.transforms
    x = np.random.default_rng(2).normal(size=(4, 6))
    ours, theirs = D.CorrCholeskyTransform(), T.CorrCholeskyTransform()
    y, z = ours(pf.tensor(x)), theirs(torch.tensor(x))
    np.testing.assert_allclose(np_of(y), z.numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np_of(ours.inv(y)), x, rtol=1e-7)
    got, want = (
        ours.log_abs_det_jacobian(pf.tensor(x), y),
        theirs.log_abs_det_jacobian(torch.tensor(x), z),
    )
    np.testing.assert_allclose(np_of(got), want.numpy(), rtol=1e-7)
    assert ours.forward_shape((4, 6)) == (4, 4, 4) and ours.inverse_shape((4, 4, 4)) == (4, 6)
    assert D.constraints.corr_cholesky.check(y).all()
    with pytest.raises(pf.ValueError, match="got 4 numbers"):
        ours(pf.zeros(4))
    square = np.random.default_rng(3).normal(size=(2, 3, 3))
    for make in (D.PositiveDefiniteTransform(), D.transform_to(D.constraints.positive_definite)):
        p = make(pf.tensor(square))
        want = T.PositiveDefiniteTransform()(torch.tensor(square)).numpy()
        np.testing.assert_allclose(np_of(p), want, rtol=1e-10)
        np.testing.assert_allclose(np_of(make(make.inv(p))), want, rtol=1e-10)
    p = pf.tensor(x[:1], requires_grad=True)
    D.biject_to(D.constraints.corr_cholesky)(p).sum().backward()
    assert p.grad.isfinite().all()


def test_transforms_side_by_side():
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(4).normal(size=(5, 6))

    def made(d):
        parts = [d.ExpTransform(), d.AffineTransform(1.0, 3.0), d.TanhTransform()]
        return d.CatTransform(parts, dim=1, lengths=[1, 3, 2]), d.CatTransform(
            parts[:2], -1, [2, 4]
        )

    for ours, theirs in zip(made(D.transforms), made(torch.distributions.transforms)):
        y, z = ours(pf.tensor(x)), theirs(torch.tensor(x))
        np.testing.assert_allclose(np_of(y), z.numpy(), rtol=1e-12)
        np.testing.assert_allclose(np_of(ours.inv(y)), x, rtol=1e-7)
        got = ours.log_abs_det_jacobian(pf.tensor(x), y)
        want = theirs.log_abs_det_jacobian(torch.tensor(x), z)
        np.testing.assert_allclose(np_of(got), want.numpy(), rtol=1e-10)
        assert ours.bijective and ours.length == 6
        assert ours.codomain.check(y).shape == (5, 6)
    with pytest.raises(pf.ValueError, match="CatTransform"):
        D.CatTransform([D.ExpTransform()], lengths=[1, 2])


def test_tails():
    pf.manual_seed(9)
    for c in (-0.4, 0.0, 1e-9, 0.3, 0.7, 1.5):  # beside SciPy: PyTorch's takes no float64
        d, known = D.GeneralizedPareto(t(2.0), t(0.5), t(c)), st.genpareto(c, 2.0, 0.5)
        assert st.kstest(np_of(d.sample((4000,))).ravel(), known.cdf).pvalue > 1e-4
        x = np.array([2.1, 3.0])
        np.testing.assert_allclose(np_of(d.log_prob(pf.tensor(x))), known.logpdf(x), rtol=1e-7)
        np.testing.assert_allclose(np_of(d.cdf(pf.tensor(x))), known.cdf(x), rtol=1e-7)
        np.testing.assert_allclose(np_of(d.icdf(d.cdf(pf.tensor(x)))), x, rtol=1e-7)
        np.testing.assert_allclose(d.mean.item(), known.mean(), rtol=1e-7)
        variance = known.var() if c < 0.5 else math.inf
        np.testing.assert_allclose(d.variance.item(), variance, rtol=1e-6)
        np.testing.assert_allclose(d.entropy().item(), known.entropy(), rtol=1e-6)
        assert d.mode.item() == 2 and d.expand((3,)).sample((2,)).shape == (2, 3)
    c = t(0.0).requires_grad_()
    D.GeneralizedPareto(t(0.0), t(1.0), c).log_prob(t(0.5)).sum().backward()
    assert abs(c.grad.item() - (0.5**2 / 2 - 0.5)) < 1e-9
    with pytest.raises(pf.ValueError, match="GeneralizedPareto"):
        D.GeneralizedPareto(t(2.0), t(0.5), t(0.1)).log_prob(t(1.0))


def test_constraints_of_matrices():
    c = D.constraints
    for x, what in [
        ([[2.0, 1.0], [1.0, 2.0]], (True, True, True)),
        ([[1.0, 1.0], [1.0, 1.0]], (True, True, False)),
        ([[1.0, 2.0], [2.0, 1.0]], (True, False, False)),
        ([[1.0, 2.0], [0.0, 1.0]], (False, False, False)),
    ]:
        x = pf.tensor(x)
        checks = (c.symmetric, c.positive_semidefinite, c.positive_definite)
        assert tuple(bool(k.check(x)) for k in checks) == what
    assert c.square.check(pf.ones(4, 2, 2)).tolist() == [True] * 4
    assert c.square.check(pf.ones(3, 2)).item() is False
    assert c.symmetric.check(pf.ones(3, 2)).item() is False


def test_what_is_shown_is_pytorchs():
    torch = pytest.importorskip("torch")

    def shown(lib):
        D = importlib.import_module(f"{lib.__name__}.distributions")
        c, one = D.constraints, lib.ones(2, 3)
        mixed = D.MixtureSameFamily(D.Categorical(lib.ones(3)), D.Normal(one, one))
        assert str(mixed).startswith("MixtureSameFamily(\n  Categorical(probs: ")
        of = [
            c.positive,
            c.unit_interval,
            c.real,
            c.real_vector,
            c.simplex,
            c.nonnegative,
            c.square,
        ]
        of += [
            c.integer_interval(0, 3),
            c.corr_cholesky,
            D.Normal(one, one),
        ]
        return [str(x).replace("pyflame.", "torch.") for x in of]

    assert shown(pf) == shown(torch)


SUPPORT_BORDERS = [-1.0, 0.0, 0.5, 1.0, 2.0, math.inf, math.nan]


@pytest.mark.parametrize("name", CASES)
def test_distribution_functions_refuse_what_pytorch_refuses(name):
    """A cdf outside of the support, or of NaN; Gumbel's is defined at infinity here."""
    ours, theirs = pair(name, CASES[name][0])
    torch = pytest.importorskip("torch")
    for v in SUPPORT_BORDERS:
        if name == "Gumbel" and v == math.inf:
            continue
        try:
            expected = theirs.cdf(torch.full((2,), v, dtype=torch.float64))
        except NotImplementedError:
            return
        except ValueError:
            with pytest.raises(pf.ValueError, match=name):
                ours.cdf(pf.full((2,), v, **F8))
        else:
            got = ours.cdf(pf.full((2,), v, **F8))
            np.testing.assert_allclose(np_of(got), expected.numpy(), rtol=1e-6, atol=1e-9)


def test_a_geometric_distribution_needs_a_chance():
    with pytest.raises(pf.ValueError, match="probs"):
        D.Geometric(t(0.5, 0.0))
    assert D.Geometric(t(0.0), validate_args=False).probs.item() == 0


def test_divergence_of_wishart_distributions():
    """Against the mean of the logarithms' difference, and 0 between equals."""
    scale = pf.tensor([[2.0, 0.3], [0.3, 1.0]], **F8)
    p = D.Wishart(pf.tensor([4.0, 7.5], **F8), scale)
    q = D.Wishart(pf.tensor(5.0, **F8), precision_matrix=pf.tensor([[0.7, 0.1], [0.1, 0.9]], **F8))
    assert abs(D.kl_divergence(p, p)).max().item() < 1e-12
    pf.manual_seed(3)
    x = p.sample((40000,))
    difference = p.log_prob(x) - q.log_prob(x)
    error = 5 * difference.std(0) / 200
    assert ((D.kl_divergence(p, q) - difference.mean(0)).abs() < error).all().item()
    with pytest.raises(pf.ValueError, match="sizes"):
        D.kl_divergence(p, D.Wishart(pf.tensor(5.0), pf.eye(3)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_relaxed_bernoulli_at_the_ends(dtype):
    torch = pytest.importorskip("torch")
    for v in (0.0, 1e-44, 1e-30, 1e-3, 0.5, 1 - 1e-7, 1.0):
        want, got = (
            lib.distributions.RelaxedBernoulli(
                lib.tensor(0.5, dtype=getattr(lib, dtype)), lib.tensor(0.3, dtype=getattr(lib, dtype))
            ).log_prob(lib.tensor(v, dtype=getattr(lib, dtype))).item()
            for lib in (torch, pf)
        )  # fmt: skip
        assert got == pytest.approx(want, rel=1e-5), v
