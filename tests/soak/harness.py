"""What attacks share: victims in processes of their own, and words for how they ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass


class Finding(AssertionError):
    """Something that must not happen did."""


@dataclass
class Ended:
    """How a victim ended. `status` is negative for a signal, None when it had to be killed."""

    status: int | None
    out: str
    err: str

    def __str__(self) -> str:
        if self.status is None:
            how = "did not end"
        elif self.status < 0:
            how = f"killed by {signal.Signals(-self.status).name}"
        else:
            how = f"status {self.status}"
        return f"{how}\n{self.out[-3000:]}{self.err[-3000:]}"


class Victim:
    """A Python program that is attacked. It begins a process group, which `end` kills, and goes with
    its attacker (PR_SET_PDEATHSIG)."""

    def __init__(self, code: str, *args: object, env: dict[str, str] | None = None, **popen):
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        code = "import ctypes; ctypes.CDLL(None).prctl(1, 9)\n" + textwrap.dedent(code)
        command = [sys.executable, "-c", code, *map(str, args)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            env={**os.environ, **(env or {})},
            start_new_session=True,
            **popen,
        )
        self.pid = self._process.pid

    def send(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def running(self) -> bool:
        return self._process.poll() is None

    def wait_for(self, line: str, patience: float) -> bool:
        """Until it has printed this line; False when it ended before, or the time was up."""
        end = time.monotonic() + patience
        while True:
            alive = self.running()
            size = os.fstat(self._out.fileno()).st_size
            if line in os.pread(self._out.fileno(), size, 0).decode(errors="replace").split("\n"):
                return True
            if not alive or time.monotonic() > end:
                return False
            time.sleep(0.005)

    def end(self, patience: float) -> Ended:
        """Waits so many seconds for its end, then kills it and its children."""
        try:
            status: int | None = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            status = None
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        texts = []
        for file in (self._out, self._err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        return Ended(status, *texts)


def rounds(seconds: float, least: int = 1) -> Iterator[int]:
    """Counts until the time is up, at least to `least`."""
    end = time.monotonic() + seconds
    count = 0
    while count < least or time.monotonic() < end:
        yield count
        count += 1
