"""Linear algebra: norms and products under their names in torch.linalg.

Decompositions, inverses and solvers are not there yet.
"""

from . import _C

_PREFIX = "linalg_"

globals().update(
    {name[len(_PREFIX) :]: op for name, op in _C._special.items() if name.startswith(_PREFIX)}
)
__all__ = sorted(n[len(_PREFIX) :] for n in _C._special if n.startswith(_PREFIX))
