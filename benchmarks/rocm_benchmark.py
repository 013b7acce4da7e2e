#!/usr/bin/env python3
"""PyFlame on a GPU (AMD's or NVIDIA's; the CPU when there is none), with PyTorch beside it.

Every case is the same text run with two modules, each in a process of its own, in alternation.
The roof of memory-bound cases is a copy on the device, measured in the same alternation. Prints
times, ratio, achieved rate and its fraction of the roof, and the first run and the peak of memory of large
training steps; --json keeps them with device and commit. --compiled adds torch.compile as a third process in the cases
made for it.
"""

import argparse
import importlib
import importlib.util
import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import gpu_captured, gpu_case, gpu_cases, gpu_sparse, gpu_steps, harness

SIDES = "pyflame", "torch", "torch-compiled"
GROUPS = sorted({c.group for c in gpu_case.CASES.values()})


def device_facts(env):
    """The device that the benchmark runs on, and what it is called."""
    code = (
        "import json, pyflame as pf\n"
        "d = 'rocm' if pf.cuda.is_available() else 'cpu'\n"
        "print(json.dumps([d, pf.cuda.get_device_name(0) if d == 'rocm' else 'cpu']))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=harness.ROOT, capture_output=True, text=True
    )
    if out.returncode:
        sys.exit(f"rocm_benchmark: pyflame does not start:\n{out.stderr}")
    return json.loads(out.stdout.splitlines()[-1])


def measure(case, modules, device, args, env):
    modules = [m for m in modules if case.compiles or not m.endswith("-compiled")]
    times = {m: [] for m in modules}
    roofs, peaks, firsts, errors = [], {}, {}, {}
    # Together, in turns; or one behind the other, where the device has room for one.
    for together in [[m] for m in modules] if case.fills_device else [modules]:
        sides = {}
        for module in together:
            command = [sys.executable, "-m", "benchmarks.gpu_worker", module, case.name]
            command += ["--device", device, "--warmup", str(args.warmup)]
            sides[module] = harness.Side(command, env)
            sides[module].answer()  # "ready"
        for _ in range(args.rounds):
            for module, side in sides.items():
                t = side.ask(f"run {args.seconds}")
                if t is not None:
                    times[module].append(t)
            if case.traffic:
                judge = next((s for s in reversed(sides.values()) if not s.error), None)
                rate = judge.ask(f"copy {case.copy} {args.seconds / 2}") if judge else None
                roofs += [rate] if rate else []
        for module, side in sides.items():
            if case.memory and device != "cpu":
                peaks[module] = side.ask("peak")
                firsts[module] = side.ask("first")
            errors[module] = side.error
            side.close()
    result = {"case": case.name, "group": case.group, "title": case.title, "sides": {}}
    work = case.traffic or case.flops
    for module in modules:
        if errors[module] or not times[module]:
            result["sides"][module] = {"error": errors[module] or "no time"}
        else:
            t = statistics.median(times[module])
            entry = {"seconds": t, "spread": (max(times[module]) - min(times[module])) / t}
            if work:
                entry["rate"] = work / t
            if roofs:
                entry["fraction"] = work / t / statistics.median(roofs)
            if peaks.get(module):
                entry |= {"peak": peaks[module], "first": firsts[module]}
            result["sides"][module] = entry
    if roofs:
        result["roof"] = {"kind": "copy", "per_second": statistics.median(roofs)}
    for name in ("bar_seconds", "bar_fraction", "bar_rate", "bar_memory"):
        if getattr(case, name, None):
            result[name] = getattr(case, name)
    return result


def row(result):
    ours, theirs, compiled = (result["sides"].get(m, {}) for m in SIDES)
    cells = [f"{result['title']:<56}"]
    for side in (ours, theirs):
        text = harness.time_text(side["seconds"]) if "seconds" in side else "-"
        cells.append(f"{text:>9}")
    both = "seconds" in ours and "seconds" in theirs
    cells.append(f"{theirs['seconds'] / ours['seconds']:>6.2f}x" if both else f"{'-':>7}")
    unit, scale = ("GB/s", 1e9) if "roof" in result else ("TFLOP/s", 1e12)
    cells.append(f"{ours['rate'] / scale:>7.0f} {unit:<7}" if "rate" in ours else " " * 15)
    cells.append(f"{ours['fraction']:>5.0%}" if "fraction" in ours else " " * 5)
    if "peak" in ours:
        for what, scale, unit in (("peak", 2**30, "GiB"), ("first", 1, "s")):
            both = (f"{s[what] / scale:.2f}" if what in s else "-" for s in (ours, theirs))
            cells.append(" / ".join(both) + " " + unit)
    bars = []
    if "bar_seconds" in result:
        met = ours.get("seconds", 1e9) <= result["bar_seconds"]
        bars.append((f"<= {harness.time_text(result['bar_seconds'])}", met))
    if "bar_fraction" in result:
        met = ours.get("fraction", 0) >= result["bar_fraction"]
        bars.append((f">= {result['bar_fraction']:.0%}", met))
    if "bar_rate" in result:
        met = ours.get("rate", 0) >= result["bar_rate"]
        bars.append((f">= {result['bar_rate'] / scale:.0f} {unit}", met))
    if "bar_memory" in result and "peak" in ours:
        met = ours["peak"] <= result["bar_memory"]
        bars.append((f"<= {result['bar_memory'] / 2**30:g} GiB", met))
    cells += [f"{text} {'met' if met else 'MISSED'}" for text, met in bars]
    line = "  ".join(cells).rstrip()
    if "seconds" in compiled and "seconds" in ours:
        line += harness.line_below("torch.compile", compiled["seconds"], ours["seconds"], 56)
        if "peak" in compiled:
            line += f"  {compiled['peak'] / 2**30:.2f} GiB  {compiled['first']:.2f} s"
    for module in SIDES:
        error = result["sides"].get(module, {}).get("error")
        line += f"\n    {module}: {error}" if error else ""
    return line


def main(given=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every group (also without any flag)")
    for group in GROUPS:
        parser.add_argument(f"--{group}", action="store_true", help=f"the group '{group}'")
    parser.add_argument("--case", action="append", default=[], choices=sorted(gpu_case.CASES))
    parser.add_argument(
        "--iterations", type=int, default=3,
        help="rounds of the alternation; more than ten share the time of ten",
    )  # fmt: skip
    parser.add_argument("--warmup", type=int, default=20, help="runs before anything is timed")
    parser.add_argument("--seconds", type=float, default=0.2, help="of each round and side")
    parser.add_argument("--small", action="store_true", help="smaller cases; always on the CPU")
    parser.add_argument("--no-torch", action="store_true", help="without PyTorch beside it")
    parser.add_argument(
        "--compiled", action="store_true", help="also torch.compile, in the cases made for it"
    )
    parser.add_argument("--device", help="default: the GPU, or the CPU when there is none")
    parser.add_argument("--json", metavar="FILE", help="write results here")
    args = parser.parse_args(given)
    args.rounds = max(1, args.iterations)
    args.seconds *= min(1, 10 / args.rounds)
    env = harness.environment(harness.os.cpu_count() or 1)
    device, name = device_facts(env)
    device = args.device or device
    if device == "cpu" or args.small:
        harness.os.environ["PYFLAME_BENCH_SMALL"] = env["PYFLAME_BENCH_SMALL"] = "1"
        for module in (gpu_case, gpu_cases, gpu_steps, gpu_captured, gpu_sparse):
            importlib.reload(module)
    cases = gpu_case.CASES
    modules = ["pyflame"]
    if not args.no_torch and importlib.util.find_spec("torch"):
        modules += SIDES[1:] if args.compiled else SIDES[1:2]
    wanted = {g for g in GROUPS if getattr(args, g)}
    if args.all or not (wanted or args.case):
        wanted = set(GROUPS)
    facts = harness.facts(harness.os.cpu_count() or 1)
    facts |= {"device": name, "iterations": args.iterations, "warmup": args.warmup}
    facts["small"] = gpu_case.SMALL
    print(f"{facts['date']}, {name}, commit {facts['commit']}, "
          f"{args.iterations} rounds after {args.warmup} warm-up runs")  # fmt: skip
    print(f"{'what':<56}  {'pyflame':>9}  {'torch':>9}  {'ratio':>7}  achieved         roof  bar")
    results = []
    for case in cases.values():
        if case.group in wanted or case.name in args.case:
            results.append(measure(case, modules, device, args, env))
            print(row(results[-1]), flush=True)
    if args.json:
        harness.save_json(args.json, facts, results)
    return 0 if any("seconds" in r["sides"]["pyflame"] for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
