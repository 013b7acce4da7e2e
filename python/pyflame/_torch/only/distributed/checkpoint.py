"""torch.distributed.checkpoint: training by several processes is not there yet; the names are here."""

from .._absent import absent as _absent

_needs = _absent(
    "torch.distributed.checkpoint",
    "training by several processes is not there yet; run one process",
)
globals().update(
    (name, _needs(name))
    for name in """
    load save async_save load_state_dict save_state_dict FileSystemReader FileSystemWriter
    DefaultLoadPlanner DefaultSavePlanner StorageReader StorageWriter
""".split()
)
