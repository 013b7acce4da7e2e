"""All operations of the table under one roof, for the package's own modules.

Also those that are neither functions of `pyflame` nor of `nn.functional` (names with _).
"""

from . import _C

globals().update({**_C._special, **_C._functional, **_C._functions})


def __getattr__(name):  # tensor, from_numpy and others that are no rows of the table
    try:
        return getattr(_C, name)
    except AttributeError:
        raise AttributeError(f"this build of pyflame has no operation '{name}'") from None
