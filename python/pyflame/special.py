"""Special functions under their names in torch.special.

Bessel functions, orthogonal polynomials, incomplete gamma functions and zeta are not there yet.
"""

from . import _C

_operations = _C._functions

digamma = psi = _operations["digamma"]
erf = _operations["erf"]
erfc = _operations["erfc"]
erfinv = _operations["erfinv"]
exp2 = _operations["exp2"]
expit = _operations["expit"]
expm1 = _operations["expm1"]
gammaln = _operations["lgamma"]
log1p = _operations["log1p"]
log_softmax = _operations["log_softmax"]
logit = _operations["logit"]
logsumexp = _operations["logsumexp"]
polygamma = _operations["polygamma"]
round = _operations["round"]
sinc = _operations["sinc"]
softmax = _operations["softmax"]
xlogy = _operations["xlogy"]

__all__ = sorted(name for name in globals() if not name.startswith("_"))
