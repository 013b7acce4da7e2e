"""The next session's point of control, predicted from past sessions, beside naive guesses.

Hourly prices of the euro in dollars (2017 and 2018), from the files of `pip install backtesting`, or
another CSV with the columns Close and Volume and a date in front, named on the command line. A
session is a day; its point of control is the price at which most was traded. The last fifth of the
sessions is held out. Prices follow no rule that lasts: expect the model near the best naive guess,
not far ahead of it.
"""

import csv
import importlib.util
import sys
from itertools import groupby
from pathlib import Path

import numpy as np

import pyflame as pf
from pyflame.finance import VolumeProfileAnalyzer
from pyflame.models import TabularNet
from pyflame.utils.data import DataLoader, TensorDataset

PAST = 5  # sessions that a prediction looks at


def prices():
    """The file of prices that comes with the package backtesting, which is not imported."""
    package = importlib.util.find_spec("backtesting")
    if package is None:
        sys.exit("pip install --no-deps backtesting   (or name a CSV file of prices)")
    return Path(package.origin).parent / "test" / "EURUSD.csv"


def sessions(path):
    """(close, volume) of each day."""
    with open(path, newline="") as file:
        rows = [
            (row[""][:10], float(row["Close"]), float(row["Volume"]))
            for row in csv.DictReader(file)
        ]
    for _, day in groupby(rows, key=lambda row: row[0]):
        _, close, volume = zip(*day)
        if len(close) >= 12:  # half a day and more
            yield np.array(close), np.array(volume)


def table(path):
    """What is known after each session, what the next one's point of control is, and guesses at it;
    prices as differences from the last close, in basis points of it."""
    analyzer = VolumeProfileAnalyzer(price_precision=0.0005, device="cpu")
    days = [(close, volume, analyzer.profile(close, volume)) for close, volume in sessions(path)]
    features, targets, guesses = [], [], []
    for now in range(PAST - 1, len(days) - 1):
        last = days[now][0][-1]

        def beside(price, last=last):
            return (price / last - 1) * 1e4

        known = []
        for close, volume, profile in days[now - PAST + 1 : now + 1]:
            known += [beside(p) for p in (close[0], close[-1], close.min(), close.max())]
            known += [beside(p) for p in (profile.point_of_control, *profile.value_area)]
            known.append(np.log1p(volume.sum()))
        features.append(known)
        targets.append(beside(days[now + 1][2].point_of_control))
        guesses.append((0.0, beside(days[now][2].point_of_control)))
    return (np.array(a, dtype=np.float32) for a in (features, targets, guesses))


def main(path=None, epochs=40):
    x, y, guesses = table(path or prices())
    held = max(1, len(x) // 5)
    mean, deviation = x[:-held].mean(0), x[:-held].std(0) + 1e-6
    x, scale = pf.from_numpy((x - mean) / deviation), float(y[:-held].std())
    y = pf.from_numpy(y / scale)

    pf.manual_seed(0)
    model = TabularNet(x.shape[1], [32, 16], dropout=0.3)
    optimizer = pf.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.3)
    loader = DataLoader(TensorDataset(x[:-held], y[:-held]), batch_size=16, shuffle=True)
    for _ in range(epochs):
        for features, target in loader:
            loss = pf.nn.functional.smooth_l1_loss(model(features), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    with pf.no_grad():
        predicted = model(x[-held:]).numpy() * scale
    actual = y[-held:].numpy() * scale
    errors = {"the model": np.abs(predicted - actual).mean()}
    for name, guess in zip(("the last close", "the last point of control"), guesses[-held:].T):
        errors[name] = np.abs(guess - actual).mean()
    print(f"{len(x) - held} sessions to learn from, the last {held} held out")
    for name, error in errors.items():
        print(f"{name:>26}: off by {error:.1f} basis points on average")
    return errors


if __name__ == "__main__":
    main(*sys.argv[1:2])
