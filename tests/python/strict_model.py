"""What a tensor must be, op by op: memory, who shares it, versions, and derivatives.

The oracle of test_state_machine.py. A value is a cell of memory and an array of positions in it, so
that views alias because their positions do. Beside its values a history carries the derivatives by
every element of every leaf (forward mode, which has nothing in common with a tape): the gradient of
a sum is a row of that matrix. Numbers are small multiples of a quarter, so that float64 is exact
whatever the order of sums, and every comparison is bit for bit.
"""

import itertools

import numpy as np

LEAF_ELEMENTS = 24  # of all leaves of a program together


class Memory:
    """Elements that tensors share; `outside` counts writes that no version counter can see."""

    def __init__(self, values):
        self.values = np.array(values, np.float64).reshape(-1)
        self.version = self.outside = 0

    def stamp(self):
        return self.version, self.outside


class History:
    """Derivatives of the elements of one cell, and what a backward pass through it may need."""

    numbers = itertools.count()

    def __init__(self, size, hidden=False):
        self.size, self.hidden = size, hidden  # hidden: a view made under no_grad()
        self.jacobian = None  # (size, LEAF_ELEMENTS), or None: requires no gradient
        self.saved = set()  # (memory, version, outside)
        self.nodes = set()
        self.depth = 0  # of products: bounds the bits that gradients need

    @property
    def tracked(self):
        return self.jacobian is not None

    def track(self):
        if self.jacobian is None:
            self.jacobian = np.zeros((self.size, LEAF_ELEMENTS))

    def inherit(self, other):
        self.saved |= other.saved
        self.nodes |= other.nodes
        self.depth = max(self.depth, other.depth)


class Value:
    """The model of one tensor, beside the tensor itself."""

    def __init__(self, tensor, memory, history, index, leaf=None):
        self.tensor, self.memory, self.history = tensor, memory, history
        self.index, self.leaf = index, leaf

    @property
    def shape(self):
        return self.index.shape

    @property
    def array(self):
        return self.memory.values[self.index]

    @property
    def jacobian(self):
        if not self.history.tracked:
            return np.zeros((*self.shape, LEAF_ELEMENTS))
        return self.history.jacobian[self.index]

    @property
    def overlapping(self):
        return np.unique(self.index).size != self.index.size

    def view(self, tensor, index, grad):
        """What a view operation makes; under no_grad() it has no history."""
        history = self.history if grad else History(self.memory.values.size, hidden=True)
        return Value(tensor, self.memory, history, index, self.leaf if grad else None)

    def detached(self, tensor):
        return Value(tensor, self.memory, History(self.memory.values.size), self.index)


def fresh(tensor, array):
    memory = Memory(array)
    index = np.arange(memory.values.size).reshape(np.shape(array))
    return Value(tensor, memory, History(memory.values.size), index)


def result(tensor, array, jacobian, inputs, grad, saves=(), product=False):
    """The value of an operation of `inputs` that keeps `saves` for its gradient."""
    out = fresh(tensor, array)
    if grad and any(x.history.tracked for x in inputs):
        out.history.track()
        out.history.jacobian[...] = np.reshape(jacobian, (-1, LEAF_ELEMENTS))
        note(out.history, inputs, saves, product)
        out.history.saved.add((out.memory, *out.memory.stamp()))  # some gradients keep the result
    return out


def note(history, inputs, saves, product=False):
    for x in inputs:
        history.inherit(x.history)
    history.saved |= {(x.memory, *x.memory.stamp()) for x in saves}
    history.nodes.add(next(History.numbers))
    history.depth += product


def write(x, array, jacobian, inputs, grad, saves=(), product=False):
    """`x` takes new values in place; `inputs` besides x have contributed."""
    if grad and (x.history.tracked or any(y.history.tracked for y in inputs)):
        x.history.track()
        note(x.history, inputs, saves, product)
        x.history.jacobian[x.index] = jacobian
    x.memory.values[x.index] = array
    x.memory.version += 1
    if grad and x.history.tracked:
        x.history.saved.add((x.memory, *x.memory.stamp()))


def stale(history):
    """Something that a backward pass may need was changed in place: an error is allowed."""
    return any((version != m.version) for m, version, _ in history.saved)


def unknowable(history):
    """Memory that was saved was written behind the back of the version counter."""
    return any(outside != m.outside for m, _, outside in history.saved)


def exact(x, bits=6, whole=4):
    """Small multiples of 1/4 with small derivatives: another operation stays exact."""
    a, j = x.array, x.jacobian if x.history.tracked else np.zeros(())
    return (
        np.abs(a).max(initial=0) <= 2**bits
        and np.abs(j).max(initial=0) <= 2**12
        and (a * whole == np.rint(a * whole)).all()
    )
