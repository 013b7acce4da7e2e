"""Arithmetic of complex numbers against NumPy, and its gradients: those of a function of real and
imaginary parts, as finite differences have them."""

import numpy as np
import pytest
from finite import check_grad, layouts, same

import pyflame as pf

RNG = np.random.default_rng(4)


def random(*shape, dtype=np.complex128):
    return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(dtype)


def of(t):
    return t.detach().cpu().numpy()


def close(got, want, tol=1e-12):
    got = of(got)
    assert got.shape == np.shape(want), (got.shape, np.shape(want))
    np.testing.assert_allclose(got, want, rtol=tol, atol=tol)


UNARY = {
    "neg": np.negative, "abs": np.abs, "square": np.square, "reciprocal": lambda z: 1 / z,
    "sqrt": np.sqrt, "rsqrt": lambda z: 1 / np.sqrt(z), "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)), "angle": np.angle, "sgn": lambda z: z / np.abs(z),
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "conj": np.conj, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
    "logical_not": np.logical_not, "isreal": np.isreal, "conj_physical": np.conj,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one(name):
    for dtype, tol in ((np.complex128, 1e-12), (np.complex64, 2e-5)):
        for a in (random(3, 5, dtype=dtype), random(dtype=dtype), random(0, 2, dtype=dtype)):
            for t in layouts(a):
                got = getattr(pf, name)(t)
                want = UNARY[name](a)
                assert of(got).dtype == want.dtype
                close(got, want, tol)


BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "eq": np.equal, "ne": np.not_equal, "logical_and": np.logical_and,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name):
    a, b, c = random(3, 4), random(4), RNG.standard_normal((3, 1)) + 2
    f, g = getattr(pf, name), BINARY[name]
    close(f(pf.tensor(a), pf.tensor(b)), g(a, b), 1e-11)
    close(f(pf.tensor(a), pf.tensor(c)), g(a, c), 1e-11)
    close(f(pf.tensor(c), pf.tensor(a)), g(c.astype(complex), a), 1e-11)
    close(f(pf.tensor(a), 2), g(a, 2), 1e-11)
    close(f(pf.tensor(a), 1.5), g(a, 1.5), 1e-11)
    close(f(pf.tensor(a), 2 - 1j), g(a, 2 - 1j), 1e-11)
    close(f(pf.tensor(a), pf.tensor(a)), g(a, a), 1e-11)


def test_operators_and_promotion():
    a = random(3, dtype=np.complex64)
    t = pf.tensor(a)
    x = RNG.standard_normal(3)
    for got, want in [
        (t + 1j, a + np.complex64(1j)), (1j * t, np.complex64(1j) * a), (2 - t, 2 - a), (1 / t, 1 / a),
        (t / 2, a / 2), (t**2, a**2), (t**-1, 1 / a), (t**0.5, np.sqrt(a)), (-t, -a), (abs(t), np.abs(a)),
    ]:  # fmt: skip
        close(got, want, 2e-5)
    assert (pf.tensor(x, dtype=pf.float32) * 1j).dtype == pf.complex64
    assert (pf.tensor(x) * 1j).dtype == pf.complex128
    assert (pf.arange(3) * 1j).dtype == pf.complex64
    assert (t + pf.tensor(x)).dtype == pf.complex128
    assert (t == 1j).dtype == pf.bool
    assert (t * 2.0).dtype == pf.complex64
    y = t.clone()
    y *= 2j
    y += 1
    y -= t
    y /= 2
    close(y, (a * 2j + 1 - a) / 2, 2e-5)
    with pytest.raises(pf.DTypeError):
        pf.ones(3).mul_(1j)
    for f in (
        lambda: t < 1,
        lambda: pf.floor(t),
        lambda: pf.relu(t),
        lambda: t % 2,
        lambda: pf.maximum(t, t),
    ):
        with pytest.raises(pf.DTypeError, match="complex"):
            f()
    w = pf.where(pf.tensor([True, False, True]), t, 0)
    close(w, np.where([True, False, True], a, 0))


def test_edges():
    zero = pf.zeros(2, dtype=pf.complex128)
    same(zero.abs(), [0, 0])
    same(zero.sgn(), [0, 0])
    same(zero.sqrt(), [0, 0])
    same(zero**2, [0, 0])
    same(zero ** (1 + 1j), [0, 0])
    big = np.array([1e200 + 1e200j, 1e-200 - 1e-200j, -4 + 0j, -4 - 0.0j, 3e300])
    t = pf.tensor(big)
    close(t.sqrt(), np.sqrt(big))
    close(t.abs(), np.abs(big))
    close(t / t, np.ones(5))
    close(pf.tensor(np.array([400 + 1j, -400 + 1j])).tanh(), [1, -1])
    nan = pf.tensor([complex(np.nan, 1), complex(1, np.inf)])
    same(nan.isnan(), [True, False])
    same(nan.isinf(), [False, True])


ENDS = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.0, 1e-300, 1e200, -1e308]
# NumPy's expm1 has NaN where exp and annex G of C99 have infinities and zeros.
FROM_C99 = "asin acos atan asinh acosh atanh sqrt exp sinh cosh tanh".split()


@pytest.mark.parametrize("name", FROM_C99)
def test_infinities_and_zeros(name):
    """As C99 has them, in NumPy: also the signs of zeros, which say on which side of a cut a number is."""
    rng = np.random.default_rng(1)
    z = np.array([complex(a, b) for a in ENDS for b in ENDS])
    wide = (rng.normal(size=300) + 1j * rng.normal(size=300)) * 10 ** rng.uniform(-8, 8, 300)
    if name in ("exp", "sinh", "cosh"):
        wide = wide[np.abs(wide) < 300]
    z = np.concatenate([z, wide])
    with np.errstate(all="ignore"):
        want = UNARY[name](z)
    got = of(getattr(pf, name)(pf.tensor(z)))
    # Where C99 leaves a sign open, or where a part that is NaN decides of the other.
    loose = np.isnan(want.real) | np.isnan(want.imag) | ~np.isfinite(z)
    for part in ("real", "imag"):
        g, w = getattr(got, part), getattr(want, part)
        known = ~np.isnan(w)
        assert (np.isnan(g) == np.isnan(w))[np.isfinite(z)].all(), name
        far = np.isinf(w) & known
        assert (np.abs(g[far]) == np.inf).all(), (name, z[far], g[far])
        near = np.isfinite(w)
        bound = 1e-12 * np.where(np.isfinite(want), np.abs(want), np.abs(w))[near]
        assert (np.abs(g[near] - w[near]) <= bound).all(), name
        strict = known & ~loose
        assert (np.signbit(g) == np.signbit(w))[strict & (w == g)].all(), name


def test_nothing_is_lost_near_zero():
    z = np.array([1e-12 + 1e-13j, -1e-15j, 1e-9 - 1e-7j])
    close(pf.tensor(z).expm1() / pf.tensor(z), 1 + z / 2, 1e-13)
    close(pf.tensor(z).atanh() / pf.tensor(z), np.ones(3), 1e-13)
    same(pf.tensor([complex(-0.0, -0.0)]).sgn().imag.signbit(), [False])


def test_complex_numbers_as_values():
    z = pf.tensor([1j, 2, 0])
    same(pf.full((2,), 1j), np.full(2, 1j, "c8"))
    assert pf.full((2,), 2 - 1j, dtype=pf.complex128)[1].item() == 2 - 1j
    same(pf.full_like(z, 3j), np.full(3, 3j, "c8"))
    same(z.new_full((1,), 3j), np.full(1, 3j, "c8"))
    same(z.masked_fill(pf.tensor([True, False, False]), 2j), np.array([2j, 2, 0], "c8"))
    same(z.index_fill(0, pf.tensor([1]), 2j), np.array([1j, 2j, 0], "c8"))
    same(z.clone().fill_(1 - 1j), np.full(3, 1 - 1j, "c8"))
    x, mask, i = pf.ones(2), pf.tensor([True, False]), pf.tensor([0])
    for f in (
        lambda: pf.full_like(x, 1j), lambda: x.fill_(1j), lambda: x.masked_fill(mask, 1j),
        lambda: x.masked_fill_(mask, 1j), lambda: x.index_fill(0, i, 1j), lambda: x.new_full((2,), 1j),
    ):  # fmt: skip
        with pytest.raises(pf.DTypeError, match="complex number for float32"):
            f()
    with pytest.raises(pf.ShapeError):
        pf.full((2,), pf.tensor([1j, 2j]))


def test_running_sums_and_tests_of_elements():
    a = random(3, 7)
    a[1, 2] = a[2] = 0
    t = pf.tensor(a)
    for d in (0, 1, -1):
        close(t.cumsum(d), a.cumsum(d))
        close(t.cumprod(d), a.cumprod(d))
    close(pf.ones(3).cumsum(0, dtype=pf.complex128), [1, 2, 3])
    close(pf.ones(3).cumprod(0, dtype=pf.complex128), [1, 1, 1])
    close(pf.tensor(a[0, 0]).cumsum(0), a[0, 0])
    assert pf.zeros(2, 0, dtype=pf.complex64).cumprod(1).shape == (2, 0)
    same(t.nonzero(), np.argwhere(a))
    same(t.any(1), a.any(1))
    same(t.all(0), a.all(0))
    assert pf.count_nonzero(t).item() == np.count_nonzero(a)
    ends = np.array([1 + 1j, complex(np.inf, 0), complex(np.nan, 0), 1e-9j, 5])
    other = np.array(
        [1 + 1.00000001j, complex(np.inf, 0), complex(np.nan, 0), 0, complex(np.inf, 5)]
    )
    for equal_nan in (False, True):
        same(pf.isclose(pf.tensor(ends), pf.tensor(other), equal_nan=equal_nan),
             np.isclose(ends, other, equal_nan=equal_nan))  # fmt: skip
    assert pf.allclose(t, t + 1e-12) and not pf.allclose(t, t + 1e-3j)


def test_sums_and_products():
    a, b = random(2, 3, 4), random(2, 4, 5)
    t = pf.tensor(a)
    for dim in (None, 0, -1, (0, 2)):
        axis = dim
        close(t.sum() if dim is None else t.sum(dim), a.sum(axis))
        close(
            t.mean() if dim is None else t.mean(dim, keepdim=True),
            a.mean(axis, keepdims=dim is not None),
        )
    close(t.prod(1), a.prod(1))
    close(t.prod(), a.prod())
    close(pf.zeros(0, 2, dtype=pf.complex64).sum(0), np.zeros(2))
    close(pf.zeros(0, 2, dtype=pf.complex64).prod(0), np.ones(2))
    close(t @ pf.tensor(b), a @ b)
    close(t.mT @ t, a.swapaxes(1, 2) @ a)
    close(pf.tensor(a[0]) @ pf.tensor(b[0, :, 0]), a[0] @ b[0, :, 0])
    close(t.mH, a.conj().swapaxes(1, 2))
    close(pf.tensor(a[0]).H, a[0].conj().T)
    close(t.adjoint(), a.conj().swapaxes(1, 2))
    v, w = random(4), random(4)
    close(pf.dot(pf.tensor(v), pf.tensor(w)), np.dot(v, w))
    close(pf.vdot(pf.tensor(v), pf.tensor(w)), np.vdot(v, w))
    close(pf.linalg.vecdot(pf.tensor(v), pf.tensor(w)), np.vdot(v, w))
    close(pf.linalg.vector_norm(pf.tensor(v)), np.linalg.norm(v))
    close(pf.linalg.matrix_norm(t), np.linalg.norm(a, axis=(1, 2)))
    close(pf.einsum("bij,bjk->bik", t, pf.tensor(b)), a @ b)


def test_parts_are_views():
    a = random(2, 3)
    t = pf.tensor(a)
    same(t.real, a.real)
    same(t.imag, a.imag)
    same(pf.view_as_real(t), np.stack([a.real, a.imag], -1))
    t.real.zero_()
    same(t.real, 0 * a.real)
    same(t.imag, a.imag)
    pf.view_as_real(t)[..., 1] += 1
    same(t, 1j * (a.imag + 1))
    x = RNG.standard_normal((3, 2))
    same(pf.view_as_complex(pf.tensor(x)), x[:, 0] + 1j * x[:, 1])
    same(pf.complex(pf.tensor(x[:, 0]), pf.tensor(x[:, 1])), x[:, 0] + 1j * x[:, 1])
    close(pf.polar(pf.tensor(x[:, 0]), pf.tensor(x[:, 1])), x[:, 0] * np.exp(1j * x[:, 1]))
    assert pf.ones(2).real.tolist() == [1, 1]
    for f in (
        lambda: pf.ones(2).imag,
        lambda: pf.view_as_real(pf.ones(2)),
        lambda: pf.view_as_complex(pf.ones(2, dtype=pf.int64)),
    ):
        with pytest.raises(pf.DTypeError):
            f()
    with pytest.raises(pf.ShapeError):
        pf.view_as_complex(pf.ones(3))
    with pytest.raises(pf.ShapeError, match="contiguous"):
        pf.view_as_complex(pf.ones(2, 3).mT)
    with pytest.raises(pf.DTypeError):
        pf.complex(pf.ones(2), pf.ones(2, dtype=pf.float64))


GRADIENTS = {
    **{n: (lambda z, w, n=n: getattr(pf, n)(z) + getattr(pf, n)(w)) for n in "asin acos atan asinh acosh atanh expm1".split()},
    "cumsum": lambda z, w: z.cumsum(1) * w, "cumprod": lambda z, w: z.cumprod(0) + w.cumprod(1),
    "mul": lambda z, w: z * w, "div": lambda z, w: z / w, "add": lambda z, w: z + 2j * w,
    "sub": lambda z, w: 1 - z - w, "matmul": lambda z, w: z @ w.mH, "abs": lambda z, w: abs(z) + abs(w),
    "angle": lambda z, w: z.angle() * w.real, "exp": lambda z, w: (z * w).exp(),
    "log": lambda z, w: (z * w + 2).log(), "sqrt": lambda z, w: (z * w).sqrt(), "pow": lambda z, w: z**3 * w**-2,
    "power": lambda z, w: (z + 3) ** w, "sin": lambda z, w: z.sin() * w.cos(), "tanh": lambda z, w: z.tanh() * w.sinh(),
    "conj": lambda z, w: z.conj() * w, "sgn": lambda z, w: z.sgn() * w, "sum": lambda z, w: z.sum(0) * w.mean(0),
    "prod": lambda z, w: z.prod(1) * w.prod(), "where": lambda z, w: pf.where(w.real > 0, z, w * w),
    "views": lambda z, w: pf.cat([z[:1].mT.flatten(), w[..., 0], pf.diagonal(w)]) * 1j,
    "broadcast": lambda z, w: z[:1] * w + z[:, :1], "index": lambda z, w: z[pf.tensor([0, 1, 0])].tril() * 2j,
    "stack": lambda z, w: pf.stack([z, w]).flip(0)[:, 1:] ** 2, "real": lambda z, w: z.real * w.imag,
    "polar": lambda z, w: pf.polar(z.real, w.imag), "clone": lambda z, w: (z.clone() * w).reshape(-1)[1:],
    "in place": lambda z, w: (z * 1).mul_(w).add_(z), "real times": lambda z, w: z.real * w + z,
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    f = GRADIENTS[name]

    def parts(a, b, c, d):
        r = f(pf.complex(a, b), pf.complex(c, d))
        return pf.view_as_real(r.contiguous()) if r.is_complex() else r

    arrays = [RNG.standard_normal((2, 2)) + s for s in (0.5, 0, 0.7, 0.3)]
    check_grad(parts, *arrays, tol=1e-5)


def test_the_convention():
    torch = pytest.importorskip("torch")
    a, b = random(3, 3), random(3, 3)
    for f in (
        lambda m, z, w: (z * w).abs().sum(), lambda m, z, w: ((z @ w).real ** 2).sum(),
        lambda m, z, w: (z / w).imag.sum(), lambda m, z, w: (z.exp() * w.conj()).real.sum(),
    ):  # fmt: skip
        grads = []
        for m in (pf, torch):
            z, w = (m.tensor(v).requires_grad_() for v in (a, b))
            f(m, z, w).backward()
            grads.append([z.grad, w.grad])
        for x, y in zip(*grads):
            close(x, y.resolve_conj().numpy(), 1e-10)
    z = pf.tensor(a, requires_grad=True)
    assert z.requires_grad and z.is_leaf
    y = z * 2
    y.backward(pf.ones_like(y))
    close(z.grad, np.full((3, 3), 2))
    with pytest.raises(pf.PyFlameError):
        (z * 2).sum().backward()


def test_new_ones_and_random():
    assert pf.eye(2, dtype=pf.complex64).tolist() == [[1, 0], [0, 1]]
    z = pf.randn(20000, dtype=pf.complex64)
    assert z.dtype == pf.complex64 and abs(float((z.abs() ** 2).mean()) - 1) < 0.05
    u = pf.rand(100, dtype=pf.complex128)
    assert bool(((u.real >= 0) & (u.real < 1) & (u.imag >= 0) & (u.imag < 1)).all())
    assert not z.is_conj() and not z.is_neg() and z.resolve_conj() is z
    assert pf.ones(2).cfloat().dtype == pf.complex64 and pf.ones(2).cdouble().dtype == pf.complex128


def _at_index(a, dim, index, src, into):
    out = a.copy()
    into(out, (index, slice(None)) if dim == 0 else (slice(None), index), src)
    return out


REDUCED = {
    "var": lambda z, d: z.var(d, ddof=1),
    "std": lambda z, d: z.std(d, ddof=1),
    "norm": lambda z, d: np.linalg.norm(z, axis=d),
    "logsumexp": lambda z, d: np.log(np.exp(z).sum(d)),
}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("dim", [0, 1])
def test_reductions(name, dim):
    z = random(4, 3)
    for t in layouts(z):
        got = getattr(pf, name)(t, dim=dim)
        assert got.dtype == (pf.complex128 if name == "logsumexp" else pf.float64)
        close(got, REDUCED[name](z, dim), 1e-11)
    assert pf.autograd.gradcheck(
        lambda t: getattr(pf, name)(t, dim=dim), pf.tensor(z, requires_grad=True)
    )


def test_reductions_of_equal_numbers_have_finite_gradients():
    z = pf.full((3,), 1 + 2j, dtype=pf.complex128).requires_grad_()
    z.std().backward()
    assert of(z.grad).tolist() == [0, 0, 0]


def test_covariance():
    z, w = random(3, 6), RNG.integers(1, 4, 6)
    close(pf.cov(pf.tensor(z)), np.cov(z), 1e-12)
    close(pf.cov(pf.tensor(z), fweights=pf.tensor(w)), np.cov(z, fweights=w), 1e-12)
    close(pf.corrcoef(pf.tensor(z)), np.corrcoef(z), 1e-12)


def test_sums_by_index():
    z, src, index = random(4, 3), random(5, 3), RNG.integers(0, 4, 5)
    want = _at_index(z, 0, index, src, np.add.at)
    t, s, i = pf.tensor(z), pf.tensor(src), pf.tensor(index)
    close(t.index_add(0, i, s), want)
    close(t.scatter_add(0, i[:, None].expand(5, 3), s), want)
    close(t.scatter_reduce(0, i[:, None].expand(5, 3), s, "sum"), want)
    close(t.index_put((i,), s, accumulate=True), want)
    close(pf.tensor(z).index_put_((i,), s, accumulate=True), want)
    close(pf.tensor(z).scatter_add_(0, i[:, None].expand(5, 3), s), want)
    one = pf.tensor(2 + 1j, dtype=pf.complex128).scatter_add(
        0, pf.tensor(0), pf.tensor(1j).to(pf.complex128)
    )
    assert one.item() == 2 + 2j
    leaf, part = t.clone().requires_grad_(), s.clone().requires_grad_()
    assert pf.autograd.gradcheck(lambda a, b: a.index_add(0, i, b) ** 2, (leaf, part))
    assert pf.autograd.gradcheck(lambda a, b: a.index_put((i,), b, True) ** 2, (leaf, part))


def test_numbers_with_fractions_stay_what_they_are():
    z = random(3)
    t, mask = pf.tensor(z), pf.tensor([True, False, True])
    for value in (float("inf"), 1e30, 0.5, -2):
        assert of(t.masked_fill(mask, value))[0] == value
        assert of(t.clone().masked_fill_(mask, value))[2] == value
    assert of(t.masked_fill(mask, pf.tensor(1 + 2j).to(pf.complex128)))[0] == 1 + 2j
    close(pf.sub(t, t, alpha=0.5), z - 0.5 * z)
    close(pf.rsub(t, 0.5, alpha=0.25), 0.5 - 0.25 * z)
    close(t.clone().sub_(t, alpha=-1.5), z + 1.5 * z)
    close(pf.vander(t, 4), np.vander(z, 4))
    close(pf.float_power(t, 3), z**3, 1e-11)
    assert pf.float_power(t.to(pf.complex64), 2).dtype == pf.complex128
    close(pf.trapezoid(t, dx=0.5), np.trapezoid(z, dx=0.5))
    close(
        pf.trapezoid(t, pf.tensor([0.0, 0.5, 2.0], dtype=pf.float64)), np.trapezoid(z, [0, 0.5, 2])
    )
    raised = pf.pow(t, 1)
    raised.zero_()
    close(t, z)  # a power of one is no alias


def test_convolutions():
    x, w, b = random(2, 4, 9), random(6, 2, 3), random(6)
    for t in layouts(x):
        got = pf.nn.functional.conv1d(t, pf.tensor(w), pf.tensor(b), padding=1, groups=2)
        want = np.stack(
            [
                [
                    b[o]
                    + sum(
                        np.convolve(x[n, 2 * (o // 3) + c], w[o, c, ::-1], "same") for c in (0, 1)
                    )
                    for o in range(6)
                ]
                for n in (0, 1)
            ]
        )
        close(got, want, 1e-11)
    args = [
        pf.tensor(a, requires_grad=True)
        for a in (random(1, 2, 4, 3), random(2, 2, 2, 2), random(2))
    ]
    assert pf.autograd.gradcheck(lambda *a: pf.nn.functional.conv2d(*a), args, fast_mode=True)
    assert pf.autograd.gradcheck(
        lambda *a: pf.nn.functional.conv_transpose2d(*a, stride=2), args, fast_mode=True
    )


def test_gradcheck_looks_at_both_parts():
    class Wrong(pf.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            return z * z

        @staticmethod
        def backward(ctx, g):
            return g

    z = pf.tensor(random(3), requires_grad=True)
    with pytest.raises(pf.autograd.gradcheck.__globals__["GradcheckError"]):
        pf.autograd.gradcheck(Wrong.apply, z)
    f = lambda z: z.sin() * z.conj() + z.abs()  # noqa: E731
    assert pf.autograd.gradcheck(f, z, check_forward_ad=True, check_batched_grad=True)
    assert pf.autograd.gradgradcheck(f, z)


def test_random_parts_and_modules():
    pf.manual_seed(0)
    t = pf.empty(20000, dtype=pf.complex64).normal_(1.5, 2.0)
    assert abs(t.mean().item() - 1.5) < 0.05 and abs(t.std().item() - 2.0) < 0.05
    u = pf.view_as_real(pf.empty(1000, dtype=pf.complex128).uniform_(-1, 3))
    assert -1 <= u.min().item() < -0.9 and 2.9 < u.max().item() <= 3
    layer = pf.nn.Linear(3, 2).to(pf.complex64)
    assert layer.weight.dtype == pf.complex64 and layer(
        pf.ones(1, 3, dtype=pf.complex64)
    ).shape == (1, 2)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "eq", "where"])
def test_complex_numbers_are_as_wide_as_what_stands_beside(name):
    """In functions and methods, on either side, beside every dtype, as operators have it."""
    torch = pytest.importorskip("torch")
    calls = [lambda f, x: f(x, 1 + 2j), lambda f, x: f(1 + 2j, x)]
    if name == "where":
        calls = [lambda f, x: f(x > 0, x, 1 + 2j), lambda f, x: f(x > 0, 1 + 2j, x)]
    compared = 0
    for dtype in ("bool", "uint8", "int32", "int64", "bfloat16", "float32", "float64", "complex64"):
        for shape in ((), (2,)):
            for i, call in enumerate(calls):
                if dtype == "complex64" and name == "where":
                    continue
                try:
                    theirs = call(
                        getattr(torch, name), torch.ones(shape, dtype=getattr(torch, dtype))
                    )
                except (RuntimeError, TypeError):
                    continue
                ours = call(getattr(pf, name), pf.ones(shape, dtype=getattr(pf, dtype)))
                assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1], (
                    dtype,
                    i,
                )
                np.testing.assert_allclose(ours.tolist(), theirs.tolist(), rtol=1e-6)
                compared += 1
    assert compared >= 10
    with pytest.raises(TypeError):
        pf.abs(1j)


@pytest.mark.parametrize(
    "name", "sqrt log log2 log10 log1p atan atanh asin sinh tanh reciprocal square abs".split()
)
def test_slopes_where_functions_of_complex_numbers_are_singular(name):
    """Infinities where PyTorch has them, not NaN."""
    torch = pytest.importorskip("torch")
    for at in (0, 1, -1, 1j, -1j, 2 + 1j):
        for weight in (1 + 0.5j, 2, -1j):
            found = []
            for t in (torch, pf):
                z = t.tensor(at, dtype=t.complex128, requires_grad=True)
                y = getattr(t, name)(z)
                y.backward(t.tensor(weight, dtype=y.dtype) if name != "abs" else None)
                found.append(z.grad.item())
            np.testing.assert_allclose(found[1], found[0], rtol=1e-12, err_msg=f"{at} {weight}")


def test_the_power_of_0_has_a_slope_of_0():
    z = pf.tensor([0, 1 + 2j], dtype=pf.complex128, requires_grad=True)
    (z**0).sum().backward(pf.tensor(1 + 0j, dtype=pf.complex128))
    assert z.grad.tolist() == [0, 0]


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_a_number_is_its_own_transpose(dtype):
    x = pf.tensor(2.0, dtype=getattr(pf, dtype), requires_grad=True)
    for y in (x.mT, x.mH, pf.adjoint(x), x.T):
        assert y.shape == () and y.item() == 2
    x.mT.abs().backward()
    assert x.grad.item() == 1
    for name in ("mT", "mH"):
        with pytest.raises(pf.ShapeError, match="at least 2"):
            getattr(pf.ones(2), name)
