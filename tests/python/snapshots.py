"""One step of real models, and what the engine did for it: what test_flush_reasons.py compares.

`python snapshots.py OUT.json` runs them on PYFLAME_TEST_DEVICE in a process of its own, because
plans that other tests have left behind would not be built again.
"""

import gc
import json
import os
import sys
from types import SimpleNamespace

import pyflame as pf
import pyflame.nn as nn
import pyflame.nn.functional as F
from pyflame.training import gpt

DEVICE = os.environ.get("PYFLAME_TEST_DEVICE", "cpu")


def run_gpt():
    """The model and the step of `make run`, narrower and on shorter texts."""
    config = {
        "model": {"layers": 4, "width": 32, "heads": 4, "context": 16, "dropout": 0.0},
        "batch": 4, "lr": 3e-3, "warmup": 2, "steps": 100, "weight_decay": 0.1, "clip": 1.0,
        "seed": 1,
    }  # fmt: skip
    text = pf.tensor(list(range(256)) * 4, dtype=pf.uint8)
    return gpt.Trainer(config, SimpleNamespace(train=text)).train_step


def mlp_with_adam():
    model = nn.Sequential(
        nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 5)
    )
    optimizer = pf.optim.Adam(model.parameters(), lr=1e-3)
    x, y = pf.randn(16, 20), pf.arange(16) % 5

    def step():
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def masked_attention():
    model = nn.MultiheadAttention(24, 3, batch_first=True)
    norm = nn.LayerNorm(24)
    parameters = [*model.parameters(), *norm.parameters()]
    optimizer = pf.optim.SGD(parameters, lr=0.1, momentum=0.9)
    x = pf.randn(4, 7, 24)
    padding = pf.arange(7)[None] >= pf.tensor([7, 3, 5, 1])[:, None]

    def step():
        y, _ = model(x, x, x, key_padding_mask=padding)
        loss = (norm(x + y) * ~padding[..., None]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

    return step


def autoencoder():
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(36, 12), nn.Tanh())
    decoder = nn.Sequential(nn.Linear(12, 36), nn.Sigmoid(), nn.Unflatten(1, (6, 6)))
    optimizer = pf.optim.AdamW([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    x = pf.rand(8, 6, 6)

    def step():
        hidden = encoder(x)
        noisy = hidden + 0.1 * pf.randn_like(hidden)
        loss = F.mse_loss(decoder(noisy), x) + 1e-3 * hidden.abs().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def running_loss():
    model = nn.Linear(10, 10)
    x = pf.randn(4, 10)
    total = pf.zeros(())

    def step():
        nonlocal total
        for _ in range(20):
            total = total + (model(x) - x).square().mean().detach()

    return step


def evaluation():
    model = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.Dropout(0.5), nn.Linear(32, 5)).eval()
    batches = [(pf.randn(n, 20), pf.arange(n) % 5) for n in (16, 16, 7)]

    def step():
        right = 0
        with pf.no_grad():
            for x, y in batches:
                right += (model(x).argmax(1) == y).sum().item()

    return step


PROGRAMS = [run_gpt, mlp_with_adam, masked_attention, autoencoder, running_loss, evaluation]


def measure(make):
    """Counters of the first step, which builds plans, and of the third, which must not."""
    pf.manual_seed(0)
    step = make()
    counts = []
    for _ in range(3):
        pf.synchronize()
        pf.debug.reset_stats()
        step()
        pf.synchronize()
        stats = pf.debug.stats()
        # Which programs joined a kernel, and which kernels the one before, is the device's.
        stats.pop("joined")
        merged = stats.pop("merged")
        for name in ("kernels", "groups", "flushes", "flush.cannot_join"):
            stats[name] += merged
        counts.append({k: v for k, v in stats.items() if v})
    return {"first": counts[0], "steady": counts[2]}


def main(out):
    pf.set_device(DEVICE)
    gc.collect()
    gc.disable()  # when a tensor dies must not depend on the collector
    result = {make.__name__: measure(make) for make in PROGRAMS}
    with open(out, "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
