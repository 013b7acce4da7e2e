"""Convolutions against a direct sum over the taps in float64: values, gradients, second ones."""

import itertools
import os

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import pyflame as pf
from pyflame import nn

pytestmark = pytest.mark.kernels(0.5)

F = nn.functional
FORMATS = {4: pf.channels_last, 5: pf.channels_last_3d}


def taps(x, w_shape, y_shape, stride, padding, dilation):
    """For each tap, and what of the padded input it sees."""
    n = len(stride)
    wide = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in padding])
    for tap in itertools.product(*(range(k) for k in w_shape[2:])):
        at = tuple(
            slice(t * d, t * d + s * (y_shape[2 + i] - 1) + 1, s)
            for i, (t, d, s) in enumerate(zip(tap, dilation, stride))
        )
        yield tap, wide, (slice(None), slice(None), *at[:n])


def sizes(x, w, stride, padding, dilation):
    return tuple(
        (x.shape[2 + i] + 2 * p - d * (w.shape[2 + i] - 1) - 1) // s + 1
        for i, (s, p, d) in enumerate(zip(stride, padding, dilation))
    )


def grouped(a, groups):
    return a.reshape(a.shape[0], groups, -1, *a.shape[2:])


def reference(x, w, stride, padding, dilation, groups):
    y = np.zeros((x.shape[0], w.shape[0], *sizes(x, w, stride, padding, dilation)))
    for tap, wide, at in taps(x, w.shape, y.shape, stride, padding, dilation):
        seen = grouped(wide[at], groups)
        weights = w[(slice(None), slice(None), *tap)].reshape(groups, -1, w.shape[1])
        y += np.einsum("goc,ngc...->ngo...", weights, seen).reshape(y.shape)
    return y


def reference_input(dy, w, x_shape, stride, padding, dilation, groups):
    dx = np.zeros(x_shape)
    for tap, wide, at in taps(dx, w.shape, dy.shape, stride, padding, dilation):
        weights = w[(slice(None), slice(None), *tap)].reshape(groups, -1, w.shape[1])
        part = np.einsum("goc,ngo...->ngc...", weights, grouped(dy, groups))
        sums = np.zeros(wide.shape)
        sums[at] = part.reshape(part.shape[0], -1, *part.shape[3:])
        inner = tuple(slice(p, p + s) for p, s in zip(padding, x_shape[2:]))
        dx += sums[(slice(None), slice(None), *inner)]
    return dx


def reference_weight(dy, x, w_shape, stride, padding, dilation, groups):
    dw = np.zeros(w_shape)
    for tap, wide, at in taps(x, w_shape, dy.shape, stride, padding, dilation):
        seen, g = (grouped(a, groups) for a in (wide[at], dy))
        seen, g = (a.reshape(*a.shape[:3], -1) for a in (seen, g))
        part = np.einsum("ngop,ngcp->goc", g, seen)
        dw[(slice(None), slice(None), *tap)] = part.reshape(w_shape[0], -1)
    return dw


@st.composite
def problems(draw):
    dims = draw(st.sampled_from([1, 2, 2, 3]))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    few = st.sampled_from([1, 2, 3, 3, 9])
    ins, outs = draw(few) * groups, draw(few) * groups
    if draw(st.booleans()) and groups > 1:
        ins = outs = groups  # depthwise
    each = lambda values: tuple(draw(st.sampled_from(values)) for _ in range(dims))  # noqa: E731
    kernel, stride, padding = each([1, 2, 3]), each([1, 2, 3]), each([0, 1, 2])
    if draw(st.integers(0, 4)) == 0:
        kernel, stride, padding = (1,) * dims, (1,) * dims, (0,) * dims
    return {
        "x": (draw(st.integers(1, 3)), ins, *each([4, 5, 9])),
        "w": (outs, ins // groups, *kernel),
        "how": (stride, padding, each([1, 1, 2]), groups),
        "last": draw(st.booleans()),
        "seed": draw(st.integers(0, 1000)),
    }


def arrays(problem, *shapes):
    rng = np.random.default_rng(problem["seed"])
    return [rng.standard_normal(s) for s in shapes]


def tensor(a, last=False, grad=True):
    t = pf.tensor(a)
    if last and t.ndim in FORMATS:
        t = t.contiguous(memory_format=FORMATS[t.ndim])
    return t.requires_grad_(grad)


def close(tensor, array):
    assert tuple(tensor.shape) == array.shape
    assert_allclose(tensor.detach().numpy(), array, rtol=1e-10, atol=1e-10)


PIECES = {  # x, weight, stride, padding, dilation, groups: what is cut into pieces, and where
    "rows": ((2, 20, 70, 90), (33, 20, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "rows, strides": ((1, 36, 61, 83), (16, 36, 3, 5), (2, 3), (2, 1), (1, 1), 1),
    "width": ((1, 8, 30011), (9, 8, 5), (2,), (2,), (1,), 1),
    "width, dilated": ((2, 9, 20001), (8, 9, 3), (1,), (3,), (3,), 1),
    "depth": ((1, 12, 9, 30, 50), (10, 12, 3, 1, 3), (1, 2, 1), (1, 0, 1), (1, 1, 1), 1),
    "items together": ((5, 144, 7, 7), (150, 144, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "few pixels": ((3, 130, 2, 3), (140, 130, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "few pixels, strides": (
        (2, 140, 3, 5, 4),
        (130, 140, 3, 1, 2),
        (2, 1, 2),
        (1, 0, 1),
        (1, 1, 1),
        1,
    ),
    "one pixel": ((5, 160, 3, 3), (120, 160, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    "many channels": ((1, 293, 4, 6), (40, 293, 1, 3), (1, 1), (0, 1), (1, 1), 1),
    "groups": ((3, 60, 12, 17), (40, 30, 3, 3), (2, 1), (1, 1), (1, 2), 2),
    "a stride beyond the taps": ((2, 8, 40, 41), (8, 8, 2, 1), (3, 4), (0, 0), (1, 1), 1),
}


@pytest.mark.skipif(
    "standin" in os.environ.get("PYFLAME_HIP_LIBRARY", ""), reason="takes it too long"
)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("case", PIECES)
def test_pieces(case, last):
    x_shape, w_shape, *how = PIECES[case]
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal(x_shape), rng.standard_normal(w_shape)
    tx, tw = tensor(x, last), tensor(w, last)
    y = getattr(F, f"conv{len(how[0])}d")(tx, tw, None, *how)
    close(y, reference(x, w, *how))
    g = rng.standard_normal(y.shape)
    y.backward(tensor(g, last, grad=False))
    close(tx.grad, reference_input(g, w, x_shape, *how))
    dw = reference_weight(g, x, w_shape, *how)
    assert_allclose(tw.grad.numpy(), dw, rtol=1e-9, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_convolution_and_its_gradients(problem):
    stride, padding, dilation, groups = how = problem["how"]
    dims = len(stride)
    x, w, b = arrays(problem, problem["x"], problem["w"], problem["w"][:1])
    assume(min(sizes(x, w, stride, padding, dilation)) > 0)
    xs, ws, bs = tensor(x, problem["last"]), tensor(w), tensor(b)
    y = getattr(F, f"conv{dims}d")(xs, ws, bs, *how)
    close(y, reference(x, w, *how) + b.reshape(-1, *[1] * dims))
    if problem["last"] and dims > 1 and x.shape[1] > 1:
        assert y.is_contiguous(memory_format=FORMATS[dims + 2])
    (g,) = arrays(problem, y.shape)
    gs = tensor(g)
    dx, dw, db = pf.autograd.grad(y, (xs, ws, bs), gs, create_graph=True)
    close(dx, reference_input(g, w, x.shape, *how))
    close(dw, reference_weight(g, x, w.shape, *how))
    close(db, g.sum((0, *range(2, dims + 2))))
    # Each is bilinear: derivatives of <dx, u> + <dw, v>.
    u, v = arrays(problem, x.shape, w.shape)
    total = (dx * pf.tensor(u)).sum() + (dw * pf.tensor(v)).sum()
    of_x, of_w, of_g = pf.autograd.grad(total, (xs, ws, gs))
    close(of_x, reference_input(g, v, x.shape, *how))
    close(of_w, reference_weight(g, u, w.shape, *how))
    close(of_g, reference(u, w, *how) + reference(x, v, *how))


@settings(max_examples=40, deadline=None)
@given(problems(), st.integers(0, 2))
def test_transposed_convolution(problem, extra):
    stride, padding, dilation, groups = how = problem["how"]
    dims = len(stride)
    more = tuple(min(extra, max(s, d) - 1) for s, d in zip(stride, dilation))
    w_shape = (problem["x"][1], problem["w"][0] // groups, *problem["w"][2:])
    x, w, b = arrays(problem, problem["x"], w_shape, (w_shape[1] * groups,))
    shape = (x.shape[0], w_shape[1] * groups) + tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + m + 1
        for n, s, p, d, k, m in zip(x.shape[2:], stride, padding, dilation, w_shape[2:], more)
    )
    assume(min(shape) > 0)
    xs, ws, bs = tensor(x, problem["last"]), tensor(w), tensor(b)
    y = getattr(F, f"conv_transpose{dims}d")(xs, ws, bs, stride, padding, more, groups, dilation)
    close(y, reference_input(x, w, shape, *how) + b.reshape(-1, *[1] * dims))
    (g,) = arrays(problem, shape)
    dx, dw = pf.autograd.grad(y, (xs, ws), pf.tensor(g))
    # With more output padding than the stride the convolution has pixels that x has not.
    close(dx, reference(g, w, *how)[tuple(slice(n) for n in x.shape)])
    close(dw, reference_weight(x, g, w.shape, *how))


# Results and sums that are several tiles of a kernel on GPUs, the last ones cut: batch, channels
# in, out, size, taps, stride, padding, dilation, groups.
LARGE = {
    "3x3": (2, 17, 70, (9, 10), (3, 3), 1, 1, 1, 1),
    "few out": (3, 19, 5, (8, 7), (3, 2), (2, 1), (1, 0), (1, 2), 1),
    "strides": (2, 24, 66, (11, 9), (3, 3), (2, 3), (1, 2), (1, 2), 1),
    "groups": (2, 40, 24, (9, 8), (3, 3), 1, (2, 1), (2, 1), 2),
    "whole": (3, 64, 64, (6, 5), (3, 3), 1, 1, 1, 1),
    "whole, stride 2": (2, 64, 72, (9, 8), (3, 3), 2, 1, 1, 1),
    "deep": (1, 128, 136, (3, 3), (3, 3), 1, 1, 1, 1),
    "wide groups": (1, 128, 64, (5, 4), (3, 1), 1, (1, 0), 1, 2),
    "64 columns": (4, 64, 64, (12, 11), (3, 3), 1, 1, 1, 1),
    "eight channels": (4, 8, 40, (12, 11), (3, 3), (1, 2), 1, 1, 1),
    "128 columns": (5, 24, 136, (11, 10), (3, 2), 1, 1, 1, 1),
    "256 columns": (5, 16, 264, (11, 10), (2, 2), 1, 1, 1, 1),
    "windows": (2, 64, 40, (24, 23), (3, 3), 1, 1, 1, 1),
    "windows of two runs": (2, 120, 136, (17, 16), (3, 3), 1, 1, 1, 1),
    "windows of small images": (30, 128, 72, (7, 7), (3, 3), 1, 1, 1, 1),
    "shares of pixels": (30, 16, 24, (7, 7), (3, 3), 1, 1, 1, 1),
    "windows by a map": (9, 136, 264, (7, 7), (3, 3), 1, 1, 1, 1),
    "windows by a map, apart": (4, 72, 256, (13, 16), (3, 2), (2, 1), (2, 0), (1, 3), 1),
    "windows apart": (2, 64, 72, (31, 37), (3, 3), (1, 2), (1, 0), 1, 1),
    "windows with gaps": (1, 64, 64, (33, 32), (5, 3), 1, (4, 3), (2, 1), 1),
    "lines of whole chunks": (3, 64, 72, (5, 24), (3, 3), 1, 1, 1, 1),
    "long lines of whole chunks": (1, 24, 40, (4, 136), (2, 3), 1, (1, 2), (1, 2), 1),
    "1x1": (2, 64, 40, (7, 9), (1, 1), 1, 0, 1, 1),
    "stem": (2, 3, 64, (23, 22), (7, 7), 2, 3, 1, 1),
    "stem of wide lines": (1, 3, 72, (6, 270), (7, 7), (3, 2), (2, 3), 1, 1),
    "stem, stride 4": (3, 2, 40, (30, 61), (11, 11), 4, 2, 1, 1),
    "stem, stride 1": (5, 4, 32, (9, 35), (3, 3), 1, 1, 1, 1),
    "stem of lines": (2, 1, 16, (1, 40), (1, 5), (1, 3), 0, 1, 1),
    "long": (5, 3, 6, (17, 16), (2, 3), 1, 1, 1, 1),
    "line": (2, 32, 20, (40,), (5,), 2, 2, 1, 1),
    "cube": (1, 16, 24, (5, 4, 6), (3, 2, 3), 1, 1, 1, 1),
    "by channel": (3, 24, 24, (13, 11), (3, 3), 1, 1, 1, 24),
    "by channel, stride 2": (2, 19, 19, (9, 14), (3, 5), (2, 1), (1, 2), (1, 2), 19),
    "by channel, twice": (2, 9, 18, (8, 9), (3, 3), 1, 1, 1, 9),
}


@pytest.mark.parametrize("dtype", [pf.float64, pf.float32, pf.bfloat16, pf.float16, pf.int32])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", LARGE)
def test_large(name, last, dtype):
    batch, ins, outs, size, kernel, *how, groups = LARGE[name]
    dims = len(size)
    how = [v if isinstance(v, tuple) else (v,) * dims for v in how] + [groups]
    rng = np.random.default_rng(0)
    x, w, b = (
        rng.integers(-2, 3, s)
        for s in ((batch, ins, *size), (outs, ins // groups, *kernel), (outs,))
    )

    def make(a):
        t = pf.tensor(a).to(dtype)
        return t.contiguous(memory_format=FORMATS[t.ndim]) if last and t.ndim in FORMATS else t

    grad = dtype.is_floating_point
    xs, ws, bs = (make(a).requires_grad_(grad) for a in (x, w, b))
    y = getattr(F, f"conv{dims}d")(xs, ws, bs, *how)
    # Sums of small integers are exact; only results of 16 bits are rounded (twice, where a library
    # turns them before it adds the bias).
    exact = {"rtol": 2**-7 if dtype.itemsize == 2 else 0, "atol": 0}
    value = reference(x.astype(float), w.astype(float), *how) + b.reshape(-1, *[1] * dims)
    assert_allclose(y.detach().to(pf.float64).numpy(), value, **exact)
    if not grad:
        return
    g = rng.integers(-2, 3, y.shape)
    dx, dw = pf.autograd.grad(y, (xs, ws), make(g))
    assert_allclose(
        dx.to(pf.float64).numpy(), reference_input(g, w.astype(float), x.shape, *how), **exact
    )
    assert_allclose(
        dw.to(pf.float64).numpy(), reference_weight(g, x.astype(float), w.shape, *how), **exact
    )


@pytest.mark.parametrize("dtype", [pf.float32, pf.bfloat16])
def test_what_no_window_sees_is_in_no_gradient(dtype):
    x = pf.ones(2, 3, 9, 40, dtype=dtype).contiguous(memory_format=pf.channels_last)
    x[..., 39] = float("inf")
    x[:, :, 8] = float("nan")
    w = pf.ones(16, 3, 2, 3, dtype=dtype, requires_grad=True)
    (dw,) = pf.autograd.grad(F.conv2d(x, w, stride=2).sum(), (w,))
    assert_allclose(dw.float().numpy(), 2 * 4 * 19)


@pytest.mark.parametrize("size", [4, 5])
@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_named_padding(size, kernel, dilation):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3, size)), rng.standard_normal((4, 3, kernel))
    same = F.conv1d(pf.tensor(x), pf.tensor(w), padding="same", dilation=dilation)
    whole = dilation * (kernel - 1)
    wide = np.pad(x, [(0, 0), (0, 0), (whole // 2, whole - whole // 2)])
    close(same, reference(wide, w, (1,), (0,), (dilation,), 1))
    if size > whole:
        valid = F.conv1d(pf.tensor(x), pf.tensor(w), padding="valid", dilation=dilation)
        close(valid, reference(x, w, (1,), (0,), (dilation,), 1))


@pytest.mark.parametrize("dtype", [pf.float32, pf.bfloat16, pf.float16, pf.int32, pf.int64])
def test_dtypes(dtype):
    rng = np.random.default_rng(0)
    x, w = rng.integers(-4, 5, (2, 4, 6, 5)), rng.integers(-4, 5, (6, 2, 3, 2))
    y = F.conv2d(pf.tensor(x).to(dtype), pf.tensor(w).to(dtype), None, 2, 1, 1, 2)
    assert y.dtype == dtype
    exact = reference(x.astype(float), w.astype(float), (2, 2), (1, 1), (1, 1), 2)
    assert_allclose(y.to(pf.float64).numpy(), exact, rtol=0.005)


def test_sixteen_bits_are_rounded_once():
    x, w = pf.randn(1, 64, 5, 5).bfloat16(), pf.randn(8, 64, 3, 3).bfloat16()
    b = pf.randn(8).bfloat16()
    wide = F.conv2d(x.float(), w.float(), b.float())
    if pf.get_device().type == "cpu":
        assert pf.equal(F.conv2d(x, w, b), wide.bfloat16())
    assert_allclose(F.conv2d(x, w, b).float().numpy(), wide.numpy(), rtol=0.01, atol=0.1)


@pytest.mark.parametrize(
    "shape, outs, kernel, stride, padding",
    [
        ((2, 3, 20, 19), 64, (7, 7), (2, 2), (3, 3)),
        ((1, 3, 9, 40), 32, (3, 3), (1, 1), (1, 1)),
        ((2, 1, 11, 13), 16, (5, 5), (1, 1), (0, 0)),
        ((1, 4, 17, 70), 24, (3, 5), (3, 2), (1, 2)),
        ((1, 2, 8, 8), 72, (2, 2), (2, 2), (0, 0)),
        ((2, 3, 9, 150), 40, (1, 3), (1, 1), (0, 1)),
        ((1, 3, 5, 5), 16, (11, 11), (4, 4), (5, 5)),
    ],
)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [pf.bfloat16, pf.float16])
def test_first_layers_of_pictures(shape, outs, kernel, stride, padding, last, dtype):
    """Few channels and 16 bits: GPUs have a kernel for them."""
    x, w = pf.randn(*shape).to(dtype), pf.randn(outs, shape[1], *kernel).to(dtype)
    b = pf.randn(outs).to(dtype)
    want = reference(
        x.double().numpy(), w.double().numpy(), stride, padding, (1, 1), 1
    ) + b.double().numpy().reshape(-1, 1, 1)
    if last:
        x, w = (t.contiguous(memory_format=pf.channels_last) for t in (x, w))
    eps = 2 * pf.finfo(dtype).eps
    for bias in (b, None):
        y = F.conv2d(x, w, bias, stride=stride, padding=padding)
        assert not last or shape[1] == 1 or y.is_contiguous(memory_format=pf.channels_last)
        exact = want if bias is b else want - b.double().numpy().reshape(-1, 1, 1)
        assert_allclose(y.double().numpy(), exact, rtol=eps, atol=eps * np.abs(want).max())
    if padding[0] or padding[1]:
        assert not F.conv2d(x[:0], w, stride=stride, padding=padding).numel()
    # What is outside of a window does not count, be it infinite.
    x = x.clone()
    x[:, :, -1, -1] = float("inf")
    y = F.conv2d(x, w.abs() + 1, stride=stride, padding=padding).double().numpy()
    one = reference(np.isinf(x.double().numpy()).astype(float), np.ones(w.shape), stride, padding,
                    (1, 1), 1)  # fmt: skip
    assert (np.isinf(y) == (one > 0)).all() and not np.isnan(y).any()


def test_inputs_in_any_layout():
    x, w = pf.randn(2, 6, 9, 8), pf.randn(4, 6, 3, 3)
    y = F.conv2d(x, w, padding=1)
    odd = x.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)
    sliced = pf.randn(2, 8, 12, 9)[:, 1:7, 2:11, :8].copy_(x)
    flipped = w.transpose(2, 3).contiguous().transpose(2, 3)
    for t in (odd, sliced, x.contiguous(memory_format=pf.channels_last)):
        for v in (w, flipped, w.contiguous(memory_format=pf.channels_last)):
            assert_allclose(F.conv2d(t, v, padding=1).numpy(), y.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(2, 3, 1, 1), (1, 1, 1, 1), (2, 3, 1, 4), (2, 1, 5, 1)])
@pytest.mark.parametrize("kernel", [1, 2])
def test_elements_that_stand_for_many(shape, kernel):
    x, w = pf.randn(*shape).expand(2, 3, 5, 4), pf.randn(4, 3, kernel, kernel).requires_grad_()
    results = []
    for t in (x, x.contiguous()):
        y = F.conv2d(t.detach().requires_grad_(), w)
        results.append([y, *pf.autograd.grad(y, w, pf.ones(1).expand(y.shape))])
    for a, b in zip(*results):
        assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-5)


def test_integers_wrap():
    x = pf.full((1, 2, 1, 3), 2**31 - 1, dtype=pf.int32)
    y = F.conv2d(x, pf.ones(1, 2, 1, 2, dtype=pf.int32), pf.tensor([3], dtype=pf.int32))
    assert y.flatten().tolist() == [-1, -1]


def test_without_a_batch_and_empty_ones():
    x, w, b = pf.randn(3, 5, 5), pf.randn(4, 3, 2, 2), pf.randn(4)
    assert pf.equal(F.conv2d(x, w, b), F.conv2d(x.unsqueeze(0), w, b)[0])
    none = pf.zeros(0, 3, 5, 5, requires_grad=True)
    w.requires_grad_()
    y = F.conv2d(none, w, b)
    assert y.shape == (0, 4, 4, 4)
    y.sum().backward()
    assert none.grad.shape == none.shape and not w.grad.any()


def test_extremes_stay_where_the_taps_are():
    x = pf.zeros(1, 1, 6, 6)
    x[0, 0, 2, 3] = float("nan")
    y = F.conv2d(x, pf.ones(1, 1, 3, 3), padding=1)
    seen = np.zeros((6, 6), bool)
    seen[1:4, 2:5] = True
    assert (np.isnan(y[0, 0].numpy()) == seen).all()
    big = F.conv2d(pf.full((1, 1, 3, 3), 1e4), pf.full((1, 1, 3, 3), float("inf")))
    assert big.item() == float("inf")


def test_results_do_not_depend_on_threads():
    def results(threads):
        before = pf.get_num_threads()
        pf.set_num_threads(threads)
        try:
            x, w = tensor(a), tensor(b)
            y = F.conv2d(x, w, None, 2, 1, 1, 2)
            y.backward(pf.tensor(c))
            return [t.numpy() for t in (y.detach(), x.grad, w.grad)]
        finally:
            pf.set_num_threads(before)

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype("f4") for s in ((3, 16, 31, 29), (24, 8, 3, 3)))
    c = rng.standard_normal((3, 24, 16, 15)).astype("f4")
    one = results(1)
    for threads in (2, 3):
        for s, t in zip(one, results(threads)):
            assert (s == t).all()


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: F.conv2d(pf.ones(1, 2, 5, 5), pf.ones(1, 1, 3, 3)), "1 channels"),
        (lambda: F.conv2d(pf.ones(1, 2, 2, 2), pf.ones(1, 2, 3, 3)), "expected them to fit"),
        (lambda: F.conv2d(pf.ones(2, 2), pf.ones(1, 2, 3, 3)), "expected 4"),
        (lambda: F.conv2d(pf.ones(1, 2, 5, 5), pf.ones(2, 3, 3)), "got weight of shape"),
        (lambda: F.conv2d(pf.ones(1, 2, 5, 5), pf.ones(3, 1, 3, 3), groups=2), "they divide"),
        (lambda: F.conv2d(pf.ones(1, 2, 5, 5), pf.ones(3, 2, 3, 3), pf.ones(2)), "got bias"),
        (lambda: F.conv2d(pf.ones(1, 2, 5, 5), pf.ones(3, 2, 3, 3), stride=0), "stride 0"),
        (lambda: F.conv2d(pf.ones(1, 2, 5, 5), pf.ones(3, 2, 3, 3), padding=-1), "padding -1"),
        (lambda: F.conv2d(pf.ones(1, 2, 5, 5), pf.ones(3, 2, 3, 3), stride=(1, 2, 3)), "3 numbers"),
        (lambda: F.conv2d(pf.ones(1, 2, 5, 5), pf.ones(3, 2, 3, 3), padding="full"), "'full'"),
        (
            lambda: F.conv2d(pf.ones(1, 2, 5, 5), pf.ones(3, 2, 3, 3), stride=2, padding="same"),
            "stride of 1",
        ),
        (
            lambda: F.conv_transpose1d(pf.ones(1, 2, 5), pf.ones(2, 3, 3), output_padding=1),
            "output_padding 1",
        ),
        (
            lambda: F.conv_transpose1d(pf.ones(1, 2, 1), pf.ones(2, 3, 1), padding=3),
            "give -5 elements",
        ),
        (
            lambda: F.conv_transpose1d(
                pf.ones(1, 2, 1).expand(1, 2, 1 << 40), pf.ones(2, 1, 1), stride=1 << 30
            ),
            "elements in dimension 0",
        ),
        (lambda: F.conv1d(pf.ones(1, 2, 5), pf.ones(3, 2, 3), padding=1 << 40), "at most"),
        (lambda: F.conv1d(pf.ones(1, 2, 5), pf.ones(3, 2, 3).double()), "one dtype"),
    ],
)
def test_bad_arguments_say_what_is_wrong(call, says):
    with pytest.raises((ValueError, TypeError)) as error:
        call()
    assert says in str(error.value)


def test_layers():
    x = pf.randn(2, 4, 7, 6)
    m = nn.Conv2d(4, 6, (3, np.int64(2)), stride=np.int64(2), padding=1, dilation=(1, 2), groups=2)
    assert pf.equal(m(x), F.conv2d(x, m.weight, m.bias, 2, 1, (1, 2), 2))
    bound = 1 / (4 // 2 * 3 * 2) ** 0.5
    assert m.weight.abs().max() <= bound and m.bias.abs().max() <= bound
    assert repr(m) == (
        "Conv2d(4, 6, kernel_size=(3, 2), stride=(2, 2), padding=(1, 1), dilation=(1, 2), groups=2)"
    )
    assert list(m.state_dict()) == ["weight", "bias"]
    for mode in ("reflect", "replicate", "circular"):
        m = nn.Conv2d(4, 4, 3, padding=(1, 2), padding_mode=mode, bias=False)
        assert pf.equal(m(x), F.conv2d(F.pad(x, (2, 2, 1, 1), mode), m.weight))
        m = nn.Conv2d(4, 4, (3, 2), padding="same", padding_mode=mode)
        assert m(x).shape == x.shape
    t = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1)
    assert t(x).shape == (2, 6, 13, 11)
    assert t(x, output_size=(14, 12)).shape == (2, 6, 14, 12)
    with pytest.raises(ValueError, match="expected 13 to 14"):
        t(x, output_size=(15, 12))
    with pytest.raises(ValueError, match="groups that divide"):
        nn.Conv1d(3, 4, 1, groups=2)
    with pytest.raises(ValueError, match="needs a stride"):
        nn.Conv1d(3, 4, 2, stride=2, padding="same")
    with pytest.raises(ValueError, match="expected numbers"):
        nn.ConvTranspose1d(3, 4, 2, padding_mode="reflect")


def test_autocast():
    m = nn.Conv2d(3, 4, 3)
    with pf.autocast(m.weight.device.type, dtype=pf.bfloat16):
        y = m(pf.randn(1, 3, 5, 5))
    assert y.dtype == pf.bfloat16
    y.float().sum().backward()
    assert m.weight.grad.dtype == pf.float32


GPU = pf.get_device().type in ("cuda", "rocm")


@pytest.mark.parametrize("dtype", [pf.float32, pf.bfloat16])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kernel, stride", [(3, 1), (3, 2), (1, 1), (1, 2)])
def test_a_norm_and_a_residual_follow(kernel, stride, last, dtype):
    pf.manual_seed(3)
    conv = nn.Conv2d(16, 72, kernel, stride, kernel // 2, bias=False).to(dtype)
    norm = nn.BatchNorm2d(72).to(dtype).eval()
    for t in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
        t.detach().copy_(pf.rand(72) + 0.5)
    x = pf.randn(3, 16, 9, 8).to(dtype)
    if last:
        conv = conv.to(memory_format=pf.channels_last)
        x = x.contiguous(memory_format=pf.channels_last)
    with pf.no_grad():
        residual = pf.randn_like(conv(x))
        works = {
            "norm": lambda y: F.relu(norm(y)),
            "residual": lambda y: F.relu(norm(y) + residual),
            "kept": lambda y: (y, norm(y)),
            "transposed": lambda y: y + residual.transpose(0, 1).contiguous().transpose(0, 1),
        }
        for name, work in works.items():
            with pf.debug.eager():
                want = work(conv(x))
            pf.synchronize()
            before = pf.debug.stats()
            got = work(conv(x))
            pf.synchronize()
            after = pf.debug.stats()
            if dtype == pf.float32 or GPU:  # the CPU widens 16 bits before and after
                assert after["groups"] - before["groups"] == 1, name
            # A number for each channel is one for each column where channels are columns.
            if GPU and dtype == pf.bfloat16 and name == "norm" and last:
                assert after["joined"] > before["joined"]
            for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want))):
                assert a.is_contiguous(memory_format=pf.channels_last) == last
                assert a.cpu().float().numpy().tobytes() == b.cpu().float().numpy().tobytes(), name


@pytest.mark.parametrize("groups, size", [(1, 9), (1, 3), (2, 9), (8, 9)])
def test_the_gradient_of_a_weight_lies_as_it_does(groups, size):
    """So an optimizer changes channels-last weights, gradients and moments where they lie."""
    pf.manual_seed(4)
    x = pf.randn(2, 8, size, size).contiguous(memory_format=pf.channels_last)
    weight = pf.randn(16, 8 // groups, 3, 3).requires_grad_()
    last = weight.detach().contiguous(memory_format=pf.channels_last).requires_grad_()
    for w in (weight, last):
        F.conv2d(x, w, padding=1, groups=groups).square().sum().backward()
    assert weight.grad.is_contiguous()
    assert last.grad.is_contiguous(memory_format=pf.channels_last)
    np.testing.assert_allclose(
        weight.grad.cpu().numpy(), last.grad.cpu().numpy(), rtol=1e-4, atol=1e-4
    )
    optimizer = pf.optim.AdamW([last], lr=0.1)
    optimizer.step()
    pf.synchronize()
    before = pf.debug.stats()
    optimizer.step()
    pf.synchronize()
    after = pf.debug.stats()
    assert after["kernels"] - before["kernels"] == 1, "copies beside the step"
    assert after["programs"] == before["programs"]


@pytest.mark.parametrize("layout", ("contiguous_format", "channels_last"))
@pytest.mark.parametrize("batch", (1, 3))
def test_one_tap_weight_gradients_of_images(batch, layout):
    """A product for each image and their sum, where images are large beside the weight."""
    rng = np.random.default_rng(3)
    x, w, g = (
        pf.tensor(rng.standard_normal(s).astype("float32"))
        for s in ((batch, 24, 18, 16), (12, 24, 1, 1), (batch, 12, 18, 16))
    )
    x, g = (t.contiguous(memory_format=getattr(pf, layout)) for t in (x, g))
    w.requires_grad_()
    with pf.backends.cudnn.flags(allow_tf32=False):
        got = pf.autograd.grad(pf.nn.functional.conv2d(x, w), w, g)[0].cpu().numpy()
    want = np.einsum("bohw,bihw->oi", g.cpu().double().numpy(), x.cpu().double().numpy())
    assert np.abs(got[:, :, 0, 0] - want).max() < 1e-4 * np.abs(want).max()
