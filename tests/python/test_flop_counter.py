"""torch.utils.flop_counter: counts of products, convolutions and attention, beside PyTorch's."""

import importlib
import importlib.util

import pytest

import pyflame as pf
from pyflame._torch.only.utils import flop_counter

BOTH = ["pyflame"] + ["torch"] * bool(importlib.util.find_spec("torch"))


def count(name, run, **options):
    """What a package counts of run(package), by module, operators as text."""
    t = importlib.import_module(name)
    where = (
        flop_counter if name == "pyflame" else importlib.import_module("torch.utils.flop_counter")
    )
    with where.FlopCounterMode(display=False, **options) as counter:
        run(t)
    found = counter.get_flop_counts()
    assert counter.get_total_flops() == sum(found.get("Global", {}).values())
    return {module: {str(k): v for k, v in counts.items()} for module, counts in found.items()}


def conv(t, make, *shape):
    make(t.nn)(t.ones(*shape, requires_grad=True)).sum().backward()


def matrices(t):
    a, b = (t.ones(*s, requires_grad=True) for s in ((3, 4, 5), (3, 5, 6)))
    t.einsum("bij,bjk->bik", a, b).sum().backward()
    (a.detach() @ b).sum().backward()
    t.mm(t.ones(4, 5), t.ones(5, 6))
    t.addmm(t.ones(6), t.ones(4, 5), t.ones(5, 6))


def layers(t):
    m = t.nn.Sequential(t.nn.Linear(8, 16), t.nn.ReLU(), t.nn.Linear(16, 4, bias=False))
    m(t.ones(3, 5, 8)).pow(2).sum().backward()


def twice(t):
    w = t.ones(4, 4, requires_grad=True)
    (g,) = t.autograd.grad((w @ w).pow(2).sum(), w, create_graph=True)
    g.sum().backward()


# Name: what runs, and all that it calculates (None: what PyTorch counts).
CASES = {
    "matrices": (matrices, 5 * 2 * 360 + 2 * 2 * 120),
    "layers": (layers, 2 * 15 * (128 * 2 + 64 * 3)),
    "conv1d": (
        lambda t: conv(t, lambda nn: nn.Conv1d(4, 6, 3, 2, 1), 2, 4, 9),
        3 * 2 * 2 * 5 * 6 * 12,
    ),
    "conv2d": (
        lambda t: conv(t, lambda nn: nn.Conv2d(4, 6, (3, 2), dilation=2), 2, 4, 9, 8),
        3 * 2 * 2 * 30 * 6 * 24,
    ),
    "conv3d": (
        lambda t: conv(t, lambda nn: nn.Conv3d(1, 2, 2), 1, 1, 3, 3, 3),
        3 * 2 * 8 * 2 * 8,
    ),
    "transposed": (
        lambda t: conv(t, lambda nn: nn.ConvTranspose2d(4, 6, 3, 2), 2, 4, 5, 3),
        3 * 2 * 2 * 15 * 4 * 54,
    ),
    "second derivatives": (twice, None),
    "nothing": (lambda t: t.ones(3).exp() + 1, 0),
    "empty": (lambda t: t.ones(0, 3) @ t.ones(3, 4), 0),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_counts(name, device):
    run, total = CASES[name]

    def there(t):
        with t.device(device):
            run(t)

    ours = count("pyflame", there)
    if total is not None:
        assert sum(ours.get("Global", {}).values()) == total
    if "torch" in BOTH:
        theirs = count("torch", there)
        assert ours == {k: v for k, v in theirs.items() if v} or (not total and not ours)


def test_grouped_weights_count_what_they_are():
    """PyTorch counts products between all groups for the weight's gradient."""
    run = lambda t: conv(t, lambda nn: nn.Conv1d(4, 6, 3, groups=2), 2, 4, 9)  # noqa: E731
    one = 2 * 2 * 7 * 6 * 6
    assert count("pyflame", run)["Global"] == {
        "aten.convolution": one, "aten.convolution_backward": 2 * one,
    }  # fmt: skip


def test_attention():
    """PyTorch's formulas: 2 products forward and 5 backward; its kernel of the CPU is not counted there."""
    b, h, queries, keys, e, ev = 2, 4, 7, 9, 8, 6
    q = pf.ones(b, h, queries, e, requires_grad=True)
    k = pf.ones(b, h, keys, e, requires_grad=True)
    v = pf.ones(b, h, keys, ev)
    attention = pf.nn.functional.scaled_dot_product_attention
    found = count("pyflame", lambda t: attention(q, k, v).sum().backward())["Global"]
    pairs = 2 * b * h * queries * keys
    assert found == {
        "aten._scaled_dot_product_flash_attention": pairs * (e + ev),
        "aten._scaled_dot_product_flash_attention_backward": pairs * (3 * e + 2 * ev),
    }
    if "torch" in BOTH:
        from torch.utils import flop_counter as theirs

        shapes = (b, h, queries, e), (b, h, keys, e), (b, h, keys, ev)
        assert theirs.sdpa_flop_count(*shapes) == pairs * (e + ev)
        backward = theirs.sdpa_backward_flop_count((b, h, queries, ev), *shapes)
        assert backward == pairs * (3 * e + 2 * ev)


def test_sequences_of_several_lengths():
    from pyflame.nn.attention.varlen import varlen_attn

    starts = pf.tensor([0, 3, 4, 9], dtype=pf.int32)
    x = pf.ones(9, 2, 8)
    found = count("pyflame", lambda t: varlen_attn(x, x, x, starts, starts, 5, 5))["Global"]
    assert sum(found.values()) == 2 * 2 * (9 + 1 + 25) * 16


@pytest.mark.parametrize("kind,gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent(kind, gates):
    layer, x = getattr(pf.nn, kind)(5, 6), pf.ones(4, 2, 5)
    found = count("pyflame", lambda t: layer(x))["Global"]
    assert sum(found.values()) == 2 * 4 * 2 * gates * 6 * (5 + 6)


@pytest.mark.parametrize("name", BOTH)
def test_modules(name):
    t = importlib.import_module(name)

    class Block(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = t.nn.Linear(8, 16), t.nn.Linear(16, 8)

        def forward(self, x):
            return self.b(self.a(x).relu())

    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.rest = Block(), t.nn.Sequential(Block(), Block())

        def forward(self, x):
            return self.rest(self.first(x))

    def run(t):
        net(t.ones(3, 8)).sum().backward()
        t.ones(2, 2) @ t.ones(2, 2)

    net, one = Net(), 2 * 3 * 8 * 16
    assert count(name, run) == {
        "Global": {"aten.addmm": 6 * one, "aten.mm": 11 * one + 16},
        "Net": {"aten.addmm": 6 * one, "aten.mm": 11 * one},
        "Net.first": {"aten.addmm": 2 * one, "aten.mm": 3 * one},
        "Net.first.a": {"aten.addmm": one, "aten.mm": one},
        "Net.first.b": {"aten.addmm": one, "aten.mm": 2 * one},
        "Net.rest": {"aten.addmm": 4 * one, "aten.mm": 8 * one},
        **{f"Net.rest.{i}": {"aten.addmm": 2 * one, "aten.mm": 4 * one} for i in (0, 1)},
        **{
            f"Net.rest.{i}.{n}": {"aten.addmm": one, "aten.mm": 2 * one}
            for i in (0, 1)
            for n in "ab"
        },
    }


def test_the_table(capsys):
    net = pf.nn.Sequential(pf.nn.Sequential(pf.nn.Linear(1000, 2000, bias=False)))
    with flop_counter.FlopCounterMode(depth=2) as counter:
        net(pf.ones(10, 1000))
    with flop_counter.FlopCounterMode() as nothing:
        pass
    assert nothing.get_total_flops() == 0
    assert capsys.readouterr().out.splitlines() == [
        "Module            FLOP  % Total",
        "-------------  -------  -------",
        "Sequential     40.000M  100.00%",
        " - aten.mm     40.000M  100.00%",
        " Sequential.0  40.000M  100.00%",
        "  - aten.mm    40.000M  100.00%",
        "Module  FLOP  % Total",
        "------  ----  -------",
        "Global     0       0%",
    ]
    assert counter.get_table(depth=1).count("Sequential") == 1
    assert counter.get_table(depth=9).count("Sequential") == 3


def test_within_each_other_and_only_within():
    a = pf.ones(3, 3)
    with flop_counter.FlopCounterMode(display=False) as outer:
        a @ a
        with flop_counter.FlopCounterMode(display=False) as inner:
            a @ a
    a @ a
    assert (outer.get_total_flops(), inner.get_total_flops()) == (108, 54)
    with inner:
        pass
    assert inner.get_total_flops() == 0
    with pytest.raises(ZeroDivisionError), inner:
        a @ a
        raise ZeroDivisionError
    assert inner.get_total_flops() == 54


def test_what_is_refused():
    with pytest.raises(pf.NotSupportedError, match="custom_mapping"):
        flop_counter.FlopCounterMode(custom_mapping={"x": 1})
    with pytest.raises(pf.NotSupportedError, match="kernels are counted"):
        flop_counter.register_flop_formula(None)
