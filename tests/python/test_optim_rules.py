"""The other optimizers: against their own formulas as operations, against PyTorch, against papers."""

import copy
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pyflame as pf
from pyflame import nn

RULES = [
    ("RMSprop", {}),
    ("RMSprop", {"centered": True, "weight_decay": 0.1}),
    ("RMSprop", {"momentum": 0.9, "weight_decay": 0.1, "maximize": True}),
    ("RMSprop", {"centered": True, "momentum": 0.5, "alpha": 0.9, "eps": 1e-3}),
    ("Adagrad", {}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.3}),
    ("Adadelta", {}),
    ("Adadelta", {"weight_decay": 0.1, "rho": 0.8, "maximize": True}),
    ("Adamax", {}),
    ("Adamax", {"weight_decay": 0.1, "maximize": True, "betas": (0.8, 0.9)}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "maximize": True}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"weight_decay": 0.1, "betas": (0.8, 0.9)}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("ASGD", {}),
    ("ASGD", {"t0": 5, "weight_decay": 0.1, "lambd": 0.1, "maximize": True}),
    ("Rprop", {}),
    ("Rprop", {"maximize": True, "etas": (0.3, 1.7), "step_sizes": (1e-3, 0.1)}),
    ("Lion", {"lr": 0.01}),
    ("Lion", {"lr": 0.01, "weight_decay": 0.3, "maximize": True}),
]
FROM_TORCH = [r for r in RULES if r[0] != "Lion"] + [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {}),
]
ADAFACTOR = [{}, {"weight_decay": 0.1, "lr": 0.3, "eps": (1e-5, 1e-2), "d": 1.5, "maximize": True}]
SHAPES = [(3, 4), (5,), (), (2, 3, 7), (1030,), (0, 3)]
NAMES = [f"{name}-{'-'.join(o) or 'plain'}" for name, o in RULES]


def values(rng, dtype=np.float64):
    return [np.asarray(rng.standard_normal(s), dtype) for s in SHAPES]


def trajectory(t, name, options, steps, dtype="float64", skip=True, **more):
    """(optimizer, parameters) after some steps of random gradients; one has none for a step."""
    rng = np.random.default_rng(0)
    kind = getattr(t, dtype)
    params = [t.tensor(v).to(kind) for v in values(rng)]
    if not more.get("differentiable"):
        params = [t.nn.Parameter(p) for p in params]
    optimizer = getattr(t.optim, name)(params, **options, **more)
    for step in range(steps):
        for i, (p, g) in enumerate(zip(params, values(rng))):
            p.grad = None if skip and (step, i) == (3, 1) else t.tensor(g).to(kind)
        optimizer.step()
    return optimizer, params


def same(ours, theirs, rtol):
    for a, b in zip(ours, theirs, strict=True):
        a, b = a.detach().double().numpy(), b.detach().double().numpy()
        assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, np.abs(b).max(initial=0)))


@pytest.mark.parametrize("name,options", RULES, ids=NAMES)
@pytest.mark.parametrize("dtype,rtol", [("float64", 1e-12), ("float32", 3e-5), ("bfloat16", 0.1)])
def test_kernels_are_their_formulas(name, options, dtype, rtol):
    steps = 8 if dtype == "float64" else 3
    _, ours = trajectory(pf, name, options, steps, dtype)
    _, recorded = trajectory(pf, name, options, steps, "float64", differentiable=True)
    if dtype == "bfloat16":  # rounded states: the same to within some steps of the dtype
        recorded = [p.to(pf.bfloat16) for p in recorded]
    same(ours, recorded, rtol)


@pytest.mark.cpu_only
@pytest.mark.parametrize("name,options", FROM_TORCH)
def test_trajectories_are_those_of_pytorch(name, options):
    torch = pytest.importorskip("torch")
    same(trajectory(pf, name, options, 50)[1], trajectory(torch, name, options, 50)[1], 1e-6)


@pytest.mark.cpu_only
@pytest.mark.parametrize("options", ADAFACTOR)
def test_adafactor_beside_pytorch(options):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    start = [rng.standard_normal(s) for s in ((3, 4), (5,), (2, 3, 7), (40, 1))]
    grads = [[rng.standard_normal(v.shape) for v in start] for _ in range(50)]
    results = []
    for t in (pf, torch):
        params = [t.nn.Parameter(t.tensor(v)) for v in start]
        optimizer = t.optim.Adafactor(params, **options)
        for step in grads:
            for p, g in zip(params, step):
                p.grad = t.tensor(g)
            optimizer.step()
        results.append(params)
    same(*results, 1e-6)


CHANGING = [
    *RULES,
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("Adam", {"amsgrad": True}),
]


@pytest.mark.parametrize("first", [0, 2], ids=["before", "between"])
@pytest.mark.parametrize(
    "way", ["float64 float32", "float32 float64", "float32 bfloat16", "bfloat16 float32"]
)
@pytest.mark.parametrize("name,options", CHANGING)
def test_parameters_change_their_dtype(name, options, way, first):
    """A state stays in the dtype that it was made in, as PyTorch's where PyTorch goes on (it does not where a
    rule has a lerp)."""

    def run(t, way):
        rng = np.random.default_rng(0)
        kinds = [getattr(t, dtype) for dtype in way.split()]
        params = [t.nn.Parameter(t.tensor(v).to(kinds[0])) for v in values(rng)]
        optimizer = getattr(t.optim, name)(params, **options)
        for step in range(4):
            if step == first:
                for p in params:
                    p.data = p.data.to(kinds[1])
            for p, g in zip(params, values(rng)):
                p.grad = t.tensor(g).to(p.dtype)
            optimizer.step()
        kept = {k: s.dtype for k, s in optimizer.state[params[0]].items()
                if isinstance(s, t.Tensor) and s.dim()}  # fmt: skip
        return params, {k: str(d).rpartition(".")[2] for k, d in kept.items()}

    ours, kept = run(pf, way)
    assert all(str(p.dtype).endswith(way.split()[1]) for p in ours)
    narrow = "16" in way
    exact, _ = run(pf, "float64 float64")
    same(ours, exact, 0.2 if narrow else 1e-5)
    if first:
        assert set(kept.values()) <= {way.split()[0]}
    torch = pytest.importorskip("torch")
    if hasattr(torch.optim, name):
        try:
            theirs, names = run(torch, way)
        except RuntimeError:
            return
        assert kept == names
        same(ours, theirs, 0.05 if narrow else 1e-5)


def converted(value, t):
    """A state dict with its tensors as those of another package."""
    if isinstance(value, dict):
        return {k: converted(v, t) for k, v in value.items()}
    if isinstance(value, list):
        return [converted(v, t) for v in value]
    return t.tensor(value.detach().numpy()) if hasattr(value, "detach") else value


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", ["RMSprop", "Adagrad", "NAdam", "ASGD", "Rprop", "AdamW", "RAdam"])
def test_states_go_to_pytorch_and_back(name):
    torch = pytest.importorskip("torch")
    (ours, own), (theirs, other) = (trajectory(t, name, {}, 5) for t in (pf, torch))
    assert set(ours.state_dict()["state"][0]) == set(theirs.state_dict()["state"][0])
    options = {k: v for k, v in theirs.param_groups[0].items() if k != "params"}
    assert options == {k: v for k, v in ours.param_groups[0].items() if k != "params"}
    back = converted(ours.state_dict(), torch)
    ours.load_state_dict(converted(theirs.state_dict(), pf))
    theirs.load_state_dict(back)
    rng = np.random.default_rng(7)
    for _ in range(3):
        for p, q, g in zip(own, other, values(rng)):
            p.grad, q.grad = pf.tensor(g), torch.tensor(g)
        ours.step(), theirs.step()
    same(own, other, 1e-6)


def test_lion_by_its_paper():
    _, ours = trajectory(pf, "Lion", {"lr": 0.01, "weight_decay": 0.3}, 6, skip=False)
    rng = np.random.default_rng(0)
    want, m = values(rng), [0.0] * len(SHAPES)
    for _ in range(6):
        for i, g in enumerate(values(rng)):
            u = np.sign(0.9 * m[i] + 0.1 * g)
            want[i] = want[i] - 0.01 * (u + 0.3 * want[i])
            m[i] = 0.99 * m[i] + 0.01 * g
    for p, w in zip(ours, want):
        assert_allclose(p.detach().numpy(), w, rtol=1e-12)


@pytest.mark.parametrize("maximize", [False, True])
def test_lamb_by_its_paper(maximize):
    options = {"lr": 0.1, "weight_decay": 0.3, "maximize": maximize}
    _, ours = trajectory(pf, "LAMB", options, 6, skip=False)
    rng = np.random.default_rng(0)
    want = values(rng)
    m, v = [0.0] * len(SHAPES), [0.0] * len(SHAPES)
    for step in range(1, 7):
        for i, g in enumerate(values(rng)):
            g = -g if maximize else g
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.999 * v[i] + 0.001 * g * g
            u = m[i] / (1 - 0.9**step) / (np.sqrt(v[i] / (1 - 0.999**step)) + 1e-6) + 0.3 * want[i]
            norms = np.linalg.norm(want[i]), np.linalg.norm(u)
            want[i] = want[i] - 0.1 * (norms[0] / norms[1] if min(norms) > 0 else 1.0) * u
    for p, w in zip(ours, want):
        assert_allclose(p.detach().numpy(), w, rtol=1e-10)


def test_lamb_of_a_parameter_of_zeros():
    p = nn.Parameter(pf.zeros(3))
    p.grad = pf.ones(3)
    pf.optim.LAMB([p], lr=0.1).step()
    assert_allclose(p.detach().numpy(), [-0.1] * 3, rtol=1e-5)


def test_muon():
    matrix = pf.randn(12, 5, dtype=pf.float64)
    factor = pf.optim.muon.orthogonalized(matrix).double()
    sizes = np.linalg.svd(factor.numpy(), compute_uv=False)
    assert sizes.min() > 0.6 and sizes.max() < 1.3
    u, _, v = np.linalg.svd(matrix.numpy(), full_matrices=False)
    assert np.abs(factor.numpy() - u @ v).max() < 0.25
    factor = pf.optim.muon.orthogonalized(pf.zeros_like(matrix).lerp(matrix, 1 - 0.95)).double()
    for adjust, rate in ((None, math.sqrt(12 / 5)), ("match_rms_adamw", 0.2 * math.sqrt(12))):
        p = nn.Parameter(pf.zeros(12, 5, dtype=pf.float64))
        p.grad = matrix
        options = {"nesterov": False, "weight_decay": 0.0, "adjust_lr_fn": adjust}
        optimizer = pf.optim.Muon([p], lr=0.5, **options)
        optimizer.step()
        assert_allclose(p.detach().numpy(), -0.5 * rate * factor.numpy(), rtol=1e-9)
        assert set(optimizer.state_dict()["state"][0]) == {"momentum_buffer"}
    with pytest.raises(ValueError, match="matrices"):
        pf.optim.Muon([nn.Parameter(pf.ones(3))])
    with pytest.raises(ValueError, match="adjust_lr_fn"):
        pf.optim.Muon([p], adjust_lr_fn="other")


@pytest.mark.cpu_only
def test_muon_beside_pytorch():
    torch = pytest.importorskip("torch")
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("PyTorch has no Muon")
    rng = np.random.default_rng(2)
    start = [rng.standard_normal(s).astype(np.float32) for s in ((3, 4), (16, 16), (40, 8))]
    grads = [[rng.standard_normal(v.shape).astype(np.float32) for v in start] for _ in range(10)]
    results = []
    for t in (pf, torch):
        params = [t.nn.Parameter(t.tensor(v)) for v in start]
        optimizer = t.optim.Muon(params, lr=0.01)
        for step in grads:
            for p, g in zip(params, step):
                p.grad = t.tensor(g)
            optimizer.step()
        results.append(params)
    same(*results, 1e-6)


# ---- L-BFGS -------------------------------------------------------------------------------------


def rosenbrock(t, search, steps, **options):
    start = np.random.default_rng(3).standard_normal(12)
    p = t.nn.Parameter(t.tensor(start[:7]))
    q = t.nn.Parameter(t.tensor(start[7:]).reshape(5, 1))
    optimizer = t.optim.LBFGS([p, q], line_search_fn=search, **options)
    losses = []

    def closure():
        optimizer.zero_grad()
        x = t.cat([p, q.reshape(-1)])
        loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return optimizer, p, losses


LBFGS = [
    ("strong_wolfe", 8, {}),
    ("strong_wolfe", 15, {"history_size": 3, "max_iter": 7}),
    ("strong_wolfe", 4, {"max_iter": 50, "max_eval": 10}),
    (None, 8, {"lr": 1e-2}),
]


@pytest.mark.cpu_only
@pytest.mark.parametrize("search,steps,options", LBFGS)
def test_lbfgs_beside_pytorch(search, steps, options):
    torch = pytest.importorskip("torch")
    _, p, losses = rosenbrock(pf, search, steps, **options)
    _, q, theirs = rosenbrock(torch, search, steps, **options)
    assert len(losses) == len(theirs)
    assert_allclose(losses, theirs, rtol=1e-4, atol=1e-9)
    same([p], [q], 1e-6)


def test_lbfgs_finds_the_minimum_and_resumes():
    optimizer, p, losses = rosenbrock(pf, "strong_wolfe", 6)
    assert losses[-1] < 1e-6 and len(losses) < 120
    state = copy.deepcopy(optimizer.state_dict())
    assert state["state"][0]["n_iter"] == optimizer.state[p]["n_iter"]
    other = pf.optim.LBFGS(optimizer.param_groups[0]["params"], line_search_fn="strong_wolfe")
    other.load_state_dict(state)
    assert pf.equal(other.state[p]["d"], optimizer.state[p]["d"])
    assert len(other.state[p]["old_dirs"]) == len(optimizer.state[p]["old_dirs"])
    with pytest.raises(ValueError, match="one"):
        pf.optim.LBFGS(
            [{"params": [nn.Parameter(pf.ones(1))]}, {"params": [nn.Parameter(pf.ones(1))]}]
        )
    with pytest.raises(ValueError, match="strong_wolfe"):
        pf.optim.LBFGS([p], line_search_fn="armijo")


def test_lbfgs_of_a_gradient_that_is_zero_or_missing():
    p, q = nn.Parameter(pf.zeros(2)), nn.Parameter(pf.ones(2))
    optimizer = pf.optim.LBFGS([p, q])

    def closure():
        optimizer.zero_grad()
        loss = (p**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 0
    assert q.tolist() == [1, 1]


# ---- what all share -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["RMSprop", "Rprop", "LAMB", "Adafactor"])
def test_strided_parameters(name):
    base = pf.arange(24, dtype=pf.float64).reshape(4, 6) / 7
    p, q = base.t(), nn.Parameter(base.t().contiguous().clone())
    p.requires_grad_()
    g = pf.randn(6, 4, dtype=pf.float64)
    p.grad, q.grad = g.t().contiguous().t(), g
    for x in (p, q):
        getattr(pf.optim, name)([x], lr=0.1).step()
    assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-12)
    assert_allclose(base.t().numpy(), q.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda p, lr: pf.optim.SGD(p, lr=lr, momentum=0.9, differentiable=True),
        lambda p, lr: pf.optim.Adam(p, lr=lr, weight_decay=0.1, differentiable=True),
        lambda p, lr: pf.optim.AdamW(p, lr=lr, amsgrad=True, differentiable=True),
        lambda p, lr: pf.optim.RMSprop(p, lr=lr, centered=True, differentiable=True),
        lambda p, lr: pf.optim.NAdam(p, lr=lr, differentiable=True),
    ],
)
def test_gradients_through_steps(make):
    """Of the loss after three steps, by the rate and by the start, beside finite differences."""
    data = [pf.randn(4, dtype=pf.float64) for _ in range(3)]

    def loss_after(start, lr):
        p = start.clone()
        optimizer = make([p], lr)
        for x in data:
            # The gradient of sum((p - x)⁴), written out: it depends on the parameter as it is.
            p.grad = 4 * (p - x) ** 3
            optimizer.step()
        return (p**2).sum()

    start = pf.tensor([1.0, -2.0, 0.5, 3.0], dtype=pf.float64, requires_grad=True)
    lr = pf.tensor(0.01, dtype=pf.float64, requires_grad=True)
    assert pf.autograd.gradcheck(loss_after, (start, lr))


def test_leaves_are_refused_where_gradients_go_through():
    p = nn.Parameter(pf.ones(2))
    p.grad = pf.ones(2)
    with pytest.raises(pf.AutogradError, match="leaf"):
        pf.optim.RMSprop([p], differentiable=True).step()
    with pytest.raises(pf.NotSupportedError, match="differentiable"):
        pf.optim.LAMB([p], differentiable=True)


def test_hooks():
    p = nn.Parameter(pf.ones(2))
    seen = []

    class Own(pf.optim.SGD):
        def step(self, closure=None):
            seen.append("own")
            return super().step(closure)

    optimizer = Own([p], lr=1.0)
    p.grad = pf.ones(2)
    before = optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after"))
    everywhere = pf.optim.optimizer.register_optimizer_step_post_hook(
        lambda o, args, kwargs: seen.append("all")
    )
    optimizer.step()
    assert seen == ["before", "own", "after", "all"]
    before.remove(), everywhere.remove()
    optimizer.step()
    assert seen[4:] == ["own", "after"]
    optimizer.register_state_dict_post_hook(lambda o, s: {**s, "note": 1})
    optimizer.register_load_state_dict_pre_hook(
        lambda o, s: {**s, "param_groups": [{**s["param_groups"][0], "lr": 0.5}]}
    )
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    state = optimizer.state_dict()
    assert state["note"] == 1
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["lr"] == 0.5 and seen[-1] == "loaded"
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 5)
    with pytest.raises(RuntimeError, match="expected None"):
        optimizer.step()


def test_an_optimizer_of_the_users():
    class Plain(pf.optim.Optimizer):
        def __init__(self, params, lr=0.5):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    s = self.state[p]
                    s["step"] = s.get("step", 0) + 1
                    p.data.add_(p.grad, alpha=-group["lr"])

    p = nn.Parameter(pf.ones(2))
    p.grad = pf.ones(2)
    optimizer = Plain([p])
    optimizer.step()
    assert p.tolist() == [0.5, 0.5] and optimizer.state_dict()["state"] == {0: {"step": 1}}
    again = copy.deepcopy(optimizer)
    assert again.state_dict()["state"] == {0: {"step": 1}}


def test_errors():
    p = nn.Parameter(pf.ones(2, 2))
    p.grad = pf.ones(2, 2)
    for name, options, words in (
        ("RMSprop", {"alpha": -1}, "alpha"),
        ("RMSprop", {"lr": -1}, "learning rate"),
        ("Adagrad", {"lr_decay": -1}, "lr_decay"),
        ("Adadelta", {"rho": 2}, "rho"),
        ("Adamax", {"betas": (0.5, 1.5)}, "beta"),
        ("NAdam", {"momentum_decay": -1}, "momentum_decay"),
        ("Rprop", {"etas": (1.1, 1.2)}, "eta"),
        ("Adafactor", {"d": 0.5}, "clipping"),
    ):
        with pytest.raises(ValueError, match=words):
            getattr(pf.optim, name)([p], **options)
    with pytest.raises(pf.NotSupportedError, match="dense gradient"):
        pf.optim.SparseAdam([p]).step()
    step = pf._ops._optim_step
    for arguments, words in (
        (("none", [p], [p.grad], [], []), "rule"),
        (("adagrad", [p], [p.grad], [], [0.1, 0.1]), "states"),
        (("adagrad", [p], [p.grad], [pf.ones(2, 2)], [0.1]), "numbers"),
        (("adagrad", [p], [p.grad], [pf.ones(4)], [0.1, 0.1]), "shape"),
    ):
        with pytest.raises(pf.PyFlameError, match=words):
            step(*arguments)
    assert p.tolist() == [[1, 1], [1, 1]]


# ---- averages of models -------------------------------------------------------------------------


def averaged(t, **options):
    rng = np.random.default_rng(4)
    model = t.nn.Sequential(t.nn.Linear(3, 2), t.nn.BatchNorm1d(2))
    average = None
    for _ in range(4):
        with t.no_grad():
            for p in model.parameters():
                p.copy_(t.tensor(rng.standard_normal(tuple(p.shape)).astype(np.float32)))
        model(t.tensor(rng.standard_normal((5, 3)).astype(np.float32)))
        if average is None:
            made = {k: v(t) if callable(v) else v for k, v in options.items()}
            average = t.optim.swa_utils.AveragedModel(model, **made)
        average.update_parameters(model)
    return average


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_buffers": True},
        {"multi_avg_fn": lambda t: t.optim.swa_utils.get_ema_multi_avg_fn(0.9)},
        {"avg_fn": lambda t: t.optim.swa_utils.get_ema_avg_fn(0.9), "use_buffers": True},
        {"avg_fn": lambda t: t.optim.swa_utils.get_swa_avg_fn()},
    ],
    ids=["mean", "buffers", "ema", "ema-each", "mean-each"],
)
def test_averaged_models_beside_pytorch(options):
    torch = pytest.importorskip("torch")
    ours, theirs = averaged(pf, **options).state_dict(), averaged(torch, **options).state_dict()
    assert list(ours) == list(theirs)
    for name in ours:
        assert_allclose(ours[name].numpy(), theirs[name].numpy(), rtol=1e-5, atol=1e-6)


def test_statistics_of_norms_are_made_anew():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    model.eval()
    batches = [pf.randn(8, 3) for _ in range(5)]
    pf.optim.swa_utils.update_bn([(b, None) for b in batches], model)
    assert not model.training and model[1].momentum == 0.1
    with pf.no_grad():
        inner = [model[0](b).numpy() for b in batches]
    assert_allclose(
        model[1].running_mean.numpy(), np.mean([x.mean(0) for x in inner], 0), rtol=1e-4, atol=1e-6
    )
    assert_allclose(
        model[1].running_var.numpy(), np.mean([x.var(0, ddof=1) for x in inner], 0), rtol=1e-4
    )


@pytest.mark.cpu_only
def test_cyclic_rates_beside_pytorch():
    torch = pytest.importorskip("torch")

    def rates(t, opt, make):
        params = [t.nn.Parameter(t.ones(1)) for _ in range(2)]
        groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.03}]
        options = {"momentum": 0.9} if opt == "SGD" else {}
        optimizer = getattr(t.optim, opt)(groups, lr=0.1, **options)
        scheduler, found = make(t.optim, optimizer), []
        for _ in range(40):
            optimizer.step(), scheduler.step()
            for g in optimizer.param_groups:
                found += [g["lr"], g.get("momentum", g.get("betas", [0])[0])]
        return found

    for make in (
        lambda o, x: o.lr_scheduler.CyclicLR(x, 0.01, 0.1, step_size_up=7, step_size_down=4),
        lambda o, x: o.lr_scheduler.CyclicLR(
            x, [0.01, 0.02], [0.1, 0.3], 7, mode="triangular2", base_momentum=0.7
        ),
        lambda o, x: o.lr_scheduler.CyclicLR(x, 0.01, 0.1, 7, mode="exp_range", gamma=0.97),
        lambda o, x: o.lr_scheduler.CyclicLR(
            x, 0.01, 0.1, 7, scale_fn=lambda i: 1 / (1 + i), scale_mode="iterations"
        ),
        lambda o, x: o.swa_utils.SWALR(x, 0.05, anneal_epochs=7),
        lambda o, x: o.swa_utils.SWALR(x, [0.05, 0.2], anneal_epochs=7, anneal_strategy="linear"),
        lambda o, x: o.swa_utils.SWALR(x, 0.05, anneal_epochs=0),
    ):
        for opt in ("SGD", "Adam"):
            assert_allclose(rates(pf, opt, make), rates(torch, opt, make), rtol=1e-12)


COMPLEX = {
    "SGD": {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1},
    "AdamW": {"lr": 0.1, "amsgrad": True},
    "RMSprop": {"lr": 0.01, "momentum": 0.5, "centered": True},
    "Adagrad": {"lr": 0.1},
    "Adadelta": {},
    "Adamax": {},
    "NAdam": {},
    "RAdam": {},
    "ASGD": {},
    "Rprop": {},
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_parameters_as_pytorch_has_them(name):
    """Weights of spectral layers: each part is a number of its own, the state is complex."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    z = (rng.standard_normal((2, 3)) + 1j * rng.standard_normal((2, 3))).astype(np.complex64)
    w = rng.standard_normal(4).astype(np.float32)

    def trained(module):
        params = [
            module.nn.Parameter(module.from_numpy(z.copy())),
            module.nn.Parameter(module.from_numpy(w.copy())),
        ]
        made = getattr(module.optim, name)(params, **COMPLEX[name])
        for i in range(6):
            if i == 3:
                state = made.state_dict()
                made = getattr(module.optim, name)(params, **COMPLEX[name])
                made.load_state_dict(state)
            made.zero_grad()
            loss = (params[0] * (1 + 2j) - 1).abs().pow(2).sum() + params[1].pow(2).sum()
            loss.backward()
            made.step()
        kept = [str(v.dtype).partition(".")[2] for v in made.state[params[0]].values()
                if isinstance(v, module.Tensor) and v.numel() > 1]  # fmt: skip
        return [p.detach().numpy() for p in params], kept, len(made.state)

    ours, theirs = trained(pf), trained(torch)
    for a, b in zip(ours[0], theirs[0]):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    assert ours[1:] == theirs[1:]


def test_hooks_of_a_step_get_the_optimizer_among_its_arguments():
    p = nn.Parameter(pf.ones(2))
    o = pf.optim.SGD([p], lr=1.0)
    seen = []

    def closure():
        seen.append("closure")
        p.grad = pf.ones(2)
        return pf.ones(())

    first = o.register_step_pre_hook(lambda q, args, kwargs: seen.append((q is o, args, kwargs)))
    o.register_step_post_hook(lambda q, args, kwargs: seen.append((q is o, args, kwargs)))
    o.step(closure)
    o.step(closure=closure)
    by_place, by_name = (True, (o, closure), {}), (True, (o,), {"closure": closure})
    assert seen == [by_place, "closure", by_place, by_name, "closure", by_name]
    first.remove()
    seen.clear()
    o.register_step_pre_hook(lambda q, args, kwargs: ((q, closure), {}))
    o.step()
    assert seen == ["closure", by_place]


def test_parameters_have_an_order_and_all_names_or_none():
    p, q = nn.Parameter(pf.ones(2)), nn.Parameter(pf.ones(2))
    with pytest.raises(TypeError, match="set"):
        pf.optim.SGD([{"params": {p, q}}], lr=1.0)
    with pytest.raises(ValueError, match="with and without names"):
        pf.optim.SGD([("p", p), q], lr=1.0)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_keeps_the_factors_of_its_loop(search):
    """`al`, of which PyTorch's state has one place for each step that is kept."""
    torch = pytest.importorskip("torch")

    def state_after_a_step(t):
        w = t.nn.Parameter(t.tensor([1.0, 2.0, -1.0], dtype=t.float64))
        optimizer = t.optim.LBFGS([w], max_iter=4, history_size=5, line_search_fn=search)
        target = t.tensor([3.0, -1.0, 0.5], dtype=t.float64)

        def closure():
            optimizer.zero_grad()
            loss = ((w - target) ** 4).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        state = optimizer.state_dict()["state"][0]
        return set(state), [a if a is None else float(a) for a in state["al"]]

    found = [state_after_a_step(t) for t in (torch, pf)]
    assert found[0][0] == found[1][0] and len(found[0][1]) == len(found[1][1]) == 5
    for a, b in zip(*(f[1] for f in found)):
        assert (a is None) == (b is None) and (a is None or b == pytest.approx(a, rel=1e-9))
