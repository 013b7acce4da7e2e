"""Hooks of saved tensors, of nodes and behind accumulation: order, errors, memory, cycles."""

import gc
import threading
import weakref

import pytest

import pyflame as pf
from pyflame.autograd import graph


def leaf(*shape):
    return pf.randn(*shape, dtype=pf.float64, requires_grad=True)


def through(fn, *args, create_graph=False):
    """Gradients with what is saved kept as lists, and how many tensors were."""
    count = [0, 0]

    def pack(t):
        assert not t.requires_grad and not pf.is_grad_enabled()
        count[0] += 1
        return t.tolist(), t.dtype

    def unpack(kept):
        count[1] += 1
        return pf.tensor(kept[0], dtype=kept[1])

    with graph.saved_tensors_hooks(pack, unpack):
        y = fn(*args)
    return pf.autograd.grad(y.sum(), args, create_graph=create_graph), count


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, w: x * w,
        lambda x, w: (x @ w).exp(),
        lambda x, w: pf.softmax(x @ w, -1).log() * w[0],
        lambda x, w: (x[:, :2] @ w[:2].T.T)[..., 0] * x.view(-1)[::3].sum(),
        lambda x, w: (x * w.sum()).clone().mul_(w.mean()).sigmoid_(),
        lambda x, w: pf.nn.functional.layer_norm(x, (3,), w[0], w[1]),
    ],
)
def test_gradients_of_packed_tensors(fn):
    x, w = leaf(3, 3), leaf(3, 3)
    want = pf.autograd.grad(fn(x, w).sum(), (x, w))
    got, count = through(fn, x, w)
    assert count[0] >= count[1] > 0
    for a, b in zip(got, want):
        assert pf.equal(a, b)
    (first, _), _ = through(fn, x, w, create_graph=True)
    (again,) = pf.autograd.grad(fn(x, w).sum(), x, create_graph=True)
    if first.requires_grad:
        for a, b in zip(
            pf.autograd.grad(first.square().sum(), (x, w), allow_unused=True),
            pf.autograd.grad(again.square().sum(), (x, w), allow_unused=True),
        ):
            assert (a is None) == (b is None) and (a is None or pf.allclose(a, b))


def test_the_innermost_hooks_count_and_errors_come_through():
    x = leaf(2)
    seen = []

    def hooks(name):
        return graph.saved_tensors_hooks(lambda t: (seen.append(name), t)[1], lambda t: t)

    with hooks("outer"):
        x.exp()
        with hooks("inner"):
            x.exp()
        x.exp()
    x.exp()
    assert seen == ["outer", "inner", "outer"]

    def bad(t):
        raise KeyError("packing")

    with pytest.raises(KeyError, match="packing"):
        with graph.saved_tensors_hooks(bad, lambda t: t):
            x.exp()
    x.exp().sum().backward()  # the hooks are gone
    with graph.saved_tensors_hooks(lambda t: t, bad):
        y = x.exp()
    with pytest.raises(KeyError, match="packing"):
        y.sum().backward()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: "text"):
        y = x.exp()
    with pytest.raises(TypeError, match="unpack_hook.*str"):
        y.sum().backward()
    with pytest.raises(TypeError, match="pack_hook"):
        graph.saved_tensors_hooks(3, None)
    others = []

    def elsewhere():
        leaf(2).exp().sum().backward()
        others.append(len(seen))

    with hooks("mine"):
        t = threading.Thread(target=elsewhere)
        t.start()
        t.join()
    assert others == [3]  # hooks are of the thread


def test_what_is_packed_goes_with_the_backward_pass():
    class Kept:
        pass

    alive = []

    def pack(t):
        k = Kept()
        k.t = t
        alive.append(weakref.ref(k))
        return k

    x = leaf(3)
    with graph.saved_tensors_hooks(pack, lambda k: k.t):
        y = x.exp().sin().sum()
    assert all(r() is not None for r in alive) and len(alive) == 2
    y.backward()
    assert all(r() is None for r in alive)
    with pytest.raises(pf.AutogradError, match="retain_graph"):
        y.backward()


@pytest.mark.parametrize(
    "f", [pf.sin, lambda x: x @ x, lambda x: pf.nn.functional.layer_norm(x, [3])]
)
def test_a_pass_while_saved_values_go_away(f):
    """By a finalizer of what was packed: the graph is used up already, in whatever thread."""
    x = pf.ones(3, 3, requires_grad=True)
    said = []

    def refused():
        with pytest.raises(pf.AutogradError, match="already used and freed"):
            loss.backward()
        said.append(threading.current_thread())

    def again():
        refused()
        thread = threading.Thread(target=refused)
        thread.start()
        thread.join()

    def pack(t):
        kept = t.clone()
        weakref.finalize(kept, again)
        return kept

    with graph.saved_tensors_hooks(pack, lambda t: t):
        y = f(x)
    loss = y.sum()
    loss.backward()
    assert said and len(said) % 2 == 0
    assert x.grad is not None


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", ["layer_norm", "linear", "conv1d", "mul"])
def test_a_pass_within_a_hook_that_unpacks(name, create_graph):
    """It uses the graph up, which the outer pass then finds freed, in the midst of a node."""
    f = {
        "layer_norm": lambda a, b: pf.nn.functional.layer_norm(a, [3], b[0], b[1]),
        "linear": pf.nn.functional.linear,
        "conv1d": lambda a, b: pf.nn.functional.conv1d(a.unsqueeze(0), b.unsqueeze(-1)),
        "mul": pf.mul,
    }[name]
    within = False

    def unpack(t):
        nonlocal within
        if not within:
            within = True
            loss.backward()
        return t

    a, b = (pf.randn(3, 3, requires_grad=True) for _ in range(2))
    with graph.saved_tensors_hooks(lambda t: t.clone(), unpack):
        loss = f(a, b).sum()
    with pytest.raises(pf.AutogradError, match="already used and freed"):
        loss.backward(create_graph=create_graph)
    inner = a.grad.clone()
    loss = f(a, b).sum()
    a.grad = None
    loss.backward()
    assert pf.equal(inner, a.grad)


def test_custom_functions_save_through_hooks():
    class Square(pf.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * x

        @staticmethod
        def backward(ctx, g):
            x, nothing = ctx.saved_tensors
            assert nothing is None
            return g * 2 * x

    x = leaf(3)
    ((g,), count) = through(Square.apply, x)
    assert pf.equal(g, 2 * x.detach()) and count == [1, 1]


def test_cycles_through_hooks_are_collected():
    class Marker:
        pass

    def gone(make):
        gc.collect()
        marker = Marker()
        alive = weakref.ref(marker)
        make(marker)
        del marker
        gc.collect()
        return alive() is None

    def packed(marker):
        box = [marker]
        x = leaf(2)
        with graph.saved_tensors_hooks(lambda t: (t, box), lambda k: k[0]):
            box.append(x.exp())

    def before(marker):
        y = leaf(2).exp()
        y.grad_fn.register_prehook(lambda g: (y, marker) and None)

    def after(marker):
        y = leaf(2).exp()
        y.grad_fn.register_hook(lambda gi, go: (y, marker) and None)

    def accumulated(marker):
        x = leaf(2)
        x.register_post_accumulate_grad_hook(lambda p: (x, marker) and None)

    def noted(marker):
        y = leaf(2).exp()
        y.grad_fn.metadata["it"] = (y, marker)

    def held(marker):
        f = leaf(2).exp().grad_fn
        f.metadata["it"] = (f, marker)

    for make in (packed, before, after, accumulated, noted, held):
        assert gone(make), make.__name__


def test_post_accumulate_hooks():
    x, seen = leaf(3), []
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.tolist())))
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert seen == [(True, [2, 2, 2]), (True, [4, 4, 4])]
    pf.autograd.grad((x * 2).sum(), x)
    assert len(seen) == 2  # nothing is accumulated
    (x * x.detach().exp() * 0 + x).sum().backward(inputs=[x])
    assert seen[2] == (True, [5, 5, 5])
    handle.remove()
    handle.remove()
    (x * 2).sum().backward()
    assert len(seen) == 3

    def bad(p):
        raise KeyError("behind")

    x.register_post_accumulate_grad_hook(bad)
    with pytest.raises(KeyError, match="behind"):
        (x * 2).sum().backward()
    with pytest.raises(TypeError):
        x.register_post_accumulate_grad_hook(3)
    with pytest.raises(pf.AutogradError, match="leaf"):
        pf.ones(2).register_post_accumulate_grad_hook(print)


def test_node_hooks():
    x = leaf(3)
    y = x * 2
    order = []
    y.register_hook(lambda g: order.append("tensor"))
    y.grad_fn.register_prehook(lambda go: order.append("before"))
    y.grad_fn.register_hook(lambda gi, go: order.append("after"))
    y.sum().backward()
    assert order == ["tensor", "before", "after"]
    for returned, error in (("text", TypeError), ((1, 2), ValueError), (pf.ones(4), pf.ShapeError)):
        y = x.exp()
        y.grad_fn.register_hook(lambda gi, go, r=returned: r)
        with pytest.raises(error):
            y.sum().backward()
    y = x * 2
    y.grad_fn.register_prehook(lambda go: (None,))
    y.sum().backward()  # a gradient of zero
    with pytest.raises(TypeError):
        y.grad_fn.register_hook(3)
    n = x.exp().grad_fn
    assert n is n.next_functions[0][0] or n.next_functions[0][0].variable is x
    with pytest.raises(TypeError):
        type(n)()
    accumulator = n.next_functions[0][0]
    del x, y, n
    gc.collect()
    assert accumulator.variable is None


def test_hooks_of_several_gradients():
    a, b, c = leaf(2), leaf(2), leaf(2)
    seen = []
    graph.register_multi_grad_hook([a, b, c], seen.append)
    pf.autograd.grad((a * b * c).sum(), (a, b))
    assert [g is None for g in seen.pop()] == [False, False, True]  # c's is not asked for
    (a * 3).sum().backward()
    assert [g is None for g in seen.pop()] == [False, True, True] and not seen
    for wrong in ((), (pf.ones(2),), (3,)):
        with pytest.raises((ValueError, pf.AutogradError)):
            graph.register_multi_grad_hook(wrong, print)
    with pytest.raises(ValueError, match="mode"):
        graph.register_multi_grad_hook([a], print, mode="some")


def test_gradient_edges():
    x = leaf(3)
    y = x.exp()
    edge = graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn and edge.output_nr == 0
    first, second = pf.unbind(pf.stack([x, 2 * x]))
    e = graph.get_gradient_edge(second)
    (g,) = pf.autograd.grad(first.sum() + 5 * second.sum(), e)
    assert g.tolist() == [5, 5, 5]
    pf.autograd.backward(edge, pf.ones(3, dtype=pf.float64))
    assert pf.equal(x.grad, x.detach().exp())
    with pytest.raises(pf.AutogradError, match="GradientEdge"):
        pf.autograd.backward([graph.get_gradient_edge(x * 2)])
    with pytest.raises(pf.AutogradError):
        graph.get_gradient_edge(pf.ones(1))
    with pytest.raises(TypeError):
        graph.get_gradient_edge(3)
    with pytest.raises(TypeError):
        pf.autograd.grad(y.sum(), 3)
    with pytest.raises(pf.AutogradError, match="empty"):
        pf.autograd.grad(y.sum(), [])
