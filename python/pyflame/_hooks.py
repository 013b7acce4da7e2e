"""Hooks: functions of the user's, kept in the order in which they run."""

from collections import deque
from itertools import count, repeat
from operator import setitem

from ._locks import shared_lock

_changing = shared_lock()  # of who adds hooks, or removes some


class RemovableHandle:
    """Removes the hook it was returned for; also works as a context manager."""

    _ids = count()

    def __init__(self, hooks):
        self.id = next(RemovableHandle._ids)
        # A handle must not keep a module alive; a plain dict cannot be weakly referenced.
        self._hooks = hooks

    def remove(self):
        with _changing:
            self._hooks.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def check_hook(entry):
    """TypeError for what is no function: at each later call it would be an error far from here."""
    if not callable(entry):
        raise TypeError(f"pf: got a {type(entry).__name__} as a hook; expected a function")


def add_hook(table, entry, prepend=False):
    """Puts `entry` into the dict `table`, last or first; returns its handle."""
    check_hook(entry)
    handle = RemovableHandle(table)
    with _changing:
        table[handle.id] = entry
        if prepend:  # the others go behind it; no line of Python runs meanwhile that could miss one
            others = [n for n in table if n != handle.id]
            deque(map(setitem, repeat(table), others, map(table.pop, others)), maxlen=0)
    return handle
