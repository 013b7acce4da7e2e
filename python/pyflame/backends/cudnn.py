"""torch.backends.cudnn: PyFlame does not use cuDNN.

`deterministic`, `benchmark`, `benchmark_limit`, `enabled` and `allow_tf32` keep what is assigned and
do nothing: algorithms are deterministic always, and `pyflame.tuning` is what measures kernels.
"""

from ._switches import Switch, flags_of, install


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
)
install(
    __name__,
    enabled=Switch(True),
    benchmark=Switch(False),
    benchmark_limit=Switch(10, int, type(None)),
    deterministic=Switch(False),
    allow_tf32=Switch(True),
)
