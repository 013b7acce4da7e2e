"""Forms of calls that older or rarer programs use: numbers first, factors among the tensors, lists
in place of tensors, empty indices. Values are NumPy's, gradients those of finite differences.
"""

import warnings

import mpmath
import numpy as np
import pytest
from finite import check_grad
from scipy import special

import pyflame as pf
import pyflame.nn.functional as F

X = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.5]])
Y = np.array([[2.0, 1.0, -4.0], [0.5, 8.0, 3.0]])
A, B = np.arange(6.0).reshape(2, 3), np.arange(9.0).reshape(3, 3) - 4


def t(a, **options):
    return pf.tensor(a, dtype=pf.float64, **options)


# ---- factors among the tensors ------------------------------------------------------------------

OLD = {
    "add": (lambda: pf.add(t(X), 2, t(Y)), X + 2 * Y),
    "add_": (lambda: t(X).add_(-0.1, t(Y)), X - 0.1 * Y),
    "sub": (lambda: pf.sub(t(X), 2, t(Y)), X - 2 * Y),
    "sub_": (lambda: t(X).sub_(0.5, t(Y)), X - 0.5 * Y),
    "addcmul": (lambda: pf.addcmul(t(X), 0.5, t(Y), t(Y)), X + 0.5 * Y * Y),
    "addcmul_": (lambda: t(X).addcmul_(0.5, t(Y), t(X)), X + 0.5 * Y * X),
    "addcdiv": (lambda: t(X).addcdiv(2, t(X), t(Y)), X + 2 * X / Y),
    "addcdiv_": (lambda: t(X).addcdiv_(-1, t(X), t(Y)), X - X / Y),
    "addmm": (lambda: pf.addmm(2, t(X), 3, t(A), t(B)), 2 * X + 3 * A @ B),
    "addmm short": (lambda: pf.addmm(2, t(X), t(A), t(B)), 2 * X + A @ B),
    "addmm method": (lambda: t(X).addmm(2, 3, t(A), t(B)), 2 * X + 3 * A @ B),
    "addmm_": (lambda: t(X).addmm_(2, t(A), t(B)), 2 * X + A @ B),
    "addmv": (lambda: pf.addmv(2, t(X[0]), 3, t(B), t(Y[0])), 2 * X[0] + 3 * B @ Y[0]),
    "addmv_": (lambda: t(X[0]).addmv_(2, 3, t(B), t(Y[0])), 2 * X[0] + 3 * B @ Y[0]),
    "addr": (
        lambda: pf.addr(2, t(B), 3, t(X[0]), t(Y[0])),
        2 * B + 3 * np.outer(X[0], Y[0]),
    ),
    "addr_": (lambda: t(B).addr_(2, t(X[0]), t(Y[0])), 2 * B + np.outer(X[0], Y[0])),
    "baddbmm": (
        lambda: pf.baddbmm(2, t([X]), 3, t([A]), t([B])),
        np.array([2 * X + 3 * A @ B]),
    ),
    "baddbmm_": (lambda: t([X]).baddbmm_(2, 3, t([A]), t([B])), np.array([2 * X + 3 * A @ B])),
    "addbmm": (lambda: pf.addbmm(2, t(X), t([A, A]), t([B, B])), 2 * X + 2 * A @ B),
    "addbmm_": (lambda: t(X).addbmm_(2, 3, t([A]), t([B])), 2 * X + 3 * A @ B),
}


@pytest.mark.parametrize("name", OLD)
def test_old_orders(name):
    call, want = OLD[name]
    with pytest.warns(UserWarning, match="old order"):
        got = call()
    np.testing.assert_allclose(got.tolist(), want, rtol=1e-12)


def test_old_orders_stay_out_of_sight():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pf.add(t(X), t(Y), alpha=2)
    assert "Scalar alpha, Tensor other" not in pf.add.__doc__
    assert all(row["family"] != "old forms" for row in pf._C._table())
    with pytest.raises(TypeError) as e:
        pf.add(t(X), "2")
    assert "alpha, Tensor" not in str(e.value)


# ---- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "floor_divide", "pow", "remainder"])
def test_numbers_first(name):
    f, ints = getattr(pf, name), np.array([1, 2, 5])
    with np.errstate(all="ignore"):
        want = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
        want |= {"floor_divide": np.floor_divide, "pow": np.power, "remainder": np.remainder}
        g = want[name]
        assert f(7, pf.tensor(ints)).tolist() == pytest.approx(g(7, ints).tolist())
        assert f(2.5, t(Y)).tolist() == [pytest.approx(r) for r in g(2.5, np.abs(Y)).tolist()] or (
            np.allclose(f(2.5, t(Y)).tolist(), g(2.5, Y))
        )
    grown = t(Y, requires_grad=True)
    if name in ("add", "sub", "mul", "div"):
        check_grad(lambda y: f(3.0, y), Y)
    assert f(2.0, grown).requires_grad


def test_two_numbers():
    for f, want in [(pf.add, 5), (pf.sub, -1), (pf.mul, 6), (pf.floor_divide, 0)]:
        r = f(2, 3)
        assert r.shape == () and r.dtype == pf.int64 and r.item() == want
    assert pf.div(2, 4).dtype == pf.float32 and pf.div(2, 4).item() == 0.5
    assert pf.add(1, 2.5).dtype == pf.float32
    assert pf.add(1, pf.tensor([2, 3]), alpha=3).tolist() == [7, 10]
    assert pf.sub(1, pf.tensor([2.0, 3]), alpha=2).tolist() == [-3, -5]
    assert pf.float_power(2, pf.tensor([3, -1])).tolist() == [8, 0.5]
    assert pf.isin(pf.tensor([1, 2]), 2).tolist() == [False, True]
    assert pf.isin(pf.tensor([1, 2]), test_element=1.5).tolist() == [False, False]
    assert pf.isin(2, pf.tensor([1, 2])).item() is True
    assert pf.bucketize(2.5, pf.tensor([1, 2, 3])).item() == 2


# ---- indexing -----------------------------------------------------------------------------------


def test_any_sequence_is_an_index():
    x = pf.arange(12.0).reshape(3, 4)
    assert x[range(3), [0, 1, 3]].tolist() == [0, 5, 11]
    assert x[range(3), pf.tensor([0, 1, 3])].tolist() == [0, 5, 11]
    assert x[range(0, 3, 2)].tolist() == [[0, 1, 2, 3], [8, 9, 10, 11]]
    assert x[:, range(0)].shape == (3, 0)
    x[range(3), range(3)] = -1.0
    assert x.diagonal().tolist() == [-1, -1, -1]
    with pytest.raises(TypeError):
        x["ab"]


@pytest.mark.parametrize("shape", [(0,), (0, 5), (2, 0), (0, 0, 3), (9, 0), (1, 0, 1)])
@pytest.mark.parametrize("like", [(3, 4), (0, 4), ()])
def test_empty_indices(shape, like):
    x = pf.ones(like, requires_grad=True)
    index = pf.empty(shape, dtype=pf.int64)
    got = pf.gather(x, 0, index)
    assert got.shape == shape and got.dtype == x.dtype
    got.sum().backward()
    assert x.grad.shape == like and not x.grad.any()
    src = pf.ones(shape, requires_grad=True)
    for out in (
        pf.scatter(x, 0, index, src),
        pf.scatter(x, 0, index, 2.0),
        pf.scatter_add(x, 0, index, src),
        *(pf.scatter_reduce(x, 0, index, src, r) for r in ("sum", "prod", "amax", "amin")),
        x.detach().clone().scatter_(0, index, 3.0),
    ):
        assert pf.equal(out.detach(), x.detach())
    for reduce in ("sum", "prod", "amin"):
        x.grad = src.grad = None
        pf.scatter_reduce(x, 0, index, src, reduce).sum().backward()
        assert src.grad.shape == shape and (x.grad == 1).all()
    assert pf.take(x, index).shape == shape
    with pytest.raises(IndexError):
        pf.gather(x, 2, index)


def test_numbers_beside_bools():
    flags = pf.tensor([False, True])
    assert pf.bucketize(-2, flags).item() == 0 and pf.bucketize(5, flags).item() == 2
    assert pf.isin(flags, 2).tolist() == [False, False]
    assert pf.searchsorted(pf.tensor([1, 3], dtype=pf.int8), 300).item() == 2


def test_searchsorted_sorter():
    a = np.array([[3.0, 1.0, 2.0], [9.0, 7.0, 8.0]])
    v = np.array([[2.0, 0.0, 5.0], [8.0, 7.5, 10.0]])
    order = np.argsort(a, axis=1)
    for side in ("left", "right"):
        want = [np.searchsorted(r, w, side, s).tolist() for r, w, s in zip(a, v, order)]
        got = pf.searchsorted(t(a), t(v), side=side, sorter=pf.tensor(order))
        assert got.tolist() == want
    assert pf.searchsorted(t([3.0, 1, 2]), 2.5, sorter=pf.tensor([1, 2, 0])).item() == 2
    with pytest.raises(pf.ShapeError):
        pf.searchsorted(t(a), t(v), sorter=pf.tensor([0, 1, 2]))
    with pytest.raises(IndexError):
        pf.searchsorted(t([3.0, 1]), 2.5, sorter=pf.tensor([0, 5])).item()
    with pytest.raises(ValueError, match="right=True"):
        pf.searchsorted(t([1.0, 3]), 2.5, side="left", right=True)


@pytest.mark.parametrize("dim", [None, 0, 1, -1])
def test_unique_consecutive(dim):
    a = np.array([[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 2, 2], [1, 1, 2, 2]])
    values, inverse, counts = pf.unique_consecutive(
        pf.tensor(a), return_inverse=True, return_counts=True, dim=dim
    )
    moved = a.ravel() if dim is None else np.moveaxis(a, dim, 0)
    keep = [i for i in range(len(moved)) if i == 0 or (moved[i] != moved[i - 1]).any()]
    want = moved[keep]
    assert values.tolist() == (want if dim is None else np.moveaxis(want, 0, dim)).tolist()
    assert counts.tolist() == np.diff([*keep, len(moved)]).tolist()
    place = np.cumsum([i in keep for i in range(len(moved))]) - 1
    assert inverse.reshape(-1).tolist() == place.tolist()
    with pytest.raises(IndexError):
        pf.unique(pf.tensor([1, 2]), dim=3)
    with pytest.raises(IndexError):
        pf.unique_consecutive(pf.tensor(1), dim=0)


# ---- repeating ----------------------------------------------------------------------------------


def test_repeat_interleave():
    x = pf.tensor([[1, 2], [3, 4], [5, 6]])
    counts = pf.tensor([2, 0, 3])
    got = pf.repeat_interleave(x, counts, dim=0, output_size=5)
    assert got.tolist() == np.repeat(x.tolist(), [2, 0, 3], axis=0).tolist()
    assert pf.repeat_interleave(counts).tolist() == [0, 0, 2, 2, 2]
    assert pf.repeat_interleave(x, 2, output_size=12).shape == (12,)
    assert pf.tensor(7).repeat_interleave(pf.tensor([3])).tolist() == [7, 7, 7]
    assert pf.repeat_interleave(x, pf.tensor([2]), dim=1).shape == (3, 4)
    assert pf.repeat_interleave(x, pf.tensor([0, 0, 0]), dim=0).shape == (0, 2)
    assert pf.repeat_interleave(pf.zeros(0, 2), pf.tensor([2]), dim=0).shape == (0, 2)
    assert pf.repeat_interleave(counts.int()).dtype == pf.int32
    with pytest.raises(pf.ShapeError):
        pf.repeat_interleave(pf.ones(2, 2).long())
    check_grad(lambda v: pf.repeat_interleave(v, pf.tensor([3, 1]), 0), X)
    for bad in (4, 6):
        with pytest.raises(pf.ValueError, match="output_size"):
            pf.repeat_interleave(x, counts, dim=0, output_size=bad)


@pytest.mark.parametrize("n", [2**40, 2**62])
def test_repeat_interleave_of_too_much(n):
    x = pf.ones(3)
    for call in (
        lambda: x.repeat_interleave(n),
        lambda: x.repeat_interleave(pf.tensor([n, n, 1])),
        lambda: pf.repeat_interleave(pf.tensor([n, 2, 3])),
    ):
        with pytest.raises((pf.OutOfMemoryError, pf.ShapeError)):
            call().sum().item()


# ---- reductions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("unbiased", [True, False])
def test_unbiased_by_position(unbiased):
    want = X.var(ddof=int(unbiased))
    x = t(X)
    assert x.var(unbiased).item() == pytest.approx(want, rel=1e-12)
    assert pf.std(x, unbiased).item() == pytest.approx(want**0.5, rel=1e-12)
    var, mean = pf.var_mean(x, unbiased)
    std, _ = pf.std_mean(x, unbiased)
    assert var.item() == pytest.approx(want) and std.item() == pytest.approx(want**0.5)
    assert mean.item() == pytest.approx(X.mean())


def test_logsumexp_of_integers():
    got = pf.logsumexp(pf.tensor([[1, 2, 3], [4, 5, 6]]), 1)
    assert got.dtype == pf.float32
    np.testing.assert_allclose(got.tolist(), special.logsumexp([[1, 2, 3], [4, 5, 6]], 1), 1e-6)
    assert pf.tensor([True, False]).logsumexp(0).item() == pytest.approx(np.log(np.e + 1))


def test_losses_of_integers():
    i, j, f = pf.tensor([1, 2, 3]), pf.tensor([2, 0, 5]), pf.tensor([0.5, 1.0, 2.0])
    assert F.mse_loss(i, f).item() == pytest.approx(0.75)
    assert F.mse_loss(f, i, reduction="sum").item() == pytest.approx(2.25)
    assert F.l1_loss(i, j, reduction="none").tolist() == [1, 2, 2]
    assert F.l1_loss(i, j, reduction="sum").dtype == pf.int64
    assert F.smooth_l1_loss(i, f).item() == pytest.approx(0.375)
    assert F.huber_loss(f, i).item() == pytest.approx(0.375)
    want = np.exp([1, 2, 3]) - np.array([2, 0, 5]) * [1, 2, 3]
    assert F.poisson_nll_loss(i, j, reduction="none").tolist() == pytest.approx(want.tolist(), 1e-6)
    sign = pf.tensor([1, -1, 1])
    assert F.margin_ranking_loss(i, j, sign, reduction="none").tolist() == [1, 2, 2]
    got = F.gaussian_nll_loss(i, j, f, reduction="none")
    want = 0.5 * (np.log([0.5, 1, 2]) + np.array([1, 4, 4]) / [0.5, 1, 2])
    assert got.tolist() == pytest.approx(want.tolist(), 1e-6)
    assert F.cosine_embedding_loss(i[None], j[None], pf.tensor([1])).item() == pytest.approx(
        1 - 17 / np.sqrt(14 * 29), 1e-5
    )
    assert F.triplet_margin_loss(i[None], j[None], i[None]).item() == pytest.approx(4, 1e-5)


# ---- products -----------------------------------------------------------------------------------


def test_tensordot_broadcasts_ones():
    a, b = np.random.default_rng(0).normal(size=(2, 1, 4)), np.arange(12.0).reshape(3, 4)
    want = np.tensordot(np.broadcast_to(a, (2, 3, 4)), b, axes=([1, 2], [0, 1]))
    np.testing.assert_allclose(pf.tensordot(t(a), t(b), dims=([1, 2], [0, 1])).tolist(), want)
    want = np.tensordot(b, np.broadcast_to(a, (2, 3, 4)), axes=([0], [1]))
    np.testing.assert_allclose(pf.tensordot(t(b), t(a), dims=([0], [1])).tolist(), want)
    check_grad(lambda x, y: pf.tensordot(x, y, dims=([1], [0])), a, b)
    with pytest.raises(pf.ShapeError):
        pf.tensordot(t(X), t(b), dims=([0], [1]))


def test_einsum_of_numbered_dimensions():
    a, b = t(X), t(B)
    assert pf.equal(pf.einsum(a, [0, 1], b, [1, 2], [0, 2]), pf.einsum("ij,jk->ik", a, b))
    assert pf.equal(pf.einsum(a, [0, 1], b, [1, 2]), a @ b)
    assert pf.equal(pf.einsum(a, [..., 51], [51, ...]), a.t())
    assert pf.equal(pf.einsum(b, [3, 3]), b.trace())
    assert pf.equal(pf.einsum("ij,jk->ik", [a, b]), a @ b)
    with pytest.raises(ValueError, match="52"):
        pf.einsum(a, [0, 52])


def test_atleast_of_several():
    scalar, vector = pf.tensor(1.0), pf.ones(2)
    for f, shapes in [
        (pf.atleast_1d, [(1,), (2,)]),
        (pf.atleast_2d, [(1, 1), (1, 2)]),
        (pf.atleast_3d, [(1, 1, 1), (1, 2, 1)]),
    ]:
        for got in (f(scalar, vector), f([scalar, vector]), f((scalar, vector))):
            assert isinstance(got, tuple) and [tuple(g.shape) for g in got] == shapes
        assert f(vector).shape == shapes[1] and len(f([vector])) == 1


# ---- elements -----------------------------------------------------------------------------------


def test_logit_eps():
    x = np.array([0.0, 0.01, 0.3, 0.99, 1.0, -2.0])
    np.testing.assert_allclose(
        pf.logit(t(x), 0.05).tolist(), special.logit(np.clip(x, 0.05, 0.95)), rtol=1e-12
    )
    assert t(x).logit(eps=0.05).tolist() == t(x).logit_(0.05).tolist()
    assert pf.logit(t([0.25]), eps=float("nan")).item() == pf.logit(t([0.25]), -1).item() < 0
    assert pf.logit(pf.tensor([1, 0]), eps=0.25).dtype == pf.float32
    v = t(x, requires_grad=True)
    v.logit(0.05).sum().backward()
    want = np.where((x >= 0.05) & (x <= 0.95), 1 / (x * (1 - x + (x == 1)) + (x == 0)), 0)
    np.testing.assert_allclose(v.grad.tolist(), want, rtol=1e-12)
    v = t([-0.5, 0.25, 1.5], requires_grad=True)
    v.logit().sum().backward()
    np.testing.assert_allclose(v.grad.tolist(), [np.nan, 1 / (0.25 * 0.75), np.nan], rtol=1e-12)


def exact_polygamma(n, values):
    with mpmath.workdps(300):
        return [float(mpmath.polygamma(n, mpmath.mpf(v))) for v in values]


@pytest.mark.parametrize("n", [2, 3, 4, 7, 12, 25, 60, 100])
def test_polygamma(n):
    x = np.array([0.1, 0.5, 1.0, 1.7, 4.0, 9.5, 30.0, 200.0, 1e4, -0.3, -1.5, -2.75, -7.1, -20.5])
    want = exact_polygamma(n, x)
    np.testing.assert_allclose(pf.polygamma(n, t(x)).tolist(), want, rtol=1e-12)
    poles = pf.polygamma(n, t([0.0, -1.0, -4.0])).tolist()
    assert poles == [(-1) ** (n + 1) * np.inf] * 3
    assert np.isnan(pf.polygamma(n, t([np.nan])).item())
    assert pf.polygamma(n, pf.tensor([3])).dtype == pf.float32
    v = t(x[:6], requires_grad=True)
    pf.polygamma(n, v).sum().backward()
    want = exact_polygamma(n + 1, x[:6])
    np.testing.assert_allclose(v.grad.tolist(), want, rtol=1e-12)


@pytest.mark.parametrize("name", ["lgamma_", "digamma_", "polygamma_"])
def test_gradients_of_what_is_written_over(name):
    more = (2,) if name == "polygamma_" else ()
    x, y = t([0.5, 2.5], requires_grad=True), t([0.5, 2.5], requires_grad=True)
    getattr(x * 1, name)(*more).sum().backward()
    got = pf.polygamma(2, y) if more else getattr(pf, name[:-1])(y)
    got.sum().backward()
    assert x.grad.tolist() == y.grad.tolist()
    with pytest.raises(TypeError):
        getattr(pf.tensor([1, 2]), name)(*more)


def test_polygamma_of_any_order():
    v = t([0.7, 2.5], requires_grad=True)
    for n in range(5):
        (g,) = pf.autograd.grad(pf.polygamma(n, v).sum(), v)
        np.testing.assert_allclose(g.tolist(), special.polygamma(n + 1, [0.7, 2.5]), rtol=1e-11)
    assert t([3.0]).polygamma_(2).item() == pytest.approx(special.polygamma(2, 3.0))
    with pytest.raises(ValueError, match="170"):
        pf.polygamma(-1, v)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce_gradients(reduce, include_self):
    rng = np.random.default_rng(3)
    self, src = rng.normal(size=(4, 3)), rng.normal(size=(5, 4))
    index = pf.tensor(rng.integers(0, 4, (5, 3)))

    def f(x, s):
        return pf.scatter_reduce(x, 0, index, s, reduce, include_self=include_self)

    check_grad(f, self, src)
    if reduce == "prod":  # second derivatives, too
        x, s = t(self, requires_grad=True), t(src, requires_grad=True)
        (g,) = pf.autograd.grad(f(x, s).sum(), s, create_graph=True)
        (h,) = pf.autograd.grad(g.square().sum(), x)
        assert bool(h.abs().sum() > 0) is include_self
    x = t(1.5, requires_grad=True)
    pf.scatter_reduce(x, 0, pf.tensor(0), t(3.0), reduce, include_self=include_self).backward()
    assert x.grad.shape == ()
    y = t(self)
    assert pf.equal(
        y.scatter_reduce_(0, index, t(src), reduce, include_self=include_self), f(t(self), t(src))
    )


@pytest.mark.parametrize("index, src", [(1, 9.0), ([1], 9.0), (1, [9.0])])
def test_one_element_may_lack_a_dimension(index, src):
    x, i = t([1.0, 2.0], requires_grad=True), pf.tensor(index)
    s = t(src, requires_grad=True)
    y = x.scatter(0, i, s)
    y.sum().backward()
    assert y.tolist() == [1, 9] and x.grad.tolist() == [1, 0] and s.grad.tolist() in (1, [1])
    assert x.detach().scatter_add(0, i, s).tolist() == [1, 11]
    assert x.detach().scatter_reduce_(0, i, s.detach(), "amax").tolist() == [1, 9]
    assert t(3.0).scatter(0, pf.tensor([0]), t([4.0])).tolist() == 4
    with pytest.raises(pf.ShapeError):
        x.scatter(0, pf.tensor([1, 0]), s)


def test_names_of_reductions():
    x, i, s = t([1.0, 2.0]), pf.tensor([0, 0]), t([3.0, 4.0])
    assert x.scatter(0, i, s, reduce="add").tolist() == [8, 2]
    with pytest.raises(ValueError, match="'add' or 'multiply'"):
        x.scatter(0, i, s, reduce="sum")
    with pytest.raises(ValueError, match="amin"):
        x.scatter_reduce(0, i, s, "add")


def test_products_of_zeros_have_gradients():
    self = [2.0, 0.0, 0.0, 5.0]
    src = [3.0, 4.0, 0.0, 7.0, 0.0]
    x, s = t(self, requires_grad=True), t(src, requires_grad=True)
    pf.scatter_reduce(x, 0, pf.tensor([0, 1, 2, 3, 3]), s, "prod").sum().backward()
    assert x.grad.tolist() == [3, 4, 0, 0]
    assert s.grad.tolist() == [2, 0, 0, 0, 35]

    index = pf.tensor([0, 0, 1, 1, 2, 2, 2])
    for zeros in ([], [0], [1, 2], [4, 5], [0, 1], [4, 5, 6]):
        src = np.array([3.0, 4.0, -2.0, 7.0, 0.5, -1.5, 2.5])
        src[zeros] = 0
        check_grad(
            lambda x, y: pf.scatter_reduce(x, 0, index, y, "prod").square().sum() + x.sum(),
            np.array([2.0, 0.0, 5.0]),
            src,
        )


def test_equal_extremes_share():
    x, s = t([2.0, 1.0], requires_grad=True), t([2.0, 2.0, 0.0], requires_grad=True)
    pf.scatter_reduce(x, 0, pf.tensor([0, 0, 1]), s, "amax").sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), [1 / 3, 1])
    np.testing.assert_allclose(s.grad.tolist(), [1 / 3, 1 / 3, 0])


def test_fill_diagonal_wraps():
    for shape in [(7, 3), (8, 2), (3, 7), (4, 4), (1, 1)]:
        want = np.zeros(shape)
        np.fill_diagonal(want, 1, wrap=True)
        assert pf.zeros(shape).fill_diagonal_(1, wrap=True).tolist() == want.tolist()


# ---- names --------------------------------------------------------------------------------------


def test_other_names_of_arguments():
    x = pf.arange(6.0).reshape(2, 3)
    assert x.view(size=(3, 2)).shape == x.reshape(shape=(3, 2)).shape == (3, 2)
    assert len(x.split(split_size=2, dim=1)) == len(pf.split(tensor=x, split_size_or_sections=1))
    assert x.permute(dims=(1, 0)).shape == (3, 2) and x.repeat(repeats=(2, 1)).shape == (4, 3)
    assert pf.sum(x, axis=1, keepdims=True).shape == (2, 1)
    assert pf.equal(pf.add(x1=x, x2=x), pf.add(input=x, other=x))
    assert pf.equal(pf.exp(x=x), pf.exp(a=x)) and pf.sum(a=x).item() == 15
    with pytest.raises(TypeError, match="several values"):
        pf.add(x, x1=x, other=x)
    with pytest.raises(TypeError) as e:
        x.split("a")
    assert "|" not in str(e.value)
    assert list(pf.split.__signature__.parameters) == ["input", "split_size_or_sections", "dim"]


def test_special_functions_under_their_other_names():
    x = t([0.25, 0.5, 3.0])
    assert pf.special.expit is pf.expit and pf.special.psi is pf.digamma
    np.testing.assert_allclose(
        pf.special.gammaln(x).numpy(), special.gammaln(x.numpy()), rtol=1e-14
    )
    for name in pf.special.__all__:
        assert callable(getattr(pf.special, name))
