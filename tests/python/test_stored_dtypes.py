"""Dtypes without arithmetic are filled, copied and converted within their memory, or refused."""

import numpy as np
import pytest

import pyflame as pf

KINDS = {
    pf.uint16: np.uint16, pf.uint32: np.uint32, pf.uint64: np.uint64, pf.complex64: np.complex64,
    pf.complex128: np.complex128,
}  # fmt: skip
FLOAT8 = [pf.float8_e4m3fn, pf.float8_e5m2]
SHAPES = [(), (0,), (1,), (5,), (16,), (17,), (1000,), (3, 7), (16, 33)]


@pytest.fixture(autouse=True)
def _look_around_every_block():
    yield
    pf.synchronize()  # the paranoid device says what was written past a tensor's end


def numbers(t):
    return np.asarray(t.to(pf.float64).tolist())


@pytest.mark.parametrize("dtype", [*KINDS, *FLOAT8], ids=str)
def test_filled_tensors(dtype):
    for shape in SHAPES:
        like = pf.empty(shape, dtype=dtype)
        for made, value in (
            (pf.full(shape, 3, dtype=dtype), 3),
            (pf.zeros(shape, dtype=dtype), 0),
            (pf.ones(shape, dtype=dtype), 1),
            (pf.full_like(like, 2), 2),
            (like.fill_(5), 5),
        ):
            assert made.dtype is dtype and tuple(made.shape) == shape
            assert (numbers(made) == value).all(), shape


@pytest.mark.parametrize("dtype", [*KINDS, *FLOAT8], ids=str)
@pytest.mark.parametrize("other", [pf.float32, pf.bfloat16, pf.int64, pf.uint8, pf.bool], ids=str)
def test_conversions(dtype, other):
    for shape in SHAPES:
        a = np.arange(int(np.prod(shape))).reshape(shape) % 8
        x = pf.tensor(a.tolist()).reshape(shape).to(other)
        expected = numbers(x)
        y = x.to(dtype)
        assert (numbers(y) == expected).all()
        assert (numbers(y.to(other)) == expected).all()
        assert (numbers(pf.empty(shape, dtype=dtype).copy_(x)) == expected).all()
        assert (numbers(x.type_as(y)) == expected).all()
    y = x.to(dtype)
    assert (numbers(x.t().to(dtype)) == expected.T).all()
    assert (numbers(y[::2, 1::3].to(other)) == expected[::2, 1::3]).all()
    assert (numbers(y[1].expand(4, 33).to(other)) == expected[1]).all()
    assert (numbers(pf.cat([y, x.to(dtype)])) == np.concatenate([expected, expected])).all()
    y[1::2] = x[::2]
    assert (numbers(y[1::2]) == expected[::2]).all()


@pytest.mark.parametrize("dtype", [*KINDS, *FLOAT8, pf.int4], ids=str)
def test_arithmetic_is_refused(dtype):
    x = pf.empty(32, dtype=dtype)
    for run in (lambda: x + x, lambda: x * 2, lambda: pf.exp(x), lambda: x > x):
        with pytest.raises(pf.DTypeError, match="not calculated with"):
            run()
    if dtype is pf.int4:
        for run in (lambda: pf.zeros(5, dtype=dtype), lambda: x.to(pf.int8), lambda: x.fill_(1)):
            with pytest.raises(pf.NotSupportedError, match="share a byte"):
                run()


@pytest.mark.cpu_only
@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_arrays_of_numpy(dtype):
    a = np.arange(40).astype(KINDS[dtype])
    assert pf.from_numpy(a).to(pf.int64).tolist() == list(range(40))
    assert (pf.from_numpy(a).clone().numpy() == a).all()
