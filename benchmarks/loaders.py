#!/usr/bin/env python3
"""Samples a second of data loaders: of arrays in memory beside PyTorch, and of slow samples by one and by
two workers; each in a process of its own, in turns."""

import importlib
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import harness

BATCH = 256
SHAPES = {"20": ((20,), 50_000), "1x28x28": ((1, 28, 28), 20_000)}
WORK = 2e-3  # seconds of a slow sample
SLOW = 128  # of them


def in_memory(torch, shape, shuffle):
    shape, count = SHAPES[shape]
    data = torch.utils.data
    arrays = torch.randn(count, *shape), torch.randint(0, 10, (count,))
    return data.DataLoader(data.TensorDataset(*arrays), BATCH, shuffle=shuffle), count


def slow(torch, workers):
    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return SLOW

        def __getitem__(self, i):
            end = time.process_time() + WORK
            while time.process_time() < end:
                pass
            return torch.full((3, 64, 64), float(i)), i

    loader = torch.utils.data.DataLoader(
        Slow(), 8, num_workers=workers, persistent_workers=workers > 0
    )
    return loader, SLOW


def worker(side, what, option):
    torch = importlib.import_module(side)
    if side == "torch":
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    loader, count = (
        slow(torch, int(option)) if what == "slow" else in_memory(torch, what, option == "shuffled")
    )
    for _ in loader:
        pass
    print("ready", flush=True)
    for line in sys.stdin:
        passes, began = 0, time.perf_counter()
        end = began + float(line.split()[1])
        while time.perf_counter() < end:
            for _ in loader:
                pass
            passes += 1
        print((time.perf_counter() - began) / passes / count, flush=True)


def main():
    parser = harness.options(__doc__, rounds=5, seconds=0.5, worker=3)
    args = parser.parse_args()
    if args.worker:
        return worker(*args.worker)
    results = {}

    def rates(what, sides):
        """Samples a second of {name: (module, option)}."""
        command = [sys.executable, __file__, "--worker"]
        commands = {name: [*command, side, what, option] for name, (side, option) in sides.items()}
        times = harness.in_turns(commands, args.threads, args.rounds, args.seconds)
        return {name: 1 / t for name, t in times.items()}

    for shape in SHAPES:
        for order in ("in order", "shuffled"):
            rate = rates(shape, {side: (side, order) for side in ("pyflame", "torch")})
            results[f"{shape} {order}"] = rate
            print(
                f"arrays of {shape:<8} {order:<9} pyflame {rate['pyflame']:>11,.0f} samples/s, PyTorch "
                f"{rate['torch']:>9,.0f}, {rate['pyflame'] / rate['torch']:.1f} times as many"
            )
    sides = {f"{side} {n}": (side, str(n)) for side in ("pyflame", "torch") for n in (1, 2)}
    rate = results["slow"] = rates("slow", sides)
    for side, name in (("pyflame", "pyflame"), ("torch", "PyTorch")):
        one, two = rate[f"{side} 1"], rate[f"{side} 2"]
        print(
            f"samples of {WORK * 1e3:.0f} ms, {name:<8} one worker {one:>6,.0f} samples/s, two "
            f"{two:>6,.0f}, {two / one:.2f} times as many"
        )
    if args.json:
        harness.save_json(args.json, harness.facts(args.threads), {"samples_per_second": results})
    return 0


if __name__ == "__main__":
    sys.exit(main())
