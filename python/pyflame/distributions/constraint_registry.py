"""Which transform brings any real numbers into a constraint's set: `biject_to`, or, where it need not
be invertible, `transform_to`."""

import numbers

from .. import _C
from . import constraints, transforms


class ConstraintRegistry:
    def __init__(self):
        self._made = {}

    def register(self, constraint, factory=None):
        """Registers `factory(constraint)` for a class of constraints; a decorator without it."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = constraint if isinstance(constraint, type) else type(constraint)
        if not issubclass(kind, constraints.Constraint):
            raise TypeError(f"pf.distributions: got {constraint!r}; expected a constraint")
        self._made[kind] = factory
        return factory

    def __call__(self, constraint):
        factory = self._made.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"pf.distributions: no transform to {constraint!r} is known; register one"
            )
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _both(constraint):
    def decorate(factory):
        for registry in (biject_to, transform_to):
            registry.register(constraint, factory)
        return factory

    return decorate


_both(constraints.real)(lambda c: transforms.identity_transform)
_both(constraints.positive)(lambda c: _above(c))
_both(constraints.nonnegative)(lambda c: _above(c))


def _above(c):
    if isinstance(c.lower_bound, numbers.Number) and c.lower_bound == 0:
        return transforms.ExpTransform()
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(c.lower_bound, 1)]
    )


@_both(constraints.less_than)
def _below(c):
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(c.upper_bound, -1)]
    )


@_both(constraints.interval)
@_both(constraints.half_open_interval)
def _between(c):
    low, high = c.lower_bound, c.upper_bound
    if not isinstance(low, _C.Tensor) and not isinstance(high, _C.Tensor) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)]
    )


biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda c: transforms.LowerCholeskyTransform())
for _matrices in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_matrices, lambda c: transforms.PositiveDefiniteTransform())
_both(constraints.corr_cholesky)(lambda c: transforms.CorrCholeskyTransform())


def _independent(registry):
    def factory(c):
        base = registry(c.base_constraint)
        return transforms.IndependentTransform(base, c.reinterpreted_batch_ndims)

    return factory


def _cat(registry):
    def factory(c):
        return transforms.CatTransform([registry(p) for p in c.cseq], c.dim, c.lengths)

    return factory


def _stack(registry):
    def factory(c):
        return transforms.StackTransform([registry(p) for p in c.cseq], c.dim)

    return factory


for _registry in (biject_to, transform_to):
    _registry.register(constraints.stack, _stack(_registry))
    _registry.register(constraints.cat, _cat(_registry))
    _registry.register(constraints.independent, _independent(_registry))
