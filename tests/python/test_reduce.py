"""Reductions against NumPy in float64."""

import itertools
import math
import os

import numpy as np
import pytest
from rows_helpers import FLOATS, LAYOUTS, check, gradcheck, in_layout, values_of

import pyflame as pf

pytestmark = pytest.mark.kernels(0.6)

RNG = np.random.default_rng(0)
SHAPES = [(), (1,), (7,), (3, 5), (4, 1, 6), (2, 3, 4, 5), (33, 65), (1030, 3), (3, 1030)]


def dims_of(shape):
    n = len(shape)
    yield None
    for k in range(1, n + 1):
        yield from itertools.combinations(range(n), k)
    if n:
        yield (-1,)


FLOAT_OPS = {
    "sum": lambda a, axis, k: a.sum(axis, keepdims=k),
    "mean": lambda a, axis, k: a.mean(axis, keepdims=k),
    "amax": lambda a, axis, k: a.max(axis, keepdims=k),
    "amin": lambda a, axis, k: a.min(axis, keepdims=k),
    "var": lambda a, axis, k: a.var(axis, ddof=0, keepdims=k),
    "std": lambda a, axis, k: a.std(axis, ddof=0, keepdims=k),
    "prod": lambda a, axis, k: a.prod(axis, keepdims=k),
    "norm": lambda a, axis, k: np.sqrt((a * a).sum(axis, keepdims=k)),
    "logsumexp": lambda a, axis, k: np.log(np.exp(a).sum(axis, keepdims=k)),
}


def call(name, t, dims, keepdim):
    if name in ("var", "std"):
        return getattr(t, name)(dim=dims, correction=0, keepdim=keepdim)
    if name == "norm":
        return t.norm(2, dim=dims, keepdim=keepdim)
    if name == "logsumexp":
        return t.logsumexp(tuple(range(t.dim())) if dims is None else dims, keepdim)
    return getattr(t, name)(dims, keepdim) if dims is not None else getattr(t, name)()


@pytest.mark.parametrize("name", FLOAT_OPS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_against_numpy(name, shape):
    for layout in LAYOUTS:
        values = RNG.standard_normal(shape)
        if name == "prod":
            values = values * 0.05 + 1
        t = in_layout(values, layout, pf.float64)
        a = values_of(t)
        for dims in dims_of(shape):
            for keepdim in (False, True) if dims is not None else (False,):
                axis = None if dims is None else dims
                check(call(name, t, dims, keepdim), FLOAT_OPS[name](a, axis, keepdim), pf.float64)


@pytest.mark.races("sum-pyflame.float32", "amax-pyflame.bfloat16", "var-pyflame.float64")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", FLOAT_OPS)
def test_dtypes(name, dtype):
    values = RNG.standard_normal((37, 70)) * (0.05 if name == "prod" else 1) + (name == "prod")
    t = pf.tensor(values).to(dtype)
    for dims in (None, 0, 1):
        got = call(name, t, dims, False)
        assert got.dtype == dtype
        check(got, FLOAT_OPS[name](values_of(t), dims, False), dtype, scale=4)


@pytest.mark.races("pyflame.int8")
@pytest.mark.parametrize(
    "dtype", [pf.int64, pf.int32, pf.int16, pf.int8, pf.uint8, pf.bool], ids=str
)
def test_integers(dtype):
    values = RNG.integers(0, 2 if dtype is pf.bool else 100, (9, 70))
    t = pf.tensor(values).to(dtype)
    a = t.numpy().astype(np.int64)
    for dims in (None, 0, 1):
        assert t.sum(dims).dtype == pf.int64
        np.testing.assert_array_equal(t.sum(dims).numpy(), a.sum(dims))
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(t.prod(dims).numpy(), a.prod(dims))
        np.testing.assert_array_equal(t.amax(dims).numpy(), a.max(dims))
        np.testing.assert_array_equal(t.amin(dims).numpy(), a.min(dims))
        np.testing.assert_array_equal(t.any(dims).numpy(), a.any(dims))
        np.testing.assert_array_equal(t.all(dims).numpy(), a.all(dims))
        np.testing.assert_array_equal(t.count_nonzero(dims).numpy(), np.count_nonzero(a, dims))
    assert t.sum(dtype=pf.float32).dtype == pf.float32
    with pytest.raises(pf.DTypeError):
        t.mean()
    check(t.mean(dtype=pf.float64), a.mean(), pf.float64)


@pytest.mark.large
def test_many_ones_are_counted_exactly():
    n = 1 << 25
    t = pf.ones(n)
    assert t.sum().item() == n
    assert abs(pf.full((n,), 0.1).sum().item() / (n * np.float32(0.1)) - 1) < 1e-6


@pytest.mark.races
@pytest.mark.parametrize("name", ["sum", pytest.param("var", marks=pytest.mark.cpu_only), "amax"])
def test_bits_do_not_depend_on_layout_or_threads(name):
    values = RNG.standard_normal((1200, 9, 37)).astype(np.float32)
    for dims in (None, 0, 1, 2, (0, 1), (0, 2), (1, 2)):
        plain = getattr(pf.tensor(values), name)(dims).numpy()
        turned = getattr(in_layout(values, "transposed"), name)(dims).numpy()
        sliced = getattr(in_layout(values, "sliced"), name)(dims).numpy()
        before = pf.get_num_threads()
        pf.set_num_threads(1)
        alone = getattr(pf.tensor(values), name)(dims).numpy()
        pf.set_num_threads(before)
        for other in (turned, sliced, alone):
            np.testing.assert_array_equal(plain, other)


@pytest.mark.parametrize("shape", [(1, 2), (3, 70), (2100, 18), (5, 40000)])
def test_variance_of_what_is_far_from_zero_and_drifts(shape):
    drift = np.arange(math.prod(shape)).reshape(shape) % 977 / 100
    for offset in (0, -1e4, 1e6):
        x = (RNG.standard_normal(shape) + drift + offset).astype(np.float32)
        x.flat[0] += 50  # differences are from it
        for axis in (None, 0, 1):
            if axis is None or shape[axis] > 1:
                got, want = pf.tensor(x).var(axis).numpy(), x.astype(float).var(axis, ddof=1)
                np.testing.assert_allclose(got, want, rtol=2e-5)


@pytest.mark.parametrize("dtype", [pf.float32, pf.bfloat16, pf.int64], ids=str)
def test_places_of_extremes_in_columns(dtype):
    x = pf.tensor(RNG.integers(-99, 99, (2100, 37))).to(dtype)  # many are equal
    if dtype != pf.int64:
        for column, rows in enumerate([(1500,), (3, 4), (2099, 1024), (1023, 0), (7, 2098)]):
            x[list(rows), column] = math.nan
    for rows in (1, 2, 5, 6, 1024, 1025, 1026, 2100):
        exact = x[:rows].double().numpy()
        for name in ("argmax", "argmin"):
            np.testing.assert_array_equal(
                getattr(x[:rows], name)(0).numpy(), getattr(exact, name)(0)
            )


# Columns that a GPU adds in several blocks: of few rows left over, of few results, of no whole vectors.
@pytest.mark.parametrize("dtype", [pf.float32, pf.bfloat16, pf.float64])
@pytest.mark.parametrize("shape", [(8197, 24), (8200, 257), (12288, 16), (4100, 2056)])
def test_sums_of_many_rows(shape, dtype):
    x = pf.tensor(RNG.standard_normal(shape)).to(dtype)
    exact = x.double().numpy().sum(0)
    tol = {pf.float32: 1e-5, pf.bfloat16: 2**-8, pf.float64: 1e-13}[dtype]
    for turned in (x, x.mT.contiguous().mT):
        np.testing.assert_allclose(turned.sum(0).double().numpy(), exact, rtol=tol, atol=40 * tol)
    assert pf.equal(x.sum(0), x.mT.contiguous().sum(-1))
    assert pf.equal(x.var(0), x.mT.contiguous().var(-1))


# What is calculated before a search or a test joins it, unless rows are no whole vectors.
@pytest.mark.parametrize("dtype", [pf.float32, pf.bfloat16, pf.float64])
@pytest.mark.parametrize("shape", [(40, 1024), (300, 40), (7, 33), (70_000,), (1, 16), (2, 0)])
def test_programs_before_extremes(shape, dtype):
    x = pf.tensor(RNG.standard_normal(shape) * 10).to(dtype)
    if x.numel() > 40:
        x.reshape(-1)[5], x.reshape(-1)[-1] = -np.inf, np.inf
    a = x.double().numpy()
    pf.synchronize()
    before = pf.debug.stats()["joined"]
    assert pf.equal((x > 3).any(-1), pf.tensor((a > 3).any(-1)))
    assert bool(pf.isfinite(x).all()) == np.isfinite(a).all()
    assert pf.equal(pf.count_nonzero(x > 0, -1), pf.tensor((a > 0).sum(-1)))
    assert pf.equal((x < 0).sum(), pf.tensor((a < 0).sum()))
    if not x.numel():
        return
    assert (-x).amin(-1).double().numpy().tolist() == (-a).min(-1).tolist()
    assert x.abs().amax().item() == np.abs(a).max()
    largest, at = x.abs().max(-1)
    assert largest.double().numpy().tolist() == np.abs(a).max(-1).tolist()
    assert at.tolist() == np.abs(a).argmax(-1).tolist()
    if (
        x.device.type not in ("cpu", "paranoid")
        and shape[-1] % 8 == 0
        and not os.environ.get("PYFLAME_EAGER")
    ):
        assert pf.debug.stats()["joined"] >= before + 7
    x.reshape(-1)[0] = np.nan
    assert np.isnan(x.abs().amax().item()) and x.abs().argmax().item() == 0


def test_empty():
    t = pf.zeros(0, 3)
    assert t.sum().item() == 0 and t.prod().item() == 1
    assert np.isnan(t.mean().item())
    np.testing.assert_array_equal(t.sum(0).numpy(), np.zeros(3))
    assert t.sum(1).shape == (0,)
    assert np.isnan(t.mean(0).numpy()).all()
    assert t.amax(1).shape == (0,)
    assert not t.any().item() and t.all().item()
    for bad in (
        lambda: t.amax(0),
        lambda: t.max(),
        lambda: t.max(0),
        lambda: t.argmax(),
        lambda: t.argmin(0),
    ):
        with pytest.raises(pf.IndexError, match="at least one element"):
            bad()
    assert t.logsumexp(0).numpy().tolist() == [-np.inf] * 3


@pytest.mark.races("plain-max")
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("layout", LAYOUTS[:3])
def test_max_and_min_with_indices(name, layout):
    for shape in [(5,), (3, 70), (70, 3), (4, 5, 6), (2, 300)]:
        values = RNG.integers(-3, 3, shape).astype(np.float32)  # many ties
        t = in_layout(values, layout)
        arg = np.argmax if name == "max" else np.argmin
        for dim in range(-len(shape), len(shape)):
            for keepdim in (False, True):
                r = getattr(t, name)(dim, keepdim)
                index = arg(values, dim)
                want = np.take_along_axis(values, np.expand_dims(index, dim), dim)
                if keepdim:
                    index = np.expand_dims(index, dim)
                else:
                    want = want.squeeze(dim)
                np.testing.assert_array_equal(r.indices.numpy(), index)
                np.testing.assert_array_equal(r.values.numpy(), want)
                np.testing.assert_array_equal(getattr(t, "arg" + name)(dim, keepdim).numpy(), index)
        assert getattr(t, name)().item() == getattr(values, name)()
        assert getattr(t, "arg" + name)().item() == arg(values)


def test_special_values():
    nan, inf = np.nan, np.inf
    a = np.array([[1, nan, 3, nan], [inf, -inf, 0, 1], [-inf, -inf, -inf, -inf]], np.float32)
    for values in (a, np.tile(a, (1, 40))):
        for t in (pf.tensor(values), in_layout(values, "transposed")):
            np.testing.assert_array_equal(t.amax(1).numpy(), [nan, inf, -inf])
            np.testing.assert_array_equal(t.amin(1).numpy(), [nan, -inf, -inf])
            np.testing.assert_array_equal(t.max(1).indices.numpy(), [1, 0, 0])
            np.testing.assert_array_equal(t.min(1).indices.numpy(), [1, 1, 0])
            np.testing.assert_array_equal(t.sum(1).numpy()[:2], [nan, nan])
            assert np.isnan(t.max().item()) and np.isnan(t.median().item())
            got = t.logsumexp(1).numpy()
            assert np.isnan(got[0]) and got[1] == inf and got[2] == -inf
    t = pf.tensor([1e4, -1e4, 1e4])
    assert abs(t.logsumexp(0).item() - (1e4 + np.log(2))) < 1e-2
    assert t.any().item() and pf.tensor([nan]).any().item()


def test_var_and_std():
    a = RNG.standard_normal((6, 7)) + 1e3
    t = pf.tensor(a, dtype=pf.float64)
    check(t.var(), a.var(ddof=1), pf.float64, 10)
    check(t.var(0), a.var(0, ddof=1), pf.float64, 10)
    check(t.var(1, unbiased=False), a.var(1), pf.float64, 10)
    check(t.std(1, correction=2), a.std(1, ddof=2), pf.float64, 10)
    v, m = pf.var_mean(t, 0)
    check(v, a.var(0, ddof=1), pf.float64, 10)
    check(m, a.mean(0), pf.float64)
    assert np.isnan(pf.ones(1).var().item())
    f = pf.tensor(a.astype(np.float32))
    np.testing.assert_allclose(f.var(1).numpy(), a.var(1, ddof=1), rtol=1e-3)
    near = pf.tensor(np.full((4, 9), 1000.0)).to(pf.bfloat16)
    assert near.var(1).abs().max().item() == 0


@pytest.mark.parametrize("correction", [-(2**63), 2**63 - 1, 4, 0.5, -1.25, np.inf, -np.inf])
def test_corrections_of_any_size(correction):
    x = pf.tensor([0.0, 1.0, 2.0, 3.0], dtype=pf.float64, requires_grad=True)
    freedom = max(0.0, 4 - correction)
    want = 5 / freedom if freedom else np.inf
    np.testing.assert_allclose(x.var(correction=correction).item(), want, rtol=1e-15)
    np.testing.assert_allclose(x.std(correction=correction).item(), np.sqrt(want), rtol=1e-15)
    if 0 < freedom < np.inf:
        x.var(correction=correction).backward()
        np.testing.assert_allclose(x.grad.numpy(), np.array([-3, -1, 1, 3]) / freedom, rtol=1e-15)
    if isinstance(correction, int):
        np.testing.assert_allclose(x.cov(correction=correction).item(), want, rtol=1e-15)


def test_norms():
    a = RNG.standard_normal((4, 5))
    t = pf.tensor(a, dtype=pf.float64)
    for p in (1, 2, 3, 0.5, 0, np.inf, -np.inf):
        for dim in (None, 0, 1):
            if dim is None:
                want = np.linalg.norm(a.ravel(), p)
            else:
                want = np.linalg.norm(a, p, axis=dim)
            check(t.norm(p, dim), want, pf.float64, 10)
    check(t.norm("fro"), np.linalg.norm(a), pf.float64)
    check(t.norm(), np.linalg.norm(a), pf.float64)
    with pytest.raises(pf.ValueError, match="fro"):
        t.norm("nuclear")
    for x in (1e300, -1e-300):  # powers of it are not taken
        one = pf.tensor([[x], [2 * x]], dtype=pf.float64)
        for p in (2, 3, 0.5, -2):
            assert one.norm(p, 1).tolist() == [abs(x), abs(2 * x)]
            assert pf.tensor(x, dtype=pf.float64).norm(p).item() == abs(x)
    for p in (2, 3, 0.5, -2):
        for x, slope in [(1e300, 1), (-3.0, -1), (0.0, 0), (np.nan, np.nan)]:
            one = pf.tensor([x], dtype=pf.float64, requires_grad=True)
            one.norm(p).backward()
            np.testing.assert_equal(one.grad.tolist(), [slope])


def test_median():
    for n in (1, 4, 5):
        a = RNG.standard_normal((3, n))
        t = pf.tensor(a, dtype=pf.float64)
        lower = np.sort(a, 1)[:, (n - 1) // 2]
        r = t.median(1)
        np.testing.assert_array_equal(r.values.numpy(), lower)
        np.testing.assert_array_equal(
            np.take_along_axis(a, r.indices.numpy()[:, None], 1)[:, 0], lower
        )
    assert pf.tensor([3.0, 1.0, 2.0, 4.0]).median().item() == 2.0
    r = pf.tensor([3.0, np.nan, 2.0]).median(0)
    assert np.isnan(r.values.item()) and r.indices.item() == 1


def test_errors_name_the_operation():
    t = pf.zeros(2, 3)
    with pytest.raises(pf.IndexError, match="pf.sum"):
        t.sum(2)
    with pytest.raises(pf.PyFlameError, match="twice"):
        t.sum((0, -2))


@pytest.mark.parametrize("dims", [None, 0, 1, (0, 1)], ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_gradients(dims, keepdim):
    a = RNG.standard_normal((3, 4))
    kw = {} if dims is None else {"dim": dims, "keepdim": keepdim}
    gradcheck(lambda x: x.sum(**kw), a)
    gradcheck(lambda x: x.mean(**kw), a)
    gradcheck(lambda x: x.var(**kw), a)
    gradcheck(lambda x: x.std(**kw), a)
    gradcheck(lambda x: x.prod(**kw), a)
    gradcheck(lambda x: x.amax(**kw), a)
    gradcheck(lambda x: x.norm(2, **kw), a)
    gradcheck(lambda x: x.norm(3, **kw), a, second=False)
    gradcheck(lambda x: x.norm(1, **kw), a)
    if dims is not None:
        gradcheck(lambda x: x.logsumexp(**kw), a)
    if isinstance(dims, int):
        gradcheck(lambda x: x.max(**kw).values, a)
        gradcheck(lambda x: x.median(**kw).values, a)


def test_gradients_at_zeros_and_ties():
    x = pf.tensor([[2.0, 0.0, 3.0], [0.0, 0.0, 1.0]], requires_grad=True)
    (g,) = pf.autograd.grad(x.prod(1).sum(), [x])
    np.testing.assert_array_equal(g.numpy(), [[0, 6, 0], [0, 0, 0]])
    x = pf.tensor([1.0, 3.0, 3.0], requires_grad=True)
    (g,) = pf.autograd.grad(x.amax(0), [x])
    np.testing.assert_array_equal(g.numpy(), [0, 0.5, 0.5])
    (g,) = pf.autograd.grad(x.max(), [x])
    np.testing.assert_array_equal(g.numpy(), [0, 0.5, 0.5])
    (g,) = pf.autograd.grad(x.max(0).values, [x])
    np.testing.assert_array_equal(g.numpy(), [0, 1, 0])
    x = pf.zeros(3, requires_grad=True)
    (g,) = pf.autograd.grad(x.norm(), [x])
    np.testing.assert_array_equal(g.numpy(), [0, 0, 0])
    x = pf.ones(3, requires_grad=True)
    (g,) = pf.autograd.grad(x.std(correction=0), [x])
    np.testing.assert_array_equal(g.numpy(), [0, 0, 0])


@pytest.mark.large
def test_large_product_and_sum_of_expanded():
    assert pf.ones(10**6).prod().item() == 1
    assert pf.ones(1, 1).expand(300, 70).sum().item() == 21000
    assert pf.full((1000, 1000), 0.5)[:, ::3].sum().item() == 167000


def test_norm_of_a_negative_power_is_flat_at_0():
    x = pf.tensor([0.0, 2.0, -1.0], requires_grad=True)
    pf.linalg.vector_norm(x, -1.5).backward()
    assert x.grad.tolist() == [0, 0, 0]


@pytest.mark.cpu_only  # where the order of a sum is that of its elements whatever the layout
@pytest.mark.parametrize("dtype", [pf.float32, pf.float64, pf.bfloat16], ids=str)
@pytest.mark.parametrize("k", [1, 2, 15, 16, 17, 31, 49, 64, 65, 127, 128, 129, 1023, 1024, 1025])
@pytest.mark.parametrize("outs", [0, 1, 7, 8, 9, 16, 33, 100])
def test_short_rows_as_many_at_a_time_as_a_vector_has_lanes(dtype, k, outs):
    rng = np.random.default_rng(k)
    x = pf.tensor(rng.standard_normal((outs, k))).to(dtype)
    if outs > 8:
        for row, column, v in (
            (1, k - 1, np.nan),
            (2, 0, np.inf),
            (8, k - 1, -np.inf),
            (8, 0, np.inf),
        ):
            x[row, column] = v
    sliced = pf.zeros(outs + 2, k + 3, dtype=dtype)
    sliced[1:-1, 2:-1] = x
    columns = x.t().contiguous().t()
    exact = x.double().numpy()
    of = {
        "sum": exact.sum,
        "nansum": lambda axis: np.nansum(exact, axis),
        "mean": exact.mean,
        "var": lambda axis: exact.var(axis, ddof=1),
        "amax": exact.max,
        "amin": exact.min,
        "prod": exact.prod,
    }
    near = {pf.float32: 1e-5, pf.float64: 1e-13, pf.bfloat16: 1e-2}[dtype]
    for name, reference in of.items():
        if name == "var" and k == 1:
            continue
        got = [getattr(v, name)(1).double().numpy() for v in (x, sliced[1:-1, 2:-1], columns)]
        assert all(g.tobytes() == got[0].tobytes() for g in got), name
        if name != "prod":  # as large or small as its rounding
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(
                    got[0], reference(1), rtol=near, atol=near * (k if "sum" in name else 1)
                )
    for name in ("argmax", "argmin"):  # of equal ones the first, or the first NaN
        for v in (x, sliced[1:-1, 2:-1], columns):
            np.testing.assert_array_equal(getattr(v, name)(1).numpy(), getattr(exact, name)(1))


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin"])
def test_gradients_where_the_result_is_nan_are_pytorchs(name):
    """max and min share it among the NaNs; amax and amin have none."""
    torch = pytest.importorskip("torch")
    for values in (
        [1.0, math.nan, 2.0, math.nan],
        [math.nan],
        [math.nan, math.inf],
        [3.0, 3.0, 1.0],
    ):
        slopes = []
        for lib in (pf, torch):
            x = lib.tensor(values, requires_grad=True)
            getattr(lib, name)(x).backward()
            slopes.append(x.grad.tolist())
        np.testing.assert_array_equal(*slopes)


NOTHING = [
    (name, shape, args)
    for name in ("max", "min", "median", "nanmedian", "mode", "argmax", "argmin", "cummax", "sort",
                 "sum", "prod", "all", "any", "logsumexp", "amax", "amin", "std", "mean")
    for shape, args in [((0,), ()), ((0,), (0,)), ((2, 0), (1,)), ((2, 0), (0,)), ((0, 2), (1,))]
] + [
    (name, shape, (p, dim))
    for name in ("kthvalue", "norm", "linalg.vector_norm", "roll", "quantile", "nanquantile", "topk")
    for p in ((1,) if name in ("kthvalue", "roll") else (0.5,) if "quantile" in name else
              (1,) if name == "topk" else (-math.inf, -2, -0.5, 0, 1, 2))
    for shape, dim in [((0,), 0), ((2, 0), 1), ((2, 0), 0), ((0, 2), 1), ((0, 2), 5), ((0,), None)]
]  # fmt: skip


@pytest.mark.parametrize("name, shape, args", NOTHING, ids=str)
def test_of_nothing_as_pytorch_has_it(name, shape, args):
    """The value, or an error of PyTorch's class."""
    torch = pytest.importorskip("torch")

    def run(t, dtype):
        f = t
        for part in name.split("."):
            f = getattr(f, part)
        r = f(t.zeros(shape, dtype=getattr(t, dtype)), *args)
        return [(list(v.shape), v.tolist()) for v in (r if isinstance(r, tuple) else (r,))]

    for dtype in ("float32", "int64"):
        try:
            want = run(torch, dtype)
        except (RuntimeError, IndexError, ValueError) as e:
            if dtype == "int64":  # perhaps for want of the dtype
                continue
            with pytest.raises(IndexError if isinstance(e, IndexError) else RuntimeError):
                run(pf, dtype)
        except TypeError:  # not a call in PyTorch
            return
        else:
            np.testing.assert_equal(run(pf, dtype), want)
