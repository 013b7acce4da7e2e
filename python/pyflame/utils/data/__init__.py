"""Datasets and loaders. Names as in torch.utils.data."""

# ruff: noqa: F401 (pin_memory is for those who batch by themselves)

from .collate import default_collate, default_convert
from .dataloader import DataLoader, WorkerError, get_worker_info, pin_memory
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
from .distributed import DistributedSampler
from .prefetch import prefetch
from .sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler",
    "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "WorkerError", "default_collate",
    "default_convert", "get_worker_info", "prefetch", "random_split",
]  # fmt: skip
