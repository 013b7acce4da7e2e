"""torch.utils._python_dispatch: modes that see every operation, which are not there."""

from ...absent import absent as _absent

_needs = _absent(
    "torch.utils._python_dispatch",
    "operations are recorded, fused and differentiated in C++, where no Python is asked; "
    "torch.overrides.TorchFunctionMode sees what a program calls, torch.utils.flop_counter counts what "
    "is calculated, pyflame.explain says which kernels ran",
)
TorchDispatchMode = _needs("TorchDispatchMode")


def is_traceable_wrapper_subclass(t):
    """False."""
    return False
