"""An MLP on scikit-learn's handwritten digits. `pip install scikit-learn` gives the data."""

import numpy as np

import pyflame as pf
from pyflame import nn
from pyflame.utils.data import DataLoader, TensorDataset, random_split


def main(epochs=30):
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = pf.from_numpy((digits.data / 16).astype(np.float32))
    labels = pf.from_numpy(digits.target.astype(np.int64))

    pf.manual_seed(0)
    train, test = random_split(TensorDataset(images, labels), [0.8, 0.2])
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    optimizer = pf.optim.Adam(model.parameters(), lr=3e-3)

    for epoch in range(epochs):
        model.train()
        for x, y in DataLoader(train, batch_size=64, shuffle=True):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with pf.no_grad():
            right = sum(
                (model(x).argmax(1) == y).sum().item() for x, y in DataLoader(test, batch_size=256)
            )
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1}: {right / len(test):.1%} of {len(test)} test images right")
    return right / len(test)


if __name__ == "__main__":
    main()
