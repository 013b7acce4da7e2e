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


def add_hook(table, entry, prepend=False):
    """Puts `entry` into the dict `table`, last or first; returns its handle."""
    handle = RemovableHandle(table)
    table[handle.id] = entry
    if prepend:
        first = dict(table)
        table.clear()
        table[handle.id] = first.pop(handle.id)
        table.update(first)
    return handle
