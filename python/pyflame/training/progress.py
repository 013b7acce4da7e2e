"""A progress bar with tqdm's look. Where nobody watches, a line now and then instead."""

import os
import sys
import time

from .output import write

_EIGHTHS = " ▏▎▍▌▋▊▉"
_CELLS = 20  # of a bar with room


def _clock(seconds):
    seconds = int(max(seconds, 0))
    hours, rest = divmod(seconds, 3600)
    text = f"{rest // 60:02d}:{rest % 60:02d}"
    return f"{hours}:{text}" if hours else text


def _thousands(x):
    if x >= 1e6:
        return f"{x / 1e6:.2f}M"
    return f"{x / 1e3:.1f}k" if x >= 1e3 else f"{x:.0f}"


def _columns(stream):
    """How wide the terminal is now; it may be resized at any time."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError, AttributeError):
        columns = 0
    return columns or 200  # it does not say


class Progress:
    """`show(step, loss)` at any time; it draws at most a few times a second. A step is over
    `amount` of `what`; the loss is shown with its `unit`. `share` of a step of one second is what part
    of the device's peak that would be (0: not shown)."""

    def __init__(
        self, label, total, start, amount, stream=None, line_every=15.0, *,
        what="tokens", unit=" bits/byte", share=0.0,
    ):  # fmt: skip
        self.stream = stream = sys.stderr if stream is None else stream
        self.label = label
        self.total = total
        self.start = start
        self.amount, self.what, self.unit = amount, what, unit
        self.share = share
        try:
            self.live = stream is not None and stream.isatty()
        except ValueError:  # closed
            self.live = False
        self.every = 0.25 if self.live else line_every
        self.began = time.monotonic()
        self.drawn = self.began
        self.recent = [(self.began, start)]  # for a rate that follows the last seconds
        self.width = 0
        encoding = (getattr(stream, "encoding", None) or "").lower()
        self.ascii = "utf" not in encoding

    def due(self):
        return time.monotonic() - self.drawn >= self.every

    def _bar(self, share, cells):
        if self.ascii:
            full = int(share * cells)
            return "#" * full + " " * (cells - full)
        full, part = divmod(int(share * cells * 8), 8)
        bar = "█" * full + (_EIGHTHS[part] if full < cells else "")
        return bar.ljust(cells)

    def _line(self, share, counts, times, tail, room):
        """As much as there is room for: what matters least goes first."""
        head, percent = f"{self.label}: ", f"{share:4.0%}"
        for parts, cells in (
            ((counts, f"[{times}, {tail}]"), _CELLS),
            ((counts, f"[{times}, {tail}]"), 5),
            ((counts, f"[{times}]"), 5),
            ((counts,), 5),
            ((counts,), 0),
        ):
            bar = f"|{self._bar(share, cells)}|" if cells else ""
            text = f"{head}{percent}{bar} {' '.join(parts)}"
            if len(text) <= room:
                return text
        return f"{percent.strip()} {counts}"[:room]

    def show(self, step, loss):
        now = self.drawn = time.monotonic()
        self.recent.append((now, step))
        while len(self.recent) > 2 and now - self.recent[0][0] > 20:
            self.recent.pop(0)
        then, before = self.recent[0]
        rate = (step - before) / (now - then) if now > then else 0.0
        left = _clock((self.total - step) / rate) if rate else "?"
        share = step / self.total if self.total else 1.0
        tail = f"loss {loss:.3f}{self.unit}, {_thousands(rate * self.amount)} {self.what}/s"
        if self.share and rate:
            tail += f", {rate * self.share:.1%} of peak"
        if self.live:
            room = max(_columns(self.stream) - 1, 1)  # a full last column would begin a new line
            times = f"{_clock(now - self.began)}<{left}"
            text = self._line(share, f"{step}/{self.total}", times, tail, room)
            self._write("\r" + text.ljust(min(self.width, room)))
            self.width = len(text)
        else:
            self._write(
                f"{self.label}: step {step}/{self.total} ({share:.0%}), {tail}, {left} left\n",
            )

    def close(self):
        if self.live and self.width:
            self._write("\n")
            self.width = 0

    def _write(self, text):
        write("stderr", text, self.stream)
