"""torch.distributed.tensor.parallel: training by several processes is not there yet; the names are here."""

from ..._absent import absent as _absent

_needs = _absent(
    "torch.distributed.tensor.parallel",
    "training by several processes is not there yet; run one process",
)
globals().update(
    (name, _needs(name))
    for name in """
    ColwiseParallel RowwiseParallel SequenceParallel ParallelStyle PrepareModuleInput
    PrepareModuleInputOutput PrepareModuleOutput parallelize_module loss_parallel
""".split()
)
