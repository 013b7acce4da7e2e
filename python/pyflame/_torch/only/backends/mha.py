"""torch.backends.mha: kept, and nothing else; layers of attention have one path."""

_fastpath = True


def get_fastpath_enabled():
    """What set_fastpath_enabled() was given; True at first."""
    return _fastpath


def set_fastpath_enabled(value):
    """Kept."""
    global _fastpath
    _fastpath = bool(value)
