"""torch.mps: there is no such device. Questions are answered so, what needs one raises DeviceError."""

from ._absent import no_device as _no_device

globals().update(_no_device("torch.mps", "MPS"))
