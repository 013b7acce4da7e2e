"""Gradients from Python: accumulation, modes, hooks, in-place writes, errors."""

import gc
import math
import random
import threading
import weakref

import mpmath
import pytest

import pyflame as pf
from pyflame.autograd import Function, grad, gradcheck, gradgradcheck


def leaf(*shape, dtype=pf.float64):
    return pf.randn(*shape, dtype=dtype, requires_grad=True)


def test_accumulation():
    x = leaf(3)
    (x * x).sum().backward()
    first = x.grad.clone()
    (x * x).sum().backward()
    assert pf.equal(x.grad, 2 * first)
    x.grad = None
    assert x.grad is None
    x.grad = pf.zeros(3, dtype=pf.float64)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    x.grad.zero_()
    assert x.grad.tolist() == [0, 0, 0] and not x.grad.requires_grad
    with pytest.raises(pf.ShapeError):
        x.grad = pf.zeros(4, dtype=pf.float64)
    with pytest.raises(pf.DTypeError):
        x.grad = pf.zeros(3)
    with pytest.raises(TypeError):
        x.grad = 3


def test_backward_arguments():
    x = leaf(2)
    y = x * 3
    with pytest.raises(pf.AutogradError, match="gradient"):
        y.backward()
    y.backward(pf.tensor([1.0, 2.0], dtype=pf.float64))
    assert x.grad.tolist() == [3, 6]
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(pf.AutogradError, match="retain_graph"):
        y.backward()
    with pytest.raises(pf.ShapeError):
        (x * 3).backward(pf.ones(3, dtype=pf.float64))
    with pytest.raises(pf.AutogradError):
        pf.ones(1).backward()
    a, b = leaf(2), leaf(2)
    (a * b).sum().backward(inputs=[a])
    assert a.grad is not None and b.grad is None
    pf.autograd.backward([(a * 2).sum(), (b * 3).sum()])
    assert b.grad.tolist() == [3, 3]


def test_grad_function():
    x, y = leaf(3), leaf(3)
    out = (x * y).sum()
    gx, gy = grad(out, (x, y))
    assert pf.equal(gx, y.detach()) and pf.equal(gy, x.detach()) and x.grad is None
    with pytest.raises(pf.AutogradError, match="allow_unused"):
        grad((x * 2).sum(), [x, y])
    gx, gy = grad((x * 2).sum(), [x, y], allow_unused=True)
    assert gy is None
    gx, gy = grad((x * 2).sum(), [x, y], materialize_grads=True)
    assert gy.tolist() == [0, 0, 0]
    (g,) = grad(x * 2, x, grad_outputs=pf.ones(3, dtype=pf.float64))
    assert g.tolist() == [2, 2, 2]
    mid = x * 2
    (g,) = grad((mid * mid).sum(), mid)
    assert pf.allclose(g, 2 * mid)
    with pytest.raises(pf.AutogradError):
        grad(out, pf.ones(3))


def test_double_backward():
    x = leaf(4)
    (g,) = grad((x**3).sum(), x, create_graph=True)
    (h,) = grad(g.sum(), x, create_graph=True)
    assert pf.allclose(h, 6 * x)
    (t,) = grad(h.sum(), x)
    assert pf.allclose(t, pf.full((4,), 6.0, dtype=pf.float64))
    y = (x * x).sum()
    y.backward(create_graph=True)
    assert x.grad.requires_grad
    x.grad.sum().backward()
    for fn in (
        lambda v: v.tanh() * v.exp(),
        lambda v: pf.softmax(v, -1),
        lambda v: (v @ v) ** 2,
        lambda v: v.sigmoid().log(),
        lambda v: v.reshape(2, 2) @ v.reshape(2, 2).T,
    ):
        z = leaf(4)
        assert gradcheck(fn, z) and gradgradcheck(fn, z)


def test_gradcheck_notices():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x  # half of it

    with pytest.raises(pf.PyFlameError, match="finite differences"):
        gradcheck(Wrong.apply, leaf(2))
    assert gradcheck(Wrong.apply, leaf(2), raise_exception=False) is False
    with pytest.raises(pf.ValueError):
        gradcheck(lambda v: v, pf.ones(2))


def test_grad_modes():
    x = leaf(2)
    with pf.no_grad():
        assert not (x * 2).requires_grad and not pf.is_grad_enabled()
        with pf.enable_grad():
            assert (x * 2).requires_grad
        assert not pf.is_grad_enabled()
    assert (x * 2).requires_grad

    @pf.no_grad()
    def f(a, *, b=1):
        """Doc."""
        return x * a * b, pf.is_grad_enabled()

    @pf.no_grad
    def g():
        return pf.is_grad_enabled()

    assert f(2)[1] is False and not f(2)[0].requires_grad and f.__doc__ == "Doc." and g() is False
    with pf.set_grad_enabled(False):
        assert not pf.is_grad_enabled()
    assert pf.is_grad_enabled()
    pf.set_grad_enabled(False)
    assert not pf.is_grad_enabled()
    pf.set_grad_enabled(True)
    assert not pf.is_inference_mode_enabled()
    with pf.inference_mode():
        assert pf.is_inference_mode_enabled()
        with pf.inference_mode(False):
            assert not pf.is_inference_mode_enabled()
        assert pf.is_inference_mode_enabled() and pf.ones(1).is_inference()
    assert not pf.is_inference_mode_enabled() and pf.inference_mode(pf.is_inference_mode_enabled)()
    with pf.inference_mode():
        assert not pf.is_grad_enabled()
    with pf.inference_mode(False):
        assert pf.is_grad_enabled()

    @pf.no_grad()
    def numbers():
        for i in range(3):
            got = yield i, pf.is_grad_enabled()
            assert got is None

    assert list(numbers()) == [(0, False), (1, False), (2, False)]
    with pytest.raises(ZeroDivisionError):
        with pf.no_grad():
            1 / 0  # noqa: B018
    assert pf.is_grad_enabled()
    seen = []
    with pf.no_grad():
        t = threading.Thread(target=lambda: seen.append(pf.is_grad_enabled()))
        t.start()
        t.join()
    assert seen == [True]  # the mode belongs to the thread


def test_requires_grad():
    x = pf.ones(2)
    assert x.requires_grad_() is x and x.requires_grad
    x.requires_grad = False
    assert not x.requires_grad
    y = leaf(2) * 2
    with pytest.raises(pf.AutogradError, match="detach"):
        y.requires_grad = False
    with pytest.raises(pf.DTypeError):
        pf.ones(2).long().requires_grad_()
    assert not y.detach().requires_grad and y.detach()._shares_storage(y)
    z = leaf(2) * 2
    assert z.detach_() is z and not z.requires_grad and z.is_leaf
    p = leaf(2)
    p.data = pf.zeros(2, dtype=pf.float64)
    assert p.requires_grad and p.tolist() == [0, 0]
    p.data += 1
    p.data[0] = 5
    assert p.tolist() == [5, 1]


def test_grad_fn():
    x = leaf(2)
    y = (x * 2).sum()
    assert y.grad_fn.name() == "SumBackward0" and x.grad_fn is None and not y.is_leaf
    (inner, nr) = y.grad_fn.next_functions[0]
    assert inner.name() == "MulBackward0" and nr == 0
    assert inner.next_functions[0][0].name() == "AccumulateGrad"
    assert y.grad_fn == y.grad_fn and y.grad_fn != inner and repr(inner) == "<MulBackward0>"


def test_hooks():
    x = leaf(3)
    seen = []
    handle = x.register_hook(lambda g: seen.append(g.clone()))
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert x.grad.tolist() == [20, 20, 20] and seen[0].tolist() == [20, 20, 20]
    handle.remove()
    (x * 1).sum().backward()
    assert len(seen) == 1
    with x.register_hook(lambda g: g * 0):
        pass
    x.grad = None
    (x * 1).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
    with pytest.raises(pf.AutogradError):
        pf.ones(1).register_hook(print)
    with pytest.raises(TypeError):
        x.register_hook(3)

    def bad(g):
        raise KeyError("from the hook")

    z = x * 2
    z.register_hook(bad)
    with pytest.raises(KeyError, match="from the hook"):
        z.sum().backward()
    z = x * 2
    z.register_hook(lambda g: "text")
    with pytest.raises(TypeError, match="register_hook"):
        z.sum().backward()


def test_hook_objects_die():
    class Big:
        def __call__(self, g):
            return None

    hook = Big()
    ref = weakref.ref(hook)
    x = leaf(2)
    y = x * 2
    y.register_hook(hook)
    del hook
    gc.collect()
    assert ref() is not None
    del y
    gc.collect()
    assert ref() is None


def test_retain_grad():
    x = leaf(2)
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    assert pf.allclose(y.grad, 2 * y.detach())


def test_in_place():
    x = leaf(3)
    y = x * 1
    y.mul_(3)
    y[0] = 0
    y.sum().backward()
    assert x.grad.tolist() == [0, 3, 3]
    with pytest.raises(pf.AutogradError, match="leaf"):
        x.add_(1)
    with pytest.raises(pf.AutogradError, match="leaf"):
        x[0] = 1
    with pf.no_grad():
        x.add_(1)
        x[0] = 1

    def through_views(v):
        base = v * 1
        base.view(2, 2)[0].mul_(2)
        base[1:].add_(base[0])
        base.view(-1).t().neg_()
        return base * base

    assert gradcheck(through_views, leaf(4))


def test_gradients_of_renewed_views_are_added_in_one_order():
    """Whatever the addresses of their nodes, which all stand in the same place of the order."""
    dice, held, found = random.Random(1), [], set()
    start = pf.randn(33)
    for _ in range(60):
        x = start.clone().requires_grad_()
        base = x * 1
        views = [base.view(33) for _ in range(5)]
        base.mul_(1.5)
        held += [x.view(33) for _ in range(dice.randrange(9))]  # nodes among which others go
        dice.shuffle(held)
        del held[20:]
        sum(((v * (0.1 + 0.137 * i)).sum() for i, v in enumerate(views)), base.sum()).backward()
        found.add(x.grad.cpu().numpy().tobytes())
    assert len(found) == 1


def test_changed_saved_tensor():
    x = leaf(3)
    y = x.exp()
    z = y * 2
    y.add_(1)
    with pytest.raises(pf.AutogradError, match="in place"):
        z.sum().backward()
    w = leaf(3)
    a = w * 1
    b = a * a
    a[0] = 5
    with pytest.raises(pf.AutogradError, match="exp|mul|in place"):
        b.sum().backward()


def test_deep_graph():
    x = leaf(1)
    y = x
    for _ in range(100_000):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1
    y = x
    for _ in range(100_000):
        y = y * 1.0
    del y  # freed without recursion
    gc.collect()


def test_anomaly_mode():
    x = pf.zeros(2, dtype=pf.float64, requires_grad=True)
    with pf.autograd.detect_anomaly():
        with pytest.raises(pf.AutogradError, match="sqrt|mul"):
            (x.sqrt() * 0).sum().backward()
    assert not pf.is_anomaly_enabled()
    pf.autograd.set_detect_anomaly(True)
    assert pf.is_anomaly_enabled()
    with pf.autograd.set_detect_anomaly(False):
        assert not pf.is_anomaly_enabled()
    pf.autograd.set_detect_anomaly(False)


def test_nested_backward():
    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with pf.enable_grad():
                v = x.detach().requires_grad_()
                (d,) = grad((v * v).sum(), v)
            return g * d

    x = leaf(3)
    Inner.apply(x).sum().backward()
    assert pf.allclose(x.grad, 2 * x.detach())


def test_checks_of_functions_people_write():
    x = leaf(2, 3)
    w = leaf(4, 3)
    b = leaf(4)
    for fn in (
        lambda x, w, b: pf.nn.functional.linear(x, w, b).relu(),
        lambda x, w, b: pf.nn.functional.gelu(x @ w.T + b),
        lambda x, w, b: ((x[:, None] - w[None]) ** 2).sum(-1).sqrt() + b,
        lambda x, w, b: pf.cat([x, w]).cumsum(0) * b.sum(),
    ):
        assert gradcheck(fn, (x, w, b))
    assert math.isclose((x * x).sum().item(), sum(v * v for v in x.detach().reshape(-1).tolist()))


def products_at_zeros(product):
    x = pf.tensor([[1.0, 2, 3, 4], [0, 2, -3, 4], [0, 2, 0, 4], [0, 0, 0, 1]], dtype=pf.float64)
    x.requires_grad_()
    assert pf.autograd.gradcheck(product, x)
    assert pf.autograd.gradgradcheck(product, x)

    def curvature(x):  # one order more
        with pf.enable_grad():
            (g,) = pf.autograd.grad(product(x).square().sum(), x, create_graph=True)
        return g

    assert pf.autograd.gradgradcheck(curvature, x)


@pytest.mark.parametrize("dim", [0, 1, None])
def test_gradients_of_prod_of_any_order_at_zeros(dim):
    products_at_zeros(lambda x: x.prod() if dim is None else x.prod(dim))


def test_sinc_is_curved_at_0():
    x = pf.tensor([0.0, 0.5, -2.0], dtype=pf.float64, requires_grad=True)
    assert pf.autograd.gradcheck(pf.sinc, x)
    (g,) = grad(pf.sinc(x).sum(), x, create_graph=True)
    (h,) = grad(g.sum(), x)
    # sinc'' = -pi^2 sinc - 2 sinc' / x, and -pi^2 / 3 at 0.
    want = [-(math.pi**2) / 3] + [
        -(math.pi**2) * math.sin(math.pi * v) / (math.pi * v) - 2 * s / v
        for v, s in zip(x.tolist()[1:], g.tolist()[1:], strict=True)
    ]
    assert h.tolist() == pytest.approx(want, rel=1e-12)
    # Near 0, where its closed form is a difference of nearly equal numbers.
    for dtype, x, tolerance in [(pf.float32, 1e-30, 1e-6), (pf.float32, 1e-4, 1e-6), (pf.float64, 1e-170, 1e-14), (pf.float64, 1e-8, 1e-14), (pf.float64, 0.25, 1e-14), (pf.float64, 0.35, 1e-13)]:  # fmt: skip
        t = pf.tensor(x, dtype=dtype, requires_grad=True)
        (g,) = grad(pf.sinc(t), t, create_graph=True)
        (h,) = grad(g, t)
        with mpmath.workdps(400):
            s = [
                mpmath.diff(lambda v: mpmath.sinc(mpmath.pi * v), mpmath.mpf(x), n) for n in (1, 2)
            ]
        assert [g.item(), h.item()] == pytest.approx(
            [float(v) for v in s], rel=tolerance, abs=1e-44
        )


@pytest.mark.parametrize("dim", [0, 1])
def test_gradients_of_cumprod_of_any_order_at_zeros(dim):
    products_at_zeros(lambda x: x.cumprod(dim))


@pytest.mark.parametrize(
    "write",
    [
        lambda x, y: x.div_(y, rounding_mode="trunc"),
        lambda x, y: x.scatter_reduce_(0, pf.tensor([0, 1, 1]), y, "prod"),
        lambda x, y: x.scatter_reduce_(0, pf.tensor([0, 1, 1]), y, "amax"),
    ],
)
def test_writes_whose_gradient_reads_the_old_value(write):
    """Whichever of the two has the gradient."""
    for first, second in ((True, False), (False, True), (True, True)):
        x = pf.tensor([1.0, -2.0, 3.0], requires_grad=first)
        y = pf.tensor([2.0, 5.0, -0.5], requires_grad=second)
        write(x.clone(), y).sum().backward()
        assert all(t.grad is not None for t, wants in ((x, first), (y, second)) if wants)


def test_a_factor_without_a_negative():
    x = pf.tensor([1.0], requires_grad=True)
    r = pf.zeros(1).sub_(x, alpha=-(2**63))
    assert r.item() == 2.0**63 and pf.sub(pf.zeros(1), x, alpha=-(2**63)).item() == 2.0**63
    r.backward()
    assert x.grad.item() == 2.0**63


def test_empty_parts_have_empty_gradients():
    x = pf.zeros(0, requires_grad=True)
    y = pf.ones(3, requires_grad=True)
    pf.cat([x, y[3:]]).backward(pf.zeros(0))
    assert x.grad.shape == (0,) and y.grad.tolist() == [0, 0, 0]


def test_what_keeps_nothing_runs_again():
    """As in PyTorch, where only nodes that have freed something refuse."""
    x = pf.ones(2, requires_grad=True)
    for f, each in ((pf.sum, 1.0), (pf.mean, 0.5), (lambda t: (t + 1).reshape(2, 1).sum(), 1.0)):
        x.grad = None
        loss = f(x)
        loss.backward()
        loss.backward()
        assert x.grad.tolist() == [2 * each] * 2
    for f in (lambda t: (t * t).sum(), pf.nansum):
        loss = f(x)
        loss.backward()
        with pytest.raises(RuntimeError, match="already used and freed"):
            loss.backward()


def test_the_gradient_of_a_result_is_none_and_says_why(recwarn):
    x = pf.ones(2, requires_grad=True)
    y = x * 2
    y.sum().backward()
    assert x.grad is not None and (x * 2).detach().grad is None and not recwarn.list
    with pytest.warns(UserWarning, match=r"retain_grad\(\)"):
        assert y.grad is None
    z = x * 2
    z.retain_grad()
    assert z.grad is None and len(recwarn.list) == 0


def test_gradients_of_some_inputs_calculate_no_others():
    def kernels(*inputs):
        pf.synchronize()
        pf.debug.reset_stats()
        found = pf.autograd.grad(y, inputs, g, retain_graph=True)
        pf.synchronize()
        return pf.debug.stats()["kernels"], [t.tolist() for t in found]

    pf.manual_seed(1)
    a, b = (pf.rand(4, 4, requires_grad=True) for _ in range(2))
    seen = []
    hidden = b * 2
    hidden.register_hook(lambda g: seen.append(1))
    y, g = a @ hidden, pf.ones(4, 4)
    one, (of_a,) = kernels(a)
    assert not seen  # nothing behind it is asked for
    two, both = kernels(a, b)
    assert one < two and seen and of_a == both[0]

    # A pass within a pass asks for what it wants.
    class Inner(pf.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            c, d = (pf.ones(2, requires_grad=True) for _ in range(2))
            with pf.enable_grad():
                (c * d * 3).sum().backward()
            return g * c.grad[0] * d.grad[0]

    x, z = pf.ones(2, requires_grad=True), pf.ones(2, requires_grad=True)
    (of_x,) = pf.autograd.grad((Inner.apply(x) * z).sum(), x)
    assert of_x.tolist() == [9.0, 9.0]


def test_gradients_of_some_inputs_go_through_writes_to_views():
    def run(*names):
        at = {n: pf.tensor([2.0, 3.0], requires_grad=True) for n in "abc"}
        y = at["a"] * 1
        v = y[:1]
        v.mul_(at["b"][0])
        v.add_(at["c"][:1])
        return [g.tolist() for g in pf.autograd.grad((y * y).sum(), [at[n] for n in names])]

    whole = run(*"abc")
    assert [run(n)[0] for n in "abc"] == whole and run(*"ca") == [whole[2], whole[0]]
