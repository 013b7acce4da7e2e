"""Decompositions and Fourier transforms through stand-ins for hipSOLVER, hipBLAS and hipFFT
(tests/standin), and what happens where those fail or are not there."""

import standin
from standin import cache, run  # noqa: F401

PRODUCTS = standin.FOLDER / "standin" / "products"
SOLVER = {
    "PYFLAME_HIPSOLVER_LIBRARY": PRODUCTS / "libhipsolver.so",
    "PYFLAME_HIPBLAS_LIBRARY": PRODUCTS / "libhipsolver.so",
}
FFT = {"PYFLAME_HIPFFT_LIBRARY": PRODUCTS / "libhipfft.so"}
pytestmark = standin.MARKS

START = """
L = pf.linalg
library = ctypes.CDLL({0!r})
library.standin_library_fails.restype = ctypes.c_int64
fails = lambda nth=0: library.standin_library_fails(ctypes.c_int64(nth))
rng = np.random.default_rng(5)
DTYPES = [pf.float32, pf.float64, pf.complex64, pf.complex128]
PRECISE = (pf.float64, pf.complex128)

def values(dtype, *shape):
    x = rng.standard_normal(shape)
    if dtype.is_complex:
        x = x + 1j * rng.standard_normal(shape)
    return pf.tensor(x).to(dtype)

def near(got, want, dtype, what):
    assert got.shape == want.shape and got.dtype == want.dtype, (what, got.shape, want.shape)
    tol = 1e-9 if dtype in PRECISE else 2e-4
    got, want = got.detach().cpu().numpy(), want.detach().numpy()
    assert np.allclose(got, want, rtol=tol, atol=tol), (what, dtype, abs(got - want).max())

def by_library(fn):
    fails()
    result = fn()
    pf.synchronize()
    assert fails() > 0, "it went elsewhere"
    return result
"""


def solver():
    return START.format(str(SOLVER["PYFLAME_HIPSOLVER_LIBRARY"])), SOLVER


def fft():
    return START.format(str(FFT["PYFLAME_HIPFFT_LIBRARY"])), FFT


def test_systems(run):  # noqa: F811
    """Cholesky, LU and triangular systems of every dtype, one matrix and batches, as on the CPU; also
    their gradients, strided input, vectors, matrices of one element and of none."""
    start, environment = solver()
    run(
        start
        + """
def each(dtype, put):
    global rng
    rng = np.random.default_rng(7)
    for shape in ((5, 5), (1, 1), (3, 4, 4), (2, 1, 6, 6)):
        a, b = values(dtype, *shape), values(dtype, *shape[:-1], 3)
        v = values(dtype, *shape[:-1])
        spd = a @ a.mH + shape[-1] * pf.eye(shape[-1], dtype=dtype)
        A, B, V, S = (put(t) for t in (a, b, v, spd))
        yield "cholesky", lambda: L.cholesky(S)
        yield "upper", lambda: L.cholesky(S, upper=True)
        yield "cholesky_ex", lambda: L.cholesky_ex(S)[1]
        yield "cholesky_solve", lambda: pf.cholesky_solve(B, L.cholesky(S))
        yield "solve", lambda: L.solve(A, B)
        yield "vector", lambda: L.solve(A, V)
        yield "from the right", lambda: L.solve(A, B.mT, left=False)
        yield "strided", lambda: L.solve(A.mT, B)
        yield "inv", lambda: L.inv(A)
        yield "det", lambda: L.det(A)
        yield "slogdet", lambda: L.slogdet(A)[1]
        yield "lu_factor", lambda: L.lu_factor(A)[0]
        yield "pivots", lambda: L.lu_factor(A)[1]
        yield "lu_solve", lambda: L.lu_solve(*L.lu_factor(A), B)
        yield "lu_solve of the adjoint", lambda: L.lu_solve(*L.lu_factor(A), B, adjoint=True)
        for upper in (False, True):
            for unit in (False, True):
                T = (A.triu() if upper else A.tril()) / 4 + pf.eye(shape[-1], dtype=dtype).to(A.device)
                yield "triangular", lambda: L.solve_triangular(T, B, upper=upper, unitriangular=unit)
                yield "turned", lambda: L.solve_triangular(T.mT, B, upper=not upper, unitriangular=unit)
        def gradient(fn, *of):
            leaves = [t.detach().clone().requires_grad_() for t in of]
            return pf.autograd.grad(fn(*leaves).abs().square().sum(), leaves)[0]
        yield "solve's gradient", lambda: gradient(lambda a, b: L.solve(a, b), A, B)
        yield "cholesky's gradient", lambda: gradient(lambda s: L.cholesky((s + s.mH) / 2), S)
    wide = values(dtype, 4, 7)
    W = put(wide)
    yield "lu of rows", lambda: L.lu_factor(W)[0]
    yield "lu of columns", lambda: L.lu_factor(W.mT)[0]
for dtype in DTYPES:
    wanted = [(name, fn()) for name, fn in each(dtype, lambda t: t)]
    got = [(name, by_library(fn)) for name, fn in each(dtype, lambda t: t.to("gpu"))]
    for (name, w), (_, g) in zip(wanted, got):
        near(g, w, dtype, name)
assert L.cholesky(pf.zeros(0, 0).to("gpu")).shape == (0, 0)
assert L.solve(pf.zeros(2, 0, 0).to("gpu"), pf.zeros(2, 0, 3).to("gpu")).shape == (2, 0, 3)
""",
        **environment,
    )


def test_orthogonal(run):  # noqa: F811
    """QR, singular values and eigenvalues: products and orthogonality, values as on the CPU."""
    start, environment = solver()
    run(
        start
        + """
def eye_like(q):
    return pf.eye(q.shape[-1], dtype=q.dtype).expand(*q.shape[:-2], -1, -1)
for dtype in DTYPES:
    for shape in ((5, 5), (7, 4), (4, 7), (1, 1), (3, 6, 4), (2, 4, 4)):
        a = values(dtype, *shape)
        A = a.to("gpu")
        for mode in ("reduced", "complete"):
            q, r = (t.cpu() for t in by_library(lambda: L.qr(A, mode)))
            near(q @ r, a, dtype, "qr")
            near(q.mH @ q, eye_like(q).contiguous(), dtype, "q")
            assert float(r.tril(-1).abs().max()) == 0
        for full in (False, True):
            u, s, vh = (t.cpu() for t in by_library(lambda: L.svd(A, full)))
            k = s.shape[-1]
            near(u[..., :k] * s.unsqueeze(-2).to(dtype) @ vh[..., :k, :], a, dtype, "svd")
            near(u.mH @ u, eye_like(u).contiguous(), dtype, "u")
            near(vh @ vh.mH, eye_like(vh.mT).contiguous(), dtype, "vh")
            near(s, L.svdvals(a), dtype, "s")
        near(by_library(lambda: L.svdvals(A)), L.svdvals(a), dtype, "svdvals")
        n = shape[-1]
        h = a.mH @ a
        h = (h + h.mH) / 2
        for uplo in "LU":
            # The other triangle is not read.
            one = h.tril() if uplo == "L" else h.triu()
            w, v = (t.cpu() for t in by_library(lambda: L.eigh(one.to("gpu"), uplo)))
            near(w, L.eigvalsh(h), dtype, "values")
            near(h @ v, v * w.unsqueeze(-2).to(dtype), dtype, "vectors")
            near(by_library(lambda: L.eigvalsh(one.to("gpu"), uplo)), w, dtype, "eigvalsh")
    c, tau = values(dtype, 6, 3), None
    a = values(dtype, 6, 4)
    v, tau = pf.geqrf(a)
    V, TAU = pf.geqrf(a.to("gpu"))
    near(V, v, dtype, "geqrf")
    for left, other in ((True, c), (False, c.mT.contiguous())):
        for transpose in (False, True):
            want = pf.ormqr(v, tau, other, left, transpose)
            got = by_library(lambda: pf.ormqr(V, TAU, other.to("gpu"), left, transpose))
            near(got, want, dtype, "ormqr")
# Many small ones are the host's.
many = values(pf.float32, 9, 4, 33)
fails()
near(L.svdvals(many.to("gpu")), L.svdvals(many), pf.float32, "many")
assert fails() == 0
# Numbers whose squares are no numbers of their dtype.
for by in (1e30, 1e-30, 0.0):
    a = values(pf.float32, 5, 3) * by
    near(L.svdvals(a.to("gpu")) / (by or 1), L.svdvals(a.double()).float() / (by or 1), pf.float32, by)
    h = a.mT @ a if by == 0 else a[:3] + a[:3].mT
    near(L.eigvalsh(h.to("gpu")) / (by or 1), L.eigvalsh(h.double()).float() / (by or 1), pf.float32, by)
""",
        **environment,
    )


def test_bad_matrices(run):  # noqa: F811
    """What has no inverse, is not positive or not finite is told with its place, and others of the batch
    are right."""
    start, environment = solver()
    run(
        start
        + """
a = values(pf.float32, 3, 4, 4)
a[1, :, 2] = 0
bad = values(pf.float32, 2, 4, 4)
bad[1, 2, 1] = float("nan")
inf = values(pf.float64, 4, 4)
inf[3, 0] = float("inf")
spd = a @ a.mT + 4 * pf.eye(4)
spd[2] = -pf.eye(4)
A, BAD, INF, SPD = (t.to("gpu") for t in (a, bad, inf, spd))
raises(L.LinAlgError, "(element 1 of the batch) that is singular", lambda: L.inv(A))
raises(L.LinAlgError, "element 3 of the diagonal", lambda: L.solve(A[1], A[0]))
raises(L.LinAlgError, "(element 2 of the batch) whose leading minor of order 1", lambda: L.cholesky(SPD))
assert L.cholesky_ex(SPD)[1].tolist() == [0, 0, 1] and L.inv_ex(A)[1].tolist() == [0, 3, 0]
near(L.cholesky_ex(SPD)[0][:2], L.cholesky(spd[:2]), pf.float32, "the others")
late = spd.clone()
late[1, 2, 2] = -1
for upper in (False, True):
    for dtype in DTYPES:
        m = late.to(dtype)
        near(L.cholesky_ex(m.to("gpu"), upper=upper)[0], L.cholesky_ex(m, upper=upper)[0], dtype, "what is left")
        near(L.cholesky_ex(m[1].to("gpu"), upper=upper)[0], L.cholesky_ex(m[1], upper=upper)[0], dtype, "of one")
for m in (BAD, INF):
    lu, pivots = L.lu_factor(m)
    assert 1 <= int(pivots.min()) and int(pivots.max()) <= 4
    assert bool(L.lu_solve(lu, pivots, m).isnan().any()) and not bool(L.det(m).isfinite().all())
for fn in (L.svd, L.svdvals, L.eigh, L.eigvalsh):
    raises(L.LinAlgError, "(element 1 of the batch) that holds NaN or an infinity", lambda: fn(BAD))
    raises(L.LinAlgError, "that holds NaN or an infinity", lambda: fn(INF))
""",
        **environment,
    )


CALLS = """
def attempt(fn, nth):
    fails(nth)
    try:
        with pf.debug.eager():
            result = fn()
            pf.synchronize()
        return fails(), result, ""
    except pf.BackendError as e:
        return fails(), None, str(e)

failed = 0
for name, fn, want in CASES:
    why, nth = "first", 0
    while why:
        # Twice each: what is made once, and what comes in its place when that is there.
        for _ in range(2):
            _, got, why = attempt(fn, nth // 2 + 1)
            nth += 1
            failed += bool(why)
            assert not why or ("gave status" in why and LIBRARY in why), (name, nth, why)
    near(got, want, pf.float32, name)
assert failed >= LEAST, failed
"""


def test_every_call_of_the_solver_fails_once(run):  # noqa: F811
    start, environment = solver()
    run(
        start
        + """
a, b = values(pf.float32, 4, 4), values(pf.float32, 4, 2)
spd = a @ a.mT + 4 * pf.eye(4)
pair = pf.stack([spd, spd * 2])
A, B, S, PAIR = (t.to("gpu") for t in (a, b, spd, pair))
CASES = [
    ("cholesky", lambda: L.cholesky(S), L.cholesky(spd)),
    ("solve", lambda: L.solve(A, B), L.solve(a, b)),
    ("batch", lambda: L.solve(A.expand(2, 4, 4), B.expand(2, 4, 2)), L.solve(a, b).expand(2, 4, 2).contiguous()),
    ("triangular", lambda: L.solve_triangular(A, B, upper=True), L.solve_triangular(a, b, upper=True)),
    ("qr", lambda: L.qr(A)[0].abs(), L.qr(a)[0].abs()),
    ("svd", lambda: L.svd(A)[1], L.svd(a)[1]),
    ("eigh", lambda: L.eigh(S)[0], L.eigh(spd)[0]),
    ("values of a batch", lambda: L.svdvals(PAIR), L.svdvals(pair)),
    ("eigenvalues of a batch", lambda: L.eigvalsh(PAIR), L.eigvalsh(pair)),
]
LIBRARY, LEAST = "hip", 25
"""
        + CALLS,
        **environment,
        PYFLAME_COMPILE_THREADS="0",
    )


def test_transforms(run):  # noqa: F811
    """Each of pyflame.fft over one and several dimensions, odd and even sizes, cut and filled ones, in
    each normalisation; gradients, strided input, and input that begins between two numbers."""
    start, environment = fft()
    run(
        start
        + """
F = pf.fft
REAL = {pf.complex64: pf.float32, pf.complex128: pf.float64}
def each(dtype, put):
    global rng
    rng = np.random.default_rng(9)
    z, r = put(values(dtype, 3, 4, 5)), put(values(REAL[dtype], 3, 4, 6))
    deep = put(values(dtype, 2, 3, 2, 3, 4, 2))
    for norm in ("backward", "ortho", "forward"):
        for name in ("fft", "ifft"):
            for dim in (0, 1, 2):
                yield name, lambda: getattr(F, name)(z, dim=dim, norm=norm)
            yield name, lambda: getattr(F, name)(z, n=7, norm=norm)
            yield name, lambda: getattr(F, name)(z, n=3, dim=1, norm=norm)
        yield "fft2", lambda: F.fft2(z, norm=norm)
        yield "ifftn", lambda: F.ifftn(z, dim=(0, 2), norm=norm)
        yield "fftn", lambda: F.fftn(z, norm=norm)
        for n in (5, 6, 1):
            yield "rfft", lambda: F.rfft(r, n=n, norm=norm)
            yield "irfft", lambda: F.irfft(z, n=n, norm=norm)
            yield "hfft", lambda: F.hfft(z, n=n, norm=norm)
            yield "ihfft", lambda: F.ihfft(r, n=n, norm=norm)
        yield "rfftn", lambda: F.rfftn(r, norm=norm)
        yield "irfft2", lambda: F.irfft2(z, norm=norm)
    for dim in ((1, 2, 3, 4), (0, 1, 2, 3, 4, 5), (1, 3), (0, 5), (2, 3, 4)):
        yield "many", lambda: F.fftn(deep, dim=dim)
    yield "strided", lambda: F.fft(z.mT)
    yield "a slice", lambda: F.rfft(r[1:, :, 1:])
    flat = r.reshape(-1)
    yield "between", lambda: F.rfft(flat[1:9].detach())
    def gradient(fn, of):
        leaf = of.detach().clone().requires_grad_()
        return pf.autograd.grad(fn(leaf).abs().square().sum(), leaf)[0]
    yield "gradient", lambda: gradient(F.fft2, z)
    yield "of real", lambda: gradient(F.rfft, r)
    yield "to real", lambda: gradient(lambda t: F.irfft(t, n=7), z)
    yield "stft", lambda: pf.stft(flat, 16, return_complex=True, window=pf.ones(16, dtype=r.dtype).to(r.device))
for dtype in REAL:
    wanted = [(name, fn()) for name, fn in each(dtype, lambda t: t)]
    got = [(name, by_library(fn)) for name, fn in each(dtype, lambda t: t.to("gpu"))]
    for (name, w), (_, g) in zip(wanted, got):
        near(g, w, dtype, name)
assert F.fft(pf.zeros(0, 3, dtype=pf.complex64).to("gpu")).shape == (0, 3)
z = values(pf.complex64, 4, 3)
before = z.clone()
Z = z.to("gpu")
F.irfft(Z)
near(Z, before, pf.complex64, "what is read stays")
# More sizes than plans are kept.
for n in list(range(2, 80)) + [2, 79]:
    x = values(pf.complex64, n)
    near(F.fft(x.to("gpu")), F.fft(x), pf.complex64, n)
""",
        **environment,
    )


def test_every_call_of_the_transforms_fails_once(run):  # noqa: F811
    start, environment = fft()
    run(
        start
        + """
x, r = values(pf.complex64, 3, 4), values(pf.float32, 6)
X, R = x.to("gpu"), r.to("gpu")
CASES = [
    ("fft", lambda: pf.fft.fft2(X), pf.fft.fft2(x)),
    ("rfft", lambda: pf.fft.rfft(R), pf.fft.rfft(r)),
    ("irfft", lambda: pf.fft.irfft(X, n=5), pf.fft.irfft(x, n=5)),
]
LIBRARY, LEAST = "hipfft", 9
"""
        + CALLS,
        **environment,
        PYFLAME_COMPILE_THREADS="0",
    )


def test_without_libraries(run):  # noqa: F811
    """The host computes."""
    run(
        """
a = pf.tensor(np.random.default_rng(3).standard_normal((4, 4)))
with pf.explain() as report:
    w = pf.linalg.svdvals(a.to("gpu"))
    z = pf.fft.fft(a.to("gpu"))
assert w.device.type != "cpu" and np.allclose(w.cpu().numpy(), pf.linalg.svdvals(a).numpy())
assert np.allclose(z.cpu().numpy(), np.fft.fft(a.numpy()))
assert "copied to the host" in report.to_text(), report.to_text()
""",
        **dict.fromkeys([*SOLVER, *FFT], "/nowhere/lib.so"),
    )
