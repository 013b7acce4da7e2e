"""Optimizers against their formulas in NumPy, over several steps and parameter groups."""

import math
import pickle
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pyflame as pf
from pyflame import nn

rng = np.random.default_rng(0)


def sgd(p, g, s, lr, momentum=0, dampening=0, weight_decay=0, nesterov=False, maximize=False):
    g = (-g if maximize else g) + weight_decay * p
    if momentum:
        s["b"] = momentum * s["b"] + (1 - dampening) * g if "b" in s else g
        g = g + momentum * s["b"] if nesterov else s["b"]
    return p - lr * g


def adam(
    p, g, s, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, maximize=False,
    decoupled=False,
):  # fmt: skip
    g = -g if maximize else g
    if decoupled:
        p = p * (1 - lr * weight_decay)
    else:
        g = g + weight_decay * p
    n = s["n"] = s.get("n", 0) + 1
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["v"] = betas[1] * s.get("v", 0) + (1 - betas[1]) * g * g
    v = s["v"]
    if amsgrad:
        v = s["x"] = np.maximum(s.get("x", 0), v)
    return p - lr / (1 - betas[0] ** n) * s["m"] / (np.sqrt(v / (1 - betas[1] ** n)) + eps)


def adamw(p, g, s, lr, weight_decay=1e-2, **options):
    return adam(p, g, s, lr, weight_decay=weight_decay, decoupled=True, **options)


CASES = [
    ("SGD", sgd, {"lr": 0.1}),
    ("SGD", sgd, {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("SGD", sgd, {"lr": 0.1, "momentum": 0.9}),
    ("SGD", sgd, {"lr": 0.1, "momentum": 0.9, "dampening": 0.4}),
    ("SGD", sgd, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("Adam", adam, {"lr": 0.01}),
    ("Adam", adam, {"lr": 0.01, "weight_decay": 0.1, "betas": (0.8, 0.9), "eps": 1e-3}),
    ("Adam", adam, {"lr": 0.01, "amsgrad": True}),
    ("AdamW", adamw, {"lr": 0.01}),
    ("AdamW", adamw, {"lr": 0.01, "weight_decay": 0.3, "maximize": True}),
]


@pytest.mark.parametrize("name,rule,options", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_formula(name, rule, options, dtype):
    shapes = [(3, 4), (5,), (), (2, 3, 7)]
    values = [rng.standard_normal(s) for s in shapes]
    params = [nn.Parameter(pf.tensor(np.array(v, dtype))) for v in values]
    second = dict(options, lr=options["lr"] * 3)
    groups = [{"params": params[:2]}, {"params": params[2:], "lr": second["lr"]}]
    optimizer = getattr(pf.optim, name)(groups, **options)
    states = [{} for _ in params]
    for step in range(6):
        for i, p in enumerate(params):
            if step == 2 and i == 1:
                p.grad = None  # left alone for this step
                continue
            g = rng.standard_normal(shapes[i])
            p.grad = pf.tensor(np.array(g, dtype))
            values[i] = rule(values[i], g, states[i], **(options if i < 2 else second))
        optimizer.step()
        tol = 1e-10 if dtype == np.float64 else 2e-5
        for p, v in zip(params, values):
            assert_allclose(p.detach().numpy(), v, rtol=tol, atol=tol)


def train(optimizer, net, steps, start=0):
    losses = []
    for i in range(start, start + steps):
        x = pf.tensor(np.random.default_rng(i).standard_normal((8, 4)).astype(np.float32))
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def make(name, options):
    pf.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    groups = [{"params": net[0].parameters()}, {"params": net[2].parameters(), "lr": 0.02}]
    return net, getattr(pf.optim, name)(groups, **options)


@pytest.mark.parametrize("name,rule,options", CASES)
def test_state_dict_resumes_exactly(name, rule, options, tmp_path):
    net, optimizer = make(name, options)
    train(optimizer, net, 3)
    pf.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "s.pf")
    want = train(optimizer, net, 3, start=3)
    other, second = make(name, options)
    state = pf.load(tmp_path / "s.pf")
    other.load_state_dict(state["net"])
    second.load_state_dict(state["optimizer"])
    assert train(second, other, 3, start=3) == want


def test_state_dict_form():
    net, optimizer = make("Adam", {"lr": 0.1})
    train(optimizer, net, 1)
    state = optimizer.state_dict()
    assert [g["params"] for g in state["param_groups"]] == [[0, 1], [2, 3]]
    assert set(state["state"]) == {0, 1, 2, 3}
    assert set(state["state"][0]) == {"step", "exp_avg", "exp_avg_sq"}
    assert state["param_groups"][1]["lr"] == 0.02


def test_load_state_dict_errors():
    net, optimizer = make("Adam", {"lr": 0.1})
    train(optimizer, net, 1)
    state = optimizer.state_dict()
    one = pf.optim.Adam(net.parameters())
    with pytest.raises(ValueError, match="parameter groups"):
        one.load_state_dict(state)
    other, second = make("Adam", {"lr": 0.1})
    state["state"][0]["exp_avg"] = pf.zeros(3)
    with pytest.raises(ValueError, match="shape"):
        second.load_state_dict(state)


def test_groups():
    a, b = nn.Parameter(pf.ones(2)), nn.Parameter(pf.ones(3))
    optimizer = pf.optim.SGD([a], lr=0.5)
    optimizer.add_param_group({"params": b, "lr": 0.1})
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.1]
    with pytest.raises(ValueError, match="more than one"):
        optimizer.add_param_group({"params": [a]})
    with pytest.warns(UserWarning, match="duplicate parameters"):
        pf.optim.SGD([a, a])
    with pytest.raises(ValueError, match="empty"):
        pf.optim.SGD([])
    with pytest.raises(TypeError, match="single Tensor"):
        pf.optim.SGD(a)
    with pytest.raises(ValueError, match="non-leaf"):
        pf.optim.SGD([a * 2])
    with pytest.raises(ValueError, match="learning rate"):
        pf.optim.SGD([a], lr=-1)
    with pytest.raises(ValueError, match="beta"):
        pf.optim.Adam([a], betas=(1.0, 0.9))
    with pytest.raises(ValueError, match="nesterov"):
        pf.optim.SGD([a], nesterov=True)
    named = pf.optim.SGD([("a", a), ("b", b)])
    assert named.param_groups[0]["param_names"] == ["a", "b"]
    assert "lr: 0.001" in repr(named)


def test_zero_grad_and_closure():
    p = nn.Parameter(pf.ones(2))
    optimizer = pf.optim.SGD([p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with pf.no_grad():
        assert optimizer.step(closure).item() == 2
    assert p.tolist() == [0.0, 0.0]
    gradient = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is gradient and p.grad.tolist() == [0.0, 0.0]
    (p * p * p).sum().backward(create_graph=True)
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.grad_fn is None and not p.grad.requires_grad
    optimizer.zero_grad()
    assert p.grad is None
    optimizer.step()  # nothing to do


def test_adam_finds_the_minimum():
    p = nn.Parameter(pf.tensor([3.0, -2.0]))
    optimizer = pf.optim.Adam([p], lr=0.1)
    for _ in range(300):
        optimizer.zero_grad()
        ((p - pf.tensor([1.0, 2.0])) ** 2).sum().backward()
        optimizer.step()
    assert_allclose(p.detach().numpy(), [1.0, 2.0], atol=1e-2)
    assert math.isfinite(p.sum().item())


def test_decoupled_decay_is_the_groups():
    def steps(cls, load=None, **options):
        p = nn.Parameter(pf.tensor([1.0, -2.0]))
        optimizer = cls([p], lr=0.1, weight_decay=0.5, **options)
        if load is not None:
            optimizer.load_state_dict(load)
        for _ in range(3):
            p.grad = pf.tensor([0.5, 0.25])
            optimizer.step()
        return p.tolist(), optimizer

    decoupled, _ = steps(pf.optim.AdamW)
    added, of_adam = steps(pf.optim.Adam)
    assert decoupled != added
    assert steps(pf.optim.Adam, decoupled_weight_decay=True)[0] == decoupled
    fresh = pf.optim.AdamW([nn.Parameter(pf.ones(2))], lr=0.1, weight_decay=0.5).state_dict()
    assert steps(pf.optim.Adam, load=fresh)[0] == decoupled  # what is loaded is what is done
    p = nn.Parameter(pf.tensor([1.0, -2.0]))
    mixed = pf.optim.Adam([{"params": [p], "decoupled_weight_decay": True}], 0.1, weight_decay=0.5)
    for _ in range(3):
        p.grad = pf.tensor([0.5, 0.25])
        mixed.step()
    assert p.tolist() == decoupled


class Interrupted(Exception):
    pass


def interrupted(call, line):
    """Whether an exception, as a signal's handler raises it, came at this line of the call."""
    left = line

    def trace(frame, event, _):
        nonlocal left
        if "pyflame/optim" not in frame.f_code.co_filename:
            return None
        left -= event == "line"
        if left < 0:
            raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize(
    "make",
    [
        lambda p: pf.optim.AdamW(p, 0.1),
        lambda p: pf.optim.Adam(p, 0.1, amsgrad=True),
        lambda p: pf.optim.SGD(p, 0.1, momentum=0.9, dampening=0.5),
        lambda p: pf.optim.RMSprop(p, 0.1, momentum=0.9, centered=True),
        lambda p: pf.optim.NAdam(p, 0.1),
    ],
    ids=["adamw", "amsgrad", "sgd", "rmsprop", "nadam"],
)
@pytest.mark.parametrize("before", [0, 1], ids=["first", "second"])
def test_an_interrupted_step_is_done_or_not_begun(make, before):
    def trained(line):
        ps = [nn.Parameter(pf.tensor([1.0, -2.0])) for _ in range(3)]
        for p in ps:
            p.grad = pf.tensor([0.5, 0.25])
        optimizer = make(ps)
        for _ in range(before):
            optimizer.step()
        stopped = line is not None and interrupted(optimizer.step, line)
        results = [[p.tolist() for p in ps]]
        optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
        return stopped, results + [[p.tolist() for p in ps]]

    start = [[[1.0, -2.0]] * 3] if not before else trained(None)[1][:1]
    whole = trained(None)[1][1]
    line = 0
    while True:
        stopped, (left, after) = trained(line)
        if not stopped:
            break
        # Nothing happened, and the next step is the one that was missed; or it happened for all.
        assert all(p == left[0] for p in left) and all(p == after[0] for p in after), line
        assert after == whole if [left] == start else left == whole, line
        line += 1
    assert line > 20


@pytest.mark.parametrize("kind", ["SGD", "Momentum", "AdamW", "AMSGrad", "RMSprop", "NAdam"])
def test_what_lies_channels_last_is_updated_where_it_lies(kind):
    """The bits of row-major ones; gradients may lie as they do, or otherwise."""
    make = {
        "SGD": lambda p: pf.optim.SGD(p, lr=0.1, weight_decay=0.01),
        "Momentum": lambda p: pf.optim.SGD(p, lr=0.1, momentum=0.9),
        "AdamW": lambda p: pf.optim.AdamW(p, lr=0.1),
        "AMSGrad": lambda p: pf.optim.Adam(p, lr=0.1, amsgrad=True),
        "RMSprop": lambda p: pf.optim.RMSprop(p, lr=0.1, momentum=0.9),
        "NAdam": lambda p: pf.optim.NAdam(p, lr=0.1),
    }[kind]
    start = [pf.randn(8, 5, 3, 2), pf.randn(7), pf.randn(4, 6, 2, 2)]
    rows = [t.clone().requires_grad_() for t in start]
    last = [
        (
            t.contiguous(memory_format=pf.channels_last) if t.ndim == 4 else t.clone()
        ).requires_grad_()
        for t in start
    ]
    a, b = make(rows), make(last)
    places = [t.data_ptr() for t in last]
    for i in range(4):
        for t, u in zip(rows, last):
            g = pf.randn(*t.shape)
            t.grad = g
            u.grad = (
                g.contiguous(memory_format=pf.channels_last)
                if t.ndim == 4 and i != 2
                else g.clone()
            )
        a.step()
        b.step()
    states = [
        v for s in b.state.values() for v in s.values() if isinstance(v, pf.Tensor) and v.ndim == 4
    ]
    assert all(v.is_contiguous(memory_format=pf.channels_last) for v in states)
    assert bool(states) == (kind != "SGD")
    for t, u, place in zip(rows, last, places):
        assert u.data_ptr() == place and u.is_contiguous(memory_format=pf.channels_last) == (
            t.ndim == 4
        )
        np.testing.assert_array_equal(t.detach().cpu().numpy(), u.detach().cpu().numpy())


def test_optimizers_are_named_where_programs_find_them():
    for name in pf.optim.__all__:
        cls = getattr(pf.optim, name)
        if isinstance(cls, type):
            assert cls.__module__ == "pyflame.optim" and pickle.loads(pickle.dumps(cls)) is cls
    assert b"pyflame.optim\n" in pickle.dumps(pf.optim.SGD, 0)
    old = pickle.dumps(pf.optim.SGD, 0).replace(b"pyflame.optim\n", b"pyflame.optim.adam_sgd\n")
    assert pickle.loads(old) is pf.optim.SGD


def test_gradients_that_lie_channels_last_are_clipped_without_copies():
    start = [pf.randn(8, 5, 3, 3), pf.randn(7), pf.randn(4, 6, 2, 2)]
    last = [
        t.contiguous(memory_format=pf.channels_last) if t.ndim == 4 else t.clone() for t in start
    ]
    parameters = [pf.zeros_like(t).requires_grad_() for t in last]
    for p, t in zip(parameters, last):
        p.grad = t
    pf.synchronize()
    before = pf.debug.stats()
    total = pf.nn.utils.clip_grad_norm_(parameters, 1.5)
    pf.nn.utils.clip_grad_value_(parameters, 0.2)
    pf.synchronize()
    after = pf.debug.stats()
    assert after["kernels"] - before["kernels"] == 3 and after["programs"] == before["programs"]
    arrays = [t.cpu().numpy() for t in start]
    norm = np.sqrt(sum((a.astype(np.float64) ** 2).sum() for a in arrays))
    assert total.item() == pytest.approx(norm, rel=1e-6)
    for a, t in zip(arrays, last):
        assert t.ndim != 4 or t.is_contiguous(memory_format=pf.channels_last)
        np.testing.assert_allclose(t.cpu().numpy(), (a * 1.5 / norm).clip(-0.2, 0.2), rtol=1e-5)
