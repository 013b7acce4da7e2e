"""A variational autoencoder on scikit-learn's handwritten digits, which then draws some of its own.

`pip install scikit-learn` gives the data. The bound on the bits of pictures that it has not learnt from
shall be at least a tenth better than what is possible for pixels that know nothing of each other;
otherwise the exit status is 1. Writes vae_digits.png.
"""

import math
import sys

import pyflame as pf
from pyflame import nn
from pyflame.nn import functional as F
from pyflame.utils.data import DataLoader, random_split
from pyflame.utils.images import save_image

LEVELS = 17  # a pixel is an integer from 0 to 16
GOAL = 0.9  # of the bits of independent pixels


class VAE(nn.Module):
    def __init__(self, latent=8, width=256):
        super().__init__()
        self.latent = latent
        self.encoder = nn.Sequential(
            nn.Linear(64, width), nn.GELU(), nn.Dropout(0.2), nn.Linear(width, 2 * latent)
        )
        self.decoder = nn.Sequential(
            nn.Linear(latent, width), nn.GELU(), nn.Dropout(0.2), nn.Linear(width, 64 * LEVELS)
        )

    def forward(self, x):
        """The negative bound on log p(x) of each picture, in nats."""
        mean, log_var = self.encoder(x / 8 - 1).chunk(2, 1)
        z = mean + pf.randn_like(mean) * (log_var / 2).exp()
        logits = self.decoder(z).reshape(-1, LEVELS)
        pixels = F.cross_entropy(logits, x.long().flatten(), reduction="none").reshape(-1, 64)
        to_prior = (mean**2 + log_var.exp() - log_var - 1) / 2
        return pixels.sum(1) + to_prior.sum(1)

    def sample(self, count):
        logits = self.decoder(pf.randn(count, self.latent)).reshape(count, 64, LEVELS)
        expected = logits.softmax(2) @ pf.arange(LEVELS).float()  # of each pixel
        return expected.reshape(count, 1, 8, 8) / (LEVELS - 1)


def independent_pixels(train, test):
    """Bits a pixel if each is coded by how often its values were seen at its place."""
    seen = F.one_hot(train.long(), LEVELS).float().sum(0) + 0.5
    log_share = (seen / seen.sum(1, keepdim=True)).log().unsqueeze(0).expand(len(test), -1, -1)
    return -log_share.gather(2, test.long().unsqueeze(2)).mean().item() / math.log(2)


def main(epochs=50, seed=0):
    pf.manual_seed(seed)
    images = pf.datasets.Digits().tensors[0].flatten(1) * (LEVELS - 1)
    train, test = (images[part.indices] for part in random_split(images, [0.8, 0.2]))
    baseline = independent_pixels(train, test)

    model = VAE()
    loader = DataLoader(pf.utils.data.TensorDataset(train), 64, shuffle=True)
    optimizer = pf.optim.Adam(model.parameters(), lr=2e-3)
    schedule = pf.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, epochs * len(loader))
    for _ in range(epochs):
        for (x,) in loader:
            loss = model(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()

    model.eval()
    with pf.no_grad():
        bound = sum(model(test).mean().item() for _ in range(8)) / 8 / 64 / math.log(2)
        save_image(model.sample(40), "vae_digits.png", nrow=10)
    print(f"bound {bound:.3f} bits a pixel; independent pixels {baseline:.3f}")
    return bound / baseline


if __name__ == "__main__":
    sys.exit(main() > GOAL)
