"""Programs around a kernel run over a few rows at a time (src/cpu/group.cpp): to the bit what they are
one after the other, at sizes that are no multiples of anything, in every layout, for any threads."""

import numpy as np
import pytest

import pyflame as pf

F = pf.nn.functional
SHAPES = [
    (700, 129),
    (65, 1031),
    (3, 40000),
    (40000, 3),
    (5, 170, 100),
    (1100, 64),
    (2, 3, 128, 128),
]


def bits(results):
    results = results if isinstance(results, tuple) else (results,)
    return [(r.dtype, tuple(r.shape), r.double().contiguous().numpy().tobytes()) for r in results]


def kept(x, y, row, n):
    s = x + y
    return s, F.layer_norm(s, (n,), row, None)


def spread_in_place(x):
    z = x.clone()
    z.mul_(2)
    return z.var(-1), z


def spread_of_taken(x):
    z = x.clone()
    pf.flush()
    z = z * 2  # whose memory it takes
    return z.var(-1), z.std(-1), z


WORKS = {
    "layer norm of a sum": lambda x, y, row, col, n: F.layer_norm(x + y, (n,), row, row),
    "the sum is kept": lambda x, y, row, col, n: kept(x, y, row, n),
    "rms norm": lambda x, y, row, col, n: F.rms_norm(x * row + col, (n,), row),
    "softmax of scaled scores": lambda x, y, row, col, n: F.softmax(x * 0.3 + row, -1),
    "log softmax, then a product": lambda x, y, row, col, n: F.log_softmax(x - col, -1) * y + row,
    "softmax, read twice": lambda x, y, row, col, n: ((p := F.softmax(x, -1)), p * y, p + row),
    "behind alone": lambda x, y, row, col, n: F.softmax(x, -1).exp() + col,
    "transposed": lambda x, y, row, col, n: F.softmax(x + y.mT.contiguous().mT, -1),
    "sum of all": lambda x, y, row, col, n: (x * y + row).sum(),
    "mean of squares": lambda x, y, row, col, n: ((x - y) ** 2).mean(),
    "nansum": lambda x, y, row, col, n: pf.where(x > 1, x * np.nan, x).nansum(),
    "huber": lambda x, y, row, col, n: F.huber_loss(x, y, delta=0.7),
    "sum of rows": lambda x, y, row, col, n: (x * y).sum(-1) * 2,
    "sum of columns": lambda x, y, row, col, n: (x * col).flatten(0, -2).sum(0),
    "columns, kept": lambda x, y, row, col, n: ((g := x.gelu() * y), g.flatten(0, -2).sum(0)),
    "middle": lambda x, y, row, col, n: (x + y).sum(-2),
    "norms": lambda x, y, row, col, n: ((x * y).norm(dim=-1), (x + row).norm()),
    "var": lambda x, y, row, col, n: (x * y + 100).var(-1),
    "var in place": lambda x, y, row, col, n: spread_in_place(x),
    "var of what took memory": lambda x, y, row, col, n: spread_of_taken(x),
    "in place behind": lambda x, y, row, col, n: y.clone().mul_(F.softmax(x * 2, -1)),
}


@pytest.mark.parametrize("dtype", [pf.float32, pf.float64, pf.bfloat16])
@pytest.mark.parametrize("name", WORKS)
def test_bits(name, dtype):
    work = WORKS[name]
    joined = 0
    for shape in SHAPES:
        pf.manual_seed(len(shape))
        x, y = pf.randn(*shape).to(dtype), pf.randn(*shape).to(dtype)
        row, col = pf.randn(shape[-1]).to(dtype), pf.randn(*shape[:-1], 1).to(dtype)
        if name == "in place behind":
            y = y.clone()
        with pf.debug.eager():
            want = bits(work(x, y, row, col, shape[-1]))
        for threads in (1, 2, 3):
            before = pf.get_num_threads()
            pf.set_num_threads(threads)
            try:
                start = pf.debug.stats()["joined"]
                got = bits(work(x, y, row, col, shape[-1]))
                joined += pf.debug.stats()["joined"] - start
            finally:
                pf.set_num_threads(before)
            assert got == want, (shape, threads)
    # On GPUs sums over rows take in what is before them, those over columns do not.
    on_gpus = ("sum of rows", "mean of squares", "softmax of scaled scores", "var")
    if pf.get_device().type == "cpu" or (pf.get_device().type == "cuda" and name in on_gpus):
        assert joined > 0


@pytest.mark.parametrize("shape", [(16411, 1024), (17003, 1000)])
def test_bits_of_what_goes_around_the_caches(shape):
    """A program fetches a part of what the next piece reads, the kernel the rest; stores stream."""
    if pf.get_device().type != "cpu":
        pytest.skip("of the CPU's caches")
    x, y = pf.randn(*shape), pf.randn(*shape)
    row = pf.randn(shape[-1])
    works = (
        lambda: F.layer_norm(x + y, shape[-1:], row, row),
        lambda: F.softmax(x * 0.3 + row, -1),
        lambda: F.log_softmax(x + row, -1) * y,
    )
    before = pf.get_num_threads()
    for work in works:
        with pf.debug.eager():
            want = work().numpy()
        for threads in (1, 2):
            pf.set_num_threads(threads)
            try:
                start = pf.debug.stats()["joined"]
                got = work().numpy()
                assert pf.debug.stats()["joined"] > start
            finally:
                pf.set_num_threads(before)
            assert (got.view(np.int32) == want.view(np.int32)).all()


def test_gradients():
    """A training step's groups, forward and backward."""

    def step():
        pf.manual_seed(1)
        x = pf.randn(300, 257, requires_grad=True)
        w = pf.ones(257, requires_grad=True)
        h = F.gelu(x * 1.5 + w)
        h = F.layer_norm(h + x, (257,), w, w)
        loss = (F.softmax(h * 0.5, -1) * h).sum()
        loss.backward()
        return loss.detach(), x.grad, w.grad

    with pf.debug.eager():
        want = bits(step())
    assert bits(step()) == want


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("shape", [(1100, 70), (4099, 33), (70, 2000)])
def test_gradients_of_norms(norm, shape):
    """With work before and behind: blocks of rows, for the gradients of weight and bias, are not what
    pieces are."""
    n = shape[-1]

    def step():
        pf.manual_seed(3)
        x, y, g = (pf.randn(*shape) for _ in range(3))
        x.requires_grad_()
        w, b = pf.randn(n, requires_grad=True), pf.randn(n, requires_grad=True)
        h = x * 1.0
        normed = F.layer_norm(h, (n,), w, b) if norm == "layer" else F.rms_norm(h, (n,), w)
        (normed * y + h).backward(g)
        return (x.grad, w.grad) + ((b.grad,) if norm == "layer" else ())

    with pf.debug.eager():
        want = bits(step())
    start = pf.debug.stats()["joined"]
    assert bits(step()) == want
    if pf.get_device().type == "cpu":
        assert pf.debug.stats()["joined"] - start >= 3


@pytest.mark.parametrize("n", [65000, 61441, 65536 + 1])
def test_what_follows_a_sum_and_takes_nothing_of_it(n):
    """Another operation over as many elements as the sum's blocks have joins its group."""
    base, y = pf.ones(n + 100), pf.ones((n + 4095) // 4096 * 4096, dtype=pf.float16)
    assert base[0].item() == y[0].item() == 1
    s, z = base[:n].sum(), y + 1
    assert s.item() == n and (z == 2).all()
    s, z = (base[:n] * 2).sum(), y + 1
    assert s.item() == 2 * n and (z == 2).all()
    half = base[:n].half()
    assert half[0].item() == 1
    s, z = (half * 0.5).sum(), pf.isnan(y)
    assert s.item() == (pf.tensor(n * 0.5).half()).item() and not z.any()


FED = {
    "masked scores": lambda t, m, b, c, n: F.softmax(pf.where(b, t * 0.3 + m, -np.inf), -1),
    "log softmax": lambda t, m, b, c, n: F.log_softmax(t * c - m, -1),
    "widened": lambda t, m, b, c, n: F.softmax(t.to(pf.bfloat16).float() + m, -1),
    "layer norm": lambda t, m, b, c, n: F.layer_norm(t * c + m, (n,)),
    "the sum is kept": lambda t, m, b, c, n: ((s := t + m), F.layer_norm(s, (n,))),
    "kept and cast": lambda t, m, b, c, n: ((s := t * m), s.half(), F.rms_norm(s, (n,))),
    "with work behind": lambda t, m, b, c, n: F.softmax(t + c, -1).sqrt() * m,
    "of one number": lambda t, m, b, c, n: F.softmax(t + m[0, 0, 0, 3], -1),
    "sliced": lambda t, m, b, c, n: F.softmax(t[:, :, 1:] * 2, -1),
    "many": lambda t, m, b, c, n: F.softmax(t * m + t.exp() - t.sin() * c, -1),
}


@pytest.mark.parametrize("n", [256, 257, 320, 1000, 4096, 4100, 5000])
@pytest.mark.parametrize("name", FED)
def test_rows_made_when_they_are_read(name, n):
    """A program makes rows of 256 and more elements beside the kernel's loop, in four dimensions whose
    operands repeat along some."""
    pf.manual_seed(n)
    t, m, c = pf.randn(2, 3, 47, n), pf.randn(2, 1, 1, n), pf.randn(1, 3, 47, 1)
    t[0, 1, 3, n - 2], t[1, 2, 5, 0], t[1, 0, 7, :] = np.nan, np.inf, -1e4
    b = pf.rand(2, 1, 1, n) > 0.3
    with pf.debug.eager():
        want = bits(FED[name](t, m, b, c, n))
    before = pf.get_num_threads()
    for threads in (1, 2, 3):
        pf.set_num_threads(threads)
        try:
            start = pf.debug.stats()["joined"]
            got = bits(FED[name](t, m, b, c, n))
            joined = pf.debug.stats()["joined"] - start
        finally:
            pf.set_num_threads(before)
        assert got == want, threads
        if pf.get_device().type == "cpu":
            assert joined > 0


@pytest.mark.parametrize("n", [256, 1000])
@pytest.mark.parametrize("kind", ["softmax", "log_softmax", "layer_norm", "rms_norm"])
def test_gradients_of_rows_made_when_they_are_read(kind, n):
    """Both of a gradient's operands, one of which a program makes; its rows come in blocks."""

    def step():
        pf.manual_seed(4)
        x, y, g = (pf.randn(517, n) for _ in range(3))
        x.requires_grad_()
        w = pf.randn(n, requires_grad=True)
        if kind.endswith("softmax"):
            r = getattr(F, kind)(x * 0.5, -1)
        else:
            r = getattr(F, kind)(x * 0.5, (n,), w)
        (r * y).backward(g)
        return (x.grad,) if kind.endswith("softmax") else (x.grad, w.grad)

    with pf.debug.eager():
        want = bits(step())
    start = pf.debug.stats()["joined"]
    assert bits(step()) == want
    if pf.get_device().type == "cpu":
        assert pf.debug.stats()["joined"] - start >= 2


def test_rows_that_no_cache_holds():
    x = pf.randn(2, 3_000_000)
    with pf.debug.eager():
        want = bits(F.softmax(x * 2, -1))
    assert bits(F.softmax(x * 2, -1)) == want


def test_what_the_kernel_reads_otherwise_comes_first():
    x = pf.randn(256, 256)
    with pf.debug.eager():
        want = bits((F.layer_norm((x + 1).t(), (256,)), F.layer_norm(x + 1, (256,), (x + 1)[3])))
    got = bits((F.layer_norm((x + 1).t(), (256,)), F.layer_norm(x + 1, (256,), (x + 1)[3])))
    assert got == want


def test_a_result_that_is_an_operand():
    """In-place work behind the kernel writes what the work before it reads, in other rows."""
    x = pf.randn(300, 300)
    row = x[7]
    with pf.debug.eager():
        y = x.clone()
        want = bits(y.copy_(F.softmax(y * row + 1, -1)))
    got = bits(x.copy_(F.softmax(x * row + 1, -1)))
    assert got == want


def test_memory_is_not_taken():
    """What passes from one part to the next takes no memory of its own."""
    if pf.get_device().type != "cpu":
        pytest.skip("of the CPU")
    x = pf.randn(2048, 1024)
    pf.synchronize()
    pf.debug.reset_peak_memory_stats()
    start = pf.debug.memory_stats()["allocated"]
    y = F.softmax(x * 2, -1).sqrt()
    pf.synchronize()
    peak = pf.debug.memory_stats()["max_allocated"] - start
    assert peak <= y.nbytes * 5 // 4, peak  # the threads' pieces: by the second cache


def test_what_follows_a_product_runs_with_the_next_rows():
    """The residual's sum is in the product's group until the norm comes."""
    n = 64

    def step():
        pf.manual_seed(7)
        x = pf.randn(300, n, requires_grad=True)
        w, v = pf.randn(n, n, requires_grad=True), pf.randn(n, requires_grad=True)
        h = x + F.linear(x, w)
        z = F.layer_norm(h, (n,), v, v)
        y = h + F.linear(F.gelu(F.linear(z, w)), w)
        p = F.softmax(y * 0.3, -1)
        (p * p).sum().backward()
        return p.detach(), h.detach(), x.grad, w.grad, v.grad

    with pf.debug.eager():
        want = bits(step())
    start = pf.debug.stats()["joined"]
    assert bits(step()) == want
    if pf.get_device().type not in ("cpu", "paranoid"):
        assert pf.debug.stats()["joined"] - start >= 4


def test_what_follows_a_product_reads_what_it_read_when_it_was_recorded():
    def step():
        pf.manual_seed(8)
        x, y, w = pf.randn(40, 32), pf.randn(40, 32), pf.randn(32, 32)
        s = y * 2 + F.linear(x * 2, w)
        z = F.softmax(s, -1)
        y.add_(1)  # read by the sum, which has not run
        s.mul_(3)  # made by it, read by the softmax
        return x, y, s, z

    with pf.debug.eager():
        want = bits(step())
    assert bits(step()) == want


def test_a_product_that_fails_takes_along_what_follows_it():
    x, w, y = pf.randn(40, 32), pf.randn(32, 32), pf.randn(40, 32)
    pf.synchronize()
    with pf.debug.fault("kernel_launch", 1, "launch", device=str(pf.get_device())):
        s = y + F.linear(x, w)
        with pytest.raises(pf.BackendError):
            F.softmax(s, -1).sum().item()
        with pytest.raises(pf.BackendError):
            s.sum().item()
    assert np.isfinite((y + F.linear(x, w)).sum().item())


def test_parts_of_memory_that_is_not_there_yet():
    """Where they will lie is not known when a backend is asked what may join."""

    def step():
        pf.manual_seed(9)
        x, wide = pf.randn(8, 16), pf.randn(2, 16384)
        into, again = pf.empty(8, 20), pf.empty(8, 20)
        into[:, 1:17] = F.softmax(x, -1)
        again[:, 1:17].copy_(F.softmax(x, -1) * 2)
        shifted = pf.empty(2 * 16384 + 1)[1:].reshape(2, 16384)
        shifted.copy_(wide * 2)
        normed = F.layer_norm(shifted, (16384,))
        return into[:, 1:17], again[:, 1:17], normed, F.softmax(shifted, -1)

    with pf.debug.eager():
        want = bits(step())
    assert bits(step()) == want


def test_a_value_read_by_a_product_and_by_what_follows_it():
    def step():
        pf.manual_seed(10)
        x, w = pf.randn(400, 64), pf.randn(64, 64)
        h = x * 2
        z = h @ w + h
        del h
        return F.layer_norm(z, (64,)), F.rms_norm(z * 2, (64,))

    with pf.debug.eager():
        want = bits(step())
    assert bits(step()) == want
