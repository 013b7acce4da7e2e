"""torch.backends.cudnn: what convolutions of float32 tensors may be rounded to on GPUs.

`allow_tf32`, True until it is set, lets convolutions and their gradients round what they multiply to
TF32 (10 bits of fraction), by cuDNN or our own kernels, on GPUs that have it; sums and results are
float32. `conv.fp32_precision` is the same in words ("tf32"; "ieee" is float32), `fp32_precision` the
word for what has none of its own: products, convolutions, recurrent layers. What recurrent layers
multiply has the precision of products; `rnn.fp32_precision` is kept.

`deterministic`, `benchmark`, `benchmark_limit` and `enabled` keep what is assigned and do nothing.
Convolutions go to cuDNN where it is found (`PYFLAME_GPU_CONV=own` says otherwise), always by
deterministic algorithms. Attention: see `backends.cuda` and `pf.use_deterministic_algorithms`.
"""

from .. import _precision
from ._switches import Switch, flags_of, install

__path__ = []  # for modules below it: _aliases.py


def is_available():
    """False."""
    return False


def version():
    """None."""
    return None


def is_acceptable(tensor):
    """False."""
    return False


flags = flags_of(
    __name__,
    enabled=False,
    benchmark=False,
    benchmark_limit=10,
    deterministic=False,
    allow_tf32=True,
    fp32_precision="none",
)
conv = _precision.Precision("cuda", "conv", "cudnn.conv")
rnn = _precision.Precision("cuda", "rnn", "cudnn.rnn")
install(
    __name__,
    enabled=Switch(True),
    benchmark=Switch(False),
    benchmark_limit=Switch(10, int, type(None)),
    deterministic=Switch(False),
    allow_tf32=Switch(
        True,
        get=lambda: _precision.get("cuda", "conv") == "tf32",
        set=_precision.allow_in_cudnn,
    ),
    fp32_precision=Switch("none", **_precision.switch("cuda", "all", "cudnn.")),
)
