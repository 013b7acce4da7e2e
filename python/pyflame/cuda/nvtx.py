"""Marks for a vendor's profiler, under torch.cuda.nvtx's names. No tool of a vendor sees them; ranges
are regions of pyflame.profiler."""

import contextlib
import itertools

from ..profiler import record_function

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_stack, _started, _numbers = [], {}, itertools.count(1)


def range_push(msg):
    """Begins a range; returns how many were open."""
    _stack.append(record_function(msg).__enter__())
    return len(_stack) - 1


def range_pop():
    """Ends the range that began last; returns how many are open."""
    if _stack:
        _stack.pop().__exit__()
    return len(_stack)


def range_start(msg):
    """Begins a range that range_end() ends, by the number that is returned."""
    number = next(_numbers)
    _started[number] = record_function(msg).__enter__()
    return number


def range_end(range_id):
    """Ends a range of range_start()."""
    started = _started.pop(range_id, None)
    if started is not None:
        started.__exit__()


def mark(msg):
    """A moment: a range of no length."""
    with record_function(msg):
        pass


@contextlib.contextmanager
def range(msg, *args, **kwargs):
    """A range for a ``with`` block; `msg` may be a format for the arguments."""
    with record_function(msg.format(*args, **kwargs)):
        yield
