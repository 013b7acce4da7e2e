"""torch.backends.cuda: products and attention on GPUs.

`matmul.allow_tf32` is `set_float32_matmul_precision("high")`, and False "highest";
`matmul.fp32_precision` is the same in words ("tf32"; "ieee" is float32). Sums of products are in float32 always:
`matmul.allow_fp16_reduced_precision_reduction`, `allow_bf16_reduced_precision_reduction` and
`allow_fp16_accumulation` are False, and assigning True does nothing. Attention is ours or cuDNN's:
`enable_cudnn_sdp(False)` leaves it to ours, and where cuDNN's alone is on it is asked for all that it
can do; else cuDNN has what it is known to do quicker. The other switches are kept and do nothing else.
"""

import contextlib as _contextlib

from .. import _C
from . import matmul as matmul

_sdp = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built():
    """True when this build has a plug-in for NVIDIA's or AMD's GPUs, used or not."""
    status = _C.backend_status()
    return any(
        "-DPYFLAME_USE_" not in status.get(name, "-DPYFLAME_USE_") for name in ("cuda", "rocm")
    )


def _set(**switches):
    _sdp.update(switches)
    others = _sdp["flash"] or _sdp["mem_efficient"] or _sdp["math"]
    _C._set_attention_library(2 if not _sdp["cudnn"] else 0 if others else 1)


def _pair(name):
    def enable(enabled):
        _set(**{name: bool(enabled)})

    def is_enabled():
        return _sdp[name]

    enable.__doc__ = (
        f"Whether attention may be {name}'s; of use are cuDNN's alone, and never cuDNN's."
    )
    is_enabled.__doc__ = f"What enable_{name}_sdp() was given; True at first."
    enable.__name__, is_enabled.__name__ = f"enable_{name}_sdp", f"{name}_sdp_enabled"
    return enable, is_enabled


enable_flash_sdp, flash_sdp_enabled = _pair("flash")
enable_mem_efficient_sdp, mem_efficient_sdp_enabled = _pair("mem_efficient")
enable_math_sdp, math_sdp_enabled = _pair("math")
enable_cudnn_sdp, cudnn_sdp_enabled = _pair("cudnn")


def is_flash_attention_available():
    """True: attention never holds the matrix of scores."""
    return True


@_contextlib.contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Within it the switches of attention have these values."""
    before = dict(_sdp)
    _set(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield {}
    finally:
        _set(**before)


class _PlanCache:
    """Plans of Fourier transforms: how many are kept is not asked for."""

    size = 0
    max_size = 4096

    def clear(self):
        """Accepted."""

    def __getitem__(self, device):
        return self


cufft_plan_cache = _PlanCache()
_preferred = {}


def _preference(name, first):
    def preferred(backend=None):
        if backend is not None:
            _preferred[name] = str(backend)
        return _preferred.get(name, first)

    preferred.__name__ = f"preferred_{name}_library"
    preferred.__doc__ = "Kept, and nothing else: the operation chooses its library."
    return preferred


preferred_linalg_library = _preference("linalg", "default")
preferred_blas_library = _preference("blas", "default")
preferred_rocm_fa_library = _preference("rocm_fa", "default")
