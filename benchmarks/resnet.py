"""Residual networks as people write them for PyTorch, with the module as a parameter.

torchvision's, without torchvision: the two sides of a benchmark run the same program.
"""

BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}


def ResNet(torch, depth, classes=1000):
    nn = torch.nn
    deep = depth >= 50

    def conv(inputs, outputs, size, stride=1):
        return nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)

    class Block(nn.Module):
        def __init__(self, inputs, planes, stride):
            super().__init__()
            outputs = planes * (4 if deep else 1)
            if deep:
                convs = [conv(inputs, planes, 1), conv(planes, planes, 3, stride)]
                convs += [conv(planes, outputs, 1)]
            else:
                convs = [conv(inputs, planes, 3, stride), conv(planes, planes, 3)]
            self.convs = nn.ModuleList(convs)
            self.norms = nn.ModuleList([nn.BatchNorm2d(c.out_channels) for c in convs])
            self.relu = nn.ReLU(inplace=True)
            self.shortcut = None
            if stride != 1 or inputs != outputs:
                self.shortcut = nn.Sequential(
                    conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)
                )

        def forward(self, x):
            y = x
            for i, (c, norm) in enumerate(zip(self.convs, self.norms)):
                y = norm(c(y))
                if i + 1 < len(self.convs):
                    y = self.relu(y)
            return self.relu(y + (x if self.shortcut is None else self.shortcut(x)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = conv(3, 64, 7, 2)
            self.norm = nn.BatchNorm2d(64)
            self.relu = nn.ReLU(inplace=True)
            self.pool = nn.MaxPool2d(3, stride=2, padding=1)
            blocks, width = [], 64
            for stage, count in enumerate(BLOCKS[depth]):
                planes = 64 << stage
                for i in range(count):
                    blocks.append(Block(width, planes, 2 if stage and not i else 1))
                    width = planes * (4 if deep else 1)
            self.blocks = nn.Sequential(*blocks)
            self.mean = nn.AdaptiveAvgPool2d(1)
            self.head = nn.Linear(width, classes)

        def forward(self, x):
            x = self.pool(self.relu(self.norm(self.stem(x))))
            return self.head(self.mean(self.blocks(x)).flatten(1))

    return Model()


def laid(torch, channels_last, *given):
    """Models and pictures, which lie channels-last where asked."""
    if not channels_last:
        return given
    return [t.to(memory_format=torch.channels_last) for t in given]


def training(torch, depth, batch, size, device, autocast, channels_last, compiled=None, **casts):
    """(a step of SGD with momentum on pictures and their classes, random pictures); `compiled` makes
    the loss quicker, `casts`: further options of autocast."""
    model = ResNet(torch, depth).to(device)
    x = torch.randn(batch, 3, size, size, device=device)
    model, x = laid(torch, channels_last, model, x)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    casts |= {
        "device_type": "cpu" if device == "cpu" else "cuda",
        "dtype": torch.bfloat16,
        "enabled": autocast,
    }

    def loss_of(x, y):
        return torch.nn.functional.cross_entropy(model(x), y)

    if compiled:
        loss_of = compiled(loss_of)

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(**casts):
            loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss

    return step, x


def training_step(torch, depth, batch, size, device, autocast, channels_last):
    """One step on the same pictures each time."""
    step, x = training(torch, depth, batch, size, device, autocast, channels_last)
    y = torch.randint(0, 1000, (batch,), device=device)

    def run():
        step(x, y)

    return run


def inference(torch, depth, batch, size, device, dtype, channels_last):
    """Logits of a model in evaluation."""
    model = ResNet(torch, depth).to(device).to(dtype).eval()
    x = torch.randn(batch, 3, size, size, device=device).to(dtype)
    model, x = laid(torch, channels_last, model, x)

    def run():
        with torch.no_grad():
            return model(x)

    return run
