"""pf.compile with numerics='exact': replays of random programs give the bits of Python's run."""

import pytest
from captured_steps import CAPTURED
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyflame as pf
import pyflame.nn.functional as F

N = 6
# name -> (operands, function of the values on the stack and the program's tensors)
STEPS = {
    "add": (2, lambda p, a, b: a + b),
    "mul": (2, lambda p, a, b: a * b * 0.5),
    "where": (2, lambda p, a, b: pf.where(a > b, a, b * 0.25)),
    "tanh": (1, lambda p, a: pf.tanh(a)),
    "gelu": (1, lambda p, a: F.gelu(a)),
    "matmul": (2, lambda p, a, b: a @ b * 0.2),
    "linear": (1, lambda p, a: F.linear(a, p["w"], p["b"])),
    "softmax": (1, lambda p, a: F.softmax(a, -1)),
    "norm": (1, lambda p, a: F.layer_norm(a, (N,), p["b"], None)),
    "sum": (1, lambda p, a: a.sum(0, keepdim=True) - a.mean(1, keepdim=True)),
    "transposed": (1, lambda p, a: a.t()),
    "view": (1, lambda p, a: a[1:].repeat(2, 1)[:N]),
    "copied": (1, lambda p, a: a.t().contiguous()),
    "flip": (1, lambda p, a: a.flip(0)),
    "half": (1, lambda p, a: (a.bfloat16() * 2 + 1).float()),
    "half weight": (1, lambda p, a: (a.half() @ p["w"].half()).float() * 0.1),
    "constant": (1, lambda p, a: a + pf.arange(N, dtype=pf.float32) * 0.1),
    "fill": (1, lambda p, a: a - pf.full((N, N), 0.3)),
    "dropout": (1, lambda p, a: F.dropout(a, 0.3)),
    "random": (1, lambda p, a: a + pf.rand(N, N)),
    "in place": (1, lambda p, a: (a * 1).mul_(0.5).add_(1)),
    "part": (1, lambda p, a: _part(a)),
    "index": (1, lambda p, a: a[pf.tensor([3, 1, 0, 2, 5, 4])]),
    "state": (1, lambda p, a: _state(p, a)),
    "dead": (1, lambda p, a: _dead(a)),
    "again": (1, lambda p, a: pf.exp(a * 0.1) + pf.exp(a * 0.1) @ p["w"] - pf.exp(a * 0.1)),
    "backward": (1, lambda p, a: _backward(p, a)),
}


def _part(a):
    r = pf.zeros(N, N)
    r[1:4] = a[:3]
    r[:, 2] += 1
    return r


def _state(p, a):
    p["state"].mul_(0.5).add_(a.detach() * 0.1)
    return p["state"] + a


def _dead(a):
    (a * 3).exp().sum()
    return a


def _backward(p, a):
    p["v"].grad = None
    (a.detach() * p["v"]).tanh().sum().backward()
    return a + p["v"].grad


def program(steps, results):
    def run(x, y, p):
        values = [x, y * 1]
        for name, picks in steps:
            n, f = STEPS[name]
            # Magnitudes stay near one, whatever the program.
            values.append(f(p, *[values[i % len(values)] for i in picks[:n]]).clamp(-4, 4))
        return [values[-1 - i % (len(values) - 1)] * 1 for i in results]

    return run


steps = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.tuples(st.integers(0, 9), st.integers(0, 9))),
    min_size=1,
    max_size=14,
)


def tensors():
    pf.manual_seed(11)
    return {
        "w": pf.randn(N, N),
        "b": pf.randn(N),
        "state": pf.zeros(N, N),
        "v": pf.randn(N, N, requires_grad=True),
    }


def calls_of(f, p, change):
    """Results of nine calls; the weight changes at some."""
    pf.manual_seed(5)
    out = []
    for i in range(9):
        x, y = pf.randn(N, N), pf.randn(N, N)
        out.append([t.detach().cpu().numpy().copy() for t in f(x, y)])
        if change >> i & 1:
            p["w"].mul_(0.9)
    out.append([p["state"].cpu().numpy().copy()])
    if p["v"].grad is not None:
        out.append([p["v"].grad.cpu().numpy().copy()])
    return out


def check(steps, results, change, **how):
    run = program(steps, results)
    p, q = tensors(), tensors()
    compiled = pf.compile(lambda x, y: run(x, y, q), **CAPTURED, **how)
    want = calls_of(lambda x, y: run(x, y, p), p, change)
    got = calls_of(compiled, q, change)
    for i, (a, b) in enumerate(zip(want, got, strict=True)):
        for x, y in zip(a, b, strict=True):
            assert x.tobytes() == y.tobytes(), (i, compiled.report(launches=True))
    return compiled


@settings(
    max_examples=settings.default.max_examples * 6 // 10,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(steps, st.lists(st.integers(0, 9), min_size=1, max_size=3), st.integers(0, 511))
def test_random_programs(steps, results, change):
    compiled = check(steps, results, change)
    if "index" not in dict(steps):
        assert compiled._step.replays == 6, compiled.report()


@pytest.mark.parametrize("name", STEPS)
def test_each_step(name):
    """Each by itself, with what it needs twice, unchanged and changed weights."""
    for change in (0, 0b100100, 0b111111111):
        check(
            [(name, (0, 1)), ("tanh", (2, 0)), (name, (3, 1)), ("linear", (4, 0))], [0, 2], change
        )
