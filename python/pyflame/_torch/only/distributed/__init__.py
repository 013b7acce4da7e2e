"""torch.distributed: training by several processes is not there yet, and is_available() says so. The
names that programs import are here; what would need other processes raises NotSupportedError."""

import enum as _enum

from .... import _C
from ...absent import SEVERAL as _WHY
from ...absent import absent as _absent

_needs = _absent("torch.distributed", _WHY)
_NAMES = """
    Backend DeviceMesh FileStore HashStore PrefixStore ProcessGroup Store TCPStore P2POp Work
    all_gather all_gather_into_tensor all_gather_object all_reduce all_reduce_coalesced all_to_all
    all_to_all_single barrier batch_isend_irecv broadcast broadcast_object_list
    destroy_process_group gather gather_object get_backend get_global_rank get_group_rank
    get_process_group_ranks init_device_mesh init_process_group irecv isend monitored_barrier
    new_group new_subgroups recv recv_object_list reduce reduce_scatter reduce_scatter_tensor
    scatter scatter_object_list send send_object_list split_group
""".split()
globals().update((name, _needs(name)) for name in _NAMES)


class ReduceOp(_enum.Enum):
    """How values of several processes would become one."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


reduce_op = ReduceOp


class GroupMember:
    """Groups of processes: there are none."""

    WORLD = None
    NON_GROUP_MEMBER = -100


group = GroupMember


def is_available():
    """False."""
    return False


is_initialized = is_nccl_available = is_gloo_available = is_mpi_available = is_available
is_ucc_available = is_xccl_available = is_torchelastic_launched = is_available


def is_backend_available(backend):
    """False."""
    return False


def get_default_backend_for_device(device):
    """The backend that PyTorch would take: gloo for the CPU, nccl for GPUs."""
    return "gloo" if _C.device(device).type == "cpu" else "nccl"


def _no_group(name):
    raise ValueError(
        f"torch.distributed.{name}: there is no process group; {_WHY}; ask is_initialized() first"
    )


def get_rank(group=None):
    """ValueError: there is no process group."""
    _no_group("get_rank")


def get_world_size(group=None):
    """ValueError: there is no process group."""
    _no_group("get_world_size")


def get_node_local_rank(fallback_rank=None):
    """$LOCAL_RANK, or `fallback_rank`."""
    import os

    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError("torch.distributed.get_node_local_rank: LOCAL_RANK is not set")
    return int(fallback_rank)
