"""Streams and events, with the names and the meaning of torch.cuda's.

Work of one stream runs in order; work of two streams may overlap, and only events order it. Every
thread has a current stream for each device, the default stream at first. On the CPU every operation
has finished when something looks, so that streams and events change nothing there.
"""

from __future__ import annotations

import operator

from . import _C


def _device(device):
    """The device that is meant; without one the current, or the first GPU when that is the CPU."""
    if device is None:
        current = _C.get_device()
        if current.type == "cpu" and _C._device_count("rocm") + _C._device_count("cuda") > 0:
            return _C.device("gpu:0")
        return current
    if isinstance(device, int):
        return _C.device(f"gpu:{device}")
    return _C.device(device) if isinstance(device, str) else device


class Event:
    """A moment in the work of a stream.

    With ``enable_timing`` two of them tell the time between them (:meth:`elapsed_time`).
    ``blocking`` and ``interprocess`` are accepted; events are not shared between processes.
    """

    def __init__(self, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        if isinstance(device, bool):  # torch.cuda.Event(enable_timing)
            device, enable_timing = None, device
        if interprocess:
            raise _C.NotSupportedError(
                "pf.Event: got interprocess=True; events live in one process; use a barrier"
            )
        self._device = device
        self._handle = _C._Event(bool(enable_timing))
        self.device = None

    def record(self, stream=None):
        """Marks what the stream (the current one) has been given so far."""
        stream = current_stream(self._device) if stream is None else stream
        self._handle.record(stream._handle)
        self.device = stream.device

    def wait(self, stream=None):
        """Later work of the stream (the current one) waits for it; the caller does not."""
        stream = current_stream(self.device or self._device) if stream is None else stream
        self._handle.wait(stream._handle)

    def query(self):
        """True when it has happened, or was never recorded."""
        return self._handle.query()

    def synchronize(self):
        """Waits until it has happened."""
        self._handle.synchronize()

    def elapsed_time(self, end_event):
        """Milliseconds from this event to ``end_event``; both timed, recorded and over."""
        return self._handle.elapsed_time(end_event._handle)

    def __repr__(self):
        return f"Event(device={self.device}, done={self.query()})"


class Stream:
    """A queue of work on a device, beside its default one.

    ``priority``: lower numbers go first where the device knows priorities.
    """

    def __init__(self, device=None, priority=0, *, _handle=None):
        priority = operator.index(priority)
        if abs(priority) > 1000:
            raise _C.ValueError(f"pf.Stream: got priority {priority}; expected a small number")
        self._handle = _handle or _C._Stream(_device(device), priority)

    @property
    def device(self):
        """The device whose work it queues."""
        return self._handle.device

    @property
    def stream_id(self):
        """Its number on the device; 0 is the default stream."""
        return self._handle.id

    @property
    def priority(self):
        """What it was made with."""
        return self._handle.priority

    def synchronize(self):
        """Waits until everything that it was given has run; raises what failed."""
        self._handle.synchronize()

    def query(self):
        """True when everything that it was given has run."""
        return self._handle.query()

    def wait_event(self, event):
        """Later work waits for the event; the caller does not."""
        event.wait(self)

    def wait_stream(self, stream):
        """Later work waits for what the other stream has been given so far."""
        self._handle.wait_stream(stream._handle)

    def record_event(self, event=None):
        """Marks what it has been given so far; returns the event."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self):
        self._entered = getattr(self, "_entered", [])
        context = StreamContext(self)
        self._entered.append(context)
        context.__enter__()
        return self

    def __exit__(self, *error):
        self._entered.pop().__exit__(*error)

    def __eq__(self, other):
        return isinstance(other, Stream) and self._handle.same(other._handle)

    def __hash__(self):
        return hash((str(self.device), self.stream_id))

    def __repr__(self):
        return f"Stream(device={self.device}, stream_id={self.stream_id})"


def _check_stream(stream, name):
    if not isinstance(stream, Stream):
        raise TypeError(f"pf.{name}: got {stream!r}; expected a Stream; make one with pf.Stream()")


class StreamContext:
    """What :func:`stream` returns."""

    def __init__(self, stream):
        if stream is not None:
            _check_stream(stream, "stream")
        self.stream = stream

    def __enter__(self):
        if self.stream is None:
            return None
        device, current = self.stream.device, _C.get_device()
        self._before = current_stream(device)
        # Another GPU of the kind in use becomes the current one, as in PyTorch.
        self._device = current if current.type == device.type and current != device else None
        if self._device is not None:
            _C.set_device(device)
        _C._set_current_stream(self.stream._handle)
        return self.stream

    def __exit__(self, *error):
        if self.stream is None:
            return
        _C._set_current_stream(self._before._handle)
        if self._device is not None:
            _C.set_device(self._device)


def stream(stream):
    """``with stream(s):`` operations of the block go to the stream ``s``; None changes nothing."""
    return StreamContext(stream)


def current_stream(device=None):
    """The calling thread's current stream of a device."""
    return Stream(_handle=_C._current_stream(_device(device)))


def default_stream(device=None):
    """The stream of a device that is current until another one is set."""
    return Stream(_handle=_C._default_stream(_device(device)))


def set_stream(stream):
    """Makes a stream the calling thread's current one of its device."""
    if stream is not None:
        _check_stream(stream, "set_stream")
        _C._set_current_stream(stream._handle)


def synchronize(device=None):
    """Waits for every stream of a device; without one, of all devices. Raises what failed."""
    if device is None:
        _C.synchronize()
    else:
        _C._synchronize_device(_device(device))
