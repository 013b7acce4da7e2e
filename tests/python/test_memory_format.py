"""How results lie in memory: as PyTorch's do, with the same values."""

import numpy as np
import pytest

import pyflame as pf
from pyflame import nn

F = pf.nn.functional
CL, CL3 = pf.channels_last, pf.channels_last_3d


def pictures(*shape):
    pf.manual_seed(1)
    return pf.randn(*shape)


def test_to_channels_last_and_back():
    x = pictures(2, 3, 4, 5)
    y = x.to(memory_format=CL)
    assert y.stride() == (60, 1, 15, 3) and y.shape == x.shape
    assert y.is_contiguous(memory_format=CL) and not y.is_contiguous()
    assert (y == x).all()
    assert y.contiguous(memory_format=CL) is not None
    assert y.contiguous(memory_format=CL).data_ptr() == y.data_ptr()
    assert y.to(memory_format=CL).data_ptr() == y.data_ptr()
    z = y.contiguous()
    assert z.is_contiguous() and (z == x).all()
    assert y.clone().stride() == y.stride()
    assert y.clone(memory_format=pf.contiguous_format).is_contiguous()
    assert y.half().stride() == y.double().stride() == y.stride()
    assert x.half(memory_format=CL).stride() == y.stride()
    assert pf.empty(2, 3, 4, 5, memory_format=CL).stride() == y.stride()
    for like in (pf.empty_like, pf.zeros_like, pf.ones_like, pf.rand_like):
        assert like(x, memory_format=CL).stride() == y.stride()
    assert pf.zeros_like(y).stride() == y.stride()
    v = pictures(2, 3, 4, 5, 6).to(memory_format=CL3)
    assert v.stride() == (360, 1, 90, 18, 3) and v.is_contiguous(memory_format=CL3)
    assert not v.is_contiguous(memory_format=CL)


def test_bad_formats():
    x = pictures(2, 3, 4)
    with pytest.raises(pf.ShapeError, match="4 dimensions"):
        x.to(memory_format=CL)
    with pytest.raises(pf.ShapeError, match="5 dimensions"):
        pictures(2, 3, 4, 5).contiguous(memory_format=CL3)
    with pytest.raises(ValueError, match="memory_format"):
        x.clone(memory_format="diagonal")
    with pytest.raises(TypeError):
        x.to(memory_format=3)


CHAINS = {
    "one": lambda t, x, y, bias: t.relu(x),
    "bias of channels": lambda t, x, y, bias: x * bias + 1,
    "the first decides": lambda t, x, y, bias: x + y,
    "the first decides, row-major": lambda t, x, y, bias: y + x,
    "a broadcast first": lambda t, x, y, bias: bias + x,
    "compared": lambda t, x, y, bias: x > y,
    "cast": lambda t, x, y, bias: x.to(t.float64),
    "chosen": lambda t, x, y, bias: t.where(x > 0, x, bias),
    "chain": lambda t, x, y, bias: t.sigmoid(x * 2) * x - bias,
    "in place": lambda t, x, y, bias: x.clone().mul_(bias).add_(y),
    "transposed": lambda t, x, y, bias: x.transpose(1, 3) + 1,
    "sliced": lambda t, x, y, bias: x[:, 1:, ::2] * 2,
    "matrices": lambda t, x, y, bias: x[0, 0].t() + 1,
    "expanded": lambda t, x, y, bias: bias.expand(2, 3, 4, 5) + 1,
    "clone": lambda t, x, y, bias: x.permute(1, 0, 3, 2).clone(),
    "like": lambda t, x, y, bias: t.zeros_like(x.permute(3, 1, 2, 0)),
    "joined": lambda t, x, y, bias: t.cat([x, x * 2, x[:, :1]], 1),
    "joined pictures": lambda t, x, y, bias: t.cat([x, x * 2], 0),
    "joined lines": lambda t, x, y, bias: t.cat([x, y.clone(memory_format=t.channels_last)], -1),
    "joined halves": lambda t, x, y, bias: t.cat([x[:, 1:], x[:, :1]], 1),
    "joined matrices": lambda t, x, y, bias: t.cat([x[0, 0].t(), x[0, 0].t()]),
    "padded": lambda t, x, y, bias: t.nn.functional.pad(x, (1, 2, 0, 1), value=2.0),
    "cut and padded": lambda t, x, y, bias: t.nn.functional.pad(x, (-1, 2, 1, 0, 1, 1)),
    "replicated": lambda t, x, y, bias: t.nn.functional.pad(x, (2, 1, 1, 3), mode="replicate"),
    "turned over": lambda t, x, y, bias: x.flip(1, 3),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 1)])
def test_strides_are_those_of_pytorch(name, shape):
    torch = pytest.importorskip("torch")
    if name in ("expanded", "sliced") and shape != (2, 3, 4, 5):
        return
    # One channel, or one pixel, lies in both ways: ours goes on row-major.
    if name.startswith(("joined", "padded", "cut", "replicated")) and 1 in shape[1:]:
        return
    rng = np.random.default_rng(3)
    values = [rng.standard_normal(s).astype(np.float32) for s in (shape, shape, (shape[1], 1, 1))]

    def run(t, fmt):
        x, y, bias = (t.tensor(v) for v in values)
        return CHAINS[name](t, x.to(memory_format=fmt), y, bias)

    got, want = run(pf, CL), run(torch, torch.channels_last)
    assert tuple(got.shape) == tuple(want.shape)
    for size, a, b in zip(got.shape, got.stride(), want.stride()):
        assert size == 1 or a == b, (got.stride(), want.stride())
    assert np.allclose(got.cpu().numpy(), want.numpy(), atol=1e-6)


def test_a_chain_is_never_copied():
    x = pictures(4, 8, 16, 16).to(memory_format=CL)
    bias = pf.randn(8, 1, 1)
    pf.synchronize()
    pf.debug.reset_stats()
    y = F.gelu(x * bias + 1) - x
    pf.synchronize()
    stats = pf.debug.stats()
    assert y.is_contiguous(memory_format=CL)
    assert stats["kernels"] == 0 and stats["programs"] == 1, stats


@pytest.mark.parametrize(
    "made", ["cat", "constant", "reflect", "circular", "softmax", "log_softmax"]
)
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 2, 3, 4, 6)])
def test_what_changes_shapes_stays_in_the_layout(made, shape):
    """With the values and gradients of row-major operands."""
    fmt = CL if len(shape) == 4 else pf.channels_last_3d

    def run(x):
        if made == "cat":
            return pf.cat([x, x.exp()], 1)
        if made in ("constant", "reflect", "circular"):
            return F.pad(x, (1, 2, 0, 1), mode=made)
        return getattr(F, made)(x, 1)

    x = pictures(*shape).double().requires_grad_()
    y = x.detach().contiguous(memory_format=fmt).requires_grad_()
    a, b = run(x), run(y)
    assert a.is_contiguous() and b.is_contiguous(memory_format=fmt), b.stride()
    assert pf.equal(a, b)
    g = pf.randn_like(a)
    a.backward(g)
    b.backward(g)
    assert pf.allclose(x.grad, y.grad, rtol=1e-13, atol=0)
    assert pf.autograd.gradgradcheck(run, y)


def test_gradients():
    x = pictures(2, 3, 4, 5).to(memory_format=CL).requires_grad_()
    w = pictures(2, 3, 4, 5).requires_grad_()
    (x * w).sum().backward()
    assert (x.grad == w).all() and (w.grad == x).all()
    a = pictures(2, 3, 4, 5).requires_grad_()
    (a.to(memory_format=CL) * 2).sum().backward()
    assert (a.grad == 2).all()


def test_the_other_operations_take_it():
    x = pictures(2, 6, 4, 5)
    y = x.to(memory_format=CL)
    works = [
        lambda t: t.sum(1), lambda t: F.softmax(t, 1), lambda t: F.layer_norm(t, (4, 5)),
        lambda t: t.cumsum(2), lambda t: t.flatten(1) @ pf.ones(120, 3), lambda t: t[:, [1, 0]],
        lambda t: t.var((0, 2, 3)), lambda t: pf.cat([t, t], 1), lambda t: t.sort(1).values,
        lambda t: t.max(1).indices, lambda t: pf.topk(t, 2, 1).values, lambda t: t.reshape(2, -1),
        lambda t: F.cross_entropy(t, pf.zeros(2, 4, 5, dtype=pf.int64)),
        lambda t: F.dropout(t, 0.0), lambda t: t.unfold(3, 2, 1).sum(-1), lambda t: t.roll(1, 1),
    ]  # fmt: skip
    for work in works:
        for of in (lambda t: t, lambda t: t * 2):  # as it is, and as a fresh result
            assert pf.allclose(work(of(x)), work(of(y)), atol=1e-6)


def test_modules():
    class Net(pf.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = pf.nn.Parameter(pf.randn(6, 3, 2, 2))
            self.b = pf.nn.Parameter(pf.randn(6))

    net = Net().to(memory_format=CL)
    assert net.w.is_contiguous(memory_format=CL) and net.b.is_contiguous()
    assert isinstance(net.w, pf.nn.Parameter) and net.w.requires_grad
    assert net.to(memory_format=pf.contiguous_format).w.is_contiguous()


def test_made_with_a_gradient():
    w = pf.empty(8, 3, 3, 3, requires_grad=True, memory_format=CL)
    assert w.is_leaf and w.requires_grad and w.is_contiguous(memory_format=CL)
    v = pf.zeros_like(w.detach(), requires_grad=True, memory_format=pf.contiguous_format)
    assert v.is_leaf and v.is_contiguous()


def test_saved_and_loaded(tmp_path):
    x = pictures(2, 3, 4, 5).to(memory_format=CL)
    pf.save({"x": x}, tmp_path / "x.pf")
    assert (pf.load(tmp_path / "x.pf")["x"] == x).all()
    assert np.array_equal(np.asarray(x), x.contiguous().numpy())


@pytest.mark.parametrize(
    "make",
    [
        pf.rand_like,
        pf.randn_like,
        lambda t: pf.randint_like(t, 9),
        lambda t: nn.functional.dropout(pf.ones_like(t)),
        lambda t: pf.normal(pf.ones_like(t), 2.0),
    ],
    ids=["rand_like", "randn_like", "randint_like", "dropout", "normal"],
)
def test_random_numbers_lie_as_their_model_does_and_are_the_same(make):
    x = pf.empty(2, 3, 4, 5)
    pf.manual_seed(3)
    plain = make(x)
    pf.manual_seed(3)
    last = make(x.contiguous(memory_format=pf.channels_last))
    assert last.is_contiguous(memory_format=pf.channels_last)
    assert pf.equal(plain, last)


def test_what_is_expanded_does_not_say_how_results_lie():
    x = pf.randn(2, 3, 4, 5).contiguous(memory_format=CL)
    wide = pf.randn(2, 3, 1, 1).expand(2, 3, 4, 5)
    for y in (wide * x, x * wide, pf.where(x > 0, wide, x)):
        assert y.is_contiguous(memory_format=CL)
    np.testing.assert_array_equal((wide * x).cpu().numpy(), wide.cpu().numpy() * x.cpu().numpy())
    assert (wide * 2).shape == (2, 3, 4, 5)  # where all are, one of them says it
    # So the gradient behind a mean over all pixels lies as the pictures do.
    x.requires_grad_()
    (g,) = pf.autograd.grad(F.adaptive_avg_pool2d(x.relu(), 1).square().sum(), x)
    assert g.stride() == x.stride()


def test_gradients_of_weights_lie_as_weights_do_on_gpus(device):
    x = pf.randn(2, 16, 6, 5).contiguous(memory_format=CL)
    rows = pf.randn(8, 16, 3, 3, requires_grad=True)
    w = rows.detach().contiguous(memory_format=CL).requires_grad_()
    g, h = (pf.autograd.grad(F.conv2d(x, v, padding=1).square().sum(), v)[0] for v in (w, rows))
    if device.type not in ("cpu", "paranoid"):
        assert g.stride() == w.stride()
    assert h.is_contiguous()
    np.testing.assert_allclose(g.cpu().numpy(), h.cpu().numpy(), rtol=1e-5, atol=1e-4)
