"""SIGKILL during saves of files and checkpoints: the next save leaves nothing of the dead ones."""

import os
import random
import signal
import tempfile
import time
import warnings

from harness import Finding, Victim, rounds

import pyflame as pf
from pyflame.checkpoint import Checkpoints

SAVES = """
import os, sys
import pyflame as pf
from pyflame.checkpoint import Checkpoints
folder, first = sys.argv[1], int(sys.argv[2])
runs = Checkpoints(os.path.join(folder, "run"), keep=2)
for i in range(first, 10**9):
    tree = {"i": i, "x": pf.full((30000 + i % 7,), float(i)), "y": [pf.full((3,), i)]}
    pf.save(tree, os.path.join(folder, "x"))
    runs.save(i, {"i": i, "x": pf.full((30000,), float(i))})
    open(os.path.join(folder, "done"), "w").write(str(i))
"""


def run(seed: int, seconds: float) -> None:
    dice = random.Random(seed)
    warnings.simplefilter("error")  # of a checkpoint that is damaged
    with tempfile.TemporaryDirectory() as folder:
        path, done = os.path.join(folder, "x"), os.path.join(folder, "done")
        runs = Checkpoints(os.path.join(folder, "run"), keep=2)
        newest = 0
        for _ in rounds(seconds):
            if os.path.exists(done):
                os.unlink(done)
            victim = Victim(SAVES, folder, newest + 1)
            while victim.running() and not os.path.exists(done):
                time.sleep(0.005)
            time.sleep(dice.random() * 0.2)
            victim.send(signal.SIGKILL)
            ended = victim.end(10)
            if ended.status != -signal.SIGKILL:
                raise Finding(f"saving ended by itself: {ended}")
            with open(done) as f:
                told = int(f.read() or 0)
            found, tree = runs.load(), pf.load(path)
            if min(found.step, tree["i"]) < told:
                raise Finding(f"{told} was saved, {found.step} and {tree['i']} are there")
            for state in (found.state, tree):
                if not (state["x"] == float(state["i"])).all().item():
                    raise Finding(f"a mixture: {state['i']}")
            if "y" in tree and tree["y"][0].tolist() != [tree["i"]] * 3:
                raise Finding(f"a mixture: {tree}")
            newest = max(found.step, tree["i"]) + 1
            pf.save({"i": newest, "x": pf.full((3,), float(newest))}, path)
            runs.save(newest, {"i": newest, "x": pf.full((3,), float(newest))})
            left = sorted(os.listdir(folder)), sorted(os.listdir(runs.directory))
            if left[0] != ["done", "run", "x"] or len(left[1]) > 2:
                raise Finding(f"left behind: {left}")
