"""pyflame.models.resnet: names and sizes as torchvision has them, forward against NumPy."""

import numpy as np
import pytest

import pyflame as pf
from pyflame import nn
from pyflame.models import ResNet, resnet18, resnet34, resnet50
from pyflame.models.resnet import BasicBlock, Bottleneck

pytestmark = pytest.mark.skipif(
    not hasattr(nn, "MaxPool2d"), reason="pooling is not there yet (branch pool)"
)
LAYERS = {resnet18: (2, 2, 2, 2), resnet34: (3, 4, 6, 3), resnet50: (3, 4, 6, 3)}


def expected(layers, bottleneck):
    """Names and shapes of the state, from the description of the network alone."""
    state = {}

    def conv(name, outputs, inputs, size):
        state[f"{name}.weight"] = (outputs, inputs, size, size)

    def norm(name, channels):
        for part in ("weight", "bias", "running_mean", "running_var"):
            state[f"{name}.{part}"] = (channels,)
        state[f"{name}.num_batches_tracked"] = ()

    conv("conv1", 64, 3, 7)
    norm("bn1", 64)
    inputs = 64
    for stage, count in enumerate(layers):
        planes = 64 * 2**stage
        outputs = planes * (4 if bottleneck else 1)
        for i in range(count):
            block = f"layer{stage + 1}.{i}"
            sizes = (
                [(inputs, planes, 1), (planes, planes, 3), (planes, outputs, 1)]
                if bottleneck
                else [(inputs, planes, 3), (planes, planes, 3)]
            )
            for n, (a, b, size) in enumerate(sizes, 1):
                conv(f"{block}.conv{n}", b, a, size)
                norm(f"{block}.bn{n}", b)
            if i == 0 and (stage > 0 or inputs != outputs):
                conv(f"{block}.downsample.0", outputs, inputs, 1)
                norm(f"{block}.downsample.1", outputs)
            inputs = outputs
    state["fc.weight"], state["fc.bias"] = (1000, inputs), (1000,)
    return state


@pytest.mark.parametrize(
    "make, count", [(resnet18, 11_689_512), (resnet34, 21_797_672), (resnet50, 25_557_032)]
)
def test_names_and_shapes(make, count):
    model = make()
    assert sum(p.numel() for p in model.parameters()) == count
    state = {name: tuple(t.shape) for name, t in model.state_dict().items()}
    want = expected(LAYERS[make], make is resnet50)
    assert state == want and list(state) == list(want)
    children = "conv1 bn1 relu maxpool layer1 layer2 layer3 layer4 avgpool fc".split()
    assert [name for name, _ in model.named_children()] == children


def conv(x, weight, stride, padding):
    x = np.pad(x, ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2))
    size = weight.shape[2]
    high, wide = ((n - size) // stride + 1 for n in x.shape[2:])
    return sum(
        np.einsum(
            "nchw,oc->nohw",
            x[:, :, i : i + stride * high : stride, j : j + stride * wide : stride][
                :, :, :high, :wide
            ],
            weight[:, :, i, j],
            optimize=True,
        )
        for i in range(size)
        for j in range(size)
    )


def forward(state, x, stages, bottleneck, small):
    """The network written once more, in NumPy, from its state."""

    def block_conv(x, name, norm, stride, padding):
        x = conv(x, state[f"{name}.weight"], stride, padding)
        w, b, mean, var = (
            state[f"{norm}.{part}"][:, None, None]
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        return (x - mean) / np.sqrt(var + 1e-5) * w + b

    def relu(x):
        return np.maximum(x, 0)

    x = relu(block_conv(x, "conv1", "bn1", 1 if small else 2, 1 if small else 3))
    if not small:
        x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        x = windows[:, :, ::2, ::2].max((4, 5))
    for stage in range(4):
        for i in range(stages[stage]):
            name, stride = f"layer{stage + 1}.{i}", 2 if stage and not i else 1
            shortcut = x
            if f"{name}.downsample.0.weight" in state:
                shortcut = block_conv(x, f"{name}.downsample.0", f"{name}.downsample.1", stride, 0)
            steps = [(1, 0), (stride, 1), (1, 0)] if bottleneck else [(stride, 1), (1, 1)]
            for n, (s, p) in enumerate(steps, 1):
                x = block_conv(x, f"{name}.conv{n}", f"{name}.bn{n}", s, p)
                x = relu(x) if n < len(steps) else x
            x = relu(x + shortcut)
    return x.mean((2, 3)) @ state["fc.weight"].T + state["fc.bias"]


@pytest.mark.parametrize("block, stages", [(BasicBlock, (1, 2, 1, 1)), (Bottleneck, (1, 1, 2, 1))])
@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("layout", [pf.contiguous_format, pf.channels_last])
def test_forward(block, stages, small, layout):
    pf.manual_seed(0)
    model = ResNet(block, stages, num_classes=7, in_channels=2, small_input=small)
    for module in model.modules():  # statistics that are not those of the start
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.2, 0.2)
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 1)
            nn.init.uniform_(module.bias, -0.2, 0.2)
    model.eval().to(memory_format=layout)
    size = 11 if small else 37
    x = pf.randn(2, 2, size, size).contiguous(memory_format=layout)
    state = {name: t.cpu().numpy().astype(np.float64) for name, t in model.state_dict().items()}
    want = forward(state, x.cpu().numpy().astype(np.float64), stages, block is Bottleneck, small)
    got = model(x).detach().cpu().numpy()
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4 * np.abs(want).max())


@pytest.mark.parametrize("block", [BasicBlock, Bottleneck])
def test_zero_init_residual(block):
    """Blocks without a convolution in their shortcut begin as the identity of what is positive."""
    model = ResNet(block, (2, 1, 1, 1), zero_init_residual=True, small_input=True)
    x = pf.rand(2, 64 * block.expansion, 5, 5)
    y = model.layer1[1](x)
    np.testing.assert_allclose(y.detach().cpu().numpy(), x.cpu().numpy(), atol=1e-6)
    last = "bn2" if block is BasicBlock else "bn3"
    zero = {n for n, p in model.named_parameters() if ".bn" in n and n.endswith("weight")
            and not p.detach().abs().sum().item()}  # fmt: skip
    assert zero == {
        f"layer{s}.{i}.{last}.weight" for s, i in ((1, 0), (1, 1), (2, 0), (3, 0), (4, 0))
    }


@pytest.mark.cpu_only  # too much for the stand-in, where its layers are tested by themselves
def test_training_and_files(tmp_path):
    pf.manual_seed(0)
    model = ResNet(BasicBlock, (1, 1, 1, 1), num_classes=3, small_input=True)
    x, y = pf.randn(6, 3, 8, 8), pf.arange(6) % 3
    optimizer = pf.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(8):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(p.grad is not None for p in model.parameters())
    assert losses[-1] < losses[0] / 2
    pf.safetensors.save_file(model.state_dict(), tmp_path / "w.safetensors")
    other = ResNet(BasicBlock, (1, 1, 1, 1), num_classes=3, small_input=True)
    other.load_state_dict(pf.safetensors.load_file(tmp_path / "w.safetensors"), strict=True)
    np.testing.assert_array_equal(
        other.eval()(x).detach().cpu().numpy(), model.eval()(x).detach().cpu().numpy()
    )


def test_wrong_layers():
    for layers in ((1, 1, 1), (1, 0, 1, 1)):
        with pytest.raises(ValueError, match="pf.models.ResNet: got layers"):
            ResNet(BasicBlock, layers)
