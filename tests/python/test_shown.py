"""How shapes, scalars, parameters and containers are shown: the same text under both packages."""

import json

import pytest

import pyflame as pf

SHOWN = {
    "a loss": lambda t: f"{t.tensor(1.5, requires_grad=True)}",
    "a loss with digits": lambda t: f"{t.tensor(1.5, requires_grad=True) * 2:.3f}",
    "a result": lambda t: f"{t.tensor(1.5, requires_grad=True) * 2}",
    "an int": lambda t: f"{t.tensor(3):>5d}|{t.tensor(3)}",
    "a bool": lambda t: f"{t.tensor(True)}",
    "format()": lambda t: format(t.tensor(2.5), ""),
    "a vector": lambda t: f"{t.ones(1)}",
    "repr of a scalar": lambda t: repr(t.tensor(1.5, requires_grad=True)),
    "a 0-d parameter": lambda t: f"{t.nn.Parameter(t.tensor(2.0))}",
    "parameter": lambda t: repr(t.nn.Parameter(t.ones(2))),
    "frozen parameter": lambda t: repr(t.nn.Parameter(t.ones(2), requires_grad=False)),
    "repeated layers": lambda t: repr(t.nn.ModuleList([t.nn.Linear(2, 3) for _ in range(6)])),
    "some repeated": lambda t: repr(
        t.nn.ModuleList(
            [t.nn.ReLU(), t.nn.Tanh(), t.nn.Tanh()]
            + [t.nn.Sequential(t.nn.ReLU(), t.nn.Tanh()) for _ in range(2)]
        )
    ),
    "nested": lambda t: repr(
        t.nn.ModuleDict({"h": t.nn.ModuleList([t.nn.ModuleList([t.nn.ReLU()] * 2)] * 3)})
    ),
    "empty list": lambda t: repr(t.nn.ModuleList()),
    "size": lambda t: repr(t.Size([2, 3])),
    "slice": lambda t: repr(t.Size([2, 3, 4])[1:]),
    "sum": lambda t: repr(t.Size([2]) + (3,)),
    "sum from the left": lambda t: repr((1,) + t.Size([2])),
    "times": lambda t: repr(2 * t.Size([2])),
    "of bools": lambda t: repr(t.Size([True])),
    "of a tensor": lambda t: repr(t.Size(t.tensor([1, 2]))),
    "numel": lambda t: repr((t.Size([2, 3]).numel(), t.Size([]).numel())),
    "equal": lambda t: repr((t.Size([2]) == (2,), t.Size([2]) == [2], hash(t.Size([2])) == hash((2,)))),
    "json": lambda t: json.dumps(t.Size([2, 3])),
    "list": lambda t: repr(list(t.Size([2, 3]))),
    "with a list": lambda t: t.Size([2]) + [3],
    "of floats": lambda t: t.Size([1.5]),
    "of text": lambda t: t.Size("ab"),
    "digits of a vector": lambda t: f"{t.ones(2):.2f}",
    "several results": lambda t: repr(t.max(t.ones(2, 2), 1)),
    "a memory format": lambda t: f"{t.channels_last} {t.contiguous_format!r}",
    "attention": lambda t: repr(t.nn.MultiheadAttention(4, 2)),
    "rows of elements": lambda t: repr(t.eye(2).to_sparse_csr()),
    "elements": lambda t: repr(t.eye(2, dtype=t.float64).to_sparse()),
    "complex numbers": lambda t: repr(t.tensor([0.1266 + 3.166j, 2.9325 + 10.3797j, -1.0 - 0.5j])),
    "whole complex numbers": lambda t: repr(t.tensor([[10 + 3j, 2.0 - 100j], [complex("nan"), -0.0j]])),
    "many complex numbers": lambda t: repr(t.view_as_complex(t.arange(-40.0, 40.0).reshape(40, 2) / 4)),
    "a parameter's subclass": lambda t: repr(type("P", (t.nn.Parameter,), {})(t.ones(2))),
    "no elements": lambda t: repr(t.zeros(2, 2).to_sparse()) + repr(t.zeros(2, 2).to_sparse_csr()),
    "a normal distribution": lambda t: repr(t.distributions.Normal(t.zeros(1), t.ones(1))),
    "one of numbers": lambda t: repr(t.distributions.Normal(0.0, 1.0)),
    "one that is transformed": lambda t: repr(
        t.distributions.TransformedDistribution(
            t.distributions.Normal(0.0, 1.0), [t.distributions.ExpTransform()]
        )
    ),
    "transforms": lambda t: repr(
        t.distributions.ComposeTransform(
            [t.distributions.ExpTransform(), t.distributions.TanhTransform().inv]
        )
    ),
}  # fmt: skip


def text(module, name):
    try:
        return SHOWN[name](module).replace(module.__name__ + ".", "")
    except Exception as e:
        return type(e).__name__


@pytest.mark.cpu_only  # another device is shown
@pytest.mark.filterwarnings("ignore")  # PyTorch's, of numbers that require grad
@pytest.mark.parametrize("name", SHOWN)
def test_shown_as_pytorch_does(name):
    torch = pytest.importorskip("torch")
    assert text(pf, name) == text(torch, name)


def test_errors_of_sizes():
    with pytest.raises(TypeError, match="pf.Size: got a float at place 1"):
        pf.Size([1, 1.5])
    with pytest.raises(ValueError, match="64 bits"):
        pf.Size([2**70])
