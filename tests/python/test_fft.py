"""pyflame.fft against NumPy, gradients against finite differences, short-time transforms and windows
against SciPy and PyTorch."""

import numpy as np
import pytest
from finite import check_grad, layouts, same

import pyflame as pf

F = pf.fft
RNG = np.random.default_rng(8)
# Powers, products of small primes, primes, lines long enough to be tables.
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 30, 31, 32, 49, 64, 97, 121, 128, 169, 210, 256, 500,
           509, 1000, 1024, 2048, 2310, 16384, 20000, 28561, 32768, 65537]  # fmt: skip


def of(t):
    return t.detach().cpu().numpy()


def random(*shape, dtype=np.complex128):
    r = RNG.standard_normal(shape)
    return (
        (r + 1j * RNG.standard_normal(shape)).astype(dtype)
        if np.issubdtype(dtype, np.complexfloating)
        else r.astype(dtype)
    )


def close(got, want):
    got = of(got)
    assert got.shape == want.shape, (got.shape, want.shape)
    if not want.size:
        return
    tol = 1e-13 if got.dtype in (np.float64, np.complex128) else 1e-5
    scale = np.abs(want).max() + 1e-300
    np.testing.assert_allclose(got / scale, want / scale, rtol=0, atol=tol)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_lengths(dtype):
    for n in LENGTHS:
        rows = 1 if n > 5000 else 18 if n in (30, 64, 1000) else 3
        a = random(rows, n, dtype=dtype)
        t = pf.tensor(a)
        close(F.fft(t), np.fft.fft(a))
        close(F.ifft(t), np.fft.ifft(a))
        if n < 5000:
            close(F.fft(t.mT.contiguous(), dim=0), np.fft.fft(a.T, axis=0))
            close(F.fft(t.mT, dim=0), np.fft.fft(a.T, axis=0))
        x = a.real.copy()
        close(F.rfft(pf.tensor(x)), np.fft.rfft(x))
        half = np.fft.rfft(x).astype(dtype)
        close(F.irfft(pf.tensor(half), n=n), x)
        close(F.ihfft(pf.tensor(x)), np.fft.ihfft(x))
        close(F.hfft(pf.tensor(half), n=n), np.fft.hfft(half, n=n))


@pytest.mark.parametrize("norm", [None, "backward", "forward", "ortho"])
def test_dimensions_sizes_and_norms(norm):
    for shape in ((4, 6, 5), (3, 8, 70), (2, 3, 1)):
        a = random(*shape)
        t, x = pf.tensor(a), pf.tensor(a.real.copy())
        for dim in (None, (0, 1), (-1,), (2, 0)):
            how = {} if norm is None else {"norm": norm}
            for s in (None, (3,) * len(dim or shape), (7,) * len(dim or shape)):
                if s is not None:
                    s = tuple(v + i for i, v in enumerate(s))
                close(
                    F.fftn(t, s=s, dim=dim, norm=norm),
                    np.fft.fftn(a, s=s, axes=dim or (tuple(range(3)) if s else None), **how),
                )
                close(
                    F.ifftn(t, s=s, dim=dim, norm=norm),
                    np.fft.ifftn(a, s=s, axes=dim or (tuple(range(3)) if s else None), **how),
                )
                close(
                    F.rfftn(x, s=s, dim=dim, norm=norm),
                    np.fft.rfftn(a.real, s=s, axes=dim or (tuple(range(3)) if s else None), **how),
                )
                if shape[-1] > 1 or s is not None:
                    close(
                        F.irfftn(t, s=s, dim=dim, norm=norm),
                        np.fft.irfftn(a, s=s, axes=dim or (tuple(range(3)) if s else None), **how),
                    )
        close(F.fft2(t, norm=norm), np.fft.fft2(a, **({"norm": norm} if norm else {})))
        close(F.fft(t, n=9, dim=1, norm=norm), np.fft.fft(a, n=9, axis=1, norm=norm))
        close(F.rfft(x, n=4, dim=0, norm=norm), np.fft.rfft(a.real, n=4, axis=0, norm=norm))
    for u in layouts(random(3, 8)):
        close(F.fft(u), np.fft.fft(of(u)))
        close(F.fft(u, dim=0), np.fft.fft(of(u), axis=0))


def test_inverses_and_hermitian_pairs():
    scipy = pytest.importorskip("scipy.fft")
    a = random(3, 4, 6)
    close(F.hfftn(pf.tensor(a)), scipy.hfftn(a))
    close(F.hfft2(pf.tensor(a)), scipy.hfft2(a))
    close(F.ihfftn(pf.tensor(a.real.copy())), scipy.ihfftn(a.real))
    close(F.ihfft2(pf.tensor(a.real.copy()), norm="ortho"), scipy.ihfft2(a.real, norm="ortho"))
    close(F.irfft2(F.rfft2(pf.tensor(a.real.copy()))), a.real)
    close(F.fft(pf.arange(6)), np.fft.fft(np.arange(6.0)))
    assert F.fft(pf.ones(3)).dtype == pf.complex64
    same(F.fft(pf.ones(0, 3)), np.zeros((0, 3), complex))


def test_frequencies_and_shifts():
    for n in (1, 4, 5):
        same(F.fftfreq(n, 0.5, dtype=pf.float64), np.fft.fftfreq(n, 0.5))
        same(F.rfftfreq(n, 0.5, dtype=pf.float64), np.fft.rfftfreq(n, 0.5))
    a = np.arange(15).reshape(3, 5)
    same(F.fftshift(pf.tensor(a)), np.fft.fftshift(a))
    same(F.ifftshift(pf.tensor(a)), np.fft.ifftshift(a))
    same(F.fftshift(pf.tensor(a), dim=1), np.fft.fftshift(a, axes=1))


def test_gradients():
    def parts(t):
        return pf.view_as_real(t.contiguous())

    for n in (4, 5):
        a, b, x = (
            RNG.standard_normal((2, n)),
            RNG.standard_normal((2, n)),
            RNG.standard_normal((2, n)),
        )
        check_grad(lambda u, v: parts(F.fft(pf.complex(u, v), dim=0, norm="ortho") ** 2), a, b)
        check_grad(lambda u, v: parts(F.ifftn(pf.complex(u, v), s=(3, 3)) ** 2), a, b)
        check_grad(lambda u: parts(F.rfft(u) ** 2), x)
        check_grad(lambda u: parts(F.rfftn(u, dim=(1, 0)) ** 2), x)
        check_grad(lambda u: parts(F.fft(u) ** 2), x)
        for k in (2 * n - 2, 2 * n - 1):
            check_grad(lambda u, v, k=k: F.irfft(pf.complex(u, v), n=k) ** 2, a, b)
            check_grad(lambda u, v, k=k: F.hfft(pf.complex(u, v), n=k) ** 2, a, b)
        check_grad(lambda u: parts(F.ihfft(u) ** 2), x)


def test_wrong_arguments():
    x = pf.ones(4)
    for error, text, f in (
        (pf.ValueError, "'ortho'", lambda: F.fft(x, norm="none")),
        (pf.ValueError, "at least 1", lambda: F.fft(x, n=0)),
        (pf.ValueError, "size -1", lambda: F.ifft(x, n=-1)),
        (pf.ValueError, "at least 1", lambda: F.fft(pf.ones(2, 0))),
        (pf.ValueError, "at least 1", lambda: F.irfft(pf.ones(1))),
        (pf.IndexError, "dimension", lambda: F.fft(x, dim=1)),
        (pf.ShapeError, "without dimensions", lambda: F.fft(pf.ones(()))),
        (pf.DTypeError, "real", lambda: F.rfft(x * 1j)),
        (pf.DTypeError, "float32", lambda: F.fft(x.half())),
        (pf.ValueError, "twice", lambda: F.fftn(pf.ones(2, 2), dim=(0, -2))),
        (pf.ValueError, "as many", lambda: F.fftn(pf.ones(2, 2), s=(2,), dim=(0, 1))),
    ):
        with pytest.raises(error, match=text):
            f()


@pytest.mark.cpu_only
def test_results_do_not_depend_on_threads():
    z, y = pf.randn(1 << 15, dtype=pf.complex64), pf.randn(50, 37, 60, dtype=pf.complex64)
    threads = pf.get_num_threads()
    got = []
    try:
        for n in (1, 3):
            pf.set_num_threads(n)
            got.append([F.fft(z), F.fftn(y), F.rfft(y.real.contiguous())])
    finally:
        pf.set_num_threads(threads)
    for a, b in zip(*got):
        assert pf.equal(pf.view_as_real(a), pf.view_as_real(b))


# ---- short-time transforms and windows ----------------------------------------------------------


def test_stft_as_pytorch():
    torch = pytest.importorskip("torch")
    x = RNG.standard_normal((2, 100))
    for how in (
        dict(n_fft=16), dict(n_fft=16, hop_length=5), dict(n_fft=16, win_length=10), dict(n_fft=15, center=False),
        dict(n_fft=16, normalized=True), dict(n_fft=16, onesided=False), dict(n_fft=16, pad_mode="constant"),
    ):  # fmt: skip
        length = how.get("win_length", how["n_fft"])
        w = RNG.random(length) + 0.5
        a = pf.stft(pf.tensor(x), window=pf.tensor(w), return_complex=True, **how)
        b = torch.stft(torch.tensor(x), window=torch.tensor(w), return_complex=True, **how)
        close(a, b.numpy())
        back = {k: v for k, v in how.items() if k != "pad_mode"}
        if how.get("center", True):
            c = pf.istft(a, window=pf.tensor(w), length=100, **back)
            d = torch.istft(b, window=torch.tensor(w), length=100, **back)
            np.testing.assert_allclose(of(c), d.numpy(), atol=1e-12)
    close(
        pf.stft(pf.tensor(x[0]), 8, return_complex=False),
        torch.stft(
            torch.tensor(x[0]), 8, window=torch.ones(8, dtype=torch.float64), return_complex=False
        ).numpy(),
    )
    z = x + 1j * x[::-1]
    close(
        pf.stft(pf.tensor(z), 8),
        torch.stft(
            torch.tensor(z), 8, window=torch.ones(8, dtype=torch.float64), return_complex=True
        ).numpy(),
    )
    check_grad(
        lambda t: pf.view_as_real(pf.stft(t, 8, return_complex=True).contiguous()),
        RNG.standard_normal(20),
    )
    w = pf.hann_window(8, dtype=pf.float64)
    check_grad(
        lambda t: pf.istft(pf.stft(t, 8, window=w, return_complex=True) ** 2, 8, window=w),
        RNG.standard_normal(20),
    )
    with pytest.raises(pf.ValueError, match="return_complex"):
        pf.stft(pf.ones(20), 8)
    with pytest.raises(pf.ValueError, match="window"):
        pf.istft(pf.ones(5, 6, dtype=pf.complex64), 8, window=pf.zeros(8))
    with pytest.raises(pf.ShapeError, match="terms"):
        pf.istft(pf.ones(7, 6, dtype=pf.complex64), 8)


def test_windows():
    signal = pytest.importorskip("scipy.signal").windows
    for n in (0, 1, 2, 7, 8):
        for periodic in (True, False):
            sym = not periodic
            how = {"dtype": pf.float64}
            pairs = [
                (pf.hann_window(n, periodic, **how), signal.hann(n, sym)),
                (pf.hamming_window(n, periodic, **how), signal.hamming(n, sym)),
                (pf.blackman_window(n, periodic, **how), signal.blackman(n, sym)),
                (pf.bartlett_window(n, periodic, **how), signal.bartlett(n, sym)),
                (pf.kaiser_window(n, periodic, 6.0, **how), signal.kaiser(n, 6.0, sym)),
            ]
            w = pf.signal.windows
            pairs += [
                (w.hann(n, sym=sym, **how), signal.hann(n, sym)),
                (w.hamming(n, sym=sym, **how), signal.hamming(n, sym)),
                (w.blackman(n, sym=sym, **how), signal.blackman(n, sym)),
                (w.nuttall(n, sym=sym, **how), signal.nuttall(n, sym)),
                (w.bartlett(n, sym=sym, **how), signal.bartlett(n, sym)),
                (w.kaiser(n, beta=14.0, sym=sym, **how), signal.kaiser(n, 14.0, sym)),
                (w.gaussian(n, std=2.0, sym=sym, **how), signal.gaussian(n, 2.0, sym)),
                (w.exponential(n, tau=2.0, sym=sym, **how), signal.exponential(n, None, 2.0, sym)),
                (
                    w.general_cosine(n, a=[0.5, 0.3, 0.2], sym=sym, **how),
                    signal.general_cosine(n, [0.5, 0.3, 0.2], sym),
                ),
            ]
            if n:
                pairs.append((w.cosine(n, sym=sym, **how), signal.cosine(n, sym)))
            for got, want in pairs:
                assert got.shape == (n,)
                np.testing.assert_allclose(of(got), want, atol=1e-12)
    assert pf.hann_window(4, requires_grad=True).requires_grad
    with pytest.raises(pf.ValueError, match="at least 0"):
        pf.hann_window(-1)
    with pytest.raises(pf.DTypeError):
        pf.hann_window(3, dtype=pf.int64)


def test_no_dimensions():
    x = pf.tensor(-5.75)
    assert pf.fft.fftn(x).item() == -5.75
    for f in (pf.fft.fftn, pf.fft.ifft2, pf.fft.rfftn, pf.fft.irfftn):
        with pytest.raises(IndexError, match="without any"):
            f(x, s=(3,), dim=(0,))
