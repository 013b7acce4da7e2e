"""A classifier that sees its samples in another order and with other noise in every epoch.

Loader and workers are made anew for each epoch, as many programs do; all that is random follows from
one generator, so a second run is the first again.
"""


def run(torch, fill, steps=12):
    from importlib import import_module

    nn = torch.nn
    data = import_module(torch.__name__ + ".utils.data")

    class Noisy(data.Dataset):
        """Points of two half planes, moved a little each time they are asked for."""

        def __init__(self):
            angles = torch.linspace(0, 6.2, 96)
            self.points = torch.stack((angles.cos(), angles.sin()), dim=1).tolist()

        def __len__(self):
            return len(self.points)

        def __getitem__(self, i):
            x, y = self.points[i]
            moved = torch.rand(2, device="cpu") * 0.1
            return torch.tensor([x, y], device="cpu") + moved, int(x + y > 0), i, moved[0].item()

    def epochs(number):
        torch.manual_seed(1)
        g = torch.Generator().manual_seed(17)
        train, _ = data.random_split(Noisy(), [64, 32], generator=g)
        model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
        fill(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        losses, orders, noise = [], [], []
        for _ in range(number):
            loader = data.DataLoader(train, 16, shuffle=True, num_workers=2, generator=g)
            total, order = 0.0, []
            for x, y, at, moved in loader:
                optimizer.zero_grad()
                device = next(model.parameters()).device
                loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
                loss.backward()
                optimizer.step()
                total += loss.item()
                order += at.tolist()
                noise += moved.tolist()
            losses.append(total / len(loader))
            orders.append(tuple(order))
        assert len(set(orders)) == number, "epochs repeat an order"
        assert all(sorted(o) == sorted(train.indices) for o in orders)
        assert len(set(noise)) == 64 * number, "workers or epochs repeat their noise"
        return losses, orders, noise

    first = epochs(steps)
    assert epochs(2) == tuple(part[: 2 * len(part) // steps] for part in first)
    return first[0]
