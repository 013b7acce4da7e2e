"""Special functions under their names in torch.special.

Bessel functions, orthogonal polynomials, incomplete gamma functions and zeta are not there yet.
"""

from . import _C

_SAME = (
    "digamma erf erfc erfinv exp2 expit expm1 log1p log_softmax logit logsumexp polygamma round sinc "
    "softmax xlogy"
).split()

globals().update({name: _C._functions[name] for name in _SAME})
gammaln, psi = _C._functions["lgamma"], _C._functions["digamma"]
__all__ = sorted([*_SAME, "gammaln", "psi"])
