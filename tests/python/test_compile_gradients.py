"""pf.compile: which tensors have gradients behind a captured step, and which tensors its results are, is as
without it."""

import pytest
from captured_steps import CAPTURED, calls

import pyflame as pf
from pyflame import nn


def bits(v):
    if not isinstance(v, pf.Tensor):
        return v
    return v.requires_grad, v.detach().cpu().numpy().tobytes()


def both(make):
    """What each call gives, with and without: `make(wrap)` yields tensors and other values."""
    compiled = []

    def wrap(f):
        compiled.append(pf.compile(f, **CAPTURED))
        return compiled[-1]

    def run(wrap):
        pf.manual_seed(4)
        return [[bits(v) for v in values] for values in make(wrap)]

    for n, (want, got) in enumerate(zip(run(lambda f: f), run(wrap), strict=True)):
        assert want == got, n
    return compiled[0]


@pytest.mark.filterwarnings("ignore:pf.compile:UserWarning")
@pytest.mark.parametrize(
    "kind", ["result", "argument", "with a weight", "tensor outside", "no grad"]
)
def test_writes_to_tensors_that_have_a_gradient(kind):
    """A replay writes the values, and leaves the graph behind the tensor as it is."""

    def make(wrap):
        w, held = nn.Parameter(pf.randn(3)), pf.zeros(3)

        def step(x):
            if kind == "with a weight":
                x.add_(w)
            elif kind == "tensor outside":
                held.copy_(x).mul_(w)
                return held.sum()
            elif kind == "no grad":
                with pf.no_grad():
                    x.mul_(3)
            else:
                x.mul_(3)
            return x if kind == "result" else (x * w).sum()

        call = wrap(step)
        for _ in range(7):
            leaf = pf.randn(3, requires_grad=True)
            x = leaf * 2
            y = call(x)
            w.grad = None
            (y.sum() + x.square().sum()).backward()
            yield y, x, leaf.grad, w.grad, held
            held.detach_()

    c = both(make)
    assert calls(c)[0] == (4 if kind == "no grad" else 0), c.report()
    assert kind == "no grad" or "writes what wants gradients" in c.report()


@pytest.mark.filterwarnings("ignore:pf.compile:UserWarning")
@pytest.mark.parametrize("kind", ["another loss", "same loss", "retained"])
def test_results_with_gradients_of_a_step_that_makes_some(kind):
    """One network is trained within; the loss of the other is the result."""

    def make(wrap):
        g, d = nn.Linear(3, 3), nn.Linear(3, 1)
        ours, theirs = pf.optim.SGD(g.parameters(), lr=0.1), pf.optim.SGD(d.parameters(), lr=0.1)

        def step(x, z):
            theirs.zero_grad()
            fake = g(z)
            loss = d(x).mean() - d(fake.detach()).mean()
            loss.backward(retain_graph=kind == "retained")
            theirs.step()
            return d(fake).mean() if kind == "another loss" else loss

        call = wrap(step)
        for _ in range(7):
            ours.zero_grad()
            loss = call(pf.randn(4, 3), pf.randn(4, 3))
            if kind == "another loss":
                loss.backward()
                ours.step()
            yield loss.detach(), g.weight, d.weight, g.weight.grad, d.weight.grad

    c = both(make)
    assert (calls(c)[0] > 0) == (kind == "same loss"), c.report()


ORDERS = {
    "the same": [[0]] * 9,
    "one after the other": [[0]] * 4 + [[1]] * 5,
    "any": [[0], [0], [1], [0], [1], [2], [0, 1], [1], [0]],
}


@pytest.mark.filterwarnings("ignore:pf.compile:UserWarning")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_weights_behind_results_that_nobody_differentiates(rate, order):
    """They have no gradient, not one of zeros: an optimizer with momentum or decay leaves them alone."""

    def make(wrap):
        a, b = nn.Linear(3, 3), nn.Linear(3, 3)
        m = nn.ModuleList([a, b])
        o = pf.optim.SGD(m.parameters(), lr=0.1, weight_decay=0.1, momentum=0.9)
        call = wrap(lambda x: (a(x), pf.dropout(b(x), rate, True), (a(x) * b(x)).sum()))
        for n in range(9):
            o.zero_grad()
            results = call(pf.randn(2, 3))
            sum(results[i].sum() for i in ORDERS[order][n]).backward()
            o.step()
            yield a.weight.grad, b.weight.grad, a.weight, b.weight

    assert calls(both(make))[0] == {"the same": 6, "one after the other": 4, "any": 0}[order]


def test_results_that_are_the_programs_own_tensors():
    """Parameters, arguments, and one tensor that is there twice."""

    def make(wrap):
        m, mean = nn.Linear(3, 3), pf.zeros(3)

        def step(x):
            mean.add_(x.detach().mean(0))
            y = m(x)
            return x, m.weight, y, y, mean

        call = wrap(step)
        for _ in range(7):
            x = pf.randn(2, 3)
            first, weight, y, z, held = call(x)
            yield first is x, weight is m.weight, y is z, held is mean
            m.zero_grad()
            (y.square().sum() + z.sum() + weight.square().sum()).backward()
            yield y, m.weight.grad, mean
            with pf.no_grad():
                weight.mul_(0.9)

    assert calls(both(make))[0] == 4


class Scaled(pf.autograd.Function):
    forth, back = 1.0, 1.0

    @staticmethod
    def forward(ctx, x):
        return x * Scaled.forth

    @staticmethod
    def backward(ctx, g):
        return g * Scaled.back


@pytest.mark.parametrize("name", ["forth", "back"])
def test_attributes_of_functions_with_a_backward_of_their_own(name, monkeypatch):
    def make(wrap):
        monkeypatch.setattr(Scaled, name, 1.0)
        w = nn.Parameter(pf.randn(3))
        call = wrap(lambda x: Scaled.apply(x * w).sum())
        for n in range(16):
            if n in (6, 11):
                monkeypatch.setattr(Scaled, name, float(n))
            w.grad = None
            y = call(pf.randn(2, 3))
            y.backward()
            yield y, w.grad

    assert calls(both(make))[0] >= 7


def test_parameters_that_leave_an_optimizer_between_calls():
    """zero_grad() leaves their gradients alone from then on, at the first call, too."""

    def make(wrap):
        m = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        o = pf.optim.AdamW([{"params": m[0].parameters()}, {"params": m[1].parameters()}])

        def step(x):
            o.zero_grad()
            m(x).square().mean().backward()
            o.step()

        call = wrap(step)
        for n in range(20):
            if n == 6:
                o.param_groups.pop()
            elif n == 13:
                o.param_groups[0]["params"].pop()
            call(pf.randn(3, 4))
            yield [*m.parameters(), *[p.grad for p in m.parameters()]]

    assert calls(both(make))[0] >= 9


@pytest.mark.filterwarnings("ignore:pf.compile:UserWarning")
def test_checkpoints_that_want_a_backward_of_their_own():
    """Reentrant ones give gradients to `.grad` alone: such a step runs as always, and is not an error."""

    def make(wrap):
        m = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
        call = wrap(lambda x: pf.utils.checkpoint.checkpoint(m, x, use_reentrant=True).sum())
        for _ in range(6):
            m.zero_grad()
            x = pf.randn(2, 3, requires_grad=True)
            call(x).backward()
            yield x.grad, m[0].weight.grad

    assert "use_reentrant=False" in both(make).report()
