"""Datasets, and their parts. Names as in torch.utils.data.dataset."""

import bisect
import itertools
from typing import Generic, TypeVar

from ... import _C, _ops
from ..._named_errors import name_errors as _name_errors
from .sampler import generator_of_pass, permutation

_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """Something with `__getitem__(index)` and `__len__()`."""

    def __getitem__(self, index):
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co]):
    """Something with `__iter__()` that gives samples."""

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")

    def __add__(self, other):
        return ChainDataset([self, other])


class ChainDataset(IterableDataset):
    """The samples of iterable datasets one after the other."""

    def __init__(self, datasets):
        self.datasets = datasets

    def __iter__(self):
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self):
        return sum(len(d) for d in self.datasets)


class TensorDataset(Dataset[tuple]):
    """Sample i is the tuple of the i-th entries of the tensors (or NumPy arrays)."""

    def __init__(self, *tensors):
        if any(t.shape[0] != tensors[0].shape[0] for t in tensors):
            raise AssertionError(
                f"pf.utils.data.TensorDataset: got tensors of {[t.shape[0] for t in tensors]} "
                "entries; expected equal numbers"
            )
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    def _batch(self, indices):
        """A collated batch by one index operation for each tensor."""
        return _entries(self.tensors, indices)

    def _alone(self):
        return not all(isinstance(t, _C.Tensor) or _is_tensor(t) for t in self.tensors)

    def __len__(self):
        return self.tensors[0].shape[0]


def _is_tensor(x):
    """True for tensors, and for arrays of NumPy that a tensor can look at, which have entries."""
    if type(x) is _C.Tensor:
        return x.dim() > 0
    if type(x).__module__ != "numpy" or not getattr(x, "shape", ()):
        return False
    try:
        _C.from_numpy(x[:2])  # which has all strides
    except (TypeError, _C.PyFlameError):
        return False
    return True


def _entries(arrays, indices):
    """The entries of several tensors or arrays, each where its tensor is."""
    indices, index, found = list(indices), None, []
    on_cpu = _C.get_device().type == "cpu"
    for x in arrays:
        if not isinstance(x, _C.Tensor):
            if not on_cpu:  # where from_numpy copies: the batch alone
                found.append(_C.from_numpy(x[indices]))
                continue
            x = _C.from_numpy(x)
        if index is None or index.device != x.device:
            index = _ops.tensor(indices, dtype=_C.int64, device=x.device)
        found.append(_ops.index_select(x, 0, index))
    return found


class Subset(Dataset[_T_co]):
    """The samples `indices` of a dataset."""

    def __init__(self, dataset, indices):
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices):
        """The samples of several indices, by the dataset's own `__getitems__` if it has one; one by
        one where a subclass says what a sample is."""
        if type(self).__getitem__ is not Subset.__getitem__:
            return [self[i] for i in indices]
        indices = [self.indices[i] for i in indices]
        several = getattr(self.dataset, "__getitems__", None)
        return several(indices) if several else [self.dataset[i] for i in indices]

    def _batch(self, indices):
        return batcher(self.dataset)([self.indices[i] for i in indices])

    def __len__(self):
        return len(self.indices)


class ConcatDataset(Dataset[_T_co]):
    """Datasets one after the other."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError(
                "pf.utils.data.ConcatDataset: got no datasets; expected one or more"
            )
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __getitem__(self, index):
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range for {len(self)} samples")
        index %= len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]

    def __len__(self):
        return self.cumulative_sizes[-1] if self.cumulative_sizes else 0


class StackDataset(Dataset):
    """Sample i is the tuple (or, given by keywords, the dict) of the i-th samples of datasets."""

    def __init__(self, *datasets, **named):
        if bool(datasets) == bool(named):
            raise ValueError(
                "pf.utils.data.StackDataset: expected datasets, or datasets with names; got "
                f"{len(datasets)} and {len(named)}"
            )
        self.datasets = named or datasets
        sizes = {len(d) for d in (named.values() if named else datasets)}
        if len(sizes) != 1:
            raise ValueError(
                f"pf.utils.data.StackDataset: got datasets of {sorted(sizes)} samples; expected "
                "equal numbers"
            )

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {name: d[index] for name, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def _batch(self, indices):
        if isinstance(self.datasets, dict):
            return {name: batcher(d)(indices) for name, d in self.datasets.items()}
        return [batcher(d)(indices) for d in self.datasets]

    def _alone(self):
        parts = self.datasets
        return not all(map(batcher, parts.values() if isinstance(parts, dict) else parts))

    def __len__(self):
        return len(
            next(iter(self.datasets.values()))
            if isinstance(self.datasets, dict)
            else self.datasets[0]
        )


# Classes whose `_batch(indices)` makes a collated batch at once. A subclass is none: it may say anew
# what a sample is.
_BATCHED = {TensorDataset, StackDataset}


def batched(kind):
    """Decorator of a dataset's class that has `_batch(indices)`."""
    _BATCHED.add(kind)
    return kind


def batcher(dataset):
    """The function that makes a whole batch at once, for datasets known to have one; such a dataset
    may have `_alone()`, true while samples have to be made one by one."""
    if type(dataset) in _BATCHED:
        alone = getattr(dataset, "_alone", None)
        return None if alone and alone() else dataset._batch
    if type(dataset) is Subset and batcher(dataset.dataset):
        return dataset._batch
    return _Entries(dataset) if _is_tensor(dataset) else None


class _Entries:
    """Batches of the entries of one tensor or array; can be sent to a worker."""

    def __init__(self, array):
        self.array = array

    def __call__(self, indices):
        return _entries([self.array], indices)[0]


def on_device(dataset):
    """True for tensors off the CPU, which processes cannot reach: one index operation a batch."""
    if isinstance(dataset, _C.Tensor):
        return not dataset.is_cpu
    if type(dataset) is Subset:
        return on_device(dataset.dataset)
    if type(dataset) is StackDataset and batcher(dataset):
        parts = dataset.datasets
        return any(map(on_device, parts.values() if isinstance(parts, dict) else parts))
    tensors = getattr(dataset, "tensors", ()) if type(dataset) in _BATCHED else ()
    return any(map(on_device, tensors))


def random_split(dataset, lengths, generator=None):
    """Splits a dataset at random into parts of the given lengths (or fractions that sum to 1).

    The split follows from one number that is drawn from `generator` (PyFlame's own when None).
    """
    lengths = list(lengths)
    if lengths and abs(sum(lengths) - 1) < 1e-6 and all(0 <= n <= 1 for n in lengths):
        whole = [int(len(dataset) * share) for share in lengths]
        for i in range(len(dataset) - sum(whole)):
            whole[i % len(whole)] += 1
        lengths = whole
    if sum(lengths) != len(dataset):
        raise ValueError(
            f"pf.utils.data.random_split: lengths sum to {sum(lengths)}; expected the "
            f"{len(dataset)} samples of the dataset, or fractions that sum to 1"
        )
    order = permutation(len(dataset), generator_of_pass(generator))
    ends = list(itertools.accumulate(lengths))
    return [Subset(dataset, order[end - n : end]) for n, end in zip(lengths, ends)]


_name_errors(
    __name__,
    "TensorDataset",
)
