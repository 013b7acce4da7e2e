"""Layers, activations and losses against NumPy."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pyflame as pf
from pyflame import nn
from pyflame.nn import functional as F

sp = pytest.importorskip("scipy.special")
rng = np.random.default_rng(0)


def array(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def t(a):
    return pf.tensor(a)


def close(got, want, tol=2e-5):
    assert_allclose(got.detach().numpy(), want, rtol=tol, atol=tol)


def numeric_grad(f, x, eps=1e-6):
    g = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[i] += eps
        down[i] -= eps
        g[i] = (f(up) - f(down)) / (2 * eps)
    return g


def check_grad(f, *arrays):
    """f on float64 tensors to a scalar: its gradients against finite differences."""
    tensors = [pf.tensor(a.astype(np.float64), requires_grad=True) for a in arrays]
    f(*tensors).backward()
    for i, a in enumerate(arrays):

        def at(x, i=i):
            values = [pf.tensor(b.astype(np.float64)) for b in arrays]
            values[i] = pf.tensor(x)
            return f(*values).item()

        want = numeric_grad(at, a.astype(np.float64))
        assert_allclose(tensors[i].grad.numpy(), want, rtol=1e-5, atol=1e-6)


def log_softmax(x, axis=-1):
    return x - sp.logsumexp(x, axis=axis, keepdims=True)


# ---- layers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (0, 5)])
def test_linear(shape, bias):
    layer = nn.Linear(5, 4, bias=bias)
    assert tuple(layer.weight.shape) == (4, 5)
    x = array(*shape)
    want = x @ layer.weight.detach().numpy().T + (layer.bias.detach().numpy() if bias else 0)
    close(layer(t(x)), want)
    bound = 1 / math.sqrt(5)
    assert layer.weight.abs().max().item() <= bound


def test_linear_wrong_size_names_both():
    with pytest.raises(pf.ShapeError):
        nn.Linear(5, 4)(pf.ones(2, 6))


def test_bilinear():
    layer = nn.Bilinear(3, 4, 2)
    a, b = array(5, 3), array(5, 4)
    w, c = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    close(layer(t(a), t(b)), np.einsum("ni,kij,nj->nk", a, w, b) + c)


@pytest.mark.parametrize("padding", [None, 0, 2, -1])
def test_embedding(padding):
    layer = nn.Embedding(5, 3, padding_idx=padding)
    index = np.array([[0, 2, 4], [4, 4, 1]])
    out = layer(t(index))
    close(out, layer.weight.detach().numpy()[index])
    out.sum().backward()
    want = np.zeros((5, 3))
    np.add.at(want, index, 1.0)
    if padding is not None:
        want[padding % 5] = 0
        assert (layer.weight[padding] == 0).all()
    close(layer.weight.grad, want)
    for dtype in (pf.int32, pf.int64):
        close(layer(t(index).to(dtype)), layer.weight.detach().numpy()[index])


def test_embedding_errors():
    with pytest.raises(ValueError, match="padding_idx"):
        nn.Embedding(5, 3, padding_idx=5)
    with pytest.raises(pf.IndexError):
        nn.Embedding(5, 3)(pf.tensor([5])).sum().item()
    table = pf.randn(4, 2)
    layer = nn.Embedding.from_pretrained(table)
    assert not layer.weight.requires_grad and (layer(pf.tensor([3])) == table[3]).all()


@pytest.mark.parametrize("shape", [6, (6,), (4, 6)])
def test_layer_norm(shape):
    layer = nn.LayerNorm(shape, eps=1e-3)
    sizes = (shape,) if isinstance(shape, int) else shape
    with pf.no_grad():
        layer.weight.copy_(t(array(*sizes)))
        layer.bias.copy_(t(array(*sizes)))
    x = array(3, 4, 6)
    axes = tuple(range(3 - len(sizes), 3))
    mean = x.mean(axes, keepdims=True)
    var = x.var(axes, keepdims=True)
    want = (x - mean) / np.sqrt(var + 1e-3)
    want = want * layer.weight.detach().numpy() + layer.bias.detach().numpy()
    close(layer(t(x)), want)


def test_layer_norm_options():
    assert nn.LayerNorm(3, bias=False).bias is None
    assert nn.LayerNorm(3, elementwise_affine=False).weight is None
    assert nn.LayerNorm(3).normalized_shape == (3,)


def test_rms_norm():
    layer = nn.RMSNorm(6, eps=1e-3)
    x = array(3, 6)
    close(layer(t(x)), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-3))


def test_dropout():
    pf.manual_seed(0)
    layer = nn.Dropout(0.25)
    x = pf.ones(10000)
    y = layer(x).numpy()
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.02
    assert layer.eval()(x) is x
    with pytest.raises(ValueError):
        nn.Dropout(1.5)
    assert (nn.Dropout(1.0)(x) == 0).all()


def test_flatten_unflatten_identity():
    x = pf.randn(2, 3, 4)
    assert nn.Flatten()(x).shape == (2, 12)
    assert nn.Flatten(0, 1)(x).shape == (6, 4)
    assert nn.Unflatten(1, (3, -1))(pf.randn(2, 12)).shape == (2, 3, 4)
    assert nn.Identity(1, a=2)(x) is x


# ---- activations --------------------------------------------------------------------------------


def elu(x, a):
    return np.where(x > 0, x, a * np.expm1(x))


ACTIVATIONS = [
    (nn.ReLU(), lambda x: np.maximum(x, 0)),
    (nn.ReLU6(), lambda x: np.clip(x, 0, 6)),
    (nn.LeakyReLU(0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    (nn.ELU(0.7), lambda x: elu(x, 0.7)),
    (nn.CELU(0.7), lambda x: np.maximum(x, 0) + np.minimum(0, 0.7 * np.expm1(x / 0.7))),
    (nn.SELU(), lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772)),
    (nn.GELU(), lambda x: x * sp.ndtr(x)),
    (
        nn.GELU("tanh"),
        lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ),
    (nn.SiLU(), lambda x: x * sp.expit(x)),
    (nn.Mish(), lambda x: x * np.tanh(np.logaddexp(0, x))),
    (nn.Sigmoid(), sp.expit),
    (nn.Tanh(), np.tanh),
    (nn.Softplus(2.0), lambda x: np.logaddexp(0, 2 * x) / 2),
    (nn.Softsign(), lambda x: x / (1 + np.abs(x))),
    (nn.LogSigmoid(), lambda x: -np.logaddexp(0, -x)),
    (nn.Tanhshrink(), lambda x: x - np.tanh(x)),
    (nn.Hardshrink(0.3), lambda x: np.where(np.abs(x) > 0.3, x, 0)),
    (nn.Softshrink(0.3), lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.3, 0)),
    (nn.Hardtanh(-0.5, 0.7), lambda x: np.clip(x, -0.5, 0.7)),
    (nn.Hardsigmoid(), lambda x: np.clip(x + 3, 0, 6) / 6),
    (nn.Hardswish(), lambda x: x * np.clip(x + 3, 0, 6) / 6),
    (nn.Threshold(0.2, -1.0), lambda x: np.where(x > 0.2, x, -1.0)),
    (nn.PReLU(init=0.3), lambda x: np.where(x > 0, x, 0.3 * x)),
    (nn.GLU(), lambda x: x[..., :3] * sp.expit(x[..., 3:])),
    (nn.Softmax(-1), lambda x: sp.softmax(x, -1)),
    (nn.Softmin(0), lambda x: sp.softmax(-x, 0)),
    (nn.LogSoftmax(1), lambda x: log_softmax(x, 1)),
]


@pytest.mark.parametrize(
    "module,reference", ACTIVATIONS, ids=lambda v: getattr(v, "_get_name", str)()
)
def test_activation(module, reference, device):
    x = array(5, 6) * 3
    close(module.to(device)(t(x)), reference(x.astype(np.float64)))


def test_activation_inplace():
    x = pf.tensor([-1.0, 2.0])
    y = nn.ReLU(inplace=True)(x)
    assert y is x and x.tolist() == [0.0, 2.0]
    assert F.leaky_relu(pf.tensor([-1.0]), 0.5, True).tolist() == [-0.5]


@pytest.mark.parametrize(
    "name",
    "relu relu6 silu mish selu elu celu leaky_relu hardtanh hardswish hardsigmoid".split(),
)
def test_gradient_of_activations_in_place(name):
    x = pf.tensor(array(3, 4), requires_grad=True)
    fn = getattr(F, name)
    want = pf.autograd.grad(fn(x * 2).sum(), x)[0]
    y = x * 2
    assert fn(y, inplace=True) is y
    y.sum().backward()
    assert pf.equal(x.grad, want)


def test_softmax_dims():
    x = array(2, 3, 4)
    for dim in (0, 1, 2, -1):
        close(F.softmax(t(x), dim=dim), sp.softmax(x, dim))
    assert F.softmax(t(x), -1, dtype=pf.float64).dtype == pf.float64


# ---- losses -------------------------------------------------------------------------------------


def reduced(loss, reduction):
    return {"none": lambda v: v, "mean": np.mean, "sum": np.sum}[reduction](loss)


REDUCTIONS = ["none", "mean", "sum"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_regression_losses(reduction):
    x, y = array(4, 5), array(4, 5)
    d = np.abs(x - y)
    close(nn.MSELoss(reduction=reduction)(t(x), t(y)), reduced(d * d, reduction))
    close(nn.L1Loss(reduction=reduction)(t(x), t(y)), reduced(d, reduction))
    beta = 0.4
    want = np.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)
    close(nn.SmoothL1Loss(reduction=reduction, beta=beta)(t(x), t(y)), reduced(want, reduction))
    want = np.where(d < beta, 0.5 * d * d, beta * (d - 0.5 * beta))
    close(nn.HuberLoss(reduction, beta)(t(x), t(y)), reduced(want, reduction))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_losses(reduction):
    p, y = rng.random((4, 5)).astype(np.float32), rng.random((4, 5)).astype(np.float32)
    want = -(y * np.log(p) + (1 - y) * np.log1p(-p))
    close(nn.BCELoss(reduction=reduction)(t(p), t(y)), reduced(want, reduction), 1e-4)
    x, weight = array(4, 5) * 20, rng.random(5).astype(np.float32) + 0.5
    x64 = x.astype(np.float64)
    want = (1 - y) * x64 + (1 + (weight - 1) * y) * np.logaddexp(0, -x64)
    module = nn.BCEWithLogitsLoss(reduction=reduction, pos_weight=t(weight))
    close(module(t(x), t(y)), reduced(want, reduction))


def test_bce_at_the_ends():
    p, y = pf.tensor([0.0, 1.0, 0.0, 1.0]), pf.tensor([0.0, 1.0, 1.0, 0.0])
    assert F.binary_cross_entropy(p, y, reduction="none").tolist() == [0.0, 0.0, 100.0, 100.0]
    x = pf.tensor([1e4, -1e4], requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(x, pf.tensor([0.0, 1.0]))
    loss.backward()
    assert loss.item() == 1e4 and np.isfinite(x.grad.numpy()).all()


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(reduction, smoothing, weighted):
    x, y = array(6, 5), np.array([0, 4, -100, 2, 2, 1])
    weight = rng.random(5).astype(np.float32) + 0.5 if weighted else np.ones(5, np.float32)
    logp = log_softmax(x.astype(np.float64))
    keep = y >= 0
    index = np.where(keep, y, 0)
    picked = -logp[np.arange(6), index] * weight[index] * keep
    smooth = -(logp * weight).sum(-1) / 5 * keep
    want = (1 - smoothing) * picked + smoothing * smooth
    if reduction == "mean":
        want = want.sum() / (weight[index] * keep).sum()
    elif reduction == "sum":
        want = want.sum()
    module = nn.CrossEntropyLoss(
        t(weight) if weighted else None, reduction=reduction, label_smoothing=smoothing
    )
    for dtype in (pf.int64, pf.int32):
        close(module(t(x), t(y).to(dtype)), want)
    if smoothing == 0:
        nll = nn.NLLLoss(t(weight) if weighted else None, reduction=reduction)
        close(nll(t(logp.astype(np.float32)), t(y)), want)


def test_cross_entropy_with_probabilities():
    x, y = array(6, 5), sp.softmax(array(6, 5), -1)
    want = -(log_softmax(x) * y).sum(-1).mean()
    close(F.cross_entropy(t(x), t(y)), want)


def test_cross_entropy_of_images_and_gradients():
    x, y = array(2, 3, 4, 5), rng.integers(0, 3, (2, 4, 5))
    logp = log_softmax(x, 1)
    want = -np.take_along_axis(logp, y[:, None], 1).mean()
    close(F.cross_entropy(t(x), t(y)), want)
    x, y = array(4, 3), np.array([0, 2, 1, 1])
    check_grad(lambda v: F.cross_entropy(v, t(y), label_smoothing=0.1), x)
    check_grad(lambda v: F.nll_loss(F.log_softmax(v, -1), t(y)), x)


def test_cross_entropy_errors():
    with pytest.raises(pf.IndexError):
        F.cross_entropy(pf.zeros(2, 3), pf.tensor([0, 3])).item()
    with pytest.raises(ValueError, match="reduction"):
        F.l1_loss(pf.zeros(2), pf.zeros(2), reduction="maen")
    with pytest.raises(ValueError, match="shapes"):
        F.binary_cross_entropy(pf.zeros(2), pf.zeros(3))


@pytest.mark.parametrize("reduction", [*REDUCTIONS, "batchmean"])
def test_kl_div(reduction):
    x, y = log_softmax(array(4, 5)), sp.softmax(array(4, 5), -1).astype(np.float32)
    y[0, 0] = 0
    want = sp.xlogy(y, y) - y * x
    want = want.sum() / 4 if reduction == "batchmean" else reduced(want, reduction)
    close(nn.KLDivLoss(reduction=reduction)(t(x), t(y)), want)
    y = np.maximum(y, 1e-3)
    want = y * (np.log(y) - x)
    want = want.sum() / 4 if reduction == "batchmean" else reduced(want, reduction)
    module = nn.KLDivLoss(reduction=reduction, log_target=True)
    close(module(t(x), t(np.log(y))), want)


def test_other_losses():
    x, y, z = array(4, 5), array(4, 5), array(4, 5)
    sign = np.where(rng.random((4, 5)) > 0.5, 1, -1).astype(np.float32)
    close(
        nn.HingeEmbeddingLoss()(t(x), t(sign)), np.where(sign == 1, x, np.maximum(0, 1 - x)).mean()
    )
    want = np.maximum(0, -sign * (x - y) + 0.2).mean()
    close(nn.MarginRankingLoss(0.2)(t(x), t(y), t(sign)), want)
    near, far = np.linalg.norm(x - y + 1e-6, axis=-1), np.linalg.norm(x - z + 1e-6, axis=-1)
    close(nn.TripletMarginLoss()(t(x), t(y), t(z)), np.maximum(near - far + 1, 0).mean())
    cos = (x * y).sum(-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(y, axis=-1)
    want = np.where(sign[:, 0] == 1, 1 - cos, np.maximum(cos, 0)).mean()
    close(nn.CosineEmbeddingLoss()(t(x), t(y), t(sign[:, 0])), want)
    close(nn.PoissonNLLLoss()(t(x), t(np.abs(y))), (np.exp(x) - np.abs(y) * x).mean())
    var = np.abs(z) + 0.1
    close(
        nn.GaussianNLLLoss()(t(x), t(y), t(var)), (0.5 * (np.log(var) + (x - y) ** 2 / var)).mean()
    )


# ---- functions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode,numpy_mode",
    [("constant", "constant"), ("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")],
)
def test_pad(mode, numpy_mode):
    x = array(2, 3, 4, 5)
    want = np.pad(x, [(0, 0), (0, 0), (0, 2), (1, 3)], numpy_mode)
    close(F.pad(t(x), (1, 3, 0, 2), mode=mode), want, 0)
    check_grad(lambda v: (F.pad(v, (1, 2), mode=mode) ** 2).sum(), array(2, 3))


def test_pad_values_and_cuts():
    x = pf.tensor([[1, 2], [3, 4]])
    assert F.pad(x, (1, 0), value=9).tolist() == [[9, 1, 2], [9, 3, 4]]
    assert F.pad(x, (-1, 1)).tolist() == [[2, 0], [4, 0]]
    with pytest.raises(RuntimeError, match="two for each"):
        F.pad(x, (1,))
    with pytest.raises(RuntimeError, match="at most 1"):
        F.pad(x, (2, 0), mode="reflect")
    with pytest.raises(ValueError, match="takes|only"):
        F.pad(x, (1, 0), mode="circular", value=3)


def test_normalize_and_similarity():
    x, y = array(4, 5), array(4, 5)
    close(F.normalize(t(x)), x / np.linalg.norm(x, axis=1, keepdims=True))
    close(F.normalize(t(x), p=1, dim=0), x / np.abs(x).sum(0, keepdims=True))
    close(F.normalize(t(x), p=math.inf), x / np.abs(x).max(1, keepdims=True))
    cos = (x * y).sum(-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(y, axis=-1)
    close(F.cosine_similarity(t(x), t(y)), cos)
    close(nn.CosineSimilarity()(t(x), t(y)), cos)
    close(F.pairwise_distance(t(x), t(y)), np.linalg.norm(x - y + 1e-6, axis=-1))
    assert (F.normalize(pf.zeros(2, 3)) == 0).all()


def test_one_hot():
    assert F.one_hot(pf.tensor([0, 2]), 4).tolist() == [[1, 0, 0, 0], [0, 0, 1, 0]]


# ---- attention ----------------------------------------------------------------------------------


def attention(q, k, v, mask):
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1]) + mask
    return sp.softmax(scores, -1) @ v, sp.softmax(scores, -1)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("masks", ["none", "bool", "float", "padding"])
def test_multihead_attention(batch_first, need_weights, masks):
    b, s, e, h = 2, 5, 8, 2
    layer = nn.MultiheadAttention(e, h, batch_first=batch_first)
    x = array(b, s, e)
    options, mask = {}, np.zeros((1, 1, s, s))
    blocked = np.triu(np.ones((s, s), bool), 1)
    if masks in ("bool", "float"):
        mask = np.where(blocked, -np.inf, 0)[None, None]
        options["attn_mask"] = t(blocked) if masks == "bool" else t(mask[0, 0].astype(np.float32))
    elif masks == "padding":
        padding = np.zeros((b, s), bool)
        padding[0, -2:] = True
        mask = np.where(padding, -np.inf, 0)[:, None, None, :]
        options["key_padding_mask"] = t(padding)
    proj = x @ layer.in_proj_weight.detach().numpy().T + layer.in_proj_bias.detach().numpy()
    q, k, v = (p.reshape(b, s, h, e // h).swapaxes(1, 2) for p in np.split(proj, 3, -1))
    y, weights = attention(q, k, v, mask)
    y = y.swapaxes(1, 2).reshape(b, s, e)
    want = y @ layer.out_proj.weight.detach().numpy().T + layer.out_proj.bias.detach().numpy()
    given = t(x if batch_first else x.swapaxes(0, 1).copy())
    got, got_weights = layer(given, given, given, need_weights=need_weights, **options)
    close(got, want if batch_first else want.swapaxes(0, 1), 1e-4)
    if need_weights:
        close(got_weights, weights.mean(1), 1e-4)
    else:
        assert got_weights is None


def test_transformer_encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    x = pf.randn(2, 5, 8)
    assert model(x).shape == (2, 5, 8)
    assert model.layers[0].linear1.weight is not model.layers[1].linear1.weight
    # With a causal mask the first position sees nothing of the others.
    mask = pf.ones(5, 5).triu(1).bool()
    y = model(x, mask=mask)
    other = x.clone()
    other[:, 1:] = 0
    close(model(other, mask=mask)[:, 0], y[:, 0].detach().numpy())


# ---- start values and utilities -----------------------------------------------------------------


def test_init_moments():
    pf.manual_seed(0)
    w = pf.empty(200, 300)
    cases = [
        (lambda: nn.init.uniform_(w, -1, 3), 1.0, 4 / math.sqrt(12)),
        (lambda: nn.init.normal_(w, 2, 0.5), 2.0, 0.5),
        (lambda: nn.init.xavier_uniform_(w, 2), 0.0, 2 * math.sqrt(2 / 500)),
        (lambda: nn.init.xavier_normal_(w), 0.0, math.sqrt(2 / 500)),
        (lambda: nn.init.kaiming_uniform_(w, mode="fan_out"), 0.0, math.sqrt(2 / 200)),
        (lambda: nn.init.kaiming_normal_(w, nonlinearity="relu"), 0.0, math.sqrt(2 / 300)),
        (lambda: nn.init.kaiming_normal_(w, a=math.sqrt(5)), 0.0, math.sqrt(1 / 3 / 300)),
    ]
    for fill, mean, std in cases:
        assert fill() is w
        values = w.numpy()
        assert abs(values.mean() - mean) < 0.02 * std + 1e-9
        assert abs(values.std() / std - 1) < 0.02


def test_init_trunc_normal():
    pf.manual_seed(0)
    w = nn.init.trunc_normal_(pf.empty(50000), 0.5, 2.0, -1.0, 3.0)
    stats = pytest.importorskip("scipy.stats")
    want = stats.truncnorm((-1 - 0.5) / 2, (3 - 0.5) / 2, 0.5, 2.0)
    values = w.numpy()
    assert values.min() >= -1 and values.max() <= 3
    assert abs(values.mean() - want.mean()) < 0.02 and abs(values.std() - want.std()) < 0.02
    far = nn.init.trunc_normal_(pf.empty(1000), 0.0, 1.0, 9.0, 10.0).numpy()
    assert far.min() >= 9 and far.max() <= 10
    # Drawn where the tensor is, the same numbers everywhere.
    for shape, args in [((33, 31), (0.5, 2.0, -1.0, 3.0)), ((1000,), (0.0, 1.0, 9.0, 10.0))]:
        drawn = []
        for device in (None, "cpu"):
            pf.manual_seed(11)
            drawn.append(nn.init.trunc_normal_(pf.empty(shape, device=device), *args))
        assert np.array_equal(drawn[0].numpy(), drawn[1].numpy())
    assert nn.init.trunc_normal_(pf.empty(0, 3)).shape == (0, 3)


@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (3, 2, 5)])
def test_init_orthogonal(shape):
    w = nn.init.orthogonal_(pf.empty(shape), gain=2).numpy().reshape(shape[0], -1)
    gram = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-5)


def test_init_others():
    assert nn.init.eye_(pf.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert (nn.init.constant_(pf.empty(3), 7) == 7).all()
    assert (nn.init.ones_(pf.empty(3)) == 1).all() and (nn.init.zeros_(pf.empty(3)) == 0).all()
    assert nn.init.calculate_gain("relu") == math.sqrt(2)
    assert nn.init.calculate_gain("tanh") == 5 / 3
    assert nn.init.calculate_gain("leaky_relu", 0.5) == math.sqrt(2 / 1.25)
    w = nn.init.sparse_(pf.empty(10, 5), 0.3).numpy()
    assert ((w == 0).sum(0) == 3).all()
    with pytest.raises(pf.ValueError, match="nonlinearity"):
        nn.init.calculate_gain("rellu")
    with pytest.raises(pf.ShapeError, match="2 dimensions"):
        nn.init.xavier_uniform_(pf.empty(3))
    p = nn.Parameter(pf.empty(2, 2))
    assert nn.init.normal_(p) is p and p.requires_grad and p.is_leaf


def test_init_is_reproducible():
    pf.manual_seed(5)
    a = nn.Linear(7, 3)
    pf.manual_seed(5)
    b = nn.Linear(7, 3)
    assert (a.weight == b.weight).all() and (a.bias == b.bias).all()


def with_grads(*arrays):
    params = []
    for a in arrays:
        p = nn.Parameter(pf.zeros(a.shape))
        p.grad = t(a)
        params.append(p)
    return params


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, math.inf])
def test_clip_grad_norm(norm_type):
    a, b = array(3, 4), array(5)
    flat = np.concatenate([a.ravel(), b])
    norm = np.linalg.norm(flat, norm_type)
    params = with_grads(a, b)
    got = nn.utils.clip_grad_norm_(params, 0.5, norm_type)
    assert_allclose(got.item(), norm, rtol=1e-5)
    close(params[0].grad, a * 0.5 / norm, 1e-5)
    params = with_grads(a * 1e-4)
    nn.utils.clip_grad_norm_(params, 0.5, norm_type)
    close(params[0].grad, a * 1e-4, 1e-9)


def test_clip_grad_edges():
    assert nn.utils.clip_grad_norm_([nn.Parameter(pf.ones(1))], 1.0).item() == 0
    params = with_grads(np.array([np.nan, 1], np.float32))
    with pytest.raises(RuntimeError, match="finite"):
        nn.utils.clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
    a = array(4) * 3
    params = with_grads(a)
    nn.utils.clip_grad_value_(params, 0.5)
    close(params[0].grad, np.clip(a, -0.5, 0.5), 0)


def test_vector_of_parameters():
    net = nn.Linear(3, 2)
    v = nn.utils.parameters_to_vector(net.parameters())
    assert v.shape == (8,)
    nn.utils.vector_to_parameters(v * 2, net.parameters())
    assert (nn.utils.parameters_to_vector(net.parameters()) == v * 2).all()
