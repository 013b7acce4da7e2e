"""Kernels that are measured on a GPU, in PyTorch's API with module and device as parameters.

Each case returns a function that enqueues its work once (`repeat` times for small ones).
"""

import math

from benchmarks.gpu_case import HALF, PART, SMALL, case

# ---- memory-bound -------------------------------------------------------------------------------

ROWS, WIDE = 65536 // PART, 3072


@case(
    "pointwise",
    f"gelu((x + b) * 0.5) + x, {ROWS}x{WIDE} bf16",
    traffic=2 * 2 * ROWS * WIDE,
    copy=2 * ROWS * WIDE,
    bar_rate=3900e9,
)
def pointwise_chain(torch, device):
    x = torch.randn(ROWS, WIDE, device=device).to(torch.bfloat16)
    b = torch.randn(WIDE, device=device).to(torch.bfloat16)
    gelu = torch.nn.functional.gelu

    def run():
        with torch.no_grad():
            return gelu((x + b) * 0.5, approximate="tanh") + x

    return run


@case("rows", f"softmax {ROWS}x4096 bf16", traffic=4 * ROWS * 4096, copy=2 * ROWS * 4096,
      bar_rate=3900e9)  # fmt: skip
def softmax(torch, device):
    x = torch.randn(ROWS, 4096, device=device).to(torch.bfloat16)

    def run():
        with torch.no_grad():
            return torch.softmax(x, -1)

    return run


def norm_inputs(torch, device, grad):
    x = torch.randn(ROWS, 768, device=device).to(torch.bfloat16)
    w = torch.ones(768, device=device).to(torch.bfloat16)
    b = torch.zeros(768, device=device).to(torch.bfloat16)
    return [t.requires_grad_(grad) for t in (x, w, b)]


@case("rows", f"layer norm {ROWS}x768 bf16", traffic=4 * ROWS * 768, copy=2 * ROWS * 768,
      bar_rate=3500e9)  # fmt: skip
def layer_norm(torch, device):
    x, w, b = norm_inputs(torch, device, False)

    def run():
        return torch.nn.functional.layer_norm(x, (768,), w, b)

    return run


@case("rows", f"RMS norm {ROWS}x768 bf16", traffic=4 * ROWS * 768, copy=2 * ROWS * 768,
      bar_rate=3500e9)  # fmt: skip
def rms_norm(torch, device):
    x, w, _ = norm_inputs(torch, device, False)

    def run():
        return torch.nn.functional.rms_norm(x, (768,), w)

    return run


@case("rows", f"layer norm backward {ROWS}x768 bf16", traffic=6 * ROWS * 768, copy=2 * ROWS * 768,
      bar_rate=3200e9)  # fmt: skip
def layer_norm_backward(torch, device):
    x, w, b = norm_inputs(torch, device, True)
    y = torch.nn.functional.layer_norm(x, (768,), w, b)
    g = torch.randn(ROWS, 768, device=device).to(torch.bfloat16)

    def run():
        return torch.autograd.grad(y, (x, w, b), g, retain_graph=True)

    return run


IMAGES, PIXELS = (4, 28) if SMALL else (256, 112)
IMAGE = IMAGES * 64 * PIXELS * PIXELS  # elements


def batch_norm_inputs(torch, device, last, grad=False):
    x = torch.randn(IMAGES, 64, PIXELS, PIXELS, device=device).to(torch.bfloat16)
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    w, b = torch.ones(64, device=device), torch.zeros(64, device=device)
    mean, var = torch.zeros(64, device=device), torch.ones(64, device=device)
    return [t.requires_grad_(grad) for t in (x, w, b)], mean, var


def batch_norms(layout, last):
    """Forward (the input is read twice), the gradient (both are), and a block of a ResNet."""
    title = f"{IMAGES}x64x{PIXELS}² bf16{layout}"
    suffix = "_last" if last else ""

    def forward(torch, device):
        (x, w, b), mean, var = batch_norm_inputs(torch, device, last)
        return lambda: torch.nn.functional.batch_norm(x, mean, var, w, b, True)

    def backward(torch, device):
        (x, w, b), mean, var = batch_norm_inputs(torch, device, last, True)
        y = torch.nn.functional.batch_norm(x, mean, var, w, b, True)
        g = torch.randn_like(x.detach())
        return lambda: torch.autograd.grad(y, (x, w, b), g, retain_graph=True)

    def block(torch, device):
        (x, w, b), mean, var = batch_norm_inputs(torch, device, last, True)
        rest, g = torch.randn_like(x.detach()), torch.randn_like(x.detach())

        def run():
            y = torch.nn.functional.batch_norm(x, mean, var, w, b, True)
            y = torch.relu(y + rest)
            return torch.autograd.grad(y, (x, w, b), g)

        return run

    for make, name, what, passes in (
        (forward, "batch_norm", "batch norm ", 3),
        (backward, "batch_norm_backward", "batch norm backward ", 5),
        (block, "batch_norm_block", "relu(batch norm + x), fwd + bwd, ", 11),
    ):
        make.__name__ = name + suffix
        case("batchnorm", what + title, traffic=2 * passes * IMAGE, copy=2 * IMAGE,
             bar_rate=3300e9)(make)  # fmt: skip


batch_norms("", False)
batch_norms(", channels-last", True)


def resampling(name, title, how, out, layouts=(False, True), group="resampling", **facts):
    """Interpolation of 16-bit images, forward and its gradient; `out` is the size of the result."""
    result = IMAGES * 64 * out * out

    def operands(torch, device, last, grad):
        x = torch.randn(IMAGES, 64, PIXELS, PIXELS, device=device).to(torch.bfloat16)
        if last:
            x = x.contiguous(memory_format=torch.channels_last)
        return x.requires_grad_(grad)

    for last in layouts:

        def forward(torch, device, last=last):
            x = operands(torch, device, last, False)
            run = how(torch, device)
            return lambda: run(x)

        def backward(torch, device, last=last):
            x = operands(torch, device, last, True)
            y = how(torch, device)(x)
            g = torch.randn_like(y.detach())
            return lambda: torch.autograd.grad(y, (x,), g, retain_graph=True)

        for make, suffix, what in ((forward, "", ""), (backward, "_backward", " backward")):
            make.__name__ = name + ("_last" if last else "") + suffix
            text = f"{title}{what}, {IMAGES}x64x{PIXELS}² bf16{', channels-last' * last}"
            case(group, text, traffic=2 * (IMAGE + result), copy=2 * result, **facts)(make)


def interpolation(**how):
    return lambda torch, device: lambda x: torch.nn.functional.interpolate(x, **how)


def sampling(torch, device):
    grid = (torch.rand(IMAGES, PIXELS, PIXELS, 2, device=device) * 2 - 1).to(torch.bfloat16)
    return lambda x: torch.nn.functional.grid_sample(x, grid, align_corners=False)


resampling("upsample_bilinear", "bilinear x2", interpolation(scale_factor=2, mode="bilinear"),
           2 * PIXELS)  # fmt: skip
resampling("upsample_nearest", "nearest x2", interpolation(scale_factor=2), 2 * PIXELS)
resampling("downscale", "antialiased to a half",
           interpolation(scale_factor=0.5, mode="bilinear", antialias=True), PIXELS // 2,
           (False,))  # fmt: skip
resampling("grid_sample", "grid_sample", sampling, PIXELS)
resampling("max_pool", "max_pool 3/2",
           lambda torch, device: lambda x: torch.nn.functional.max_pool2d(x, 3, 2, 1), PIXELS // 2,
           group="pooling", bar_rate=3300e9)  # fmt: skip
resampling("avg_pool", "avg_pool 2/2",
           lambda torch, device: lambda x: torch.nn.functional.avg_pool2d(x, 2), PIXELS // 2,
           group="pooling")  # fmt: skip

TOKENS = 16384 // PART


@case("rows", f"cross-entropy {TOKENS}x50304 bf16, forward and backward", bar_seconds=1.15e-3)
def cross_entropy(torch, device):
    x = torch.randn(TOKENS, 50304, device=device).to(torch.bfloat16).requires_grad_()
    t = torch.randint(0, 50304, (TOKENS,), device=device)

    def run():
        loss = torch.nn.functional.cross_entropy(x, t)
        return torch.autograd.grad(loss, x)

    return run


WIDTH = 768 // HALF
BLOCK = [(WIDTH,), (WIDTH,), (3 * WIDTH, WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,)]
BLOCK += [(WIDTH,), (WIDTH,), (4 * WIDTH, WIDTH), (4 * WIDTH,), (WIDTH, 4 * WIDTH), (WIDTH,)]
SHAPES = [(50257, WIDTH), (1024, WIDTH), *BLOCK * 12, (WIDTH,), (WIDTH,)]
PARAMETERS = sum(math.prod(shape) for shape in SHAPES)


@case("optim", f"AdamW, {PARAMETERS / 1e6:.0f} M float32 in 148 tensors",
      traffic=7 * 4 * PARAMETERS, copy=(1 << 30) // PART,
      bar_seconds=0.90e-3)  # fmt: skip
def adamw(torch, device):
    params = [torch.nn.Parameter(torch.randn(*s, device=device) * 0.02) for s in SHAPES]
    for p in params:
        p.grad = torch.randn(*p.shape, device=device) * 1e-3
    fused = {"fused": True} if torch.__name__ == "torch" else {}
    optimizer = torch.optim.AdamW(params, lr=1e-4, weight_decay=0.1, **fused)
    return optimizer.step


STEPS, BATCH, HIDDEN = (8, 4, 32) if SMALL else (128, 64, 1024)


def recurrent(name, lower, packed=False, state=HIDDEN):
    """An LSTM of two layers, forward and backward; `lower`: under autocast. Packed: of lengths that
    fall evenly from STEPS. A `state` of less is a projection."""

    def make(torch, device):
        how = {"proj_size": state} if state < HIDDEN else {}
        layer = torch.nn.LSTM(HIDDEN, HIDDEN, 2, **how).to(device)
        x = torch.randn(STEPS, BATCH, HIDDEN, device=device)
        g = torch.randn(STEPS, BATCH, state, device=device)
        if packed:
            pack = torch.nn.utils.rnn.pack_padded_sequence
            lengths = [STEPS - STEPS * i // BATCH for i in range(BATCH)]
            x, g = pack(x, lengths), pack(g, lengths).data
        kind = "cuda" if device != "cpu" else "cpu"

        def run():
            layer.zero_grad()
            with torch.autocast(kind, dtype=torch.bfloat16, enabled=lower):
                y = layer(x)[0]
            y = y.data if packed else y
            y.backward(g.to(y.dtype))

        return run

    make.__name__ = name
    what = ("packed, " if packed else "") + (f"projected to {state}, " if state < HIDDEN else "")
    title = f"LSTM 2 x {HIDDEN}, {STEPS} steps x {BATCH}, {what}" + (
        "bf16 autocast" if lower else "float32"
    )
    case("recurrent", title)(make)


recurrent("lstm_bf16", True)
recurrent("lstm_float32", False)
recurrent("lstm_packed_bf16", True, packed=True)
recurrent("lstm_projected_bf16", True, state=HIDDEN // 2)

SQUARE = 32768 // HALF
GIGA = SQUARE * SQUARE


def reduction(name, title, work):
    for dim, text in ((0, "columns"), (1, "rows")):

        def make(torch, device, dim=dim):
            x = torch.randn(SQUARE, SQUARE, device=device)
            return lambda: work(torch, x, dim)

        make.__name__ = f"{name}_{text}"
        case("reduce", f"{title} over {text} of {SQUARE}x{SQUARE} floats", traffic=4 * GIGA, copy=GIGA,
             bar_fraction=0.9)(make)  # fmt: skip


reduction("sum", "sum", lambda torch, x, dim: x.sum(dim))
reduction("max", "max", lambda torch, x, dim: torch.amax(x, dim))
reduction("argmax", "argmax", lambda torch, x, dim: x.argmax(dim))


@case("reduce", f"sum of {GIGA >> 20} Mi floats", traffic=4 * GIGA, copy=GIGA, bar_fraction=0.9)
def sum_all(torch, device):
    x = torch.randn(GIGA, device=device)
    return lambda: x.sum()


SIDE = 16384 // HALF
AREA = SIDE * SIDE


@case("move", f"transpose {SIDE}x{SIDE} float32", traffic=8 * AREA, copy=4 * AREA, bar_fraction=0.8)
def transpose(torch, device):
    x = torch.randn(SIDE, SIDE, device=device)
    return lambda: x.t().contiguous()


@case("move", f"embedding, {AREA >> 10} rows of 1024 bf16", traffic=4 * AREA, copy=2 * AREA,
      bar_fraction=0.8)  # fmt: skip
def embedding(torch, device):
    w = torch.randn(50304, 1024, device=device).to(torch.bfloat16)
    index = torch.randint(0, 50304, (AREA >> 10,), device=device)

    def run():
        with torch.no_grad():
            return torch.nn.functional.embedding(index, w)

    return run


# Of a byte-level language model: a batch of 64 texts of 256 bytes.
TOKENS, EMBEDDED = 16384 // PART, 384
OF_EMBEDDING = {"traffic": 4 * EMBEDDED * (TOKENS + 256), "copy": 2 * EMBEDDED * (TOKENS + 256)}


def gradient_by(torch, index):
    w = torch.randn(256, EMBEDDED, device=index.device).requires_grad_()
    y = torch.nn.functional.embedding(index, w)
    g = torch.randn(TOKENS, EMBEDDED, device=index.device)
    return lambda: torch.autograd.grad(y, w, g, retain_graph=True)[0]


@case("move", f"gradient of 256 embeddings of {EMBEDDED}, {TOKENS} indices", **OF_EMBEDDING)
def embedding_gradient(torch, device):
    return gradient_by(torch, torch.randint(0, 256, (TOKENS,), device=device))


@case("move", f"gradient of 256 embeddings of {EMBEDDED}, {TOKENS} equal indices", **OF_EMBEDDING)
def embedding_gradient_alike(torch, device):
    return gradient_by(torch, torch.full((TOKENS,), 7, dtype=torch.int64, device=device))


@case("move", f"gather along rows, {SIDE}x{SIDE} float32", traffic=16 * AREA, copy=4 * AREA,
      bar_fraction=0.8)  # fmt: skip
def gather(torch, device):
    x = torch.randn(SIDE, SIDE, device=device)
    index = torch.arange(SIDE, device=device).flip(0).expand(SIDE, SIDE).contiguous()
    return lambda: torch.gather(x, 1, index)


@case("move", f"concatenation of four {SIDE // 4}x{SIDE} float32", traffic=8 * AREA, copy=4 * AREA,
      bar_fraction=0.8)  # fmt: skip
def concatenation(torch, device):
    parts = [torch.randn(SIDE // 4, SIDE, device=device) for _ in range(4)]
    return lambda: torch.cat(parts)


# ---- operations that meet: what is kernels of its own elsewhere can be one here -------------------
# `traffic` counts what must be read and written when nothing between is kept.


def bf16(torch, device, *shape):
    return torch.randn(*shape, device=device).to(torch.bfloat16)


@case("fusion", f"s = x + y, layer norm of s, both kept, {ROWS}x768 bf16",
      traffic=8 * ROWS * 768, copy=2 * ROWS * 768, bar_rate=3600e9)  # fmt: skip
def add_layer_norm(torch, device):
    x, y = (bf16(torch, device, ROWS, 768) for _ in range(2))
    w, b = (bf16(torch, device, 768) for _ in range(2))

    def run():
        s = x + y
        return s, torch.nn.functional.layer_norm(s, (768,), w, b)

    return run


ROWS_OF_SCORES = 16384 // PART


@case("fusion", f"softmax(x * s + m), {ROWS_OF_SCORES}x4096 bf16", traffic=4 * ROWS_OF_SCORES * 4096 + 2 * 4096,
      copy=2 * ROWS_OF_SCORES * 4096, bar_rate=3600e9)  # fmt: skip
def masked_softmax(torch, device):
    x, m = bf16(torch, device, ROWS_OF_SCORES, 4096), bf16(torch, device, 4096)
    return lambda: torch.softmax(x * 0.125 + m, -1)


@case("fusion", f"softmax(x.float() * s) to bf16, {ROWS_OF_SCORES}x4096 bf16", traffic=4 * ROWS_OF_SCORES * 4096,
      copy=2 * ROWS_OF_SCORES * 4096, bar_rate=3600e9)  # fmt: skip
def widened_softmax(torch, device):
    x = bf16(torch, device, ROWS_OF_SCORES, 4096)
    return lambda: torch.softmax(x.float() * 0.125, -1).to(torch.bfloat16)


BATCH_ROWS = 32768 // PART


@case("fusion", f"gelu(x + bias) both ways with the bias's gradient, {BATCH_ROWS}x3072 bf16",
      traffic=10 * BATCH_ROWS * 3072, copy=2 * BATCH_ROWS * 3072, bar_rate=3600e9)  # fmt: skip
def gelu_bias(torch, device):
    x, g = (bf16(torch, device, BATCH_ROWS, 3072) for _ in range(2))
    b = bf16(torch, device, 3072)
    x.requires_grad_(), b.requires_grad_()

    def run():
        y = torch.nn.functional.gelu(x + b, approximate="tanh")
        return y, torch.autograd.grad(y, (x, b), g)

    return run


@case("fusion", f"float32 residual + bf16, layer norm to bf16, both ways, {BATCH_ROWS}x768",
      traffic=28 * BATCH_ROWS * 768, copy=4 * BATCH_ROWS * 768, bar_rate=3300e9)  # fmt: skip
def residual_norm(torch, device):
    r = torch.randn(BATCH_ROWS, 768, device=device, requires_grad=True)
    x = bf16(torch, device, BATCH_ROWS, 768).requires_grad_()
    w, b = (torch.randn(768, device=device, requires_grad=True) for _ in range(2))
    g, h = bf16(torch, device, BATCH_ROWS, 768), torch.randn(BATCH_ROWS, 768, device=device)

    def run():
        s = r + x
        y = torch.nn.functional.layer_norm(s, (768,), w, b).to(torch.bfloat16)
        return s, y, torch.autograd.grad((y, s), (r, x, w, b), (g, h))

    return run


@case("fusion", f"mean and variance of the same rows, {ROWS_OF_SCORES}x4096 bf16", traffic=2 * ROWS_OF_SCORES * 4096,
      copy=2 * ROWS_OF_SCORES * 4096, bar_rate=3600e9)  # fmt: skip
def mean_and_variance(torch, device):
    x = bf16(torch, device, ROWS_OF_SCORES, 4096)
    return lambda: (x.mean(-1), x.var(-1))


@case("fusion", f"sum and maximum of the same rows, {ROWS_OF_SCORES}x4096 bf16", traffic=2 * ROWS_OF_SCORES * 4096,
      copy=2 * ROWS_OF_SCORES * 4096)  # fmt: skip
def sum_and_maximum(torch, device):
    x = bf16(torch, device, ROWS_OF_SCORES, 4096)
    return lambda: (x.sum(-1), x.amax(-1))


@case("fusion", f"sums of rows and of their squares, {ROWS_OF_SCORES}x4096 bf16", traffic=2 * ROWS_OF_SCORES * 4096,
      copy=2 * ROWS_OF_SCORES * 4096)  # fmt: skip
def sum_and_squares(torch, device):
    x = bf16(torch, device, ROWS_OF_SCORES, 4096)
    return lambda: (x.sum(-1), (x * x).sum(-1))


def column_sum(columns, bar):
    def make(torch, device):
        x = bf16(torch, device, BATCH_ROWS, columns)
        return lambda: x.sum(0)

    make.__name__ = f"column_sum_{columns}"
    case("fusion", f"sum over columns, {BATCH_ROWS}x{columns} bf16", traffic=2 * BATCH_ROWS * columns,
         copy=2 * BATCH_ROWS * columns, bar_seconds=bar)(make)  # fmt: skip


for _columns, _bar in ((768, 22e-6), (2304, 45e-6), (3072, 58e-6)):
    column_sum(_columns, _bar)


@case("fusion", f"cross-entropy under autocast, {BATCH_ROWS}x50304 bf16, both ways",
      traffic=4 * BATCH_ROWS * 50304, copy=2 * BATCH_ROWS * 50304, bar_seconds=2.2e-3)  # fmt: skip
def autocast_cross_entropy(torch, device):
    x = bf16(torch, device, BATCH_ROWS, 50304).requires_grad_()
    t = torch.randint(0, 50304, (BATCH_ROWS,), device=device)

    def run():
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(x, t)
        return torch.autograd.grad(loss, x)

    return run


@case("fusion", f"cross_entropy(x.float()), {BATCH_ROWS}x50304 bf16, both ways",
      traffic=4 * BATCH_ROWS * 50304, copy=2 * BATCH_ROWS * 50304, bar_seconds=2.2e-3)  # fmt: skip
def widened_cross_entropy(torch, device):
    x = bf16(torch, device, BATCH_ROWS, 50304).requires_grad_()
    t = torch.randint(0, 50304, (BATCH_ROWS,), device=device)

    def run():
        return torch.autograd.grad(torch.nn.functional.cross_entropy(x.float(), t), x)

    return run


# ---- products -----------------------------------------------------------------------------------


def product(dtype_name, full):
    n = full // HALF

    def make(torch, device):
        dtype = getattr(torch, dtype_name)
        a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))

        def run():
            with torch.no_grad():
                return a @ b

        return run

    make.__name__ = f"matmul_{dtype_name}_{full}"
    case("matmul", f"product {n}x{n}x{n} {dtype_name}", flops=2 * n**3)(make)


for _dtype, _sizes in (
    ("bfloat16", (1024, 4096, 8192)),
    ("float16", (4096,)),
    ("float32", (4096,)),
):
    for _n in _sizes:
        product(_dtype, _n)


def product_high(full):
    n = full // HALF

    def make(torch, device):
        torch.set_float32_matmul_precision("high")  # of this process
        a, b = (torch.randn(n, n, device=device) for _ in range(2))
        return lambda: a @ b

    make.__name__ = f"matmul_float32_high_{full}"
    title = f"product {n}x{n}x{n} float32, precision high"
    case("matmul", title, flops=2 * n**3)(make)


def product_int8(full):
    n = full // HALF

    def make(torch, device):
        a, b = (torch.randint(-128, 128, (n, n), device=device).to(torch.int8) for _ in range(2))
        return lambda: torch._int_mm(a, b.t())

    make.__name__ = f"matmul_int8_{full}"
    case("matmul", f"product {n}x{n}x{n} int8 to int32", flops=2 * n**3)(make)


def product_float8(full, by_row, fast=True):
    """1979 TFLOP/s is what Hopper's units multiply of eight bits, dense. By PYFLAME_GPU_GEMM=own our
    kernel is beside cuBLASLt's."""
    n = full // HALF

    def make(torch, device):
        a, b = (torch.randn(n, n, device=device).to(torch.float8_e4m3fn) for _ in range(2))
        shapes = ((n, 1), (1, n)) if by_row else ((), ())
        scales = [torch.ones(s, device=device) for s in shapes]
        return lambda: torch._scaled_mm(
            a, b.t(), *scales, out_dtype=torch.bfloat16, use_fast_accum=fast
        )

    make.__name__ = f"matmul_float8_{full}{'_rows' * by_row}{'' if fast else '_exact'}"
    title = (
        f"product {n}x{n}x{n} float8_e4m3fn to bf16, scales of {'rows' if by_row else 'tensors'}"
    )
    case("matmul", title + ("" if fast else ", exact sums"), flops=2 * n**3)(make)


product_high(4096)
product_int8(4096)
for _n in (4096, 8192):
    product_float8(_n, False)
    product_float8(_n, False, fast=False)
product_float8(8192, True)


@case("matmul", f"linear {TOKENS}x768 -> 3072 bf16 with bias", flops=2 * TOKENS * 768 * 3072)
def linear(torch, device):
    x = torch.randn(TOKENS, 768, device=device).to(torch.bfloat16)
    w = torch.randn(3072, 768, device=device).to(torch.bfloat16)
    b = torch.randn(3072, device=device).to(torch.bfloat16)
    return lambda: torch.nn.functional.linear(x, w, b)


# ---- attention ----------------------------------------------------------------------------------


def attention(batch, heads, length, depth, backend, bars):
    """Causal, bf16, half of the scores count. "flash" is PyFlame's own kernels beside PyTorch's, "cudnn"
    cuDNN's by both, whose gradients do not repeat bit for bit."""
    length //= HALF

    def make(torch, device, backward):
        def inputs():
            x = torch.randn(batch, heads, length, depth, device=device).to(torch.bfloat16)
            return x.requires_grad_(backward)

        def run(q, k, v):
            attend = torch.nn.functional.scaled_dot_product_attention
            if device == "cpu":
                return attend(q, k, v, is_causal=True)
            kind = getattr(torch.nn.attention.SDPBackend, f"{backend.upper()}_ATTENTION")
            with torch.nn.attention.sdpa_kernel(kind):
                return attend(q, k, v, is_causal=True)

        q, k, v = (inputs() for _ in range(3))
        if not backward:
            return lambda: run(q, k, v)
        torch.use_deterministic_algorithms(backend != "cudnn" and torch.__name__ != "torch")
        out, dout = run(q, k, v), inputs().detach()
        return lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)

    products = 2 * batch * heads * length**2 * depth  # both, causal
    for backward in (False, True):

        def of(torch, device, backward=backward):
            return make(torch, device, backward)

        of.__name__ = f"attention_{depth}_{backend}" + ("_backward" if backward else "")
        title = f"attention {batch}x{heads}x{length}x{depth} causal bf16"
        title += (", gradients" if backward else "") + f" ({backend})"
        flops = products * (2.5 if backward else 1)
        case("attention", title, flops=flops, bar_rate=bars[backward] * 1e12)(of)


attention(2, 16, 8192, 128, "flash", (430, 330))
attention(32, 12, 1024, 64, "flash", (250, 180))
attention(2, 16, 8192, 128, "cudnn", (540, 479))
attention(32, 12, 1024, 64, "cudnn", (311, 229))


# ---- convolutions -------------------------------------------------------------------------------


def convolution(name, ins, outs, size, kernel=3, *, stride=1, groups=1, last=True, bar=None):
    """bf16 cases: `name` forward, `name`_input and `name`_weight its gradients."""
    batch, side = (2, max(size // 8, kernel)) if SMALL else (256, size)
    pixels = batch * (-(-side // stride)) ** 2
    flops = 2 * pixels * outs * (ins // groups) * kernel**2
    title = f"{kernel}x{kernel}{'/2' if stride == 2 else ''}, {ins} to {outs} at {batch} x {side}²"
    title += (", by channel" if groups > 1 else "") + (", channels-last" if last else "")

    def operands(torch, device, *grads):
        layout = torch.channels_last if last else torch.contiguous_format
        x = bf16(torch, device, batch, ins, side, side).contiguous(memory_format=layout)
        w = bf16(torch, device, outs, ins // groups, kernel, kernel).contiguous(
            memory_format=layout
        )
        for t, grad in zip((x, w), grads):
            t.requires_grad_(grad)
        how = (None, stride, kernel // 2, 1, groups)
        return x, w, lambda: torch.nn.functional.conv2d(x, w, *how)

    def forward(torch, device):
        return operands(torch, device)[2]

    def backward(of_input):
        def make(torch, device):
            x, w, run = operands(torch, device, of_input, not of_input)
            y = run()
            g = torch.randn_like(y.detach())
            return lambda: torch.autograd.grad(y, x if of_input else w, g, retain_graph=True)

        return make

    def add(make, suffix, what, **facts):
        make.__name__ = name + suffix
        case("conv", title + what, flops=flops, **facts)(make)

    add(forward, "", "", **({"bar_seconds": bar} if bar else {}))
    if ins > 3:
        add(backward(True), "_input", ", gradient of x")
    add(backward(False), "_weight", ", gradient of w")


convolution("conv_64", 64, 64, 56)
convolution("conv_128", 128, 128, 28)
convolution("conv_512", 512, 512, 7)
convolution("conv_1x1", 64, 256, 56, 1)
convolution("conv_down", 128, 128, 56, stride=2)
convolution("conv_stem", 3, 64, 224, 7, stride=2)
convolution("conv_stem_rows", 3, 64, 224, 7, stride=2, last=False)
convolution("conv_64_rows", 64, 64, 56, last=False, bar=0.22e-3)
convolution("conv_depthwise", 128, 128, 56, groups=128)
convolution("conv_depthwise_rows", 128, 128, 56, groups=128, last=False)

# ---- decompositions and transforms --------------------------------------------------------------

ORDER, POINTS = (32, 1 << 10) if SMALL else (512, 1 << 20)


def decomposition(name, title, work, positive=False):
    def make(torch, device):
        a = torch.randn(ORDER, ORDER, device=device)
        if positive:
            a = a @ a.T + ORDER * torch.eye(ORDER, device=device)
        b = torch.randn(ORDER, ORDER, device=device)
        return lambda: work(torch.linalg, a, b)

    make.__name__ = name
    case("linalg", f"{title} of {ORDER}")(make)


decomposition("cholesky", "cholesky", lambda L, a, b: L.cholesky(a), True)
decomposition("solve", "solve, as many right sides,", lambda L, a, b: L.solve(a, b))
decomposition("qr", "qr", lambda L, a, b: L.qr(a))
decomposition("svd", "svd", lambda L, a, b: L.svd(a))
decomposition("eigh", "eigh", lambda L, a, b: L.eigh(a), True)


def transform(name, title, work, *shape):
    def make(torch, device):
        x = torch.randn(*shape, device=device)
        z = torch.complex(x, torch.randn(*shape, device=device))
        return lambda: work(torch.fft, x, z)

    make.__name__ = name
    case("linalg", f"{title} of {'x'.join(map(str, shape))}")(make)


SQUARE_OF_POINTS = math.isqrt(POINTS)
transform("fft", "fft", lambda f, x, z: f.fft(z), POINTS)
transform("ifft", "ifft", lambda f, x, z: f.ifft(z), POINTS)
transform("rfft", "rfft", lambda f, x, z: f.rfft(x), POINTS)
transform("fft2", "fft2", lambda f, x, z: f.fft2(z), SQUARE_OF_POINTS, SQUARE_OF_POINTS)
