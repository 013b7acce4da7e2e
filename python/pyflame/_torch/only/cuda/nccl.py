"""torch.cuda.nccl: names only; several processes are not there yet."""

from ...absent import absent as _absent

_needs = _absent("torch.cuda.nccl", "training by several processes is not there yet")
all_reduce, reduce, broadcast, all_gather, reduce_scatter = map(
    _needs, ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter")
)


def is_available(tensors=()):
    """False."""
    return False


def version():
    """(0, 0, 0): NCCL is not used."""
    return 0, 0, 0
