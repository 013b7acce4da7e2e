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
            bias = scale is None and "bias_" in name  # of recurrent layers
            if p.ndim > 1 or bias or name.endswith(("bias", "embedding")):
                size = scale or (0.05 if p.ndim < 2 else max(p.numel() // len(p), 1) ** -0.5)
                p.copy_(torch.tensor(rng.randn(*p.shape) * size))
            elif scale is None and name.endswith("weight"):
                p.fill_(1)  # some libraries draw those of norms, too
    return model


def stir(model, seed, by=2e-6):
    """Changes each weight by a few roundings of float32."""
    rng = np.random.RandomState(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1 + by * torch.tensor(rng.randn(*p.shape), dtype=p.dtype, device=p.device))


def normal(*shape, scale=1.0, seed=0):
    """Drawn numbers, which stand for pictures, sounds and features: the same for the same sizes."""
    rng = np.random.RandomState(seed + sum(shape))
    return torch.tensor((rng.randn(*shape) * scale).astype(np.float32))


def integers(low, high, *shape, seed=0):
    """Drawn integers in [low, high), which stand for tokens, classes and edges: the same for the same sizes."""
    rng = np.random.RandomState(seed + low + high + sum(shape))
    return torch.tensor(rng.randint(low, high, shape))


def moved(value, device, dtype=None):
    """What a model is given, on a device, and its floats in another dtype."""
    if isinstance(value, torch.Tensor):
        return value.to(device, dtype if value.is_floating_point() else None)
    if isinstance(value, dict):
        return {k: moved(v, device, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(moved(v, device, dtype) for v in value)
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


class Training:
    """A model of weights of ours, which takes steps of training: in float32, by autocast in bfloat16
    (kind "bf16"), in float64 ("f64"), or in float64 from weights stirred by what float32 may leave of
    them after some layers ("f64 SEED"): where these are apart, so are right results of float32."""

    def __init__(self, make, device="cpu", kind=""):
        torch.manual_seed(0)
        self.model, given = make()
        exact, _, seed = kind.partition(" ")
        dtype = torch.float64 if exact == "f64" else None
        fill(self.model, scale=None).to(device, dtype).train()
        if seed:
            stir(self.model, int(seed))
        given = moved(given, device, dtype)
        self.args, self.named = ((), given) if isinstance(given, dict) else (given, {})
        self.cast = torch.autocast(
            torch.device(device).type, torch.bfloat16, enabled=kind == "bf16"
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def loss(self):
        with self.cast:
            loss = loss_of(self.model(*self.args, **self.named))
        return loss if loss.dtype == torch.float64 else loss.float()

    def step(self):
        """A step of training: its loss and the norm of its gradients."""
        loss = self.loss()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return [loss.detach(), norm]

    def steps(self, count):
        return torch.stack(sum((self.step() for _ in range(count)), []))

    def times(self):
        """Milliseconds of a forward pass without gradients, and of a step."""
        with torch.no_grad():
            forward = milliseconds(lambda: self.loss().item())
        return dict(forward=forward, step=milliseconds(lambda: self.step()[0].item()))


def milliseconds(function, seconds=0.25):
    """The median time of a call that ends by waiting for its result, of those that fit (at least 3)."""
    function()
    taken = []
    while len(taken) < 3 or (sum(taken) < seconds and len(taken) < 25):
        start = time.perf_counter()
        function()
        taken.append(time.perf_counter() - start)
    return sorted(taken)[len(taken) // 2] * 1e3


def train_each(families, steps=3):
    """Trains each of {name: function that makes (model, what it is given)} in float32 and by autocast in
    bfloat16, and says in lines of JSON which names there are ("names"), and of each the losses and norms
    of gradients ("name", "values") or what it raised ("error").

    Arguments of the program: --device; --part i/n of the families; --only names; --referee, which trains
    in float64, too, once as it is and three times stirred; --times, which times forward passes and steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--referee", action="store_true")
    parser.add_argument("--times", action="store_true")
    args = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    first, apart = map(int, args.part.split("/"))
    names = [n for n in args.only or families if n in families][first::apart]
    kinds = ["", "bf16"] + ["f64", "f64 1", "f64 2", "f64 3"] * args.referee

    def say(**what):
        print(json.dumps(what), flush=True)

    say(names=[f"{name} {kind}".strip() for name in names for kind in kinds])
    for name in names:
        for kind in kinds:
            said = f"{name} {kind}".strip()
            try:
                training = Training(families[name], args.device, kind)
                say(name=said, values=training.steps(steps).tolist())
                if args.times and "f64" not in kind:
                    say(name=said, **training.times())
            except Exception as e:
                where = traceback.extract_tb(e.__traceback__)[-1]
                error = f"{type(e).__name__}: {str(e)[:400]} ({where.filename}:{where.lineno})"
                say(name=said, error=error)
