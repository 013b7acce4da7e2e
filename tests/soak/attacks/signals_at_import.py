"""SIGINT at a random moment of `import pyflame`: KeyboardInterrupt or success, never a crash."""

import random
import signal
import time

from harness import Finding, Victim, rounds

IMPORT = "import pyflame as pf; assert (pf.ones(3) + 1).tolist() == [2.0] * 3; print('done')"


def run(seed: int, seconds: float) -> None:
    dice = random.Random(seed)
    begin = time.monotonic()
    ended = Victim(IMPORT).end(60)
    took = time.monotonic() - begin
    if ended.status != 0:
        raise Finding(f"without a signal: {ended}")
    for _ in rounds(seconds):
        victim = Victim(IMPORT)
        moment = dice.random() * took * 1.1
        time.sleep(moment)
        victim.send(signal.SIGINT)
        ended = victim.end(60)
        # Python itself dies of SIGINT before it has its handler, and ends so after KeyboardInterrupt.
        if ended.status not in (0, 1, 130, -signal.SIGINT):
            raise Finding(f"SIGINT after {moment:.4f} s of {took:.4f}: {ended}")
