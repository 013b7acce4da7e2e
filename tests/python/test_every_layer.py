"""Layers that come for one, two and three dimensions, each beside PyTorch's; and that no layer is
without a test."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pyflame as pf
from pyflame import nn

RNG = np.random.default_rng(3)
# Arguments of each; inputs have four channels.
FAMILIES = {
    "AdaptiveAvgPool{d}d": ((3,), {}),
    "AdaptiveMaxPool{d}d": ((3,), {}),
    "AvgPool{d}d": ((3,), {"stride": 2, "padding": 1}),
    "BatchNorm{d}d": ((4,), {}),
    "CircularPad{d}d": ((2,), {}),
    "ConstantPad{d}d": ((1, 0.5), {}),
    "Conv{d}d": ((4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}),
    "ConvTranspose{d}d": ((4, 6, 3), {"stride": 2, "output_padding": 1, "groups": 2}),
    "InstanceNorm{d}d": ((4,), {"affine": True}),
    "LazyBatchNorm{d}d": ((), {}),
    "LazyConv{d}d": ((6, 3), {"dilation": 2}),
    "LazyConvTranspose{d}d": ((6, 3), {"padding": 1}),
    "LazyInstanceNorm{d}d": ((), {"affine": True}),
    "LPPool{d}d": ((2, 2), {}),
    "MaxPool{d}d": ((3,), {"stride": 2, "ceil_mode": True}),
    "ReflectionPad{d}d": ((2,), {}),
    "ReplicationPad{d}d": ((2,), {}),
    "ZeroPad{d}d": ((2,), {}),
}
CASES = [(name, d) for name in FAMILIES for d in (1, 2, 3)]


def signal(d):
    return RNG.standard_normal((2, 4, *range(5, 5 + d)))


def agree(ours, theirs, *arrays):
    """Results and gradients of inputs and parameters."""
    found = []
    for package, layer in ((pf, ours), (pytest.importorskip("torch"), theirs)):
        inputs = [package.tensor(a) for a in arrays]
        inputs[0].requires_grad_()
        y = layer(*inputs)
        (y * y).sum().backward()
        grads = [inputs[0].grad, *(p.grad for p in layer.parameters())]
        found.append([t.detach().numpy() for t in (y, *grads)])
    for a, b in zip(*found, strict=True):
        assert a.shape == b.shape
        assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name, d", CASES)
def test_a_layer_is_pytorchs(name, d):
    torch = pytest.importorskip("torch")
    args, options = FAMILIES[name]
    name, x = name.format(d=d), signal(d)
    ours, theirs = (
        getattr(m, name)(*args, **options, **({"dtype": t.float64} if takes_dtype(m, name) else {}))
        for m, t in ((nn, pf), (torch.nn, torch))
    )
    if name.startswith("Lazy"):
        ours(pf.tensor(x)), theirs(torch.tensor(x))
        assert type(ours).__name__ == type(theirs).__name__ == name.removeprefix("Lazy")
    ours.load_state_dict({k: pf.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    agree(ours, theirs, x)
    assert repr(ours) == repr(theirs)
    agree(ours.eval(), theirs.eval(), x)


def takes_dtype(module, name):
    return "dtype" in inspect.signature(getattr(module, name).__init__).parameters


@pytest.mark.parametrize("d", [1, 2, 3])
def test_what_was_pooled_goes_back(d):
    torch, x = pytest.importorskip("torch"), signal(d)
    found = []
    for package, layers in ((pf, nn), (torch, torch.nn)):
        pooled, at = getattr(layers, f"MaxPool{d}d")(2, return_indices=True)(package.tensor(x))
        back = getattr(layers, f"MaxUnpool{d}d")(2)(pooled, at, output_size=x.shape)
        found.append(back.numpy())
    np.testing.assert_array_equal(*found)
    assert (found[0] != 0).any()


@pytest.mark.parametrize("d", [2, 3])
def test_pools_of_drawn_windows(d):
    torch, x = pytest.importorskip("torch"), signal(d)
    at = RNG.uniform(size=(2, 4, d))
    name = f"FractionalMaxPool{d}d"
    ours, theirs = (
        getattr(m, name)(2, output_size=3, _random_samples=t.tensor(at))
        for m, t in ((nn, pf), (torch.nn, torch))
    )
    agree(ours, theirs, x)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_whole_channels_are_dropped(d):
    layer = getattr(nn, f"Dropout{d}d")(0.5)
    kept = (layer(pf.ones(50, 40, *[3] * d)) == 2).reshape(50, 40, -1)
    assert (kept.all(2) == kept.any(2)).all() and 800 < kept.any(2).sum() < 1200
    assert (layer.eval()(pf.ones(2, 4, *[3] * d)) == 1).all()


def test_no_layer_is_without_a_test():
    here = {name.format(d=d) for name, d in CASES}
    here |= {f"{name}{d}d" for name in ("MaxUnpool", "Dropout") for d in (1, 2, 3)}
    here |= {f"FractionalMaxPool{d}d" for d in (2, 3)}
    texts = [p.read_text() for p in Path(__file__).parent.rglob("*.py")]
    words = set(re.findall(r"\w+", " ".join(texts)))
    layers = {
        name
        for name, value in vars(nn).items()
        if inspect.isclass(value) and issubclass(value, nn.Module)
    }
    assert len(layers) > 150 and not layers - here - words
