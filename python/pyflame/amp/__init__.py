"""Mixed precision: autocast and GradScaler, as in torch.amp."""

from .autocast_mode import (
    autocast,
    custom_bwd,
    custom_fwd,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from .grad_scaler import GradScaler

__all__ = [
    "GradScaler",
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
]


def is_autocast_cpu_enabled():
    """is_autocast_enabled("cpu")."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled):
    """set_autocast_enabled("cpu", enabled)."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype():
    """get_autocast_dtype("cpu")."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype):
    """set_autocast_dtype("cpu", dtype)."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype():
    """get_autocast_dtype("cuda")."""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype):
    """set_autocast_dtype("cuda", dtype)."""
    set_autocast_dtype("cuda", dtype)
