"""Tensors that get other memory, another shape or dtype, between what was calculated and the backward
pass: the right gradient or a typed error, and nothing is read or written outside of a block."""

import os
import subprocess
import sys

import pytest
from hangs import HANG

import pyflame as pf


def test_an_out_that_is_an_empty_view():
    whole = pf.zeros(2, 3)
    out = whole[:, :0]
    w = pf.ones(300, 3)
    pf.mul(w, 2, out=out)
    assert out.shape == (300, 3) and out.eq(2).all() and whole.eq(0).all()


@pytest.mark.parametrize("how", ["data", "resize_"])
def test_a_view_with_other_memory_is_one_no_longer(how):
    whole = pf.zeros(2, 3)
    v = whole[:1]
    if how == "data":
        v.data = pf.ones(50, 50)
    else:
        v.resize_(50, 50).fill_(1)
    w = pf.full((50, 50), 3.0, requires_grad=True)
    v.mul_(w)
    v.sum().backward()
    assert w.grad.eq(1).all() and whole.shape == (2, 3) and whole.eq(0).all()


def test_a_view_with_the_same_memory_stays_one():
    whole = pf.zeros(2, 3)
    v = whole[:1]
    v.data = v.detach()
    w = pf.full((1, 3), 3.0, requires_grad=True)
    v.copy_(w)
    whole.sum().backward()
    assert w.grad.eq(1).all() and whole[0].eq(3).all()


@pytest.mark.parametrize("make", ["view", "result", "joined"])
def test_a_gradient_that_does_not_fit_the_old_value(make):
    w = pf.ones(20, 3, requires_grad=True)
    v = {
        "view": lambda: (w * 2)[:1],
        "result": lambda: w * 2,
        "joined": lambda: (w * 2).softmax(1),
    }[make]()
    v.data = pf.ones(70, 70)
    with pytest.raises(pf.ShapeError, match="whose shape was changed after it was made"):
        v.sum().backward()


def test_a_result_of_another_dtype_passes_its_gradient_on():
    w = pf.ones(20, 3, requires_grad=True)
    v = w * 2
    v.data = pf.ones(20, 3, dtype=pf.bfloat16)
    v.sum().backward()
    assert w.grad.dtype == pf.float32 and w.grad.eq(2).all()
    v = w * 2
    with pytest.raises(pf.DTypeError):
        v.data = pf.ones(20, 3, dtype=pf.int64)


@pytest.mark.parametrize("how", ["data", "resize_", "dtype"])
def test_an_operand_that_has_changed(how):
    w = pf.ones(40, 6, requires_grad=True)
    scale = pf.ones(40, 6)
    y = pf.nn.functional.layer_norm(w, (6,)) if how != "resize_" else w * scale
    if how == "data":
        w.data = pf.ones(1, 1)
    elif how == "dtype":
        w.data = w.data.bfloat16()
    else:
        scale.resize_(1)
    with pytest.raises(pf.ShapeError, match="another shape or dtype"):
        y.sum().backward()


@pytest.mark.parametrize("how", ["data", "resize_"])
def test_a_view_whose_base_has_changed(how):
    base = pf.zeros(200, 3)
    v = base[150:]
    if how == "data":
        base.data = pf.ones(1, 3)
    else:
        base.resize_(1, 3)
    w = pf.ones(50, 3, requires_grad=True)
    v.mul_(w)
    with pytest.raises(pf.AutogradError, match="whose base has got another shape"):
        v.sum().backward()


@pytest.mark.cpu_only
def test_with_a_page_behind_each_block():
    if os.environ.get("PYFLAME_GUARD_PAGES"):
        return
    env = {**os.environ, "PYFLAME_GUARD_PAGES": "1", "PYFLAME_ALLOC_CONF": "caching:False"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stdout[-3000:]
