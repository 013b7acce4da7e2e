"""torch.nn.parallel: what several processes need."""

from ..._absent import absent as _absent

_needs = _absent(
    "torch.nn.parallel", "training by several processes is not there yet; run one process"
)
DistributedDataParallel = _needs("DistributedDataParallel")
