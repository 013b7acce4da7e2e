"""`out=` takes a result whose kind fits: bool, integer, float, complex widen in this order.

Some operations take the result's dtype alone, as PyTorch's: pytorch_samples.py asks both about each.
"""

import os
import re

import guards
import numpy as np
import pytest

import pyflame as pf

SHARE = float(os.environ.get("PYFLAME_TEST_SHARE", "1"))
RANK = {"bool": 0, "int": 1, "float": 2, "complex": 3}
OUTS = [pf.bool, pf.int64, pf.int8, pf.float32, pf.float64, pf.bfloat16]
FREE = (
    "empty",
    "rand",
    "bernoulli",
    "binomial",
    "poisson",
    "normal",
    "dropout",
    "multinomial",
    "uniform",
    "exponential",
    "gumbel",
)


def rank(dtype):
    return RANK[
        "bool" if dtype is pf.bool else "float" if dtype.is_floating_point else
        "complex" if dtype.is_complex else "int"
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [pf.float32, pf.int64, pf.bool], ids=str)
def test_every_operation_checks_the_dtype_of_out(dtype, monkeypatch):
    monkeypatch.setattr(guards, "tensor", lambda v, d, front: pf.tensor(np.asarray(v)).to(d))
    dice = np.random.default_rng(0)
    asked = 0
    for row in pf.ops.table():
        name = row["name"]
        if row["family"] == "test" or name.endswith("_") or any(f in name for f in FREE):
            continue
        if name == "combinations" or dice.random() > SHARE:
            continue
        call, made = guards.arguments(row, dtype, (4, 4), False, False, np.random.default_rng(1))
        op = pf.ops.get(name)
        try:
            result = op(**call)
        except (pf.PyFlameError, TypeError):
            continue
        if not isinstance(result, pf.Tensor):
            continue
        for other in OUTS:
            out = pf.ones(result.shape, dtype=other)
            try:
                returned = op(**call, out=out)
            except pf.DTypeError as error:
                exact = (
                    re.search("expected (that dtype|the same)", str(error))
                    and result.dtype != other
                )
                assert exact or rank(result.dtype) > rank(other), (row["schema"], other)
                assert (out == 1).all().item()
                continue
            except (TypeError, pf.PyFlameError):
                continue  # a row without out=
            assert returned is out
            if made:  # what makes values of no tensor may write any dtype
                assert rank(result.dtype) <= rank(other), (row["schema"], result.dtype, other)
                assert str(out.tolist()) == str(result.to(other).tolist()), row["schema"]
            asked += 1
    assert asked > (100 if SHARE >= 1 else -1)


def test_who_takes_the_dtype_of_the_result_alone():
    x, index = pf.ones(2, 2), pf.zeros(2, 2, dtype=pf.int64)
    wide = pf.full((2, 2), 7.0, dtype=pf.float64)
    for write in (
        lambda: pf.gather(x, 1, index, out=wide),
        lambda: pf.mm(x, x, out=wide),
        lambda: pf.multinomial(x, 2, out=wide),
        lambda: pf.aminmax(x, dim=0, out=(wide[0].clone(), wide[1].clone())),
        lambda: pf.arange(4, dtype=pf.int64, out=wide[0].clone()),
    ):
        with pytest.raises(pf.DTypeError, match="expected (that dtype|the same)"):
            write()
    assert (wide == 7).all()
    assert pf.add(x, x, out=wide).dtype is pf.float64 and (wide == 2).all()
    assert (pf.cat([x[:1], x[:1]], out=wide) == 1).all()


def test_out_is_none_of_a_list():
    x, y = pf.zeros(0), pf.ones(4, 6)
    for out in (x, y):
        with pytest.raises(pf.ValueError, match="out= of cat that is"):
            pf.cat((x, y), dim=0, out=out)
    assert x.shape == (0,) and (y == 1).all()


def test_the_message_names_both_dtypes():
    with pytest.raises(pf.DTypeError, match="got out= of int64 for a result of float32"):
        pf.add(pf.ones(2), pf.ones(2), out=pf.zeros(2, dtype=pf.int64))
    assert pf.arange(3.0, out=pf.zeros(3, dtype=pf.int64)).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, **out: pf.add(x, 1, **out),
        lambda x, **out: pf.add(1, x, **out),
        lambda x, **out: pf.floor(x, **out),
        lambda x, **out: pf.sum(x, 0, **out),
        lambda x, **out: pf.matmul(x, pf.ones(3, 3), **out),
        lambda x, **out: pf.cat([pf.ones(1, 3), x], **out),
        lambda x, **out: pf.bernoulli(x, **out),
        lambda x, **out: pf.normal(x, pf.ones(3), **out),
        lambda x, **out: pf.linalg.inv(x[:, :1], **out),
        lambda x, **out: pf.nn.functional.normalize(x, **out),
    ],
)
def test_out_has_no_history(call):
    """What would have a gradient is not written into out=, as in PyTorch; no_grad() allows it."""
    x = pf.full((1, 3), 0.5).requires_grad_()
    with pf.no_grad():
        shape = call(x).shape
        out = pf.zeros(shape)
        assert call(x, out=out) is out and out.any().item() in (True, False)
    before = out.tolist()
    with pytest.raises(pf.AutogradError, match="requires? grad"):
        call(x, out=out)
    assert out.tolist() == before and not out.requires_grad
    assert call(x.detach(), out=out) is out


def test_out_of_what_has_no_gradient():
    x = pf.tensor([1.0, 3.0, 2.0], requires_grad=True)
    assert pf.argmax(x, out=pf.zeros((), dtype=pf.int64)).item() == 1
    assert pf.eq(x, 3, out=pf.zeros(3, dtype=pf.bool)).tolist() == [False, True, False]
    assert pf.histc(x, 2, out=pf.zeros(2)).tolist() == [1, 2]
    with pytest.raises(pf.AutogradError):  # one of several results has one
        pf.max(x, 0, out=(pf.zeros(()), pf.zeros((), dtype=pf.int64)))
