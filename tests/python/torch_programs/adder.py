"""A trainer with callbacks, data sets and loaders, in the manner of small libraries: adds numbers."""

import argparse
import logging
import os
import random
import time
from collections import defaultdict

import numpy as np
import torch
import torch.nn as nn
import torch.utils.data
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data.dataloader import DataLoader

logger = logging.getLogger(__name__)


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


class Addition(torch.utils.data.Dataset):
    """Digits of a, b and their sum backwards; the model sees all but the last."""

    def __init__(self, split, digits=1):
        self.digits = digits
        every = torch.arange(10 ** (2 * digits))
        order = every[(every * 37) % len(every)]
        test = len(order) // 5
        self.ixes = order[:test] if split == "test" else order[test:]

    def __len__(self):
        return self.ixes.nelement()

    def __getitem__(self, idx):
        a, b = divmod(self.ixes[idx].item(), 10**self.digits)
        text = f"{a:0{self.digits}d}{b:0{self.digits}d}" + f"{a + b:0{self.digits + 1}d}"[::-1]
        dix = [int(s) for s in text]
        x = torch.tensor(dix[:-1], dtype=torch.long)
        y = torch.tensor(dix[1:], dtype=torch.long)
        y[: 2 * self.digits - 1] = -1
        return x, y


class Model(nn.Module):
    def __init__(self, width=32, digits=10, places=3):
        super().__init__()
        self.tokens, self.places = nn.Embedding(digits, width), nn.Embedding(places, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, digits)

    def forward(self, x, targets=None):
        t = x.size(1)
        h = self.tokens(x) + self.places(torch.arange(t, device=x.device))
        mask = nn.Transformer.generate_square_subsequent_mask(t)
        logits = self.head(self.encoder(h, mask=mask, is_causal=True))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(
                logits.reshape(-1, logits.size(-1)), targets.reshape(-1), ignore_index=-1
            )
        return logits, loss


class Trainer:
    def __init__(self, config, model, dataset):
        self.config, self.dataset = config, dataset
        self.callbacks = defaultdict(list)
        if config.device == "auto":
            self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = model.to(self.device)
        self.iter_num, self.iter_time = 0, 0.0

    def add_callback(self, event, callback):
        self.callbacks[event].append(callback)

    def run(self):
        model, config = self.model, self.config
        optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, betas=(0.9, 0.95))
        schedule = LambdaLR(optimizer, lambda i: min(1.0, (i + 1) / 10))
        loader = DataLoader(
            self.dataset,
            sampler=torch.utils.data.RandomSampler(self.dataset, replacement=True, num_samples=10000),
            shuffle=False, pin_memory=True, batch_size=config.batch_size,
            num_workers=config.workers,
        )  # fmt: skip
        model.train()
        for x, y in (tuple(t.to(self.device) for t in batch) for batch in loader):
            logits, self.loss = model(x, y)
            model.zero_grad(set_to_none=True)
            self.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
            optimizer.step()
            schedule.step()
            for callback in self.callbacks["on_batch_end"]:
                callback(self)
            self.iter_num += 1
            self.iter_time = time.time()
            if self.iter_num >= config.max_iters:
                break


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-iters", type=int, default=150)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    set_seed(3407)
    train = Addition("train")
    model = Model()
    trainer = Trainer(args, model, train)
    losses = []
    trainer.add_callback("on_batch_end", lambda t: losses.append(t.loss.item()))
    trainer.run()
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in DataLoader(train, batch_size=100):
            logits, _ = model(x.to(trainer.device))
            guess = logits.argmax(-1).cpu()
            right += ((guess == y) | (y == -1)).all(1).sum().item()
    torch.save(model.state_dict(), os.path.join(os.getcwd(), "adder.pt"))
    print(f"first {np.mean(losses[:10]):.3f} last {np.mean(losses[-10:]):.3f} right {right}")


if __name__ == "__main__":
    main()
