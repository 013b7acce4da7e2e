"""Every floating-point argument of every operation has a gradient, also where it is zero, and it is
that of finite differences in float64. Nothing loses its history without a word."""

import numpy as np
import pytest
from finite import check_grad, same

import pyflame as pf

F = pf.nn.functional
X = np.array([[0.3, -1.2, 2.1], [0.9, 0.4, -0.7]])
POS = np.abs(X) + 0.2
ROW = np.array([0.5, 1.5, -0.25])


def leaf(a):
    return pf.tensor(np.asarray(a, np.float64), requires_grad=True)


# ---- numbers that are tensors ---------------------------------------------------------------------

MASK = [[True, False, True], [False, True, False]]
VALUES = {
    "clamp min": lambda x, v: pf.clamp(x, min=v),
    "clamp max": lambda x, v: x.clamp(max=v),
    "clamp both": lambda x, v: x.clamp(v - 1, v),
    "clip": lambda x, v: pf.clip(x, v, v + 1),
    "clamp_min": lambda x, v: pf.clamp_min(x, v),
    "clamp_max": lambda x, v: x.clamp_max(v),
    "clamp_": lambda x, v: (x * 1).clamp_(min=v),
    "clamp_min_": lambda x, v: (x * 1).clamp_min_(v),
    "clamp_max_": lambda x, v: (x * 1).clamp_max_(v),
    "masked_fill": lambda x, v: x.masked_fill(pf.tensor(MASK), v),
    "masked_fill_": lambda x, v: (x * 1).masked_fill_(pf.tensor(MASK), v),
    "index_fill": lambda x, v: x.index_fill(1, pf.tensor([2, 0, 2, 2]), v),
    "index_fill_": lambda x, v: (x * 1).index_fill_(0, pf.tensor([1, 1]), v),
    "fill_": lambda x, v: (x * 1).fill_(v),
    "where": lambda x, v: pf.where(pf.tensor(MASK), x, v),
    "pow": lambda x, v: (x * x + 1) ** v,
    "lerp": lambda x, v: x.lerp(x * x, v),
    "quantile": lambda x, v: x.quantile(v * v, -1),
    "nanquantile": lambda x, v: x.nanquantile(v * v),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_that_are_tensors(name):
    check_grad(VALUES[name], X, np.array(0.45), second=False)


def test_a_tensor_that_requires_grad_is_no_number():
    v = leaf(0.5)
    for call in (
        lambda: pf.add(pf.ones(2), pf.ones(2), alpha=v),
        lambda: F.leaky_relu(pf.ones(2), v),
        lambda: pf.full((2,), v),
        lambda: pf.ones(2).clamp(0, v),
    ):
        with pytest.raises(TypeError, match="requires grad"):
            call()
    assert pf.add(pf.ones(2), pf.ones(2), alpha=v.detach()).tolist() == [1.5, 1.5]
    with pytest.raises(pf.ShapeError, match="0-d"):
        pf.ones(3).masked_fill(pf.tensor([True, False, True]), pf.tensor([2.0]))


# ---- what is written over -------------------------------------------------------------------------

OVERWRITES = {
    "zero_": lambda y: y.zero_(),
    "fill_": lambda y: y.fill_(3),
    "copy_": lambda y: y.copy_(pf.ones(2, 3)),
    "copy_ of another device's order": lambda y: y.copy_(pf.ones(3, 2).t()),
    "normal_": lambda y: y.normal_(),
    "uniform_": lambda y: y.uniform_(),
    "bernoulli_": lambda y: y.bernoulli_(),
    "exponential_": lambda y: y.exponential_(),
    "eq_": lambda y: y.eq_(1),
    "floor_": lambda y: y.floor_(),
    "sign_": lambda y: y.sign_(),
    "[...] =": lambda y: y.__setitem__(..., 4.0),
}


@pytest.mark.parametrize("name", OVERWRITES)
def test_what_is_written_over_keeps_its_history(name):
    x = leaf(X)
    y = x * 2
    OVERWRITES[name](y)
    assert y.requires_grad and not y.is_leaf
    (y * 3).sum().backward()
    same(x.grad, np.zeros_like(X))


def test_both_sides_of_a_copy():
    x, z = leaf(X), leaf(ROW)
    y = x * 2
    y.copy_(z)
    hooked = []
    y.register_hook(hooked.append)
    (y * 5).sum().backward()
    same(x.grad, np.zeros_like(X))
    same(z.grad, np.full(3, 10.0))
    same(hooked[0], np.full((2, 3), 5.0))


def test_a_part_that_is_written_over():
    x = leaf(X)
    y = x * 2
    y[0].zero_()
    y[:, 1].fill_(3)
    y.sum().backward()
    same(x.grad, [[0, 0, 0], [2, 0, 2]])


def test_in_place_forms_keep_what_their_gradients_need():
    check_grad(lambda x: pf.gelu_(x * 1) if hasattr(pf, "gelu_") else (x * 1).gelu_(), X)
    check_grad(lambda x: (x * 1).nan_to_num_(), X, second=False)
    check_grad(lambda x: (x * 1).clamp_(pf.tensor(-1.0), pf.tensor(1.0)), X, second=False)


# ---- zeros are gradients, too ---------------------------------------------------------------------

ZEROS = {
    "norm of order 0": lambda x: x.norm(0),
    "vector norm of order 0": lambda x: pf.linalg.vector_norm(x, 0, -1),
    "dist": lambda x: pf.dist(x, x.flip(0), 0),
    "cdist": lambda x: pf.cdist(x, x + 1, 0),
    "pdist": lambda x: F.pdist(x, 0),
    "points that coincide": lambda x: pf.cdist(x, x).diagonal().sum() + F.pdist(x[:1].expand(2, 3)).sum(),
    "pairwise_distance": lambda x: F.pairwise_distance(x, x * 2, 0),
    "matrix_power": lambda x: pf.matrix_power(x[:, :2], 0),
    "combinations": lambda x: pf.combinations(x[0, :1], 2),
    "cat of nothing": lambda x: pf.cat([x[:0], pf.ones(1, 3, dtype=pf.float64)]),
    "nothing": lambda x: x[:0],
    "sign": pf.sign, "floor": pf.floor, "ceil": pf.ceil, "round": pf.round, "trunc": pf.trunc,
    "floor_divide": lambda x: x // 2,
    "div": lambda x: pf.div(x, 2, rounding_mode="trunc"),
    "heaviside": lambda x: pf.heaviside(x, x),
}  # fmt: skip


@pytest.mark.parametrize("name", ZEROS)
def test_zeros_are_gradients(name):
    x = leaf(X)
    y = ZEROS[name](x)
    assert y.requires_grad
    y.sum().backward()
    same(x.grad, np.zeros_like(X))


# ---- elements that are equal ----------------------------------------------------------------------


def test_ties():
    """All of a tensor: shared evenly; along a dimension: to the element whose index is returned."""
    ties = [2.0, 1.0, 2.0, 2.0, 3.0]
    for name in ("median", "nanmedian"):
        x = leaf(ties)
        getattr(pf, name)(x).backward()
        same(x.grad, np.array([1, 0, 1, 1, 0]) / 3, rtol=1e-15)
        x = leaf([[1.0, 2.0], [4.0, 3.0]])
        check_grad(getattr(pf, name), x.detach().numpy())
    for name in ("median", "nanmedian", "mode", "max", "min"):
        x = leaf(ties)
        values, index = getattr(pf, name)(x, 0)
        values.backward()
        same(x.grad, np.eye(5)[index.item()])
    for name in ("max", "min", "amax", "amin"):
        x = leaf([2.0, 2.0, 2.0, 2.0])
        getattr(pf, name)(x).backward()
        same(x.grad, np.full(4, 0.25))
