"""Normal distributions of vectors."""

from .. import _C, _ops
from .. import linalg as _linalg
from .._named_errors import name_errors as _name_errors
from .._named_errors import name_methods as _name_methods
from . import constraints
from .distribution import Distribution
from .sampling import LOG_2PI
from .utils import lazy_property


def _batch(*shapes):
    return tuple(_ops.broadcast_tensors(*[_ops.empty((*s, 0)) for s in shapes])[0].shape[:-1])


def _half_log_det(l):
    return l.diagonal(0, -2, -1).log().sum(-1)


def one_matrix(name, covariance_matrix, precision_matrix, scale_tril):
    """(which, it) of the one matrix that was given; ValueError otherwise."""
    given = {
        "covariance_matrix": covariance_matrix,
        "precision_matrix": precision_matrix,
        "scale_tril": scale_tril,
    }
    given = {k: v for k, v in given.items() if v is not None}
    if len(given) != 1:
        raise _C.ValueError(
            f"pf.distributions.{name}: got {' and '.join(given) or 'no matrix'}; expected one of "
            "covariance_matrix, precision_matrix and scale_tril"
        )
    return next(iter(given.items()))


def _precision_to_scale_tril(matrix):
    """The Cholesky factor of the inverse: that of the matrix turned around, inverted."""
    turned = _linalg.cholesky(matrix.flip([-2, -1])).flip([-2, -1]).mT
    eye = _ops.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device).expand(matrix.shape)
    return _linalg.solve_triangular(turned, eye, upper=False)


def _mahalanobis(l, d):
    """The square of the length of l^-1 d, for batches that broadcast."""
    shape = _batch(l.shape[:-2], d.shape[:-1])
    n = d.shape[-1]
    y = _linalg.solve_triangular(
        l.expand(*shape, n, n), d.expand(*shape, n).unsqueeze(-1), upper=False
    )
    return (y * y).sum((-2, -1))


class MultivariateNormal(Distribution):
    """With mean `loc` [..., n] and one of `covariance_matrix`, `precision_matrix` (its inverse) and
    `scale_tril` (its Cholesky factor), [..., n, n]."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc,
        covariance_matrix=None,
        precision_matrix=None,
        scale_tril=None,
        validate_args=None,
    ):
        name, matrix = one_matrix(
            "MultivariateNormal", covariance_matrix, precision_matrix, scale_tril
        )
        if loc.dim() < 1:
            raise _C.ValueError(
                "pf.distributions.MultivariateNormal: got a loc of 0 dimensions; expected at least 1"
            )
        n = loc.shape[-1]
        if tuple(matrix.shape[-2:]) != (n, n):
            raise _C.ValueError(
                f"pf.distributions.MultivariateNormal: got a {name} of shape {tuple(matrix.shape)}; expected "
                f"matrices of {n} by {n}"
            )
        shape = _batch(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand(*shape, n, n)
        self.loc = loc.expand(*shape, n)
        super().__init__(shape, (n,), validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = _linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    def expand(self, batch_shape, _instance=None):
        n = self._event_shape[0]
        tril = self._unbroadcasted_scale_tril.expand(*batch_shape, n, n)
        return self._checking(
            MultivariateNormal(
                self.loc.expand(*batch_shape, n), scale_tril=tril, validate_args=False
            )
        )

    @lazy_property
    def scale_tril(self):
        return self._unbroadcasted_scale_tril.expand(
            *self._batch_shape, *self._event_shape, *self._event_shape
        )

    @lazy_property
    def covariance_matrix(self):
        return self.scale_tril @ self.scale_tril.mT

    @lazy_property
    def precision_matrix(self):
        n = self._event_shape[0]
        eye = _ops.eye(n, dtype=self.loc.dtype, device=self.loc.device).expand(
            self.scale_tril.shape
        )
        inverse = _linalg.solve_triangular(self.scale_tril, eye, upper=False)
        return inverse.mT @ inverse

    mean = mode = property(lambda self: self.loc)

    @property
    def variance(self):
        return (
            (self._unbroadcasted_scale_tril**2)
            .sum(-1)
            .expand(*self._batch_shape, *self._event_shape)
        )

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        eps = _ops.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value):
        self._validate_sample(value)
        m = _mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * LOG_2PI + m) - _half_log_det(
            self._unbroadcasted_scale_tril
        )

    def entropy(self):
        h = 0.5 * self._event_shape[0] * (1 + LOG_2PI) + _half_log_det(
            self._unbroadcasted_scale_tril
        )
        return h.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """With covariance `cov_factor` cov_factor^T + diag(`cov_diag`): [..., n, r] and [..., n]."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        n = loc.shape[-1]
        if tuple(cov_factor.shape[-2:-1]) != (n,) or tuple(cov_diag.shape[-1:]) != (n,):
            raise _C.ValueError(
                f"pf.distributions.LowRankMultivariateNormal: got cov_factor {tuple(cov_factor.shape)} and "
                f"cov_diag {tuple(cov_diag.shape)} for {n} elements; expected [..., {n}, rank] and [..., {n}]"
            )
        shape = _batch(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc = loc.expand(*shape, n)
        self.cov_factor = cov_factor.expand(*shape, *cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(*shape, n)
        super().__init__(shape, (n,), validate_args)
        w = cov_factor.mT / cov_diag.unsqueeze(-2)
        r = cov_factor.shape[-1]
        inner = w @ cov_factor + _ops.eye(r, dtype=loc.dtype, device=loc.device)
        self._capacitance = _linalg.cholesky(inner)

    def expand(self, batch_shape, _instance=None):
        n = self._event_shape[0]
        return self._checking(LowRankMultivariateNormal(
            self.loc.expand(*batch_shape, n), self.cov_factor.expand(*batch_shape, *self.cov_factor.shape[-2:]),
            self.cov_diag.expand(*batch_shape, n), validate_args=False,
        ))  # fmt: skip

    mean = mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        return (self.cov_factor**2).sum(-1) + self.cov_diag

    @lazy_property
    def covariance_matrix(self):
        return self.cov_factor @ self.cov_factor.mT + _ops.diag_embed(self.cov_diag)

    @lazy_property
    def scale_tril(self):
        return _linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self):
        return _linalg.inv(self.covariance_matrix)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        like = dict(dtype=self.loc.dtype, device=self.loc.device)
        w = _ops.randn((*shape[:-1], self.cov_factor.shape[-1], 1), **like)
        return (
            self.loc
            + (self.cov_factor @ w).squeeze(-1)
            + self.cov_diag.sqrt() * _ops.randn(shape, **like)
        )

    def log_prob(self, value):
        self._validate_sample(value)
        d = value - self.loc
        w = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        within = (w @ d.unsqueeze(-1)).squeeze(-1)
        m = (d * d / self.cov_diag).sum(-1) - _mahalanobis(self._capacitance, within)
        log_det = 2 * _half_log_det(self._capacitance) + self.cov_diag.log().sum(-1)
        return -0.5 * (self._event_shape[0] * LOG_2PI + log_det + m)

    def entropy(self):
        log_det = 2 * _half_log_det(self._capacitance) + self.cov_diag.log().sum(-1)
        h = 0.5 * (self._event_shape[0] * (1 + LOG_2PI) + log_det)
        return h.expand(self._batch_shape)


_name_errors(__name__)
_name_methods(__name__)
