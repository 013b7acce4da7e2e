"""An LSTM that learns to continue Python source, byte by byte, from the standard library's.

On text that it has not seen it shall need a quarter fewer bits per byte than counting which byte follows
which; otherwise the exit status is 1.
"""

import math
import sys

import pyflame as pf
from pyflame import nn
from pyflame.nn import functional as F
from pyflame.training import text

CONTEXT, GOAL = 64, 0.75


class Model(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.embedding = nn.Embedding(256, 64)
        self.lstm = nn.LSTM(64, width, batch_first=True)
        self.out = nn.Linear(width, 256)

    def forward(self, x, y):
        hidden, _ = self.lstm(self.embedding(x))
        return F.cross_entropy(self.out(hidden).flatten(0, 1), y.flatten())


def by_counting(train, held_out):
    """Bits per byte if each byte is foretold by how often it followed the one before."""
    train, held_out = train.long(), held_out.long()
    seen = (
        pf.bincount(train[:-1] * 256 + train[1:], minlength=65536).reshape(256, 256).float() + 0.05
    )
    share = (seen / seen.sum(1, keepdim=True)).log()
    return -share[held_out[:-1], held_out[1:]].mean().item() / math.log(2)


def bits_per_byte(model, batches, count):
    model.eval()
    with pf.no_grad():
        return sum(model(*batches(i)).item() for i in range(count)) / count / math.log(2)


def main(steps=1000, seed=0):
    pf.manual_seed(seed)
    source = text.standard_library()
    counted = by_counting(source.train, source.held_out)
    train = text.Batches(source.train, 32, CONTEXT, seed)  # random windows and the next bytes

    model = Model()
    optimizer = pf.optim.AdamW(model.parameters(), lr=5e-3)
    schedule = pf.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, steps)
    model.train()
    for step in range(1, steps + 1):
        loss = model(*train(step))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 200 == 0:
            print(f"step {step}: {loss.item() / math.log(2):.2f} bits per byte")
    learnt = bits_per_byte(model, text.Batches(source.held_out, 64, CONTEXT, seed), 16)
    print(f"held out: {learnt:.2f} bits per byte; by counting pairs {counted:.2f}")
    return learnt / counted


if __name__ == "__main__":
    sys.exit(main() > GOAL)
