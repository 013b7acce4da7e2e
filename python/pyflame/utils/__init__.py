"""Utilities around training."""

from .. import _C
from . import data, images

__all__ = ["checkpoint", "data", "images"]


def __getattr__(name):
    if name == "checkpoint":
        return _C._import(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
