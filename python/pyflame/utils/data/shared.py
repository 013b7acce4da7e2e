"""Batches through memory that worker and caller share: the pipe carries everything but the elements.

A worker lays the tensors of a batch into a segment of memory and sends where they are; the caller maps
the segment once and makes tensors of it without a copy. When the last of these is gone, the segment
goes back to its worker with the next message.
"""

import collections
import ctypes
import io
import math
import mmap
import os
import pickle
import weakref
from multiprocessing import reduction

from ... import _C
from ..._C import Tensor

_LEAST = 1 << 14  # bytes of tensors for which a segment is worth it
_SMALL = 1 << 10  # bytes of one tensor that is pickled
_ALIGN = 64


def _tensor(memory, dtype, shape, offset):
    count = math.prod(shape)
    return _C._shared_tensor(memory, getattr(_C, dtype), count, offset).reshape(shape)


class _Head(ctypes.Structure):
    _fields_ = [("number", ctypes.c_int64), ("size", ctypes.c_int64), ("new", ctypes.c_int64)]


_HEADER = ctypes.sizeof(_Head)


class _Pickler(pickle.Pickler):
    def __init__(self, file):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.tensors, self.places, self.end = [], {}, 0

    def persistent_id(self, value):
        if type(value) is not Tensor or value.requires_grad or not value.is_cpu:
            return None
        size = value.numel() * value.element_size()
        if size < _SMALL or value.dtype.bits < 8 or value.__dict__:
            return None
        if id(value) not in self.places:
            place = (self.end, value.dtype.name, tuple(value.shape))
            self.places[id(value)] = place
            self.tensors.append((place, value.contiguous()))
            self.end += (size + _ALIGN - 1) // _ALIGN * _ALIGN
        return self.places[id(value)]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, memory):
        super().__init__(file)
        self.memory, self.made = memory, {}

    def persistent_load(self, place):
        if place not in self.made:
            offset, dtype, shape = place
            self.made[place] = _tensor(self.memory, dtype, shape, offset)
        return self.made[place]


class Sender:
    """A worker's side: segments of memory, and which of them are free."""

    def __init__(self, pipe, parent):
        self.pipe, self.parent = pipe, parent
        self.segments, self.free = [], []

    def send(self, value):
        """Sends a value; raises what pickling it raises, with nothing sent."""
        file = io.BytesIO()
        file.write(bytes(_HEADER))
        pickler = _Pickler(file)
        pickler.dump(value)
        number, new = -1, None
        if pickler.end >= _LEAST and hasattr(os, "memfd_create"):
            number, new = self._segment(pickler.end)
            memory = self.segments[number]
            for (offset, dtype, shape), tensor in pickler.tensors:
                # Foreign memory, unlike a receiver's: what is written there has been before it is sent.
                to = _C.frombuffer(
                    memory, dtype=getattr(_C, dtype), count=math.prod(shape), offset=offset
                )
                to.reshape(shape).copy_(tensor)
        elif pickler.tensors:  # as bytes, after all
            file = io.BytesIO()
            file.write(bytes(_HEADER))
            pickle.Pickler(file, pickle.HIGHEST_PROTOCOL).dump(value)
        size = len(self.segments[number]) if number >= 0 else 0
        data = file.getbuffer()
        data[:_HEADER] = bytes(_Head(number, size, new is not None))
        try:
            self.pipe.send_bytes(data)
            if new is not None:
                reduction.send_handle(self.pipe, new, self.parent)
        finally:
            if new is not None:
                os.close(new)

    def _segment(self, size):
        """(number of a free segment that is large enough, its file if it is a new one)"""
        for i, number in enumerate(self.free):
            if len(self.segments[number]) >= size:
                del self.free[i]
                return number, None
        size = (size + size // 8 + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
        file = os.memfd_create("pyflame-batch", os.MFD_CLOEXEC)
        try:
            os.ftruncate(file, size)
            self.segments.append(mmap.mmap(file, size))
        except BaseException:
            os.close(file)
            raise
        return len(self.segments) - 1, file


class Receiver:
    """The caller's side of one worker's pipe."""

    def __init__(self, pipe):
        self.pipe = pipe
        self.segments = {}
        self._freed = collections.deque()

    def freed(self):
        """Numbers of segments of which nothing is left, for the worker to use again."""
        numbers = []
        while self._freed:
            numbers.append(self._freed.popleft())
        return numbers

    def receive(self):
        """The next value. EOFError or OSError when the worker is gone."""
        data = self.pipe.recv_bytes()
        head = _Head.from_buffer_copy(data)
        memory = None
        if head.number >= 0:
            if head.new:
                file = reduction.recv_handle(self.pipe)
                try:
                    self.segments[head.number] = mmap.mmap(file, head.size)
                finally:
                    os.close(file)
            # Lives as long as a tensor looks at it.
            memory = (ctypes.c_char * head.size).from_buffer(self.segments[head.number])
            weakref.finalize(memory, self._freed.append, head.number).atexit = False
        file = io.BytesIO(data)
        file.seek(_HEADER)
        return _Unpickler(file, memory).load()
