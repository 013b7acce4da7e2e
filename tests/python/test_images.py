"""pyflame.utils.images: what it writes is what Pillow reads."""

import numpy as np
import pytest

import pyflame as pf
from pyflame.utils.images import make_grid, save_image


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("size", [(1, 1), (5, 3)])
def test_pictures_come_back(channels, size, tmp_path):
    image = pytest.importorskip("PIL.Image")
    x = pf.rand(channels, *size, device="cpu")
    for given in (x, (x * 255).round().to(pf.uint8), x.to(pf.float64), x.permute(0, 2, 1)):
        save_image(given.to(pf.get_device()), tmp_path / "x.png")
        read = np.array(image.open(tmp_path / "x.png")).reshape(*given.shape[1:], channels)
        want = given.numpy() if given.dtype == pf.uint8 else (given.numpy() * 255).round()
        np.testing.assert_array_equal(read.transpose(2, 0, 1), want)


def test_numbers_outside(tmp_path):
    image = pytest.importorskip("PIL.Image")
    save_image(pf.tensor([[[-1.0, 0.5, 2.0, float("nan"), float("inf")]]]), tmp_path / "x.png")
    assert np.array(image.open(tmp_path / "x.png")).tolist() == [[0, 128, 255, 0, 255]]


def test_grid():
    x = pf.arange(3).float().reshape(3, 1, 1, 1).expand(3, 1, 2, 3) + 1
    grid = make_grid(x, nrow=2, padding=1)
    assert grid.shape == (1, 7, 9)
    want = np.zeros((7, 9))
    want[1:3, 1:4], want[1:3, 5:8], want[4:6, 1:4] = 1, 2, 3
    np.testing.assert_array_equal(grid[0].cpu().numpy(), want)
    assert make_grid(x, padding=0).shape == (1, 2, 9)


def test_what_is_no_picture(tmp_path):
    for shape in ((3, 3), (2, 4, 4), (1, 0, 4), (0, 1, 2, 2)):
        with pytest.raises(pf.ShapeError, match="pf.utils.images"):
            save_image(pf.zeros(shape), tmp_path / "x.png")
    with pytest.raises(pf.FileError):
        save_image(pf.zeros(1, 2, 2), tmp_path / "nowhere" / "x.png")
    assert not list(tmp_path.iterdir())
