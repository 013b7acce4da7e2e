"""Hooks: functions of the user's, kept in the order in which they run."""

import itertools


class RemovableHandle:
    """Removes the hook it was returned for; also works as a context manager."""

    _ids = itertools.count()

    def __init__(self, hooks):
        self.id = next(RemovableHandle._ids)
        # A handle must not keep a module alive; a plain dict cannot be weakly referenced.
        self._hooks = hooks

    def remove(self):
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
    table[handle.id] = entry
    if prepend:
        first = dict(table)
        table.clear()
        table[handle.id] = first.pop(handle.id)
        table.update(first)
    return handle
