"""Decompositions and Fourier transforms, in PyTorch's API."""

from benchmarks.cases import case


def _of_512(torch):
    torch.manual_seed(0)
    return torch.randn(512, 512)


def _positive(torch):
    a = _of_512(torch)
    return a @ a.mT + 512 * torch.eye(512)


@case("linalg", "cholesky of 512", repeat=4)
def cholesky_512(torch):
    a = _positive(torch)

    def run():
        for _ in range(4):
            out = torch.linalg.cholesky(a)
        return out

    return run


@case("linalg", "solve 512 x 512, 512 right sides")
def solve_512(torch):
    a, b = _of_512(torch), torch.randn(512, 512)
    return lambda: torch.linalg.solve(a, b)


@case("linalg", "solve 512 x 512, one right side")
def solve_vector_512(torch):
    a, b = _of_512(torch), torch.randn(512)
    return lambda: torch.linalg.solve(a, b)


@case("linalg", "svd of 512")
def svd_512(torch):
    a = _of_512(torch)
    return lambda: torch.linalg.svd(a)


@case("linalg", "singular values of 512")
def svdvals_512(torch):
    a = _of_512(torch)
    return lambda: torch.linalg.svdvals(a)


@case("linalg", "eigh of 512")
def eigh_512(torch):
    a = _positive(torch)
    return lambda: torch.linalg.eigh(a)


@case("linalg", "qr of 512")
def qr_512(torch):
    a = _of_512(torch)
    return lambda: torch.linalg.qr(a)


@case("linalg", "inv of 512")
def inv_512(torch):
    a = _of_512(torch)
    return lambda: torch.linalg.inv(a)


@case("linalg", "cholesky of 4096 matrices 16 x 16")
def cholesky_batch(torch):
    a = torch.randn(4096, 16, 16)
    s = a @ a.mT + 16 * torch.eye(16)
    return lambda: torch.linalg.cholesky(s)


def _complex(torch, *shape):
    torch.manual_seed(0)
    return torch.complex(torch.randn(*shape), torch.randn(*shape))


@case("fft", "fft of 2^20")
def fft_line(torch):
    x = _complex(torch, 1 << 20)
    return lambda: torch.fft.fft(x)


@case("fft", "fft2 of 1024 x 1024")
def fft_square(torch):
    x = _complex(torch, 1024, 1024)
    return lambda: torch.fft.fft2(x)


@case("fft", "fft of 1024 lines of 1000")
def fft_lines(torch):
    x = _complex(torch, 1024, 1000)
    return lambda: torch.fft.fft(x)


@case("fft", "fft of 1024 lines of 1009, a prime")
def fft_prime(torch):
    x = _complex(torch, 1024, 1009)
    return lambda: torch.fft.fft(x)


@case("fft", "rfft of 1024 lines of 1024")
def rfft_lines(torch):
    x = torch.randn(1024, 1024)
    return lambda: torch.fft.rfft(x)


@case("fft", "irfft of 1024 lines of 513")
def irfft_lines(torch):
    x = torch.fft.rfft(torch.randn(1024, 1024))
    return lambda: torch.fft.irfft(x)


# The same in float64.
def _double(name, title, of, work):
    def make(torch):
        a = of(torch).double()
        return lambda: work(torch, a)

    make.__name__ = name
    case("linalg", title + ", float64")(make)


_double("cholesky_512_double", "cholesky of 512", _positive, lambda t, a: t.linalg.cholesky(a))
_double(
    "solve_512_double",
    "solve 512 x 512, 512 right sides",
    _of_512,
    lambda t, a: t.linalg.solve(a, a),
)
_double("svd_512_double", "svd of 512", _of_512, lambda t, a: t.linalg.svd(a))
_double("eigh_512_double", "eigh of 512", _positive, lambda t, a: t.linalg.eigh(a))
