"""Datasets and loaders. Names as in torch.utils.data."""

import bisect
import itertools
import random
import sys

from ... import _C, _ops
from ..._C import Tensor

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "IterableDataset",
    "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "default_collate",
    "default_convert", "get_worker_info", "random_split",
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

    def __len__(self):
        return len(
            next(iter(self.datasets.values()))
            if isinstance(self.datasets, dict)
            else self.datasets[0]
        )


def _batcher(dataset):
    """The function that makes a whole batch at once, for datasets known to have one."""
    if type(dataset) is TensorDataset:
        return dataset._batch
    if type(dataset) is Subset and _batcher(dataset.dataset):
        return dataset._batch
    return None


def _on_device(dataset):
    """True for tensors off the CPU, which processes cannot reach: one index operation a batch."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return type(dataset) is TensorDataset and not all(t.is_cpu for t in dataset.tensors)


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


class SubsetRandomSampler(Sampler):
    """The given indices in a new random order for each pass."""

    def __init__(self, indices, generator=None):
        self.indices = indices
        self.generator = generator

    def __iter__(self):
        order = list(self.indices)
        _Seeded.of(self.generator).shuffle(order)
        return iter(order)

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Indices drawn with probabilities in proportion to `weights`."""

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        if num_samples <= 0 or not isinstance(num_samples, int):
            raise ValueError(
                f"pf.utils.data.WeightedRandomSampler: num_samples is {num_samples}; expected a "
                "positive integer"
            )
        self.weights = _ops.as_tensor(weights, dtype=_C.float64)
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self):
        picked = _ops.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        return iter(picked.tolist())

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


def default_convert(data):
    """NumPy arrays inside tuples, lists and dicts as tensors; the rest as it is."""
    if hasattr(data, "__array_interface__") and not isinstance(data, Tensor):
        return _C.as_tensor(data)
    if isinstance(data, dict):
        return {k: default_convert(v) for k, v in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(v) for v in data))
    if isinstance(data, (tuple, list)):
        return [default_convert(v) for v in data]
    return data


def get_worker_info():
    """Inside a worker of a DataLoader its id, num_workers, seed and dataset; None elsewhere."""
    workers = sys.modules.get(__name__ + ".workers")
    return workers.get_worker_info() if workers else None


class _Fetch:
    """Makes the batch for some indices (or one sample), here or in a worker."""

    def __init__(self, dataset, collate_fn, batched):
        self.dataset, self.collate_fn, self.batched = dataset, collate_fn, batched
        self.whole = _batcher(dataset) if batched and collate_fn is None else None

    def __call__(self, at):
        if not self.batched:  # batch_size=None: single samples
            sample = self.dataset[at]
            return self.collate_fn(sample) if self.collate_fn else sample
        if self.whole:
            return self.whole(at)
        return (self.collate_fn or default_collate)([self.dataset[i] for i in at])

    def stream(self):
        return None


class _Stream:
    """Makes the batches of an IterableDataset."""

    def __init__(self, dataset, collate_fn, batch_size, drop_last):
        self.dataset, self.collate_fn = dataset, collate_fn
        self.batch_size, self.drop_last = batch_size, drop_last

    def stream(self):
        if self.batch_size is None:
            for sample in self.dataset:
                yield self.collate_fn(sample) if self.collate_fn else sample
            return
        samples = iter(self.dataset)
        while True:
            batch = list(itertools.islice(samples, self.batch_size))
            if not batch or (len(batch) < self.batch_size and self.drop_last):
                return
            yield (self.collate_fn or default_collate)(batch)


def pin_memory(batch, device=None):
    """A batch with its tensors of the CPU in pinned memory; lists, tuples and dicts stay such."""
    if isinstance(batch, _C.Tensor):
        return batch.pin_memory(device) if batch.device.type == "cpu" else batch
    if isinstance(batch, dict):
        return type(batch)({k: pin_memory(v, device) for k, v in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(pin_memory(v, device) for v in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(pin_memory(v, device) for v in batch)
    return batch.pin_memory() if hasattr(batch, "pin_memory") else batch


class DataLoader:
    """Batches of a dataset, in order or shuffled anew for each pass.

    With `num_workers` batches are made by so many processes, `prefetch_factor` (2) each ahead; the
    batches and their order are the same as without. Workers begin with seeds of their own, make
    tensors on the CPU with one thread each, and share nothing with the caller: what a dataset
    changes about itself there is lost. An IterableDataset is iterated by every worker: let it ask
    get_worker_info() for its part. Tensors of a TensorDataset that are on another device are
    batched in the calling process. An error of a worker is raised with the worker's traceback.
    `pin_memory` puts the tensors of each batch into memory that the GPU (`pin_memory_device`, or
    the current one) reads directly, from which `to(device, non_blocking=True)` does not wait;
    without a GPU it changes nothing. `in_order` is accepted: batches always come in order.
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
        if num_workers < 0 or timeout < 0:
            raise ValueError(
                f"pf.utils.data.DataLoader: got num_workers {num_workers} and timeout {timeout}; "
                "expected at least 0"
            )
        if num_workers == 0 and (prefetch_factor is not None or persistent_workers or timeout):
            raise ValueError(
                "pf.utils.data.DataLoader: prefetch_factor, persistent_workers and timeout are for "
                "workers; expected none of them with num_workers=0; set num_workers"
            )
        if prefetch_factor is not None and prefetch_factor < 1:
            raise ValueError(
                f"pf.utils.data.DataLoader: prefetch_factor is {prefetch_factor}; expected at "
                "least 1"
            )
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
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self._iterable = iterable
        self._pool = None
        self._passes = 0

    def __iter__(self):
        if self.pin_memory:
            return (pin_memory(b, self.pin_memory_device or None) for b in self._batches())
        return self._batches()

    def _batches(self):
        if self._iterable:
            fetch = _Stream(self.dataset, self.collate_fn, self.batch_size, self.drop_last)
            if not self.num_workers:
                return fetch.stream()
            return self._from_workers(fetch, itertools.repeat(None))
        batched = self.batch_sampler is not None
        fetch = _Fetch(self.dataset, self.collate_fn, batched)
        requests = self.batch_sampler if batched else self.sampler
        if not self.num_workers or _on_device(self.dataset):
            return map(fetch, requests)
        return self._from_workers(fetch, requests)

    def _from_workers(self, fetch, requests):
        from .workers import Pool

        # Not drawn from the generator: the order of batches is the same without workers.
        seed = random.Random(f"{_C.initial_seed()} {self._passes}").getrandbits(62)
        self._passes += 1
        pool = self._pool
        if pool is None or pool.busy:  # another pass is still going on
            pool = Pool(
                self.num_workers,
                fetch,
                self.worker_init_fn,
                self.multiprocessing_context,
                self.timeout,
            )
            if self.persistent_workers and self._pool is None:
                self._pool = pool
        try:
            yield from pool.run(requests, self.prefetch_factor, seed)
        except Exception:
            if pool is self._pool:  # not used again after something went wrong
                self._pool = None
            raise
        finally:
            pool.busy = False
            if pool is not self._pool:
                pool.close()

    def __del__(self):
        if getattr(self, "_pool", None) is not None:
            self._pool.close()

    def __len__(self):
        if self._iterable:
            full, rest = divmod(len(self.dataset), self.batch_size or 1)
            return full + (1 if rest and not self.drop_last else 0)
        return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)
