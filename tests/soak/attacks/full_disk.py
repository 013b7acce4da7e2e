"""A disk that is full at a random byte: what stood there stays, errors are FileError, nothing is left."""

import os
import random
import tempfile

from harness import Finding, Victim, rounds

SAVES = """
import os, random, resource, signal, sys
import pyflame as pf
from pyflame.checkpoint import Checkpoints
folder, seed = sys.argv[1], int(sys.argv[2])
dice = random.Random(seed)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = os.path.join(folder, "x")
runs = Checkpoints(os.path.join(folder, "run"), keep=2)
pf.save({"i": 0}, path)
runs.save(0, {"i": 0})
last = step = 0
for i in range(1, 40):
    room = int(2 ** dice.uniform(4, 17))
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    value = {"i": i, "x": pf.full((dice.randrange(1, 9000),), float(i))}
    for save in ("file", "stream", "checkpoint"):
        try:
            if save == "file":
                pf.save(value, path)
                last = i
            elif save == "stream":
                with open(path + ".stream", "wb", buffering=dice.choice([0, 512])) as f:
                    pf.save(value, f)
                with open(path + ".stream", "rb") as f:
                    assert pf.load(f)["i"] == i, "a short file, and no error"
            else:
                runs.save(i, value)
                step = i
        except OSError as e:
            assert isinstance(e, pf.FileError) or save == "stream", repr(e)
    if os.path.exists(path + ".stream"):
        os.unlink(path + ".stream")
    assert pf.load(path)["i"] == last
    assert runs.load().step == step
    left = [n for d in (folder, runs.directory) for n in os.listdir(d) if n.endswith(".tmp")]
    assert not left, left
"""


def run(seed: int, seconds: float) -> None:
    dice = random.Random(seed)
    for _ in rounds(seconds):
        with tempfile.TemporaryDirectory() as folder:
            one = dice.randrange(10**6)
            ended = Victim(SAVES, folder, one).end(120)
            if ended.status != 0:
                raise Finding(f"seed {one}: {ended}; {sorted(os.listdir(folder))}")
