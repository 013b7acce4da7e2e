"""The base of all distributions."""

import numbers

from .. import _C, _ops
from .._named_errors import name_methods as _name_methods
from ..autograd import no_grad
from . import constraints
from .utils import broadcast_all


def _size(shape):
    return tuple(shape) if not isinstance(shape, int) else (shape,)


class Distribution:
    """`batch_shape` independent distributions of events of shape `event_shape`.

    Parameters and values are checked unless `validate_args` is False (or
    ``Distribution.set_default_validate_args(False)`` said so): ValueError names what is out of the
    parameter's set or of the support. Random numbers are those of PyFlame's generator.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints = {}
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value):
        if value not in (True, False):
            raise _C.ValueError(f"pf.distributions: got {value!r}; expected True or False")
        Distribution._validate_args = value

    def __init__(self, batch_shape=(), event_shape=(), validate_args=None):
        self._batch_shape, self._event_shape = _size(batch_shape), _size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            for name, constraint in self.arg_constraints.items():
                if constraints.is_dependent(constraint) or name not in self.__dict__:
                    continue
                self._check(name, constraint, self.__dict__[name])

    def _check(self, name, constraint, value):
        if not constraint.check(value).all().item():
            raise _C.ValueError(
                f"pf.distributions.{type(self).__name__}: got {name} of shape {tuple(value.shape)} that "
                f"is not {constraint!r} everywhere; expected {constraint!r}; correct it, or pass "
                "validate_args=False"
            )

    batch_shape = property(lambda self: _C.Size(self._batch_shape))
    event_shape = property(lambda self: _C.Size(self._event_shape))

    @property
    def support(self):
        raise NotImplementedError(f"{type(self).__name__} has no support")

    @property
    def mean(self):
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def mode(self):
        raise NotImplementedError(f"{type(self).__name__} has no mode")

    @property
    def variance(self):
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self):
        return self.variance.sqrt()

    def sample(self, sample_shape=()):
        """Samples of shape `sample_shape` + batch_shape + event_shape, without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=()):
        """Samples whose gradient goes to the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample; use sample")

    def sample_n(self, n):
        return self.sample((n,))

    def log_prob(self, value):
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def cdf(self, value):
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value):
        raise NotImplementedError(f"{type(self).__name__} has no icdf")

    def entropy(self):
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    def perplexity(self):
        return _ops.exp(self.entropy())

    def enumerate_support(self, expand=True):
        raise NotImplementedError(f"{type(self).__name__} cannot list its support")

    def expand(self, batch_shape, _instance=None):
        """The same with a larger batch shape."""
        raise NotImplementedError(f"{type(self).__name__} cannot be expanded")

    def _checking(self, made):
        """What was made of checked parameters, which looks at values as this does."""
        made._validate_args = self._validate_args
        return made

    def _extended_shape(self, sample_shape=()):
        return (*_size(sample_shape), *self._batch_shape, *self._event_shape)

    def _validate_sample(self, value):
        """Checks the shape of a value, and whether it is in the support."""
        if not self._validate_args:
            return
        if not isinstance(value, _C.Tensor):
            raise _C.ValueError(
                f"pf.distributions.{type(self).__name__}: got a value of type {type(value).__name__}; "
                "expected a tensor"
            )
        n = len(self._event_shape)
        have = tuple(value.shape[value.ndim - n :]) if n else ()
        if have != self._event_shape:
            raise _C.ValueError(
                f"pf.distributions.{type(self).__name__}: got a value of shape {tuple(value.shape)}; "
                f"expected events of shape {self._event_shape} at its end"
            )
        batch = tuple(value.shape[: value.ndim - n])
        for a, b in zip(reversed(batch), reversed(self._batch_shape)):
            if a != b and a != 1 and b != 1:
                raise _C.ValueError(
                    f"pf.distributions.{type(self).__name__}: got a value of shape {tuple(value.shape)}; "
                    f"expected one that broadcasts with the batch shape {self._batch_shape}"
                )
        try:
            support = self.support
        except NotImplementedError:
            return
        if not constraints.is_dependent(support):
            self._check("a value", support, value)

    def __repr__(self):
        kept = {n: self.__dict__[n] for n in self.arg_constraints if n in self.__dict__}
        shown = ", ".join(f"{n}: {t if t.numel() == 1 else t.shape}" for n, t in kept.items())
        return f"{type(self).__name__}({shown})"


class Plain(Distribution):
    """A distribution whose parameters all have the batch's shape: they are expanded by name."""

    _parameters = ()

    def _spread(self, *values, names=None, validate_args=None):
        """Takes the values of the parameters, of one shape, which becomes the batch's."""
        spread = broadcast_all(*values)
        self.__dict__.update(zip(names or self._parameters, spread))
        one = all(isinstance(v, numbers.Number) for v in values)
        super().__init__(() if one else spread[0].shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = type(self).__new__(type(self))
        batch_shape = _size(batch_shape)
        for name in self._parameters:
            if name in self.__dict__:
                new.__dict__[name] = self.__dict__[name].expand(batch_shape)
        self._expand_rest(new, batch_shape)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        return self._checking(new)

    def _expand_rest(self, new, batch_shape):
        pass


class ExponentialFamily(Plain):
    """A mark: what PyTorch calls so."""


_name_methods(__name__)
