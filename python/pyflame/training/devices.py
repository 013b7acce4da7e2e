"""The device and the threads of a command, and what is said of them."""

from .. import _C, _ops, cuda
from .output import say


def use(args):
    """Sets the device and the number of threads that the command asks for."""
    if args.threads:
        _C.set_num_threads(args.threads)
    if args.device != "auto":
        _C.set_device(args.device)
    elif _C.get_device().type == "cpu" and cuda.is_available():
        try:
            (_ops.ones(1, device="gpu") + 1).item()
        except _C.PyFlameError as e:
            say(f"note: there is a GPU, but it cannot be used: {e}")
        else:
            _C.set_device("gpu")


def on_gpu():
    return _C.get_device().type == "cuda"


def multiplies_bfloat16():
    """Whether the current device is a GPU with matrix units for bfloat16."""
    if not on_gpu():
        return False
    target = _C.device_info()["architecture"]
    if target.startswith("sm_"):
        return int(target.removeprefix("sm_")) >= 80
    return target.startswith(("gfx90a", "gfx94", "gfx95", "gfx11", "gfx12"))


def describe_device():
    device = _C.get_device()
    return f"{device} ({_C.device_info()['name']})" if on_gpu() else str(device)
