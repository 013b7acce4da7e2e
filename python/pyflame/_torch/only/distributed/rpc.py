"""torch.distributed.rpc: training by several processes is not there yet; the names are here."""

from .._absent import absent as _absent

_needs = _absent(
    "torch.distributed.rpc", "training by several processes is not there yet; run one process"
)
globals().update(
    (name, _needs(name))
    for name in """
    init_rpc shutdown rpc_sync rpc_async remote RRef TensorPipeRpcBackendOptions get_worker_info
    BackendType RpcBackendOptions
""".split()
)
