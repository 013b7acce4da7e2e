"""Datasets and loaders. Names as in torch.utils.data; batches are made in the calling process."""

import bisect
import itertools
import random

from ... import _ops
from ..._C import Tensor

__all__ = [
    "BatchSampler", "ConcatDataset", "DataLoader", "Dataset", "IterableDataset", "RandomSampler",
    "Sampler", "SequentialSampler", "Subset", "TensorDataset", "default_collate", "random_split",
]  # fmt: skip


class Dataset:
    """Something with `__getitem__(index)` and `__len__()`."""

    def __getitem__(self, index):
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Something with `__iter__()` that gives samples."""

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class TensorDataset(Dataset):
    """Sample i is the tuple of the i-th entries of the tensors."""

    def __init__(self, *tensors):
        if any(t.shape[0] != tensors[0].shape[0] for t in tensors):
            raise ValueError(
                f"pf.utils.data.TensorDataset: got tensors of {[t.shape[0] for t in tensors]} "
                "entries; expected equal numbers"
            )
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    def _batch(self, indices):
        """A collated batch by one index operation for each tensor."""
        index = _ops.tensor(list(indices))
        return [_ops.index_select(t, 0, index.to(t.device)) for t in self.tensors]

    def __len__(self):
        return self.tensors[0].shape[0]


class Subset(Dataset):
    """The samples `indices` of a dataset."""

    def __init__(self, dataset, indices):
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def _batch(self, indices):
        return _batcher(self.dataset)([self.indices[i] for i in indices])

    def __len__(self):
        return len(self.indices)


class ConcatDataset(Dataset):
    """Datasets one after the other."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
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


def _batcher(dataset):
    """The function that makes a whole batch at once, for datasets known to have one."""
    if type(dataset) is TensorDataset:
        return dataset._batch
    if type(dataset) is Subset and _batcher(dataset.dataset):
        return dataset._batch
    return None


class _Seeded:
    """Random numbers for orders: from `generator` when given, else from PyFlame's seed."""

    @staticmethod
    def of(generator):
        if isinstance(generator, random.Random):
            return generator
        if generator is not None and hasattr(generator, "initial_seed"):
            return random.Random(generator.initial_seed())
        return random.Random(int(_ops.randint(0, 2**62, (1,)).item()))


def random_split(dataset, lengths, generator=None):
    """Splits a dataset at random into parts of the given lengths (or fractions that sum to 1)."""
    lengths = list(lengths)
    if lengths and abs(sum(lengths) - 1) < 1e-6 and all(0 <= n <= 1 for n in lengths):
        whole = [int(len(dataset) * share) for share in lengths]
        for i in range(len(dataset) - sum(whole)):
            whole[i % len(whole)] += 1
        lengths = whole
    if sum(lengths) != len(dataset):
        raise ValueError(
            f"pf.utils.data.random_split: lengths sum to {sum(lengths)}; expected the "
            f"{len(dataset)} samples of the dataset"
        )
    order = list(range(len(dataset)))
    _Seeded.of(generator).shuffle(order)
    ends = list(itertools.accumulate(lengths))
    return [Subset(dataset, order[end - n : end]) for n, end in zip(lengths, ends)]


class Sampler:
    """Gives the indices of samples in the order they are wanted."""

    def __init__(self, data_source=None):
        pass


class SequentialSampler(Sampler):
    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler(Sampler):
    """A new random order for each pass; with replacement if asked."""

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        self.data_source = data_source
        self.replacement = replacement
        self.num_samples = len(data_source) if num_samples is None else num_samples
        self.generator = generator

    def __iter__(self):
        rng, n = _Seeded.of(self.generator), len(self.data_source)
        if self.replacement:
            return iter([rng.randrange(n) for _ in range(self.num_samples)])
        order = []
        while len(order) < self.num_samples:
            more = list(range(n))
            rng.shuffle(more)
            order += more
        return iter(order[: self.num_samples])

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of batch_size indices; the last may be shorter unless drop_last."""

    def __init__(self, sampler, batch_size, drop_last=False):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"pf.utils.data: batch_size should be a positive integer, but got {batch_size}"
            )
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self):
        batch = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self):
        full, rest = divmod(len(self.sampler), self.batch_size)
        return full + (1 if rest and not self.drop_last else 0)


def default_collate(batch):
    """Stacks samples: tensors, arrays and numbers become tensors; tuples and dicts keep form."""
    first = batch[0]
    if isinstance(first, Tensor):
        return _ops.stack(list(batch))
    if hasattr(first, "__array_interface__"):
        from ... import from_numpy

        if getattr(first, "shape", None) == ():  # a NumPy scalar
            return _ops.tensor([x.item() for x in batch])
        return _ops.stack([from_numpy(x) for x in batch])
    if isinstance(first, (bool, int, float)):
        return _ops.tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, dict):
        return {k: default_collate([sample[k] for sample in batch]) for k in first}
    if isinstance(first, (tuple, list)):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError(
                "pf.utils.data.default_collate: samples of one batch have different lengths; "
                "expected equal ones; pass collate_fn"
            )
        columns = [default_collate(list(column)) for column in zip(*batch)]
        if hasattr(first, "_fields"):
            return type(first)(*columns)
        return columns
    raise TypeError(
        f"pf.utils.data.default_collate: got {type(first).__name__}; expected tensors, arrays, "
        "numbers, text, dicts or lists; pass collate_fn"
    )


class DataLoader:
    """Batches of a dataset, in order or shuffled anew for each pass.

    Everything is done in the calling process: num_workers and its companions are accepted, so
    that programs run unchanged, and do not start workers.
    """

    def __init__(
        self,
        dataset,
        batch_size=1,
        shuffle=None,
        sampler=None,
        batch_sampler=None,
        num_workers=0,
        collate_fn=None,
        pin_memory=False,
        drop_last=False,
        timeout=0,
        worker_init_fn=None,
        multiprocessing_context=None,
        generator=None,
        *,
        prefetch_factor=None,
        persistent_workers=False,
        pin_memory_device="",
        in_order=True,
    ):
        if num_workers < 0:
            raise ValueError(f"pf.utils.data.DataLoader: num_workers is {num_workers}")
        iterable = isinstance(dataset, IterableDataset)
        if iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError(
                "pf.utils.data.DataLoader: an IterableDataset has its own order; expected no "
                "shuffle and no sampler"
            )
        if sampler is not None and shuffle:
            raise ValueError("pf.utils.data.DataLoader: sampler and shuffle exclude each other")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "pf.utils.data.DataLoader: batch_sampler excludes batch_size, shuffle, "
                    "sampler and drop_last"
                )
            batch_size = None
        elif not iterable:
            if sampler is None and shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            elif sampler is None:
                sampler = SequentialSampler(dataset)
            if batch_size is not None:
                batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset = dataset
        self.batch_size = batch_size
        self.num_workers = num_workers
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn
        self.generator = generator
        self.pin_memory = pin_memory
        self._iterable = iterable

    def _batches_of_iterable(self):
        if self.batch_size is None:
            yield from self.dataset
            return
        collate = self.collate_fn or default_collate
        samples = iter(self.dataset)
        while True:
            batch = list(itertools.islice(samples, self.batch_size))
            if not batch or (len(batch) < self.batch_size and self.drop_last):
                return
            yield collate(batch)

    def __iter__(self):
        if self._iterable:
            yield from self._batches_of_iterable()
            return
        if self.batch_sampler is None:  # batch_size=None: single samples
            for index in self.sampler:
                sample = self.dataset[index]
                yield self.collate_fn(sample) if self.collate_fn else sample
            return
        whole = _batcher(self.dataset) if self.collate_fn is None else None
        collate = self.collate_fn or default_collate
        for indices in self.batch_sampler:
            yield whole(indices) if whole else collate([self.dataset[i] for i in indices])

    def __len__(self):
        if self._iterable:
            full, rest = divmod(len(self.dataset), self.batch_size or 1)
            return full + (1 if rest and not self.drop_last else 0)
        return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)
