"""pf.func and vmap beyond one operation: nesting, finite differences, models, what is read and
written, slow ways, errors."""

import math
import threading

import pytest

import pyflame as pf
from pyflame import nn
from pyflame.func import (
    functional_call,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

F = pf.nn.functional


def randn(*shape):
    return pf.randn(shape, dtype=pf.float64)


def differences(f, x, eps=1e-6):
    """The jacobian of f by finite differences: [*result, *x]."""
    columns = []
    for k in range(x.numel()):
        step = pf.zeros(x.numel(), dtype=pf.float64)
        step[k] = eps
        step = step.reshape(x.shape)
        columns.append((f(x + step) - f(x - step)) / (2 * eps))
    y = f(x)
    return pf.stack(columns, -1).reshape(*y.shape, *x.shape)


FUNCTIONS = {
    "products": lambda t: (t @ t.T).sin() @ t,
    "softmax": lambda t: pf.softmax(t, -1).log() * t,
    "norm": lambda t: F.layer_norm(t, (3,)) + t.norm(),
    "indices": lambda t: t[[0, 0, 2], 1:] * t[:, :1].exp(),
    "scatter": lambda t: pf.zeros(5, 3, dtype=pf.float64).index_add(0, pf.tensor([4, 0, 4]), t**2),
    "in place": lambda t: t.clone().mul_(t.sum()).sigmoid_()[:, 1],
    "scan": lambda t: t.cumsum(0) * t.cumprod(1),
    "sort": lambda t: t.sort(0).values * t.flip(0),
    "einsum": lambda t: pf.einsum("ij,jk,lk->il", t, t, t),
    "det": lambda t: pf.linalg.det(t + 3 * pf.eye(3, dtype=pf.float64)) * t,
    "solve": lambda t: pf.linalg.solve(t @ t.T + pf.eye(3, dtype=pf.float64), t),
    "pool": lambda t: F.max_pool1d(t[None], 2)[0] * F.avg_pool1d(t[None], 2)[0],
    "conv": lambda t: F.conv1d(t[None], t[None]).sum() * t,
    "attention": lambda t: F.scaled_dot_product_attention(t[None], t[None], t[None])[0],
    "losses": lambda t: F.cross_entropy(t, pf.tensor([0, 2, 1]), label_smoothing=0.1) * t,
    "scalar": lambda t: (t**3).sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_hessians_and_products(name):
    f = FUNCTIONS[name]
    pf.manual_seed(len(name))
    x, v = randn(3, 3), randn(3, 3)
    want = differences(f, x)
    assert pf.allclose(jacrev(f)(x), want, rtol=1e-5, atol=1e-6)
    assert pf.allclose(jacfwd(f)(x), want, rtol=1e-5, atol=1e-6)
    assert pf.allclose(jacrev(f, chunk_size=2)(x), want, rtol=1e-5, atol=1e-6)
    y, pushed = jvp(f, (x,), (v,))
    assert pf.equal(y, f(x)) and not y.requires_grad and not pushed.requires_grad
    assert pf.allclose(pushed, (want * v).sum((-1, -2)), rtol=1e-5, atol=1e-6)
    _, push = linearize(f, x)
    assert pf.allclose(push(v), pushed)
    y, pull = vjp(f, x)
    w = randn(*y.shape)
    assert pf.allclose(pull(w)[0], pf.tensordot(w, want, y.dim()), rtol=1e-5, atol=1e-6)
    assert not pull(w)[0].requires_grad

    def total(t):
        return (f(t) * w).sum()

    second = differences(grad(total), x)
    assert pf.allclose(hessian(total)(x), second, rtol=1e-4, atol=1e-5)
    assert pf.allclose(jacrev(grad(total))(x), second, rtol=1e-4, atol=1e-5)
    assert pf.allclose(jvp(grad(total), (x,), (v,))[1], (second * v).sum((-1, -2)), atol=1e-5)
    # The same of a batch of them at once.
    xs = randn(4, 3, 3)
    each = pf.stack([jacrev(f)(t) for t in xs])
    assert pf.allclose(vmap(jacrev(f))(xs), each) and pf.allclose(vmap(jacfwd(f))(xs), each)
    assert pf.allclose(vmap(grad(total))(xs), pf.stack([grad(total)(t) for t in xs]))
    assert pf.allclose(
        grad(lambda t: vmap(total)(t).square().sum())(xs),
        pf.stack([2 * total(t) * grad(total)(t) for t in xs]),
    )
    vs = randn(4, 3, 3)
    assert pf.allclose(
        vmap(lambda t: jvp(f, (x,), (t,))[1])(vs), pf.stack([push(t) for t in vs])
    ) and pf.allclose(vmap(push)(vs), pf.stack([push(t) for t in vs]))
    ws = randn(2, *y.shape)
    assert pf.allclose(vmap(pull)(ws)[0], pf.stack([pull(t)[0] for t in ws]))


def test_levels_do_not_mix():
    x, y = pf.tensor(2.0, dtype=pf.float64), pf.tensor(3.0, dtype=pf.float64)
    # d/dx (x * d/dy (x + y) at y = 1): the inner variable is not the outer one.
    assert grad(lambda x: x * grad(lambda y: x + y)(y))(x).item() == 1
    assert grad(lambda x: x * grad(lambda y: x * y)(x))(x).item() == 4
    assert (
        jvp(lambda x: x * jvp(lambda y: x + y, (y,), (y * 0 + 1,))[1], (x,), (x * 0 + 1,))[1] == 1
    )
    for order in range(5):
        f = lambda t: t**4  # noqa: E731
        for _ in range(order):
            f = grad(f)
        assert f(x).item() == math.factorial(4) / math.factorial(4 - order) * 2.0 ** (4 - order)
    # The sum of (a_i b c)^2, where b goes over a, too, and c over three twos: 12 |a|^4.
    a = pf.tensor([1.0, 2.0], dtype=pf.float64)
    twos = pf.full((3,), 2.0, dtype=pf.float64)
    g = grad(lambda a: vmap(lambda b: vmap(lambda c: (a * b * c) ** 2)(twos))(a).sum())
    assert pf.allclose(g(a), 240 * a)
    a = pf.tensor([1.0, 2.0, 3.0], dtype=pf.float64)
    got = vmap(lambda s: vmap(lambda t: grad(lambda u: (u * s) ** 2 * t)(t))(a))(a)
    want = pf.stack([pf.stack([2 * t * s**2 * t for t in a]) for s in a])
    assert pf.allclose(got, want)
    outer = vmap(lambda s: jacrev(lambda t: s * t.sin())(a))(a)
    assert pf.allclose(outer, pf.stack([pf.diag(s * a.cos()) for s in a]))


def test_results_know_nothing_of_transforms():
    x = randn(3)
    w = randn(3).requires_grad_()
    assert not grad(lambda t: (t**2).sum())(x).requires_grad
    assert grad(lambda t: (t**2 * w).sum())(x).requires_grad
    with pf.no_grad():
        assert not grad(lambda t: (t**2 * w).sum())(x).requires_grad
        assert not vjp(lambda t: t * w, x)[0].requires_grad
    y, pull = vjp(lambda t: t * w, x)
    assert y.requires_grad and pull(x)[0].requires_grad
    (g,) = pf.autograd.grad(pull(x)[0].sum(), w)
    assert pf.equal(g, x)
    value, aux = grad(lambda t: ((t**2).sum(), {"t": t, "n": 3}), has_aux=True)(x)
    assert pf.equal(aux["t"], x) and not aux["t"].requires_grad and aux["n"] == 3
    z = x.clone().requires_grad_()
    h = grad(lambda t: (t**3).sum())(z)  # of a tensor that requires grad itself
    (second,) = pf.autograd.grad(h.sum(), z)
    assert pf.allclose(second, 6 * x)
    assert vmap(lambda t: t * 2)(z).requires_grad and not vmap(lambda t: t * 2)(x).requires_grad
    loss = vmap(lambda t: (t * w[0]).exp())(z).sum()
    loss.backward()
    assert pf.allclose(z.grad, w[0].detach() * (x * w[0].detach()).exp())
    assert pf.allclose(w.grad[0], (x * (x * w[0].detach()).exp()).sum())


def test_models():
    pf.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, bias=False),
        nn.GroupNorm(2, 4),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 8),
        nn.LayerNorm(8),
        nn.Tanh(),
        nn.Linear(8, 3),
    ).double()
    x, y = randn(5, 2, 4, 4), pf.tensor([0, 2, 1, 1, 0])
    params = {k: v.detach() for k, v in model.named_parameters()}

    def loss(p, x, y):
        return F.cross_entropy(functional_call(model, p, (x[None],)), y[None])

    each = []
    for i in range(5):
        model.zero_grad()
        F.cross_entropy(model(x[i : i + 1]), y[i : i + 1]).backward()
        each.append({k: v.grad.clone() for k, v in model.named_parameters()})
    with pf.explain() as report:
        got = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
    for name, g in got.items():
        assert pf.allclose(g, pf.stack([e[name] for e in each])), name
    assert not [s for s in report.slow if "samples of vmap" in s["what"]], report.to_text()
    total = grad(lambda p: vmap(loss, in_dims=(None, 0, 0))(p, x, y).sum())(params)
    for name, g in total.items():
        assert pf.allclose(g, got[name].sum(0)), name
    chunked = vmap(grad(loss), in_dims=(None, 0, 0), chunk_size=2)(params, x, y)
    assert all(pf.allclose(chunked[k], got[k]) for k in got)
    models = [nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2)).double() for _ in range(3)]  # fmt: skip
    for m in models:
        nn.init.normal_(m[1].weight)
        nn.init.normal_(m[1].bias)
    p, b = stack_module_state(models)
    x = randn(6, 4)
    out = vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))(p, b, x)  # fmt: skip
    assert pf.allclose(out, pf.stack([m(x) for m in models]))
    out.square().sum().backward()
    for i, m in enumerate(models):
        m(x).square().sum().backward()
        for name, q in m.named_parameters():
            assert pf.allclose(p[name].grad[i], q.grad), name


def test_recurrent_layers_and_embeddings():
    pf.manual_seed(0)
    lstm = nn.LSTM(3, 4, batch_first=True).double()
    x = randn(3, 2, 5, 3)
    with pf.explain() as report:
        got = vmap(lambda t: lstm(t)[0])(x)
    assert pf.allclose(got, pf.stack([lstm(t)[0] for t in x]))
    assert any("samples of vmap" in s["what"] for s in report.slow)
    table = randn(7, 3)
    ids = pf.tensor([[0, 6, 0], [2, 2, 5]])
    g = vmap(grad(lambda t, i: F.embedding(i, t).square().sum()), in_dims=(None, 0))(table, ids)
    want = [pf.zeros(7, 3, dtype=pf.float64).index_add(0, i, 2 * table[i]) for i in ids]
    assert pf.allclose(g, pf.stack(want))
    tables = randn(2, 7, 3)
    assert pf.allclose(vmap(lambda t, i: t[i])(tables, ids), pf.stack([t[i] for t, i in zip(tables, ids)]))  # fmt: skip
    one = vmap(lambda t, i: t[i[0], i[1:]])(randn(2, 7, 7), ids)
    assert one.shape == (2, 2)
    assert vmap(lambda i: pf.arange(7)[i])(pf.tensor([3, 6])).tolist() == [3, 6]


def test_writes():
    x = randn(3, 4)

    def built(t):
        out = pf.zeros(3, dtype=pf.float64)
        first = out[:1]  # a view from before
        out[1] = t.sum()
        out[2:] += t[0]
        return out, first

    out, first = vmap(built)(x)
    assert pf.allclose(out, pf.stack([x.sum(1) * 0, x.sum(1), x[:, 0]], 1))
    assert first.tolist() == [[0.0]] * 3
    inputs = x.clone()
    vmap(lambda t: t.mul_(2))(inputs)  # as in PyTorch, the batch is written
    assert pf.equal(inputs, 2 * x)
    shared = pf.zeros(4, dtype=pf.float64)
    with pytest.raises(ValueError, match="made outside of vmap"):
        vmap(lambda t: shared.add_(t))(x)
    assert shared.tolist() == [0, 0, 0, 0]
    vmap(lambda t: shared.add_(1) + t)(x)  # the same for all
    assert shared.tolist() == [1, 1, 1, 1]
    norm = nn.BatchNorm1d(4).double()
    with pytest.raises(ValueError, match="made outside of vmap"):
        vmap(norm)(randn(2, 3, 4))
    norm.eval()
    y = randn(2, 3, 4)
    assert pf.allclose(vmap(norm)(y), pf.stack([norm(t) for t in y]))

    def masked(t):
        t = t.clone()
        t[t > 0] = 0
        t.masked_fill_(t < -1, t.min())
        return t

    def one(t):
        t = t.clamp(max=0)
        return pf.where(t < -1, t.min(), t)

    assert pf.allclose(vmap(masked)(x), pf.stack([one(t) for t in x]))
    gx = grad(lambda t: vmap(lambda s: built(s)[0].square().sum())(t).sum())(x)
    sums = x.sum(1, keepdim=True)
    assert pf.allclose(gx, 2 * sums + pf.cat([2 * x[:, :1], 0 * x[:, 1:]], 1))
    # What is kept for a gradient and then written tells so, whether it grew or not.
    a = randn(2).requires_grad_()

    def kept(t):
        s = a * 1
        r = s.exp().sin() * s
        s.add_(t)
        return r.sum()

    with pytest.raises(pf.AutogradError, match="in place"):
        vmap(kept)(x[:, :2]).sum().backward()


def test_what_cannot_be_read():
    x = randn(3, 4)
    reads = [
        lambda t: t.sum().item(),
        lambda t: t.tolist(),
        lambda t: t.numpy(),
        lambda t: bool(t[0] > 0),
        lambda t: float(t[0]),
        lambda t: t.data_ptr(),
        lambda t: t[t > 0],
        lambda t: t.nonzero(),
        lambda t: pf.unique(t),
        lambda t: t[: int(t[0])],
        lambda t: pf.from_dlpack(t),
        lambda t: t.backward(t),
    ]
    for read in reads[:-1]:
        with pytest.raises(
            (NotImplementedError, BufferError, pf.DeviceError),
            match="sample to sample|cannot be shared",
        ):
            vmap(read)(x)
    seen = []
    vmap(lambda t: (seen.append(repr(t)), t)[1])(x)
    assert seen == ["tensor(..., size=(4,), dtype=pyflame.float64, differs over vmap of [3])"]
    from pyflame.func import debug_unwrap

    vmap(vmap(lambda t: (seen.append(debug_unwrap(t)), t)[1], in_dims=1))(randn(2, 3, 4))
    assert seen[-1].shape == (2, 4, 3) and pf.equal(debug_unwrap(x), x)
    w = randn(4).requires_grad_()

    def step(t):
        (t * w).sum().backward()
        return t

    with pytest.raises(pf.AutogradError, match="func.grad"):
        vmap(step)(x)
    escaped = []
    vmap(lambda t: (escaped.append(t), t)[1])(x)
    with pytest.raises(NotImplementedError, match="sample to sample"):
        escaped[0].sum().item()


def test_random_numbers():
    x = pf.zeros(4, 3)
    for draw in (
        lambda t: t + pf.rand(3),
        lambda t: pf.randn_like(t),
        lambda t: t.clone().normal_(),
        lambda t: pf.bernoulli(t + 0.5),
        lambda t: pf.multinomial(pf.ones(50), 3),
        lambda t: pf.randperm(40),
        lambda t: F.dropout(pf.ones(40)),
        lambda t: pf.randint(0, 1000, (3,)),
        lambda t: F.gumbel_softmax(t),
        lambda t: pf.normal(t, 1.0),
        lambda t: pf.poisson(pf.full((40,), 4.0) + t[0]),
        lambda t: pf.binomial(pf.full((40,), 9.0), t.mean() + 0.5),
        lambda t: pf.zeros(3).cauchy_(),
    ):
        with pytest.raises(RuntimeError, match="randomness"):
            vmap(draw)(x)
        different = vmap(draw, randomness="different")(x)
        same = vmap(draw, randomness="same")(x)
        assert (different[0] != different[1]).any() or different.unique().numel() <= 2
        assert pf.equal(same[0], same[1]) and pf.equal(same[0], same[3])
        pf.manual_seed(1)
        first = vmap(draw, randomness="different")(x)
        pf.manual_seed(1)
        assert pf.equal(first, vmap(draw, randomness="different")(x))
    p = vmap(lambda t: pf.multinomial(t, 2), randomness="different")(pf.eye(3) + 1e-3)
    assert (p < 3).all()
    mask = vmap(lambda t: F.dropout(t, 0.5), randomness="different")(pf.ones(200, 50))
    assert set(mask.unique().tolist()) == {0.0, 2.0} and 0.45 < (mask > 0).float().mean() < 0.55
    g = vmap(grad(lambda t: F.dropout(t, 0.5).sum()), randomness="different")(pf.ones(200, 50))
    assert set(g.unique().tolist()) == {0.0, 2.0}
    # The mask of a pass that has been recorded is one mask.
    t = pf.ones(50, requires_grad=True)
    y = F.dropout(t, 0.5)
    (g,) = pf.autograd.grad(y, t, pf.stack([pf.ones(50), 2 * pf.ones(50)]), is_grads_batched=True)
    assert pf.equal(g[1], 2 * g[0]) and pf.equal(g[0], y.detach())


def test_modes():
    device = pf.get_device().type
    x = pf.randn(3, 4, 4)
    with pf.autocast(device, dtype=pf.bfloat16):
        y = vmap(lambda t: t @ t)(x)
    assert y.dtype == pf.bfloat16
    with pf.autograd.detect_anomaly():
        vmap(grad(lambda t: (t**2).sum()))(x)
        with pytest.raises(pf.AutogradError, match="NaN"):
            vmap(grad(lambda t: (t * 0).sqrt().mul(0).sum()))(x)
    out = []
    thread = threading.Thread(target=lambda: out.append(vmap(lambda t: t.sum())(x)))
    with pf.no_grad():
        thread.start()
        thread.join()
    assert pf.allclose(out[0], x.sum((1, 2)))
    with pytest.raises(KeyError):
        vmap(lambda t: {}[1])(x)
    assert not pf._C._vmap_active()
    with pytest.raises(RuntimeError):
        vmap(lambda t: pf.rand(3))(x)
    assert not pf._C._vmap_active()


def test_empty_and_single_batches():
    f = lambda t: pf.softmax(t, -1) @ t  # noqa: E731
    assert vmap(f)(randn(0, 3)).shape == (0,)
    x = randn(1, 3)
    assert pf.allclose(vmap(f)(x), f(x[0])[None])
    assert vmap(lambda t: t.sum())(pf.zeros(2, 0)).tolist() == [0, 0]
    assert jacrev(lambda t: t[:0])(randn(3)).shape == (0, 3)
    assert jacfwd(lambda t: t.sum())(randn(0)).shape == (0,)
    assert jacfwd(pf.sin)(pf.tensor(0.0)).item() == jacrev(pf.sin)(pf.tensor(0.0)).item() == 1
    assert hessian(lambda t: t**3)(pf.tensor(2.0)).item() == 12
    assert vmap(lambda t: t, in_dims=-1, out_dims=-1)(randn(2, 3)).shape == (2, 3)


def test_layouts():
    x = randn(2, 3, 4, 5)
    f = lambda t: F.conv2d(t[None], pf.ones(2, 3, 2, 2, dtype=pf.float64))[0].relu()  # noqa: E731
    want = pf.stack([f(t) for t in x])
    for d in range(4):
        assert pf.allclose(vmap(f, in_dims=d)(x.movedim(0, d).contiguous()), want)
        assert pf.allclose(vmap(f, in_dims=d)(x.movedim(0, d)), want)
        assert pf.allclose(vmap(f, out_dims=d)(x).movedim(d, 0), want)
    last = vmap(f)(x.contiguous(memory_format=pf.channels_last))
    assert pf.allclose(last, want)
    seen = vmap(lambda t: (pf.tensor(t.is_contiguous()), pf.tensor(t.stride())))(x)
    assert seen[0].all() and seen[1].tolist() == [[20, 5, 1]] * 2


def test_other_errors():
    x = randn(3)
    for wrong, error in (
        (lambda: grad(lambda t: t.sum())(3.0), ValueError),
        (lambda: grad(lambda t: t.sum())(pf.ones(3).long()), pf.DTypeError),
        (lambda: grad(lambda t: t.sum(), argnums=(0, 0))(x), ValueError),
        (lambda: grad(lambda t: t.sum(), has_aux=True)(x), ValueError),
        (lambda: vjp(lambda t: t * 2, x)[1](randn(4)), pf.ShapeError),
        (lambda: vjp(lambda t: (t, t), x)[1](x), ValueError),
        (lambda: vjp(lambda t: 3, x), ValueError),
        (lambda: jvp(lambda t: t, x, (x,)), ValueError),
        (lambda: jvp(lambda t: t, (x,), (x, x)), ValueError),
        (lambda: jvp(lambda t: t, (x,), (randn(2),)), pf.ShapeError),
        (lambda: jvp(lambda t: pf.ones(2), (x,), (x,), strict=True), pf.AutogradError),
        (lambda: jacrev(lambda t: t, chunk_size=0), ValueError),
        (lambda: vmap(lambda t: t, out_dims=None)(x), ValueError),
        (lambda: vmap(lambda t: (t, t), out_dims=(0,))(x), ValueError),
        (lambda: vmap(lambda t: t, out_dims=3)(x), ValueError),
        (lambda: vmap(lambda t: t, in_dims="a")(x), ValueError),
        (lambda: stack_module_state([]), ValueError),
        (lambda: stack_module_state([nn.Linear(1, 1), nn.ReLU()]), ValueError),
        (lambda: pf.autograd.grad((x * 2).sum(), x, is_grads_batched=True), ValueError),
    ):
        with pytest.raises(error, match="^pf"):
            wrong()
    deep = lambda t: t  # noqa: E731
    for _ in range(7):
        deep = vmap(deep)
    with pytest.raises(NotImplementedError, match="nested"):
        deep(pf.zeros(*[1] * 7))


def test_functions_of_ones_own():
    class Scale(pf.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.save_for_backward(x)
            ctx.k = k
            return x.exp() * k

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x.exp() * ctx.k, None

    x = randn(3, 2)
    f = lambda t: Scale.apply(t, 2.0)  # noqa: E731
    assert pf.allclose(vmap(f)(x), 2 * x.exp())
    assert pf.allclose(vmap(grad(lambda t: f(t).sum()))(x), 2 * x.exp())
    assert pf.allclose(jacrev(f)(x[0]), pf.diag(2 * x[0].exp()))
    assert pf.allclose(jacfwd(f)(x[0]), pf.diag(2 * x[0].exp()))

    class OnlyForward(pf.autograd.Function):
        calls = []

        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_forward(x, y)
            return x * y, x + y

        @staticmethod
        def jvp(ctx, tx, ty):
            OnlyForward.calls.append((tx is None, ty is None))
            x, y = ctx.saved_tensors
            zero = pf.zeros_like(x)
            tx, ty = zero if tx is None else tx, zero if ty is None else ty
            return tx * y + x * ty, tx + ty

    a, b = randn(3), randn(3)
    out, tangent = jvp(lambda a, b: OnlyForward.apply(a, b), (a, b), (b, a))
    assert pf.allclose(tangent[0], b * b + a * a) and pf.allclose(tangent[1], a + b)
    out, tangent = jvp(lambda a: OnlyForward.apply(a, b), (a,), (b,))
    assert OnlyForward.calls[-1] == (False, True) and pf.allclose(tangent[0], b * b)
    x = a.clone().requires_grad_()
    OnlyForward.apply(x, b)[0].sum().backward()  # gradients from jvp
    assert pf.allclose(x.grad, b)

    class Loud(pf.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y.numpy().sum()

        @staticmethod
        def vmap(info, in_dims, x, y):
            assert info.batch_size == 3 and info.randomness == "error" and in_dims == (0, None)
            return Loud.apply(x, y), 0

    assert pf.allclose(vmap(Loud.apply, in_dims=(0, None))(x := randn(3, 2), y := randn(2)), x * y.sum())  # fmt: skip


def test_gradcheck_has_all_modes():
    x = randn(2, 3).requires_grad_()
    check = pf.autograd.gradcheck
    f = lambda t: (pf.softmax(t, -1), t.exp().sum())  # noqa: E731
    assert check(f, x, check_forward_ad=True, check_batched_grad=True)
    assert check(f, x, check_forward_ad=True, fast_mode=True)
    assert pf.autograd.gradgradcheck(f, x, check_fwd_over_rev=True, check_batched_grad=True)

    class Wrong(pf.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def jvp(ctx, t):
            return t * 3

    assert check(Wrong.apply, x)
    with pytest.raises(pf.PyFlameError, match="forward-mode"):
        check(Wrong.apply, x, check_forward_ad=True)


def test_dual_tensors():
    from pyflame.autograd import forward_ad as ad

    x, t = randn(3), randn(3)
    with pytest.raises(RuntimeError, match="level"):
        ad.make_dual(x, t)
    with pf.no_grad(), ad.dual_level():
        d = ad.make_dual(x, t)
        y = ad.unpack_dual((d * d).sum())
        assert pf.allclose(y.tangent, (2 * x * t).sum()) and not y.primal.requires_grad
        assert ad.unpack_dual(x).tangent is None
        w = randn(3).requires_grad_()
        with pf.enable_grad():
            z = ad.unpack_dual(d * w)
        assert z.primal.requires_grad
        (g,) = pf.autograd.grad(z.tangent.sum(), w)
        assert pf.equal(g, t)
        e = ad.make_dual(x, 2 * t)
        assert pf.allclose(ad.unpack_dual(d + e).tangent, 3 * t)
        with pytest.raises(RuntimeError, match="one at a time"):
            ad.enter_dual_level()
        with pytest.raises(pf.ShapeError):
            ad.make_dual(x, t[:2])
        with pytest.raises(ValueError):
            ad.make_dual(x, 3)
    assert pf.is_grad_enabled() and ad.unpack_dual(x) == (x, None)


def test_functional_jacobians_in_one_pass():
    from pyflame.autograd import functional

    x, y = randn(3), randn(2, 3)
    w = randn(3).requires_grad_()

    def f(x, y):
        return (y @ x.sin(), (x * w).sum(), y[:0], pf.ones(2, dtype=pf.float64))

    one = functional.jacobian(f, (x, y), vectorize=True)
    each = functional.jacobian(f, (x, y))
    assert all(pf.allclose(a, b) for p, q in zip(one, each) for a, b in zip(p, q))
    assert one[2][1].shape == (0, 3, 2, 3) and not one[0][0].requires_grad
    h = functional.hessian(lambda t: (t**3).prod(), x, vectorize=True)
    assert pf.allclose(h, hessian(lambda t: (t**3).prod())(x))
    g = functional.jacobian(lambda t: (t * w).exp(), x, create_graph=True, vectorize=True)
    (found,) = pf.autograd.grad(g.sum(), w)
    assert found.abs().sum() > 0
    with pytest.raises(pf.AutogradError, match="strict"):
        functional.jacobian(f, (x, y), strict=True, vectorize=True)


def test_values_that_move_between_tensors():
    x = randn(3, 4)

    def f(t):
        holder = pf.zeros(4, dtype=pf.float64)
        holder.data = t * 2
        return holder + 1

    assert pf.allclose(vmap(f)(x), x * 2 + 1)
    # What grew in an operation and nobody has looked at yet, when all else is gone.
    z = pf.complex(x, x)
    g = grad(lambda a: vmap(lambda t: (pf.conj(pf.complex(t, t)) * z[0]).real.sum())(a).sum())(x)
    assert pf.allclose(g, (z[0].real + z[0].imag).expand(3, 4))
    with pytest.raises(NotImplementedError, match="sparse"):
        vmap(lambda t: t * 2)(pf.eye(3).to_sparse())
    with pytest.raises(NotImplementedError, match="resize_"):
        vmap(lambda t: t.clone().resize_(2))(x)


def test_results_with_names():
    x = randn(4, 5)
    top = vmap(lambda t: t.topk(2))(x)
    want = x.topk(2)
    assert type(top) is type(want) and pf.equal(top.indices, want.indices)
    values, indices = vmap(lambda t: t.sort(), out_dims=(1, 0))(x)
    assert pf.equal(values, x.sort().values.T) and pf.equal(indices, x.sort().indices)
    y, t = jvp(lambda t: pf.linalg.slogdet(t @ t.T + pf.eye(4)), (x,), (x,))
    assert y.logabsdet.shape == t.logabsdet.shape == ()
    assert grad(lambda t: t.max(0).values.sum())(x).sum() == 5


def test_ntk_both_ways():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3)).double()
    params = {k: v.detach() for k, v in model.named_parameters()}
    x1, x2 = randn(3, 1, 4, 4), randn(2, 1, 4, 4)

    def f(p, x):
        return functional_call(model, p, (x[None],))[0]

    first = vmap(jacrev(f), (None, 0))(params, x1)
    second = vmap(jacrev(f), (None, 0))(params, x2)
    want = sum(pf.einsum("naf,mbf->nmab", first[k].flatten(2), second[k].flatten(2)) for k in first)

    def kernel(a, b):
        y, pull = vjp(lambda p: f(p, a), params)

        def row(v):
            return jvp(lambda p: f(p, b), (params,), pull(v))[1]

        return vmap(row)(pf.eye(3, dtype=pf.float64))

    got = vmap(vmap(kernel, (None, 0)), (0, None))(x1, x2)
    assert pf.allclose(got, want)
