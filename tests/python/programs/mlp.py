"""A classifier with a DataLoader, a scheduler, evaluation and a saved checkpoint."""

import os
import tempfile


def run(torch, fill, steps=30):
    from importlib import import_module

    nn = torch.nn
    data = import_module(torch.__name__ + ".utils.data")

    class MLP(nn.Module):
        def __init__(self, sizes, dropout=0.0):
            super(MLP, self).__init__()  # noqa: UP008 (as many people write it)
            layers = []
            for a, b in zip(sizes[:-2], sizes[1:-1]):
                layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.SiLU(), nn.Dropout(p=dropout)]
            self.layers = nn.ModuleList(layers)
            self.output_layer = nn.Linear(sizes[-2], sizes[-1])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.output_layer(x)

    grid = torch.linspace(-1, 1, 16)
    a = grid.repeat(16)
    b = grid.unsqueeze(1).expand(16, 16).reshape(-1)
    inputs = torch.stack((a, b, a * b, torch.sin(3 * a)), dim=1)
    labels = (a * a + b * b < 0.5).long() + 2 * (a > b).long()
    dataset = data.TensorDataset(inputs, labels)
    loader = data.DataLoader(dataset, batch_size=64, shuffle=False, drop_last=True)

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = MLP([4, 32, 16, 4]).to(device)
    fill(model)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    losses = []
    for _ in range(steps):
        model.train()
        running = 0.0
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            running += loss.item() * x.size(0)
        schedule.step()
        losses.append(running / len(dataset))

    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in loader:
            predicted = torch.max(model(x.to(device)), 1)[1]
            correct += (predicted == y.to(device)).sum().item()
    assert correct / len(dataset) > 0.8

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.pt")
        torch.save(
            {
                "epoch": steps,
                "model_state_dict": model.state_dict(),
                "optimizer_state_dict": optimizer.state_dict(),
            },
            path,
        )
        checkpoint = torch.load(path, map_location=device)
    other = MLP([4, 32, 16, 4]).to(device)
    inputs = inputs.to(device)
    other.load_state_dict(checkpoint["model_state_dict"])
    other.eval()
    assert checkpoint["epoch"] == steps
    assert torch.allclose(other(inputs), model(inputs))
    assert sum(p.numel() for p in other.parameters() if p.requires_grad) == 852
    return losses
