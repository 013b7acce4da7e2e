"""pf.compile(mode="reduce-overhead"): calls that are made without Python see all that the way by Python sees."""

import gc
import threading
import weakref

import pytest
from captured_steps import CAPTURED, batches, calls, model, same
from conftest import DEVICE

import pyflame as pf
from pyflame import nn


def trainer(seed=1, kind=pf.optim.Adam, **options):
    """A model, its optimizer and a step, as made twice: one is compiled."""
    m = model(0.0, seed)
    o = kind(m.parameters(), lr=0.01, **options)

    def step(x, y):
        o.zero_grad()
        loss = nn.functional.cross_entropy(m(x), y)
        loss.backward()
        o.step()
        return loss

    return m, o, step


def pair(**options):
    plain, fast = trainer(**options), trainer(**options)
    compiled = pf.compile(fast[2], **CAPTURED)
    for x, y in batches(6):
        assert same([plain[2](x, y)], [compiled(x, y)])
    assert compiled._step.quick is not None
    return plain, fast, compiled


def alike(plain, fast):
    return same(plain[0].parameters(), fast[0].parameters()) and [
        s["step"] for s in plain[1].state.values()
    ] == [s["step"] for s in fast[1].state.values()]


def test_no_python_runs():
    plain, fast, compiled = pair()
    step = compiled._step
    step._replay = step._variant = None  # would be called
    replayed, always = calls(compiled)
    for x, y in batches(5):
        assert same([plain[2](x, y)], [compiled(x, y)])
    assert alike(plain, fast) and calls(compiled) == (replayed + 5, always)
    assert f"{replayed + 5} calls replayed" in compiled.report()


@pytest.mark.parametrize("kind", [pf.optim.AdamW, pf.optim.SGD])
def test_other_optimizers(kind):
    plain, fast = trainer(kind=kind), trainer(kind=kind)
    compiled = pf.compile(fast[2], **CAPTURED)
    for x, y in batches(8):
        assert same([plain[2](x, y)], [compiled(x, y)])
    assert (compiled._step.quick is not None) == (kind is pf.optim.AdamW)
    assert alike(plain, fast)


def test_numbers_of_the_optimizer():
    plain, fast, compiled = pair(amsgrad=True)
    changes = (
        ("lr", 0.2), ("betas", (0.5, 0.7)), ("eps", 1e-3), ("weight_decay", 0.3), ("maximize", True),
        ("decoupled_weight_decay", True), ("lr", 1),
    )  # fmt: skip
    for (name, value), (x, y) in zip(changes, batches(len(changes))):
        for o in (plain[1], fast[1]):
            o.param_groups[0][name] = value
        quick = compiled._step.quick
        assert same([plain[2](x, y)], [compiled(x, y)])
        assert alike(plain, fast) and compiled._step.quick is quick, name
    # What is no number is an error, and nothing was done.
    x, y = batches(1)[0]
    fast[1].param_groups[0]["lr"] = "fast"
    before = [p.clone() for p in fast[0].parameters()]
    with pytest.raises((TypeError, ValueError)):
        compiled(x, y)
    assert same(before, fast[0].parameters())
    fast[1].param_groups[0]["lr"] = plain[1].param_groups[0]["lr"]
    assert same([plain[2](x, y)], [compiled(x, y)]) and alike(plain, fast)


def replaced_state(m, o):
    o.load_state_dict(o.state_dict())


def other_group(m, o):
    o.param_groups[0]["amsgrad"] = False
    o.param_groups[0]["betas"] = [0.8, 0.9]


def hook(m, o):
    o.register_step_post_hook(lambda *a: None)


def gradient(m, o):
    next(m.parameters()).grad = pf.ones(16, 13)


def parameter(m, o):
    m.load_state_dict({k: v * 2 for k, v in m.state_dict().items()}, assign=True)


def evaluated(m, o):
    m.eval()


@pytest.mark.parametrize(
    "change", [replaced_state, other_group, hook, gradient, parameter, evaluated]
)
def test_what_changes_between_calls(change):
    plain, fast, compiled = pair()
    quick = compiled._step.quick
    for m, o, _ in (plain, fast):
        change(m, o)
    for i, (x, y) in enumerate(batches(6)):
        assert same([plain[2](x, y)], [compiled(x, y)])
        assert alike(plain, fast), i
        # A gradient that the step clears is no change.
        assert i or change is gradient or compiled._step.quick is not quick


def test_arguments_and_settings():
    def f(a, b):
        return a @ b, {"sum": a.sum() + b.sum()}, a

    c = pf.compile(f, **CAPTURED)

    def check(a, b, **more):
        got, want = c(a, b, **more), f(a, b, **more)
        assert got[2] is a and same(
            [got[0].double(), got[1]["sum"]], [want[0].double(), want[1]["sum"]]
        )
        assert got[0].dtype is want[0].dtype and got[0].requires_grad == want[0].requires_grad

    square = lambda: pf.randn(4, 4)  # noqa: E731
    for _ in range(5):
        check(square(), square())
    assert c._step.quick is not None
    a = square()
    check(a, a)  # one tensor
    check(a, b=square())
    check(square().double(), square().double())
    check(pf.randn(2, 4), square())
    check(square().t(), square())
    check(nn.Parameter(square()), square())
    base = square()
    check(base, base[:])  # memory in common
    kind = "cpu" if a.device.type == "cpu" else "cuda"
    for _ in range(5):
        with pf.autocast(kind, dtype=pf.bfloat16):
            check(square(), square())
        check(square(), square())
        with pf.no_grad():
            check(square(), square())


def test_comparisons_go_on():
    scales = iter([1.0] * 3 + [2.0] * 20)
    c = pf.compile(lambda x: x * next(scales), mode="reduce-overhead", options={"verify_every": 7})
    for _ in range(6):
        c(pf.ones(3))
    assert c._step.quick is not None
    with pytest.raises(pf.compiler.CaptureError, match="has changed"):
        for _ in range(8):
            assert c(pf.ones(3)).tolist() == [1.0] * 3
    assert c._step.quick is None
    for _ in range(6):
        assert c(pf.ones(3)).tolist() == [2.0] * 3


def test_threads():
    c = pf.compile(lambda x: (x @ x).relu(), **CAPTURED)
    x = pf.randn(64, 64, device=DEVICE)  # threads have a default of their own
    want = (x @ x).relu()
    for _ in range(5):
        c(x)
    wrong = []

    def run():
        for _ in range(50):
            if not same([c(x)], [want]):
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and calls(c)[0] > 3


def test_it_ends_with_the_function():
    """The quick way holds what the function has; a cycle through it is found."""
    m, o, step = trainer()
    o.compiled = c = pf.compile(step, **CAPTURED)
    for x, y in batches(6):
        c(x, y)
    assert c._step.quick is not None
    dead = weakref.ref(m)
    del m, o, step, c, x, y
    gc.collect()
    assert dead() is None
