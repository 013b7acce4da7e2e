"""What is measured on a GPU, in PyTorch's API with module and device as parameters.

Each case returns a function that enqueues its work once (`repeat` times for small ones). The bars
are those of one H200.
"""

from benchmarks.cases import Case

CASES = {}


def case(group, title, **facts):
    def register(make):
        CASES[make.__name__] = Case(make, group, title, **facts)
        return make

    return register


# ---- memory-bound -------------------------------------------------------------------------------

ROWS, WIDE = 65536, 3072


@case(
    "pointwise",
    "gelu((x + b) * 0.5) + x, 65536x3072 bf16",
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


@case("rows", "softmax 65536x4096 bf16", traffic=4 * 65536 * 4096, copy=2 * 65536 * 4096,
      bar_rate=3900e9)  # fmt: skip
def softmax(torch, device):
    x = torch.randn(65536, 4096, device=device).to(torch.bfloat16)

    def run():
        with torch.no_grad():
            return torch.softmax(x, -1)

    return run


def norm_inputs(torch, device, grad):
    x = torch.randn(65536, 768, device=device).to(torch.bfloat16)
    w = torch.ones(768, device=device).to(torch.bfloat16)
    b = torch.zeros(768, device=device).to(torch.bfloat16)
    return [t.requires_grad_(grad) for t in (x, w, b)]


@case("rows", "layer norm 65536x768 bf16", traffic=4 * 65536 * 768, copy=2 * 65536 * 768,
      bar_rate=3500e9)  # fmt: skip
def layer_norm(torch, device):
    x, w, b = norm_inputs(torch, device, False)

    def run():
        return torch.nn.functional.layer_norm(x, (768,), w, b)

    return run


@case("rows", "RMS norm 65536x768 bf16", traffic=4 * 65536 * 768, copy=2 * 65536 * 768,
      bar_rate=3500e9)  # fmt: skip
def rms_norm(torch, device):
    x, w, _ = norm_inputs(torch, device, False)

    def run():
        return torch.nn.functional.rms_norm(x, (768,), w)

    return run


@case("rows", "layer norm backward 65536x768 bf16", traffic=6 * 65536 * 768, copy=2 * 65536 * 768,
      bar_rate=3200e9)  # fmt: skip
def layer_norm_backward(torch, device):
    x, w, b = norm_inputs(torch, device, True)
    y = torch.nn.functional.layer_norm(x, (768,), w, b)
    g = torch.randn(65536, 768, device=device).to(torch.bfloat16)

    def run():
        return torch.autograd.grad(y, (x, w, b), g, retain_graph=True)

    return run


@case("rows", "cross-entropy 16384x50304 bf16, forward and backward", bar_seconds=1.15e-3)
def cross_entropy(torch, device):
    x = torch.randn(16384, 50304, device=device).to(torch.bfloat16).requires_grad_()
    t = torch.randint(0, 50304, (16384,), device=device)

    def run():
        loss = torch.nn.functional.cross_entropy(x, t)
        return torch.autograd.grad(loss, x)

    return run


@case("optim", "AdamW, 124 M float32 in 148 tensors", traffic=7 * 4 * 124_439_808, copy=1 << 30,
      bar_seconds=0.90e-3)  # fmt: skip
def adamw(torch, device):
    block = [(768,), (768,), (2304, 768), (2304,), (768, 768), (768,), (768,), (768,)]
    block += [(3072, 768), (3072,), (768, 3072), (768,)]
    shapes = [(50257, 768), (1024, 768), *block * 12, (768,), (768,)]
    params = [torch.nn.Parameter(torch.randn(*s, device=device) * 0.02) for s in shapes]
    for p in params:
        p.grad = torch.randn(*p.shape, device=device) * 1e-3
    fused = {"fused": True} if torch.__name__ == "torch" else {}
    optimizer = torch.optim.AdamW(params, lr=1e-4, weight_decay=0.1, **fused)
    return optimizer.step


GIGA = 1 << 30


def reduction(name, title, work):
    for dim, text in ((0, "columns"), (1, "rows")):

        def make(torch, device, dim=dim):
            x = torch.randn(32768, 32768, device=device)
            return lambda: work(torch, x, dim)

        make.__name__ = f"{name}_{text}"
        case("reduce", f"{title} over {text} of 32768x32768 floats", traffic=4 * GIGA, copy=GIGA,
             bar_fraction=0.9)(make)  # fmt: skip


reduction("sum", "sum", lambda torch, x, dim: x.sum(dim))
reduction("max", "max", lambda torch, x, dim: torch.amax(x, dim))
reduction("argmax", "argmax", lambda torch, x, dim: x.argmax(dim))


@case("reduce", "sum of 1 G floats", traffic=4 * GIGA, copy=GIGA, bar_fraction=0.9)
def sum_all(torch, device):
    x = torch.randn(GIGA, device=device)
    return lambda: x.sum()


@case("move", "transpose 16384x16384 float32", traffic=8 << 28, copy=4 << 28, bar_fraction=0.8)
def transpose(torch, device):
    x = torch.randn(16384, 16384, device=device)
    return lambda: x.t().contiguous()


@case("move", "embedding, 262144 rows of 1024 bf16", traffic=4 << 28, copy=2 << 28,
      bar_fraction=0.8)  # fmt: skip
def embedding(torch, device):
    w = torch.randn(50304, 1024, device=device).to(torch.bfloat16)
    index = torch.randint(0, 50304, (262144,), device=device)

    def run():
        with torch.no_grad():
            return torch.nn.functional.embedding(index, w)

    return run


@case("move", "gather along rows, 16384x16384 float32", traffic=16 << 28, copy=4 << 28,
      bar_fraction=0.8)  # fmt: skip
def gather(torch, device):
    x = torch.randn(16384, 16384, device=device)
    index = torch.arange(16384, device=device).flip(0).expand(16384, 16384).contiguous()
    return lambda: torch.gather(x, 1, index)


@case("move", "concatenation of four 4096x16384 float32", traffic=8 << 28, copy=4 << 28,
      bar_fraction=0.8)  # fmt: skip
def concatenation(torch, device):
    parts = [torch.randn(4096, 16384, device=device) for _ in range(4)]
    return lambda: torch.cat(parts)


# ---- products -----------------------------------------------------------------------------------


def product(dtype_name, n):
    def make(torch, device):
        dtype = getattr(torch, dtype_name)
        a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))

        def run():
            with torch.no_grad():
                return a @ b

        return run

    make.__name__ = f"matmul_{dtype_name}_{n}"
    case("matmul", f"product {n}x{n}x{n} {dtype_name}", flops=2 * n**3)(make)


for _dtype, _sizes in (
    ("bfloat16", (1024, 4096, 8192)),
    ("float16", (4096,)),
    ("float32", (4096,)),
):
    for _n in _sizes:
        product(_dtype, _n)


@case("matmul", "linear 16384x768 -> 3072 bf16 with bias", flops=2 * 16384 * 768 * 3072)
def linear(torch, device):
    x = torch.randn(16384, 768, device=device).to(torch.bfloat16)
    w = torch.randn(3072, 768, device=device).to(torch.bfloat16)
    b = torch.randn(3072, device=device).to(torch.bfloat16)
    return lambda: torch.nn.functional.linear(x, w, b)


# ---- the host's time and whole steps ------------------------------------------------------------


@case("overhead", "host: x = x + b, 64 floats, a chain that joins", repeat=1000, bar_seconds=0.3e-6)
def add_chain(torch, device):
    x0 = torch.randn(64, device=device)
    b = torch.randn(64, device=device) * 1e-3

    def run():
        x = x0
        for _ in range(1000):
            x = x + b
        return x

    return run


@case("overhead", "host: chain of 64x64 products", repeat=1000, bar_seconds=2.5e-6)
def small_products(torch, device):
    q = torch.randn(64, 64, device=device)
    w = q / (q * q).sum().sqrt() * 7.5
    x0 = torch.randn(64, 64, device=device)

    def run():
        for _ in range(50):
            x = x0
            for _ in range(20):
                x = x @ w
        return x

    return run


@case("step", "MLP 784-256-128-10, batch 32, training step with Adam", bar_seconds=120e-6)
def mlp_step(torch, device):
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.randn(32, 784, device=device)
    y = torch.randint(0, 10, (32,), device=device)
    loss_of = nn.CrossEntropyLoss()

    def run():
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()

    return run


@case("step", "GPT 6 layers, 384 wide, 256 bytes, batch 64, training step")
def gpt_step(torch, device):
    from benchmarks.gpt import GPT

    model = GPT(torch, 6, 384, 6, 256).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    x = torch.randint(0, 256, (64, 256), device=device)
    y = torch.randint(0, 256, (64, 256), device=device)

    def run():
        with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
            logits = model(x)
            loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, 256), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return run
