"""torch.backends.cuda: products and attention on GPUs.

`matmul.allow_tf32` is `set_float32_matmul_precision("high")`, and False "highest";
`matmul.fp32_precision` is the same in words ("tf32", "ieee"). Sums of products are in float32 always:
`matmul.allow_fp16_reduced_precision_reduction`, `allow_bf16_reduced_precision_reduction` and
`allow_fp16_accumulation` are False, and assigning True does nothing. There is one attention, so
`enable_flash_sdp` and its like are kept and do nothing.
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


def _pair(name):
    def enable(enabled):
        _sdp[name] = bool(enabled)

    def is_enabled():
        return _sdp[name]

    enable.__doc__ = f"Kept for {name}_sdp_enabled(); does nothing: there is one attention."
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
    """Within it the switches of attention have these values; they do nothing."""
    before = dict(_sdp)
    _sdp.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield {}
    finally:
        _sdp.update(before)
