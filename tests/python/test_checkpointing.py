"""utils.checkpoint and Module.enable_gradient_checkpointing(): gradients, random state, autocast,
what is kept, and what goes wrong."""

import contextlib
import os
import warnings

import pytest

import pyflame as pf
from pyflame import nn
from pyflame.utils import checkpoint as ck
from pyflame.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential

# Where products have a workspace.
STANDIN = "standin" in os.environ.get("PYFLAME_HIP_LIBRARY", "")
REAL_GPU = pf.get_device().type in ("cuda", "rocm") and not STANDIN


def blocks(n=4, width=8):
    pf.manual_seed(1)
    return nn.Sequential(
        *(
            nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Dropout(0.4), nn.LayerNorm(width))
            for _ in range(n)
        )
    )


def gradients(model, run, x, seed=3):
    pf.manual_seed(seed)
    for p in model.parameters():
        p.grad = None
    h = x.clone().requires_grad_()
    y = run(h)
    y.square().sum().backward()
    return [y.detach(), h.grad, *(p.grad for p in model.parameters()), pf.get_rng_state()]


def same(got, want):
    return len(got) == len(want) and all(map(pf.equal, got, want))


def chain(model, each):
    def run(x):
        for block in model:
            x = each(block, x)
        return x

    return run


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradients_and_random_numbers_are_the_same(reentrant):
    model, x = blocks(), pf.randn(5, 8)
    want = gradients(model, model, x)
    each = chain(model, lambda b, t: checkpoint(b, t, use_reentrant=reentrant))
    assert same(gradients(model, each, x), want)
    assert same(
        gradients(model, lambda t: checkpoint_sequential(model, 2, t, use_reentrant=reentrant), x),
        want,
    )
    other = chain(
        model, lambda b, t: checkpoint(b, t, use_reentrant=reentrant, preserve_rng_state=False)
    )
    assert not same(gradients(model, other, x), want)  # other numbers are drawn the second time


def test_nested_and_partly_without_early_stop():
    model, x = blocks(), pf.randn(5, 8)
    want = gradients(model, model, x)

    def nested(b, t):
        def inner(u):
            return checkpoint(b[1:], checkpoint(b[0], u, use_reentrant=False), use_reentrant=False)

        return checkpoint(inner, t, use_reentrant=False)

    assert same(gradients(model, chain(model, nested), x), want)
    with ck.set_checkpoint_early_stop(False):
        assert same(gradients(model, chain(model, nested), x), want)
    whole = checkpoint

    def all_in_one(t):
        return whole(chain(model, nested), t, use_reentrant=False)

    assert same(gradients(model, all_in_one, x), want)


def test_second_derivatives_and_grad():
    def f(x, w):
        return (x * w).sin().exp() @ w

    x = pf.randn(4, dtype=pf.float64, requires_grad=True)
    w = pf.randn(4, dtype=pf.float64, requires_grad=True)

    def kept(x, w):
        return checkpoint(f, x, w=w, use_reentrant=False)

    assert pf.autograd.gradcheck(kept, (x, w)) and pf.autograd.gradgradcheck(kept, (x, w))
    (g,) = pf.autograd.grad(kept(x, w), x, create_graph=True)
    (h,) = pf.autograd.grad(g.sum(), w)
    (g2,) = pf.autograd.grad(f(x, w), x, create_graph=True)
    (h2,) = pf.autograd.grad(g2.sum(), w)
    assert pf.equal(g, g2) and pf.allclose(h, h2)
    y = kept(x, w)
    first = pf.autograd.grad(y, (x, w), retain_graph=True)
    assert all(map(pf.equal, first, pf.autograd.grad(y, (x, w))))
    with pytest.raises(pf.AutogradError, match="inputs"):
        pf.autograd.grad(checkpoint(f, x, w, use_reentrant=True), x)


def test_how_often_and_how_far_it_runs():
    calls = []

    def f(x):
        calls.append("f")
        y = x.exp()
        z = y.sin()
        calls.append("after")
        return z * 2  # saves nothing

    x = pf.randn(3, requires_grad=True)
    y = checkpoint(f, x, use_reentrant=False)
    assert calls == ["f", "after"]
    y.sum().backward()
    assert calls == ["f", "after", "f"]  # it stopped when sin had saved its input
    calls.clear()
    with ck.set_checkpoint_early_stop(False):
        checkpoint(f, x, use_reentrant=False).sum().backward()
    assert calls == ["f", "after"] * 2
    calls.clear()
    with pf.no_grad():
        assert not checkpoint(f, x, use_reentrant=False).requires_grad
    assert calls == ["f", "after"]
    calls.clear()
    y = checkpoint(f, x, use_reentrant=False)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert calls.count("f") == 3
    calls.clear()
    a, b = checkpoint(lambda t: (f(t), f(t)), x, use_reentrant=False)
    del b
    a.sum().backward()
    assert calls == ["f", "after"] * 2 + ["f"]  # what nobody needs is not made


def test_autocast_is_as_it_was():
    device = pf.get_device().type
    seen = []

    def f(x, w):
        y = x @ w
        seen.append((y.dtype, pf.is_autocast_enabled(device)))
        return y.sin()

    x, w = pf.randn(4, 4, requires_grad=True), pf.randn(4, 4, requires_grad=True)
    for reentrant in (False, True):
        seen.clear()
        with pf.autocast(device, dtype=pf.bfloat16):
            want = f(x, w)
            y = checkpoint(f, x, w, use_reentrant=reentrant)
        assert pf.equal(y, want)
        first = pf.autograd.grad(want.float().sum(), (x, w))
        x.grad = w.grad = None
        y.float().sum().backward()
        assert seen == [(pf.bfloat16, True)] * 3
        assert pf.equal(x.grad, first[0]) and pf.equal(w.grad, first[1])


def test_structures_and_other_arguments():
    def f(pair, scale, *, extra=None, flag):
        a, b = pair
        assert flag is True
        return {"sum": (a + b).exp() * scale, "extra": [extra * 2, None]}

    a, b, c = (pf.randn(3, requires_grad=True) for _ in range(3))
    out = checkpoint(f, (a, b), 3, extra=c, flag=True, use_reentrant=False)
    (out["sum"].sum() + out["extra"][0].sum()).backward()
    assert pf.allclose(a.grad, 3 * (a + b).detach().exp()) and c.grad.tolist() == [2, 2, 2]
    assert pf.equal(a.grad, b.grad)

    def two(x, n, s):
        return x * n, len(s), x.long()

    x = pf.randn(3, requires_grad=True)
    y, length, whole = checkpoint(two, x, 4, "abc", use_reentrant=True)
    y.sum().backward()
    assert length == 3 and x.grad.tolist() == [4, 4, 4] and not whole.requires_grad


def test_contexts():
    log = []

    @contextlib.contextmanager
    def note(name):
        log.append(name)
        yield

    x = pf.randn(3, requires_grad=True)
    y = checkpoint(
        pf.exp, x, use_reentrant=False, context_fn=lambda: (note("first"), note("again"))
    )
    assert log == ["first"]
    y.sum().backward()
    assert log == ["first", "again"]


def test_what_goes_wrong():
    x = pf.randn(3, requires_grad=True)
    calls = []

    def fickle(t):
        calls.append(1)
        return t.sin().exp() if len(calls) % 2 else t[:1].sin().exp()

    with pytest.raises(CheckpointError, match="shape"):
        checkpoint(fickle, x, use_reentrant=False).sum().backward()
    calls.clear()

    def shorter(t):
        calls.append(1)
        return t.sin().exp() if len(calls) % 2 else t.sin()

    with pytest.raises(CheckpointError, match="as many"):
        checkpoint(shorter, x, use_reentrant=False).sum().backward()

    def raises(t):
        calls.append(1)
        if len(calls) % 2 == 0:
            raise KeyError("the second time")
        return t.sin().exp()

    calls.clear()
    with pytest.raises(KeyError, match="second time"):
        checkpoint(raises, x, use_reentrant=False).sum().backward()
    t = x * 1
    y = checkpoint(lambda t: t.exp().sin(), t, use_reentrant=False)
    with pf.no_grad():
        t.add_(1)
    with pytest.raises(pf.AutogradError, match="checkpoint.*in place"):
        y.sum().backward()

    def swallows(t):
        try:
            return t.sin().exp()
        except Exception:
            return t

    checkpoint(swallows, x, use_reentrant=False).sum().backward()
    for wrong in (
        dict(use_reentrant=True, extra=1),
        dict(use_reentrant=True, context_fn=lambda: None),
        dict(use_reentrant=False, determinism_check="some"),
    ):
        with pytest.raises(ValueError):
            checkpoint(pf.exp, x, **wrong)
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint(pf.exp, x)
    with pytest.warns(UserWarning, match="requires grad"):
        assert not checkpoint(pf.exp, pf.ones(2), use_reentrant=True).requires_grad
    with pytest.raises(ValueError, match="segments"):
        checkpoint_sequential([pf.exp], 2, x, use_reentrant=False)
    with pytest.raises(NotImplementedError):
        ck.create_selective_checkpoint_contexts(lambda *a: None)


@pytest.mark.parametrize("reentrant", [False, True])
def test_batch_norms_count_once(reentrant):
    def net():
        pf.manual_seed(0)
        return nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None))

    a, b = net(), net()
    x = pf.randn(6, 4, requires_grad=True)
    a(x).square().sum().backward()
    with ck.set_checkpoint_early_stop(False):
        checkpoint(b, x, use_reentrant=reentrant).square().sum().backward()
    for (name, s), t in zip(a.state_dict().items(), b.state_dict().values()):
        assert pf.equal(s, t), name
    assert all(pf.equal(p.grad, q.grad) for p, q in zip(a.parameters(), b.parameters()))


def peak(model, x):
    """Bytes that a step needs beside what there is before it."""
    for p in model.parameters():
        p.grad = pf.zeros_like(p)
    pf.flush()
    pf.memory.reset_peak_memory_stats(x.device)
    before = pf.memory.memory_allocated(x.device)
    model(x).square().mean().backward()
    pf.flush()
    return pf.memory.max_memory_allocated(x.device) - before


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x, scale=1.0):
        return x + self.b(pf.nn.functional.gelu(self.a(x))) * scale


class Listed(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.blocks = nn.ModuleList(Residual(width) for _ in range(n))
        self.head = nn.Sequential(nn.Linear(width, width), nn.Tanh())

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x, scale=0.5)
        return self.head(x)


def mlp(width, n):
    layers = []
    for _ in range(n):
        layers += [nn.Linear(width, width), nn.Tanh()]
    return nn.Sequential(*layers)


@pytest.mark.parametrize(
    "make", [lambda: mlp(32, 24), lambda: Listed(32, 12), lambda: nn.Sequential(*map(Residual, [32] * 12))]
)  # fmt: skip
def test_peak_memory_falls(make):
    pf.manual_seed(0)
    # Products of a GPU's library may have a workspace of up to 32 MiB, which counts.
    model, x = make(), pf.randn(65536 if REAL_GPU else 4096, 32)
    model(x).sum().backward()
    plain, want = peak(model, x), [p.grad.clone() for p in model.parameters()]
    model.enable_gradient_checkpointing()
    less, got = peak(model, x), [p.grad.clone() for p in model.parameters()]
    assert all(map(pf.equal, got, want))
    assert less < 0.6 * plain, (less, plain)
    model.enable_gradient_checkpointing(False)
    assert peak(model, x) > 0.9 * plain


def test_what_is_chosen():
    from pyflame.nn.recomputation import blocks as chosen

    m = Listed(4, 5)
    assert chosen(m) == [*((b, True) for b in m.blocks), (m.head, 2)]
    s = mlp(4, 6)
    assert chosen(s) == [(s, 4)]
    deep = nn.Sequential(nn.Linear(4, 4), s, nn.Linear(4, 4))
    assert chosen(deep) == [(s, 4)]
    plain = nn.Linear(3, 3)
    assert chosen(plain) == [(plain, True)]

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.last = Residual(3), Residual(3), nn.Linear(3, 3)

        def forward(self, x):
            return self.last(self.two(self.one(x)))

    two = Two()
    assert chosen(two) == [(two.one, True), (two.two, True)]
    two.enable_gradient_checkpointing()
    log = []
    two.one.register_forward_hook(lambda *a: log.append("forward"))
    two.one.register_full_backward_hook(lambda *a: log.append("backward"))
    two(pf.randn(2, 3, requires_grad=True)).sum().backward()
    assert log == ["forward", "backward"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        two.eval()(pf.randn(2, 3))
