"""Losses, distances and other functions that are made of operations, against plain NumPy."""

import numpy as np
import pytest
from finite import check_grad, same

import pyflame as pf
import pyflame.nn.functional as F
from pyflame import nn

RNG = np.random.default_rng(3)
A, B, C = (RNG.standard_normal((6, 4)) for _ in range(3))
SIGN = RNG.choice([-1.0, 1.0], 6)
POSITIVE = RNG.random((6, 4)) + 0.1
T = {}


@pytest.fixture(autouse=True)
def _tensors(_settings):
    """On the device of the suite."""
    T.update({n: pf.tensor(v) for n, v in dict(a=A, b=B, c=C, sign=SIGN, pos=POSITIVE).items()})


def reduced(loss, how):
    return {"none": loss, "mean": loss.mean(), "sum": loss.sum()}[how]


@pytest.mark.parametrize("how", ["none", "mean", "sum"])
def test_losses(how):
    def check(got, want):
        same(got, reduced(want, how), rtol=1e-10, atol=1e-12)

    a, b, c, sign, pos = T.values()
    k = {"reduction": how}
    rate = np.exp(A)
    check(F.poisson_nll_loss(a, pos, **k), rate - POSITIVE * A)
    counts = np.round(POSITIVE * 4)
    stirling = counts * np.log(np.maximum(counts, 1)) - counts
    stirling += 0.5 * np.log(2 * np.pi * np.maximum(counts, 1))
    want = POSITIVE - counts * np.log(POSITIVE + 1e-8) + np.where(counts > 1, stirling, 0)
    check(F.poisson_nll_loss(pos, pf.tensor(counts), log_input=False, full=True, **k), want)
    for var in (POSITIVE, POSITIVE[:, :1], POSITIVE[:, 0]):
        v = var[:, None] if var.ndim == 1 else var
        want = 0.5 * (np.log(v) + (A - B) ** 2 / v) + 0.5 * np.log(2 * np.pi)
        check(F.gaussian_nll_loss(a, b, pf.tensor(var), full=True, **k), want)
    want = np.where(SIGN[:, None] == 1, A, np.maximum(0, 0.5 - A))
    check(F.hinge_embedding_loss(a, sign[:, None], 0.5, **k), want)
    cos = (A * B).sum(1) / np.sqrt((A * A).sum(1) * (B * B).sum(1))
    want = np.where(SIGN == 1, 1 - cos, np.maximum(0, cos - 0.2))
    check(F.cosine_embedding_loss(a, b, sign, 0.2, **k), want)
    want = np.maximum(0, -SIGN * (A[:, 0] - B[:, 0]) + 0.3)
    check(F.margin_ranking_loss(a[:, 0], b[:, 0], sign, 0.3, **k), want)

    def far(x, y, p):
        return (np.abs(x - y + 1e-6) ** p).sum(1) ** (1 / p)

    for p in (1.0, 2.0, 3.0):
        want = np.maximum(0, far(A, B, p) - far(A, C, p) + 0.7)
        check(F.triplet_margin_loss(a, b, c, 0.7, p, **k), want)
    other = np.minimum(far(A, C, 2), far(B, C, 2))
    check(F.triplet_margin_loss(a, b, c, swap=True, **k), np.maximum(0, far(A, B, 2) - other + 1))
    want = np.logaddexp(0, -SIGN[:, None] * A)
    check(F.soft_margin_loss(a, sign[:, None], **k), want)
    y = (B > 0) * 1.0
    want = (POSITIVE[0] * (y * np.logaddexp(0, -A) + (1 - y) * np.logaddexp(0, A))).mean(1)
    check(F.multilabel_soft_margin_loss(a, pf.tensor(y), pos[0], **k), want)
    at = RNG.integers(0, 4, 6)
    right = A[np.arange(6), at][:, None]
    for p in (1, 2):
        each = np.maximum(0, 0.7 - right + A) ** p * POSITIVE[0][at][:, None]
        each[np.arange(6), at] = 0
        check(F.multi_margin_loss(a, pf.tensor(at), p, 0.7, pos[0], **k), each.sum(1) / 4)


@pytest.mark.parametrize("wrong", [-1, 4])
def test_classes_do_not_count_from_the_end(wrong):
    with pytest.raises(IndexError, match="0 to 3"):
        F.multi_margin_loss(T["a"], pf.tensor([0, 1, 2, 3, 0, wrong])).item()


def test_weights_and_old_flags():
    a, b, pos = T["a"], T["b"], T["pos"]
    w = POSITIVE
    same(F.mse_loss(a, b, weight=pos), ((A - B) ** 2 * w).sum() / w.sum(), rtol=1e-12)
    same(F.l1_loss(a, b, weight=pos, reduction="sum"), (np.abs(A - B) * w).sum(), rtol=1e-12)
    d = np.abs(A - B)
    huber = np.where(d <= 0.5, 0.5 * d * d, 0.5 * (d - 0.25)) * w
    same(F.huber_loss(a, b, delta=0.5, weight=pos), huber.mean(), rtol=1e-12)
    square = (A - B) ** 2
    same(F.mse_loss(a, b, size_average=False), square.sum(), rtol=1e-12)
    same(F.mse_loss(a, b, reduce=False), square, rtol=1e-12)
    same(F.mse_loss(a, b, size_average=True, reduce=True), square.mean(), rtol=1e-12)
    with pytest.raises(ValueError, match="reduction"):
        F.margin_ranking_loss(a, b, T["sign"][:, None], reduction="median")


@pytest.mark.parametrize(
    "fn",
    [
        lambda a, b: F.cosine_similarity(a, b),
        lambda a, b: F.cosine_embedding_loss(a, b, T["sign"][:3]),
        lambda a, b: F.gaussian_nll_loss(a, a * 0.5, b * b + 0.1),
        lambda a, b: F.poisson_nll_loss(a, b * b, full=True),
        lambda a, b: F.multi_margin_loss(a * b, pf.tensor([0, 2, 1]), 2),
        lambda a, b: F.soft_margin_loss(a, T["sign"][:3, None]),
        lambda a, b: F.normalize(a * b, dim=0),
        lambda a, b: F.glu(a, 1) * F.glu(b, -1),
        lambda a, b: pf.cdist(a, b),
        lambda a, b: F.pdist(a, 3.0) + pf.dist(a, b),
    ],
)
def test_gradients(fn):
    check_grad(fn, A[:3], B[:3], tol=1e-5)


def test_distances():
    a, b = T["a"], T["b"]
    for p in (0.0, 1.0, 2.0, 3.0, float("inf")):
        each = A[:, None] - B[None, :3]
        same(pf.cdist(a, b[:3], p), np.linalg.norm(each, p, axis=-1), rtol=1e-12)
        rows = [np.linalg.norm(A[i] - A[j], p) for i in range(6) for j in range(i + 1, 6)]
        same(F.pdist(a, p), rows, rtol=1e-12)
        same(pf.dist(a, b, p), np.linalg.norm((A - B).ravel(), p), rtol=1e-12)
    same(pf.cdist(pf.zeros(2, 0, 3), pf.zeros(2, 4, 3)), np.zeros((2, 0, 4), np.float32))
    assert F.pdist(pf.zeros(1, 3)).shape == (0,)
    zero = pf.zeros(2, 3, requires_grad=True)
    (F.cosine_similarity(zero, pf.ones(2, 3)).sum() + F.normalize(zero).sum()).backward()
    assert zero.grad.isfinite().all().item()
    with pytest.raises(pf.ShapeError, match="expected"):
        pf.cdist(a, pf.ones(2, 3, dtype=pf.float64))


def test_gumbel_softmax():
    logits = pf.tensor([1.0, 0.0, -1.0]).expand(20000, 3)
    soft = F.gumbel_softmax(logits, tau=0.7)
    same(soft.sum(-1), np.ones(20000), rtol=1e-5)
    hard = F.gumbel_softmax(logits, hard=True)
    values = hard.cpu().numpy()
    assert np.isin(np.round(values, 5), [0, 1]).all() and np.allclose(values.sum(-1), 1)
    want = np.exp([1, 0, -1]) / np.exp([1, 0, -1]).sum()
    np.testing.assert_allclose(values.mean(0), want, atol=0.02)
    x = pf.zeros(4, 3, requires_grad=True)
    (F.gumbel_softmax(x, hard=True) * pf.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.abs().sum().item() > 0
    with pytest.raises(ValueError, match="tau"):
        F.gumbel_softmax(x, tau=0)


def test_sequences_and_powers():
    from pyflame.nn.utils.rnn import pad_sequence, unpad_sequence

    parts = [pf.tensor(A[:3]), pf.tensor(B[:1]), pf.tensor(C[:2])]
    padded = pad_sequence(parts, padding_value=-1.0)
    assert padded.shape == (3, 3, 4)
    same(padded[:, 1], np.concatenate([B[:1], -np.ones((2, 4))]))
    left = pad_sequence(parts, batch_first=True, padding_side="left")
    same(left[2], np.concatenate([np.zeros((1, 4)), C[:2]]))
    for got, part in zip(unpad_sequence(padded, [3, 1, 2]), parts):
        same(got, part)
    check_grad(lambda x, y: pad_sequence([x, y]), A[:3], B[:1])
    x = np.array([1.0, 2.0, 3.5])
    same(pf.vander(pf.tensor(x)), np.vander(x), rtol=1e-12)
    same(pf.vander(pf.tensor(x), N=2, increasing=True), np.vander(x, 2, True), rtol=1e-12)
    same(pf.ldexp(pf.tensor(x), pf.tensor([2, -1, 0])), [4.0, 1.0, 3.5])
    one = pf.tensor(1, dtype=pf.int32).sum_to_size(())
    assert one.dtype == pf.int64 and one.tolist() == 1
    same(pf.tensor(A).sum_to_size(1, 4), A.sum(0, keepdims=True), rtol=1e-12)
    with pytest.raises(pf.ShapeError):
        pf.tensor(A).sum_to_size(5, 4)
    assert pf.is_nonzero(pf.tensor([2])) and not pf.tensor(0.0).is_nonzero()
    assert T["a"].is_same_size(T["b"]) and not T["a"].is_same_size(T["sign"])
    assert [len(p) for p in pf.arange(5).split_with_sizes([2, 3])] == [2, 3]
    assert pf.broadcast_shapes((2, 1), (3,), 1) == (2, 3) and pf.broadcast_shapes() == ()
    with pytest.raises(pf.ShapeError):
        pf.broadcast_shapes((2,), (3,))
    assert T["a"].H.shape == (4, 6) and T["a"].mH.shape == (4, 6)


def test_layers():
    x = pf.ones(2, 3, 4)
    assert nn.ZeroPad1d(1)(x).shape == (2, 3, 6)
    assert nn.ConstantPad2d((1, 0, 2, 0), 7.0)(x)[0, 0, 0].item() == 7
    assert nn.ReflectionPad1d((1, 2))(x).shape == (2, 3, 7)
    assert nn.CircularPad2d(1)(x[None]).shape == (1, 2, 5, 6)
    assert repr(nn.ReplicationPad2d(1)) == "ReplicationPad2d((1, 1, 1, 1))"
    with pytest.raises(ValueError, match="ZeroPad2d"):
        nn.ZeroPad2d((1, 2))
    drop = nn.Dropout2d(0.5)
    y = drop(pf.ones(8, 16, 3, 3))
    per_channel = y.flatten(2)
    assert ((per_channel == 0).all(-1) | (per_channel == 2).all(-1)).all().item()
    assert 0 < (y == 0).float().mean().item() < 1
    assert drop.eval()(x) is x
    a, b = T["a"], T["b"]
    loss = nn.SoftMarginLoss(reduction="sum")(a, T["sign"][:, None])
    same(loss, np.logaddexp(0, -SIGN[:, None] * A).sum(), rtol=1e-12)
    assert nn.MultiMarginLoss(p=2)(a, pf.zeros(6, dtype=pf.int64)).shape == ()
    assert nn.MultiLabelSoftMarginLoss()(a, (b > 0).double()).shape == ()


def test_start_values():
    w = nn.init.sparse_(pf.empty(10, 4), 0.25)
    assert ((w == 0).sum(0) == 3).all().item()
    w = nn.init.dirac_(pf.empty(4, 2, 3, 3), groups=2)
    want = np.zeros((4, 2, 3, 3))
    for g in range(2):
        for i in range(2):
            want[2 * g + i, i, 1, 1] = 1
    same(w, want.astype(np.float32))
    with pytest.raises(ValueError):
        nn.init.dirac_(pf.empty(3, 2, 3), groups=2)
