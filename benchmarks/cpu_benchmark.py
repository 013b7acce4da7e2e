#!/usr/bin/env python3
"""PyFlame beside PyTorch on the CPU: time, ratio, fraction of what the machine can do.

Every case is the same text run with two modules, each in a process of its own, in alternation.
The roof (a streaming copy of the same size, or a float32 product of 1024 by oneDNN) is measured
in the same alternation, because a machine's memory has fast and slow minutes.
"""

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import harness
from benchmarks.cases import CASES
from tools import installed_size

GROUPS = sorted({c.group for c in CASES.values()} | {"startup", "size"})


def wall(command, env, runs=9):
    """Median seconds of a whole process."""
    import time

    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def import_seconds(module, env):
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    return float(out.stdout)


def startup(modules, env, rounds):
    results = []
    times = {m: [] for m in modules}
    for _ in range(max(rounds, 5)):
        for m in modules:
            times[m].append(import_seconds(m, env))
    sides = {m: {"seconds": statistics.median(t), "spread": 0} for m, t in times.items()}
    results.append({"case": "import", "title": "import", "sides": sides, "bar_seconds": 0.150})
    script = Path(sys.executable).parent / "pyflame"
    command = [str(script)] if script.exists() else [sys.executable, "-m", "pyflame.cli"]
    results.append(
        {
            "case": "help",
            "title": "pyflame --help, whole process",
            "sides": {"pyflame": {"seconds": wall([*command, "--help"], env), "spread": 0}},
            "bar_seconds": 0.080,
        }
    )
    return results


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="every group (the default)")
    for g in GROUPS:
        parser.add_argument(f"--{g}", action="store_true", help=f"the group {g}")
    parser.add_argument("--case", action="append", default=[], help="one case by name; repeatable")
    parser.add_argument("--list", action="store_true", help="list groups and cases")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--iterations", type=int, default=7, help="rounds of the alternation")
    parser.add_argument("--warmup", type=int, default=3, help="untimed calls at the start")
    parser.add_argument("--seconds", type=float, default=0.3, help="time of one turn of one side")
    parser.add_argument("--no-torch", action="store_true", help="measure PyFlame alone")
    parser.add_argument(
        "--compiled", action="store_true", help="also torch.compile, in the cases made for it"
    )
    parser.add_argument("--json", metavar="FILE", help="save the results")
    parser.add_argument("--compare", metavar="FILE", help="compare with saved results")
    parser.add_argument(
        "--fail-over", type=float, metavar="FACTOR", help="with --compare: fail when slower by it"
    )
    args = parser.parse_args()
    if args.list:
        for c in CASES.values():
            print(f"{c.group:<12} {c.name:<22} {c.title}")
        return 0
    for name in args.case:
        if name not in CASES:
            parser.error(f"no case '{name}'; --list shows them")
    chosen = {g for g in GROUPS if getattr(args, g)}
    if not chosen and not args.case:
        chosen = set(GROUPS)
    if args.all:
        chosen = set(GROUPS)

    modules = ["pyflame"]
    if not args.no_torch:
        if importlib.util.find_spec("torch"):
            modules += ["torch", "torch-compiled"] if args.compiled else ["torch"]
        else:
            print("PyTorch is not installed (tools/setup.sh bench): measuring PyFlame alone")
    facts = harness.facts(args.threads)
    facts.update(iterations=args.iterations, warmup=args.warmup)
    print(
        f"{facts['date']}, {facts['cpu']}, {args.threads} threads, commit {facts['commit']}, "
        f"torch {facts['versions']['torch']}, load {facts['load']:.1f}"
    )
    print(harness.HEADER)
    results = []
    for c in CASES.values():
        if c.group in chosen or c.name in args.case:
            results.append(
                harness.measure(
                    c, modules, args.threads, args.iterations, args.seconds, args.warmup
                )
            )
            print(harness.row(results[-1]), flush=True)
    if "startup" in chosen:
        for r in startup(
            [m for m in modules if "-" not in m], harness.environment(args.threads), args.iterations
        ):
            results.append(r)
            print(harness.row(r), flush=True)
    if "size" in chosen:
        size = sum(installed_size.sizes().values())
        facts["installed_bytes"] = size
        bar = installed_size.BAR
        verdict = "met" if size <= bar else "MISSED"
        print(
            f"{'installed core':<52}  {size / 1e6:>6.1f} MB{'':>45}  <= {bar / 1e6:.0f} MB {verdict}"
        )
    if args.json:
        harness.save_json(args.json, facts, results)
    if args.compare:
        worst = harness.compare(args.compare, results)
        if args.fail_over and worst > args.fail_over:
            return 1
    return 1 if any("error" in r["sides"]["pyflame"] for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
