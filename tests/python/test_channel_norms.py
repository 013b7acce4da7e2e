"""Norms of channels against NumPy in float64: values, gradients, second ones, running statistics."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from rows_helpers import FLOATS, check, gradcheck, values_of

import pyflame as pf
from pyflame import nn

pytestmark = pytest.mark.kernels(0.5)

F = nn.functional
EPS = 1e-5


def beside(t, n):
    return (
        t.reshape(*t.shape[: t.ndim - 1], -1, *[1] * (n - 2))
        if t.ndim > 1
        else t.reshape(1, -1, *[1] * (n - 2))
    )


def normalized(x, mean, var, w, b):
    return (x - mean) / np.sqrt(var + EPS) * beside(w, x.ndim) + beside(b, x.ndim)


def moments(x, groups):
    """Mean and variance beside the elements: of channels (0), or of groups of each example."""
    if groups == 0:
        axes = (0, *range(2, x.ndim))
        return x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    cells = x.reshape(x.shape[0], groups, -1)
    shape = (*x.shape[:2], *[1] * (x.ndim - 2))
    each = x.shape[1] // groups
    return [np.repeat(f(cells, 2), each, 1).reshape(shape) for f in (np.mean, np.var)]


def gradients(x, g, w, groups, fixed=None):
    axes = (0, *range(2, x.ndim))
    mean, var = fixed or moments(x, groups)
    rstd = 1 / np.sqrt(var + EPS)
    hat, h = (x - mean) * rstd, g * beside(w, x.ndim)
    dx = h
    if not fixed:
        dx = h - moments(h, groups)[0] - hat * moments(h * hat, groups)[0]
    return dx * rstd, (g * hat).sum(axes), g.sum(axes)


def last(t):
    """The same with channels side by side in memory."""
    order = [0, *range(2, t.ndim), 1]
    back = [0, t.ndim - 1, *range(1, t.ndim - 1)]
    return t.permute(*order).contiguous().permute(*back)


def lies_like(a, b):
    both = zip(a.stride(), b.stride(), b.shape)
    return all(p == q for p, q, n in both if n > 1)


@st.composite
def problems(draw):
    groups = draw(st.sampled_from([0, 0, 1, 2, 3]))
    channels = max(groups, 1) * draw(st.integers(1, 5))
    if draw(st.booleans()) and groups:
        groups = channels  # each by itself
    space = draw(st.sampled_from([(), (1,), (17,), (2, 3), (7, 7), (5, 16), (1, 1), (2, 3, 4)]))
    batch = draw(st.sampled_from([1, 2, 5, 33]))
    if groups == 0 and batch * int(np.prod(space)) == 1:
        batch = 2
    if groups and channels // groups * int(np.prod(space)) == 1:
        space = (3, 3)
    return {
        "shape": (batch, channels, *space),
        "groups": groups,
        "last": draw(st.booleans()),
        "far": draw(st.sampled_from([0, 0, 100])),
        "seed": draw(st.integers(0, 1000)),
    }


def call(problem, x, *parameters, **how):
    if problem["groups"] == 0:
        return F.batch_norm(x, None, None, *parameters, training=True, **how)
    if problem["groups"] == x.shape[1]:
        return F.instance_norm(x, None, None, *parameters, **how)
    return F.group_norm(x, problem["groups"], *parameters, **how)


@pytest.mark.races
@settings(max_examples=80, deadline=None)
@given(problems(), st.sampled_from(FLOATS))
def test_values_and_gradients(problem, dtype):
    rng = np.random.default_rng(problem["seed"])
    far = 0 if dtype in (pf.float16, pf.bfloat16) else problem["far"]
    t = pf.tensor(rng.standard_normal(problem["shape"]) * 2 + far).to(dtype)
    t = last(t) if problem["last"] else t
    channels = t.shape[1]
    w, b = (pf.tensor(rng.standard_normal(channels)).to(dtype) for _ in range(2))
    leaves = [v.requires_grad_() for v in (t, w, b)]
    y = call(problem, *leaves)
    x, ws, bs = map(values_of, leaves)
    assert y.dtype == dtype and lies_like(y, t)
    check(y, normalized(x, *moments(x, problem["groups"]), ws, bs), dtype, 8 + far)
    g = pf.tensor(rng.standard_normal(t.shape)).to(dtype)
    got = pf.autograd.grad(y, leaves, g)
    assert lies_like(got[0], t)
    for a, want in zip(got, gradients(x, values_of(g), ws, problem["groups"])):
        # Of the places that are near to each other.
        check(a, want, dtype, (8 + far) * (1 + 1000 * (t.numel() // channels < 4)))


@settings(max_examples=12, deadline=None)
@given(problems())
def test_second_derivatives(problem):
    rng = np.random.default_rng(problem["seed"])
    shape = (min(problem["shape"][0], 3), *problem["shape"][1:])
    if np.prod(shape) > 90 or np.prod(shape) // shape[1] < 3:
        shape = (3, max(problem["groups"], 2), 3)
    if problem["groups"] and shape[1] % problem["groups"]:
        return
    x, w, b = (rng.standard_normal(s) for s in (shape, shape[1], shape[1]))
    gradcheck(lambda *t: call(problem, *t), x, w, b, tol=1e-6)


def test_second_derivatives_in_evaluation():
    rng = np.random.default_rng(0)
    mean, var = pf.tensor(rng.standard_normal(3)), pf.tensor(rng.random(3) + 0.5)
    x, w, b = (rng.standard_normal(s) for s in ((2, 3, 4), 3, 3))
    gradcheck(lambda x, w, b: F.batch_norm(x, mean, var, w, b), x, w, b)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("format", [pf.contiguous_format, pf.channels_last])
def test_evaluation(dtype, format):
    rng = np.random.default_rng(1)
    t = pf.tensor(rng.standard_normal((3, 5, 4, 6)) + 2).to(dtype).contiguous(memory_format=format)
    mean, var, w, b = (pf.tensor(rng.random(5) + 0.5).to(dtype) for _ in range(4))
    leaves = [v.requires_grad_() for v in (t, w, b)]
    y = F.batch_norm(t, mean, var, w, b)
    x, m, v, ws, bs = map(values_of, (t, mean, var, w, b))
    m, v = beside(m, 4), beside(v, 4)
    check(y, normalized(x, m, v, ws, bs), dtype, 4)
    g = pf.tensor(rng.standard_normal(t.shape)).to(dtype)
    for a, want in zip(pf.autograd.grad(y, leaves, g), gradients(x, values_of(g), ws, 0, (m, v))):
        check(a, want, dtype, 8)
    assert y.is_contiguous(memory_format=format)


def test_statistics_that_lie_apart():
    x, w = pf.randn(3, 2, 4, dtype=pf.float64), pf.ones(2, dtype=pf.float64)
    stats = pf.rand(2, 6, dtype=pf.float64) + 0.5
    found = []
    for mean, var in ((stats[:, 0], stats[:, 3]), (stats[:, 0].clone(), stats[:, 3].clone())):
        given = x.clone().requires_grad_(), w.clone().requires_grad_()
        y = F.batch_norm(given[0], mean, var, given[1], pf.zeros(2, dtype=pf.float64))
        found.append((y, *pf.autograd.grad(y.square().sum(), given)))
    for a, b in zip(*found):
        assert pf.equal(a, b)


@pytest.mark.parametrize("stats", [pf.float32, pf.bfloat16])
def test_sixteen_bits_with_float32_beside_them(stats):
    x = (pf.randn(4, 6, 5, 5) * 3 + 1).bfloat16().requires_grad_()
    w, b = pf.rand(6).to(stats).requires_grad_(), pf.rand(6).to(stats).requires_grad_()
    mean, var = pf.zeros(6, dtype=stats), pf.ones(6, dtype=stats)
    y = F.batch_norm(x, mean, var, w, b, True)
    wide = F.batch_norm(x.float(), None, None, w.float(), b.float(), True)
    assert y.dtype == pf.bfloat16 and pf.equal(y, wide.bfloat16())
    grads = pf.autograd.grad(y.float().square().sum(), (x, w, b))
    assert [g.dtype for g in grads] == [pf.bfloat16, stats, stats]
    check(mean, values_of(x).mean((0, 2, 3)) * 0.1, stats)
    with pytest.raises(TypeError, match="got weight of dtype float64"):
        F.batch_norm(x, mean, var, w.double())


@pytest.mark.parametrize("make", [nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d])
@pytest.mark.parametrize("momentum", [0.1, 0.7, None])
def test_running_statistics(make, momentum):
    dims = int(make.__name__[-2])
    rng = np.random.default_rng(2)
    m = make(4, momentum=momentum)
    assert list(m.state_dict()) == [
        "weight", "bias", "running_mean", "running_var", "num_batches_tracked",
    ]  # fmt: skip
    mean, var = np.zeros(4), np.ones(4)
    for step in range(3):
        x = rng.standard_normal((3, 4, *(5, 3, 2)[:dims])) * (step + 1) + step
        before = m.running_mean
        m(pf.tensor(x, dtype=pf.float32))
        axes = (0, *range(2, x.ndim))
        by = 1 / (step + 1) if momentum is None else momentum
        mean = mean * (1 - by) + x.mean(axes) * by
        var = var * (1 - by) + x.var(axes, ddof=1) * by
        assert before is m.running_mean and m.num_batches_tracked.item() == step + 1
        check(m.running_mean, mean)
        check(m.running_var, var)
    m.eval()
    y = m(pf.tensor(x, dtype=pf.float32))
    ones = np.ones(4)
    check(y, normalized(x, beside(mean, x.ndim), beside(var, x.ndim), ones, 0 * ones), scale=4)
    assert m.num_batches_tracked.item() == 3
    m.reset_running_stats()
    assert not m.running_mean.any() and m.running_var.tolist() == [1] * 4


def test_running_statistics_are_written_in_place():
    m = nn.BatchNorm2d(3)
    seen, x = m.running_mean.view(3, 1), pf.randn(2, 3, 4, 4)
    kept = m.running_mean * 1
    version = m.running_mean._version
    m(x)
    assert m.running_mean._version > version and not kept.any()
    assert pf.equal(seen.flatten(), m.running_mean)
    # In evaluation they are what the gradient looks at.
    m.eval()
    y = m(x.requires_grad_())
    m.running_mean.add_(1)
    with pytest.raises(RuntimeError, match="changed in place"):
        y.sum().backward()


def test_without_affine_or_statistics():
    x = pf.randn(4, 3, 5, 5)
    plain = F.batch_norm(x, None, None, training=True)
    for how in ({"affine": False}, {"track_running_stats": False}):
        m = nn.BatchNorm2d(3, **how)
        assert pf.equal(m(x), plain)
        if "affine" in how:
            assert m.weight is None and len(m.state_dict()) == 3
        else:
            m.eval()  # there is nothing else
            assert pf.equal(m(x), plain) and list(m.state_dict()) == ["weight", "bias"]
            assert m.num_batches_tracked is None


def test_old_states_have_no_count():
    m, old = nn.BatchNorm1d(3), nn.BatchNorm1d(3).state_dict()
    old["weight"].fill_(2)
    del old["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        m.load_state_dict(old)
    old._metadata[""]["version"] = 1
    m.load_state_dict(old)
    assert m.weight.tolist() == [2] * 3
    nn.BatchNorm1d(3).load_state_dict(dict(old))


def test_instances():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 3, 6, 4)) * 2 + 1
    t = pf.tensor(x, dtype=pf.float32)
    m = nn.InstanceNorm2d(3, affine=True, track_running_stats=True)
    with pf.no_grad():
        m.weight.fill_(2), m.bias.fill_(0.5)
    two = np.full(3, 2.0)
    check(m(t), normalized(x, *moments(x, 3), two, two / 4), scale=4)
    check(m.running_mean, 0.1 * x.mean((2, 3)).mean(0))
    check(m.running_var, 0.9 + 0.1 * x.var((2, 3), ddof=1).mean(0))
    m.eval()
    mean, var = (beside(values_of(s), 4) for s in (m.running_mean, m.running_var))
    check(m(t), normalized(x, mean, var, two, two / 4), scale=4)
    m = nn.InstanceNorm2d(3)
    assert m.weight is None and not m.state_dict()
    assert pf.equal(m(t[0]), m(t)[0]) and pf.equal(m.eval()(t), m.train()(t))
    with pytest.raises(ValueError, match="got 2 channels|with 2 channels"):
        nn.InstanceNorm1d(3, affine=True)(pf.ones(1, 2, 4))


def test_groups_as_a_layer():
    m = nn.GroupNorm(2, 6)
    x = pf.randn(3, 6, 5)
    assert pf.equal(m(x), F.group_norm(x, 2, m.weight, m.bias))
    assert repr(m) == "GroupNorm(2, 6, eps=1e-05, affine=True, bias=True)"
    assert repr(nn.BatchNorm1d(3)) == (
        "BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"
    )
    with pytest.raises(ValueError, match="groups that divide"):
        nn.GroupNorm(4, 6)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 12])
@pytest.mark.parametrize("shape", [(2, 5, 3), (1, 1, 2, 2), (2, 7, 3, 2)])
def test_local_response(size, shape):
    x = np.random.default_rng(4).standard_normal(shape)
    around = [(0, 0)] * x.ndim
    around[1] = (size // 2, (size - 1) // 2)
    wide = np.pad(x * x, around)
    m = sum(wide[:, i : i + shape[1]] for i in range(size)) / size
    t = pf.tensor(x)
    check(F.local_response_norm(t, size, 0.3, 0.6, 1.5), x / (1.5 + 0.3 * m) ** 0.6, pf.float64)
    layer = nn.LocalResponseNorm(size, 0.3, 0.6, 1.5)
    assert pf.equal(layer(t), F.local_response_norm(t, size, 0.3, 0.6, 1.5))
    if x.size < 20:
        gradcheck(lambda t: F.local_response_norm(t, size, 0.3, 0.6, 1.5), x)


@pytest.mark.parametrize("format", [pf.contiguous_format, pf.channels_last])
def test_layouts_give_what_rows_give(format):
    x = pf.randn(3, 6, 8, 5) + 3
    sliced = pf.zeros(3, 8, 9, 11)[:, 1:7, 1:, ::2][..., :5].copy_(x)
    odd = x.permute(2, 0, 3, 1).contiguous().permute(1, 3, 0, 2)
    wide = pf.randn(3, 6, 8, 1).expand(3, 6, 8, 5)
    g = pf.randn(3, 6, 8, 5)
    for t in (x.contiguous(memory_format=format), sliced, odd, wide):
        for f in (
            lambda t: F.batch_norm(t, None, None, training=True),
            lambda t: F.group_norm(t, 2),
            lambda t: F.instance_norm(t),
        ):
            for h in (g, g.contiguous(memory_format=format), pf.ones(1).expand(g.shape)):
                a = t.detach().requires_grad_()
                b = t.contiguous().clone().requires_grad_()
                assert_allclose(f(a).detach().numpy(), f(b).detach().numpy(), atol=2e-5)
                f(a).backward(h)
                f(b).backward(h.contiguous())
                assert_allclose(a.grad.numpy(), b.grad.numpy(), atol=2e-5)


def test_equal_values_and_far_ones():
    for value in (0.1, 3e5, -7e10):
        x = pf.full((4, 3, 5, 6), value)
        for t in (x, last(x)):
            assert not F.batch_norm(t, None, None, training=True).any()
            assert not F.group_norm(t, 3).any()
    x = pf.randn(64, 2, 9).double()
    near = F.batch_norm(x, None, None, training=True)
    for t in (x + 1e6, last(x + 1e6)):
        assert_allclose(F.batch_norm(t, None, None, training=True).numpy(), near.numpy(), atol=1e-8)
    # One value that is like no other, first and last.
    for at in (0, -1):
        t = pf.randn(40, 1, 100).double()
        t[at, 0, at] = 1e4
        want = normalized(t.numpy(), *moments(t.numpy(), 0), np.ones(1), np.zeros(1))
        check(F.batch_norm(t.float(), None, None, training=True), want, pf.float32, 4)


def test_nan_and_inf_stay_in_their_channel():
    for bad in (float("nan"), float("inf")):
        x = pf.randn(3, 4, 5, 5)
        x[1, 2, 3, 3] = bad
        for t in (x, last(x)):
            y = F.batch_norm(t, None, None, training=True)
            assert y[:, 2].isnan().all() and not y[:, [0, 1, 3]].isnan().any()
            y = F.instance_norm(t)
            assert y[1, 2].isnan().all() and y.isnan().sum() == 25


def test_empty_ones():
    m = nn.BatchNorm2d(3)
    for shape in ((0, 3, 4, 4), (2, 3, 0, 4)):
        x = pf.zeros(*shape, requires_grad=True)
        y = m(x)
        assert y.shape == shape
        y.sum().backward()
        assert x.grad.shape == shape and not m.weight.grad.any() and not m.bias.grad.any()
        for f in (lambda x: F.group_norm(x, 3), F.instance_norm, m.eval()):
            assert f(x).shape == shape
        m.train()
    assert not m.running_mean.any() and m.num_batches_tracked.item() == 2
    for f in (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        lambda x, w, b: F.group_norm(x, 1, w, b),
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
    ):  # gradients have gradients, too
        leaves = [pf.ones(*s, requires_grad=True) for s in ((0, 3, 4, 4), (3,), (3,))]
        grads = pf.autograd.grad(f(*leaves).sin().sum(), leaves, create_graph=True)
        again = pf.autograd.grad(sum(g.sin().sum() for g in grads), leaves)
        assert [t.shape for t in again] == [t.shape for t in leaves]
        assert not any(t.any() for t in (*grads, *again))
    assert F.batch_norm(pf.zeros(2, 0, 3), None, None, training=True).shape == (2, 0, 3)
    assert F.local_response_norm(pf.zeros(2, 0, 3), 2).shape == (2, 0, 3)


@pytest.mark.cpu_only
def test_results_do_not_depend_on_threads():
    def results(threads, t):
        before = pf.get_num_threads()
        pf.set_num_threads(threads)
        try:
            x = t.detach().clone().requires_grad_()
            w = pf.ones(t.shape[1], requires_grad=True)
            y = F.batch_norm(x, None, None, w, training=True)
            y.backward(g)
            return [v.numpy() for v in (y.detach(), x.grad, w.grad)]
        finally:
            pf.set_num_threads(before)

    for shape in ((9, 20, 31, 29), (40, 70, 7, 7), (3000, 40)):
        x, g = pf.randn(*shape), pf.randn(*shape)
        for t in (x, last(x)):
            one = results(1, t)
            for threads in (2, 3):
                for a, b in zip(one, results(threads, t)):
                    assert (a == b).all()


@pytest.mark.parametrize("relu", [False, True])
def test_what_follows_runs_in_the_same_pass(relu):
    x, w, b = (pf.randn(s, requires_grad=True) for s in ((8, 4, 64, 64), (4,), (4,)))
    g, rest = pf.randn(8, 4, 64, 64), pf.randn(8, 4, 64, 64)
    mean, var = pf.zeros(4), pf.ones(4)

    def step():
        y = F.batch_norm(x, mean, var, w, b, True)
        if relu:
            y = (y + rest).relu()
        y.backward(g)

    report = pf.explain(step)
    groups = report.groups
    # The statistics with all of channels, the result, the sums with all of channels, the gradient.
    # What is before the sums joins them; where kernels give all of channels, what follows, too.
    apart = 3 if relu else 4
    assert sum(group["count"] for group in groups) == (
        apart if pf.get_device().type in ("rocm", "cuda") else 2
    )
    assert not report.copies


def test_a_convolution_and_its_norm_become_one():
    x = pf.randn(2, 4, 6, 6)
    for bias in (True, False):
        for how in ({}, {"affine": False}):
            bn = nn.BatchNorm2d(6, **how)
            for conv in (nn.Conv2d(4, 6, 3, groups=2, bias=bias), nn.ConvTranspose2d(4, 6, 2)):
                bn.train()(conv(x) * 3 + 1)
                pair = nn.Sequential(conv, bn).eval()
                one = nn.utils.fuse_conv_bn_eval(conv, bn, isinstance(conv, nn.ConvTranspose2d))
                assert_allclose(one(x).detach().numpy(), pair(x).detach().numpy(), atol=1e-5)
                assert type(one) is type(conv) and not one.training
    linear, bn = nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6)
    bn(linear(pf.randn(9, 4)))
    with pytest.raises(AssertionError, match="evaluation mode"):
        nn.utils.fuse_linear_bn_eval(linear, bn)
    one, x = nn.utils.fuse_linear_bn_eval(linear.eval(), bn.eval()), pf.randn(3, 4)
    assert_allclose(one(x).detach().numpy(), bn(linear(x)).detach().numpy(), atol=1e-5)
    assert linear.bias is None and one.bias.shape == (6,)


def test_lazy_layers():
    model = nn.Sequential(
        nn.LazyConv2d(8, 3, groups=2), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(5)
    )
    assert repr(model[0]) == "LazyConv2d(0, 8, kernel_size=(3, 3), stride=(1, 1), groups=2)"
    before, x = list(model.parameters()), pf.randn(3, 4, 6, 6)
    again = copy.deepcopy(model).double()
    optimizer = pf.optim.SGD(before, lr=0.01)
    with pytest.raises(ValueError, match="3-d or 4-d"):
        model(pf.randn(4))
    model(x).square().sum().backward()
    assert [type(m) for m in model] == [nn.Conv2d, nn.BatchNorm2d, nn.Flatten, nn.Linear]
    assert (model[0].in_channels, model[1].num_features, model[3].in_features) == (4, 8, 128)
    assert all(p is q for p, q in zip(before, model.parameters()))
    old = model[3].weight.detach().clone()
    optimizer.step()
    assert not pf.equal(old, model[3].weight)
    again.load_state_dict(model.state_dict())
    assert_allclose(
        again.eval()(x.double()).detach().numpy(),
        model.eval()(x).detach().numpy(),
        atol=1e-4,
        rtol=1e-5,
    )
    assert again[1].running_mean.dtype == pf.float64
    assert nn.LazyInstanceNorm1d()(pf.randn(3, 5)).shape == (3, 5)
    assert nn.LazyConvTranspose1d(4, 2)(pf.randn(3, 5)).shape == (4, 6)
    assert nn.LazyBatchNorm1d(affine=False)(pf.randn(3, 5)).shape == (3, 5)


def test_lazy_parameters_have_no_shape():
    for without in (nn.LazyLinear(3).weight, nn.UninitializedBuffer()):
        with pytest.raises(
            RuntimeError, match="Can't access the shape of an uninitialized parameter"
        ):
            without.shape  # noqa: B018 (raises)
    lazy = pickle.loads(pickle.dumps(nn.LazyLinear(3)))
    for keep in (True, False):
        lazy.load_state_dict(nn.LazyLinear(3).state_dict(keep_vars=keep))
        assert nn.parameter.is_lazy(lazy.weight)
        with pytest.raises(RuntimeError, match="size mismatch"):
            nn.Linear(2, 3).load_state_dict(lazy.state_dict(keep_vars=keep))
    lazy.load_state_dict(nn.Linear(2, 3).state_dict())
    assert lazy.weight.shape == (3, 2)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: F.batch_norm(pf.ones(1, 2), None, None, training=True), "one value in each"),
        (lambda: F.batch_norm(pf.ones(1, 2, 1, 1), None, None, training=True), "one value in each"),
        (lambda: F.instance_norm(pf.ones(4, 2, 1)), "one value in each"),
        (lambda: F.group_norm(pf.ones(1, 2, 1), 2), "one value in each"),
        (lambda: F.batch_norm(pf.ones(4), None, None, training=True), "at least 2 dimensions"),
        (lambda: F.batch_norm(pf.ones(4, 2), None, None), "no running statistics"),
        (lambda: F.batch_norm(pf.ones(4, 2), pf.ones(2), None), "without running_var"),
        (lambda: F.batch_norm(pf.ones(4, 2), pf.ones(3), pf.ones(3)), "check num_features"),
        (lambda: F.batch_norm(pf.ones(4, 2), pf.ones(2), pf.ones(2), pf.ones(3)), "got weight of"),
        (lambda: F.batch_norm(pf.ones(4, 2).int(), None, None, training=True), "floating-point"),
        (lambda: F.batch_norm(pf.ones(4, 2), None, None, training=True, eps=0), "got eps 0"),
        (lambda: F.batch_norm(pf.ones(4, 2), pf.ones(2), pf.ones(2), eps=-1), "got eps -1"),
        (lambda: F.instance_norm(pf.ones(4, 2, 3), use_input_stats=False), "no running statistics"),
        (lambda: F.group_norm(pf.ones(4, 3, 3), 2), "groups that divide"),
        (lambda: F.local_response_norm(pf.ones(4, 3), 2), "at least 3 dimensions"),
        (lambda: F.local_response_norm(pf.ones(4, 3, 2), 0), "got size 0"),
        (lambda: nn.BatchNorm2d(3)(pf.ones(4, 3)), "expected 4-d input"),
        (lambda: nn.BatchNorm1d(3)(pf.ones(4)), "2-d or 3-d"),
        (lambda: nn.InstanceNorm1d(3)(pf.ones(4)), "2-d or 3-d"),
    ],
)
def test_bad_arguments_say_what_is_wrong(call, says):
    with pytest.raises((ValueError, TypeError)) as error:
        call()
    assert says in str(error.value)


@pytest.mark.parametrize("space", [(7, 7), (14, 14), (3, 5), (16, 16), (1, 33), (30, 30)])
@pytest.mark.parametrize("outer", [(4,), (3, 2), (1,), (70,)])
def test_one_number_for_each_plane(space, outer):
    rng = np.random.default_rng(0)
    shape = (*outer, 37, *space)
    x, row = rng.standard_normal(shape), rng.standard_normal((37, 1, space[1]))
    a, b = (rng.standard_normal((37, 1, 1)) for _ in range(2))
    per = rng.standard_normal((*outer, 1, 1, 1))
    for dtype in ("f8", "f4"):
        t = [pf.tensor(v.astype(dtype)) for v in (x, a, b, row, per)]
        for got, want in (
            (t[0] * t[1] + t[2], x * a + b),
            ((t[0] - t[3]) * t[1] + t[4], (x - row) * a + per),
            ((t[0] - t[3]).mul_(t[1]), (x - row) * a),
        ):
            np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=1e-5)


def relu_gradients(x, w, b, g, *, training=True, inplace=False, hook=False, more=None, relu=F.relu):
    """Gradients of relu(batch_norm(x)), and of what `more` makes of the norm besides."""
    x, w, b = (t if t is None else t.detach().clone().requires_grad_() for t in (x, w, b))
    c = x.shape[1]
    wide = pf.float64 if x.dtype == pf.float64 else pf.float32
    running = pf.zeros(c, dtype=wide), pf.ones(c, dtype=wide)
    y = F.batch_norm(x, *running, w, b, training=training)
    if hook:
        y.register_hook(lambda g: None)  # sees the gradient behind the relu
    other = None if more is None else more(y)
    z = F.relu(y, inplace=True) if inplace else relu(y)
    loss = (z * g).sum() if other is None else (z * g).sum() + other
    return pf.autograd.grad(loss, [t for t in (x, w, b) if t is not None])


def same_bits(a, b):
    return all(
        p.dtype == q.dtype
        and np.array_equal(p.double().numpy(), q.double().numpy(), equal_nan=True)
        for p, q in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("dtype", [pf.float32, pf.bfloat16, pf.float16, pf.float64], ids=str)
@pytest.mark.parametrize(
    "shape", [(3, 5), (2, 8, 3, 5), (4, 16, 7, 7), (2, 3, 2, 3, 4), (2, 70, 1, 9)]
)
@pytest.mark.parametrize("lies", [lambda t: t, last], ids=["rows", "last"])
def test_a_relu_behind_it_costs_no_pass(dtype, shape, lies):
    """The norm's gradient leaves out what the relu does: the same bits as one behind the other, with a
    residual, with NaN, infinities and zeros, without weights, in evaluation."""
    pf.manual_seed(3)
    x, g = lies(pf.randn(shape)).to(dtype), lies(pf.randn(shape)).to(dtype)
    w, b = pf.randn(shape[1]), pf.randn(shape[1])
    if dtype == pf.float64:
        w, b = w.double(), b.double()
    for how in ({}, {"inplace": True}, {"training": False}, {"more": lambda y: (y * y).sum()}):
        assert same_bits(relu_gradients(x, w, b, g, **how),
                         relu_gradients(x, w, b, g, hook=True, **how))  # fmt: skip
    assert same_bits(relu_gradients(x, None, None, g), relu_gradients(x, None, None, g, hook=True))
    dx, dw, db = relu_gradients(x, w, b, g)
    x64, g64, w64, b64 = (t.double().numpy() for t in (x, g, w, b))
    mean, var = moments(x64, 0)
    y = normalized(x64, mean, var, w64, b64)
    safe = np.abs(y) > 0.02  # rounded otherwise, others may be on the other side of 0
    if safe.all():
        want = gradients(x64, g64 * (y > 0), w64, 0)
        for got, expected in zip((dx, dw, db), want):
            check(got, expected, dtype, scale=np.abs(expected).max() + 1)
    # A channel of equal values lies at its bias: at 0, above and below.
    x[:, 0] = 1.5
    for at in (0.0, -0.0, 1e-30, -1e-30, float("nan")):
        b[0] = at
        assert same_bits(relu_gradients(x, w, b, g), relu_gradients(x, w, b, g, hook=True))
    x[0, 0] = float("nan")
    g[0, 1] = float("inf")
    x[0, 2] = 1e4
    assert same_bits(relu_gradients(x, w, b, g), relu_gradients(x, w, b, g, hook=True))


def test_gradients_beside_a_relu_behind_a_norm():
    """Others that read the norm, before and behind the relu; hooks; second passes and second derivatives."""
    pf.manual_seed(4)
    x = pf.randn(4, 6, 5, 5, requires_grad=True)
    norm = nn.BatchNorm2d(6)

    def passes(f, **how):
        norm.zero_grad()
        x.grad = None
        y = norm(x)
        loss = f(y)
        loss.backward(**how)
        return x.grad.clone(), norm.weight.grad.clone(), norm.bias.grad.clone(), loss

    apart = passes(lambda y: (y.clamp_min(0) * 2).sum() + y.square().sum())[:3]
    for f in (
        lambda y: (y.relu() * 2).sum() + y.square().sum(),
        lambda y: y.square().sum() + (y.relu() * 2).sum(),
        lambda y: y.relu().sum() + y.relu().sum() + y.square().sum(),
    ):
        for got, want in zip(passes(f), apart, strict=False):
            assert pf.allclose(got, want, rtol=1e-5, atol=1e-5)
    # The graph is kept, and freed.
    got = passes(lambda y: (y.relu() * 3).sum(), retain_graph=True)
    once = [t.clone() for t in got[:3]]
    got[3].backward()
    assert all(pf.equal(t, 2 * o) for t, o in zip((x.grad, norm.weight.grad, norm.bias.grad), once))
    with pytest.raises(pf.AutogradError, match="already used and freed|was freed"):
        got[3].backward()
    # Of the norm itself, while it is on the way and where it ends there.
    y = norm(x)
    z = y.relu()
    assert pf.equal(pf.autograd.grad(z.sum(), y, retain_graph=True)[0], (y > 0).float())
    seen = []
    y.register_hook(lambda g: seen.append(g))
    y.retain_grad()
    z.sum().backward()
    assert pf.equal(seen[0], (y > 0).float()) and pf.equal(y.grad, seen[0])
    # What was written since is an error, as without a norm.
    z = norm(x).relu()
    loss = z.sum()
    with pf.no_grad():
        z.add_(1)
    with pytest.raises(pf.AutogradError, match="changed in place|modified"):
        loss.backward()
    gradcheck(lambda t: F.batch_norm(t, None, None, training=True).relu().square(),
              np.random.default_rng(0).standard_normal((3, 2, 4)))  # fmt: skip


def test_a_relu_behind_a_norm_runs_as_fewer_programs():
    x = pf.randn(8, 16, 6, 6).bfloat16()
    w, b, next_one = pf.ones(16), pf.zeros(16), pf.randn(4, 16, 3, 3).bfloat16()

    def programs(hook):
        def relu(y):
            return F.conv2d(y.relu(), next_one)

        for _ in range(2):
            pf.synchronize()
            pf.debug.reset_stats()
            relu_gradients(x, w, b, pf.ones(()).bfloat16(), relu=relu, hook=hook)
            pf.synchronize()
        return pf.debug.stats()["programs"]

    apart, joined = programs(True), programs(False)
    assert joined == apart - (pf.get_device().type in ("rocm", "cuda")), (joined, apart)


@pytest.mark.cpu_only  # others have no tiles
@pytest.mark.parametrize(
    "shape", [(64, 680, 7, 7), (3, 67, 103, 104), (2, 2100, 500), (23, 61, 39, 39), (2111, 1003)]
)
@pytest.mark.parametrize("lies", [lambda t: t, last], ids=["rows", "last"])
def test_large_ones_fetch_ahead_to_the_same_end(shape, lies):
    """Of this many elements on, programs fetch the next tile: of every shape's last one, too."""
    rng = np.random.default_rng(2)
    x, rest, g = (rng.standard_normal(shape, dtype="f4") for _ in range(3))
    w, b = rng.standard_normal((2, shape[1]))
    t = [lies(pf.tensor(v)) for v in (x, rest, g)]
    x[0, 0] = np.nan
    t[0][0, 0] = float("nan")
    weights = [pf.tensor(v.astype("f4")).requires_grad_() for v in (w, b)]
    t[0].requires_grad_()
    y = pf.relu(F.batch_norm(t[0], None, None, *weights, training=True) + t[1])
    y.backward(t[2])
    with np.errstate(all="ignore"):
        z = normalized(x.astype("f8"), *moments(x.astype("f8"), 0), w, b) + rest
        gate = np.where(z > 0, g, 0).astype("f8")
        expected = gradients(x.astype("f8"), gate, w, 0)
    sure = np.abs(z) > 1e-3  # of which side of 0 the others are is a matter of rounding
    sure[:, 0] = False  # what has no numbers
    assert np.isnan(y.detach().numpy()[:, 0]).all() and np.isnan(t[0].grad.numpy()[:, 0]).all()
    assert_allclose(y.detach().numpy()[sure], np.maximum(z, 0)[sure], rtol=1e-4, atol=1e-4)
    assert_allclose(t[0].grad.numpy()[sure], expected[0][sure], rtol=1e-3, atol=1e-3)
    for got, want in zip(weights, expected[1:], strict=True):
        assert_allclose(got.grad.numpy()[1:], want[1:], rtol=1e-3, atol=0.5)


def test_lazy_parameters_have_no_size():
    layer = nn.LazyLinear(3)
    for name in "numel nelement dim stride element_size sum __len__".split():
        for owner in (layer.weight, nn.parameter.UninitializedBuffer()):
            with pytest.raises(ValueError, match=name):
                getattr(owner, name)()
    assert layer.weight.is_leaf and layer.weight.requires_grad and layer.weight.size() == (0,)
    layer(pf.ones(2, 4))
    assert layer.weight.numel() == 12 and layer.weight.dim() == 2 and len(layer.weight) == 3
