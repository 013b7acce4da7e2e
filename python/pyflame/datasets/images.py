"""Pictures in folders, one folder a class."""

import os

from .. import _C
from ..utils.data.dataset import Dataset
from ._opening import checked_index, damaged, needs, path_text, regular

# What is looked for, and what Pillow may take it for: none of these formats starts other programs.
EXTENSIONS = (
    ".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".pbm", ".tif", ".tiff", ".webp"
)  # fmt: skip
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
_MODES = {"RGB": 3, "L": 1, "RGBA": 4}


def _pillow():
    try:
        from PIL import Image
    except ImportError:
        raise needs("Pillow", "pillow", "ImageFolder") from None
    return Image


def load_image(path, mode="RGB"):
    """A picture as uint8 [C, H, W], by Pillow; `mode` is "RGB", "L" (grey) or "RGBA"."""
    import warnings

    import numpy as np

    image = _pillow()
    if mode not in _MODES:
        raise _C.ValueError(
            f"pf.datasets.load_image: got mode {mode!r}; expected one of {list(_MODES)}"
        )
    path = path_text(path, "load_image")
    with regular(path, "load_image") as file:
        try:
            with warnings.catch_warnings():
                # A small file that says it has very many pixels, before memory is taken for them.
                warnings.simplefilter("error", image.DecompressionBombWarning)
                warnings.simplefilter("ignore", UserWarning)
                with image.open(file, formats=_FORMATS) as opened:
                    pixels = np.array(opened.convert(mode))
        except Exception as e:  # a damaged picture makes Pillow raise nearly anything
            why = f"{type(e).__name__}: {e}" if str(e) else type(e).__name__
            raise damaged(
                "load_image", path, f"is no picture that can be read ({why})",
                f"a whole file of {', '.join(_FORMATS)}",
            ) from None  # fmt: skip
    return _C.from_numpy(pixels.reshape(*pixels.shape[:2], -1).transpose(2, 0, 1).copy())


class ImageFolder(Dataset):
    """Pictures below `root`/CLASS/: (uint8 [3, H, W] or what `transform` makes of it, class).

    Classes are the folders in the order of their names; `classes`, `class_to_idx`, `samples` (paths and
    classes) and `targets` are as in torchvision. `mode` as of load_image. A file that cannot be read
    is a FileError that names it, raised when its sample is asked for.
    """

    def __init__(self, root, transform=None, target_transform=None, mode="RGB"):
        _pillow()
        self.root = root = path_text(root, "ImageFolder")
        self.transform, self.target_transform, self.mode = transform, target_transform, mode
        try:
            with os.scandir(root) as entries:
                self.classes = sorted(e.name for e in entries if e.is_dir())
            self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
            self.samples = [
                (path, self.class_to_idx[name])
                for name in self.classes
                for path in self._pictures(os.path.join(root, name))
            ]
        except (OSError, ValueError) as e:
            why = getattr(e, "strerror", None) or str(e)
            where = getattr(e, "filename", None) or root
            raise damaged("ImageFolder", where, f"cannot be read ({why})", "a folder") from None
        self.targets = [target for _, target in self.samples]
        empty = sorted({*self.classes} - {self.classes[t] for t in self.targets})
        if empty or not self.classes:
            raise damaged(
                "ImageFolder", os.path.join(root, *empty[:1]), "has no pictures",
                f"one folder for each class, with files that end in {', '.join(EXTENSIONS)}",
                "check the folder",
            )  # fmt: skip

    @staticmethod
    def _pictures(folder):
        def fail(error):
            raise error

        found = []
        for where, folders, names in os.walk(folder, onerror=fail):
            folders.sort()
            found += (os.path.join(where, n) for n in sorted(names))
        return [path for path in found if path.lower().endswith(EXTENSIONS)]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, target = self.samples[checked_index(index, len(self), "ImageFolder")]
        picture = load_image(path, self.mode)
        if self.transform is not None:
            picture = self.transform(picture)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return picture, target
