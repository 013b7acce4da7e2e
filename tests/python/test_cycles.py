"""Python's collector frees cycles that go through the tape, and nothing that is still needed."""

import gc
import threading
import weakref

import pytest

import pyflame as pf
from pyflame import nn


class Marker:
    """Something whose end can be seen."""


def collected(make):
    """True when what `make` leaves behind goes with one collection."""
    gc.collect()
    marker = Marker()
    alive = weakref.ref(marker)
    make(marker)
    del marker
    gc.collect()
    return alive() is None


class KeepsItsResult(pf.autograd.Function):
    @staticmethod
    def forward(ctx, x, marker=None):
        ctx.y = y = x * 2
        ctx.marker = marker
        return y

    @staticmethod
    def backward(ctx, g):
        return g * 2 * (ctx.y > 0), None


def hook_on_a_leaf(marker):
    t = pf.ones(3, requires_grad=True)
    t.register_hook(lambda g: (t, marker) and None)


def hook_on_a_result(marker):
    t = pf.ones(3, requires_grad=True) * 2
    t.register_hook(lambda g: (t, marker) and None)


def hook_that_holds_what_is_computed_later(marker):
    x = pf.ones(3, requires_grad=True)
    h = (x * 2).exp()
    held = []
    h.register_hook(lambda g: (held, marker) and None)
    held.append((h * h).tanh().sum())


def hook_of_a_module_that_keeps_its_output(marker):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, x):
            h = self.a(x).relu()
            h.register_hook(lambda g: setattr(self, "seen", g))
            self.out = self.b(h)
            return self.out

    net = Net()
    net.marker = marker
    net(pf.ones(2, 3)).sum().backward(retain_graph=True)
    assert net.seen.shape == (2, 4)


def hook_of_a_module_on_its_parameter(marker):
    net = nn.Linear(3, 2)
    net.marker = marker
    net.weight.register_hook(lambda g: net and None)
    net(pf.ones(1, 3)).sum().backward()


def hook_on_a_view(marker):
    base = pf.ones(4, requires_grad=True) * 2
    v = base[1:]
    del base
    v.register_hook(lambda g: (v, marker) and None)


def hook_after_an_in_place_write(marker):
    t = pf.ones(3, requires_grad=True) * 2
    t.register_hook(lambda g: (t, marker) and None)
    t.mul_(3)
    t.register_hook(lambda g: (t, marker) and None)


def function_that_keeps_its_result(marker):
    KeepsItsResult.apply(pf.ones(3, requires_grad=True), marker)


def function_within_more(marker):
    y = KeepsItsResult.apply(pf.ones(3, requires_grad=True), marker)
    (y * 3 + 1).sum().backward()


def node_kept_by_its_own_ctx(marker):
    class Plain(pf.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.marker = marker
            Plain.last = ctx
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    y = Plain.apply(pf.ones(3, requires_grad=True))
    Plain.last.node = y.grad_fn
    del Plain.last


@pytest.mark.parametrize(
    "make",
    [
        hook_on_a_leaf,
        hook_on_a_result,
        hook_that_holds_what_is_computed_later,
        hook_of_a_module_that_keeps_its_output,
        hook_of_a_module_on_its_parameter,
        hook_on_a_view,
        hook_after_an_in_place_write,
        function_that_keeps_its_result,
        function_within_more,
        node_kept_by_its_own_ctx,
    ],
    ids=lambda f: f.__name__,
)
def test_a_cycle_is_collected(make):
    assert collected(make)


def test_functions_in_a_chain_go_one_collection_after_the_other():
    gc.collect()
    marker = Marker()
    alive = weakref.ref(marker)
    x = pf.ones(3, requires_grad=True)
    y = KeepsItsResult.apply(KeepsItsResult.apply(x, marker))
    del x, y, marker
    gc.collect()
    gc.collect()
    assert alive() is None


def test_what_a_graph_still_needs_is_kept():
    seen = []
    x = pf.ones(3, requires_grad=True)

    def build():
        t = x * 2
        t.register_hook(lambda g: seen.append((t.shape, g.tolist())))
        u = KeepsItsResult.apply(t)
        return u.sum()

    loss = build()
    for _ in range(3):
        gc.collect()
    loss.backward()
    assert seen == [((3,), [2, 2, 2])] and x.grad.tolist() == [4, 4, 4]


def test_what_only_the_gradient_of_a_leaf_needs_is_kept():
    def build():
        w = pf.ones(3, requires_grad=True)
        w.register_hook(lambda g: calls.append(w.shape))
        return (w * w).sum()

    calls = []
    loss = build()
    gc.collect()
    loss.backward()
    assert calls == [(3,)]


def test_a_hook_may_collect():
    x = pf.ones(3, requires_grad=True)
    calls = []

    def hook(g):
        gc.collect()
        calls.append(y.shape)
        return g * 3

    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    assert calls == [(3,)] and x.grad.tolist() == [6, 6, 6]


def hook_that_keeps(y):
    y.register_hook(lambda g: y and None)


def test_deep_graphs_of_functions_are_freed_without_recursion():
    marker = Marker()
    alive = weakref.ref(marker)
    y = KeepsItsResult.apply(pf.ones(1, requires_grad=True), marker)
    del marker

    class Pass(pf.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x  # each ctx holds the tensor before it
            return x.detach()

        @staticmethod
        def backward(ctx, g):
            return g

    for _ in range(20_000):
        y = Pass.apply(y)
    for _ in range(100_000):
        y = y * 1
    gc.collect()
    hook_that_keeps(y)
    del y
    gc.collect()
    gc.collect()
    assert alive() is None


def test_collections_while_threads_compute():
    stop = threading.Event()
    failures = []

    def work():
        try:
            w = pf.ones(50, requires_grad=True)
            while not stop.is_set():
                y = KeepsItsResult.apply(w * 3)
                y.register_hook(lambda g, y=y: g * 2)
                w.grad = None
                (y * y).sum().backward()
                assert w.grad[0].item() == 2 * 6 * 2 * 2 * 3
        except Exception as e:
            failures.append(e)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for _ in range(15):
        gc.collect()
    stop.set()
    for t in threads:
        t.join()
    assert not failures
