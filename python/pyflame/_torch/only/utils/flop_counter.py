"""torch.utils.flop_counter: libraries import it; counting is not there."""

from .._absent import absent as _absent

FlopCounterMode = _absent(
    "torch.utils.flop_counter",
    "no mode sees every operation; pyflame.explain says which kernels a piece of a program runs",
)("FlopCounterMode")
