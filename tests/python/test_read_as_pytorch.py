"""Nested data and index keys that can be read in more than one way are read as PyTorch reads them.

Each row of the tables is run under both packages: equal shapes, dtypes and values, or both refuse.
What is written at a key is compared too: a key that is read otherwise overwrites other elements.
"""

import collections

import numpy as np
import pytest

import pyflame as pf

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch's, of slow lists

one = lambda t, v: t.tensor([float(v)])  # noqa: E731

DATA = {
    "tensors of one element": lambda t: t.tensor([one(t, 1), one(t, 2)]),
    "0-d tensors": lambda t: t.tensor([t.tensor(1.0), t.tensor(2.0)]),
    "tensors of shape 1, 1": lambda t: t.tensor([t.ones(1, 1), t.ones(1, 1)]),
    "nested": lambda t: t.tensor([[one(t, 1), one(t, 2)], [one(t, 3), one(t, 4)]]),
    "tensors and numbers": lambda t: t.tensor([[one(t, 1), 2], [3, one(t, 4)]]),
    "a number first": lambda t: t.tensor([3, one(t, 1)]),
    "a tuple": lambda t: t.tensor((one(t, 1), one(t, 2))),
    "a single one": lambda t: t.tensor([one(t, 1)]),
    "integers": lambda t: t.tensor([t.tensor([1]), t.tensor([2])]),
    "integer and float": lambda t: t.tensor([t.tensor([1]), one(t, 2)]),
    "float64 and float32": lambda t: t.tensor([one(t, 1).double(), one(t, 2)]),
    "float16": lambda t: t.tensor([one(t, 1).half(), one(t, 2).half()]),
    "float16 and a number": lambda t: t.tensor([one(t, 1).half(), 2.0]),
    "bools": lambda t: t.tensor([t.tensor([True]), t.tensor([False])]),
    "one that requires grad": lambda t: t.tensor([t.ones(1, requires_grad=True)]),
    "larger tensors": lambda t: t.tensor([t.ones(2), t.ones(2)]),
    "larger ones below": lambda t: t.tensor([[t.ones(2), t.ones(2)]]),
    "one and two elements": lambda t: t.tensor([t.ones(1), t.ones(2)]),
    "two and one elements": lambda t: t.tensor([t.ones(2), t.ones(1)]),
    "empty tensors": lambda t: t.tensor([t.ones(0), t.ones(0)]),
    "a list, then a tensor": lambda t: t.tensor([[1.0, 2.0], t.ones(2)]),
    "a list, then a column": lambda t: t.tensor([[1.0, 2.0], t.ones(2, 1)]),
    "a list, then a shorter tensor": lambda t: t.tensor([[1.0, 2.0], t.ones(1)]),
    "a tensor, then a list": lambda t: t.tensor([t.ones(1), [1.0]]),
    "FloatTensor": lambda t: t.FloatTensor([one(t, 1), one(t, 2)]),
    "LongTensor": lambda t: t.LongTensor([t.tensor([1]), t.tensor([2])]),
    "FloatTensor of larger ones": lambda t: t.FloatTensor([t.ones(2), t.ones(2)]),
    "Tensor": lambda t: t.Tensor([one(t, 1), one(t, 2)]),
    "as_tensor": lambda t: t.as_tensor([one(t, 1), one(t, 2)]),
    "asarray": lambda t: t.asarray([one(t, 1), one(t, 2)]),
    "new_tensor": lambda t: one(t, 0).new_tensor([one(t, 1), one(t, 2)]),
    "arrays of one element": lambda t: t.tensor([np.ones(1), np.ones(1)]),
    "arrays of shape 1, 1": lambda t: t.tensor([np.ones((1, 1)), np.ones((1, 1))]),
    "float32 arrays": lambda t: t.tensor([np.ones(2, np.float32)] * 2),
    "empty arrays": lambda t: t.tensor([np.ones(0), np.ones(0)]),
    "an array and a tensor": lambda t: t.tensor([np.ones(2), t.ones(2)]),
    "NumPy's numbers": lambda t: t.tensor([np.int32(1), np.int32(2)]),
    "a range": lambda t: t.tensor(range(3)),
    "ranges": lambda t: t.tensor([range(2), range(2)]),
    "a deque": lambda t: t.tensor(collections.deque([1, 2])),
    "shapes": lambda t: t.tensor([t.ones(2, 3).shape, t.ones(4, 5).shape]),
    "empty lists": lambda t: t.tensor([[], []]),
}


def outcome(make):
    try:
        r = make()
    except (TypeError, ValueError, IndexError, RuntimeError):
        return "refused"
    return tuple(r.shape), str(r.dtype).rsplit(".")[-1], r.tolist()


@pytest.mark.parametrize("name", DATA)
def test_nested_data(name):
    torch = pytest.importorskip("torch")
    assert outcome(lambda: DATA[name](pf)) == outcome(lambda: DATA[name](torch))


def test_losses_in_a_list_are_numbers():
    losses = [(pf.ones(1) * i).sum(0, keepdim=True) for i in range(3)]
    assert pf.tensor(losses).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="stack"):
        pf.tensor([pf.ones(2), pf.ones(2)])
    x = pf.zeros(2)
    x[:] = [pf.ones(1), pf.ones(1) * 2]
    assert x.tolist() == [1, 2]


a, b = [0, 2], [1, 3]
mask = [True, False, True, False]
KEYS = {
    "list of tensors": lambda t: [t.tensor(a), t.tensor(b)],
    "list of one tensor": lambda t: [t.tensor(a)],
    "list of 0-d tensors": lambda t: [t.tensor(0), t.tensor(1)],
    "list of tensors of one": lambda t: [t.tensor([0]), t.tensor([1])],
    "list of arrays": lambda t: [np.array(a), np.array(b)],
    "list of 0-d arrays": lambda t: [np.array(0)],
    "list of lists": lambda t: [a, b],
    "list of one list": lambda t: [a],
    "list of tuples": lambda t: [tuple(a), tuple(b)],
    "list of three lists": lambda t: [[0], [1], [2]],
    "list of a list of lists": lambda t: [[[0, 1], [2, 3]]],
    "list of an empty list": lambda t: [[]],
    "list of slices": lambda t: [slice(0, 2), slice(1, 3)],
    "list of a slice": lambda t: [slice(0, 2)],
    "list of an int and a slice": lambda t: [0, slice(None)],
    "list of a tensor and a slice": lambda t: [t.tensor(a), slice(1, 3)],
    "list of an int and a tensor": lambda t: [0, t.tensor(a)],
    "list of an int and a list": lambda t: [0, [1]],
    "list of None": lambda t: [None],
    "list of a list and None": lambda t: [[0, 1], None],
    "list of Ellipsis": lambda t: [...],
    "list of an int and Ellipsis": lambda t: [0, ...],
    "list of a range": lambda t: [range(2)],
    "list of a mask": lambda t: [t.tensor(mask)],
    "list of an array that is a mask": lambda t: [np.array(mask)],
    "list of a list that is a mask": lambda t: [mask],
    "list of ints": lambda t: [0, 1],
    "list of NumPy's ints": lambda t: [np.int64(0), np.int64(2)],
    "list of bools": lambda t: mask,
    "list of one bool": lambda t: [True],
    "empty list": lambda t: [],
    "32 lists": lambda t: [[0]] * 32,
    "33 ints": lambda t: [0] * 33,
    "tuple of lists": lambda t: (a, b),
    "tuple of one list of lists": lambda t: ([a, b],),
    "tuple of a list of tensors": lambda t: ([t.tensor(a), t.tensor(b)],),
    "tuple of a list of ints and 0-d tensors": lambda t: ([0, t.tensor(1)],),
    "tuple of tuples": lambda t: (tuple(a), tuple(b)),
    "tuple of a range and a tensor": lambda t: (range(2), t.tensor(b)),
    "tuple of a slice and a range": lambda t: (slice(None), range(2)),
    "tuple of None and a list": lambda t: (None, [0, 1]),
    "array of rank 2": lambda t: np.array([a, b]),
    "list of an array of rank 2": lambda t: [np.array([a, b])],
    "range": lambda t: range(2),
    "deque": lambda t: collections.deque([0, 1]),
    "deque of lists": lambda t: collections.deque([a, b]),
    "text": lambda t: "a",
    "list of texts": lambda t: ["a"],
    "set": lambda t: {1},
}


@pytest.mark.parametrize("name", KEYS)
def test_keys(name):
    torch = pytest.importorskip("torch")

    def table(t):
        return t.arange(24).reshape(4, 6)

    def written(t):
        x = table(t)
        x[KEYS[name](t)] = -1
        return x

    assert outcome(lambda: table(pf)[KEYS[name](pf)]) == outcome(
        lambda: table(torch)[KEYS[name](torch)]
    )
    assert outcome(lambda: written(pf)) == outcome(lambda: written(torch))


def test_likelihoods_of_labels():
    logp, y = pf.arange(12.0).view(4, 3), pf.tensor([2, 0, 1, 1])
    assert logp[range(4), y].tolist() == [2, 3, 7, 10]
    x = pf.zeros(3, 3)
    x[[[0, 1], [1, 2]]] = 1  # two elements, not three rows
    assert x.sum() == 2 and x[0, 1] == x[1, 2] == 1


BOOLS = {
    "two masks": lambda m, x: m - m,
    "1 - mask": lambda m, x: 1 - m,
    "mask - 1": lambda m, x: m - 1,
    "mask - 1.5": lambda m, x: m - 1.5,
    "mask - True": lambda m, x: m - True,
    "numbers - mask": lambda m, x: x - m,
    "mask - numbers": lambda m, x: m - x,
    "numbers - True": lambda m, x: x - True,
    "True - numbers": lambda m, x: True - x,
    "floats - True": lambda m, x: x.float() - True,
    "floats - mask": lambda m, x: x.float() - m,
    "sub": lambda m, x: m.sub(m),
    "sub with alpha": lambda m, x: x.sub(m, alpha=2),
    "sub_": lambda m, x: x.sub_(m),
    "sub_ of True": lambda m, x: x.float().sub_(True),
    "rsub": lambda m, x: m.__rsub__(1),
    "neg": lambda m, x: -m,
    "-=": lambda m, x: m.__isub__(m),
}


@pytest.mark.parametrize("name", BOOLS)
def test_bools_have_no_difference(name):
    """As in PyTorch, and so that `1 - mask` is not an int tensor by mistake."""
    with pytest.raises(pf.DTypeError, match="logical"):
        BOOLS[name](pf.tensor([True, False]), pf.tensor([1, 2]))
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError):
        BOOLS[name](torch.tensor([True, False]), torch.tensor([1, 2]))
