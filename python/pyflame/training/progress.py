"""A progress bar with tqdm's look. Where nobody watches, a line now and then instead."""

import sys
import time

_EIGHTHS = " ▏▎▍▌▋▊▉"


def _clock(seconds):
    seconds = int(max(seconds, 0))
    hours, rest = divmod(seconds, 3600)
    text = f"{rest // 60:02d}:{rest % 60:02d}"
    return f"{hours}:{text}" if hours else text


def _thousands(x):
    if x >= 1e6:
        return f"{x / 1e6:.2f}M"
    return f"{x / 1e3:.1f}k" if x >= 1e3 else f"{x:.0f}"


class Progress:
    """`show(step, loss)` at any time; it draws at most a few times a second."""

    def __init__(self, label, total, start, tokens_a_step, stream=None, line_every=15.0):
        self.stream = sys.stderr if stream is None else stream
        self.label = label
        self.total = total
        self.start = start
        self.tokens = tokens_a_step
        self.live = self.stream.isatty()
        self.every = 0.25 if self.live else line_every
        self.began = time.monotonic()
        self.drawn = self.began
        self.recent = [(self.began, start)]  # for a rate that follows the last seconds
        self.width = 0
        encoding = (getattr(self.stream, "encoding", None) or "").lower()
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

    def show(self, step, loss):
        now = self.drawn = time.monotonic()
        self.recent.append((now, step))
        while len(self.recent) > 2 and now - self.recent[0][0] > 20:
            self.recent.pop(0)
        then, before = self.recent[0]
        rate = (step - before) / (now - then) if now > then else 0.0
        left = _clock((self.total - step) / rate) if rate else "?"
        share = step / self.total if self.total else 1.0
        tail = f"loss {loss:.3f} bits/byte, {_thousands(rate * self.tokens)} tokens/s"
        if self.live:
            counts = f"{step}/{self.total} [{_clock(now - self.began)}<{left}, {tail}]"
            text = f"{self.label}: {share:4.0%}|{self._bar(share, 20)}| {counts}"
            self.stream.write("\r" + text.ljust(self.width))
            self.width = len(text)
        else:
            self.stream.write(
                f"{self.label}: step {step}/{self.total} ({share:.0%}), {tail}, {left} left\n"
            )
        self.stream.flush()

    def close(self):
        if self.live and self.width:
            self.stream.write("\n")
            self.stream.flush()
            self.width = 0
