"""Random programs of operations, views, in-place writes, drops and exports.

A strict model runs beside PyFlame: every operation at once, in NumPy, whose views alias as ours
must. Only operations that are exact in float64 are used, so every comparison is bit for bit.
"""

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

import pyflame as pf

SHAPES = [(), (1,), (7,), (3, 5), (5, 3), (2, 3, 4), (0, 4), (64, 33)]
UNARY = {
    "neg": (lambda t: -t, lambda a: -a),
    "abs": (lambda t: t.abs(), np.abs),
    "double": (lambda t: t * 2.0, lambda a: a * 2.0),
    "shift": (lambda t: t + 0.5, lambda a: a + 0.5),
    "relu": (lambda t: pf.relu(t), lambda a: np.where(a > 0, a, 0.0)),
    "clone": (lambda t: t.clone(), np.copy),
}
BINARY = {
    "add": (lambda a, b: a + b, np.add),
    "sub": (lambda a, b: a - b, np.subtract),
    "max": (pf.maximum, np.maximum),
    "where": (lambda a, b: pf.where(a > b, a, b), lambda a, b: np.where(a > b, a, b)),
}


class Pair:
    """A tensor and the array that it must equal."""

    def __init__(self, tensor, array):
        self.tensor, self.array = tensor, array


def halve(array):
    """Keeps values small and exact: in-place growth would leave what float64 holds exactly."""
    return np.abs(array).max(initial=0) > 2**20


class Programs(RuleBasedStateMachine):
    values = Bundle("values")

    @initialize(target=values, seed=st.integers(0, 2**16))
    def start(self, seed):
        self.rng = np.random.default_rng(seed)
        self.live = []
        return multiple(*[self.fresh(s) for s in ((3, 5), (7,), ())])

    def fresh(self, shape):
        array = self.rng.integers(-8, 9, shape).astype(np.float64)
        pair = Pair(pf.tensor(array, dtype=pf.float64), array.copy())
        self.live.append(pair)
        return pair

    def keep(self, tensor, array):
        pair = Pair(tensor, array)
        self.live.append(pair)
        return pair

    @rule(target=values, shape=st.sampled_from(SHAPES))
    def create(self, shape):
        return self.fresh(shape)

    @rule(target=values, x=values, op=st.sampled_from(sorted(UNARY)))
    def unary(self, x, op):
        ours, model = UNARY[op]
        if halve(x.array):
            return multiple()
        return self.keep(ours(x.tensor), np.array(model(x.array)))

    @rule(target=values, x=values, y=values, op=st.sampled_from(sorted(BINARY)))
    def binary(self, x, y, op):
        try:
            shape = np.broadcast_shapes(x.array.shape, y.array.shape)
        except ValueError:
            return multiple()
        if np.prod(shape, dtype=int) > 1e5 or halve(x.array) or halve(y.array):
            return multiple()
        ours, model = BINARY[op]
        return self.keep(ours(x.tensor, y.tensor), np.array(model(x.array, y.array)))

    @rule(target=values, x=values, data=st.data())
    def view(self, x, data):
        t, a = x.tensor, x.array
        if a.ndim == 0:
            return self.keep(t[None], a[None])
        kind = data.draw(st.sampled_from(["T", "slice", "select", "flat", "unsqueeze"]))
        if kind == "T":
            return self.keep(t.transpose(0, -1), a.swapaxes(0, -1))
        if kind == "slice":
            start = data.draw(st.integers(0, a.shape[0]))
            step = data.draw(st.integers(1, 3))
            return self.keep(t[start::step], a[start::step])
        if kind == "select" and a.shape[0]:
            i = data.draw(st.integers(-a.shape[0], a.shape[0] - 1))
            return self.keep(t[i], a[i, ...])
        if kind == "flat" and a.flags.c_contiguous and t.is_contiguous():
            return self.keep(t.view(-1), a.reshape(-1))
        return self.keep(t.unsqueeze(0), a[None])

    @rule(x=values, y=values, op=st.sampled_from(["add", "copy", "mul2", "zero"]))
    def write(self, x, y, op):
        if halve(x.array) or halve(y.array):
            return
        if op == "mul2":
            x.tensor.mul_(2.0)
            x.array *= 2.0
        elif op == "zero":
            x.tensor.zero_()
            x.array[...] = 0
        else:
            try:
                if np.broadcast_shapes(x.array.shape, y.array.shape) != x.array.shape:
                    return
            except ValueError:
                return
            source = y.array.copy()
            if op == "add":
                x.tensor.add_(y.tensor)
                x.array += source
            else:
                x.tensor.copy_(y.tensor)
                x.array[...] = source

    @rule(x=values)
    def export(self, x):
        if str(x.tensor.device) != "cpu":
            return
        seen = x.tensor.numpy()
        np.testing.assert_array_equal(seen, x.array)
        if seen.size and seen.ndim:
            seen.flat[0] = 3.0  # the memory is shared
            x.array.flat[0] = 3.0

    @rule(x=values)
    def total(self, x):
        assert float(x.tensor.sum()) == x.array.sum()

    @rule(x=consumes(values))
    def drop(self, x):
        self.live.remove(x)
        x.tensor = None

    @rule()
    def flush(self):
        pf.flush()

    @rule(x=values)
    def compare(self, x):
        np.testing.assert_array_equal(x.tensor.cpu().numpy(), x.array)

    @invariant()
    def bounded(self):
        if len(getattr(self, "live", [])) > 60:
            for pair in self.live:
                np.testing.assert_array_equal(pair.tensor.cpu().numpy(), pair.array)

    def teardown(self):
        for pair in getattr(self, "live", []):
            np.testing.assert_array_equal(pair.tensor.cpu().numpy(), pair.array)


TestPrograms = Programs.TestCase
TestPrograms.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
