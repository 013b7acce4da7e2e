"""Distributions made of others."""

import math
import numbers

from .. import _C, _ops
from .._named_errors import name_errors as _name_errors
from .._named_errors import name_methods as _name_methods
from ..autograd import no_grad
from . import constraints
from . import transforms as tr
from .continuous import Cauchy, Exponential, Normal, Uniform
from .discrete import Categorical, ExpRelaxedCategorical, LogitRelaxedBernoulli
from .distribution import Distribution, Plain
from .sampling import EULER
from .utils import broadcast_all, eps_of, sum_rightmost


class Independent(Distribution):
    """`base_distribution`, whose rightmost batch dimensions belong to one event."""

    arg_constraints = {}

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        n = len(base_distribution.batch_shape) - reinterpreted_batch_ndims
        if n < 0:
            raise _C.ValueError(
                f"pf.distributions.Independent: got {reinterpreted_batch_ndims} dimensions of batch shape "
                f"{tuple(base_distribution.batch_shape)}; expected at most {len(base_distribution.batch_shape)}"
            )
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:n], shape[n:], validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)
    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    @property
    def has_enumerate_support(self):
        return not self.reinterpreted_batch_ndims and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self):
        base = self.base_dist.support
        n = self.reinterpreted_batch_ndims
        return constraints.independent(base, n) if n else base

    def expand(self, batch_shape, _instance=None):
        n = self.reinterpreted_batch_ndims
        inner = (*batch_shape, *self._event_shape[:n])
        return self._checking(Independent(self.base_dist.expand(inner), n, validate_args=False))

    def sample(self, sample_shape=()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("pf.distributions.Independent: its support is a product")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self):
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """What `transforms`, one after the other, make of samples of `base_distribution`."""

    arg_constraints = {}

    def __init__(self, base_distribution, transforms, validate_args=None):
        if isinstance(transforms, tr.Transform):
            transforms = [transforms]
        if not all(isinstance(t, tr.Transform) for t in transforms):
            raise _C.ValueError(
                "pf.distributions.TransformedDistribution: got something else than transforms; expected "
                "one, or a list"
            )
        self.transforms = list(transforms)
        whole = tr.ComposeTransform(self.transforms)
        base_shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        n = len(base_distribution.event_shape)
        if len(base_shape) < whole.domain.event_dim:
            raise _C.ValueError(
                f"pf.distributions.TransformedDistribution: got a distribution of shape {base_shape}; "
                f"expected at least {whole.domain.event_dim} dimensions, as the transforms take"
            )
        shape = tuple(whole.forward_shape(base_shape))
        wide = tuple(whole.inverse_shape(shape))
        if wide != base_shape:  # parameters of the transforms ask for more samples
            base_distribution = base_distribution.expand(wide[: len(wide) - n])
        more = whole.domain.event_dim - n
        if more > 0:
            base_distribution = Independent(base_distribution, more)
        self.base_dist = base_distribution
        dims = whole.codomain.event_dim + max(n - whole.domain.event_dim, 0)
        cut = len(shape) - dims
        super().__init__(shape[:cut], shape[cut:], validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    @constraints.dependent_property
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self._event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    def expand(self, batch_shape, _instance=None):
        whole = tr.ComposeTransform(self.transforms)
        shape = whole.inverse_shape((*batch_shape, *self._event_shape))
        n = len(self.base_dist.event_shape)
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - n])
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        return self._checking(new)

    def sample(self, sample_shape=()):
        with no_grad():
            x = self.base_dist.sample(sample_shape)
            for t in self.transforms:
                x = t(x)
            return x

    def rsample(self, sample_shape=()):
        x = self.base_dist.rsample(sample_shape)
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value):
        self._validate_sample(value)
        dims, total, y = len(self._event_shape), 0.0, value
        for t in reversed(self.transforms):
            x = t.inv(y)
            dims += t.domain.event_dim - t.codomain.event_dim
            total = total - sum_rightmost(t.log_abs_det_jacobian(x, y), dims - t.domain.event_dim)
            y = x
        return total + sum_rightmost(
            self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape)
        )

    def _sign(self):
        sign = 1
        for t in self.transforms:
            sign = sign * t.sign
        return sign

    def _turned(self, value):
        """1 - value where the transforms fall."""
        sign = self._sign()
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value):
        for t in reversed(self.transforms):
            value = t.inv(value)
        if self._validate_args:  # ends of the support, which may lie outside of it, have a value
            self._check("a value", self.base_dist.support, value)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value):
        value = self.base_dist.icdf(self._turned(value))
        for t in self.transforms:
            value = t(value)
        return value


class LogNormal(TransformedDistribution):
    """exp of a normal number."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(Normal(loc, scale, validate_args), tr.ExpTransform(), validate_args)

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: (self.loc + self.scale**2 / 2).exp())
    mode = property(lambda self: (self.loc - self.scale**2).exp())

    @property
    def variance(self):
        s = self.scale**2
        return _ops.expm1(s) * (2 * self.loc + s).exp()

    def entropy(self):
        return self.base_dist.entropy() + self.loc


class _Half(TransformedDistribution):
    """The absolute value of a distribution around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    _base = None

    def __init__(self, scale, validate_args=None):
        super().__init__(
            self._base(0, scale, validate_args=False), tr.AbsTransform(), validate_args
        )
        if self._validate_args:
            self._check("scale", constraints.positive, self.scale)

    scale = property(lambda self: self.base_dist.scale)
    mode = property(lambda self: _ops.zeros_like(self.scale))

    def log_prob(self, value):
        self._validate_sample(value)
        inside = self.base_dist.log_prob(value) + math.log(2)
        return _ops.where(value >= 0, inside, -math.inf)

    def cdf(self, value):
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value):
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The size of a normal number with mean 0 and deviation `scale`."""

    _base = Normal

    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance = property(lambda self: self.scale**2 * (1 - 2 / math.pi))


class HalfCauchy(_Half):
    """The size of a Cauchy number about 0 with half width `scale`."""

    _base = Cauchy

    mean = property(lambda self: _ops.full_like(self.scale, math.inf))
    variance = property(lambda self: _ops.full_like(self.scale, math.inf))


class Gumbel(TransformedDistribution):
    """The largest of many numbers: -log(-log u), moved by `loc` and widened by `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        base = Exponential(_ops.ones_like(self.loc), validate_args=False)
        if all(isinstance(v, numbers.Number) for v in (loc, scale)):
            base = base.expand(())
        # -log of an exponential number.
        parts = [
            tr.ExpTransform().inv, tr.AffineTransform(self.loc, -self.scale),
        ]  # fmt: skip
        super().__init__(base, parts, validate_args)

    mean = property(lambda self: self.loc + self.scale * EULER)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: math.pi / math.sqrt(6) * self.scale)
    variance = property(lambda self: self.stddev**2)

    def expand(self, batch_shape, _instance=None):
        return self._checking(
            Gumbel(
                self.loc.expand(batch_shape), self.scale.expand(batch_shape), validate_args=False
            )
        )

    def log_prob(self, value):
        self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -z - (-z).exp() - self.scale.log()

    def cdf(self, value):
        self._validate_sample(value)
        return (-(-(value - self.loc) / self.scale).exp()).exp()

    def icdf(self, value):
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self):
        return self.scale.log() + 1 + EULER


class Pareto(TransformedDistribution):
    """From `scale` on, with a tail as x^-alpha."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale, alpha, validate_args=None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        parts = [tr.ExpTransform(), tr.AffineTransform(0, self.scale)]
        super().__init__(base, parts, validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._checking(
            Pareto(
                self.scale.expand(batch_shape), self.alpha.expand(batch_shape), validate_args=False
            )
        )

    @constraints.dependent_property
    def support(self):
        return constraints.greater_than_eq(self.scale)

    mode = property(lambda self: self.scale)

    @property
    def mean(self):
        a = self.alpha
        return _ops.where(a > 1, a * self.scale / (a - 1), math.inf)

    @property
    def variance(self):
        a = self.alpha
        return _ops.where(a > 2, self.scale**2 * a / ((a - 1) ** 2 * (a - 2)), math.inf)

    def entropy(self):
        return (self.scale / self.alpha).log() + 1 + 1 / self.alpha


class GeneralizedPareto(Plain):
    """What lies beyond a high threshold `loc`, with a tail as x^(-1 / concentration); at concentration 0
    exponential, below 0 it ends at loc - scale / concentration."""

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _parameters = ("loc", "scale", "concentration")

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, (), validate_args)

    @constraints.dependent_property
    def support(self):
        c = self.concentration
        end = _ops.where(c < 0, self.loc - self.scale / _ops.where(c < 0, c, -1.0), math.inf)
        return constraints.interval(self.loc, end)

    def _log(self, value):
        """(how far beyond loc in scales, log(1 + c z), log(1 + c z) / c)"""
        z = (value - self.loc) / self.scale
        c = self.concentration
        small = c.abs() < eps_of(z) ** 0.5
        log = _ops.log1p(c * z)
        return z, log, _ops.where(small, z * (1 - c * z / 2), log / _ops.where(small, 1.0, c))

    def log_prob(self, value):
        self._validate_sample(value)
        _, log, scaled = self._log(value)
        return -scaled - log - self.scale.log()

    def cdf(self, value):
        self._validate_sample(value)
        return -_ops.expm1(-self._log(value)[2])

    def icdf(self, value):
        c, t = self.concentration, -_ops.log1p(-value)
        small = c.abs() < eps_of(c) ** 0.5
        near = _ops.where(c == 0, t, t * (1 + c * t / 2))  # t is infinite at 1
        z = _ops.where(small, near, _ops.expm1(c * t) / _ops.where(small, 1.0, c))
        return self.loc + self.scale * z

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        return self.icdf(_ops.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    mode = property(lambda self: self.loc)

    @property
    def mean(self):
        c = self.concentration
        return _ops.where(c < 1, self.loc + self.scale / (1 - c), math.inf)

    @property
    def variance(self):
        c = self.concentration
        return _ops.where(c < 0.5, self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)), math.inf)

    def entropy(self):
        return self.scale.log() + self.concentration + 1


class Weibull(TransformedDistribution):
    """`scale` times an exponential number to the power of 1 / `concentration`."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(_ops.ones_like(self.scale), validate_args=False)
        parts = [
            tr.PowerTransform(1 / self.concentration), tr.AffineTransform(0, self.scale),
        ]  # fmt: skip
        super().__init__(base, parts, validate_args)

    def expand(self, batch_shape, _instance=None):
        parts = self.scale.expand(batch_shape), self.concentration.expand(batch_shape)
        return self._checking(Weibull(*parts, validate_args=False))

    @property
    def mean(self):
        return self.scale * _ops.lgamma(1 + 1 / self.concentration).exp()

    @property
    def mode(self):
        k = self.concentration
        return _ops.where(k > 1, self.scale * ((k - 1).clamp(min=0) / k) ** (1 / k), 0.0)

    @property
    def variance(self):
        k = self.concentration
        return self.scale**2 * (_ops.lgamma(1 + 2 / k).exp() - (2 * _ops.lgamma(1 + 1 / k)).exp())

    def entropy(self):
        k = self.concentration
        return EULER * (1 - 1 / k) + (self.scale / k).log() + 1


class Kumaraswamy(TransformedDistribution):
    """From 0 to 1: (1 - u^(1/b))^(1/a)."""

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            _ops.full_like(self.concentration0, 1e-7), _ops.full_like(self.concentration0, 1 - 1e-7),
            validate_args=False,
        )  # fmt: skip
        parts = [
            tr.PowerTransform(1 / self.concentration0), tr.AffineTransform(1.0, -1.0),
            tr.PowerTransform(1 / self.concentration1),
        ]  # fmt: skip
        super().__init__(base, parts, validate_args)

    def expand(self, batch_shape, _instance=None):
        parts = self.concentration1.expand(batch_shape), self.concentration0.expand(batch_shape)
        return self._checking(Kumaraswamy(*parts, validate_args=False))

    def _moment(self, n):
        a, b = self.concentration1, self.concentration0
        k = 1 + n / a
        return b * (_ops.lgamma(k) + _ops.lgamma(b) - _ops.lgamma(k + b)).exp()

    mean = property(lambda self: self._moment(1))
    variance = property(lambda self: self._moment(2) - self._moment(1) ** 2)

    @property
    def mode(self):
        """NaN where a parameter is below 1: the density has no greatest value then."""
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)) ** (1 / a)
        return _ops.where((a < 1) | (b < 1), math.nan, mode)

    def log_prob(self, value):
        self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        return a.log() + b.log() + _ops.xlogy(a - 1, value) + (b - 1) * _ops.log1p(-(value**a))

    def cdf(self, value):
        self._validate_sample(value)
        return -_ops.expm1(self.concentration0 * _ops.log1p(-(value**self.concentration1)))

    def icdf(self, value):
        return (-_ops.expm1(_ops.log1p(-value) / self.concentration0)) ** (1 / self.concentration1)

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        harmonic = _ops.digamma(b + 1) + EULER
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - a.log() - b.log()


class InverseGamma(TransformedDistribution):
    """1 over a gamma number."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive

    def __init__(self, concentration, rate, validate_args=None):
        from .continuous import Gamma

        base = Gamma(concentration, rate, validate_args)
        super().__init__(base, tr.PowerTransform(-1.0), validate_args)

    concentration = property(lambda self: self.base_dist.concentration)
    rate = property(lambda self: self.base_dist.rate)
    mode = property(lambda self: self.rate / (self.concentration + 1))

    @property
    def mean(self):
        a = self.concentration
        return _ops.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def variance(self):
        a = self.concentration
        return _ops.where(a > 2, self.rate**2 / ((a - 1) ** 2 * (a - 2)), math.inf)

    def log_prob(self, value):
        self._validate_sample(value)
        a, b = self.concentration, self.rate
        return a * b.log() - _ops.lgamma(a) - (a + 1) * value.log() - b / value

    def entropy(self):
        a = self.concentration
        return a + self.rate.log() + _ops.lgamma(a) - (1 + a) * _ops.digamma(a)


class LogisticNormal(TransformedDistribution):
    """Normal numbers, onto the simplex by breaking a stick."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args)
        base = base if base.batch_shape else base.expand((1,))
        super().__init__(base, tr.StickBreakingTransform(), validate_args)

    loc = property(lambda self: self.base_dist.base_dist.loc)
    scale = property(lambda self: self.base_dist.base_dist.scale)


class RelaxedBernoulli(TransformedDistribution):
    """From 0 to 1, near its ends for a low `temperature`."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, tr.SigmoidTransform(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    probs = property(lambda self: self.base_dist.probs)
    logits = property(lambda self: self.base_dist.logits)


class RelaxedOneHotCategorical(TransformedDistribution):
    """Points of the simplex, near its corners for a low `temperature`."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, tr.ExpTransform(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    probs = property(lambda self: self.base_dist.probs)
    logits = property(lambda self: self.base_dist.logits)


class MixtureSameFamily(Distribution):
    """One of n distributions, the last batch dimension of `component_distribution`, chosen by a
    Categorical."""

    arg_constraints = {}

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        if not isinstance(mixture_distribution, Categorical):
            raise _C.ValueError(
                "pf.distributions.MixtureSameFamily: got a mixture that is no Categorical; expected one"
            )
        n = component_distribution.batch_shape[-1] if component_distribution.batch_shape else 0
        if n != mixture_distribution._num_events:
            raise _C.ValueError(
                f"pf.distributions.MixtureSameFamily: got {n} components and a choice among "
                f"{mixture_distribution._num_events}; expected as many"
            )
        self._mixture, self._component = mixture_distribution, component_distribution
        super().__init__(
            component_distribution.batch_shape[:-1],
            component_distribution.event_shape,
            validate_args,
        )

    mixture_distribution = property(lambda self: self._mixture)
    component_distribution = property(lambda self: self._component)

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self._component.support)

    def __repr__(self):
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )

    def expand(self, batch_shape, _instance=None):
        n = self._component.batch_shape[-1]
        return self._checking(MixtureSameFamily(
            self._mixture.expand(batch_shape), self._component.expand((*batch_shape, n)),
            validate_args=False,
        ))  # fmt: skip

    def _weights(self):
        p = self._mixture.probs
        return p.reshape((*p.shape, *[1] * len(self._event_shape)))

    @property
    def _at(self):
        return -1 - len(self._event_shape)

    @property
    def mean(self):
        return (self._weights() * self._component.mean).sum(self._at)

    @property
    def variance(self):
        w, m = self._weights(), self._component.mean
        inner = (w * self._component.variance).sum(self._at)
        return inner + (w * (m - self.mean.unsqueeze(self._at)) ** 2).sum(self._at)

    def cdf(self, value):
        return (self._component.cdf(value.unsqueeze(-1)) * self._mixture.probs).sum(-1)

    def log_prob(self, value):
        self._validate_sample(value)
        log = self._component.log_prob(value.unsqueeze(self._at))
        return (log + _ops.log_softmax(self._mixture.logits, -1)).logsumexp(-1)

    def sample(self, sample_shape=()):
        with no_grad():
            which = self._mixture.sample(sample_shape)
            values = self._component.sample(sample_shape)
            at = values.dim() + self._at
            index = which.reshape(*which.shape, 1, *[1] * len(self._event_shape))
            index = index.expand(*which.shape, 1, *self._event_shape)
            return values.gather(at, index).squeeze(at)


_name_errors(__name__)
_name_methods(__name__)
