"""torch.backends.cuda.matmul; see pyflame.backends.cuda."""

from .. import _precision
from ._switches import Switch, install

_never = {"get": lambda: False, "set": lambda value: None}  # sums are in float32

install(
    __name__,
    allow_tf32=Switch(
        False,
        get=lambda: _precision.level() != "highest",
        set=_precision.allow_in_products,
    ),
    fp32_precision=Switch("none", **_precision.switch("cuda", "matmul", "cuda.matmul.")),
    allow_fp16_reduced_precision_reduction=Switch(False, bool, **_never),
    allow_bf16_reduced_precision_reduction=Switch(False, bool, **_never),
    allow_fp16_accumulation=Switch(False, bool, **_never),
)
