"""Special functions under their names in torch.special."""

from . import _C

_operations = _C._functions
_PREFIX = "special_"

globals().update(
    {name[len(_PREFIX) :]: op for name, op in _C._special.items() if name.startswith(_PREFIX)}
)

digamma = psi = _operations["digamma"]
erf = _operations["erf"]
erfc = _operations["erfc"]
erfinv = _operations["erfinv"]
exp2 = _operations["exp2"]
expit = _operations["expit"]
expm1 = _operations["expm1"]
gammainc = _operations["igamma"]
gammaincc = _operations["igammac"]
gammaln = _operations["lgamma"]
i0 = _operations["i0"]
log1p = _operations["log1p"]
log_softmax = _operations["log_softmax"]
logit = _operations["logit"]
logsumexp = _operations["logsumexp"]
multigammaln = _operations["mvlgamma"]
polygamma = _operations["polygamma"]
round = _operations["round"]
sinc = _operations["sinc"]
softmax = _operations["softmax"]
xlogy = _operations["xlogy"]

__all__ = sorted(name for name in globals() if not name.startswith("_"))
