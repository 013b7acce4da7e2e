"""The host's time and whole steps on a GPU, as the cases of gpu_cases.py: training, decoding, inference."""

import contextlib

from benchmarks.gpu_case import CASES, HALF, PART, SMALL, case


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


BATCH = 64 // PART


@case("step", f"GPT 6 layers, 384 wide, 256 bytes, batch {BATCH}, training step")
def gpt_step(torch, device):
    from benchmarks.gpt import GPT

    model = GPT(torch, 6, 384, 6, 256).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    x = torch.randint(0, 256, (BATCH, 256), device=device)
    y = torch.randint(0, 256, (BATCH, 256), device=device)

    def run():
        with torch.autocast(device_type="cpu" if device == "cpu" else "cuda", dtype=torch.bfloat16):
            logits = model(x)
            loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, 256), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return run


SEQUENCES = 32 // PART


def gpt2_training(
    torch, device, layers, width, heads, sequences, budget=None, dtype=None, **options
):
    """`budget`: bytes, beyond which what is cheap to make again is not kept; PyFlame's alone."""
    from benchmarks.gpt import GPT, decay_groups

    model = GPT(torch, layers, width, heads, 1024, 50304, tied=True).to(device)
    if dtype:
        model = model.to(getattr(torch, dtype))
    optimizer = torch.optim.AdamW(
        decay_groups(model), lr=6e-4, betas=(0.9, 0.95), fused=device != "cpu", **options
    )
    x, y = (torch.randint(0, 50257, (sequences, 1024), device=device) for _ in range(2))
    region = contextlib.nullcontext()
    if budget is not None and hasattr(torch.autograd.graph, "recompute_cheap"):
        region = torch.autograd.graph.recompute_cheap(above=budget)
    kind = "cpu" if device == "cpu" else "cuda"

    def run():
        with region, torch.autocast(device_type=kind, dtype=torch.bfloat16):
            logits = model(x)
            loss = torch.nn.functional.cross_entropy(logits.view(-1, 50304), y.view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return run


@case("step", f"GPT-2 124M, {SEQUENCES} x 1024 tokens, bf16 autocast, clipped, training step",
      bar_seconds=32 * 1024 / 520e3, memory=True, bar_memory=18 << 30)  # fmt: skip
def gpt2_step(torch, device):
    return gpt2_training(torch, device, 12, 768, 12, SEQUENCES)


@case("step", f"GPT-2 124M, {SEQUENCES} x 1024 tokens, bf16 weights beside masters, training step")
def gpt2_masters_step(torch, device):
    if torch.__name__ == "torch":  # has no masters: its ordinary step
        return gpt2_step(torch, device)
    sizes = 12, 768, 12, SEQUENCES
    return gpt2_training(torch, device, *sizes, dtype="bfloat16", master_weights=True)


if not SMALL:

    @case("step", "the same, less kept for the backward pass", memory=True,
          bar_memory=13 << 30)  # fmt: skip
    def gpt2_lean_step(torch, device):
        return gpt2_training(torch, device, 12, 768, 12, SEQUENCES, budget=0)

    @case("step", "GPT-2 1558M, 16 x 1024 tokens, bf16 autocast, clipped, training step",
          bar_seconds=16 * 1024 / 56e3, memory=True, bar_memory=60 << 30,
          fills_device=True)  # fmt: skip
    def gpt2_xl_step(torch, device):
        return gpt2_training(torch, device, 48, 1600, 25, 16, budget=44 << 30)


def decoding(name, title, batch, bar=None, **sizes):
    """Tokens one by one, captured; `fraction` is that of a copy's speed at which weights are read."""
    from benchmarks.gpt_decode import steps, weights

    def make(torch, device):
        return steps(torch, device, "bfloat16", batch, TOKENS_AT_ONCE, **sizes)

    make.__name__ = name
    case("decode", f"{title}, bf16, batch {batch}, a token", repeat=TOKENS_AT_ONCE,
         traffic=2 * weights(**sizes), copy=1 << (24 if SMALL else 30),
         **({"bar_fraction": bar} if bar else {}))(make)  # fmt: skip


TOKENS_AT_ONCE = 16
if SMALL:
    decoding("gpt2_decode", "GPT-2 of 2 x 64", 1, layers=2, width=64, heads=4, vocab=512)
else:
    GPT2_XL = {"layers": 48, "width": 1600, "heads": 25, "vocab": 50257}
    decoding("gpt2_decode", "GPT-2 124M", 1, layers=12, width=768, heads=12, vocab=50257)
    decoding("gpt2_xl_decode", "GPT-2 1558M", 1, bar=0.8, **GPT2_XL)
    decoding("gpt2_xl_decode_32", "GPT-2 1558M", 32, **GPT2_XL)

PICTURES, SIDE = 256 // PART, 224 // HALF


@case("resnet", f"ResNet-50, {PICTURES} pictures of {SIDE}², bf16 autocast, channels-last, training step",
      bar_seconds=256 / 5600)  # fmt: skip
def resnet50_step(torch, device):
    from benchmarks.resnet import training_step

    return training_step(torch, 50, PICTURES, SIDE, device, autocast=True, channels_last=True)


def _resnet50_inference(batch, bar):
    @case("resnet", f"ResNet-50 inference, {batch} of {SIDE}², bf16, channels-last",
          bar_seconds=bar)  # fmt: skip
    def make(torch, device):
        from benchmarks.resnet import inference

        return inference(torch, 50, batch, SIDE, device, torch.bfloat16, channels_last=True)

    CASES[f"resnet50_inference_{batch}"] = made = CASES.pop("make")
    made.name = f"resnet50_inference_{batch}"


_resnet50_inference(1, 2.5e-3)
_resnet50_inference(128 // PART, 7e-3)
