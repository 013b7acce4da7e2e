"""What a command says. It is dropped where it cannot be written: work is worth more than a line
about it. What was dropped is kept in `lost`, for a note and the exit status."""

import errno
import os
import sys

# The first reason for each stream that refused something: "stdout", "stderr".
lost = {}


def write(name, text, stream=None):
    """Writes `text` to sys.stdout or sys.stderr, by name, or to `stream` in its place, and flushes
    it. False when a full disk, a reader that has gone or a closed stream refuses it."""
    stream = getattr(sys, name) if stream is None else stream
    try:
        if stream is None:  # it was closed before the program began
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except (OSError, ValueError) as e:  # ValueError: closed meanwhile
        lost.setdefault(name, getattr(e, "strerror", None) or str(e))
        return False
    return True


def say(*parts):
    return write("stdout", " ".join(map(str, parts)) + "\n")


def note():
    """One line about what was lost, or None."""
    if not lost:
        return None
    return "some output could not be written: " + ", ".join(
        f"{name} ({why})" for name, why in sorted(lost.items())
    )


def begin():
    """For a program's start: descriptors that are closed are opened, so that no file of ours gets
    the number of a stream that others write to; and no text is refused for its letters."""
    lost.clear()
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")


def end(status):
    """For a program's end: the exit status, which tells when results could not be told. What the
    streams still hold is dropped if nobody takes it."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError) as e:
            lost.setdefault(name, getattr(e, "strerror", None) or str(e))
            _drop(stream)
    if "stdout" in lost and status == 0:
        write("stderr", f"pyflame: error: {note()}\n")
        return 1
    return status


def _drop(stream):
    """Python flushes at its end, and would end with 120: into nothing, then."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass
