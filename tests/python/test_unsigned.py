"""uint16, uint32 and uint64: every operation of numbers beside NumPy's, over random values and the extremes."""

import operator

import numpy as np
import pytest

import pyflame as pf

xp = pf.array_api
WIDE = ("uint16", "uint32", "uint64")
UNSIGNED = ("uint8", *WIDE)
SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 3, 33)]


def values(rng, name, shape):
    """Half of them among the extremes, so that sums and products wrap and 2^63 is on either side."""
    most = np.iinfo(name).max
    any_bits = rng.integers(0, most, shape, dtype=name, endpoint=True)
    small = rng.integers(0, 70, shape).astype(name)
    edges = np.array([0, 1, 2, 3, most, most - 1, most // 2, most // 2 + 1], name)
    edge = edges[rng.integers(0, len(edges), shape)]
    which = rng.integers(0, 3, shape)
    return np.where(which == 0, any_bits, np.where(which == 1, small, edge)).astype(name)


def equal(ours, theirs):
    theirs = np.asarray(theirs)
    assert str(ours.dtype).split(".")[-1] == str(theirs.dtype)
    np.testing.assert_array_equal(ours.cpu().numpy(), theirs)


def pf_of(a):
    return pf.from_numpy(np.array(a)).to(pf.get_device())


@pytest.fixture(params=UNSIGNED)
def name(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(20)


OPERATORS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
    "mod": operator.mod, "pow": operator.pow, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "lshift": operator.lshift, "rshift": operator.rshift, "eq": operator.eq,
    "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def expected(f, a, b):
    """NumPy's, with 0 for a division by 0 and for a shift by the width or more."""
    with np.errstate(all="ignore"):
        out = f(a, b)
    if f in (operator.floordiv, operator.mod):
        out = np.where(b == 0, 0, out).astype(out.dtype)
    if f in (operator.lshift, operator.rshift):
        out = np.where(b >= np.iinfo(out.dtype).bits, 0, out).astype(out.dtype)
    return out


@pytest.mark.parametrize("which", OPERATORS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_operators(name, which, shape, rng):
    f = OPERATORS[which]
    a, b = values(rng, name, shape), values(rng, name, shape)
    equal(f(pf_of(a), pf_of(b)), expected(f, a, b))
    if shape == (3, 5):
        equal(
            f(pf_of(a).T[::2], pf_of(b)[:, ::2].T[:, 1:2]),
            expected(f, a.T[::2], b[:, ::2].T[:, 1:2]),
        )
        most = np.iinfo(name).max
        for n in (0, 1, 3, most // 2, most // 2 + 1, most):
            typed = np.array(n, name)  # NumPy: numbers take the array's dtype
            equal(f(pf_of(a), n), expected(f, a, typed)) if n or which not in (
                "floordiv", "mod") else None  # fmt: skip
            equal(f(n, pf_of(a)), expected(f, typed, a))


@pytest.mark.parametrize(
    "which", ["add", "sub", "mul", "floordiv", "mod", "pow", "and", "or", "xor"]
)
def test_operators_in_place(name, which, rng):
    f = OPERATORS[which]
    a, b = values(rng, name, (4, 9)), values(rng, name, (9,))
    x = pf_of(a)
    same = getattr(operator, "i" + which.replace("div", "div"))(x, pf_of(b))
    assert same is x
    equal(x, expected(f, a, np.broadcast_to(b, a.shape)))
    x = pf_of(a)
    x[:, 1::2] += 3
    a[:, 1::2] += np.array(3, name)
    equal(x, a)


ONE = {
    "negative": np.negative, "positive": np.positive, "abs": np.abs, "sign": np.sign,
    "square": np.square, "bitwise_invert": np.invert, "logical_not": np.logical_not,
    "floor": np.positive, "ceil": np.positive, "round": np.positive, "trunc": np.positive,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit,
}  # fmt: skip
TWO = {
    "maximum": np.maximum, "minimum": np.minimum, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor, "equal": np.equal, "less": np.less,
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_functions_of_elements(name, shape, rng):
    a, b = values(rng, name, shape), values(rng, name, shape)
    with np.errstate(all="ignore"):
        for which, f in ONE.items():
            equal(getattr(xp, which)(pf_of(a)), f(a))
    for which, f in TWO.items():
        equal(getattr(xp, which)(pf_of(a), pf_of(b)), f(a, b))
    low, high = np.minimum(a, b), np.maximum(a, b)
    c = values(rng, name, shape)
    equal(xp.clip(pf_of(c), pf_of(low), pf_of(high)), np.clip(c, low, high))
    equal(xp.clip(pf_of(c), 2, 5), np.clip(c, np.array(2, name), np.array(5, name)))
    equal(xp.clip(pf_of(c), 2), np.clip(c, np.array(2, name), None))
    mask = rng.integers(0, 2, shape).astype(bool)
    equal(xp.where(pf_of(mask), pf_of(a), pf_of(b)), np.where(mask, a, b))
    equal(pf_of(a).masked_fill(pf_of(mask), 3), np.where(mask, np.array(3, name), a))
    equal(pf.fmod(pf_of(a), pf_of(b)), expected(operator.mod, a, b))
    equal(pf.gcd(pf_of(a), pf_of(b)), np.gcd(a, b))


def test_real_functions_take_them_as_floats(name, rng):
    a, b = values(rng, name, (50,)), values(rng, name, (50,))
    x, y = a.astype(np.float32), b.astype(np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(xp.sqrt(pf_of(a)).cpu().numpy(), np.sqrt(x), rtol=3e-7)
        np.testing.assert_allclose(xp.log1p(pf_of(a)).cpu().numpy(), np.log1p(x), rtol=3e-7)
        np.testing.assert_allclose((pf_of(a) / pf_of(b)).cpu().numpy(), x / y, rtol=3e-7)
        np.testing.assert_allclose((pf_of(a) * 0.5).cpu().numpy(), x / 2, rtol=3e-7)
    assert (pf_of(a) + pf.ones(50, dtype=pf.float64)).dtype == pf.float64


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (2, 3, 33), (40, 0)], ids=str)
def test_reductions(name, shape, rng):
    a = values(rng, name, shape)
    x = pf_of(a)
    with np.errstate(all="ignore"):
        for axis in (None, 0, -1):
            equal(xp.sum(x, axis=axis), np.sum(a, axis=axis, dtype="uint64"))
            equal(xp.prod(x, axis=axis), np.prod(a, axis=axis, dtype="uint64"))
            equal(xp.sum(x, axis=axis, dtype=x.dtype), np.sum(a, axis=axis, dtype=name))
            equal(xp.prod(x, axis=axis, dtype=x.dtype), np.prod(a, axis=axis, dtype=name))
            equal(xp.any(x, axis=axis), np.any(a, axis=axis))
            equal(xp.all(x, axis=axis), np.all(a, axis=axis))
            equal(
                xp.count_nonzero(x, axis=axis), np.asarray(np.count_nonzero(a, axis=axis), "int64")
            )
            if axis is not None:
                equal(xp.cumulative_sum(x, axis=axis), np.cumsum(a, axis, dtype="uint64"))
                equal(xp.cumulative_prod(x, axis=axis), np.cumprod(a, axis, dtype="uint64"))
                equal(
                    xp.cumulative_sum(x, axis=axis, dtype=x.dtype), np.cumsum(a, axis, dtype=name)
                )
                equal(
                    xp.cumulative_prod(x, axis=axis, dtype=x.dtype), np.cumprod(a, axis, dtype=name)
                )
                equal(xp.diff(x, axis=axis), np.diff(a, axis=axis))
            if 0 not in shape:
                for ours, theirs in ((xp.max, np.max), (xp.min, np.min), (xp.argmax, np.argmax),
                                     (xp.argmin, np.argmin)):  # fmt: skip
                    equal(ours(x, axis=axis), theirs(a, axis=axis))
    if 0 not in shape:
        values_, indices = x.max(-1)
        equal(values_, a.max(-1))
        equal(x.gather(-1, indices.unsqueeze(-1)).squeeze(-1), a.max(-1))
        equal(pf.aminmax(x)[1], a.max())
        equal(x.cummax(-1)[0], np.maximum.accumulate(a, -1))
        equal(x.cummin(0)[0], np.minimum.accumulate(a, 0))
        equal(x.median(-1)[0], np.sort(a, -1)[..., (shape[-1] - 1) // 2])
        equal(x.kthvalue(1, -1)[0], a.min(-1))


@pytest.mark.parametrize("shape", [(0,), (1,), (60,), (3, 40)], ids=str)
def test_order(name, shape, rng):
    a = values(rng, name, shape)
    x = pf_of(a)
    equal(xp.sort(x), np.sort(a))
    equal(xp.sort(x, axis=0, descending=True), np.flip(np.sort(a, 0), 0))
    equal(xp.argsort(x), np.argsort(a, kind="stable"))
    if a.size:
        equal(x.topk(1)[0], np.sort(a)[..., -1:])
    v, i, inverse, counts = np.unique(a, return_index=True, return_inverse=True, return_counts=True)
    ours = xp.unique_all(x)
    for got, want in zip(ours, (v, i, inverse.reshape(shape), counts), strict=True):
        equal(got, want)
    rows = np.sort(values(rng, name, (30,)))
    equal(xp.searchsorted(pf_of(rows), x), np.searchsorted(rows, a))
    equal(xp.searchsorted(pf_of(rows), x, side="right"), np.searchsorted(rows, a, "right"))
    for got, want in zip(xp.nonzero(x), np.nonzero(a), strict=True):
        equal(got, want)
    if len(shape) == 2:
        tied = np.concatenate([a, a])
        equal(pf.unique(pf_of(tied), dim=0), np.unique(tied, axis=0))


def test_products(name, rng):
    a, b = values(rng, name, (2, 3, 5)), values(rng, name, (2, 5, 4))
    equal(xp.matmul(pf_of(a), pf_of(b)), np.matmul(a, b))
    equal(pf_of(a[0]) @ pf_of(b[0, :, 0]), a[0] @ b[0, :, 0])
    equal(
        xp.tensordot(pf_of(a), pf_of(b), axes=((0, 2), (0, 1))),
        np.tensordot(a, b, ((0, 2), (0, 1))),
    )
    equal(xp.linalg.outer(pf_of(a[0, 0]), pf_of(b[0, 0])), np.outer(a[0, 0], b[0, 0]))
    equal(pf.einsum("bij,bjk->ik", pf_of(a), pf_of(b)), np.einsum("bij,bjk->ik", a, b))
    equal(xp.vecdot(pf_of(a), pf_of(a[:1])), (a * a[:1]).sum(-1, dtype=name))
    equal(xp.linalg.trace(pf_of(a[0])), np.trace(a[0], dtype="uint64"))
    square = values(rng, name, (3, 3))
    equal(xp.linalg.matrix_power(pf_of(square), 3), square @ square @ square)


def test_made_from_nothing(name):
    dtype = getattr(pf, name)
    equal(xp.arange(7, dtype=dtype), np.arange(7, dtype=name))
    equal(xp.arange(9, 1, -3, dtype=dtype), np.arange(9, 1, -3).astype(name))
    equal(xp.linspace(0, 10, 5, dtype=dtype), np.linspace(0, 10, 5, dtype=name))
    equal(xp.eye(3, 4, dtype=dtype), np.eye(3, 4, dtype=name))
    equal(xp.eye(3, k=-1, dtype=dtype), np.eye(3, k=-1, dtype=name))
    drawn = pf.randint(3, 9, (1000,), dtype=dtype)
    assert drawn.dtype == dtype and sorted(set(drawn.tolist())) == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("other", ["bool", "int8", "int16", "int32", "int64", *UNSIGNED])
def test_two_dtypes_are_promoted_as_the_standard_says(name, other, rng):
    a = values(rng, name, (40,))
    b = (
        rng.integers(0, 2, 40).astype(bool)
        if other == "bool"
        else rng.integers(0, 100, 40).astype(other)
    )
    if name == "uint64" and other.startswith("int"):
        with pytest.raises(pf.DTypeError, match="no integer dtype"):
            pf_of(a) + pf_of(b)
        return
    common = np.result_type(name, other)
    assert xp.result_type(getattr(pf, name), getattr(pf, other)) == getattr(pf, str(common))
    for f in (operator.add, operator.mul, operator.lt, operator.xor, operator.floordiv):
        equal(f(pf_of(a), pf_of(b)), expected(f, a.astype(common), b.astype(common)))


@pytest.mark.parametrize("name", WIDE)
def test_numbers_outside_of_the_dtype(name):
    x = pf.tensor([0, 5, np.iinfo(name).max], dtype=getattr(pf, name))
    assert (x > -1).tolist() == [True] * 3 and (x <= -1).tolist() == [False] * 3
    assert (x == 2**63).tolist() == [False] * 3 and (-1 < x).tolist() == [True] * 3
    assert x.clamp(min=-4).tolist() == x.tolist()
    assert (x + -1).tolist() == [np.iinfo(name).max, 4, np.iinfo(name).max - 1]
    with pytest.raises(pf.ValueError, match="at least 0"):
        x.clamp(max=-1)
    with pytest.raises(pf.ValueError, match="holds"):
        pf.where(x > 3, x, 2**64 - 1) if name != "uint64" else pf.where(x > 3, x, -(2**63) * 1)
        x.masked_fill(x > 3, 1e30)
    with pytest.raises((pf.DTypeError, pf.ValueError)):
        x /= 2
    with pytest.raises(pf.DTypeError, match="floating"):
        x.mean()


def test_under_vmap_and_in_a_group(rng):
    a, b = values(rng, "uint64", (6, 5)), values(rng, "uint64", (6, 5))
    equal(pf.func.vmap(lambda x, y: (x * y) // (y + 1))(pf_of(a), pf_of(b)), expected(
        operator.floordiv, a * b, b + np.uint64(1)))  # fmt: skip
    x = pf_of(a)
    for _ in range(3):
        x = (x ^ (x << 13)) * 5 + (x >> 7)
        a = (a ^ (a << np.uint64(13))) * np.uint64(5) + (a >> np.uint64(7))
    equal(x, a)


@pytest.mark.cpu_only
def test_what_uint64_has_not_is_refused_by_name():
    x = pf.tensor([1, 2], dtype=pf.uint64)
    for f in (pf.nn.functional.relu6, pf.nn.functional.hardtanh):
        with pytest.raises(pf.DTypeError, match="uint64"):
            f(x)
