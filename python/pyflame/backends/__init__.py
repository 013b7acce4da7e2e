"""Switches of libraries under the names of torch.backends, and what backends there are.

Programs written for PyTorch set these before they begin. What a switch does here stands in the
docstring of its module; most of them are kept and do nothing, because what they choose between is
one thing in PyFlame: it picks kernels itself, which give the same bits in every run.

Called, as `pyflame.backends()`, the module gives what `pyflame.backend_status()` gives.
"""

import sys as _sys
import types as _types

from .. import _C
from . import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]


class _Callable(_types.ModuleType):
    def __call__(self):
        return _C.backend_status()


_sys.modules[__name__].__class__ = _Callable
