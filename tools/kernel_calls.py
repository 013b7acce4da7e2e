"""Calls every operation that has kernels, so that a plug-in asks for their programs.

For a GPU that is not there (PYFLAME_COMPILE_ONLY): nothing is computed, and memory that nobody touches
costs nothing, so sizes may be those of real models. tools/kernels.py runs it for each architecture and
compiles what was asked for. What a launcher decides by, calls here vary: dtypes, lengths of rows and
their number, alignment, layout, what stands before and behind a kernel. Operations of the registry are
called as tools/sweep.py calls them, and those whose operands must fit together as tests/python/guards.py
does; the rest of this file is where launchers have more ways than these come to.

    tools/kernel_calls.py DEVICE     prints names of operations that no call suited
"""

# ruff: noqa: B023 (what is made in a loop is called in its turn)
import itertools
import math
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/python"))

import guards

import pyflame as pf
from benchmarks import operations
from pyflame.nn import functional as F
from tools.kernel_calls_attention import attention
from tools.kernel_operands import (
    FLOATS,
    HALVES,
    INTEGERS,
    LAYOUTS,
    STORED,
    both_ways,
    channels_last,
    empty,
)
from tools.sweep import calls_of

# ---- every operation ------------------------------------------------------------------------------


class Data(operations.Data):
    """Operands that nobody has filled, of a dtype."""

    def __init__(self, n, dtype, layout):
        super().__init__(pf, n, pf.get_device())
        self.dtype, self.layout, self.needs_grad = dtype, layout, dtype.is_floating_point

    def normal(self, *shape):
        return empty(*shape, dtype=self.dtype, layout=self.layout)

    def uniform(self):
        return self.normal(self.n)

    def ints(self, high, *shape):
        return empty(*shape, dtype=pf.int64, layout=self.layout)

    def make_mask(self):
        return empty(self.n, dtype=pf.bool, layout=self.layout)

    make_mask2 = make_mask


class Calls:
    """Runs calls, and counts for each name how many were taken."""

    def __init__(self):
        self.taken, self.refused = {}, {}

    def __call__(self, name, call):
        self.taken.setdefault(name, 0)
        try:
            both_ways(call())
            pf.synchronize()
            self.taken[name] += 1
        except (pf.BackendError, pf.OutOfMemoryError):
            raise
        except (pf.PyFlameError, TypeError) as error:
            self.refused.setdefault(name, error)


POINTWISE = {"math", "comparison", "activation", "bits", "logic", "special functions", "choice"}


def registry(calls):
    """Each operation, at sizes of few and of many blocks; of pointwise rows the corpus has more."""
    family = {row["name"]: row["family"] for row in pf.ops.table()}
    table, _ = calls_of(pf)
    for name, (text, written) in table.items():
        ways = [(d, 1000, "plain") for d in (FLOATS + INTEGERS)]
        if family[name] in POINTWISE:
            ways = [(d, 1000, "plain") for d in (pf.float32, pf.int64, pf.bool)]
        elif family[name] not in ("views",):
            ways += [(pf.float32, n, w) for n in (60, 40_000, 1 << 20) for w in LAYOUTS[:3]]
            ways += [(pf.bfloat16, 1 << 25, "plain")]
        for dtype, n, layout in ways:
            d = Data(n, dtype, layout)
            scope = {"t": pf, "F": F, "d": d, "f": operations.function(pf, name)}
            if written:
                scope["w"] = eval(written, dict(scope)).detach().clone()
            calls(name, eval("lambda: " + text, scope))


def fitting(calls):
    sizes = [*guards.SIZES, (64, 64, 64), (8, 256, 128), (130, 64, 96)]
    for (name, call), (n, m, k), dtype in itertools.product(guards.FITTING.items(), sizes, FLOATS):
        for layout in ("plain", "odd"):

            def make(*shape):
                return empty(*shape, dtype=dtype, layout=layout, grad=name not in ("adamw", "sgd"))

            calls(name, lambda: call(make, n, m, k))


# ---- where launchers have more ways -----------------------------------------------------------------

# Of rows: registers of few threads or many, whole pieces or not, too long for registers, for memory.
LENGTHS = [
    *(1, 5, 40, 64, 100, 102, 256, 257, 768, 770, 1000, 1024, 2048, 3072, 3076, 4096, 8192, 16384),
    *(50257, 50258, 50304, 300_000),
]


def rows_of(n):
    """How many: few, those of whole blocks, and more elements than caches hold."""
    most = max(1, (1 << 25) // n)
    return sorted({3, 64, most}) if n <= 4096 else [3, most] if n > 50257 else [3]


def some_rows():
    """All lengths and dtypes; rows and layouts in turn."""
    layouts = itertools.cycle(("plain", "odd", "plain"))
    for n, dtype in itertools.product(LENGTHS, FLOATS):
        for rows in rows_of(n):
            yield n, dtype, rows, next(layouts)


def softmax(calls):
    names = itertools.cycle(("softmax", "log_softmax", "softmax"))
    for n, dtype, rows, layout in itertools.chain(some_rows(), some_rows()):
        f = getattr(F, next(names))
        calls(f.__name__, lambda: f(empty(rows, n, dtype=dtype, layout=layout, grad=True), -1))
    # With what stands before it and behind it.
    ways = itertools.cycle((
        lambda f, x, m, s: f(x * 2.0 + m, -1) * s,
        lambda f, x, m, s: f((x * s).float(), -1).to(x.dtype),
        lambda f, x, m, s: f(x, -1).to(pf.float32) + s,
    ))  # fmt: skip
    for n, rows, dtype in itertools.product((64, 512, 1000, 2048, 4096, 8192), (64, 8192), FLOATS):
        f, way = getattr(F, next(names)), next(ways)
        x, m = (empty(rows, n, dtype=dtype, grad=True) for _ in range(2))
        calls("around " + f.__name__, lambda: way(f, x, m, empty(n, dtype=dtype)))


def norms(calls):
    there = itertools.cycle(((1, 1), (1, 0), (1, 1), (0, 0), (1, 1)))
    wide = itertools.cycle((False, True, False))
    for n, dtype, rows, layout in itertools.chain(some_rows(), some_rows()):
        kind = pf.float32 if next(wide) else dtype
        w, b = (empty(n, dtype=kind, layout=layout, grad=True) if t else None for t in next(there))
        x = empty(rows, n, dtype=dtype, layout=layout, grad=True)
        calls("layer_norm", lambda: F.layer_norm(x, (n,), w, b))
        if b is None or rows == 64:
            calls("rms_norm", lambda: F.rms_norm(x, (n,), w))
    ways = itertools.cycle((
        lambda n, x, y, w: F.layer_norm(x + y, (n,), w, w),
        lambda n, x, y, w: F.layer_norm(y, (n,), w).to(x.dtype) * 2,
        lambda n, x, y, w: F.rms_norm(x * x, (n,), w) + y,
    ))  # fmt: skip
    for n, rows, dtype in itertools.product((64, 768, 1000, 2048, 4096), (64, 8192), FLOATS):
        x, y = empty(rows, n, dtype=dtype, grad=True), empty(rows, n, grad=True)
        way, kind = next(ways), pf.float32 if next(wide) else dtype
        calls("around norms", lambda: way(n, x, y, empty(n, dtype=kind, grad=True)))
    for dtype, last, space in itertools.product(
        FLOATS, (False, True), ((2, 3), (7, 7), (56, 56), (224, 224), (33, 5))
    ):
        for channels, batch in ((6, 2), (32, 8), (64, 128), (520, 2)):
            if channels * batch * space[0] * space[1] > 1 << 26:
                continue
            x = empty(batch, channels, *space, dtype=dtype, grad=True)
            x = channels_last(x) if last else x
            w, b = (empty(channels, dtype=dtype, grad=True) for _ in range(2))
            calls("batch_norm", lambda: F.relu(F.batch_norm(x, None, None, w, b, True)))
            calls("group_norm", lambda: F.group_norm(x, 2, w, b))
            calls("instance_norm", lambda: F.instance_norm(x, None, None, w, b))


def sums(calls):
    def over(name, kind, shape, dim, layout, **how):
        if isinstance(dim, int) or name not in ("prod", "argmax", "argmin"):
            x = empty(*shape, dtype=kind, layout=layout)
            calls(name, lambda: getattr(pf, name)(x, dim, **how))

    shapes = [((), None), ((3, 5), None), ((1 << 20,), 0), ((1 << 25,), 0), ((6, 64, 8), (0, 2))]
    shapes += [((rows, n), 1) for n in LENGTHS for rows in rows_of(n)]
    shapes += [((n, k), 0) for n in (3, 70, 4096, 100_000) for k in (1, 6, 64, 768, 4097)]
    shapes += [((9, 40, 72), (0, 1)), ((9, 40, 72), 1), ((4, 6, 8, 10), (1, 3))]
    layouts = itertools.cycle(LAYOUTS)
    for dtype, (shape, dim) in itertools.product(FLOATS, shapes):
        for name in ("sum", "var", "prod", "mean", "var_mean"):
            over(name, dtype, shape, dim, next(layouts))
        over("sum", dtype, shape, dim, next(layouts), dtype=pf.float32)
        x = empty(*shape, dtype=dtype, layout=next(layouts))
        calls("vector_norm", lambda: pf.linalg.vector_norm(x, dim=dim))
    names = itertools.cycle(("amax", "argmin", "any", "amin", "argmax", "all", "count_nonzero"))
    for dtype, (shape, dim), _ in itertools.product(FLOATS + INTEGERS, shapes, range(2)):
        over(next(names), dtype, shape, dim, next(layouts))
    names = itertools.cycle(("sum", "prod", "argmin", "argmax"))
    for dtype, (shape, dim) in itertools.product(INTEGERS, shapes):
        over(next(names), dtype, shape, dim, next(layouts))
    ways = itertools.cycle((
        lambda x, y: pf.sum(x * y + 1, -1), lambda x, y: pf.sum((x * x).float(), 0),
        lambda x, y: pf.var(x + y, -1), lambda x, y: pf.var_mean((x * 2).float(), -1),
        lambda x, y: pf.prod(x + y, -1), lambda x, y: F.gelu(x + y[0]),
        lambda x, y: F.gelu(x + y.detach()[0]),
    ))  # fmt: skip
    for rows, n, dtype in itertools.product((64, 8192), (64, 768, 2048, 4096, 20_000), FLOATS):
        x, y = (empty(rows, n, dtype=dtype, grad=True) for _ in range(2))
        way = next(ways)
        calls("around sums", lambda: way(x, y))


def losses(calls):
    ways = itertools.cycle(itertools.product((False, True), (0.0, 0.1), ("mean", "sum", "none")))
    kinds = itertools.cycle((pf.int64, pf.int32, pf.int64, pf.uint8, pf.int64))
    sizes = [(3, 4, "plain"), (10, 1 << 21, "plain"), (64, 3, "odd"), (1000, 4, "plain")]
    sizes += [(1000, 1 << 15, "plain"), (50257, 3, "plain"), (50304, 1000, "plain")]
    for (classes, rows, layout), dtype, _ in itertools.product(sizes, FLOATS, range(5)):
        x = empty(rows, classes, dtype=dtype, layout=layout, grad=True)
        target = empty(rows, dtype=next(kinds))
        weighted, smoothing, reduction = next(ways)
        w = empty(classes, dtype=dtype) if weighted else None
        how = {"weight": w, "label_smoothing": smoothing, "reduction": reduction}

        def apart():
            loss = F.cross_entropy(x, target, **how)
            pf.synchronize()
            return loss

        calls("cross_entropy", lambda: F.cross_entropy(x, target, **how))
        calls("cross_entropy", apart)
        calls("cross_entropy", lambda: F.cross_entropy(x.float(), target, **how))
        calls("nll_loss", lambda: F.nll_loss(x, target, w, reduction=reduction))
    for dtype in FLOATS:
        x, target = empty(40, 10, dtype=dtype, grad=True), empty(40, 10, dtype=pf.int64)
        calls("multilabel_margin_loss", lambda: F.multilabel_margin_loss(x, target))


def products(calls):
    sizes = [(1, 1, 1), (7, 9, 5), (33, 300, 65), (64, 64, 64), (1, 256, 512), (256, 256, 256)]
    sizes += [(512, 512, 40), (2048, 2048, 2048), (4096, 4096, 512), (65536, 128, 256)]
    sizes += [(65536, 256, 64), (2000, 120, 4096), (8192, 8192, 96), (8192, 3072, 96)]
    sizes += [(1100, 1000, 64)]
    ways = list(itertools.product(("plain", "turned", "odd"), repeat=2))
    for precision in ("highest", "high"):
        pf.set_float32_matmul_precision(precision)
        for (m, n, k), (a, b) in itertools.product(sizes, ways):
            for dtype in FLOATS if precision == "highest" else [pf.float32]:
                x = empty(m, k, dtype=dtype, layout=a)
                y = empty(k, n, dtype=dtype, layout=b)
                bias, rest = empty(n, dtype=dtype), empty(m, n, dtype=dtype)
                calls("matmul", lambda: x @ y)
                calls("matmul", lambda: F.linear(x, y.t(), bias))
                if a == b == "plain":
                    calls("epilogue", lambda: F.gelu(F.linear(x, y.t(), bias)))
                    calls("epilogue", lambda: (x @ y) * 2.0 + rest)
                    calls("epilogue", lambda: (x @ y).float())
                    calls("bmm", lambda: empty(6, m, k, dtype=dtype) @ empty(6, k, n, dtype=dtype))
            calls("int_mm", lambda: pf._int_mm(
                empty(m, k, dtype=pf.int8, layout=a), empty(k, n, dtype=pf.int8, layout=b)))  # fmt: skip
            if precision == "highest":
                for dtype in INTEGERS:
                    calls("matmul", lambda: empty(m, k, dtype=dtype, layout=a)
                          @ empty(k, n, dtype=dtype, layout=b))  # fmt: skip
    pf.set_float32_matmul_precision("highest")
    for m, k, dtype in itertools.product((1, 2, 3, 8), (768, 6400), FLOATS):  # few rows
        x, w, bias = empty(m, k, dtype=dtype), empty(6000, k, dtype=dtype), empty(6000, dtype=dtype)
        calls("few rows", lambda: F.linear(x, w, bias))
        calls("few rows", lambda: F.gelu(F.linear(x, w, bias)) * 2.0)
        if m == 1:
            calls("few rows", lambda: F.linear(F.layer_norm(x, (k,), w[0], w[0]), w, bias))
    # Every tile that may have been measured (`pyflame tune`).
    tuning = pf.get_tuning_cache()
    tuning.enable_exhaustive_search(True)
    for (a, b), dtype in itertools.product(ways[:5:2] + ways[1:2], [*FLOATS, pf.int8]):
        x, y = empty(256, 256, dtype=dtype, layout=a), empty(256, 256, dtype=dtype, layout=b)
        calls("tuned", lambda: pf._int_mm(x, y) if dtype is pf.int8 else x @ y)
    tuning.clear()  # nothing to keep
    tuning.enable_exhaustive_search(False)


def eight_bits(calls):
    """Products of float8 where a library has none, and what makes their operands."""
    kinds = [pf.float8_e4m3fn, pf.float8_e5m2]
    sizes = [(5, 17, 3), (256, 512, 256), (1 << 17, 64, 1 << 15)]
    sizes += [(8192, 8192, 8192), (8192, 8192, 8195)]  # each tile of Hopper's kernel
    sizes += [(1 << 30, 1, 1)]  # too many rows for it: converted
    for kind, dtype, (m, k, n) in itertools.product(kinds, FLOATS[:3], sizes):
        scales, bias = (empty(m, 1), empty(1, n)), empty(n, dtype=dtype)
        for of_b, fast in itertools.product(kinds[: 2 - kinds.index(kind)], (False, True)):
            a, b = empty(m, k, dtype=kind), empty(n, k, dtype=of_b).t()
            how = {"out_dtype": dtype, "use_fast_accum": fast}
            calls("_scaled_mm", lambda: pf._scaled_mm(a, b, *scales, bias, **how))
        x = empty(m, k, dtype=dtype)
        calls("_to_float8", lambda: pf.ops.get("_to_float8")(x, kind, True))
        odd = empty(m, k, dtype=dtype, layout="odd")
        calls("_to_float8", lambda: pf.ops.get("_to_float8")(odd, kind, False))


def linear_algebra(calls):
    """In the forms that do not look at the numbers."""
    for dtype in (pf.float32, pf.float64, pf.complex64, pf.complex128):
        for shape in ((40, 40), (3, 40, 40)):
            a, b = empty(*shape, dtype=dtype), empty(*shape[:-1], 5, dtype=dtype)
            for upper in (False, True):
                calls("cholesky", lambda: pf.linalg.cholesky_ex(a, upper=upper)[0])
            a, b = (t.detach().requires_grad_() for t in (a, b))
            for left in (False, True):
                calls("solve", lambda: pf.linalg.solve_ex(a, b if left else b.mT, left=left)[0])


def convolutions(calls):
    """Names of sizes: n, channels, size, results, taps, and options."""
    plain = [
        (2, 3, (20, 20), 8, (3, 3), {}), (2, 3, (224, 224), 64, (7, 7), {"stride": 2, "padding": 3}),
        (2, 1, (28, 28), 32, (3, 3), {"padding": 1}), (2, 4, (64, 64), 24, (5, 5), {"stride": 4}),
        (2, 16, (30, 30), 16, (3, 3), {"padding": 1}), (2, 64, (56, 56), 64, (3, 3), {"padding": 1}),
        (32, 64, (56, 56), 64, (3, 3), {"padding": 1}), (32, 128, (28, 28), 128, (3, 3), {"padding": 1}),
        (32, 256, (14, 14), 256, (3, 3), {"padding": 1}), (2, 512, (7, 7), 512, (3, 3), {"padding": 1}),
        (32, 64, (56, 56), 128, (3, 3), {"stride": 2, "padding": 1}),
        (32, 64, (56, 56), 256, (1, 1), {}), (32, 256, (56, 56), 64, (1, 1), {}),
        (32, 256, (56, 56), 512, (1, 1), {"stride": 2}), (2, 48, (30, 30), 40, (3, 3), {"dilation": 2}),
        (8, 64, (40, 40), 64, (7, 7), {"padding": 3}), (8, 24, (33, 31), 48, (5, 5), {"padding": 2}),
        (2, 32, (56, 56), 32, (3, 3), {"padding": 1, "groups": 32}),
        (2, 33, (9, 9), 33, (3, 3), {"padding": 1, "groups": 33, "stride": 2}),
        (2, 32, (9, 9), 64, (3, 3), {"groups": 4}), (64, 512, (1, 1), 512, (1, 1), {}),
        (2, 64, (100,), 64, (3,), {"padding": 1}), (2, 32, (1000,), 32, (9,), {"groups": 32}),
        (2, 1, (8, 8, 8), 8, (3, 3, 3), {}), (2, 32, (8, 16, 16), 64, (3, 3, 3), {"padding": 1}),
        (2, 8, (8, 8, 8), 8, (2, 2, 2), {"groups": 8, "stride": 2}),
        (256, 64, (56, 56), 64, (3, 3), {"padding": 1}), (128, 192, (28, 28), 192, (3, 3), {"padding": 1}),
        (128, 64, (112, 112), 64, (3, 3), {"padding": 1, "stride": 2}), (64, 20, (28, 28), 20, (3, 3), {}),
        (32, 64, (40, 40), 64, (9, 9), {"stride": 2}), (8, 64, (80, 80), 64, (9, 9), {"padding": 4}),
    ]  # fmt: skip
    # How many tiles there are decides how large they are.
    many = [
        (n, 64, size, outs, (taps, taps), {"padding": taps // 2})
        for n, size, outs, taps in itertools.product(
            (16, 24, 40, 72), ((28, 28), (56, 56), (14, 100)), (64, 128), (3, 5)
        )
    ]
    every = itertools.chain(itertools.product(plain, FLOATS), itertools.product(many, HALVES))
    for (n, channels, size, outs, taps, how), dtype in every:
        for last, layout, precision in (
            (False, "plain", "highest"), (True, "plain", "highest"), (False, "odd", "highest"),
            (False, "plain", "high"), (True, "plain", "high"),
        ):  # fmt: skip
            if (last and len(size) == 1) or (precision == "high" and dtype != pf.float32):
                continue
            if layout == "odd" and n > 2:
                continue
            pf.backends.cudnn.allow_tf32 = precision == "high"
            f = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(size)]
            back = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[len(size)]
            ins = channels // how.get("groups", 1)
            x = empty(n, channels, *size, dtype=dtype, layout=layout, grad=True)
            w = empty(outs, ins, *taps, dtype=dtype, layout=layout, grad=True)
            b = empty(outs, dtype=dtype, grad=True)
            if last:
                x, w = channels_last(x), channels_last(w)
            calls("conv", lambda: f(x, w, **how))
            calls("conv", lambda: F.relu(f(x, w, b, **how)))
            if outs == channels:
                calls("conv_transpose", lambda: back(x, w, **how))
            if last and channels <= 4 and len(size) == 2:
                y = f(x, w, **how)
                g = channels_last(empty(*y.shape, dtype=dtype))
                calls("conv", lambda: pf.autograd.grad(y, w, g, retain_graph=True))
    pf.backends.cudnn.allow_tf32 = True
    for dtype in INTEGERS[:5]:
        x, w = empty(2, 20, 9, 9, dtype=dtype), empty(24, 20, 3, 3, dtype=dtype)
        calls("conv", lambda: F.conv2d(x, w))
        calls("conv", lambda: F.conv2d(empty(2, 20, 99, 99, dtype=dtype), w))
        calls("conv", lambda: F.conv2d(channels_last(x), channels_last(w), stride=2))
        calls("conv", lambda: F.conv2d(x, w[:20, :1].contiguous(), groups=20))


def pools(calls):
    for dtype, last, size in itertools.product(
        FLOATS + INTEGERS, (False, True), ((2, 16, 56, 56), (3, 5, 9, 11), (2, 64, 32, 32))
    ):
        x = empty(*size, dtype=dtype, grad=True)
        x = channels_last(x) if last else x
        for kernel, stride, padding in itertools.product((2, 3, 5), (1, 2), (0, 1)):
            calls("max_pool2d", lambda: F.max_pool2d(x, kernel, stride, padding))
            calls("max_pool2d", lambda: F.max_pool2d(x.detach(), kernel, stride, padding))
            calls(
                "max_pool2d",
                lambda: F.max_pool2d(x, kernel, stride, padding, return_indices=True)[0],
            )
            calls("avg_pool2d", lambda: F.avg_pool2d(x, kernel, stride, padding))
        if x.requires_grad:
            y = F.max_pool2d(x, 3, 2)
            (g,) = pf.autograd.grad(
                [y], [x], [empty(*y.shape, dtype=dtype, grad=True)], create_graph=True
            )
            calls("max_pool2d", lambda: g)
        calls("adaptive_avg_pool2d", lambda: F.adaptive_avg_pool2d(x, (7, 5)))
        calls("adaptive_max_pool2d", lambda: F.adaptive_max_pool2d(x, (7, 5)))

    for dtype in FLOATS:  # so many that a thread makes several below each other
        x = channels_last(empty(640, 64, 28, 128, dtype=dtype, grad=True))
        calls("max_pool2d", lambda: F.max_pool2d(x, 3, 2, 1))


def recurrent(calls):
    for dtype, hidden, layer in itertools.product(
        FLOATS, (5, 6, 64), (pf.nn.RNN, pf.nn.LSTM, pf.nn.GRU)
    ):
        for how in ({}, {"proj_size": 3}, {"nonlinearity": "relu"}, {"bidirectional": True}):
            if ("proj_size" in how and layer is not pf.nn.LSTM) or (
                "nonlinearity" in how and layer is not pf.nn.RNN
            ):
                continue
            net = layer(hidden, hidden, **how).to(dtype=dtype)
            x = empty(7, 4, hidden, dtype=dtype, grad=True)
            calls(layer.__name__, lambda: net(x)[0])
            calls(layer.__name__, lambda: net(x.detach())[0])
            packed = pf.nn.utils.rnn.pack_padded_sequence(x, pf.tensor([7, 5, 2, 1], device="cpu"))
            calls(layer.__name__, lambda: net(packed)[0].data)


def images(calls):
    for dtype, last in itertools.product([*FLOATS, pf.uint8], (False, True)):
        for size, mode in itertools.product(
            ((2, 3, 20, 24), (2, 16, 33, 31), (1, 8, 64, 64)),
            ("nearest", "nearest-exact", "bilinear", "bicubic", "area"),
        ):
            x = empty(*size, dtype=dtype, grad=True)
            x = channels_last(x) if last else x
            for out in ((40, 48), (11, 13), (64, 9)):
                calls("interpolate", lambda: F.interpolate(x, out, mode=mode))
                if mode in ("bilinear", "bicubic"):
                    calls("interpolate", lambda: F.interpolate(x, out, mode=mode, antialias=True))
        for mode, padding in itertools.product(
            ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
        ):
            for space in ((9, 8), (5, 6, 7)):
                x = empty(2, 4, *space, dtype=dtype, grad=True)
                if last and len(space) == 2:
                    x = channels_last(x)
                grid = empty(2, *space, len(space), dtype=dtype, grad=True)
                calls("grid_sample", lambda: F.grid_sample(x, grid, mode, padding, False))
        calls("grid_sampler", lambda: pf.grid_sampler(x, grid, 0, 1, False))


def indexing(calls):
    """Reading and writing by index: lanes of few points and many, modes, sizes of elements."""
    for dtype in (*FLOATS, *INTEGERS, *STORED):
        for n, lanes in ((10, 3), (1000, 4), (5000, 4), (40, 300_000), (70_000, 2)):
            x, src = empty(lanes, n, dtype=dtype), empty(lanes, n, dtype=dtype)
            ix = empty(lanes, n, dtype=pf.int64)
            calls("gather", lambda: pf.gather(x, 1, ix))
            calls("scatter", lambda: pf.scatter(x, 1, ix, src))
            calls("scatter_add", lambda: pf.scatter_add(x, 1, ix, src))
            calls("index_add", lambda: pf.index_add(x, 1, ix[0], src))
            calls("index_copy", lambda: pf.index_copy(x, 1, ix[0], src))
            for how in ("sum", "prod", "amax", "amin", "mean"):
                calls("scatter_reduce", lambda: pf.scatter_reduce(x, 1, ix, src, how))
            calls("index_put", lambda: pf.index_put(x, (ix[0, :3], ix[0, :3]), src[0, :3], True))
            calls("index_put", lambda: pf.index_put(x, (ix[0] % 2, ix[0]), src[0], False))
            calls("index", lambda: x[:, ix[0]])
            calls("index", lambda: x[ix[0, :20]])
        x, mask = empty(300, 50, dtype=dtype, grad=True), empty(300, 50, dtype=pf.bool)
        calls("masked_scatter", lambda: x.masked_scatter(mask, empty(300, 50, dtype=dtype)))
        calls("as_strided", lambda: pf.as_strided(x * 1, (40, 40), (3, 1)))
        calls("unfold", lambda: (x * 1).unfold(0, 4, 2))
        calls("index_select", lambda: pf.index_select(x, 0, empty(40, dtype=pf.int64)))
        calls("embedding", lambda: F.embedding(empty(4000, dtype=pf.int64), x))
        calls("searchsorted", lambda: pf.searchsorted(x[0], x[1]))
        calls("bincount", lambda: pf.bincount(empty(5000, dtype=pf.int64), minlength=4000))
        calls(
            "bincount", lambda: pf.bincount(empty(5000, dtype=pf.int64), x.flatten()[:5000], 4000)
        )
        calls("unique", lambda: pf.unique(x, return_inverse=True))
        calls("multinomial", lambda: pf.multinomial(x, 5))
        calls("multinomial", lambda: pf.multinomial(x, 5, True))
        calls("randperm", lambda: pf.randperm(5000, dtype=dtype))
        for n in (9, 1000, 5000, 300_000):
            for name in ("sort", "argsort", "median", "mode", "kthvalue", "topk"):
                more = {"kthvalue": (2, 0), "topk": (3, 0)}.get(name, (0,))
                calls(name, lambda: getattr(pf, name)(empty(n, 6, dtype=dtype), *more))
        for name in ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"):
            for shape, dim in (((3, 5), 1), ((8, 100_000), 1), ((100_000, 300), 0), ((300, 70), 0)):
                calls(name, lambda: getattr(pf, name)(empty(*shape, dtype=dtype), dim))
    os.environ["PYFLAME_COMPILE_ONLY_COUNT"] = "1"
    for dtype in (*FLOATS, *INTEGERS, pf.complex128):
        x, mask = empty(30, 50, dtype=dtype), empty(30, 50, dtype=pf.bool)
        calls("nonzero", lambda: pf.nonzero(x))
        calls("masked_select", lambda: pf.masked_select(x, mask))
        calls("unique", lambda: pf.unique(x, return_inverse=True, return_counts=True))
    del os.environ["PYFLAME_COMPILE_ONLY_COUNT"]


def moving(calls):
    kinds = [*FLOATS, *INTEGERS, *STORED]
    for a, b in itertools.product(kinds, kinds):
        for layout in ("plain", "gaps"):
            calls("to", lambda: empty(9, 40, dtype=a, layout=layout).to(b))
    for dtype, layout in itertools.product(kinds, LAYOUTS):
        x = empty(100, 200, dtype=dtype, layout=layout)
        calls("contiguous", lambda: x.contiguous())
        calls("transpose", lambda: x.t().contiguous())
        calls(
            "permute",
            lambda: (
                empty(4, 40, 6, 50, dtype=dtype, layout=layout).permute(0, 2, 3, 1).contiguous()
            ),
        )
        calls("cat", lambda: pf.cat([x, x, x], 1))
        calls("cat", lambda: pf.cat([x, x[:3]], 0))
        calls("stack", lambda: pf.stack([x] * 70, 1))
        calls("flip", lambda: pf.flip(x, [0, 1]))
        calls("roll", lambda: pf.roll(x, 3, 1))
        calls("tril", lambda: pf.tril(x))
        calls("fill", lambda: x.fill_(1))
        calls("full", lambda: pf.full((1000,), 1, dtype=dtype))
    for dtype in [*FLOATS, *INTEGERS]:
        for name in ("arange", "eye", "rand", "randn"):
            calls(name, lambda: getattr(pf, name)(1000, dtype=dtype))
        calls("linspace", lambda: pf.linspace(0, 1, 1000, dtype=dtype))
        calls("randint", lambda: pf.randint(0, 5, (1000,), dtype=dtype))
        for layout in ("plain", "gaps"):
            x = empty(30, 40, dtype=dtype, layout=layout)
            calls("dropout_", lambda: operations.function(pf, "dropout_")(x, 0.5, True))
            for name in ("uniform_", "normal_", "exponential_", "random_", "bernoulli_"):
                calls(name, lambda: getattr(x, name)())
            for p in FLOATS:
                calls("bernoulli_", lambda: x.bernoulli_(empty(30, 40, dtype=p, layout=layout)))
            calls(
                "dropout", lambda: F.dropout(empty(30, 40, dtype=dtype, layout=layout, grad=True))
            )
    for dtype, p in itertools.product(FLOATS, (0, 1, 2, 3, 2.5, math.inf)):
        x = empty(2, 30, 7, dtype=dtype, grad=True)
        calls("cdist", lambda: pf.cdist(x, empty(2, 9, 7, dtype=dtype, grad=True), p))
        calls("pdist", lambda: F.pdist(x[0], p))


NARROW_WAYS = [
    (name, more | way)
    for name, more in (
        ("SGD", {}),
        ("SGD", {"momentum": 0.9}),
        ("AdamW", {}),
        ("AdamW", {"amsgrad": True}),
    )
    for way in ({"master_weights": True}, {"stochastic_rounding": True})
]


def captured_copies(optimizer, half, how):
    """A captured step whose optimizer writes weights in 16 bits for the next one."""
    w = pf.nn.Parameter(empty(100, 1000))
    steps = optimizer([w], lr=0.1, **{k: v for k, v in how.items() if k != "master_weights"})
    x = empty(8, 1000, dtype=half)

    @pf.compile(mode="reduce-overhead", fullgraph=True)
    def step():
        steps.zero_grad()
        F.linear(x, w.to(half)).float().sum().backward()
        steps.step()

    for _ in range(3):
        step()


def optimizers(calls):
    for dtypes in [[d] for d in FLOATS] + [[pf.float32, pf.bfloat16]]:
        params = [pf.nn.Parameter(empty(n, dtype=d)) for n in (5, 100_000) for d in dtypes]
        for p in params:
            p.grad = empty(*p.shape, dtype=p.dtype)
        for name, how in (
            ("SGD", {}), ("SGD", {"momentum": 0.9}), ("AdamW", {}), ("AdamW", {"amsgrad": True}),
            ("RMSprop", {}), ("RMSprop", {"centered": True}), ("RMSprop", {"momentum": 0.9}),
            ("RMSprop", {"centered": True, "momentum": 0.9}), ("Adagrad", {}), ("Adadelta", {}),
            ("Adamax", {}), ("NAdam", {}), ("RAdam", {}), ("ASGD", {}), ("Rprop", {}), ("Lion", {}),
            ("LAMB", {}), *NARROW_WAYS,
        ):  # fmt: skip

            def steps():
                optimizer = getattr(pf.optim, name)(params, lr=0.1, **how)
                optimizer.step()
                optimizer.step()

            calls(name, steps)
        if dtypes[0] in (pf.bfloat16, pf.float16):
            for name in ("SGD", "AdamW"):
                moments = {"momentum": 0.9} if name == "SGD" else {"amsgrad": True}

                def narrow_steps():
                    optimizer = getattr(pf.optim, name)(
                        params, lr=0.1, stochastic_rounding=True, state_dtype=dtypes[0], **moments
                    )
                    optimizer.step()

                calls(name, narrow_steps)
        for half, (name, how) in itertools.product(HALVES, NARROW_WAYS[::2]):
            if dtypes == [pf.float32]:
                calls(name, lambda: captured_copies(getattr(pf.optim, name), half, how))
        for p in (1.0, 2.0, 3.0, math.inf):
            calls("clip_grad_norm_", lambda: pf.nn.utils.clip_grad_norm_(params, 1.0, p))
        calls("clip_grad_value_", lambda: pf.nn.utils.clip_grad_value_(params, 1.0))
        calls("found_nonfinite", lambda: pf.ops.get("_found_nonfinite")([p.grad for p in params]))


def huge(calls):
    """More elements than 32 bits count."""
    n = (1 << 31) + (1 << 20)
    for dtype in (pf.int8, pf.bool, pf.float16, pf.float32):
        x = empty(n, dtype=dtype)
        calls("huge", lambda: x.view(2, -1).t().contiguous())
        calls("huge", lambda: x.view(2, -1)[:, ::2].contiguous())
        calls("huge", lambda: x.view(2, -1)[:, 1:].contiguous())
        calls("huge", lambda: pf.flip(x.view(2, -1), [1]))
        calls("huge", lambda: x.view(2, -1)[:, 1:].fill_(1))
        calls("huge", lambda: pf.tril(x.view(64, -1)))
        for p in FLOATS[:3]:
            calls("huge", lambda: x.view(4, -1)[:, ::2].bernoulli_(empty(4, n // 8, dtype=p)))
        calls("huge", lambda: x.view(4, -1)[:, ::2].bernoulli_(0.5))
        for other in (pf.uint8, *HALVES, *STORED):
            calls("huge", lambda: x.to(other))
            calls("huge", lambda: empty(n, dtype=other).to(dtype))
        for name in ("uniform_", "normal_", "exponential_", "random_"):
            calls("huge", lambda: getattr(x.view(2, -1)[:, 1:], name)())
        calls("huge", lambda: F.dropout(x))
        ix = empty(n, dtype=pf.int64)
        calls("huge", lambda: x[ix])
        calls("huge", lambda: pf.gather(x, 0, ix))
        calls("huge", lambda: pf.searchsorted(x[:100], x))
        for lanes in (1, 1 << 9, 1 << 20, 1 << 28):
            y, at = x[: 1 << 31].view(lanes, -1), ix[: 1 << 31].view(lanes, -1)
            calls("huge", lambda: pf.scatter(y, 1, at, y))
            calls("huge", lambda: pf.scatter_add(y, 1, at, y))
            calls("huge", lambda: pf.index_add(y, 1, at[0], y))
            for how in ("prod", "amax", "amin"):
                calls("huge", lambda: pf.scatter_reduce(y, 1, at, y, how))
        os.environ["PYFLAME_COMPILE_ONLY_COUNT"] = "1"
        calls("huge", lambda: pf.nonzero(x))
        calls("huge", lambda: pf.masked_select(x, empty(n, dtype=pf.bool)))
        calls("huge", lambda: x.masked_scatter(empty(n, dtype=pf.bool), x))
        del os.environ["PYFLAME_COMPILE_ONLY_COUNT"]
    for dtype, last in itertools.product((*FLOATS, pf.uint8, pf.int64), (False, True)):
        grad = dtype.is_floating_point
        x = empty(1, 64, 1 << 22, 8, dtype=dtype) if last else empty(1, 1, 1 << 25, 64, dtype=dtype)
        x = channels_last(x).requires_grad_(grad)
        for kernel, stride in ((2, 2), (3, 1), (5, 3)):
            calls("huge", lambda: F.max_pool2d(x, kernel, stride))
            calls("huge", lambda: F.max_pool2d(x, kernel, stride, return_indices=True)[0])
            calls("huge", lambda: F.avg_pool2d(x, kernel, stride))
        calls("huge", lambda: F.adaptive_avg_pool2d(x, (7, 5)))
        calls("huge", lambda: F.adaptive_max_pool2d(x, (7, 5)))
        many = empty(*((1 << 15, 64, 32, 32) if last else (1 << 19, 1, 64, 64)), dtype=dtype)
        many = channels_last(many).requires_grad_(grad)
        for mode in ("nearest", "bilinear", "bicubic"):
            calls("huge", lambda: F.interpolate(many, size=(16, 64), mode=mode))
        channels = x.shape[1]
        for outs, stride in ((1, 1), (24, 1), (24, 2)):
            w = empty(outs, channels, 3, 3, dtype=dtype, grad=grad)
            calls("huge", lambda: F.conv2d(x, w, stride=stride))
        for stride in (1, 2):
            x = channels_last(x.detach().view(1, 64, 1 << 22, 8)) if not last else x
            w = empty(64, 1, 3, 3, dtype=dtype, grad=grad)
            calls("huge", lambda: F.conv2d(x, w, stride=stride, groups=64))
    for dtype, mode, padding in itertools.product(
        FLOATS, ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    ):
        picture = empty(1, 4, 4, 4, dtype=dtype, grad=True)
        for x in (picture, channels_last(picture)):
            grid = empty(1, 1 << 15, 1 << 14, 2, dtype=dtype, grad=True)
            calls("huge", lambda: F.grid_sample(x, grid, mode, padding, False))
        grid = empty(1, 1 << 10, 1 << 10, 1 << 9, 3, dtype=dtype, grad=True)
        calls("huge", lambda: F.grid_sample(picture[:, :, None], grid, mode, padding, False))
    for dtype, layer in itertools.product(FLOATS, (pf.nn.RNN, pf.nn.LSTM, pf.nn.GRU)):
        net = layer(64, 64).to(dtype=dtype)
        x = empty(2, 1 << 23, 64, dtype=dtype, grad=True)
        calls("huge", lambda: net(x)[0])


# Calculated by the host, which reads zeros: of these only what they are made of has kernels.
ON_HOST = {"linear algebra", "Fourier transforms"}


def without_call(calls):
    """(name, why) of operations with kernels of which no call was taken."""
    families = {row["name"]: row["family"] for row in pf.ops.table()}
    for name, n in calls.taken.items():
        error = calls.refused.get(name)
        if not (n or families.get(name) in ON_HOST or isinstance(error, pf.linalg.LinAlgError)):
            yield name, error


def sparse(calls):
    """Few and many elements in a row, columns of every width that is moved at once."""

    def ints(*shape):
        return empty(*shape, dtype=pf.int64)

    for n, width in itertools.product((100, 100_000), (1, 2, 4, 6, 8, 64, 96, 1000)):
        for dtype, layout in itertools.product(FLOATS, ("plain", "odd")):
            values, x = empty(n, dtype=dtype), empty(300, width, dtype=dtype, layout=layout)
            calls("mm", lambda: pf._C._sparse_product(ints(301), ints(n), values, ints(n), x))
            calls("mm", lambda: pf._C._sparse_product(ints(301), ints(n), values, None, x))
            calls("mm", lambda: pf._C._sparse_product(ints(301), ints(n), None, ints(n), x))
            calls("mm", lambda: pf._C._sparse_product(ints(301), ints(n), None, None, x))
            calls("mm", lambda: pf._C._sparse_dots(ints(301), ints(n), x, x))
            t = pf._C._sparse_tensor(
                [300, width], ints(1, n), None, empty(n, width, dtype=dtype), True
            )
            calls("mm", lambda: pf._C._sparse_to_dense(t))
        calls("mm", lambda: pf._C._sparse_order(ints(n), 300)[0])
        calls("mm", lambda: pf._C._sparse_rows(ints(301), n))


def main(device):
    pf.set_device(device)
    calls = Calls()
    for family in (
        registry, fitting, softmax, norms, sums, losses, products, eight_bits, attention, linear_algebra, convolutions, pools,
        recurrent, images, indexing, sparse, moving, optimizers, huge,
    ):  # fmt: skip
        began = time.time()
        family(calls)
        print(f"{family.__name__}: {time.time() - began:.1f} s", file=sys.stderr)
    for name, error in without_call(calls):
        print(f"{name}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
