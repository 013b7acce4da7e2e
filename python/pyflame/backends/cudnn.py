"""torch.backends.cudnn: switches that PyFlame does not need.

`deterministic`, `benchmark`, `benchmark_limit`, `enabled` and `allow_tf32` keep what is assigned and
do nothing. Convolutions go to cuDNN where it is found (`PYFLAME_GPU_CONV=own` says otherwise), always
by deterministic algorithms; `pf.set_float32_matmul_precision` is what allows TF32. Attention: see
`backends.cuda` and `pf.use_deterministic_algorithms`.
"""

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
)
install(
    __name__,
    enabled=Switch(True),
    benchmark=Switch(False),
    benchmark_limit=Switch(10, int, type(None)),
    deterministic=Switch(False),
    allow_tf32=Switch(True),
)
