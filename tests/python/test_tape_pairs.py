"""Two of add, sub and mul, the first of which the second alone reads, are one instruction of the CPU's
tape (src/cpu/pair_kernels.cpp): to the bit what they are one after the other."""

import itertools
import operator

import pytest

import pyflame as pf

pytestmark = pytest.mark.cpu_only  # elsewhere two of different NaN may give either

OPS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e4, -1e4, 3e38, 1e-40]


def bits(t):
    return t.double().contiguous().numpy().tobytes(), t.dtype


@pytest.mark.parametrize("dtype", [pf.float32, pf.float64, pf.bfloat16, pf.int32])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 31, 48, 1000, 5003])
def test_bits(dtype, n):
    pf.manual_seed(n)
    x, y, z = ((pf.randn(n) * 100).to(dtype) for _ in range(3))
    if dtype.is_floating_point and n >= 1000:  # each special number meets each other one
        for i, (a, b, c) in enumerate(itertools.product(SPECIAL, repeat=3)):
            x[i], y[i], z[i] = a, b, c
    row = pf.tensor(3, dtype=dtype)
    for first, second in itertools.product(OPS.values(), repeat=2):
        works = (
            lambda f=first, s=second: s(f(x, y), z),
            lambda f=first, s=second: s(z, f(x, y)),
            lambda f=first, s=second: s(f(x, 2), row),
            lambda f=first, s=second: s(3, f(row, y)),
            lambda f=first, s=second: s(f(x, y), f(x, z)),
            lambda f=first, s=second: s(h := f(x, y), h),
            lambda f=first, s=second: s(s(f(x, y), z), x),
        )
        for i, work in enumerate(works):
            with pf.debug.eager():
                want = bits(work())
            assert bits(work()) == want, (first, second, i)


def test_a_first_one_that_is_kept_or_written_over():
    x, y, z = (pf.randn(3000) for _ in range(3))
    with pf.debug.eager():
        want = [bits(t) for t in (x * y, x * y + z, (x - y) * z)]
    h = x * y
    r = h + z
    assert [bits(h), bits(r)] == want[:2]
    x.sub_(y).mul_(z)
    assert bits(x) == want[2]


def test_parts_of_a_matrix():
    """Through boxes and lines, too: strides, rows and columns that repeat."""
    x, row, col = pf.randn(70, 130), pf.randn(130), pf.randn(70, 1)
    works = (
        lambda: x[:, ::2] * row[::2] + col,
        lambda: (x.t() - col.t()) * row.view(-1, 1),
        lambda: col - x[1:, 3:] [:1] * row[3:],
        lambda: x[::3, 1::5] * 2 - 1,
    )  # fmt: skip
    for work in works:
        with pf.debug.eager():
            want = bits(work())
        assert bits(work()) == want
