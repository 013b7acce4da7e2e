"""Captured steps (pf.compile, mode="reduce-overhead") beside PyTorch's eager ones.

PyTorch's own captures need a GPU; with --compiled its column is torch.compile of the same function,
in the cases that are made for it.
"""

from benchmarks.cases import case


def captured(torch, function, compiled):
    """`function` as each side makes it quick; the benchmark's first calls are not timed."""
    if torch.__name__ == "pyflame":
        function = torch.compile(function, mode="reduce-overhead")
    elif compiled:
        function = compiled(function)
    return function


def training_step(torch, model, loss_of, compiled):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    if compiled and torch.__name__ != "pyflame":
        loss_of = compiled(loss_of)

    def step(*args):
        optimizer.zero_grad()
        loss = loss_of(*args)
        loss.backward()
        optimizer.step()
        return loss

    return captured(torch, step, None)


def narrow(torch):
    nn = torch.nn
    return nn.Sequential(*[l for _ in range(20) for l in (nn.Linear(16, 16), nn.ReLU())])


@case("captured", "20 x (Linear(16, 16), ReLU), batch 4, inference", repeat=200, compiles=True)
def captured_narrow(torch, compiled=None):
    model = narrow(torch).eval()
    x = torch.randn(4, 16)
    call = captured(torch, model, compiled)

    def run():
        with torch.no_grad():
            for _ in range(200):
                call(x)

    return run


@case("captured", "the same, step with Adam", repeat=50, compiles=True)
def captured_narrow_step(torch, compiled=None):
    model = narrow(torch)
    step = training_step(torch, model, lambda x: model(x).square().mean(), compiled)
    x = torch.randn(4, 16)

    def run():
        for _ in range(50):
            step(x)

    return run


@case("captured", "MLP 784-256-128-10, batch 32, step with Adam", repeat=20, compiles=True)
def captured_mlp(torch, compiled=None):
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    cross_entropy = nn.CrossEntropyLoss()
    step = training_step(torch, model, lambda x, y: cross_entropy(model(x), y), compiled)
    x, y = torch.randn(32, 784), torch.randint(0, 10, (32,))

    def run():
        for _ in range(20):
            step(x, y)

    return run


def decode(name, title, dtype, **sizes):
    def make(torch, compiled=None):
        from benchmarks.gpt_decode import steps

        return steps(torch, "cpu", dtype, 1, 16, **sizes)

    make.__name__ = name
    case("captured", f"{title}, a token, {dtype}; PyTorch's plain loop", repeat=16)(make)


for _dtype in ("float32", "bfloat16"):
    decode(f"decode_small_{_dtype}", "GPT-2 of 6 x 384, 8192 tokens", _dtype,
           layers=6, width=384, heads=6, vocab=8192)  # fmt: skip
    decode(f"decode_gpt2_{_dtype}", "GPT-2 124M", _dtype,
           layers=12, width=768, heads=12, vocab=50257)  # fmt: skip
