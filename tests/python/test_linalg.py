"""pyflame.linalg: decompositions and what follows from them, against NumPy in float64 and by what
they promise; gradients to second order against finite differences."""

import numpy as np
import pytest
from finite import check_grad, layouts, same

import pyflame as pf

L = pf.linalg
RNG = np.random.default_rng(11)
TYPES = [np.float32, np.float64, np.complex64, np.complex128]


def random(*shape, dtype=np.float64):
    r = RNG.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        r = r + 1j * RNG.standard_normal(shape)
    return r.astype(dtype)


def adjoint(a):
    return a.conj().swapaxes(-1, -2)


def positive(*shape, dtype=np.float64):
    a = random(*shape, dtype=dtype)
    return (a @ adjoint(a) + shape[-1] * np.eye(shape[-1])).astype(dtype)


def of(t):
    return t.detach().cpu().numpy()


def close(got, want, dtype=np.float64):
    single = np.dtype(dtype) in (np.float32, np.complex64)
    got = of(got) if isinstance(got, pf.Tensor) else got
    assert got.shape == np.shape(want)
    scale = max(1.0, np.abs(want).max(initial=0))
    np.testing.assert_allclose(got, want, rtol=0, atol=scale * (2e-3 if single else 1e-9))


def eye_like(a):
    return np.broadcast_to(np.eye(a.shape[-1]), a.shape)


# (batch, n); 0 x 0, an empty batch, and sizes beyond blocks and slices
SQUARES = [(0,), (1,), (5,), (3, 4), (0, 3), (2, 0), (2, 2, 3), (70,), (300,)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", SQUARES)
def test_square_decompositions(size, dtype):
    shape = (*size, size[-1])
    a, s, b = (
        random(*shape, dtype=dtype),
        positive(*shape, dtype=dtype),
        random(*size, 3, dtype=dtype),
    )
    t, ts, tb = pf.tensor(a), pf.tensor(s), pf.tensor(b)
    low, high = L.cholesky(ts), L.cholesky(ts, upper=True)
    assert low.dtype == ts.dtype
    close(of(low) @ adjoint(of(low)), s, dtype)
    close(adjoint(of(high)) @ of(high), s, dtype)
    same(of(low), np.tril(of(low)))
    same(of(high), np.triu(of(high)))
    close(s @ of(L.solve(ts, tb)), b, dtype)
    close(of(L.solve(ts, pf.tensor(adjoint(b).copy()), left=False)) @ s, adjoint(b), dtype)
    close(of(L.inv(ts)) @ s, eye_like(s), dtype)
    p, lower, upper = L.lu(t)
    close(of(p) @ of(lower) @ of(upper), a, dtype)
    if size[-1] < 100:
        close(L.det(ts / max(1, size[-1])), np.linalg.det(s / max(1, size[-1])), dtype)
    sign, size_of = L.slogdet(t)
    want = np.linalg.slogdet(a.astype(np.complex128 if np.iscomplexobj(a) else np.float64))
    close(sign, want[0], dtype)
    close(size_of, want[1], dtype)
    w, v = L.eigh(ts)
    assert w.dtype == (pf.float32 if dtype in (np.float32, np.complex64) else pf.float64)
    close((of(v) * of(w)[..., None, :]) @ adjoint(of(v)), s, dtype)
    close(adjoint(of(v)) @ of(v), eye_like(s), dtype)
    close(L.eigvalsh(ts, UPLO="U"), of(w), dtype)
    if size[-1] <= 70:
        w, v = L.eig(t)
        assert w.is_complex() and v.is_complex()
        close(a @ of(v), of(v) * of(w)[..., None, :], dtype)
        close(np.linalg.norm(of(v), axis=-2), np.ones(a.shape[:-1]), dtype)


RECTANGLES = [(4, 4), (7, 3), (3, 7), (0, 3), (3, 0), (2, 5, 4), (0, 2, 3), (150, 80), (80, 150)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", RECTANGLES)
def test_rectangular_decompositions(shape, dtype):
    a = random(*shape, dtype=dtype)
    t = pf.tensor(a)
    m, n = shape[-2:]
    k = min(m, n)
    values = np.linalg.svd(a, compute_uv=False)
    close(L.svdvals(t), values, dtype)
    for full in (True, False):
        u, s, vh = L.svd(t, full_matrices=full)
        assert u.shape[-2:] == (m, m if full else k) and vh.shape[-2:] == (n if full else k, n)
        close(s, values, dtype)
        close((of(u)[..., :k] * of(s)[..., None, :]) @ of(vh)[..., :k, :], a, dtype)
        for q in (of(u), adjoint(of(vh))):
            close(
                adjoint(q) @ q,
                np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1])),
                dtype,
            )
    for mode in ("reduced", "complete"):
        q, r = L.qr(t, mode)
        close(of(q) @ of(r), a, dtype)
        close(
            adjoint(of(q)) @ of(q),
            np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], q.shape[-1], q.shape[-1])),
            dtype,
        )
        same(of(r), np.triu(of(r)))
    close(np.abs(of(L.qr(t, "r")[1])), np.abs(of(L.qr(t)[1])), dtype)
    p, lower, upper = L.lu(t)
    close(of(p) @ of(lower) @ of(upper), a, dtype)
    if a.size:
        close(L.pinv(t), np.linalg.pinv(a), dtype)
        same(L.matrix_rank(t), np.linalg.matrix_rank(a))
        one = a.reshape(-1, m, n)[0]
        b = random(m, 2, dtype=dtype)
        want = np.linalg.lstsq(one, b, rcond=None)[0]
        for driver in ("gels", "gelsy", "gelsd", "gelss"):
            close(L.lstsq(pf.tensor(one), pf.tensor(b), driver=driver).solution, want, dtype)
        if m >= n:
            reflections, tau = pf.geqrf(t)
            close(L.householder_product(reflections, tau), of(L.qr(t)[0]), dtype)
            c = random(*shape[:-2], m, 2, dtype=dtype)
            q = of(L.qr(t, "complete")[0])
            close(pf.ormqr(reflections, tau, pf.tensor(c)), q @ c, dtype)
            close(pf.ormqr(reflections, tau, pf.tensor(c), transpose=True), adjoint(q) @ c, dtype)
            c = adjoint(c).copy()
            close(pf.ormqr(reflections, tau, pf.tensor(c), left=False), c @ q, dtype)


def test_any_layout_and_broadcast_batches():
    a, b = positive(2, 4, 4), random(2, 4, 3)
    for t in layouts(a):
        close(L.cholesky(t), np.linalg.cholesky(a))
        close(L.solve(t, pf.tensor(b)), np.linalg.solve(a, b))
        close(L.svdvals(t), np.linalg.svd(a)[1])
        close(L.eigvalsh(t), np.linalg.eigvalsh(a))
    for t in layouts(b):
        close(L.solve(pf.tensor(a), t), np.linalg.solve(a, b))
    wide = random(5, 1, 4, 4)
    close(L.solve(pf.tensor(wide), pf.tensor(b)), np.linalg.solve(wide, b[None]))
    v = random(4)
    close(L.solve(pf.tensor(a[0]), pf.tensor(v)), np.linalg.solve(a[0], v))
    vs = random(2, 4)
    close(L.solve(pf.tensor(a), pf.tensor(vs)), np.linalg.solve(a, vs[..., None])[..., 0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_systems_beyond_tiles(dtype):
    """Sizes around tiles and panels, more rows than are packed at once; what is singular, NaN."""
    for n, k in ((64, 8), (65, 33), (97, 40), (600, 17)):
        for m in (n, n + 37, n - 30):
            a = random(m, n, dtype=dtype)
            p, low, up = L.lu(pf.tensor(a))
            close(of(p).astype(np.float64) @ of(low) @ of(up), a, dtype)
            assert np.abs(of(low)).max() <= 1
        a, b = random(n, n, dtype=dtype) + 2 * np.eye(n, dtype=dtype), random(n, k, dtype=dtype)
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        lu, pivots = L.lu_factor(pf.tensor(a))
        x = L.lu_solve(lu, pivots, pf.tensor(b))
        close(x, np.linalg.solve(wide_a, wide_b), dtype)
        close(
            L.solve(pf.tensor(a.T.copy()).mT, pf.tensor(b)), np.linalg.solve(wide_a, wide_b), dtype
        )
        x = L.lu_solve(lu, pivots, pf.tensor(b), adjoint=True)
        close(x, np.linalg.solve(wide_a.T, wide_b), dtype)
        bad = a.copy()
        bad[:, n // 2] = 0
        with pytest.raises(L.LinAlgError, match=f"element {n // 2 + 1} of the diagonal"):
            L.solve(pf.tensor(bad), pf.tensor(b))
        with pytest.raises(L.LinAlgError, match="singular"):
            L.inv(pf.tensor(bad))
        for at in ((0, 0), (n - 1, 3), (n // 2, n - 1)):
            bad = a.copy()
            bad[at] = np.nan
            factors, _, info = L.lu_factor_ex(pf.tensor(bad))
            assert info.item() == 0 and np.isnan(of(factors)).any()
            assert np.isnan(of(L.solve(pf.tensor(bad), pf.tensor(b)))).all(axis=0).any()


def test_eigenvectors_of_either_triangle():
    for n in (64, 131, 512):
        for dtype in TYPES:
            a = random(n, n, dtype=dtype)
            a = a + adjoint(a)
            for uplo, half in (("L", np.tril), ("U", np.triu)):
                w, v = L.eigh(pf.tensor(half(a)), UPLO=uplo)
                close(of(v) * of(w)[None] @ adjoint(of(v)), a, dtype)
                close(adjoint(of(v)) @ of(v), np.eye(n), dtype)


def test_singular_vectors_of_joined_halves():
    """From 128 on; equal, vanishing and few values; 2 MiB of complex64 end where memory may."""
    thin = random(200, 3)
    for a in (
        np.zeros((140, 130)),
        np.eye(200),
        thin @ thin.T,
        np.diag(np.arange(150.0) - 70),
        random(300, 129),
        random(512, 512, dtype=np.complex64),
    ):
        u, s, vh = (of(x) for x in L.svd(pf.tensor(a), full_matrices=False))
        close(u * s[None] @ vh, a, a.dtype)
        close(adjoint(u) @ u, np.eye(u.shape[1]), a.dtype)
        close(vh @ adjoint(vh), np.eye(len(vh)), a.dtype)
        assert (np.diff(s) <= 0).all() and (s >= 0).all()
        close(s, np.linalg.svd(a, compute_uv=False), a.dtype)


def test_complex_matrices_that_end_where_memory_may():
    """OpenBLAS loads a column ahead of what it multiplies: 2 and 4 MiB that nothing need follow."""
    n, k = 512, 3
    for dtype in (np.complex64, np.complex128):
        # Singular values between 1 and 2: every driver finds the same solution.
        a = (np.eye(n) + random(n, n, dtype=dtype) / 100).astype(dtype)
        b = random(n, k, dtype=dtype)
        for rows, driver in ((n, "gelsd"), (n, "gelss"), (n // 2, "gelsy"), (n // 2, "gels")):
            got = L.lstsq(pf.tensor(a[:rows]), pf.tensor(b[:rows]), driver=driver).solution
            close(a[:rows] @ of(got), b[:rows], dtype)
        for s, hermitian in ((a + a.T, False), (a + adjoint(a), True)):
            ld, pivots = L.ldl_factor(pf.tensor(s), hermitian=hermitian)
            close(s @ of(L.ldl_solve(ld, pivots, pf.tensor(b), hermitian=hermitian)), b, dtype)


def test_triangular_systems():
    for dtype in (np.float64, np.complex128):
        for n, k in ((1, 1), (5, 3), (150, 200)):
            a = random(2, n, n, dtype=dtype) / n + 2 * np.eye(n)
            b = random(2, n, k, dtype=dtype)
            for upper in (False, True):
                for unit in (False, True):
                    full = np.triu(a) if upper else np.tril(a)
                    if unit:
                        full = full - full * np.eye(n) + np.eye(n)
                    for t in (pf.tensor(a), pf.tensor(a.swapaxes(-1, -2).copy()).mT):
                        x = L.solve_triangular(t, pf.tensor(b), upper=upper, unitriangular=unit)
                        close(full @ of(x), b)
                        y = L.solve_triangular(
                            t, pf.tensor(b).mT, upper=upper, left=False, unitriangular=unit
                        )
                        close(of(y) @ full, b.swapaxes(-1, -2))
    s, b = positive(3, 4, 4), random(3, 4, 2)
    for upper in (False, True):
        factor = L.cholesky(pf.tensor(s), upper=upper)
        close(pf.cholesky_solve(pf.tensor(b), factor, upper), np.linalg.solve(s, b))
        close(pf.cholesky_inverse(factor, upper), np.linalg.inv(s))
    x, clone = pf.triangular_solve(pf.tensor(b), pf.tensor(s), transpose=True)
    close(np.triu(s).swapaxes(-1, -2) @ of(x), b)
    same(clone, s)


def test_factors_solve():
    for dtype in (np.float64, np.complex128):
        a, b = random(2, 5, 5, dtype=dtype), random(2, 5, 3, dtype=dtype)
        lu, pivots = L.lu_factor(pf.tensor(a))
        assert pivots.dtype == pf.int32
        close(L.lu_solve(lu, pivots, pf.tensor(b)), np.linalg.solve(a, b))
        close(L.lu_solve(lu, pivots, pf.tensor(b), adjoint=True), np.linalg.solve(adjoint(a), b))
        c = adjoint(b).copy()
        close(of(L.lu_solve(lu, pivots, pf.tensor(c), left=False)) @ a, c)
        close(of(L.lu_solve(lu, pivots, pf.tensor(c), left=False, adjoint=True)) @ adjoint(a), c)
        p, low, up = pf.lu_unpack(lu, pivots)
        close(of(p) @ of(low) @ of(up), a)
        close(pf.lu_solve(pf.tensor(b), *pf.lu(pf.tensor(a))), np.linalg.solve(a, b))
        for hermitian in (False, True):
            s = a + (adjoint(a) if hermitian else a.swapaxes(-1, -2))
            ld, pivots = L.ldl_factor(pf.tensor(s), hermitian=hermitian)
            close(L.ldl_solve(ld, pivots, pf.tensor(b), hermitian=hermitian), np.linalg.solve(s, b))


def test_functions_of_matrices():
    scipy = pytest.importorskip("scipy.linalg")
    for dtype in TYPES:
        for scale in (1e-3, 1.0, 30.0):
            a = (random(3, 5, 5, dtype=dtype) * scale / 5).astype(dtype)
            want = np.stack([scipy.expm(x) for x in a.astype(np.complex128)])
            got = of(L.matrix_exp(pf.tensor(a)))
            rtol = 2e-3 if dtype in (np.float32, np.complex64) else 1e-10
            np.testing.assert_allclose(
                got, want.astype(dtype), rtol=rtol, atol=rtol * np.abs(want).max()
            )
    a = random(4, 4)
    t = pf.tensor(a)
    close(L.matrix_power(t, -3), np.linalg.matrix_power(a, -3))
    for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc"):
        close(L.cond(t, p), np.linalg.cond(a, p))
        if p is not None:
            close(L.matrix_norm(t, p), np.linalg.norm(a, p))
            kept = L.matrix_norm(pf.tensor(np.stack([a, 2 * a], 1)), p, dim=(0, 2), keepdim=True)
            close(kept, np.array([1, 2]).reshape(1, 2, 1) * np.linalg.norm(a, p))
            close(L.norm(t, p), np.linalg.norm(a, p))
    singular = pf.ones(3, 3, dtype=pf.float64)
    assert L.cond(singular, 1) == pf.inf and L.cond(singular, "fro") == pf.inf
    assert L.matrix_rank(singular) == 1 and L.matrix_rank(singular, hermitian=True) == 1
    assert L.matrix_rank(pf.diag(pf.tensor([1.0, 0.1, 0.01])), atol=0.05) == 2
    assert L.matrix_rank(pf.diag(pf.tensor([1.0, 0.1, 0.01])), 0.5) == 1
    c = random(2, 3, 6)
    close(L.tensorinv(pf.tensor(c)), np.linalg.tensorinv(c))
    d = random(2, 3)
    close(L.tensorsolve(pf.tensor(c), pf.tensor(d)), np.linalg.tensorsolve(c, d))
    close(L.vander(pf.tensor([1.0, 2, 3])), np.vander([1.0, 2, 3], increasing=True))
    s = positive(3, 3)
    close(L.pinv(pf.tensor(s), hermitian=True), np.linalg.inv(s))
    close(pf.logdet(pf.tensor(s)), np.log(np.linalg.det(s)))
    assert pf.isnan(pf.logdet(pf.tensor([[-1.0]])))


# ---- gradients ----------------------------------------------------------------------------------


def symmetric(t):
    return t + t.mT


SPREAD = np.diag([1.0, 2.5, 4.5, 7.0])
SMOOTH = {
    "cholesky": lambda t: L.cholesky(t @ t.mT + 4 * pf.eye(4, dtype=pf.float64)),
    "cholesky upper": lambda t: L.cholesky(t @ t.mT + 4 * pf.eye(4, dtype=pf.float64), upper=True),
    "inv": lambda t: L.inv(t),
    "det": lambda t: L.det(t),
    "slogdet": lambda t: L.slogdet(t).logabsdet,
    "logdet": lambda t: pf.logdet(t @ t.mT),
    "qr": lambda t: pf.cat(L.qr(t)),
    "lu": lambda t: pf.cat(L.lu(t)[1:]),
    "lu_factor": lambda t: L.lu_factor(t)[0],
    "svd": lambda t: pf.cat(
        [(L.svd(t).U * L.svd(t).S) @ L.svd(t).Vh, L.svd(t).U ** 2, L.svd(t).Vh ** 2]
    ),
    "svdvals": lambda t: L.svdvals(t),
    "eigh": lambda t: pf.cat(
        [L.eigh(symmetric(t)).eigenvectors ** 2, L.eigh(symmetric(t)).eigenvalues[None]]
    ),
    "eigvalsh": lambda t: L.eigvalsh(symmetric(t)),
    "matrix_exp": lambda t: L.matrix_exp(t / 4),
    "pinv": lambda t: L.pinv(t),
    "nuclear": lambda t: L.matrix_norm(t, "nuc"),
    "2-norm": lambda t: L.matrix_norm(t, 2),
    "cond": lambda t: L.cond(t),
    "cond 1": lambda t: L.cond(t, 1),
    "matrix_power": lambda t: L.matrix_power(t, -2),
    "cholesky_inverse": lambda t: pf.cholesky_inverse(t.tril()),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(name):
    a = random(4, 4) / 4 + SPREAD
    check_grad(SMOOTH[name], a, tol=1e-5)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
def test_gradients_of_rectangles(shape):
    a = random(*shape)
    check_grad(lambda t: pf.cat([x.reshape(-1) for x in L.qr(t)]), a, tol=1e-5)
    check_grad(lambda t: pf.cat([x.reshape(-1) for x in L.lu(t)[1:]]), a, tol=1e-5)
    check_grad(lambda t: L.pinv(t), a, tol=1e-5)
    check_grad(
        lambda t: pf.cat([x.reshape(-1) ** 2 for x in L.svd(t, full_matrices=False)]), a, tol=1e-5
    )
    check_grad(lambda t, b: L.lstsq(t, b).solution, a, random(shape[0], 2), tol=1e-5)


def test_gradients_of_systems():
    a, b = random(2, 3, 3) + 3 * np.eye(3), random(2, 3, 2)
    check_grad(L.solve, a, b)
    check_grad(lambda x, y: L.solve(x, y, left=False), a, random(2, 2, 3))
    check_grad(L.solve, a[0], random(3))
    check_grad(L.solve, a[:1], b)  # broadcast
    for upper in (False, True):
        for unit in (False, True):
            check_grad(
                lambda x, y, u=upper, v=unit: L.solve_triangular(x, y, upper=u, unitriangular=v),
                a,
                b,
            )
    check_grad(lambda x, y: pf.cholesky_solve(y, x.tril()), a, b)
    check_grad(lambda x, y: L.lu_solve(*L.lu_factor(x), y), a, b)
    check_grad(lambda x, y: L.lu_solve(*L.lu_factor(x), y, adjoint=True), a, b)
    v, tau = pf.geqrf(pf.tensor(random(4, 2)))
    check_grad(L.householder_product, of(v), of(tau))
    check_grad(pf.ormqr, of(v), of(tau), random(4, 3))
    check_grad(lambda x: L.tensorinv(x, ind=1), a[0])


def test_gradients_of_eig_and_singular_det():
    a = random(4, 4) / 4 + SPREAD
    check_grad(lambda t: pf.view_as_real(L.eigvals(t)), a, tol=1e-5)
    check_grad(lambda t: L.eig(t).eigenvectors.abs() ** 2, a, tol=1e-5)
    singular = np.outer([1.0, 2, 3], [1.0, -1, 2]) + np.outer([0, 1, 1.0], [2.0, 0, 1])
    check_grad(L.det, singular, second=False)
    check_grad(L.det, np.stack([singular, np.eye(3)]), second=False)


@pytest.mark.parametrize(
    "name", ["inv", "det", "solve", "cholesky", "qr", "svd", "eigh", "eig", "lu", "exp", "pinv"]
)
def test_complex_gradients(name):
    """As functions of real and imaginary parts, whose gradients are those of the convention."""

    def value(t):
        h = t @ t.mH + 3 * pf.eye(3, dtype=pf.complex128)
        if name == "svd":
            u, s, vh = L.svd(t)
            return pf.cat([u.abs() ** 2, vh.abs() ** 2, (u * s) @ vh])
        if name == "eigh":
            w, v = L.eigh(h)
            return pf.cat([v.abs() ** 2, w[None]])
        if name == "eig":
            w, v = L.eig(t)
            return pf.cat([v.abs() ** 2, w[None]])
        return {
            "inv": lambda: L.inv(t),
            "det": lambda: L.det(t),
            "solve": lambda: L.solve(t, h),
            "cholesky": lambda: L.cholesky(h),
            "qr": lambda: pf.cat(L.qr(t)),
            "lu": lambda: pf.cat(L.lu(t)[1:]),
            "exp": lambda: L.matrix_exp(t / 3),
            "pinv": lambda: L.pinv(t[:, :2]),
        }[name]()

    def parts(re, im):
        r = value(pf.complex(re, im))
        return pf.view_as_real(r) if r.is_complex() else r

    check_grad(
        parts,
        random(3, 3) / 3 + np.diag([1.0, 2.5, 4.5]),
        random(3, 3) / 3,
        second=name in ("inv", "solve", "svd"),
        tol=1e-5,
    )


# ---- what goes wrong ----------------------------------------------------------------------------


def raises(error, text, fn):
    with pytest.raises(error, match=text):
        fn()


def test_matrices_that_have_none():
    singular = pf.tensor([[1.0, 2], [2, 4]])
    batch = pf.stack([pf.eye(2), singular, pf.eye(2)])
    assert issubclass(L.LinAlgError, RuntimeError) and L.LinAlgError is pf.LinAlgError
    raises(L.LinAlgError, "singular", lambda: L.inv(singular))
    raises(L.LinAlgError, r"element 1 of the batch", lambda: L.inv(batch))
    raises(L.LinAlgError, r"element 0, 1 of the batch", lambda: L.solve(batch[None], pf.ones(2, 1)))
    raises(
        L.LinAlgError, "order 2 is not positive", lambda: L.cholesky(pf.tensor([[1.0, 2], [2, 1]]))
    )
    raises(
        L.LinAlgError,
        r"element 2 of the batch",
        lambda: L.cholesky(pf.stack([pf.eye(2), pf.eye(2), -pf.eye(2)])),
    )
    raises(L.LinAlgError, "singular", lambda: L.matrix_power(singular, -1))
    for got in (L.inv_ex(batch), L.solve_ex(batch, pf.ones(3, 2, 1)), L.lu_factor_ex(batch)):
        same(got[-1], [0, 2, 0])
    same(L.cholesky_ex(-pf.eye(2)).info, 1)
    raises(L.LinAlgError, "order 1", lambda: L.cholesky_ex(-pf.eye(2), check_errors=True))
    nan = pf.full((2, 2), pf.nan)
    for f in (L.svd, L.svdvals, L.eigh, L.eigvalsh, L.eig, L.eigvals, L.pinv):
        raises(L.LinAlgError, "NaN or an infinity", lambda f=f: f(nan))
        raises(
            L.LinAlgError,
            r"element 1 of the batch",
            lambda f=f: f(pf.stack([pf.eye(2), nan * pf.inf])),
        )
    raises(
        L.LinAlgError,
        "full rank",
        lambda: L.lstsq(pf.diag(pf.tensor([1.0, 0])), pf.ones(2, 1), driver="gels"),
    )
    assert pf.isnan(L.det(nan)) and L.det(singular) == 0
    assert L.slogdet(singular).logabsdet == -pf.inf


@pytest.mark.parametrize("n, at", [(1, 0), (4, 2), (7, 0), (150, 149), (600, 333)])
@pytest.mark.parametrize("dtype", [pf.float32, pf.float64, pf.complex128])
@pytest.mark.parametrize("value", [-1.0, pytest.param(np.nan, marks=pytest.mark.cpu_only)])
def test_factor_of_what_is_not_positive(n, at, dtype, value):
    """The factor of the leading minor that is positive, and 0 elsewhere; alone, in a batch, under vmap."""
    x = RNG.standard_normal((n, n)) + 1j * RNG.standard_normal((n, n)) * dtype.is_complex
    a = x @ x.conj().T / n + np.eye(n)
    bad = a.copy()
    bad[at, at] = value
    both = pf.tensor(np.stack([a, bad])).to(dtype)
    for upper in (False, True):
        factors, info = L.cholesky_ex(both, upper=upper)
        assert info.tolist() == [0, at + 1]
        for i, whole in ((0, a), (1, bad)):
            kept = at if i else n
            f = factors[i].numpy()
            minor = f[:kept, :kept]
            product = minor.conj().T @ minor if upper else minor @ minor.conj().T
            np.testing.assert_allclose(
                product, whole[:kept, :kept], rtol=0, atol=1e-4 if dtype == pf.float32 else 1e-9
            )
            assert (minor == (np.triu if upper else np.tril)(minor)).all()
            assert not f[kept:].any() and not f[:, kept:].any()
        alone = L.cholesky_ex(both[1], upper=upper).L
        mapped = pf.func.vmap(lambda m: L.cholesky_ex(m, upper=upper).L)(both)  # noqa: B023
        for got in (alone, mapped[1]):
            np.testing.assert_allclose(got.numpy(), factors[1].numpy(), rtol=1e-3, atol=1e-5)


def test_wrong_arguments():
    square, wide = pf.eye(3), pf.ones(2, 3)
    for f in (L.cholesky, L.inv, L.det, L.slogdet, L.eigh, L.eig, L.matrix_exp, pf.logdet):
        raises(pf.ShapeError, "square", lambda f=f: f(wide))
        raises(pf.ShapeError, "at least two dimensions", lambda f=f: f(pf.ones(3)))
        raises(pf.DTypeError, "float32, float64", lambda f=f: f(pf.ones(3, 3, dtype=pf.int64)))
        if f is not L.matrix_exp:  # in float32
            raises(pf.DTypeError, "float32, float64", lambda f=f: f(pf.ones(3, 3).half()))
    raises(pf.ShapeError, "as many rows", lambda: L.solve(square, pf.ones(2, 1)))
    raises(pf.DTypeError, "same dtype", lambda: L.solve(square, pf.ones(3, 1, dtype=pf.float64)))
    raises(
        pf.ShapeError, "broadcast|sizes|shape", lambda: L.solve(pf.ones(2, 3, 3), pf.ones(4, 3, 2))
    )
    raises(pf.ValueError, "'reduced'", lambda: L.qr(wide, "full"))
    raises(
        pf.AutogradError,
        "reduced",
        lambda: L.qr(pf.ones(3, 2, requires_grad=True), "complete")[0].sum().backward(),
    )
    raises(pf.ValueError, "'L' or 'U'", lambda: L.eigh(square, "X"))
    raises(pf.ValueError, "'gels'", lambda: L.lstsq(wide, pf.ones(2), driver="qr"))
    raises(pf.ValueError, "driver", lambda: L.svd(wide, driver="gesvj"))
    raises(pf.ValueError, "ord 3", lambda: L.matrix_norm(wide, 3))
    raises(pf.NotSupportedError, "pivot", lambda: L.lu(square, pivot=False))
    raises(pf.ShapeError, "pivots", lambda: pf.lu_unpack(square, pf.ones(2, dtype=pf.int32)))
    raises(
        pf.ValueError, "pivot 9", lambda: pf.lu_unpack(square, pf.tensor([9, 2, 3], dtype=pf.int32))
    )
    raises(pf.ShapeError, "tau", lambda: L.householder_product(square, pf.ones(4)))
    raises(pf.ShapeError, "another ind|as many", lambda: L.tensorinv(pf.ones(2, 3), ind=1))


def test_extreme_magnitudes():
    a = random(5, 5)
    for scale in (1e-200, 1e200):
        close(of(L.svdvals(pf.tensor(a * scale))) / scale, np.linalg.svd(a)[1])
        w = of(L.eigvalsh(pf.tensor((a + a.T) * scale))) / scale
        close(w, np.linalg.eigvalsh(a + a.T))


@pytest.mark.cpu_only
def test_results_do_not_depend_on_threads():
    a, b = pf.randn(400, 400, dtype=pf.float64), pf.randn(400, 300, dtype=pf.float64)
    s = a @ a.mT + 400 * pf.eye(400, dtype=pf.float64)

    def all_of():
        return [L.cholesky(s), L.solve(a, b), *L.svd(a), *L.eigh(s), *L.qr(a)]

    threads = pf.get_num_threads()
    got = []
    try:
        for n in (1, 2, 3):
            pf.set_num_threads(n)
            got.append(all_of())
    finally:
        pf.set_num_threads(threads)
    for other in got[1:]:
        for x, y in zip(got[0], other):
            assert pf.equal(x, y)


@pytest.mark.cpu_only
def test_without_a_library():
    import subprocess
    import sys

    code = (
        "import pyflame as pf\n"
        "try: pf.linalg.inv(pf.eye(2))\n"
        "except pf.NotSupportedError as e: print(e)"
    )
    import os

    env = {**os.environ, "PYFLAME_LAPACK_PATH": "/nowhere/liblapack.so"}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert "needs LAPACK" in out.stdout and "PYFLAME_LAPACK_PATH" in out.stdout, out


@pytest.mark.parametrize("wrong", [0, -5, 5, 1 << 30, -(1 << 31)])
def test_pivots_are_looked_at(wrong):
    a, b = pf.eye(4), pf.ones(4, 2)
    for at in range(4):
        pivots = pf.tensor([1, 2, 3, 4], dtype=pf.int32)
        pivots[at] = wrong
        for solve in (L.lu_solve, L.ldl_solve):
            with pytest.raises(ValueError, match=f"got the pivot {wrong}"):
                solve(a, pivots, b)


def test_blocks_of_pivots_are_whole():
    a, b = pf.eye(4), pf.ones(4, 2)
    for pivots in ([-2, -2, -4, -4], [1, -3, -3, 4], [4, 3, 2, 1]):
        L.ldl_solve(a, pf.tensor(pivots, dtype=pf.int32), b)
    for pivots in ([-2, 1, 3, 4], [1, 2, 3, -4], [-2, -2, -3, 4]):
        with pytest.raises(ValueError, match="of a block"):
            L.ldl_solve(a, pf.tensor(pivots, dtype=pf.int32), b)
    with pytest.raises(pf.ShapeError, match="one for each row"):
        L.ldl_solve(a, pf.ones(1, dtype=pf.int32), b)


def test_more_reflections_than_rows():
    with pytest.raises(pf.ShapeError, match="reflections"):
        pf.ormqr(pf.ones(3, 4), pf.ones(4), pf.ones(3, 2))


DEGENERATE = {
    "identity": lambda n: np.eye(n),
    "orthogonal": lambda n: 1.5 * np.linalg.qr(np.random.default_rng(n).standard_normal((n, n)))[0],
    "two equal": lambda n: np.diag([3.0, 3.0, *range(1, n - 1)]),
    "zeros": lambda n: np.zeros((n, n)),
}


@pytest.mark.parametrize("kind", DEGENERATE)
@pytest.mark.parametrize("n", [3, 6])
def test_gradients_of_equal_singular_values_and_eigenvalues(kind, n):
    """Only vectors need distances between values: the sums have gradients U V' and the identity."""
    a = DEGENERATE[kind](n)
    u, _, vh = np.linalg.svd(a)
    sums = {
        "svdvals": pf.linalg.svdvals,
        "svd": lambda t: pf.linalg.svd(t)[1],
        "old svd": lambda t: pf.svd(t)[1],
        "nuclear": lambda t: pf.linalg.matrix_norm(t, "nuc"),
    }
    for name, f in sums.items():
        x = pf.tensor(a, requires_grad=True)
        (g,) = pf.autograd.grad(f(x).sum(), x)
        if kind == "zeros":  # a subgradient
            assert np.linalg.norm(g.cpu().numpy(), 2) <= 1 + 1e-12, name
        else:
            np.testing.assert_allclose(g.cpu().numpy(), u @ vh, atol=1e-12, err_msg=name)
    x = pf.tensor(a, requires_grad=True)
    (g,) = pf.autograd.grad(pf.linalg.matrix_norm(x, 2), x)
    assert np.linalg.norm(g.cpu().numpy(), "nuc") <= 1 + 1e-12
    symmetric = a if kind != "orthogonal" else np.eye(n)
    for f in (
        pf.linalg.eigvalsh,
        lambda t: pf.linalg.eigh(t)[0],
        lambda t: pf.linalg.eigvals(t).real,
    ):
        x = pf.tensor(symmetric, requires_grad=True)
        (g,) = pf.autograd.grad(f(x).sum(), x)
        np.testing.assert_allclose(g.cpu().numpy(), np.eye(n), atol=1e-12)


def test_norms_of_matrices_without_elements():
    for shape in ((0, 3), (3, 0), (2, 0, 3)):
        for order in (2, "nuc", "fro"):
            for keepdim in (False, True):
                y = pf.linalg.matrix_norm(pf.zeros(shape), order, keepdim=keepdim)
                assert y.shape == shape[:-2] + (1, 1) * keepdim and not y.any()
