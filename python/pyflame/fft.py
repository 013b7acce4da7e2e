"""Discrete Fourier transforms under their names in torch.fft."""

from . import _C

_PREFIX = "fft_"

globals().update(
    {name[len(_PREFIX) :]: op for name, op in _C._special.items() if name.startswith(_PREFIX)}
)
__all__ = sorted(n[len(_PREFIX) :] for n in _C._special if n.startswith(_PREFIX))
