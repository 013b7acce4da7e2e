#!/usr/bin/env python3
"""Rows a second of `pyflame train tabular` beside the same loop in PyTorch: the same network, AdamW,
clipping and a DataLoader over arrays in memory; each in a process of its own, in turns."""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import harness

ROWS, FEATURES = 50_000, 32


def arrays():
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    return x, (x[:, 0] - 2 * x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=ROWS)).astype(np.float32)


def ours(batch):
    from types import SimpleNamespace

    from pyflame.training.tabular import Tabular

    x, y = arrays()
    table = SimpleNamespace(
        input_size=FEATURES, output_size=1, task="regression", train=(x, y), held_out=(x[:8], y[:8])
    )
    config = dict(
        hidden_layers=[128, 64], dropout=0.0, mixed_precision=False, batch_size=batch, accumulation=1,
        epochs=1000, lr=1e-3, weight_decay=0.01, clip=1.0, patience=0, seed=1,
    )  # fmt: skip
    job = Tabular(config, table)

    def step(n):
        for _ in range(n):
            loss = job.train_step()
        loss.item()

    return step


def theirs(batch):
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            sizes = [FEATURES, 128, 64, 1]
            self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
            self.norms = nn.ModuleList(nn.LayerNorm(n) for n in sizes[1:-1])

        def forward(self, x):
            for layer, norm in zip(self.layers, self.norms):
                x = norm(nn.functional.silu(layer(x)))
            return self.layers[-1](x).squeeze(-1)

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    net, data = Net(), TensorDataset(*map(torch.from_numpy, arrays()))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)

    def batches():
        while True:
            yield from DataLoader(data, batch_size=batch, shuffle=True)

    source = batches()

    def step(n):
        for _ in range(n):
            x, y = next(source)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        loss.item()

    return step


def worker(side, batch):
    step = (ours if side == "pyflame" else theirs)(batch)
    step(20)
    print("ready", flush=True)
    for line in sys.stdin:
        end, steps, began = time.perf_counter() + float(line.split()[1]), 0, time.perf_counter()
        while time.perf_counter() < end:
            step(20)
            steps += 20
        print((time.perf_counter() - began) / steps, flush=True)


def main():
    parser = harness.options(__doc__, rounds=5, seconds=0.5, worker=2)
    args = parser.parse_args()
    if args.worker:
        return worker(args.worker[0], int(args.worker[1]))
    results = {}
    for batch in (8, 32, 256, 2048):
        command = [sys.executable, __file__, "--worker"]
        sides = {side: [*command, side, str(batch)] for side in ("pyflame", "torch")}
        times = harness.in_turns(sides, args.threads, args.rounds, args.seconds)
        rate = {side: batch / t for side, t in times.items()}
        results[batch] = rate
        print(
            f"batch {batch:>4}: pyflame {rate['pyflame']:>9,.0f} rows/s, PyTorch {rate['torch']:>9,.0f}, "
            f"{rate['pyflame'] / rate['torch']:.2f} times as fast"
        )
    if args.json:
        harness.save_json(args.json, harness.facts(args.threads), {"rows_per_second": results})
    return 0


if __name__ == "__main__":
    sys.exit(main())
