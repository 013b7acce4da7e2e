"""Datasets and loaders."""

import numpy as np
import pytest

import pyflame as pf
from pyflame.utils import data as D


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
    with pytest.raises(ValueError, match="equal"):
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
    assert batches[1]["y"][1] == ["4", "5", "6", "7"]
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
