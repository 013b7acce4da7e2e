"""Choosing among attention's implementations, with the names of torch.nn.attention.

There is our own implementation, which never holds the matrix of scores, and cuDNN's on NVIDIA's GPUs,
which serves where it is known to be quicker (see :doc:`attention`): `sdpa_kernel` asks for it wherever
it can, or not at all. `bias` has the masks that say where a causal triangle lies.
"""

import contextlib
import enum

from ...backends import cuda
from . import bias

__all__ = ["SDPBackend", "bias", "sdpa_kernel"]


class SDPBackend(enum.Enum):
    """PyTorch's implementations of scaled_dot_product_attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_SWITCHES = {
    SDPBackend.MATH: "math",
    SDPBackend.FLASH_ATTENTION: "flash",
    SDPBackend.EFFICIENT_ATTENTION: "mem_efficient",
    SDPBackend.CUDNN_ATTENTION: "cudnn",
}


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Within it backends.cuda's switches say that only these (an SDPBackend, or a list) are on.

    With CUDNN_ATTENTION alone cuDNN does what it can (`pf.explain` has the reason where it cannot);
    without it all is done by our own kernels, whichever are named. The gradients of what was computed
    within are asked for alike; cuDNN's, which do not repeat bit for bit, only after
    `pf.use_deterministic_algorithms(False)`.
    """
    backends = [backends] if isinstance(backends, SDPBackend) else list(backends)
    for backend in backends:
        if not isinstance(backend, SDPBackend):
            raise TypeError(
                f"pf.nn.attention.sdpa_kernel: got {backend!r}; expected members of SDPBackend"
            )
    on = {f"enable_{name}": backend in backends for backend, name in _SWITCHES.items()}
    with cuda.sdp_kernel(**on):
        yield
