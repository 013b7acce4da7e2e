"""What a type checker should accept and know. Checked by `tools/stubs.py --check`, never run."""

import pyflame as pf
from pyflame import nn
from pyflame.nn import functional as F


def tensors() -> pf.Tensor:
    a = pf.randn(2, 3)
    b = pf.randn((2, 3), dtype=pf.float32)
    c: pf.Tensor = (a + b * 2).sum(dim=1, keepdim=True)
    values, indices = c.max(dim=0)
    pair = a.max(1)
    first: pf.Tensor = pair.values
    d = a.view(3, 2).transpose(0, 1).reshape((6,))
    n: int = d.numel()
    shape: pf.Size = d.shape
    parts: tuple[pf.Tensor, ...] = a.split(1)
    return pf.cat([values, first[:1], parts[0][0], d[: n - shape[0]]]) + indices


def layers(x: pf.Tensor, y: pf.Tensor) -> float:
    model = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2))
    optimizer = pf.optim.AdamW(model.parameters(), lr=1e-3)
    loss: pf.Tensor = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    with pf.no_grad():
        probabilities = F.softmax(model(x), dim=-1)
    pf.save({"p": probabilities}, "file")
    try:
        pf.load("file")
    except pf.FileError as e:
        print(e)
    return float(loss.item())
