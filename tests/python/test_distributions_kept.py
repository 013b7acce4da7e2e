"""What distributions keep once it is calculated, and divergences of every pair that PyTorch has a formula for."""

import pytest

import pyflame as pf

D = pf.distributions
KEPT = {
    "Bernoulli": ("logits", "probs"),
    "Categorical": ("logits", "probs"),
    "OneHotCategorical": ("logits", "probs"),
    "OneHotCategoricalStraightThrough": ("logits", "probs"),
    "Geometric": ("logits", "probs"),
    "ContinuousBernoulli": ("logits", "probs"),
    "MultivariateNormal": ("covariance_matrix", "precision_matrix", "scale_tril"),
    "LowRankMultivariateNormal": ("covariance_matrix", "precision_matrix", "scale_tril"),
    "Wishart": ("covariance_matrix", "precision_matrix", "scale_tril"),
}


def made(lib, name, x, form=None):
    """Of three numbers between 0 and 1."""
    kinds = lib.distributions
    if form in ("logits", "probs"):
        return getattr(kinds, name)(**{form: x})
    if name == "LowRankMultivariateNormal":
        return kinds.LowRankMultivariateNormal(x, x.unsqueeze(1), x * 2)
    matrix = {form or "covariance_matrix": lib.diag(x + 0.5)}
    if name == "Wishart":
        return kinds.Wishart(lib.tensor(4.0, dtype=x.dtype), **matrix)
    if name == "MultivariateNormal":
        return kinds.MultivariateNormal(x, **matrix)
    normal = kinds.Normal(x, 1 + x)
    return {
        "Beta": lambda: kinds.Beta(x, x + 1),
        "Binomial": lambda: kinds.Binomial(3, x),
        "Dirichlet": lambda: kinds.Dirichlet(x),
        "Exponential": lambda: kinds.Exponential(x),
        "Gamma": lambda: kinds.Gamma(x, 1 + x),
        "HalfNormal": lambda: kinds.HalfNormal(x),
        "Independent": lambda: kinds.Independent(normal, 1),
        "Pareto": lambda: kinds.Pareto(x * 0.5, 1 + x),
        "Poisson": lambda: kinds.Poisson(x),
        "TransformedDistribution": lambda: kinds.LogNormal(x, 1 + x),
        "Uniform": lambda: kinds.Uniform(x - 1, 1 + x * 0.1),
    }.get(name, lambda: getattr(kinds, name)(*((x, 1 + x) if name in TWO else (x,))))()


TWO = ("Cauchy", "Gumbel", "Laplace", "Normal")


@pytest.mark.parametrize("name", KEPT)
def test_what_a_sample_calculates_has_a_history(name):
    """`sample` needs no gradients; what it calculates on its way is kept for those who do."""
    for form in KEPT[name]:
        if form != KEPT[name][0] and name == "LowRankMultivariateNormal":
            continue
        x = pf.tensor([0.3, 0.6, 0.8], dtype=pf.float64, requires_grad=True)
        d = made(pf, name, x, form)
        with pf.no_grad():
            d.sample()
            for kept in KEPT[name]:
                getattr(d, kept)
        for kept in KEPT[name]:
            assert getattr(d, kept).requires_grad, (form, kept)


def test_the_straight_gradient_reaches_the_logits():
    x = pf.tensor([0.3, 0.6, 0.8], dtype=pf.float64, requires_grad=True)
    sample = D.OneHotCategoricalStraightThrough(logits=x).rsample()
    (g,) = pf.autograd.grad((sample * pf.tensor([1.0, 2.0, 4.0], dtype=pf.float64)).sum(), x)
    p = x.softmax(0)
    w = pf.tensor([1.0, 2.0, 4.0], dtype=pf.float64)
    assert (g - p * (w - (p * w).sum())).abs().max().item() < 1e-12


def test_every_divergence_is_pytorchs():
    torch = pytest.importorskip("torch")
    compared = 0
    for p, q in torch.distributions.kl._KL_REGISTRY:
        names = p.__name__, q.__name__
        if "ExponentialFamily" in names:
            continue
        try:
            a = [
                made(torch, n, torch.tensor(v, dtype=torch.float64)) for n, v in zip(names, VALUES)
            ]
            want = torch.distributions.kl_divergence(*a)
        except NotImplementedError:
            continue
        b = [made(pf, n, pf.tensor(v, dtype=pf.float64)) for n, v in zip(names, VALUES)]
        got = D.kl_divergence(*b)
        assert got.tolist() == pytest.approx(want.tolist(), rel=1e-7, abs=1e-9), names
        compared += 1
    assert compared > 60


VALUES = [0.3, 0.6, 0.8], [0.7, 0.4, 0.5]
