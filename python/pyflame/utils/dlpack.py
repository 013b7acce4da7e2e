"""Exchange of tensors with other libraries; names as in torch.utils.dlpack."""

import enum

from .. import _C
from .._C import from_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """Kinds of devices in DLPack's numbers."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLROCM = 10
    kDLROCMHost = 11
    kDLCUDAManaged = 13


def to_dlpack(tensor):
    """A capsule that shares the tensor's memory; it can be taken once."""
    if not isinstance(tensor, _C.Tensor):
        raise TypeError(f"pf.to_dlpack: got a {type(tensor).__name__}; expected a Tensor")
    return tensor.__dlpack__()
