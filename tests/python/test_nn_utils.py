"""nn.utils: parametrizations, norms of weights, pruning, calls with other parameters; Module's rest."""

import copy
import importlib

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pyflame as pf
from pyflame import nn
from pyflame.nn.utils import parametrizations, parametrize, prune, stateless

RNG = np.random.default_rng(12)


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, a):
        return a.triu()


class Twice(nn.Module):
    def forward(self, x):
        return 2 * x

    def right_inverse(self, y):
        return y / 2


class Product(nn.Module):
    def forward(self, a, b):
        return a * b

    def right_inverse(self, x):
        return x.abs(), x.sign()


def test_parametrized_weights():
    layer = nn.Linear(3, 3)
    start, x = layer.weight.detach().clone(), pf.randn(2, 3)
    optimizer = pf.optim.SGD(layer.parameters(), lr=0.5)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert "ParametrizationList" in repr(layer)
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert pf.equal(layer.weight, start.triu() + start.triu(1).mT)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    layer(x).sum().backward()
    original = layer.parametrizations.weight.original
    assert original.grad is not None and original in set(optimizer.param_groups[0]["params"])
    before = original.detach().clone()
    optimizer.step()
    assert not pf.equal(before, original)
    parametrize.register_parametrization(layer, "weight", Twice())
    assert len(layer.parametrizations.weight) == 2
    wanted = pf.ones(3, 3)
    layer.weight = wanted
    assert pf.equal(layer.weight, wanted) and pf.equal(original, pf.ones(3, 3).triu() / 2)
    other = copy.deepcopy(layer)
    other.weight = pf.zeros(3, 3)
    assert pf.equal(layer.weight, wanted) and type(other) is not type(layer)
    fresh = nn.Linear(3, 3)
    parametrize.register_parametrization(fresh, "weight", Symmetric())
    parametrize.register_parametrization(fresh, "weight", Twice())
    fresh.load_state_dict(layer.state_dict())
    assert pf.equal(fresh.weight, wanted)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and layer.weight is original
    assert list(layer.state_dict()) == ["bias", "weight"] and pf.equal(layer.weight, wanted)
    parametrize.remove_parametrizations(fresh, "weight", leave_parametrized=False)
    assert pf.equal(fresh.weight, pf.ones(3, 3).triu() / 2)


def test_assigning_a_parametrized_weight_leaves_what_was_kept():
    """A state_dict() taken before keeps its values, as in PyTorch, and an optimizer its parameters."""
    ways = nn.utils.parametrizations
    twice = lambda m: parametrize.register_parametrization(m, "weight", Twice())  # noqa: E731
    for wrap in (ways.weight_norm, ways.orthogonal, twice):
        layer = wrap(nn.Linear(3, 3))
        parameters = list(layer.parameters())
        kept = layer.state_dict()
        before = {k: v.clone() for k, v in kept.items()}
        wanted = pf.eye(3) * (1.0 if wrap is ways.orthogonal else 2.0)
        layer.weight = wanted.clone()
        assert all(pf.equal(kept[k], before[k]) for k in kept)
        assert all(a is b for a, b in zip(parameters, layer.parameters()))
        assert pf.allclose(layer.weight, wanted, atol=1e-6)
        layer(pf.randn(2, 3)).sum().backward()
        assert all(p.grad is not None for p in parameters)


def test_several_originals_and_caching():
    layer = nn.Linear(2, 2)
    start = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Product())
    assert [n for n, _ in layer.named_parameters()] == [
        "bias", "parametrizations.weight.original0", "parametrizations.weight.original1",
    ]  # fmt: skip
    assert pf.equal(layer.weight, start) and layer.weight is not layer.weight
    with parametrize.cached():
        assert layer.weight is layer.weight
    with pytest.raises(ValueError, match="one original"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    target = nn.Linear(2, 2)
    parametrize.transfer_parametrizations_and_params(layer, target)
    assert pf.equal(target.weight, layer.weight)
    parametrize.remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter) and pf.equal(layer.weight, start)


def test_parametrized_buffers_and_errors():
    norm = nn.BatchNorm1d(3)
    parametrize.register_parametrization(norm, "running_mean", Twice())
    assert "parametrizations.running_mean.original" in dict(norm.named_buffers())
    assert norm.running_mean.tolist() == [0, 0, 0]
    layer = nn.Linear(2, 3)

    class Wider(nn.Module):
        def forward(self, x):
            return pf.cat([x, x])

    with pytest.raises(ValueError, match="shape"):
        parametrize.register_parametrization(layer, "weight", Wider())
    assert type(layer) is nn.Linear and "weight" in layer._parameters
    parametrize.register_parametrization(layer, "weight", Wider(), unsafe=True)
    assert layer.weight.shape == (6, 2)
    with pytest.raises(RuntimeError, match="right_inverse"):
        layer.weight = pf.ones(6, 2)
    with pytest.raises(ValueError, match="no parameter or buffer"):
        parametrize.register_parametrization(layer, "other", Twice())
    with pytest.raises(ValueError, match="no parametrization"):
        parametrize.remove_parametrizations(layer, "bias")


# ---- norms of weights -------------------------------------------------------------------------------


def matrix_layers(t):
    return [
        (t.nn.Linear(4, 3), (2, 4)),
        (t.nn.Conv2d(2, 3, 2), (1, 2, 4, 4)),
        (t.nn.ConvTranspose1d(2, 3, 2), (1, 2, 5)),
    ]


@pytest.mark.cpu_only
@pytest.mark.parametrize("dim", [0, 1, None, -1])
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_weight_norm_beside_pytorch(dim, old):
    torch = pytest.importorskip("torch")
    for (theirs, shape), (ours, _) in zip(matrix_layers(torch), matrix_layers(pf)):
        for t, layer in ((torch, theirs), (pf, ours)):
            utils = t.nn.utils if old else t.nn.utils.parametrizations
            utils.weight_norm(layer, dim=dim)
        state = {k: pf.tensor(v.numpy()) for k, v in theirs.state_dict().items()}
        assert list(state) == list(ours.state_dict())
        ours.load_state_dict(state)
        x = RNG.standard_normal(shape).astype(np.float32)
        for t, layer in ((torch, theirs), (pf, ours)):
            (layer(t.tensor(x)) ** 2).sum().backward()
        for (n, a), b in zip(ours.named_parameters(), theirs.parameters()):
            assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-3, atol=1e-4, err_msg=n)
        if old:
            before = ours(pf.tensor(x))
            nn.utils.remove_weight_norm(ours)
            assert set(ours.state_dict()) == {"weight", "bias"}
            assert_allclose(ours(pf.tensor(x)).detach().numpy(), before.detach().numpy(), rtol=1e-5)
            with pytest.raises(ValueError, match="WeightNorm"):
                nn.utils.remove_weight_norm(ours)


@pytest.mark.cpu_only
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.filterwarnings("ignore:.*spectral_norm.*:FutureWarning")
def test_spectral_norm_beside_pytorch(old):
    torch = pytest.importorskip("torch")
    for (theirs, shape), (ours, _) in zip(matrix_layers(torch), matrix_layers(pf)):
        for t, layer in ((torch, theirs), (pf, ours)):
            utils = t.nn.utils if old else t.nn.utils.parametrizations
            utils.spectral_norm(layer, n_power_iterations=2)
        state = {k: pf.tensor(v.numpy()) for k, v in theirs.state_dict().items()}
        assert list(state) == list(ours.state_dict())
        ours.load_state_dict(state)
        x = RNG.standard_normal(shape).astype(np.float32)
        for _ in range(2):
            results = []
            for t, layer in ((torch, theirs), (pf, ours)):
                for p in layer.parameters():
                    p.grad = None
                y = layer(t.tensor(x))
                (y**2).sum().backward()
                results.append([y.detach().numpy(), *(p.grad.numpy() for p in layer.parameters())])
            for a, b in zip(*results):
                assert_allclose(a, b, rtol=2e-3, atol=2e-4)
        for layer in (ours, theirs):
            layer.eval()
        assert_allclose(
            ours(pf.tensor(x)).detach().numpy(), theirs(torch.tensor(x)).detach().numpy(),
            rtol=1e-3, atol=1e-4,
        )  # fmt: skip


def test_spectral_norm_is_one():
    layer = parametrizations.spectral_norm(nn.Linear(6, 4), n_power_iterations=30)
    assert abs(np.linalg.norm(layer.weight.detach().numpy(), 2) - 1) < 1e-3
    old = nn.utils.spectral_norm(nn.Linear(6, 4), n_power_iterations=30)
    old(pf.ones(1, 6))
    assert abs(np.linalg.norm(old.weight.detach().numpy(), 2) - 1) < 1e-3
    nn.utils.remove_spectral_norm(old)
    assert set(old.state_dict()) == {"weight", "bias"} and isinstance(old.weight, nn.Parameter)
    vector = parametrizations.spectral_norm(nn.LayerNorm(4))
    assert_allclose(vector.weight.detach().numpy(), [0.5] * 4, rtol=1e-6)
    with pytest.raises(ValueError, match="at least 1"):
        parametrizations.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3)])
@pytest.mark.parametrize("how", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("around", [True, False])
def test_orthogonal(shape, how, around):
    layer = nn.Module()
    layer.weight = nn.Parameter(pf.randn(shape, dtype=pf.float64))
    start = layer.weight.detach().numpy().copy()
    parametrizations.orthogonal(layer, orthogonal_map=how, use_trivialization=around)

    def is_orthogonal():
        w = layer.weight.detach().numpy()
        w = w if w.shape[-2] >= w.shape[-1] else w.swapaxes(-2, -1)
        eye = w.swapaxes(-2, -1) @ w
        assert_allclose(eye, np.broadcast_to(np.eye(eye.shape[-1]), eye.shape), atol=1e-10)

    is_orthogonal()
    if around or how == "householder":  # the start is the given matrix made orthogonal
        tall = start if start.shape[-2] >= start.shape[-1] else start.swapaxes(-2, -1)
        q, r = np.linalg.qr(tall)
        q = q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :]
        w = layer.weight.detach().numpy()
        w = w if w.shape[-2] >= w.shape[-1] else w.swapaxes(-2, -1)
        assert_allclose(w, q, atol=1e-9)
        layer.weight = pf.tensor(start)  # what is assigned is projected
        is_orthogonal()
    optimizer = pf.optim.SGD(layer.parameters(), lr=0.1)
    target = pf.randn(shape, dtype=pf.float64)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = ((layer.weight - target) ** 2).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        is_orthogonal()
    assert losses[-1] < losses[0]


def test_orthogonal_errors():
    with pytest.raises(ValueError, match="orthogonal_map"):
        parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="other")
    with pytest.raises(ValueError, match="matrix"):
        parametrizations.orthogonal(nn.LayerNorm(2))
    layer = parametrizations.orthogonal(nn.Linear(3, 3), use_trivialization=False)
    with pytest.raises(NotImplementedError, match="householder"):
        layer.weight = pf.eye(3)


# ---- pruning ----------------------------------------------------------------------------------------


@pytest.mark.cpu_only
def test_pruning_beside_pytorch():
    torch = pytest.importorskip("torch")
    start = RNG.standard_normal((4, 5)).astype(np.float32)
    scores = RNG.standard_normal((4, 5)).astype(np.float32)
    found = []
    for t in (pf, torch):
        p = importlib.import_module(t.__name__ + ".nn.utils.prune")
        layer = t.nn.Linear(5, 4)
        with t.no_grad():
            layer.weight.copy_(t.tensor(start))
        p.l1_unstructured(layer, "weight", 3)
        p.ln_structured(layer, "weight", 0.5, n=2, dim=0)
        p.l1_unstructured(layer, "weight", 0.2, importance_scores=t.tensor(scores))
        masks = [layer.weight_mask.numpy()]
        assert p.is_pruned(layer) and sorted(n for n, _ in layer.named_parameters()) == [
            "bias", "weight_orig",
        ]  # fmt: skip
        layer(t.ones(2, 5)).sum().backward()
        masks.append(layer.weight_orig.grad.numpy())
        two = t.nn.Sequential(copy.deepcopy(t.nn.Linear(5, 4)), t.nn.Linear(4, 2))
        with t.no_grad():
            two[0].weight.copy_(t.tensor(start))
            two[1].weight.copy_(t.tensor(start[:2, :4] * 2))
        p.global_unstructured(
            [(two[0], "weight"), (two[1], "weight")], pruning_method=p.L1Unstructured, amount=0.4
        )
        masks += [two[0].weight_mask.numpy(), two[1].weight_mask.numpy()]
        p.remove(layer, "weight")
        masks.append(layer.weight.detach().numpy())
        assert not p.is_pruned(layer)
        found.append(masks)
    for a, b in zip(*found):
        assert_allclose(a, b, rtol=1e-6)


def test_pruning():
    layer = prune.random_unstructured(nn.Linear(10, 10), "weight", 0.3)
    assert layer.weight_mask.sum().item() == 70
    assert len(layer._forward_pre_hooks) == 1
    prune.random_structured(layer, "weight", 2, dim=1)
    assert int((layer.weight_mask.sum(0) == 0).sum().item()) >= 2
    assert isinstance(next(iter(layer._forward_pre_hooks.values())), prune.PruningContainer)
    with pf.no_grad():
        layer.weight_orig.fill_(1.0)
    layer(pf.ones(1, 10))
    assert pf.equal(layer.weight, layer.weight_mask)
    state = layer.state_dict()
    assert set(state) == {"bias", "weight_orig", "weight_mask"}
    prune.custom_from_mask(layer, "weight", pf.zeros(10, 10))
    assert layer.weight.abs().sum().item() == 0
    same = prune.identity(nn.Linear(2, 2), "bias")
    assert same.bias_mask.tolist() == [1, 1]
    assert prune.L1Unstructured(1).prune(pf.tensor([3.0, -1.0])).tolist() == [3, 0]
    for call, error in (
        (lambda: prune.l1_unstructured(nn.Linear(2, 2), "weight", 5), ValueError),
        (lambda: prune.l1_unstructured(nn.Linear(2, 2), "weight", 1.5), ValueError),
        (lambda: prune.l1_unstructured(nn.Linear(2, 2), "weight", "1"), TypeError),
        (lambda: prune.ln_structured(nn.Linear(2, 2), "bias", 1, 2, 0), ValueError),
        (lambda: prune.remove(nn.Linear(2, 2), "weight"), ValueError),
    ):
        with pytest.raises(error):
            call()
    whole = nn.Linear(2, 2)
    with pytest.raises(ValueError):
        prune.l1_unstructured(whole, "weight", 5)
    assert set(whole.state_dict()) == {"weight", "bias"}  # nothing was half done


# ---- calls with other parameters ----------------------------------------------------------------------


def test_functional_call():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight
            self.register_buffer("count", pf.zeros(()))

        def forward(self, x, factor=1):
            self.count = self.count + 1
            return self.b(self.a(x)) * factor

    model, x = Tied(), pf.randn(3, 2)
    before = model(x)
    other = pf.randn(2, 2, requires_grad=True)
    got = stateless.functional_call(model, {"a.weight": other}, (x,), {"factor": 2})
    assert_allclose(got.detach().numpy(), (x @ other.mT @ other.mT * 2).detach().numpy(), rtol=1e-5)
    got.sum().backward()
    assert other.grad is not None and model.a.weight.grad is None
    assert pf.equal(model(x), before)
    loose = stateless.functional_call(model, {"a.weight": other}, x, tie_weights=False)
    want = x @ other.mT @ model.a.weight.mT
    assert_allclose(loose.detach().numpy(), want.detach().numpy(), rtol=1e-5)
    state = {"count": pf.tensor(5.0)}
    count = model.count.item()
    stateless.functional_call(model, [state, {"a.weight": other}], x)
    assert state["count"].item() == 5 and model.count.item() == count
    buffers = dict(model.named_buffers())
    stateless.functional_call(model, buffers, x)
    assert buffers["count"].item() == count + 1 and model.count.item() == count
    for arguments, error, words in (
        (({"c.weight": other}, x), AttributeError, "submodule"),
        (({"a.weight": other, "b.weight": other * 2}, x), ValueError, "different values"),
        (({"a.weight": 1}, x), TypeError, "tensor"),
        (([{"a.weight": other}, {"a.weight": other}], x), ValueError, "two dicts"),
    ):
        with pytest.raises(error, match=words):
            stateless.functional_call(model, *arguments)
    with pytest.raises(RuntimeError, match="missing"):
        stateless.functional_call(model, {"a.weight": other}, x, strict=True)
    # A name that the module lacks is an attribute for the call, and no longer.
    assert pf.equal(stateless.functional_call(model, {"a.other": other}, x), before)
    assert not hasattr(model.a, "other")
    with pytest.raises(pf.PyFlameError):
        stateless.functional_call(model, {"a.weight": pf.ones(3, 3)}, x)
    assert pf.equal(model(x), before)


# ---- Module -------------------------------------------------------------------------------------------------


def test_buffers_by_assignment():
    class Owner(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Buffer(pf.ones(2))
            self.b = nn.Buffer(pf.zeros(2), persistent=False)

    owner = Owner()
    assert list(dict(owner.named_buffers())) == ["a", "b"] and list(owner.state_dict()) == ["a"]
    assert type(owner.a + 1) is pf.Tensor and isinstance(owner.a, nn.Buffer)
    owner.a = pf.zeros(2)
    assert owner.state_dict()["a"].tolist() == [0, 0]
    assert list(copy.deepcopy(owner).state_dict()) == ["a"]
    lazy = nn.UninitializedBuffer()
    assert nn.parameter.is_lazy(lazy) and nn.parameter.is_lazy(nn.UninitializedParameter())
    lazy.materialize((2, 3))
    assert lazy.shape == (2, 3) and not nn.parameter.is_lazy(lazy)


def test_paths_of_modules():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
    model.set_submodule("1.0", nn.Tanh())
    assert isinstance(model[1][0], nn.Tanh)
    model.set_submodule("1.new", nn.ReLU())
    assert list(model[1]._modules) == ["0", "new"]
    with pytest.raises(AttributeError):
        model.set_submodule("1.other", nn.ReLU(), strict=True)
    with pytest.raises(AttributeError):
        model.set_submodule("2.0", nn.ReLU())
    with pytest.raises(ValueError):
        model.set_submodule("", nn.ReLU())
    with pytest.raises(ValueError, match="Module"):
        model.set_submodule("0", 5)
    assert model.share_memory() is model and model.compile() is None
    empty = model.to_empty(device="cpu")
    assert empty is model and model[0].weight.shape == (2, 2)


def test_hooks_before_gradients_and_everywhere():
    seen = []
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    x = pf.ones(1, 2, requires_grad=True)
    handle = model.register_full_backward_pre_hook(lambda m, g: (g[0] * 2,))
    model(x).sum().backward()
    doubled = x.grad.clone()
    handle.remove()
    x.grad = None
    model(x).sum().backward()
    assert pf.equal(doubled, x.grad * 2)
    module = nn.modules.module
    handles = [
        module.register_module_forward_pre_hook(lambda m, a: seen.append(("pre", type(m)))),
        module.register_module_forward_hook(lambda m, a, r: seen.append(("after", type(m)))),
        module.register_module_full_backward_hook(lambda m, i, o: seen.append(("back", type(m)))),
    ]
    model(x).sum().backward()
    for handle in handles:
        handle.remove()
    kinds = [k for k, t in seen if t is nn.Linear]
    assert kinds == ["pre", "after", "back"] and ("after", nn.Sequential) in seen
    count = len(seen)
    model(x)
    assert len(seen) == count
    names = []
    handles = [
        module.register_module_parameter_registration_hook(lambda m, n, p: names.append(n)),
        module.register_module_module_registration_hook(lambda m, n, p: names.append(n)),
        module.register_module_buffer_registration_hook(lambda m, n, p: names.append(n)),
    ]
    owner = nn.Module()
    owner.layer = nn.Linear(1, 1)
    owner.register_buffer("b", pf.ones(1))
    for handle in handles:
        handle.remove()
    assert names == ["weight", "bias", "layer", "b"]


def test_clipping_and_vectors():
    p = nn.Parameter(pf.ones(4))
    p.grad = pf.tensor([3.0, 4.0, 0.0, 0.0])
    assert nn.utils.get_total_norm([p.grad]).item() == 5
    nn.utils.clip_grads_with_norm_([p], 1.0, pf.tensor(5.0))
    assert_allclose(p.grad.numpy(), [0.6, 0.8, 0, 0], rtol=1e-5)
    with pytest.warns(FutureWarning):
        nn.utils.clip_grad_norm([p], 0.5)
    assert_allclose(p.grad.norm().item(), 0.5, rtol=1e-4)
    with pytest.raises(RuntimeError, match="not finite"):
        nn.utils.get_total_norm([pf.tensor([float("inf")])], error_if_nonfinite=True)
    conv = nn.Sequential(nn.Conv2d(4, 4, 3), nn.Conv3d(2, 2, 1))
    nn.utils.convert_conv2d_weight_memory_format(conv, pf.channels_last)
    assert conv[0].weight.is_contiguous(memory_format=pf.channels_last)
    nn.utils.convert_conv3d_weight_memory_format(conv, pf.channels_last_3d)
    state = pf.get_rng_state()
    layer = nn.utils.skip_init(nn.Linear, 3, 4, dtype=pf.float64)
    assert type(layer) is nn.Linear and layer.weight.dtype == pf.float64
    assert pf.equal(pf.get_rng_state(), state)
    with pytest.raises(RuntimeError, match="device"):
        nn.utils.skip_init(nn.ReLU)


def test_start_values_by_their_old_names():
    w = pf.empty(4, 3, 2)
    assert nn.init._calculate_fan_in_and_fan_out(w) == (6, 8)
    assert nn.init._calculate_correct_fan(w, "fan_out") == 8
    with pytest.raises(ValueError):
        nn.init._calculate_fan_in_and_fan_out(pf.empty(3))
    with pytest.warns(FutureWarning, match="uniform_"):
        nn.init.uniform(w, 2, 3)
    assert 2 <= w.min().item() and w.max().item() <= 3
    with pytest.warns(FutureWarning):
        assert nn.init.constant(w, 5.0) is w and bool((w == 5).all())


# Module path, and names that programs import from it.
PATHS = {
    "nn.modules": "Module Linear",
    "nn.modules.activation": "ReLU MultiheadAttention",
    "nn.modules.batchnorm": "BatchNorm2d _BatchNorm _NormBase SyncBatchNorm",
    "nn.modules.container": "Sequential ModuleList",
    "nn.modules.conv": "Conv2d _ConvNd _ConvTransposeNd LazyConv2d",
    "nn.modules.dropout": "Dropout _DropoutNd",
    "nn.modules.instancenorm": "InstanceNorm2d",
    "nn.modules.lazy": "LazyModuleMixin",
    "nn.modules.linear": "Linear Identity NonDynamicallyQuantizableLinear",
    "nn.modules.loss": "_Loss _WeightedLoss CrossEntropyLoss",
    "nn.modules.module": "Module _EXTRA_STATE_KEY_SUFFIX _IncompatibleKeys _addindent register_module_forward_hook",
    "nn.modules.normalization": "LayerNorm GroupNorm",
    "nn.modules.padding": "ZeroPad2d _ConstantPadNd",
    "nn.modules.pooling": "MaxPool2d AdaptiveAvgPool2d _MaxPoolNd _AvgPoolNd _AdaptiveMaxPoolNd",
    "nn.modules.rnn": "LSTM RNNBase",
    "nn.modules.sparse": "Embedding EmbeddingBag",
    "nn.modules.transformer": "Transformer TransformerEncoderLayer",
    "nn.modules.upsampling": "Upsample",
    "nn.modules.utils": "_single _pair _triple _ntuple consume_prefix_in_state_dict_if_present",
    "nn.common_types": "_size_2_t _size_any_t",
    "nn.parallel.distributed": "DistributedDataParallel",
    "nn.parallel.data_parallel": "DataParallel data_parallel",
    "nn.utils.clip_grad": "clip_grad_norm_",
    "nn.utils.convert_parameters": "parameters_to_vector",
    "nn.utils.weight_norm": "weight_norm WeightNorm",
    "nn.utils.spectral_norm": "spectral_norm SpectralNorm",
    "nn.utils.parametrizations": "weight_norm",
    "optim.adamw": "AdamW",
    "optim.rmsprop": "RMSprop",
    "optim.optimizer": "Optimizer required",
    "utils.data._utils.collate": "default_collate",
}


@pytest.mark.parametrize("path", PATHS)
def test_module_paths(path):
    module = importlib.import_module("pyflame." + path)
    for name in PATHS[path].split():
        assert getattr(module, name) is not None
    assert dir(module)
    with pytest.raises(AttributeError, match="no attribute"):
        _ = module.nothing


def test_functions_named_as_modules():
    importlib.import_module("pyflame.nn.utils.weight_norm")
    layer = pf.nn.utils.weight_norm(nn.Linear(2, 2))
    assert "weight_g" in layer.state_dict()
    assert nn.modules.utils._pair(3) == (3, 3) and nn.modules.utils._pair((1, 2)) == (1, 2)
    state = nn.DataParallel(nn.Linear(1, 1)).state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["weight", "bias"]


@pytest.mark.parametrize("order", [0.0, -1.0, -2.0, float("-inf")])
def test_clip_by_orders_of_zero_and_below(order):
    # The norm of the tensors' norms; an iterator of parameters is read once.
    values = np.array([3.0, 0.5, -4.0]), np.array([2.0, 1.0])
    params = [nn.Parameter(pf.zeros(v.shape, dtype=pf.float64)) for v in values]
    for p, v in zip(params, values):
        p.grad = pf.tensor(v)
    norm = np.linalg.norm([np.linalg.norm(v, order) for v in values], order)
    assert_allclose(nn.utils.get_total_norm([p.grad for p in params], order).item(), norm)
    assert_allclose(nn.utils.clip_grad_norm_(iter(params), 0.1, order).item(), norm)
    for p, v in zip(params, values):
        assert_allclose(p.grad.numpy(), v * min(1.0, 0.1 / (norm + 1e-6)))
