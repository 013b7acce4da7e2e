"""Files that others may have put there: opened as files only, read whole only when they are short.

A name may stand for a pipe that nobody writes to or a device that never ends; opening it must not
wait, nor reading it fill the memory.
"""

import contextlib
import fcntl
import os
import stat

from . import _C

FileError = _C.FileError


def shown(path):
    """The path as UTF-8 text, for messages: the name of a file may be any bytes."""
    return os.fsencode(path).decode(errors="backslashreplace")


def open_regular(path, op, *, directory=False, flags=os.O_RDONLY):
    """A descriptor of the regular file (or directory) `path`, open for reading or as `flags` say.
    FileError when it is something else; OSError as os.open."""
    try:
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except ValueError:
        raise _C.ValueError(
            f"pf.{op}: got the path {path!r} with a NUL in it; expected the name of a file; take it out"
        ) from None
    mode = os.fstat(fd).st_mode
    if (stat.S_ISDIR if directory else stat.S_ISREG)(mode):
        return fd
    os.close(fd)
    what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
    raise FileError(
        f"pf.{op}: '{shown(path)}' is {what}; expected a "
        f"{'directory' if directory else 'file'}; check the path"
    )


def read_regular(path, op, limit=None):
    """The bytes of a regular file of at most `limit` bytes."""
    with open(open_regular(path, op), "rb", buffering=0) as f:
        size = os.fstat(f.fileno()).st_size
        if limit is not None and size > limit:
            raise FileError(
                f"pf.{op}: '{shown(path)}' has {size} bytes; expected at most {limit}; check the path"
            )
        data = bytearray()
        while piece := f.read(max(size - len(data), 1)):
            data += piece
            if limit is not None and len(data) > limit:
                raise FileError(f"pf.{op}: '{shown(path)}' grows while it is read; try again")
    return bytes(data)


def append(path, data, op):
    """Adds `data` to the end of a regular file, which is made: all of it, or nothing and OSError."""

    def opener(path, flags):
        return open_regular(path, op, flags=flags)

    with open(path, "ab", buffering=0, opener=opener) as f:
        size = f.seek(0, os.SEEK_END)
        try:
            while data:
                data = data[f.write(data) :]
        except OSError:
            f.truncate(size)
            raise


def lock(fd):
    """Locks an open file or directory until it is closed or the process ends, however it ends.
    False when another process has locked it. On file systems without locks everybody succeeds."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


@contextlib.contextmanager
def left_behind(path):
    """Whether the directory `path` was surely left by its maker: it could be locked. It stays so
    within the ``with`` block."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except OSError:  # somebody has the lock, or there are none here
            free = False
        yield free
    finally:
        os.close(fd)


def host():
    """The name of this machine, as it stands in names of temporaries."""
    return "".join("-" if c in "/." else c for c in os.uname().nodename[:64])
