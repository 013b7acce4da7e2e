"""GradScaler: losses scaled so that small gradients of 16 bits survive."""

import copy
import pickle

import numpy as np
import pytest

import pyflame as pf
import pyflame.nn.functional as F

RNG = np.random.default_rng(5)


@pytest.fixture
def kind(device):
    """The device_type of the device that the suite runs on."""
    return str(device).split(":")[0]


def one_weight(value=1.0):
    w = pf.tensor([value], requires_grad=True)
    return w, pf.optim.SGD([w], lr=0.5)


def test_scaler_steps_as_without_it():
    w, opt = one_weight()
    scaler = pf.GradScaler(init_scale=1024.0)
    scaled = scaler.scale((3 * w).sum())
    assert scaled.item() == 3 * 1024
    scaled.backward()
    assert w.grad.item() == 3 * 1024
    scaler.step(opt)
    scaler.update()
    assert w.grad.item() == 3 and w.item() == 1 - 0.5 * 3
    assert scaler.get_scale() == 1024


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_overflow_skips_the_step_and_halves_the_scale(bad):
    w = pf.tensor([1.0, 2.0], requires_grad=True)
    opt = pf.optim.AdamW([w], lr=0.1)
    scaler = pf.GradScaler(init_scale=8.0, growth_interval=2)
    scales = []
    for factor in (1.0, bad, 1.0, 1.0, 1.0, 1.0):
        opt.zero_grad()
        before = w.tolist()
        scaler.scale((w * pf.tensor([1.0, factor])).sum()).backward()
        scaler.step(opt)
        scaler.update()
        assert (w.tolist() == before) == (factor is bad)
        scales.append(scaler.get_scale())
    assert scales == [8, 4, 4, 8, 8, 16]
    assert opt.state[w]["step"] == 5


def test_small_float16_gradients_survive(kind):
    def gradient(scale):
        w = pf.ones(8, 8, requires_grad=True)
        with pf.autocast(kind, dtype=pf.float16):
            loss = (F.linear(pf.ones(1, 8), w).float() * 1e-9).sum()
        scaler = pf.GradScaler(init_scale=scale)
        scaler.scale(loss).backward()
        scaler.unscale_(pf.optim.SGD([w], lr=1.0))
        return w.grad

    assert gradient(1.0).abs().max().item() == 0
    np.testing.assert_allclose(gradient(2.0**16).cpu().numpy(), 1e-9, rtol=1e-3)


def test_unscale_then_clip():
    w, opt = one_weight()
    scaler = pf.GradScaler(init_scale=64.0)
    scaler.scale((4 * w).sum()).backward()
    scaler.unscale_(opt)
    assert w.grad.item() == 4
    assert pf.nn.utils.clip_grad_norm_([w], 1.0).item() == 4
    with pytest.raises(RuntimeError, match="update"):
        scaler.unscale_(opt)
    scaler.step(opt)
    np.testing.assert_allclose(w.item(), 0.5, rtol=1e-5)
    with pytest.raises(RuntimeError, match="update"):
        scaler.step(opt)
    scaler.update()


def test_several_optimizers_and_losses():
    (a, opt_a), (b, opt_b) = one_weight(), one_weight()
    scaler = pf.GradScaler(init_scale=2.0)
    one, two = scaler.scale(((3 * a).sum(), (b * np.inf).sum()))
    one.backward()
    two.backward()
    scaler.step(opt_a)
    scaler.step(opt_b)
    scaler.update()
    assert a.item() == -0.5 and b.item() == 1.0 and scaler.get_scale() == 1.0


def test_one_copy_a_step_and_none_beside_it(device):
    if device.type == "cpu":
        pf.set_device("paranoid")  # a device that the host cannot read
    w = pf.tensor([1.0], requires_grad=True)
    opt = pf.optim.AdamW([w], lr=0.5)
    scaler = pf.GradScaler()
    scaler.scale(w.sum()).backward()
    scaler.step(opt)
    scaler.update()

    def copies():
        return pf.debug.stats()["copies_to_host"]

    pf.debug.reset_stats()
    for i in range(3):
        opt.zero_grad()
        scaler.scale(w.sum()).backward()
        scaler.unscale_(opt)
        assert copies() == i
        scaler.step(opt)
        assert copies() == i + 1
        scaler.update()
        assert copies() == i + 1


def test_scale_stays_finite():
    w, opt = one_weight()
    scaler = pf.GradScaler(init_scale=2.0**127, growth_interval=1)
    w.grad = pf.zeros(1)
    scaler.scale(pf.zeros(1))
    scaler.step(opt)
    scaler.update()
    assert scaler.get_scale() == 2.0**127
    scaler.update(16.0)
    assert scaler.get_scale() == 16
    scaler.update(pf.tensor(4.0))
    assert scaler.get_scale() == 4


def test_state_of_the_scaler():
    w, opt = one_weight()
    scaler = pf.GradScaler(init_scale=4.0, growth_interval=3)
    scaler.scale(w.sum()).backward()
    scaler.step(opt)
    with pytest.raises(RuntimeError, match="update"):
        copy.deepcopy(scaler)
    scaler.update()
    state = scaler.state_dict()
    assert state == {
        "scale": 4.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 3,
        "_growth_tracker": 1,
    }
    other = pf.GradScaler()
    other.load_state_dict(state)
    assert other.state_dict() == state == pickle.loads(pickle.dumps(scaler)).state_dict()
    with pytest.raises(RuntimeError, match="empty"):
        other.load_state_dict({})
    off = pf.GradScaler(enabled=False)
    assert off.scale(w) is w and off.state_dict() == {} and off.get_scale() == 1.0
    off.load_state_dict({})
    w.grad = pf.ones(1)
    off.unscale_(opt)
    off.step(opt)
    off.update()


def test_wrong_use_of_the_scaler():
    w, opt = one_weight()
    scaler = pf.GradScaler()
    with pytest.raises(AssertionError, match="scale"):
        scaler.update()
    with pytest.raises(AssertionError, match="gradients"):
        scaler.step(opt)
    with pytest.raises(TypeError):
        scaler.scale(3)
    with pytest.raises(pf.ValueError):
        pf.GradScaler(growth_factor=1.0)
    half = pf.ones(2, dtype=pf.float16, requires_grad=True)
    half.grad = pf.ones(2, dtype=pf.float16)
    with pytest.raises(pf.ValueError, match="float16"):
        scaler.unscale_(pf.optim.SGD([half], lr=1.0))
