"""Memory of training: what is made again in the backward pass, and logits that give their memory to
their gradient. Both have the bits of what they replace."""

import contextlib
import functools
import gc
import threading

import numpy as np
import pytest
from conftest import DEVICE

import pyflame as pf
from pyflame import nn
from pyflame.autograd.graph import recompute_cheap, saved_tensors_hooks
from pyflame.nn import functional as F
from pyflame.utils.checkpoint import checkpoint

KIND = DEVICE.split(":")[0]
MIB = 1 << 20


def in_use(device):
    return pf.memory.memory_allocated(device)


def autocast(on=True):
    return pf.autocast(device_type=KIND, dtype=pf.bfloat16, enabled=on)


class Block(nn.Module):
    """One of each kind that is made again, and of each that is not."""

    def __init__(self, width, act, norm):
        super().__init__()
        self.norm = norm(width)
        self.up, self.gate = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.act = act

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(self.act(self.up(h)) * self.gate(h))


def train(region, amp, act=F.gelu, norm=nn.LayerNorm, steps=2):
    pf.manual_seed(1)
    model = nn.Sequential(*(Block(32, act, norm) for _ in range(3)), nn.Linear(32, 5))
    optimizer = pf.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = pf.randn(16, 24, 32), pf.randint(0, 5, (16 * 24,))
    found = []
    for _ in range(steps):
        with region(), autocast(amp):
            loss = F.cross_entropy(model(x).view(-1, 5), y)
        optimizer.zero_grad()
        loss.backward()
        found += [loss.detach(), *(p.grad.clone() for p in model.parameters())]
        optimizer.step()
    return found


def same(a, b):
    return len(a) == len(b) and all(pf.equal(x, y) for x, y in zip(a, b))


@pytest.mark.parametrize("amp", [False, True])
@pytest.mark.parametrize("act", [F.gelu, F.silu, F.relu, F.mish, pf.tanh], ids=lambda f: f.__name__)
@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
def test_bits_are_those_of_what_is_kept(amp, act, norm):
    kept = train(contextlib.nullcontext, amp, act, norm)
    assert same(kept, train(lambda: recompute_cheap(at_least=1), amp, act, norm))


@pytest.mark.parametrize("amp", [False, True])
def test_less_is_kept(amp, device):
    rows, width = 4096, 64
    x = pf.randn(rows, width)
    model = nn.Sequential(
        nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, 1)
    )
    size = 2 if amp else 4

    def held(region):
        before = in_use(device)
        with region, autocast(amp):
            y = model(x)
        return y, in_use(device) - before

    held(contextlib.nullcontext())
    y, all_of_it = held(contextlib.nullcontext())
    del y
    y, less = held(recompute_cheap(at_least=1024))
    # GELU's result, and what the norm gives the first layer.
    gone = rows * 4 * width * size + rows * width * size
    assert all_of_it - less >= gone
    y.sum().backward()
    # Smaller ones stay, and all stay within the budget.
    for region in (recompute_cheap(at_least=64 * MIB), recompute_cheap(at_least=1, above=1 << 40)):
        y, kept = held(region)
        assert abs(kept - all_of_it) < 4096
        del y


def test_graph_used_twice_and_gradients_of_gradients():
    def grads(region):
        pf.manual_seed(0)
        x = pf.randn(8, 6, dtype=pf.float64, requires_grad=True)
        w, v = pf.randn(5, 6, dtype=pf.float64), pf.randn(3, 5, dtype=pf.float64)
        w.requires_grad_(), v.requires_grad_()
        with region:
            y = F.linear(F.gelu(F.linear(F.layer_norm(x, (6,)), w)), v)
        first = pf.autograd.grad(y.sum(), (x, w, v), retain_graph=True)
        second = pf.autograd.grad((y**2).sum(), (x, w, v), create_graph=True)
        third = pf.autograd.grad(sum((g**2).sum() for g in second), (x, w, v))
        return [*first, *(g.detach() for g in second), *third]

    assert same(grads(contextlib.nullcontext()), grads(recompute_cheap(at_least=1)))


def test_what_is_written_in_place():
    def loss(region, change):
        w = pf.ones(4, 4, requires_grad=True)
        x = pf.arange(16.0).view(4, 4).requires_grad_()
        u = x * 1
        with region:
            h = F.gelu(u)
            if change == "result before":
                h.mul_(2)
            y = F.linear(h, w)
        if change == "source":
            u.mul_(2)
        if change == "result" and isinstance(region, recompute_cheap):
            with pf.no_grad():
                h.mul_(2)  # not what is made again
        y.sum().backward()
        return [x.grad, w.grad]

    for change in ("", "result", "result before"):
        kept = loss(contextlib.nullcontext(), change)
        assert same(kept, loss(recompute_cheap(at_least=1), change))
    for region in (contextlib.nullcontext(), recompute_cheap(at_least=1)):
        with pytest.raises(pf.AutogradError, match="in place"):
            loss(region, "source")


def test_hooks_of_saved_tensors_come_first():
    seen = []

    def pack(t):
        seen.append(tuple(t.shape))
        return t

    w = pf.ones(3, 4, requires_grad=True)
    x = pf.ones(2, 4, requires_grad=True)
    with recompute_cheap(at_least=1), saved_tensors_hooks(pack, lambda t: t):
        y = F.linear(F.gelu(x), w)
    y.sum().backward()
    assert (2, 4) in seen and w.grad is not None


@pytest.mark.parametrize("amp", [False, True])
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize(
    "where",
    ["region", "region around both passes", "reduce-overhead", "reduce-overhead, whole", "budget"],
)
def test_checkpoints_within(amp, reentrant, where):
    """What a checkpoint saves in its first run, which may lie in a region, is what it saves in the others."""
    options = {"activation_memory_budget": 0.5} if where == "budget" else None
    mode = "reduce-overhead" if where.startswith("reduce-overhead") else None
    whole = "whole" in where

    def gradients(inner, outer, step, again):
        pf.manual_seed(1)
        blocks = [Block(32, F.gelu, nn.LayerNorm) for _ in range(2)]
        model = nn.Sequential(nn.Linear(8, 32), *map(again, blocks))

        def forward(x):
            loss = model(x).square().mean()
            if whole:
                loss.backward()
            return loss

        call = step(forward)
        found = []
        for _ in range(6):
            with outer():
                with inner(), autocast(amp):
                    loss = call(pf.randn(4, 16, 8))
                if not whole:
                    loss.backward()
            found += [p.grad.clone() for b in blocks for p in b.parameters()]
            model.zero_grad()
            for b in blocks:
                b.zero_grad()
        return found

    class Again(nn.Module):
        def __init__(self, block):
            super().__init__()
            self.block = block

        def forward(self, x):
            return checkpoint(self.block, x, use_reentrant=reentrant)

    def compiled(f):
        if not mode and not options:
            return f
        steps.append(pf.compile(f, mode=mode, options=options))
        return steps[0]

    steps = []
    none = contextlib.nullcontext
    cheap = functools.partial(recompute_cheap, at_least=1)
    inner, outer = cheap if where == "region" else none, cheap if "both" in where else none
    expected = gradients(none, none, lambda f: f, lambda b: b)
    assert same(expected, gradients(inner, outer, compiled, Again))
    if mode and reentrant:
        assert "use_reentrant=True" in steps[0].report()
    elif mode:
        assert steps[0].report().startswith("3 calls replayed")


def test_arguments_and_nesting():
    for how in ({"at_least": -1}, {"above": 1.5}, {"at_least": True}):
        with pytest.raises(pf.ValueError, match="recompute_cheap"):
            recompute_cheap(**how)
    with pytest.raises(pf.ValueError, match="activation_memory_budget"):
        pf.compile(lambda x: x, options={"activation_memory_budget": 2})

    @recompute_cheap(at_least=1)
    def inside(x, w):
        with recompute_cheap(at_least=1 << 30):
            return F.linear(F.gelu(x), w)

    w = pf.ones(3, 4, requires_grad=True)
    inside(pf.ones(2, 4, requires_grad=True), w).sum().backward()
    assert w.grad.shape == (3, 4)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("what", ["function", "module"])
def test_compiled(mode, what, device):
    def run(options):
        pf.manual_seed(2)
        model = Block(64, F.gelu, nn.LayerNorm)
        x = pf.randn(2048, 64)
        if what == "module":
            call = pf.compile(model, mode=mode, options=options)
        else:
            call = pf.compile(lambda x: model(x), mode=mode, options=options)
        found = []
        for _ in range(5):
            model.zero_grad()
            y = call(x)
            y.sum().backward()
            found += [y.detach(), *(p.grad.clone() for p in model.parameters())]
        return found

    assert same(run(None), run({"activation_memory_budget": 0.5}))


@pytest.mark.skipif(KIND != "cpu", reason="on the CPU alone it is so without being asked for")
def test_captured_steps_save_less_unasked():
    width = 256

    def held(options):
        model = nn.Sequential(*(Block(width, F.gelu, nn.LayerNorm) for _ in range(3)))

        def step(x):
            y = model(x)
            y.sum().backward()
            return y.detach()

        call = pf.compile(step, mode="reduce-overhead", options=options)
        x = pf.randn(4096, width)
        call(x)
        before = in_use(DEVICE)
        pf.memory.reset_peak_memory_stats(DEVICE)
        y = call(x)
        pf.synchronize()
        peak = pf.memory.max_memory_allocated(DEVICE) - before
        assert pf.equal(call(x), y)
        return peak, y

    pf.manual_seed(3)
    less, y = held(None)
    pf.manual_seed(3)
    kept, same_y = held({"activation_memory_budget": 1})
    assert pf.equal(y, same_y)
    assert kept - less >= 2 * 4096 * 4 * width * 4  # GELU's results but the last block's


@pytest.mark.parametrize("options", [None, {"activation_memory_budget": 1}])
def test_captured_step_that_writes_a_parameter_whose_cast_is_saved(options):
    lower, upper = nn.Linear(1024, 512), nn.Linear(512, 1024)
    lower.weight.requires_grad_()

    def step(x):
        with autocast():
            y = upper(F.gelu(lower(x)))
        with pf.no_grad():
            upper.weight.mul_(0.5)  # its cast is what the gradient reads
        y.float().sum().backward()
        return lower.weight.grad.clone()

    x = pf.randn(1024, 1024)
    call = pf.compile(step, mode="reduce-overhead", options=options)
    for _ in range(4):
        lower.zero_grad()
        assert pf.isfinite(call(x)).all()


# ---- logits and their gradient -------------------------------------------------------------------


def head(n=256, width=16, classes=8192, bias=False):
    pf.manual_seed(3)
    x = pf.randn(4, n // 4, width, requires_grad=True)
    w = pf.randn(classes, width, requires_grad=True)
    b = pf.randn(classes, requires_grad=True) if bias else None
    return x, w, b, pf.randint(0, classes, (n,))


def loss_of(x, w, b, y, amp=True):
    with autocast(amp):
        logits = F.linear(x, w, b)
        return logits, F.cross_entropy(logits.view(len(y), -1), y)


def peak_of(step, device):
    for _ in range(2):  # the CPU keeps forms of weights from the second product on
        step()
    before = in_use(device)
    pf.memory.reset_peak_memory_stats(device)
    kept = step()
    peak = pf.memory.max_memory_allocated(device) - before
    del kept
    return peak


@pytest.mark.parametrize("bias", [False, True])
def test_logits_that_nobody_reads_give_their_memory(bias, device):
    if pf.debug.is_eager():
        pytest.skip("nothing is pending")
    x, w, b, y = head(bias=bias)
    size = 2 * len(y) * len(w)

    def held():
        logits, loss = loss_of(x, w, b, y)
        loss.backward()
        return logits

    def dropped():
        _, loss = loss_of(x, w, b, y)
        del _
        loss.backward()

    for step in (held, dropped):
        assert peak_of(step, device) < 1.8 * size  # and what products take by the way
    before = in_use(device)
    logits = held()
    assert in_use(device) - before < size  # but they are there for who reads them
    want = loss_of(x, w, b, y)[0]
    assert pf.equal(logits, want)
    assert pf.equal(logits.view(-1)[5:9], want.view(-1)[5:9])
    assert logits.sum(-1).shape == (4, len(y) // 4)


def test_gradients_are_those_of_logits_that_stay():
    x, w, b, y = head(bias=True)
    found = []
    for read in (False, True):
        x.grad = w.grad = b.grad = None
        logits, loss = loss_of(x, w, b, y)
        if read:  # a second reader, which is not run before the gradient
            more = logits.detach() * 2
        loss.backward()
        found.append([x.grad, w.grad, b.grad, logits.detach().clone()])
        if read:
            assert pf.equal(more, logits.detach() * 2)
    assert same(*found)


def test_writes_to_what_logits_were_made_of():
    """They are made again before it, of what they were made of then."""
    x, w, _, y = head()
    with autocast():
        low = w.to(pf.bfloat16)
        hidden = (x * 1).to(pf.bfloat16)
    before = F.linear(hidden, low).detach().clone()
    logits = F.linear(hidden, low)
    F.cross_entropy(logits.view(len(y), -1), y).backward()
    with pf.no_grad():
        low.zero_()
        hidden.add_(1)
    assert pf.equal(logits.detach(), before)
    # And writes to themselves.
    logits, loss = loss_of(x, w, None, y)
    loss.backward()
    with pf.no_grad():
        logits.view(-1)[0] = 7
    assert logits.view(-1)[0].item() == 7 and pf.equal(logits.view(-1)[1:], before.view(-1)[1:])


def test_logits_of_leaves_and_of_changed_logits_stay(device):
    x, w, b, y = head()
    logits, loss = loss_of(x, w, b, y, amp=False)
    want = logits.detach().clone()
    loss.backward()
    with pf.no_grad():
        w.zero_()  # as an optimizer would
    assert pf.equal(logits.detach(), want)
    x, w, b, y = head()
    with autocast():
        logits = F.linear(x, w)
        with pf.no_grad():
            logits.mul_(0.5)
        want = logits.detach().clone()
        loss = F.cross_entropy(logits.view(len(y), -1), y)
    loss.backward()
    assert pf.equal(logits.detach(), want)


def test_read_by_another_thread_and_dropped_unread(device):
    x, w, b, y = head()
    before = None
    for _ in range(4):
        logits, loss = loss_of(x, w, b, y)
        want = logits.detach().float().sum().item()
        loss.backward()
        got = []

        def read(t=logits, got=got):
            got.append(t.detach().float().sum().item())

        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        assert got == [want]
        del read
        logits, loss = loss_of(x, w, b, y)
        loss.backward()
        del logits, loss
        x.grad = w.grad = None
        now = in_use(device)
        assert before is None or now <= before
        before = now


def test_hooks_and_gradients_of_the_logits():
    x, w, b, y = head()
    logits, loss = loss_of(x, w, b, y)
    logits.retain_grad()
    loss.backward()
    d = logits.grad.view(len(y), -1).float().numpy()
    p = pf.softmax(logits.detach().view(len(y), -1).float(), -1).numpy()
    p[np.arange(len(y)), y.numpy()] -= 1
    assert np.abs(d - p / len(y)).max() < 1e-5


@pytest.mark.parametrize("what", ["nothing", "returned", "kept outside", "read inside"])
def test_captured_steps(what, device):
    outside = []

    def run(compiled):
        x, w, _, y = head()
        model = nn.Linear(16, 8192, bias=False)
        with pf.no_grad():
            model.weight.copy_(w)
        optimizer = pf.optim.SGD(model.parameters(), lr=1.0)
        hidden = x.detach()

        def step():
            with autocast():
                logits = model(hidden * 1)
                loss = F.cross_entropy(logits.view(len(y), -1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            outside.clear()
            if what == "kept outside":
                outside.append(logits)
            if what == "read inside":
                return loss, logits.detach().float().square().sum()
            return (loss, logits) if what == "returned" else (loss, loss * 2)

        call = pf.compile(step, mode="reduce-overhead") if compiled else step
        return [v.detach().clone() for _ in range(6) for v in call()], call

    plain, _ = run(False)
    captured, call = run(True)
    assert same(plain, captured)
    assert "replayed" in call.report()


@pytest.mark.skipif(pf.debug.is_eager(), reason="nothing is pending")
def test_captures_of_steps_need_no_memory_for_the_gradient_of_logits():
    x, w, _, y = head(n=1024)
    leaf = w.detach().clone().requires_grad_()

    def step(keep):
        with autocast():
            logits = F.linear(x * 1, leaf)
            loss = F.cross_entropy(logits.view(len(y), -1), y)
        leaf.grad = x.grad = None
        loss.backward()
        return (loss, logits) if keep else loss

    size = {}
    for keep in (False, True):
        call = pf.compile(step, mode="reduce-overhead")
        for _ in range(4):
            call(keep)
        text = call.report()
        size[keep] = float(text.split(" launches, ")[1].split(" MiB")[0])
    assert size[True] - size[False] > 0.5 * (2 * len(y) * len(w)) / MIB


@pytest.mark.skipif(DEVICE == "paranoid", reason="it keeps nothing")
def test_memory_of_runs_before_a_capture_is_given_back(device):
    x, w, _, y = head(n=4096)
    leaf = w.detach().clone().requires_grad_()

    def step():
        leaf.grad = None
        loss = loss_of(x.detach() * 1, leaf, None, y)[1]
        loss.backward()
        return loss

    def idle():
        return pf.memory.memory_reserved(device) - pf.memory.memory_allocated(device)

    gc.collect()
    pf.memory.empty_cache(device)
    before = idle()
    call = pf.compile(step, mode="reduce-overhead")
    for _ in range(4):
        call()
    pf.synchronize()
    assert idle() - before < len(y) * len(w)  # half of the logits
