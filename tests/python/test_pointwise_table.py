"""Every row of the pointwise table against its reference column: NumPy or SciPy text that shares
nothing with the row's body. Dtypes, layouts, special values, gradients, in-place forms."""

import os

import numpy as np
import pytest
import scipy.special as sp

import pyflame as pf

pytestmark = pytest.mark.kernels(0.1)

DEVICE = os.environ.get("PYFLAME_TEST_DEVICE", "cpu")


def tensor(*args, **kwargs):
    return pf.tensor(*args, device=DEVICE, **kwargs)


ROWS = {row["name"]: row for row in pf._C._pointwise_rows() if not row["runtime"]}
PUBLIC = [name for name, row in ROWS.items() if row["python"]]
FLOAT_ROWS = [n for n in PUBLIC if ROWS[n]["rule"] in ("Float", "Arith", "Keep", "Compare", "Test")]
INT_ROWS = [n for n in PUBLIC if ROWS[n]["rule"] in ("Arith", "Compare", "IntOnly", "Select")]
LAYOUTS = ["contiguous", "transposed", "sliced", "broadcast", "zero_dim", "empty"]

# What is allowed beside the rounding of the dtype: (relative, absolute) in float32 and float64.
# Sums that cancel, such as 1 + erf, have an absolute error only.
TOLERANCE = {"float64": (4e-15, 1e-15), "float32": (2e-6, 3e-7)}
LOOSE = {
    # float32 bodies of several steps near a zero of the result
    "float32": {
        "gelu": (4e-6, 1e-5),
        "tan": (2e-5, 2e-5),
        "pow": (2e-5, 1e-6),
        "logit": (1e-5, 1e-6),
        "sinc": (1e-5, 1e-6),
        "frac": (2e-6, 1e-6),
        "logaddexp2": (4e-6, 1e-6),
        "tanhshrink": (2e-6, 1e-6),
        "lerp": (1e-5, 2e-5),
        "remainder": (2e-5, 2e-5),
        "fmod": (2e-5, 2e-5),
    },
    "float64": {
        "gelu": (1e-14, 2e-14),
        "tan": (1e-13, 1e-13),
        "sinc": (1e-14, 1e-14),
        "pow": (1e-13, 1e-15),
        "logit": (1e-14, 1e-14),
        "lerp": (1e-14, 1e-13),
        "mish": (1e-14, 1e-15),
        "sigmoid": (1e-14, 1e-15),
        "silu": (1e-14, 1e-15),
        "remainder": (1e-13, 1e-13),
        "fmod": (1e-13, 1e-13),
    },
}
SPECIAL = np.array([0.0, -0.0, 0.5, -0.5, 1, -1, 2, -2.5, 3, 6, 20, -20, 40, -40, 89, -104])
NONFINITE = np.array([np.inf, -np.inf, np.nan])


def attributes(row):
    """Keyword arguments of the call and the variables of the reference."""
    values = [v for _, v in row["attrs"]]
    if row["name"] == "nan_to_num":
        values = [0.25, 3.0, -4.0]
    if row["name"] == "clamp":
        values = [-0.5, 0.75]
    return {k: v for (k, _), v in zip(row["attrs"], values)}, values


def reference(row, arrays, values):
    names = dict(zip("xyz", arrays))
    names.update({f"a{i}": v for i, v in enumerate(values)})
    with np.errstate(all="ignore"):
        return eval(row["reference"], {"np": np, "sp": sp, **names})


def call(row, tensors, attrs):
    if row["name"] == "isclose":
        attrs = {**attrs, "equal_nan": bool(attrs["equal_nan"])}
    return getattr(pf, row["python"])(*tensors, **attrs)


def floats(shape, seed, wide=False):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape) * (30 if wide else 2)
    flat = x.reshape(-1)
    values = np.roll(SPECIAL, 3 * seed)
    flat[: min(len(values), flat.size)] = values[: flat.size]
    if wide:
        flat[len(values) : len(values) + 3] = np.roll(NONFINITE, seed)
    return x


def arrange(x, layout):
    """A tensor of that layout and the array with the same elements."""
    if layout == "transposed":
        return tensor(np.ascontiguousarray(x.T)).t(), x
    if layout == "sliced":
        padded = np.zeros((x.shape[0], 2 * x.shape[1] + 1), x.dtype)
        padded[:, 1::2] = x
        return tensor(padded)[:, 1::2], x
    if layout == "broadcast":
        return tensor(x[:1]).expand(x.shape[0], x.shape[1]), np.broadcast_to(x[:1], x.shape)
    if layout == "zero_dim":
        return tensor(x[0, 2]), np.asarray(x[0, 2])
    if layout == "empty":
        return tensor(x[:0]), x[:0]
    return tensor(x), x


def operands(row, dtype, wide=False, shape=(5, 13)):
    """float64 arrays that hold values of `dtype`, so that the reference rounds only once."""
    arrays = []
    for i in range(row["arity"]):
        x = floats(shape, i, wide)
        if row["rule"] == "Select" and i == 0:
            arrays.append(x > 0)
            continue
        t = tensor(x).to(dtype)
        arrays.append(t.to(pf.float64).detach().cpu().numpy())
    return arrays


def compare(name, got, want, dtype):
    kind = str(dtype).removeprefix("pyflame.").removeprefix("torch.")
    got = (
        got.to(pf.float64).detach().cpu().numpy()
        if got.dtype != pf.bool
        else got.detach().cpu().numpy()
    )
    want = np.asarray(want)
    assert got.shape == want.shape, name
    if got.dtype == bool:
        np.testing.assert_array_equal(got, want.astype(bool), err_msg=name)
        return
    rtol, atol = LOOSE.get(kind, {}).get(name, TOLERANCE.get(kind, (0, 0)))
    if kind in ("float16", "bfloat16"):
        rtol, atol = (2e-3, 2e-3) if kind == "float16" else (1.6e-2, 1e-2)
    if kind in ("float32", "float16", "bfloat16"):  # what overflows there is inf
        with np.errstate(over="ignore"):
            want = tensor(np.ascontiguousarray(want, np.float64)).to(dtype).to(pf.float64)
            want = want.detach().cpu().numpy().reshape(got.shape)
            if kind == "float32":
                tiny = np.abs(want) < 1.2e-38  # subnormals may be flushed
                want, got = np.where(tiny, 0, want), np.where(np.abs(got) < 1.2e-38, 0, got)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=name)


@pytest.mark.parametrize("name", [n for n in FLOAT_ROWS] + ["where"])
@pytest.mark.parametrize("dtype", [pf.float32, pf.float64, pf.float16, pf.bfloat16], ids=str)
def test_float_values(name, dtype):
    row = ROWS[name]
    attrs, values = attributes(row)
    arrays = operands(row, dtype)
    tensors = [tensor(a) if a.dtype == bool else tensor(a).to(dtype) for a in arrays]
    want = reference(row, arrays, values)
    result = call(row, tensors, attrs)
    if dtype in (pf.float16, pf.bfloat16) and name in ("floor_divide", "remainder", "fmod"):
        # The reference's own steps are rounded there; the quotient may fall on the other side.
        x, y = arrays
        with np.errstate(all="ignore"):
            safe = np.abs(x / y - np.round(x / y)) > 0.02
        safe &= np.isfinite(want)
        compare(name, result.to(pf.float64)[tensor(safe)].to(dtype), want[safe], dtype)
        return
    compare(name, result, want, dtype)


@pytest.mark.parametrize("name", [n for n in FLOAT_ROWS])
@pytest.mark.parametrize("dtype", [pf.float32, pf.float64], ids=str)
def test_wide_and_non_finite_values(name, dtype):
    row = ROWS[name]
    if name in ("remainder", "fmod", "floor_divide", "tan", "lerp"):
        pytest.skip("where NumPy itself differs at infinities, or the condition is bad")
    attrs, values = attributes(row)
    arrays = operands(row, dtype, wide=True)
    want = reference(row, arrays, values)
    got = call(row, [tensor(a).to(dtype) for a in arrays], attrs)
    if name in ("silu", "mish", "hardswish"):  # -inf * 0 is NaN, as in PyTorch
        keep = ~np.isinf(arrays[0])
        got, want = got.to(pf.float64)[tensor(keep)].to(dtype), want[keep]
    if name in ("logaddexp2", "softsign", "sinc", "frac", "tanhshrink"):
        keep = np.all([np.isfinite(a) for a in arrays], axis=0)
        got, want = got.to(pf.float64)[tensor(keep)].to(dtype), want[keep]
    compare(name, got, want, dtype)


@pytest.mark.parametrize("name", PUBLIC)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(name, layout):
    row = ROWS[name]
    attrs, values = attributes(row)
    if row["rule"] in ("IntOnly", "Logic"):
        arrays = [np.random.default_rng(i).integers(0, 6, (5, 13)) for i in range(row["arity"])]
    else:
        arrays = operands(row, pf.float64)
    pairs = [arrange(a, layout if i == 0 else "contiguous") for i, a in enumerate(arrays)]
    if layout in ("zero_dim", "empty"):
        pairs = [arrange(a, layout) for a in arrays]
    want = reference(row, [p[1] for p in pairs], values)
    compare(name, call(row, [p[0] for p in pairs], attrs), want, pf.float64)
    if row["arity"] > 1 and layout == "contiguous":  # rows against columns
        views = [(p[0][:1], p[1][:1]) if i == 0 else (p[0][:, :1], p[1][:, :1])
                 for i, p in enumerate(pairs)]  # fmt: skip
        want = reference(row, [v[1] for v in views], values)
        compare(name, call(row, [v[0] for v in views], attrs), want, pf.float64)


@pytest.mark.parametrize("name", INT_ROWS)
@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8"])
def test_integer_values(name, dtype):
    row = ROWS[name]
    attrs, values = attributes(row)
    values = [int(np.ceil(v)) for v in values]
    if dtype == "uint8" and min(values, default=0) < 0:
        pytest.skip("bounds below 0")
    attrs = dict(zip(attrs, values))
    rng = np.random.default_rng(0)
    low = 0 if dtype == "uint8" else -60
    arrays = [rng.integers(low, 60, (7, 9)).astype(dtype) for _ in range(row["arity"])]
    if name in ("floor_divide", "remainder", "fmod"):
        arrays[1] = np.where(arrays[1] == 0, 1, arrays[1]).astype(dtype)
    if name in ("pow", "bitwise_left_shift", "bitwise_right_shift"):
        arrays[1] = rng.integers(0, 5, (7, 9)).astype(dtype)
    if row["rule"] == "Select":
        arrays[0] = arrays[0] > 20
    want = np.asarray(reference(row, arrays, values))
    got = call(row, [tensor(a) for a in arrays], attrs)
    assert str(got.dtype).split(".")[-1] == str(want.dtype), (name, got.dtype, want.dtype)
    np.testing.assert_array_equal(got.detach().cpu().numpy(), want, err_msg=name)


@pytest.mark.parametrize("name", [n for n in PUBLIC if ROWS[n]["rule"] in ("Float", "Test")])
def test_integers_become_the_default_float(name):
    row = ROWS[name]
    attrs, values = attributes(row)
    arrays = [np.random.default_rng(i).integers(1, 9, (3, 4)) for i in range(row["arity"])]
    got = call(row, [tensor(a) for a in arrays], attrs)
    want = reference(row, [a.astype(np.float64) for a in arrays], values)
    assert got.dtype == (pf.bool if row["rule"] == "Test" else pf.float32)
    compare(name, got, want, pf.float32)


# ---- gradients -------------------------------------------------------------------------------------

DIFFERENTIABLE = [n for n in PUBLIC if ROWS[n]["differentiable"]]
POINTS = np.array([-2.31, -1.17, -0.83, -0.37, 0.29, 0.61, 0.97, 1.43, 2.19, 3.37])


def numeric(f, arrays, i, h=1e-5):
    up, down = list(arrays), list(arrays)
    up[i], down[i] = arrays[i] + h, arrays[i] - h
    return (f(up) - f(down)) / (2 * h)


def smooth_points(row):
    arrays = [np.roll(POINTS, 3 * i) + 0.013 * i for i in range(row["arity"])]
    if row["rule"] == "Select":
        arrays[0] = arrays[0] > 0
    return arrays


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name):
    row = ROWS[name]
    attrs, values = attributes(row)
    arrays = smooth_points(row)

    def value(a):
        return call(row, [tensor(x) for x in a], attrs).detach().cpu().numpy()

    tensors = [tensor(a) for a in arrays]
    for t in tensors:
        if t.dtype == pf.float64:
            t.requires_grad_()
    out = call(row, tensors, attrs)
    weight = np.linspace(0.5, 1.5, len(POINTS))
    out.backward(tensor(weight))
    for i, t in enumerate(tensors):
        if not t.requires_grad:
            continue
        want = weight * numeric(value, arrays, i)
        keep = np.isfinite(want) & (np.abs(want) < 1e3)
        assert keep.sum() >= 3, name
        np.testing.assert_allclose(
            t.grad.detach().cpu().numpy()[keep], want[keep], rtol=1e-6, atol=1e-7
        )


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_second_derivatives(name):
    row = ROWS[name]
    attrs, values = attributes(row)
    arrays = smooth_points(row)
    floats_at = [i for i, a in enumerate(arrays) if a.dtype == np.float64]

    def first(a, i, create_graph=False):
        tensors = [tensor(x) for x in a]
        for k in floats_at:
            tensors[k].requires_grad_()
        out = call(row, tensors, attrs)
        (g,) = pf.autograd.grad(
            out.sum(), [tensors[i]], create_graph=create_graph, allow_unused=True
        )
        return tensors, g

    for i in floats_at:
        tensors, g = first(arrays, i, create_graph=True)
        if g is None or not g.requires_grad:
            continue
        seconds = pf.autograd.grad(g.sum(), [tensors[k] for k in floats_at], allow_unused=True)
        for k, second in zip(floats_at, seconds):
            want = numeric(lambda a, i=i: first(a, i)[1].detach().cpu().numpy(), arrays, k)
            got = np.zeros_like(want) if second is None else second.detach().cpu().numpy()
            keep = np.isfinite(want) & (np.abs(want) < 1e3)
            np.testing.assert_allclose(
                got[keep], want[keep], rtol=2e-5, atol=2e-6, err_msg=f"{name}: {i}, {k}"
            )


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if ROWS[n]["family"] == "activation"])
@pytest.mark.parametrize("dtype", [pf.float32, pf.float64], ids=str)
def test_activations_have_finite_gradients_at_extremes(name, dtype):
    row = ROWS[name]
    attrs, _ = attributes(row)
    x = tensor([0.0, 40.0, -40.0, 100.0, -100.0, 1000.0, -1000.0, 1e4, -1e4]).to(dtype)
    x.requires_grad_()
    y = call(row, [x], attrs)
    y.sum().backward()
    assert bool(pf.isfinite(y).all()) and bool(pf.isfinite(x.grad).all()), name


# ---- in place ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in PUBLIC if ROWS[n]["inplace"]])
def test_in_place_forms(name):
    row = ROWS[name]
    attrs, _ = attributes(row)
    if row["rule"] in ("IntOnly", "Logic"):
        arrays = [np.random.default_rng(i).integers(0, 6, (4, 6)) for i in range(row["arity"])]
    else:
        arrays = operands(row, pf.float32, shape=(4, 6))
    dtype = pf.int64 if row["rule"] in ("IntOnly", "Logic") else pf.float32
    tensors = [tensor(a).to(dtype) for a in arrays]
    want = call(row, tensors, attrs).to(dtype).detach().cpu().numpy()
    target = tensors[0].clone()
    kept = target
    result = getattr(target, name + "_")(*tensors[1:], **attrs)
    assert result is kept
    np.testing.assert_array_equal(target.detach().cpu().numpy(), want)
    wide = pf.zeros(4, 12, dtype=dtype, device=DEVICE)
    view = wide[:, ::2]
    view.copy_(tensors[0])
    getattr(view, name + "_")(*tensors[1:], **attrs)
    np.testing.assert_array_equal(wide[:, ::2].detach().cpu().numpy(), want)
    np.testing.assert_array_equal(wide[:, 1::2].detach().cpu().numpy(), np.zeros((4, 6)))


# ---- rows made at run time ---------------------------------------------------------------------------


def test_define():
    swish = pf.ops.define("swish_for_test", "x * sigmoid(b * x)", attrs={"b": 1.0})
    x = tensor([-1.5, 0.25, 2.0], dtype=pf.float64, requires_grad=True)
    y = swish(x, b=1.5)
    np.testing.assert_allclose(
        y.detach().cpu().numpy(),
        x.detach().cpu().numpy() * sp.expit(1.5 * x.detach().cpu().numpy()),
    )
    assert pf.autograd.gradcheck(lambda t: swish(t, b=1.5), (x,))
    assert pf.autograd.gradgradcheck(lambda t: swish(t), (x,))
    np.testing.assert_allclose(
        pf.swish_for_test(x).detach().cpu().numpy(), swish(x).detach().cpu().numpy()
    )
    assert "swish_for_test" in pf.ops.list()
    with pytest.raises(pf.ValueError, match="position 4"):
        pf.ops.define("broken_for_test", "x * foo(x)")
    with pytest.raises(pf.ValueError, match="defined already"):
        pf.ops.define("swish_for_test", "x + 1")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_are_exact(dtype):
    """fmod, remainder and floor_divide of pairs whose quotients lie on or beside whole numbers."""
    rng = np.random.default_rng(3)
    n = 20_000
    b = (rng.standard_normal(n) * 10.0 ** rng.integers(-30, 30, n)).astype(dtype)
    whole = rng.integers(-(2**20), 2**20, n) * 2.0 ** rng.integers(-10, 10, n)
    with np.errstate(all="ignore"):
        a = (b * np.trunc(whole)).astype(dtype)
        a = np.where(rng.random(n) < 0.3, np.nextafter(a, rng.choice([-np.inf, np.inf], n)), a)
        a = np.where(rng.random(n) < 0.2, rng.standard_normal(n), a).astype(dtype)
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -3.0, 5e-324, 1e300, -1e-300]
        pairs = np.array([(x, y) for x in special for y in special]).astype(dtype)
        a, b = np.r_[a, pairs[:, 0]], np.r_[b, pairs[:, 1]]
        x, y = pf.tensor(a), pf.tensor(b)
        for name in ("fmod", "remainder", "floor_divide"):
            got = getattr(pf, name)(x, y).cpu().numpy()
            want = getattr(np, name)(a, b)
            np.testing.assert_array_equal(got, want, err_msg=name)
            if name == "fmod":
                number = ~np.isnan(want)  # the sign of NaN says nothing
                np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))
