"""What these programs share: weights and data that are the same whatever draws random numbers, and the
lines that say what came out."""

import json

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
    """Draws a model's weights with NumPy: matrices, biases and embeddings are normal, other vectors stay."""
    rng = np.random.RandomState(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim > 1 or name.endswith(("bias", "embedding")):
                p.copy_(torch.tensor(rng.randn(*p.shape) * scale))
    return model
