"""Datasets and loaders. Names as in torch.utils.data."""

# ruff: noqa: F401 (pin_memory is for those who batch by themselves)

import sys

from .collate import default_collate, default_convert
from .dataloader import DataLoader, pin_memory
from .dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from .sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "IterableDataset",
    "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "default_collate",
    "default_convert", "get_worker_info", "random_split",
]  # fmt: skip


def get_worker_info():
    """Inside a worker of a DataLoader its id, num_workers, seed and dataset; None elsewhere."""
    workers = sys.modules.get(__name__ + ".workers")
    return workers.get_worker_info() if workers else None
