"""Functions that PyTorch has twice (torch.name, torch.nn.functional.name): pf.name takes both forms, with the values
that PyTorch's have."""

import pytest

import pyflame as pf

torch = pytest.importorskip("torch")


def arguments(lib):
    x = lib.arange(24).reshape(2, 3, 4).to(lib.float32) / 10
    return {
        "x": x,
        "t": x / 2 + 0.05,
        "w": lib.ones(3) * 2,
        "b": lib.ones(3) / 2,
        "mean": lib.zeros(3),
        "var": lib.ones(3),
        "rows": lib.tensor([[0, 2], [1, 1]]),
        "flat": lib.tensor([0, 2, 1, 1]),
        "at": lib.tensor([0, 2]),
        "table": lib.arange(12).reshape(3, 4).to(lib.float32),
        "four": lib.ones(4) * 2,
        "double": lib.float64,
    }


# What is called, with names of arguments; in PyTorch the first are functions of nn.functional.
FUNCTIONAL = [
    ("batch_norm", ["x", "mean", "var", "w", "b"], {"training": True}),
    ("batch_norm", ["x", "mean", "var", "w", "b", True, 0.2, 1e-3], {}),
    ("batch_norm", ["x", "mean", "var"], {}),
    (
        "batch_norm",
        ["x"],
        {"running_mean": "mean", "running_var": "var", "weight": "w", "training": True},
    ),
    ("instance_norm", ["x"], {}),
    ("instance_norm", ["x", "mean", "var", "w", "b"], {}),
    ("instance_norm", ["x"], {"weight": "w", "eps": 1e-3}),
    ("group_norm", ["x", 3, "w"], {}),
    ("layer_norm", ["x", (4,), "four"], {}),
    ("embedding", ["rows", "table"], {}),
    ("embedding", ["rows", "table", 0], {"scale_grad_by_freq": True}),
    ("embedding", [], {"input": "rows", "weight": "table"}),
    ("embedding_bag", ["rows", "table"], {"mode": "sum"}),
    ("embedding_bag", ["flat", "table", "at"], {}),
    ("dropout", ["x", 0.5], {"training": False}),
    ("celu", ["x", 2.0, False], {}),
    ("celu", ["x"], {"alpha": 2.0, "inplace": False}),
    ("selu", ["x"], {"inplace": False}),
    ("rrelu", ["x", 0.1, 0.3], {"training": False, "inplace": False}),
    ("threshold", ["x", 0.5, 1.0, False], {}),
    ("kl_div", ["x", "t"], {"reduction": "batchmean"}),
    ("kl_div", ["x", "t", None, None, "sum", True], {}),
    ("binary_cross_entropy_with_logits", ["x", "t"], {"reduction": "sum", "pos_weight": "four"}),
    ("poisson_nll_loss", ["x", "t"], {"reduction": "sum"}),
    ("max_pool1d", ["x", 2], {"return_indices": True}),
    ("max_pool2d", ["x", 2, 2], {"return_indices": True}),
]
PLAIN = [
    ("batch_norm", ["x", "w", "b", "mean", "var", True, 0.1, 1e-5, False], {}),
    ("batch_norm", ["x", "w", "b"], {
        "running_mean": "mean", "running_var": "var", "training": False, "momentum": 0.1, "eps": 1e-5,
        "cudnn_enabled": True}),
    ("instance_norm", ["x", "w", "b", "mean", "var", True, 0.1, 1e-5, False], {}),
    ("instance_norm", ["x", None, None, None, None, True, 0.1, 1e-5, False], {}),
    ("group_norm", ["x", 3, "w", "b", 1e-5, False], {}),
    ("layer_norm", ["x", [4], None, None, 1e-5, False], {}),
    ("embedding", ["table", "rows"], {}),
    ("embedding", ["table", "rows", -1, False, False], {}),
    ("embedding", [], {"weight": "table", "indices": "rows"}),
    ("dropout", ["x"], {"p": 0.5, "train": False}),
    ("celu", ["x", 2.0], {}),
    ("softmax", ["x", 1, "double"], {}),
    ("kl_div", ["x", "t", 1], {}),
    ("kl_div", ["x", "t", 2], {"log_target": True}),
    ("binary_cross_entropy_with_logits", ["x", "t", None, "four", 2], {}),
    ("binary_cross_entropy_with_logits", ["x", "t", None, None, 1], {}),
    ("poisson_nll_loss", ["x", "t", True, False, 1e-8, 1], {}),
    ("max_pool2d", ["x", 2, 2, 0, 1, True], {}),
]  # fmt: skip


def called(lib, function, args, kwargs):
    """The results, and the statistics that it may have written."""
    have = arguments(lib)

    def value(v):
        return have[v] if isinstance(v, str) and v in have else v

    out = function(*map(value, args), **{k: value(v) for k, v in kwargs.items()})
    out = out if isinstance(out, tuple) else (out,)
    return [(tuple(t.shape), t.reshape(-1).tolist()) for t in (*out, have["mean"], have["var"])]


@pytest.mark.parametrize("name,args,kwargs", FUNCTIONAL + PLAIN)
def test_as_pytorch(name, args, kwargs):
    theirs = torch.nn.functional if any(c[1] is args for c in FUNCTIONAL) else torch
    want = called(torch, getattr(theirs, name), args, kwargs)
    got = called(pf, getattr(pf, name), args, kwargs)
    assert len(got) == len(want)
    for (shape, values), (right, expected) in zip(got, want):
        assert shape == right and values == pytest.approx(expected, rel=5e-5, abs=1e-6)


def test_the_seeds_form_trains():
    x = pf.randn(8, 3, requires_grad=True)
    mean, var = pf.zeros(3), pf.ones(3)
    gamma, beta = pf.ones(3, requires_grad=True), pf.zeros(3, requires_grad=True)
    pf.batch_norm(x, mean, var, gamma, beta, training=True).pow(3).sum().backward()
    assert gamma.grad is not None and beta.grad is not None and mean.abs().sum().item() > 0
