"""What a run says of its steps, in files: JSON lines, a table, TensorBoard's events."""

import csv
import io
import json
import os

from .. import _C, _files
from .output import say


class _Lines:
    """A file that grows by lines. What a full disk refuses is tried again."""

    def __init__(self, path):
        self.path = path
        self.pending = b""
        self.complained = False

    def flush(self):
        if not self.pending:
            return
        try:
            _files.append(self.path, self.pending, "train")
            self.pending = b""
        except OSError as e:
            if not self.complained:
                self.complained = True
                say(f"warning: cannot write '{self.path}' ({e.strerror or e}); trying again later")

    def cut(self, step):
        """Drops what a killed run has recorded after `step`, its last checkpoint, and lines that are
        damaged. Nothing that the file holds, or is, keeps a run from going on."""
        try:
            data = _files.read_regular(self.path, "train")
        except FileNotFoundError:
            return
        except OSError as e:
            say(f"note: cannot read the log: {e}")
            return
        kept, damaged = [], 0
        for number, line in enumerate(data.splitlines(keepends=True)):
            try:
                if not line.endswith(b"\n"):
                    raise ValueError("the half line of a kill")
                keep = self._step(line, number) <= step
            except (ValueError, KeyError, TypeError, RecursionError):
                damaged += 1
                continue
            if keep:
                kept.append(line)
        if damaged:
            lines = "line" if damaged == 1 else "lines"
            say(f"note: left out {damaged} damaged {lines} of '{self.path}'")
        text = b"".join(kept)
        if text != data:
            try:
                _C._write_file(self.path, text)
            except OSError as e:
                say(f"note: cannot write the log: {e}")


class JsonLines(_Lines):
    """One JSON object a line."""

    def add(self, entry):
        self.pending += (json.dumps(entry) + "\n").encode()

    @staticmethod
    def _step(line, number):
        step = json.loads(line)["step"]
        if type(step) is not int:
            raise ValueError("no step")
        return step


class Table(_Lines):
    """CSV with one column for each of `names`; what an entry does not have stays empty."""

    def __init__(self, path, names):
        super().__init__(path)
        self.names = ["step", *names]
        self.begun = os.path.lexists(path)

    def _line(self, cells):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(cells)
        return text.getvalue().encode()

    def add(self, entry):
        if not self.begun:
            self.pending += self._line(self.names)
            self.begun = True
        self.pending += self._line([entry.get(name, "") for name in self.names])

    def _step(self, line, number):
        first = line.split(b",", 1)[0].rstrip()
        if number == 0 and first == b"step":
            return 0
        return int(first)

    def cut(self, step):
        super().cut(step)
        self.begun = os.path.lexists(self.path) and os.path.getsize(self.path) > 0


class Events:
    """Scalars for TensorBoard, in an event file of each process that writes."""

    def __init__(self, directory, start):
        self.directory, self.start = directory, start
        self.file = None

    def add(self, entry):
        if self.file is None:
            from ..utils.event_files import EventFile

            self.file = EventFile(self.directory, purge_from=self.start + 1 if self.start else None)
        for name, value in entry.items():
            if name != "step" and isinstance(value, int | float):
                self.file.scalar(name, value, entry["step"])

    def flush(self):
        if self.file is not None:
            self.file.flush()

    def cut(self, step):
        pass  # the next file says from which step on the others do not count


class Picture:
    """A plot of what was recorded, drawn anew every `seconds` while it changes."""

    def __init__(self, path, names, seconds=10.0):
        import time

        self.path, self.names, self.seconds = path, names, seconds
        self.entries, self.clock, self.drawn = [], time.monotonic, float("-inf")
        self.fresh = False

    def add(self, entry):
        self.entries.append(entry)
        self.fresh = True

    def cut(self, step):
        pass

    def read(self, path):
        """What a run that goes on has recorded before."""
        try:
            for line in _files.read_regular(path, "train").splitlines():
                self.entries.append(json.loads(line))
        except (OSError, ValueError):
            pass

    def flush(self, last=False):
        if not self.fresh or (self.clock() - self.drawn < self.seconds and not last):
            return
        from .plot import draw

        try:
            draw(self.path, self.entries, self.names)
        except OSError as e:
            say(f"warning: cannot write '{self.path}' ({e.strerror or e})")
        self.drawn, self.fresh = self.clock(), False


class Records:
    """Several of them."""

    def __init__(self, *parts):
        self.parts = parts

    def add(self, entry):
        for part in self.parts:
            part.add(entry)

    def flush(self):
        for part in self.parts:
            part.flush()

    def cut(self, step):
        for part in self.parts:
            part.cut(step)
