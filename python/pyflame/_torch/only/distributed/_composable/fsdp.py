"""torch.distributed._composable.fsdp: the old name of torch.distributed.fsdp's second kind."""

from ..fsdp import *  # noqa: F403
