"""torch.backends.cuda.matmul; see pyflame.backends.cuda."""

from ._switches import Switch, install, precision

_never = {"get": lambda: False, "set": lambda value: None}  # sums are in float32

install(
    __name__,
    allow_tf32=Switch(
        False, bool, **precision((False, True), "pf.backends.cuda.matmul.allow_tf32")
    ),
    fp32_precision=Switch(
        "ieee", str, **precision(("ieee", "tf32"), "pf.backends.cuda.matmul.fp32_precision")
    ),
    allow_fp16_reduced_precision_reduction=Switch(False, bool, **_never),
    allow_bf16_reduced_precision_reduction=Switch(False, bool, **_never),
    allow_fp16_accumulation=Switch(False, bool, **_never),
)
