"""A GAN on points of a circle: two optimizers, in-place activations, a gradient penalty."""

import math


def run(torch, fill, steps=120):
    """Returns how far the generator's points are from the circle: means over 30 steps."""
    nn = torch.nn
    generator = nn.Sequential(
        nn.Linear(4, 32),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Linear(32, 32),
        nn.SiLU(inplace=True),
        nn.Linear(32, 2),
    )
    critic = nn.Sequential(
        nn.Linear(2, 32),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Linear(32, 32),
        nn.ELU(inplace=True),
        nn.Linear(32, 1),
    )
    fill(generator)
    fill(critic)
    criterion = nn.BCEWithLogitsLoss()
    to_generate = torch.optim.Adam(generator.parameters(), 3e-3, (0.0, 0.9))
    to_judge = torch.optim.Adam(critic.parameters(), lr=6e-3, betas=(0.0, 0.9))

    def noise(n, width, step):  # the same for everybody who runs this
        i = torch.arange(n * width, dtype=torch.float64) + 1000 * step + 1
        return (((i * 12.9898).sin() * 43758.5453).sin() * 1.5).float().view(n, width)

    fixed, distances = noise(64, 4, 9999), []
    for step in range(steps):
        angle = noise(64, 1, 3 * step).squeeze(1) * math.pi
        real = torch.stack([angle.cos(), angle.sin()], 1)
        for p in critic.parameters():
            p.requires_grad = True
        critic.zero_grad()
        label = torch.full((64,), 1.0, dtype=torch.float, device=real.device)
        criterion(critic(real).view(-1), label).backward()
        fake = generator(noise(64, 4, 3 * step + 1))
        label = torch.zeros_like(label)
        criterion(critic(fake.detach()).view(-1), label).backward()
        share = noise(64, 1, 3 * step + 2).abs().clamp_(max=1)
        mixed = (share * real + (1 - share) * fake.detach()).requires_grad_(True)
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = 0.1 * ((slope.norm(2, dim=1) - 1) ** 2).mean()
        penalty.backward()
        to_judge.step()

        for p in critic.parameters():
            p.requires_grad_(False)
        generator.zero_grad()
        criterion(critic(fake).squeeze(1), torch.ones_like(label)).backward()
        to_generate.step()
        with torch.no_grad():
            distances.append((generator(fixed).norm(dim=1) - 1).abs().mean().item())
    parts = [distances[i : i + 30] for i in range(0, steps, 30)]
    return [sum(part) / len(part) for part in parts]
