"""torch.utils._python_dispatch: modes that see every operation, which are not there."""

from ...absent import absent as _absent

_needs = _absent(
    "torch.utils._python_dispatch", "no mode sees every operation; use pyflame.explain"
)
TorchDispatchMode = _needs("TorchDispatchMode")


def is_traceable_wrapper_subclass(t):
    """False."""
    return False
