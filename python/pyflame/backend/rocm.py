"""AMD's side of the GPU backend; with NVIDIA GPUs the same calls serve those."""

from ..memory import get_memory_manager, get_pinned_pool, warmup_memory_pool
from ..tuning import TuningCache, get_tuning_cache

__all__ = [
    "TuningCache",
    "get_memory_manager",
    "get_pinned_pool",
    "get_tuning_cache",
    "warmup_memory_pool",
]
