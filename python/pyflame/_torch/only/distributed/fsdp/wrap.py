"""torch.distributed.fsdp.wrap: training by several processes is not there yet; the names are here."""

from ..._absent import absent as _absent

_needs = _absent(
    "torch.distributed.fsdp.wrap", "training by several processes is not there yet; run one process"
)
globals().update(
    (name, _needs(name))
    for name in """
    size_based_auto_wrap_policy transformer_auto_wrap_policy always_wrap_policy enable_wrap wrap
    lambda_auto_wrap_policy ModuleWrapPolicy CustomPolicy
""".split()
)
