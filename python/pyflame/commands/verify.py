"""`pyflame verify`: whether the installation works, in small steps: the GPU, a small model, a small table, larger
and larger models. Each step says what it found; the first that fails ends it with status 1."""

import math
import os
import tempfile
import time

from .. import _C, _ops, manual_seed, memory, nn
from ..autograd import no_grad
from ..nn import functional as F
from ..optim import AdamW
from ..training.devices import describe_device, multiplies_bfloat16
from ..training.output import say


class StepFailed(RuntimeError):
    """A step whose result is wrong."""


def _must(right, text):
    if not right:
        raise StepFailed(text)


def _why_no_gpu(wanted):
    """Why there is no usable GPU, in a line. A library or folder that was named and does not serve is an
    error, as is a GPU that was asked for."""
    status = {k: v for k, v in _C.backend_status().items() if k in ("rocm", "cuda")}
    named = ("BACKEND_PATH", "HIP_LIBRARY", "CUDA_LIBRARY")
    named = [f"PYFLAME_{n}" for n in named if os.environ.get(f"PYFLAME_{n}")]
    reasons = "; ".join(f"{k}: {v}" for k, v in sorted(status.items())) or "none was looked for"
    if named:
        raise StepFailed(f"{' and '.join(named)} is set, and there is no usable GPU ({reasons})")
    if wanted not in ("auto", "cpu"):
        raise StepFailed(f"no usable GPU for '{wanted}' ({reasons})")
    return reasons


def access(args):
    """Every GPU computes what the processor does, and its memory is told and given back."""
    from .. import cuda

    if args.device == "cpu":
        return "left out: --device cpu"
    if not cuda.is_available():
        return f"no usable GPU, so what follows runs on the CPU ({_why_no_gpu(args.device)})"
    devices = (
        [_C.device("gpu", i) for i in range(cuda.device_count())]
        if args.device == "auto"
        else [_C.device(args.device)]
    )
    found = []
    for device in devices:
        free, total = memory.mem_get_info(device)
        _must(0 < free <= total, f"{device}: the driver tells {free} free bytes of {total}")
        x = _ops.arange(4096, dtype=_C.float32, device="cpu")
        there = x.to(device)
        _must(there.device == device and there.cpu().equal(x), f"{device}: copies change values")
        got = (there * 2 + 1).sum().item()
        _must(got == 4096 * 4096, f"{device}: a sum is {got:g}, and should be {4096 * 4096}")
        found.append(f"{device} {_C.device_info(device)['name']}, {free / 2**30:.1f} GiB free")
    _C.set_device(devices[0])
    return "; ".join(found)


def arithmetic(args):
    """Products, sums, softmax and a gradient beside float64 on the processor."""
    manual_seed(1)
    a, b = _ops.randn(96, 200, device="cpu"), _ops.randn(200, 72, device="cpu")
    worst = 0.0
    functions = {
        "a product": lambda a, b: a @ b,
        "softmax": lambda a, b: F.softmax(a @ b / 8, -1),
        "a norm of layers": lambda a, b: F.layer_norm((a @ b).sigmoid(), (b.shape[1],)),
        "a variance": lambda a, b: (a @ b).var(0),
    }
    for name, f in functions.items():
        results = []
        for dtype, device in ((_C.float64, "cpu"), (_C.float32, _C.get_device())):
            x, y = (t.to(device, dtype).detach().requires_grad_() for t in (a, b))
            out = f(x, y)
            out.sin().sum().backward()
            results.append([t.detach().to("cpu", _C.float64) for t in (out, x.grad, y.grad)])
        for got, want in zip(results[1], results[0]):
            error = ((got - want).abs().max() / want.abs().max().clamp(1e-6)).item()
            _must(error < 1e-3, f"{name}: off by {error:.1g} of the largest value")  # NaN is, too
            worst = max(worst, error)
    return f"{len(functions)} functions and their gradients within {worst:.1g} of float64"


def small_model(args):
    """A small network learns a rule that it can learn; also in bfloat16 on GPUs with units for it."""
    from ..amp import autocast

    device = _C.get_device()
    told = []
    for mixed in (False, True)[: 1 + multiplies_bfloat16()]:
        manual_seed(1)
        x = _ops.rand(256, 4) * 2 - 1
        y = (x[:, 0] * x[:, 1] + x[:, 2]).unsqueeze(1)
        model = nn.Sequential(
            nn.Linear(4, 32), nn.SiLU(), nn.Linear(32, 16), nn.SiLU(), nn.Linear(16, 1)
        )
        optimizer = AdamW(model.parameters(), lr=0.01)
        losses = []
        for _ in range(150):
            optimizer.zero_grad()
            with autocast(device.type, dtype=_C.bfloat16, enabled=mixed):
                out = model(x)
            loss = F.mse_loss(out.float(), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        first, last = losses[0].item(), losses[-1].item()
        _must(last < 0.2 * first, f"the loss went from {first:.4f} to {last:.4f} in 150 steps")
        told.append(f"{'bfloat16' if mixed else 'float32'} loss {first:.3f} to {last:.4f}")
    return "150 steps: " + ", ".join(told)


def _write_table(path, rows=400):
    import random

    draw = random.Random(1)
    with open(path, "w", encoding="utf-8") as f:
        f.write("a,b,c,kind,y\n")
        for _ in range(rows):
            a, b, c = (draw.uniform(-1, 1) for _ in range(3))
            kind = draw.choice(("low", "high"))
            y = a - 2 * b + (1 if kind == "high" else 0) + draw.gauss(0, 0.05)
            f.write(f"{a},{b},{c},{kind},{y}\n")


def small_data(args):
    """A table through the trainer: file, batches, steps, a checkpoint written and read again."""
    from ..checkpoint import Checkpoints
    from ..training.tables import Table
    from ..training.tabular import Tabular

    with tempfile.TemporaryDirectory(prefix="pyflame-verify-") as folder:
        path = os.path.join(folder, "table.csv")
        _write_table(path)
        table = Table(path, target="y")
        config = {
            "hidden_layers": [32, 16], "batch_size": 8, "epochs": 2, "accumulation": 1, "dropout": 0.0,
            "mixed_precision": False, "lr": 0.01, "weight_decay": 0.0, "clip": 1.0, "seed": 1, "patience": 0,
        }  # fmt: skip
        job = Tabular(config, table)
        while job.step < job.total:
            job.train_step()
        _, score = job.evaluate()
        base = table.baseline()
        _must(
            score < 0.7 * base,
            f"off by {score:.3f} on held-out rows; the mean is off by {base:.3f}",
        )
        store = Checkpoints(folder)
        store.save(job.step, job.state())
        again = Tabular(config, table)
        again.load(store.load().state)
        _must(again.evaluate()[1] == score, "a checkpoint that was read gives other predictions")
    return (
        f"{job.step} steps over {len(table.train[0])} rows: off by {score:.3f} on held-out rows, the mean "
        f"by {base:.3f}; the checkpoint is the same"
    )


def scale_up(args):
    """Steps of networks of twice the width and batch each, until one takes a fifth of a second or memory gets scarce."""
    device = _C.get_device()
    told, width, batch = [], 64, 64
    while width <= 8192:
        weights = 3 * width * width * 4
        # Weights, gradients and two moments; activations, their gradients, and as much again.
        if 4 * weights + 16 * batch * width * 4 > memory.mem_get_info(device)[0] // 2:
            break
        manual_seed(1)
        model = nn.Sequential(*(m for _ in range(3) for m in (nn.Linear(width, width), nn.ReLU())))
        optimizer = AdamW(model.parameters(), lr=1e-4)
        x = _ops.randn(batch, width)

        def step(model=model, optimizer=optimizer, x=x):
            optimizer.zero_grad()
            loss = (model(x) - x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.item()

        first = step()
        begin = time.perf_counter()
        second = step()
        took = time.perf_counter() - begin
        _must(
            math.isfinite(first) and second < first,
            f"width {width}: loss {first:g}, then {second:g}",
        )
        told.append(f"{3 * (width + 1) * width:,} weights {took * 1e3:.1f} ms")
        if took > 0.2:  # the next one takes eight times as long
            break
        width, batch = 2 * width, min(2 * batch, 4096)
    with no_grad():
        memory.empty_cache(device)
    _must(told, "not even the smallest network fits into memory")
    return "a step of " + ", ".join(told)


STEPS = (
    ("GPU access", access),
    ("arithmetic", arithmetic),
    ("small model", small_model),
    ("small table", small_data),
    ("scale up", scale_up),
)


def command(args):
    """What `pyflame verify` does; the exit status is 0 when every step succeeded."""
    if args.threads:
        _C.set_num_threads(args.threads)
    if args.device == "cpu":
        _C.set_device("cpu")
    say(f"pyflame {_C.__version__}")
    for number, (name, step) in enumerate(STEPS, 1):
        begin = time.perf_counter()
        try:
            result = step(args)
        except Exception as e:
            if os.environ.get("PYFLAME_TRACEBACK"):
                raise
            what = (
                str(e)
                if isinstance(e, (StepFailed, _C.PyFlameError))
                else f"{type(e).__name__}: {e}"
            )
            say(f"{number}/{len(STEPS)} {name}: FAILED: {what}")
            for later, (name, _) in enumerate(STEPS[number:], number + 1):
                say(f"{later}/{len(STEPS)} {name}: not run")
            return 1
        say(f"{number}/{len(STEPS)} {name}: ok, {time.perf_counter() - begin:.1f} s: {result}")
    say(f"everything works on {describe_device()}")
    return 0
