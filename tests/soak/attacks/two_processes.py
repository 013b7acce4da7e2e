"""Several processes save and load one name and one folder of checkpoints: none disturbs another."""

import os
import random
import tempfile

from harness import Finding, Victim, rounds

SAVES = """
import os, random, sys, time, warnings
import pyflame as pf
from pyflame.checkpoint import Checkpoints
warnings.simplefilter("error")
folder, seed, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
dice = random.Random(seed)
path = os.path.join(folder, "x")
runs = Checkpoints(os.path.join(folder, "run"), keep=dice.choice([1, 2, 3]))
end = time.monotonic() + seconds
while time.monotonic() < end:
    i = dice.randrange(1000)
    pf.save({"w": pf.full((dice.randrange(1, 5000),), float(i)), "i": i}, path)
    found = pf.load(path)
    assert (found["w"] == float(found["i"])).all().item()
    step = dice.randrange(20)
    runs.save(step, {"w": pf.full((100,), float(step))})
    found = runs.load()
    assert (found.state["w"] == float(found.step)).all().item()
"""


def run(seed: int, seconds: float) -> None:
    dice = random.Random(seed)
    for _ in rounds(seconds):
        with tempfile.TemporaryDirectory() as folder:
            victims = [Victim(SAVES, folder, dice.randrange(10**6), 3) for _ in range(3)]
            for victim in victims:
                ended = victim.end(90)
                if ended.status != 0:
                    raise Finding(str(ended))
            left = [n for n in os.listdir(folder) if n.endswith(".tmp")]
            if left:
                raise Finding(f"left behind: {left}")
