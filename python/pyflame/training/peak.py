"""How fast a device multiplies at best, and how many operations a step of training is."""

import time

from .. import _C, _ops, nn
from ..autograd import no_grad

# Dense products of 16-bit floats, without sparsity, in 10^12 operations a second, as the vendors'
# data sheets say. By the beginning of the device's name; the first that fits.
_PUBLISHED = {
    "NVIDIA H100 PCIe": 756.0, "NVIDIA H100 NVL": 835.0, "NVIDIA H100": 989.4, "NVIDIA H200": 989.4,
    "NVIDIA A100": 312.0, "NVIDIA L40S": 362.0, "NVIDIA GeForce RTX 4090": 165.2,
    "AMD Instinct MI325X": 1307.4, "AMD Instinct MI300X": 1307.4, "AMD Instinct MI300A": 980.6,
    "AMD Instinct MI250X": 191.5, "AMD Instinct MI250": 181.0, "AMD Instinct MI210": 181.0,
}  # fmt: skip


def peak(precision):
    """(operations a second, where the number is from): the data sheet's for bfloat16 on GPUs that are
    known, else what one large product reaches here, which takes some tenths of a second."""
    device = _C.get_device()
    if precision == "bfloat16":
        name = str(_C.device_info()["name"])
        for known, tera in _PUBLISHED.items():
            if name.startswith(known):
                return tera * 1e12, "data sheet"
    return _measured(device, _C.bfloat16 if precision == "bfloat16" else _C.float32), "a product"


def _measured(device, dtype):
    """The largest of some sizes counts that still takes less than some milliseconds."""
    size, most = 64, 512 if device.type == "cpu" else 4096
    with no_grad():
        while True:
            a, b = (_ops.randn(size, size, device=device).to(dtype) for _ in range(2))
            best = float("inf")
            for _ in range(5):
                start = time.perf_counter()
                (a @ b)[0, 0].item()
                best = min(best, time.perf_counter() - start)
            if size == most or best > 2e-3:
                return 2 * size**3 / best
            size *= 2


def step_operations(model, tokens, context):
    """Floating-point operations of a training step over `tokens` tokens in windows of `context`: six
    for each weight of a linear layer and token, and attention's as if nothing were masked, which is how
    the PaLM paper counts."""
    weights = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear))
    c = model.config
    return tokens * (6 * weights + 12 * c.layers * c.width * context)
