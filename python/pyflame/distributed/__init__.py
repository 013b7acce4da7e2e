"""A process group of one, by the names of torch.distributed.

Programs that make a group of one run. Several processes are not there yet, and until a group is made
is_available() says so, since libraries ask it before they use more than is here. What would need other
processes raises NotSupportedError.
"""

import enum as _enum

from .. import _C
from .._torch.absent import SEVERAL as _WHY
from .._torch.absent import absent as _absent
from .._torch.absent import missing_from as _missing_from
from . import _alone
from ._alone import GroupMember, is_initialized

_needs = _absent(_alone.HERE, _WHY)
_NAMES = """
    DeviceMesh FileStore HashStore PrefixStore Store TCPStore P2POp batch_isend_irecv
    init_device_mesh irecv isend new_subgroups recv recv_object_list send send_object_list split_group
""".split()
globals().update((name, _needs(name)) for name in _NAMES)
globals().update(
    (name, f)
    for name, f in vars(_alone).items()
    if getattr(f, "__module__", "") == _alone.__name__ and not name.startswith("_")
)


class Backend(str):
    """The name of a way to exchange tensors, in lower case."""

    GLOO, NCCL, MPI, UCC, XCCL, UNDEFINED = "gloo", "nccl", "mpi", "ucc", "xccl", "undefined"

    def __new__(cls, name):
        if not isinstance(name, str):
            raise TypeError(f"pf.distributed.Backend: got {type(name).__name__}; expected a str")
        return super().__new__(cls, name.lower())


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


group = GroupMember
is_available = is_initialized


def is_nccl_available():
    """False."""
    return False


is_gloo_available = is_mpi_available = is_nccl_available
is_ucc_available = is_xccl_available = is_torchelastic_launched = is_nccl_available


def is_backend_available(backend):
    """False."""
    return False


def get_default_backend_for_device(device):
    """The backend that PyTorch would take: gloo for the CPU, nccl for GPUs."""
    return "gloo" if _C.device(device).type == "cpu" else "nccl"


def get_node_local_rank(fallback_rank=None):
    """$LOCAL_RANK, or `fallback_rank`."""
    import os

    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError(f"{_alone.HERE}.get_node_local_rank: LOCAL_RANK is not set")
    return int(fallback_rank)


__getattr__ = _missing_from(__name__, _WHY)
