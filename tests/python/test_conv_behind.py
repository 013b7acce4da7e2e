"""What follows a convolution runs over the part of its result that is finished (src/cpu/group.cpp): to
the bit what it is one after the other, whatever the convolution's way, the layout and the threads."""

import pytest

import pyflame as pf

F = pf.nn.functional

# input, weight, stride, padding, groups; the ways are those of src/cpu/conv.cpp. Less than 2^18
# results are not worth it.
CALLS = {
    "pieces of lines": ((2, 16, 63, 59), (40, 16, 3, 3), 1, 1, 1),
    "stride": ((1, 24, 131, 128), (70, 24, 3, 3), 2, 1, 1),
    "more weights than pixels": ((1, 20, 14, 13), (1500, 20, 3, 3), 1, 1, 1),
    "items together": ((14, 24, 9, 8), (280, 24, 3, 3), 1, 1, 1),
    "few channels": ((2, 3, 400, 270), (5, 3, 7, 7), 2, 3, 1),
    "columns for short lines": ((64, 8, 3, 3), (600, 8, 3, 3), 1, 1, 1),
    "one pixel": ((3, 24, 61, 37), (50, 24, 1, 1), 1, 0, 1),
    "one pixel, stride": ((1, 24, 161, 157), (50, 24, 1, 1), 2, 0, 1),
    "groups": ((2, 16, 63, 59), (36, 8, 3, 3), 1, 1, 2),
    "by itself": ((2, 24, 83, 71), (24, 1, 3, 3), 1, 1, 24),
    "a line": ((3, 20, 2731), (33, 20, 5), 1, 2, 1),
    "a volume": ((1, 9, 25, 27, 26), (17, 9, 3, 3, 3), 1, 1, 1),
}


def along(c, values):
    """`values` along the channels."""
    return values.reshape(1, -1, *[1] * (c.dim() - 2))


def norm(c, row):
    return F.batch_norm(c, row, row * row + 1, row, row, training=False)


def kept(c, row):
    return c, F.relu(c), c.double()


def taken(c, y):
    """A dead tensor that the result may lie in, read beside it."""
    z = y * 1.5
    pf.flush()
    return F.relu(c + z)


WORKS = {
    "norm": lambda c, row, y: norm(c, row),
    "norm, residual, activation": lambda c, row, y: F.relu(norm(c, row) + y, inplace=True),
    "one number a pixel": lambda c, row, y: c * y[:1, :1] + y.amax((0, 1, -1), keepdim=True),
    "kept": lambda c, row, y: kept(c, row),
    "in place": lambda c, row, y: c.mul_(along(c, row)).add_(y),
    "into another": lambda c, row, y: y.clone().add_(F.gelu(c)),
    "takes memory": lambda c, row, y: taken(c, y),
    "turned": lambda c, row, y: c.mT.exp() + c.mT,
    "other dtype": lambda c, row, y: (c * 3).bfloat16(),
    "a mask": lambda c, row, y: c > y,
    "an item of it": lambda c, row, y: c[-1] * 2,
}


def bits(results):
    results = results if isinstance(results, tuple) else (results,)
    return [(r.dtype, tuple(r.shape), r.double().contiguous().numpy().tobytes()) for r in results]


def laid(t, last):
    formats = {4: pf.channels_last, 5: pf.channels_last_3d}
    return t.contiguous(memory_format=formats[t.dim()]) if last and t.dim() in formats else t


@pytest.mark.parametrize("last", [False, True], ids=["apart", "last"])
@pytest.mark.parametrize("name", CALLS)
def test_bits(name, last):
    size, weights, stride, padding, groups = CALLS[name]
    conv = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(size)]
    dtype = pf.float64 if name == "stride" else pf.float32
    pf.manual_seed(3)
    x, w = (laid(pf.randn(*s, dtype=dtype), last) for s in (size, weights))
    row = pf.randn(weights[0], dtype=dtype)
    y = pf.randn_like(conv(x, w, None, stride, padding, 1, groups))
    pf.flush()

    def run(work):
        return bits(work(conv(x, w, row, stride, padding, 1, groups), row, y))

    joined = 0
    for work in WORKS.values():
        with pf.debug.eager():
            want = run(work)
        for threads in (1, 2, 3):
            before = pf.get_num_threads()
            pf.set_num_threads(threads)
            try:
                start = pf.debug.stats()["joined"]
                assert run(work) == want, (work, threads)
                joined += pf.debug.stats()["joined"] - start
            finally:
                pf.set_num_threads(before)
    # Columns for all pixels at once, and channels by themselves, are not run with what is behind.
    if pf.get_device().type == "cpu":
        assert (joined > 0) == (name not in ("columns for short lines", "by itself"))


@pytest.mark.parametrize("last", [False, True], ids=["apart", "last"])
def test_what_the_convolution_reads_is_written_by_nobody(last):
    """A block whose input dies with it: the residual is what other threads still read."""

    def block():
        pf.manual_seed(1)
        h = laid(pf.randn(2, 32, 80, 60), last)
        w = laid(pf.randn(32, 32, 3, 3) / 17, last)
        for _ in range(4):
            h = F.relu(F.conv2d(h, w, padding=1) + h)
        for _ in range(2):
            h.add_(F.conv2d(h, w, padding=1))
        return h

    with pf.debug.eager():
        want = bits(block())
    for _ in range(5):
        assert bits(block()) == want


def test_no_memory_for_what_is_between():
    """The result takes over what the convolution has written."""
    if pf.get_device().type != "cpu":
        pytest.skip("of the CPU's plans")
    x, w, row = pf.randn(1, 32, 72, 64), pf.randn(64, 32, 3, 3), pf.randn(64)
    pf.flush()
    with pf.no_grad(), pf.explain() as report:
        F.relu(norm(F.conv2d(x, w, padding=1), row)).sum().item()
    (group,) = [g for g in report.groups if g["anchor"] == "conv"]
    program = group["plan"].splitlines()[-1]
    assert "one launch:" in group["plan"] and " in the memory of " in program, group["plan"]


def test_training_step():
    """Where gradients keep what is between, it is there."""

    def step():
        pf.manual_seed(1)
        x = pf.randn(2, 16, 80, 80, requires_grad=True)
        w = pf.randn(24, 16, 3, 3, requires_grad=True)
        b = pf.randn(24, requires_grad=True)
        c = F.conv2d(x, w, b, padding=1)
        loss = (F.silu(norm(c, b)) * c).mean()
        loss.backward()
        return loss.detach(), x.grad, w.grad, b.grad

    with pf.debug.eager():
        want = bits(step())
    assert bits(step()) == want
