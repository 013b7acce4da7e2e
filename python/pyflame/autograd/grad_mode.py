"""Modes of autograd."""

import contextlib

from .. import _C
from .._grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "enable_grad",
    "inference_mode",
    "inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


class set_multithreading_enabled(contextlib.ContextDecorator):
    """Accepted and does nothing: backward() runs on the thread that calls it."""

    def __init__(self, mode):
        self.mode = bool(mode)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        pass


def inference_mode_enabled():
    """True where gradients are off."""
    return not _C.is_grad_enabled()
