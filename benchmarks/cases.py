"""What is measured. Each case is written once, in PyTorch's API, with the module as a parameter.

A case returns a function that does the work once (or `repeat` times, for the small ones). Cases
with `compiles` take torch.compile as a second argument, None when nothing is to be compiled.
"""

import math

CASES = {}


class Case:
    def __init__(self, make, group, title, **facts):
        self.make = make
        self.name = make.__name__
        self.group = group
        self.title = title
        self.repeat = facts.get("repeat", 1)  # how many times one call does the work
        self.traffic = facts.get("traffic")  # bytes that must be read and written
        self.copy = facts.get("copy")  # size of the copy that is the roof
        self.flops = facts.get("flops")  # floating-point operations of the products
        self.bar_seconds = facts.get("bar_seconds")
        self.bar_fraction = facts.get("bar_fraction")
        self.compiles = facts.get("compiles", False)  # has a form for torch.compile
        self.alone = facts.get("alone")  # what roof.cpp is asked for beside it
        self.bar_alone = facts.get("bar_alone")  # fraction of that's speed
        self.bar_rate = facts.get("bar_rate")  # bytes per second
        self.memory = facts.get("memory", False)  # its peak on the device is looked at
        self.bar_memory = facts.get("bar_memory")  # bytes
        self.fills_device = facts.get("fills_device", False)  # two sides at once have no room


def case(group, title, **facts):
    def register(make):
        CASES[make.__name__] = Case(make, group, title, **facts)
        return make

    return register


MIB = 1 << 20

# ---- the cost of a call -------------------------------------------------------------------------


@case("overhead", "x = x + b, 64 floats, chain", repeat=1000, bar_seconds=0.2e-6, compiles=True)
def add_chain(torch, compiled=None):
    x0, b = torch.randn(64), torch.randn(64) * 1e-3

    def run():
        x = x0
        for _ in range(1000):
            x = x + b
        return x

    def run_compiled():  # one addition a call, as in the eager loop
        x = x0
        for _ in range(1000):
            x = add(x, b)
        return x

    if not compiled:
        return run
    add = compiled(lambda x, b: x + b)
    return run_compiled


@case("overhead", "the same with gradient", repeat=1000, bar_seconds=0.35e-6)
def add_chain_grad(torch):
    x0 = torch.randn(64, requires_grad=True)
    b = torch.randn(64) * 1e-3

    def run():
        for _ in range(10):
            x = x0
            for _ in range(100):
                x = x + b
        return x

    return run


@case("overhead", "chain of 8x8 products", repeat=1000, bar_seconds=0.6e-6)
def small_products(torch):
    q = torch.randn(8, 8)
    w = q / (q * q).sum().sqrt() * 2.5
    x0 = torch.randn(8, 8)

    def run():
        for _ in range(50):
            x = x0
            for _ in range(20):
                x = x @ w
        return x

    return run


@case("overhead", "(a + b).sum().item()", repeat=200, bar_seconds=1.0e-6)
def sum_item(torch):
    a, b = torch.randn(64), torch.randn(64)

    def run():
        for _ in range(200):
            v = (a + b).sum().item()
        return v

    return run


# ---- small models -------------------------------------------------------------------------------


@case("mlp", "Linear(256, 256) + GELU, batch 32, fwd + bwd", bar_seconds=70e-6, repeat=50)
def linear_gelu(torch):
    layer, gelu = torch.nn.Linear(256, 256), torch.nn.GELU()
    x, g = torch.randn(32, 256), torch.randn(32, 256)

    def run():
        for _ in range(50):
            gelu(layer(x)).backward(g)
            layer.weight.grad = None
            layer.bias.grad = None

    return run


@case("mlp", "Linear(1024, 1024), batch 256, forward", flops=2 * 256 * 1024 * 1024)
def linear_forward(torch):
    layer, x = torch.nn.Linear(1024, 1024), torch.randn(256, 1024)

    def run():
        with torch.no_grad():
            return layer(x)

    return run


@case("mlp", "the same and GELU", flops=2 * 256 * 1024 * 1024)
def linear_gelu_forward(torch):
    layer, gelu, x = torch.nn.Linear(1024, 1024), torch.nn.GELU(), torch.randn(256, 1024)

    def run():
        with torch.no_grad():
            return gelu(layer(x))

    return run


@case("mlp", "MLP 784-256-128-10, batch 32, step with Adam", bar_seconds=200e-6, repeat=20)
def mlp_step(torch):
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()
    x, y = torch.randn(32, 784), torch.randint(0, 10, (32,))

    def run():
        for _ in range(20):
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()

    return run


# ---- memory-bound -------------------------------------------------------------------------------

N = 1 << 24  # floats: 64 MiB


@case(
    "pointwise",
    "gelu((x + b) * 0.5) + x, 16 M floats",
    traffic=2 * 4 * N,
    copy=4 * N,
    bar_fraction=0.55,
    compiles=True,
)
def pointwise_chain(torch, compiled=None):
    x, b = torch.randn(16384, 1024), torch.randn(1024)
    gelu = torch.nn.functional.gelu
    if compiled:
        chain = compiled(lambda x, b: gelu((x + b) * 0.5) + x)
        return lambda: chain(x, b)
    return lambda: gelu((x + b) * 0.5) + x


@case("rows", "softmax 16384 x 1024", traffic=2 * 4 * N, copy=4 * N, bar_fraction=0.75)
def softmax(torch):
    x = torch.randn(16384, 1024)
    return lambda: torch.softmax(x, -1)


@case("rows", "layer norm 16384 x 1024", traffic=2 * 4 * N, copy=4 * N, bar_fraction=0.75)
def layer_norm(torch):
    x, w, b = torch.randn(16384, 1024), torch.randn(1024), torch.randn(1024)
    return lambda: torch.nn.functional.layer_norm(x, (1024,), w, b)


@case("rows", "mean and variance of the same rows, 16384 x 1024", traffic=4 * N, copy=4 * N)
def mean_and_variance(torch):
    x = torch.randn(16384, 1024)
    return lambda: (x.mean(-1), x.var(-1))


@case("rows", "sum and maximum of the same rows, 16384 x 1024", traffic=4 * N, copy=4 * N)
def sum_and_maximum(torch):
    x = torch.randn(16384, 1024)
    return lambda: (x.sum(-1), x.amax(-1))


@case("rows", "sums of rows and of their squares, 16384 x 1024", traffic=4 * N, copy=4 * N)
def sum_and_squares(torch):
    x = torch.randn(16384, 1024)
    return lambda: (x.sum(-1), (x * x).sum(-1))


@case("rows", "softmax(x * s + m)", traffic=2 * 4 * N, copy=4 * N, bar_fraction=0.75)
def softmax_of_scores(torch):
    x, m = torch.randn(16384, 1024), torch.randn(1024)
    return lambda: torch.softmax(x * 0.3 + m, -1)


@case("rows", "layer norm of x + y", traffic=3 * 4 * N, copy=4 * N, bar_fraction=0.75)
def layer_norm_of_sum(torch):
    x, y = torch.randn(16384, 1024), torch.randn(16384, 1024)
    w, b = torch.randn(1024), torch.randn(1024)
    return lambda: torch.nn.functional.layer_norm(x + y, (1024,), w, b)


@case("rows", "layer norm of x + y, both kept", traffic=4 * 4 * N, copy=4 * N)
def layer_norm_of_kept_sum(torch):
    x, y = torch.randn(16384, 1024), torch.randn(16384, 1024)
    w, b = torch.randn(1024), torch.randn(1024)

    def run():
        s = x + y
        return s, torch.nn.functional.layer_norm(s, (1024,), w, b)

    return run


@case("rows", "sum of x * y over rows", traffic=2 * 4 * N, copy=4 * N)
def sum_of_products(torch):
    x, y = torch.randn(16384, 1024), torch.randn(16384, 1024)
    return lambda: (x * y).sum(-1)


@case("rows", "layer norm fwd + bwd", traffic=5 * 4 * N, copy=4 * N, bar_fraction=0.60)
def layer_norm_backward(torch):
    x = torch.randn(16384, 1024, requires_grad=True)
    g = torch.randn(16384, 1024)
    w = torch.randn(1024, requires_grad=True)
    b = torch.randn(1024, requires_grad=True)

    def run():
        torch.nn.functional.layer_norm(x, (1024,), w, b).backward(g)
        x.grad = w.grad = b.grad = None

    return run


@case(
    "rows",
    "cross-entropy 2048 x 50304, fwd + bwd",
    traffic=3 * 4 * 2048 * 50304,
    copy=128 * MIB,
    bar_seconds=45e-3,
)
def cross_entropy(torch):
    x = torch.randn(2048, 50304, requires_grad=True)
    y = torch.randint(0, 50304, (2048,))

    def run():
        torch.nn.functional.cross_entropy(x, y).backward()
        x.grad = None

    return run


@case(
    "rows",
    "cross_entropy(x.float()) of bf16 2048 x 50304, fwd + bwd",
    traffic=2 * 2 * 2048 * 50304,
    copy=128 * MIB,
)
def widened_cross_entropy(torch):
    x = torch.randn(2048, 50304).to(torch.bfloat16).requires_grad_()
    y = torch.randint(0, 50304, (2048,))

    def run():
        torch.nn.functional.cross_entropy(x.float(), y).backward()
        x.grad = None

    return run


@case("memory", "transpose copy 16384 x 1024", traffic=2 * 4 * N, copy=4 * N, bar_fraction=0.50)
def transpose_copy(torch):
    x = torch.randn(16384, 1024)
    return lambda: x.t().contiguous()


def reduction(name, title, work, shape=(16384, 1024), dtype="float32", bar=0.75):
    def make(torch):
        x = (torch.randn(*shape) * 100).to(getattr(torch, dtype))
        return lambda: work(x)

    make.__name__ = name
    size = math.prod(shape) * {"bfloat16": 2, "float32": 4, "int64": 8}[dtype]
    case("reductions", f"{title}, {dtype}", traffic=size, copy=size, bar_fraction=bar)(make)


REDUCTIONS = {
    "sum": lambda x, *d: x.sum(*d),
    "mean": lambda x, *d: x.mean(*d),
    "var": lambda x, *d: x.var(*d),
    "amax": lambda x, *d: x.amax(*d),
    "argmax": lambda x, *d: x.argmax(*d),
    "sum_amax": lambda x, *d: (x.sum(*d), x.amax(*d)),
    "amin_amax": lambda x, *d: (x.amin(*d), x.amax(*d)),
}
for what, of in REDUCTIONS.items():
    for place, dims in (("last", (1,)), ("first", (0,)), ("all", ())):
        for kind in ("float32", "bfloat16", "int64"):
            if kind != "int64" or what in ("sum", "amax", "argmax"):
                end = {"float32": "", "bfloat16": "_bf16", "int64": "_int64"}[kind]
                title = f"{what.replace('_', ' and ')} over {place}"
                reduction(
                    f"{what}_{place}{end}",
                    title,
                    lambda x, of=of, dims=dims: of(x, *dims),
                    dtype=kind,
                    bar=0.8 if what == "sum" else 0.75,
                )
    reduction(f"{what}_short", f"{what} of rows of 49", lambda x, of=of: of(x, -1), (64, 2048, 49))


@case(
    "optimizers",
    "AdamW over 10 M parameters",
    traffic=7 * 4 * 10_000_000,
    copy=40_000_000,
    bar_fraction=0.80,
)
def adamw(torch):
    shapes = [(1000, 1000)] * 9 + [(1000,)] * 1000
    params = [torch.nn.Parameter(torch.randn(*s)) for s in shapes]
    fused = {"fused": True} if torch.__name__ == "torch" else {}
    optimizer = torch.optim.AdamW(params, lr=1e-6, **fused)
    for p in params:
        p.grad = torch.randn(*p.shape)
    return optimizer.step


def _small_step(name, title, **options):
    """A step over 150 tensors of 300 to 3000 elements, PyTorch's with foreach."""

    def make(torch):
        foreach = {} if name in ("Muon", "LBFGS") else {"foreach": True}
        params = [torch.nn.Parameter(torch.randn(300 * (1 + i % 10))) for i in range(150)]
        for p in params:
            p.grad = torch.randn(p.shape)
        return getattr(torch.optim, name)(params, **foreach, **options).step

    make.__name__ = f"step_of_{title.lower()}"
    case("optimizers", f"{title}, 150 small tensors", bar_seconds=None)(make)


for _name in (
    "SGD", "Adam", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop",
    "Adafactor",
):  # fmt: skip
    _small_step(_name, _name)


# ---- products -----------------------------------------------------------------------------------


@case("matmul", "float32 product of 1024", flops=2 * 1024**3)
def matmul_1024(torch):
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    return lambda: a @ b


@case("matmul", "float32 2048 x 128 times 128 x 512", flops=2 * 2048 * 128 * 512)
def matmul_gpt(torch):
    a, b = torch.randn(2048, 128), torch.randn(128, 512)
    return lambda: a @ b


# ---- convolutions --------------------------------------------------------------------------------


def convolution(name, title, batch, ins, outs, size, kernel, stride=1, groups=1):
    """The case `name` forward, in both layouts, and `name`_both: forward and both gradients."""
    pixels = batch * (-(-size // stride)) ** 2
    flops = 2 * pixels * outs * (ins // groups) * kernel**2

    def operands(torch, last):
        x, w = torch.randn(batch, ins, size, size), torch.randn(outs, ins // groups, kernel, kernel)
        if last:
            x = x.contiguous(memory_format=torch.channels_last)
            w = w.contiguous(memory_format=torch.channels_last)
        how = (None, stride, kernel // 2, 1, groups)
        return x, w, lambda: torch.nn.functional.conv2d(x, w, *how)

    def forward(torch, last):
        return operands(torch, last)[2]

    def both(torch, last):
        x, w, y = operands(torch, last)
        x.requires_grad_()
        w.requires_grad_()
        g = torch.randn_like(y().detach())

        def run():
            x.grad = w.grad = None
            y().backward(g)

        return run

    for last in (False, True):
        layout = ", channels-last" if last else ""
        for make, suffix, what, times in ((forward, "", "", 1), (both, "_both", ", fwd + bwd", 3)):

            def bound(torch, make=make, last=last):
                return make(torch, last)

            bound.__name__ = name + ("_last" if last else "") + suffix
            sizes = f"{batch} {ins} {outs} {size} {kernel} {stride} {int(times == 3)}"
            alone = f"conv {sizes}" if groups == 1 else None
            bar = 0.85 if name == "conv_3x3" and times == 3 else None
            facts = {"flops": times * flops, "alone": alone, "bar_alone": bar}
            case("conv", title + layout + what, **facts)(bound)


convolution("conv_3x3", "3x3, 64 to 64 at 32 x 56²", 32, 64, 64, 56, 3)
convolution("conv_3x3_one", "3x3, 64 to 64 at 1 x 56²", 1, 64, 64, 56, 3)
convolution("conv_3x3_deep", "3x3, 512 to 512 at 8 x 7²", 8, 512, 512, 7, 3)
convolution("conv_stem", "7x7/2, 3 to 64 at 8 x 112²", 8, 3, 64, 112, 7, 2)
convolution("conv_1x1", "1x1, 64 to 256 at 8 x 56²", 8, 64, 256, 56, 1)
convolution("conv_depthwise", "3x3 of 64 channels by themselves, 8 x 56²", 8, 64, 64, 56, 3, 1, 64)

# ---- resampling ----------------------------------------------------------------------------------


def resampling(name, title, shape, out, make, layouts=(False, True), group="resampling"):
    """Forward, `name`, and forward and backward, `name`_both; `out` is the shape of the result."""
    size, result = 4 * math.prod(shape), 4 * math.prod(out)

    def forward(torch, last):
        x, run = operands(torch, last)

        def quiet():
            with torch.no_grad():
                return run(x)

        return quiet

    def both(torch, last):
        x, run = operands(torch, last)
        x.requires_grad_()
        g = torch.randn_like(run(x).detach())

        def step():
            x.grad = None
            run(x).backward(g)

        return step

    def operands(torch, last):
        x = torch.randn(*shape)
        if last:
            x = x.contiguous(memory_format=torch.channels_last)
        return x, make(torch)

    for last in layouts:
        layout = ", channels-last" if last else ""
        for kind, suffix, what, times in ((forward, "", "", 1), (both, "_both", ", fwd + bwd", 2)):

            def bound(torch, kind=kind, last=last):
                return kind(torch, last)

            bound.__name__ = name + ("_last" if last else "") + suffix
            traffic = times * (size + result)
            case(group, title + layout + what, traffic=traffic, copy=(size + result) // 2)(bound)


def interpolation(**how):
    return lambda torch: lambda x: torch.nn.functional.interpolate(x, **how)


def sampling(torch):
    grid = torch.rand(8, 56, 56, 2) * 2 - 1
    return lambda x: torch.nn.functional.grid_sample(x, grid, align_corners=False)


IMAGES, TWICE = (32, 64, 56, 56), (32, 64, 112, 112)
resampling("upsample_bilinear", "bilinear x2 of 32x64x56²", IMAGES, TWICE,
           interpolation(scale_factor=2, mode="bilinear"))  # fmt: skip
resampling("upsample_nearest", "nearest x2 of 32x64x56²", IMAGES, TWICE,
           interpolation(scale_factor=2))  # fmt: skip
resampling("downscale", "antialiased 3x512² to 224²", (1, 3, 512, 512), (1, 3, 224, 224),
           interpolation(size=(224, 224), mode="bilinear", antialias=True))  # fmt: skip
resampling("upsample_bicubic", "bicubic x2 of 8x64x56²", (8, 64, 56, 56), (8, 64, 112, 112),
           interpolation(scale_factor=2, mode="bicubic"))  # fmt: skip
resampling("grid_sample", "grid_sample of 8x64x56²", (8, 64, 56, 56), (8, 64, 56, 56), sampling)
resampling("unfold", "unfold 3x3 of 8x64x56²", (8, 64, 56, 56), (8, 576, 3136),
           lambda torch: lambda x: torch.nn.functional.unfold(x, 3, padding=1),
           (False,))  # fmt: skip
resampling("pixel_shuffle", "pixel_shuffle x2 of 8x256x56²", (8, 256, 56, 56), (8, 64, 112, 112),
           lambda torch: lambda x: torch.nn.functional.pixel_shuffle(x, 2))  # fmt: skip

# ---- pooling -------------------------------------------------------------------------------------

PICTURES, HALF = (32, 64, 112, 112), (32, 64, 56, 56)
resampling("max_pool", "max_pool 3/2 of 32x64x112²", PICTURES, HALF,
           lambda torch: lambda x: torch.nn.functional.max_pool2d(x, 3, 2, 1),
           group="pooling")  # fmt: skip
resampling("avg_pool", "avg_pool 2/2 of 32x64x112²", PICTURES, HALF,
           lambda torch: lambda x: torch.nn.functional.avg_pool2d(x, 2),
           group="pooling")  # fmt: skip
resampling("global_pool", "adaptive_avg_pool to 1 of 32x512x7²", (32, 512, 7, 7), (32, 512, 1, 1),
           lambda torch: lambda x: torch.nn.functional.adaptive_avg_pool2d(x, 1),
           group="pooling")  # fmt: skip
# ---- recurrent layers ----------------------------------------------------------------------------


def recurrent(name, kind, gates, packed=False, state=256):
    """Two layers of 256, 64 steps of a batch of 32: forward, and forward and backward. Packed:
    sequences of 64 down to 2 steps. A `state` of less is a projection."""
    rows = sum(range(2, 65, 2)) if packed else 64 * 32

    def operands(torch):
        how = {"proj_size": state} if state < 256 else {}
        x = torch.randn(64, 32, 256)
        if packed:
            pack = torch.nn.utils.rnn.pack_padded_sequence
            x = pack(x, torch.arange(64, 0, -2))
        return getattr(torch.nn, kind)(256, 256, 2, **how), x

    def result(layer, x):
        return layer(x)[0].data if packed else layer(x)[0]

    def forward(torch):
        layer, x = operands(torch)

        def run():
            with torch.no_grad():
                return result(layer, x)

        return run

    def both(torch):
        layer, x = operands(torch)
        g = torch.randn(*((rows, state) if packed else (64, 32, state)))

        def run():
            layer.zero_grad()
            result(layer, x).backward(g)

        return run

    projections = 2 * 256 * state if state < 256 else 0
    flops = 2 * rows * (gates * 256 * (256 + 3 * state) + projections)
    what = ("64 to 2 steps, packed" if packed else "64 steps") + " x 32"
    what += f", projected to {state}" if state < 256 else ""
    for make, suffix, more, times in ((forward, "", "", 1), (both, "_both", ", fwd + bwd", 3)):
        make.__name__ = name + suffix
        case("recurrent", f"{kind} 2 x 256, {what}{more}", flops=times * flops)(make)


recurrent("lstm", "LSTM", 4)
recurrent("gru", "GRU", 3)
recurrent("rnn", "RNN", 1)
recurrent("lstm_packed", "LSTM", 4, packed=True)
recurrent("gru_packed", "GRU", 3, packed=True)
recurrent("lstm_projected", "LSTM", 4, state=128)

# ---- norms of channels ---------------------------------------------------------------------------


def batch_norm_case(name, title, shape, passes, make):
    """In both layouts: make(torch, x, ...) gives what is run, which must pass over x so often."""
    for last in (False, True):

        def bound(torch, last=last):
            x = torch.randn(*shape)
            if last:
                x = x.contiguous(memory_format=torch.channels_last)
            w, b = torch.ones(shape[1]), torch.zeros(shape[1])
            mean, var = torch.zeros(shape[1]), torch.ones(shape[1])
            return make(torch, x, mean, var, w, b)

        bound.__name__ = name + ("_last" if last else "")
        layout = ", channels-last" if last else ""
        size = 4 * math.prod(shape)
        facts = {"traffic": passes * size, "copy": size, "bar_fraction": 0.75}
        case("batchnorm", title + layout, **facts)(bound)


def batch_norm_forward(torch, x, mean, var, w, b):
    def run():
        with torch.no_grad():
            return torch.nn.functional.batch_norm(x, mean, var, w, b, True)

    return run


def batch_norm_step(block):
    """Forward and backward; of a block with a residual and an activation behind it."""

    def make(torch, x, mean, var, w, b):
        rest, g = torch.randn_like(x), torch.randn_like(x)
        for t in (x, w, b):
            t.requires_grad_()

        def run():
            x.grad = w.grad = b.grad = None
            batch_norm = torch.nn.functional.batch_norm
            if block:
                torch.relu(batch_norm(x, mean, var, w, b, True) + rest).backward(g)
            else:
                batch_norm(x, mean, var, w, b, True).backward(g)

        return run

    return make


DEEP = (64, 2048, 7, 7)
for _name, _what, _shape, _passes, _make in (
    ("batch_norm", "batch norm 32x64x56², training", IMAGES, 3, batch_norm_forward),
    ("batch_norm_deep", "batch norm 64x2048x7²", DEEP, 3, batch_norm_forward),
    ("batch_norm_deep_both", "batch norm 64x2048x7², fwd + bwd", DEEP, 8, batch_norm_step(False)),
    (
        "batch_norm_deep_block",
        "relu(batch norm + x) of it, fwd + bwd",
        DEEP,
        11,
        batch_norm_step(True),
    ),
    ("batch_norm_both", "batch norm, fwd + bwd", IMAGES, 8, batch_norm_step(False)),
    ("batch_norm_block", "relu(batch norm + x), fwd + bwd", IMAGES, 11, batch_norm_step(True)),
):
    batch_norm_case(_name, _what, _shape, _passes, _make)


@case("batchnorm", "group norm 32x64x56² in 32", traffic=3 * 4 * math.prod(IMAGES))
def group_norm(torch):
    x, w, b = torch.randn(*IMAGES), torch.ones(64), torch.zeros(64)
    return lambda: torch.nn.functional.group_norm(x, 32, w, b)


# ---- language models ----------------------------------------------------------------------------


def gpt_flops(layers, width, context, batch):
    """The usual count: 6 a parameter and token, 12 L C T a token for attention, uncut by the mask."""
    tokens = context * batch
    return tokens * (6 * (12 * layers * width**2 + 256 * width) + 12 * layers * width * context)


def gpt_step(torch, compiled, layers, width, heads, context, batch, autocast=False):
    from benchmarks.gpt import GPT

    model = GPT(torch, layers, width, heads, context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    if compiled:  # forward and backward
        model = compiled(model)
    x, y = torch.randint(0, 256, (batch, context)), torch.randint(0, 256, (batch, context))

    def run():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            logits = model(x)
            loss = torch.nn.functional.cross_entropy(logits.view(-1, 256), y.view(-1))
        loss.backward()
        optimizer.step()

    return run


@case(
    "gpt",
    "GPT step: 4 layers, 128 wide, 128 bytes, batch 16",
    flops=gpt_flops(4, 128, 128, 16),
    bar_seconds=50e-3,
    bar_fraction=0.45,
    compiles=True,
)
def gpt_small(torch, compiled=None):
    return gpt_step(torch, compiled, 4, 128, 4, 128, 16)


@case(
    "gpt",
    "GPT step: 6 layers, 384 wide, 256 bytes, batch 8",
    flops=gpt_flops(6, 384, 256, 8),
    bar_seconds=480e-3,
    bar_fraction=0.60,
    compiles=True,
)
def gpt_large(torch, compiled=None):
    return gpt_step(torch, compiled, 6, 384, 6, 256, 8)


@case("gpt", "the same under bfloat16 autocast", compiles=True)
def gpt_large_bf16(torch, compiled=None):
    return gpt_step(torch, compiled, 6, 384, 6, 256, 8, autocast=True)


@case("attention", "causal attention, 16 x 4 heads, 128 x 32, fwd + bwd")
def attention(torch):
    q, k, v = (torch.randn(16, 4, 128, 32, requires_grad=True) for _ in range(3))
    g = torch.randn(16, 4, 128, 32)

    def run():
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).backward(g)
        q.grad = k.grad = v.grad = None

    return run


# ---- pictures ------------------------------------------------------------------------------------


def resnet_cases():
    from benchmarks import resnet

    for last in (False, True):
        name, layout = ("_last", ", channels-last") if last else ("", "")

        def step(torch, last=last):
            return resnet.training_step(torch, 18, 16, 64, "cpu", False, last)

        def deep(torch, last=last):
            return resnet.training_step(torch, 50, 16, 56, "cpu", False, last)

        def forward(torch, last=last):
            return resnet.inference(torch, 18, 1, 224, "cpu", torch.float32, last)

        step.__name__, forward.__name__ = "resnet18_step" + name, "resnet18_one" + name
        deep.__name__ = "resnet50_step" + name
        case("resnet", "ResNet-18 step, 16 of 64²" + layout)(step)
        case("resnet", "ResNet-50 step, 16 of 56²" + layout)(deep)
        case("resnet", "ResNet-18 inference, 1 of 224²" + layout)(forward)

    @case("resnet", "ResNet-50 step, 16 of 56², channels-last, bfloat16 autocast")
    def resnet50_step_bf16(torch):
        return resnet.training_step(torch, 50, 16, 56, "cpu", True, True)


resnet_cases()


def _activation(name):
    @case("activations", f"{name}, 16 M floats", traffic=2 * 4 * N, copy=4 * N)
    def make(torch):
        x = torch.randn(N)
        f = getattr(torch.nn.functional, name, None) or getattr(torch, name)
        return lambda: f(x)

    CASES[name] = CASES.pop("make")
    CASES[name].name = name


for _name in ("relu", "gelu", "silu", "sigmoid", "tanh"):
    _activation(_name)

assert math.isclose(gpt_flops(4, 128, 128, 16) / 1e9, 11.7, rel_tol=0.01)

# Their cases register themselves.
from benchmarks import cases_compile, cases_layers, cases_linalg  # noqa: E402, F401
