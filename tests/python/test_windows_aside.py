"""A norm that a product reads through a cast runs when the product does: what only the line of the
program held of it is never stored. Everything else sees the values that it would have seen."""

import os
import threading

import pytest

import pyflame as pf
import pyflame.nn as nn
import pyflame.nn.functional as F
from pyflame import memory

DEVICE = os.environ.get("PYFLAME_TEST_DEVICE", "cpu")
ROWS, WIDTH = 512, 520  # a little more than 1 MiB of float32
FLOATS = 4 * ROWS * WIDTH


@pytest.fixture
def parts():
    pf.manual_seed(0)
    norm, linear = nn.LayerNorm(WIDTH).to(DEVICE), nn.Linear(WIDTH, 64).to(DEVICE)
    x = pf.randn(ROWS, WIDTH, device=DEVICE)
    branch = pf.randn(ROWS, WIDTH, device=DEVICE).to(pf.bfloat16)
    return norm, linear, x, branch


def lower():
    return pf.autocast(device_type=pf.device(DEVICE).type, dtype=pf.bfloat16)


def at_once(fn):
    """What it gives where every operation runs by itself."""
    with pf.debug.eager():
        return fn()


def low_of(linear):
    return linear.weight.detach().to(pf.bfloat16), linear.bias.detach().to(pf.bfloat16)


def allocated():
    return memory.memory_stats(DEVICE)["allocated_bytes.all.allocated"]


def same(a, b):
    assert a.dtype == b.dtype
    a, b = (t.detach().float().cpu().numpy() for t in (a, b))
    assert (a == b).all()


@pytest.mark.skipif(DEVICE == "paranoid", reason="joins nothing, so that all results have memory")
def test_what_nobody_reads_has_no_memory(parts):
    norm, linear, x, branch = parts

    def step(holds):
        with pf.no_grad(), lower():
            if not holds:
                return (linear(norm(x + branch)),)
            y = norm(x + branch)
            return y, linear(y)

    def bytes_of(holds):
        step(holds)
        pf.synchronize()
        before = allocated()
        results = step(holds)
        pf.synchronize()
        used = allocated() - before
        same(results[-1], at_once(lambda: step(holds))[-1])
        return used

    assert bytes_of(True) - bytes_of(False) > FLOATS // 2


def test_what_is_held_is_there(parts):
    norm, linear, x, branch = parts

    def step():
        with lower():
            y = norm(x + branch)
            return y, linear(y)

    for got, want in zip(step(), at_once(step), strict=True):
        same(got, want)


def test_gradients(parts):
    norm, linear, x, branch = parts
    x.requires_grad_()

    def step():
        for p in (x, *norm.parameters(), *linear.parameters()):
            p.grad = None
        with lower():
            loss = linear(F.gelu(norm(x + branch))).float().square().mean()
        loss.backward()
        return [p.grad for p in (x, *norm.parameters(), *linear.parameters())]

    for got, want in zip(step(), at_once(step), strict=True):
        same(got, want)


@pytest.mark.parametrize("when", ["before the product", "behind the product"])
def test_operands_that_are_written_later(parts, when):
    norm, linear, x, branch = parts

    def step():
        x_now = x.clone()
        with pf.no_grad(), lower():
            y = norm(x_now + branch)
            low = y.to(pf.bfloat16)
            weight = linear.weight.to(pf.bfloat16)  # of another shape: the norm is set aside
            if when == "before the product":
                x_now.zero_()
                norm.weight.mul_(2)
            result = F.linear(low, weight)
            del y, low
            if when == "behind the product":
                x_now.zero_()
                norm.weight.mul_(2)
        norm.weight.data.div_(2)
        return result

    same(step(), at_once(step))


def test_results_that_are_overwritten(parts):
    norm, linear, x, branch = parts

    def step():
        with pf.no_grad(), lower():
            low = norm(x + branch).to(pf.bfloat16)
            result = F.linear(low, linear.weight.to(pf.bfloat16))
            low.zero_()
            return result, low

    for got, want in zip(step(), at_once(step), strict=True):
        same(got, want)


def test_the_value_is_read_by_other_operations_first(parts):
    norm, linear, x, branch = parts

    def step():
        with pf.no_grad(), lower():
            low = norm(x + branch).to(pf.bfloat16)
            weight = linear.weight.to(pf.bfloat16)
            sums = low.float().sum(0)
            return F.linear(low, weight), sums, low[::2] * 2

    for got, want in zip(step(), at_once(step), strict=True):
        same(got, want)


def test_a_window_that_nothing_needs_runs(parts):
    norm, linear, x, branch = parts
    with pf.no_grad(), lower():
        y = norm(x + branch)
        low = y.to(pf.bfloat16)
        linear.weight.to(pf.bfloat16)
    want = at_once(lambda: norm(x + branch))
    assert (y.cpu().numpy() == want.detach().cpu().numpy()).all()
    same(low, want.detach().to(pf.bfloat16))


def test_another_thread_reads_it(parts):
    norm, linear, x, branch = parts
    found = {}

    def read(name, t):
        found[name] = t.float().cpu()

    want = at_once(lambda: norm(x + branch).detach())
    for _ in range(8):
        with pf.no_grad(), lower():
            y = norm(x + branch)
            result = linear(y)
        named = {"norm": y, "product": result}
        readers = [threading.Thread(target=read, args=item) for item in named.items()]
        for t in readers:
            t.start()
        for t in readers:
            t.join()
        same(found["norm"], want.float())
        same(
            found["product"],
            at_once(lambda: F.linear(want.to(pf.bfloat16), *low_of(linear))).float(),
        )


def test_a_thread_that_ends(parts):
    norm, linear, x, branch = parts
    kept = []

    def work():
        with pf.no_grad(), lower():
            y = norm(x + branch)
            low = y.to(pf.bfloat16)
            linear.weight.to(pf.bfloat16)
            kept.extend([y, low])

    t = threading.Thread(target=work)
    t.start()
    t.join()
    same(kept[0], at_once(lambda: norm(x + branch).detach()))


def test_a_capture_replays_it(parts):
    norm, linear, x, branch = parts

    def step(x, branch):
        with lower():
            return linear(norm(x + branch))

    with pf.no_grad():
        compiled = pf.compile(step, mode="reduce-overhead")
        for k in range(5):
            a = x * (k + 1)
            same(compiled(a, branch), at_once(lambda a=a: step(a, branch)))


def test_a_gradient_in_16_bits_is_widened_by_the_norm_that_it_goes_to(parts):
    norm, _, x, branch = parts
    x.requires_grad_()
    g, h = pf.randn(ROWS, WIDTH, device=DEVICE).to(pf.bfloat16), pf.randn_like(x)
    wanted = (x, *norm.parameters())

    def step():
        total = x + branch
        y = norm(total).to(pf.bfloat16)
        return total, y, *pf.autograd.grad((y, total), wanted, (g, h))

    for got, want in zip(step(), at_once(step), strict=True):
        same(got, want)
    said = str(pf.explain(step))
    assert "cast -> [layer_norm_backward]" in said


BEHIND = pytest.mark.skipif(
    DEVICE in ("cpu", "paranoid"), reason="of devices that run behind the host"
)


@pytest.fixture
def layers():
    pf.manual_seed(1)
    wide = nn.Sequential(nn.Linear(24, 1040), nn.GELU(), nn.Linear(1040, 24)).to(DEVICE)
    return wide, pf.randn(520, 24, device=DEVICE), pf.randn(520, 24, device=DEVICE)


@BEHIND
def test_the_gradient_of_an_activation_follows_the_product_behind_casts(layers):
    """Between the product and what follows it casts of the weights' gradients are recorded."""
    model, x, g = layers

    def step():
        with lower():
            y = model(x)
        return pf.autograd.grad(y, list(model.parameters()), g.to(y.dtype))

    want = at_once(step)
    step()
    with pf.explain() as report:
        got = step()
    assert "[matmul] -> gelu_backward" in str(report)
    for a, b in zip(got, want):
        same(a, b)


@BEHIND
@pytest.mark.parametrize("what", ["read", "written", "other shape", "dropped", "another product"])
def test_what_happens_to_a_product_aside(layers, what):
    _, x, _ = layers
    w = pf.randn(24, 1040, device=DEVICE)
    other = pf.randn(400, 700, device=DEVICE)

    def step():
        p = x.clone() @ w
        side = other * 2  # too large to join
        if what == "read":
            return [p.sum(), side, p + 1]
        if what == "written":
            later = w.clone()
            r = x @ later
            side = side + 1
            later.mul_(3)
            return [p, r, side, later]
        if what == "other shape":
            return [p.t() * 2, side, p[3:5] + 1, p.reshape(-1)[7:] * 2]
        if what == "dropped":
            del p
            return [side]
        return [p @ w.t(), side, (p * 2) @ w.t()]

    want = at_once(step)
    for a, b in zip(step(), want):
        same(a, b)


@BEHIND
def test_a_product_aside_that_fails_says_so(layers):
    """The error of the product is that of what follows it."""
    _, x, _ = layers
    w = pf.randn(24, 1040, device=DEVICE)
    p = x @ w
    side = pf.randn(400, 700, device=DEVICE) * 2
    with pf.debug.fault("kernel_launch", device=DEVICE), pytest.raises(pf.PyFlameError):
        q = p + 1
        q.sum().item()
    same(side, at_once(lambda: side.clone()))


@pytest.mark.parametrize("name", ["argmax", "argmin", "amax", "median", "prod", "var"])
def test_a_reduction_behind_a_window_aside(name):
    x = pf.arange(12.0, device=DEVICE).mul(1.3).sin().reshape(3, 4)

    def step():
        seen = x > 0
        rows = pf.masked.softmax(x, 1, mask=seen), pf.masked.mean(x, 1, mask=seen)
        return *rows, getattr(pf.masked, name)(x, 1, mask=seen)

    for a, b in zip(step(), at_once(step), strict=True):
        same(a, b)
