"""torch.distributed.nn: collectives with gradients; training by several processes is not there yet."""

from .._absent import absent as _absent

_needs = _absent(
    "torch.distributed.nn", "training by several processes is not there yet; run one process"
)
globals().update(
    (name, _needs(name))
    for name in """
    RemoteModule all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce
    reduce_scatter scatter
""".split()
)
