"""Residual networks for pictures. Modules and parameters are named as in torchvision, so its weights
load: `model.load_state_dict(pf.safetensors.load_file("resnet50.safetensors"))`."""

from .. import nn

__all__ = ["BasicBlock", "Bottleneck", "ResNet", "resnet18", "resnet34", "resnet50"]


def _conv(inputs, outputs, size, stride=1):
    """A convolution that keeps the size of the picture but for its stride; a norm follows it."""
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)


class BasicBlock(nn.Module):
    """Two convolutions of 3x3 beside a shortcut."""

    expansion = 1

    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = _conv(inplanes, planes, 3, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = _conv(planes, planes, 3)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)) + shortcut)


class Bottleneck(nn.Module):
    """1x1 to fewer channels, 3x3 there, 1x1 back to four times as many, beside a shortcut. The
    stride is that of the 3x3."""

    expansion = 4

    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = _conv(inplanes, planes, 1)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = _conv(planes, planes, 3, stride)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = _conv(planes, planes * self.expansion, 1)
        self.bn3 = nn.BatchNorm2d(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + shortcut)


class ResNet(nn.Module):
    """A residual network of `layers[i]` blocks in its four stages; logits of `num_classes`.

    With `zero_init_residual` each block begins as its shortcut: the last norm's weight is zero.
    torchvision has two more things only by replacing modules: `in_channels`, and `small_input` for
    pictures below about 64 pixels, which begins with a 3x3 convolution of stride 1 and no pooling.
    """

    def __init__(
        self, block, layers, num_classes=1000, zero_init_residual=False, *, in_channels=3,
        small_input=False,
    ):  # fmt: skip
        super().__init__()
        if len(layers) != 4 or min(layers) < 1:
            raise ValueError(
                f"pf.models.ResNet: got layers {layers}; expected the positive numbers of blocks of "
                "four stages"
            )
        self.inplanes = 64
        self.conv1 = _conv(in_channels, 64, 3) if small_input else _conv(in_channels, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.Identity() if small_input else nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = self._stage(block, 64, layers[0], 1)
        self.layer2 = self._stage(block, 128, layers[1], 2)
        self.layer3 = self._stage(block, 256, layers[2], 2)
        self.layer4 = self._stage(block, 512, layers[3], 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif zero_init_residual and isinstance(module, (BasicBlock, Bottleneck)):
                last = module.bn2 if isinstance(module, BasicBlock) else module.bn3
                nn.init.zeros_(last.weight)

    def _stage(self, block, planes, count, stride):
        inputs, self.inplanes = self.inplanes, planes * block.expansion
        downsample = None
        if stride != 1 or inputs != self.inplanes:
            downsample = nn.Sequential(
                _conv(inputs, self.inplanes, 1, stride), nn.BatchNorm2d(self.inplanes)
            )
        first = block(inputs, planes, stride, downsample)
        return nn.Sequential(first, *(block(self.inplanes, planes) for _ in range(count - 1)))

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def resnet18(**arguments):
    """ResNet-18; arguments as of ResNet."""
    return ResNet(BasicBlock, [2, 2, 2, 2], **arguments)


def resnet34(**arguments):
    """ResNet-34; arguments as of ResNet."""
    return ResNet(BasicBlock, [3, 4, 6, 3], **arguments)


def resnet50(**arguments):
    """ResNet-50; arguments as of ResNet."""
    return ResNet(Bottleneck, [3, 4, 6, 3], **arguments)
