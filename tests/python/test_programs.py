"""Programs written for PyTorch run with pyflame in torch's place.

Their losses fall, and equal PyTorch's in benchmarks/ (torch is no dependency of the tests). Here
they run twice, as usual and with PYFLAME_EAGER's oracle: the losses must be equal bit for bit.
"""

import importlib
import math
import os
import sys

import pytest

import pyflame as pf

sys.path.insert(0, os.path.dirname(__file__))

PROGRAMS = ["min_gpt", "mlp", "masked_attention", "autoencoder", "vision_transformer"]
PROGRAMS += ["char_lstm", "gan", "augmented", "graph_network", "forward_forward"]


def fill(model):
    """Weights that depend on nothing but their shapes, and no symmetry."""
    with pf.no_grad():
        for i, (name, p) in enumerate(model.named_parameters()):
            if p.dim() > 1:
                angle = pf.arange(p.numel(), dtype=pf.float64) * 12.9898 + i
                p.copy_((angle.sin() * 43758.5453).sin().view(p.shape) * 0.3)
            elif name.endswith("bias"):
                p.zero_()


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    program = importlib.import_module("programs." + name)
    losses = program.run(pf, fill)
    assert all(math.isfinite(v) for v in losses)
    assert losses[-1] < 0.8 * losses[0], losses
    falls = sum(b < a for a, b in zip(losses, losses[1:]))
    assert falls > 0.5 * len(losses)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_op_by_op(name):
    program = importlib.import_module("programs." + name)
    fused = program.run(pf, fill, steps=12) if name != "mlp" else program.run(pf, fill)
    before = pf._C._eager()
    pf._C._set_eager(True)
    try:
        strict = program.run(pf, fill, steps=12) if name != "mlp" else program.run(pf, fill)
    finally:
        pf._C._set_eager(before)
    assert fused == strict
