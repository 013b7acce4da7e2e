"""Sorting, topk, unique."""

import numpy as np
import pytest
from finite import check_grad, layouts, same

import pyflame as pf

pytestmark = pytest.mark.kernels(0.8)

RNG = np.random.default_rng(0)
NUMPY = [np.float64, np.float32, np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_]


@pytest.mark.races("shape3-1-float32")
@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize(
    "shape,dim", [((9,), 0), ((4, 7), 0), ((4, 7), -1), ((2, 3000), 1), ((0, 3), 0), ((3, 0), 1)]
)
def test_sort(dtype, shape, dim):
    a = (RNG.standard_normal(shape) * 20).astype(dtype)
    for t in layouts(a):
        v, i = t.sort(dim)
        same(i, np.argsort(a, dim, kind="stable"))
        same(v, np.sort(a, dim))
        v, i = t.sort(dim, descending=True)
        same(v, np.flip(np.sort(a, dim), dim))
        same(np.take_along_axis(a, i.cpu().numpy(), dim), v.cpu().numpy())


@pytest.mark.races("5000")
@pytest.mark.parametrize("n", [5, 5000])
def test_descending_is_stable(n):
    a = RNG.integers(0, 4, n)
    same(pf.tensor(a).argsort(descending=True), np.argsort(-a, kind="stable"))


@pytest.mark.races("2048")
@pytest.mark.parametrize("n", [8, 2048])
def test_special_values(n):
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e4, -1e4, 5e-324]
    a = RNG.permutation(np.resize(special, n))
    for dtype in [np.float64, np.float32]:
        b = a.astype(dtype)
        v, i = pf.tensor(b).sort()
        same(v, np.sort(b))
        same(i, np.argsort(b, kind="stable"))
        down = pf.tensor(b).sort(descending=True)[0].cpu().numpy()
        same(down, np.sort(b)[::-1])
    for dtype in [pf.float16, pf.bfloat16]:
        t = pf.tensor(a.astype(np.float32)).to(dtype)
        same(t.sort()[0].to(pf.float32), np.sort(t.to(pf.float32).cpu().numpy()))


@pytest.mark.races("0-3")
@pytest.mark.parametrize("k", [0, 1, 3, 10])
@pytest.mark.parametrize("dim", [0, 1])
def test_topk(k, dim):
    a = RNG.integers(0, 30, (10, 10)).astype(np.float32)
    for t in layouts(a):
        v, i = t.topk(k, dim)
        order = np.argsort(-a, dim, kind="stable").take(range(k), dim)
        same(i, order)
        same(v, np.take_along_axis(a, order, dim))
        v, i = t.topk(k, dim, largest=False)
        order = np.argsort(a, dim, kind="stable").take(range(k), dim)
        same(i, order)
        same(v, np.take_along_axis(a, order, dim))


def test_kthvalue_and_msort():
    a = RNG.standard_normal((5, 6))
    v, i = pf.tensor(a).kthvalue(2, 0)
    same(v, np.sort(a, 0)[1])
    same(np.take_along_axis(a, i.cpu().numpy()[None], 0)[0], v.cpu().numpy())
    assert tuple(pf.tensor(a).kthvalue(2, 1, keepdim=True).values.shape) == (5, 1)
    same(pf.msort(pf.tensor(a)), np.sort(a, 0))


def test_named_results_and_scalars():
    r = pf.tensor([3, 1, 2]).sort()
    same(r.values, [1, 2, 3])
    same(r.indices, [1, 2, 0])
    v, i = pf.tensor(5.0).sort()
    assert v.item() == 5 and i.item() == 0
    for bad in [
        lambda: pf.zeros(3).topk(4),
        lambda: pf.zeros(3).kthvalue(0),
        lambda: pf.zeros(3).sort(1),
    ]:
        with pytest.raises((ValueError, RuntimeError, IndexError)):
            bad()


@pytest.mark.parametrize("dim", [0, 1])
def test_gradients(dim):
    a = RNG.permutation(12).reshape(3, 4) / 5
    check_grad(lambda t: t.sort(dim)[0] ** 2, a)
    check_grad(lambda t: t.topk(2, dim)[0] ** 2, a)
    check_grad(lambda t: t.kthvalue(2, dim)[0] ** 2, a)


@pytest.mark.races("float32")
@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.uint8])
def test_unique(dtype):
    a = RNG.integers(0, 6, (5, 7)).astype(dtype)
    want = np.unique(a, return_inverse=True, return_counts=True)
    t = pf.tensor(a)
    same(t.unique(), want[0])
    v, inverse, counts = pf.unique(t, return_inverse=True, return_counts=True)
    same(v, want[0])
    same(inverse, want[1].reshape(a.shape))
    same(counts, want[2])
    assert pf.unique(pf.tensor([], dtype=pf.int64)).numel() == 0
    same(pf.unique_consecutive(pf.tensor([1, 1, 2, 2, 1])), [1, 2, 1])
    nan = float("nan")
    given = pf.tensor([-0.0, 0.0, 0.0, nan, nan, 2.0])  # the first of equals
    v, inverse, counts = pf.unique_consecutive(given, return_inverse=True, return_counts=True)
    same(v, np.array([-0.0, nan, nan, 2.0], np.float32))
    assert np.signbit(v.numpy()[0])
    same(inverse, [0, 0, 0, 1, 2, 3])
    same(counts, [3, 1, 1, 1])


@pytest.mark.races("1")
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_unique_slices(dim):
    a = RNG.integers(0, 2, (6, 2, 3)).swapaxes(0, dim)
    want = np.unique(a, return_inverse=True, return_counts=True, axis=dim)
    got = pf.unique(pf.tensor(a), return_inverse=True, return_counts=True, dim=dim)
    same(got[0], want[0])
    same(got[1], want[1].ravel())
    same(got[2], want[2])
    assert tuple(pf.unique(pf.zeros(0, 3), dim=0).shape) == (0, 3)


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("shape,dim", [((9,), 0), ((4, 7), 0), ((3, 2600), 1), ((9001,), 0)])
def test_one_of_each_row(dtype, shape, dim):
    """kthvalue, median and nanmedian take the element that a stable sort puts there."""
    a = (RNG.standard_normal(shape) * 20).astype(dtype)
    n, order = shape[dim], np.argsort(a, dim, kind="stable")
    for t in layouts(a):
        for k in sorted({1, 2, n // 3, n - 1, n}):
            values, indices = t.kthvalue(k, dim)
            same(indices, np.take(order, k - 1, dim))
            same(values, np.take(np.sort(a, dim), k - 1, dim))
        for name in ("median", "nanmedian"):
            values, indices = getattr(t, name)(dim)
            same(indices, np.take(order, (n - 1) // 2, dim))
            same(values, np.take(np.sort(a, dim), (n - 1) // 2, dim))


@pytest.mark.parametrize("n", [6, 9000])
def test_one_of_each_row_with_nan(n):
    a = RNG.standard_normal((3, n)).astype(np.float32)
    a[1, [2, 4]] = np.nan
    a[2] = np.nan
    t = pf.tensor(a)
    values, indices = t.median(1)
    assert np.isnan(values.cpu().numpy()[1:]).all() and indices.tolist()[1:] == [2, 0]
    values, indices = t.nanmedian(1)
    keep = np.flatnonzero(~np.isnan(a[1]))
    want = keep[np.argsort(a[1, keep], kind="stable")[(keep.size - 1) // 2]]
    assert indices.tolist()[1:] == [want, 0] and values.tolist()[1] == a[1, want]
    same(t.kthvalue(n, 1).indices, [np.argmax(a[0]), 4, n - 1])


@pytest.mark.parametrize("n", [2048, 2049, 5000])
@pytest.mark.parametrize("step", [0, 1, 1 << 40, 257 << 24])
def test_keys_that_share_digits(n, step):
    """A digit that is the same in all keys of a row takes no pass; rows differ in that."""
    a = RNG.integers(-3, 3, (3, n)) * step + np.array([[0], [5], [-1 << 50]])
    a[1] = 77
    values, at = pf.tensor(a).sort(1)
    same(values, np.sort(a, 1))
    same(at, np.argsort(a, 1, kind="stable"))
    got, inverse, counts = pf.tensor(a).unique(return_inverse=True, return_counts=True)
    want = np.unique(a, return_inverse=True, return_counts=True)
    same(got, want[0])
    same(inverse, want[1].reshape(a.shape))
    same(counts, want[2])
