"""Every operation with random arguments of the right kinds: a result or a typed error, no crash."""

import os
import random

import pytest

import pyflame as pf

SHAPES = [(), (0,), (1,), (3,), (2, 3), (3, 3), (2, 0, 3), (2, 3, 4), (1, 2, 3, 4)]
DTYPES = [pf.float32] * 3 + [pf.float64, pf.int64, pf.bool, pf.bfloat16, pf.float16, pf.int8]
SHARE = float(os.environ.get("PYFLAME_TEST_SHARE", "1"))
NAN, INF = float("nan"), float("inf")


def make_tensor(rng):
    shape, dtype = rng.choice(SHAPES), rng.choice(DTYPES)
    t = (pf.randn(shape) * 3).to(dtype)
    layout = rng.random()
    if layout < 0.2 and t.dim() > 1:
        t = t.transpose(0, -1)
    elif layout < 0.3 and t.dim() > 0:
        t = t.unsqueeze(0).expand(2, *t.shape)
    if dtype.is_floating_point and rng.random() < 0.2:
        t = t.detach().requires_grad_()
    return t


def make_value(rng, annotation):
    if annotation.endswith("| None") and rng.random() < 0.3:
        return None
    ints = [0, 1, -1, 2, 3, -2, 5]
    texts = ["mean", "sum", "none", "tanh", "constant", "floor", "ij,jk->ik", "x"]
    makers = {
        "Tensor": lambda: make_tensor(rng),
        "Sequence[Tensor]": lambda: [make_tensor(rng) for _ in range(rng.randint(0, 3))],
        "_int": lambda: rng.choice([*ints, -100]),
        "_int | Sequence[_int]": lambda: tuple(rng.choice(ints) for _ in range(rng.randint(0, 3))),
        "_float": lambda: rng.choice([0.0, 1.0, -1.0, 0.5, NAN, INF]),
        "Sequence[_float]": lambda: (0.5, 1.0),
        "_float | Sequence[_float]": lambda: rng.choice([0.5, 2.0, (1.5, 0.5), NAN, ()]),
        "_bool": lambda: rng.random() < 0.5,
        "Number": lambda: rng.choice([0, 1, -1, 2.5, NAN, True, INF, 3]),
        "str": lambda: rng.choice(texts),
        "dtype": lambda: rng.choice([pf.float32, pf.int64, pf.bool, pf.bfloat16]),
        "device | str": pf.get_device,
    }
    return makers[annotation.removesuffix(" | None")]()


@pytest.mark.parametrize("seed", range(16))
def test_result_or_typed_error(seed):
    rng = random.Random(seed)
    rows = [row for row in pf.ops.table() if not row["name"].startswith("test_")]
    for _ in range(int(500 * SHARE)):
        row = rng.choice(rows)
        call = {}
        for p in pf._C._parse_schema(row["schema"])["params"]:
            if p["default"] is None or rng.random() < 0.5:
                call[p["name"]] = make_value(rng, p["annotation"])
        try:
            out = pf.ops.get(row["name"])(**call)
            pf.synchronize()
            results = out if isinstance(out, (tuple, list)) else [out]
            for t in results:
                if not isinstance(t, pf.Tensor):
                    continue
                repr(t)
                if t.grad_fn is not None:
                    t.sum().backward(retain_graph=True)
            pf.synchronize()
        except (pf.PyFlameError, TypeError) as error:
            assert str(error).startswith("pf."), (row["name"], call, error)
