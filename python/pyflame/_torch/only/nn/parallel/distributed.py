"""torch.nn.parallel.distributed: see torch.nn.parallel."""

from . import DistributedDataParallel  # noqa: F401
