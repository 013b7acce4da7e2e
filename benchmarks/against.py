#!/usr/bin/env python3
"""This tree beside another built one, such as the commit before: every benchmark case in turns.

    python benchmarks/against.py ../other-tree [--device cuda] [--group rows] [--case softmax]

Both libraries run the case texts of this tree, each in a process of its own, in alternation. Of the rounds the least
counts, as other work on the machine only adds. A case that differs by more than --within is measured again, in four times
as many rounds, and those count. Prints other / this (above 1: this tree is faster), and ends with 1 where this tree
stays slower by more. --json keeps the figures.
"""

import argparse
import importlib
import json
import math
import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import harness


def cases_of(device):
    if device == "cpu":
        from benchmarks.cases import CASES

        return CASES
    for name in ("gpu_cases", "gpu_steps", "gpu_captured", "gpu_sparse"):
        importlib.import_module(f"benchmarks.{name}")
    from benchmarks.gpu_case import CASES

    return CASES


def command(case, device, threads, warmup):
    if device == "cpu":
        where = ["benchmarks.worker", "pyflame", case.name, "--threads", str(threads)]
    else:
        where = ["benchmarks.gpu_worker", "pyflame", case.name, "--device", device]
    return [sys.executable, "-m", *where, "--warmup", str(warmup)]


def environment(tree, threads):
    env = harness.environment(threads)
    env["PYTHONPATH"] = os.pathsep.join([str(tree / "python"), env["PYTHONPATH"]])
    return env


def measure(case, trees, args, rounds):
    """Least seconds of the case in each tree, or what a side said that could not."""
    words = command(case, args.device, args.threads, args.warmup)
    # One behind the other where the device has room for one.
    turns = [[t] for t in trees] if getattr(case, "fills_device", False) else [trees]
    times, errors = {t: [] for t in trees}, {}
    for together in turns:
        sides = {t: harness.Side(words, environment(t, args.threads)) for t in together}
        for side in sides.values():
            side.answer()
        for i in range(rounds):
            for t in sorted(sides, reverse=bool(i % 2)):
                times[t].append(sides[t].ask(f"run {args.seconds}"))
        for t, side in sides.items():
            side.close()
            if side.error:
                errors[t] = side.error
    if errors:
        return None, "; ".join(f"{t.name}: {e}" for t, e in errors.items())
    return [min(times[t]) for t in trees], None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="the other tree, built")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument("--case", action="append", default=[])
    parser.add_argument("--skip", action="append", default=[], metavar="CASE")
    parser.add_argument("--within", type=float, default=0.03)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each round and side")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    trees = [harness.ROOT, args.other.resolve()]
    rows, beyond = [], []
    for case in cases_of(args.device).values():
        asked = case.name in args.case or case.group in args.group
        if case.name in args.skip or not (asked or not (args.case or args.group)):
            continue
        seconds, error = measure(case, trees, args, args.rounds)
        again = seconds and abs(seconds[1] / seconds[0] - 1) > args.within
        if again:
            seconds, error = measure(case, trees, args, 4 * args.rounds)
        row = {"case": case.name, "group": case.group}
        if error:
            row["error"] = error
            print(f"{case.name:<36} {error[:120]}", flush=True)
        else:
            ratio = seconds[1] / seconds[0]
            row |= {"seconds": seconds[0], "other_seconds": seconds[1], "ratio": ratio}
            if abs(ratio - 1) > args.within:
                beyond.append(row)
            this, other = (harness.time_text(t) for t in seconds)
            mark = "" if not again else "  again" if abs(ratio - 1) <= args.within else "  BEYOND"
            print(f"{case.name:<36} {this:>9} {other:>9} {ratio:7.3f}{mark}", flush=True)
        rows.append(row)
        if args.json:
            facts = harness.facts(args.threads) | {"other": str(args.other), "device": args.device}
            with open(args.json, "w") as f:
                json.dump({"facts": facts, "results": rows}, f, indent=1)
    ratios = [r["ratio"] for r in rows if "ratio" in r]
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(
            f"{len(ratios)} cases, geometric mean {mean:.3f}, beyond {args.within:.0%}: {len(beyond)}"
        )
        for row in sorted(beyond, key=lambda r: r["ratio"]):
            print(f"  {row['case']:<36} {row['ratio']:.3f}")
    return 1 if any(r["ratio"] < 1 - args.within for r in beyond) else 0


if __name__ == "__main__":
    sys.exit(main())
