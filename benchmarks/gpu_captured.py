"""Captured steps on a GPU, as the cases of gpu_cases.py: ours by pf.compile(mode="reduce-overhead"), PyTorch's
as a CUDA graph with fused, capturable optimizers, or its loss and gradients by torch.compile. Each call has another
batch, which PyTorch copies into the graph's inputs."""

from benchmarks.gpu_case import PART, SMALL, case
from benchmarks.gpu_steps import PICTURES, SIDE


def captured(torch, device, step, batches, **options):
    """Steps by turns over `batches`, tuples of tensors; `options`: of pf.compile, or graph=False: as it is."""
    if torch.__name__ == "pyflame":
        call = torch.compile(step, mode="reduce-overhead", **options)
    elif device == "cpu" or not options.pop("graph", True):
        call = step
    else:
        call = Graphed(torch, step)
    turn = [0]

    def run():
        turn[0] ^= 1
        return call(*batches[turn[0]])

    run.hides_memory = isinstance(call, Graphed)
    return run


class Graphed:
    """A CUDA graph of PyTorch's, made at the first call behind three steps without."""

    def __init__(self, torch, step):
        self.torch, self.step, self.graph = torch, step, None

    def make(self, batch):
        cuda = self.torch.cuda
        self.inputs = [t.clone() for t in batch]
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            for _ in range(3):
                self.step(*self.inputs)
        cuda.current_stream().wait_stream(side)
        self.graph = cuda.CUDAGraph()
        with cuda.graph(self.graph):
            self.result = self.step(*self.inputs)

    def __call__(self, *batch):
        if not self.graph:
            self.make(batch)
        for mine, given in zip(self.inputs, batch):
            mine.copy_(given)
        self.graph.replay()
        return self.result


def adam(torch, device, kind, params, **options):
    if torch.__name__ != "pyflame" and device != "cpu":
        options |= {"fused": True, "capturable": True}
    return getattr(torch.optim, kind)(params, **options)


def mlp(torch, device):
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    ).to(device)


def digits(torch, device):
    return [
        (torch.randn(32, 784, device=device), torch.randint(0, 10, (32,), device=device))
        for _ in range(2)
    ]


@case("captured", "MLP 784-256-128-10, batch 32, step with Adam", repeat=50, bar_seconds=25e-6)
def captured_mlp_step(torch, device):
    model = mlp(torch, device)
    optimizer = adam(torch, device, "Adam", model.parameters(), lr=1e-3)
    loss_of = torch.nn.CrossEntropyLoss()

    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return many(captured(torch, device, step, digits(torch, device)))


@case("captured", "the same, inference", repeat=50)
def captured_mlp(torch, device):
    model = mlp(torch, device).eval()

    def step(x):
        with torch.no_grad():
            return model(x)

    return many(captured(torch, device, step, [(x,) for x, _ in digits(torch, device)]))


def many(step):
    def run():
        for _ in range(50):
            step()

    return run


LENGTH = 64 if SMALL else 1024


SIZES = {"124M": (12 // PART or 1, 768 // PART, 12), "1558M": (48, 1600, 25)}


def gpt2_step(torch, device, sequences, compiled=None, size="124M", **options):
    from benchmarks.gpt import GPT, decay_groups

    model = GPT(torch, *SIZES[size], LENGTH, 50304 // PART, tied=True).to(device)
    optimizer = adam(torch, device, "AdamW", decay_groups(model), lr=6e-4, betas=(0.9, 0.95))
    kind = "cpu" if device == "cpu" else "cuda"

    def loss_of(x, y):
        return torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())

    if compiled:
        loss_of, options = compiled(loss_of), {"graph": False}

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type=kind, dtype=torch.bfloat16, cache_enabled=kind == "cpu"):
            loss = loss_of(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    batches = [
        tuple(torch.randint(0, 50257 // PART, (sequences, LENGTH), device=device) for _ in range(2))
        for _ in range(2)
    ]
    return captured(torch, device, step, batches, **options)


def gpt2_case(name, sequences, bar, what="", size="124M", memory=None, **options):
    """`bar`: tokens per second; `memory`: bytes, of a step that fills the device."""

    def make(torch, device, compiled=None):
        return gpt2_step(torch, device, sequences, compiled, size, **options)

    make.__name__ = name
    title = (
        f"GPT-2 {size}, {sequences} x {LENGTH} tokens, bf16 autocast, clipped, training step{what}"
    )
    facts = {"compiles": True, "memory": True} if sequences >= 16 else {}
    if memory:
        facts |= {"bar_memory": memory, "fills_device": True}
    case("captured", title, bar_seconds=sequences * LENGTH / bar, **facts)(make)


gpt2_case("captured_gpt2_step", 2 if SMALL else 4, 400e3)
if not SMALL:
    gpt2_case("captured_gpt2_large_step", 32, 590e3)
    # Attention's gradients by cuDNN, which differ from run to run; roundings within programs left out.
    gpt2_case("captured_gpt2_fast_step", 32, 590e3, ", numerics='fast'", numerics="fast")
    gpt2_case("captured_gpt2_xl_step", 16, 56e3, size="1558M", memory=60 << 30)


@case("captured", f"ResNet-50, {PICTURES} pictures of {SIDE}², bf16 autocast, channels-last, training step",
      bar_seconds=256 / 7200, compiles=True, memory=True)  # fmt: skip
def captured_resnet50_step(torch, device, compiled=None):
    from benchmarks.resnet import training

    step, x = training(
        torch, 50, PICTURES, SIDE, device, True, True, compiled, cache_enabled=device == "cpu"
    )
    batches = [(x, torch.randint(0, 1000, (PICTURES,), device=device)) for _ in range(2)]
    return captured(torch, device, step, batches, **({"graph": False} if compiled else {}))
