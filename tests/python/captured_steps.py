"""What tests of captured steps have in common."""

import numpy as np

import pyflame as pf
import pyflame.nn.functional as F
from pyflame import nn

CAPTURED = {"mode": "reduce-overhead"}


def model(dropout=0.25, seed=1):
    pf.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(13, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(dropout), nn.Linear(16, 5)
    )


def batches(n, rows=6):
    return [(pf.randn(rows, 13), pf.randint(0, 5, (rows,))) for _ in range(n)]


def classifier_step(m, parameters=None):
    """(its AdamW, a step of training it)."""
    o = pf.optim.AdamW(parameters or m.parameters(), lr=0.01)

    def step(x, y):
        o.zero_grad()
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        o.step()
        return loss

    return o, step


def same(a, b):
    return all(
        np.array_equal(x.detach().cpu().numpy(), y.detach().cpu().numpy()) for x, y in zip(a, b)
    )


def calls(compiled):
    step = compiled._step
    return step.replays, step.always
