#!/usr/bin/env python3
"""Runs the programs of tests/python/programs with PyTorch and with PyFlame and compares losses.

Usage: python benchmarks/programs.py        (needs torch, the CPU build is enough)
"""

import importlib
import json
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests" / "python"
PROGRAMS = ["min_gpt", "mlp", "masked_attention", "autoencoder", "vision_transformer"]
PROGRAMS += ["char_lstm", "gan", "graph_network", "forward_forward"]
TOLERANCE = 1e-4


def fill(torch, model):
    """Weights that depend on nothing but their shapes."""
    with torch.no_grad():
        for i, (name, p) in enumerate(model.named_parameters()):
            if p.dim() > 1:
                angle = torch.arange(p.numel(), dtype=torch.float64) * 12.9898 + i
                p.copy_((angle.sin() * 43758.5453).sin().view(p.shape) * 0.3)
            elif name.endswith("bias"):
                p.zero_()


def losses(module):
    sys.path.insert(0, str(TESTS))
    torch = importlib.import_module(module)
    run = {name: importlib.import_module("programs." + name).run for name in PROGRAMS}
    print(json.dumps({n: f(torch, lambda model: fill(torch, model)) for n, f in run.items()}))


def main():
    if len(sys.argv) > 1:
        return losses(sys.argv[1])
    sides = []
    for module in ("torch", "pyflame"):
        command = [sys.executable, __file__, module]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        sides.append(json.loads(out.splitlines()[-1]))
    worst = 0.0
    for name in PROGRAMS:
        pairs = list(zip(*(side[name] for side in sides)))
        difference = max(abs(a - b) / abs(a) for a, b in pairs)
        worst = max(worst, difference)
        print(
            f"{name:20} {len(pairs)} steps, loss {pairs[0][0]:.4f} to {pairs[-1][0]:.4f}, "
            f"largest relative difference {difference:.1e}"
        )
    return 0 if worst < TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
