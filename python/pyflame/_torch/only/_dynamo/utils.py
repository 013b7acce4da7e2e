"""torch._dynamo.utils: programs are not captured."""

import collections as _collections
import warnings as _warnings

_told = set()
counters = _collections.defaultdict(_collections.Counter)  # nothing is counted


def is_compile_supported(device_type):
    """False."""
    return False


def warn_once(msg, stacklevel=1):
    """Warns, once for a text."""
    if msg not in _told:
        _told.add(msg)
        _warnings.warn(msg, stacklevel=stacklevel + 1)
