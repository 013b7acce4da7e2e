"""Distributions of whole numbers, and of what is nearly that."""

import math

from .. import _C, _ops
from .._named_errors import name_errors as _name_errors
from .._named_errors import name_methods as _name_methods
from ..autograd import no_grad
from ..nn import functional as F
from . import constraints
from .continuous import _open
from .distribution import Distribution, Plain
from .sampling import standard_gamma
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs, probs_to_logits


class _ByProbability(Plain):
    """One of `probs` and `logits` is given, the other follows."""

    _binary = True

    def _take(self, probs, logits):
        if (probs is None) == (logits is None):
            raise _C.ValueError(
                f"pf.distributions.{type(self).__name__}: got {'neither' if probs is None else 'both'} of probs "
                "and logits; expected one of them"
            )
        return ("probs", probs) if logits is None else ("logits", logits)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, self._binary)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, self._binary)

    @property
    def _param(self):
        return self.__dict__["probs"] if self._given == "probs" else self.__dict__["logits"]

    @property
    def param_shape(self):
        return self._param.shape

    def _take_tries(self, total_count, probs, logits, validate_args):
        self._given, value = self._take(probs, logits)
        self.total_count, self.__dict__[self._given] = broadcast_all(total_count, value)
        self.total_count = self.total_count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    def _expand_rest(self, new, batch_shape):
        new._given = self._given


class _Binary(_ByProbability):
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    _parameters = ("probs", "logits")

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._given, value = self._take(probs, logits)
        self._spread(value, names=(self._given,), validate_args=validate_args)


class Bernoulli(_Binary):
    """1 with probability `probs` (or sigmoid of `logits`), else 0."""

    support = constraints.boolean
    has_enumerate_support = True

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    @property
    def mode(self):
        likely = (self.probs >= 0.5).to(self.probs.dtype)
        return _ops.where(self.probs == 0.5, math.nan, likely)

    def sample(self, sample_shape=()):
        with no_grad():
            return _ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._validate_sample(value)
        logits, value = _ops.broadcast_tensors(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value.to(logits.dtype), reduction="none")

    def entropy(self):
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand=True):
        values = _ops.arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.view(2, *[1] * len(self._batch_shape))
        return values.expand(2, *self._batch_shape) if expand else values


class Geometric(_Binary):
    """Failures before the first success."""

    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        super().__init__(probs, logits, validate_args)
        if self._validate_args and self._given == "probs":
            self._check("probs", constraints.greater_than(0), self.probs)

    mean = property(lambda self: 1 / self.probs - 1)
    mode = property(lambda self: _ops.zeros_like(self.probs))
    variance = property(lambda self: (1 / self.probs - 1) / self.probs)

    def sample(self, sample_shape=()):
        with no_grad():
            u = _open(self.probs, self._extended_shape(sample_shape))
            return (u.log() / _ops.log1p(-clamp_probs(self.probs))).floor()

    def log_prob(self, value):
        self._validate_sample(value)
        # No failure before a success that is certain.
        never = _ops.where((self.probs == 1) & (value == 0), 0.0, self.probs)
        return value * _ops.log1p(-never) + self.probs.log()

    def entropy(self):
        return (
            F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
            / self.probs
        )


class ContinuousBernoulli(_Binary):
    """From 0 to 1, with a density that goes as probs^x (1 - probs)^(1 - x).

    Between `lims`, around 1/2, formulas are differences of nearly equal numbers: a few terms of their
    series are taken there.
    """

    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        self._lims = lims
        super().__init__(probs, logits, validate_args)

    def _expand_rest(self, new, batch_shape):
        super()._expand_rest(new, batch_shape)
        new._lims = self._lims

    def _safe(self):
        p = clamp_probs(self.probs)
        near = (p > self._lims[0]) & (p < self._lims[1])
        return _ops.where(near, self._lims[0], p), near, p

    def _log_norm(self):
        q, near, p = self._safe()
        far = ((_ops.log1p(-q) - q.log()).abs() / (1 - 2 * q).abs()).log()
        x = p - 0.5
        return _ops.where(near, math.log(2.0) + (4 / 3 + 104 / 45 * x * x) * x * x, far)

    @property
    def mean(self):
        q, near, p = self._safe()
        far = q / (2 * q - 1) + 1 / (_ops.log1p(-q) - q.log())
        x = p - 0.5
        return _ops.where(near, 0.5 + (1 / 3 + 16 / 45 * x * x) * x, far)

    @property
    def variance(self):
        q, near, p = self._safe()
        far = q * (q - 1) / (1 - 2 * q) ** 2 + 1 / (_ops.log1p(-q) - q.log()) ** 2
        x = (p - 0.5) ** 2
        return _ops.where(near, 1 / 12 - (1 / 15 - 128 / 945 * x) * x, far)

    def rsample(self, sample_shape=()):
        return self.icdf(_open(self.probs, self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._validate_sample(value)
        logits, value = _ops.broadcast_tensors(self.logits, value)
        return (
            -F.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._log_norm()
        )

    def icdf(self, value):
        q, near, _ = self._safe()
        far = (_ops.log1p(value * (2 * q - 1) / (1 - q))) / (q.log() - _ops.log1p(-q))
        return _ops.where(near, value, far)

    def cdf(self, value):
        self._validate_sample(value)
        q, near, _ = self._safe()
        far = (q**value * (1 - q) ** (1 - value) + q - 1) / (2 * q - 1)
        inner = _ops.where(near, value, far)
        return _ops.where(value <= 0, 0.0, _ops.where(value >= 1, 1.0, inner))

    def entropy(self):
        log0, log1 = _ops.log1p(-clamp_probs(self.probs)), clamp_probs(self.probs).log()
        return self.mean * (log0 - log1) - self._log_norm() - log0


class Categorical(_ByProbability):
    """One of n classes: `probs` [..., n] (made to sum to 1) or `logits` (log-probabilities, any constant
    added). Samples are int64 without the last dimension."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _binary = False

    def __init__(self, probs=None, logits=None, validate_args=None):
        name, value = self._take(probs, logits)
        if value.dim() < 1:
            raise _C.ValueError(
                f"pf.distributions.Categorical: got {name} of 0 dimensions; expected at least 1"
            )
        if name == "probs":
            self.probs = value / value.sum(-1, True)
        else:
            self.logits = value - value.logsumexp(-1, True)
        self._given, self._num_events = name, value.shape[-1]
        super().__init__(value.shape[:-1], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        given = {self._given: self._param.expand((*batch_shape, self._num_events))}
        return self._checking(type(self)(**given, validate_args=False))

    @constraints.dependent_property
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    mode = property(lambda self: self.probs.argmax(-1))

    @property
    def mean(self):
        return _ops.full(
            self._batch_shape, math.nan, dtype=self._param.dtype, device=self._param.device
        )

    variance = mean

    def sample(self, sample_shape=()):
        with no_grad():
            flat = self.probs.reshape(-1, self._num_events)
            shape = self._extended_shape(sample_shape)
            n = math.prod(shape) // max(1, flat.shape[0]) if flat.shape[0] else 0
            if n == 0:
                return _ops.empty(shape, dtype=_C.int64, device=flat.device)
            return _ops.multinomial(flat, n, True).mT.reshape(shape)

    def log_prob(self, value):
        self._validate_sample(value)
        value = value.long().unsqueeze(-1)
        shape = _ops.broadcast_tensors(value[..., 0], self.logits[..., 0])[0].shape
        logits = self.logits.expand(*shape, self._num_events)
        return logits.gather(-1, value.expand(*shape, 1)).squeeze(-1)

    def entropy(self):
        logits = self.logits.clamp(min=-1e30)  # a class that never comes adds nothing
        return -(self.probs * logits).sum(-1)

    def enumerate_support(self, expand=True):
        values = _ops.arange(self._num_events, device=self._param.device)
        values = values.view(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class _OfCategorical(Distribution):
    """A distribution over n classes, whose probabilities a :class:`Categorical` keeps."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(
            self._categorical.batch_shape, (self._categorical._num_events,), validate_args
        )

    def _first(self):
        """What the constructor takes before the probabilities."""
        return ()

    def expand(self, batch_shape, _instance=None):
        base = self._categorical.expand(batch_shape)
        return self._checking(
            type(self)(*self._first(), **{base._given: base._param}, validate_args=False)
        )

    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)


class OneHotCategorical(_OfCategorical):
    """As :class:`Categorical`, with samples that are 1 at the class and 0 elsewhere."""

    support = constraints.one_hot
    has_enumerate_support = True

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    def _hot(self, index):
        return _ops.one_hot(index, self._categorical._num_events).to(self.probs.dtype)

    mode = property(lambda self: self._hot(self.probs.argmax(-1)))

    def sample(self, sample_shape=()):
        return self._hot(self._categorical.sample(sample_shape))

    def log_prob(self, value):
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self):
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        return self._hot(self._categorical.enumerate_support(expand))


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """Whose gradient goes to the probabilities as if the sample were they."""

    has_rsample = True

    def rsample(self, sample_shape=()):
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Binomial(_ByProbability):
    """Successes in `total_count` tries."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _parameters = ("total_count", "probs", "logits")

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self._take_tries(total_count, probs, logits, validate_args)

    @constraints.dependent_property
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    mean = property(lambda self: self.total_count * self.probs)
    mode = property(
        lambda self: ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)
    )
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        return _ops.binomial(self.total_count.expand(shape), self.probs.detach().expand(shape))

    def log_prob(self, value):
        self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = _ops.lgamma(n + 1) - _ops.lgamma(value + 1) - _ops.lgamma(n - value + 1)
        return ways + value * logits - n * F.softplus(logits)

    def enumerate_support(self, expand=True):
        n = int(self.total_count.max().item())
        if not (self.total_count == n).all().item():
            raise NotImplementedError(
                "pf.distributions.Binomial: counts differ, so do their supports"
            )
        values = _ops.arange(n + 1, dtype=self._param.dtype, device=self._param.device)
        values = values.view(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values

    def entropy(self):
        log_p = self.log_prob(self.enumerate_support(False))
        return -(log_p.exp() * log_p).sum(0)


class Poisson(Plain):
    """Counts with mean `rate`."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _parameters = ("rate",)

    def __init__(self, rate, validate_args=None):
        self._spread(rate, validate_args=validate_args)

    mean = variance = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())

    def sample(self, sample_shape=()):
        return _ops.poisson(self.rate.detach().expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._validate_sample(value)
        return _ops.xlogy(value, self.rate) - self.rate - _ops.lgamma(value + 1)


class NegativeBinomial(_ByProbability):
    """Successes, each with probability `probs`, before `total_count` failures."""

    arg_constraints = {
        "total_count": constraints.nonnegative,
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _parameters = ("total_count", "probs", "logits")

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        self._take_tries(total_count, probs, logits, validate_args)

    mean = property(lambda self: self.total_count * self.logits.exp())
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0))
    variance = property(lambda self: self.mean / _ops.sigmoid(-self.logits))

    def sample(self, sample_shape=()):
        with no_grad():
            shape = self._extended_shape(sample_shape)
            return _ops.poisson(standard_gamma(self.total_count.expand(shape)) * self.logits.exp())

    def log_prob(self, value):
        self._validate_sample(value)
        plain = self.total_count * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        ways = (
            _ops.lgamma(self.total_count + value)
            - _ops.lgamma(1 + value)
            - _ops.lgamma(self.total_count)
        )
        return plain + _ops.where(self.total_count + value == 0, 0.0, ways)


class Multinomial(_OfCategorical):
    """How often each of n classes comes in `total_count` draws."""

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError(
                "pf.distributions.Multinomial: got counts that differ; expected one int for all"
            )
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    def _first(self):
        return (self.total_count,)

    mean = property(lambda self: self.total_count * self.probs)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    @constraints.dependent_property
    def support(self):
        return constraints.multinomial(self.total_count)

    def sample(self, sample_shape=()):
        sample_shape = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        draws = self._categorical.sample((self.total_count, *sample_shape))
        classes = _ops.arange(self._event_shape[0], device=draws.device)
        return (draws.unsqueeze(-1) == classes).sum(0).to(self.probs.dtype)

    def log_prob(self, value):
        self._validate_sample(value)
        logits = self.logits.clamp(min=-1e30)
        ways = _ops.lgamma(value.sum(-1) + 1) - _ops.lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self):
        n = self.total_count
        one = Binomial(n, probs=self.probs, validate_args=False)
        values = one.enumerate_support(False)[1:]
        weights = one.log_prob(values).exp()
        return (
            n * self._categorical.entropy()
            - math.lgamma(n + 1)
            + (weights * _ops.lgamma(values + 1)).sum((0, -1))
        )


class LogitRelaxedBernoulli(_Binary):
    """The logit of :class:`RelaxedBernoulli`."""

    support = constraints.real
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def _expand_rest(self, new, batch_shape):
        super()._expand_rest(new, batch_shape)
        new.temperature = self.temperature

    def rsample(self, sample_shape=()):
        u = _open(self._param, self._extended_shape(sample_shape))
        return (u.log() - _ops.log1p(-u) + self.logits) / self.temperature

    def log_prob(self, value):
        self._validate_sample(value)
        d = self.logits - value * self.temperature
        temperature = self.temperature
        log = temperature.log() if isinstance(temperature, _C.Tensor) else math.log(temperature)
        return log + d - 2 * F.softplus(d)


class ExpRelaxedCategorical(_OfCategorical):
    """The logarithm of :class:`RelaxedOneHotCategorical`."""

    support = constraints.real_vector
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def _first(self):
        return (self.temperature,)

    def rsample(self, sample_shape=()):
        u = _open(self.logits, self._extended_shape(sample_shape))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, True)

    def log_prob(self, value):
        self._validate_sample(value)
        n, t = self._event_shape[0], self.temperature
        log_t = t.log() if isinstance(t, _C.Tensor) else math.log(t)
        score = self.logits - value * t
        score = (score - score.logsumexp(-1, True)).sum(-1)
        return score + math.lgamma(n) + (n - 1) * log_t


_name_errors(__name__)
_name_methods(__name__)
