"""torch.distributed.tensor: training by several processes is not there yet; the names are here."""

from ..._absent import absent as _absent

_needs = _absent(
    "torch.distributed.tensor", "training by several processes is not there yet; run one process"
)
globals().update(
    (name, _needs(name))
    for name in """
    DTensor DeviceMesh Placement Partial Replicate Shard distribute_module distribute_tensor empty
    full ones rand randn zeros init_device_mesh
""".split()
)
