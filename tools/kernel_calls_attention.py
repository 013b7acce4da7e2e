"""Calls of attention for tools/kernel_calls.py: what its launchers decide by."""

# ruff: noqa: B023 (what is made in a loop is called in its turn)
import itertools

import pyflame as pf
from pyflame.nn import functional as F
from tools.kernel_operands import FLOATS, empty


def attention(calls):
    for dtype, depth, mask in itertools.product(
        FLOATS, (16, 33, 64, 80, 96, 100, 128, 160, 256), (None, "causal", pf.bool, "float")
    ):
        for queries, keys in ((100, 100), (33, 1000)):
            q = empty(2, 4, queries, depth, dtype=dtype, grad=True)
            k, v = (empty(2, 4, keys, depth, dtype=dtype, grad=True) for _ in range(2))
            m = None
            if mask not in (None, "causal"):
                m = empty(queries, keys, dtype=dtype if mask == "float" else mask)
            calls("attention", lambda: F.scaled_dot_product_attention(
                q, k, v, attn_mask=m, is_causal=mask == "causal"))  # fmt: skip
    for dtype, depth, n, keys in itertools.product(
        FLOATS, (8, 16, 32, 64, 128, 256), (1, 4), (200, 1200)
    ):  # decoding
        q = empty(n, 4, 1, depth, dtype=dtype)
        k, v = (empty(n, 4, keys, depth, dtype=dtype) for _ in range(2))
        calls("attention of one query", lambda: F.scaled_dot_product_attention(q, k, v))
        starts = empty(n + 1, dtype=pf.int32)
        calls("attention of one query", lambda: F.flash_attention(
            q[:, :, 0].transpose(0, 1), k[0], v[0], cu_seqlens_q=starts, cu_seqlens_k=starts,
            seqused_k=empty(n, dtype=pf.int32), max_seqlen_q=1, max_seqlen_k=keys * 3 // 4, dense=True)[0])  # fmt: skip
    starts = empty(5, dtype=pf.int32)
    cut = {"cu_seqlens_q": starts, "cu_seqlens_k": starts, "max_seqlen_q": 70, "max_seqlen_k": 70}
    ways = [
        {"left": 3}, {"softcap": 2.0}, {"slopes": True}, {"dropout_p": 0.1}, {"bias": True}, {"groups": True},
        {"cut": True}, {"cut": True, "pages": True},
        {"left": 3, "softcap": 2.0, "slopes": True, "dropout_p": 0.1, "bias": True, "groups": True},
        {"left": 3, "softcap": 2.0, "slopes": True, "dropout_p": 0.1, "cut": True},
    ]  # fmt: skip
    for dtype, depth, way in itertools.product(FLOATS, (33, 64, 96, 128, 160), ways):
        options = dict(way)
        sequences, batch = (
            options.pop("cut", False),
            256,
        )  # enough heads for groups to be summed at once
        rows = (200,) if sequences else (40,)
        heads = (4,) if sequences else (batch, 4)
        groups, paged = options.pop("groups", False), options.pop("pages", False)
        shared = (*heads[:-1], 2 if groups else 4)
        q = empty(*heads, *rows, depth, dtype=dtype, grad=not paged)
        k, v = (empty(*shared, 256, depth, dtype=dtype, grad=not paged) for _ in range(2))
        options |= {"enable_gqa": groups, **(cut if sequences else {})}
        if options.pop("slopes", False):
            options["alibi_slopes"] = empty(4, dtype=pf.float32)
        if options.pop("bias", False):
            options["attn_mask"] = empty(4, *rows, 256, dtype=dtype, grad=True)
        if paged:
            options |= {"block_table": empty(4, 2, dtype=pf.int32), "page_size": 64}
        calls("attention", lambda: F.flash_attention(q, k, v, right=0, **options)[0])
    table = empty(4, 1024, dtype=pf.float32)
    functions = (  # what flex_attention makes of a score_mod, and what that looks up
        ("(20 * tanh((s / 20)))", []), ("where((i >= j), (s + t0), -inf)", ["(h * 1024 + (i - j + 300))"]),
        ("(gelu(s) * (1 + b) + t0 * exp(-abs(i - j)) + t1 % 3)", ["h * 1024 + i", "h * 1024 + j"]),
    )  # fmt: skip
    for dtype, depth, (text, at), masked in itertools.product(
        (pf.float32, pf.float16, pf.bfloat16), (33, 64, 96, 128, 160), functions, (False, True)
    ):
        q, k, v = (empty(2, 4, 256, depth, dtype=dtype, grad=True) for _ in range(3))
        score, tables = pf._C._define_score(text, at), [table] * len(at)
        mask = empty(256, 256, dtype=pf.bool) if masked else None
        calls("attention", lambda: pf.ops.get("_scored_attention")(
            q, k, v, score, tables, mask, scale=0.1, right=10 if masked else -1)[0])  # fmt: skip
