"""Samples of distributions that are not made of one number each.

No loop waits for values: where a candidate may be refused as many are made as never all are, and the
first that is taken counts. So a sample follows from the generator's state alone, on every device.
"""

import math

from .. import _C, _ops
from ..autograd import Function, no_grad

_ROUNDS = (
    12  # of candidates taken with probability above 0.95 (gamma) or 0.86: all refused in 1e-10
)


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


def poisson(rate):
    """Counts with these means, as floats: by inversion up to 10, then by Hormann's transformed
    rejection (PTRS, 1993)."""
    with no_grad():
        small, u = rate < 10, _uniform(rate)
        low = _ops.where(small, rate, 1.0)
        p = _ops.exp(-low)
        total, count = p, _ops.zeros_like(rate)
        for k in range(1, 64):  # beyond lies less than 1e-30
            count = count + (u > total)
            p = p * low / k
            total = total + p
        m = _ops.where(small, 10.0, rate)
        b = 0.931 + 2.53 * m.sqrt()
        a = -0.059 + 0.02483 * b
        inverse = 1.1239 + 1.1328 / (b - 3.4)
        v_r = 0.9277 - 3.6224 / (b - 2)
        out, done = m.floor(), _ops.zeros_like(rate, dtype=_C.bool)
        for _ in range(_ROUNDS + 4):
            u, v = _uniform(rate) - 0.5, _uniform(rate)
            us = 0.5 - u.abs()
            k = ((2 * a / us + b) * u + m + 0.43).floor()
            quick = (us >= 0.07) & (v <= v_r)
            refused = (k < 0) | ((us < 0.013) & (v > us))
            near = (v * inverse / (a / (us * us) + b)).log() <= k * m.log() - m - _ops.lgamma(
                k.clamp(min=0) + 1
            )
            good = (quick | (~refused & near)) & ~done
            out, done = _ops.where(good, k, out), done | good
        return _ops.where(small, count, out)


def binomial(count, probs):
    """Successes in `count` tries, as floats: by inversion where 10 are expected at most, then by
    Hormann's transformed rejection (BTRS, 1993)."""
    with no_grad():
        turned = probs > 0.5
        p = _ops.where(turned, 1 - probs, probs)
        small = count * p < 10
        n, q = _ops.where(small, count, 1.0), _ops.where(small, p, 0.25)
        odds = q / (1 - q)
        term = _ops.exp(n * _ops.log1p(-q))
        u, total, k = _uniform(probs), term, _ops.zeros_like(probs)
        for i in range(1, 80):
            k = k + ((u > total) & (i <= n))
            term = term * (n - (i - 1)).clamp(min=0) / i * odds
            total = total + term
        n, q = _ops.where(small, 100.0, count), _ops.where(small, 0.25, p)
        spread = (n * q * (1 - q)).sqrt()
        b = 1.15 + 2.53 * spread
        a = -0.0873 + 0.0248 * b + 0.01 * q
        c, v_r = n * q + 0.5, 0.92 - 4.2 / b
        alpha = (2.83 + 5.1 / b) * spread
        m = ((n + 1) * q).floor()
        at_m = _ops.lgamma(m + 1) + _ops.lgamma(n - m + 1)
        log_odds = (q / (1 - q)).log()
        out, done = m, _ops.zeros_like(probs, dtype=_C.bool)
        for _ in range(_ROUNDS + 4):
            u, v = _uniform(probs) - 0.5, _uniform(probs)
            us = 0.5 - u.abs()
            x = ((2 * a / us + b) * u + c).floor()
            quick = (us >= 0.07) & (v <= v_r)
            inside = (x >= 0) & (x <= n)
            y = _ops.where(inside, x, m)
            near = (v * alpha / (a / (us * us) + b)).log() <= (
                at_m - _ops.lgamma(y + 1) - _ops.lgamma(n - y + 1) + (y - m) * log_odds
            )
            good = inside & (quick | near) & ~done
            out, done = _ops.where(good, x, out), done | good
        made = _ops.where(small, k, out)
        return _ops.where(turned, count - made, made)


LOG_2PI = math.log(2 * math.pi)
EULER = 0.57721566490153286060
