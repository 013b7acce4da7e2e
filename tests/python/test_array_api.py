"""pyflame.array_api against the standard of 2024.12: its names and signatures as the standard prints them,
its results beside NumPy's, which follows it too."""

import inspect
import math

import numpy as np
import pytest

import pyflame as pf

xp = pf.array_api

# From the standard's pages, a line each. Where a parameter is an array or a number says nothing here.
SIGNATURES = """
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
meshgrid(*arrays, indexing='xy')
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
astype(x, dtype, /, *, copy=True, device=None)
can_cast(from_, to, /)
finfo(type, /)
iinfo(type, /)
isdtype(dtype, kind)
result_type(*arrays_and_dtypes)
clip(x, /, min=None, max=None)
take(x, indices, /, *, axis=None)
take_along_axis(x, indices, /, *, axis=-1)
matmul(x1, x2, /)
matrix_transpose(x, /)
tensordot(x1, x2, /, *, axes=2)
vecdot(x1, x2, /, *, axis=-1)
broadcast_arrays(*arrays)
broadcast_to(x, /, shape)
concat(arrays, /, *, axis=0)
expand_dims(x, /, axis=0)
flip(x, /, *, axis=None)
moveaxis(x, source, destination, /)
permute_dims(x, /, axes)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
roll(x, /, shift, *, axis=None)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
tile(x, repetitions, /)
unstack(x, /, *, axis=0)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
count_nonzero(x, /, *, axis=None, keepdims=False)
nonzero(x, /)
searchsorted(x1, x2, /, *, side='left', sorter=None)
where(condition, x1, x2, /)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
argsort(x, /, *, axis=-1, descending=False, stable=True)
sort(x, /, *, axis=-1, descending=False, stable=True)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
max(x, /, *, axis=None, keepdims=False)
mean(x, /, *, axis=None, keepdims=False)
min(x, /, *, axis=None, keepdims=False)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
linalg.cholesky(x, /, *, upper=False)
linalg.cross(x1, x2, /, *, axis=-1)
linalg.det(x, /)
linalg.diagonal(x, /, *, offset=0)
linalg.eigh(x, /)
linalg.eigvalsh(x, /)
linalg.inv(x, /)
linalg.matmul(x1, x2, /)
linalg.matrix_norm(x, /, *, keepdims=False, ord='fro')
linalg.matrix_power(x, n, /)
linalg.matrix_rank(x, /, *, rtol=None)
linalg.matrix_transpose(x, /)
linalg.outer(x1, x2, /)
linalg.pinv(x, /, *, rtol=None)
linalg.qr(x, /, *, mode='reduced')
linalg.slogdet(x, /)
linalg.solve(x1, x2, /)
linalg.svd(x, /, *, full_matrices=True)
linalg.svdvals(x, /)
linalg.tensordot(x1, x2, /, *, axes=2)
linalg.trace(x, /, *, offset=0, dtype=None)
linalg.vecdot(x1, x2, /, *, axis=-1)
linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
fft.fft(x, /, *, n=None, axis=-1, norm='backward')
fft.ifft(x, /, *, n=None, axis=-1, norm='backward')
fft.fftn(x, /, *, s=None, axes=None, norm='backward')
fft.ifftn(x, /, *, s=None, axes=None, norm='backward')
fft.rfft(x, /, *, n=None, axis=-1, norm='backward')
fft.irfft(x, /, *, n=None, axis=-1, norm='backward')
fft.rfftn(x, /, *, s=None, axes=None, norm='backward')
fft.irfftn(x, /, *, s=None, axes=None, norm='backward')
fft.hfft(x, /, *, n=None, axis=-1, norm='backward')
fft.ihfft(x, /, *, n=None, axis=-1, norm='backward')
fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.fftshift(x, /, *, axes=None)
fft.ifftshift(x, /, *, axes=None)
"""
ONE = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite
isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh
square sqrt tan tanh trunc""".split()
TWO = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide
equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor
maximum minimum multiply nextafter not_equal pow remainder subtract""".split()
FLOATS = [n for n in ONE if n not in ("bitwise_invert", "logical_not", "imag")]
INTEGERS = "abs negative positive square sign ceil floor round trunc bitwise_invert".split()


def found(name):
    thing = xp
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


@pytest.mark.cpu_only
@pytest.mark.parametrize("line", SIGNATURES.strip().splitlines(), ids=lambda s: s.split("(")[0])
def test_signatures_are_the_standards(line):
    name, _, rest = line.partition("(")
    assert str(inspect.signature(found(name))) == "(" + rest


@pytest.mark.cpu_only
def test_every_elementwise_function_is_there():
    for names, parameters in ((ONE, "(x, /)"), (TWO, "(x1, x2, /)")):
        for name in names:
            assert str(inspect.signature(getattr(xp, name))) == parameters, name
    assert xp.__array_api_version__ == "2024.12"
    assert (xp.e, xp.pi, xp.newaxis) == (math.e, math.pi, None)
    assert math.isnan(xp.nan) and xp.inf == math.inf


def np_of(x):
    return x.cpu().numpy()


def same(got, want):
    got = np_of(got) if isinstance(got, pf.Tensor) else np.asarray(got)
    assert got.shape == want.shape and got.dtype == want.dtype, (got.dtype, want.dtype, got.shape)
    np.testing.assert_allclose(
        got, want, rtol=1e-6 if want.dtype == np.float32 else 1e-12, atol=1e-7
    )


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_functions_of_floats(name, dtype):
    x = np.random.default_rng(0).uniform(-3, 3, (3, 5)).astype(dtype)
    x.flat[:5] = [0, -0.0, np.nan, np.inf, -np.inf]
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x)
    same(getattr(xp, name)(xp.asarray(x)), want)


@pytest.mark.parametrize("name", INTEGERS)
def test_functions_of_integers(name):
    x = np.array([[-3, 0, 2], [7, -1, 5]])
    same(getattr(xp, name)(xp.asarray(x)), getattr(np, name)(x))


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two(name):
    rng = np.random.default_rng(1)
    if name.startswith("bitwise") or name.startswith("logical"):
        a, b = rng.integers(0, 8, (3, 1)), rng.integers(1, 5, 4)
        if name.startswith("logical"):
            a, b = a > 3, b > 2
        number = None
    else:
        a, b = rng.uniform(-2, 2, (3, 1)), rng.uniform(0.5, 2, 4)
        a = np.abs(a) if name == "pow" else a
        number = 1.5
    f, g = getattr(xp, name), getattr(np, name)
    same(f(xp.asarray(a), xp.asarray(b)), g(a, b))
    if number is not None:
        same(f(xp.asarray(a), number), g(a, number))
        same(f(number, xp.asarray(b)), g(number, b))
    with pytest.raises(TypeError, match="expected an array"):
        f(1, 2)


def matrix(*shape, seed=2):
    a = np.random.default_rng(seed).normal(size=shape)
    return a, xp.asarray(a)


REDUCTIONS = "all any max min mean sum prod std var count_nonzero".split()


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name, axis, keepdims):
    a, x = matrix(2, 3, 4)
    same(
        getattr(xp, name)(x, axis=axis, keepdims=keepdims),
        getattr(np, name)(a, axis=axis, keepdims=keepdims),
    )


def test_reductions_of_integers_and_bools():
    a = np.arange(12).reshape(3, 4)
    for kind in ("i1", "i4", "u1", "?"):
        b = a.astype(kind)
        x = xp.asarray(b)
        wide = "u8" if kind == "u1" else "i8"
        assert xp.sum(x).dtype == xp.prod(x + 0).dtype == getattr(xp, np.dtype(wide).name)
        same(xp.cumulative_sum(x, axis=1), np.cumulative_sum(b.astype(wide), axis=1))
    assert xp.sum(xp.asarray(a), dtype=xp.float32).dtype == xp.float32
    assert xp.sum(xp.zeros((2, 3)), axis=()).shape == (2, 3)
    assert np_of(xp.var(xp.asarray([1.0, 2.0, 4.0]), correction=1)) == pytest.approx(7 / 3)
    same(xp.cumulative_sum(xp.asarray(a), axis=0, include_initial=True),
         np.cumulative_sum(a, axis=0, include_initial=True))  # fmt: skip
    same(xp.cumulative_prod(xp.asarray(a[0] + 1.0), include_initial=True),
         np.cumulative_prod(a[0] + 1.0, include_initial=True))  # fmt: skip
    with pytest.raises(pf.ValueError, match="without axis"):
        xp.cumulative_sum(xp.asarray(a))


def test_arrays_of_other_shapes():
    a, x = matrix(2, 3, 4)
    for f, axis in (("concat", 1), ("concat", None), ("stack", -1)):
        same(getattr(xp, f)([x, x], axis=axis), getattr(np, f)([a, a], axis=axis))
    for f, args, options in (
        ("expand_dims", (), {"axis": 1}), ("flip", (), {}), ("flip", (), {"axis": (0, 2)}),
        ("flip", (), {"axis": -1}), ("moveaxis", (0, 2), {}), ("permute_dims", ((2, 0, 1),), {}),
        ("reshape", ((4, 6),), {}), ("roll", (2,), {}), ("roll", (2,), {"axis": 1}),
        ("roll", ((1, 2),), {"axis": (0, 1)}), ("tile", ((2, 1, 1, 2),), {}), ("tile", ((2,),), {}),
        ("repeat", (2,), {}), ("repeat", (3,), {"axis": 1}), ("broadcast_to", ((5, 2, 3, 4),), {}),
        ("matrix_transpose", (), {}), ("tril", (), {"k": -1}), ("triu", (), {"k": 1}), ("diff", (), {"axis": 1}),
        ("diff", (), {"n": 2}), ("sort", (), {}), ("argsort", (), {"axis": 0}), ("argmax", (), {}),
        ("argmax", (), {"axis": 1, "keepdims": True}), ("argmin", (), {"keepdims": True}),
    ):  # fmt: skip
        same(getattr(xp, f)(x, *args, **options), getattr(np, f)(a, *args, **options))
    same(xp.repeat(x, xp.asarray([1, 0, 2]), axis=1), np.repeat(a, [1, 0, 2], axis=1))
    for got, want in zip(xp.unstack(x, axis=1), np.unstack(a, axis=1)):
        same(got, want)
    for got, want in zip(xp.broadcast_arrays(x, x[:, :1]), np.broadcast_arrays(a, a[:, :1])):
        same(got, want)
    for got, want in zip(xp.meshgrid(x[0, 0], x[0, :, 0]), np.meshgrid(a[0, 0], a[0, :, 0])):
        same(got, want)
    same(xp.sort(x, descending=True), -np.sort(-a))
    same(xp.squeeze(x[:, :1], 1), a[:, 0])
    with pytest.raises(pf.ValueError, match="length 1"):
        xp.squeeze(x, 0)
    with pytest.raises(pf.IndexError):
        xp.expand_dims(x, axis=4)


def test_copies():
    x = xp.zeros((2, 3))
    assert xp.reshape(x, (6,)).data_ptr() == x.data_ptr()
    assert xp.reshape(x, (6,), copy=True).data_ptr() != x.data_ptr()
    with pytest.raises(pf.ValueError, match="copy=False"):
        xp.reshape(x.T, (6,), copy=False)
    assert xp.asarray(x).data_ptr() == x.data_ptr()
    assert xp.asarray(x, copy=True).data_ptr() != x.data_ptr()
    assert xp.astype(x, xp.float32).data_ptr() != x.data_ptr()
    assert xp.astype(x, xp.float32, copy=False).data_ptr() == x.data_ptr()
    for given, options in ((x, {"dtype": xp.int8}), ([1, 2], {})):
        with pytest.raises(pf.ValueError, match="copy=False"):
            xp.asarray(given, copy=False, **options)


def test_taking_and_searching():
    a, x = matrix(4, 5)
    at = np.array([3, 0, -1])
    same(xp.take(x, xp.asarray(at), axis=1), np.take(a, at, axis=1))
    same(xp.take(x[0], xp.asarray(at)), np.take(a[0], at))
    along = np.array([[0, -1], [1, 1], [2, 0], [4, 3]])
    same(xp.take_along_axis(x, xp.asarray(along), axis=1), np.take_along_axis(a, along, axis=1))
    for got, want in zip(xp.nonzero(x > 0), np.nonzero(a > 0)):
        same(got, want)
    s = np.sort(a[0])
    same(xp.searchsorted(xp.asarray(s), x, side="right"), np.searchsorted(s, a, side="right"))
    same(xp.where(x > 0, x, 0.0), np.where(a > 0, a, 0.0))
    with pytest.raises(pf.ShapeError):
        xp.nonzero(xp.asarray(1.0))
    with pytest.raises(pf.ValueError):
        xp.take(x, xp.asarray([0]))


def test_division_of_infinities_and_zeros():
    """The standard's, where operators are NumPy's."""
    inf, nan = np.inf, np.nan
    x1 = [inf, inf, -inf, 5.0, -5.0, 5.0, -5.0, inf, 0.0, 7.0]
    x2 = [2.0, -2.0, 2.0, -inf, inf, inf, -inf, inf, 2.0, 2.0]
    for kind in ("float32", "float64"):
        a, b = (xp.asarray(x, dtype=getattr(xp, kind)) for x in (x1, x2))
        got = xp.floor_divide(a, b)
        same(got, np.array([inf, -inf, -inf, -0.0, -0.0, 0, 0, nan, 0, 3], kind))
        assert np.signbit(np_of(got)).tolist()[3:5] == [True, True]
        zeros = xp.asarray([-0.0, 0.0, 4.0, -4.0], dtype=getattr(xp, kind))
        got = xp.remainder(zeros, xp.asarray([2.0, -2.0, -2.0, 2.0], dtype=getattr(xp, kind)))
        assert np.signbit(np_of(got)).tolist() == [False, True, True, False]
    assert not np.signbit(np_of(xp.remainder(xp.asarray([-0.0]), 2.0)))[0]
    assert np_of(xp.floor_divide(xp.asarray([7, -7]), 2)).tolist() == [3, -4]
    assert np_of(xp.asarray([3, 4, 5])[::-2]).tolist() == [5, 3]


def test_clip():
    a, x = matrix(3, 4)
    same(xp.clip(x, -0.5, 0.5), np.clip(a, -0.5, 0.5))
    same(xp.clip(x, max=0.1), np.clip(a, None, 0.1))
    same(xp.clip(x, xp.asarray(a[0]), None), np.clip(a, a[0], None))
    same(xp.clip(x, xp.asarray(a[0]), 3.0), np.clip(a, a[0], 3.0))
    same(xp.clip(x), a)
    i = xp.asarray([1, 5, 9])
    assert xp.clip(i, 2, 7).dtype == xp.int64


def test_creation():
    for f, args, options in (
        ("arange", (5,), {}), ("arange", (2, 9, 3), {}), ("arange", (5, 1), {}), ("arange", (5, 1, -2), {}),
        ("arange", (0.0, 1.0, 0.25), {}), ("linspace", (0.0, 1.0, 5), {}), ("linspace", (0, 1, 4), {"endpoint": False}),
        ("eye", (3,), {}), ("eye", (3, 5), {"k": 2}), ("eye", (4, 2), {"k": -1}),
        ("zeros", (3,), {}), ("ones", ((2, 3),), {}), ("full", ((2,), 7), {}), ("full", (2, 1.5), {}), ("full", ((), True), {}),
    ):  # fmt: skip
        got, want = getattr(xp, f)(*args, **options), getattr(np, f)(*args, **options)
        want = want.astype("f4") if want.dtype == np.float64 else want
        same(got, want)
    x = xp.ones((2, 2), dtype=xp.int16)
    for f in (xp.zeros_like, xp.ones_like, xp.empty_like):
        assert f(x).dtype == xp.int16 and f(x, dtype=xp.float64).dtype == xp.float64
    assert np_of(xp.full_like(x, 3)).tolist() == [[3, 3], [3, 3]]
    with pytest.raises(pf.ValueError, match="step 0"):
        xp.arange(1, 2, 0)


def test_sets():
    a = np.array([[3, 1, 3], [2, 1, 3]])
    for f in ("unique_all", "unique_counts", "unique_inverse"):
        got, want = getattr(xp, f)(xp.asarray(a)), getattr(np, f)(a)
        assert got._fields == want._fields
        for g, w in zip(got, want):
            same(g, w)
    b = np.array([np.nan, 1.0, np.nan, -0.0, 0.0])
    values, indices, inverse, counts = xp.unique_all(xp.asarray(b))
    assert counts.tolist() == [2, 1, 1, 1] and indices.tolist() == [3, 1, 0, 2]
    assert np.isnan(np_of(values)[2:]).all() and inverse.tolist() == [2, 1, 3, 0, 0]


def test_arrays_without_dimensions():
    one = xp.asarray(3)
    assert xp.reshape(one, (1,)).shape == (1,) and xp.reshape(xp.asarray([3]), ()).shape == ()
    assert xp.reshape(xp.asarray([3]), (), copy=False).shape == ()
    assert (
        xp.unique_all(one).inverse_indices.shape
        == xp.unique_inverse(one).inverse_indices.shape
        == ()
    )
    assert xp.argmax(one, keepdims=True).shape == () and xp.expand_dims(one, 0).shape == (1,)


def test_complex_arrays():
    a = np.array([[1 + 2j, -0.5j], [3, 0]])
    x = xp.asarray(a)
    same(xp.full((2,), 1 - 1j, dtype=xp.complex128), np.full(2, 1 - 1j))
    same(xp.full_like(x, 2j), np.full_like(a, 2j))
    assert xp.full((1,), 1j).dtype == xp.complex64
    for name in "acos acosh asin asinh atan atanh exp expm1 log sqrt tanh square".split():
        same(getattr(xp, name)(x + 0.25), getattr(np, {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin",
             "asinh": "arcsinh", "atan": "arctan", "atanh": "arctanh"}.get(name, name))(a + 0.25))  # fmt: skip
    same(xp.cumulative_sum(x, axis=0), np.cumulative_sum(a, axis=0))
    same(xp.cumulative_prod(x, axis=1), np.cumulative_prod(a, axis=1))
    for got, want in zip(xp.nonzero(x), np.nonzero(a)):
        same(got, want)
    same(xp.count_nonzero(x, axis=0), np.count_nonzero(a, axis=0))
    same(xp.all(x, axis=1), np.all(a, axis=1))


def test_products():
    with pytest.raises(pf.ShapeError, match="expected the same"):
        xp.vecdot(xp.zeros((2, 3)), xp.zeros((2, 1)))
    a, x = matrix(2, 3, 4)
    b, y = matrix(2, 4, 3, seed=3)
    same(xp.matmul(x, y), a @ b)
    same(xp.tensordot(x, y, axes=((0, 2), (0, 1))), np.tensordot(a, b, axes=((0, 2), (0, 1))))
    same(xp.vecdot(x, x), np.vecdot(a, a))
    same(xp.vecdot(x, x, axis=-2), np.vecdot(a, a, axis=-2))
    i = xp.asarray([1, 2, 3])
    assert xp.vecdot(i, i).item() == 14 and xp.vecdot(i, i).dtype == xp.int64
    with pytest.raises(pf.ValueError, match="negative"):
        xp.vecdot(x, x, axis=0)


def test_dtypes():
    assert xp.isdtype(xp.int8, "signed integer") and not xp.isdtype(xp.int8, "unsigned integer")
    assert xp.isdtype(xp.float32, ("integral", xp.float32)) and xp.isdtype(xp.bool, "bool")
    assert not xp.isdtype(xp.bool, "numeric") and xp.isdtype(xp.complex64, "numeric")
    assert xp.result_type(xp.int8, xp.uint8) == xp.int16
    assert xp.result_type(xp.asarray([1.0]), 2) == xp.float32
    assert xp.result_type(xp.int32, xp.asarray([1]), 3) == xp.int64
    assert xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(xp.int16, xp.int8)
    assert not xp.can_cast(xp.int8, xp.float32) and not xp.can_cast(xp.bool, xp.int8)
    assert xp.can_cast(xp.float32, xp.float64) and xp.can_cast(xp.float32, xp.complex64)
    f, want = xp.finfo(xp.float32), np.finfo("f4")
    assert (f.bits, f.eps, f.max, f.min) == (32, want.eps, want.max, want.min)
    assert f.smallest_normal == want.smallest_normal and f.dtype == xp.float32
    i = xp.iinfo(xp.asarray([1], dtype=xp.int16))
    assert (i.bits, i.max, i.min, i.dtype) == (16, 32767, -32768, xp.int16)
    for wrong in (lambda: xp.isdtype(xp.int8, "int"), lambda: xp.result_type(1)):
        with pytest.raises(pf.ValueError):
            wrong()


def test_what_the_namespace_tells():
    info = xp.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] is True
    assert info.default_device() in info.devices()
    assert info.default_dtypes()["real floating"] == pf.float32
    assert len(info.dtypes(kind="integral")) == 8 and len(info.dtypes(kind="unsigned integer")) == 4
    assert list(info.dtypes(kind=("bool", "real floating"))) == ["bool", "float32", "float64"]
    for name, dtype in info.dtypes(kind=("integral", "real floating")).items():  # they do calculate
        assert (xp.ones((2,), dtype=dtype) + 1).dtype == dtype, name
    with pytest.raises(pf.ValueError):
        info.dtypes(kind="real")


def test_arrays_know_their_namespace():
    x = pf.ones(2)
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(pf.ValueError, match="2030.12"):
        x.__array_namespace__(api_version="2030.12")
    assert x.to_device("cpu").device == pf.device("cpu")
    theirs = np.arange(3.0)
    assert xp.from_dlpack(theirs).data_ptr() == theirs.ctypes.data
    assert xp.from_dlpack(theirs, copy=True).data_ptr() != theirs.ctypes.data


LINALG = ["cholesky", "det", "eigvalsh", "inv", "pinv", "svdvals", "matrix_rank"]


@pytest.mark.parametrize("name", LINALG)
def test_linear_algebra(name):
    a = np.random.default_rng(5).normal(size=(2, 4, 4))
    a = a @ a.transpose(0, 2, 1) + np.eye(4)
    got = np_of(getattr(xp.linalg, name)(xp.asarray(a)))
    np.testing.assert_allclose(got, getattr(np.linalg, name)(a), rtol=1e-9, atol=1e-9)


def test_linear_algebra_with_several_results():
    a = np.random.default_rng(6).normal(size=(4, 4))
    x = xp.asarray(a)
    q, r = xp.linalg.qr(x)
    np.testing.assert_allclose(np_of(xp.matmul(q, r)), a, atol=1e-12)
    u, s, vh = xp.linalg.svd(x[:, :3], full_matrices=False)
    np.testing.assert_allclose(np_of((u * s) @ vh), a[:, :3], atol=1e-12)
    sign, log = xp.linalg.slogdet(x)
    np.testing.assert_allclose(np_of(sign) * np.exp(np_of(log)), np.linalg.det(a))
    w, v = xp.linalg.eigh(x + x.T)
    np.testing.assert_allclose(np_of((v * w) @ v.T), a + a.T, atol=1e-12)
    same(xp.linalg.solve(x, xp.asarray(a[:, 0])), np.linalg.solve(a, a[:, 0]))
    assert xp.linalg.solve(x, xp.ones((4,), dtype=xp.float32)).dtype == xp.float64
    same(xp.linalg.matrix_norm(x), np.linalg.matrix_norm(a))
    same(xp.linalg.vector_norm(x, axis=(0, 1)), np.linalg.vector_norm(a, axis=(0, 1)))
    same(
        xp.linalg.vector_norm(x, ord=1, axis=0, keepdims=True),
        np.linalg.vector_norm(a, ord=1, axis=0, keepdims=True),
    )
    same(xp.linalg.trace(x, offset=1), np.linalg.trace(a, offset=1))
    same(xp.linalg.matrix_power(x, 3), np.linalg.matrix_power(a, 3))
    same(xp.linalg.outer(x[0], x[1]), np.linalg.outer(a[0], a[1]))
    same(xp.linalg.cross(x[:, :3], x[:, 1:]), np.linalg.cross(a[:, :3], a[:, 1:]))
    same(xp.linalg.diagonal(x, offset=-1), np.linalg.diagonal(a, offset=-1))


@pytest.mark.parametrize("name", "fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn".split())
def test_fourier_transforms(name):
    rng = np.random.default_rng(7)
    a = rng.normal(size=(3, 8))
    if name in ("fft", "ifft", "irfft", "hfft", "fftn", "ifftn", "irfftn"):
        a = a + 1j * rng.normal(size=(3, 8))
    for norm in ("backward", "ortho"):
        options = {"axes": (0, 1)} if name.endswith("n") else {"axis": 1}
        got = np_of(getattr(xp.fft, name)(xp.asarray(a), norm=norm, **options))
        np.testing.assert_allclose(got, getattr(np.fft, name)(a, norm=norm, **options), atol=1e-12)


def test_frequencies():
    same(xp.fft.fftfreq(5, d=0.1, dtype=xp.float64), np.fft.fftfreq(5, 0.1))
    same(xp.fft.rfftfreq(6, dtype=xp.float64), np.fft.rfftfreq(6))
    a = np.arange(12.0).reshape(3, 4)
    same(xp.fft.fftshift(xp.asarray(a)), np.fft.fftshift(a))
    same(xp.fft.ifftshift(xp.asarray(a), axes=1), np.fft.ifftshift(a, axes=1))
