"""Learning-rate schedules against their formulas."""

import copy
import math

import pytest

import pyflame as pf
from pyflame import nn
from pyflame.optim import lr_scheduler as S


def optimizer(*rates, **options):
    groups = [{"params": [nn.Parameter(pf.ones(1))], "lr": lr} for lr in rates or (0.5,)]
    return pf.optim.SGD(groups, lr=0.5, **options)


def rates(opt, scheduler, count):
    out = []
    for _ in range(count):
        out.append(opt.param_groups[0]["lr"])
        assert scheduler.get_last_lr()[0] == out[-1]
        opt.step()
        scheduler.step()
    return out


def close(got, want):
    assert got == pytest.approx(want, rel=1e-9, abs=1e-12)


CASES = [
    (lambda o: S.LambdaLR(o, lambda t: 0.9**t), lambda t: 0.5 * 0.9**t),
    (lambda o: S.MultiplicativeLR(o, lambda t: 0.9), lambda t: 0.5 * 0.9**t),
    (lambda o: S.StepLR(o, 3, 0.2), lambda t: 0.5 * 0.2 ** (t // 3)),
    (lambda o: S.MultiStepLR(o, [2, 5, 5]), lambda t: 0.5 * 0.1 ** ((t >= 2) + 2 * (t >= 5))),
    (lambda o: S.ExponentialLR(o, 0.8), lambda t: 0.5 * 0.8**t),
    (lambda o: S.ConstantLR(o, 0.25, 4), lambda t: 0.5 * (0.25 if t < 4 else 1)),
    (lambda o: S.LinearLR(o, 0.2, 0.8, 5), lambda t: 0.5 * (0.2 + 0.6 * min(t, 5) / 5)),
    (lambda o: S.PolynomialLR(o, 8, 2.0), lambda t: 0.5 * (1 - min(t, 8) / 8) ** 2),
    (
        lambda o: S.CosineAnnealingLR(o, 10, 0.1),
        lambda t: 0.1 + 0.4 * (1 + math.cos(math.pi * t / 10)) / 2,
    ),
    (
        lambda o: S.CosineAnnealingWarmRestarts(o, 4),
        lambda t: 0.5 * (1 + math.cos(math.pi * (t % 4) / 4)) / 2,
    ),
    (
        lambda o: S.WarmupCosineLR(o, 4, 20, 0.05),
        lambda t: (
            0.5 * (t + 1) / 4
            if t < 4
            else 0.05 + 0.45 * (1 + math.cos(math.pi * (min(t, 20) - 4) / 16)) / 2
        ),
    ),
]


@pytest.mark.parametrize("make,formula", CASES)
def test_formula(make, formula):
    opt = optimizer()
    close(rates(opt, make(opt), 24), [formula(t) for t in range(24)])


@pytest.mark.parametrize("make,formula", CASES)
def test_state_dict(make, formula):
    opt = optimizer()
    scheduler = make(opt)
    rates(opt, scheduler, 7)
    state, lr = scheduler.state_dict(), opt.state_dict()
    assert "optimizer" not in state
    other = optimizer()
    second = make(other)
    other.load_state_dict(lr)
    second.load_state_dict(state)
    close(rates(other, second, 8), [formula(t) for t in range(7, 15)])


def test_warm_restarts_that_grow():
    opt = optimizer()
    scheduler = S.CosineAnnealingWarmRestarts(opt, 2, T_mult=2)
    got = rates(opt, scheduler, 14)
    assert [t for t, lr in enumerate(got) if lr == 0.5] == [0, 2, 6]
    scheduler.step(6.5)
    close(opt.param_groups[0]["lr"], 0.5 * (1 + math.cos(math.pi * 0.5 / 8)) / 2)


def test_groups_keep_their_own_rates():
    opt = optimizer(0.5, 0.1)
    S.StepLR(opt, 1, 0.5).step()
    assert [g["lr"] for g in opt.param_groups] == [0.25, 0.05]


def test_sequential():
    opt = optimizer()
    parts = [
        S.LinearLR(opt, 0.1, total_iters=4),
        S.CosineAnnealingLR(opt, 8),
        S.ExponentialLR(opt, 0.9),
    ]
    scheduler = S.SequentialLR(opt, parts, [4, 12])
    want = [0.5 * (0.1 + 0.9 * t / 4) for t in range(4)]
    want += [0.5 * (1 + math.cos(math.pi * t / 8)) / 2 for t in range(8)]
    want += [0.5 * 0.9**t for t in range(4)]
    close(rates(opt, scheduler, 16), want)
    with pytest.raises(ValueError):
        S.SequentialLR(opt, parts, [4])


def test_chained():
    opt = optimizer()
    scheduler = S.ChainedScheduler([S.ExponentialLR(opt, 0.9), S.StepLR(opt, 2, 0.5)])
    close(rates(opt, scheduler, 6), [0.5 * 0.9**t * 0.5 ** (t // 2) for t in range(6)])


def test_one_cycle():
    opt = optimizer(momentum=0.9)
    scheduler = S.OneCycleLR(opt, 1.0, total_steps=20, pct_start=0.25)
    lr, momentum = [], []
    for i in range(20):
        lr.append(opt.param_groups[0]["lr"])
        momentum.append(opt.param_groups[0]["momentum"])
        if i < 19:
            scheduler.step()
    assert lr[0] == pytest.approx(1 / 25) and lr[4] == pytest.approx(1.0)
    assert lr[-1] == pytest.approx(1 / 25 / 1e4)
    assert momentum[0] == pytest.approx(0.95) and momentum[4] == pytest.approx(0.85)
    assert momentum[-1] == pytest.approx(0.95)
    with pytest.raises(ValueError, match="total"):
        for _ in range(3):
            scheduler.step()
    adam = pf.optim.Adam([nn.Parameter(pf.ones(1))], lr=0.1)
    S.OneCycleLR(adam, 1.0, epochs=2, steps_per_epoch=5, three_phase=True).step()
    assert adam.param_groups[0]["betas"][1] == 0.999


def test_reduce_on_plateau():
    opt = optimizer()
    scheduler = S.ReduceLROnPlateau(opt, factor=0.5, patience=2, cooldown=1)
    seen = []
    for value in [3, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1]:
        scheduler.step(pf.tensor(float(value)))
        seen.append(opt.param_groups[0]["lr"])
    assert seen == [0.5] * 4 + [0.25] * 4 + [0.125] * 3
    best = S.ReduceLROnPlateau(opt, mode="max", patience=0, threshold_mode="abs")
    best.step(1.0)
    best.step(0.5)
    assert opt.param_groups[0]["lr"] == pytest.approx(0.0125)


def test_errors():
    with pytest.raises(TypeError, match="not an Optimizer"):
        S.StepLR(object(), 3)
    with pytest.raises(KeyError, match="initial_lr"):
        S.StepLR(optimizer(), 3, last_epoch=5)


class Falling:
    """A callable object: what it holds is state."""

    def __init__(self, by):
        self.by = by

    def __call__(self, t):
        return self.by**t


def kinds(S):
    return {
        "functions": lambda o: S.LambdaLR(o, lambda t: 0.9**t),
        "objects": lambda o: S.LambdaLR(o, [Falling(0.9), Falling(0.8)]),
        "multiplicative": lambda o: S.MultiplicativeLR(o, lambda t: 0.9),
        "steps": lambda o: S.MultiStepLR(o, [3, 6, 6]),
        "cosine": lambda o: S.CosineAnnealingLR(o, 5, 0.01),
        "restarts": lambda o: S.CosineAnnealingWarmRestarts(o, 3, 2),
        "cyclic": lambda o: S.CyclicLR(o, 0.01, 0.2, 3, mode="triangular2"),
        "one_cycle": lambda o: S.OneCycleLR(o, 0.4, total_steps=20),
        "three_phases": lambda o: S.OneCycleLR(
            o, 0.4, total_steps=20, three_phase=True, anneal_strategy="linear"
        ),
        "plateau": lambda o: S.ReduceLROnPlateau(o, patience=1, cooldown=1),
        "sequential": lambda o: S.SequentialLR(
            o, [S.LinearLR(o, 0.1, 1, 3), S.LambdaLR(o, lambda t: 0.9**t)], [6]
        ),
        "chained": lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 6), S.ExponentialLR(o, 0.9)]),
    }


@pytest.mark.filterwarnings("ignore:Detected call of:UserWarning")
@pytest.mark.parametrize("name", kinds(S))
@pytest.mark.parametrize("direction", ["read", "written"])
def test_states_are_pytorchs(name, direction):
    """A state of either goes on with the other; a program's checkpoint holds both states."""
    torch = pytest.importorskip("torch")

    def made(lib):
        groups = [{"params": [lib.nn.Parameter(lib.ones(1))], "lr": lr} for lr in (0.1, 0.5)]
        opt = lib.optim.SGD(groups, lr=0.1, momentum=0.9)
        return opt, kinds(lib.optim.lr_scheduler)[name](opt)

    def go(opt, scheduler, count):
        out = []
        for _ in range(count):
            opt.step()
            scheduler.step(*([1.0] if name == "plateau" else []))
            out += [g["lr"] for g in opt.param_groups] + [g["momentum"] for g in opt.param_groups]
        return out

    first, second = (torch, pf) if direction == "read" else (pf, torch)
    opt, scheduler = made(first)
    go(opt, scheduler, 4)
    other, behind = made(second)
    for group, state in zip(other.param_groups, opt.state_dict()["param_groups"]):
        group.update({k: v for k, v in state.items() if k != "params"})
    if name == "objects":
        for f in behind.lr_lambdas:
            f.by = 0.5
    behind.load_state_dict(copy.deepcopy(scheduler.state_dict()))
    close(go(other, behind, 8), go(opt, scheduler, 8))


def test_a_schedule_before_the_first_step_is_told():
    import pickle
    import warnings

    from pyflame.optim.lr_scheduler import StepLR

    def optimizer():
        return pf.optim.SGD([pf.nn.Parameter(pf.ones(1))], lr=0.1)

    o = optimizer()
    with pytest.warns(UserWarning, match=r"lr_scheduler.step\(\) was called before optimizer.step"):
        StepLR(o, 1).step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make in (lambda o: o, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))):
            o = make(optimizer())
            o.step()
            s = StepLR(o, 1)
            s.step()
            s.step()
        assert "_stepped" not in o.state_dict() and "_stepped" not in o.__getstate__()


def test_a_sequence_is_made_without_warnings(recwarn):
    opt = optimizer()
    first = S.LinearLR(opt, 0.1, total_iters=3)
    S.SequentialLR(opt, [first, S.CosineAnnealingLR(opt, 10)], milestones=[3])
    assert not recwarn.list
