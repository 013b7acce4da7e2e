"""Weights that convolutions keep in panels between calls without gradients (src/core/kept.h)."""

import gc
import os
import threading

import numpy as np
import pytest

import pyflame as pf
from pyflame import nn

F = nn.functional

# Sums over taps; few pixels as one product; the same with odd sizes and groups; transposed.
LAYERS = {
    "taps": (lambda: nn.Conv2d(12, 40, 3, padding=1), (1, 12, 17, 19)),
    "groups": (lambda: nn.Conv2d(12, 40, 3, 2, groups=2), (2, 12, 17, 19)),
    "flat": (lambda: nn.Conv2d(40, 130, 3, padding=1), (1, 40, 7, 7)),
    "flat strided": (lambda: nn.Conv2d(64, 133, 3, 2, 1), (2, 64, 9, 7)),
    "flat tiny": (lambda: nn.Conv2d(128, 256, 2), (1, 128, 3, 3)),
    "volume": (lambda: nn.Conv3d(16, 48, 3, padding=1), (1, 16, 3, 4, 5)),
    "transposed": (lambda: nn.ConvTranspose2d(24, 20, 3, 2, 1), (1, 24, 9, 9)),
}
on_cpu = pytest.mark.skipif(
    os.environ.get("PYFLAME_TEST_DEVICE", "cpu") != "cpu" or "PYFLAME_EAGER" in os.environ,
    reason="only recorded calls on the CPU keep weights",
)


def made(name, dtype=pf.float32, last=False):
    layer, shape = LAYERS[name]
    pf.manual_seed(3)
    layer, x = layer().to(dtype).eval(), pf.randn(*shape, dtype=dtype)
    if last and len(shape) == 4:
        layer, x = layer.to(memory_format=pf.channels_last), x.to(memory_format=pf.channels_last)
    return layer, x


def same(a, b):
    return np.array_equal(a.detach().numpy(), b, equal_nan=True)


def fresh(layer, x):
    """What a layer that was never called before says."""
    other = type(layer).__new__(type(layer))
    other.__dict__.update(layer.__dict__)
    other._parameters = {
        n: None if p is None else nn.Parameter(p.detach().clone())
        for n, p in layer._parameters.items()
    }
    with pf.no_grad():
        return other(x).numpy().copy()


def allocated():
    gc.collect()
    return pf.debug.memory_stats("cpu")["allocated"]


@pytest.mark.parametrize("dtype", [pf.float32, pf.float64])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_bits_are_those_of_the_first_call_and_of_training(name, last, dtype):
    layer, x = made(name, dtype, last)
    trained = layer(x).detach().numpy().copy()
    with pf.no_grad():
        for _ in range(4):
            assert same(layer(x), trained)
        assert same(layer(x[..., :-1]), fresh(layer, x[..., :-1]))
        assert same(layer(x), trained)


@pytest.mark.parametrize("name", LAYERS)
def test_writes_between_calls_are_seen(name):
    layer, x = made(name)
    state = {k: v.clone() for k, v in layer.state_dict().items()}

    def check():
        with pf.no_grad():
            for _ in range(3):
                assert same(layer(x), fresh(layer, x))

    check()
    with pf.no_grad():
        layer.weight.mul_(2)
    check()
    with pf.no_grad():
        layer.weight[1, 1] = 3.0
    check()
    with pf.no_grad():  # recorded together with a call, behind it and before it
        layer(x)
        late = layer(x)
        layer.weight.add_(1)
        after = layer(x)
        assert same(after, fresh(layer, x))
        assert not same(late, after.numpy())
    check()
    layer.weight.data.mul_(0.5)
    check()
    layer.weight.data = layer.weight.data + 1
    check()
    layer.load_state_dict(state)
    check()
    layer.train()
    for optimizer in (pf.optim.SGD, pf.optim.Adam):
        step = optimizer(layer.parameters(), lr=0.1)
        layer(x).sum().backward()
        step.step()
        check()
    layer.eval()
    check()


@pytest.mark.parametrize("name", ["taps", "flat"])
def test_memory_that_others_write_is_never_kept(name):
    layer, x = made(name)
    w = layer.weight.detach().numpy().copy()
    for weight in (pf.from_numpy(w), pf.from_dlpack(w)):
        with pf.no_grad():
            for i in range(4):
                w[:] = np.float32(i + 1) / 8
                expected = F.conv2d(x, pf.tensor(w.copy()), padding=layer.padding).numpy()
                assert same(F.conv2d(x, weight, padding=layer.padding), expected)
    with pf.no_grad():
        for _ in range(3):
            layer(x)
        seen = layer.weight.detach().numpy()  # from here on NumPy may write
        if not np.shares_memory(seen, layer.weight.detach().numpy()):
            return  # of another device: a copy
        seen[:] = 0.5
        assert same(layer(x), fresh(layer, x))
        seen[:] = 0.25
        assert same(layer(x), fresh(layer, x))


@pytest.mark.parametrize("name", ["taps", "flat"])
def test_parts_and_expanded_weights(name):
    layer, x = made(name)
    many = pf.cat([layer.weight.detach(), layer.weight.detach() * 2])
    n = layer.out_channels
    one = layer.weight.detach()[:1].clone().expand(n, -1, -1, -1)
    weights = [many[:n], many[n:], many[n // 2 : n // 2 + n], many[::2], one]
    with pf.no_grad():
        first = [F.conv2d(x, w, padding=1).numpy().copy() for w in weights]
        for w, y in zip(weights, first):  # which kernel it is follows from how weights lie
            np.testing.assert_allclose(F.conv2d(x, w.clone(), padding=1).numpy(), y, 1e-4, 1e-4)
        for _ in range(3):
            for w, y in zip(weights, first):
                assert same(F.conv2d(x, w, padding=1), y)
        many.zero_()
        assert same(F.conv2d(x, weights[1], padding=1), np.zeros(first[1].shape, np.float32))


@on_cpu
@pytest.mark.parametrize("name", ["taps", "flat"])
def test_what_is_kept_is_counted_and_goes_with_the_weights(name):
    before = allocated()
    layer, x = made(name)
    with pf.no_grad():
        layer(x).numpy()
        once = allocated()
        for _ in range(3):
            layer(x).numpy()
        kept = allocated()
        assert kept - once >= layer.weight.nbytes
        layer.weight.add_(1)
        layer(x).numpy()  # of the first call with a version nothing is kept
        assert allocated() < kept
        for _ in range(3):
            layer(x).numpy()
        assert allocated() == kept
        pf.memory.empty_cache()
        assert allocated() <= once
        for _ in range(3):
            layer(x).numpy()
    del layer, x
    assert allocated() <= before


@on_cpu
def test_a_limit_on_memory_holds_and_what_is_kept_makes_room():
    pf.manual_seed(3)
    layer, x = nn.Conv2d(512, 512, 3, padding=1).eval(), pf.randn(1, 512, 7, 7)  # 9 MiB
    with pf.no_grad():
        expected = layer(x).numpy().copy()
        before = allocated()
        for _ in range(3):
            layer(x).numpy()
        kept = allocated() - before
        assert kept >= layer.weight.nbytes
        try:
            pf.memory.empty_cache("cpu")
            # Too little is left for keeping anything: the layer works as it did.
            pf.memory.set_memory_limit(pf.memory.memory_reserved("cpu") + (16 << 20), "cpu")
            for _ in range(4):
                assert same(layer(x), expected)
            assert allocated() < before + kept
            # With room it is kept; what needs that room gets it.
            limit = pf.memory.memory_reserved("cpu") + (64 << 20)
            pf.memory.set_memory_limit(limit, "cpu")
            for _ in range(4):
                assert same(layer(x), expected)
            assert allocated() >= before + kept
            room = limit - allocated() + (4 << 20)
            large = pf.zeros(room // 4 // 1024 * 1024)
            large.numpy()
            assert allocated() < before + kept + large.nbytes
            assert pf.memory.memory_reserved("cpu") <= limit
            del large
            assert same(layer(x), expected)
        finally:
            pf.memory.set_memory_limit(0, "cpu")


@on_cpu
@pytest.mark.parametrize("name", ["taps", "flat"])
def test_training_keeps_nothing(name):
    layer, x = made(name)
    layer(x).sum().backward()
    before = allocated()
    for _ in range(4):
        layer(x).sum().backward()
    assert allocated() <= before


@on_cpu
def test_two_threads_call_the_same_layer():
    layers = [made(name) for name in ("taps", "flat")]
    expected = [fresh(*pair) for pair in layers]
    wrong = []
    gate = threading.Barrier(3)

    def work():
        gate.wait()
        with pf.no_grad():
            for _ in range(20):
                for (layer, x), right in zip(layers, expected):
                    if not same(layer(x), right):
                        wrong.append(layer)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
