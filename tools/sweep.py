#!/usr/bin/env python3
"""Times every operation of the registry beside PyTorch and lists those that are slower.

Forward, and forward with backward, on few and on many elements; both sides in processes of their
own, in alternation. What is slower than --limit times PyTorch is measured again, longer, before it
is listed, with the reason if it is known (benchmarks/slower.py); the exit status is 1 if one is not.
Operations without a call (benchmarks/operations.py) are named. An interrupt ends it early and keeps
what it has.
"""

import argparse
import json
import math
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import harness, operations, slower


def calls_of(pf):
    """({name: (expression, written operand)}, names without a call)."""
    calls, missing = {}, []
    for row in pf.ops.table():
        name = row["name"]
        if name in calls or name in missing or name in operations.LEFT_OUT:
            continue
        parameters = [
            (p["name"], p["annotation"], p["default"] is not None)
            for p in pf._C._parse_schema(row["schema"])["params"]
        ]
        call = operations.call_of(pf, name, parameters)
        if call:
            calls[name] = call
        else:
            missing.append(name)
    return calls, missing


class Pair:
    """Both sides, restarted when one of them dies."""

    def __init__(self, calls_file, device, threads):
        self.env = harness.environment(threads)
        self.arguments = [calls_file, "--device", device, "--threads", str(threads)]
        self.sides = {}

    def side(self, module):
        side = self.sides.get(module)
        if side is None or side.error:
            command = [
                sys.executable,
                "-P",
                "-m",
                "benchmarks.sweep_worker",
                module,
                *self.arguments,
            ]
            side = self.sides[module] = harness.Side(command, self.env)
            side.answer()  # "ready"
        return side

    def times(self, name, elements, mode, seconds, rounds):
        # PyTorch first: what it cannot do is left out, what PyFlame then cannot do is listed.
        times = {"torch": [], "pyflame": []}
        for _ in range(rounds):
            for module, list_ in times.items():
                t = self.side(module).ask(f"{name} {elements} {mode} {seconds}")
                if t is None or math.isnan(t):
                    return {m: statistics.median(v or [math.nan]) for m, v in times.items()} | {
                        module: math.nan
                    }
                list_.append(t)
        return {m: statistics.median(v) for m, v in times.items()}

    def close(self):
        for side in self.sides.values():
            side.close()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="cpu, rocm or cuda")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], help="an operation; repeatable")
    parser.add_argument("--small", type=int, default=64, help="elements of the small call")
    parser.add_argument("--large", type=int, default=1_000_000, help="elements of the large call")
    parser.add_argument("--seconds", type=float, default=0.02, help="time of one turn of one side")
    parser.add_argument("--limit", type=float, default=1.2, help="list what takes longer, times")
    parser.add_argument("--json", metavar="FILE", help="keep the results")
    args = parser.parse_args()

    sys.path.insert(0, str(harness.ROOT / "python"))
    import pyflame as pf

    calls, missing = calls_of(pf)
    names = args.only or sorted(calls)
    unknown = [n for n in names if n not in calls]
    if unknown:
        parser.error(f"no call for {', '.join(unknown)}")
    results, slow = [], []
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(calls, f)
        f.flush()
        pair = Pair(f.name, args.device, args.threads)
        name = names[0]
        try:
            for name in names:
                for elements in (args.small, args.large):
                    for mode in ("forward", "both"):
                        if mode == "both" and calls[name][1]:
                            continue
                        t = pair.times(name, elements, mode, args.seconds, 3)
                        ratio = t["pyflame"] / t["torch"]
                        if ratio > args.limit:  # a moment's noise, or true
                            t = pair.times(name, elements, mode, args.seconds * 3, 7)
                            ratio = t["pyflame"] / t["torch"]
                        if math.isnan(t["torch"]):
                            continue  # no such operation, or no gradient
                        entry = {"name": name, "elements": elements, "mode": mode, **t}
                        results.append({k: None if v != v else v for k, v in entry.items()})
                        if not ratio <= args.limit:
                            slow.append((ratio, entry))
                            print_row(ratio, entry)
        except KeyboardInterrupt:
            print(f"interrupted at {name}")
            names = names[: names.index(name)]
        pair.close()
    print(f"\n{len(results)} calls of {len(names)} operations; {len(slow)} above {args.limit}")
    known = slower.CPU if args.device == "cpu" else slower.GPU
    new = [e["name"] for _, e in slow if e["name"] not in known]
    for ratio, entry in sorted(slow, key=lambda s: (s[0] != s[0], -s[0])):
        print_row(ratio, entry)
        print(f"    {known.get(entry['name'], 'NO REASON KNOWN')}")
    if not args.only:
        print("without a call:", ", ".join(missing) or "none")
    if args.json:
        facts = harness.facts(args.threads)
        facts["device"] = args.device
        if args.device != "cpu":
            facts["device"] = pf.cuda.get_device_name(0)
        Path(args.json).write_text(
            json.dumps({"facts": facts, "results": results}, indent=0) + "\n"
        )
    return 1 if new else 0


def print_row(ratio, e):
    both = [harness.time_text(e[m]) if e[m] == e[m] else "failed" for m in ("pyflame", "torch")]
    print(
        f"{e['name']:<32} {e['elements']:>8} {e['mode']:<8} {both[0]:>9} {both[1]:>9} "
        f"{ratio:>7.2f}x",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
