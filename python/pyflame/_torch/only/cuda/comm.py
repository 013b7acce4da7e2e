"""torch.cuda.comm: names only."""

from ..nn.parallel.comm import (  # noqa: F401
    broadcast,
    broadcast_coalesced,
    gather,
    reduce_add,
    reduce_add_coalesced,
    scatter,
)
