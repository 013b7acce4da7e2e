"""torch.distributed.fsdp: training by several processes is not there yet; the names are here."""

from ..._absent import absent as _absent

_needs = _absent(
    "torch.distributed.fsdp", "training by several processes is not there yet; run one process"
)
globals().update(
    (name, _needs(name))
    for name in """
    FullyShardedDataParallel BackwardPrefetch ShardingStrategy MixedPrecision CPUOffload
    StateDictType FullStateDictConfig ShardedStateDictConfig LocalStateDictConfig
    FullOptimStateDictConfig ShardedOptimStateDictConfig OptimStateDictConfig StateDictConfig
    FSDPModule fully_shard MixedPrecisionPolicy OffloadPolicy CPUOffloadPolicy
    register_fsdp_forward_method UnshardHandle
""".split()
)
