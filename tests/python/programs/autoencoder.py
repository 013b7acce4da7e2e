"""A variational autoencoder on made-up pictures, with its own loss and float64 weights."""


def run(torch, fill, steps=30):
    from collections import OrderedDict

    nn, F = torch.nn, torch.nn.functional

    class Autoencoder(nn.Module):
        def __init__(self, pixels=36, hidden=24, latent=4):
            super().__init__()
            self.encoder = nn.Sequential(
                OrderedDict(
                    [("flat", nn.Flatten()), ("fc", nn.Linear(pixels, hidden)), ("act", nn.Tanh())]
                )
            )
            self.mean, self.logvar = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
            self.decoder = nn.Sequential(
                nn.Linear(latent, hidden), nn.ELU(), nn.Linear(hidden, pixels), nn.Sigmoid(),
                nn.Unflatten(1, (1, 6, 6)),
            )  # fmt: skip

        def forward(self, x, noise):
            h = self.encoder(x)
            mean, logvar = self.mean(h), self.logvar(h)
            z = mean + noise * torch.exp(0.5 * logvar)
            return self.decoder(z), mean, logvar

    def criterion(out, x, mean, logvar):
        rebuilt = F.binary_cross_entropy(out, x, reduction="sum")
        kl = -0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())
        return (rebuilt + kl) / x.shape[0]

    rows = torch.arange(6, dtype=torch.float64)
    pictures = [
        torch.exp(-((rows[:, None] - r) ** 2 + (rows[None, :] - c) ** 2) / 2)
        for r in range(6)
        for c in range(6)
    ]
    x = torch.stack(pictures).unsqueeze(1)
    assert x.shape == (36, 1, 6, 6) and x.dtype == torch.float64
    model = Autoencoder().double()
    fill(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1 / (1 + 0.05 * t))
    noise = torch.sin(torch.arange(36 * 4, dtype=torch.float64) * 12.9898).view(36, 4)
    losses = []
    for step in range(steps):
        out, mean, logvar = model(x, noise.roll(step, 0))
        loss = criterion(out, x, mean, logvar)
        optimizer.zero_grad()
        loss.backward()
        total = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        assert torch.isfinite(total)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
    names = [n for n, _ in model.encoder.named_children()]
    assert names == ["flat", "fc", "act"]
    return losses
