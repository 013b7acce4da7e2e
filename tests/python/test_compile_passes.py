"""pf.compile: what planning a captured step drops, keeps, and lays out in memory."""

import gc
import re

import numpy as np
import pytest
from captured_steps import CAPTURED, batches, calls, classifier_step, model, same

import pyflame as pf
from pyflame import nn
from pyflame.models import GPT, GPTConfig


def slack():
    """Bytes that an arena may have beyond what the run took: in a graph of the device the smallest 2 MiB are
    used once."""
    return 16384 + (2 << 20 if pf.zeros(1).device.type in ("cuda", "rocm") else 0)


def capture_of(compiled):
    return next(iter(compiled._step.variants.values()))[0].capture


def fates(compiled):
    return [fate for _, _, fate, _, _ in capture_of(compiled).list()]


def outcome(compiled):
    return capture_of(compiled).outcome()


def check_plan(compiled):
    """No two tensors that are needed at once share a byte; nothing lies outside."""
    o = outcome(compiled)
    assert o["planned"]
    pieces = sorted(o["pieces"])
    for i, (offset, nbytes, first, last, _, label) in enumerate(pieces):
        assert offset + nbytes <= o["arena_bytes"] and first <= last, label
        for other in pieces[i + 1 :]:
            if other[0] >= offset + nbytes:
                break
            if (other[0], other[1]) == (offset, nbytes) and other[2] == last:
                continue  # a result in the memory of an operand
            assert other[2] > last or other[3] < first, (label, other[5])
    assert o["bound_bytes"] <= o["arena_bytes"]
    return o


def test_launches_that_nobody_reads():
    def f(x):
        (x @ x).sum()
        y = x * 2
        (y + 1).softmax(-1)
        return y

    c = pf.compile(f, **CAPTURED)
    for i in range(6):
        x = pf.full((40, 40), float(i))
        assert same([f(x)], [c(x)])
    assert fates(c).count("dead") >= 1 and calls(c)[0] == 3


def test_a_wrong_index_is_told_though_nobody_reads_the_result():
    def f(x, i):
        x[i]
        return x * 2

    c = pf.compile(f, **CAPTURED)
    x = pf.ones(4)
    for _ in range(5):
        c(x, pf.tensor([1]))
    with pytest.raises(pf.IndexError):
        c(x, pf.tensor([9]))
        pf.synchronize()


def test_the_same_launch_twice():
    w = pf.randn(64, 64)

    def f(x):
        a, b = x.sort(-1)[0], x.sort(-1)[0]
        return a @ w + b, w.sort(-1)[0] - w.sort(-1)[0]

    c = pf.compile(f, **CAPTURED)
    for i in range(6):
        x = pf.randn(64, 64)
        assert same(f(x), c(x)), c.report(launches=True)
        if i > 3:
            w.mul_(0.5)
    assert fates(c).count("equal") >= 1


def test_the_same_launch_behind_a_write_is_another():
    def f(x):
        a = x @ x
        x.add_(1)
        return a, x @ x

    c = pf.compile(f, **CAPTURED)
    for _ in range(6):
        x = pf.randn(16, 16)
        y = x.clone()
        assert same(f(x), c(y)) and same([x], [y])
    assert "equal" not in fates(c)


def test_what_is_calculated_again_to_save_memory_still_is():
    pf.manual_seed(1)
    m = nn.Sequential(*[l for _ in range(4) for l in (nn.Linear(64, 64), nn.GELU())])

    def run(wrap):
        pf.manual_seed(2)

        def step(x):
            m.zero_grad()
            for i in range(0, 8, 2):
                x = pf.utils.checkpoint.checkpoint(m[i : i + 2], x, use_reentrant=False)
            loss = x.square().sum()
            loss.backward()
            return loss

        step = wrap(step)
        out = []
        for _ in range(6):
            loss = step(pf.randn(512, 64))
            out.append([loss.clone(), *[p.grad.clone() for p in m.parameters()]])
        return out, step

    want, _ = run(lambda f: f)
    got, step = run(lambda f: pf.compile(f, **CAPTURED))
    assert all(same(a, b) for a, b in zip(want, got))
    o = check_plan(step)
    # Far from keeping eight activations of 128 KiB, and their gradients.
    assert o["arena_bytes"] <= o["pool_bytes"] + slack()


def test_constants_follow_their_tensors():
    """Casts of weights: once for each version of these, where they stay (in training see
    test_compile_copies.py)."""
    m = model(0.0).eval()
    kind = m[0].weight.device.type

    def f(x):
        with pf.autocast(kind, dtype=pf.bfloat16), pf.no_grad():
            return m(x).float() + pf.arange(5) * 2

    c = pf.compile(f, **CAPTURED)
    for _ in range(5):
        x = pf.randn(6, 13)
        assert same([f(x)], [c(x)])
    assert fates(c).count("constant") >= 3, c.report(launches=True)
    before = pf.debug.stats()
    c(x)
    steady = pf.debug.stats()["programs"] - before["programs"]
    for change in (
        lambda: m[0].weight.data.mul_(2),
        lambda: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}),
        lambda: nn.init.normal_(m[4].weight),
    ):
        with pf.no_grad():
            change()
        before = pf.debug.stats()
        got = c(x)
        pf.flush()
        again = pf.debug.stats()["programs"] - before["programs"]
        assert again > steady  # they have run
        assert same([f(x)], [got])
        assert same([f(x)], [c(x)])


def test_constants_are_not_those_of_memory_that_others_write():
    array = np.ones((32, 32), np.float32)
    w = pf.from_numpy(array)
    if w.device != pf.zeros(1).device:
        pytest.skip("memory of the host")
    c = pf.compile(lambda x: x @ w.bfloat16().float(), **CAPTURED)
    x = pf.ones(2, 32)
    for i in range(8):
        array[:] = i
        assert c(x).tolist() == [[32.0 * i] * 32] * 2


def train(m, wrap, steps=8):
    step = wrap(classifier_step(m)[1])
    pf.manual_seed(3)
    return [step(x, y).item() for x, y in batches(steps, rows=300)], step


def test_one_block_of_memory():
    want, _ = train(model(), lambda f: f)
    m = model()
    got, step = train(m, lambda f: pf.compile(f, **CAPTURED))
    assert want == got
    o = check_plan(step)
    assert 0 < o["arena_bytes"] <= o["pool_bytes"] + slack()
    assert o["arena_bytes"] <= 1.1 * o["bound_bytes"] + slack()
    # Gradients lie in it, and outlive the capture.
    grads = [p.grad for p in m.parameters()]
    values = [g.clone() for g in grads]
    del step
    gc.collect()
    pf.randn(1000, 1000)
    assert same(values, grads)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_comparisons_between_replays(every):
    """Python runs beside the block of memory, with gradients of its own; bits go on as they would."""
    want, _ = train(model(), lambda f: f, 14)
    got, step = train(
        model(), lambda f: pf.compile(f, options={"verify_every": every}, **CAPTURED), 14
    )
    assert want == got
    replays, always = calls(step)
    assert replays + always == 13 and replays >= 11 * every // (every + 1) - 1


def test_tensors_that_the_program_writes():
    kept = {"h": pf.zeros(20, 20), "sum": pf.zeros(())}

    def f(x):
        h = (x * 3).exp()
        kept["h"].copy_(h)
        kept["sum"].add_(h.sum())
        return (h @ h).relu()

    c = pf.compile(f, **CAPTURED)
    total = 0
    for i in range(7):
        x = pf.full((20, 20), i / 10)
        y = c(x)
        h = (x * 3).exp()
        total = h.sum() + total
        assert same([(h @ h).relu(), h, total], [y, kept["h"], kept["sum"]])
    check_plan(c)


def test_gradients_whose_memory_was_given_to_others():
    """It stays where it is: what others see follows."""
    w = pf.ones(50, requires_grad=True)
    if w.device.type != "cpu":
        pytest.skip("memory of the host")

    def step(x):
        w.grad = None
        ((x * 2).exp() * w).sum().backward()

    c = pf.compile(step, **CAPTURED)
    x = pf.arange(50.0) / 50
    c(x), c(x), c(x)
    shown = w.grad.numpy()
    for i in range(4):
        c(x * i)
        assert w.grad.tolist() == (x * i * 2).exp().tolist() == shown.tolist()


def test_gradients_end_where_the_step_clears_them():
    """Neither the captured call nor the one that is compared with it keeps those of the call before."""
    w = pf.ones(1 << 20, requires_grad=True)
    x = pf.ones(1 << 20)

    def step(x):
        w.grad = None
        (w * x).sum().backward()

    def peaks(f, calls):
        found = []
        for _ in range(calls):
            pf.memory.reset_peak_memory_stats(x.device)
            f(x)
            w.grad[0].item()
            found.append(pf.memory.max_memory_allocated(x.device))
        return found

    usual = max(peaks(step, 3))
    c = pf.compile(step, **CAPTURED)
    assert max(peaks(c, 6)) <= usual + (1 << 20) + slack()
    assert calls(c)[0] == 3 and w.grad.sum().item() == 1 << 20


def test_gradients_that_somebody_keeps():
    """Those of the call that is compared with the capture are the ones that replays write; of calls
    before it they stay as they are."""
    w = pf.ones(5, requires_grad=True)

    def step(x):
        w.grad = None
        (w * x).sum().backward()

    c = pf.compile(step, **CAPTURED)
    kept = []
    for i in range(6):
        c(pf.full((5,), float(i)))
        kept.append(w.grad)
        assert w.grad.tolist() == [float(i)] * 5
    assert calls(c)[0] == 3 and [g[0].item() for g in kept[:2]] == [0, 1]
    assert all(g is w.grad for g in kept[2:])


def test_the_call_to_compare_with_fails():
    """Then the next one is captured anew, and gradients are its own."""
    w = pf.ones(5, requires_grad=True)
    o = pf.optim.AdamW([w], lr=0.1)
    want = pf.ones(5, requires_grad=True)
    eager = pf.optim.AdamW([want], lr=0.1)
    fails = [False]

    def step(x, p=w, o=o):
        o.zero_grad()
        (p * x).sum().backward()
        if fails[0]:
            raise RuntimeError("stop")
        o.step()

    c = pf.compile(step, **CAPTURED)
    for i in range(8):
        x = pf.arange(5.0) + i
        fails[0] = i == 2
        if fails[0]:
            with pytest.raises(RuntimeError, match="stop"):
                c(x)
            continue
        c(x)
        step(x, want, eager)
        assert w.tolist() == want.tolist() and w.grad.tolist() == want.grad.tolist()
    assert calls(c)[0] == 3


def test_no_room_for_the_block():
    """Out of memory while planning is an error, and the next call tries again."""
    f = lambda x: (x @ x).exp().softmax(-1) @ x  # noqa: E731
    c = pf.compile(f, **CAPTURED)
    x = pf.randn(1000, 1000) * 0.01
    for _ in range(3):
        c(x)
    device = x.device
    try:
        pf.memory.empty_cache()
        pf.memory.set_memory_limit(1, device)
        with pytest.raises(pf.OutOfMemoryError, match="memory of a captured step"):
            capture_of(c).plan()
    finally:
        pf.memory.set_memory_limit(0, device)
    for _ in range(3):
        assert same([f(x)], [c(x)])
    assert calls(c)[0] == 3


class NoRoom:
    def __init__(self, capture):
        self.capture = capture

    def plan(self):
        raise pf.OutOfMemoryError("no room\nfor it")

    def __getattr__(self, name):
        return getattr(self.capture, name)


def test_a_step_without_room_runs_as_always():
    want, _ = train(model(), lambda f: f, 9)

    def wrap(f):
        c = pf.compile(f, **CAPTURED)

        def step(x, y):
            variants = list(c._step.variants.values())
            if variants and variants[0][0].calls == 3:
                v = variants[0][0]
                if v.capture is not None:
                    v.capture = NoRoom(v.capture)
            return c(x, y)

        step.report = c.report
        return step

    with pytest.warns(UserWarning, match="no memory for a captured step .no room"):
        got, step = train(model(), wrap, 9)
    assert got == want and "6x no memory" in step.report()


def test_gradients_of_a_run_that_failed():
    """They were being written: reading them is an error, and the next call makes them again."""
    w = pf.ones(4, requires_grad=True)

    def step(x, i):
        w.grad = None
        (w * x).sum().backward()
        return x[i]

    c = pf.compile(step, **CAPTURED)
    x = pf.arange(4.0)
    for _ in range(5):
        c(x, pf.tensor([1]))
    try:
        c(x * 2, pf.tensor([7])).tolist()
        pf.synchronize()
        pytest.fail("a wrong index was not told")
    except pf.IndexError:
        pass
    if x.device.type == "cpu":
        with pytest.raises(pf.IndexError):
            w.grad.tolist()
    assert c(x * 3, pf.tensor([1])).tolist() == [3.0] and w.grad.tolist() == [0.0, 3.0, 6.0, 9.0]


# ---- what is told --------------------------------------------------------------------------------


def test_report(tmp_path):
    m = model()
    _, step = train(m, lambda f: pf.compile(f, options={"times": True}, **CAPTURED))
    text = step.report(launches=True, plan=True, svg=tmp_path / "plan.svg")
    assert re.search(r"5 calls replayed, 2 run by Python", text)
    assert re.search(r"captured at .*test_compile_passes\.py:\d+", text)
    assert re.search(r"memory: [\d.]+ MiB in one block .* saved", text)
    assert re.search(r"adamw_step  [\d.]+ us +at .*captured_steps\.py:\d+", text)
    assert text.count("|") >= 32 and "launches 0 to" in text
    svg = (tmp_path / "plan.svg").read_text()
    assert svg.startswith("<svg") and svg.count("<rect") == 1 + len(outcome(step)["pieces"])
    with pytest.raises(ValueError, match="nothing is captured"):
        pf.compile(lambda x: x, **CAPTURED).report(svg=tmp_path / "none.svg")
    assert "mode='default'" in pf.compile(lambda x: x).report(plan=True)


def test_misses_have_file_line_and_reason():
    c = pf.compile(lambda x: x * x.sum().item(), **CAPTURED)
    with pytest.warns(UserWarning, match="runs as always") as warned:
        for _ in range(5):
            c(pf.ones(3))  # this line
    assert len(warned) == 1 and warned[0].filename == __file__
    text = c.report()
    line = next(i for i, l in enumerate(open(__file__), 1) if l.rstrip().endswith("# this line"))
    assert re.search(rf"4x .*the host reads a value.* at .*test_compile_passes\.py:{line}", text)


def test_explain_of_a_replay():
    w = pf.randn(16, 16)

    def f(x):
        return ((x @ w).relu() + 1).sort(-1)[0]  # of f

    c = pf.compile(f, **CAPTURED)
    x = pf.randn(8, 16)
    for _ in range(4):
        c(x)
    with pf.explain() as report:
        c(x)
    anchors = [g for g in report.groups if g.get("anchor") == "matmul"]
    line = next(i for i, l in enumerate(open(__file__), 1) if l.rstrip().endswith("# of f"))
    assert anchors and all(g["reason"] == "replay" for g in report.groups)
    assert {g["where"].rpartition(":")[2] for g in anchors} == {str(line)}
    assert any("sort" in k["op"] for k in report.kernels)


def test_the_line_of_a_number_that_changed():
    rates = iter([0.5, 0.5, 0.25])

    def f(x):
        y = x.exp()
        z = y * next(rates)  # the number
        return z + 1

    c = pf.compile(f, **CAPTURED)
    c(pf.ones(3)), c(pf.ones(3))
    line = next(i for i, l in enumerate(open(__file__), 1) if l.rstrip().endswith("# the number"))
    with pytest.raises(pf.compiler.CaptureError, match=rf"test_compile_passes\.py:{line}"):
        c(pf.ones(3))


# ---- numerics, shapes ---------------------------------------------------------------------------


def test_fast_numerics():
    """Values within a program are not rounded to 16 bits; those in memory are."""

    def f(x):
        return ((x * 1.1 + 0.3).sin() * x).tanh()

    pf.manual_seed(1)
    x = pf.randn(4000).bfloat16()
    exact64 = x.double().mul(1.1).add(0.3).sin().mul(x.double()).tanh()

    def error(y):
        assert y.dtype == pf.bfloat16
        return (y.double() - exact64).abs().mean().item()

    for how in ({}, CAPTURED):
        fast = pf.compile(f, numerics="fast", **how)
        exact = pf.compile(f, **how)
        for _ in range(5):
            a, b = fast(x), exact(x)
            assert same([f(x).float()], [b.float()])
            assert error(a) < 0.8 * error(b)
        assert same([f(x).float()], [b.float()])  # outside nothing has changed
    once = x.float().mul(1.1).add(0.3).sin().mul(x.float()).tanh().bfloat16()
    assert same([once.float()], [a.float()])
    m = model(0.0).bfloat16()
    with pf.no_grad():
        for how in ({}, CAPTURED):
            c = pf.compile(m, numerics="fast", **how)
            for _ in range(5):
                y = c(pf.ones(2, 13).bfloat16())
        m.compile(numerics="fast")
        assert same([m(pf.ones(2, 13).bfloat16()).float()], [y.float()])
    layer = pf.nn.Linear(3, 2)  # of a class of our own
    c = pf.compile(layer, numerics="fast", fullgraph=True, **CAPTURED)
    for _ in range(4):
        layer.zero_grad()
        c(pf.ones(5, 3)).sum().backward()
        assert same([layer.weight.grad], [pf.full((2, 3), 5.0)])
    with pytest.raises(pf.ValueError, match="numerics='quick'; expected 'exact' or 'fast'"):
        pf.compile(f, numerics="quick")


def test_shapes_that_change_all_the_time():
    """dynamic=True: the shape that was not used for longest makes room."""
    c = pf.compile(lambda x: x + 1, dynamic=True, recompile_limit=3, **CAPTURED)
    for _ in range(3):
        for n in (1, 2, 3):
            for _ in range(3):
                assert c(pf.zeros(n)).tolist() == [1.0] * n
    replays = calls(c)[0]
    for n in (4, 5):
        for _ in range(5):
            assert c(pf.zeros(n)).tolist() == [1.0] * n
    assert calls(c)[0] > replays
    assert len(c._step.variants) == 3 and "more than" not in c.report()
    before = calls(c)[0]
    c(pf.zeros(3))
    assert calls(c)[0] == before + 1  # it was used last of the first three


def test_shapes_that_come_once_run_the_programs_that_are_there():
    """What is captured holds for one shape, what is fused for all: there is always a general variant."""
    m = GPT(GPTConfig(vocab=17, layers=2, width=32, heads=2, context=64))
    o, step = classifier_step(lambda x: m(x).flatten(0, 1), m.parameters())
    step = pf.compile(step, dynamic=True, recompile_limit=2, **CAPTURED)

    def made(length):
        before = pf.debug.stats()["programs_made"]
        data = pf.randint(0, 17, (2, length + 1))
        step(data[:, :-1].contiguous(), data[:, 1:].flatten())
        pf.flush()
        return pf.debug.stats()["programs_made"] - before

    made(16), made(17)  # those that no other test has made
    again = [made(n) for n in (*range(18, 32), 47, 63)]
    assert sum(again) <= 2, again
    assert calls(step) == (0, 18)
