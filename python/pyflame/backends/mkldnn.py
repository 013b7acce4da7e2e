"""torch.backends.mkldnn: oneDNN, which PyFlame opens for products where it finds it.

`enabled`, `deterministic`, `allow_tf32` and every `fp32_precision` keep what is assigned and do
nothing: the CPU computes deterministically and in float32; PYFLAME_GEMM says before the start who
computes products.
"""

from .. import _precision
from ._switches import Switch, flags_of, install


def is_available():
    """False: there are no tensors in oneDNN's layouts."""
    return False


flags = flags_of(
    __name__, enabled=False, deterministic=False, allow_tf32=True, fp32_precision="none"
)
matmul = _precision.Precision("mkldnn", "matmul", "mkldnn.matmul")
conv = _precision.Precision("mkldnn", "conv", "mkldnn.conv")
rnn = _precision.Precision("mkldnn", "rnn", "mkldnn.rnn")
install(
    __name__,
    enabled=Switch(True),
    deterministic=Switch(False),
    allow_tf32=Switch(True),
    fp32_precision=Switch("none", **_precision.switch("mkldnn", "all", "mkldnn.")),
)
