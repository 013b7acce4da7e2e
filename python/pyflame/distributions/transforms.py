"""Invertible functions with the logarithm of their Jacobian's determinant."""

import math

from .. import _C, _misc, _ops
from .._named_errors import name_methods as _name_methods
from ..nn import functional as F
from . import constraints
from .utils import eps_of, sum_rightmost


class Transform:
    """y = t(x), x = t.inv(y). `cache_size` 1 keeps the last pair, so that an inverse need not be
    calculated."""

    bijective = False
    domain = constraints.real
    codomain = constraints.real

    def __init__(self, cache_size=0):
        if cache_size not in (0, 1):
            raise _C.ValueError(
                f"pf.distributions.transforms: got cache_size {cache_size}; expected 0 or 1"
            )
        self._cache_size = cache_size
        self._cached = None, None
        self._inv = None

    def __getstate__(self):
        return {**self.__dict__, "_inv": None}

    @property
    def inv(self):
        """Always the same one, whose `inv` is this transform."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    @property
    def event_dim(self):
        """Dimensions of one value, where its two sides have as many."""
        dims = self.domain.event_dim
        if dims != self.codomain.event_dim:
            raise _C.ValueError(
                f"pf.distributions.{type(self).__name__}.event_dim: got {dims} dimensions before and "
                f"{self.codomain.event_dim} behind; ask domain.event_dim or codomain.event_dim"
            )
        return dims

    @property
    def sign(self):
        """1 where the function rises, -1 where it falls."""
        raise NotImplementedError(f"{type(self).__name__} has no one sign")

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not defined")

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__

    def __call__(self, x):
        if not self._cache_size:
            return self._call(x)
        if x is not self._cached[0]:
            self._cached = x, self._call(x)
        return self._cached[1]

    def _inv_call(self, y):
        if not self._cache_size:
            return self._inverse(y)
        if y is not self._cached[1]:
            self._cached = self._inverse(y), y
        return self._cached[0]

    def _call(self, x):
        raise NotImplementedError

    def _inverse(self, y):
        raise NotImplementedError

    def log_abs_det_jacobian(self, x, y):
        raise NotImplementedError

    def forward_shape(self, shape):
        return shape

    def inverse_shape(self, shape):
        return shape

    def __repr__(self):
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    def __init__(self, transform):
        super().__init__(transform._cache_size)
        self._forward = transform

    bijective = property(lambda self: self._forward.bijective)
    domain = property(lambda self: self._forward.codomain)
    codomain = property(lambda self: self._forward.domain)
    sign = property(lambda self: self._forward.sign)
    inv = property(lambda self: self._forward)

    def with_cache(self, cache_size=1):
        return self._forward.with_cache(cache_size).inv

    def __eq__(self, other):
        return isinstance(other, _InverseTransform) and self._forward == other._forward

    __hash__ = object.__hash__

    def __call__(self, x):
        return self._forward._inv_call(x)

    def _inv_call(self, y):
        return self._forward(y)

    def log_abs_det_jacobian(self, x, y):
        return -self._forward.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        return self._forward.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._forward.forward_shape(shape)

    def __repr__(self):
        return f"_InverseTransform({self._forward!r})"


class ComposeTransform(Transform):
    """One after the other, the first first."""

    def __init__(self, parts, cache_size=0):
        super().__init__(cache_size)
        self.parts = [p.with_cache(cache_size) for p in parts] if cache_size else list(parts)

    def __eq__(self, other):
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    @property
    def bijective(self):
        return all(p.bijective for p in self.parts)

    @property
    def sign(self):
        sign = 1
        for p in self.parts:
            sign = sign * p.sign
        return sign

    @property
    def domain(self):
        if not self.parts:
            return constraints.real
        domain = self.parts[0].domain
        dims = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dims = max(
                dims + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim
            )
        more = dims - domain.event_dim
        return constraints.independent(domain, more) if more else domain

    @property
    def codomain(self):
        if not self.parts:
            return constraints.real
        codomain = self.parts[-1].codomain
        dims = self.parts[0].domain.event_dim
        for part in self.parts:
            dims = max(
                dims + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim
            )
        more = dims - codomain.event_dim
        return constraints.independent(codomain, more) if more else codomain

    @property
    def inv(self):
        if self._inv is None:
            self._inv = ComposeTransform([p.inv for p in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return ComposeTransform(self.parts, cache_size)

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y):
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x, y):
        if not self.parts:
            return _ops.zeros_like(x)
        total, dims = 0.0, self.domain.event_dim
        for i, part in enumerate(self.parts):
            after = part(x) if i + 1 < len(self.parts) else y
            term = part.log_abs_det_jacobian(x, after)
            total = total + sum_rightmost(term, dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
            x = after
        return total

    def forward_shape(self, shape):
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape):
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self):
        return "ComposeTransform(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


def _enough(name, shape, dims):
    if len(shape) < dims:
        raise _C.ValueError(
            f"pf.distributions.{name}: got shape {tuple(shape)}; expected at least {dims} dimensions"
        )


def _broadcast(shape, *values):
    """The shape of what a transform with these parameters gives."""
    return _misc.broadcast_shapes(shape, *(getattr(v, "shape", ()) for v in values))


class IndependentTransform(Transform):
    """`base_transform`, whose rightmost dimensions are one event."""

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size)
        if not isinstance(base_transform, Transform):
            raise TypeError(
                f"pf.distributions.IndependentTransform: got {getattr(base_transform, '__name__', type(base_transform).__name__)}; "
                "expected a transform, such as ExpTransform()"
            )
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    bijective = property(lambda self: self.base_transform.bijective)
    sign = property(lambda self: self.base_transform.sign)

    @property
    def domain(self):
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self):
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    def _call(self, x):
        _enough("IndependentTransform", x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y):
        _enough("IndependentTransform", y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def forward_shape(self, shape):
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape):
        return self.base_transform.inverse_shape(shape)

    def __repr__(self):
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def log_abs_det_jacobian(self, x, y):
        return sum_rightmost(
            self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims
        )


class ReshapeTransform(Transform):
    """Events of another shape with as many elements."""

    bijective = True

    def __init__(self, in_shape, out_shape, cache_size=0):
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise _C.ValueError(
                f"pf.distributions.ReshapeTransform: got {self.in_shape} and {self.out_shape}; expected "
                "as many elements"
            )

    domain = property(lambda self: constraints.independent(constraints.real, len(self.in_shape)))
    codomain = property(lambda self: constraints.independent(constraints.real, len(self.out_shape)))

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _call(self, x):
        return x.reshape((*x.shape[: x.dim() - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y):
        return y.reshape((*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x, y):
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape):
        return self._ending(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape):
        return self._ending(shape, self.out_shape, self.in_shape)

    @staticmethod
    def _ending(shape, old, new):
        _enough("ReshapeTransform", shape, len(old))
        cut = len(shape) - len(old)
        if tuple(shape[cut:]) != old:
            raise _C.ValueError(
                f"pf.distributions.ReshapeTransform: got shape {tuple(shape)}; expected one that ends with {old}"
            )
        return (*shape[:cut], *new)


class _Plain(Transform):
    """Two of a class are the same function."""

    bijective = True
    sign = 1

    def __eq__(self, other):
        return type(self) is type(other)

    __hash__ = object.__hash__


class ExpTransform(_Plain):
    """exp(x)."""

    codomain = constraints.positive

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class SigmoidTransform(_Plain):
    """1 / (1 + exp(-x))."""

    codomain = constraints.unit_interval

    def _call(self, x):
        return x.sigmoid().clamp(eps_of(x, "tiny"), 1 - eps_of(x))

    def _inverse(self, y):
        y = y.clamp(eps_of(y, "tiny"), 1 - eps_of(y))
        return y.log() - _ops.log1p(-y)

    def log_abs_det_jacobian(self, x, y):
        return -F.softplus(-x) - F.softplus(x)


class TanhTransform(_Plain):
    """tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return _ops.atanh(
            y
        )  # at -1 and 1 infinite: keep the pair (cache_size=1) where that matters

    def log_abs_det_jacobian(self, x, y):
        return 2 * (math.log(2) - x - F.softplus(-2 * x))


class SoftplusTransform(_Plain):
    """log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x):
        return F.softplus(x)

    def _inverse(self, y):
        return (-_ops.expm1(-y)).log() + y

    def log_abs_det_jacobian(self, x, y):
        return -F.softplus(-x)


class PowerTransform(Transform):
    """x^exponent of positive numbers."""

    bijective = True
    domain = codomain = constraints.positive

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size)
        self.exponent = (
            exponent if isinstance(exponent, _C.Tensor) else _ops.tensor(float(exponent))
        )

    sign = property(lambda self: self.exponent.sign())

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return PowerTransform(self.exponent, cache_size)

    def __eq__(self, other):
        return isinstance(other, PowerTransform) and bool(
            (self.exponent == other.exponent).all().item()
        )

    __hash__ = object.__hash__

    def _call(self, x):
        return x**self.exponent

    def _inverse(self, y):
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape):
        return _broadcast(shape, self.exponent)

    inverse_shape = forward_shape


class AbsTransform(_Plain):
    """|x|, of which `inv` gives the positive one."""

    bijective = False
    codomain = constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """loc + scale x."""

    bijective = True

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    event_dim = property(lambda self: self._event_dim)

    @property
    def domain(self):
        return (
            constraints.independent(constraints.real, self.event_dim)
            if self.event_dim
            else constraints.real
        )

    codomain = domain

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size)

    def __eq__(self, other):
        return isinstance(other, AffineTransform) and all(
            bool((_ops.as_tensor(a) == _ops.as_tensor(b)).all().item())
            for a, b in ((self.loc, other.loc), (self.scale, other.scale))
        )

    __hash__ = object.__hash__

    @property
    def sign(self):
        if isinstance(self.scale, _C.Tensor):
            return self.scale.sign()
        return 1 if self.scale > 0 else -1 if self.scale < 0 else 0

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        if isinstance(self.scale, _C.Tensor):
            log = self.scale.abs().log().expand(x.shape)
        else:
            log = _ops.full_like(x, math.log(abs(self.scale)))
        return sum_rightmost(log, self.event_dim)

    def forward_shape(self, shape):
        return _broadcast(shape, self.loc, self.scale)

    inverse_shape = forward_shape


class SoftmaxTransform(_Plain):
    """Onto the simplex; not invertible, since any constant may be added."""

    bijective = False
    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x):
        return _ops.softmax(x, -1)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape):
        _enough("SoftmaxTransform", shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Plain):
    """n numbers to a point of the simplex in n + 1 dimensions, a stick of which piece after piece is
    broken off."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x):
        n = x.shape[-1]
        offset = n - _ops.arange(n, dtype=x.dtype, device=x.device)
        z = SigmoidTransform()(x - offset.log())
        left = _ops.cumprod(1 - z, -1)
        return F.pad(z, (0, 1), value=1.0) * F.pad(left, (1, 0), value=1.0)

    def _inverse(self, y):
        n = y.shape[-1] - 1
        offset = n - _ops.arange(n, dtype=y.dtype, device=y.device)
        left = (1 - _ops.cumsum(y[..., :-1], -1)).clamp(min=eps_of(y, "tiny"))
        return y[..., :-1].log() - left.log() + offset.log()

    def log_abs_det_jacobian(self, x, y):
        n = x.shape[-1]
        offset = n - _ops.arange(n, dtype=x.dtype, device=x.device)
        z = x - offset.log()
        return (-z + F.logsigmoid(z) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        _enough("StickBreakingTransform", shape, 1)
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape):
        _enough("StickBreakingTransform", shape, 1)
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(_Plain):
    """Square matrices to lower triangular ones with a positive diagonal."""

    bijective = False
    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + _ops.diag_embed(x.diagonal(0, -2, -1).exp())

    def _inverse(self, y):
        return y.tril(-1) + _ops.diag_embed(y.diagonal(0, -2, -1).log())


class PositiveDefiniteTransform(_Plain):
    """Square matrices to positive definite ones, by lower triangular ones."""

    bijective = False
    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(_C._import("pyflame.linalg").cholesky(y))


class CorrCholeskyTransform(_Plain):
    """n (n - 1) / 2 numbers to the Cholesky factor of a correlation matrix of n by n: the tangent
    hyperbolic of each is the share that its element has of what its row's length leaves."""

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky

    @staticmethod
    def _size(count):
        n = (1 + math.isqrt(1 + 8 * count)) // 2
        if n * (n - 1) // 2 != count:
            raise _C.ValueError(
                f"pf.distributions.CorrCholeskyTransform: got {count} numbers; expected n (n - 1) / 2 of "
                "them for a matrix of n by n"
            )
        return n

    @staticmethod
    def _below(matrix):
        """The elements below the diagonal, row by row."""
        n = matrix.shape[-1]
        rows, columns = _ops.tril_indices(n, n, -1, device=matrix.device)
        return matrix[..., rows, columns]

    @staticmethod
    def _left(y):
        """What the elements before leave of the square of each row's length, 1."""
        left = 1 - _ops.cumsum(y * y, -1)
        return F.pad(left[..., :-1], (1, 0), value=1.0).clamp(min=eps_of(y) ** 2)

    def _call(self, x):
        n = self._size(x.shape[-1])
        rows, columns = _ops.tril_indices(n, n, -1, device=x.device)
        share = x.new_zeros((*x.shape[:-1], n, n))
        share = _ops.index_put(
            share.movedim((-2, -1), (0, 1)), (rows, columns), _ops.tanh(x).movedim(-1, 0)
        )
        share = share.movedim((0, 1), (-2, -1))
        left = _ops.cumprod((1 - share * share).sqrt(), -1)
        left = F.pad(left[..., :-1], (1, 0), value=1.0)
        return left * (share + _ops.eye(n, dtype=x.dtype, device=x.device))

    def _inverse(self, y):
        return _ops.atanh(self._below(y) / self._below(self._left(y)).sqrt())

    def log_abs_det_jacobian(self, x, y):
        # By rows it is triangular: (1 - tanh^2) times the root of what is left.
        slope = -2 * (x + F.softplus(-2 * x) - math.log(2))
        return slope.sum(-1) + 0.5 * self._below(self._left(y)).log().sum(-1)

    def forward_shape(self, shape):
        _enough("CorrCholeskyTransform", shape, 1)
        n = self._size(shape[-1])
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape):
        if len(shape) < 2 or shape[-1] != shape[-2]:
            raise _C.ValueError(
                f"pf.distributions.CorrCholeskyTransform: got shape {tuple(shape)}; expected square matrices"
            )
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


class CumulativeDistributionTransform(Transform):
    """A distribution's function, onto 0 to 1."""

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support)

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size)

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)


class _Several(Transform):
    """A transform for each part along a dimension."""

    def __init__(self, tseq, dim, cache_size):
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.dim = dim

    bijective = property(lambda self: all(t.bijective for t in self.transforms))

    def _checked(self, x, size):
        if not -x.dim() <= self.dim < x.dim() or x.shape[self.dim] != size:
            raise _C.ShapeError(
                f"pf.distributions.{type(self).__name__}: got shape {tuple(x.shape)}; expected {size} "
                f"elements along dimension {self.dim}"
            )
        return x


class StackTransform(_Several):
    """A transform for each place along `dim`."""

    def __init__(self, tseq, dim=0, cache_size=0):
        super().__init__(tseq, dim, cache_size)

    domain = property(lambda self: constraints.stack([t.domain for t in self.transforms], self.dim))
    codomain = property(
        lambda self: constraints.stack([t.codomain for t in self.transforms], self.dim)
    )

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _parts(self, x):
        return self._checked(x, len(self.transforms)).unbind(self.dim)

    def _call(self, x):
        return _ops.stack([t(p) for t, p in zip(self.transforms, self._parts(x))], self.dim)

    def _inverse(self, y):
        return _ops.stack([t.inv(p) for t, p in zip(self.transforms, self._parts(y))], self.dim)

    def log_abs_det_jacobian(self, x, y):
        terms = zip(self.transforms, self._parts(x), self._parts(y))
        return _ops.stack([t.log_abs_det_jacobian(a, b) for t, a, b in terms], self.dim)


class CatTransform(_Several):
    """A transform for each part along `dim`, of so many elements as `lengths` says (1 each)."""

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise _C.ValueError(
                f"pf.distributions.CatTransform: got {len(self.transforms)} transforms and "
                f"{len(self.lengths)} lengths; expected as many"
            )

    length = property(lambda self: sum(self.lengths))
    event_dim = property(lambda self: max(t.event_dim for t in self.transforms))
    domain = property(
        lambda self: constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)
    )
    codomain = property(
        lambda self: constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)
    )

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x):
        return self._checked(x, self.length).split(self.lengths, self.dim)

    def _call(self, x):
        parts = zip(self.transforms, self._parts(x))
        return _ops.cat([t(p) for t, p in parts], self.dim)

    def _inverse(self, y):
        parts = zip(self.transforms, self._parts(y))
        return _ops.cat([t.inv(p) for t, p in parts], self.dim)

    def log_abs_det_jacobian(self, x, y):
        both = zip(self.transforms, self._parts(x), self._parts(y))
        event = self.event_dim
        terms = [
            sum_rightmost(t.log_abs_det_jacobian(a, b), event - t.event_dim) for t, a, b in both
        ]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + event
        return _ops.cat(terms, dim) if dim < 0 else sum(terms)  # parts of an event are added


identity_transform = ComposeTransform([])

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform", "StickBreakingTransform",
    "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip


_name_methods(__name__)
