#!/usr/bin/env python3
"""Trains the same byte-level GPT on the same text for the same minutes with PyFlame and PyTorch.

The text is the source of Python's standard library (or --data FILE); every 20th file is held out.
Both sides run the same program (benchmarks/gpt.py and this file) in processes of their own, in
turns of a few seconds each, so that the machine's fast and slow minutes fall on both. The learning
rate follows a cosine over each side's own training time. Prints bits per byte on the held-out part.
"""

import argparse
import importlib
import importlib.util
import json
import math
import os
import sys
import sysconfig
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def text_of(data):
    """Training and held-out bytes."""
    if data:
        text = Path(data).read_bytes()
        cut = len(text) * 19 // 20
        return text[:cut], text[cut:]
    train, held = [], []
    root = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(p for p in root.rglob("*.py") if "site-packages" not in p.parts)
    for i, p in enumerate(files):
        (held if i % 20 == 7 else train).append(p.read_bytes())
    return b"\n".join(train), b"\n".join(held)


def side(args):
    """One side: answers `run SECONDS` with the seconds used, `done` with its result."""
    import numpy as np

    from benchmarks.gpt import GPT

    torch = importlib.import_module(args.side.removesuffix("-compiled"))
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    train, held = (np.frombuffer(t, np.uint8) for t in text_of(args.data))
    rng = np.random.default_rng(1)
    model = GPT(torch, args.layers, args.width, args.heads, args.context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.1)
    F = torch.nn.functional
    synchronize = getattr(torch, "synchronize", lambda: None)
    spans = np.arange(args.context + 1)
    run = torch.compile(model) if args.side.endswith("-compiled") else model

    def batch():
        starts = rng.integers(0, len(train) - args.context - 1, args.batch)
        block = train[starts[:, None] + spans].astype(np.int64)
        return torch.from_numpy(block[:, :-1].copy()), torch.from_numpy(block[:, 1:].copy())

    def loss_of(x, y):
        return F.cross_entropy(run(x).view(-1, 256), y.reshape(-1))

    def step(progress):
        warm = min(1.0, progress / 0.02 + 0.05)
        rate = args.lr * warm * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * progress)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss_of(*batch()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    state = rng.bit_generator.state
    for _ in range(3):  # warm-up, not kept: the data begin anew
        loss_of(*batch()).backward()
        optimizer.zero_grad()
    rng.bit_generator.state = state
    synchronize()
    print("ready", flush=True)
    used, steps = 0.0, 0
    budget = args.minutes * 60
    for line in sys.stdin:
        command = line.split()
        if command[0] == "run":
            stop = min(used + float(command[1]), budget)
            while used < stop:
                start = time.perf_counter()
                step(used / budget)
                synchronize()
                used += time.perf_counter() - start
                steps += 1
            print(used, flush=True)
        elif command[0] == "done":
            model.eval()
            total, count = 0.0, 0
            windows = min(1024, (len(held) - 1) // args.context)
            with torch.no_grad():
                for i in range(0, windows - 15, 16):
                    at = (i + np.arange(16)) * args.context
                    block = held[at[:, None] + spans].astype(np.int64)
                    x = torch.from_numpy(block[:, :-1].copy())
                    y = torch.from_numpy(block[:, 1:].copy())
                    total += loss_of(x, y).item()
                    count += 1
            print(total / count / math.log(2), flush=True)
        elif command[0] == "steps":
            print(steps, flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=4.5, help="training time of each side")
    parser.add_argument("--data", metavar="FILE", help="another text")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--turn", type=float, default=10.0, help="seconds of one turn")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument(
        "--compiled", action="store_true", help="a third side: PyTorch with torch.compile"
    )
    parser.add_argument("--side", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        return side(args)
    from benchmarks import harness

    modules = ["pyflame"]
    if importlib.util.find_spec("torch"):
        modules += ["torch", "torch-compiled"] if args.compiled else ["torch"]
    else:
        print("PyTorch is not installed (tools/setup.sh bench): training PyFlame alone")
    facts = harness.facts(args.threads)
    print(f"{facts['date']}, {facts['cpu']}, {args.threads} threads, commit {facts['commit']}")
    own = sys.argv[1:]
    sides = {
        m: harness.Side(
            [sys.executable, str(Path(__file__).resolve()), *own, "--side", m],
            harness.environment(args.threads),
        )
        for m in modules
    }
    for s in sides.values():
        s.answer()
    budget = args.minutes * 60
    used = dict.fromkeys(modules, 0.0)
    while any(used[m] < budget and not sides[m].error for m in modules):
        for m, s in sides.items():
            if used[m] < budget:
                used[m] = s.ask(f"run {args.turn}") or budget
    results = {}
    for m, s in sides.items():
        steps, bits = s.ask("steps"), s.ask("done")
        if s.error:
            print(f"{m}: failed: {s.error}")
        else:
            results[m] = {"steps": int(steps), "bits_per_byte": bits, "seconds": used[m]}
            seen = steps * args.batch * args.context / 1e6
            print(
                f"{m:<14} {int(steps)} steps, {seen:.2f} MB seen in {used[m]:.0f} s, "
                f"held-out: {bits:.3f} bits per byte"
            )
        s.close()
    if args.json:
        Path(args.json).write_text(json.dumps({"facts": facts, "results": results}, indent=1))
    others = [r["bits_per_byte"] for m, r in results.items() if m != "pyflame"]
    if others and "pyflame" in results:
        better = results["pyflame"]["bits_per_byte"] < min(others)
        print("PyFlame is better" if better else "PyTorch is better")
        return 0 if better else 1
    return 0 if "pyflame" in results else 1


if __name__ == "__main__":
    sys.exit(main())
