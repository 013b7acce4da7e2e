"""torch.distributed.fsdp.fully_sharded_data_parallel: training by several processes is not there yet; the names are here."""

from ..._absent import absent as _absent

_needs = _absent(
    "torch.distributed.fsdp.fully_sharded_data_parallel",
    "training by several processes is not there yet; run one process",
)
globals().update(
    (name, _needs(name))
    for name in """
    FullyShardedDataParallel BackwardPrefetch ShardingStrategy MixedPrecision CPUOffload
    StateDictType FullStateDictConfig LocalStateDictConfig ShardedStateDictConfig
""".split()
)
