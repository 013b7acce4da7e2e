"""The jobs behind `pyflame train` and `pyflame generate`, and what a loop of one's own may use."""

from .batch_size import find_batch_size

__all__ = ["find_batch_size"]
