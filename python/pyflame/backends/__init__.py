"""Switches of libraries under the names of torch.backends, and what backends there are.

Programs written for PyTorch set these before they begin. What a switch does here stands in the
docstring of its module; most of them are kept and do nothing, because what they choose between is
one thing in PyFlame: it picks kernels itself, which give the same bits in every run.

`fp32_precision` is the word ("ieee", "tf32") for whatever computes in float32 and has none of its own:
see `backends.cuda` for products and `backends.cudnn` for convolutions.

Called, as `pyflame.backends()`, the module gives what `pyflame.backend_status()` gives.
"""

import sys as _sys

from .. import _C, _precision
from . import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum
from ._switches import Switch as _Switch
from ._switches import SwitchBoard as _SwitchBoard
from ._switches import flags_of as _flags_of

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]


flags = _flags_of(__name__, fp32_precision="none")


class _Callable(_SwitchBoard):
    fp32_precision = _Switch("none", **_precision.switch("generic", "all", ""))

    def __call__(self):
        return _C.backend_status()


_sys.modules[__name__].__class__ = _Callable
