"""Samples of gamma distributions, with their gradient. Counts: pf.poisson, pf.binomial.

No loop waits for values: where a candidate may be refused as many are made as never all are, and the
first that is taken counts. So a sample follows from the generator's state alone, on every device.
"""

import math

from .. import _C, _ops
from .._named_errors import name_errors as _name_errors
from .._named_errors import name_methods as _name_methods
from ..autograd import Function, no_grad

_ROUNDS = 12  # of candidates taken with probability above 0.95: all refused in 1e-10


def _uniform(like):
    """Above 0 and below 1."""
    tiny = 2.0**-24 if like.dtype != _C.float64 else 2.0**-53
    return _ops.rand(like.shape, dtype=like.dtype, device=like.device) * (1 - 2 * tiny) + tiny


def _gamma(a):
    """Marsaglia and Tsang (2000): a cube of a normal number; shapes below 1 by that of one more."""
    small = a < 1
    shape = _ops.where(small, a + 1, a)
    d = shape - 1 / 3
    c = 1 / (9 * d).sqrt()
    out, done = d, _ops.zeros_like(a, dtype=_C.bool)
    for _ in range(_ROUNDS):
        x, u = _ops.randn(a.shape, dtype=a.dtype, device=a.device), _uniform(a)
        v = (1 + c * x) ** 3
        good = v > 0
        v = _ops.where(good, v, 1.0)
        good = good & (u.log() < x * x / 2 + d * (1 - v + v.log())) & ~done
        out, done = _ops.where(good, d * v, out), done | good
    # In logarithms: the power of a small shape is below what a float can hold.
    log = out.log() + _ops.where(small, _uniform(a).log() / a, 0.0)
    return log.exp().clamp(min=_tiny(a))


def _tiny(x):
    return {_C.float64: 2.3e-308, _C.float16: 6.2e-5}.get(x.dtype, 1.2e-38)


def _nodes(n=64):
    """Gauss and Legendre's nodes and weights over 0 to 1."""
    import numpy as np

    x, w = np.polynomial.legendre.leggauss(n)
    return (x + 1) / 2, w / 2


def gamma_gradient(a, z):
    """How a gamma sample z moves with its shape a: -dF/da / f, with F the distribution function.

    dF/da is the integral of f(t) (log t - psi(a)) up to z, or minus that from z on; from the side on
    which z lies of a, in s = |log(t / z)|, the integrand only falls, and is integrated as far as it is
    above exp(-40) of its start.
    """
    dtype = z.dtype
    a, z = a.double(), z.double()
    below = z <= a
    z = z.clamp(min=1e-300)
    # Where it ends: the exponents are concave, so Newton's steps from the right stay there.
    left = (40 + z) / a
    right = _ops.minimum((80 / z).sqrt(), _ops.log1p(80 / z) + 5)
    for _ in range(12):
        e = _ops.exp(-left)
        left = left - (a * left - z * (1 - e) - 40) / (a - z * e).clamp(min=1e-30)
        e = _ops.exp(right)
        right = right - (z * (e - 1) - a * right - 40) / (z * e - a).clamp(min=1e-30)
    log_z, psi = z.log(), _ops.digamma(a)
    total = _ops.zeros_like(z)
    for x, w in zip(*_nodes()):
        s = left * float(x)
        low = _ops.exp(-a * s - z * _ops.expm1(-s)) * (log_z - s - psi) * left
        s = right * float(x)
        high = _ops.exp(a * s - z * _ops.expm1(s)) * (psi - log_z - s) * right
        total = total + float(w) * _ops.where(below, low, high)
    return (-z * total).to(dtype)


class _StandardGamma(Function):
    @staticmethod
    def forward(ctx, a):
        with no_grad():
            z = _gamma(a)
        ctx.save_for_backward(a, z)
        return z

    @staticmethod
    def backward(ctx, g):
        a, z = ctx.saved_tensors
        return g * gamma_gradient(a, z)


def standard_gamma(concentration):
    """Samples of the gamma distribution with rate 1, with a gradient (implicit reparameterization)."""
    return _StandardGamma.apply(concentration)


LOG_2PI = math.log(2 * math.pi)
EULER = 0.57721566490153286060

_name_errors(__name__)
_name_methods(__name__)
