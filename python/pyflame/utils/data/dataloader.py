"""DataLoader."""

import itertools
import queue
import sys
import threading
from typing import Generic, TypeVar

from ... import _C
from ..._processes import start_thread
from .collate import default_collate, default_convert, mapped
from .dataset import IterableDataset, batcher, on_device
from .sampler import BatchSampler, RandomSampler, SequentialSampler, draw_seed

_T_co = TypeVar("_T_co", covariant=True)


class WorkerError(_C.PyFlameError):
    """A worker process of a DataLoader died, or gave no batch within `timeout`."""


class _Fetch:
    """Makes the batch for some indices (or one sample), here or in a worker."""

    def __init__(self, dataset, collate_fn, batched):
        self.dataset, self.collate_fn, self.batched = dataset, collate_fn, batched
        self.whole = batcher(dataset) if batched and collate_fn is default_collate else None

    def __call__(self, at):
        if not self.batched:  # batch_size=None: single samples
            sample = self.dataset[at]
            return self.collate_fn(sample)
        if self.whole:
            return self.whole(at)
        several = getattr(self.dataset, "__getitems__", None)
        samples = several(at) if several else [self.dataset[i] for i in at]
        return self.collate_fn(samples)

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
                yield self.collate_fn(sample)
            return
        samples = iter(self.dataset)
        while True:
            batch = list(itertools.islice(samples, self.batch_size))
            if not batch or (len(batch) < self.batch_size and self.drop_last):
                return
            yield self.collate_fn(batch)


def get_worker_info():
    """Inside a worker of a DataLoader its id, num_workers, seed and dataset; None elsewhere."""
    workers = sys.modules.get(__package__ + ".workers")
    return workers.get_worker_info() if workers else None


def pin_memory(batch, device=None):
    """A batch with its tensors of the CPU in pinned memory; lists, tuples and dicts stay such."""

    def pin(x):
        if isinstance(x, _C.Tensor):
            return x.pin_memory(device) if x.device.type == "cpu" else x
        return x.pin_memory() if hasattr(x, "pin_memory") else x

    return mapped(batch, pin)


class _Raised:
    def __init__(self, error):
        self.error = error


_END = object()


def _pinned_ahead(batches, device, ahead):
    """Batches in pinned memory, which a thread makes before they are asked for."""
    first = next(batches, _END)  # workers are made by the thread that asks for batches
    ready, stop = queue.Queue(ahead), threading.Event()

    def put(item):
        while not stop.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                pass

    def work():
        try:
            for batch in batches:
                put(pin_memory(batch, device))
                if stop.is_set():
                    return
            put(_END)
        except BaseException as error:
            put(_Raised(error))
        finally:
            batches.close()

    if first is _END:
        return
    thread = threading.Thread(target=work, name="pyflame-pin", daemon=True)
    start_thread(thread, ("utils.data.DataLoader", "pass pin_memory=False"))
    try:
        item = pin_memory(first, device)
        while item is not _END:
            if isinstance(item, _Raised):
                raise item.error
            yield item
            item = ready.get()
    finally:
        stop.set()
        thread.join(5)  # longer it waits for a worker that hangs


def _has_gpu():
    for kind in ("cuda", "rocm"):
        try:
            if _C._device_count(kind):
                return True
        except _C.PyFlameError:
            pass
    return False


def _check_context(context, num_workers):
    if context is None:
        return
    if not num_workers:
        raise _C.ValueError(
            "pf.utils.data.DataLoader: multiprocessing_context is for workers; expected none with "
            "num_workers=0; set num_workers"
        )
    import multiprocessing.context

    methods = multiprocessing.get_all_start_methods()
    if isinstance(context, str) and context not in methods:
        raise _C.ValueError(
            f"pf.utils.data.DataLoader: multiprocessing_context is {context!r}; expected one of "
            f"{methods}"
        )
    if not isinstance(context, str | multiprocessing.context.BaseContext):
        raise TypeError(
            f"pf.utils.data.DataLoader: multiprocessing_context is a {type(context).__name__}; "
            "expected a name or what multiprocessing.get_context() gives"
        )


class _Pass:
    """One pass over a loader; its length is that of a whole pass."""

    def __init__(self, loader, batches):
        self._loader, self._batches = loader, batches

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._batches)

    def __len__(self):
        return len(self._loader)


class DataLoader(Generic[_T_co]):
    """Batches of a dataset, in order or shuffled anew for each pass.

    Each pass draws from `generator` (PyFlame's own when None): a seed for workers, whether there
    are any or not, and with `shuffle` one for the order. So passes differ, and the same state of
    the generator gives the same passes; put its state (`get_state()`) beside a checkpoint.

    With `num_workers` batches are made by so many processes, `prefetch_factor` (2) each ahead; the
    batches and their order are the same as without. Workers begin with seeds of their own, make
    tensors on the CPU with one thread each, and share nothing with the caller: what a dataset
    changes about itself there is lost. An IterableDataset is iterated by every worker: let it ask
    get_worker_info() for its part. Tensors of a TensorDataset that are on another device are
    batched in the calling process. An error of a worker is raised with the worker's traceback;
    one that dies, or gives no batch within `timeout` seconds, is a WorkerError that names it.
    `pin_memory` puts the tensors of each batch into memory that the GPU (`pin_memory_device`, or
    the current one) reads directly, from which `to(device, non_blocking=True)` does not wait;
    without a GPU it changes nothing. With workers a thread does so ahead; `prefetch(loader, device)`
    also has the copy to the device under way. `in_order` is accepted: batches always come in order.
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
        _check_context(multiprocessing_context, num_workers)
        if batch_size is None and drop_last:
            raise ValueError(
                "pf.utils.data.DataLoader: batch_size=None makes no batches; expected "
                "drop_last=False with it"
            )
        iterable = isinstance(dataset, IterableDataset)
        if iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError(
                "pf.utils.data.DataLoader: an IterableDataset has its own order; expected no "
                "shuffle and no sampler"
            )
        if iterable and batch_size is not None:
            BatchSampler((), batch_size, drop_last)  # checks them
        if sampler is not None and shuffle:
            raise ValueError("pf.utils.data.DataLoader: sampler and shuffle exclude each other")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "pf.utils.data.DataLoader: batch_sampler excludes batch_size, shuffle, "
                    "sampler and drop_last"
                )
            batch_size, sampler = None, SequentialSampler(dataset)
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
        batched = batch_size is not None or batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)
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
        self._made = True

    # What the samplers were made of: a loader whose numbers change would go on with the old ones.
    _FIXED = frozenset(
        ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
    )
    _made = False

    def __setattr__(self, name, value):
        if self._made and name in self._FIXED:
            raise ValueError(
                f"pf.utils.data.DataLoader: got a new {name}; expected the one that the loader was made "
                "with; make another DataLoader"
            )
        super().__setattr__(name, value)

    def __iter__(self):
        seed = draw_seed(self.generator)
        batches = self._batches(seed)
        if self.pin_memory:
            device = self.pin_memory_device or None
            if self.num_workers and _has_gpu() and not on_device(self.dataset):
                batches = _pinned_ahead(batches, device, self.prefetch_factor)
            else:
                batches = (pin_memory(b, device) for b in batches)
        return _Pass(self, batches)

    def _batches(self, seed):
        if self._iterable:
            fetch = _Stream(self.dataset, self.collate_fn, self.batch_size, self.drop_last)
            if not self.num_workers:
                return fetch.stream()
            return self._from_workers(fetch, itertools.repeat(None), seed)
        batched = self.batch_sampler is not None
        fetch = _Fetch(self.dataset, self.collate_fn, batched)
        requests = self.batch_sampler if batched else self.sampler
        if not self.num_workers or on_device(self.dataset):
            return map(fetch, requests)
        return self._from_workers(fetch, requests, seed)

    def _from_workers(self, fetch, requests, seed):
        from .workers import Pool

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
        except GeneratorExit:  # a pass that is given up
            raise
        except RuntimeError as error:
            if pool is self._pool:
                self._pool = None
            if not isinstance(error.__cause__, StopIteration):
                raise
            # A dataset that raises it ends the pass, as without workers.
        except BaseException:  # also an interrupt, which may come within a message
            if pool is self._pool:  # not used again after something went wrong
                self._pool = None
            raise
        finally:
            pool.busy = False
            if pool is not self._pool:
                pool.close()

    def __len__(self):
        if self._iterable:
            full, rest = divmod(len(self.dataset), self.batch_size or 1)
            return full + (1 if rest and not self.drop_last else 0)
        return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)
