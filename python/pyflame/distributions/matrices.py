"""Distributions of matrices."""

import math

from .. import _C, _ops
from .. import linalg as _linalg
from .._named_errors import name_errors as _name_errors
from .._named_errors import name_methods as _name_methods
from ..autograd import no_grad
from . import constraints
from .continuous import Beta, Chi2
from .distribution import Distribution
from .multivariate import _batch, _half_log_det, one_matrix
from .utils import broadcast_all, lazy_property


def _digammas(a, n):
    """The derivative of log of the multivariate gamma function."""
    steps = _ops.arange(n, dtype=a.dtype, device=a.device) / 2
    return _ops.digamma(a.unsqueeze(-1) - steps).sum(-1)


class Wishart(Distribution):
    """Of positive definite matrices, with `df` (above n - 1) degrees of freedom and one of
    `covariance_matrix`, `precision_matrix` (its inverse) and `scale_tril` (its Cholesky factor),
    [..., n, n]: the sum of x x^T over df normal vectors."""

    arg_constraints = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.positive,
    }
    support = constraints.positive_definite
    has_rsample = True

    def __init__(
        self,
        df,
        covariance_matrix=None,
        precision_matrix=None,
        scale_tril=None,
        validate_args=None,
    ):
        name, matrix = one_matrix("Wishart", covariance_matrix, precision_matrix, scale_tril)
        n = matrix.shape[-1]
        if matrix.dim() < 2 or matrix.shape[-2] != n:
            raise _C.ValueError(
                f"pf.distributions.Wishart: got a {name} of shape {tuple(matrix.shape)}; expected square "
                "matrices"
            )
        if not isinstance(df, _C.Tensor):
            df = _ops.full((), df, dtype=matrix.dtype, device=matrix.device)
        shape = _batch(matrix.shape[:-2], df.shape)
        self.df = df.expand(shape)
        self.__dict__[name] = matrix.expand(*shape, n, n)
        super().__init__(shape, (n, n), validate_args)
        if self._validate_args and not (self.df > n - 1).all().item():
            raise _C.ValueError(
                f"pf.distributions.Wishart: got df that is not above {n - 1} everywhere; expected more "
                f"than that for matrices of {n} by {n}"
            )
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = _linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _linalg.cholesky(_linalg.inv(matrix))

    def expand(self, batch_shape, _instance=None):
        tril = self._unbroadcasted_scale_tril.expand(*batch_shape, *self._event_shape)
        return self._checking(
            Wishart(self.df.expand(batch_shape), scale_tril=tril, validate_args=False)
        )

    @lazy_property
    def scale_tril(self):
        return self._unbroadcasted_scale_tril.expand(*self._batch_shape, *self._event_shape)

    @lazy_property
    def covariance_matrix(self):
        return self.scale_tril @ self.scale_tril.mT

    @lazy_property
    def precision_matrix(self):
        return _linalg.inv(self.covariance_matrix)

    @property
    def mean(self):
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self):
        factor = self.df - self._event_shape[0] - 1
        return _ops.where(factor <= 0, math.nan, factor)[..., None, None] * self.covariance_matrix

    @property
    def variance(self):
        v = self.covariance_matrix
        d = v.diagonal(0, -2, -1)
        return self.df[..., None, None] * (v * v + d.unsqueeze(-1) * d.unsqueeze(-2))

    def rsample(self, sample_shape=()):
        """By Bartlett's decomposition: the factor of a sample has normal numbers below its diagonal
        and roots of chi-square numbers on it."""
        n = self._event_shape[0]
        shape = self._extended_shape(sample_shape)
        like = dict(
            dtype=self._unbroadcasted_scale_tril.dtype, device=self._unbroadcasted_scale_tril.device
        )
        freedom = self.df.unsqueeze(-1) - _ops.arange(n, **like)
        roots = Chi2(freedom, validate_args=False).rsample(
            shape[: len(shape) - len(self._batch_shape) - 2]
        )
        a = _ops.randn(shape, **like).tril(-1) + _ops.diag_embed(roots.sqrt())
        factor = self._unbroadcasted_scale_tril @ a
        return factor @ factor.mT

    def log_prob(self, value):
        self._validate_sample(value)
        n, df = self._event_shape[0], self.df
        root = _linalg.cholesky(value)
        shape = _batch(root.shape[:-2], self._batch_shape)
        within = _linalg.solve_triangular(
            self._unbroadcasted_scale_tril.expand(*shape, n, n),
            root.expand(*shape, n, n),
            upper=False,
        )
        return (
            (df - n - 1) * _half_log_det(root)
            - 0.5 * (within * within).sum((-2, -1))
            - df * (0.5 * n * math.log(2) + _half_log_det(self._unbroadcasted_scale_tril))
            - _ops.mvlgamma(df / 2, n)
        )

    def entropy(self):
        n, df = self._event_shape[0], self.df
        return (
            (n + 1) * (_half_log_det(self._unbroadcasted_scale_tril) + 0.5 * n * math.log(2))
            + _ops.mvlgamma(df / 2, n)
            - 0.5 * (df - n - 1) * _digammas(df / 2, n)
            + 0.5 * n * df
        )


class LKJCholesky(Distribution):
    """Of Cholesky factors of correlation matrices of `dim` by `dim`, whose density goes as the
    determinant of the matrix to the power of concentration - 1: at 1 all are as likely."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if not isinstance(dim, int) or dim < 2:
            raise _C.ValueError(
                f"pf.distributions.LKJCholesky: got dim {dim!r}; expected an integer of at least 2"
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._checking(
            LKJCholesky(self.dim, self.concentration.expand(batch_shape), validate_args=False)
        )

    def sample(self, sample_shape=()):
        """Row by row: a direction, and the part of its length 1 that lies below the diagonal."""
        with no_grad():
            shape = self._extended_shape(sample_shape)
            like = dict(dtype=self.concentration.dtype, device=self.concentration.device)
            row = _ops.arange(1, self.dim, **like)
            rest = self.concentration.unsqueeze(-1) + (self.dim - 1 - row) / 2
            part = Beta(row / 2 + 0 * rest, rest, validate_args=False)
            square = part.sample(shape[: len(shape) - len(self._batch_shape) - 2])
            square = _ops.cat([_ops.zeros_like(square[..., :1]), square], -1)
            way = _ops.randn(shape, **like).tril(-1)
            length = (way * way).sum(-1, keepdim=True).sqrt()
            below = way / _ops.where(length > 0, length, 1.0) * square.sqrt().unsqueeze(-1)
            return below + _ops.diag_embed((1 - square).sqrt())

    def log_prob(self, value):
        self._validate_sample(value)
        n, eta = self.dim, self.concentration
        row = _ops.arange(1, n, dtype=eta.dtype, device=eta.device)
        power = 2 * (eta.unsqueeze(-1) - 1) + n - 1 - row
        a = eta + 0.5 * (n - 1)
        norm = (
            0.5 * (n - 1) * math.log(math.pi)
            + _ops.mvlgamma(a - 0.5, n - 1)
            - (n - 1) * _ops.lgamma(a)
        )
        return (power * value.diagonal(0, -2, -1)[..., 1:].log()).sum(-1) - norm


_name_errors(__name__)
_name_methods(__name__)
