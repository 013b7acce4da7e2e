"""A toy vision transformer: patches by reshape and permute, a class token, gradient accumulation."""

import copy


def run(torch, fill, steps=30):
    nn, F = torch.nn, torch.nn.functional

    class PatchEmbed(nn.Module):
        def __init__(self, size, channels, dim):
            super().__init__()
            self.size = size
            self.proj = nn.Linear(channels * size * size, dim)

        def forward(self, x):
            b, c, h, w = x.shape
            p = self.size
            x = x.reshape(b, c, h // p, p, w // p, p)
            x = x.permute(0, 2, 4, 1, 3, 5).flatten(1, 2).flatten(2)
            return self.proj(x)

    class Block(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
            self.qkv, self.out = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)
            self.mlp = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

        def attend(self, x):
            b, n, d = x.shape
            q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            a = (q @ k.mT) * (d // self.heads) ** -0.5
            return self.out((a.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))

        def forward(self, x):
            x = x + self.attend(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class ViT(nn.Module):
        def __init__(self, dim=16, depth=2):
            super().__init__()
            self.patches = PatchEmbed(4, 3, dim)
            self.token = nn.Parameter(torch.zeros(1, 1, dim))
            self.position = nn.Parameter(torch.randn(1, 5, dim) * 0.02)
            self.blocks = nn.Sequential(*[Block(dim, 2) for _ in range(depth)])
            self.norm = nn.LayerNorm(dim)
            self.head = nn.Linear(dim, 3)

        def forward(self, x):
            x = self.patches(x)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
            return self.head(self.norm(self.blocks(x))[:, 0])

    wave = torch.arange(12 * 3 * 8 * 8, dtype=torch.float32).view(12, 3, 8, 8)
    labels = torch.arange(12) % 3
    images = torch.sin(wave * (0.1 + labels.float() * 0.05)[:, None, None, None])
    model = ViT()
    fill(model)
    average = copy.deepcopy(model).eval()
    average.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(images.split(4), labels.chunk(3)):
            loss = F.cross_entropy(model(x), y) / 3
            loss.backward()
            total += loss.item()
        optimizer.step()
        with torch.no_grad():
            for slow, p in zip(average.parameters(), model.parameters()):
                slow.mul_(0.9).add_(p, alpha=0.1)
        losses.append(total)
    with torch.no_grad():
        guess = average(images).argmax(dim=-1)
    assert guess.shape == (12,) and guess.dtype == torch.int64
    # Gradients of gradients: a penalty on the slope at the input.
    x = images[:4].clone().requires_grad_()
    score = torch.logsumexp(model(x), dim=-1).sum()
    (slope,) = torch.autograd.grad(score, x, create_graph=True)
    penalty = ((slope.flatten(1).norm(dim=1) - 1) ** 2).mean()
    optimizer.zero_grad()
    penalty.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    return losses
