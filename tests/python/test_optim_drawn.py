"""Optimizers beside PyTorch's where programs are odd: parameters that stand in a group several times, and
L-BFGS with few evaluations, both drawn at random."""

import random
import warnings

import pytest

import pyflame as pf

torch = pytest.importorskip("torch")

KINDS = [
    ("SGD", {}), ("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "nesterov": True}), ("Adam", {}),
    ("Adam", {"amsgrad": True}), ("AdamW", {}), ("RMSprop", {"momentum": 0.5}), ("Adagrad", {}),
    ("Adadelta", {}), ("NAdam", {}), ("RAdam", {}), ("Adamax", {}), ("ASGD", {}), ("Rprop", {}),
    ("Adafactor", {}),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*duplicate parameters")
@pytest.mark.parametrize(
    "name,options", KINDS, ids=lambda v: v if isinstance(v, str) else "-".join(v)
)
def test_parameters_that_stand_in_a_group_several_times(name, options):
    r = random.Random(name)
    for trial in range(3):
        places = r.choices(range(3), k=r.randint(3, 6)) + [0, 0]
        dtype = (
            r.choice(["float64", "float64", "complex128"]) if name in ("Adam", "SGD") else "float64"
        )
        seed = r.random()
        values = []
        for lib in (torch, pf):
            draw = random.Random(seed)
            few = [
                lib.nn.Parameter(lib.tensor([1.0, 2.0, i], dtype=getattr(lib, dtype)))
                for i in range(3)
            ]
            opt = getattr(lib.optim, name)([few[i] for i in places], lr=0.1, **options)
            for _ in range(4):
                for p in few:
                    g = [draw.uniform(-1, 1) for _ in range(3)]
                    p.grad = (
                        None if draw.random() < 0.2 else lib.tensor(g, dtype=getattr(lib, dtype))
                    )
                opt.step()
            values.append([v for p in few for v in p.tolist()])
        assert values[1] == pytest.approx(values[0], rel=1e-6, abs=1e-9), (trial, places, dtype)


def test_duplicates_are_told():
    x = pf.nn.Parameter(pf.zeros(1))
    with pytest.warns(UserWarning, match="pf.optim.SGD: got a group with duplicate parameters"):
        opt = pf.optim.SGD([x, x], lr=0.1)
    x.grad = pf.ones(1)
    opt.step()
    assert x.item() == pytest.approx(-0.2)
    with pytest.raises(ValueError, match="more than one group"):
        pf.optim.SGD([{"params": [x]}, {"params": [x]}], lr=0.1)


@pytest.mark.filterwarnings("ignore:.*duplicate parameters")
def test_a_captured_step_with_duplicates():
    def train(compiled):
        x = pf.nn.Parameter(pf.ones(3))
        opt = pf.optim.Adam([x, x], lr=0.1)

        def step(t):
            opt.zero_grad()
            loss = ((x - t) ** 2).sum()
            loss.backward()
            opt.step()
            return loss

        step = pf.compile(step, mode="reduce-overhead") if compiled else step
        return [step(pf.full((3,), 0.1 * i)).item() for i in range(8)] + x.tolist()

    assert train(True) == train(False)


def minimize(lib, seed):
    """Calls of the closure and points of each step."""
    r = random.Random(seed)
    start = [r.uniform(-3, 3) for _ in range(r.choice([1, 2, 4]))]
    p = lib.nn.Parameter(lib.tensor(start, dtype=lib.float64))
    options = {
        "lr": r.choice([1.0, 0.3, 1e-3, 5.0]),
        "max_iter": r.choice([1, 2, 3, 5, 20]),
        "history_size": r.choice([1, 3, 100]),
        "line_search_fn": r.choice([None, "strong_wolfe", "strong_wolfe"]),
    }
    if r.random() < 0.6:
        options["max_eval"] = r.choice([1, 2, 3, 4, 7, 30])
    bend = r.choice([0.0, 0.0, 0.5, 2.0])
    opt = lib.optim.LBFGS([p], **options)
    seen, calls = [], 0

    def closure():
        nonlocal calls
        calls += 1
        opt.zero_grad()
        loss = (p**2 * lib.arange(1, len(start) + 1, dtype=lib.float64)).sum() + bend * lib.sin(
            3 * p
        ).sum()
        loss.backward()
        return loss

    for _ in range(3):
        seen.append(opt.step(closure).item())
        if p.grad.abs().max().item() < 1e-3:
            break  # what is left is rounding, which decides where a search goes
        seen += [float(calls), float(opt.state[p]["func_evals"]), *p.tolist()]
    return options, seen


def test_lbfgs_keeps_to_its_evaluations():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(250):
            options, theirs = minimize(torch, seed)
            ours = minimize(pf, seed)[1]
            both = min(len(ours), len(theirs))
            assert ours[:both] == pytest.approx(theirs[:both], rel=1e-5, abs=1e-6, nan_ok=True), (
                f"seed {seed}: {options}"
            )


def test_loaded_groups_have_the_order_of_the_state_and_rprop_no_decay():
    def run(lib):
        def make(named):
            w = lib.nn.Parameter(lib.tensor([1.0, -2.0, 3.0]))
            group = {"params": [("w", w)] if named else [w], "weight_decay": 9.0}
            return w, lib.optim.Rprop([group], lr=0.1)

        w, opt = make(True)
        w.grad = lib.tensor([0.5, 0.25, -0.5])  # a decay of 9 would turn their signs
        opt.step()
        _, other = make(False)
        other.load_state_dict(opt.state_dict())
        return w.tolist(), list(other.state_dict()["param_groups"][0]), repr(other)

    assert run(pf) == run(torch)


def test_one_cycle_that_is_refused_leaves_the_groups():
    opt = pf.optim.Adagrad([{"params": [pf.nn.Parameter(pf.ones(2))]} for _ in range(2)])
    before = opt.state_dict()["param_groups"]
    with pytest.raises(ValueError, match="OneCycleLR: cycle_momentum needs .*cycle_momentum=False"):
        pf.optim.lr_scheduler.OneCycleLR(opt, 0.1, 10)
    assert opt.state_dict()["param_groups"] == before
    scheduler = pf.optim.lr_scheduler.OneCycleLR(opt, 0.1, 10, cycle_momentum=False)
    assert "use_beta1" not in scheduler.state_dict()  # as PyTorch's
