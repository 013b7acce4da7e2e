"""What tools/kernels.py finds and lets be, with the reason for each."""

import re
from typing import NamedTuple


class Limit(NamedTuple):
    """Up to `most` of `what` ("spill", "scratch", "flat", "scalars") in kernels whose name the expression `kernels`
    matches (of a pointwise group: "group " and its case or name), for architectures that begin with one
    of `archs`, where all of `options` are given."""

    kernels: str
    archs: tuple
    what: str
    most: int
    reason: str
    options: tuple = ()


# Sums of features (kernels/attention_args.h) in which soft caps or functions of scores are.
SOFT_CAPS = ("-DPF_FEATURES=(" + "|".join(str(n) for n in range(256) if n & (2 | 128)) + ")",)
SCORES = ("-DPF_FEATURES=(" + "|".join(str(n) for n in range(128, 256)) + ")",)

LIMITS = [
    Limit("group (random_|pf_program_).*", ("sm",), "spill", 16, "a word or two of a large group"),
    Limit(r"\w+", ("sm",), "spill", 64, "addresses outside of loops, or around calls that divide"),
    Limit(r"(group )?\w+", ("sm",), "scratch", 16, "a word or two for a call that divides doubles"),
    Limit("pf_matmul_hopper", ("sm_90",), "scratch", 512, "sums of 512 of k, which are read that often", ("-DPF_PARTS=3",)),
    Limit("flash_.*", ("sm",), "spill", 192, "the assembler aims at a number of blocks"),
    Limit("flash_hopper_(forward|dq|dkv)", ("sm_90",), "spill", 288, "both results or a third of the registers, and the products on top"),
    Limit("flash_.*", ("gfx",), "scalars", 320, "where matrices begin, and numbers of every feature, once"),
    Limit("sdpa.*", ("sm",), "spill", 96, "addresses of the mask, outside of the loop"),
    Limit("sdpa_dmask", ("sm",), "spill", 112, "those and two of the sums, once a tile"),
    Limit("sdpa.*", ("gfx",), "scalars", 208, "where matrices begin, and numbers of every feature, once"),
    Limit("flash_.*", ("gfx11",), "spill", 336, "a cap's slope needs both products at once", SOFT_CAPS),
    Limit("flash_.*", ("gfx1",), "scratch", 24, "a word or two", SOFT_CAPS),
    Limit("flash_.*", ("gfx9",), "scratch", 32, "a word or two of 96 columns, and 160 and more", ("-DPF_D=(96|160|192)",)),
    Limit("flash_.*", ("gfx", "sm"), "spill", 640, "a function of scores with exponentials and errors, beside both products", SCORES),
    Limit("flash_dmask", ("gfx11",), "spill", 8, "addresses of a mask, outside of the loop"),
    Limit("pf_scatter", ("sm",), "spill", 96, "strides of three tensors of many dimensions, outside of the loop"),
    Limit("pf_scatter_.*", ("gfx9",), "scalars", 96, "what eight points at once are compared for, a pair of registers each"),
    Limit("pf_scatter_.*", ("gfx950",), "scalars", 160, "the same by clang 22"),
    Limit("sum_columns", ("gfx950",), "spill", 32, "clang 22 reads ahead what two sums of squares need; 19 has room (246 of 256)"),
    Limit(
        "softmax_rows_backward", ("sm_90",), "spill", 256, "rows of 32 numbers a thread, twice, whose ends are looked at",
        ("-DPF_T=float", "-DPF_VECS=8", "-DPF_WHOLE=0"),
    ),
    Limit("sum_rows", ("gfx11", "gfx12"), "spill", 96, "logarithms of 16-bit numbers before it"),
    Limit("sum_columns", ("sm",), "spill", 80, "addresses of eight strided rows", ("-DPF_T=double", "-DPF_DENSE=0")),
    Limit("sum_columns", ("sm_80",), "spill", 96, "eight rows of 4 columns of three tensors ahead of a program", ("-DPF_T=pf_f16", "-DPF_V=4", "-DPF_MADE=[1-9]")),
    Limit("sum_columns", ("gfx9",), "spill", 48, "GELU's gradient of doubles before it", ("-DPF_T=double",)),
    Limit(
        "norm_backward", ("sm",), "spill", 512, "sums of 16 values or 8 doubles of each of 512 threads",
        ("-DPF_THREADS=512",),
    ),
    Limit(
        "norm_backward", ("gfx11", "gfx12"), "spill", 24, "sums of 32 values of each of 256 threads",
        ("-DPF_VECS=4", "-DPF_SUMS=1"),
    ),
]  # fmt: skip


def allows(program, finding, case):
    """The limit that a finding stays below, or None. `case`: of the pointwise corpus."""
    name = f"group {case or finding.kernel}" if program.group else finding.kernel
    for limit in LIMITS:
        if (
            limit.what == finding.what
            and finding.amount <= limit.most
            and program.arch.startswith(limit.archs)
            and re.fullmatch(limit.kernels, name)
            and all(any(re.fullmatch(o, given) for given in program.options) for o in limit.options)
        ):
            return limit
    return None
