"""pf.compile: casts of weights that the step of an optimizer makes for the next call."""

import math

import pytest
from captured_steps import CAPTURED, same
from test_compile_passes import capture_of, check_plan, outcome

import pyflame as pf
import pyflame.nn.functional as F
from pyflame import nn

OPTIMIZERS = {
    "SGD": lambda ps: pf.optim.SGD(ps, lr=0.1),
    "SGD, momentum": lambda ps: pf.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda ps: pf.optim.Adam(ps, lr=0.01, weight_decay=0.1, amsgrad=True),
    "AdamW": lambda ps: pf.optim.AdamW(ps, lr=0.01),
    "AdamW, two groups": lambda ps: pf.optim.AdamW(
        [{"params": ps[::2], "weight_decay": 0.1}, {"params": ps[1::2], "weight_decay": 0.0}],
        lr=0.01,
    ),
}


def model(seed=1):
    """Sizes of no whole vectors; a norm, whose weights nobody casts."""
    pf.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(13, 37),
        nn.LayerNorm(37),
        nn.GELU(),
        nn.Linear(37, 1, bias=False),
        nn.Linear(1, 5),
    )


def step_of(m, optimizer, dtype=pf.bfloat16, behind=lambda m: None):
    kind = m[0].weight.device.type

    def step(x, y):
        optimizer.zero_grad()
        with pf.autocast(kind, dtype=dtype):
            loss = F.cross_entropy(m(x), y)
        loss.backward()
        optimizer.step()
        return loss, behind(m)

    return step


def copied(step):
    return outcome(step)["copied"]


def casts_run(call):
    """Programs that a call launches, and what it returns."""
    pf.flush()
    before = pf.debug.stats()["programs"]
    result = call()
    pf.flush()
    return pf.debug.stats()["programs"] - before, result


@pytest.mark.parametrize("dtype", [pf.bfloat16, pf.float16])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_bits_are_those_of_casts(name, dtype):
    """Whoever else writes a weight between two calls."""
    pf.manual_seed(4)
    data = [(pf.randn(6, 13), pf.randint(0, 5, (6,))) for _ in range(14)]
    changes = {
        5: lambda m, o: m[0].weight.data.mul_(2),
        7: lambda m, o: m.load_state_dict({k: v * 0.5 for k, v in m.state_dict().items()}),
        9: lambda m, o: o.load_state_dict(o.state_dict()),
        11: lambda m, o: [group.update(lr=group["lr"] * 0.1) for group in o.param_groups],
        12: lambda m, o: m[4].bias.data.copy_(pf.arange(5.0)),
    }

    def run(wrap):
        m = model()
        o = OPTIMIZERS[name](list(m.parameters()))
        step = wrap(step_of(m, o, dtype))
        losses = []
        for i, (x, y) in enumerate(data):
            if i in changes:
                with pf.no_grad():
                    changes[i](m, o)
            losses.append(step(x, y)[0])
        return losses + list(m.parameters()), step

    want, _ = run(lambda f: f)
    got, step = run(lambda f: pf.compile(f, **CAPTURED))
    assert same(want, got)
    # Two weights and a bias are cast alone; the first bias may be with its input.
    assert copied(step) >= 3, step.report(launches=True)
    check_plan(step)
    assert "casts that an optimizer makes" in step.report()


def test_casts_run_where_others_have_written():
    m = model()
    o = pf.optim.AdamW(m.parameters(), lr=0.01)
    step = pf.compile(step_of(m, o), **CAPTURED)
    x, y = pf.randn(6, 13), pf.randint(0, 5, (6,))
    for _ in range(6):
        step(x, y)
    n = copied(step)
    steady, _ = casts_run(lambda: step(x, y))
    with pf.no_grad():
        m[3].weight.add_(1)
    again, _ = casts_run(lambda: step(x, y))
    assert again >= steady + n  # all of them
    assert casts_run(lambda: step(x, y))[0] == steady


def test_values_at_the_edges():
    """Infinities, NaN, values that round up to the next power of two; no elements at all."""
    edges = [
        math.inf,
        -math.inf,
        math.nan,
        1e4,
        -1e4,
        65519.0,
        65520.0,
        1e-45,
        0.0,
        -0.0,
        3.3895e38,
    ]
    kind = pf.zeros(1).device.type

    def run(wrap, dtype):
        pf.manual_seed(2)
        ps = [nn.Parameter(pf.tensor(edges)[:, None]), nn.Parameter(pf.randn(0, 3)),
              nn.Parameter(pf.randn(1025, 3))]  # fmt: skip
        o = pf.optim.SGD(ps, lr=0.5)

        def step(x):
            o.zero_grad()
            with pf.autocast(kind, dtype=dtype):
                results = [F.linear(x[:, : p.shape[1]].contiguous(), p).float() for p in ps]
            sum((r * r.detach()).sum() for r in results).backward()
            o.step()
            return results

        step = wrap(step)
        seen = [t for _ in range(7) for t in step(pf.full((2, 3), 0.001))]
        return seen + ps, step

    for dtype in (pf.bfloat16, pf.float16):
        want, _ = run(lambda f: f, dtype)
        got, step = run(lambda f: pf.compile(f, **CAPTURED), dtype)
        for a, b in zip(want, got):
            assert pf.equal(a.isnan(), b.isnan())
            assert same([a.nan_to_num(7.0)], [b.nan_to_num(7.0)])
        assert copied(step) >= 2, step.report(launches=True)


BEHIND = {
    "the weight is cast once more": lambda m: (m[3].weight.detach().bfloat16() @ pf.ones(37, 2).bfloat16()).float(),
    "the weight is written again": lambda m: m[3].weight.data.clamp_(-0.1, 0.1).sum(),
    "a part of it is": lambda m: m[3].weight.data[:, 3:9].zero_(),
}  # fmt: skip


@pytest.mark.parametrize("what", BEHIND)
def test_steps_that_use_the_weight_behind_the_optimizer(what):
    def run(wrap):
        m = model(3)
        step = wrap(step_of(m, pf.optim.AdamW(m.parameters(), lr=0.1), behind=BEHIND[what]))
        pf.manual_seed(5)
        seen = []
        for _ in range(8):
            seen += step(pf.randn(6, 13), pf.randint(0, 5, (6,)))
        return seen + list(m.parameters())

    assert same(run(lambda f: f), run(lambda f: pf.compile(f, **CAPTURED)))


def test_an_optimizer_in_front_and_two_of_one_weight():
    """Where the casts come behind the step, or a weight has two, they are as they were."""

    def run(wrap, twice):
        m = model(3)
        kind = m[0].weight.device.type
        o = pf.optim.SGD(m.parameters(), lr=0.1)
        other = pf.optim.AdamW(m.parameters(), lr=0.01)

        def step(x, y):
            if twice:
                o.zero_grad()
            else:
                o.step()
                o.zero_grad()
            with pf.autocast(kind, dtype=pf.bfloat16):
                loss = F.cross_entropy(m(x), y)
            loss.backward()
            if twice:
                o.step()
                other.step()
            return loss

        step = wrap(step)
        pf.manual_seed(5)
        for p in m.parameters():
            p.grad = pf.zeros_like(p)
        return [step(pf.randn(6, 13), pf.randint(0, 5, (6,))) for _ in range(8)] + list(
            m.parameters()
        )

    for twice in (False, True):
        assert same(
            run(lambda f: f, twice), run(lambda f, t=twice: pf.compile(f, **CAPTURED), twice)
        )


def test_casts_follow_whoever_writes_the_weights():
    """Another optimizer's state, comparisons with Python in between, memory that somebody else sees."""

    def run(wrap):
        m = model(6)
        o = pf.optim.AdamW(m.parameters(), lr=0.01)
        step = wrap(step_of(m, o))
        pf.manual_seed(5)
        seen = []
        for i in range(16):
            if i == 6:
                state = o.state_dict()
                o = pf.optim.AdamW(m.parameters(), lr=0.01)  # not the one that the step uses
                o.load_state_dict(state)
            if i == 9:
                array = m[3].weight.detach().cpu().numpy()
            if i in (10, 12):
                array[:] = i  # where the CPU has it, the weight's own memory
            seen += step(pf.randn(6, 13), pf.randint(0, 5, (6,)))[:1]
        return seen + list(m.parameters())

    want = run(lambda f: f)
    assert same(want, run(lambda f: pf.compile(f, **CAPTURED)))
    assert same(want, run(lambda f: pf.compile(f, options={"verify_every": 2}, **CAPTURED)))


def test_replays_of_a_capture_whose_copies_have_no_room(monkeypatch):
    """What is kept from call to call would take more than the run did: then casts run."""
    pf.manual_seed(0)
    w = [nn.Parameter(pf.randn(512, 512) * 0.05) for _ in range(8)]
    o = pf.optim.SGD(w, lr=0.1)

    def step(x):
        o.zero_grad()
        loss = 0
        for p in w:  # one at a time: each cast's memory serves the next
            y = F.linear(x.bfloat16(), p.bfloat16()).float().sum()
            y.backward()
            loss = loss + y.detach()
        o.step()
        return loss

    c = pf.compile(step, **CAPTURED)
    for _ in range(6):
        c(pf.ones(2, 512))
    o = check_plan(c)
    assert capture_of(c).list() and o["arena_bytes"] <= o["pool_bytes"] + (3 << 20)
