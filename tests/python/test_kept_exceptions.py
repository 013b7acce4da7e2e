"""What an exception keeps alive (frames, and what is in them) does not change how later programs run.

A notebook keeps the last exception, pytest each of a test that expects one. `LEAVES` has a region of each
kind, which a program leaves by an error with everything in it still in use; behind it reference programs
have the bits, launches and joins that they had before, on this thread and beside one that is within a region.
"""

import contextlib
import functools
import threading
from types import SimpleNamespace

import pytest

import pyflame as pf
from pyflame import nn
from pyflame.autograd import forward_ad, graph
from pyflame.utils.checkpoint import checkpoint

F = nn.functional
KEPT = []  # exceptions, with their frames


class Left(Exception):
    pass


def fails(*values):
    """Raises, and this frame holds what it was given and what was made of that."""
    made = [v * 2 for v in values]
    more = pf.ones(3, 4) + sum(m.sum() for m in made)
    views = [m[0] for m in made]
    raise Left(f"of {len(made)} values and {len(views)} views: {more.shape}")


def within(make):
    """An error within a context."""

    def run():
        with make():
            fails(pf.randn(3, 4, requires_grad=True))

    return run


class Fails(pf.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return fails(g, *ctx.saved_tensors)


def in_backward(**how):
    loss = Fails.apply(pf.randn(3, 4, requires_grad=True) * 1).exp().sum()
    loss.backward(**how)


def in_a_hook():
    x = pf.randn(3, 4, requires_grad=True)
    x.register_hook(fails)
    (x * 2).sum().backward()


def written_within_vmap():
    def f(x):
        y = pf.zeros(4)
        whole = y.view(2, 2)
        y.add_(x)  # holds each sample's from here on
        fails(y, whole)

    pf.vmap(f)(pf.randn(3, 4))


def captured(calls):
    """The last of so many calls of a captured function fails."""

    def run():
        how = SimpleNamespace(fails=False)

        def step(x):
            y = (x * 2).sin()
            if how.fails:
                fails(x, y)
            return y

        call = pf.compile(step, mode="reduce-overhead")
        for n in range(calls):
            how.fails = n + 1 == calls
            call(pf.randn(3, 4, requires_grad=True)).sum().backward()

    return run


def within_a_mode():
    class Mode(pf.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Mode():
        fails(pf.randn(3, 4))


def batched_gradients():
    x = pf.randn(4, requires_grad=True)
    y = Fails.apply(x)
    pf.autograd.grad(y, x, pf.eye(4), is_grads_batched=True)


LEAVES = {
    "vmap": lambda: pf.vmap(fails)(pf.randn(3, 4)),
    "vmap in vmap": lambda: pf.vmap(pf.vmap(fails))(pf.randn(5, 3, 4)),
    "vmap with random numbers": lambda: pf.vmap(
        lambda x: fails(x, pf.randn(4)), randomness="different"
    )(pf.randn(3, 4)),
    "vmap, written": written_within_vmap,
    "batched gradients": batched_gradients,
    "func.grad": lambda: pf.func.grad(fails)(pf.randn(3, 4)),
    "func.jvp": lambda: pf.func.jvp(fails, (pf.randn(3, 4),), (pf.randn(3, 4),)),
    "func.jacrev": lambda: pf.func.jacrev(fails)(pf.randn(3, 4)),
    "func.vmap of grad": lambda: pf.vmap(pf.func.grad(fails))(pf.randn(3, 4)),
    "dual numbers": within(forward_ad.dual_level),
    "no_grad": within(pf.no_grad),
    "inference_mode": within(pf.inference_mode),
    "autocast": within(lambda: pf.autocast("cpu", dtype=pf.bfloat16)),
    "anomalies": within(pf.autograd.detect_anomaly),
    "explain": within(pf.explain),
    "eager": within(pf.debug.eager),
    "saved tensors": within(lambda: graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t)),
    "recompute": within(graph.recompute_cheap),
    "a mode": within_a_mode,
    "backward": in_backward,
    "backward, kept": lambda: in_backward(retain_graph=True),
    "backward, create_graph": lambda: in_backward(create_graph=True),
    "a hook": in_a_hook,
    "checkpoint": lambda: checkpoint(
        fails, pf.randn(3, 4, requires_grad=True), use_reentrant=False
    ),
    "the first of captured calls": captured(1),
    "captured": captured(2),
    "compared": captured(3),
    "replayed": captured(5),
}


def norm():
    """Channels normalized in parts, with what follows and gradients."""
    x = (pf.randn(24, 70, 7, 5) + 3).requires_grad_()
    w, b = pf.randn(70, requires_grad=True), pf.randn(70, requires_grad=True)
    y = F.relu(F.batch_norm(x, None, None, w, b, True))
    y.backward(pf.ones_like(y) * y.detach())
    return [y, x.grad, w.grad, b.grad]


def convolution():
    """Of channels that lie last, cut and joined."""
    x = pf.randn(2, 8, 6, 6).to(memory_format=pf.channels_last).requires_grad_()
    w = pf.randn(8, 8, 3, 3, requires_grad=True)
    y = pf.cat([F.conv2d(x, w, padding=1), x.flip(2)], 1)
    z = F.pad(y.softmax(1), (1, 0))
    z.square().sum().backward()
    assert z.is_contiguous(memory_format=pf.channels_last)
    return [z, x.grad, w.grad]


def attention():
    """Of one projection, with dropout."""
    x = pf.randn(2, 5, 24, requires_grad=True)
    q, k, v = (t.view(2, 5, 2, 4).transpose(1, 2) for t in x.chunk(3, -1))
    y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3)
    y.square().sum().backward()
    return [y, x.grad]


def classes():
    """Logits that give their memory to their gradient; gradients that are added when they come."""
    table = pf.randn(600, 32, requires_grad=True)
    x, rows = pf.randn(2048, 32, requires_grad=True), pf.arange(2048) % 600
    for _ in range(2):
        loss = F.cross_entropy(x @ table.t(), rows)
        loss.backward()
    return [loss, table.grad, x.grad]


def large_leaf():
    """A gradient that is added to its leaf when it comes."""
    w = pf.randn(512, 512, requires_grad=True)
    for _ in range(2):
        ((pf.randn(4, 512) @ w).relu() @ w).sum().backward()
    return [w.grad]


def drawn():
    x = pf.randn(3, 40, requires_grad=True)
    y = F.dropout(x.sin(), 0.5) + pf.rand(3, 40)
    y.sum().backward()
    return [y, x.grad]


PROGRAMS = [norm, convolution, attention, classes, large_leaf, drawn]
COUNTS = ("nodes", "groups", "programs", "kernels", "joined", "merged")


def how_it_runs(program):
    """(bits, what was launched)."""
    pf.manual_seed(3)
    pf.flush()
    before = pf.debug.stats()
    made = program()
    pf.flush()
    after = pf.debug.stats()
    bits = [t.detach().double().contiguous().numpy().tobytes() for t in made]
    return bits, {k: after[k] - before[k] for k in COUNTS}


@functools.cache
def as_usual(device):
    for program in PROGRAMS:
        how_it_runs(program)
    return {program: how_it_runs(program) for program in PROGRAMS}


@pytest.fixture
def usual(device):
    return as_usual(str(device))


def check(usual):
    for program in PROGRAMS:
        bits, counts = how_it_runs(program)
        assert counts == usual[program][1], program.__name__
        assert bits == usual[program][0], program.__name__


@pytest.mark.parametrize("kind", LEAVES)
def test_after_an_error(kind, usual):
    try:
        with pytest.raises(Left) as caught:
            LEAVES[kind]()
        KEPT.append(caught.value)
        check(usual)
    finally:
        KEPT.clear()


def test_kept_by_the_program(usual):
    """Values of a vmap that has ended, which were put elsewhere."""
    kept = []
    pf.vmap(lambda x: (kept.append(x), x * 2)[1])(pf.randn(3, 4))
    check(usual)
    assert kept


@pytest.mark.parametrize("kind", ["vmap", "inference_mode", "autocast", "saved tensors", "explain"])
def test_beside_a_thread_within(kind, usual):
    """Another thread is within a region, and stays there meanwhile."""
    inside, go_on, errors = threading.Event(), threading.Event(), []

    def stay(*unused):
        inside.set()
        go_on.wait(600)
        raise Left

    def other():
        with contextlib.suppress(Left):
            if kind == "vmap":
                pf.vmap(stay)(pf.randn(3, 4))
            elif kind == "inference_mode":
                with pf.inference_mode():
                    stay()
            elif kind == "autocast":
                with pf.autocast("cpu", dtype=pf.bfloat16):
                    stay()
            elif kind == "explain":
                with pf.explain():
                    stay()
            else:
                with graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
                    stay()
        inside.set()

    thread = threading.Thread(target=other)
    thread.start()
    try:
        assert inside.wait(600)
        check(usual)
    finally:
        go_on.set()
        thread.join()
    assert not errors
