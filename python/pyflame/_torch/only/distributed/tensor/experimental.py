"""torch.distributed.tensor.experimental: training by several processes is not there yet."""

from . import _needs

implicit_replication = _needs("experimental.implicit_replication")
local_map = _needs("experimental.local_map")
