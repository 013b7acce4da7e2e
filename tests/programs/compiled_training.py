"""torch.compile in several modes: steps of training with mixed precision, accumulation, a schedule, buffers,
graphs that change, and what a program asks of it."""

import copy

import numpy as np
import torch
from made_up import fill, report
from torch import nn
from torch.nn import functional as F

rng = np.random.RandomState(0)


class Block(nn.Module):
    def __init__(self, width, heads=2):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norms[1](x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(30, 16), nn.ModuleList(Block(16) for _ in range(2))
        self.head = nn.Linear(16, 30, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, ids, labels=None):
        self.seen += ids.numel()
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        return logits if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())


rows = torch.tensor(rng.randint(0, 30, (12, 4, 9)))
rows[:, :, 1::2] = (rows[:, :, :-1:2] * 2 + 3) % 30
first = fill(Model(), scale=0.2)
for mode in (None, "reduce-overhead", "max-autotune"):
    for precision in ("float32", "bfloat16"):
        model = copy.deepcopy(first)
        step = torch.compile(model, **({"mode": mode} if mode else {"fullgraph": True}))
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=6)
        losses = []
        for i, batch in enumerate(rows):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bfloat16"):
                loss = step(batch[:, :-1], batch[:, 1:])
            (loss / 2).backward()
            losses.append(loss.detach().float())
            if i % 2:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        assert model.seen == rows[:, :, 1:].numel()
        report(f"{mode} {precision}", torch.stack(losses))
        step.eval()
        with torch.no_grad():
            report(f"{mode} {precision} shapes", step(rows[0, :, :5]), step(rows[0, :1, :3]))
    assert set(step.state_dict()) == {"_orig_mod." + k for k in model.state_dict()}


@torch.compile(mode="max-autotune", dynamic=True)
def penalty(w, x):
    y = torch.tanh(x @ w)
    return (y * y).sum() / y.shape[0]


w = torch.tensor(rng.randn(5, 4).astype(np.float32), requires_grad=True)
for n in (2, 3, 7, 2, 3, 7):
    x = torch.tensor(rng.randn(n, 5).astype(np.float32))
    (grad,) = torch.autograd.grad(penalty(w, x), w)
    report(f"penalty {n}", penalty(w, x), grad)


@torch.compile
def train(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


net = fill(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.SiLU(), nn.Linear(8, 1)), scale=0.4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
x = torch.tensor(rng.randn(32, 6).astype(np.float32))
y = x[:, :1] * x[:, 1:2]
report("a step", torch.stack([train(net, optimizer, x, y) for _ in range(8)]), net[1].running_mean)
