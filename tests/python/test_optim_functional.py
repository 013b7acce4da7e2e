"""Steps of optimizers as functions, by the paths and arguments of torch.optim's modules, beside PyTorch's."""

import importlib

import numpy as np
import pytest

import pyflame as pf

pytestmark = pytest.mark.cpu_only
torch = pytest.importorskip("torch")

SHAPES = [(7,), (3, 5)]
NUMBERS = {"mu": 1.0, "eta": 0.1, "mu_product": 1.0, "step": 0.0}
ADAM = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.05, "eps": 1e-8}
CASES = {
    "adadelta": (["z", "z", "step"], [dict(lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.1, maximize=False)]),
    "adagrad": (["z", "step"], [dict(lr=0.1, weight_decay=0.1, lr_decay=0.1, eps=1e-8, maximize=True)]),
    "adam": (["z", "z", "z", "step"], [ADAM | dict(amsgrad=a, maximize=m, foreach=False)
                                       for a, m in ((False, False), (True, True))]),
    "adamw": (["z", "z", "z", "step"], [ADAM | dict(amsgrad=a, maximize=m)
                                        for a, m in ((False, False), (True, True))]),
    "adamax": (["z", "z", "step"], [ADAM]),
    "asgd": (["z", "mu", "eta", "step"], [dict(lambd=1e-4, lr=0.1, t0=2, alpha=0.75, weight_decay=0.1)]),
    "nadam": (["z", "z", "mu_product", "step"], [ADAM | dict(momentum_decay=0.004)]),
    "radam": (["z", "z", "step"], [ADAM]),
    "rmsprop": (["z", "z", "z", "step"], [dict(lr=0.1, alpha=0.9, eps=1e-8, weight_decay=0.1, momentum=m,
                                               centered=c) for m, c in ((0, False), (0.9, True))]),
    "rprop": (["z", "o", "step"], [dict(step_size_min=1e-6, step_size_max=50, etaminus=0.5, etaplus=1.2)]),
    "sgd": (["n"], [dict(weight_decay=0.1, momentum=m, lr=0.1, dampening=0, nesterov=bool(m),
                         maximize=False) for m in (0.0, 0.9)]),
}  # fmt: skip


def made(T, kind):
    if kind == "n":
        return [None for _ in SHAPES]
    if kind in NUMBERS:
        return [T.tensor(NUMBERS[kind]) for _ in SHAPES]
    return [T.zeros(s) if kind == "z" else T.full(s, 0.1) for s in SHAPES]


@pytest.mark.parametrize("name", CASES)
def test_functions_of_torch_optims_modules(name):
    kinds, many = CASES[name]
    for options in many:
        rng = np.random.default_rng(3)
        start = [rng.standard_normal(s).astype("f4") for s in SHAPES]
        grads = [[rng.standard_normal(s).astype("f4") for s in SHAPES] for _ in range(7)]
        sides = []
        for T, root in ((torch, "torch"), (pf, "pyflame")):
            f = getattr(importlib.import_module(f"{root}.optim.{name}"), name)
            params, lists = [T.tensor(p) for p in start], [made(T, k) for k in kinds]
            for g in grads:
                f(params, [T.tensor(x) for x in g], *lists, **options)
            sides.append((params, lists))
        (theirs, their_lists), (ours, our_lists) = sides
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=2e-6)
        for kind, a, b in zip(kinds, our_lists, their_lists, strict=True):
            for x, y in zip(a, b, strict=True):
                assert (x is None) == (y is None)
                if x is not None:
                    np.testing.assert_allclose(
                        x.numpy(), y.numpy(), rtol=2e-5, atol=2e-6, err_msg=kind
                    )


def test_what_functions_refuse():
    from pyflame.optim.sgd import sgd

    p = [pf.zeros(3)]
    options = dict(weight_decay=0, momentum=0, lr=0.1, dampening=0, nesterov=False, maximize=False)
    with pytest.raises(pf.ValueError, match="1: momentum_buffer"):
        sgd(p, [pf.ones(3)], **options)
    with pytest.raises(pf.NotSupportedError, match="found_inf"):
        sgd(p, [pf.ones(3)], [None], found_inf=pf.zeros(1), **options)
    sgd(p, [None], [None], **options)
    assert p[0].tolist() == [0, 0, 0]
