"""A diffusion model that draws the digit it is asked for, learnt from scikit-learn's digits.

`pip install scikit-learn` gives the data. A classifier that was trained on real digits shall recognise
90% of the drawn ones as what was asked for (by chance it would be 10%), and those of one digit shall
differ among each other as much as real ones, to a quarter; otherwise the exit status is 1. Writes
diffusion_digits.png.
"""

import math
import sys

import pyflame as pf
from pyflame import nn
from pyflame.nn import functional as F
from pyflame.utils.data import DataLoader
from pyflame.utils.images import save_image

STEPS = 100
GOAL = 0.9


class Denoiser(nn.Module):
    """Of noisy pictures [N, 64], a * picture + b * noise, of given digits at given steps it says
    a * noise - b * picture: with a² + b² = 1 both follow from that without a division."""

    def __init__(self, width=384):
        super().__init__()
        self.register_buffer("rates", (pf.arange(16).float() * (-math.log(100.0) / 16)).exp())
        self.step = nn.Linear(32, width)
        self.digit = nn.Embedding(10, width)
        self.first = nn.Linear(64, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)
            )
            for _ in range(3)
        )
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 64))

    def forward(self, x, t, digit):
        angles = t.float().unsqueeze(1) * self.rates
        about = self.step(pf.cat([angles.sin(), angles.cos()], 1)) + self.digit(digit)
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x + about)
        return self.last(x)


# How much of a picture's variance is left after each step: nearly all to nearly none.
turns = (pf.arange(STEPS).float() + 1) / (STEPS + 1) * (math.pi / 2)
LEFT = turns.cos() ** 2


def train_denoiser(images, labels, epochs):
    model = Denoiser()
    loader = DataLoader(pf.utils.data.TensorDataset(images, labels), 128, shuffle=True)
    optimizer = pf.optim.Adam(model.parameters(), lr=2e-3)
    schedule = pf.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, epochs * len(loader))
    for epoch in range(1, epochs + 1):
        for x, digit in loader:
            t, noise = pf.randint(0, STEPS, (len(x),)), pf.randn_like(x)
            left = LEFT[t].unsqueeze(1)
            a, b = left.sqrt(), (1 - left).sqrt()
            loss = F.mse_loss(model(a * x + b * noise, t, digit), a * noise - b * x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if epoch % 20 == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}")
    return model.eval()


@pf.no_grad()
def draw(model, digit):
    """Pictures of the digits, from noise, step by step."""
    x = pf.randn(len(digit), 64)
    for t in reversed(range(STEPS)):
        said = model(x, pf.full((len(digit),), t), digit)
        a, b = LEFT[t].sqrt(), (1 - LEFT[t]).sqrt()
        picture, noise = a * x - b * said, b * x + a * said
        if t:
            x = LEFT[t - 1].sqrt() * picture + (1 - LEFT[t - 1]).sqrt() * noise
    return picture


def train_classifier(images, labels, epochs=30):
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10))
    optimizer = pf.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        for x, y in DataLoader(pf.utils.data.TensorDataset(images, labels), 64, shuffle=True):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


def spread(images, labels):
    """How far pictures are from the mean of their digit, as a root of a mean square."""
    means = pf.stack([images[labels == digit].mean(0) for digit in range(10)])
    return ((images - means[labels]) ** 2).mean().sqrt().item()


def main(epochs=80, seed=0):
    pf.manual_seed(seed)
    images, labels = pf.datasets.Digits().tensors
    images = images.flatten(1) * 2 - 1
    asked = pf.arange(500) % 10
    drawn = draw(train_denoiser(images, labels, epochs), asked)
    save_image(drawn[:100].reshape(-1, 1, 8, 8) / 2 + 0.5, "diffusion_digits.png", nrow=10)

    classifier = train_classifier(images, labels)
    with pf.no_grad():
        share = (classifier(drawn).argmax(1) == asked).float().mean().item()
    ratio = spread(drawn, asked) / spread(images, labels)
    print(
        f"{share:.1%} of {len(asked)} drawn digits are recognised; they differ {ratio:.2f} times as"
    )
    print("much as real ones")
    return share, ratio


if __name__ == "__main__":
    share, ratio = main()
    sys.exit(share < GOAL or not 0.75 < ratio < 1.25)
