"""Cross-entropy with what is before the logits and behind their gradient in its launch: to the bit what
they are one after the other, in no memory of their own, and with every promise that holds without."""

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn.functional as F

pytestmark = pytest.mark.kernels(0.8)

ONE_LAUNCH = ("cpu", "rocm", "cuda")  # devices that take a group as one
# From short rows to those that take several blocks of columns, and that a GPU keeps in shared memory.
SHAPES = [(40000, 2), (33000, 3), (300, 257), (70, 1000), (19, 4100), (9, 16400), (5, 20011)]

BEFORE = {
    "cast": lambda x, m: x.float(),
    "scaled": lambda x, m: x * 0.5,
    "masked": lambda x, m: x.float() / 0.7 + m,
    "tanh cap": lambda x, m: pf.tanh(x.float() / 3) * 3,
    "viewed": lambda x, m: x.float().view(1, *x.shape).view(-1, x.shape[-1]),
}


def bits(results):
    return [(r.dtype, tuple(r.shape), r.float().contiguous().numpy().tobytes()) for r in results]


def data(shape, dtype=pf.bfloat16, seed=3):
    pf.manual_seed(seed)
    x, m = (pf.randn(*shape) * 3).to(dtype), pf.randn(shape[-1])
    t = pf.randint(0, shape[-1], (shape[0],))
    t[shape[0] // 2] = -100
    pf.synchronize()
    return x, m, t


def step(before, x, m, t, finish=lambda loss: loss, **options):
    leaf = x.detach().clone().requires_grad_()
    pf.synchronize()
    loss = F.cross_entropy(before(leaf, m), t, **options)
    last = finish(loss)
    last.backward(pf.full_like(last, 0.25) if last.dim() else None)
    return loss.detach(), last.detach(), leaf.grad


def joined(run):
    start = pf.debug.stats()["joined"]
    result = run()
    pf.synchronize()
    return result, pf.debug.stats()["joined"] - start


@pytest.mark.parametrize("name", BEFORE)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits(name, shape):
    x, m, t = data(shape)
    options = [{}, {"label_smoothing": 0.1, "reduction": "sum"}]
    options += (
        [{"weight": pf.rand(shape[1]) + 0.1, "reduction": "none"}] if name != "scaled" else []
    )
    for how in options:
        with pf.debug.eager():
            want = bits(step(BEFORE[name], x, m, t, **how))
        for threads in (1, 2, 3) if pf.get_device().type == "cpu" else (1,):
            before = pf.get_num_threads()
            pf.set_num_threads(threads)
            try:
                got, parts = joined(lambda how=how: step(BEFORE[name], x, m, t, **how))
            finally:
                pf.set_num_threads(before)
            assert bits(got) == want, (how, threads)
            # Gradients of many losses are too much to wait beside these. GPUs make logits twice,
            # so a program that stores something (tanh, for its gradient) runs before.
            if pf.get_device().type in ONE_LAUNCH and "weight" not in how:
                assert parts >= (1 if name == "tanh cap" else 2), how


@pytest.mark.parametrize("dtype", [pf.float16, pf.float32, pf.float64], ids=str)
def test_other_dtypes(dtype):
    x, m, t = data((80, 1031), dtype)
    for before in (lambda x, m: x * 2 + m.to(x.dtype), lambda x, m: x.double()):
        with pf.debug.eager():
            want = bits(step(before, x, m, t))
        assert bits(step(before, x, m, t)) == want


def test_against_float64():
    x, m, t = data((70, 1000))
    loss, _, grad = step(BEFORE["masked"], x, m, t)
    a = x.double().numpy() / 0.7 + m.double().numpy()
    p = np.exp(a - a.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    labels = t.numpy()
    counts = labels != -100
    n, rows = counts.sum(), np.arange(len(labels))
    at = np.where(counts, labels, 0)
    assert np.isclose(loss.item(), -(np.log(p[rows, at]) * counts).sum() / n, rtol=1e-6)
    p[rows, at] -= 1
    want = p * counts[:, None] / n / 0.7
    got = grad.double().numpy()
    assert np.allclose(got, want, rtol=1e-2, atol=1e-9)


def test_the_loss_alone():
    x, m, t = data((70, 1000))
    with pf.no_grad():
        for before in BEFORE.values():
            for how in ({}, {"label_smoothing": 0.2}, {"reduction": "none"}):
                with pf.debug.eager():
                    want = bits([F.cross_entropy(before(x, m), t, **how)])
                got, parts = joined(
                    lambda before=before, how=how: [F.cross_entropy(before(x, m), t, **how)]
                )
                assert bits(got) == want
                if pf.get_device().type in ONE_LAUNCH:
                    assert parts >= 1


def test_special_values():
    x, m, t = data((70, 1000), pf.float32)
    x[0, 3], x[1, 4], x[2, 5], x[3, :] = np.nan, np.inf, -np.inf, -np.inf
    x[4] = 1e4
    x[5] = -1e4
    x[35, 2] = np.nan  # of the row that does not count
    with pf.debug.eager():
        want = bits(step(BEFORE["scaled"], x, m, t, reduction="sum"))
    got = step(BEFORE["scaled"], x, m, t, reduction="sum")
    assert bits(got) == want
    assert (got[2][35] == 0).all() and got[2][4].isfinite().all()


FINISH = {
    "divided": lambda loss: loss / 4,
    "scaled": lambda loss: loss * pf.tensor(8.0),
    "squared": lambda loss: loss * loss,
    "read": lambda loss: (loss.item(), loss)[1],
}


@pytest.mark.parametrize("name", FINISH)
def test_what_is_behind_the_loss(name):
    x, m, t = data((70, 1000))
    with pf.debug.eager():
        want = bits(step(BEFORE["cast"], x, m, t, FINISH[name]))
    got, parts = joined(lambda: step(BEFORE["cast"], x, m, t, FINISH[name]))
    assert bits(got) == want
    if pf.get_device().type in ONE_LAUNCH and name in ("divided", "scaled"):
        assert parts >= 2


def test_a_sum_of_losses_beside_it():
    x, m, t = data((70, 1000))

    def run(total):
        def finish(loss):
            total.add_(loss.detach())
            return loss / 2

        return [*step(BEFORE["cast"], x, m, t, finish), total]

    with pf.debug.eager():
        want = bits(run(pf.ones(())))
    assert bits(run(pf.ones(()))) == want


def test_no_wide_logits_in_memory():
    """Neither those nor their gradient: at no time more than the logits, their gradient and some rows."""
    device = pf.get_device()
    if device.type not in ONE_LAUNCH:
        pytest.skip("runs kernels one after the other")
    rows, classes = (2048, 2000) if device.type == "cpu" else (600, 1000)
    x, m, t = data((rows, classes))
    x.requires_grad_()
    stats, reset = pf.debug.memory_stats, pf.debug.reset_peak_memory_stats
    with pf.explain() as report:
        reset()
        start = stats()["allocated"]
        F.cross_entropy(x.float(), t).backward()
        pf.synchronize()
        peak = stats()["max_allocated"] - start
    threads = pf.get_num_threads() * (2 << 20)  # what a piece touches
    assert peak <= x.nbytes + 64 * rows + (threads if device.type == "cpu" else 1 << 16), peak
    text = report.to_text(plans=True)
    assert "one launch" in text and "in no memory" in text
    with pf.no_grad():
        reset()
        start = stats()["allocated"]
        F.cross_entropy(x.float(), t).item()
        assert stats()["max_allocated"] - start <= 64 * rows + (
            threads if device.type == "cpu" else 1 << 16
        )


def test_logits_that_somebody_holds_are_there():
    x, m, t = data((300, 257))
    leaf = x.clone().requires_grad_()
    wide = leaf.float()
    loss = F.cross_entropy(wide, t)
    loss.backward()
    assert pf.equal(wide, x.float())
    more = (wide * 2).sum(-1)  # and may be read again
    assert np.allclose(more.detach().numpy(), 2 * x.float().numpy().sum(-1), rtol=1e-4, atol=1e-3)
    with pf.debug.eager():
        want = step(BEFORE["cast"], x, m, t)
    assert loss.item() == want[0].item() and pf.equal(leaf.grad, want[2])


def test_logits_with_a_second_reader():
    x, m, t = data((300, 257))

    def run():
        leaf = x.clone().requires_grad_()
        wide = leaf.float()
        z = wide.logsumexp(-1)
        (F.cross_entropy(wide, t) + 1e-4 * (z * z).mean()).backward()
        return [leaf.grad]

    with pf.debug.eager():
        want = bits(run())
    assert bits(run()) == want


def test_writes_between():
    x, m, t = data((300, 257))
    want = step(BEFORE["cast"], x, m, t)
    leaf = (x.clone().requires_grad_()) * 1.0
    leaf.retain_grad()
    loss = F.cross_entropy(leaf.float(), t)
    with pf.no_grad():
        leaf.zero_()  # a cast needs nothing of it
    loss.backward()
    assert loss.item() == want[0].item() and pf.equal(leaf.grad, want[2])
    # The logits themselves are needed.
    wide = x.clone().requires_grad_().float()
    loss = F.cross_entropy(wide, t)
    with pf.no_grad():
        wide.zero_()
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()
    # Targets, too.
    labels = t.clone()
    loss = F.cross_entropy(x.clone().requires_grad_().float(), labels)
    labels.zero_()
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


def test_targets_written_over_behind_the_loss():
    x, m, t = data((300, 257))
    labels = t.clone()
    with pf.no_grad():
        loss = F.cross_entropy(x.float(), labels)
        labels.zero_()
        want = F.cross_entropy(x.float(), t).item()
    assert loss.item() == want


def test_gradients_twice():
    x, m, t = data((300, 257))
    leaf = x.clone().requires_grad_()
    loss = F.cross_entropy(leaf.float(), t)
    (first,) = pf.autograd.grad(loss, leaf, retain_graph=True)
    (second,) = pf.autograd.grad(loss, leaf)
    assert pf.equal(first, second)
    wide = x[:6, :20].double().requires_grad_()

    def curvature():
        loss = F.cross_entropy(wide * 0.5, t[:6] % 20)
        (g,) = pf.autograd.grad(loss, wide, create_graph=True)
        (h,) = pf.autograd.grad((g * g).sum(), wide)
        return h

    with pf.debug.eager():
        want = curvature()
    assert pf.equal(curvature(), want)


def test_nothing_to_do():
    for shape in ((0, 5), (0, 300)):
        x = pf.zeros(*shape, dtype=pf.bfloat16, requires_grad=True)
        loss = F.cross_entropy(x.float(), pf.zeros(0, dtype=pf.int64), reduction="sum")
        loss.backward()
        assert loss.item() == 0 and x.grad.shape == shape
    x, m, t = data((300, 257))
    t[:] = -100
    loss, _, grad = step(BEFORE["cast"], x, m, t, reduction="sum")
    assert loss.item() == 0 and (grad == 0).all()


def test_a_wrong_class_is_told_and_nothing_else_is_lost():
    x, m, t = data((300, 257))
    leaf = x.clone().requires_grad_()
    wide = leaf.float()
    beside = wide * 2
    bad = t.clone()
    bad[7] = 257
    with pytest.raises(IndexError, match="target 257 for 257 classes"):
        F.cross_entropy(wide, bad).backward()
        pf.synchronize()
    if pf.get_device().type == "cpu":  # by the call itself
        with pytest.raises(IndexError, match="target 257 for 257 classes"):
            F.cross_entropy(wide, bad)
    assert pf.equal(beside, x.float() * 2)
    leaf.grad = None
    loss = F.cross_entropy(wide, t)
    loss.backward()
    with pf.debug.eager():
        want = step(BEFORE["cast"], x, m, t)
    assert loss.item() == want[0].item() and pf.equal(leaf.grad, want[2])


def test_class_probabilities():
    x, m, t = data((70, 1000))
    p = F.softmax(pf.randn(70, 1000), -1)

    def run():
        leaf = x.clone().requires_grad_()
        loss = F.cross_entropy(leaf.float(), p, label_smoothing=0.1)
        loss.backward()
        return loss.detach(), leaf.grad

    with pf.debug.eager():
        want = bits(run())
    assert bits(run()) == want


def test_a_loss_without_its_gradient_until_it_was_read():
    """The gradient by itself reads what is in memory, and the cast behind it joins."""
    x, m, t = data((70, 1000))
    leaf = x.clone().requires_grad_()
    loss = F.cross_entropy(leaf.float(), t)
    value = loss.item()
    start = pf.debug.stats()["joined"]
    loss.backward()
    pf.synchronize()
    if pf.get_device().type in ONE_LAUNCH:
        assert pf.debug.stats()["joined"] > start
    with pf.debug.eager():
        want = step(BEFORE["cast"], x, m, t)
    assert value == want[0].item() and pf.equal(leaf.grad, want[2])
