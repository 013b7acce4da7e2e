"""AMD's side of the GPU backend; with NVIDIA GPUs the same calls serve those."""

from ..tuning import TuningCache, get_tuning_cache

__all__ = ["TuningCache", "get_tuning_cache"]
