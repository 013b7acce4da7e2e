"""torch.backends.nnpack: not used."""

import contextlib as _contextlib


def is_available():
    """False."""
    return False


def set_flags(_enabled):
    """Accepted; returns (False,)."""
    return (False,)


@_contextlib.contextmanager
def flags(enabled=False):
    """Accepted."""
    yield
