"""float32 on an NVIDIA GPU: products and convolutions with the flags of precision, PyTorch beside us.

    python benchmarks/float32.py [--json FILE] [--errors-only]

Speed: median of seven rounds, ours and PyTorch's in turns, random data; TFLOP/s, the ratio, and the
fraction of the roof (--roof TFLOP/s of the unit that does it, H100 and H200: 495 tf32, 67 vectors,
165 six products of bfloat16). Errors: against float64, as multiples of 2^-24 of |a| |b|, ours beside
PyTorch's, which multiplies on vector units; PYFLAME_GPU_FLOAT32=vector gives those of our own
vectors.
"""

import argparse
import json
import statistics
import time

import numpy as np
import torch

import pyflame as pf

ROOF = {"tf32": 495.0, "float32": 67.0, "parts": 165.0}
ROUNDS = 7


def round_of(make, sync, count):
    sync()
    start = time.perf_counter()
    results = [make() for _ in range(count)]
    sync()
    del results
    return (time.perf_counter() - start) / count


def compare(name, flops, roof, ours, theirs):
    """One case: TFLOP/s of both, measured in turns; `roof` None is that of what served us."""
    syncs = (pf.synchronize, torch.cuda.synchronize)
    counts = []
    for make, sync in zip((ours, theirs), syncs, strict=True):
        for _ in range(3):
            took = round_of(make, sync, 3)
        counts.append(max(3, min(30, int(0.03 / took))))
    times = [[], []]
    for _ in range(ROUNDS):
        for i, (make, sync) in enumerate(zip((ours, theirs), syncs, strict=True)):
            times[i].append(round_of(make, sync, counts[i]))
    mine, other = (flops / statistics.median(t) / 1e12 for t in times)
    with pf.explain() as report:
        ours()
        pf.synchronize()
    by = sorted({s["by"] for s in report.served})
    roof = roof or ("parts" if any("parts" in b for b in by) else "float32")
    print(
        f"{name:58} {mine:7.1f} {other:7.1f} TFLOP/s  x {mine / other:5.2f}  "
        f"{mine / ROOF[roof]:4.0%} of {roof}  {'; '.join(by)}",
        flush=True,
    )
    return {
        "case": name,
        "tflops": mine,
        "torch_tflops": other,
        "ratio": mine / other,
        "roof": mine / ROOF[roof],
        "by": by,
    }


def both(values):
    return pf.tensor(values).to("gpu"), torch.tensor(values).cuda()


def set_tf32(products, convolutions):
    for m in (pf, torch):
        m.backends.cuda.matmul.allow_tf32 = products
        m.backends.cudnn.allow_tf32 = convolutions


def products(rng):
    rows = []
    for m, n, k in (
        (4096, 4096, 4096), (1024, 1024, 1024), (2048, 2048, 2048), (8192, 8192, 8192),
        (16384, 1024, 4096), (4096, 50304, 768),
    ):  # fmt: skip
        a, ta = both(rng.standard_normal((m, k), "float32"))
        b, tb = both(rng.standard_normal((n, k), "float32"))
        for tf32 in (False, True):
            set_tf32(tf32, False)
            name = f"product {m}x{k}x{n} {'tf32' if tf32 else 'highest'}"
            roof = "tf32" if tf32 else None
            rows.append(
                compare(
                    name,
                    2.0 * m * n * k,
                    roof,
                    lambda a=a, b=b: a @ b.t(),
                    lambda a=ta, b=tb: a @ b.t(),
                )
            )
    return rows


CONVOLUTIONS = (
    (64, 64, 56, 64, 3, 1), (64, 128, 28, 128, 3, 1), (64, 256, 14, 256, 3, 1),
    (64, 512, 7, 512, 3, 1), (64, 256, 56, 64, 1, 1), (64, 3, 224, 64, 7, 2),
)  # fmt: skip


def convolutions(rng):
    rows = []
    for tf32 in (True, False):
        set_tf32(False, tf32)
        for n, c, size, outs, taps, stride in CONVOLUTIONS:
            x, tx = both(rng.standard_normal((n, c, size, size), "float32"))
            w, tw = both(rng.standard_normal((outs, c, taps, taps), "float32"))
            for last in (False, True):
                if last:
                    x, w = (t.contiguous(memory_format=pf.channels_last) for t in (x, w))
                    tx, tw = (t.contiguous(memory_format=torch.channels_last) for t in (tx, tw))
                how = {"stride": stride, "padding": taps // 2}
                wide = (size + 2 * (taps // 2) - taps) // stride + 1
                flops = 2.0 * n * wide * wide * outs * c * taps * taps
                name = (
                    f"{n}x{c}x{size}x{size} {outs} of {taps}x{taps}/{stride}"
                    f"{' last' if last else ''} {'default' if tf32 else 'highest'}"
                )
                roof = "tf32" if tf32 else None
                rows.append(
                    compare(
                        "conv " + name,
                        flops,
                        roof,
                        lambda x=x, w=w, how=how: pf.nn.functional.conv2d(x, w, **how),
                        lambda x=tx, w=tw, how=how: torch.nn.functional.conv2d(x, w, **how),
                    )
                )

                def step(m, x, w, how):
                    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
                    y = m.nn.functional.conv2d(x, w, **how)
                    return m.autograd.grad(y, (x, w), y.detach())

                rows.append(
                    compare(
                        "conv+gradients " + name,
                        3 * flops,
                        roof,
                        lambda x=x, w=w, how=how, step=step: step(pf, x, w, how),
                        lambda x=tx, w=tw, how=how, step=step: step(torch, x, w, how),
                    )
                )
    return rows


def errors(rng):
    """Products at "highest" of numbers that are hard to multiply."""
    set_tf32(False, False)
    normal = lambda *s: rng.standard_normal(s, "float32")  # noqa: E731
    wide = lambda *s: (normal(*s) * 10.0 ** rng.uniform(-8, 8, s)).astype("float32")  # noqa: E731
    n = 1536
    u, v = normal(n, 1024), normal(n, 1024)
    near = (-v * (1 + 1e-6 * normal(n, 1024))).astype("float32")
    soft = np.exp(4 * normal(n, 512))
    special = normal(n, 1024)
    special[3, 5], special[7, 9], special[11, 2], special[13, 1] = np.inf, -np.inf, np.nan, 3e38
    cases = {
        "normal k 128": (normal(2048, 128), normal(2048, 128)),
        "normal k 512": (normal(n, 512), normal(n, 512)),
        "normal k 4096": (normal(n, 4096), normal(n, 4096)),
        "normal k 65536": (normal(n, 65536), normal(n, 65536)),
        "positive k 128": (rng.random((2048, 128), "float32"), rng.random((2048, 128), "float32")),
        "positive k 4096": (rng.random((n, 4096), "float32"), rng.random((n, 4096), "float32")),
        "positive k 65536": (rng.random((n, 65536), "float32"), rng.random((n, 65536), "float32")),
        "ones and their neighbours": (
            (1 + rng.integers(0, 9, (n, 1024)) * 2.0**-23).astype("float32"),
            (1 + rng.integers(0, 9, (n, 1024)) * 2.0**-23).astype("float32"),
        ),
        "wide ranges": (wide(n, 1024), wide(n, 1024)),
        "cancellation": (np.hstack([u, u]), np.hstack([v, near])),
        "one-hot": (normal(n, 512), np.eye(512, dtype="float32")[rng.integers(0, 512, n)]),
        "softmax": (soft / soft.sum(1, keepdims=True), normal(n, 512)),
        "subnormal": (normal(n, 1024) * np.float32(1e-39), normal(n, 1024)),
        "products below normal": (
            normal(n, 1024) * np.float32(1e-20), normal(n, 1024) * np.float32(1e-20),
        ),
        "infinities, NaN, 3e38": (special, normal(n, 1024)),
    }  # fmt: skip
    rows = []
    for name, (a, b) in cases.items():
        (x, tx), (y, ty) = both(a), both(b)
        with pf.explain() as report:
            mine = torch.tensor((x @ y.t()).cpu().numpy()).cuda().double()
        theirs = (tx @ ty.t()).double()
        want, size = tx.double() @ ty.double().t(), tx.double().abs() @ ty.double().abs().t()
        finite = want.isfinite() & size.isfinite() & theirs.isfinite()
        same = torch.equal(mine.isfinite(), theirs.isfinite()) and torch.equal(
            mine.isnan(), theirs.isnan()
        )
        row = {"case": "error " + name, "by": sorted({s["by"] for s in report.served})}
        for who, got in (("ours", mine), ("torch", theirs)):
            e = ((got - want).abs() / size)[finite] * 2.0**24
            row[who] = {"max": e.max().item(), "rms": e.square().mean().sqrt().item()}
        row["ratio"] = row["ours"]["rms"] / max(row["torch"]["rms"], 1e-300)
        row["same specials"] = same
        rows.append(row)
        print(
            f"{name:28} ours max {row['ours']['max']:9.3g} rms {row['ours']['rms']:9.3g}   "
            f"PyTorch max {row['torch']['max']:9.3g} rms {row['torch']['rms']:9.3g}   "
            f"x {row['ratio']:5.2f} {'' if same else 'SPECIALS DIFFER'} {row['by']}",
            flush=True,
        )
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--errors-only", action="store_true")
    options = parser.parse_args()
    rng = np.random.default_rng(7)
    rows = errors(rng)
    if not options.errors_only:
        rows += products(rng) + convolutions(rng)
    if options.json:
        head = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        with open(options.json, "w") as f:
            json.dump(head | {"date": time.strftime("%Y-%m-%d"), "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
