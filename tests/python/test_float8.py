"""Products of eight-bit floats and the layers that train by them, against float64."""

import math
import os

import numpy as np
import pytest
import standin
from standin import cache, run  # noqa: F401

import pyflame as pf
import pyflame.nn.functional as F
from pyflame import _ops, nn

pytestmark = pytest.mark.kernels(0.8)

E4M3, E5M2 = pf.float8_e4m3fn, pf.float8_e5m2
KINDS = [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3)]
OUT = [pf.bfloat16, pf.float16, pf.float32]
EPS = {pf.bfloat16: 2.0**-8, pf.float16: 2.0**-11, pf.float32: 2.0**-24}
# Of |a| |b|. Units of Hopper multiply eight bits with sums of about 14, also where they are added to
# float32 after every few: 1e-4 was measured on an H200, and 3.5e-4 of use_fast_accum.
UNITS = os.environ.get("PYFLAME_TEST_DEVICE") == "cuda" and "PYFLAME_STANDIN_SM" not in os.environ
SUM = 2.0**-11 if UNITS else 2.0**-22


def values(t):
    return t.detach().to(pf.float32).to(pf.float64).cpu().numpy()


def operands(m, k, n, kinds=(E4M3, E4M3), by_row=False, seed=0):
    rng = np.random.default_rng(seed)
    a = pf.tensor(rng.standard_normal((m, k)), dtype=pf.float32).to(kinds[0])
    b = pf.tensor(rng.standard_normal((n, k)), dtype=pf.float32).to(kinds[1]).t()
    sa = rng.uniform(0.1, 2, (m, 1) if by_row else ())
    sb = rng.uniform(0.1, 2, (1, n) if by_row else ())
    return a, b, pf.tensor(sa, dtype=pf.float32), pf.tensor(sb, dtype=pf.float32)


def check(got, a, b, sa, sb, bias=None):
    x, y, rows, columns = values(a), values(b), values(sa), values(sb)
    want = x @ y * rows * columns
    size = np.abs(x) @ np.abs(y) * np.abs(rows) * np.abs(columns)
    if bias is not None:
        want, size = want + values(bias), size + np.abs(values(bias))
    bound = np.abs(want) * EPS[got.dtype] + size * SUM + 1e-7
    assert (np.abs(values(got) - want) <= bound).all(), np.abs(values(got) - want).max()


@pytest.mark.parametrize("by_row", [False, True], ids=["whole", "rows"])
@pytest.mark.parametrize("kinds", KINDS, ids=["e4m3-e4m3", "e4m3-e5m2", "e5m2-e4m3"])
@pytest.mark.parametrize("m, k, n", [(1, 1, 1), (16, 16, 16), (33, 48, 32), (5, 17, 3), (70, 100, 65),
                                     (1, 64, 80), (64, 64, 1), (130, 256, 144)])  # fmt: skip
def test_scaled_product(m, k, n, kinds, by_row):
    a, b, sa, sb = operands(m, k, n, kinds, by_row)
    for dtype in OUT:
        got = pf._scaled_mm(a, b, sa, sb, out_dtype=dtype)
        assert got.dtype is dtype and tuple(got.shape) == (m, n)
        check(got, a, b, sa, sb)
        bias = pf.randn(n).to(dtype)
        check(pf._scaled_mm(a, b, sa, sb, bias, out_dtype=dtype), a, b, sa, sb, bias)
    bias = pf.randn(n).to(pf.bfloat16)  # as PyTorch has it beside float32 results
    got = pf._scaled_mm(a, b, sa, sb, bias, out_dtype=pf.float32)
    check(got, a, b, sa, sb, bias)


# What our kernel on Hopper takes as each of its tiles, with the four compute units of a stand-in.
TILES = [(1500, 300, 2500), (1400, 300, 2300)] if UNITS else [(130, 100, 500), (130, 260, 380)]


@pytest.mark.parametrize("m, k, n", [(33, 48, 32), (20, 300, 130), *TILES])
@pytest.mark.parametrize("fast", [False, True])
def test_fast_sums(m, k, n, fast):
    for kinds, by_row in zip(KINDS, (True, False, True), strict=True):
        a, b, sa, sb = operands(m, k, n, kinds, by_row)
        for dtype in OUT[1:] if kinds[0] is kinds[1] else OUT[:1]:
            bias = pf.randn(n).to(dtype)
            got = pf._scaled_mm(a, b, sa, sb, bias, out_dtype=dtype, use_fast_accum=fast)
            check(got, a, b, sa, sb, bias)


def test_operands_with_gaps_and_offsets():
    wide_a = pf.randn(40, 96).to(E4M3)
    wide_b = pf.randn(40, 96).to(E4M3)
    one = pf.tensor(1.0)
    for first, last in ((16, 64), (3, 50), (0, 17)):
        a, b = wide_a[1:31:2, first:last], wide_b[3:, first:last].t()
        check(pf._scaled_mm(a, b, one, one, out_dtype=pf.float32), a, b, one, one)


def test_every_value_counts():
    """The products of all values of the two dtypes with 1, one by one."""
    codes = pf.arange(256, dtype=pf.int32).to(pf.uint8)
    eye = pf.eye(16).to(E4M3)
    for kind in (E4M3, E5M2):
        finite = codes.view(kind).to(pf.float32)
        finite = pf.where(pf.isfinite(finite), finite, 0.0).to(kind)
        a = finite.reshape(16, 16)
        one = pf.tensor(1.0)
        got = pf._scaled_mm(a, eye.t(), one, one, out_dtype=pf.float32)
        assert np.array_equal(values(got), values(a))


def test_nan_and_infinity_stay_in_their_rows():
    a, b, sa, sb = operands(20, 32, 16, (E5M2, E4M3))
    x = a.to(pf.float32)
    x[3, 5], x[7, 1] = math.nan, math.inf
    got = values(pf._scaled_mm(x.to(E5M2), b, sa, sb, out_dtype=pf.float32))
    assert np.isnan(got[3]).all() and not np.isfinite(got[7]).any()
    assert np.isfinite(np.delete(got, [3, 7], 0)).all()
    y = pf.randn(20, 32)
    y[2, 2] = math.nan
    got = values(pf._scaled_mm(y.to(E4M3), b, sa, sb, out_dtype=pf.bfloat16))
    assert np.isnan(got[2]).all() and np.isfinite(np.delete(got, 2, 0)).all()
    zero = pf.zeros(4, 16).to(E4M3)
    got = pf._scaled_mm(zero, b[:16], sa, sb, out_dtype=pf.float16)
    assert values(got).tolist() == np.zeros((4, 16)).tolist()


def test_large_numbers_and_scales():
    a = pf.full((16, 32), 448.0).to(E4M3)
    b = pf.full((16, 32), 448.0).to(E4M3).t()
    one, tiny, huge = pf.tensor(1.0), pf.tensor(1e-20), pf.tensor(1e20)
    assert values(pf._scaled_mm(a, b, one, one, out_dtype=pf.float32)).max() == 448.0**2 * 32
    assert np.isinf(values(pf._scaled_mm(a, b, one, one, out_dtype=pf.float16))).all()
    got = values(pf._scaled_mm(a, b, tiny, huge, out_dtype=pf.float32))
    assert np.allclose(got, 448.0**2 * 32, rtol=1e-5)


def test_float8_results_saturate():
    a, b, sa, sb = operands(16, 32, 16)
    half = pf.tensor(0.5)
    exact = pf._scaled_mm(a, b, sa, sb, out_dtype=pf.float32)
    got = pf._scaled_mm(a, b, sa, sb)
    assert got.dtype is E4M3 and np.array_equal(values(got), values(exact.to(E4M3)))
    got = pf._scaled_mm(a, b, sa, sb, scale_result=half, out_dtype=E5M2)
    assert np.array_equal(values(got), values((exact * 0.5).to(E5M2)))
    large = pf._scaled_mm(a, b, pf.tensor(1e6), sb)
    assert np.abs(values(large)[values(exact) != 0]).max() == 448


@pytest.mark.parametrize("m, k, n", [(0, 16, 16), (16, 16, 0), (16, 0, 16), (0, 0, 0)])
def test_empty(m, k, n):
    one = pf.tensor(1.0)
    a, b = pf.zeros(m, k).to(E4M3), pf.zeros(n, k).to(E4M3).t()
    got = pf._scaled_mm(a, b, one, one, out_dtype=pf.bfloat16)
    assert tuple(got.shape) == (m, n) and not values(got).any()
    bias = pf.randn(n).to(pf.bfloat16)
    got = pf._scaled_mm(a, b, one, one, bias, out_dtype=pf.bfloat16)
    assert np.array_equal(values(got), np.broadcast_to(values(bias), (m, n)))


def test_refused():
    a, b, sa, sb = operands(16, 32, 48)
    bf16 = pf.bfloat16
    with pytest.raises(pf.ValueError, match="rows that lie dense"):
        pf._scaled_mm(pf.randn(32, 16).to(E4M3).t(), b, sa, sb)
    with pytest.raises(pf.ValueError, match="columns that lie dense"):
        pf._scaled_mm(a, pf.randn(32, 48).to(E4M3), sa, sb)
    with pytest.raises(pf.ShapeError, match="summed over"):
        pf._scaled_mm(a[:, :16], b, sa, sb)
    with pytest.raises(pf.ShapeError, match="a matrix"):
        pf._scaled_mm(a.reshape(2, 8, 32), b, sa, sb)
    with pytest.raises(pf.DTypeError, match="at least one"):
        pf._scaled_mm(a.to(pf.float32).to(E5M2), b.to(pf.float32).t().to(E5M2).t(), sa, sb)
    for kind in (pf.float8_e4m3fnuz, pf.float8_e5m2fnuz, pf.float8_e8m0fnu, bf16, pf.int8):
        with pytest.raises(pf.DTypeError, match="expected float8_e4m3fn or float8_e5m2"):
            pf._scaled_mm(pf.ones(16, 32).to(kind), b, sa, sb)
    with pytest.raises(pf.DTypeError, match="scale of"):
        pf._scaled_mm(a, b, sa.to(pf.float64), sb)
    for x, y in ((pf.ones(16), pf.ones(48)), (pf.ones(16, 1), pf.ones(1)), (sa, pf.ones(1, 48)),
                 (pf.ones(1, 16), pf.ones(48, 1)), (pf.ones(16, 2), pf.ones(1, 48))):  # fmt: skip
        with pytest.raises(pf.ShapeError, match="got scales"):
            pf._scaled_mm(a, b, x, y)
    with pytest.raises(pf.ShapeError, match="got bias"):
        pf._scaled_mm(a, b, sa, sb, pf.ones(16, dtype=bf16), out_dtype=bf16)
    with pytest.raises(pf.DTypeError, match="got bias"):
        pf._scaled_mm(a, b, sa, sb, pf.ones(48), out_dtype=bf16)
    with pytest.raises(pf.DTypeError, match="out_dtype"):
        pf._scaled_mm(a, b, sa, sb, out_dtype=pf.float64)
    with pytest.raises(pf.ValueError, match="scale_result"):
        pf._scaled_mm(a, b, sa, sb, scale_result=pf.tensor(1.0), out_dtype=bf16)


def test_public_name():
    kinds = F.ScalingType
    a, b, sa, sb = operands(16, 32, 48)
    got = F.scaled_mm(a, b, sa, kinds.TensorWise, sb, kinds.TensorWise)
    assert got.dtype is pf.bfloat16
    check(got, a, b, sa, sb)
    _, _, ra, rb = operands(16, 32, 48, by_row=True)
    got = F.scaled_mm(a, b, [ra.reshape(16)], [kinds.RowWise], rb, kinds.RowWise,
                      swizzle_a=F.SwizzleType.NO_SWIZZLE, output_dtype=pf.float32,
                      contraction_dim=(1, 0))  # fmt: skip
    check(got, a, b, ra, rb)
    with pytest.raises(pf.NotSupportedError, match="BlockWise128x128"):
        F.scaled_mm(a, b, sa, kinds.BlockWise128x128, sb, kinds.TensorWise)
    with pytest.raises(pf.NotSupportedError, match="swizzled"):
        F.scaled_mm(a, b, sa, kinds.TensorWise, sb, kinds.TensorWise, F.SwizzleType.SWIZZLE_32_4_4)
    with pytest.raises(pf.NotSupportedError, match="several levels"):
        F.scaled_mm(a, b, [sa, sa], [kinds.TensorWise] * 2, sb, kinds.TensorWise)
    with pytest.raises(pf.ValueError, match="the same for"):
        F.scaled_mm(a, b, ra, kinds.RowWise, sb, kinds.TensorWise)
    with pytest.raises(pf.ValueError, match="contraction_dim"):
        F.scaled_mm(a, b, sa, kinds.TensorWise, sb, kinds.TensorWise, contraction_dim=(0, 1))
    with pytest.raises(pf.ShapeError, match="expected 16 for"):
        F.scaled_mm(a, b, sa, kinds.RowWise, rb, kinds.RowWise)
    with pytest.raises(TypeError, match="ScalingType"):
        F.scaled_mm(a, b, sa, 0, sb, 0)


# ---- operands ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(1, 1), (16, 16), (5, 17), (64, 64), (80, 144), (65, 63), (3, 200)]
)
@pytest.mark.parametrize("dtype", OUT)
@pytest.mark.parametrize("kind", [E4M3, E5M2])
def test_operands_fill_the_range(kind, dtype, shape):
    x = pf.randn(*shape).to(dtype) * 3
    most = 448.0 if kind is E4M3 else 57344.0
    amax = np.float32(np.abs(values(x)).max())
    scale = np.float32(most) / amax
    out, turned, inverse = _ops._to_float8(x, kind, True)
    assert out.dtype is kind and turned.dtype is kind
    assert tuple(turned.shape) == shape[::-1] and turned.is_contiguous()
    assert np.array_equal(values(out).T, values(turned))
    assert inverse.item() == pytest.approx(1 / float(scale), rel=1e-6)
    want = values((x.to(pf.float32) * float(scale)).clamp(-most, most).to(kind))
    # The device's division may be off by a bit, and what it moves across half a step, a step.
    step = np.maximum(np.abs(want) * (0.125 if kind is E4M3 else 0.25), 2.0**-9)
    off = np.abs(values(out) - want)
    assert (off <= step).all() and (off > 0).mean() < 0.01
    assert np.abs(values(out)).max() == most
    again, scale_again = _ops._to_float8(x, kind)
    assert np.array_equal(values(again), values(out)) and scale_again.item() == inverse.item()


@pytest.mark.parametrize("kind", [E4M3, E5M2])
def test_scales_of_what_has_none(kind):
    def of(x):
        out, inverse = _ops._to_float8(pf.tensor(x, dtype=pf.float32), kind)
        return values(out), inverse.item()

    out, inverse = of([[0.0, -0.0]])
    assert inverse == 1 and not out.any()
    out, inverse = of([[1.0, math.inf, -math.inf, 1e4]])
    assert inverse == 1 and out[0, 0] == 1 and out[0, 3] == (448 if kind is E4M3 else 10240)
    assert (
        np.isnan(out[0, 1:3]).all()
        if kind is E4M3
        else out[0, 1:3].tolist() == [math.inf, -math.inf]
    )
    out, inverse = of([[math.nan, 2.0]])
    assert inverse == 1 and np.isnan(out[0, 0]) and out[0, 1] == 2
    out, inverse = of([[1e-38, -5e-39]])  # its scale would be infinite
    assert math.isfinite(inverse) and inverse > 0
    assert out[0, 0] * inverse == pytest.approx(1e-38, rel=0.07)
    out, inverse = of([[3e38, -3e38]])
    assert out[0, 0] * inverse == pytest.approx(3e38, rel=1e-6)


def test_operands_of_nothing_and_of_strides():
    out, turned, inverse = _ops._to_float8(pf.zeros(0, 5), E4M3, True)
    assert tuple(out.shape) == (0, 5) and tuple(turned.shape) == (5, 0) and inverse.item() == 1
    x = pf.randn(40, 70)
    for view in (x.t(), x[1::2, ::3], x[:1].expand(9, 70)):
        plain, inverse = _ops._to_float8(view.contiguous(), E4M3)
        out, turned, other = _ops._to_float8(view, E4M3, True)
        assert np.array_equal(values(out), values(plain)) and inverse.item() == other.item()
        assert np.array_equal(values(turned), values(plain).T)


# ---- layers --------------------------------------------------------------------------------------


def rounded(x, kind):
    """What a matrix is multiplied as, in float64."""
    out, inverse = _ops._to_float8(x, kind)
    return values(out) * inverse.item()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", OUT)
@pytest.mark.parametrize("n, k", [(48, 64), (20, 33)])
def test_layer_and_its_gradients(n, k, dtype, bias):
    layer = pf.float8.Float8Linear(k, n, bias=bias).to(dtype)
    x = pf.randn(3, 7, k).to(dtype).requires_grad_()
    y = layer(x)
    assert tuple(y.shape) == (3, 7, n) and y.dtype is dtype
    g = pf.randn(3, 7, n).to(dtype)
    y.backward(g)
    flat, gflat = x.detach().reshape(-1, k), g.reshape(-1, n)
    x8, w8 = rounded(flat, E4M3), rounded(layer.weight.detach(), E4M3)
    g8 = rounded(gflat, E5M2)

    def close(got, want, size):
        off = np.abs(values(got).reshape(want.shape) - want)
        assert (off <= np.abs(want) * EPS[dtype] + size * SUM * 4 + 1e-6).all(), off.max()

    want = x8 @ w8.T + (values(layer.bias) if bias else 0)
    close(y.detach(), want, np.abs(x8) @ np.abs(w8).T + 1)
    close(x.grad, g8 @ w8, np.abs(g8) @ np.abs(w8))
    close(layer.weight.grad, g8.T @ x8, np.abs(g8).T @ np.abs(x8))
    if bias:
        close(layer.bias.grad, values(gflat).sum(0), np.abs(values(gflat)).sum(0))
    assert x.grad.dtype is dtype and layer.weight.grad.dtype is dtype


def test_layer_under_autocast_and_without_gradients(device):
    layer = pf.float8.Float8Linear(32, 16)
    x = pf.randn(5, 32)
    with pf.autocast(device.type, dtype=pf.bfloat16):
        y = layer(x)
    assert y.dtype is pf.bfloat16
    y.sum().backward()
    assert layer.weight.grad.dtype is pf.float32
    with pf.no_grad():
        assert not layer(x).requires_grad
    assert tuple(layer(x[0]).shape) == (16,)
    assert tuple(layer(x[:0]).shape) == (0, 16)
    frozen = layer.weight.requires_grad_(False)
    layer(x.requires_grad_()).sum().backward()
    assert x.grad is not None and frozen.requires_grad is False
    with pytest.raises(pf.ShapeError, match="in_features"):
        layer(pf.randn(5, 31))
    with pytest.raises(pf.DTypeError, match="got input of"):
        layer(pf.randn(5, 32, dtype=pf.float64))


def test_infinity_reaches_the_gradient_scaler():
    layer = pf.float8.Float8Linear(32, 16)
    g = pf.randn(4, 16)
    g[1, 2] = math.inf
    layer(pf.randn(4, 32)).backward(g)
    assert not np.isfinite(values(layer.weight.grad)).all()


def test_conversion_of_a_model():
    class Own(nn.Linear):
        pass

    shared = nn.Linear(16, 16)
    model = nn.Sequential(
        shared, nn.ReLU(), shared, Own(16, 16), nn.ModuleDict({"head": nn.Linear(16, 4)})
    )
    before = dict(model.named_parameters())
    keys = list(model.state_dict())
    names = []
    same = pf.float8.convert_to_float8_training(
        model, lambda layer, name: names.append(name) or "head" not in name
    )
    assert same is model and "4.head" in names
    assert type(model[0]) is pf.float8.Float8Linear and model[0] is model[2]
    assert type(model[3]) is Own and type(model[4]["head"]) is nn.Linear
    after = dict(model.named_parameters())
    assert list(after) == list(before) and all(after[n] is before[n] for n in after)
    assert list(model.state_dict()) == keys
    alone = pf.float8.convert_to_float8_training(nn.Linear(8, 4, bias=False).eval())
    assert type(alone) is pf.float8.Float8Linear and alone.bias is None and not alone.training
    with pytest.raises(pf.DTypeError, match="float64"):
        pf.float8.convert_to_float8_training(nn.Linear(8, 4, dtype=pf.float64))
    with pytest.raises(TypeError, match="nn.Linear"):
        pf.float8.Float8Linear.from_float(nn.ReLU())


def test_training_learns():
    pf.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1))
    pf.float8.convert_to_float8_training(model)
    optimizer = pf.optim.AdamW(model.parameters(), lr=1e-2)
    x = pf.randn(256, 16)
    y = x[:, :1] * x[:, 1:2]
    first = None
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        first = first or loss.item()
    assert loss.item() < 0.3 * first


# ---- libraries -----------------------------------------------------------------------------------


@standin.MARKS[0]
@standin.MARKS[1]
@pytest.mark.parametrize("release", ["new", "old"])
@pytest.mark.parametrize("architecture", ["gfx1201", "gfx942"])
def test_through_a_library(run, architecture, release):  # noqa: F811
    """gfx1201 has a library's products, with its scales or (of old releases, of rows) ours; gfx942
    multiplies other kinds of float8."""
    code = f"""
sys.path.insert(0, {os.path.dirname(__file__)!r})
pf.set_device("rocm")
import test_float8 as t
def slow(kinds, by_row, m, k, n, bias=False):
    a, b, sa, sb = t.operands(m, k, n, kinds, by_row)
    before = pf.debug.stats()["slow"]
    for dtype in t.OUT:
        add = pf.randn(n).to(dtype) if bias else None
        t.check(pf._scaled_mm(a, b, sa, sb, add, out_dtype=dtype), a, b, sa, sb, add)
        other = pf.tensor(2.0).expand(sa.shape).contiguous()  # the pointers are those of each call
        t.check(pf._scaled_mm(a, b, other, sb, add, out_dtype=dtype), a, b, other, sb, add)
    return pf.debug.stats()["slow"] - before
has = {architecture!r} == "gfx1201"
for kinds in t.KINDS:
    for by_row in (False, True):
        for bias in (False, True):
            assert slow(kinds, by_row, 33, 48, 32, bias) == (0 if has else 6)
            assert slow(kinds, by_row, 5, 17, 3, bias) == 6
pf.set_strict(True)
a, b, sa, sb = t.operands(16, 17, 16)
try:
    pf._scaled_mm(a, b, sa, sb, out_dtype=pf.float32).tolist()
    refused = ""
except pf.NotSupportedError as e:
    refused = str(e)
assert ("multiples of 16" if has else "gfx942") in refused, refused
"""
    more = {"PYFLAME_STANDIN_OLD": "1"} if release == "old" else {}
    library = standin.FOLDER / "standin" / "products" / "libhipblaslt.so"
    run(code, PYFLAME_STANDIN_ARCH=architecture, PYFLAME_HIPBLASLT_LIBRARY=library, **more)
