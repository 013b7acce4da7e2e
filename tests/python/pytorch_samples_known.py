"""Differences from PyTorch's samples that are meant: what stands in docs/pytorch_differences.md.

`MEANT` are rules of the whole package, which meet many operations; an operation that differs by nothing else
counts as good. `BAD` are differences of one operation. Each has a sentence of that page as its reason.
"""

import re

MEANT = [  # kind, pattern of the difference, reason
    (
        "accepts",
        r"argument '(input|other|values)' \(position \d\) must be Tensor, not int"
        r"|got \(int, Tensor\), but expected one of",
        "numbers as any operand",
    ),
    (
        "grad",
        r"^gradient of leaf \d+: tensor\(\[*-?0\..*, not None",
        "Steps have a gradient of zeros wherever they have one at all",
    ),
    (
        "accepts",
        r"got devices cpu and meta",
        "On the device `meta` an operation whose operands are elsewhere gives a result without values",
    ),
    (
        "refuses",
        r"out= over itself: ValueError: pf.copy_: .* reaches some elements more than once",
        "and so are a part of an argument and a view that meets an element twice",
    ),
    (
        "refuses",
        r"out= another kind: DTypeError: pf.out: got out= of \w+ for a result of",
        "`out=` of a narrower kind than the result is refused by every operation",
    ),
    (
        "refuses",
        r"got (beta|alpha) \S+ for \w+; expected a whole number",
        "Factors of integers (`alpha`, `beta`) are whole numbers",
    ),
    (
        "refuses",
        r"(alpha|beta)=complex|pf\.(lerp|pad): got \(.*complex\b",
        "Factors (`alpha`, `beta`), weights of `lerp` and fills of `pad` are real",
    ),
    (
        "refuses",
        r"pf\.(softmax|log_softmax|softmin|rms_norm): got (input of dtype )?complex",
        "norms of layers, `softmax` and losses but `l1_loss` take their parts",
    ),
    (
        "refuses",
        r"pf\.(view_as_complex|complex): got (input|real) of dtype float16",
        "complex32, which is not here",
    ),
    (
        "refuses",
        r"pf\.avg_pool\dd: got int64; expected floats",
        "the means lose their fractions without a word",
    ),
    (
        "accepts",
        r"out= wider: RuntimeError: Found dtype Complex\w+ but expected Complex",
        "by transforms",
    ),
]

_EXACT = (
    "refuses",
    r"out= wider: DTypeError: .*; expected that dtype",
    "for some of their arguments PyTorch's `diff`, `inner` and `matrix_power` take a wider one, too",
)
_ENDS = ("value", r"^result", "Ends of `linspace` and `logspace` of an integer dtype are not cut")
_EXACTER = "More exact than PyTorch's are"
# Of other dtypes than float32.
BESIDE = {
    **dict.fromkeys(
        ("linspace", "linspace.tensor_overload", "logspace", "logspace.tensor_overload"), [_ENDS]
    ),
    **{
        f"special.{n}": [("value", r"^result", _EXACTER)]
        for n in ("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "airy_ai")
    },
    "cov": [("value", r"^result", _EXACTER)],
    "nn.functional.hardsigmoid": [("grad", r"^gradient of leaf 0", _EXACTER)],
    "logcumsumexp": [("value", r"^result", "imaginary parts of `logcumsumexp` lie within pi of 0")],
    "nn.functional.local_response_norm": [
        ("value", r"^result", "`local_response_norm` of integers")
    ],
    "masked.logsumexp": [("dtype", r"float32, not (int|uint)", "`masked.logsumexp` of integers")],
    "nn.functional.poisson_nll_loss": [
        (
            "grad",
            r"not nan$",
            "The target's gradient of `poisson_nll_loss` is finite at targets of 0",
        )
    ],
    "__rpow__": [("grad", r"^gradient of leaf \d.*not (nan|-?inf)$", _EXACTER)],
    "scatter_reduce.prod": [("refuses", r"got complex", "products by index are refused")],
    **dict.fromkeys(
        (
            "nn.functional.linear_cross_entropy.chunked",
            "nn.functional.linear_cross_entropy.chunked_none",
        ),
        [("value", r"^result", "`linear_cross_entropy` of 16 bits rounds its logits")],
    ),
    "renorm": [
        ("grad", r"not nan$", "The norm of complex numbers of order infinity has a gradient")
    ],
}
BAD = {
    "arange": [
        (
            "accepts",
            "step must be nonzero",
            "`arange` cuts fractions at the end where `out` is of integers",
        )
    ],
    "as_strided_scatter": [
        (
            "grad",
            "gradient of leaf 0",
            "The input's gradient of `as_strided_scatter` is that of the places which are not written",
        )
    ],
    "diff": [_EXACT],
    "inner": [_EXACT],
    "linalg.matrix_power": [_EXACT],
}


def meant(kind, text):
    return any(kind == k and re.search(p, text, re.S) for k, p, _ in MEANT)


def known(name, kind, text):
    return any(
        kind == k and re.search(p, text, re.S)
        for k, p, _ in (*BAD.get(name, ()), *BESIDE.get(name, ()))
    )
