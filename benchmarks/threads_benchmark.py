#!/usr/bin/env python3
"""Several threads beside one, on the CPU: they must never cost.

Every case of cpu_benchmark.py runs with one thread and with --threads, each in a process of its own,
in alternation: on the machine as it is, then with a process beside it that keeps one of the cores
busy. What takes several threads more than --limit times what it takes one is measured again before it
is listed; the exit status is 1 if anything is.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import harness
from benchmarks.cases import CASES


class Busy:
    """A process that keeps the last core to itself as long as the system lets it."""

    def __enter__(self):
        code = f"import os; os.sched_setaffinity(0, {{{os.cpu_count() - 1}}})\nwhile True: pass"
        self.process = subprocess.Popen([sys.executable, "-c", code])
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def times(name, threads, rounds, seconds):
    """Median seconds with one thread and with several, in alternation; None where one failed."""
    worker = [sys.executable, "-m", "benchmarks.worker", "pyflame", name, "--threads"]
    commands = {n: [*worker, str(n)] for n in (1, threads)}
    try:
        found = harness.in_turns(commands, {n: n for n in commands}, rounds, seconds)
    except harness.SideFailed:
        return None
    return [found[n] for n in (1, threads)]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--case", action="append", default=[], help="one case by name; repeatable")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side")
    parser.add_argument("--seconds", type=float, default=0.3, help="time of one turn of one side")
    parser.add_argument("--limit", type=float, default=1.1, help="list what takes longer, times")
    parser.add_argument("--json", metavar="FILE", help="keep the results")
    args = parser.parse_args()
    for name in args.case:
        if name not in CASES:
            parser.error(f"no case '{name}'; cpu_benchmark.py --list shows them")
    if args.threads < 2:
        parser.error("there is one core, or --threads is 1: nothing to compare")

    results, slow = [], []

    def measure(state):
        for name in args.case or CASES:
            found = times(name, args.threads, args.rounds, args.seconds)
            if found and found[1] > args.limit * found[0]:  # a moment's noise, or true
                found = times(name, args.threads, 2 * args.rounds + 1, 2 * args.seconds)
            if not found:
                print(f"{state:<6} {name:<28} failed", flush=True)
                slow.append((state, name))
                continue
            ratio = found[1] / found[0]
            one, several = (harness.time_text(t) for t in found)
            print(f"{state:<6} {name:<28} {one:>9} {several:>9} {ratio:>6.2f}x", flush=True)
            results.append({"state": state, "case": name, "one": found[0], "several": found[1]})
            if ratio > args.limit:
                slow.append((state, name))

    facts = harness.facts(args.threads)
    print(f"{facts['date']}, {facts['cpu']}, commit {facts['commit']}, load {facts['load']:.1f}")
    print(f"{'':<6} {'case':<28} {'1 thread':>9} {args.threads:>7} th")
    measure("quiet")
    with Busy():
        measure("busy")
    print(f"{len(results)} measured; above {args.limit}: {len(slow)}")
    for state, name in slow:
        print(f"  {state} {name}")
    if args.json:
        text = json.dumps({"facts": facts, "results": results}, indent=0)
        Path(args.json).write_text(text + "\n")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
