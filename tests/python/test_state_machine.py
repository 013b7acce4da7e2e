"""Random programs of operations, views, in-place writes, drops, no_grad, backward, other devices,
memory shared with NumPy and other threads, against the strict model of strict_model.py.

Every comparison is bit for bit. `pytest --hypothesis-profile=long` runs many more, not the same
ones each time.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    multiple,
    precondition,
    rule,
)
from strict_model import (
    LEAF_ELEMENTS,
    Value,
    exact,
    fresh,
    result,
    stale,
    unknowable,
    write,
)

import pyflame as pf

HOME = os.environ.get("PYFLAME_TEST_DEVICE", "cpu")
DEVICES = list(dict.fromkeys(["cpu", "paranoid", HOME]))
SHAPES = [(), (1,), (7,), (3, 5), (5, 3), (5, 1), (2, 3, 4), (0, 4), (64, 33), (9001,)]
LARGE = (200, 180)  # more than the engine lets unrelated roots share, or drops unread


def scaled(by):
    return lambda a, j: (a * by, j * by)


def masked(a, j, mask):
    return np.where(mask, a, 0.0), np.where(mask[..., None], j, 0.0)


def twist(a, j):
    return a[::-1].cumsum(0), j[::-1].cumsum(0)


# name: ours, values and derivatives of the model, whether the input is kept for the gradient
UNARY = {
    "neg": (lambda t: -t, scaled(-1.0), False),
    "double": (lambda t: t * 2.0, scaled(2.0), False),
    "half": (lambda t: t / 2.0, scaled(0.5), False),
    "shift": (lambda t: t + 0.5, lambda a, j: (a + 0.5, j), False),
    "abs": (lambda t: t.abs(), lambda a, j: (np.abs(a), j * np.sign(a)[..., None]), True),
    "relu": (lambda t: pf.relu(t), lambda a, j: masked(a, j, a > 0), True),
    "square": (lambda t: t.square(), lambda a, j: (a * a, j * (2 * a)[..., None]), True),
    "clone": (lambda t: t.clone(), scaled(1.0), False),
    "narrow": (lambda t: t.float().double(), scaled(1.0), False),
    "sum": (lambda t: t.sum(0), lambda a, j: (a.sum(0), j.sum(0)), False),
    "rows": (
        lambda t: t.sum(-1, keepdim=True),
        lambda a, j: (a.sum(-1, keepdims=True), j.sum(a.ndim - 1, keepdims=True)),
        False,
    ),  # fmt: skip
    "twist": (lambda t: t.flip(0).cumsum(0), twist, False),
    "join": (
        lambda t: pf.cat([t, t * 2.0]),
        lambda a, j: (np.concatenate([a, a * 2]), np.concatenate([j, j * 2])),
        False,
    ),  # fmt: skip
    "pick": (
        lambda t: t[pf.tensor([0, -1, 0], device=t.device)],
        lambda a, j: (a[[0, -1, 0]], j[[0, -1, 0]]),
        False,
    ),  # fmt: skip
}
LOOKS = ["compare", "compare", "print", "item", "memory", "flush", "synchronize", "eager"]
CHAIN = ["neg", "double", "half", "shift", "abs", "relu", "clone"]
NEED_ROWS = {"sum", "rows", "twist", "join", "pick"}


def max_of(a, b, ja, jb):
    tie = (a == b)[..., None]
    return np.maximum(a, b), np.where(tie, (ja + jb) / 2, np.where((a > b)[..., None], ja, jb))


def product_of(a, b, ja, jb):
    return a * b, ja * b[..., None] + jb * a[..., None]


BINARY = {
    "add": (lambda a, b: a + b, lambda a, b, ja, jb: (a + b, ja + jb), False),
    "sub": (lambda a, b: a - b, lambda a, b, ja, jb: (a - b, ja - jb), False),
    "max": (pf.maximum, max_of, True),
    "where": (
        lambda a, b: pf.where(a > b, a, b * 2.0),
        lambda a, b, ja, jb: (np.where(a > b, a, b * 2), np.where((a > b)[..., None], ja, jb * 2)),
        True,
    ),
    "mul": (lambda a, b: a * b, product_of, True),
}
WRITES = ["add", "sub", "mul", "copy", "double", "zero", "relu", "fill", "mask", "row"]


class Leaf:
    """A tensor that gradients are accumulated in."""

    def __init__(self, tensor, at, shape):
        self.tensor, self.at, self.shape = tensor, at, shape
        self.grad = None

    def part(self, gradient):
        n = int(np.prod(self.shape, dtype=int))
        return gradient[self.at : self.at + n].reshape(self.shape)


grads = st.sampled_from([True, True, True, False])
threads = st.sampled_from([0, 0, 0, 0, 1, 2])
choice = st.integers(0, 40)


class Programs(RuleBasedStateMachine):
    values = Bundle("values")

    @initialize(target=values, seed=st.integers(0, 2**16))
    def start(self, seed):
        self.rng = np.random.default_rng(seed)
        self.live, self.leaves, self.exports = [], [], []
        self.freed = set()  # nodes whose saved tensors a backward pass has freed
        self.pools = {}
        values = [self.keep(self.made(s)) for s in ((3, 5), ())]
        return multiple(*values, self.make_leaf((2, 5)), self.make_leaf((5,)))

    # ---- helpers --------------------------------------------------------------------------------

    def numbers(self, shape):
        return self.rng.integers(-8, 9, shape).astype(np.float64)

    def made(self, shape, device=HOME):
        array = self.numbers(shape)
        return fresh(pf.tensor(array, dtype=pf.float64, device=device), array)

    def make_leaf(self, shape, value=None):
        value = value or self.made(shape)
        at = sum(int(np.prod(leaf.shape, dtype=int)) for leaf in self.leaves)
        n = int(np.prod(shape, dtype=int))
        assert at + n <= LEAF_ELEMENTS
        value.tensor.requires_grad_()
        value.history.track()
        value.history.jacobian[value.index.reshape(-1), np.arange(at, at + n)] = 1.0
        value.leaf = Leaf(value.tensor, at, shape)
        self.leaves.append(value.leaf)
        return self.keep(value)

    def keep(self, value):
        self.live.append(value)
        assert value.tensor.shape == value.shape
        return value

    def run(self, thread, grad, fn):
        """fn() on one of three threads, with gradients on or off."""

        def call():
            with nullcontext() if grad else pf.no_grad():
                return fn()

        if not thread:
            return call()
        if thread not in self.pools:
            self.pools[thread] = ThreadPoolExecutor(1)
        return self.pools[thread].submit(call).result()

    def partner(self, x, k, shape=None):
        """A live value that broadcasts with x; to `shape` when one is given."""

        def fits(y):
            try:
                got = np.broadcast_shapes(x.shape, y.shape)
            except ValueError:
                return False
            return shape is None or got == shape

        fitting = [y for y in self.live[-40:] if fits(y)] or [x]
        return fitting[k % len(fitting)]

    def together(self, x, y):
        """y's tensor on x's device."""
        return y.tensor if y.tensor.device == x.tensor.device else y.tensor.to(x.tensor.device)

    def same(self, value):
        got = value.tensor.detach().cpu().numpy()
        np.testing.assert_array_equal(got, value.array)
        if value.tensor.requires_grad:
            assert value.history.tracked
        elif not value.history.hidden:  # what was written over as a whole forgets its history
            assert not value.jacobian.any()

    # ---- new values -----------------------------------------------------------------------------

    @rule(target=values, shape=st.sampled_from([*SHAPES, LARGE]), device=st.sampled_from(DEVICES))
    def create(self, shape, device):
        return self.keep(self.made(shape, device))

    def room(self, shape):
        used = sum(int(np.prod(leaf.shape, dtype=int)) for leaf in self.leaves)
        return used + int(np.prod(shape, dtype=int)) <= LEAF_ELEMENTS

    @rule(target=values, shape=st.sampled_from([(), (2,), (1, 2)]))
    def leaf(self, shape):
        return self.make_leaf(shape) if self.room(shape) else multiple()

    @rule(target=values, x=values, op=st.sampled_from(sorted(UNARY)), grad=grads, thread=threads)
    def unary(self, x, op, grad, thread):
        ours, model, saves = UNARY[op]
        if not exact(x, 9) or (op in NEED_ROWS and not (x.shape and x.shape[0])):
            return multiple()
        if x.array.size > 5000 and (x.history.tracked or op in NEED_ROWS):
            return multiple()
        if op == "square" and (x.history.depth > 2 or not exact(x, 4, 2)):
            return multiple()
        got = self.run(thread, grad, lambda: ours(x.tensor))
        want, jacobian = model(x.array, x.jacobian)
        return self.keep(
            result(got, want, jacobian, [x], grad, [x] if saves else [], op == "square")
        )

    @rule(target=values, x=values, k=choice, op=st.sampled_from(sorted(BINARY)), grad=grads,
          thread=threads)  # fmt: skip
    def binary(self, x, k, op, grad, thread):
        y = self.partner(x, k)
        shape = np.broadcast_shapes(x.shape, y.shape)
        size = np.prod(shape, dtype=int)
        tracked = x.history.tracked or y.history.tracked
        if size > 50000 or (tracked and size > 5000) or not (exact(x) and exact(y)):
            return multiple()
        if op == "mul":
            if max(x.history.depth, y.history.depth) > 2 or not (exact(x, 4, 2) and exact(y, 4, 2)):
                return multiple()
        ours, model, saves = BINARY[op]
        got = self.run(thread, grad, lambda: ours(x.tensor, self.together(x, y)))
        full = (*shape, LEAF_ELEMENTS) if tracked else (*(1 for _ in shape), LEAF_ELEMENTS)
        jx = np.broadcast_to(self.ranked(x.jacobian, len(shape)) if tracked else 0.0, full)
        jy = np.broadcast_to(self.ranked(y.jacobian, len(shape)) if tracked else 0.0, full)
        a, b = np.broadcast_to(x.array, shape), np.broadcast_to(y.array, shape)
        want, jacobian = model(a, b, jx, jy)
        return self.keep(
            result(got, want, jacobian, [x, y], grad, [x, y] if saves else [], op == "mul")
        )

    @staticmethod
    def ranked(jacobian, ndim):
        return jacobian.reshape((1,) * (ndim + 1 - jacobian.ndim) + jacobian.shape)

    @rule(target=values, x=values, ops=st.lists(st.sampled_from(CHAIN), min_size=2, max_size=6),
          thread=threads)  # fmt: skip
    def chain(self, x, ops, thread):
        """Several in a row, of which only the last has a handle."""
        if x.history.tracked or x.overlapping:
            return multiple()

        def ours():
            t = x.tensor
            for op in ops:
                t = UNARY[op][0](t)
            return t

        got, a, j = self.run(thread, True, ours), x.array, np.zeros((*x.shape, 1))
        for op in ops:
            a, j = UNARY[op][1](a, j)
        return self.keep(result(got, a, j, [x], False))

    @rule(target=values, x=values, grad=grads, thread=threads)
    def product(self, x, grad, thread):
        """A matrix with its own transpose: a library anchor."""
        if len(x.shape) != 2 or x.array.size > 5000 or x.history.depth > 2 or not exact(x, 4, 2):
            return multiple()
        got = self.run(thread, grad, lambda: x.tensor @ (x.tensor * 0.5).t())
        a, j = x.array, x.jacobian
        want = a @ a.T * 0.5
        jacobian = np.zeros((*want.shape, LEAF_ELEMENTS))
        if x.history.tracked:
            jacobian = np.einsum("ikn,jk->ijn", j, a) + np.einsum("ik,jkn->ijn", a, j)
        return self.keep(result(got, want, jacobian * 0.5, [x], grad, [x], True))

    @rule(target=values, x=values, device=st.sampled_from(DEVICES), grad=grads, thread=threads)
    def move(self, x, device, grad, thread):
        if x.array.size > 5000:
            return multiple()
        got = self.run(thread, grad, lambda: x.tensor.to(device))
        if x.tensor.device == got.device:
            # Itself, or a view of it that is placed there.
            shared = device != "cpu" or got.data_ptr() == x.tensor.data_ptr()
            assert got is x.tensor or shared
            return multiple()
        return self.keep(result(got, x.array, x.jacobian, [x], grad))

    # ---- views ----------------------------------------------------------------------------------

    @rule(target=values, x=values, data=st.data(), grad=grads, thread=threads)
    def view(self, x, data, grad, thread):
        t, i = x.tensor, x.index
        kinds = ["T", "slice", "select", "flat", "unsqueeze", "expand", "diagonal", "ellipsis"]
        kind = data.draw(st.sampled_from(kinds))
        if i.ndim == 0:
            kind = "unsqueeze"
        if kind in ("select", "expand") and not i.shape[0]:
            kind = "T"
        if kind == "diagonal" and i.ndim < 2:
            kind = "slice"
        if kind == "flat" and not t.is_contiguous():
            kind = "unsqueeze"
        if kind == "T":
            make, index = lambda: t.transpose(0, -1), i.swapaxes(0, -1)
        elif kind == "slice":
            start, step = data.draw(st.integers(0, i.shape[0])), data.draw(st.integers(1, 3))
            make, index = lambda: t[start::step], i[start::step]
        elif kind == "select":
            at = data.draw(st.integers(-i.shape[0], i.shape[0] - 1))
            make, index = lambda: t[at], i[at, ...]
        elif kind == "ellipsis":
            make, index = lambda: t[..., 1:, None], i[..., 1:, None]
        elif kind == "flat":
            make, index = lambda: t.view(-1), i.reshape(-1)
        elif kind == "expand":
            if i.size > 500:
                return multiple()
            make = lambda: t.unsqueeze(1).expand(i.shape[0], 3, *i.shape[1:])  # noqa: E731
            index = np.repeat(i[:, None], 3, 1)
        elif kind == "diagonal":
            make, index = lambda: t.diagonal(), i.diagonal()
        else:
            make, index = lambda: t.unsqueeze(0), i[None]
        return self.keep(x.view(self.run(thread, grad, make), index, grad))

    @rule(target=values, x=values)
    def detach(self, x):
        return self.keep(x.detached(x.tensor.detach()))

    # ---- writes ---------------------------------------------------------------------------------

    @rule(x=values, k=choice, op=st.sampled_from(WRITES), grad=grads, thread=threads)
    def write(self, x, k, op, grad, thread):
        alone = op in ("double", "zero", "relu", "fill", "mask", "row")
        y = x if alone else self.partner(x, k, x.shape)
        tracked = grad and (x.history.tracked or y.history.tracked)
        if not (exact(x) and exact(y)) or (tracked and x.memory.values.size > 5000):
            return
        if grad and x.history.hidden:
            return  # refused only if the base requires grad, which the model does not follow
        if op == "row" and not (x.shape and x.shape[0]):
            return
        if op == "mul":
            if max(x.history.depth, y.history.depth) > 2 or not (exact(x, 4, 2) and exact(y, 4, 2)):
                return
        a, j = x.array, x.jacobian
        b = np.broadcast_to(y.array, x.shape)
        jy = np.broadcast_to(self.ranked(y.jacobian, len(x.shape)), j.shape)
        t = x.tensor

        def ours():
            other = self.together(x, y)
            if op == "mask":
                t[t > 1.0] = -0.5
            elif op == "row":
                t[0] = 2.0
            else:
                {
                    "add": lambda: t.add_(other), "sub": lambda: t.sub_(other),
                    "mul": lambda: t.mul_(other), "copy": lambda: t.copy_(other),
                    "double": lambda: t.mul_(2.0), "zero": t.zero_, "relu": t.relu_,
                    "fill": lambda: t.fill_(1.5),
                }[op]()  # fmt: skip

        refused = (grad and x.leaf is not None) or (x.overlapping and op != "row")
        if op == "row":
            refused |= np.unique(x.index[0]).size != x.index[0].size
        if refused:
            try:
                self.run(thread, grad, ours)
            except pf.PyFlameError:
                return
            raise AssertionError(f"{op} of a leaf or of an overlapping view was not refused")
        self.run(thread, grad, ours)
        if op == "row":
            a, j = a.copy(), j.copy()
            a[0], j[0] = 2.0, 0.0
        elif op == "mask":
            j = np.where((a > 1.0)[..., None], 0.0, j)
            a = np.where(a > 1.0, -0.5, a)
        elif op in ("add", "sub", "mul"):
            a, j = BINARY[op][1](a, b, j, jy)
        elif op == "copy":
            a, j = b.copy(), jy.copy()
        elif op == "double":
            a, j = a * 2, j * 2
        elif op == "relu":
            a, j = masked(a, j, a > 0)
        else:
            a, j = np.full(a.shape, 1.5 if op == "fill" else 0.0), np.zeros_like(j)
        write(x, a, j, [] if alone else [y], grad, [y] if op == "mul" else [], op == "mul")
        if op == "mul" and tracked:  # the value before is kept too, and is stale at once
            x.history.saved.add((x.memory, x.memory.version - 1, x.memory.outside))

    @rule(target=values, x=values, k=st.integers(1, 2), forward=st.booleans(),
          op=st.sampled_from(["add", "double", "copy"]), thread=threads)  # fmt: skip
    def shifted(self, x, k, forward, op, thread):
        """A pending read of some elements, and a write of their neighbours."""
        if not x.shape or x.shape[0] <= k or x.overlapping or not exact(x):
            return multiple()
        if x.history.tracked or x.history.hidden:
            return multiple()
        front, back = (slice(k, None), slice(None, -k))[:: 1 if forward else -1]
        t, y = x.tensor, Value(None, x.memory, x.history, x.index[back])

        def ours():
            read = t[front] * 2.0
            if op == "add":
                t[back].add_(t[front])
            elif op == "copy":
                t[back].copy_(t[front])
            else:
                t[back].mul_(2.0)
            return read + t[front]

        a, b = x.array[front], y.array
        written = {"add": b + a, "copy": a, "double": b * 2}[op]
        got, read = self.run(thread, True, ours), a * 2
        write(y, written, 0.0, [], False)
        return self.keep(result(got, read + x.array[front], 0.0, [x], False))

    # ---- gradients ------------------------------------------------------------------------------

    @rule(x=values, keep=st.booleans(), way=st.sampled_from(["backward", "grad"]), thread=threads)
    def backward(self, x, keep, way, thread):
        if not x.tensor.requires_grad or not x.array.size:
            return
        weights = self.rng.integers(-2, 3, x.shape).astype(np.float64)
        want = np.tensordot(weights, x.jacobian, weights.ndim)
        leaves = list(self.leaves)

        def ours():
            w = pf.tensor(weights, dtype=pf.float64, device=x.tensor.device)
            loss = (x.tensor * w).sum()
            if way == "backward":
                return loss.backward(retain_graph=keep)
            inputs = [leaf.tensor for leaf in leaves]
            return pf.autograd.grad(loss, inputs, retain_graph=keep, allow_unused=True)

        before = [None if leaf.grad is None else leaf.grad.copy() for leaf in leaves]
        nodes = set(x.history.nodes)
        try:
            got = self.run(thread, True, ours)
        except pf.AutogradError:
            assert stale(x.history) or nodes & self.freed
            for leaf in leaves:  # how far the pass came is not promised
                leaf.tensor.grad = leaf.grad = None
            return
        finally:
            if not keep:
                self.freed |= nodes
        if unknowable(x.history):
            for leaf in leaves:
                leaf.tensor.grad = leaf.grad = None
            return
        for i, leaf in enumerate(leaves):
            part = leaf.part(want)
            if way == "grad":
                mine = got[i]
                value = np.zeros(leaf.shape) if mine is None else mine.cpu().numpy()
                np.testing.assert_array_equal(value, part)
                continue
            if leaf.tensor.grad is None:
                assert before[i] is None and not part.any()
                continue
            leaf.grad = part.copy() if before[i] is None else before[i] + part
            np.testing.assert_array_equal(leaf.tensor.grad.cpu().numpy(), leaf.grad)

    @rule(data=st.data(), how=st.sampled_from(["none", "zero", "double"]))
    def change_grad(self, data, how):
        leaf = data.draw(st.sampled_from(self.leaves))
        if how == "none":
            leaf.tensor.grad = leaf.grad = None
        elif leaf.grad is not None and np.abs(leaf.grad).max(initial=0) < 2**20:
            leaf.tensor.grad.mul_(0.0 if how == "zero" else 2.0)
            leaf.grad = leaf.grad * (0.0 if how == "zero" else 2.0)

    # ---- memory shared with NumPy ---------------------------------------------------------------

    @rule(target=values, data=st.data(), requires_grad=st.booleans())
    def import_array(self, data, requires_grad):
        array = self.numbers((4, 3))
        part = data.draw(st.sampled_from([array, array.T, array[1:, ::2], array[:, 1], array[:0]]))
        value = fresh(pf.from_numpy(part), part)
        self.exports.append((part, value))
        if requires_grad and self.room(part.shape):
            return self.make_leaf(part.shape, value)
        return self.keep(value)

    @rule(x=values, k=choice)
    def export(self, x, k):
        if k % 3:  # memory that NumPy knows is never pending again: keep most of it ours
            return
        if str(x.tensor.device) != "cpu" or HOME != "cpu":
            return
        seen = x.tensor.detach().numpy()
        np.testing.assert_array_equal(seen, x.array)
        self.exports.append((seen, x))

    @precondition(lambda self: getattr(self, "exports", None))
    @rule(k=choice, writes=st.booleans())
    def use_array(self, k, writes):
        array, value = self.exports[k % len(self.exports)]
        np.testing.assert_array_equal(array, value.array)
        if writes and array.size and array.flags.writeable:
            array[(0,) * array.ndim] = 3.0
            value.memory.values[value.index.reshape(-1)[0]] = 3.0
            value.memory.outside += 1

    # ---- looking, dropping, running -------------------------------------------------------------

    @rule(x=consumes(values), thread=threads)
    def drop(self, x, thread):
        self.live.remove(x)
        box = [x.tensor]
        if x.leaf is None and not any(x is v for _, v in self.exports):
            x.tensor = None
        self.run(thread, True, box.clear)

    @rule(x=values, how=st.sampled_from(LOOKS), thread=threads)
    def look(self, x, how, thread):
        def ours():
            if how == "compare":
                self.same(x)
            elif how == "print":
                assert repr(x.tensor).startswith("tensor(")
            elif how == "item":
                assert x.array.size != 1 or x.tensor.item() == x.array.reshape(())
            elif how == "memory":
                pf.debug.memory_stats("cpu")
            elif how == "eager":
                pf.debug.set_eager(True)
            else:
                getattr(pf, how)()

        pf.debug.set_eager(False)
        self.run(thread, True, ours)

    def teardown(self):
        try:
            for value in getattr(self, "live", []):
                self.same(value)
            for array, value in getattr(self, "exports", []):
                np.testing.assert_array_equal(array, value.array)
        finally:
            pf.debug.set_eager(False)
            for pool in getattr(self, "pools", {}).values():
                pool.shutdown()


TestPrograms = Programs.TestCase
TestPrograms.settings = settings(
    max_examples=2 * settings.default.max_examples,
    stateful_step_count=80,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
