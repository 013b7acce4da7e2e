"""Datasets and loaders."""

import collections.abc
import types

import numpy as np
import pytest

import pyflame as pf
from pyflame.utils import data as D

Pair = collections.namedtuple("Pair", "a b")


class Squares(D.Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, i):
        return {"x": float(i), "y": (i * i, str(i))}


def test_tensor_dataset_in_order():
    ds = D.TensorDataset(pf.arange(10).float(), pf.arange(20).view(10, 2))
    assert len(ds) == 10 and ds[3][1].tolist() == [6, 7]
    loader = D.DataLoader(ds, batch_size=4)
    batches = list(loader)
    assert len(loader) == 3 and [len(x) for x, _ in batches] == [4, 4, 2]
    assert batches[1][1].tolist() == [[8, 9], [10, 11], [12, 13], [14, 15]]
    assert len(list(D.DataLoader(ds, batch_size=4, drop_last=True))) == 2
    with pytest.raises(AssertionError, match="equal"):
        D.TensorDataset(pf.ones(2), pf.ones(3))


def test_shuffle_depends_on_the_seed():
    ds = D.TensorDataset(pf.arange(100))

    def order():
        return [v for (x,) in D.DataLoader(ds, batch_size=7, shuffle=True) for v in x.tolist()]

    pf.manual_seed(1)
    a, b = order(), order()
    pf.manual_seed(1)
    assert order() == a and a != b and sorted(a) == list(range(100))


def test_collate():
    batches = list(D.DataLoader(Squares(), batch_size=4))
    assert batches[1]["x"].tolist() == [4, 5, 6, 7]
    assert batches[1]["y"][0].tolist() == [16, 25, 36, 49]
    assert batches[1]["y"][1] == ("4", "5", "6", "7")
    out = D.default_collate([(np.ones(2), np.float32(1), pf.ones(3))] * 2)
    assert [tuple(v.shape) for v in out] == [(2, 2), (2,), (2, 3)]
    with pytest.raises(TypeError, match="collate_fn"):
        D.default_collate([object()])
    with pytest.raises(RuntimeError, match="different lengths"):
        D.default_collate([(1, 2), (1,)])
    loader = D.DataLoader(Squares(), batch_size=2, collate_fn=len)
    assert list(loader) == [2] * 5


def test_split_and_concat():
    ds = D.TensorDataset(pf.arange(10))
    a, b = D.random_split(ds, [7, 3])
    seen = [ds_[i][0].item() for ds_ in (a, b) for i in range(len(ds_))]
    assert sorted(seen) == list(range(10))
    assert [len(p) for p in D.random_split(ds, [0.5, 0.25, 0.25])] == [6, 2, 2]
    assert [x.tolist() for (x,) in D.DataLoader(a, batch_size=7)] == [seen[:7]]
    both = ds + ds
    assert len(both) == 20 and both[13][0].item() == 3 and both[-1][0].item() == 9
    with pytest.raises(ValueError, match="sum"):
        D.random_split(ds, [3, 3])


def test_iterable_and_samplers():
    class Stream(D.IterableDataset):
        def __iter__(self):
            return iter(range(7))

    assert [b.tolist() for b in D.DataLoader(Stream(), batch_size=3)] == [[0, 1, 2], [3, 4, 5], [6]]
    with pytest.raises(ValueError):
        D.DataLoader(Stream(), shuffle=True)
    loader = D.DataLoader(Squares(), batch_sampler=[[1, 2], [5]])
    assert [b["x"].tolist() for b in loader] == [[1, 2], [5]]
    loader = D.DataLoader(Squares(), batch_size=2, sampler=[3, 1, 2])
    assert [b["x"].tolist() for b in loader] == [[3, 1], [2]]
    assert next(iter(D.DataLoader(Squares(), batch_size=None)))["x"] == 0.0
    with pytest.raises(ValueError, match="batch_size"):
        D.DataLoader(Squares(), batch_size=0)


COLLATED = {
    "floats": [1.5, 2.0],
    "a float and an int": [1.5, 2],
    "ints": [1, 2],
    "bools": [True, False],
    "float32 numbers": [np.float32(1), np.float32(2)],
    "float64 numbers": [np.float64(1), np.float64(2)],
    "int16 numbers": [np.int16(1), np.int16(2)],
    "uint8 numbers": [np.uint8(1), np.uint8(2)],
    "bool numbers": [np.bool_(True), np.bool_(False)],
    "arrays": [np.ones(2, np.int32)] * 2,
    "0-d arrays": [np.array(1.5, np.float32)] * 2,
    "texts": ["a", "b"],
    "tuples": [(1.0, "x"), (2.0, "y")],
    "lists": [[1.0, 2], [3.0, 4]],
    "dicts": [{"x": 1.0, "y": (1, 2.0)}] * 2,
    "ordered dicts": [collections.OrderedDict(b=1.0, a=2)] * 2,
    "default dicts": [collections.defaultdict(int, a=1.0)] * 2,
    "namedtuples": [Pair(1.0, 2)] * 2,
    "ranges": [range(2)] * 2,
    "proxies": [types.MappingProxyType({"a": 1.0})] * 2,
}


def described(x):
    """Classes, dtypes and values of a collated batch, without the names of the package."""
    if hasattr(x, "tolist"):
        return str(x.dtype).rsplit(".")[-1], tuple(x.shape), x.tolist()
    if isinstance(x, collections.abc.Mapping):
        return type(x), {k: described(v) for k, v in x.items()}
    return (type(x), [described(v) for v in x]) if isinstance(x, (list, tuple)) else x


@pytest.mark.parametrize("name", COLLATED)
def test_collate_as_pytorch_does(name):
    torch = pytest.importorskip("torch")
    batch = COLLATED[name]
    for function in ("default_collate", "default_convert"):
        ours = getattr(D, function)(batch)
        assert described(ours) == described(getattr(torch.utils.data, function)(batch)), function


def test_float_targets_are_float64():
    assert D.default_collate([0.1, 0.2]).dtype == pf.float64
    assert D.default_collate([np.float32(1)]).dtype == pf.float32


def test_collate_with_functions_for_classes(monkeypatch):
    """What torch.utils.data's documentation tells: extend default_collate_fn_map, or give a map of one's own."""
    from pyflame.utils.data.collate import collate, default_collate_fn_map

    class Box:
        def __init__(self, v):
            self.v = v

    def boxes(batch, *, collate_fn_map):
        return collate([b.v for b in batch], collate_fn_map=collate_fn_map) * 10

    samples = [{"b": Box(1), "t": (Box(2.0), 5)}, {"b": Box(3), "t": (Box(4.0), 6)}]
    with pytest.raises(TypeError, match="Box"):
        D.default_collate(samples)
    made = collate(samples, collate_fn_map={Box: boxes})
    assert made["b"].tolist() == [10, 30] and [c.tolist() for c in made["t"]] == [[20, 40], [5, 6]]
    monkeypatch.setitem(default_collate_fn_map, Box, boxes)
    assert D.default_collate(samples)["b"].tolist() == [10, 30]
    assert next(iter(D.DataLoader(samples, batch_size=2)))["b"].tolist() == [10, 30]


def test_a_loader_says_how_it_collates():
    assert D.DataLoader(Squares()).collate_fn is D.default_collate
    assert D.DataLoader(Squares(), batch_size=None).collate_fn is D.default_convert
    assert D.DataLoader(Squares(), batch_sampler=[[0, 1]]).collate_fn is D.default_collate
    assert D.DataLoader(Squares(), collate_fn=len).collate_fn is len


def test_a_pass_has_a_length_and_classes_take_types():
    ds = D.TensorDataset(pf.arange(10))
    for options in ({}, {"pin_memory": True}, {"num_workers": 1}):
        assert len(iter(D.DataLoader(ds, batch_size=4, **options))) == 3

    class Stream(D.IterableDataset[int]):
        def __iter__(self):
            return iter(range(3))

    class Words(D.Dataset[str]):
        def __getitem__(self, i):
            return "ab"[i]

    with pytest.raises(TypeError, match="len"):
        len(iter(D.DataLoader(Stream())))
    for size in (-1, 0, 2.5, True):
        with pytest.raises(ValueError, match="positive integer"):
            D.DataLoader(Stream(), batch_size=size)
    with pytest.raises(ValueError, match="drop_last"):
        D.DataLoader(Stream(), drop_last=1)
    assert Words()[1] == "b" and list(D.DataLoader(Stream(), batch_size=None)) == [0, 1, 2]
    for generic in (D.DataLoader, D.Sampler, D.Subset, D.ConcatDataset):
        assert generic[int] is not None
    from pyflame.utils.data.dataloader import DataLoader, default_collate  # as people import them
    from pyflame.utils.data.dataset import Dataset
    from pyflame.utils.data.sampler import SubsetRandomSampler

    assert (DataLoader, Dataset) == (D.DataLoader, D.Dataset)
    assert (SubsetRandomSampler, default_collate) == (D.SubsetRandomSampler, D.default_collate)


def one_by_one(dataset):
    """The dataset without its way to make batches."""

    class Plain(D.Dataset):
        def __len__(self):
            return len(dataset)

        def __getitem__(self, i):
            return dataset[i]

    return Plain()


ARRAYS = {
    "array": lambda: np.arange(40, dtype=np.float64).reshape(10, 4),
    "numbers": lambda: np.arange(10, dtype=np.int32),
    "bools": lambda: np.arange(10) % 3 == 0,
    "turned": lambda: np.arange(40, dtype=np.float32).reshape(4, 10).T,
    "backwards": lambda: np.arange(10)[::-1],
    "read-only": lambda: np.broadcast_to(np.arange(3), (10, 3)),
    "empty entries": lambda: np.zeros((10, 0), np.float32),
    "complex": lambda: np.arange(10) * 1j,
    "tensor": lambda: pf.arange(20).reshape(10, 2),
    "parameter": lambda: pf.nn.Parameter(pf.ones(10, 2)).detach(),
    "tensors and arrays": lambda: D.TensorDataset(pf.arange(10), np.arange(20.0).reshape(10, 2)),
    "strings": lambda: D.TensorDataset(np.array(list("abcdefghij"))),
    "stacked": lambda: D.StackDataset(np.arange(10), D.TensorDataset(pf.arange(10, 20))),
    "named": lambda: D.StackDataset(x=np.arange(10), y=pf.rand(10, 2)),
    "stacked with others": lambda: D.StackDataset(np.arange(10), range(10)),
    "part": lambda: D.Subset(np.arange(10.0), [3, 9, 1]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_in_batches_as_their_samples_do(name):
    dataset = ARRAYS[name]()
    for options in ({"batch_size": 4}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}):
        try:
            want = list(D.DataLoader(one_by_one(dataset), **options))
        except TypeError as error:
            with pytest.raises(TypeError, match=str(error)[:30]):
                list(D.DataLoader(dataset, **options))
            continue
        got = list(D.DataLoader(dataset, **options))
        assert [described(b) for b in got] == [described(b) for b in want]
    # Elsewhere it is told when the device is waited for, and where nothing is read not at all.
    if pf.get_device().type == "cpu" and name != "empty entries":
        with pytest.raises(IndexError):
            list(D.DataLoader(dataset, batch_size=2, sampler=[1, 99]))


def test_batches_of_arrays_are_not_made_of_samples():
    class Watched(D.TensorDataset):
        def __getitem__(self, i):
            raise AssertionError("one by one")

    Watched = D.dataset.batched(Watched)
    for x in (Watched(pf.arange(10)), D.Subset(Watched(np.arange(10)), range(10))):
        assert [len(b[0]) for b in D.DataLoader(x, 4, shuffle=True)] == [4, 4, 2]
    array = np.zeros(10)
    loader = iter(D.DataLoader(array, 5))
    array[:] = 1  # what the array holds when a batch is made
    assert next(loader).sum().item() == 5


def test_samples_of_a_batch_at_once():
    class Several(Squares):
        def __getitems__(self, indices):
            return [10 * i for i in indices]

    assert [b.tolist() for b in D.DataLoader(Several(), batch_size=5)][1] == [50, 60, 70, 80, 90]
    part = D.Subset(Several(), [4, 2])
    assert next(iter(D.DataLoader(part, batch_size=2))).tolist() == [40, 20]


def test_a_subset_that_changes_its_samples():
    class Doubled(D.Subset):
        def __getitem__(self, i):
            return 2 * super().__getitem__(i)

    part = Doubled(range(10), [4, 2, 9])
    assert [b.tolist() for b in D.DataLoader(part, batch_size=2)] == [[8, 4], [18]]
    assert [b.tolist() for b in D.DataLoader(D.Subset(part, [2, 0]), batch_size=2)] == [[18, 8]]


class Picture:
    """An image of PIL: it shows its memory, and has no dtype."""

    def __init__(self):
        self.__array_interface__ = np.zeros((2, 2), np.uint8).__array_interface__


def test_pictures_are_no_arrays():
    picture = Picture()
    assert D.default_convert([picture])[0] is picture
    with pytest.raises(TypeError, match="got Picture; expected tensors, arrays"):
        D.default_collate([picture, picture])


def test_single_samples_are_converted():
    class Rows(D.Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return {"x": np.full(3, i), "y": i, "name": "a"}

    class Stream(D.IterableDataset):
        def __iter__(self):
            return (Rows()[i] for i in range(2))

    for data in (Rows(), Stream()):
        for i, sample in enumerate(D.DataLoader(data, batch_size=None)):
            assert isinstance(sample["x"], pf.Tensor) and sample["x"].tolist() == [i] * 3
            assert sample["y"] == i and sample["name"] == "a"
        kept = next(iter(D.DataLoader(data, batch_size=None, collate_fn=lambda sample: sample)))
        assert isinstance(kept["x"], np.ndarray)


def test_pinned_batches_keep_their_containers():
    from pyflame.utils.data.dataloader import pin_memory

    batch = collections.defaultdict(list, x=pf.ones(2), rest=[pf.ones(1), (pf.ones(1), "a")])
    pinned = pin_memory(batch)
    assert type(pinned) is collections.defaultdict and pinned["new"] == []
    assert pinned["x"].tolist() == [1, 1] and type(pinned["rest"][1]) is tuple
    frozen = types.MappingProxyType({"x": pf.ones(2)})
    assert type(pin_memory(frozen)) is types.MappingProxyType
