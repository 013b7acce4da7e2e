"""Every anchor between every prologue and epilogue, over every layout: what test_products.py runs.

`python products.py OUT.json PART` runs a part of the cases on PYFLAME_TEST_DEVICE and writes a digest
of the bytes of every result and gradient, and the engine's counters. PYFLAME_TEST_SHARE=0.1 draws a
tenth of them.
"""

import hashlib
import itertools
import json
import os
import random
import sys

import numpy as np

import pyflame as pf
import pyflame.nn.functional as F

DTYPES = (pf.float32, pf.bfloat16, pf.float16)
DEVICE = os.environ.get("PYFLAME_TEST_DEVICE", "cpu")
SHARE = float(os.environ.get("PYFLAME_TEST_SHARE", "1"))
PARTS = 14


def adamw(x):
    return optimise(x, lambda p: pf.optim.AdamW([p], lr=1e-2, weight_decay=0.1))


def sgd(x):
    return optimise(x, lambda p: pf.optim.SGD([p], lr=0.1, momentum=0.9, nesterov=True))


def optimise(x, make):
    """Two steps from values that are still pending, with gradients that are."""
    p = pf.nn.Parameter(x.detach() * 1.0)
    optimizer = make(p)
    for factor in (0.5, -0.25):
        p.grad = (x * factor).detach()
        optimizer.step()
    return p.detach()


def clipped(x):
    p = pf.nn.Parameter(x.detach() * 1.0)
    p.grad = (x * 0.5).detach()
    norm = pf.nn.utils.clip_grad_norm_([p], 0.5)
    return p.grad * norm


def attention(x, **kwargs):
    q = x[None, None]
    return F.scaled_dot_product_attention(q, q * 0.5, q + 1.0, **kwargs)[0, 0]


def targets(x):
    return pf.arange(len(x), device=x.device) % x.shape[-1]


class Given:
    """Operands beside x, made once for a width and a dtype, and run before anything is recorded."""

    def __init__(self, cols, dtype):
        rng = np.random.default_rng(cols)

        def make(*shape):
            return pf.tensor(rng.standard_normal(shape), dtype=pf.float32, device=DEVICE).to(dtype)

        self.weight, self.bias = make(9, cols), make(9)
        self.square = make(cols, cols)
        self.scale, self.shift = make(cols), make(cols)
        for t in self.all():
            t.requires_grad_()
        pf.synchronize()

    def all(self):
        return [self.weight, self.bias, self.square, self.scale, self.shift]


ANCHORS = {
    "matmul": lambda x, g: x @ g.square,
    "matmul_turned": lambda x, g: x @ g.weight.t(),
    "gram": lambda x, g: x.t() @ x,
    "batched": lambda x, g: pf.matmul(pf.stack([x, x * 2.0]), g.square),
    "vector": lambda x, g: x @ g.scale,
    "linear": lambda x, g: F.linear(x, g.weight, g.bias),
    "linear_plain": lambda x, g: F.linear(x, g.weight),
    "addmm": lambda x, g: pf.addmm(g.shift, x, g.square, beta=0.5, alpha=2.0),
    "attention": lambda x, g: attention(x),
    "attention_causal": lambda x, g: attention(x, is_causal=True),
    "attention_masked": lambda x, g: attention(x, attn_mask=targets(x)[:, None] > targets(x) - 3),
    "attention_biased": lambda x, g: attention(x, attn_mask=(x @ x.t()) * 0.1),
    "outer": lambda x, g: x[..., None] * g.bias,
    "einsum": lambda x, g: pf.einsum("ij,kj->ki", x, g.weight),
    "sum": lambda x, g: x.sum(),
    "sum_rows": lambda x, g: x.sum(-1, keepdim=True),
    "sum_columns": lambda x, g: x.sum(0),
    "mean": lambda x, g: x.mean(-1, keepdim=True),
    "amax": lambda x, g: x.amax(-1, keepdim=True),
    "max": lambda x, g: x.max(0).values,
    "argmax": lambda x, g: x.argmax(-1),
    "var": lambda x, g: x.var(-1, keepdim=True),
    "prod": lambda x, g: x.prod(-1),
    "logsumexp": lambda x, g: x.logsumexp(-1, keepdim=True),
    "norm": lambda x, g: x.norm(dim=0),
    "softmax": lambda x, g: x.softmax(-1),
    "softmax_columns": lambda x, g: x.softmax(0),
    "log_softmax": lambda x, g: x.log_softmax(-1),
    "layer_norm": lambda x, g: F.layer_norm(x, x.shape[-1:], g.scale, g.shift),
    "layer_norm_plain": lambda x, g: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x, g: F.rms_norm(x, x.shape[-1:], g.scale),
    "cross_entropy": lambda x, g: F.cross_entropy(x, targets(x)),
    "cross_entropy_rows": lambda x, g: F.cross_entropy(x, targets(x), reduction="none"),
    "mse": lambda x, g: F.mse_loss(x, x * 0.5 + g.scale),
    "huber": lambda x, g: F.smooth_l1_loss(x, x * 0.5 + g.scale, reduction="none"),
    "embedding": lambda x, g: F.embedding(targets(x), x),
    "sort": lambda x, g: x.sort(-1).values,
    "dropout": lambda x, g: F.dropout(x, 0.4),
    "cumsum": lambda x, g: x.cumsum(-1),
    "adamw": lambda x, g: adamw(x),
    "sgd": lambda x, g: sgd(x),
    "clip": lambda x, g: clipped(x),
}


def in_place(x, *more):
    y = x * 1.0
    y.mul_(1.5)
    for m in more:
        y.add_(m)
    return y


# (what goes on, further results)
PROLOGUES = {
    "none": lambda x, g: (x, []),
    "unary": lambda x, g: (pf.tanh(x), []),
    "chain": lambda x, g: (F.gelu((x + g.scale) * 0.5) + x, []),
    "half": lambda x, g: (x.to(pf.bfloat16), []),
    "half_turned": lambda x, g: (x.to(pf.float16).t().contiguous().t() * 0.5, []),
    "fork": lambda x, g: (lambda a: (a.exp(), [a]))(x * 0.5),
    "in_place": lambda x, g: (in_place(x, g.shift if x.dim() else 0.5), []),
}
EPILOGUES = {
    "none": lambda y, g: [y],
    "unary": lambda y, g: [pf.relu(y)],
    "chain": lambda y, g: [pf.sigmoid(y * 0.7 + y.mean()) * row_of(y)],
    "half": lambda y, g: [(y * 1.25).to(pf.float16)],
    "fork": lambda y, g: [y + 1.0, y * y],
    "in_place": lambda y, g: [in_place(y)],
    "self": lambda y, g: [y.mul_(2) if y.is_floating_point() else y * 2],
    "anchor": lambda y, g: [y.sum(-1) if y.dim() else y.sum(), y],
}


def row_of(y):
    return pf.arange(y.shape[-1], dtype=pf.float32, device=DEVICE) if y.dim() else 1.0


def layouts():
    """Leaves in every layout, made once; two widths, one of them odd."""
    rng = np.random.default_rng(0)

    def make(*shape):
        return pf.tensor(rng.standard_normal(shape), dtype=pf.float32, device=DEVICE)

    return {
        "contiguous": make(8, 16),
        "odd": make(7, 33),
        "tall": make(130, 5),
        "wide": make(5, 140),
        "parallel": make(520, 257),
        "turned": make(33, 7).t(),
        "sliced": make(15, 67)[1::2, 1::2],
        "expanded": make(1, 33).expand(7, 33),
        "single": make(1, 1),
        "empty": make(0, 33),
        "flat": make(33),
        "zero_dim": make(),
    }


def bytes_of(t):
    t = t.detach()
    values = (t.float() if t.dtype == pf.bfloat16 else t).contiguous().cpu().numpy()
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.nan, values)  # nobody promises a NaN's sign
    return values.tobytes()


def run_case(names, inputs, given):
    """Results and the gradient of x, or the text of a typed error."""
    anchor, prologue, epilogue, layout = names
    x = inputs[layout].detach().requires_grad_()
    cols = x.shape[-1] if x.dim() else 1
    g = given[cols, pf.float32]
    try:
        y, results = PROLOGUES[prologue](x, g)
        h = given[cols, y.dtype]
        z = ANCHORS[anchor](y, h)
        results = results + EPILOGUES[epilogue](z, g)
        loss = sum((r * r).float().sum() for r in results if r.requires_grad)
        if isinstance(loss, pf.Tensor) and loss.requires_grad:
            leaves = [x, *g.all(), *(h.all() if h is not g else [])]
            results += pf.autograd.grad(loss, leaves, allow_unused=True)
        return results
    except (pf.PyFlameError, TypeError, IndexError) as error:
        return f"{type(error).__name__}: {error}"


def all_cases(part):
    """The product for some of the anchors; of what is large enough for several threads, less."""
    dice = random.Random(part)
    anchors = list(ANCHORS)[part::PARTS]
    for names in itertools.product(anchors, PROLOGUES, EPILOGUES, layouts()):
        _, prologue, epilogue, layout = names
        if layout == "parallel" and (
            prologue not in ("none", "chain") or epilogue not in ("none", "chain", "in_place")
        ):
            continue
        if SHARE >= 1 or dice.random() < SHARE:
            yield names


def main(out, part):
    pf.set_device(DEVICE)
    inputs = layouts()
    widths = {x.shape[-1] if x.dim() else 1 for x in inputs.values()}
    given = {(w, d): Given(w, d) for w in widths for d in DTYPES}
    pf.synchronize()
    pf.debug.reset_stats()
    digests, errors = {}, 0
    pf.manual_seed(1)
    for names in all_cases(part):
        got = run_case(names, inputs, given)
        digest = hashlib.sha1()
        if isinstance(got, str):
            errors += 1
            digest.update(got.encode())
        else:
            for t in got:
                if t is None:
                    continue
                digest.update(f"{t.dtype}{tuple(t.shape)}".encode() + bytes_of(t))
        digests["-".join(names)] = digest.hexdigest()
    with open(out, "w") as f:
        json.dump({"digests": digests, "errors": errors, "stats": pf.debug.stats()}, f)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
