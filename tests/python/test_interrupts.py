"""Ctrl-C ends operations of the CPU that would run for minutes; what comes later computes rightly."""

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, threading, time
import pyflame as pf
pf.set_device("cpu")
wide = lambda *shape: pf.zeros(1).expand(*shape)
N = 2**36
w = pf.ones(3)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
begin = time.monotonic()
try:
    {work}
    print("finished")
except KeyboardInterrupt:
    print("interrupted" if time.monotonic() - begin < 30 else "late")
print(pf.arange(1000.0).sum().item(), (w + 1).tolist())
"""

WORK = [
    "wide(N).sum().item()",
    "wide(64, N // 64).sum(1)[0].item()",
    "wide(N // 64, 64).amax(0)[0].item()",
    "wide(N).var().item()",
    "wide(N).argmax().item()",
    "pf.zeros(1, dtype=pf.int64).expand(N).sum().item()",
    "wide(N).norm().item()",
]


@pytest.mark.parametrize("work", WORK)
def test_an_operation_over_2_36_elements_is_interrupted(work):
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    r = subprocess.run(
        [sys.executable, "-c", program + PROGRAM.replace("{work}", work)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert r.stdout.split("\n")[:2] == ["interrupted", "499500.0 [2.0, 2.0, 2.0]"], r.stderr
