"""The Kullback-Leibler divergence of distributions of two kinds: -entropy of p - mean of log q over p, which
takes a few moments of p; infinite where p has values that q has not."""

import math

from .. import _ops
from . import continuous as c
from . import discrete as d
from . import transformed as t
from .kl import register_kl


def _support(p):
    if isinstance(p, c.Uniform):
        return p.low, p.high
    if isinstance(p, t.Pareto):
        return p.scale, math.inf
    if isinstance(p, (c.Gamma, c.Exponential)):
        return 0.0, math.inf
    if isinstance(p, (c.Beta, d.ContinuousBernoulli)):
        return 0.0, 1.0
    return -math.inf, math.inf


def _uniform_log(low, high):
    """The mean of log x between two numbers."""
    return (_ops.xlogy(high, high) - _ops.xlogy(low, low)) / (high - low) - 1


def _mean_log(p):
    """Of log x."""
    if isinstance(p, c.Uniform):
        return _uniform_log(p.low, p.high)
    if isinstance(p, c.Beta):
        a, b = p.concentration1, p.concentration0
        return _ops.digamma(a) - _ops.digamma(a + b)
    return p.scale.log() + 1 / p.alpha  # of Pareto's


def _mean_exp(p, s):
    """Of exp(s x)."""
    if isinstance(p, c.Normal):
        return (p.loc * s + (p.scale * s) ** 2 / 2).exp()
    if isinstance(p, c.Uniform):
        return ((s * p.high).exp() - (s * p.low).exp()) / (s * (p.high - p.low))
    power = p.concentration if isinstance(p, c.Gamma) else 1
    return (1 - s / p.rate) ** -power


def _normal(p, q):
    spread = (p.variance + (p.mean - q.loc) ** 2) / (2 * q.scale**2)
    return -spread - q.scale.log() - 0.5 * math.log(2 * math.pi)


def _laplace(p, q):
    far = (p.loc - q.loc) / p.scale
    distance = math.sqrt(2 / math.pi) * (-(far**2) / 2).exp() + far * _ops.erf(far / math.sqrt(2))
    return -(2 * q.scale).log() - p.scale * distance / q.scale


def _gamma(p, q):
    a, b = q.concentration, q.rate
    return a * b.log() - _ops.lgamma(a) + (a - 1) * _mean_log(p) - b * p.mean


def _gumbel(p, q):
    far = (p.mean - q.loc) / q.scale
    return -far - q.scale.log() - (q.loc / q.scale).exp() * _mean_exp(p, -1 / q.scale)


def _beta(p, q):
    a, b = q.concentration1, q.concentration0
    logs = (a - 1) * _mean_log(p) + (b - 1) * _uniform_log(1 - p.high, 1 - p.low)
    return logs - c.log_beta(a, b)


def _pareto(p, q):
    return q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p)


_EXPECTED = {  # the mean of log q over p, by q's class
    c.Normal: _normal,
    c.Laplace: _laplace,
    c.Gamma: _gamma,
    c.Exponential: lambda p, q: q.rate.log() - q.rate * p.mean,
    c.Uniform: lambda p, q: -(q.high - q.low).log(),
    c.Beta: _beta,
    d.ContinuousBernoulli: lambda p, q: p.mean * q.logits + _ops.log1p(-q.probs) + q._log_norm(),
    t.Gumbel: _gumbel,
    t.Pareto: _pareto,
}
_UNBOUNDED = {c.Beta, c.Gamma, c.Exponential, c.Uniform, t.Pareto, d.ContinuousBernoulli}
_PAIRS = {  # p's class: those of q
    c.Normal: {c.Laplace, t.Gumbel, *_UNBOUNDED},
    c.Laplace: {c.Normal, *_UNBOUNDED},
    t.Gumbel: {c.Normal, *_UNBOUNDED},
    c.Gamma: {c.Normal, t.Gumbel, c.Beta, c.Uniform, t.Pareto, d.ContinuousBernoulli},
    c.Exponential: {c.Normal, t.Gumbel, c.Beta, c.Uniform, t.Pareto, d.ContinuousBernoulli},
    c.Beta: {c.Normal, c.Gamma, c.Exponential, c.Uniform, t.Pareto, d.ContinuousBernoulli},
    c.Uniform: {c.Normal, t.Gumbel, *_UNBOUNDED} - {c.Uniform},
    t.Pareto: {c.Normal, *_UNBOUNDED} - {t.Pareto},
    d.ContinuousBernoulli: {c.Normal, c.Exponential, c.Uniform, t.Pareto},
}


def _across(p, q, expected):
    (low, high), (first, last) = _support(p), _support(q)
    like = p.mean + q.mean
    zeros = _ops.zeros_like(like)  # the mean may be infinite
    inside = (zeros + first <= low) & (zeros + last >= high)
    if not inside.any().item():
        return _ops.full_like(like, math.inf)
    return _ops.where(inside, -p.entropy() - expected(p, q), math.inf)


def _rule(expected):
    return lambda p, q: _across(p, q, expected)


for _p, _qs in _PAIRS.items():
    for _q in _qs:
        register_kl(_p, _q)(_rule(_EXPECTED[_q]))


@register_kl(d.Bernoulli, d.Poisson)
def _bernoulli_poisson(p, q):
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(d.Poisson, d.Bernoulli)
@register_kl(d.Poisson, d.Binomial)
def _poisson_beyond(p, q):
    return _ops.full_like(p.rate + q.mean, math.inf)
