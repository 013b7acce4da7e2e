"""pyflame.transforms against the same thing done to one picture at a time."""

import colorsys
import math

import numpy as np
import pytest

import pyflame as pf
from pyflame import transforms as T


def pictures(*shape, dtype=pf.float32):
    x = pf.rand(shape, device="cpu")
    return ((x * 255) if dtype == pf.uint8 else x).to(dtype).to(pf.get_device())


def seeded(number):
    return pf.Generator().manual_seed(number)


RANDOM = (
    lambda g: T.RandomCrop(5, padding=2, generator=g),
    lambda g: T.RandomHorizontalFlip(generator=g),
    lambda g: T.RandomResizedCrop((5, 4), generator=g),
    lambda g: T.RandomErasing(p=0.7, value="random", generator=g),
    lambda g: T.ColorJitter(0.4, 0.4, 0.4, 0.2, generator=g),
)


@pytest.mark.parametrize("make", RANDOM)
def test_random_ones_follow_their_generator(make):
    x = pictures(16, 3, 6, 7)
    first, again, other = (make(seeded(n))(x).cpu().numpy() for n in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    transform = make(None)
    pf.manual_seed(3)
    a, b = transform(x).cpu().numpy(), transform(x).cpu().numpy()
    pf.manual_seed(3)
    np.testing.assert_array_equal(transform(x).cpu().numpy(), a)
    assert (a != b).any()
    one = x[:1].expand(16, 3, 6, 7)  # the same picture: each copy has a decision of its own
    assert len({p.tobytes() for p in make(seeded(1))(one).cpu().numpy()}) > 1


@pytest.mark.parametrize("make", [*RANDOM, lambda g: T.CenterCrop((3, 9)), lambda g: T.Resize(4)])
def test_shapes(make):
    for shape in ((3, 6, 7), (0, 3, 6, 7), (1, 3, 6, 7), (2, 4, 3, 6, 7)):
        x = pictures(*shape)
        y = make(None)(x)
        assert y.shape[:-2] == x.shape[:-2] and y.dtype == x.dtype and y.device == x.device
    x = pictures(4, 3, 6, 7)
    last = make(seeded(1))(x.contiguous(memory_format=pf.channels_last))
    np.testing.assert_array_equal(last.cpu().numpy(), make(seeded(1))(x).cpu().numpy())
    for wrong in (pf.ones(3, 3), np.ones((3, 4, 4))):
        with pytest.raises((pf.ShapeError, TypeError), match="pf.transforms"):
            make(None)(wrong)


@pytest.mark.parametrize("dtype", [pf.uint8, pf.float32, pf.float16])
def test_random_crop_is_a_part(dtype):
    x = pictures(40, 2, 5, 4, dtype=dtype)
    y = T.RandomCrop((4, 3), padding=(1, 2, 0, 1))(x).cpu()
    whole = np.pad(x.cpu().numpy(), ((0, 0), (0, 0), (2, 1), (1, 0)))
    places = set()
    for picture, part in zip(whole, y.numpy()):
        found = [
            (i, j) for i in range(5) for j in range(3)
            if (picture[:, i : i + 4, j : j + 3] == part).all()
        ]  # fmt: skip
        assert found
        places.update(found)
    assert len(places) > 10
    edge = T.RandomCrop(5, padding=1, padding_mode="reflect")(x.float())
    assert edge.shape == (40, 2, 5, 5)
    with pytest.raises(pf.ShapeError, match="at least 9x9"):
        T.RandomCrop(9)(x)


def test_flip():
    x = pictures(400, 1, 2, 3)
    y = T.RandomHorizontalFlip(0.25, generator=seeded(0))(x).cpu().numpy()
    flipped = (y == x.cpu().numpy()[..., ::-1]).all((1, 2, 3))
    same = (y == x.cpu().numpy()).all((1, 2, 3))
    assert (flipped ^ same).all() and 60 < flipped.sum() < 140
    np.testing.assert_array_equal(T.RandomHorizontalFlip(1)(x).cpu(), x.flip(-1).cpu())


def test_erasing():
    x = pictures(300, 3, 12, 10) + 1
    y = T.RandomErasing(0.5, value=(0, -1, -2), generator=seeded(0))(x).cpu().numpy()
    erased = 0
    for before, after in zip(x.cpu().numpy(), y):
        changed = before != after
        assert (changed == changed[0]).all()
        if not changed.any():
            continue
        erased += 1
        rows, columns = np.nonzero(changed[0].any(1))[0], np.nonzero(changed[0].any(0))[0]
        tall, wide = rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1
        assert changed[0].sum() == tall * wide  # one whole rectangle
        # Sides are rounded: an area and a ratio half a pixel further on each side are possible.
        assert (tall - 0.5) * (wide - 0.5) <= 0.33 * 120 and (tall + 0.5) * (
            wide + 0.5
        ) >= 0.02 * 120
        assert (tall - 0.5) / (wide + 0.5) <= 3.3 and (tall + 0.5) / (wide - 0.5) >= 0.3
        for c, value in enumerate((0, -1, -2)):
            assert (after[c][changed[c]] == value).all()
    assert 110 < erased < 190
    same = T.RandomErasing(1.0, scale=(1, 1), ratio=(1, 1))(x)  # fits nowhere
    np.testing.assert_array_equal(same.cpu(), x.cpu())


def test_jitter():
    x = pictures(6, 3, 4, 5)
    a = x.cpu().numpy().astype(np.float64)
    gray = (a * np.array([0.2989, 0.587, 0.114])[:, None, None]).sum(1, keepdims=True)
    for name, base in (
        ("brightness", 0 * gray),
        ("contrast", gray.mean((1, 2, 3), keepdims=True)),
        ("saturation", gray),
    ):
        for factor in (0.3, 1.7):
            y = T.ColorJitter(**{name: (factor, factor)})(x).cpu().numpy()
            np.testing.assert_allclose(y, np.clip(base + (a - base) * factor, 0, 1), atol=1e-5)
    for turn in (-0.5, -0.1, 0.3):
        y = T.ColorJitter(hue=(turn, turn))(x).cpu().numpy()
        for before, after in zip(a.transpose(0, 2, 3, 1), y.transpose(0, 2, 3, 1)):
            for p, q in zip(before.reshape(-1, 3), after.reshape(-1, 3)):
                h, s, v = colorsys.rgb_to_hsv(*p)
                np.testing.assert_allclose(q, colorsys.hsv_to_rgb((h + turn) % 1, s, v), atol=1e-5)
    one = pictures(2, 1, 3, 3)
    assert T.ColorJitter(0.5, 0.5, 0.5, 0.5)(one).shape == one.shape
    gray = pf.full((1, 3, 2, 2), 0.5)  # no hue, no saturation: nothing is divided by 0
    assert np.isfinite(T.ColorJitter(0, 0, 0.5, 0.5)(gray * 0).cpu().numpy()).all()
    for bad in ({"hue": 0.6}, {"brightness": -1}, {"contrast": (2, 1)}, {"saturation": "x"}):
        with pytest.raises(pf.ValueError, match="ColorJitter"):
            T.ColorJitter(**bad)


def test_to_tensor_and_normalize():
    raw = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    x = T.ToTensor()(raw)
    np.testing.assert_array_equal(x.cpu().numpy(), (raw.transpose(2, 0, 1) / np.float32(255)))
    assert T.ToTensor()(raw[:, :, 0]).shape == (1, 2, 4)
    np.testing.assert_array_equal(
        T.ToTensor()(pf.tensor(raw.transpose(2, 0, 1).tolist(), dtype=pf.uint8)).cpu(), x.cpu()
    )
    assert T.ToTensor()(pf.ones(1, 2, 2, dtype=pf.float64)).dtype == pf.float64
    for bad in ("text", np.ones(3), [["a"]]):
        with pytest.raises(pf.ValueError, match="ToTensor"):
            T.ToTensor()(bad)
    mean, std = (0.1, 0.2, 0.3), (1, 2, 4)
    y = T.Normalize(mean, std)(pf.stack([x, x]))[1].cpu().numpy()
    want = (x.cpu().numpy() - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    np.testing.assert_allclose(y, want, atol=1e-6)
    for bad in (((1, 2), (1,)), ((1,), (0,))):
        with pytest.raises(pf.ValueError, match="Normalize"):
            T.Normalize(*bad)
    with pytest.raises(pf.DTypeError, match="ToTensor"):
        T.Normalize([0], [1])(pf.ones(1, 2, 2, dtype=pf.uint8))
    with pytest.raises(pf.ShapeError, match="3 channels; expected 2"):
        T.Normalize([0, 0], [1, 1])(x)


def test_center_crop():
    x = pictures(2, 1, 5, 8)
    np.testing.assert_array_equal(T.CenterCrop(3)(x).cpu(), x[:, :, 1:4, 2:5].cpu())
    padded = T.CenterCrop((8, 4))(x).cpu().numpy()
    want = np.pad(x.cpu().numpy(), ((0, 0), (0, 0), (1, 2), (0, 0)))[..., 2:6]
    np.testing.assert_array_equal(padded, want)


def test_compose():
    flip = T.RandomHorizontalFlip(1)
    assert T.Compose([T.ToTensor(), flip]).batches
    assert not T.Compose([flip, lambda x: x]).batches
    assert repr(T.Compose([flip])) == "Compose([RandomHorizontalFlip(p=1)])"
    x = pictures(1, 1, 2, 2)
    np.testing.assert_array_equal(T.Compose([flip, flip])(x).cpu(), x.cpu())
    assert math.isclose(T.Compose([lambda x: x * 2])(1.5), 3)
    for bad in (0, "3", (1, 2, 3), 1.5, (True, 1)):
        with pytest.raises(pf.ValueError, match="size"):
            T.CenterCrop(bad)
    for bad in (-0.1, 2, "x"):
        with pytest.raises(pf.ValueError, match="expected a number from 0 to 1"):
            T.RandomHorizontalFlip(bad)


@pytest.mark.parametrize("dtype", [pf.uint8, pf.float32])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "lanczos"])
def test_resize(mode, dtype):
    x = pictures(2, 3, 20, 31, dtype=dtype)
    for size, expected, more in (
        (10, (10, 15), {}),
        ([10], (10, 15), {}),
        ((7, 40), (7, 40), {}),
        (40, (32, 50), {"max_size": 50}),
    ):
        y = T.Resize(size, mode, **more)(x)
        assert y.shape == (2, 3, *expected) and y.dtype == dtype
        how = {} if mode == "nearest" else {"antialias": True}
        want = pf.nn.functional.interpolate(x.float(), expected, mode=mode, **how)
        if dtype == pf.uint8:
            want = want.round().clamp(0, 255)
        np.testing.assert_allclose(y.float().cpu().numpy(), want.cpu().numpy(), atol=1e-6)
    turned = T.Resize(10, mode)(x.transpose(2, 3))
    assert turned.shape == (2, 3, 15, 10)


def test_random_resized_crops_are_parts():
    rows, columns = 30, 41
    # The red of a pixel is its line, the green its column: a part says where it was.
    x = pf.zeros(1, 2, rows, columns)
    x[0, 0] = pf.arange(rows).float().unsqueeze(1)
    x[0, 1] = pf.arange(columns).float()
    made = T.RandomResizedCrop((6, 5), generator=seeded(4))(x.expand(300, -1, -1, -1))
    made = made.cpu().numpy()
    assert (np.diff(made[:, 0], axis=1) >= 0).all() and (np.diff(made[:, 1], axis=2) >= 0).all()
    # Neighbouring results are so far apart that their cells make up the part.
    height = (made[:, 0, 4, 2] - made[:, 0, 1, 2]) * 2
    width = (made[:, 1, 3, 3] - made[:, 1, 3, 1]) * 2.5
    share, ratio = height * width / (rows * columns), width / height
    assert 0.05 < share.min() < 0.2 and 0.8 < share.max() < 1.1
    assert 0.6 < ratio.min() < 0.85 and 1.2 < ratio.max() < 1.6
    whole = T.RandomResizedCrop(9, scale=(1, 1), ratio=(1, 1))(x)  # fits nowhere: the middle
    lines = whole[0, 1].cpu().numpy()
    assert abs(lines.mean() - (columns - 1) / 2) < 0.6
    assert abs((lines[0, -1] - lines[0, 0]) * 9 / 8 - rows) < 2


def test_bad_sizes():
    for call in (
        lambda: T.Resize(0),
        lambda: T.Resize((2, 3, 4)),
        lambda: T.Resize(8, "cubic"),
        lambda: T.Resize(8, max_size=8),
        lambda: T.Resize((8, 8), max_size=9),
        lambda: T.RandomResizedCrop(8, scale=(0.5, 0.1)),
        lambda: T.RandomResizedCrop(8, ratio=(0, 1)),
    ):
        with pytest.raises(ValueError, match="pf.transforms"):
            call()
    with pytest.raises(pf.ShapeError, match="Resize"):
        T.Resize(4)(pf.ones(1, 3, 0, 5))
