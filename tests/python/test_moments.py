"""Mean and variance of one tensor are one kernel (rules of src/engine/rules.cpp), to the bit what the
sums are one after the other: over any dimensions, in every layout, in every dtype."""

import numpy as np
import pytest

import pyflame as pf

pytestmark = pytest.mark.kernels

DTYPES = [pf.float32, pf.float64, pf.bfloat16, pf.float16]
SHAPES = [
    (5, 1),
    (1, 7),
    (3, 0),
    (0, 3),
    (1,),
    (),
    (301, 3),
    (65, 24),
    (33, 136),
    (17, 257),
    (9, 1000),
    (70, 2056),
    (5, 4096),
    (3, 4104),
    (2, 9001),
    (2, 3, 70),
    (6, 11, 5, 8),
]
LAYOUTS = {
    "dense": lambda x: x,
    "transposed": lambda x: x.mT.contiguous().mT if x.dim() > 1 else x,
    "odd rows": lambda x: pf.cat([x, x[..., :1]], -1)[..., 1:] if x.numel() > 1 else x,
    "every other": lambda x: pf.stack([x, x], -1)[..., 0],
    "turned around": lambda x: x.flip(-1) if x.dim() else x,
    "a broadcast": lambda x: x[..., :1].expand(x.shape) if x.dim() and x.numel() else x,
    "odd addresses": lambda x: (
        pf.cat([x.reshape(-1)[:1], x.reshape(-1)])[1:].reshape(x.shape) if x.numel() else x
    ),
}
# How many kernels another takes in, and what is calculated.
WORKS = {
    "var": (1, lambda x, dim, keep: x.var(dim, keepdim=keep)),
    "std": (1, lambda x, dim, keep: x.std(dim, correction=0)),
    "mean first": (2, lambda x, dim, keep: (x.mean(dim), x.var(dim, correction=2))),
    "mean last": (2, lambda x, dim, keep: pf.var_mean(x, dim, keepdim=keep)),
    "sum": (2, lambda x, dim, keep: (x.sum(dim, keepdim=True), x.std(dim))),
}


def bits(results):
    results = results if isinstance(results, tuple) else (results,)
    return [(r.dtype, tuple(r.shape), r.double().contiguous().numpy().tobytes()) for r in results]


def counted(work, *args):
    """The bits of what `work` returns, its kernels, and how many were merged into others."""
    pf.synchronize()
    before = pf.debug.stats()
    results = work(*args)
    pf.synchronize()
    after = pf.debug.stats()
    return bits(results), *(after[n] - before.get(n, 0) for n in ("kernels", "merged"))


def alone(work, *args):
    with pf.debug.eager():
        return bits(work(*args))


def dims_of(x):
    return [None, *range(x.dim())] + ([(0, -1)] if x.dim() > 2 else [])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bits(layout, dtype):
    for shape in SHAPES:
        x = LAYOUTS[layout]((pf.randn(shape) * 3 + 100).to(dtype))
        pf.flush()
        for dim in dims_of(x):
            args = x, dim, x.dim() % 2 == 0
            for name, (merged, work) in WORKS.items():
                want = alone(work, *args), 1, merged
                assert counted(work, *args) == want, (shape, dim, name)


@pytest.mark.parametrize("dtype", [pf.bfloat16, pf.float16])
def test_16_bits_are_calculated_with_in_float32(dtype):
    for shape in [(33, 136), (5, 4096), (3, 9000), (301, 3)]:
        x = (pf.randn(*shape) + 10).to(dtype)
        for dim in (None, 0, 1):
            assert bits(x.var(dim)) == bits(x.float().var(dim).to(dtype)), (shape, dim)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_that_are_none(dtype):
    x = pf.randn(7, 300).to(dtype)
    x[0, 0] = np.inf
    x[1, 5] = -np.inf
    x[2, 299] = np.nan
    x[3, 0] = np.nan
    x[4, 0], x[4, 1] = np.inf, -np.inf
    x[5] = -0.0
    pf.flush()

    def work():
        return x.mean(-1), x.var(-1)

    for one, two in zip(counted(work)[0], alone(work), strict=True):
        one, two = np.frombuffer(one[2]), np.frombuffer(two[2])
        np.testing.assert_array_equal(one, two)
        assert np.isnan(one[[2, 3, 4]]).all() and (one[5] == 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(300, 257), (300, 256), (70, 4096), (20, 9000), (9000, 20), (2, 70000)]
)
def test_programs_before_and_behind(shape, dtype):
    x, y = pf.randn(*shape).to(dtype), pf.randn(*shape).to(dtype)
    pf.flush()

    def dropped():
        z = x * y + 1
        v = z.var(-1)
        return (v, z.mean(-1)), v

    works = [
        lambda: (x * y).var(-1),
        lambda: ((z := x * y), z.mean(-1), z.var(-1)),
        lambda: ((z := x + 1), z.mean(0), z.std(0)),
        lambda: ((z := x.exp()).mean(), z.var()),
        lambda: (x.mean(-1) * 2, x.var(-1).sqrt() + 1),
        lambda: (x - x.mean(-1, keepdim=True)) * (x.var(-1, keepdim=True) + 1e-5).rsqrt(),
        lambda: dropped()[0],
    ]
    for i, work in enumerate(works):
        for threads in (1, 2, 3):
            before = pf.get_num_threads()
            pf.set_num_threads(threads)
            try:
                got = counted(work)
            finally:
                pf.set_num_threads(before)
            assert got[0] == alone(work), i
            assert got[1] == 1, i


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_program_before_is_part_of_it(device, dtype):
    for shape in ((300, 256), (70, 2048)):
        x, y = pf.randn(*shape).to(dtype), pf.randn(*shape).to(dtype)
        pf.flush()
        for work in (
            lambda x, y: (x * y + 1).var(-1),
            lambda x, y: ((z := x * y), *pf.var_mean(z, -1)),
            lambda x, y: (x + 1).mul_(y).var(-1),
        ):
            start = pf.debug.stats()["joined"]
            got = counted(work, x, y)
            joined = pf.debug.stats()["joined"] - start
            assert got[:2] == (alone(work, x, y), 1)
            assert joined == (0 if device.type == "paranoid" else 1), shape


def test_an_input_that_changes_in_between_is_two_inputs():
    numbers = pf.randn(6, 10)

    def work():
        x = numbers * 1
        pf.flush()
        m = x.mean(-1)
        x.mul_(2)
        v = x.var(-1)
        return m, v, x.mean(-1)

    assert counted(work) == (alone(work), 2, 2)


def test_what_does_not_go_together():
    x, y = pf.randn(6, 10), pf.randn(6, 10)
    pf.flush()
    works = [
        (lambda: (x.mean(-1), y.var(-1)), 2, 1),
        (lambda: (x.mean(0), x.var(-1)), 2, 1),
        (lambda: (x.mean(-1), x[:, :5].var(-1)), 2, 1),
        (lambda: (x.mean(-1), x.mT.mean(-1)), 2, 0),
        (lambda: (x.mean(-1), x.sum(-1)), 1, 1),
        (lambda: (x.var(-1), x.std(-1)), 2, 2),
        (lambda: (x.norm(dim=-1), x.mean(-1)), 1, 1),
        (lambda: (x.nansum(-1), x.var(-1)), 2, 1),
    ]
    for i, (work, kernels, merged) in enumerate(works):
        assert counted(work) == (alone(work), kernels, merged), i


def test_results_that_are_dropped_before_they_run():
    x = pf.randn(6, 10)
    pf.flush()

    def work():
        x.mean(-1)
        v = x.var(-1)
        x.mean(-1)
        return v

    assert counted(work)[:2] == (alone(work), 2)

    def only_the_mean():
        m = x.mean(-1)
        x.var(-1)
        return m

    assert counted(only_the_mean)[:2] == (alone(only_the_mean), 1)


def test_gradients():
    def step():
        pf.manual_seed(1)
        x = pf.randn(30, 70, requires_grad=True)
        h = x * 2
        (h.mean(-1) * h.var(-1) + h.std(-1)).sum().backward()
        return x.grad

    with pf.debug.eager():
        want = bits(step())
    assert bits(step()) == want


def test_the_one_kernel_is_shown():
    x = pf.randn(6, 10)
    pf.flush()
    report = pf.explain(lambda: pf.var_mean(x, -1))
    assert "moments" in report.to_text(plans=True)
