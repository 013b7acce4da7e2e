"""Matrix products against NumPy in float64."""

import itertools
import os

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn.functional as F

pytestmark = pytest.mark.kernels(0.8)

RNG = np.random.default_rng(0)
TOLERANCE = {pf.float64: 1e-12, pf.float32: 2e-5, pf.bfloat16: 2e-2, pf.float16: 4e-3}


def make(shape, dtype=pf.float32, layout="plain"):
    """A tensor of `shape` in some memory layout, and its values as float64."""
    a = RNG.standard_normal(shape)
    t = pf.tensor(a).to(dtype)
    if layout == "transposed" and len(shape) >= 2:
        t = t.transpose(-1, -2).contiguous().transpose(-1, -2)
    elif layout == "strided" and len(shape) >= 1:
        wide = pf.zeros(*shape[:-1], shape[-1] * 2, dtype=dtype)
        wide[..., ::2] = t
        t = wide[..., ::2]
    elif layout == "offset" and len(shape) >= 1:
        wide = pf.zeros(shape[0] + 1, *shape[1:], dtype=dtype)
        wide[1:] = t
        t = wide[1:]
    return t, t.to(pf.float64).numpy()


def close(t, want, dtype=pf.float32, scale=None):
    got = t.to(pf.float64).numpy()
    assert got.shape == want.shape
    bound = TOLERANCE[dtype] * (
        scale if scale is not None else max(1.0, np.abs(want).max(initial=0))
    )
    np.testing.assert_allclose(got, want, rtol=0, atol=bound)


def numeric_gradient(fn, arrays, i, eps=1e-6):
    """d(sum(fn * weights))/d(arrays[i]) by central differences in float64."""
    tensors = [pf.tensor(a) for a in arrays]
    weights = np.random.default_rng(1).standard_normal(fn(*tensors).shape)

    def value():
        return float((fn(*[pf.tensor(a) for a in arrays]).numpy() * weights).sum())

    grad = np.zeros_like(arrays[i])
    for at in np.ndindex(*arrays[i].shape):
        before = arrays[i][at]
        arrays[i][at] = before + eps
        up = value()
        arrays[i][at] = before - eps
        down = value()
        arrays[i][at] = before
        grad[at] = (up - down) / (2 * eps)
    return weights, grad


def check_gradients(fn, *arrays):
    arrays = [np.array(a, dtype=np.float64) for a in arrays]
    tensors = [pf.tensor(a).requires_grad_() for a in arrays]
    out = fn(*tensors)
    for i in range(len(arrays)):
        weights, want = numeric_gradient(fn, arrays, i)
        (got,) = pf.autograd.grad((out * pf.tensor(weights)).sum(), [tensors[i]], retain_graph=True)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-7)


SHAPES = [
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((1, 1), (1, 1)),
    ((17, 33), (33, 9)),
    ((130, 70), (70, 65)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((2, 1, 4, 3), (1, 6, 3, 5)),
    ((2, 6, 4, 3), (6, 3, 5)),
    ((0, 3), (3, 4)),
    ((2, 0), (0, 4)),
    ((2, 3), (3, 0)),
    ((0, 2, 3), (0, 3, 4)),
    ((2, 5, 0), (0, 3)),
]


@pytest.mark.parametrize("layout", ["plain", "transposed", "strided", "offset"])
@pytest.mark.parametrize("a_shape, b_shape", SHAPES)
def test_matmul_matches_numpy(a_shape, b_shape, layout):
    a, na = make(a_shape, layout=layout)
    b, nb = make(b_shape, layout="transposed" if layout == "strided" else layout)
    close(a @ b, na @ nb)
    close(pf.matmul(a, b), na @ nb)


@pytest.mark.races("64-64-64-dtype1", "64-64-64-dtype2", "33-300-65-dtype0", "33-300-65-dtype3")
@pytest.mark.parametrize("dtype", [pf.float64, pf.float32, pf.bfloat16, pf.float16])
@pytest.mark.parametrize("m, k, n", [(1, 1, 1), (5, 7, 3), (64, 64, 64), (33, 300, 65)])
def test_dtypes_accumulate_wide(dtype, m, k, n):
    a, na = make((m, k), dtype)
    b, nb = make((k, n), dtype)
    close(a @ b, na @ nb, dtype, scale=max(1, np.abs(na @ nb).max()))


@pytest.mark.races("1000-1100", "1600-1500", "2200-4000")
@pytest.mark.skipif(
    os.environ.get("PYFLAME_TEST_DEVICE", "cpu") not in ("cuda", "rocm")
    or "standin"
    in os.environ.get("PYFLAME_HIP_LIBRARY", "") + os.environ.get("PYFLAME_CUDA_LIBRARY", ""),
    reason="as many tiles as a real GPU has compute units",
)
@pytest.mark.parametrize("m, n", [(1000, 1100), (1600, 1500), (2200, 4000)])
def test_products_of_many_tiles(m, n):
    for dtype, turned in itertools.product((pf.bfloat16, pf.float16, pf.float32), (False, True)):
        a, na = make((m, 192), dtype, "transposed" if turned else "plain")
        b, nb = make((192, n), dtype, "plain" if turned else "transposed")
        close(a @ b, na @ nb, dtype)
    x, y = (RNG.integers(-128, 128, shape) for shape in ((m, 192), (n, 192)))
    got = pf.int_mm(pf.tensor(x).to(pf.int8), pf.tensor(y).to(pf.int8).t())
    np.testing.assert_array_equal(got.numpy(), x @ y.T)


@pytest.mark.races
def test_int_mm():
    """int8 matrices to int32, against int64; matmul wraps."""
    for m, k, n in ((37, 61, 29), (64, 64, 64), (1, 300, 1), (3, 0, 4), (0, 5, 2)):
        a, b = RNG.integers(-128, 128, (m, k)), RNG.integers(-128, 128, (n, k))
        x, y = pf.tensor(a).to(pf.int8), pf.tensor(b).to(pf.int8).t()
        for got in (pf.int_mm(x, y), pf._int_mm(x, y.contiguous())):
            assert got.dtype is pf.int32 and (got.numpy() == a @ b.T).all()
        assert ((x @ y).numpy() == (a @ b.T).astype(np.int8)).all()
    least = pf.full((2, 4096), -128, dtype=pf.int8)
    assert (pf.int_mm(least, least.t()).numpy() == 4096 * 128 * 128).all()
    with pytest.raises(pf.DTypeError, match="int8"):
        pf.int_mm(pf.ones(2, 2), pf.ones(2, 2))
    with pytest.raises(pf.DTypeError, match="same dtype"):
        pf.int_mm(least, pf.ones(4096, 2))
    with pytest.raises(pf.ShapeError, match="2 dimensions"):
        pf.int_mm(least[None], least.t())
    with pytest.raises(pf.ShapeError, match=r"int_mm"):
        pf.int_mm(least, least)


@pytest.mark.parametrize("dtype", [pf.int64, pf.int32, pf.int16, pf.int8, pf.uint8])
def test_integers_are_exact(dtype):
    a = RNG.integers(0, 5, (6, 7))
    b = RNG.integers(0, 5, (7, 3))
    got = (pf.tensor(a).to(dtype) @ pf.tensor(b).to(dtype)).to(pf.int64)
    assert (
        got.numpy() == (a @ b).astype(np.dtype(str(dtype).split(".")[-1])).astype(np.int64)
    ).all()


def test_special_values():
    a = pf.tensor([[float("inf"), 1.0], [float("nan"), 1.0], [1e4, -1e4]])
    b = pf.tensor([[1.0, 0.0], [1.0, 1.0]])
    got = (a @ b).numpy()
    assert np.isposinf(got[0, 0]) and np.isnan(got[0, 1]) and np.isnan(got[1]).all()
    assert got[2].tolist() == [0.0, -1e4]


def test_broadcast_operand_without_copy():
    a = pf.tensor(RNG.standard_normal((1, 4))).expand(3, 4)
    b = pf.tensor(RNG.standard_normal((4, 1))).expand(4, 5)
    close(a @ b, a.numpy() @ b.numpy(), pf.float64)


@pytest.mark.cpu_only  # where the order of additions is said to be one
@pytest.mark.parametrize("k", [1, 7, 2047, 2048, 2049, 4096 + 8, 20000])
def test_a_dot_product_has_the_bits_of_a_row_of_products(k):
    a, b = pf.randn(k + 1)[1:], pf.randn(k + 3)[3:]
    many = pf.stack([b] * 40, 1)  # so many columns are sums across lanes
    assert pf.dot(a, b).item() == (a.unsqueeze(0) @ many)[0, 7].item()


def test_named_products():
    a, na = make((4, 5))
    b, nb = make((5, 6))
    v, nv = make((5,))
    w, nw = make((4,))
    close(pf.mm(a, b), na @ nb)
    close(a.mm(b), na @ nb)
    close(pf.mv(a, v), na @ nv)
    close(pf.dot(v, v), np.array(nv @ nv))
    close(pf.outer(w, v), np.outer(nw, nv))
    c, nc = make((4, 6))
    r, nr = make((6,))
    close(pf.addmm(c, a, b), nc + na @ nb)
    close(pf.addmm(r, a, b), nr + na @ nb)
    close(pf.addmm(c, a, b, beta=0.5, alpha=2), 0.5 * nc + 2 * (na @ nb))
    x, nx = make((3, 4, 5))
    y, ny = make((3, 5, 6))
    z, nz = make((3, 4, 6))
    close(pf.bmm(x, y), nx @ ny)
    close(pf.batch_matmul(x, y), nx @ ny)
    close(pf.baddbmm(z, x, y, beta=2, alpha=0.5), 2 * nz + 0.5 * (nx @ ny))


def test_composed_products():
    n = RNG.standard_normal
    cases = [
        (pf.inner, np.inner, n((2, 3)), n((4, 3))),
        (pf.inner, np.inner, n(3), n(3)),
        (pf.vdot, np.vdot, n(3), n(3)),
        (pf.ger, np.outer, n(3), n(4)),
        (pf.kron, np.kron, n((2, 3)), n((4, 5))),
        (pf.kron, np.kron, n(3), n((2, 2))),
        (pf.cross, np.cross, n((4, 3)), n((4, 3))),
        (lambda a, b: pf.cross(a, b, dim=0), lambda a, b: np.cross(a, b, axis=0), n((3, 2)), n((3, 2))),
        (pf.trace, np.trace, n((3, 4))),
        (lambda a: pf.matrix_power(a, 5), lambda a: np.linalg.matrix_power(a, 5), n((2, 3, 3))),
        (lambda a, b: pf.vecdot(a, b, dim=0), lambda a, b: (a * b).sum(0), n((3, 4)), n((3, 1))),
        (lambda a, b, c: pf.chain_matmul(a, b, c), lambda a, b, c: a @ b @ c, n((2, 3)), n((3, 4)), n((4, 2))),
        (pf.addr, lambda c, a, b: c + np.outer(a, b), n((3, 4)), n(3), n(4)),
        (pf.addbmm, lambda c, a, b: c + (a @ b).sum(0), n((2, 4)), n((5, 2, 3)), n((5, 3, 4))),
        (
            F.bilinear,
            lambda x, y, w, b: np.einsum("bi,oij,bj->bo", x, w, y) + b,
            n((2, 3)), n((2, 4)), n((5, 3, 4)), n(5),
        ),
    ]  # fmt: skip
    for ours, reference, *arrays in cases:
        got = ours(*[pf.tensor(a) for a in arrays])
        close(got, np.asarray(reference(*arrays)), pf.float64)
        check_gradients(ours, *arrays)


def test_the_power_zero_is_the_identity():
    assert (pf.matrix_power(pf.zeros(2, 3, 3), 0).numpy() == np.eye(3)).all()


def test_addmm_ignores_input_when_beta_is_zero():
    a, na = make((2, 3))
    nan = pf.full((2, 2), float("nan"))
    close(pf.addmm(nan, a, a.t(), beta=0), na @ na.T)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (2, 0, 5), (2, 3, 4, 5)])
@pytest.mark.parametrize("bias", [False, True])
def test_linear(shape, bias):
    x, nx = make(shape)
    w, nw = make((7, 5))
    b, nb = make((7,))
    close(F.linear(x, w, b if bias else None), nx @ nw.T + (nb if bias else 0))


def test_linear_rounds_once():
    x = pf.ones(1, 256, dtype=pf.bfloat16)
    w = pf.ones(4, 256, dtype=pf.bfloat16)
    w[:, 0] = 2.0  # sums of 257, which bfloat16 does not have
    b = pf.ones(4, dtype=pf.bfloat16)
    assert F.linear(x, w, b).to(pf.float32).numpy().tolist() == [[258.0] * 4]


def test_results_do_not_depend_on_threads():
    a, _ = make((96, 200))
    b, _ = make((200, 150))
    before = pf.get_num_threads()
    try:
        pf.set_num_threads(1)
        one = (a @ b).numpy()
        pf.set_num_threads(3)
        assert ((a @ b).numpy() == one).all()
    finally:
        pf.set_num_threads(before)


@pytest.mark.parametrize("a_shape, b_shape", [s for s in SHAPES if np.prod(s[0]) < 50])
def test_matmul_gradients(a_shape, b_shape):
    a = RNG.standard_normal(a_shape)
    b = RNG.standard_normal(b_shape)
    if a.size == 0 or b.size == 0:
        x, y = pf.tensor(a).requires_grad_(), pf.tensor(b).requires_grad_()
        (x @ y).sum().backward()
        assert x.grad.shape == a.shape and y.grad.shape == b.shape
        assert (x.grad.numpy() == 0).all() and (y.grad.numpy() == 0).all()
        return
    check_gradients(lambda x, y: x @ y, a, b)


def test_gradients_of_the_other_products():
    n = RNG.standard_normal
    check_gradients(F.linear, n((2, 3, 4)), n((5, 4)), n(5))
    check_gradients(F.linear, n(4), n((5, 4)), n(5))
    check_gradients(pf.addmm, n((2, 4)), n((2, 3)), n((3, 4)))
    check_gradients(
        lambda c, a, b: pf.addmm(c, a, b, beta=0.5, alpha=3), n(4), n((2, 3)), n((3, 4))
    )
    check_gradients(lambda a, b: a.t() @ b.t(), n((3, 2)), n((4, 3)))


def test_second_derivative():
    x = pf.tensor(RNG.standard_normal((3, 4))).requires_grad_()
    w = pf.tensor(RNG.standard_normal((4, 2))).requires_grad_()
    y = (x @ w).pow(2).sum()
    gx, gw = pf.autograd.grad(y, [x, w], create_graph=True)
    z = (gx * gx).sum() + (gw * gw).sum()
    hx, hw = pf.autograd.grad(z, [x, w])

    def value(nx, nw):
        g = 2 * nx @ nw
        return ((g @ nw.T) ** 2).sum() + ((nx.T @ g) ** 2).sum()

    nx, nw, eps = x.detach().numpy().copy(), w.detach().numpy().copy(), 1e-6
    for got, array in ((hx.numpy(), nx), (hw.numpy(), nw)):
        for at in np.ndindex(*array.shape):
            before = array[at]
            array[at] = before + eps
            up = value(nx, nw)
            array[at] = before - eps
            down = value(nx, nw)
            array[at] = before
            assert abs(got[at] - (up - down) / (2 * eps)) < 1e-4 * max(1, abs(got[at]))


def test_errors_say_what_to_do():
    with pytest.raises(pf.ShapeError, match=r"pf\.matmul: got \[2, 3\] and \[4, 5\]"):
        pf.zeros(2, 3) @ pf.zeros(4, 5)
    with pytest.raises(pf.DTypeError, match="expected both to have the same dtype"):
        pf.zeros(2, 3) @ pf.zeros(3, 4, dtype=pf.float64)
    with pytest.raises(pf.ShapeError, match="at least one dimension"):
        pf.zeros(()) @ pf.zeros(3)
    with pytest.raises(pf.ShapeError, match=r"pf\.bmm"):
        pf.bmm(pf.zeros(2, 3, 4), pf.zeros(3, 4, 5))
    with pytest.raises(pf.ShapeError, match=r"pf\.matmul"):
        pf.zeros(2, 3, 4) @ pf.zeros(3, 4, 5)
    with pytest.raises(pf.ShapeError, match=r"pf\.linear.*in_features"):
        F.linear(pf.zeros(2, 3), pf.zeros(5, 4))
    with pytest.raises(pf.ShapeError, match=r"pf\.linear.*bias"):
        F.linear(pf.zeros(2, 3), pf.zeros(5, 3), pf.zeros(4))
    with pytest.raises(pf.ShapeError, match=r"pf\.mm"):
        pf.mm(pf.zeros(2, 3, 4), pf.zeros(4, 5))
    with pytest.raises(pf.DTypeError):
        pf.zeros(2, 2, dtype=pf.bool) @ pf.zeros(2, 2, dtype=pf.bool)


@pytest.mark.parametrize("sizes", [(5, 1, 7, 2, 9), (40, 3, 50, 2, 60, 1), (3, 4)])
@pytest.mark.parametrize("ends", ["matrices", "row", "column", "both"])
def test_products_of_many_in_the_cheapest_order(sizes, ends):
    rng = np.random.default_rng(1)
    a = [rng.standard_normal((m, n)) for m, n in zip(sizes, sizes[1:])]
    if ends != "matrices" and len(a) == 1:
        return
    if ends in ("row", "both"):
        a[0] = a[0][0]
    if ends in ("column", "both"):
        a[-1] = a[-1][:, 0]
    if len(a) > 1:
        got = pf.linalg.multi_dot([pf.tensor(x) for x in a]).cpu().numpy()
        np.testing.assert_allclose(got, np.linalg.multi_dot(a), rtol=1e-12)
    if ends == "matrices":
        want = a[0]
        for x in a[1:]:
            want = want @ x
        got = pf.chain_matmul(*[pf.tensor(x) for x in a]).cpu().numpy()
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_product_of_many_refuses_what_is_no_matrix():
    with pytest.raises(pf.ShapeError, match="expected matrices"):
        pf.linalg.multi_dot([pf.ones(2, 2), pf.ones(2), pf.ones(2, 2)])
    with pytest.raises(pf.ShapeError, match="expected matrices"):
        pf.chain_matmul(pf.ones(2, 2), pf.ones(2))


@pytest.mark.parametrize(
    "m, k, n", [(1, 1, 1), (7, 3, 5), (13, 257, 31), (3, 0, 4), (0, 3, 4), (193, 511, 1025)]
)
def test_int_mm_is_exact(m, k, n):
    """Sums of 32 bits of int8, extremes included, in every layout."""
    for a_turned, b_turned in itertools.product([False, True], repeat=2):
        a, b = RNG.integers(-128, 128, (m, k)), RNG.integers(-128, 128, (k, n))
        a[:, : k // 2] = b[: k // 2] = -128

        def place(x, turned):
            return pf.tensor(x.T.copy()).t() if turned else pf.tensor(x)

        got = pf.int_mm(place(a.astype(np.int8), a_turned), place(b.astype(np.int8), b_turned))
        assert got.dtype == pf.int32
        np.testing.assert_array_equal(got.numpy(), a @ b)


def test_an_input_larger_than_the_product_is_refused():
    """Also where beta is 0: the result has the shape of the product."""
    m, v, batch = pf.ones(2, 3), pf.ones(3), pf.ones(4, 2, 3)
    calls = [
        (lambda x, **k: pf.addr(x, pf.ones(2), v, **k), (5, 2, 3)),
        (lambda x, **k: pf.addbmm(x, batch, pf.ones(4, 3, 3), **k), (5, 2, 3)),
        (lambda x, **k: pf.addmv(x, m, v, **k), (3, 2)),
        (lambda x, **k: pf.addmm(x, m, pf.ones(3, 3), **k), (5, 2, 3)),
        (lambda x, **k: pf.baddbmm(x, batch, pf.ones(4, 3, 3), **k), (7, 4, 2, 3)),
    ]
    for call, shape in calls:
        for options in ({}, {"beta": 0}):
            with pytest.raises(pf.ShapeError, match="for a product of shape"):
                call(pf.ones(*shape), **options)
        call(pf.ones(1))


def test_one_factor_is_copied():
    x = pf.ones(2, 2)
    for r in (pf.chain_matmul(x), pf.matrix_power(x, 1), pf.linalg.matrix_power(x, 1)):
        r.fill_(7)
    assert x.tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("alpha, beta", [(2.0315, -4.775), (1, 3.4445), (0.7, 1)])
@pytest.mark.parametrize("name", ["addmm", "addmv", "addbmm", "baddbmm"])
def test_scaled_sums_are_rounded_once(name, alpha, beta, dtype):
    """On the host; elsewhere, and of vectors, the product may be rounded before."""
    rng = np.random.default_rng(7)
    half = getattr(pf, dtype)
    shapes = {
        "addmm": [(8, 5), (8, 6), (6, 5)], "addmv": [(8,), (8, 6), (6,)],
        "addbmm": [(8, 5), (1, 8, 6), (1, 6, 5)], "baddbmm": [(2, 8, 5), (2, 8, 6), (2, 6, 5)],
    }[name]  # fmt: skip
    x, a, b = (pf.tensor(rng.standard_normal(s)).to(half) for s in shapes)
    product = (a.double() @ b.double()).reshape(shapes[0])
    want = (beta * x.double() + alpha * product).to(half).double()
    got = getattr(pf, name)(x, a, b, alpha=alpha, beta=beta).double()
    one = 2.0 ** -(7 if dtype == "bfloat16" else 10)
    assert ((got - want).abs() <= one * (abs(alpha) * product.abs() + want.abs())).all().item()
    if name.endswith("mm") and name != "addbmm" and x.device.type in ("cpu", "paranoid"):
        assert (got == want).all().item()
