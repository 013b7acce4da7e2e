"""The decorator of main functions."""


class ChildFailedError(Exception):
    """A process that was started has failed."""


def record(fn=None, error_handler=None):
    """The function itself: its errors are those of the program."""
    return fn if callable(fn) else lambda f: f
