"""A batch norm's statistics, and what is made of them, over some channels at a time (src/cpu/cells.cpp): to
the bit what it is one after the other, whatever the layout, the dtype and the threads."""

import pytest

import pyflame as pf

F = pf.nn.functional

# Shapes, and whether channels go through memory in parts: not where they lie side by side, are too
# few or too large for a cache, or lie such steps apart that they share sets of it.
SHAPES = {
    "short rows": ((40, 131, 7, 5), True),
    "the benchmark's": ((33, 96, 7, 7), True),
    "long rows": ((3, 9, 83, 61), True),
    "a line": ((64, 70, 33), True),
    "a volume": ((2, 40, 4, 15, 16), True),
    "one picture": ((1, 48, 50, 50), True),
    "steps that share sets": ((64, 512, 8, 8), False),
    "no space": ((900, 130), False),
    "one channel": ((40, 1, 60, 60), False),
    "large channels": ((5, 8, 300, 301), False),
    "small": ((4, 8, 7, 7), False),
}


def bits(results):
    return [(r.dtype, tuple(r.shape), r.double().contiguous().numpy().tobytes()) for r in results]


def laid(t, how):
    if how == "last" and t.dim() > 2:
        order = [0, *range(2, t.dim()), 1]
        return t.permute(*order).contiguous().permute(0, t.dim() - 1, *range(1, t.dim() - 1))
    if how == "sliced":
        return pf.cat([t, t], 0)[::2]
    return t


def step(shape, how="rows", dtype=pf.float32, wide=False, affine=True):
    """Training, with what follows it, its gradients, and running statistics; nothing of it shared."""
    pf.manual_seed(5)
    of_channel = pf.float32 if wide else dtype
    x, rest, g = (laid(pf.randn(*shape) * 2 + 7, how).to(dtype) for _ in range(3))
    w, b = ((pf.randn(shape[1]) + 1).to(of_channel).requires_grad_() for _ in range(2))
    mean, var = (pf.randn(shape[1]).abs().to(of_channel) for _ in range(2))
    x.requires_grad_()
    rest.requires_grad_()
    weights = (w, b) if affine else (None, None)
    y = F.relu(F.batch_norm(x, mean, var, *weights, True, 0.2) + rest)
    y.backward(g)
    with pf.no_grad():
        z = F.batch_norm(x, mean, var, *weights, True, 0.3)
    grads = [t.grad for t in (x, rest, w, b) if t.grad is not None]
    return bits([y.detach(), z, mean, var, *grads])


def check(**how):
    """Whether programs ran within kernels."""
    with pf.debug.eager():
        want = step(**how)
    joined = 0
    for threads in (1, 2, 3):
        before = pf.get_num_threads()
        pf.set_num_threads(threads)
        try:
            start = pf.debug.stats()["joined"]
            assert step(**how) == want, threads
            joined += pf.debug.stats()["joined"] - start
        finally:
            pf.set_num_threads(before)
    return joined > 0


@pytest.mark.cpu_only  # others have no parts
@pytest.mark.parametrize("how", ["rows", "last", "sliced"])
@pytest.mark.parametrize("name", SHAPES)
def test_bits(name, how):
    shape, parts = SHAPES[name]
    assert check(shape=shape, how=how) == (parts and how != "last")


@pytest.mark.cpu_only
@pytest.mark.parametrize("how", ["rows", "last"])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dtype", [pf.float64, pf.float16, pf.bfloat16], ids=str)
def test_dtypes(dtype, wide, how):
    if wide and dtype == pf.float64:
        return
    assert check(shape=(35, 77, 7, 5), how=how, dtype=dtype, wide=wide) == (how == "rows")


@pytest.mark.cpu_only
def test_without_weights_and_examples():
    check(shape=(33, 96, 7, 7), affine=False)
    check(shape=(0, 96, 7, 7))


def others(x, at, w, b, mean, var):
    """Numbers of channels that are read and written beside a norm that is pending."""
    y = F.batch_norm(x, mean, var, w, b, True)
    yield y * mean.reshape(at)  # of its own running statistics
    y = F.batch_norm(x, mean, var, w, b, True)
    z = y + var.reshape(at)
    var.add_(1)
    yield z
    yield var
    z = F.batch_norm(x, mean, var, w, b, True)
    w.mul_(2)
    b.sub_(mean)
    yield z
    z = F.batch_norm(x, mean, var, w, b, True)
    mean.add_(z[0, :, 0, 0])
    yield from (z * 2, mean)
    z = F.batch_norm(x, mean, var, w, b, True)
    x.mul_(3)  # what the kernel reads
    z.add_(x)
    yield z
    z = F.batch_norm(x, None, None, w, b, True)
    yield z.sum((0, 2, 3)) + w
    yield F.batch_norm(F.batch_norm(x, mean, var, w, b, True).relu(), mean, var, b, w, True)
    yield from (x, w, b, mean, var)


def test_what_channels_have_otherwise():
    def run():
        pf.manual_seed(6)
        x = pf.randn(40, 67, 7, 7)
        rows = [pf.randn(67).abs() for _ in range(4)]
        with pf.no_grad():
            return bits([t.clone() for t in others(x, (1, -1, 1, 1), *rows)])

    with pf.debug.eager():
        want = run()
    assert run() == want


@pytest.mark.cpu_only  # of its plans
def test_the_gradient_takes_the_memory_of_what_it_is_made_of():
    x = pf.randn(40, 64, 14, 14, requires_grad=True)
    y = F.batch_norm(x, None, None, training=True)
    pf.flush()
    with pf.explain() as report:
        y.backward(y.detach() * 2)
        pf.flush()
    (group,) = [g for g in report.groups if g["anchor"] == "cell_slopes"]
    assert "one launch:" in group["plan"] and " in the memory of " in group["plan"], group["plan"]


def test_a_captured_step():
    def train(compiled):
        pf.manual_seed(7)
        norm = pf.nn.BatchNorm2d(72)
        optimizer = pf.optim.SGD(norm.parameters(), lr=0.1)

        def step(x, rest):
            optimizer.zero_grad()
            loss = (F.relu(norm(x) + rest) * rest).mean()
            loss.backward()
            optimizer.step()
            return loss

        call = pf.compile(step) if compiled else step
        losses = [call(pf.randn(32, 72, 9, 9), pf.randn(32, 72, 9, 9)).detach() for _ in range(5)]
        return bits([*losses, norm.weight.detach(), norm.running_mean, norm.running_var])

    assert train(True) == train(False)
