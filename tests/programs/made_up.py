"""What these programs share: weights and data that are the same whatever draws random numbers, and the
lines that say what came out."""

import argparse
import json
import time
import traceback

import numpy as np
import torch


def report(name, *tensors):
    """A line of JSON: the name, and of each tensor its sizes, whether its values are exact, a sum with
    drawn factors, one of sizes, and a few elements."""
    values = []
    for t in tensors:
        t = torch.as_tensor(t).detach()
        exact = not (t.is_floating_point() or t.is_complex())
        flat = np.nan_to_num(t.cpu().double().reshape(-1).numpy(), nan=-777.0)
        factors = np.random.RandomState(len(flat)).uniform(-1, 1, len(flat))
        values.append(
            [list(t.shape), exact, float(flat @ factors), float(abs(flat).sum()), flat[:6].tolist()]
        )
    print(json.dumps([name, values]), flush=True)


def fill(model, seed=0, scale=0.05):
    """Draws a model's weights with NumPy: matrices, biases and embeddings are normal, other vectors stay.
    Without a scale, matrices keep the size of what they multiply."""
    rng = np.random.RandomState(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim > 1 or name.endswith(("bias", "embedding")):
                size = scale or (0.05 if p.ndim < 2 else max(p.numel() // len(p), 1) ** -0.5)
                p.copy_(torch.tensor(rng.randn(*p.shape) * size))
            elif scale is None and name.endswith("weight"):
                p.fill_(1)  # some libraries draw those of norms, too
    return model


def normal(*shape, scale=1.0, seed=0):
    """Drawn numbers, which stand for pictures, sounds and features: the same for the same sizes."""
    rng = np.random.RandomState(seed + sum(shape))
    return torch.tensor((rng.randn(*shape) * scale).astype(np.float32))


def moved(value, device):
    """What a model is given, on a device."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {k: moved(v, device) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(moved(v, device) for v in value)
    return value.to(device) if hasattr(value, "to") else value


def loss_of(out):
    """A loss: the model's own, the sum of those that it names, or the mean square of what it gives."""
    own = getattr(out, "loss", None)
    if own is not None:
        return own
    if isinstance(out, dict) and out and all(v is not None and v.ndim == 0 for v in out.values()):
        return sum(out.values())
    if isinstance(out, torch.Tensor):
        return torch.view_as_real(out).square().mean() if out.is_complex() else out.square().mean()
    if hasattr(out, "to_tuple"):
        out = out.to_tuple()
    values = list(out.values()) if isinstance(out, dict) else list(out)
    return sum(
        loss_of(v)
        for v in values
        if isinstance(v, (list, tuple, dict))
        or (isinstance(v, torch.Tensor) and v.is_floating_point())
    )


def train_each(families, steps=3):
    """Trains each of {name: function that makes (model, what it is given)} and reports losses and norms of
    gradients, in float32 and by autocast in bfloat16.

    Arguments of the program: --device; --part i/n of the families; --only names; --go-on, which reports
    what raises as {"name", "error"} and goes on; --times, which times steps of them, too."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--go-on", action="store_true")
    parser.add_argument("--times", action="store_true")
    args = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    first, apart = map(int, args.part.split("/"))
    for name in args.only or list(families)[first::apart]:
        try:
            train_one(name, families[name], torch.device(args.device), steps, args.times)
        except Exception as e:
            if not args.go_on:
                raise
            where = traceback.extract_tb(e.__traceback__)[-1]
            said = f"{type(e).__name__}: {str(e)[:400]} ({where.filename}:{where.lineno})"
            print(json.dumps({"name": name, "error": said}), flush=True)


def one_step(model, given, optimizer, device, short):
    """A step of training: its loss and the norm of its gradients."""
    positional = given if isinstance(given, tuple) else ()
    named = given if isinstance(given, dict) else {}
    with torch.autocast(device.type, torch.bfloat16, enabled=short):
        loss = loss_of(model(*positional, **named)).float()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return [loss.detach(), norm]


def train_one(name, make, device, steps, times):
    for short in (False, True):
        torch.manual_seed(0)
        model, given = make()
        fill(model, scale=None)
        model.to(device).train()
        given = moved(given, device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        with_all = (model, given, optimizer, device, short)
        said = f"{name} bf16" if short else name
        report(said, torch.stack(sum((one_step(*with_all) for _ in range(steps)), [])))
        if times:
            taken = []
            for _ in range(12):
                start = time.perf_counter()
                one_step(*with_all)[0].item()
                taken.append(time.perf_counter() - start)
            taken = sorted(taken)[len(taken) // 2] * 1e3
            print(json.dumps({"name": said, "ms": taken}), flush=True)
