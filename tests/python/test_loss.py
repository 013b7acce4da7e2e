"""Losses against NumPy in float64."""

import numpy as np
import pytest
from rows_helpers import FLOATS, check, gradcheck, in_layout, values_of

import pyflame as pf
import pyflame.nn.functional as F

pytestmark = pytest.mark.kernels(0.8)

RNG = np.random.default_rng(4)


def log_softmax(a, axis=-1):
    a = a - a.max(axis, keepdims=True)
    return a - np.log(np.exp(a).sum(axis, keepdims=True))


def cross_entropy(x, t, w=None, ignore=-100, reduction="mean", smoothing=0.0):
    """x (N, C), t (N)."""
    n, c = x.shape
    w = np.ones(c) if w is None else w
    lp = log_softmax(x)
    keep = t != ignore
    safe = np.where(keep, t, 0)
    wt = w[safe] * keep
    nll = -lp[np.arange(n), safe] * wt
    smooth = -(lp * w).sum(1) * keep
    loss = (1 - smoothing) * nll + smoothing / c * smooth
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / wt.sum()


@pytest.mark.parametrize("classes", [1, 2, 10, 17, 256, 5000])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(classes, weighted, smoothing):
    n = 6
    for dtype in FLOATS:
        x = pf.tensor(RNG.standard_normal((n, classes)) * 2).to(dtype)
        t = RNG.integers(0, classes, n)
        t[2] = -100
        w = pf.tensor(RNG.random(classes) + 0.1).to(dtype) if weighted else None
        for reduction in ("none", "mean", "sum"):
            kw = dict(reduction=reduction, label_smoothing=smoothing)
            got = F.cross_entropy(x, pf.tensor(t), w, **kw)
            want = cross_entropy(
                values_of(x), t, values_of(w) if weighted else None, -100, reduction, smoothing
            )
            assert got.dtype == dtype
            check(got, want, dtype, 4)


def test_cross_entropy_equals_nll_of_log_softmax():
    x = pf.tensor(RNG.standard_normal((8, 5)), dtype=pf.float64)
    t = pf.tensor(RNG.integers(0, 5, 8))
    a, b = F.cross_entropy(x, t), F.nll_loss(x.log_softmax(1), t)
    np.testing.assert_allclose(a.item(), b.item(), rtol=1e-13)
    assert pf.cross_entropy(x, t).item() == a.item()


@pytest.mark.parametrize("dtype", [pf.int64, pf.int32, pf.int16, pf.int8, pf.uint8], ids=str)
def test_target_types(dtype):
    x = RNG.standard_normal((4, 3))
    t = np.array([0, 2, 1, 2])
    got = F.cross_entropy(pf.tensor(x, dtype=pf.float64), pf.tensor(t).to(dtype))
    check(got, cross_entropy(x, t), pf.float64)


def test_shapes():
    x = RNG.standard_normal((2, 5, 3, 4))
    t = RNG.integers(0, 5, (2, 3, 4))
    rows = np.moveaxis(x, 1, -1).reshape(-1, 5)
    for layout in ("plain", "transposed", "sliced"):
        xt = in_layout(x, layout, pf.float64)
        tt = in_layout(t, layout)
        check(F.cross_entropy(xt, tt), cross_entropy(rows, t.ravel()), pf.float64)
        each = cross_entropy(rows, t.ravel(), reduction="none").reshape(t.shape)
        check(F.cross_entropy(xt, tt, reduction="none"), each, pf.float64)
        check(F.nll_loss(xt.log_softmax(1), tt, reduction="none"), each, pf.float64)
    one = F.cross_entropy(pf.tensor(x[0, :, 0, 0], dtype=pf.float64), pf.tensor(3))
    check(one, cross_entropy(x[:1, :, 0, 0], np.array([3])), pf.float64)
    assert F.cross_entropy(pf.zeros(0, 5), pf.zeros(0, dtype=pf.int64), reduction="sum").item() == 0
    assert np.isnan(F.cross_entropy(pf.zeros(0, 5), pf.zeros(0, dtype=pf.int64)).item())


@pytest.mark.races
def test_probabilities():
    x = RNG.standard_normal((4, 5))
    p = np.exp(log_softmax(RNG.standard_normal((4, 5))))
    w = RNG.random(5)
    for smoothing in (0.0, 0.2):
        q = p * (1 - smoothing) + smoothing / 5
        each = -(log_softmax(x) * q * w).sum(1)
        args = [pf.tensor(v, dtype=pf.float64) for v in (x, p, w)]
        kw = dict(label_smoothing=smoothing)
        check(F.cross_entropy(*args, reduction="none", **kw), each, pf.float64)
        check(F.cross_entropy(*args, **kw), each.sum() / 4, pf.float64)
        check(F.cross_entropy(*args, reduction="sum", **kw), each.sum(), pf.float64)


def test_special_values():
    inf, nan = np.inf, np.nan
    x = np.array([[1e4, -1e4, 0], [0, -inf, 1], [nan, 0, 0], [-inf, -inf, -inf], [3, 2, 1]])
    for tile in (1, 2000):
        t = pf.tensor(np.tile(x, (1, tile)).astype(np.float32))
        got = F.cross_entropy(t, pf.tensor([0, 1, 0, 0, 0]), reduction="none").numpy()
        assert abs(got[0] - np.log(tile)) < 1e-5
        assert got[1] == inf and np.isnan(got[2]) and np.isnan(got[3])
    got = F.cross_entropy(pf.tensor(x), pf.tensor([1, -100, -100, -100, 2]), reduction="none")
    np.testing.assert_allclose(got.numpy()[:4], [2e4, 0, 0, 0])
    x = pf.tensor(x.astype(np.float32), requires_grad=True)
    (g,) = pf.autograd.grad(F.cross_entropy(x, pf.tensor([1, 0, -100, -100, 2])), [x])
    g = g.numpy()
    np.testing.assert_allclose(g[0], [1 / 3, -1 / 3, 0], atol=1e-7)
    np.testing.assert_array_equal(g[2:4], 0)
    all_ignored = F.cross_entropy(pf.zeros(2, 3), pf.tensor([-100, -100]))
    assert np.isnan(all_ignored.item())


def test_bad_targets():
    x = pf.zeros(3, 5)
    for bad in (5, -1, 100):
        with pytest.raises(pf.IndexError, match=r"pf.cross_entropy.*\b5\b"):
            F.cross_entropy(x, pf.tensor([0, bad, 1])).item()
    with pytest.raises(pf.ShapeError, match="pf.cross_entropy"):
        F.cross_entropy(x, pf.tensor([0, 1]))
    with pytest.raises(pf.ShapeError, match="int64"):
        F.cross_entropy(x, pf.zeros(3))
    with pytest.raises(pf.PyFlameError, match="reduction"):
        F.cross_entropy(x, pf.tensor([0, 1, 2]), reduction="avg")
    with pytest.raises(pf.ShapeError, match="weight"):
        F.cross_entropy(x, pf.tensor([0, 1, 2]), pf.ones(4))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy_gradients(reduction):
    x = RNG.standard_normal((4, 6))
    t = pf.tensor([0, 5, -100, 3])
    w = pf.tensor(RNG.random(6) + 0.1, dtype=pf.float64)
    gradcheck(lambda x: F.cross_entropy(x, t, reduction=reduction), x)
    gradcheck(lambda x: F.cross_entropy(x, t, w, reduction=reduction, label_smoothing=0.2), x)
    gradcheck(lambda x: F.cross_entropy(x * 20, t, reduction=reduction), x, tol=1e-6)
    gradcheck(lambda x: F.nll_loss(x, t, w, reduction=reduction), x)
    x = RNG.standard_normal((2, 3, 2))
    t = pf.tensor([[0, 2], [1, 1]])
    gradcheck(lambda x: F.cross_entropy(x, t, reduction=reduction), x)
    p = np.exp(log_softmax(RNG.standard_normal((2, 3, 2)), 1))
    gradcheck(lambda x, p: F.cross_entropy(x, p, reduction=reduction), x, p)


@pytest.mark.races("100", "4100")
@pytest.mark.parametrize("classes", [3, 16, 100, 4100])
def test_backward_kernel(classes):
    x, t = RNG.standard_normal((7, classes)), RNG.integers(0, classes, 7)
    t[0], t[1] = 0, classes - 1
    p = np.exp(log_softmax(x))
    p[np.arange(7), t] -= 1
    for dtype in FLOATS:
        leaf = pf.tensor(x, dtype=dtype, requires_grad=True)
        (g,) = pf.autograd.grad(F.cross_entropy(leaf, pf.tensor(t)), [leaf])
        check(g, p / 7, dtype, 2)


PAIR_LOSSES = {
    "mse_loss": lambda x, y: (x - y) ** 2,
    "l1_loss": lambda x, y: np.abs(x - y),
    "smooth_l1_loss": lambda x, y: np.where(
        np.abs(x - y) < 1, 0.5 * (x - y) ** 2, np.abs(x - y) - 0.5
    ),
    "huber_loss": lambda x, y: np.where(
        np.abs(x - y) <= 1, 0.5 * (x - y) ** 2, np.abs(x - y) - 0.5
    ),
    "binary_cross_entropy_with_logits": lambda x, y: np.logaddexp(0, x) - x * y,
    "kl_div": lambda x, y: y * (np.log(y) - x),
}


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_pair_losses(name):
    fn = getattr(F, name)
    for shape in [(), (5,), (3, 4), (0, 2)]:
        x, y = RNG.standard_normal(shape) * 2, RNG.random(shape) * 0.9 + 0.05
        tx, ty = pf.tensor(x, dtype=pf.float64), pf.tensor(y, dtype=pf.float64)
        want = PAIR_LOSSES[name](x, y)
        check(fn(tx, ty, reduction="none"), want, pf.float64)
        check(fn(tx, ty, reduction="sum"), want.sum(), pf.float64)
        with np.errstate(all="ignore"):
            check(fn(tx, ty), want.mean() if want.size else np.nan, pf.float64)
    x, y = RNG.standard_normal((3, 4)) * 2, RNG.random((3, 4)) * 0.9 + 0.05
    for reduction in ("none", "mean", "sum"):
        gradcheck(lambda x, y, r=reduction: fn(x, y, reduction=r), x, y, second=False)
    gradcheck(lambda x, y: fn(x, y), x, y, second=name not in ("l1_loss", "kl_div"))


@pytest.mark.parametrize("delta", [0.25, 1.0, 3.0])
def test_huber_at_its_corner_and_beyond(delta):
    d = np.array([0.0, delta, -delta, 2 * delta, -9 * delta, delta / 2, np.inf, -np.inf, np.nan])
    a = np.abs(d)
    want = np.where(a <= delta, 0.5 * d**2, delta * (a - 0.5 * delta))
    pairs = [(lambda x: F.huber_loss(x, pf.zeros(9, dtype=x.dtype), "none", delta), want)]
    if delta == 1:
        pairs.append(
            (lambda x: F.smooth_l1_loss(x, pf.zeros(9, dtype=x.dtype), reduction="none"), want)
        )
    for loss, w in pairs:
        x = pf.tensor(d, requires_grad=True)
        y = loss(x)
        check(y, w, pf.float64)
        y[:6].sum().backward()
        check(x.grad[:6], np.clip(d, -delta, delta)[:6], pf.float64)
    assert F.huber_loss(pf.tensor([3, 0]), pf.tensor([0, 0]), "none", delta).dtype == pf.float32


def test_nll_loss_of_ignored_rows():
    x = np.array([[-1.0, -2.0], [-np.inf, np.nan], [-3.0, -4.0]])
    t = pf.tensor([1, -100, 0])
    for reduction, want in (("none", [2.0, 0.0, 3.0]), ("sum", 5.0), ("mean", 2.5)):
        given = pf.tensor(x, requires_grad=True)
        y = F.nll_loss(given, t, reduction=reduction)
        check(y, np.array(want), pf.float64)
        y.sum().backward()
        rows = np.array([[0, -1.0], [0, 0], [-1.0, 0]])
        check(given.grad, rows / 2 if reduction == "mean" else rows, pf.float64)
    assert np.isnan(F.nll_loss(pf.tensor(x[:1]), pf.tensor([-100])).item())
    padding = pf.zeros(2, 3, requires_grad=True)
    F.nll_loss(F.log_softmax(padding, 1), pf.tensor([-100, -100])).backward()
    assert (padding.grad == 0).all()
    many = pf.zeros(70000, 1, dtype=pf.float16, requires_grad=True)
    F.nll_loss(many, pf.zeros(70000, dtype=pf.int64)).backward(pf.tensor(64.0).half())
    np.testing.assert_allclose(many.grad.float().cpu().numpy(), -64 / 70000, rtol=1e-3)


def test_known_values():
    assert F.mse_loss(
        pf.tensor([1.0, 2.0, 3.0]), pf.tensor([1.0, 2.0, 5.0])
    ).item() == pytest.approx(4 / 3)
    half = F.binary_cross_entropy(pf.tensor([0.5]), pf.tensor([1.0])).item()
    assert half == pytest.approx(0.6931, abs=1e-4)
    got = F.binary_cross_entropy(
        pf.tensor([0.0, 1.0, 0.0, 1.0]), pf.tensor([0.0, 1.0, 1.0, 0.0]), reduction="none"
    )
    np.testing.assert_array_equal(got.numpy(), [0, 0, 100, 100])
    x = pf.tensor([0.0, 1.0, 0.3], requires_grad=True)
    (g,) = pf.autograd.grad(F.binary_cross_entropy(x, pf.tensor([1.0, 0.0, 1.0])), [x])
    assert np.isfinite(g.numpy()).all()
    big = F.binary_cross_entropy_with_logits(
        pf.tensor([1e4, -1e4]), pf.tensor([0.0, 1.0]), reduction="none"
    )
    np.testing.assert_array_equal(big.numpy(), [1e4, 1e4])


@pytest.mark.parametrize("dtype", [pf.float32, pf.float64])
def test_a_binary_loss_of_logits_is_one_program_and_exact_in_both_tails(dtype):
    x = np.array([-90, -20, -5, -0.1, 0, 3, 20, 80], np.float64)
    for share in (0.0, 0.3, 1.0):
        t = pf.tensor(x, dtype=dtype, requires_grad=True)
        pf.synchronize()
        before = pf.debug.stats()
        loss = F.binary_cross_entropy_with_logits(t, pf.full_like(t, share), reduction="sum")
        loss.backward()
        pf.synchronize()
        after = pf.debug.stats()
        assert after["groups"] - before["groups"] <= 3  # the shares; loss and sum; gradient
        p, q = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(x))
        np.testing.assert_allclose(
            t.grad.cpu().numpy(),
            (1 - share) * p - share * q,
            rtol=1e-6 if dtype == pf.float32 else 1e-14,
        )


@pytest.mark.parametrize(
    "loss",
    [
        *(F.kl_div, F.poisson_nll_loss, F.binary_cross_entropy_with_logits, F.huber_loss),
        *(F.mse_loss, F.hinge_embedding_loss, lambda x, y, **k: F.gaussian_nll_loss(x, y, y, **k)),
    ],
)
def test_what_a_loss_makes_of_elements_is_one_group_with_its_sum(loss):
    x, y = pf.rand(400, 500) + 0.1, pf.rand(400, 500) + 0.1
    pf.synchronize()
    before = pf.debug.stats()
    value = loss(x, y, reduction="sum")
    pf.synchronize()
    assert pf.debug.stats()["groups"] - before["groups"] == 1 and value.shape == ()


@pytest.mark.parametrize("dtype", [pf.float32, pf.float64, pf.bfloat16])
@pytest.mark.parametrize("kind", [pf.float64, pf.int8, pf.float16])
def test_a_hinge_has_the_dtype_of_its_input_and_sums_what_no_target_names(dtype, kind):
    x = np.array([-2, -0.5, 0, 0.5, 1, 3], np.float64)
    for target, far, own in ((1, 0, 1), (-1, 1, 0), (0, 1, 1), (2, 1, 1)):
        t = pf.tensor(x, dtype=dtype, requires_grad=True)
        y = F.hinge_embedding_loss(t, pf.full((6,), target, dtype=kind), reduction="none")
        assert y.dtype == dtype
        assert y.tolist() == (far * np.maximum(1 - x, 0) + own * x).tolist()
        y.sum().backward()
        assert t.grad.tolist() == (own - far * (x <= 1)).tolist()


def test_a_hinge_knows_a_target_beside_1_in_a_wider_dtype():
    x = pf.tensor([3.0])
    near = pf.tensor([1 - 1e-12], dtype=pf.float64, requires_grad=True)
    y = F.hinge_embedding_loss(x, near, 4.0)
    assert y.dtype == pf.float32 and y.item() == 4.0  # the input and what it lacks
    assert not y.requires_grad
    assert F.hinge_embedding_loss(pf.tensor([3]), pf.tensor([-1]), 4.0).item() == 1.0


def test_a_variance_below_eps_counts_as_eps_and_has_its_gradient():
    x, y = pf.tensor([0.5, 1.0]), pf.tensor([0.25, 1.0])
    var = pf.tensor([0.0, 0.125], requires_grad=True)
    loss = F.gaussian_nll_loss(x, y, var, eps=0.25, reduction="none")
    np.testing.assert_allclose(loss.tolist(), 0.5 * (np.log(0.25) + np.array([0.25, 0])), rtol=1e-6)
    (g,) = pf.autograd.grad(loss.sum(), var, create_graph=True)
    np.testing.assert_allclose(g.tolist(), [0.5 * (4 - 1), 2], rtol=1e-6)
    (second,) = pf.autograd.grad(g.sum(), var)
    np.testing.assert_allclose(second.tolist(), [0.5 * (8 - 16), -8], rtol=1e-6)


def test_weights_of_binary_losses():
    x, y = RNG.random((3, 4)) * 0.9 + 0.05, RNG.random((3, 4))
    w, pw = RNG.random(4), RNG.random(4) + 0.5
    t = [pf.tensor(v, dtype=pf.float64) for v in (x, y, w, pw)]
    bce = -(y * np.log(x) + (1 - y) * np.log(1 - x)) * w
    check(F.binary_cross_entropy(t[0], t[1], t[2], reduction="none"), bce, pf.float64)
    logits = (1 - y) * x + (1 + (pw - 1) * y) * np.log1p(np.exp(-x))
    got = F.binary_cross_entropy_with_logits(t[0], t[1], pos_weight=t[3], reduction="none")
    check(got, logits, pf.float64)
    gradcheck(lambda x, y: F.binary_cross_entropy(x, y, t[2]), x, y, second=False)
    gradcheck(
        lambda x, y: F.binary_cross_entropy_with_logits(x, y, t[2], pos_weight=t[3]), x, y,
        second=False,
    )  # fmt: skip
    zero = np.zeros(3)
    gradcheck(
        lambda x: F.binary_cross_entropy_with_logits(
            x, pf.tensor([0.0, 0.3, 1.0], dtype=pf.float64)
        ),
        zero,
    )


def test_kl_div_variants():
    x, y = log_softmax(RNG.standard_normal((4, 5))), log_softmax(RNG.standard_normal((4, 5)))
    tx, ty = pf.tensor(x, dtype=pf.float64), pf.tensor(y, dtype=pf.float64)
    want = np.exp(y) * (y - x)
    check(F.kl_div(tx, ty, reduction="batchmean", log_target=True), want.sum() / 4, pf.float64)
    zero = F.kl_div(tx, pf.zeros(4, 5, dtype=pf.float64), reduction="sum")
    assert zero.item() == 0


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
@pytest.mark.parametrize("target", [5, -1, -5])
@pytest.mark.parametrize("weight", [None, 1.0])
def test_a_wrong_target_names_the_loss_and_what_is_valid(loss, target, weight):
    x = pf.zeros(2, 5)
    weight = None if weight is None else pf.full((5,), weight)
    expected = (
        rf"pf\.{loss.__name__}: got the target {target} for 5 classes; expected 0 to 4, "
        "or ignore_index"
    )
    with pytest.raises(pf.IndexError, match=expected):
        loss(x, pf.tensor([1, target]), weight=weight)
        pf.synchronize()
    assert loss(x, pf.tensor([1, target]), weight=weight, ignore_index=target).shape == ()


def test_indices_that_do_not_count_from_the_end_say_so():
    with pytest.raises(pf.IndexError, match="embedding.*valid indices are 0 to 2"):
        F.embedding(pf.tensor([-1]), pf.zeros(3, 2))
        pf.synchronize()
    with pytest.raises(pf.IndexError, match="one_hot.*valid indices are 0 to 2"):
        F.one_hot(pf.tensor([3]), 3)
        pf.synchronize()
    with pytest.raises(pf.IndexError, match="multi_margin_loss.*valid indices are 0 to 2"):
        F.multi_margin_loss(pf.zeros(2, 3), pf.tensor([0, -1]))
        pf.synchronize()


def test_indices_that_count_from_the_end_say_so():
    x, at = pf.zeros(3, 2), pf.tensor([[3, 0]])
    for name, call in (
        ("gather", lambda: pf.gather(x, 0, at)),
        ("index", lambda: x[at[0]]),
        ("index_select", lambda: pf.index_select(x, 0, at[0])),
        ("scatter", lambda: pf.scatter(x, 0, at, pf.ones(1, 2))),
        ("index_put", lambda: pf.index_put(x, (at[0],), pf.ones(2, 2))),
    ):
        with pytest.raises(pf.IndexError, match=f"{name}_?: index 3 .*valid indices are -3 to 2"):
            call()
            pf.synchronize()


def merged_kernels(run, *args, **options):
    """What `run` returns, and how often a backward kernel ran with the one before it."""
    before = pf.debug.stats()["merged"]
    result = run(*args, **options)
    pf.synchronize()
    return result, pf.debug.stats()["merged"] - before


def loss_and_gradient(x, t, finish=lambda loss: loss, **options):
    x = x.detach().requires_grad_()
    loss = F.cross_entropy(x, t, **options)
    last = finish(loss)
    last.backward(pf.ones_like(last) * 0.5 if last.dim() else None)
    return loss.detach(), x.grad


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_and_its_gradient_in_one(device, reduction, smoothing, weighted):
    # The logits are read once for both; the bits are those of two kernels.
    for classes, dtype in (
        (3, pf.float32),
        (130, pf.float64),
        (2111, pf.float16),
        (4096, pf.bfloat16),
        (16400, pf.bfloat16),  # rows that stay in shared memory
        (8193, pf.float16),
    ):
        x = pf.tensor(RNG.standard_normal((9, classes)) * 3).to(dtype)
        t = pf.tensor(RNG.integers(0, classes, 9))
        t[4] = -100
        w = pf.rand(classes, dtype=dtype) + 0.1 if weighted else None
        options = {"weight": w, "reduction": reduction, "label_smoothing": smoothing}
        one, merged = merged_kernels(loss_and_gradient, x, t, **options)
        with pf.debug.eager():
            two, apart = merged_kernels(loss_and_gradient, x, t, **options)
        assert merged == 1 and apart == 0
        for a, b in zip(one, two, strict=True):
            assert np.array_equal(a.float().numpy(), b.float().numpy(), equal_nan=True)


def test_many_rows_are_one_kernel_too(device):
    """Their statistics are beyond what unrelated results may be together."""
    x, t = pf.randn(40_000, 3), pf.randint(0, 3, (40_000,))
    (loss, grad), merged = merged_kernels(loss_and_gradient, x, t)
    assert merged == 1
    with pf.debug.eager():
        want = loss_and_gradient(x, t)
    assert loss.item() == want[0].item() and pf.equal(grad, want[1])


def test_what_joins_cross_entropy_with_its_gradient(device):
    x, t = pf.randn(5, 70), pf.randint(0, 70, (5,))
    scale = pf.tensor(8.0)
    seen = []
    cases = [
        (lambda loss: loss / 4, 1),  # a number known before
        (lambda loss: loss * scale, 1),  # a scale of the kind of GradScaler's
        (lambda loss: loss * loss, 0),  # the gradient depends on the loss
        (lambda loss: seen.append(loss.item()) or loss, 0),  # the loss was wanted first
    ]
    for finish, expected in cases:
        (loss, grad), merged = merged_kernels(loss_and_gradient, x, t, finish)
        with pf.debug.eager():
            loss_apart, grad_apart = loss_and_gradient(x, t, finish)
        assert merged == expected
        assert np.array_equal(loss.numpy(), loss_apart.numpy())
        assert np.array_equal(grad.numpy(), grad_apart.numpy())


def test_logits_written_over_after_cross_entropy_and_its_gradient():
    x = pf.randn(4, 33)
    t = pf.randint(0, 33, (4,))
    leaf = x.clone().requires_grad_()
    loss = F.cross_entropy(leaf * 1.0, t)
    loss.backward()
    with pf.no_grad():
        leaf.mul_(0.0)
    expected = loss_and_gradient(x, t)
    assert np.array_equal(loss.detach().numpy(), expected[0].numpy())
    assert np.array_equal(leaf.grad.numpy(), expected[1].numpy())
    # Changed in between, the backward pass refuses.
    y = x.clone().requires_grad_() * 1.0
    loss = F.cross_entropy(y, t)
    with pf.no_grad():
        y.mul_(0.0)
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


def test_a_wrong_target_is_told_of_when_both_run_in_one():
    x = pf.randn(4, 33).requires_grad_()
    with pytest.raises(IndexError, match="33"):
        F.cross_entropy(x, pf.tensor([0, 1, 33, 2])).backward()
        pf.synchronize()


@pytest.mark.parametrize(
    "name",
    [
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "kl_div",
        "multilabel_soft_margin_loss",
    ],
)
def test_a_target_of_bools_is_0_and_1(name):
    x = pf.tensor([[0.2, 1.5], [-0.3, 0.7]])
    mask = pf.tensor([[True, False], [True, True]])
    got, want = (getattr(F, name)(x, y).item() for y in (mask, mask.float()))
    assert got == want


def test_a_gaussian_target_of_bools():
    x, mask = pf.tensor([0.2, 1.5]), pf.tensor([True, False])
    assert F.gaussian_nll_loss(x, mask, x).item() == F.gaussian_nll_loss(x, mask.float(), x).item()
    y = pf.tensor([2.0, 4.0])
    assert pf.trapezoid(y, x=pf.tensor([False, True])).item() == 3.0


def test_ends_of_pair_losses():
    x, y = pf.tensor([[0.5, 3.0]], requires_grad=True), pf.tensor([[1.0, 1.0]])
    F.huber_loss(x, y, reduction="sum", delta=float("inf")).backward()
    assert x.grad.tolist() == [[-0.5, 2.0]]
    var = pf.tensor([[0.5, 2.0]])
    wide = [t.expand(3, 2) for t in (x.detach(), y, var)]
    assert F.gaussian_nll_loss(*wide[:2], var).item() == F.gaussian_nll_loss(*wide).item()


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_targets_that_are_broadcast_warn(name, recwarn):
    """[n, 1] against [n] compares each with each: PyTorch's most useful warning."""
    loss = getattr(pf.nn.functional, name)
    x, y = pf.ones(4, 1), pf.zeros(4)
    loss(x, x)
    loss(pf.ones(()), pf.zeros(()))
    assert not recwarn.list
    with pytest.warns(
        UserWarning, match=r"target of shape \[4\] for input of shape \[4, 1\]"
    ) as found:
        wide = loss(x, y, reduction="none")
    assert found[0].filename == __file__ and wide.shape == (4, 4)


def test_binary_cross_entropy_has_slopes_by_its_target():
    """log(1 - x) - log(x): infinite at 0 and 1, where the loss itself is bounded."""
    for x in (0.0, 1.0, 0.25, 1e-30):
        for target in (0.0, 1.0, 0.3):
            t = pf.tensor([target], dtype=pf.float64, requires_grad=True)
            F.binary_cross_entropy(pf.tensor([x], dtype=pf.float64), t).backward()
            with np.errstate(divide="ignore"):
                np.testing.assert_allclose(t.grad.item(), np.log1p(-x) - np.log(x), rtol=1e-12)
