"""The Kullback-Leibler divergence of pairs of distributions."""

import math

from .. import _C, _ops
from .._named_errors import name_errors as _name_errors
from . import continuous as c
from . import discrete as d
from . import transformed as t
from .sampling import EULER
from .utils import sum_rightmost

_RULES = {}


def register_kl(type_p, type_q):
    """A decorator: the function of (p, q) for these classes, and those below them that have none."""

    def decorate(function):
        _RULES[type_p, type_q] = function
        return function

    return decorate


def kl_divergence(p, q):
    """The mean of log p - log q over p, for each of the batch. NotImplementedError for pairs without a
    formula."""
    best, least = None, None
    for (kind_p, kind_q), rule in _RULES.items():
        if isinstance(p, kind_p) and isinstance(q, kind_q):
            far = type(p).__mro__.index(kind_p), type(q).__mro__.index(kind_q)
            if least is None or far < least:
                best, least = rule, far
    if best is None:
        raise NotImplementedError(
            f"pf.distributions.kl_divergence: no formula for {type(p).__name__} and {type(q).__name__} is "
            "known; register_kl takes one"
        )
    return best(p, q)


@register_kl(c.Normal, c.Normal)
def _normals(p, q):
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(c.Uniform, c.Uniform)
def _uniforms(p, q):
    inside = (q.low <= p.low) & (p.high <= q.high)
    return _ops.where(inside, ((q.high - q.low) / (p.high - p.low)).log(), math.inf)


@register_kl(c.Exponential, c.Exponential)
def _exponentials(p, q):
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(c.Laplace, c.Laplace)
def _laplaces(p, q):
    ratio, far = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + far / q.scale + ratio * (-far / p.scale).exp() - 1


@register_kl(c.Cauchy, c.Cauchy)
def _cauchys(p, q):
    return (((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2) / (4 * p.scale * q.scale)).log()


@register_kl(c.Gamma, c.Gamma)
def _gammas(p, q):
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log()
        + _ops.lgamma(b)
        - _ops.lgamma(a)
        + (a - b) * _ops.digamma(a)
        + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(c.Exponential, c.Gamma)
def _exponential_gamma(p, q):
    return _gammas(c.Gamma(_ops.ones_like(p.rate), p.rate, validate_args=False), q)


@register_kl(c.Gamma, c.Exponential)
def _gamma_exponential(p, q):
    return _gammas(p, c.Gamma(_ops.ones_like(q.rate), q.rate, validate_args=False))


@register_kl(c.Beta, c.Beta)
def _betas(p, q):
    a, b = p.concentration1, p.concentration0
    e, f = q.concentration1, q.concentration0
    return (
        c.log_beta(e, f) - c.log_beta(a, b) + (a - e) * _ops.digamma(a) + (b - f) * _ops.digamma(b)
        + (e - a + f - b) * _ops.digamma(a + b)
    )  # fmt: skip


@register_kl(c.Dirichlet, c.Dirichlet)
def _dirichlets(p, q):
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    return (
        _ops.lgamma(total) - _ops.lgamma(b.sum(-1)) - (_ops.lgamma(a) - _ops.lgamma(b)).sum(-1)
        + ((a - b) * (_ops.digamma(a) - _ops.digamma(total).unsqueeze(-1))).sum(-1)
    )  # fmt: skip


def _x_log_ratio(x, y):
    """x log(x / y): 0 where x is, infinite where only y is."""
    safe = _ops.where(x == 0, 1.0, x)
    value = x * (safe / _ops.where(y == 0, 1.0, y)).log()
    return _ops.where(x == 0, 0.0, _ops.where(y == 0, math.inf, value))


@register_kl(d.Bernoulli, d.Bernoulli)
def _bernoullis(p, q):
    return _x_log_ratio(p.probs, q.probs) + _x_log_ratio(1 - p.probs, 1 - q.probs)


@register_kl(d.Binomial, d.Binomial)
def _binomials(p, q):
    value = p.total_count * _bernoullis(p, q)
    if (p.total_count < q.total_count).any().item():
        raise NotImplementedError(
            "pf.distributions.kl_divergence: Binomials of which the second has more tries"
        )
    return _ops.where(p.total_count > q.total_count, math.inf, value)


@register_kl(d.Geometric, d.Geometric)
def _geometrics(p, q):
    return -p.entropy() - _ops.log1p(-q.probs) / p.probs - q.logits


@register_kl(d.Poisson, d.Poisson)
def _poissons(p, q):
    return _x_log_ratio(p.rate, q.rate) - (p.rate - q.rate)


@register_kl(d.Categorical, d.Categorical)
def _categoricals(p, q):
    return _x_log_ratio(p.probs, q.probs).sum(-1)


@register_kl(d.OneHotCategorical, d.OneHotCategorical)
def _one_hots(p, q):
    return _categoricals(p._categorical, q._categorical)


@register_kl(d.ContinuousBernoulli, d.ContinuousBernoulli)
def _continuous_bernoullis(p, q):
    first = p.mean * (p.logits - q.logits) + p._log_norm() - q._log_norm()
    return first + _ops.log1p(-p.probs) - _ops.log1p(-q.probs)


@register_kl(t.HalfNormal, t.HalfNormal)
def _half_normals(p, q):
    return _normals(p.base_dist, q.base_dist)


@register_kl(t.Gumbel, t.Gumbel)
def _gumbels(p, q):
    ratio, far = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return -ratio.log() + far + EULER * (ratio - 1) + (_ops.lgamma(1 + ratio) - far).exp() - 1


@register_kl(t.Pareto, t.Pareto)
def _paretos(p, q):
    ratio = q.alpha / p.alpha
    value = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _ops.where(p.scale < q.scale, math.inf, value)


@register_kl(t.TransformedDistribution, t.TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("pf.distributions.kl_divergence: other transforms")
    more = len(p.event_shape) - len(p.base_dist.event_shape)
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), max(more, 0))


@register_kl(t.Independent, t.Independent)
def _independents(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("pf.distributions.kl_divergence: events of other dimensions")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


def _register_multivariate():
    from . import matrices
    from . import multivariate as m

    def triangle(d):
        kept = getattr(d, "_unbroadcasted_scale_tril", None)
        return d.scale_tril if kept is None else kept

    def compared(p, q, n):
        """Both triangles, and the trace of p's covariance times the inverse of q's."""
        mine, other = triangle(p), triangle(q)
        shape = m._batch(mine.shape[:-2], other.shape[:-2])
        inner = m._linalg.solve_triangular(
            other.expand(*shape, n, n), mine.expand(*shape, n, n), upper=False
        )
        return mine, other, (inner * inner).sum((-2, -1))

    @register_kl(m.MultivariateNormal, m.MultivariateNormal)
    @register_kl(m.MultivariateNormal, m.LowRankMultivariateNormal)
    @register_kl(m.LowRankMultivariateNormal, m.MultivariateNormal)
    @register_kl(m.LowRankMultivariateNormal, m.LowRankMultivariateNormal)
    def _multivariate_normals(p, q):
        if p.event_shape != q.event_shape:
            raise _C.ValueError(
                "pf.distributions.kl_divergence: got events of other shapes; expected one"
            )
        n = p.event_shape[0]
        mine, other, trace = compared(p, q, n)
        far = m._mahalanobis(other, q.loc - p.loc)
        return m._half_log_det(other) - m._half_log_det(mine) + 0.5 * (trace + far - n)

    @register_kl(matrices.Wishart, matrices.Wishart)
    def _wisharts(p, q):
        if p.event_shape != q.event_shape:
            raise _C.ValueError(
                "pf.distributions.kl_divergence: got matrices of other sizes; expected one size"
            )
        n = p.event_shape[0]
        mine, other, trace = compared(p, q, n)
        return (
            q.df * (m._half_log_det(other) - m._half_log_det(mine))
            + 0.5 * p.df * (trace - n)
            + _ops.mvlgamma(q.df / 2, n)
            - _ops.mvlgamma(p.df / 2, n)
            + 0.5 * (p.df - q.df) * matrices._digammas(p.df / 2, n)
        )


_register_multivariate()

_name_errors(__name__)
