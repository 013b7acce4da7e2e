"""float32 attention on an NVIDIA GPU, PyTorch beside us.

    python benchmarks/float32_attention.py [--json FILE] [--errors-only]

Speed as benchmarks/float32.py measures it; the gradients' rows are forward and backward pass together
(3.5 times the forward pass's operations, as PyTorch counts them: what is computed twice counts once).
Errors: against float64, in 2^-24 of the largest number of each result. PYFLAME_GPU_FLOAT32=vector
gives both of our ordinary arithmetic.
"""

import argparse
import json
import time

import numpy as np
import torch
from float32 import both, compare, set_tf32

import pyflame as pf

SHAPES = (  # batch, heads, length, head size, causal
    (8, 12, 1024, 64, True), (8, 12, 1024, 64, False), (4, 16, 4096, 64, False), (4, 16, 2048, 128, False),
    (4, 16, 2048, 128, True), (16, 8, 256, 32, False), (8, 12, 1024, 96, False),
)  # fmt: skip


def step(m, leaves, g, causal):
    leaves = [t.detach().requires_grad_() for t in leaves]
    y = m.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
    return m.autograd.grad(y, leaves, g)


def speed(rng):
    rows = []
    for b, h, n, d, causal in SHAPES:
        placed = [both(rng.standard_normal((b, h, n, d), "float32")) for _ in range(4)]
        (*ours, g), (*theirs, tg) = zip(*placed, strict=True)
        flops = 4.0 * b * h * n * n * d / (2 if causal else 1)
        for tf32 in (False, True):
            set_tf32(tf32, False)
            name = f"attention {b}x{h}x{n}x{d}{' causal' if causal else ''} {'high' if tf32 else 'highest'}"
            rows.append(
                compare(
                    name,
                    flops,
                    "parts",
                    lambda x=ours, c=causal: pf.nn.functional.scaled_dot_product_attention(
                        *x, is_causal=c
                    ),
                    lambda x=theirs, c=causal: torch.nn.functional.scaled_dot_product_attention(
                        *x, is_causal=c
                    ),
                )
            )
            rows.append(
                compare(
                    name + " +gradients",
                    3.5 * flops,
                    "parts",
                    lambda x=ours, g=g, c=causal: step(pf, x, g, c),
                    lambda x=theirs, g=tg, c=causal: step(torch, x, g, c),
                )
            )
    return rows


def errors(rng):
    def normal(*shape):
        return rng.standard_normal(shape, "float32")

    def qkvg(n, keys, d):
        return [
            normal(2, 4, n, d),
            normal(2, 4, keys, d),
            normal(2, 4, keys, d),
            normal(2, 4, n, d),
        ]

    def scaled(i, by):
        x = qkvg(300, 400, 64)
        x[i] = (x[i] * by).astype("float32")
        return x

    wide = (normal(2, 4, 400, 64) * 10.0 ** rng.uniform(-8, 8, (2, 4, 400, 64))).astype("float32")
    special = qkvg(300, 400, 64)
    special[2][0, 0, 7, 3], special[1][0, 1, 9, 5], special[0][1, 2, 4, 4] = np.inf, -np.inf, np.nan
    cases = {
        "normal 64": qkvg(300, 400, 64),
        "normal 128": qkvg(300, 400, 128),
        "head size 1": qkvg(300, 400, 1),
        "long rows": qkvg(256, 32768, 64),
        "large scores": scaled(0, 20.0),
        "wide values": [*qkvg(300, 400, 64)[:2], wide, normal(2, 4, 300, 64)],
        "gradient 1e-20": scaled(3, 1e-20),
        "gradient 1e-30": scaled(3, 1e-30),
        "subnormal values": scaled(2, 1e-40),
        "queries 1e-35": scaled(0, 1e-35),
        "infinities, NaN": special,
    }
    rows = []
    for name, arrays in cases.items():
        results = []
        for m, place in ((pf, lambda x: pf.tensor(x).to("gpu")), (torch, lambda x: torch.tensor(x).cuda()),
                         (torch, lambda x: torch.tensor(x).cuda().double())):  # fmt: skip
            leaves = [place(x).requires_grad_() for x in arrays[:3]]
            out = m.nn.functional.scaled_dot_product_attention(*leaves)
            grads = m.autograd.grad(out, leaves, place(arrays[3]))
            results.append([t.detach().cpu().double().numpy() for t in (out, *grads)])
        row = {"case": "attention's errors, " + name}
        text = ""
        for what, mine, theirs, want in zip(("out", "dq", "dk", "dv"), *results, strict=True):
            on = np.isfinite(want)
            size = np.abs(want[on]).max(initial=1e-300)
            e = [np.abs(x[on] - want[on]) / size * 2**24 for x in (mine, theirs)]
            row[what] = {
                who: {"max": float(x.max(initial=0)), "rms": float(np.sqrt((x * x).mean()))}
                for who, x in zip(("ours", "torch"), e, strict=True)
            }
            row[what]["same specials"] = bool((np.isfinite(mine) == on).all())
            text += f"  {what} {row[what]['ours']['rms']:7.3f} {row[what]['torch']['rms']:7.3f}"
            text += "" if row[what]["same specials"] else " SPECIALS DIFFER"
        rows.append(row)
        print(f"{name:20} rms ours, PyTorch:{text}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--errors-only", action="store_true")
    options = parser.parse_args()
    rng = np.random.default_rng(7)
    set_tf32(False, False)
    rows = errors(rng)
    if not options.errors_only:
        rows += speed(rng)
    if options.json:
        head = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        with open(options.json, "w") as f:
            json.dump(head | {"date": time.strftime("%Y-%m-%d"), "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
