"""torch.distributed.device_mesh: training by several processes is not there yet; the names are here."""

from .._absent import absent as _absent

_needs = _absent(
    "torch.distributed.device_mesh",
    "training by several processes is not there yet; run one process",
)
globals().update((name, _needs(name)) for name in """DeviceMesh init_device_mesh""".split())
