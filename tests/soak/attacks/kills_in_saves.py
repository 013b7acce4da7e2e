"""SIGKILL while a file is saved over and over: what is there afterwards is whole, old or new."""

import random
import signal
import tempfile
import time
from pathlib import Path

from harness import Finding, Victim, rounds

import pyflame as pf

SAVES = """
import sys
import pyflame as pf
path = sys.argv[1]
for i in range(1, 10**9):
    pf.save({"i": i, "x": pf.full((1000 + i % 7,), float(i)), "y": [pf.full((3,), i)]}, path)
    if i == 1: print("go", flush=True)
"""


def run(seed: int, seconds: float) -> None:
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.pf"
        for _ in rounds(seconds):
            victim = Victim(SAVES, path)
            while victim.running() and not path.exists():
                time.sleep(0.01)
            time.sleep(dice.random() * 0.3)
            victim.send(signal.SIGKILL)
            ended = victim.end(10)
            if ended.status != -signal.SIGKILL:
                raise Finding(f"saving ended by itself: {ended}")
            tree = pf.load(path)
            i = tree["i"]
            if not (
                tree["x"].tolist() == [float(i)] * (1000 + i % 7)
                and tree["y"][0].tolist() == [i] * 3
            ):
                raise Finding(f"{path} holds a mixture: i = {i}, {tree}")
