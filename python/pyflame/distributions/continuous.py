"""Distributions of real numbers."""

import math

from .. import _C, _ops, special
from .._named_errors import name_errors as _name_errors
from .._named_errors import name_methods as _name_methods
from . import constraints
from .distribution import ExponentialFamily, Plain
from .sampling import LOG_2PI, standard_gamma
from .utils import eps_of


def _rand(like, shape):
    return _ops.rand(shape, dtype=like.dtype, device=like.device)


def _open(like, shape):
    """Uniform numbers that are neither 0 nor 1."""
    eps = eps_of(like)
    return _rand(like, shape) * (1 - 2 * eps) + eps


class _ByLocationAndScale(Plain):
    """On the real line, moved by `loc` and widened by `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameters = ("loc", "scale")

    def __init__(self, loc, scale, validate_args=None):
        self._spread(loc, scale, validate_args=validate_args)


class Normal(_ByLocationAndScale, ExponentialFamily):
    """The normal distribution with mean `loc` and standard deviation `scale`."""

    mean = mode = property(lambda self: self.loc)
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale**2)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        return self.loc + self.scale * _ops.randn(
            shape, dtype=self.loc.dtype, device=self.loc.device
        )

    def log_prob(self, value):
        self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -0.5 * z * z - self.scale.log() - 0.5 * LOG_2PI

    def cdf(self, value):
        self._validate_sample(value)
        return 0.5 * _ops.erfc((self.loc - value) / (self.scale * math.sqrt(2)))

    def icdf(self, value):
        return self.loc + self.scale * _ops.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self):
        return 0.5 + 0.5 * LOG_2PI + self.scale.log()


class Uniform(Plain):
    """From `low` to `high`."""

    has_rsample = True
    _parameters = ("low", "high")

    def __init__(self, low, high, validate_args=None):
        self._spread(low, high, validate_args=validate_args)
        if self._validate_args and not (self.low < self.high).all().item():
            raise _C.ValueError(
                "pf.distributions.Uniform: got low that is not below high; expected low < high"
            )

    @property
    def arg_constraints(self):
        return {
            "low": constraints.less_than(self.high), "high": constraints.greater_than(self.low),
        }  # fmt: skip

    support = constraints.dependent_property(lambda self: constraints.interval(self.low, self.high))
    mean = property(lambda self: (self.low + self.high) / 2)
    variance = property(lambda self: (self.high - self.low) ** 2 / 12)

    @property
    def mode(self):
        return math.nan * self.high

    def rsample(self, sample_shape=()):
        return self.low + _rand(self.low, self._extended_shape(sample_shape)) * (
            self.high - self.low
        )

    def log_prob(self, value):
        self._validate_sample(value)
        inside = (value >= self.low) & (value < self.high)
        return _ops.where(inside, 0.0, -math.inf) - (self.high - self.low).log()

    def cdf(self, value):
        self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value):
        return self.low + value * (self.high - self.low)

    def entropy(self):
        return (self.high - self.low).log()


class Exponential(ExponentialFamily):
    """With mean 1 / `rate`."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _parameters = ("rate",)

    def __init__(self, rate, validate_args=None):
        self._spread(rate, validate_args=validate_args)

    mean = stddev = property(lambda self: 1 / self.rate)
    mode = property(lambda self: _ops.zeros_like(self.rate))
    variance = property(lambda self: self.rate**-2)

    def rsample(self, sample_shape=()):
        return -_open(self.rate, self._extended_shape(sample_shape)).log() / self.rate

    def log_prob(self, value):
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value):
        self._validate_sample(value)
        return -_ops.expm1(-self.rate * value)

    def icdf(self, value):
        return -_ops.log1p(-value) / self.rate

    def entropy(self):
        return 1 - self.rate.log()


class Laplace(_ByLocationAndScale):
    """Two exponentials back to back: mean `loc`, variance 2 `scale`^2."""

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: 2 * self.scale**2)
    stddev = property(lambda self: math.sqrt(2) * self.scale)

    def rsample(self, sample_shape=()):
        u = _open(self.loc, self._extended_shape(sample_shape)) * 2 - 1
        return self.loc - self.scale * u.sign() * _ops.log1p(-u.abs())

    def log_prob(self, value):
        self._validate_sample(value)
        return -(value - self.loc).abs() / self.scale - (2 * self.scale).log()

    def cdf(self, value):
        self._validate_sample(value)
        d = value - self.loc
        return 0.5 - 0.5 * d.sign() * _ops.expm1(-d.abs() / self.scale)

    def icdf(self, value):
        u = value - 0.5
        return self.loc - self.scale * u.sign() * _ops.log1p(-2 * u.abs())

    def entropy(self):
        return 1 + (2 * self.scale).log()


class Cauchy(_ByLocationAndScale):
    """With median `loc` and half width at half maximum `scale`; it has no mean."""

    mean = property(lambda self: _ops.full_like(self.loc, math.nan))
    mode = property(lambda self: self.loc)
    variance = property(lambda self: _ops.full_like(self.loc, math.inf))

    def rsample(self, sample_shape=()):
        return self.icdf(_open(self.loc, self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - _ops.log1p(z * z)

    def cdf(self, value):
        self._validate_sample(value)
        return _ops.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value):
        return self.loc + self.scale * _ops.tan(math.pi * (value - 0.5))

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()


class Gamma(ExponentialFamily):
    """With shape `concentration` and mean concentration / `rate`."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _parameters = ("concentration", "rate")

    def __init__(self, concentration, rate, validate_args=None):
        self._spread(concentration, rate, validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate**2)

    def rsample(self, sample_shape=()):
        a = self.concentration.expand(self._extended_shape(sample_shape))
        return standard_gamma(a) / self.rate

    def log_prob(self, value):
        self._validate_sample(value)
        a, b = self.concentration, self.rate
        return _ops.xlogy(a, b) + _ops.xlogy(a - 1, value) - b * value - _ops.lgamma(a)

    def cdf(self, value):
        self._validate_sample(value)
        special = _C._import("pyflame.special")
        return special.gammainc(self.concentration, self.rate * value)

    def entropy(self):
        a = self.concentration
        return a - self.rate.log() + _ops.lgamma(a) + (1 - a) * _ops.digamma(a)


class Chi2(Gamma):
    """The sum of `df` squares of normal numbers."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df, validate_args=None):
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    df = property(lambda self: self.concentration * 2)


class Dirichlet(ExponentialFamily):
    """Points of a simplex: `concentration` [..., n]."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() < 1:
            raise _C.ValueError(
                "pf.distributions.Dirichlet: got a concentration of 0 dimensions; expected at least 1"
            )
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        shape = (*batch_shape, *self._event_shape)
        return self._checking(type(self)(self.concentration.expand(shape), validate_args=False))

    @property
    def mean(self):
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self):
        less = (self.concentration - 1).clamp(min=0)
        mode = less / less.sum(-1, True)
        edge = (self.concentration < 1).all(-1, True)
        corner = _ops.one_hot(self.concentration.argmax(-1), self.concentration.shape[-1])
        return _ops.where(edge, corner.to(mode.dtype), mode)

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    def rsample(self, sample_shape=()):
        g = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return g / g.sum(-1, True)

    def log_prob(self, value):
        self._validate_sample(value)
        a = self.concentration
        return _ops.xlogy(a - 1, value).sum(-1) + _ops.lgamma(a.sum(-1)) - _ops.lgamma(a).sum(-1)

    def entropy(self):
        a, n = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return (
            _ops.lgamma(a).sum(-1)
            - _ops.lgamma(total)
            - (n - total) * _ops.digamma(total)
            - ((a - 1) * _ops.digamma(a)).sum(-1)
        )


class Beta(ExponentialFamily):
    """From 0 to 1, with mean concentration1 / (concentration1 + concentration0)."""

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    _parameters = ("concentration1", "concentration0")

    def __init__(self, concentration1, concentration0, validate_args=None):
        self._spread(concentration1, concentration0, validate_args=validate_args)

    @property
    def mean(self):
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self):
        # Of the two ends that are modes where both are below 1 it is 1; NaN where all is a mode.
        a, b = self.concentration1, self.concentration0
        less, of_less = (a - 1).clamp(min=0), (b - 1).clamp(min=0)
        return _ops.where((a < 1) & (b < 1), 1.0, less / (less + of_less))

    @property
    def variance(self):
        a, b = self.concentration1, self.concentration0
        return a * b / ((a + b) ** 2 * (a + b + 1))

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        x = standard_gamma(self.concentration1.expand(shape))
        y = standard_gamma(self.concentration0.expand(shape))
        return x / (x + y)

    def log_prob(self, value):
        self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        return _ops.xlogy(a - 1, value) + special.xlog1py(b - 1, -value) - log_beta(a, b)

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        return (
            log_beta(a, b)
            - (a - 1) * _ops.digamma(a)
            - (b - 1) * _ops.digamma(b)
            + (a + b - 2) * _ops.digamma(a + b)
        )


def log_beta(a, b):
    return _ops.lgamma(a) + _ops.lgamma(b) - _ops.lgamma(a + b)


class StudentT(Plain):
    """With `df` degrees of freedom."""

    arg_constraints = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive,
    }  # fmt: skip
    support = constraints.real
    has_rsample = True
    _parameters = ("df", "loc", "scale")

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self._spread(df, loc, scale, validate_args=validate_args)

    mode = property(lambda self: self.loc)
    mean = property(lambda self: _ops.where(self.df > 1, self.loc, math.nan))

    @property
    def variance(self):
        finite = self.scale**2 * self.df / (self.df - 2)
        return _ops.where(
            self.df > 2, finite, _ops.where(self.df > 1, math.inf, math.nan).to(finite.dtype)
        )

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        x = _ops.randn(shape, dtype=self.df.dtype, device=self.df.device)
        z = standard_gamma((self.df / 2).expand(shape)) * 2
        return self.loc + self.scale * x * (self.df / z).sqrt()

    def log_prob(self, value):
        self._validate_sample(value)
        y = (value - self.loc) / self.scale
        norm = (
            self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
            + _ops.lgamma(0.5 * self.df) - _ops.lgamma(0.5 * (self.df + 1))
        )  # fmt: skip
        return -0.5 * (self.df + 1) * _ops.log1p(y * y / self.df) - norm

    def entropy(self):
        half = 0.5 * self.df
        return (
            self.scale.log() + 0.5 * (self.df + 1) * (_ops.digamma(half + 0.5) - _ops.digamma(half))
            + 0.5 * self.df.log() + log_beta(half, _ops.full_like(half, 0.5))
        )  # fmt: skip


class FisherSnedecor(Plain):
    """The ratio of two chi-squared numbers over their degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameters = ("df1", "df2")

    def __init__(self, df1, df2, validate_args=None):
        self._spread(df1, df2, validate_args=validate_args)

    @property
    def mean(self):
        return _ops.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self):
        inner = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return _ops.where(self.df1 > 2, inner, math.nan)

    @property
    def variance(self):
        d2 = _ops.where(self.df2 > 4, self.df2, math.nan)
        return 2 * d2**2 * (self.df1 + d2 - 2) / (self.df1 * (d2 - 2) ** 2 * (d2 - 4))

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        x = standard_gamma((self.df1 / 2).expand(shape)) / self.df1
        return x / (standard_gamma((self.df2 / 2).expand(shape)) / self.df2)

    def log_prob(self, value):
        self._validate_sample(value)
        a, b, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        return (
            a * ratio.log()
            + (a - 1) * value.log()
            - (a + b) * _ops.log1p(ratio * value)
            - log_beta(a, b)
        )


class VonMises(Plain):
    """Angles around `loc`, the closer the larger `concentration`; from -pi to pi."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    _parameters = ("loc", "concentration")

    def __init__(self, loc, concentration, validate_args=None):
        self._spread(loc, concentration, validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)

    @property
    def variance(self):
        """One minus the length of the mean direction, as for circles."""
        return 1 - _ops.special_i1e(self.concentration) / _ops.special_i0e(self.concentration)

    def sample(self, sample_shape=()):
        """Best and Fisher (1979), with as many candidates as are never all refused."""
        shape = self._extended_shape(sample_shape)
        k = self.concentration.detach().double().expand(shape)
        tau = 1 + (1 + 4 * k * k).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        r = _ops.where(k < 1e-5, 1 / k, (1 + rho * rho) / (2 * rho))
        out, done = _ops.zeros(shape, dtype=_C.float64, device=k.device), k != k
        for _ in range(60):  # a candidate is taken with probability 0.66 and more
            u1, u2, u3 = (_open(k, shape) for _ in range(3))
            z = _ops.cos(math.pi * u1)
            f = ((1 + r * z) / (r + z)).clamp(-1, 1)
            c = k * (r - f)
            good = ((c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)) & ~done
            out = _ops.where(good, (u3 - 0.5).sign() * _ops.acos(f), out)
            done = done | good
        turned = out + math.pi + self.loc.detach().double()
        return (turned % (2 * math.pi) - math.pi).to(self.loc.dtype)

    def log_prob(self, value):
        self._validate_sample(value)
        special = _C._import("pyflame.special")
        k = self.concentration
        # i0e is i0 times exp(-k): nothing overflows.
        return k * (_ops.cos(value - self.loc) - 1) - LOG_2PI - special.i0e(k).log()


_name_errors(__name__)
_name_methods(__name__)
