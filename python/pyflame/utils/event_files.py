"""Event files as TensorBoard reads them, written without it.

A file is records of a length, a sum of the length, data and a sum of the data; the data is an `Event`
message of TensorFlow's protocol buffers. Sums are CRC-32C, turned by 15 bits and moved by a constant.
"""

import os
import socket
import struct
import time

from .. import _files


def _table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


_CRC = _table()


def crc32c(data):
    """The Castagnoli CRC of `data`."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def _masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _record(data):
    length = struct.pack("<Q", len(data))
    return b"".join(
        (length, struct.pack("<I", _masked(length)), data, struct.pack("<I", _masked(data)))
    )


# ---- messages: only the fields that are written ---------------------------------------------------


def _varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    """Field `field` with a whole number."""
    return _varint(field << 3) + _varint(n)


def double(field, x):
    return _varint(field << 3 | 1) + struct.pack("<d", x)


def single(field, x):
    try:
        return _varint(field << 3 | 5) + struct.pack("<f", x)
    except OverflowError:  # beyond a float32
        return _varint(field << 3 | 5) + struct.pack("<f", float("inf") if x > 0 else -float("inf"))


def message(field, data):
    """Field `field` with a message, a text or bytes."""
    data = data.encode() if isinstance(data, str) else data
    return _varint(field << 3 | 2) + _varint(len(data)) + data


class EventFile:
    """A new event file in `directory`, which is made. `purge_from`: what older files of the directory
    have from this step on does not count any more."""

    def __init__(self, directory, *, purge_from=None, suffix=""):
        os.makedirs(directory, exist_ok=True)
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}{suffix}"
        self.path = os.path.join(directory, name)
        self._pending = bytearray()
        self._event(message(3, "brain.Event:2"))
        if purge_from is not None:
            self._event(message(7, number(1, 1)), purge_from)

    def _event(self, what, step=0, wall_time=None):
        wall_time = time.time() if wall_time is None else wall_time
        step = number(2, step) if step else b""
        self._pending += _record(double(1, wall_time) + step + what)

    def summary(self, value, step, wall_time=None):
        """An event with one `Summary.Value` message."""
        self._event(message(5, message(1, value)), step, wall_time)

    def scalar(self, tag, value, step, wall_time=None):
        self.summary(message(1, tag) + single(2, float(value)), step, wall_time)

    def flush(self):
        """Writes what is pending; raises FileError or OSError and keeps it when that is refused."""
        if not self._pending:
            return
        _files.append(self.path, bytes(self._pending), "event_files")
        self._pending.clear()

    def close(self):
        self.flush()
