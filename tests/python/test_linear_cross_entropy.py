"""The loss of a linear layer without all of its logits, against NumPy in float64."""

import contextlib

import numpy as np
import pytest
from conftest import DEVICE

import pyflame as pf
from pyflame import nn
from pyflame.nn import functional as F

BOUNDS = {pf.float64: 1e-13, pf.float32: 3e-6, pf.bfloat16: 2e-2, pf.float16: 3e-3}


def in_chunks(rows):
    return nn.LinearCrossEntropyOptions(batch_chunk_size=rows)


def draw(n, width, classes, seed=0, ignore=-100, every=5):
    rng = np.random.default_rng(seed)
    x, w, b = (rng.standard_normal(s) for s in ((n, width), (classes, width), classes))
    t = rng.integers(0, classes, n)
    if every:
        t[::every] = ignore
    return x, w, b, t, rng.random(classes) + 0.1


def reference(x, w, b, t, c, reduction, smoothing, upstream, ignore=-100):
    """Loss and the gradients of x, w and b, times `upstream`."""
    z = x @ w.T + (0 if b is None else b)
    classes = len(w)
    c = np.ones(classes) if c is None else c
    logs = z - z.max(1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(1, keepdims=True))
    on = t != ignore
    hot = np.eye(classes)[np.where(on, t, 0)]
    want = (hot * (1 - smoothing) + smoothing / classes) * c * on[:, None]
    loss = -(want * logs).sum(1)
    total = (hot * c).sum(1)[on].sum()
    rows = np.exp(logs) * want.sum(1, keepdims=True) - want
    if reduction == "none":
        g = rows * upstream[:, None]
    else:
        loss = loss.sum() / (total if reduction == "mean" else 1)
        g = rows * upstream / (total if reduction == "mean" else 1)
    return loss, g @ w, g.T @ x, g.sum(0)


def close(got, want, bound):
    assert got.shape == want.shape
    scale = np.abs(want).max(initial=1e-30)
    assert np.abs(got.detach().double().numpy() - want).max(initial=0) <= bound * scale


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("sizes, rows", [((37, 13, 101), 8), ((9, 5, 2), 9), ((6, 16, 64), None)])
@pytest.mark.parametrize("options", ["", "bias", "bias class_weight smoothing"])
def test_against_numpy(dtype, reduction, sizes, rows, options):
    *arrays, t, c = draw(*sizes)
    x, w, b = (pf.tensor(a).to(dtype).requires_grad_() for a in arrays)
    c = pf.tensor(c).to(dtype) if "class_weight" in options else None
    b = b if "bias" in options else None
    smoothing = 0.1 if "smoothing" in options else 0.0
    how = {} if rows is None else {"options": in_chunks(rows)}
    loss = F.linear_cross_entropy(
        x, w, pf.tensor(t), linear_bias=b, weight=c, reduction=reduction,
        label_smoothing=smoothing, **how,
    )  # fmt: skip
    assert loss.dtype == dtype
    up = np.random.default_rng(1).standard_normal(loss.shape)
    loss.backward(pf.tensor(up).to(dtype))
    given = [None if v is None else v.detach().double().numpy() for v in (x, w, b)]
    up = pf.tensor(up).to(dtype).double().numpy()
    c = None if c is None else c.double().numpy()
    want = reference(*given, t, c, reduction, smoothing, up)
    for got, expected in zip((loss, x.grad, w.grad, b.grad if b is not None else None), want):
        if got is not None:
            assert got.dtype == dtype
            close(got, expected, BOUNDS[dtype])


@pytest.mark.parametrize("class_weight", [False, True])
@pytest.mark.parametrize("lower", [pf.bfloat16, pf.float16])
def test_autocast(class_weight, lower):
    *arrays, t, c = draw(50, 24, 77)
    x, w, b = (pf.tensor(a).float().requires_grad_() for a in arrays)
    c = pf.tensor(c).float() if class_weight else None
    kind = DEVICE.split(":")[0]
    with pf.autocast(device_type=kind, dtype=lower):
        loss = F.linear_cross_entropy(
            x, w, pf.tensor(t), linear_bias=b, weight=c, options=in_chunks(16)
        )
        plain = F.cross_entropy(F.linear(x, w, b), pf.tensor(t), c)
    assert loss.dtype == plain.dtype == pf.float32
    assert abs(loss.item() - plain.item()) < 1e-5 * abs(plain.item())
    loss.backward()
    assert x.grad.dtype == w.grad.dtype == b.grad.dtype == pf.float32
    want = reference(*arrays, t, c.double().numpy() if class_weight else None, "mean", 0.0, 1.0)
    for got, expected in zip((x.grad, w.grad, b.grad), want[1:]):
        close(got, expected, 2e-2)


def test_one_chunk_has_the_bits_of_the_two_functions():
    """Where the number of rows that count is a power of two: scaling by it rounds nothing."""
    *arrays, t, _ = draw(32, 24, 77, every=0)
    grads = []
    for fused in (True, False):
        x, w, b = (pf.tensor(a).float().requires_grad_() for a in arrays)
        y = pf.tensor(t)
        if fused:
            loss = F.linear_cross_entropy(x, w, y, linear_bias=b)
        else:
            loss = F.cross_entropy(F.linear(x, w, b), y)
        loss.backward()
        grads.append([loss, x.grad, w.grad, b.grad])
    assert all(pf.equal(a, b) for a, b in zip(*grads))


def test_strided_inputs_and_other_integer_targets():
    *arrays, t, _ = draw(21, 12, 31)
    x, w = pf.tensor(arrays[0].T.copy()).t(), pf.tensor(np.repeat(arrays[1], 2, 0))[::2]
    assert not x.is_contiguous() and not w.is_contiguous()
    x.requires_grad_(), w.requires_grad_()
    target = pf.tensor(np.repeat(t, 2).astype(np.int32))[::2]
    loss = F.linear_cross_entropy(x, w, target, options=in_chunks(4))
    loss.backward()
    want = reference(arrays[0], arrays[1], None, t, None, "mean", 0.0, 1.0)
    for got, expected in zip((loss, x.grad, w.grad), want):
        close(got, expected, 1e-13)


def test_edges():
    w = pf.randn(7, 5, requires_grad=True)
    x = pf.empty(0, 5).requires_grad_()
    none = pf.empty(0, dtype=pf.int64)
    for reduction, value in (("mean", float("nan")), ("sum", 0.0)):
        loss = F.linear_cross_entropy(x, w, none, reduction=reduction)
        assert np.array_equal(loss.item(), value, equal_nan=True)
        loss.backward()
        assert x.grad.shape == (0, 5) and not w.grad.any()
    assert F.linear_cross_entropy(x, w, none, reduction="none").shape == (0,)
    # Nothing counts: no number, and no gradient, as with the two functions.
    x = pf.randn(6, 5, requires_grad=True)
    loss = F.linear_cross_entropy(x, w, pf.full((6,), 3), ignore_index=3, options=in_chunks(4))
    assert np.isnan(loss.item())
    loss.backward()
    assert not x.grad.any() and not w.grad.any()
    # One sample, and a layer without features.
    for reduction in ("mean", "none"):
        loss = F.linear_cross_entropy(x[0], w, pf.tensor(2), reduction=reduction)
        plain = F.cross_entropy(F.linear(x[0], w), pf.tensor(2), reduction=reduction)
        assert loss.shape == () and abs(loss.item() - plain.item()) < 1e-6
    loss = F.linear_cross_entropy(pf.empty(4, 0), pf.empty(3, 0), pf.tensor([0, 1, 2, 0]))
    assert abs(loss.item() - np.log(3)) < 1e-6


def test_large_and_not_finite_logits():
    x = pf.tensor([[1e4, 0.0], [-1e4, 1.0], [0.0, np.inf], [np.nan, 1.0]], dtype=pf.float64)
    w = pf.tensor([[1.0, 1.0], [-1.0, 2.0], [0.5, 0.25]], dtype=pf.float64)
    y = pf.tensor([0, 1, 2, 1])
    got = F.linear_cross_entropy(x, w, y, reduction="none", options=in_chunks(3))
    want = F.cross_entropy(F.linear(x, w), y, reduction="none")
    np.testing.assert_array_equal(got.numpy(), want.numpy())
    assert np.isfinite(got.numpy()[:2]).all() and np.isnan(got.numpy()[2:]).all()


def test_many_rows_of_one_class_do_not_overflow_float16():
    x = pf.full((4096, 8), 20.0, dtype=pf.float16).requires_grad_()
    w = pf.zeros(64, 8, dtype=pf.float16).requires_grad_()
    F.linear_cross_entropy(x, w, pf.full((4096,), 5)).backward()
    want = np.full((64, 8), 20 / 64)
    want[5] -= 20
    close(w.grad, want, 2e-3)


def test_what_is_wanted_is_made_and_may_be_used_again():
    *arrays, t, _ = draw(20, 6, 11)
    want = reference(*arrays, t, None, "mean", 0.0, 1.0)[1:]
    for needs in ([1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [0, 0, 0]):
        leaves = [pf.tensor(a).requires_grad_(bool(n)) for a, n in zip(arrays, needs)]
        x, w, b = leaves
        loss = F.linear_cross_entropy(x, w, pf.tensor(t), linear_bias=b, options=in_chunks(8))
        assert loss.requires_grad == any(needs)
        if not any(needs):
            continue
        (loss * 3).backward(retain_graph=True)
        loss.backward()
        for leaf, need, expected in zip(leaves, needs, want):
            assert (leaf.grad is not None) == bool(need)
            if need:
                close(leaf.grad, 4 * expected, 1e-13)
    with pf.no_grad():
        assert not F.linear_cross_entropy(*(pf.tensor(a).requires_grad_() for a in arrays[:2]),
                                          pf.tensor(t)).requires_grad  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_gradients_of_gradients(reduction):
    *arrays, t, c = draw(6, 3, 5)

    def penalty(fused):
        x, w, b = (pf.tensor(a).requires_grad_() for a in arrays)
        y, class_weight = pf.tensor(t), pf.tensor(c)
        how = {"reduction": reduction, "label_smoothing": 0.1, "weight": class_weight}
        if fused:
            loss = F.linear_cross_entropy(x, w, y, linear_bias=b, options=in_chunks(4), **how)
        else:
            loss = F.cross_entropy(F.linear(x, w, b), y, **how)
        grads = pf.autograd.grad(loss.sum(), (x, w, b), create_graph=True)
        return pf.autograd.grad(sum((g**3).sum() for g in grads), (x, w, b))

    for got, want in zip(penalty(True), penalty(False)):
        close(got, want.numpy(), 1e-12)


def test_under_transforms():
    *arrays, t, _ = draw(12, 4, 9)
    x, w, y = (pf.tensor(a) for a in (*arrays[:2], t))

    def loss(w, x, y):
        return F.linear_cross_entropy(x, w, y, options=in_chunks(5))

    want = reference(*arrays[:2], None, t, None, "mean", 0.0, 1.0)
    close(pf.func.grad(loss)(w, x, y), want[2], 1e-13)
    rows = pf.func.vmap(pf.func.grad(loss), in_dims=(None, 0, 0))(w, x, pf.where(y < 0, 0, y))
    t = np.where(t < 0, 0, t)
    for i in range(12):
        row = reference(arrays[0][i : i + 1], arrays[1], None, t[i : i + 1], None, "mean", 0.0, 1.0)
        close(rows[i], row[2], 1e-12)


def test_memory_holds_some_logits(device):
    n, width, classes = 2048, 16, 4096
    x = pf.randn(n, width, requires_grad=True)
    w = pf.randn(classes, width, requires_grad=True)
    y = pf.randint(0, classes, (n,))

    def peak(step):
        step()  # what kernels keep
        x.grad = w.grad = None
        before = pf.memory.memory_allocated(device)
        pf.memory.reset_peak_memory_stats(device)
        step()
        return pf.memory.max_memory_allocated(device) - before

    logits = n * classes * 4
    fused = peak(lambda: F.linear_cross_entropy(x, w, y, options=in_chunks(256)).backward())
    assert fused < logits / 8 + 6 * (x.nbytes + w.nbytes) + (1 << 20)
    assert peak(lambda: F.cross_entropy(F.linear(x, w), y).backward()) > logits


def test_errors():
    x, w, y = pf.randn(4, 5), pf.randn(7, 5), pf.tensor([0, 1, 2, 3])
    for error, args, how in (
        (pf.ShapeError, (x, pf.randn(7, 6), y), {}),
        (pf.ShapeError, (x, w, y[:3]), {}),
        (pf.ShapeError, (x, w, y), {"linear_bias": pf.randn(6)}),
        (pf.ShapeError, (x, w, y), {"weight": pf.randn(6)}),
        (pf.DTypeError, (x, w.double(), y), {}),
        (pf.DTypeError, (x.int(), w, y), {}),
        (pf.DTypeError, (x, w, y.bool()), {}),
        (pf.ValueError, (x, w, y), {"reduction": "all"}),
        (pf.ValueError, (x, w, y), {"label_smoothing": 1.5}),
        (pf.ValueError, (x, w, y), {"options": in_chunks(0)}),
    ):
        with pytest.raises(error, match="linear_cross_entropy"):
            F.linear_cross_entropy(*args, **how)
    with pytest.raises(IndexError, match="7"):
        F.linear_cross_entropy(x, w, pf.tensor([0, 7, 1, 2]), options=in_chunks(2)).item()
        pf.synchronize()


def test_probabilities_and_losses_of_several_outputs_take_all_logits():
    x, w = pf.randn(4, 5, dtype=pf.float64), pf.randn(3, 5, dtype=pf.float64)
    p = pf.softmax(pf.randn(4, 3, dtype=pf.float64), 1)
    assert pf.equal(F.linear_cross_entropy(x, w, p), F.cross_entropy(F.linear(x, w), p))
    deep, y = pf.randn(3, 2, 5, dtype=pf.float64), pf.randint(0, 3, (4, 2))
    logits = F.linear(x, deep.reshape(6, 5)).reshape(4, 3, 2)
    assert pf.equal(F.linear_cross_entropy(x, deep, y), F.cross_entropy(logits, y))


@pytest.mark.parametrize("kind", ["GPT2", "GPT", "Llama"])
def test_models_train_on_it(kind):
    sizes = {"vocab": 61, "layers": 1, "width": 16, "heads": 2, "context": 8}
    if kind == "Llama":
        sizes["hidden"] = 24
    model = getattr(pf.models, kind)(**sizes).double()
    tokens, targets = (pf.randint(0, 61, (3, 8)) for _ in range(2))
    head = model.head if kind == "GPT" else model.lm_head

    def grads(loss):
        model.zero_grad()
        loss.backward()
        return [loss.detach(), *(p.grad.clone() for p in model.parameters())]

    fused = grads(model(tokens, targets))
    assert "LinearCrossEntropy" in str(model(tokens, targets).grad_fn)
    plain = grads(F.cross_entropy(model(tokens).view(-1, 61), targets.view(-1)))
    for a, b in zip(fused, plain):
        close(a, b.numpy(), 1e-12)
    seen = []
    with contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(head.register_forward_hook(lambda m, i, o: seen.append(o.shape)).remove)
        hooked = grads(model(tokens, targets))
    assert [tuple(s) for s in seen] == [(3, 8, 61)]
    close(hooked[0], fused[0].numpy(), 1e-12)
