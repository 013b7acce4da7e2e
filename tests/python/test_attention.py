"""Scaled dot-product attention against NumPy in float64."""

import math

import numpy as np
import pytest
from conftest import DEVICE

import pyflame as pf
import pyflame.nn.functional as F

pytestmark = pytest.mark.kernels(0.3)

RNG = np.random.default_rng(0)


def reference(q, k, v, mask=None, causal=False, scale=None):
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    s = q @ np.swapaxes(k, -1, -2) * scale
    if causal:
        mask = np.tril(np.ones(s.shape[-2:], dtype=bool))
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype == bool else s + mask
    with np.errstate(all="ignore"):
        top = s.max(-1, keepdims=True, initial=-np.inf)
        e = np.exp(s - np.where(np.isinf(top), 0, top))
        total = e.sum(-1, keepdims=True)
        p = np.where(total == 0, 0, e / np.where(total == 0, 1, total))
    return p @ v


def make(b, h, length, e, layout, dtype=pf.float64):
    """[b, h, length, e], plain or as a view of a projection [b, length, 3, h, e]."""
    if layout == "plain":
        return pf.tensor(RNG.standard_normal((b, h, length, e))).to(dtype)
    if layout == "projection":
        wide = pf.tensor(RNG.standard_normal((b, length, 3 * h * e))).to(dtype)
        return wide[..., : h * e].view(b, length, h, e).transpose(1, 2)
    t = pf.tensor(RNG.standard_normal((b, h, e, length))).to(dtype)
    return t.transpose(-1, -2)  # last stride is not 1


SHAPES = [(1, 1, 1, 1, 1, 1), (2, 3, 17, 17, 5, 7), (1, 2, 33, 12, 16, 16), (2, 1, 5, 50, 8, 3)]
LAYOUTS = ["plain", "projection", "transposed"]


@pytest.mark.races("float-1-2-33-12-16-16-plain-dtype1")
@pytest.mark.parametrize("dtype", [pf.float64, pf.float32, pf.bfloat16, pf.float16])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("b, h, length, s, e, ev", SHAPES)
@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float", "heads"])
def test_matches_the_reference(b, h, length, s, e, ev, layout, kind, dtype):
    q, k, v = (
        make(b, h, length, e, layout, dtype),
        make(b, h, s, e, layout, dtype),
        make(b, h, s, ev, layout, dtype),
    )
    mask = None
    if kind == "bool":
        mask = pf.tensor(RNG.random((length, s)) < 0.6)
        mask[0] = False  # a query that sees nothing
    elif kind == "float":
        mask = pf.tensor(RNG.standard_normal((b, 1, length, s))).to(dtype)
    elif kind == "heads":
        mask = pf.tensor(RNG.random((h, 1, s)) < 0.6)
    got = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=kind == "causal")
    wide = [t.to(pf.float64).numpy() for t in (q, k, v)]
    if mask is not None:
        mask = mask.numpy() if mask.dtype == pf.bool else mask.to(pf.float64).numpy()
    want = reference(*wide, mask, kind == "causal")
    bound = {pf.float64: 1e-13, pf.float32: 3e-6, pf.bfloat16: 2e-2, pf.float16: 3e-3}[dtype]
    assert tuple(got.shape) == want.shape
    np.testing.assert_allclose(got.to(pf.float64).numpy(), want, rtol=0, atol=bound * 3)


def test_scale_and_batch_broadcast():
    q = pf.tensor(RNG.standard_normal((2, 3, 4, 5)))
    k = pf.tensor(RNG.standard_normal((3, 6, 5)))
    v = pf.tensor(RNG.standard_normal((2, 1, 6, 7)))
    got = F.scaled_dot_product_attention(q, k, v, scale=0.3)
    want = reference(q.numpy(), k.numpy(), v.numpy(), scale=0.3)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-13)
    flat = F.scaled_dot_product_attention(q[0, 0], k[0], v[0, 0])
    np.testing.assert_allclose(
        flat.numpy(), reference(q[0, 0].numpy(), k[0].numpy(), v[0, 0].numpy()), atol=1e-13
    )


def test_empty():
    for b, length, s in [(0, 3, 3), (2, 0, 3), (2, 3, 0)]:
        q, k = pf.zeros(b, 1, length, 4), pf.zeros(b, 1, s, 4)
        out = F.scaled_dot_product_attention(q, k, k)
        assert tuple(out.shape) == (b, 1, length, 4) and (out.numpy() == 0).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_heads_join_without_a_copy(layout):
    q = make(2, 4, 3, 5, layout)
    y = F.scaled_dot_product_attention(q, q, q)
    assert y.transpose(1, 2).is_contiguous()
    k = make(2, 2, 3, 5, layout)
    y = F.scaled_dot_product_attention(q, k, k, enable_gqa=True)
    assert y.transpose(1, 2).is_contiguous()


@pytest.mark.races
def test_grouped_heads():
    q = make(2, 6, 5, 4, "plain")
    k, v = make(2, 2, 7, 4, "plain"), make(2, 2, 7, 3, "plain")
    got = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    want = reference(q.numpy(), k.numpy().repeat(3, 1), v.numpy().repeat(3, 1))
    np.testing.assert_allclose(got.numpy(), want, atol=1e-13)


def test_results_do_not_depend_on_threads():
    q, k, v = (make(2, 3, 70, 16, "projection", pf.float32) for _ in range(3))
    before = pf.get_num_threads()
    try:
        pf.set_num_threads(1)
        one = F.scaled_dot_product_attention(q, k, v, is_causal=True).numpy()
        pf.set_num_threads(3)
        many = F.scaled_dot_product_attention(q, k, v, is_causal=True).numpy()
        assert (one == many).all()
    finally:
        pf.set_num_threads(before)


def check_gradients(fn, *arrays, tolerance=1e-6):
    tensors = [pf.tensor(a).requires_grad_() for a in arrays]
    out = fn(*tensors)
    weights = np.random.default_rng(1).standard_normal(tuple(out.shape))
    grads = pf.autograd.grad((out * pf.tensor(weights)).sum(), tensors)
    with pf.no_grad():
        for array, g in zip(arrays, grads):
            got = g.numpy()
            for at in np.ndindex(*array.shape):
                before = array[at]
                array[at] = before + 1e-6
                up = (fn(*[pf.tensor(a) for a in arrays]).numpy() * weights).sum()
                array[at] = before - 1e-6
                down = (fn(*[pf.tensor(a) for a in arrays]).numpy() * weights).sum()
                array[at] = before
                assert abs(got[at] - (up - down) / 2e-6) < tolerance * max(1, abs(got[at]))


@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float", "gqa"])
def test_gradients(kind):
    n = RNG.standard_normal
    q, k, v = n((2, 4, 3, 3)), n((2, 2 if kind == "gqa" else 4, 5, 3)), n((2, 1, 5, 2))
    if kind == "gqa":
        v = n((2, 2, 5, 2))
    options = {"is_causal": kind == "causal", "enable_gqa": kind == "gqa"}
    if kind == "bool":
        mask = RNG.random((3, 5)) < 0.5
        mask[1] = False
        options["attn_mask"] = pf.tensor(mask)
    elif kind == "float":
        options["attn_mask"] = pf.tensor(n((4, 1, 5)))
    check_gradients(lambda a, b, c: F.scaled_dot_product_attention(a, b, c, **options), q, k, v)


@pytest.mark.races
def test_gradient_over_several_blocks():
    q, k, v = (make(1, 2, 101, 8, "projection").detach().numpy().copy() for _ in range(3))
    weights = RNG.standard_normal((1, 2, 101, 8))
    for causal in (False, True):
        fused = [pf.tensor(a).requires_grad_() for a in (q, k, v)]
        y = F.scaled_dot_product_attention(*fused, is_causal=causal)
        (y * pf.tensor(weights)).sum().backward()
        parts = [pf.tensor(a).requires_grad_() for a in (q, k, v)]
        s = parts[0] @ parts[1].transpose(-1, -2) / 8**0.5
        if causal:
            s = s.masked_fill(~pf.tensor(np.tril(np.ones((101, 101), dtype=bool))), float("-inf"))
        ((s.softmax(-1) @ parts[2]) * pf.tensor(weights)).sum().backward()
        for a, b in zip(fused, parts):
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), atol=1e-12)


def reference_gradients(q, k, v, g, mask=None, causal=False):
    """Those of q, k and v for the gradient g of the result."""
    scale = 1 / np.sqrt(q.shape[-1])
    s = q @ np.swapaxes(k, -1, -2) * scale
    if causal:
        mask = np.tril(np.ones(s.shape[-2:], dtype=bool))
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype == bool else s + mask
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isinf(top), 0, top))
    p = e / np.maximum(e.sum(-1, keepdims=True), 1e-300)
    dp = g @ np.swapaxes(v, -1, -2)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale
    return ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ g


# Lengths on both sides of the tiles of 16, 32, 64 and 128 rows; columns that fill tiles of 32, 64,
# 96 and 128, and that do not.
HALF_SHAPES = [(64, 64, 32, 32), (65, 129, 64, 64), (140, 31, 72, 96), (33, 66, 128, 100)]


@pytest.mark.races("65-129-64-64-none", "140-31-72-96-causal", "33-66-128-100-bool")
@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float"])
@pytest.mark.parametrize("length, s, e, ev", HALF_SHAPES)
def test_gradients_of_16_bit_floats(length, s, e, ev, kind):
    dtype = pf.bfloat16 if kind in ("none", "bool") else pf.float16
    shapes = [(1, 2, length, e), (1, 2, s, e), (1, 2, s, ev)]
    q, k, v = (pf.tensor(RNG.standard_normal(d)).to(dtype).requires_grad_() for d in shapes)
    g = pf.tensor(RNG.standard_normal((1, 2, length, ev))).to(dtype)
    mask = None
    if kind == "bool":
        mask = pf.tensor(RNG.random((length, s)) < 0.6)
        mask[0] = False
    elif kind == "float":
        mask = pf.tensor(RNG.standard_normal((1, 1, length, s))).to(dtype)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=kind == "causal")
    y.backward(g)
    wide = [t.detach().to(pf.float64).numpy() for t in (q, k, v, g)]
    if mask is not None:
        mask = mask.numpy() if mask.dtype == pf.bool else mask.to(pf.float64).numpy()
    wants = reference_gradients(*wide, mask, kind == "causal")
    bound = 2e-2 if dtype == pf.bfloat16 else 3e-3
    np.testing.assert_allclose(
        y.detach().to(pf.float64).numpy(), reference(*wide[:3], mask, kind == "causal"), atol=bound
    )
    for t, want in zip((q, k, v), wants):
        got = t.grad.to(pf.float64).numpy()
        np.testing.assert_allclose(got, want, rtol=0, atol=bound * max(1, np.abs(want).max()))


@pytest.mark.parametrize("dtype", [pf.bfloat16, pf.float16])
def test_results_do_not_depend_on_layout(dtype):
    arrays = [RNG.standard_normal((2, 3, 70, 24)) for _ in range(4)]

    def lay_out(a, layout):
        t = pf.tensor(a).to(dtype)
        if layout == "interleaved":
            return t.transpose(1, 2).contiguous().transpose(1, 2)
        if layout == "shifted":  # addresses that are no multiples of 16 bytes
            wide = pf.zeros(2, 3, 70, 27, dtype=dtype)
            wide[..., 1:25] = t
            return wide[..., 1:25]
        return t.transpose(-1, -2).contiguous().transpose(-1, -2) if layout == "turned" else t

    def run(layout):
        q, k, v = (lay_out(a, layout).detach().requires_grad_() for a in arrays[:3])
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y.backward(lay_out(arrays[3], layout))
        return [t.to(pf.float64).numpy() for t in (y.detach(), q.grad, k.grad, v.grad)]

    plain = run("plain")
    for layout in ("interleaved", "shifted", "turned"):
        for a, b in zip(plain, run(layout)):
            np.testing.assert_array_equal(a, b)


@pytest.mark.races
def test_the_gradient_of_a_sum():  # it is one number, repeated
    q, k, v = (pf.tensor(RNG.standard_normal((1, 2, 40, 64))).to(pf.bfloat16) for _ in range(3))
    for t in (q, k, v):
        t.requires_grad_()
    F.scaled_dot_product_attention(q, k, v).sum().backward()
    wide = [t.detach().to(pf.float64).numpy() for t in (q, k, v)]
    for t, want in zip((q, k, v), reference_gradients(*wide, np.ones(wide[0].shape))):
        np.testing.assert_allclose(t.grad.to(pf.float64).numpy(), want, atol=0.02)


@pytest.mark.parametrize("dtype", [pf.bfloat16, pf.float16])
def test_extremes_of_16_bit_floats(dtype):
    """Large scores, infinities and NaN stay where they belong."""
    length, e = 48, 64
    v = pf.tensor(RNG.standard_normal((1, length, e))).to(dtype)
    q = pf.full((1, length, e), 1e4, dtype=dtype).requires_grad_()
    y = F.scaled_dot_product_attention(q, q.detach(), v)
    want = v.to(pf.float64).numpy().mean(1, keepdims=True)
    np.testing.assert_allclose(y.detach().to(pf.float64).numpy(), want.repeat(length, 1), atol=2e-2)
    y.sum().backward()
    assert np.isfinite(q.grad.to(pf.float64).numpy()).all()
    # Causal: a NaN in key 20 is seen by queries from 20 on.
    q = pf.tensor(RNG.standard_normal((1, length, e))).to(dtype)
    k = q.clone()
    k[0, 20, 3] = float("nan")
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True).to(pf.float64).numpy()
    assert np.isfinite(y[0, :20]).all() and np.isnan(y[0, 20:]).all()
    # An additive mask of -inf leaves a row nothing to see, and its gradient is 0.
    mask = pf.zeros(length, length, dtype=dtype)
    mask[5] = float("-inf")
    q = q.requires_grad_()
    y = F.scaled_dot_product_attention(q, q.detach(), v, attn_mask=mask)
    y.sum().backward()
    assert (y.detach().to(pf.float64).numpy()[0, 5] == 0).all()
    assert (q.grad.to(pf.float64).numpy()[0, 5] == 0).all()
    assert np.isfinite(q.grad.to(pf.float64).numpy()).all()


def test_a_learnt_mask_gets_its_gradient():
    n = RNG.standard_normal
    check_gradients(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        n((1, 2, 3, 2)), n((1, 2, 4, 2)), n((1, 2, 4, 2)), n((2, 3, 4)),
    )  # fmt: skip


@pytest.mark.parametrize("causal", [False, True])
def test_second_derivative(causal):
    n = RNG.standard_normal
    arrays = [n((1, 3, 2)), n((1, 3, 2)), n((1, 3, 2))]

    def first(q, k, v):
        with pf.enable_grad():
            q = q if q.requires_grad else q.requires_grad_()
            y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            (g,) = pf.autograd.grad((y * y).sum(), [q], create_graph=True)
        return g

    tensors = [pf.tensor(a).requires_grad_() for a in arrays]
    g = first(*tensors)
    weights = n(tuple(g.shape))
    grads = pf.autograd.grad((g * pf.tensor(weights)).sum(), tensors)
    for array, got in zip(arrays, grads):
        for at in np.ndindex(*array.shape):
            before = array[at]
            values = []
            for x in (before + 1e-6, before - 1e-6):
                array[at] = x
                values.append((first(*map(pf.tensor, arrays)).detach().numpy() * weights).sum())
            array[at] = before
            assert abs(got.numpy()[at] - (values[0] - values[1]) / 2e-6) < 1e-5


def test_dropout_repeats_with_the_seed_and_keeps_the_mean():
    q = pf.zeros(1, 1, 50, 4)
    v = pf.ones(1, 1, 200, 4)
    k = pf.zeros(1, 1, 200, 4)
    pf.manual_seed(3)
    a = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5).numpy()
    pf.manual_seed(3)
    b = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5).numpy()
    assert (a == b).all()
    assert abs(a.mean() - 1) < 0.05 and a.std() > 0.01


def test_special_values():
    q = pf.zeros(1, 2, 4)
    k = pf.zeros(1, 3, 4)
    v = pf.ones(1, 3, 4)
    q[0, 0, 0] = float("nan")
    out = F.scaled_dot_product_attention(q, k, v).numpy()
    assert np.isnan(out[0, 0]).all() and (out[0, 1] == 1).all()
    big = F.scaled_dot_product_attention(pf.full((1, 2, 4), 1e4), pf.full((1, 3, 4), 1e4), v)
    np.testing.assert_allclose(big.numpy(), 1, atol=1e-6)


@pytest.mark.parametrize("dtype", [pf.bfloat16, pf.float16, pf.float64])
def test_masks_of_float32_beside_other_dtypes(dtype):
    """As PyTorch takes them; the lowest number of float32 hides a key, and is not -inf in 16 bits."""
    q, k, v = (pf.randn(2, 3, n, 8).to(dtype) for n in (5, 7, 7))
    mask = pf.randn(5, 7)
    mask[1] = pf.finfo(pf.float32).min
    mask[2] = -math.inf
    mask[3, 2:] = pf.finfo(pf.float32).min
    mask[4, 3:] = -math.inf
    mask.requires_grad_()
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert out.dtype == dtype
    out.float().sum().backward()
    got, values = out.detach().float().cpu(), v.float().cpu()
    lowest = max(pf.finfo(dtype).min, pf.finfo(pf.float32).min)
    added = mask.detach().cpu()
    added = pf.where(added.isinf(), added, added.clamp(min=lowest))
    scores = (q.float() @ k.float().mT).cpu() / math.sqrt(8) + added
    want = pf.softmax(scores, -1) @ values
    want[:, :, 2] = 0
    if dtype is pf.bfloat16 and DEVICE not in ("cpu", "paranoid"):
        want[:, :, 1] = 0  # in powers of two its scores are beyond float32
    assert pf.allclose(got, want, atol=3e-2, rtol=3e-2)
    assert mask.grad.dtype == pf.float32 and mask.grad.isfinite().all()
    for wrong in {pf.float64, pf.float16, pf.bfloat16} - {dtype}:
        with pytest.raises(pf.DTypeError, match="expected bool, float32 or the dtype of query"):
            F.scaled_dot_product_attention(q, k, v, attn_mask=mask.detach().to(wrong))


def test_errors_say_what_to_do():
    q = pf.zeros(1, 2, 3, 4)
    name = r"pf\.scaled_dot_product_attention: got "
    with pytest.raises(pf.ShapeError, match=name):
        F.scaled_dot_product_attention(q, pf.zeros(1, 2, 3, 5), q)
    with pytest.raises(pf.ShapeError, match=name + "attn_mask"):
        F.scaled_dot_product_attention(q, q, q, attn_mask=pf.zeros(2, 2))
    with pytest.raises(ValueError, match="is_causal"):
        F.scaled_dot_product_attention(q, q, q, attn_mask=pf.zeros(3, 3), is_causal=True)
    with pytest.raises(pf.DTypeError, match=name):
        F.scaled_dot_product_attention(q, q, q.to(pf.float64))
    with pytest.raises(pf.DTypeError, match="attn_mask"):
        F.scaled_dot_product_attention(q, q, q, attn_mask=pf.zeros(3, 3, dtype=pf.int64))
    with pytest.raises(pf.ShapeError, match="enable_gqa"):
        F.scaled_dot_product_attention(pf.zeros(1, 3, 2, 4), q, q, enable_gqa=True)


@pytest.mark.parametrize("scale", [0.0, -0.5, -300.0])
def test_scales_that_are_not_positive(scale):
    q, k, v = (
        np.random.default_rng(0).standard_normal((2, 5, 4)).astype("float32") for _ in range(3)
    )
    scores = np.einsum("bik,bjk->bij", q.astype("float64"), k) * scale
    p = np.exp(scores - scores.max(-1, keepdims=True))
    expected = p / p.sum(-1, keepdims=True) @ v
    x, y, z = (pf.tensor(a).requires_grad_() for a in (q, k, v))
    got = F.scaled_dot_product_attention(x, y, z, scale=scale)
    np.testing.assert_allclose(got.detach().cpu().numpy(), expected, rtol=1e-3, atol=1e-4)
    got.sum().backward()
    for t in (x, y, z):
        assert np.isfinite(t.grad.cpu().numpy()).all()


@pytest.mark.parametrize("dtype", [pf.bfloat16, pf.float16])
def test_a_mask_with_a_gradient_costs_no_precision(dtype):
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((2, 3, 17, 16)) * 2 for _ in range(3))
    mask, g = rng.standard_normal((17, 17)) * 3, rng.standard_normal((2, 3, 17, 16))
    leaves = [pf.tensor(a).to(dtype).requires_grad_() for a in (q, k, v, mask)]
    y = F.scaled_dot_product_attention(*leaves)
    y.backward(pf.tensor(g).to(dtype))
    exact = [t.detach().double().requires_grad_() for t in leaves]
    want = reference(*(t.detach().numpy() for t in exact))
    half = 2.0**-8 if dtype == pf.bfloat16 else 2.0**-11
    error = np.abs(y.detach().double().numpy() - want)
    allowed = 1.02 * half * np.abs(want) + 1e-6
    if not y.is_cpu:  # matrix units take weights of 16 bits
        wide = [t.detach().numpy() for t in exact]
        allowed += half * reference(wide[0], wide[1], np.abs(wide[2]), wide[3])
    assert (error <= allowed).all()
    F.scaled_dot_product_attention(*exact).backward(pf.tensor(g).to(dtype).double())
    for ours, wide in zip(leaves, exact):
        a, b = ours.grad.double().numpy(), wide.grad.numpy()
        assert np.abs(a - b).max() <= 2 * half * np.abs(b).max()


def projections(b, length, h, e):
    """Ways in which people cut queries, keys and values [b, h, length, e] out of one projection, and
    its shape."""
    wide = h * e

    def heads(t):
        return t.view(b, length, h, e).transpose(1, 2)

    return {
        "split": ((b, length, 3 * wide), lambda x: [heads(t) for t in x.split(wide, dim=2)]),
        "unbind": (
            (b, length, 3 * wide),
            lambda x: [t.transpose(1, 2) for t in x.view(b, length, 3, h, e).unbind(2)],
        ),
        "permuted": (
            (b, length, 3 * wide),
            lambda x: x.view(b, length, 3, h, e).permute(2, 0, 3, 1, 4).unbind(0),
        ),
        "by heads": (
            (b, length, h * 3 * e),
            lambda x: x.view(b, length, h, 3 * e).transpose(1, 2).chunk(3, dim=-1),
        ),
        "shared heads": (
            (b, length, 2 * wide),
            lambda x: [
                t.view(b, length, -1, e).transpose(1, 2)
                for t in x.split([wide, wide // 2, wide // 2], dim=2)
            ],
        ),
        "with others": (
            (b, length, 4 * wide),
            lambda x: [heads(t) for t in x.split(wide, dim=2)[:3]],
        ),
    }


@pytest.mark.parametrize("way", list(projections(1, 1, 2, 1)))
@pytest.mark.parametrize("b, length, h, e", [(2, 5, 4, 8), (1, 1, 2, 4), (1, 7, 2, 3)])
def test_gradients_of_one_projection(way, b, length, h, e, device):
    shape, cut = projections(b, length, h, e)[way]
    x = RNG.standard_normal(shape)
    weight = pf.tensor(RNG.standard_normal((b, h, length, e)), device=device)

    def gradient(apart):
        p = pf.tensor(x, device=device, requires_grad=True)
        q, k, v = cut(p)
        if apart:
            q, k, v = q.clone(), k.clone(), v.clone()
        kept = []
        q.register_hook(kept.append)
        out = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=way == "shared heads"
        )
        (out * weight).sum().backward()
        return p.grad.cpu().numpy(), kept[0].cpu().numpy()

    (together, dq), (apart, dq_apart) = gradient(False), gradient(True)
    np.testing.assert_allclose(together, apart, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(dq, dq_apart, rtol=1e-12, atol=1e-12)


def test_a_projection_of_which_a_gradient_is_kept(device):
    """What a hook holds stays as it was when the projection's gradient is added to."""
    p = pf.tensor(RNG.standard_normal((2, 6, 3 * 8)), device=device, requires_grad=True)
    (q, k, v), held = (t.view(2, 6, 2, 4).transpose(1, 2) for t in p.split(8, dim=2)), []
    q.register_hook(lambda g: held.append((g, g.clone())))
    F.scaled_dot_product_attention(q, k, v).sum().backward(retain_graph=True)
    p.grad.mul_(3)
    for g, as_it_was in held:
        np.testing.assert_array_equal(g.cpu().numpy(), as_it_was.cpu().numpy())
