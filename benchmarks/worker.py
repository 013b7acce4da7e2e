"""One side of a comparison, in a process of its own.

Reads commands from stdin: ``run SECONDS`` answers with the seconds that the work takes once.
"""

import argparse
import importlib
import sys
import time
import traceback


def whole(work, torch, group):
    """`work`, of which all is calculated: results that nobody reads would be left out by a recording module."""
    flush = getattr(torch, "flush", None)
    if flush is None or group == "overhead":
        return work

    def run():
        result = work()
        flush()
        return result

    return run


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("module", help="pyflame, torch, or torch-compiled")
    parser.add_argument("case")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--warmup", type=int, default=3)
    args = parser.parse_args()
    try:
        torch = importlib.import_module(args.module.removesuffix("-compiled"))
        from benchmarks.cases import CASES

        torch.set_num_threads(args.threads)
        torch.manual_seed(1)
        synchronize = getattr(torch, "synchronize", lambda: None)
        case = CASES[args.case]
        if args.module.endswith("-compiled"):
            work = case.make(torch, torch.compile)
        else:
            work = case.make(torch)
        work = whole(work, torch, case.group)
        for _ in range(args.warmup):
            work()
        synchronize()
        start = time.perf_counter()
        work()
        synchronize()
        once = max(time.perf_counter() - start, 1e-7)
    except Exception as e:
        traceback.print_exc()
        print(f"error {type(e).__name__}: {e}".replace("\n", " ")[:300], flush=True)
        return 1
    print("ready", flush=True)
    for line in sys.stdin:
        seconds = float(line.split()[1])
        n = max(1, int(seconds / once))
        start = time.perf_counter()
        for _ in range(n):
            work()
        synchronize()
        once = (time.perf_counter() - start) / n
        print(once / case.repeat, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
