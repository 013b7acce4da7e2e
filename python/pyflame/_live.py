"""What a captured step does not keep but does anew each time: its numbers are the program's.

Steps of optimizers, of schedules and of loss scales count, and look at numbers of theirs. Within a
captured step (pyflame.compiler) they end one part of it and begin the next.
"""

import functools

from . import _C

recording = None  # the capture that some thread is making: has outside(function, args, kwargs)


def outside(function, args, kwargs):
    """Calls it, as no part of what this thread captures."""
    if recording is None or not _C._capturing():
        return function(*args, **kwargs)
    return recording.outside(function, args, kwargs)


def live(function):
    """A decorator for such a function."""

    @functools.wraps(function)
    def called(*args, **kwargs):
        if recording is None:
            return function(*args, **kwargs)
        return outside(function, args, kwargs)

    return called
