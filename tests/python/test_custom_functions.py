"""Functions with a gradient written in Python (pyflame.autograd.Function)."""

import gc
import weakref

import pytest

import pyflame as pf
from pyflame.autograd import Function, gradcheck, gradgradcheck


def leaf(*shape, dtype=pf.float64):
    return pf.randn(*shape, dtype=dtype, requires_grad=True)


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


class Scaled(Function):
    """The style with setup_context."""

    @staticmethod
    def forward(x, k, w):
        return x * k * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, k, w = inputs
        ctx.k = k
        ctx.save_for_backward(x, w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        gx = g * ctx.k * w if ctx.needs_input_grad[0] else None
        gw = g * ctx.k * x if ctx.needs_input_grad[2] else None
        return gx, None, gw


def test_custom_function():
    x = leaf(3)
    y = Exp.apply(x)
    assert y.grad_fn.name() == "ExpBackward" and y.requires_grad
    assert gradcheck(Exp.apply, x) and gradgradcheck(Exp.apply, x)
    w = leaf(3)
    assert gradcheck(lambda a, b: Scaled.apply(a, 2.0, b), (x, w))
    assert gradgradcheck(lambda a, b: Scaled.apply(a, 2.0, b), (x, w))
    assert gradcheck(lambda a: Scaled.apply(a, 2.0, w.detach()), x)
    with pf.no_grad():
        assert not Exp.apply(x).requires_grad
    assert not Exp.apply(pf.ones(2)).requires_grad


@pytest.mark.parametrize("create", [False, True])
def test_saved_tensors_know_whether_they_require_gradients(create):
    """Inputs, views and results keep their history in backward, whether that is differentiated or not."""
    seen = []

    class Kept(pf.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            y = x * w
            ctx.save_for_backward(x, w, y)
            return y

        @staticmethod
        def backward(ctx, g):
            saved = ctx.saved_tensors
            seen.append([(t.requires_grad, t.is_leaf) for t in saved] + [pf.is_grad_enabled()])
            x, w, _ = saved
            return (g * w if x.requires_grad else None), (g * x if w.requires_grad else None)

    leaf, plain = pf.ones(2, 2, requires_grad=True), pf.ones(2, 2)
    inner, leaves, none = (True, False), (True, True), (False, True)
    for x, w, expected in (
        (leaf * 2, plain, [inner, none, inner]),
        (leaf.reshape(4), plain.reshape(4), [inner, none, inner]),  # a view
        (leaf.t(), leaf, [inner, leaves, inner]),
        (plain, leaf, [none, leaves, inner]),
    ):
        seen.clear()
        (grad,) = pf.autograd.grad(Kept.apply(x, w).sum(), leaf, create_graph=create)
        assert seen == [[*expected, create]] and grad.abs().sum() > 0


def test_saved_tensors_are_read_outside_of_backward():
    x = leaf(3)
    y = Exp.apply(x)
    (saved,) = y.grad_fn.saved_tensors
    assert pf.equal(saved, y) and saved.grad_fn is y.grad_fn
    a, b = Scaled.apply(x, 2.0, x).grad_fn.saved_tensors
    assert pf.equal(a, x) and a.is_leaf and a.requires_grad and pf.equal(a, b)
    y.sum().backward()
    with pytest.raises(pf.AutogradError, match="freed"):
        y.grad_fn.saved_tensors  # noqa: B018 (raises)
    x.detach().mul_(2)
    changed = Scaled.apply(x, 2.0, x)
    x.detach().mul_(2)
    with pytest.raises(pf.AutogradError, match="changed in place"):
        changed.grad_fn.saved_tensors  # noqa: B018
    with pytest.raises(AttributeError):
        (x * 2).grad_fn.saved_tensors  # noqa: B018


def test_custom_function_with_several_results():
    class Split(Function):
        @staticmethod
        def forward(ctx, x, flag):
            ctx.set_materialize_grads(flag)
            index = x.argmax()
            ctx.mark_non_differentiable(index)
            return x * 2, x * 3, index

        @staticmethod
        def backward(ctx, a, b, unused):
            Split.seen = (a, b)
            total = 0
            if a is not None:
                total = a * 2
            if b is not None:
                total = total + b * 3
            return total, None

    x = leaf(2)
    a, b, index = Split.apply(x, True)
    assert not index.requires_grad and a.requires_grad
    (a.sum() + b.sum()).backward()
    assert x.grad.tolist() == [5, 5]
    a, b, index = Split.apply(x, True)
    a.sum().backward()
    assert Split.seen[1].tolist() == [0, 0]
    a, b, index = Split.apply(x, False)
    a.sum().backward()
    assert Split.seen[1] is None


def test_custom_function_errors():
    class Few(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(pf.AutogradError, match="FewBackward.*2"):
        Few.apply(leaf(2), leaf(2)).sum().backward()

    class Shape(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return pf.ones(7, dtype=pf.float64)

    with pytest.raises(pf.ShapeError, match="ShapeBackward"):
        Shape.apply(leaf(2)).sum().backward()

    class Raises(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("in backward")

    with pytest.raises(RuntimeError, match="in backward"):
        Raises.apply(leaf(2)).sum().backward()

    class Kind(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return "no tensor"

    with pytest.raises(TypeError, match="KindBackward"):
        Kind.apply(leaf(2)).sum().backward()
    y = Exp.apply(leaf(2))
    y.sum().backward()
    with pytest.raises(pf.AutogradError, match="retain_graph"):
        y.sum().backward()
    y = Exp.apply(leaf(2))
    with pf.no_grad():
        y.add_(1)
    with pytest.raises(pf.AutogradError, match="in place"):
        y.sum().backward()


def test_custom_function_in_place():
    class Triple(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(3)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = leaf(2)
    y = x * 1
    z = Triple.apply(y)
    assert z is y
    z.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_custom_function_returns_its_input():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return -g

    x = leaf(2)
    y = Same.apply(x)
    assert y is not x
    y.sum().backward()
    assert x.grad.tolist() == [-1, -1]


def test_custom_function_is_freed():
    x = leaf(2)
    y = Exp.apply(x)
    ref = weakref.ref(y)
    del y
    gc.collect()
    assert ref() is None

    class Keeps(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.thing = Thing()
            Keeps.ref = weakref.ref(ctx.thing)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    class Thing:
        pass

    y = Keeps.apply(x)
    assert Keeps.ref() is not None
    del y
    gc.collect()
    assert Keeps.ref() is None


@pytest.mark.parametrize("requires_grad", [False, True])
def test_what_is_marked_dirty_is_returned(requires_grad):
    class Copies(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g

    x = pf.ones(2, requires_grad=requires_grad) * 1
    with pytest.raises(RuntimeError, match="mark_dirty"):
        Copies.apply(x)


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_function_returns_lists_as_lists(kind, requires_grad):
    class Both(pf.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return kind([x * 2, x * 3])

        @staticmethod
        def backward(ctx, a, b):
            return 2 * a + 3 * b

    x = pf.ones(2, requires_grad=requires_grad)
    r = Both.apply(x)
    assert type(r) is kind and [t.tolist() for t in r] == [[2, 2], [3, 3]]
    if requires_grad:  # of lists, too: PyTorch has none there
        (r[0] + r[1]).sum().backward()
        assert x.grad.tolist() == [5, 5]
