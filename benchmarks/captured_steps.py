#!/usr/bin/env python3
"""Steps of GPTs on the CPU, captured (pf.compile, mode="reduce-overhead") beside recorded: in one process, in turns.

Processor time of this process is what other work on the machine disturbs least; with --threads 1 it is
the step's time. --memory measures each side, and PyTorch, in a process of its own: the largest resident
size within the first eight steps, without what the process had before the model was made.
"""

import argparse
import importlib.util
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.gpt import GPT

# layers, width, heads, context, batch
SIZES = {
    "2 x 64": (2, 64, 4, 32, 4),
    "4 x 128": (4, 128, 4, 128, 16),
    "6 x 384": (6, 384, 6, 256, 8),
}


def step_of(torch, size, bf16, captured):
    layers, width, heads, context, batch = SIZES[size]
    torch.manual_seed(1)
    model = GPT(torch, layers, width, heads, context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    x, y = torch.randint(0, 256, (batch, context)), torch.randint(0, 256, (batch, context))

    def step(x, y):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            loss = torch.nn.functional.cross_entropy(model(x).view(-1, 256), y.view(-1))
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step, mode="reduce-overhead") if captured else step
    return lambda: step(x, y).item()


def turns(size, bf16, threads, rounds):
    import pyflame as pf

    pf.set_num_threads(threads)
    steps = [step_of(pf, size, bf16, captured) for captured in (False, True)]
    for step in steps:
        for _ in range(5):
            step()
    times = [[], []]
    for _ in range(rounds):
        for step, spent in zip(steps, times):
            began = time.process_time()
            step()
            spent.append(time.process_time() - began)
    recorded, captured = map(statistics.median, times)
    ratio = statistics.median(a / b for a, b in zip(*times))
    print(
        f"{size}{' bfloat16' if bf16 else '':9} {threads} threads: recorded {recorded * 1e3:.2f} ms of the "
        f"processor, captured {captured * 1e3:.2f}, ratio {ratio:.3f}",
        flush=True,
    )


def peak(module, captured, size, bf16):
    """In a process of its own: MiB."""
    torch = importlib.import_module(module)
    torch.set_num_threads(2)
    torch.randn(10).sum().item()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step = step_of(torch, size, bf16, captured)
    for _ in range(8):
        step()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def memory(size, bf16):
    def measured(module, captured):
        command = [
            sys.executable,
            __file__,
            "--peak",
            module,
            str(int(captured)),
            size,
            str(int(bf16)),
        ]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    sides = {
        "recorded": measured("pyflame", False),
        "captured": measured("pyflame", True),
    }
    if importlib.util.find_spec("torch"):
        sides["PyTorch"] = measured("torch", False)
    text = ", ".join(f"{name} {mib:.0f} MiB" for name, mib in sides.items())
    print(f"{size}{' bfloat16' if bf16 else '':9} peak: {text}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", action="append", choices=SIZES, help="repeatable; all by default")
    parser.add_argument("--bf16", action="store_true", help="under autocast")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--memory", action="store_true", help="peaks, not times")
    parser.add_argument("--peak", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak:
        module, captured, size, bf16 = args.peak
        return peak(module, captured == "1", size, bf16 == "1")
    for size in args.size or SIZES:
        if args.memory:
            memory(size, args.bf16)
        else:
            turns(size, args.bf16, args.threads, args.rounds)


if __name__ == "__main__":
    main()
