"""What values of parameters and samples may be: `check(value)` gives a bool for each event."""

from .. import _C, _ops

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky",
    "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot",
    "positive", "positive_definite", "positive_integer", "positive_semidefinite", "real",
    "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A set of values. `is_discrete` of whole numbers; `event_dim` dimensions belong to one value."""

    is_discrete = False
    event_dim = 0

    def check(self, value):
        raise NotImplementedError(f"{type(self).__name__} does not define check")

    def __repr__(self):
        # PyTorch's words, whose classes are called so.
        name = "".join(word[:1].upper() + word[1:] for word in type(self).__name__.split("_"))
        bounds = [n for n in ("lower_bound", "upper_bound") if n in vars(self)]
        return f"{name}({', '.join(f'{n}={getattr(self, n)}' for n in bounds)})"


class _Dependent(Constraint):
    """Known only beside other parameters."""

    def __init__(self, *, is_discrete=False, event_dim=0):
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete=False, event_dim=0):
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value):
        raise _C.ValueError(
            "pf.distributions.constraints: dependent is known only beside other parameters; expected "
            "an object's own constraint; ask the distribution's support"
        )


def is_dependent(constraint):
    return isinstance(constraint, _Dependent)


class dependent_property(property, _Dependent):
    """A property that gives the constraint of an object."""

    def __init__(self, fn=None, *, is_discrete=False, event_dim=0):
        property.__init__(self, fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn):
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


class independent(Constraint):
    """`base_constraint`, with its rightmost dimensions taken together."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self):
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def __repr__(self):
        return f"IndependentConstraint({self.base_constraint}, {self.reinterpreted_batch_ndims})"

    def check(self, value):
        result = self.base_constraint.check(value)
        n = self.reinterpreted_batch_ndims
        if result.dim() < n:
            raise _C.ValueError(
                f"pf.distributions.constraints: got shape {tuple(value.shape)}; expected at least "
                f"{self.base_constraint.event_dim + n} dimensions"
            )
        return result.flatten(-n).all(-1) if n else result


class MixtureSameFamilyConstraint(Constraint):
    """What `base_constraint` of every component admits."""

    def __init__(self, base_constraint):
        self.base_constraint = base_constraint

    is_discrete = property(lambda self: self.base_constraint.is_discrete)
    event_dim = property(lambda self: self.base_constraint.event_dim)

    def __repr__(self):
        return f"MixtureSameFamilyConstraint({self.base_constraint})"

    def check(self, value):
        keep = value.dim() - self.event_dim
        if keep < 0:
            raise _C.ValueError(
                f"pf.distributions.constraints: got shape {tuple(value.shape)}; expected at least "
                f"{self.event_dim} dimensions"
            )
        admitted = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return admitted.reshape((*admitted.shape[:keep], -1)).all(-1)


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value):
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete, event_dim = True, 1

    def check(self, value):
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class integer_interval(Constraint):
    is_discrete = True

    def __init__(self, lower_bound, upper_bound):
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value):
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerGreaterThan(Constraint):
    is_discrete = True

    def __init__(self, lower_bound):
        self.lower_bound = lower_bound

    def check(self, value):
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    def check(self, value):
        return value == value


class greater_than(Constraint):
    def __init__(self, lower_bound):
        self.lower_bound = lower_bound

    def check(self, value):
        return value > self.lower_bound


class greater_than_eq(greater_than):
    def check(self, value):
        return value >= self.lower_bound


class less_than(Constraint):
    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, value):
        return value < self.upper_bound


class interval(Constraint):
    def __init__(self, lower_bound, upper_bound):
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value):
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class half_open_interval(interval):
    def check(self, value):
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value):
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-5)


class multinomial(Constraint):
    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def __repr__(self):
        return "Multinomial()"

    def check(self, value):
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value):
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value):
        return super().check(value) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value):
        length = (value * value).sum(-1)
        tolerance = value.shape[-1] * 10 * _C._import("pyflame._misc").finfo(value.dtype).eps
        return super().check(value) & ((length - 1).abs() < tolerance).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value):
        fits = value.shape[-1] == value.shape[-2]
        return _ops.full(value.shape[:-2], fits, dtype=_C.bool, device=value.device)


class _Symmetric(_Square):
    def check(self, value):
        if value.shape[-1] != value.shape[-2]:
            return super().check(value)
        largest = value.abs().flatten(-2).amax(-1)
        return (value - value.mT).abs().flatten(-2).amax(-1) <= 1e-5 * largest


class _PositiveSemidefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        lowest = _C._import("pyflame.linalg").eigvalsh(value)[..., 0]
        return lowest >= -1e-5 * value.abs().flatten(-2).amax(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return _C._import("pyflame.linalg").cholesky_ex(value)[1] == 0


class _Several(Constraint):
    is_discrete = property(lambda self: any(c.is_discrete for c in self.cseq))


class stack(_Several):
    """A constraint for each place along `dim`."""

    def __init__(self, cseq, dim=0):
        self.cseq, self.dim = list(cseq), dim

    @property
    def event_dim(self):
        dims = max(c.event_dim for c in self.cseq)
        return dims + 1 if self.dim + dims < 0 else dims

    def check(self, value):
        parts = [c.check(value.select(self.dim, i)) for i, c in enumerate(self.cseq)]
        return _ops.stack(parts, self.dim)


class cat(_Several):
    """A constraint for each part along `dim`, of so many elements as `lengths` says."""

    def __init__(self, cseq, dim=0, lengths=None):
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    event_dim = property(lambda self: max(c.event_dim for c in self.cseq))

    def check(self, value):
        parts = value.split(self.lengths, self.dim)
        return _ops.cat([c.check(p) for c, p in zip(self.cseq, parts)], self.dim)


boolean = _Boolean()
corr_cholesky = _CorrCholesky()
lower_cholesky = _LowerCholesky()
dependent = _Dependent()
lower_triangular = _LowerTriangular()
nonnegative = greater_than_eq(0.0)
nonnegative_integer = _IntegerGreaterThan(0)
one_hot = _OneHot()
positive = greater_than(0.0)
positive_definite = _PositiveDefinite()
positive_semidefinite = _PositiveSemidefinite()
square = _Square()
symmetric = _Symmetric()
positive_integer = _IntegerGreaterThan(1)
real = _Real()
real_vector = independent(real, 1)
simplex = _Simplex()
unit_interval = interval(0.0, 1.0)
