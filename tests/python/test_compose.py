"""Operations made of others, against NumPy."""

import itertools

import numpy as np
import pytest
from finite import check_grad, same

import pyflame as pf

RNG = np.random.default_rng(0)
F = pf.nn.functional


@pytest.mark.parametrize("k", [-2, 0, 1])
def test_diagonals(k):
    v, m = RNG.random(3), RNG.random((3, 4))
    same(pf.diag(pf.tensor(v), k), np.diag(v, k))
    same(pf.diag(pf.tensor(m), k), np.diag(m, k))
    same(pf.diagflat(pf.tensor(m), k), np.diagflat(m, k))
    same(pf.diag_embed(pf.tensor(m), k), np.stack([np.diag(r, k) for r in m]))
    check_grad(lambda t: pf.diag(t, k) ** 2, v)
    check_grad(lambda t: pf.diag(t, k) ** 2, m)
    check_grad(lambda t: pf.diag_embed(t, k, 0, 2) ** 2, m)
    t = pf.tensor(m)
    t.fill_diagonal_(7)
    np.fill_diagonal(m, 7)
    same(t, m)


def test_slices_put_back():
    a, row, part = RNG.random((3, 4)), RNG.random(4), RNG.random((3, 2))
    want = a.copy()
    want[1] = row
    same(pf.select_scatter(pf.tensor(a), pf.tensor(row), 0, 1), want)
    want = a.copy()
    want[:, 1::2] = part
    same(pf.slice_scatter(pf.tensor(a), pf.tensor(part), 1, 1, None, 2), want)
    want = a.copy()
    want[range(3), range(3)] = row[:3]
    same(pf.diagonal_scatter(pf.tensor(a), pf.tensor(row[:3])), want)
    check_grad(lambda t, s: pf.select_scatter(t, s, 0, -1) ** 2, a, row)
    check_grad(lambda t, s: pf.slice_scatter(t, s, 1, 0, 2) ** 2, a, part)
    check_grad(lambda t, s: pf.diagonal_scatter(t, s, 1) ** 2, a, row[:3])


def test_splits():
    a = RNG.random((4, 6, 2))
    for name in ["hsplit", "vsplit", "dsplit"]:
        for by in [2, [1, 1], [1, 3]]:
            got, want = getattr(pf, name)(pf.tensor(a), by), getattr(np, name)(a, by)
            assert len(got) == len(want)
            for g, w in zip(got, want):
                same(g, w)
    with pytest.raises((ValueError, RuntimeError)):
        pf.hsplit(pf.tensor(a), 4)


def test_lists():
    a, b = RNG.random((2, 3)), RNG.random((1, 2))
    want = np.zeros((3, 5))
    want[:2, :3], want[2:, 3:] = a, b
    same(pf.block_diag(pf.tensor(a), pf.tensor(b)), want)
    x, y = [1, 2, 3], [4, 5]
    got = pf.cartesian_prod(pf.tensor(x), pf.tensor(y))
    same(got, list(itertools.product(x, y)))


def test_combinations():
    for n, r, again in itertools.product((0, 1, 3, 6), range(8), (False, True)):
        x = list(range(5, 5 + n))
        make = itertools.combinations_with_replacement if again else itertools.combinations
        want = np.array(list(make(x, r)), np.int64).reshape((-1, r) if r else 0)
        same(pf.combinations(pf.tensor(x, dtype=pf.int64), r, again), want)
    x = RNG.random(45)
    same(pf.combinations(pf.tensor(x), 3), list(itertools.combinations(x, 3)))
    same(pf.combinations(pf.tensor(x[:20])[::2], 9), list(itertools.combinations(x[:20:2], 9)))
    t = pf.tensor(np.arange(4.0), requires_grad=True)
    for r, again, want in ((2, False, [3] * 4), (2, True, [5] * 4), (3, False, [3] * 4)):
        t.grad = None
        pf.combinations(t, r, again).sum().backward()
        same(t.grad, np.array(want, np.float64))
    for n, r in ((10**6, 4), (2**40, 2)):
        with pytest.raises((pf.ShapeError, pf.OutOfMemoryError)):
            pf.combinations(pf.zeros(1).expand(n), r)


def test_long_histc():
    x = RNG.standard_normal(30_011).astype(np.float32)
    x[::100], x[1::100], x[2::1000] = np.inf, np.nan, -np.inf
    for bins in (1, 10, 999, 5000):
        inside = x[(x >= -1) & (x <= 2)]
        place = (inside - np.float32(-1)) / np.float32(3) * np.float32(bins)
        want = np.bincount(np.minimum(place.astype(np.int64), bins - 1), minlength=bins)
        got = pf.tensor(x).histc(bins, -1, 2)
        assert got.dtype == pf.float32
        same(got, want.astype(np.float32))
    assert pf.tensor(x).bfloat16().histc(4, -1, 2).dtype == pf.bfloat16
    same(pf.zeros(0).histc(3), np.zeros(3, np.float32))
    same(pf.ones(2, 3).histc(2), np.array([0, 6], np.float32))
    same(pf.tensor([-3e38, 0.0, 3e38]).histc(1), np.array([3], np.float32))
    with pytest.raises(ValueError, match="finite"):
        pf.tensor(x).histc(3)
    for bins in (2**63 - 1, 2**61):
        with pytest.raises((pf.ShapeError, pf.OutOfMemoryError)):
            pf.ones(2).histc(bins)


def test_histc():
    x = RNG.standard_normal(1000)
    t = pf.tensor(x)
    same(t.histc(20, -2, 2), np.histogram(x, 20, (-2, 2))[0])
    same(t.histc(7), np.histogram(x, 7)[0])
    same(pf.tensor([0.0, 1.0, 2.0, 3.0]).histc(3, 0, 3), np.array([1, 1, 2], np.float32))
    same(pf.tensor([1.0, float("nan"), 9.0]).histc(2, 0, 2), np.array([0, 1], np.float32))
    # On an edge the arithmetic of the input decides: 0.7 in float32 is below 0.7, and in bin 7.
    counts = pf.tensor([0.0, 0.1, 0.3, 0.5, 0.7, 1.0]).histc(10, 0, 1)
    same(counts, np.array([1, 1, 0, 1, 0, 1, 0, 1, 0, 1], np.float32))


@pytest.mark.parametrize("n", [0, 3, 40])
def test_isin(n):
    x, test = RNG.integers(0, 50, (6, 7)), RNG.integers(0, 50, n)
    same(pf.isin(pf.tensor(x), pf.tensor(test)), np.isin(x, test))
    same(pf.isin(pf.tensor(x), pf.tensor(test), invert=True), np.isin(x, test, invert=True))


@pytest.mark.parametrize("n", [5, 30])
def test_isin_of_special_values(n):
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30]
    test = np.concatenate([RNG.standard_normal(n), special[: n % 7 + 1], [0.0]])
    x = np.concatenate([special, test, test + 1])
    same(pf.isin(pf.tensor(x), pf.tensor(test)), np.isin(x, test))
    same(pf.isin(pf.tensor(x)[::3], pf.tensor(test)[::2]), np.isin(x[::3], test[::2]))
    only_nan = np.full(n, np.nan)
    same(pf.isin(pf.tensor(x), pf.tensor(only_nan)), np.isin(x, only_nan))
    flags = np.array([True, False])
    same(pf.isin(pf.tensor(flags), pf.tensor(np.ones(n, bool))), flags)
    assert pf.isin(pf.tensor(test[0]), pf.tensor(test)).item() is True
    assert pf.isin(pf.zeros(0, 3), pf.tensor(test)).shape == (0, 3)


def test_unravel_index():
    i = RNG.integers(0, 60, (2, 5))
    for g, w in zip(pf.unravel_index(pf.tensor(i), (3, 4, 5)), np.unravel_index(i, (3, 4, 5))):
        same(g, w)


def test_dropout_of_channels():
    pf.manual_seed(0)
    x = pf.ones(8, 50, 3, 3, requires_grad=True)
    y = F.dropout2d(x, 0.5)
    v = y.detach().cpu().numpy().reshape(400, 9)
    assert set(np.unique(v)) == {0, 2} and (v == v[:, :1]).all()
    y.sum().backward()
    same(x.grad.cpu().numpy().reshape(400, 9), v)


def test_pieces_of_nothing():
    x = pf.zeros(0, 3, 4)
    assert [tuple(t.shape) for t in x.vsplit(3)] == [(0, 3, 4)] * 3
    assert [tuple(t.shape) for t in pf.zeros(0).hsplit(5)] == [(0,)] * 5


def test_vander_of_small_integers_does_not_overflow():
    x = pf.tensor([2, 6], dtype=pf.uint8)
    assert pf.vander(x, 5).tolist() == [[16, 8, 4, 2, 1], [1296, 216, 36, 6, 1]]
    assert pf.vander(x).dtype == pf.int64


def test_ldexp_promotes_floats():
    r = pf.ldexp(pf.tensor([1.5], dtype=pf.bfloat16), pf.tensor([1.0], dtype=pf.float64))
    assert r.dtype == pf.float64 and r.tolist() == [3.0]
    assert pf.ldexp(pf.tensor([1.5]).half(), pf.tensor([3])).dtype == pf.float16


def test_cross_takes_the_first_dimension_of_three():
    a, b = RNG.normal(size=(3, 2, 3)), RNG.normal(size=(3, 2, 3))
    for dim, axis in (({}, 0), ({"dim": -1}, -1), ({"dim": 0}, 0)):
        same(pf.cross(pf.tensor(a), pf.tensor(b), **dim), np.cross(a, b, axis=axis))
    same(pf.linalg.cross(pf.tensor(a), pf.tensor(b)), np.cross(a, b))
    with pytest.raises(pf.ShapeError, match="three elements"):
        pf.cross(pf.ones(2, 4), pf.ones(2, 4))


def test_kron_promotes():
    r = pf.kron(pf.tensor([1, 2]), pf.tensor([0.5]))
    assert r.dtype == pf.float32 and r.tolist() == [0.5, 1.0]


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (4, 4), (8, 1), (9, 2), (0, 3), (3, 0), (12, 3)])
def test_a_wrapped_diagonal(shape):
    want = np.zeros(shape)
    np.fill_diagonal(want, 5, wrap=True) if 0 not in shape else None
    same(pf.zeros(*shape).fill_diagonal_(5, wrap=True), want)
    same(pf.zeros(*shape[::-1]).t().fill_diagonal_(5, wrap=True), want)
    wide = pf.zeros(2, *shape)
    wide[1].fill_diagonal_(5, wrap=True)
    same(wide, np.stack([np.zeros(shape), want]))
    x = pf.ones(*shape, requires_grad=True)
    (x * 2).fill_diagonal_(5, wrap=True).sum().backward()
    same(x.grad, np.where(want == 5, 0, 2))
