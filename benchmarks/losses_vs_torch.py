#!/usr/bin/env python3
"""Trains a GPT with PyFlame and with PyTorch from the same weights on the same data, and compares every loss.

The text is that of gpt_vs_torch.py, byte by byte. Each side has a process of its own, and they take turns of some
steps: AdamW, clipping and nanoGPT's schedule, under bfloat16 autocast unless --float32. All run the same program;
weights and batches are drawn by NumPy, so nothing differs but who computes. Prints the losses at the logged steps and
the largest deviation, ours beside theirs; fails where one of those is above --bound.

Further sides are PyTorch with another of its own kernels for attention: how far they deviate from PyTorch is how far
rounding alone carries losses apart (much further with --warm-up 50 --decay 500). --gradients compares single steps instead, at the start and after --steps of
PyTorch's training: errors of every parameter's gradient against PyTorch in float64, so nothing has had time to grow.
"""

import argparse
import contextlib
import importlib
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

# PyTorch's kernel for attention, where it is not left to PyTorch.
SIDES = {
    "pyflame": None,
    "torch": None,
    "torch/efficient": "EFFICIENT_ATTENTION",
    "torch/math": "MATH",
}
REFERENCE = "torch/float64"
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


def rate_at(args, i):
    warm, least = args.warm_up, args.lr / 10
    if i < warm:
        return args.lr * (i + 1) / (warm + 1)
    done = min(1.0, (i - warm) / max(1, args.decay - warm))
    return least + 0.5 * (1 + math.cos(math.pi * done)) * (args.lr - least)


class Side:
    """In a process of its own; answers commands with a line of JSON each."""

    def __init__(self, args):
        import numpy as np

        from benchmarks.gpt import GPT, decay_groups
        from benchmarks.gpt_vs_torch import text_of

        self.args, self.done = args, 0
        self.torch = torch = importlib.import_module(args.side.split("/")[0])
        gpu = args.device != "cpu"
        if hasattr(torch, "set_device"):
            torch.set_device(args.device)
        elif gpu:
            torch.set_default_device("cuda")  # where the model makes its positions
        none = contextlib.nullcontext
        self.synchronize = torch.cuda.synchronize if gpu else getattr(torch, "synchronize", none)
        ours = args.side == "pyflame"
        self.device = (args.device if ours else "cuda") if gpu else "cpu"
        self.rng = np.random.default_rng(args.seed)
        self.text = np.frombuffer(text_of(args.data)[0], np.uint8)
        self.spans = np.arange(args.context + 1)
        self.model = GPT(torch, args.layers, args.width, args.heads, args.context)
        draw_weights(torch, self.model, self.rng, args.layers)
        self.model = self.model.to(self.device)
        if args.side == REFERENCE:
            self.model = self.model.double()
        self.optimizer = torch.optim.AdamW(decay_groups(self.model), lr=args.lr, betas=(0.9, 0.95))
        autocast = {"device_type": "cuda" if gpu else "cpu", "dtype": torch.bfloat16}
        autocast["enabled"] = not args.float32 and args.side != REFERENCE
        self.precision = lambda: torch.autocast(**autocast)
        self.attention = none
        if (kernel := SIDES.get(args.side)) and not ours:
            from torch.nn.attention import SDPBackend, sdpa_kernel

            self.attention = lambda: sdpa_kernel(getattr(SDPBackend, kernel))

    def backward(self):
        """The gradients of the next batch; returns its loss."""
        import numpy as np

        torch, args = self.torch, self.args
        starts = self.rng.integers(0, len(self.text) - args.context - 1, args.batch)
        block = self.text[starts[:, None] + self.spans].astype(np.int64)
        halves = block[:, :-1].copy(), block[:, 1:].copy()
        x, y = [torch.from_numpy(h).to(self.device) for h in halves]
        self.optimizer.zero_grad(set_to_none=True)
        with self.attention():
            with self.precision():
                loss = torch.nn.functional.cross_entropy(self.model(x).view(-1, 256), y.view(-1))
            loss.backward()
        return loss.detach()

    def step(self):
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(self.args, self.done)
        self.done += 1
        loss = self.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def run(self, count):
        start = time.perf_counter()
        losses = [self.step() for _ in range(int(count))]
        self.synchronize()
        seconds = time.perf_counter() - start
        return [[float(v.item()) for v in losses], seconds]

    def weights(self, file):
        import numpy as np

        np.savez(file, **{n: p.detach().cpu().numpy() for n, p in self.model.named_parameters()})

    def gradients(self, weights, seed, file):
        import numpy as np

        with np.load(weights) as kept, self.torch.no_grad():
            for name, p in self.model.named_parameters():
                p.copy_(self.torch.from_numpy(kept[name]))
        self.rng = np.random.default_rng(int(seed))
        loss = self.backward()
        found = {n: p.grad.detach().cpu().numpy() for n, p in self.model.named_parameters()}
        np.savez(file, **found)
        return float(loss.item())

    def answer(self):
        print('"ready"', flush=True)
        for line in sys.stdin:
            command, *rest = line.split()
            print(json.dumps(getattr(self, command)(*rest)), flush=True)
        return 0


class Process:
    def __init__(self, args, name):
        given = [f"--device={args.device}", *sys.argv[1:], "--side", name]
        self.name = name
        self.pipe = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def answer(self):
        line = self.pipe.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended")
        return json.loads(line)

    def ask(self, *command):
        print(*command, file=self.pipe.stdin, flush=True)
        return self.answer()

    def close(self):
        self.pipe.stdin.close()
        self.pipe.wait()


def compare_losses(args, sides):
    """Deviations from "torch" at the logged steps, of every side; returns ours."""
    losses, seconds = {name: [] for name in sides}, dict.fromkeys(sides, 0.0)
    while (left := args.steps - len(losses["torch"])) > 0:
        for name, process in sides.items():
            new, spent = process.ask("run", min(left, args.turn))
            losses[name] += new
            seconds[name] += spent
    theirs = losses["torch"]
    off = {
        name: [abs(a - b) / b for a, b in zip(found, theirs)]
        for name, found in losses.items()
        if name != "torch"
    }
    logged = [*range(args.every - 1, args.steps, args.every)]
    print(f"{'step':>6}  {'torch':>9}  deviation of " + ", ".join(off))
    for i in logged:
        print(f"{i + 1:>6}  {theirs[i]:9.4f}  " + "  ".join(f"{d[i]:7.3%}" for d in off.values()))
    for name, d in off.items():
        worst = max(logged, key=d.__getitem__)
        bound = sum(d[i] > args.bound for i in logged)
        print(
            f"{name}: largest deviation of {len(logged)} logged steps {d[worst]:.3%} (step {worst + 1}), "
            f"{bound} above {args.bound:.0%}; of all {args.steps} {max(d):.3%}, mean {statistics.fmean(d):.3%}"
        )
    print("seconds: " + ", ".join(f"{name} {s:.1f}" for name, s in seconds.items()))
    if args.json:
        from benchmarks import harness

        facts = harness.facts(os.cpu_count() or 1) | {"device": args.device}
        kept = (*SIZES, "steps", "lr", "warm_up", "decay", "seed", "float32")
        facts |= {name: getattr(args, name) for name in kept}
        if args.device != "cpu":
            import torch

            facts["device"] = torch.cuda.get_device_name()
        harness.save_json(args.json, facts, [{"losses": losses, "seconds": seconds}])
    return max(off["pyflame"][i] for i in logged)


def compare_gradients(args, sides):
    """Errors of gradients beside those in float64; returns the largest ratio of our error to PyTorch's."""
    import numpy as np

    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/weights.npz"
        for steps in (0, args.steps):
            if steps:
                sides["torch"].ask("run", steps)
            sides["torch"].ask("weights", file)
            errors, along = {}, {}  # by side and parameter: of several batches
            for seed in range(args.batches):
                found = {}
                for name, process in sides.items():
                    to = f"{folder}/{name.replace('/', '-')}.npz"
                    process.ask("gradients", file, 1000 + seed, to)
                    with np.load(to) as kept:
                        found[name] = {k: kept[k].astype(np.float64).ravel() for k in kept}
                right = found.pop(REFERENCE)
                for (name, gradients), p in itertools.product(found.items(), right):
                    size = np.linalg.norm(right[p])
                    error = np.linalg.norm(gradients[p] - right[p]) / size
                    errors.setdefault(name, {}).setdefault(p, []).append(error)
                    length = gradients[p] @ right[p] / size**2 - 1
                    along.setdefault(name, {}).setdefault(p, []).append(length)
            print(
                f"after {steps} steps, {args.batches} batches; error |g - g64| / |g64| of a parameter's gradient:"
            )
            mean = {
                name: {p: statistics.fmean(v) for p, v in e.items()} for name, e in errors.items()
            }
            for name, e in mean.items():
                bias = [statistics.fmean(v) for v in along[name].values()]
                print(
                    f"{name:16} mean {statistics.fmean(e.values()):.3e}  largest {max(e.values()):.3e} "
                    f"({max(e, key=e.get)})  length off by {statistics.fmean(bias):+.2e} in the mean, "
                    f"{max(bias, key=abs):+.2e} at most"
                )
            ratio = {p: mean["pyflame"][p] / max(e, 1e-30) for p, e in mean["torch"].items()}
            ratios += ratio.values()
            print(
                f"  ours over torch's: median {statistics.median(ratio.values()):.3f}, of {len(ratio)} parameters "
                f"{sum(r > 1.05 for r in ratio.values())} above 1.05; the most:"
            )
            for p in sorted(ratio, key=ratio.get)[-8:]:
                rest = ", ".join(f"{name} {e[p]:.3e}" for name, e in mean.items())
                print(f"    {ratio[p]:.3f}  {p}: {rest}")
    return max(ratios)


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
    parser.add_argument("--warm-up", type=int, default=2000, help="steps")
    parser.add_argument(
        "--decay", type=int, default=600000, help="steps until a tenth of the rate is left"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bound", type=float, default=0.01, help="the largest deviation, relative")
    parser.add_argument("--float32", action="store_true", help="without autocast")
    parser.add_argument("--beside", nargs="*", default=["torch/math"], help="more sides")
    parser.add_argument("--gradients", action="store_true", help="compare gradients, not losses")
    parser.add_argument("--batches", type=int, default=4, help="of --gradients")
    parser.add_argument("--data", metavar="FILE", help="another text")
    parser.add_argument("--device", help="default: the GPU, or the CPU when there is none")
    parser.add_argument("--json", metavar="FILE", help="write all losses here")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    for name, size in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    args = parser.parse_args()
    if args.side:
        return Side(args).answer()
    args.device = args.device or default_device()
    names = ["pyflame", "torch", *args.beside, *([REFERENCE] if args.gradients else [])]
    sides = {name: Process(args, name) for name in names}
    for process in sides.values():
        process.answer()
    compare = compare_gradients if args.gradients else compare_losses
    worst = compare(args, sides)
    for process in sides.values():
        process.close()
    return 0 if args.gradients or worst <= args.bound else 1


if __name__ == "__main__":
    sys.exit(main())
