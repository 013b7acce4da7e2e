"""torch.backends.mkldnn: oneDNN, which PyFlame opens for products where it finds it.

`enabled`, `deterministic` and `allow_tf32` keep what is assigned and do nothing: products of the CPU
are deterministic and in float32; PYFLAME_GEMM says before the start who computes them.
"""

from ._switches import Switch, flags_of, install


def is_available():
    """False: there are no tensors in oneDNN's layouts."""
    return False


flags = flags_of(__name__, enabled=False, deterministic=False, allow_tf32=True)
install(__name__, enabled=Switch(True), deterministic=Switch(False), allow_tf32=Switch(True))
