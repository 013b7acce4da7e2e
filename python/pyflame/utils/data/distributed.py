"""DistributedSampler: each of several processes has its share of a dataset."""

import math
from typing import TypeVar

from ..._processes import group_module
from ...random import Generator
from .sampler import Sampler, permutation

__all__ = ["DistributedSampler"]

_T_co = TypeVar("_T_co", covariant=True)


def _group(name):
    """What the process group says (its size, or this process's number)."""
    distributed = group_module()
    if distributed is None:
        raise RuntimeError(
            "pf.utils.data.DistributedSampler: there is no process group; expected num_replicas and "
            "rank; pass both"
        )
    return getattr(distributed, name)()


class DistributedSampler(Sampler[_T_co]):
    """The indices of one of `num_replicas` processes, its number being `rank`.

    Shuffled by seed and epoch, the same in all processes: call set_epoch() before each pass, or passes
    have one order. Where the dataset does not divide, some indices come twice, or (drop_last) the last
    are left out.
    """

    def __init__(
        self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False
    ):
        num_replicas = _group("get_world_size") if num_replicas is None else num_replicas
        rank = _group("get_rank") if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"pf.utils.data.DistributedSampler: got rank {rank} of {num_replicas}; expected a "
                f"number from 0 to {num_replicas - 1}"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        n = len(dataset)
        if drop_last and n % num_replicas:
            self.num_samples = math.ceil((n - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self):
        n = len(self.dataset)
        indices = list(range(n))
        if self.shuffle:
            indices = permutation(n, Generator().manual_seed(self.seed + self.epoch))
        if self.drop_last:
            indices = indices[: self.total_size]
        elif indices:
            indices = (indices * math.ceil(self.total_size / n))[: self.total_size]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """The number of the pass, which changes the order."""
        self.epoch = epoch
