"""float32 attention: every head size and odd lengths, hard numbers, and what has no parts of bfloat16,
against float64; on NVIDIA's kernels of parts (the stand-in acts them out) no worse than on vectors."""

import os

import numpy as np
import pytest
import standin
from attention_reference import attention as reference
from standin import cache, run  # noqa: F401

import pyflame as pf
import pyflame.nn.functional as F

ROUNDS = int(os.environ.get("PYFLAME_TEST_FLOAT32_ATTENTION", "6"))
BOUND = 48 * 2.0**-24


def arrays(rng, n, keys, e, ev, heads=1):
    shapes = (heads, n, e), (heads, keys, e), (heads, keys, ev), (heads, n, ev)
    return [rng.standard_normal(s).astype("float32") for s in shapes]


def computed(q, k, v, g, **options):
    """out and gradients, as float64."""
    leaves = [pf.tensor(x).requires_grad_() for x in (q, k, v)]
    mask = options.pop("mask", None)
    out = F.flash_attention(
        *leaves, attn_mask=None if mask is None else pf.tensor(mask), **options
    )[0]
    out.backward(pf.tensor(g))
    return [t.detach().cpu().numpy().astype(float) for t in (out, *(x.grad for x in leaves))]


def close(got, want, bound, what):
    for name, x, y in zip(("out", "dq", "dk", "dv"), got, want, strict=True):
        assert x.shape == y.shape and (np.isfinite(x) == np.isfinite(y)).all(), (what, name)
        on = np.isfinite(y)
        size = np.abs(y[on]).max(initial=0)
        error = np.abs(x[on] - y[on]).max(initial=0)
        assert error <= bound * max(size, 1e-3), (what, name, error / max(size, 1e-3) * 2**24)


def wide(xs):
    return [x.astype(float) for x in xs]


def referred(xs, **options):
    out, _, dq, dk, dv, _ = reference(*wide(xs), **options)
    return out, dq, dk, dv


def shapes(seed):
    """Lengths and head sizes at random, with limits, caps and masks."""
    rng = np.random.default_rng(seed)
    n, keys = rng.integers(1, 150), rng.integers(1, 150)
    e, ev = rng.choice([1, 3, 8, 16, 31, 32, 33, 64, 65, 96, 100, 127, 128, 129, 256], 2)
    xs = arrays(rng, n, keys, e, ev, heads=rng.integers(1, 3))
    options = {}
    if rng.random() < 0.3:
        options["right"] = int(rng.integers(0, 5))
    if rng.random() < 0.3:
        options["left"] = int(rng.integers(0, 50))
    if rng.random() < 0.3:
        options["softcap"] = 2.0
    if rng.random() < 0.5:
        mask = rng.random((n, keys)) < 0.8
        if rng.random() < 0.5:
            mask = np.where(mask, rng.standard_normal((n, keys)), -np.inf).astype("float32")
        options["mask"] = mask
    want = referred(xs, **options)
    close(computed(*xs, **options), want, BOUND, (seed, n, keys, e, ev, options.keys()))


def scales():
    """Numbers of one size in each operand, down to the smallest: relative to the result."""
    rng = np.random.default_rng(1)
    for i, by in (
        (0, 6.0),
        (2, 1e-20),
        (2, 1e-33),
        (2, 1e30),
        (3, 1e-20),
        (3, 1e-33),
        (1, 1e-38),
        (0, 1e-42),
    ):
        xs = arrays(rng, 70, 90, 40, 40)
        xs[i] = (xs[i] * by).astype("float32")
        got, want = computed(*xs), referred(xs)
        sizes = [max(np.abs(y).max(), 2.0**-118) for y in want]
        unit = lambda r, sizes=sizes: [x / s for x, s in zip(r, sizes, strict=True)]  # noqa: E731
        close(unit(got), unit(want), 4 * BOUND, ("scale", i, by))


def specials():
    """Infinities and NaN stay in the rows and columns that they belong to."""
    rng = np.random.default_rng(2)
    clean = arrays(rng, 40, 50, 24, 24)
    base = computed(*clean)[0]
    xs = [x.copy() for x in clean]
    xs[2][0, 7, 3], xs[2][0, 45, 5] = np.inf, np.nan
    out = computed(*xs)[0]
    assert (out[0, :, 3] == np.inf).all() and np.isnan(out[0, :, 5]).all()
    rest = [c for c in range(24) if c not in (3, 5)]
    np.testing.assert_allclose(out[0][:, rest], base[0][:, rest], rtol=0, atol=1e-5)
    xs = [x.copy() for x in clean]
    xs[0][0, 5, 2] = np.nan
    out = computed(*xs)[0]
    assert np.isnan(out[0, 5]).all() and np.isfinite(np.delete(out[0], 5, 0)).all()
    # A key whose scores are -inf has no weight, as if it were masked.
    xs = [x.copy() for x in clean]
    xs[0][..., 1] = np.abs(xs[0][..., 1]) + 0.5
    mask = np.ones((40, 50), bool)
    mask[:, 33] = False
    want = computed(*xs, mask=mask)[0]
    xs[1][0, 33, 1] = -np.inf
    np.testing.assert_allclose(computed(*xs)[0], want, rtol=0, atol=1e-5)
    xs = [x.copy() for x in clean]
    xs[2][0, 0, 0] = np.float32(3.4e38)  # would round to infinity
    out = computed(*xs)[0]
    assert np.isfinite(out).all() and (out[0, :, 0] > 1e34).all()


def empty():
    rng = np.random.default_rng(3)
    for n, keys in ((0, 5), (5, 0), (0, 0), (1, 1)):
        xs = arrays(rng, n, keys, 8, 8)
        got = computed(*xs)
        assert [x.shape for x in got] == [x.shape for x in (xs[3], *xs[:3])]
        assert all(np.isfinite(x).all() for x in got) and (keys or not got[0].any())


def everything():
    for seed in range(ROUNDS):
        shapes(seed)
    scales()
    specials()
    empty()


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_shapes(seed):
    shapes(seed)


def test_scales():
    scales()


def test_specials():
    specials()


def test_nothing():
    empty()


PARTS = """
import sys
sys.path.insert(0, {tests!r})
import test_float32_attention as t
pf.set_default_device("gpu")
"""


class TestOnParts:
    pytestmark = [*standin.MARKS, standin.NEEDS_CUDA]

    def test_everything(self, run):  # noqa: F811
        tests = os.path.dirname(__file__)
        env = standin.AS_NVIDIA | {"PYFLAME_TEST_FLOAT32_ATTENTION": 2}
        run(PARTS.format(tests=tests) + "t.everything()", **env)

    def test_who_serves(self, run):  # noqa: F811
        """Three parts at "highest", two where less is allowed, vectors for wide heads and on request."""
        code = """
def served(e):
    xs = t.arrays(np.random.default_rng(0), 20, 30, e, e)
    with pf.explain() as report:
        got = t.computed(*xs)
    return got, t.referred(xs), {s["by"] for s in report.served if "attention" in s["op"]}
for level, parts in (("highest", "in float32 by parts"), ("high", "in two parts")):
    pf.set_float32_matmul_precision(level)
    got, want, by = served(48)
    assert all(parts in b for b in by) and by, by
    t.close(got, want, t.BOUND if level == "highest" else 2.0**-13, level)
got, want, by = served(136)
assert by == {"our kernels"}, by
"""
        tests = os.path.dirname(__file__)
        run(PARTS.format(tests=tests) + code, **standin.AS_NVIDIA)
        code = """
xs = t.arrays(np.random.default_rng(0), 20, 30, 48, 48)
with pf.explain() as report:
    got = t.computed(*xs)
assert {s["by"] for s in report.served} == {"our kernels"}, report
"""
        env = standin.AS_NVIDIA | {"PYFLAME_GPU_FLOAT32": "vector"}
        run(PARTS.format(tests=tests) + code, **env)

    def test_errors_are_no_larger_than_those_of_vectors(self, run):  # noqa: F811
        """Root of the mean square, over all results of random numbers."""
        code = """
total = np.zeros(4)
for seed in range(2):
    rng = np.random.default_rng(seed)
    xs = t.arrays(rng, 60, 130, *((64, 64), (9, 100))[seed])
    for i, (x, y) in enumerate(zip(t.computed(*xs), t.referred(xs))):
        total[i] += ((x - y) ** 2).mean() / (y ** 2).mean()
print("errors", *total)
"""
        tests = os.path.dirname(__file__)
        sums = []
        for env in ({}, {"PYFLAME_GPU_FLOAT32": "vector"}):
            text = run(PARTS.format(tests=tests) + code, **(standin.AS_NVIDIA | env))
            line = next(line for line in text.splitlines() if line.startswith("errors"))
            sums.append([float(x) for x in line.split()[1:]])
        assert all(mine <= 1.1 * vectors for mine, vectors in zip(*sums, strict=True)), sums
