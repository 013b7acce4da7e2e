"""Daemon threads compute while the interpreter ends: the program's own exit status, nothing said."""

import random
import re

from harness import Finding, Victim, rounds

LEAVES = """
import random, sys, threading, time
import pyflame as pf

dice = random.Random(int(sys.argv[1]))


def products():
    a, w = pf.randn(300, 300), pf.randn(300, 300, requires_grad=True)
    while True:
        (a @ w).sum().backward()


def small():
    while True:
        for i in range(10):
            (pf.ones(10) + i).tolist()


def hooks():
    x = pf.randn(300000, requires_grad=True)
    x.register_hook(lambda g: g * sum(range(1000)))
    while True:
        (x * 2).sum().backward()


def numpy():
    while True:
        pf.randn(300000).numpy().sum()
        pf.tensor([[1.0, 2.0]] * 1000)


class Twice(pf.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * sum(1 for _ in range(2000)) / 1000


def functions():
    x = pf.randn(200000, requires_grad=True)
    while True:
        Twice.apply(x).sum().backward()


class Squares(pf.utils.data.Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, i):
        return pf.full((100,), float(i * i))


def loader():
    while True:
        for batch in pf.utils.data.DataLoader(Squares(), batch_size=10, num_workers=dice.choice([0, 1])):
            batch.sum().item()


jobs = [products, small, hooks, numpy, functions, loader]
for _ in range(dice.randrange(1, 6)):
    threading.Thread(target=dice.choice(jobs), daemon=True).start()
time.sleep(dice.random() * 0.3)
kept = pf.randn(1000) + 1  # recorded, not run
sys.exit(7)
"""


def run(seed: int, seconds: float) -> None:
    dice = random.Random(seed)
    for _ in rounds(seconds, 3):
        its = dice.randrange(10**6)
        ended = Victim(LEAVES, its).end(60)
        # A loader in a daemon thread may see its workers go, and says so, if it comes that far.
        text = ended.err.rstrip()
        said = "(loader)" in text or re.fullmatch(r"Exception in thread( Thread-\d*)?", text)
        if ended.status != 7 or (text and not said):
            raise Finding(f"seed {its}: {ended}")
