"""Pooling against direct loops over windows in float64: values, places, gradients, second ones."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import pyflame as pf
from pyflame import nn

pytestmark = pytest.mark.kernels(0.5)

F = nn.functional
FORMATS = {4: pf.channels_last, 5: pf.channels_last_3d}


def tensor(a, last=False, dtype=pf.float64, grad=True):
    t = pf.tensor(a).to(dtype)
    if last and t.ndim in FORMATS:
        t = t.contiguous(memory_format=FORMATS[t.ndim])
    return t.requires_grad_(grad and dtype.is_floating_point)


def result_size(n, k, s, p, d, ceil):
    room = n + 2 * p - d * (k - 1) - 1
    out = (room + (s - 1 if ceil else 0)) // s + 1
    return out - 1 if ceil and (out - 1) * s >= n + p else out


def windows(space, how):
    """For each result: the indices in each dimension that are inside, and all that are counted."""
    axes = []
    for n, (k, s, p, d, ceil) in zip(space, how):
        axis = []
        for o in range(result_size(n, k, s, p, d, ceil)):
            at = [o * s - p + t * d for t in range(k)]
            axis.append(([i for i in at if 0 <= i < n], sum(i < n + p for i in at)))
        axes.append(axis)
    return axes


def even(space, sizes):
    axes = []
    for n, o in zip(space, sizes):
        at = [list(range(i * n // o, -(-(i + 1) * n // o))) for i in range(o)]
        axes.append([(a, len(a)) for a in at])
    return axes


def each(x, axes):
    """(place of the result, places of its window, how many are counted)."""
    for o in itertools.product(*(range(len(a)) for a in axes)):
        cells = [a[i] for a, i in zip(axes, o)]
        yield (
            o,
            list(itertools.product(*(c[0] for c in cells))),
            int(np.prod([c[1] for c in cells])),
        )


def largest(x, axes):
    dims = len(axes)
    space = x.shape[-dims:]
    shape = (*x.shape[:-dims], *(len(a) for a in axes))
    y, index = np.full(shape, -np.inf), np.zeros(shape, np.int64)
    for o, places, _ in each(x, axes):
        for place in places[:1]:
            index[(..., *o)] = np.ravel_multi_index(place, space)
        for place in places:
            v = x[(..., *place)]
            more = (v > y[(..., *o)]) | np.isnan(v)
            y[(..., *o)] = np.where(more, v, y[(..., *o)])
            index[(..., *o)] = np.where(more, np.ravel_multi_index(place, space), index[(..., *o)])
    return y, index


def put(values, index, space):
    flat = np.zeros((*values.shape[: -len(space)], int(np.prod(space))))
    rows = flat.reshape(-1, flat.shape[-1])
    for row, v, i in zip(rows, values.reshape(len(rows), -1), index.reshape(len(rows), -1)):
        np.add.at(row, i, v)
    return flat.reshape(*values.shape[: -len(space)], *space)


def pick(x, index, dims):
    flat = x.reshape(*x.shape[:-dims], -1)
    return np.take_along_axis(flat, index.reshape(*flat.shape[:-1], -1), -1).reshape(index.shape)


@st.composite
def problems(draw, dilated=True):
    dims = draw(st.sampled_from([1, 2, 2, 3]))
    number = lambda *v: draw(st.sampled_from(v))  # noqa: E731
    how = []
    ceil = draw(st.booleans())
    for _ in range(dims):
        k, d = number(1, 2, 3, 4), number(1, 1, 2) if dilated else 1
        how.append((k, number(1, 2, 3), draw(st.integers(0, k // 2)), d, ceil))
    shape = (draw(st.integers(1, 3)), draw(st.sampled_from([1, 3, 8, 70])))
    space = tuple(number(3, 5, 8) for _ in range(dims))
    if draw(st.booleans()):
        shape = shape[1:]
    x = np.random.default_rng(draw(st.integers(0, 99))).standard_normal((*shape, *space))
    assume(all(n + 2 * p >= d * (k - 1) + 1 for n, (k, _, p, d, _) in zip(space, how)))
    return np.round(x, 1), how, draw(st.booleans())  # rounded: some are equal


def lists(how):
    return tuple([h[i] for h in how] for i in range(4))


@settings(max_examples=60, deadline=None)
@given(problems())
def test_max_pool(problem):
    x, how, last = problem
    dims = len(how)
    k, s, p, d = lists(how)
    y, index = largest(x, windows(x.shape[-dims:], how))
    assume(np.isfinite(y).all())  # with dilation a window may see nothing
    xs = tensor(x, last)
    op = getattr(F, f"max_pool{dims}d")
    got = op(xs, k, s, p, d, how[0][4])
    assert_array_equal(got.detach().numpy(), y)
    if last and xs.ndim == dims + 2 and dims > 1 and x.shape[1] > 1:
        assert got.is_contiguous(memory_format=FORMATS[dims + 2])
    values, places = op(xs, k, s, p, d, how[0][4], return_indices=True)
    assert_array_equal(values.detach().numpy(), y)
    assert places.dtype == pf.int64
    assert_array_equal(pick(x, places.numpy(), dims), y)
    assert_array_equal(places.numpy(), index)
    assert_array_equal(op(xs.detach(), k, s, p, d, how[0][4]).numpy(), y)
    rng = np.random.default_rng(0)
    g, u = rng.standard_normal(y.shape), rng.standard_normal(x.shape)
    for out in (got, values):  # places in bytes and as int64
        gs = tensor(g, last)
        (dx,) = pf.autograd.grad(out, xs, gs, create_graph=True)
        assert_allclose(dx.detach().numpy(), put(g, index, x.shape[-dims:]), atol=1e-12)
        (of_g,) = pf.autograd.grad((dx * tensor(u, last, grad=False)).sum(), gs)
        assert_allclose(of_g.numpy(), pick(u, index, dims), atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(problems(dilated=False), st.booleans(), st.sampled_from([None, None, 3, -2]))
def test_avg_pool(problem, padding_counts, divisor):
    x, how, last = problem
    dims = len(how)
    k, s, p, _ = lists(how)
    axes = windows(x.shape[-dims:], how)
    if dims == 1:
        divisor = None
    y = np.zeros((*x.shape[:-dims], *(len(a) for a in axes)))
    dx, g = np.zeros(x.shape), np.random.default_rng(1).standard_normal(y.shape)
    for o, places, count in each(x, axes):
        by = divisor or (count if padding_counts else len(places))
        for place in places:
            y[(..., *o)] += x[(..., *place)] / by
            dx[(..., *place)] += g[(..., *o)] / by
    xs, gs = tensor(x, last), tensor(g, last)
    more = () if dims == 1 else (divisor,)
    got = getattr(F, f"avg_pool{dims}d")(xs, k, s, p, how[0][4], padding_counts, *more)
    assert_allclose(got.detach().numpy(), y, atol=1e-12)
    (slope,) = pf.autograd.grad(got, xs, gs, create_graph=True)
    assert_allclose(slope.detach().numpy(), dx, atol=1e-12)
    (back,) = pf.autograd.grad((slope * xs.detach()).sum(), gs)  # linear: its own value
    assert_allclose(back.numpy(), y, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_adaptive(data):
    dims = data.draw(st.integers(1, 3))
    space = tuple(data.draw(st.integers(1, 7)) for _ in range(dims))
    sizes = tuple(data.draw(st.one_of(st.none(), st.integers(1, 9))) for _ in range(dims))
    last = data.draw(st.booleans())
    x = np.random.default_rng(2).standard_normal((2, data.draw(st.sampled_from([1, 9])), *space))
    axes = even(space, [o or n for o, n in zip(sizes, space)])
    y, index = largest(x, axes)
    mean = np.zeros(y.shape)
    g, of_mean = np.random.default_rng(3).standard_normal(y.shape), np.zeros(x.shape)
    for o, places, count in each(x, axes):
        for place in places:
            mean[(..., *o)] += x[(..., *place)] / count
            of_mean[(..., *place)] += g[(..., *o)] / count
    xs = tensor(x, last)
    values, places = getattr(F, f"adaptive_max_pool{dims}d")(xs, sizes, return_indices=True)
    assert_array_equal(values.detach().numpy(), y)
    assert_array_equal(places.numpy(), index)
    (dx,) = pf.autograd.grad(values, xs, tensor(g, last, grad=False))
    assert_allclose(dx.numpy(), put(g, index, space), atol=1e-12)
    got = getattr(F, f"adaptive_avg_pool{dims}d")(xs, sizes)
    assert_allclose(got.detach().numpy(), mean, atol=1e-12)
    (dx,) = pf.autograd.grad(got, xs, tensor(g, last, grad=False))
    assert_allclose(dx.numpy(), of_mean, atol=1e-12)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    "dtype", [pf.float32, pf.float16, pf.bfloat16, pf.int64, pf.int32, pf.int16, pf.int8, pf.uint8]
)
def test_dtypes(dtype, last):
    rng = np.random.default_rng(4)
    x = rng.integers(0, 100, (2, 24, 9, 10))
    how = [(3, 2, 1, 1, False)] * 2
    y, index = largest(x.astype(float), windows(x.shape[2:], how))
    xs = tensor(x, last, dtype)
    got = F.max_pool2d(xs, 3, 2, 1)
    assert got.dtype == dtype
    assert_array_equal(got.detach().to(pf.float64).numpy(), y)
    places = F.max_pool2d(xs, 3, 2, 1, return_indices=True)[1]
    assert_array_equal(places.numpy(), index)
    if not dtype.is_floating_point:
        with pytest.raises(pf.DTypeError, match="floats"):
            F.avg_pool2d(xs, 2)
        return
    g = rng.integers(-8, 9, y.shape)
    got.backward(tensor(g, last, dtype, grad=False))
    assert_array_equal(xs.grad.to(pf.float64).numpy(), put(g.astype(float), index, (9, 10)))
    mean = F.avg_pool2d(xs.detach(), 2).to(pf.float64).numpy()
    exact = x[:, :, :8].reshape(2, 24, 4, 2, 5, 2).mean((3, 5))
    assert_allclose(mean, exact, rtol=2**-8 if dtype.itemsize == 2 else 1e-6)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("at", [0, 1, 127, 128, 129])
def test_nan_where_parts_of_a_line_begin(at, padding):
    x = np.zeros((1, 1, 9, 300))
    x[0, 0, 4:6, at] = np.nan
    y, _ = largest(x, windows((9, 300), [(3, 2, padding, 1, False)] * 2))
    assert_array_equal(F.max_pool2d(tensor(x, dtype=pf.float32), 3, 2, padding).detach().numpy(), y)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [pf.bfloat16, pf.float32])
@pytest.mark.parametrize(
    "k, s, p", [(3, 2, 1), (3, 2, 0), (3, 1, 1), (2, 2, 0), (2, 2, 1), (2, 1, 0)]
)
@pytest.mark.parametrize("space", [(8, 16), (9, 32), (5, 48), (5, 7)])
def test_small_windows(space, k, s, p, dtype, last):
    """What GPUs and vectors have a kernel for, with equal elements, infinities and NaN. Gradients are whole
    numbers: sums of them are exact."""
    rng = np.random.default_rng(3)
    x = rng.integers(-4, 5, (2, 16, *space)).astype(float)
    x.flat[rng.integers(0, x.size, 40)] = np.nan
    x.flat[rng.integers(0, x.size, 200)] = -np.inf
    x[0, 0] = -np.inf
    y, index = largest(x, windows(space, [(k, s, p, 1, False)] * 2))
    xs = tensor(x, last, dtype)
    out = F.max_pool2d(xs, k, s, p)
    assert_array_equal(out.detach().double().numpy(), y)
    assert_array_equal(F.max_pool2d(xs.detach(), k, s, p).double().numpy(), y)
    g = rng.integers(-8, 9, y.shape).astype(float)
    (dx,) = pf.autograd.grad(out, xs, tensor(g, last, dtype))
    assert_array_equal(dx.double().numpy(), put(g, index, space))


@pytest.mark.parametrize("dtype", [pf.bfloat16, pf.float32])
@pytest.mark.parametrize("k, s, p", [(3, 2, 1), (2, 2, 0), (3, 1, 1), (2, 1, 0)])
def test_many_small_windows(k, s, p, dtype):
    """So many that a GPU's thread may make several below each other, the last fewer."""
    rng = np.random.default_rng(6)
    a = rng.integers(-9, 9, (16, 64, 33, 33)).astype(np.float32)
    a[rng.random(a.shape) < 0.01] = np.nan
    a[:, :, :3, :5] = -np.inf
    x = pf.tensor(a).to(dtype).contiguous(memory_format=pf.channels_last).requires_grad_()
    want = x.detach().cpu().requires_grad_()
    y, expected = (F.max_pool2d(t, k, s, p) for t in (x, want))
    dy = pf.randn_like(y.detach())
    y.backward(dy)
    expected.backward(dy.cpu())
    np.testing.assert_array_equal(
        y.detach().cpu().float().numpy(), expected.detach().float().numpy()
    )
    np.testing.assert_array_equal(x.grad.cpu().float().numpy(), want.grad.float().numpy())


@pytest.mark.parametrize("last", [False, True])
def test_extremes(last):
    x = np.zeros((1, 2, 4, 4))
    x[0, 0, 1, 1], x[0, 0, 2, 3], x[0, 1, 0, 0] = np.nan, -np.inf, np.inf
    x[0, 1, 2:, 2:] = -np.inf
    y = F.max_pool2d(tensor(x, last), 2).detach().numpy()
    assert_array_equal(y, [[[[np.nan, 0], [0, 0]], [[np.inf, 0], [0, -np.inf]]]])
    mean = F.avg_pool2d(tensor(x, last), 2).detach().numpy()
    assert_array_equal(mean, [[[[np.nan, 0], [0, -np.inf]], [[np.inf, 0], [0, -np.inf]]]])
    y = F.max_pool2d(tensor(np.full((1, 1, 1, 1), 1e4), dtype=pf.float16), 1)
    assert y.item() == 10000


def test_views_and_empty_batches():
    base = pf.randn(6, 5, 12, 14, dtype=pf.float64)
    for x in (base[::2, 1:4, ::2, 3:], base.transpose(2, 3), base[:, :1].expand(6, 4, 12, 14)):
        want = F.max_pool2d(x.clone().contiguous(), 3, 2, 1)
        assert pf.equal(F.max_pool2d(x, 3, 2, 1), want)
        want = F.avg_pool2d(x.clone().contiguous(), (2, 3))
        assert pf.equal(F.avg_pool2d(x, (2, 3)), want)
    x = pf.zeros(0, 3, 8, 8, requires_grad=True)
    for y in (F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 4)):
        assert y.shape == (0, 3, 4, 4)
        y.sum().backward()
    assert x.grad.shape == x.shape
    x = pf.randn(2, 3, 5, 5, requires_grad=True)
    for op in (F.adaptive_avg_pool2d, F.adaptive_max_pool2d):
        y = op(x, (0, 2))
        assert y.shape == (2, 3, 0, 2)
        y.sum().backward()
    assert x.grad.abs().sum().item() == 0


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("batch", [False, True])
def test_unpool(dims, batch):
    x = pf.randn(*([2, 3] if batch else [3]), *[6, 5, 4][:dims], dtype=pf.float64)
    values, places = getattr(F, f"max_pool{dims}d")(x, 2, return_indices=True)
    values.requires_grad_()
    y = getattr(F, f"max_unpool{dims}d")(values, places, 2, output_size=x.shape)
    assert y.shape == x.shape
    assert_array_equal(pick(y.detach().numpy(), places.numpy(), dims), values.detach().numpy())
    assert int((y != 0).sum().item()) == values.numel()
    (y * y).sum().backward()
    assert pf.equal(values.grad, 2 * values.detach())
    with pytest.raises(ValueError, match="less than a stride"):
        getattr(F, f"max_unpool{dims}d")(values, places, 2, output_size=[20] * dims)
    with pytest.raises(IndexError):
        bad = getattr(F, f"max_unpool{dims}d")(values.detach(), places + 1000, 2)
        bad.sum().item()


def test_lp_pool():
    x = pf.rand(2, 3, 6, 6, dtype=pf.float64, requires_grad=True)
    y = F.lp_pool2d(x, 3, (2, 3))
    parts = x.detach().numpy().reshape(2, 3, 3, 2, 2, 3)
    assert_allclose(y.detach().numpy(), (parts**3).sum((3, 5)) ** (1 / 3), rtol=1e-12)
    y.sum().backward()
    assert pf.isfinite(x.grad).all()
    assert F.lp_pool1d(pf.ones(1, 2, 6), 2, 2).shape == (1, 2, 3)
    assert nn.LPPool3d(2, 2)(pf.ones(1, 1, 4, 4, 4)).shape == (1, 1, 2, 2, 2)


@pytest.mark.parametrize("dims", [2, 3])
def test_fractional_pool(dims):
    space, size = (9, 8, 7)[:dims], (4, 5, 3)[:dims]
    x = pf.randn(2, 3, *space, dtype=pf.float64, requires_grad=True)
    at = pf.rand(2, 3, dims, dtype=pf.float64)
    op = getattr(F, f"fractional_max_pool{dims}d")
    y, places = op(x, 2, size, return_indices=True, _random_samples=at)
    assert y.shape == (2, 3, *size)
    array, u = x.detach().numpy(), at.numpy()
    for n, c in itertools.product(range(2), range(3)):
        axes = []
        for d in range(dims):
            v = u[n, c, dims - 1 - d if dims == 2 else d]
            alpha = (space[d] - 2) / (size[d] - 1)
            start = [int((i + v) * alpha) - int(v * alpha) for i in range(size[d] - 1)]
            axes.append([(range(i, i + 2), 2) for i in [*start, space[d] - 2]])
        want, index = largest(array[n, c], axes)
        assert_array_equal(y[n, c].detach().numpy(), want)
        assert_array_equal(places[n, c].numpy(), index)
    y.sum().backward()
    assert x.grad.sum().item() == y.numel()
    assert op(x, 2, output_ratio=0.5).shape == (2, 3, *(n // 2 for n in space))
    layer = getattr(nn, f"FractionalMaxPool{dims}d")(2, output_size=size, _random_samples=at)
    assert pf.equal(layer(x), y)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda x: F.max_pool2d(x, 9), "smaller than windows"),
        (lambda x: F.max_pool2d(x, 2, padding=2), "at most half"),
        (lambda x: F.max_pool2d(x, 0), "at least 1"),
        (lambda x: F.max_pool2d(x, 2, stride=0), "at least 1"),
        (lambda x: F.max_pool2d(x, [2, 2, 2]), "3 numbers for kernel_size"),
        (lambda x: F.max_pool2d(x[0, 0], 2), r"\[N, C, \.\.\.\]"),
        (lambda x: F.max_pool2d(x[:, :, :0], 2), "at least one element"),
        (lambda x: F.max_pool2d(x > 0, 2), "bool"),
        (lambda x: F.avg_pool2d(x, 2, divisor_override=0), "divisor_override"),
        (lambda x: F.adaptive_avg_pool2d(x, -1), "output_size -1"),
        (lambda x: F.adaptive_max_pool2d(x, (2, 2, 2)), "output_size"),
        (lambda x: F.fractional_max_pool2d(x, 2), "one of output_size"),
        (lambda x: F.fractional_max_pool2d(x, 2, output_size=6), "at most the input"),
        (lambda x: F.max_unpool2d(x, x.long()[:, :1], 2), "both alike"),
    ],
)
def test_bad_arguments_say_what_is_wrong(call, says):
    with pytest.raises((ValueError, pf.ShapeError, pf.DTypeError), match=says):
        call(pf.randn(1, 2, 6, 6))


def test_layers():
    x = pf.randn(2, 4, 8, 8)
    assert pf.equal(nn.MaxPool2d(3, 2, 1)(x), F.max_pool2d(x, 3, 2, 1))
    assert pf.equal(nn.AvgPool2d(2, divisor_override=3)(x), F.avg_pool2d(x, 2, divisor_override=3))
    assert pf.equal(nn.AdaptiveAvgPool2d((None, 2))(x), F.adaptive_avg_pool2d(x, (8, 2)))
    y, places = nn.MaxPool2d(2, return_indices=True)(x)
    assert nn.MaxUnpool2d(2)(y, places).shape == x.shape
    assert nn.AdaptiveMaxPool1d(3)(x[0]).shape == (4, 8, 3)
    assert nn.AvgPool1d(2)(x[0]).shape == (4, 8, 4)
    assert "kernel_size=3, stride=2" in repr(nn.MaxPool2d(3, 2))
    one = F.max_pool2d_with_indices(x, 2)
    assert pf.equal(one[0], y) and pf.equal(one[1], places)


@pytest.mark.parametrize("last", [False, True], ids=["apart", "last"])
@pytest.mark.parametrize("stride", [1, 2])
def test_items_together(stride, last):
    """Results past the caches, which go around them, are those of the items one by one."""
    if pf.get_device().type != "cpu":
        pytest.skip("of the CPU's stores")
    rng = np.random.default_rng(stride)
    a = rng.standard_normal((107, 3, 229, 231), np.float32)
    a[rng.random(a.shape) < 1e-4] = np.nan
    a[rng.random(a.shape) < 1e-4] = -np.inf

    def run(x, g, pool):
        x = tensor(x, last, pf.float32)
        y = pool(x)
        y.backward(tensor(g, last, pf.float32, grad=False))
        return y.detach().numpy(), x.grad.numpy()

    for pool in (lambda x: F.max_pool2d(x, 3, stride, 1), lambda x: F.avg_pool2d(x, 2, stride)):
        size = pool(tensor(a[:1], last, pf.float32)).shape[1:]
        g = rng.standard_normal((len(a), *size), np.float32)
        y, dx = run(a, g, pool)
        for i in range(len(a)):
            assert_array_equal(y[i : i + 1], (one := run(a[i : i + 1], g[i : i + 1], pool))[0])
            assert_array_equal(dx[i : i + 1], one[1])


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_norms_over_windows_of_zeros_have_no_slope(dims):
    torch = pytest.importorskip("torch")
    for power in (2.0, 3.0, 4.0):
        slopes = []
        for lib in (pf, torch):
            x = lib.zeros((1, 1) + (4,) * dims)
            x[..., :2] = 1.5
            x.requires_grad_()
            getattr(lib.nn.functional, f"lp_pool{dims}d")(x, power, 2).sum().backward()
            slopes.append(x.grad.tolist())
        assert_allclose(slopes[0], slopes[1], rtol=1e-6)
