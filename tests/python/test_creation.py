"""Creation functions against NumPy."""

import itertools
import math

import numpy as np
import pytest
from finite import same

import pyflame as pf

pytestmark = pytest.mark.kernels

DTYPES = [pf.float32, pf.float64, pf.int64, pf.int32, pf.int16, pf.int8, pf.uint8, pf.bool]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)])
def test_filled(dtype, shape):
    for name, value in [("zeros", 0), ("ones", 1)]:
        t = getattr(pf, name)(shape, dtype=dtype)
        assert t.dtype == dtype and tuple(t.shape) == shape
        same(t.to(pf.float64), np.full(shape, float(value)))
        like = getattr(pf, name + "_like")(t)
        assert like.dtype == dtype and tuple(like.shape) == shape
    assert tuple(pf.empty(shape, dtype=dtype).shape) == shape
    same(pf.full(shape, 1, dtype=dtype).to(pf.float64), np.ones(shape))


def test_three_spellings_of_a_size():
    for t in [pf.zeros(2, 3), pf.zeros((2, 3)), pf.zeros([2, 3]), pf.zeros(size=(2, 3))]:
        assert tuple(t.shape) == (2, 3)


def test_dtype_of_full_follows_the_value():
    assert pf.full((2,), 1.5).dtype == pf.float32
    assert pf.full((2,), 3).dtype == pf.int64
    assert pf.full((2,), True).dtype == pf.bool


def test_keywords():
    t = pf.zeros(2, 3, dtype=pf.float64, device="cpu", requires_grad=True)
    assert t.requires_grad and t.is_leaf and t.dtype == pf.float64
    x = pf.ones(3, dtype=pf.int32)
    assert x.new_zeros(2, 2).dtype == pf.int32
    assert x.new_ones((2,), dtype=pf.float32).dtype == pf.float32
    same(x.new_full((2,), 7), [7, 7])
    assert tuple(x.new_empty(4).shape) == (4,)
    assert pf.zeros_like(x, dtype=pf.float32).dtype == pf.float32
    same(pf.full_like(x, 5), [5, 5, 5])


@pytest.mark.parametrize(
    "args",
    [(5,), (0,), (2, 7), (7, 2, -1), (0, 10, 3), (1, 2, 0.25), (0.5, 3.0), (3, 3), (-4, 4, 2)],
)
def test_arange(args):
    got = pf.arange(*args)
    want = np.arange(*args)
    assert got.dtype == (pf.int64 if want.dtype.kind == "i" else pf.float32)
    same(got.to(pf.float64), want.astype(np.float64), rtol=1e-6)


def test_arange_large_integers_are_exact():
    same(pf.arange(2**62, 2**62 + 3), np.arange(2**62, 2**62 + 3))
    assert pf.arange(-(2**63), 2**63 - 1, 2**62).numel() == 4


def test_arange_refuses():
    with pytest.raises((ValueError, RuntimeError)):
        pf.arange(0, 5, -1)
    with pytest.raises((ValueError, RuntimeError)):
        pf.arange(0, 5, 0)
    with pytest.raises((ValueError, RuntimeError)):
        pf.arange(0.0, math.inf)


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 100])
def test_linspace(steps):
    same(pf.linspace(-1, 3, steps, dtype=pf.float64), np.linspace(-1, 3, steps), rtol=1e-12)
    if steps > 1:
        assert pf.linspace(0.1, 0.7, steps)[-1].item() == np.float32(0.7)
    same(pf.logspace(-1, 2, steps, dtype=pf.float64), np.logspace(-1, 2, steps), rtol=1e-12)


def test_linspace_takes_tensors_of_one_element():
    same(pf.linspace(pf.tensor(0.0), pf.tensor(1.0), 3), [0, 0.5, 1])


@pytest.mark.parametrize("n,m", [(3, None), (2, 4), (4, 2), (0, 3), (0, None)])
def test_eye(n, m):
    same(pf.eye(n, m), np.eye(n, m, dtype=np.float32))
    same(pf.eye(n, m, dtype=pf.int64), np.eye(n, m, dtype=np.int64))


@pytest.mark.parametrize("offset", [-3, -1, 0, 1, 5])
def test_triangle_indices(offset):
    same(pf.tril_indices(3, 4, offset), np.array(np.tril_indices(3, offset, 4)))
    same(pf.triu_indices(4, 3, offset), np.array(np.triu_indices(4, offset, 3)))


def test_meshgrid():
    a, b, c = np.arange(2.0), np.arange(3.0), np.arange(4.0)
    for indexing in ["ij", "xy"]:
        got = pf.meshgrid(pf.tensor(a), pf.tensor(b), pf.tensor(c), indexing=indexing)
        for g, w in zip(got, np.meshgrid(a, b, c, indexing=indexing)):
            same(g, w)


def test_bad_sizes():
    with pytest.raises((ValueError, RuntimeError)):
        pf.zeros(-1)
    with pytest.raises((ValueError, RuntimeError, MemoryError)):
        pf.zeros(2**40, 2**40)


@pytest.mark.parametrize("upper", [False, True])
def test_indices_of_triangles(upper):
    make, mask = (pf.triu_indices, np.triu) if upper else (pf.tril_indices, np.tril)
    for rows, columns in itertools.product(range(6), repeat=2):
        for offset in range(-8, 9):
            want = np.argwhere(mask(np.ones((rows, columns)), offset)).T
            assert make(rows, columns, offset).tolist() == want.tolist()


@pytest.mark.parametrize("upper", [False, True])
def test_indices_of_long_triangles(upper):
    make, mask = (pf.triu_indices, np.triu) if upper else (pf.tril_indices, np.tril)
    for rows, columns in ((1, 70_001), (70_001, 1), (301, 299), (2, 20_000), (20_000, 3)):
        for offset in (0, 1, -1, 150, -150, -rows, columns):
            want = np.argwhere(mask(np.ones((rows, columns), bool), offset)).T
            for dtype in (pf.int64, pf.int32, pf.float64):
                got = make(rows, columns, offset, dtype=dtype)
                assert got.dtype == dtype and got.is_contiguous()
                same(got.to(pf.int64), want)
    same(make(5, 4, dtype=pf.uint8).to(pf.int64), np.argwhere(mask(np.ones((5, 4)))).T)
    assert make(0, 3).shape == make(3, 0).shape == (2, 0)


@pytest.mark.large
def test_indices_of_triangles_take_time_for_what_they_hold_only():
    big = 2**62
    assert pf.triu_indices(2**40, 3).tolist() == [[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    assert pf.tril_indices(3, 2**40).tolist() == [[0, 1, 1, 2, 2, 2], [0, 0, 1, 0, 1, 2]]
    assert pf.triu_indices(big, big, big - 1).tolist() == [[0], [big - 1]]
    assert pf.tril_indices(big, big, 1 - big).tolist() == [[big - 1], [0]]
    assert pf.triu_indices(4, 4, 2**63 - 1).shape == (2, 0)
    for rows, columns, offset in ((2**40, 3, 0), (big, big, -big), (big, big, 2**63 - 1)):
        with pytest.raises((pf.ShapeError, pf.OutOfMemoryError), match="tril_indices"):
            pf.tril_indices(rows, columns, abs(offset))
        with pytest.raises((pf.ShapeError, pf.OutOfMemoryError), match="triu_indices"):
            pf.triu_indices(columns, rows, -abs(offset))
