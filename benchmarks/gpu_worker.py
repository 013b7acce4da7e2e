"""One side of a comparison on a GPU (or on the CPU, with the same text), in its own process.

Reads commands: ``run SECONDS`` answers with the seconds that the work takes once, ``copy BYTES
SECONDS`` with the bytes per second (read and written) of a copy on the device, ``peak`` with the most bytes
of the device's memory that were in use while it ran once more (of a CUDA graph of PyTorch's: since the beginning),
``first`` with the seconds of its first run.
"""

import argparse
import functools
import importlib
import sys
import time
import traceback


def host_time(work, synchronize, once, seconds):
    """The host's share alone: the device is waited for between the calls."""
    spent = 0.0
    n = max(1, int(seconds / once / 2))
    for _ in range(n):
        start = time.perf_counter()
        work()
        spent += time.perf_counter() - start
        synchronize()
    return spent / n


def timed(work, synchronize, once, seconds):
    n = max(1, min(100_000, int(seconds / once)))
    start = time.perf_counter()
    for _ in range(n):
        work()
    synchronize()
    return (time.perf_counter() - start) / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("case")
    parser.add_argument("--device", required=True)
    parser.add_argument("--warmup", type=int, default=20)
    args = parser.parse_args()
    try:
        name = args.module.removesuffix("-compiled")
        torch = importlib.import_module(name)
        from benchmarks import gpu_captured, gpu_cases, gpu_sparse, gpu_steps  # noqa: F401 (they register)
        from benchmarks.gpu_case import CASES
        from benchmarks.worker import whole

        torch.manual_seed(1)
        if args.device == "cpu":
            synchronize = getattr(torch, "synchronize", lambda: None)
        else:
            synchronize = torch.cuda.synchronize
        if hasattr(torch, "set_device"):
            torch.set_device(args.device)
        elif args.device != "cpu":
            torch.set_default_device("cuda")
        device = args.device if name != "torch" or args.device == "cpu" else "cuda"
        case = CASES[args.case]
        compiled = () if name == args.module else (torch.compile,)
        work = whole(case.make(torch, device, *compiled), torch, case.group)
        start = time.perf_counter()
        work()
        synchronize()
        first = time.perf_counter() - start
        for _ in range((args.warmup if case.repeat == 1 else 3) - 1):
            work()
        synchronize()
        start = time.perf_counter()
        for _ in range(3):
            work()
        synchronize()
        once = max((time.perf_counter() - start) / 3, 1e-7)
    except Exception as e:
        traceback.print_exc()
        print(f"error {type(e).__name__}: {e}".replace("\n", " ")[:300], flush=True)
        return 1
    print("ready", flush=True)
    copies = {}
    for line in sys.stdin:
        words = line.split()
        if words[0] == "copy":
            size = int(words[1])
            if size not in copies:
                # Not copy_: a copy over one that nobody has read is not made twice.
                copy = functools.partial(torch.clone, torch.randn(size // 4, device=device))
                guess = [timed(copy, synchronize, 1.0, 0.0) for _ in range(3)]
                copies[size] = copy, min(guess)
            copy, guess = copies[size]
            print(2 * size / timed(copy, synchronize, guess, float(words[2])), flush=True)
            continue
        if words[0] == "first":
            print(first, flush=True)
            continue
        if words[0] == "peak":
            if not getattr(work, "hides_memory", False):  # a graph's, counted where it was made
                torch.cuda.reset_peak_memory_stats()
                work()
                synchronize()
            print(torch.cuda.max_memory_allocated(), flush=True)
            continue
        measure = host_time if case.group == "overhead" else timed
        once = measure(work, synchronize, once, float(words[1]))
        print(once / case.repeat, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
