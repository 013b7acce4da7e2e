"""Reductions of one tensor, or of what is made of the same tensors, over the same dimensions are one
kernel (rules of src/engine/rules.cpp), to the bit what they are one after the other."""

import os

import numpy as np
import pytest
from test_moments import DTYPES, LAYOUTS, SHAPES, alone, counted, dims_of

import pyflame as pf

pytestmark = pytest.mark.kernels

# Beyond what joins whatever it is, and what pieces and chunks are made of.
LARGE = [(300, 257), (1100, 512), (3, 40000), (2, 16, 56, 56), (4100, 24)]
if os.environ.get("PYFLAME_TEST_DEVICE", "cpu") in ("rocm", "cuda"):  # each is more programs
    SHAPES, LARGE = [(5, 1), (33, 136), (17, 257), (2, 3, 70)], [(300, 256), (2, 40000)]
# How many kernels another takes in, and what is calculated.
WORKS = {
    "sum, largest": (1, lambda x, y, d: (x.sum(d), x.amax(d))),
    "sum, squares": (1, lambda x, y, d: (x.sum(d), (x * x).sum(d, keepdim=True))),
    "extremes": (1, lambda x, y, d: (x.amin(d, keepdim=True), x.amax(d, keepdim=True))),
    "four": (3, lambda x, y, d: (x.mean(d), (x - 1).square().sum(d), x.amax(d), x.prod(d))),
    "numbers": (2, lambda x, y, d: (x.sum(d), x.nansum(d), (x + y).amin(d))),
    "made before": (1, lambda x, y, d: ((z := x * y + 1).sum(d), z.amax(d))),
    "and used": (1, lambda x, y, d: ((z := x.exp()), z.sum(d), z.amax(d), z * 2)),
}
# Of a tensor and of what is made of it, which lie alike there alone.
MIXED = {"sum, squares", "four", "numbers"}
ALIKE = {"dense", "transposed", "odd addresses"}


def tensors(shape, layout, dtype):
    x = pf.randn(shape).to(dtype)
    if x.numel() > 2:  # zeros of both signs, too
        x = pf.where(x.abs() < 0.1, pf.where(x < 0, -0.0, 0.0).to(dtype), x)
    return LAYOUTS[layout](x), LAYOUTS[layout](pf.randn(shape).to(dtype))


def reduces_none(x, d):
    return x.numel() == 0 and (d is None or x.shape[d if isinstance(d, int) else d[0]] == 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bits(layout, dtype):
    for shape in SHAPES + (LARGE if layout in ("dense", "transposed") else []):
        x, y = tensors(shape, layout, dtype)
        pf.flush()
        for d in dims_of(x):
            if reduces_none(x, d):
                continue
            for name, (merged, work) in WORKS.items():
                got, kernels, joined = counted(work, x, y, d)
                assert got == alone(work, x, y, d), (shape, d, name)
                if layout in ALIKE or name not in MIXED:
                    assert (kernels, joined) == (1, merged), (shape, d, name)


@pytest.mark.parametrize("shape", [(17, 65), (300, 257), (5, 4096)])
def test_cosine_similarity_is_one_kernel(shape):
    x, y = (pf.randn(shape) for _ in range(2))
    pf.flush()

    def work(d):
        return (x * y).sum(d) / (x.norm(2, d) * y.norm(2, d)), (x * y).sum(d)

    for d in (None, 0, 1):
        assert counted(work, d) == (alone(work, d), 1, 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values(dtype):
    inf, nan = float("inf"), float("nan")
    for special in (0.0, inf, -inf, nan, 1e4):
        for shape in [(33, 70), (3, 5000), (5000, 3)]:
            x = pf.randn(shape)
            x[1, 2] = special
            x = x.to(dtype)
            want = x.double().numpy()
            for d in (0, 1):
                total, squares, high, low = x.sum(d), (x * x).sum(d), x.amax(d), x.amin(d)
                with np.errstate(invalid="ignore", over="ignore"):
                    np.testing.assert_array_equal(high.double().numpy(), want.max(d))
                    np.testing.assert_array_equal(low.double().numpy(), want.min(d))
                    eps = {pf.bfloat16: 2**-7, pf.float16: 2**-10}.get(dtype, 1e-4)
                    near = np.isclose(
                        total.double().numpy(), want.sum(d), eps, eps * 300, equal_nan=True
                    )
                    if dtype != pf.float16 or special != 1e4:  # whose square is too large
                        near &= np.isclose(
                            squares.double().numpy(), (want**2).sum(d), 2 * eps, equal_nan=True
                        )
                assert near.all(), (special, shape, d)


@pytest.mark.parametrize("dtype", [pf.int64, pf.int32, pf.int16, pf.int8, pf.uint8])
def test_extremes_of_integers(dtype):
    for shape in [(7,), (5, 33), (300, 257), (2, 3, 70), (3, 40000)]:
        x = pf.randint(0, 100, shape).to(dtype)
        pf.flush()
        for d in dims_of(x):
            work = lambda x: (x.amin(d), x.amax(d))  # noqa: B023, E731
            got, kernels, merged = counted(work, x)
            assert got == alone(work, x) and (kernels, merged) == (1, 1)
            assert int(x.amax()) == max(x.reshape(-1).tolist())
            assert int(x.amin()) == min(x.reshape(-1).tolist())


# What keeps reductions apart, or comes between: the same values, and how many kernels.
def written_between(x, y):
    a = x.sum(1)
    x.mul_(2)
    return a, x.amax(1)


def made_of_the_first(x, y):
    top = x.amax(1, keepdim=True)
    return top, (x - top).exp().sum(1)


def read_later(x, y):
    a = x.sum(1, keepdim=True)
    z = x * 2
    return z + a, (z * z).amax(1), a


def other_dimensions(x, y):
    return x.sum(1), x.amax(0)


def nothing_in_common(x, y):
    return x.sum(1), y.sum(1)


def five(x, y):
    return x.sum(1), x.amax(1), x.amin(1), x.nansum(1), (x * x).sum(1), (x + 1).sum(1)


def small_between(x, y):
    a = x.sum(1) / 3
    b = (x * x).sum(1)
    return a, b - a, (x + y).amax(1)


@pytest.mark.parametrize("shape", [(9, 40), (300, 257)])
@pytest.mark.parametrize(
    ("work", "kernels"),
    [
        (written_between, 2),
        (made_of_the_first, 2),
        (read_later, None),  # small ones are made for both
        (other_dimensions, 2),
        (nothing_in_common, 2),
        (five, 2),
        (small_between, 1),
    ],
)
def test_between(work, kernels, shape):
    x, y = pf.randn(shape), pf.randn(shape)
    pf.flush()
    want = alone(work, x.clone(), y.clone())
    got, ran, _ = counted(work, x.clone(), y.clone())
    assert got == want and ran == (kernels or 1 + (x.numel() > 1000))


def test_a_loop_that_drops_its_results_does_real_work():
    x = pf.randn(300, 257)
    pf.flush()

    def work():
        for _ in range(3):
            x.sum(1)
            (x * x).amax(1)
        return x.norm(2, 1), x.amin(1)

    want = alone(work)
    got, kernels, _ = counted(work)
    assert got == want and kernels == 7  # the last two are one


def test_explain_shows_one_step():
    x = pf.randn(300, 257)
    pf.flush()
    with pf.explain() as report:
        results = x.sum(-1), (x * x).sum(-1), x.amax(-1)
    assert len(results) == 3
    assert [(g["prologue"], g["anchor"]) for g in report.groups] == [(["mul"], "reductions")]


def test_gradients():
    x = pf.randn(300, 257, requires_grad=True)

    def work():
        x.grad = None
        (x.sum(1) * x.amax(1) + (x * x).sum(1)).sum().backward()
        return x.grad

    pf.flush()
    want = alone(work)
    assert counted(work)[0] == want
