"""Interpolation, sampling and rearranging against direct loops in float64: values, gradients."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import pyflame as pf
from pyflame import nn

pytestmark = pytest.mark.kernels(0.5)

F = nn.functional
FORMATS = {4: pf.channels_last, 5: pf.channels_last_3d}
KINDS = ["float32", "float64", "bfloat16", "float16"]
TOLERANCE = {"float32": 2e-5, "float64": 1e-11, "bfloat16": 2e-2, "float16": 3e-3}


# ---- interpolation --------------------------------------------------------------------------------


def cubic(x, a):
    x = abs(x)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def matrix(mode, size, out, align, factor, antialias):
    """What each of `out` results takes of `size` elements."""
    m = np.zeros((out, size))
    scale = 1 / factor if factor else size / out
    if align:
        scale = (size - 1) / (out - 1) if out > 1 else 0.0
    for i in range(out):
        if mode.startswith("nearest"):
            f = np.float32
            at = f(i) * f(scale) if mode == "nearest" else (f(i) + f(0.5)) * f(scale)
            m[i, min(int(at), size - 1)] = 1
        elif mode == "area":
            begin, end = i * size // out, -(-(i + 1) * size // out)
            m[i, begin:end] = 1 / (end - begin)
        elif antialias:
            wide = max(scale, 1.0)
            lobes = {"bicubic": 2, "lanczos": 3}.get(mode, 1)
            reach, middle = lobes * wide, scale * (i + 0.5)
            for k in range(max(int(middle - reach + 0.5), 0), min(int(middle + reach + 0.5), size)):
                x = (k - middle + 0.5) / wide
                m[i, k] = max(0.0, 1 - abs(x))
                if mode == "bicubic":
                    m[i, k] = cubic(x, -0.5)
                elif mode == "lanczos":
                    m[i, k] = np.sinc(x) * np.sinc(x / 3) if abs(x) < 3 else 0.0
            m[i] /= m[i].sum()
        else:
            at = i * scale if align else (i + 0.5) * scale - 0.5
            if mode == "bicubic":
                low = math.floor(at)
                for k in range(low - 1, low + 3):
                    m[i, min(max(k, 0), size - 1)] += cubic(at - k, -0.75)
            elif size == out:
                m[i, i] = 1
            else:
                at = max(at, 0.0)
                low = min(int(at), size - 1)
                t = min(max(at - low, 0.0), 1.0)
                m[i, low] += 1 - t
                m[i, min(low + 1, size - 1)] += t
    return m


def through(x, matrices):
    for d, m in enumerate(matrices):
        x = np.moveaxis(np.tensordot(m, x, (1, d + 2)), 0, d + 2)
    return x


LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


@st.composite
def interpolations(draw):
    dims = draw(st.sampled_from([1, 2, 2, 3]))
    mode = draw(st.sampled_from(["nearest", "nearest-exact", "area", LINEAR[dims]]))
    if dims == 2 and draw(st.integers(0, 3)) == 0:
        mode = draw(st.sampled_from(["bicubic", "lanczos"]))
    sizes = [draw(st.sampled_from([1, 2, 3, 5, 8])) for _ in range(dims)]
    how, factors = {}, [None] * dims
    if draw(st.booleans()):
        how["size"] = tuple(draw(st.sampled_from([1, 2, 4, 7])) for _ in range(dims))
        out = how["size"]
    else:
        factors = [draw(st.sampled_from([1.0, 1.5, 2.0, 2.3])) for _ in range(dims)]
        factors = [0.5 if s > 1 and draw(st.booleans()) else f for s, f in zip(sizes, factors)]
        how["scale_factor"] = tuple(factors)
        out = tuple(math.floor(s * f) for s, f in zip(sizes, factors))
        if mode == "area" or draw(st.booleans()):
            how["recompute_scale_factor"] = True
            factors = [None] * dims
    if "linear" in mode or mode == "bicubic":
        how["align_corners"] = draw(st.booleans())
        if dims == 2 and not how["align_corners"] and draw(st.booleans()):
            how["antialias"] = True
    if mode == "lanczos":
        how["antialias"] = True
    batch, channels = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 3, 8, 17]))
    matrices = [
        matrix(mode, s, o, how.get("align_corners", False), f, how.get("antialias", False))
        for s, o, f in zip(sizes, out, factors)
    ]
    layout = draw(st.sampled_from(["rows", "last", "sliced"]))
    return (batch, channels, *sizes), mode, how, matrices, draw(st.sampled_from(KINDS)), layout


def operand(values, kind, layout):
    x = pf.tensor(values).to(getattr(pf, kind))
    if layout == "last" and values.ndim in FORMATS:
        return x.contiguous(memory_format=FORMATS[values.ndim])
    if layout == "sliced":
        return pf.cat([x, x], -1)[..., : values.shape[-1]]
    return x


def close(got, expected, kind, times=1):
    tolerance = times * TOLERANCE[kind]
    scale = max(1.0, np.abs(expected).max(initial=0))
    assert_allclose(got.double().numpy(), expected, rtol=tolerance, atol=tolerance * scale)


@settings(max_examples=60, deadline=None)
@given(interpolations(), st.integers(0, 1 << 20))
def test_interpolate(problem, seed):
    shape, mode, how, matrices, kind, layout = problem
    rng = np.random.default_rng(seed)
    x = operand(rng.standard_normal(shape), kind, layout).detach().requires_grad_()
    values = x.detach().double().numpy()
    y = F.interpolate(x, mode=mode, **how)
    expected = through(values, matrices)
    assert y.shape == expected.shape and y.dtype == x.dtype
    close(y.detach(), expected, kind)
    if layout == "last" and len(shape) in FORMATS and not x.is_contiguous():
        assert y.is_contiguous(memory_format=FORMATS[len(shape)])
    g = pf.tensor(rng.standard_normal(expected.shape)).to(y.dtype).requires_grad_()
    (dx,) = pf.autograd.grad(y, x, g, create_graph=True)
    close(dx.detach(), through(g.detach().double().numpy(), [m.T for m in matrices]), kind, 2)
    v = pf.tensor(rng.standard_normal(shape)).to(x.dtype)
    (dg,) = pf.autograd.grad(dx, g, v)
    close(dg, through(v.double().numpy(), matrices), kind, 2)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
@pytest.mark.parametrize("last", [False, True])
def test_bytes(mode, last):
    values = np.random.default_rng(0).integers(0, 256, (2, 3, 7, 5), dtype=np.uint8)
    x = pf.tensor(values)
    if last:
        x = x.contiguous(memory_format=pf.channels_last)
    matrices = [matrix(mode, s, o, False, None, False) for s, o in ((7, 4), (5, 9))]
    y = F.interpolate(x, size=(4, 9), mode=mode)
    assert y.dtype == pf.uint8
    expected = np.floor(through(values.astype(float), matrices) + 0.5)
    off = np.abs(y.numpy().astype(float) - expected).max()
    assert off <= (mode == "bilinear")


def test_values_that_are_no_numbers_stay_where_they_are():
    x = pf.zeros(1, 1, 4, 4)
    x[0, 0, 1, 1] = math.inf
    x[0, 0, 3, 3] = math.nan
    y = F.interpolate(x, scale_factor=2).numpy()[0, 0]
    assert np.isinf(y).sum() == 4 and np.isnan(y).sum() == 4
    y = F.interpolate(x, scale_factor=2, mode="bilinear").numpy()[0, 0]
    assert np.isfinite(y[0]).all() and np.isinf(y[2:4, 2:4]).all()
    assert_array_equal(F.interpolate(-pf.zeros(1, 1, 2, 2), size=3).signbit().numpy(), True)


def test_empty_batch():
    x = pf.zeros(0, 3, 4, 4, requires_grad=True)
    y = F.interpolate(x, scale_factor=2, mode="bicubic")
    assert y.shape == (0, 3, 8, 8)
    y.sum().backward()
    assert x.grad.shape == x.shape
    assert F.unfold(pf.zeros(0, 2, 4, 4), 3).shape == (0, 18, 4)
    assert F.pixel_shuffle(pf.zeros(0, 4, 2, 2), 2).shape == (0, 1, 4, 4)
    assert F.grid_sample(pf.zeros(0, 2, 3, 3), pf.zeros(0, 4, 5, 2), align_corners=True).shape == (
        0, 2, 4, 5,
    )  # fmt: skip


@pytest.mark.parametrize(
    "shape, how, error",
    [
        ((1, 1, 4), {}, pf.ValueError),
        ((1, 1, 4), {"size": 2, "scale_factor": 2.0}, pf.ValueError),
        ((1, 1, 4), {"size": 2, "align_corners": True}, pf.ValueError),
        ((1, 1, 4), {"size": 2, "mode": "bilinear"}, pf.NotSupportedError),
        ((1, 1, 4), {"size": 2, "mode": "spline"}, pf.NotSupportedError),
        ((1, 4), {"size": 2}, pf.NotSupportedError),
        ((1, 1, 4, 4), {"size": (2, 2, 2)}, pf.ValueError),
        ((1, 1, 4, 4), {"size": 0}, pf.ShapeError),
        ((1, 1, 4, 4), {"scale_factor": 0.1}, pf.ShapeError),
        ((1, 1, 4, 4), {"scale_factor": -1.0}, pf.ValueError),
        ((1, 1, 4, 4), {"scale_factor": math.inf}, pf.ValueError),
        ((1, 1, 4, 4), {"size": 2, "mode": "nearest", "antialias": True}, pf.ValueError),
        ((1, 1, 4, 4), {"size": 2, "recompute_scale_factor": True}, pf.ValueError),
        ((1, 1, 0, 4), {"size": 2}, pf.ShapeError),
    ],
)
def test_interpolate_errors(shape, how, error):
    with pytest.raises(error):
        F.interpolate(pf.zeros(*shape), **how)
    with pytest.raises(pf.DTypeError):
        F.interpolate(pf.zeros(1, 1, 4, dtype=pf.int64), size=2)


def test_old_names():
    x = pf.randn(1, 2, 3, 3)
    with pytest.warns(UserWarning, match="deprecated"):
        assert_array_equal(F.upsample(x, size=5).numpy(), F.interpolate(x, size=5).numpy())
    with pytest.warns(UserWarning, match="deprecated"):
        assert_array_equal(F.upsample_nearest(x, 5).numpy(), F.interpolate(x, size=5).numpy())
    with pytest.warns(UserWarning, match="deprecated"):
        y = F.upsample_bilinear(x, scale_factor=2)
    expected = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
    assert_array_equal(y.numpy(), expected.numpy())


# ---- sampling -------------------------------------------------------------------------------------


def inside(u, size, padding, align):
    if padding == "reflection":
        low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
        if span == 0:
            return 0.0
        flips, rest = divmod(abs(u - low), span)
        u = (span - rest if flips % 2 else rest) + low
    return u if padding == "zeros" else min(max(u, 0.0), size - 1.0)


def places(g, size, mode, padding, align):
    """(element, weight) for one number of the grid."""
    u = (g + 1) / 2 * (size - 1) if align else ((g + 1) * size - 1) / 2
    if mode == "bicubic":
        low = math.floor(u)
        found = [
            (int(inside(float(k), size, padding, align)), cubic(u - k, -0.75))
            for k in range(low - 1, low + 3)
        ]
    else:
        u = inside(u, size, padding, align)
        low = math.floor(u)
        found = [(low, 1 - (u - low)), (low + 1, u - low)]
        if mode == "nearest":
            found = [(int(np.rint(u)), 1.0)]
    return [(k, w) for k, w in found if 0 <= k < size]


def sampled(x, grid, mode, padding, align):
    y = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for at in np.ndindex(grid.shape[:-1]):
        sizes = x.shape[:1:-1]
        each = [places(g, s, mode, padding, align) for g, s in zip(grid[at], sizes)]
        for taps in itertools.product(*each):
            cell = tuple(k for k, _ in reversed(taps))
            y[(at[0], slice(None), *at[1:])] += (
                math.prod(w for _, w in taps) * x[(at[0], slice(None), *cell)]
            )
    return y


def slopes(x, grid, g, *how):
    """The gradient of the grid by differences."""
    d = np.zeros_like(grid)
    for at in np.ndindex(grid.shape):
        step = np.zeros_like(grid)
        step[at] = 1e-6
        both = sampled(x, grid + step, *how), sampled(x, grid - step, *how)
        d[at] = ((both[0] - both[1]) * g).sum() / 2e-6
    return d


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([2, 2, 3]),
    st.sampled_from(["bilinear", "nearest", "bicubic"]),
    st.sampled_from(["zeros", "border", "reflection"]),
    st.booleans(),
    st.sampled_from(KINDS),
    st.booleans(),
    st.integers(0, 1 << 20),
)
def test_grid_sample(dims, mode, padding, align, kind, last, seed):
    if mode == "bicubic":
        dims = 2
    rng = np.random.default_rng(seed)
    channels = int(rng.choice([1, 3, 18]))
    sizes = tuple(int(rng.integers(1, 5)) for _ in range(dims))
    shape = (2, channels, *sizes)
    x = operand(rng.standard_normal(shape), kind, "last" if last else "rows")
    grid = pf.tensor(rng.uniform(-2, 2, (2, *(int(rng.integers(1, 4)) for _ in sizes), dims)))
    grid = grid.to(x.dtype)
    x, grid = x.detach().requires_grad_(), grid.detach().requires_grad_()
    y = F.grid_sample(x, grid, mode, padding, align)
    how = mode, padding, align
    values, at = x.detach().double().numpy(), grid.detach().double().numpy()
    expected = sampled(values, at, *how)
    assert y.shape == expected.shape and y.dtype == x.dtype
    exact = kind == "float64"
    if exact or mode != "nearest":  # elsewhere a place may round to its neighbour
        close(y.detach(), expected, kind, 10)
    if last and not x.is_contiguous():
        assert y.is_contiguous(memory_format=FORMATS[dims + 2])
    if not exact:
        y.sum().backward()
        assert x.grad.dtype == x.dtype and grid.grad.dtype == x.dtype
        return
    g = rng.standard_normal(expected.shape)
    dx, dgrid = pf.autograd.grad(y, (x, grid), pf.tensor(g), retain_graph=True)
    assert_allclose(dgrid.numpy(), slopes(values, at, g, *how), rtol=1e-5, atol=1e-5)
    v = rng.standard_normal(shape)  # <dx, v> is what the images v give along g
    assert_allclose(np.vdot(dx.numpy(), v), np.vdot(sampled(v, at, *how), g), rtol=1e-9, atol=1e-9)
    again = pf.autograd.grad(y, (x, grid), pf.tensor(g), create_graph=True)
    assert_allclose(again[0].detach().numpy(), dx.numpy(), rtol=1e-9, atol=1e-9)
    assert_allclose(again[1].detach().numpy(), dgrid.numpy(), rtol=1e-9, atol=1e-9)


def test_grid_sample_second_gradient():
    rng = np.random.default_rng(3)
    x = pf.tensor(rng.standard_normal((1, 2, 4, 3)), requires_grad=True)
    grid = pf.tensor(rng.uniform(-0.9, 0.9, (1, 2, 2, 2)), requires_grad=True)
    g = pf.tensor(rng.standard_normal((1, 2, 2, 2)))
    for mode in ("bilinear", "bicubic"):

        def slope(at, mode=mode):
            y = F.grid_sample(x, at, mode, "border", False)
            return pf.autograd.grad(y, at, g, create_graph=True)[0]

        v = pf.tensor(rng.standard_normal(grid.shape))
        (second,) = pf.autograd.grad((slope(grid) * v).sum(), grid)
        for at in np.ndindex(*grid.shape):
            step = np.zeros(grid.shape)
            step[at] = 1e-6
            ends = [
                (slope((grid.detach() + s * pf.tensor(step)).requires_grad_()) * v).sum().item()
                for s in (1, -1)
            ]
            assert_allclose(second[at].item(), (ends[0] - ends[1]) / 2e-6, rtol=1e-4, atol=1e-5)


def test_affine_grid():
    theta = pf.tensor([[[1.0, 0.5, 0.1], [0.2, 0.9, -0.3]]], requires_grad=True)
    for align in (False, True):
        grid = F.affine_grid(theta, (1, 3, 2, 4), align)
        ends = [1.0 if align else (n - 1) / n for n in (2, 4)]
        ys, xs = (np.linspace(-e, e, n) for e, n in zip(ends, (2, 4)))
        for i, j in np.ndindex(2, 4):
            expected = theta.detach().numpy()[0] @ np.array([xs[j], ys[i], 1.0])
            assert_allclose(grid[0, i, j].detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    grid.sum().backward()
    assert theta.grad.shape == theta.shape
    assert F.affine_grid(pf.zeros(2, 3, 4), (2, 1, 2, 3, 4), False).shape == (2, 2, 3, 4, 3)
    with pytest.warns(UserWarning, match="align_corners"):
        F.affine_grid(theta, (1, 3, 2, 4))
    for bad in ((1, 3, 2), (1, 3, 0, 2), (2, 3, 2, 2)):
        with pytest.raises(ValueError):
            F.affine_grid(theta, bad, False)


@pytest.mark.parametrize(
    "x, grid, how, error",
    [
        ((1, 1, 3, 3), (1, 2, 2, 3), {}, pf.ShapeError),
        ((1, 1, 3, 3), (2, 2, 2, 2), {}, pf.ShapeError),
        ((1, 3, 3), (1, 2, 2), {}, pf.ShapeError),
        ((1, 1, 3, 3), (1, 2, 2, 2), {"mode": "cubic"}, pf.ValueError),
        ((1, 1, 3, 3), (1, 2, 2, 2), {"padding_mode": "wrap"}, pf.ValueError),
        ((1, 1, 3, 3, 3), (1, 2, 2, 2, 3), {"mode": "bicubic"}, pf.NotSupportedError),
        ((1, 1, 0, 3), (1, 2, 2, 2), {}, pf.ShapeError),
    ],
)
def test_grid_sample_errors(x, grid, how, error):
    with pytest.raises(error):
        F.grid_sample(pf.zeros(*x), pf.zeros(*grid), align_corners=False, **how)
    with pytest.raises(pf.DTypeError):
        F.grid_sample(pf.zeros(1, 1, 2, 2), pf.zeros(1, 1, 1, 2).double(), align_corners=False)


# ---- columns, pixels, channels --------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from(KINDS),
    st.sampled_from(["rows", "last", "sliced"]),
    st.booleans(),
)
def test_unfold_and_fold(kernel, dilation, padding, stride, kind, layout, batched):
    rng = np.random.default_rng(1)
    image = (6, 7)
    x = operand(rng.standard_normal((2, 3, *image)), kind, layout)
    x = (x if batched else x[0]).detach().requires_grad_()
    y = F.unfold(x, kernel, dilation, padding, stride)
    places = [
        (s + 2 * p - d * (k - 1) - 1) // t + 1
        for s, p, d, k, t in zip(image, padding, dilation, kernel, stride)
    ]
    values = x.detach().double().numpy().reshape(-1, 3, *image)
    wide = np.pad(values, [(0, 0), (0, 0), *((p, p) for p in padding)])
    expected = np.zeros((len(values), 3, *kernel, *places))
    back = np.zeros_like(wide)
    g = pf.tensor(rng.standard_normal(y.shape)).to(x.dtype).requires_grad_()
    columns = g.detach().double().numpy().reshape(expected.shape)
    for i, j, a, b in np.ndindex(*kernel, *places):
        at = a * stride[0] + i * dilation[0], b * stride[1] + j * dilation[1]
        expected[:, :, i, j, a, b] = wide[:, :, at[0], at[1]]
        back[:, :, at[0], at[1]] += columns[:, :, i, j, a, b]
    back = back[:, :, padding[0] : padding[0] + 6, padding[1] : padding[1] + 7]
    assert_array_equal(y.detach().double().numpy(), expected.reshape(y.shape))
    (dx,) = pf.autograd.grad(y, x, g, create_graph=True)
    close(dx.detach(), back.reshape(x.shape), kind, 5)
    (dg,) = pf.autograd.grad(dx, g, pf.ones_like(dx))
    assert dg.shape == g.shape
    folded = F.fold(g, image, kernel, dilation, padding, stride)
    close(folded.detach(), back.reshape(x.shape), kind, 5)
    layer = nn.Fold(image, kernel, dilation, padding, stride)
    assert_array_equal(layer(g).detach().double().numpy(), folded.detach().double().numpy())


def test_unfold_errors():
    x = pf.zeros(1, 2, 4, 4)
    for bad in ({"kernel_size": 5}, {"kernel_size": 0}, {"kernel_size": 2, "padding": -1},
                {"kernel_size": 2, "stride": 0}, {"kernel_size": (1, 2, 3)}):  # fmt: skip
        with pytest.raises(ValueError):
            F.unfold(x, **bad)
    with pytest.raises(pf.ShapeError):
        F.unfold(pf.zeros(4, 4), 2)
    with pytest.raises(pf.ShapeError):
        F.fold(pf.zeros(1, 7, 4), (3, 3), 2)
    with pytest.raises(pf.ShapeError):
        F.fold(pf.zeros(1, 8, 5), (3, 3), 2)


@pytest.mark.parametrize("kind", [*KINDS, "int64", "uint8", "bool"])
@pytest.mark.parametrize("layout", ["rows", "last", "sliced"])
def test_pixel_shuffle(kind, layout):
    values = np.arange(2 * 12 * 3 * 5).reshape(2, 12, 3, 5) % 251
    x = operand(values, kind, layout)
    values = x.numpy() if kind != "bfloat16" else x.float().numpy()
    y = F.pixel_shuffle(x, 2)
    expected = values.reshape(2, 3, 2, 2, 3, 5).transpose(0, 1, 4, 2, 5, 3).reshape(2, 3, 6, 10)
    assert_array_equal((y.float() if kind == "bfloat16" else y).numpy(), expected)
    back = F.pixel_unshuffle(y, 2)
    assert_array_equal((back.float() if kind == "bfloat16" else back).numpy(), values)
    if layout == "last":
        assert y.is_contiguous(memory_format=pf.channels_last)
        assert back.is_contiguous(memory_format=pf.channels_last)
    z = F.channel_shuffle(x, 3)
    expected = values.reshape(2, 3, 4, 3, 5).swapaxes(1, 2).reshape(values.shape)
    assert_array_equal((z.float() if kind == "bfloat16" else z).numpy(), expected)
    assert z.is_contiguous(memory_format=pf.channels_last) == (layout == "last")


def test_shuffles():
    x = pf.randn(8, 2, 3, requires_grad=True)
    y = nn.PixelShuffle(2)(x)
    assert y.shape == (2, 4, 6)
    y.sum().backward()
    assert_array_equal(x.grad.numpy(), 1)
    assert nn.PixelUnshuffle(2)(pf.zeros(3, 1, 5, 4, 4)).shape == (3, 1, 20, 2, 2)
    assert_array_equal(
        nn.ChannelShuffle(2)(pf.arange(4).view(1, 4, 1)).flatten().numpy(), [0, 2, 1, 3]
    )
    assert pf.native_channel_shuffle(pf.zeros(1, 4, 1), 2).shape == (1, 4, 1)
    for call in (
        lambda: F.pixel_shuffle(pf.zeros(1, 3, 2, 2), 2),
        lambda: F.pixel_shuffle(pf.zeros(2, 2), 1),
        lambda: F.pixel_shuffle(pf.zeros(1, 4, 2, 2), 0),
        lambda: F.pixel_unshuffle(pf.zeros(1, 1, 3, 2), 2),
        lambda: F.channel_shuffle(pf.zeros(1, 3, 2), 2),
        lambda: F.channel_shuffle(pf.zeros(1, 4), 2),
    ):
        with pytest.raises(ValueError):
            call()


def test_layers():
    x = pf.randn(1, 2, 4, 4)
    up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
    assert_array_equal(up(x).numpy(), nn.UpsamplingBilinear2d(scale_factor=2)(x).numpy())
    assert nn.UpsamplingNearest2d(size=(3, 7))(x).shape == (1, 2, 3, 7)
    assert repr(up) == "Upsample(scale_factor=2.0, mode='bilinear')"
    assert nn.Unfold(2, stride=2)(x).shape == (1, 8, 4)
    assert repr(nn.Fold((4, 4), 2)) == (
        "Fold(output_size=(4, 4), kernel_size=2, dilation=1, padding=0, stride=1)"
    )
