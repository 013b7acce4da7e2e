#!/usr/bin/env python3
"""Trains a GPT with PyFlame and with PyTorch from the same weights on the same data, and compares every loss.

The text is that of gpt_vs_torch.py, byte by byte. Each side has a process of its own, and they take turns of some
steps: AdamW, clipping, warm-up and cosine, under bfloat16 autocast unless --float32. Both run the same program;
weights and batches are drawn by NumPy, so nothing differs but who computes. Prints the losses at the logged steps and
the largest deviation, ours beside theirs; fails where one of those is above --bound.
"""

import argparse
import contextlib
import importlib
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

SIZES = {"layers": 12, "width": 768, "heads": 12, "context": 1024, "batch": 8}


def draw_weights(torch, model, rng, layers):
    """The start of GPT-2, by NumPy."""
    import numpy as np

    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() < 2:
                continue  # norms and biases begin at ones and zeros
            deep = name.endswith(("out.weight", "down.weight"))
            scale = 0.02 / math.sqrt(2 * layers) if deep else 0.02
            drawn = rng.standard_normal(tuple(p.shape), dtype=np.float32) * scale
            p.copy_(torch.from_numpy(drawn))


def side(args):
    """One side: answers `run COUNT` with the losses of so many steps and the seconds that they took."""
    import numpy as np

    from benchmarks.gpt import GPT
    from benchmarks.gpt_vs_torch import text_of

    torch = importlib.import_module(args.side)
    gpu = args.device != "cpu"
    if hasattr(torch, "set_device"):
        torch.set_device(args.device)
    elif gpu:
        torch.set_default_device("cuda")  # where the model makes its positions
    synchronize = torch.cuda.synchronize if gpu else getattr(torch, "synchronize", lambda: None)
    device = ("cuda" if args.side == "torch" else args.device) if gpu else "cpu"
    rng = np.random.default_rng(args.seed)
    train = np.frombuffer(text_of(args.data)[0], np.uint8)
    model = GPT(torch, args.layers, args.width, args.heads, args.context)
    draw_weights(torch, model, rng, args.layers)
    model = model.to(device)
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95))
    spans = np.arange(args.context + 1)

    def batch():
        starts = rng.integers(0, len(train) - args.context - 1, args.batch)
        block = train[starts[:, None] + spans].astype(np.int64)
        halves = block[:, :-1].copy(), block[:, 1:].copy()
        return [torch.from_numpy(h).to(device) for h in halves]

    def region():
        if args.float32:
            return contextlib.nullcontext()
        return torch.autocast(device_type="cuda" if gpu else "cpu", dtype=torch.bfloat16)

    def step(i):
        warm = min(1.0, (i + 1) / max(1, args.steps // 10))
        rate = args.lr * warm * (0.1 + 0.45 * (1 + math.cos(math.pi * i / args.steps)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        x, y = batch()
        with region():
            loss = torch.nn.functional.cross_entropy(model(x).view(-1, 256), y.view(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    print("ready", flush=True)
    done = 0
    for line in sys.stdin:
        count = int(line.split()[1])
        start = time.perf_counter()
        losses = [step(done + i) for i in range(count)]
        synchronize()
        seconds = time.perf_counter() - start
        done += count
        print(json.dumps([[float(v.item()) for v in losses], seconds]), flush=True)
    return 0


def default_device():
    import pyflame as pf

    return "rocm" if pf.cuda.is_available() else "cpu"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument(
        "--every", type=int, default=10, help="steps from one logged loss to the next"
    )
    parser.add_argument("--turn", type=int, default=50, help="steps of one turn")
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bound", type=float, default=0.01, help="the largest deviation, relative")
    parser.add_argument("--float32", action="store_true", help="without autocast")
    parser.add_argument("--data", metavar="FILE", help="another text")
    parser.add_argument("--device", help="default: the GPU, or the CPU when there is none")
    parser.add_argument("--json", metavar="FILE", help="write all losses here")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    for name, size in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    args = parser.parse_args()
    if args.side:
        return side(args)
    from benchmarks import harness

    args.device = args.device or default_device()
    given = [f"--device={args.device}", *sys.argv[1:]]
    command = [sys.executable, os.path.abspath(__file__), *given]
    sides = {
        name: subprocess.Popen(
            [*command, "--side", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in ("pyflame", "torch")
    }
    losses, seconds = {name: [] for name in sides}, dict.fromkeys(sides, 0.0)
    for name, process in sides.items():
        if process.stdout.readline().strip() != "ready":
            raise SystemExit(f"{name} did not start")
    while (left := args.steps - len(losses["torch"])) > 0:
        for name, process in sides.items():
            print("run", min(left, args.turn), file=process.stdin, flush=True)
            answer = process.stdout.readline()
            if not answer:
                raise SystemExit(f"{name} ended after {len(losses[name])} steps")
            new, spent = json.loads(answer)
            losses[name] += new
            seconds[name] += spent
    for process in sides.values():
        process.stdin.close()
        process.wait()
    ours, theirs = losses["pyflame"], losses["torch"]
    off = [abs(a - b) / b for a, b in zip(ours, theirs)]
    logged = [*range(args.every - 1, args.steps, args.every)]
    print(f"{'step':>6}  {'pyflame':>9}  {'torch':>9}  deviation")
    for i in logged:
        print(f"{i + 1:>6}  {ours[i]:9.4f}  {theirs[i]:9.4f}  {off[i]:8.3%}")
    worst = max(logged, key=off.__getitem__)
    print(
        f"largest deviation of {len(logged)} logged steps: {off[worst]:.3%} (step {worst + 1}); "
        f"of all {args.steps}: {max(off):.3%}; mean {sum(off) / len(off):.3%}; "
        f"seconds: {seconds['pyflame']:.1f} and {seconds['torch']:.1f}"
    )
    if args.json:
        facts = harness.facts(os.cpu_count() or 1) | {"device": args.device}
        facts |= {name: getattr(args, name) for name in (*SIZES, "steps", "lr", "seed", "float32")}
        if args.device != "cpu":
            import torch

            facts["device"] = torch.cuda.get_device_name()
        harness.save_json(args.json, facts, [{"losses": losses, "seconds": seconds}])
    return 0 if off[worst] <= args.bound else 1


if __name__ == "__main__":
    sys.exit(main())
