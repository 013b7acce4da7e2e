"""In-place views and in-place forms of general operations."""

import numpy as np
import pytest
from finite import check_grad, same

import pyflame as pf

A = np.arange(12.0).reshape(3, 4)

VIEWS = {
    "unsqueeze_": (lambda t: t.unsqueeze_(1), lambda a: a[:, None]),
    "squeeze_": (lambda t: t.unsqueeze_(0).unsqueeze_(2).squeeze_(), lambda a: a),
    "squeeze_dims": (lambda t: t.unsqueeze_(0).unsqueeze_(0).squeeze_((0, -3)), lambda a: a),
    "t_": (lambda t: t.t_(), lambda a: a.T),
    "transpose_": (lambda t: t.transpose_(0, -1), lambda a: a.T),
    "swapaxes_": (lambda t: t.swapaxes_(0, 1), lambda a: a.T),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_in_place(name):
    change, reference = VIEWS[name]
    t = pf.tensor(A)
    assert change(t) is t
    same(t, reference(A))
    pending = pf.tensor(A) * 2  # not run yet when its shape changes
    change(pending)
    same(pending + 1, reference(A) * 2 + 1)

    def fn(x):
        y = x * x
        change(y)
        return y * pf.arange(y.numel(), dtype=pf.float64).view(y.shape)

    check_grad(fn, A)


def test_views_in_place_then_writes():
    def whole(x):
        y = x * 2
        y.t_().mul_(pf.tensor([1.0, 2.0, 3.0], dtype=pf.float64))
        return y * y

    check_grad(whole, A)

    def part(x):  # what was a view stays one
        y = x * 2
        v = y[1:]
        v.t_()
        v.mul_(3)
        return (y * y).sum() + (v * v * v).sum()

    check_grad(part, A)
    t = pf.tensor(A)
    v = t[1:]
    v.t_()
    v.zero_()
    assert t[1:].abs().sum().item() == 0 and t[0].sum().item() == 6


def test_views_in_place_of_leaves():
    w = pf.ones(2, 3, requires_grad=True)
    with pytest.raises(pf.AutogradError, match="leaf"):
        w.t_()
    with pf.no_grad():
        w.t_()
    assert w.shape == (3, 2) and w.requires_grad and w.is_leaf
    w.sum().backward()
    assert w.grad.shape == (3, 2)
    with pytest.raises(pf.ShapeError):
        pf.ones(1, 2, 3).t_()
    with pytest.raises(IndexError):
        pf.ones(2).unsqueeze_(3)


def test_products_in_place():
    a, b, c = (np.random.default_rng(i).standard_normal((3, 3)) for i in range(3))
    t = [pf.tensor(v) for v in (a, b, c)]
    same(t[0].clone().addmm_(t[1], t[2], beta=0.5, alpha=2), 0.5 * a + 2 * b @ c, rtol=1e-12)
    same(t[0][0].clone().addmv_(t[1], t[2][0]), a[0] + b @ c[0], rtol=1e-12)
    same(t[0].clone().addr_(t[1][0], t[2][0]), a + np.outer(b[0], c[0]), rtol=1e-12)
    x, y, z = (pf.stack([v, v + 1]) for v in t)
    batch = np.stack([b, b + 1]) @ np.stack([c, c + 1])
    same(x.clone().baddbmm_(y, z), np.stack([a, a + 1]) + batch, rtol=1e-12)
    same(t[0].clone().addbmm_(y, z), a + batch.sum(0), rtol=1e-12)
    check_grad(lambda p, q, r: (p * 1).addmm_(q, r, beta=0.5), a, b, c)
    with pytest.raises(pf.ShapeError, match="makes a new"):
        pf.ones(3).addmm_(t[1].float(), t[2].float())


def test_scans_and_puts_in_place():
    t = pf.tensor(A)
    assert t.cumsum_(1) is t
    same(t, A.cumsum(1))
    at = pf.tensor([[3, 0], [7, 3]])
    new = pf.tensor([[10.0, 20.0], [30.0, 40.0]], dtype=pf.float64)
    want = A.copy()
    np.add.at(want.reshape(-1), [3, 0, 7, 3], [10, 20, 30, 40])
    same(pf.tensor(A).put(at, new, accumulate=True), want)
    turned = pf.tensor(A).t()
    turned.put_(pf.tensor([1, 4]), pf.tensor([-1.0, -2.0], dtype=pf.float64))
    want = A.T.copy()
    want.reshape(-1)[[1, 4]] = [-1, -2]
    same(turned, want)
    check_grad(lambda x, v: x.put(pf.tensor([1, 5]), v), A, np.ones(2))
    with pytest.raises(pf.ShapeError, match="as many"):
        pf.tensor(A).put_(pf.tensor([1]), new)


def test_sums_do_not_become_bools():
    mask = pf.tensor([True, True])
    for call in (lambda: mask.cumsum_(0), lambda: mask.add_(1)):
        with pytest.raises(pf.DTypeError, match="bool tensor for a result of int64"):
            call()
    assert pf.tensor([100, 100], dtype=pf.int8).cumsum_(0).tolist() == [100, -56]
