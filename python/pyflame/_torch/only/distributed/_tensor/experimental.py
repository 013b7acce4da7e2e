"""torch.distributed._tensor.experimental: the old name of torch.distributed.tensor.experimental."""

from ..tensor.experimental import implicit_replication, local_map  # noqa: F401
