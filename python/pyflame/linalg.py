"""Linear algebra under its names in torch.linalg: decompositions, systems, norms and products.

Decompositions run through LAPACK, which is opened when the first one runs: OpenBLAS of the
distribution, or of a Python package; on GPUs most through cuSOLVER or hipSOLVER. `LinAlgError` names the matrix that has none.
"""

from . import _C

LinAlgError = _C.LinAlgError
_PREFIX = "linalg_"

globals().update(
    {name[len(_PREFIX) :]: op for name, op in _C._special.items() if name.startswith(_PREFIX)}
)
__all__ = sorted(
    ["LinAlgError", *(n[len(_PREFIX) :] for n in _C._special if n.startswith(_PREFIX))]
)
