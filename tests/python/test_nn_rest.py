"""Layers that few programs have: embeddings in bags, CTC, many classes, transformers, and what is
drawn by chance. Beside PyTorch, where it is installed, and beside loops over elements."""

import copy
import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pyflame as pf
from pyflame import nn
from pyflame.nn import functional as F

RNG = np.random.default_rng(11)


def both(torch, run, *arrays, rtol=1e-9):
    """run(module, tensors) under both packages: results and gradients of the float arrays agree."""
    found = []
    for t in (pf, torch):
        xs = [t.tensor(a) for a in arrays]
        for x in xs:
            x.requires_grad_(x.is_floating_point())
        results = run(t, *xs)
        results = results if isinstance(results, (tuple, list)) else [results]
        sum((r * r).sum() for r in results if r.is_floating_point() and r.requires_grad).backward()
        found.append(
            [r.detach().numpy() for r in results]
            + [x.grad.numpy() for x in xs if x.grad is not None]
        )
    assert len(found[0]) == len(found[1])
    for a, b in zip(*found):
        assert_allclose(a, b, rtol=rtol, atol=rtol)


def same_state(torch, ours, theirs):
    """Gives `ours` the parameters of a PyTorch module."""
    state = {k: pf.tensor(v.numpy()) for k, v in theirs.state_dict().items()}
    ours.load_state_dict(state)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    return ours


# ---- embeddings -----------------------------------------------------------------------------------


def bag(table, indices, mode, weights=None, padding=None):
    """One bag by its definition."""
    rows = [(i, 1.0 if weights is None else weights[k]) for k, i in enumerate(indices)]
    rows = [table[i] * w for i, w in rows if i != padding]
    if not rows:
        return np.zeros(table.shape[1])
    return {"sum": np.sum, "mean": np.mean, "max": np.max}[mode](rows, axis=0)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2, -1])
def test_bags_by_their_definition(mode, padding):
    table = RNG.standard_normal((7, 4))
    x = np.array([1, 2, 2, 6, 0, 5, 6, 6, 2])
    offsets = np.array([0, 3, 3, 4, 9])  # the second and the last are empty
    weights = RNG.standard_normal(9) if mode == "sum" else None
    pad = None if padding is None else padding % 7
    want = [
        bag(table, x[i:j], mode, None if weights is None else weights[i:j], pad)
        for i, j in zip(offsets, [*offsets[1:], 9])
    ]
    given = {} if weights is None else {"per_sample_weights": pf.tensor(weights)}
    w = pf.tensor(table)
    got = F.embedding_bag(
        pf.tensor(x), w, pf.tensor(offsets), mode=mode, padding_idx=padding, **given
    )
    assert_allclose(got.numpy(), want, rtol=1e-12)
    ends = pf.tensor(np.append(offsets, 9))
    last = F.embedding_bag(
        pf.tensor(x), w, ends, mode=mode, padding_idx=padding, include_last_offset=True, **given
    )
    assert pf.equal(last, got)
    rows = F.embedding_bag(pf.tensor(x.reshape(3, 3)), w, mode=mode, padding_idx=padding)
    assert_allclose(
        rows.numpy(), [bag(table, r, mode, None, pad) for r in x.reshape(3, 3)], rtol=1e-12
    )


@pytest.mark.cpu_only
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}])
def test_bags_beside_pytorch(mode, options):
    torch = pytest.importorskip("torch")
    table = RNG.standard_normal((7, 4))
    x, offsets = np.array([1, 2, 2, 6, 0, 5, 6, 6, 2]), np.array([0, 3, 3, 4])

    def run(t, table):
        f = t.nn.functional.embedding_bag
        return (
            f(t.tensor(x), table, t.tensor(offsets), mode=mode, **options),
            f(t.tensor(x.reshape(3, 3)), table, mode=mode, **options),
        )

    both(torch, run, table)


def test_gradients_of_bags():
    x, offsets = pf.tensor([1, 2, 2, 0, 1]), pf.tensor([0, 3])
    table = pf.tensor(RNG.standard_normal((4, 3)), requires_grad=True)
    weights = pf.tensor(RNG.standard_normal(5), requires_grad=True)
    for mode, given in (("sum", (weights,)), ("mean", ()), ("max", ())):

        def run(table, *weights, mode=mode):
            return F.embedding_bag(
                x, table, offsets, mode=mode, per_sample_weights=weights[0] if weights else None
            )

        assert pf.autograd.gradcheck(run, (table, *given))
        assert pf.autograd.gradgradcheck(run, (table, *given))


def test_empty_bags_and_layers():
    table = pf.ones(3, 2, requires_grad=True)
    none = pf.zeros(0, dtype=pf.int64)
    for mode in ("sum", "mean", "max"):
        assert F.embedding_bag(none, table, pf.tensor([0, 0]), mode=mode).tolist() == [[0, 0]] * 2
        assert F.embedding_bag(none, table, none, mode=mode).shape == (0, 2)
        assert F.embedding_bag(none.reshape(2, 0), table, mode=mode).tolist() == [[0, 0]] * 2
    layer = nn.EmbeddingBag(5, 3, mode="sum", padding_idx=1)
    assert repr(layer) == "EmbeddingBag(5, 3, mode='sum', padding_idx=1)"
    assert layer(pf.tensor([[1, 1]])).tolist() == [[0, 0, 0]]
    kept = nn.EmbeddingBag.from_pretrained(pf.ones(3, 2), mode="sum")
    assert not kept.weight.requires_grad and kept(pf.tensor([[0, 2]])).tolist() == [[2, 2]]


def test_limits_of_norms_and_counts():
    table = pf.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]], requires_grad=True)
    got = F.embedding(pf.tensor([[0, 1], [0, 0]]), table, max_norm=1.0)
    assert_allclose(got.detach().numpy()[0], [[0.6, 0.8], [0.3, 0.4]], rtol=1e-5)
    assert_allclose(table.detach().numpy(), [[0.6, 0.8], [0.3, 0.4], [6, 8]], rtol=1e-5)
    got.sum().backward()
    assert table.grad.tolist() == [[3, 3], [1, 1], [0, 0]]
    layer = nn.Embedding(3, 2, scale_grad_by_freq=True, max_norm=2, norm_type=1)
    assert repr(layer) == "Embedding(3, 2, max_norm=2, norm_type=1, scale_grad_by_freq=True)"
    layer(pf.tensor([0, 0, 1, 0])).sum().backward()
    assert_allclose(layer.weight.grad.numpy(), [[1, 1], [1, 1], [0, 0]], rtol=1e-6)
    table = pf.ones(4, 2, requires_grad=True)
    x, offsets = pf.tensor([3, 1, 1, 0, 1]), pf.tensor([0, 2])
    F.embedding_bag(x, table, offsets, mode="sum", scale_grad_by_freq=True).sum().backward()
    assert table.grad.tolist() == [[1, 1], [1, 1], [0, 0], [1, 1]]


def test_errors_of_bags():
    table, x = pf.ones(3, 2), pf.tensor([0, 1, 2])
    for arguments, words in (
        ((x, table), "offsets"),
        ((x.reshape(1, 3), table, pf.tensor([0])), "offsets"),
        # Where the host would have to wait for the values of offsets, nobody looks at them.
        *([((x, table, pf.tensor([1])), "first to be 0")] if x.is_cpu else []),
        *([((x, table, pf.tensor([0, 4])), "behind the end")] if x.is_cpu else []),
        ((x, table, pf.tensor([[0]])), "one dimension"),
        ((x.reshape(1, 1, 3), table), "shape"),
        ((pf.tensor([3]), table, pf.tensor([0])), "out of bounds|expected 0 to"),
        ((x.float(), table, pf.tensor([0])), "dtype"),
    ):
        with pytest.raises(pf.PyFlameError, match=words):
            F.embedding_bag(*arguments).sum().item()
    with pytest.raises(pf.NotSupportedError, match="per_sample_weights"):
        F.embedding_bag(x, table, pf.tensor([0]), per_sample_weights=pf.ones(3))
    with pytest.raises(pf.PyFlameError, match="mode"):
        F.embedding_bag(x, table, pf.tensor([0]), mode="product")


# ---- CTC --------------------------------------------------------------------------------------------


def ways(log_probs, target, blank=0):
    """-log of the sum over all readings that become the target."""
    steps, classes = log_probs.shape
    total = -np.inf
    for path in itertools.product(range(classes), repeat=steps):
        read = [c for c, _ in itertools.groupby(path) if c != blank]
        if read == list(target):
            total = np.logaddexp(total, sum(log_probs[t, c] for t, c in enumerate(path)))
    return -total


@pytest.mark.parametrize("target", [[], [1], [1, 1], [2, 1], [1, 2, 1], [1, 1, 2], [1, 1, 1]])
def test_ctc_by_its_definition(target):
    x = RNG.standard_normal((4, 2, 3))
    x -= np.log(np.exp(x).sum(2, keepdims=True))
    targets = pf.tensor([[*target, *[7] * (3 - len(target))]] * 2)  # what lies behind is not read
    got = F.ctc_loss(pf.tensor(x), targets, [4, 3], [len(target)] * 2, reduction="none")
    want = [ways(x[:4, 0], target), ways(x[:3, 1], target)]
    assert_allclose(got.numpy(), want, rtol=1e-12)
    blank = [c for c in range(3) if c not in target]
    if 2 in blank:  # another class as the blank
        other = [{1: 1}.get(c, c) for c in target]
        got = F.ctc_loss(
            pf.tensor(x), targets[:, : len(target)], [4, 3], [len(target)] * 2, 2, "none"
        )
        assert_allclose(got.numpy()[0], ways(x[:4, 0], other, 2), rtol=1e-12)


@pytest.mark.cpu_only
@pytest.mark.parametrize("dtype,rtol", [(np.float64, 1e-10), (np.float32, 1e-4)])
@pytest.mark.parametrize(
    "reduction,zero,joined,long",
    [("mean", False, False, True), ("none", False, True, True), ("sum", True, False, False),
     ("none", False, False, False)],
)  # fmt: skip
def test_ctc_beside_pytorch(dtype, rtol, reduction, zero, joined, long):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    steps, batch, classes, labels = 25, 5, 7, 8
    x = rng.standard_normal((steps, batch, classes)).astype(dtype)
    targets = rng.integers(1, classes, (batch, labels))
    lengths = [8, 3, 0, 5, 8]
    inputs = [25, 20, 13, 25, 20] if long else [25, 8, 0, 3, 12]
    if joined:
        targets = np.concatenate([t[:n] for t, n in zip(targets, lengths)])
    found = []
    for t in (pf, torch):
        a = t.tensor(x, requires_grad=True)
        loss = t.nn.functional.ctc_loss(
            t.nn.functional.log_softmax(a, 2), t.tensor(targets), t.tensor(inputs),
            t.tensor(lengths), reduction=reduction, zero_infinity=zero,
        )  # fmt: skip
        loss.sum().backward()
        found.append((loss.detach().numpy(), a.grad.numpy()))
    for a, b in zip(*found):
        assert_allclose(a, b, rtol=rtol, atol=rtol)


def test_gradients_of_ctc():
    a = pf.tensor(RNG.standard_normal((6, 3, 4)), requires_grad=True)
    targets = pf.tensor([[1, 1, 2], [3, 2, 1], [2, 2, 2]])

    def loss(a):
        return F.ctc_loss(
            a.log_softmax(2), targets, [6, 5, 2], [3, 2, 3], reduction="sum", zero_infinity=True
        )

    assert pf.autograd.gradcheck(loss, (a,))
    assert pf.autograd.gradgradcheck(loss, (a,))
    one = a.detach()[:, 0]
    whole = F.ctc_loss(a.detach(), targets, [6, 5, 2], [3, 2, 3], reduction="none")
    assert F.ctc_loss(one, targets[0], 6, 3, reduction="none").item() == whole[0].item()
    half = F.ctc_loss(a.detach().bfloat16(), targets, [6, 5, 2], [3, 2, 3], reduction="none")
    assert half.dtype == pf.bfloat16
    turned = a.detach().permute(1, 0, 2).contiguous().permute(1, 0, 2)
    assert pf.equal(F.ctc_loss(turned, targets, [6, 5, 2], [3, 2, 3], reduction="none"), whole)


def test_ctc_of_nothing_and_errors():
    x = pf.zeros(4, 2, 3).log_softmax(2)
    assert F.ctc_loss(x[:, :0], pf.zeros(0, 0, dtype=pf.int64), [], [], reduction="sum").item() == 0
    assert F.ctc_loss(x, pf.ones(2, 1, dtype=pf.int64), [0, 0], [1, 0], reduction="none").tolist() == [
        float("inf"), 0,
    ]  # fmt: skip
    y = pf.ones(2, 3, dtype=pf.int64)
    for arguments, words in (
        ((x[0, 0], y, [4], [3]), "log_probs|dimension|shape"),
        ((x, y, [5, 4], [1, 1]), "input length of 5"),
        ((x, y, [4, 4], [4, 1]), "target length of 4"),
        ((x, y, [4], [1, 1]), "2 sequences"),
        ((x, y, [4, 4], [1, -1]), "target length of -1"),
        ((x, y, [4, 4], [1, 1], 3), "blank 3"),
        ((x, y * 3, [4, 4], [1, 1]), "out of bounds|expected 0 to"),
        ((x, y[:1], [4, 4], [1, 1]), "targets of shape"),
    ):
        with pytest.raises(pf.PyFlameError, match=words):
            F.ctc_loss(*arguments).item()
    assert isinstance(nn.CTCLoss(zero_infinity=True)(x, y, [4, 4], [1, 2]).item(), float)


def test_ctc_does_not_depend_on_threads():
    x = pf.randn(50, 8, 20).log_softmax(2)
    y = pf.randint(1, 20, (8, 15))
    before, found = pf.get_num_threads(), []
    for n in (1, before):
        pf.set_num_threads(n)
        found.append(F.ctc_loss(x, y, [50] * 8, [15] * 8, reduction="none"))
    assert pf.equal(*found)


# ---- losses -------------------------------------------------------------------------------------------


@pytest.mark.cpu_only
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_margins_beside_pytorch(reduction):
    torch = pytest.importorskip("torch")
    target = np.array([[3, 0, -1, 1], [-1, 2, 0, 1], [0, 1, 2, 3], [2, 2, -1, 0]])

    def labels(t, x):
        f = t.nn.functional.multilabel_margin_loss
        one = f(x[0], t.tensor(target[0]), reduction=reduction)
        return f(x, t.tensor(target), reduction=reduction), one

    both(torch, labels, RNG.standard_normal((4, 4)))

    def triplets(t, a, p, n):
        distance = lambda x, y: (x - y).abs().sum(-1)  # noqa: E731
        f = t.nn.functional.triplet_margin_with_distance_loss
        return (
            f(a, p, n, distance_function=distance, margin=0.5, swap=True, reduction=reduction),
            t.nn.TripletMarginWithDistanceLoss(reduction=reduction)(a, p, n),
        )

    both(torch, triplets, *(RNG.standard_normal((5, 3)) for _ in range(3)))


@pytest.mark.cpu_only
def test_many_classes_beside_pytorch():
    torch = pytest.importorskip("torch")
    for options in ({}, {"div_value": 2.0, "head_bias": True}):
        theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 9, 14], **options).double()
        ours = nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 9, 14], **options).double()
        same_state(torch, ours, theirs)
        y = np.array([0, 4, 5, 8, 9, 13, 19, 2])
        modules = {"pyflame": ours, "torch": theirs}

        def run(t, x, y=y, modules=modules):
            m = modules[t.__name__]
            out, loss = m(x, t.tensor(y))
            one = m(x[0], t.tensor(y[0]))
            return out, loss, one.output, one.loss, m.log_prob(x), m.predict(x)

        both(torch, run, RNG.standard_normal((8, 16)), rtol=1e-6)
    layer = nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2, 4])
    for wrong in ([4, 2], [0, 2], [2, 6], [], [2, 2]):
        with pytest.raises(ValueError, match="cutoffs"):
            nn.AdaptiveLogSoftmaxWithLoss(4, 6, wrong)
    with pytest.raises(RuntimeError, match="targets from 6"):
        layer(pf.ones(1, 4), pf.tensor([6]))


@pytest.mark.cpu_only
def test_linear_cross_entropy_beside_pytorch():
    torch = pytest.importorskip("torch")
    if not hasattr(torch.nn.functional, "linear_cross_entropy"):
        pytest.skip("PyTorch has none")
    y, weight = np.array([1, 0, 3, -100]), np.array([1.0, 2.0, 0.5, 1.5])

    def run(t, x, w, b, deep):
        f = t.nn.functional.linear_cross_entropy
        wide = t.tensor(np.arange(8).reshape(4, 2) % 3)
        return (
            f(x, w, t.tensor(y), linear_bias=b, weight=t.tensor(weight), label_smoothing=0.1),
            f(x, deep, wide, reduction="none"),
        )

    arrays = [RNG.standard_normal(s) for s in ((4, 5), (4, 5), (4,), (3, 2, 5))]
    both(torch, run, *arrays)
    theirs = torch.nn.LinearCrossEntropyLoss(5, 3, out_features=(2,), bias=True).double()
    ours = same_state(
        torch, nn.LinearCrossEntropyLoss(5, 3, out_features=(2,), bias=True).double(), theirs
    )
    x, target = RNG.standard_normal((4, 5)), RNG.integers(0, 3, (4, 2))
    got = ours(pf.tensor(x), pf.tensor(target)).item()
    assert abs(got - theirs(torch.tensor(x), torch.tensor(target)).item()) < 1e-12


# ---- drawn by chance ------------------------------------------------------------------------------------


def test_alpha_dropout_keeps_mean_and_variance():
    x = pf.randn(200, 1000)
    for p in (0.1, 0.5):
        y = F.alpha_dropout(x, p, training=True)
        assert abs(y.mean().item()) < 0.02 and abs(y.var().item() - 1) < 0.02
        a = 1 / np.sqrt((1.7580993408473766**2 * p + 1) * (1 - p))
        low = a * 1.7580993408473766 * (p - 1)
        dropped = (y - low).abs() < 1e-6
        assert abs(dropped.float().mean().item() - p) < 0.01
        kept = y[~dropped]
        want = (x[~dropped] * a) + a * 1.7580993408473766 * p
        assert_allclose(kept.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)
    assert F.alpha_dropout(x, 0.5, training=False) is x
    assert F.alpha_dropout(pf.ones(3), 1.0, training=True).tolist() == [0, 0, 0]
    y = F.feature_alpha_dropout(pf.zeros(4, 500, 3), 0.5, training=True)
    assert bool((y == y[:, :, :1]).all()) and len(y.unique()) == 2
    assert len(nn.FeatureAlphaDropout(0.5)(pf.zeros(4, 500, 3)).unique()) == 2
    layer = nn.AlphaDropout(0.5)
    assert bool((layer(x) != x).any()) and bool((layer.eval()(x) == x).all())
    z = pf.ones(50)
    assert F.alpha_dropout(z, 0.5, True, inplace=True) is z and len(z.unique()) == 2
    with pytest.raises(pf.PyFlameError, match="probability"):
        F.alpha_dropout(x, 1.5, True)


def test_rrelu():
    x = pf.randn(10000, dtype=pf.float64, requires_grad=True)
    y = F.rrelu(x, 0.1, 0.3, training=True)
    slopes = (y / x)[x < 0]
    assert bool((y[x > 0] == x[x > 0]).all())
    assert 0.1 <= slopes.min().item() and slopes.max().item() <= 0.3
    assert abs(slopes.mean().item() - 0.2) < 0.01
    y.sum().backward()
    assert_allclose(x.grad.numpy(), (y / x).detach().numpy(), rtol=1e-12)
    assert pf.equal(F.rrelu(x, 0.1, 0.3), F.leaky_relu(x, 0.2))
    layer = nn.RReLU(0.1, 0.3)
    assert repr(layer) == "RReLU(lower=0.1, upper=0.3)"
    assert pf.equal(layer.eval()(x), F.leaky_relu(x, 0.2))
    z = pf.tensor([-1.0, 1.0])
    assert F.rrelu_(z, training=True) is z and -1 / 3 <= z[0].item() <= -1 / 8
    with pytest.raises(pf.PyFlameError, match="slopes"):
        F.rrelu(x, 0.5, 0.1, training=True)


# ---- transformers -----------------------------------------------------------------------------------------


@pytest.mark.cpu_only
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_transformers_beside_pytorch(norm_first, batch_first, activation):
    torch = pytest.importorskip("torch")
    options = {
        "d_model": 8, "nhead": 2, "num_encoder_layers": 2, "num_decoder_layers": 2,
        "dim_feedforward": 16, "dropout": 0.0, "norm_first": norm_first, "batch_first": batch_first,
        "activation": activation,
    }  # fmt: skip
    theirs = torch.nn.Transformer(**options).double()
    ours = same_state(torch, nn.Transformer(**options).double(), theirs)
    modules = {"pyflame": ours, "torch": theirs}
    padding = np.array([[False] * 5, [False, False, False, True, True], [False] * 5])

    def run(t, src, tgt):
        m = modules[t.__name__]
        mask = t.nn.Transformer.generate_square_subsequent_mask(4, dtype=t.float64)
        pad = t.tensor(padding)
        return (
            m(src, tgt),
            m(src, tgt, tgt_mask=mask, tgt_is_causal=True),
            m(src, tgt, tgt_mask=mask, memory_key_padding_mask=pad),
        )

    shape = lambda n: (3, n, 8) if batch_first else (n, 3, 8)  # noqa: E731
    both(torch, run, RNG.standard_normal(shape(5)), RNG.standard_normal(shape(4)), rtol=1e-7)


def test_transformer_errors_and_masks():
    assert nn.Transformer.generate_square_subsequent_mask(3).tolist() == [
        [0, -np.inf, -np.inf], [0, 0, -np.inf], [0, 0, 0],
    ]  # fmt: skip
    model = nn.Transformer(8, 2, 1, 1, 16)
    with pytest.raises(RuntimeError, match="as many sequences"):
        model(pf.ones(4, 2, 8), pf.ones(4, 3, 8))
    with pytest.raises(RuntimeError, match="d_model"):
        model(pf.ones(4, 2, 6), pf.ones(4, 2, 6))
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2, nn.LayerNorm(8))
    assert decoder(pf.ones(3, 2, 8), pf.ones(5, 2, 8)).shape == (3, 2, 8)
    one = nn.TransformerDecoderLayer(8, 2, 16)
    assert one(pf.ones(3, 8), pf.ones(5, 8)).shape == (3, 8)


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    "options",
    [
        {"add_bias_kv": True},
        {"add_zero_attn": True},
        {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True},
        {"kdim": 5, "vdim": 7},
        {"kdim": 5, "vdim": 7, "add_bias_kv": True, "bias": False},
    ],
    ids=lambda o: "-".join(o),
)
def test_attention_with_more_keys_beside_pytorch(options):
    torch = pytest.importorskip("torch")
    theirs = torch.nn.MultiheadAttention(8, 2, **options).double()
    ours = same_state(torch, nn.MultiheadAttention(8, 2, **options).double(), theirs)
    modules = {"pyflame": ours, "torch": theirs}
    first = options.get("batch_first", False)
    padding = np.array([[False] * 5, [False, False, False, True, True], [False] * 5])
    mask = RNG.standard_normal((4, 5))

    def run(t, q, k, v):
        m = modules[t.__name__]
        how = {"key_padding_mask": t.tensor(padding), "attn_mask": t.tensor(mask)}
        a, weights = m(q, k, v)
        b, each = m(q, k, v, average_attn_weights=False)
        alone = m(
            q[0] if first else q[:, 0], k[0] if first else k[:, 0], v[0] if first else v[:, 0]
        )
        if not first:  # PyTorch wants one type for both masks
            how["key_padding_mask"] = t.zeros(3, 5, dtype=t.float64)
        c, none = m(q, k, v, need_weights=False, **how)
        assert none is None
        return a, weights, b, each, c, *alone

    def shape(n, e):
        return (3, n, e) if first else (n, 3, e)

    k, v = options.get("kdim", 8), options.get("vdim", 8)
    arrays = [RNG.standard_normal(shape(n, e)) for n, e in ((4, 8), (5, k), (5, v))]
    if first:
        padding[:] = False
    both(torch, run, *arrays, rtol=1e-7)


def test_biases_of_attention():
    from pyflame.nn.attention import SDPBackend, sdpa_kernel
    from pyflame.nn.attention.bias import CausalVariant, causal_lower_right, causal_upper_left

    lower = causal_lower_right(2, 4)
    assert lower.variant is CausalVariant.LOWER_RIGHT
    assert lower.materialize().tolist() == [[True, True, True, False], [True] * 4]
    upper = causal_upper_left(2, 4)
    assert upper.materialize().tolist() == [[True, False, False, False], [True, True, False, False]]
    q, k = pf.randn(1, 2, 2, 8), pf.randn(1, 2, 4, 8)
    for bias in (lower, upper):
        got = F.scaled_dot_product_attention(q, k, k, attn_mask=bias)
        want = F.scaled_dot_product_attention(q, k, k, attn_mask=bias.materialize())
        assert pf.equal(got, want)
    switches = pf.backends.cuda
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        assert switches.math_sdp_enabled() and switches.flash_sdp_enabled()
        assert not switches.mem_efficient_sdp_enabled()
    assert switches.mem_efficient_sdp_enabled()
    with pytest.raises(TypeError, match="SDPBackend"), sdpa_kernel("math"):
        pass


# ---- the rest -----------------------------------------------------------------------------------------------


@pytest.mark.cpu_only
def test_products_of_groups_and_over_time():
    torch = pytest.importorskip("torch")

    def tbc(t, x, w, b):
        return t.conv_tbc(x, w, b, 1) if t is torch else F.conv_tbc(x, w, b, 1)

    both(torch, tbc, *(RNG.standard_normal(s) for s in ((6, 2, 3), (3, 3, 4), (4,))))
    a, b, ends = RNG.standard_normal((7, 3)), RNG.standard_normal((3, 3, 4)), [2, 2, 6]
    offs = pf.tensor(ends, dtype=pf.int32)
    got = F.grouped_mm(pf.tensor(a), pf.tensor(b), offs=offs)
    want = np.zeros((7, 4))
    for n, (i, j) in enumerate(zip([0, *ends], ends)):
        want[i:j] = a[i:j] @ b[n]
    assert_allclose(got.numpy(), want, rtol=1e-12)
    c = RNG.standard_normal((3, 7))
    got = F.grouped_mm(pf.tensor(c), pf.tensor(a), offs=offs)
    assert_allclose(got.numpy()[2], c[:, 2:6] @ a[2:6], rtol=1e-12)
    got = F.grouped_mm(pf.tensor(b), pf.tensor(RNG.standard_normal((4, 6))), offs=offs)
    assert got.shape == (3, 6)
    assert F.grouped_mm(pf.tensor(b), pf.tensor(b).mT, out_dtype=pf.float32).dtype == pf.float32
    with pytest.raises(pf.PyFlameError, match="offs"):
        F.grouped_mm(pf.tensor(a), pf.tensor(b))


def test_small_layers():
    x = pf.randn(2, 3, 4, 4)
    assert pf.equal(nn.Softmax2d()(x), F.softmax(x, 1))
    assert pf.equal(nn.Softmax2d()(x[0]), F.softmax(x[0], 0))
    with pytest.raises(ValueError, match="shape"):
        nn.Softmax2d()(x[0, 0])
    assert pf.equal(nn.CrossMapLRN2d(2)(x), F.local_response_norm(x, 2))
    with pytest.warns(FutureWarning):
        nn.NLLLoss2d()
    assert isinstance(nn.LSTMCell(2, 3), nn.RNNCellBase)
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=4)
    loss = nn.LinearCrossEntropyLoss(4, 3, options=options)
    assert loss(pf.randn(2, 4), pf.tensor([0, 2])).shape == ()
    target = pf.tensor([[1, -1, 0], [0, 2, -1]])
    y = pf.randn(2, 3)
    want = F.multilabel_margin_loss(y, target, reduction="sum")
    assert pf.equal(nn.MultiLabelMarginLoss(reduction="sum")(y, target), want)
    norm = nn.SyncBatchNorm(3)
    assert pf.equal(norm(x), nn.BatchNorm2d(3)(x))
    model = nn.Sequential(nn.Conv2d(3, 3, 1), nn.Sequential(nn.BatchNorm2d(3)))
    made = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(model))
    assert type(made[1][0]) is nn.SyncBatchNorm and pf.equal(made(x), model(x))
    values, places = F.adaptive_max_pool2d_with_indices(x, 2)
    assert pf.equal(values, F.adaptive_max_pool2d(x, 2)) and places.dtype == pf.int64
    parallel = nn.DataParallel(nn.Linear(4, 2))
    assert list(parallel.state_dict()) == ["module.weight", "module.bias"]
    assert parallel(x).shape == (2, 3, 4, 2)
    with pytest.raises(pf.NotSupportedError, match="one"):
        nn.DataParallel(nn.Linear(1, 1), device_ids=[0, 1])
    with pytest.raises(RuntimeError, match="no process group"):
        nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
