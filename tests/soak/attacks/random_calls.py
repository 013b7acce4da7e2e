"""Calls of the whole API with arguments that no program means (tests/python/hostile.py), with a page
behind each block that nobody may touch: a result or an error, no crash, no hang.

PYFLAME_HOSTILE=300000 makes so many draws in all, whatever the time.
"""

import os
import random
import tempfile
import time
from pathlib import Path

from harness import Finding, Victim

TESTS = Path(__file__).resolve().parents[2] / "python"
KINDS = ("walk", "wild", "names", "chain", "objects", "hooks")
CHILD = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import hostile
hostile.main(*sys.argv[1:])
"""
BATCH = {
    "walk": 120,
    "wild": 1500,
    "names": 1500,
    "chain": 400,
    "objects": 300,
    "hooks": 300,
}  # draws of one child
PATIENCE = 300.0  # seconds without a new call: a hang, on a machine with other work, too


def child(kind, seed, first, end, log):
    """(how it ended or "hangs", the call it was at) of one child."""
    env = {"PYFLAME_GUARD_PAGES": "1", "PYFLAME_ALLOC_CONF": "caching:False"}
    victim = Victim(CHILD, TESTS, log, kind, seed, first, end, env={**env, "OMP_NUM_THREADS": "2"})
    at, since = "", time.monotonic()
    while victim.running():
        time.sleep(0.05)
        now = Path(log).read_text(errors="replace").rstrip() if os.path.exists(log) else ""
        if now != at:
            at, since = now, time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            return victim.end(0.1), at
    ended = victim.end(1)
    return ended, Path(log).read_text(errors="replace").rstrip() if os.path.exists(log) else at


def calls(kind, seed, first, end, log, tell):
    """Makes these draws, with a new child behind each that ends; what was found goes to `tell`."""
    made = 0
    while first < end:
        ended, at = child(kind, seed, first, end, log)
        for line in ended.out.splitlines():
            if line.startswith("call "):
                tell(line)
            elif line.endswith("with findings"):
                made += int(line.split()[0])
        if ended.status in (0, 1) and not at:
            break
        number = int(at.split()[0]) if at[:1].isdigit() else first
        tell(f"{kind} {seed} {at}: {str(ended)[-1500:]}")
        first = number + 1
    return made


def run(seed: int, seconds: float) -> None:
    dice, begin, found = random.Random(seed), time.monotonic(), []
    wanted, drawn, made = int(os.environ.get("PYFLAME_HOSTILE", "0")), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        while drawn < wanted or time.monotonic() - begin < seconds or drawn == 0:
            kind, its_seed = dice.choice(KINDS), dice.randrange(2**31)
            size = BATCH[kind] if wanted else BATCH[kind] // 10
            first = dice.randrange(10**6)
            made += calls(kind, its_seed, first, first + size, f"{folder}/log", found.append)
            drawn += size
    if found:
        raise Finding(f"{len(found)} of {made} calls:\n" + "\n".join(found))
    print(f"{made} calls")
