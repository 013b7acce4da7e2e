"""Utilities around training."""

from . import data, images

__all__ = ["data", "images"]
