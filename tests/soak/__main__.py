"""Attacks at random until the time is up: `python tests/soak --minutes 10 --seed 7`.

Every attack is a module in tests/soak/attacks with `run(seed, seconds)`, which attacks for about so
long and raises on a finding. Each runs in a process of its own, gets its share of the time, and is
one line of the report; what it found, and how to see it again, follows. The same seed draws the same
seeds for the attacks, and the same order. The exit status is 1 when anything was found.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

SHORTEST, LONGEST = 4.0, 30.0  # seconds of one attack
PATIENCE = 150.0  # seconds that an attack may be late: longer than any victim's


def names() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules([str(HERE / "attacks")]))


def attack(name: str, seed: int, seconds: float) -> int:
    """In the attack's own process."""
    try:
        importlib.import_module(f"attacks.{name}").run(seed, seconds)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def started(name: str, seed: int, seconds: float) -> str | None:
    """Runs one attack in a process of its own. What it found, or None."""
    command = [sys.executable, str(HERE), "--attack", name, "--seed", str(seed)]
    command += ["--seconds", f"{seconds:.1f}"]
    with tempfile.TemporaryFile() as out:
        p = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        try:
            status = p.wait(seconds + PATIENCE)
            why = None if status == 0 else f"status {status}"
        except subprocess.TimeoutExpired:
            why = f"not back {PATIENCE:.0f} s after its time"
        finally:
            try:
                os.killpg(p.pid, signal.SIGKILL)  # whatever it left behind
            except ProcessLookupError:
                pass
            p.wait()
        if why is None:
            return None
        out.seek(0)
        text = out.read().decode(errors="replace").strip()
    return f"{why}\n{text[-6000:]}\nagain: {' '.join(command)}"


def soak(chosen: list[str], seed: str, minutes: float) -> int:
    dice = random.Random(seed)
    end = time.monotonic() + 60 * minutes
    share = min(max(45 * minutes / len(chosen), SHORTEST), LONGEST)  # they begin and end late
    runs = found = 0
    while True:
        for name in dice.sample(chosen, len(chosen)):
            its_seed, begin = dice.randrange(2**31), time.monotonic()
            seconds = min(share, end - begin)
            if runs and seconds < SHORTEST:
                break
            what = started(name, its_seed, max(seconds, SHORTEST))
            runs += 1
            word = "found something" if what else "nothing found"
            print(f"{name:24} {its_seed:10} {time.monotonic() - begin:6.1f} s  {word}", flush=True)
            if what:
                found += 1
                print("    " + what.replace("\n", "\n    "), flush=True)
        else:
            continue
        break
    print(f"{runs} attacks, {found} with findings, seed {seed}")
    return 1 if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/soak", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", default=str(random.randrange(10**6)), help="any text")
    parser.add_argument("--only", nargs="+", choices=names(), default=names(), metavar="NAME")
    parser.add_argument("--list", action="store_true", help="the names of the attacks")
    parser.add_argument("--attack", choices=names(), help="this one, in this process")
    parser.add_argument("--seconds", type=float, default=SHORTEST, help="for --attack")
    options = parser.parse_args()
    if options.list:
        print(*names(), sep="\n")
        return 0
    if options.attack:
        return attack(options.attack, int(options.seed), options.seconds)
    return soak(options.only, options.seed, options.minutes)


if __name__ == "__main__":
    sys.exit(main())
