"""What is done to pictures before they are learnt from. Names as in torchvision.transforms.

All take a tensor [..., C, H, W]: one picture or a batch, of any number of leading dimensions. Random
ones decide for each picture of a batch by itself, with numbers of PyFlame's generator or of
`generator=`; these are drawn on the CPU, so that a seed means the same on every device.
"""

import math

from . import _C, _ops
from .nn import functional as F

__all__ = [
    "CenterCrop", "ColorJitter", "Compose", "Normalize", "RandomCrop", "RandomErasing",
    "RandomHorizontalFlip", "RandomResizedCrop", "Resize", "ToTensor",
]  # fmt: skip


class _Transform:
    """Something to call with a picture or a batch of them."""

    batches = True  # a dataset may call it once with a whole batch

    def __call__(self, img):
        name = f"pf.transforms.{type(self).__name__}"
        if not isinstance(img, _C.Tensor):
            raise TypeError(
                f"{name}: got {type(img).__name__}; expected a tensor; put ToTensor() before it"
            )
        if img.dim() < 3:
            raise _C.ShapeError(
                f"{name}: got the shape {tuple(img.shape)}; expected [..., channels, height, width]"
            )
        pictures = img.reshape(-1, *img.shape[-3:]) if img.dim() != 4 else img
        made = self._apply(pictures)
        return made if img.dim() == 4 else made.reshape(*img.shape[:-3], *made.shape[1:])

    def __repr__(self):
        shown = {k: v for k, v in vars(self).items() if k != "generator"}
        return f"{type(self).__name__}(" + ", ".join(f"{k}={v!r}" for k, v in shown.items()) + ")"


class _Random(_Transform):
    def __init__(self, generator):
        self.generator = generator

    def _draw(self, *size):
        return _ops.rand(size, device="cpu", generator=self.generator)

    def _below(self, n, count):
        """`count` integers of [0, n) as int64."""
        return _ops.randint(0, n, (count,), device="cpu", generator=self.generator)


def _pair(value, name):
    try:
        pair = (value, value) if isinstance(value, int) else tuple(value)
    except TypeError:
        pair = ()
    if len(pair) != 2 or any(isinstance(n, bool) or not isinstance(n, int) for n in pair):
        raise _C.ValueError(f"pf.transforms.{name}: got size {value!r}; expected one or two ints")
    if min(pair) < 1:
        raise _C.ValueError(f"pf.transforms.{name}: got size {value!r}; expected positive numbers")
    return pair


def _chance(p, name):
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
        raise _C.ValueError(f"pf.transforms.{name}: got p {p!r}; expected a number from 0 to 1")
    return p


def _per_item(numbers, like):
    """Numbers, one a picture, as a tensor that multiplies a batch."""
    return numbers.to(like.device).reshape(-1, 1, 1, 1)


class Compose:
    """Transforms one after the other."""

    def __init__(self, transforms):
        self.transforms = list(transforms)

    @property
    def batches(self):
        return all(getattr(t, "batches", False) for t in self.transforms)

    def __call__(self, img):
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self):
        return f"Compose({self.transforms!r})"


class ToTensor:
    """Pictures as floats [..., C, H, W], bytes as numbers from 0 to 1.

    Takes what Pillow opens and NumPy arrays [H, W] or [H, W, C]; of tensors [..., C, H, W] only the
    numbers change. Values of other dtypes than uint8 stay what they are.
    """

    batches = True

    def __call__(self, pic):
        if not isinstance(pic, _C.Tensor):
            import numpy as np

            array = np.asarray(pic)
            if array.ndim not in (2, 3) or array.dtype.kind not in "fiub":
                raise _C.ValueError(
                    f"pf.transforms.ToTensor: got {type(pic).__name__} with {array.ndim} dimensions "
                    f"of {array.dtype}; expected numbers as [H, W] or [H, W, C]"
                )
            array = array[:, :, None] if array.ndim == 2 else array
            pic = _C.from_numpy(array.transpose(2, 0, 1).copy())
        if pic.dtype == _C.uint8:
            return pic.to(_C.get_default_dtype()) / 255
        return pic if pic.is_floating_point() else pic.to(_C.get_default_dtype())

    def __repr__(self):
        return "ToTensor()"


class Normalize(_Transform):
    """(x - mean) / std, for each channel."""

    def __init__(self, mean, std):
        self.mean, self.std = list(mean), list(std)
        if len(self.mean) != len(self.std) or not self.mean or 0 in self.std:
            raise _C.ValueError(
                f"pf.transforms.Normalize: got mean {mean} and std {std}; expected as many numbers "
                "in each, and no std of 0"
            )

    def _apply(self, x):
        if not x.is_floating_point():
            raise _C.DTypeError(
                f"pf.transforms.Normalize: got {x.dtype}; expected floats; put ToTensor() before it"
            )
        if len(self.mean) not in (1, x.shape[1]):
            raise _C.ShapeError(
                f"pf.transforms.Normalize: got pictures of {x.shape[1]} channels; expected "
                f"{len(self.mean)}, as many as means"
            )
        mean, std = (
            _ops.tensor(v, dtype=x.dtype, device=x.device).reshape(1, -1, 1, 1)
            for v in (self.mean, self.std)
        )
        return (x - mean) / std


def _too_small(x, size, name):
    if x.shape[2] < size[0] or x.shape[3] < size[1]:
        raise _C.ShapeError(
            f"pf.transforms.{name}: got pictures of {x.shape[2]}x{x.shape[3]} (with padding); "
            f"expected at least {size[0]}x{size[1]}"
        )


class CenterCrop(_Transform):
    """The middle of each picture; one that is smaller gets zeros around it."""

    def __init__(self, size):
        self.size = _pair(size, "CenterCrop")

    def _apply(self, x):
        height, width = self.size
        down, right = max(height - x.shape[2], 0), max(width - x.shape[3], 0)
        if down or right:
            x = F.pad(x, (right // 2, (right + 1) // 2, down // 2, (down + 1) // 2))
        top = round((x.shape[2] - height) / 2)
        left = round((x.shape[3] - width) / 2)
        return x[:, :, top : top + height, left : left + width]


class RandomCrop(_Random):
    """A part of each picture, somewhere; `padding` (one number, or four: left, top, right, bottom)
    comes around it before. `padding_mode` as of nn.functional.pad."""

    def __init__(self, size, padding=None, *, fill=0, padding_mode="constant", generator=None):
        super().__init__(generator)
        self.size = _pair(size, "RandomCrop")
        if isinstance(padding, int):
            padding = (padding,) * 4
        if padding is not None and len(padding) == 2:
            padding = (*padding, *padding)
        if padding is not None and len(padding) != 4:
            raise _C.ValueError(
                f"pf.transforms.RandomCrop: got padding {padding!r}; expected 1, 2 or 4 numbers"
            )
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def _apply(self, x):
        if self.padding:
            left, top, right, bottom = self.padding
            fill = (self.fill,) if self.padding_mode == "constant" else ()
            x = F.pad(x, (left, right, top, bottom), self.padding_mode, *fill)
        _too_small(x, self.size, "RandomCrop")
        count, channels, rows, columns = x.shape
        height, width = self.size
        top, left = self._below(rows - height + 1, count), self._below(columns - width + 1, count)
        # One gather of pixels by their numbers within a picture.
        lines = (top.unsqueeze(1) + _ops.arange(height, device="cpu")).unsqueeze(2) * columns
        pixels = lines + (left.unsqueeze(1) + _ops.arange(width, device="cpu")).unsqueeze(1)
        at = pixels.reshape(count, 1, height * width).to(x.device).expand(-1, channels, -1)
        made = _ops.gather(x.reshape(count, channels, rows * columns), 2, at)
        return made.reshape(count, channels, height, width)


_INTERPOLATIONS = ("nearest", "nearest-exact", "bilinear", "bicubic", "lanczos")


def _interpolation(mode, name):
    mode = getattr(mode, "value", mode)  # torchvision's InterpolationMode
    if mode not in _INTERPOLATIONS:
        raise _C.ValueError(
            f"pf.transforms.{name}: got interpolation {mode!r}; expected one of "
            + ", ".join(_INTERPOLATIONS)
        )
    return mode


def _resized(x, size, mode, antialias):
    """Bytes are rounded; those of "bicubic" and "lanczos" do not leave their range."""
    smooth = mode in ("bilinear", "bicubic", "lanczos")
    wide = x if x.is_floating_point() or not smooth else x.to(_C.float32)
    how = {"align_corners": False, "antialias": antialias} if smooth else {}
    made = F.interpolate(wide, size, mode=mode, **how)
    if made.dtype == x.dtype:
        return made
    return made.round().clamp(*((0, 255) if x.dtype == _C.uint8 else (None, None))).to(x.dtype)


class Resize(_Transform):
    """Each picture with another size: `size` is (height, width), or what the shorter side becomes,
    the other one in proportion (rounded down; of no more than `max_size`, if that is given).
    `interpolation` is "nearest", "nearest-exact", "bilinear", "bicubic" or "lanczos"; `antialias` is for
    the last three, where a picture becomes smaller, and "lanczos" wants it."""

    def __init__(self, size, interpolation="bilinear", max_size=None, antialias=True):
        self.size = size if isinstance(size, int) else list(size)
        shown = [size] if isinstance(size, int) else self.size
        if len(shown) == 1:
            self.size = shown[0]
        _pair(self.size, "Resize")
        self.interpolation = _interpolation(interpolation, "Resize")
        if max_size is not None and not (isinstance(self.size, int) and max_size > self.size):
            raise _C.ValueError(
                f"pf.transforms.Resize: got size {size!r} and max_size {max_size!r}; expected one "
                "number, and a larger max_size"
            )
        self.max_size, self.antialias = max_size, antialias

    def _apply(self, x):
        if not isinstance(self.size, int):
            return _resized(x, self.size, self.interpolation, self.antialias)
        rows, columns = x.shape[2:]
        if not rows or not columns:
            raise _C.ShapeError(
                f"pf.transforms.Resize: got pictures of {rows}x{columns}; expected some pixels"
            )
        short, long = min(rows, columns), max(rows, columns)
        new_short, new_long = self.size, int(self.size * long / short)
        if self.max_size is not None and new_long > self.max_size:
            new_short, new_long = int(self.max_size * new_short / new_long), self.max_size
        size = (new_short, new_long) if rows <= columns else (new_long, new_short)
        return _resized(x, size, self.interpolation, self.antialias)


class RandomResizedCrop(_Random):
    """A part of each picture, somewhere, as one of `size`: its share of the picture's area within
    `scale`, its width divided by its height within `ratio`. Where ten draws fit nowhere, it is the
    middle. `interpolation` and `antialias` as of Resize."""

    def __init__(
        self, size, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), interpolation="bilinear",
        antialias=True, *, generator=None,
    ):  # fmt: skip
        super().__init__(generator)
        self.size = _pair(size, "RandomResizedCrop")
        for name, (low, high) in (("scale", scale), ("ratio", ratio)):
            if not 0 < low <= high:
                raise _C.ValueError(
                    f"pf.transforms.RandomResizedCrop: got {name} ({low}, {high}); expected two "
                    "positive numbers, the larger one last"
                )
        self.scale, self.ratio = tuple(scale), tuple(ratio)
        self.interpolation = _interpolation(interpolation, "RandomResizedCrop")
        self.antialias = antialias

    def _part(self, rows, columns, draws):
        """Top, left, height and width; `draws` are [10, 4] numbers from 0 to 1."""
        low, high = (math.log(r) for r in self.ratio)
        for share, shape, down, right in draws:
            area = rows * columns * (self.scale[0] + share * (self.scale[1] - self.scale[0]))
            ratio = math.exp(low + shape * (high - low))
            height, width = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < height <= rows and 0 < width <= columns:
                return (
                    int(down * (rows - height + 1)), int(right * (columns - width + 1)),
                    height, width,
                )  # fmt: skip
        ratio = min(max(columns / rows, self.ratio[0]), self.ratio[1])
        height, width = min(rows, round(columns / ratio)), min(columns, round(rows * ratio))
        return (rows - height) // 2, (columns - width) // 2, height, width

    def _apply(self, x):
        _too_small(x, (1, 1), "RandomResizedCrop")
        draws = self._draw(x.shape[0], 10, 4).tolist()
        made = [x[:0, :, :1, :1].expand(0, x.shape[1], *self.size)]
        for i, numbers in enumerate(draws):
            top, left, height, width = self._part(*x.shape[2:], numbers)
            part = x[i : i + 1, :, top : top + height, left : left + width]
            made.append(_resized(part, self.size, self.interpolation, self.antialias))
        return _ops.cat(made)


class RandomHorizontalFlip(_Random):
    """Left and right change places, with probability `p`."""

    def __init__(self, p=0.5, *, generator=None):
        super().__init__(generator)
        self.p = _chance(p, "RandomHorizontalFlip")

    def _apply(self, x):
        return _ops.where(_per_item(self._draw(x.shape[0]) < self.p, x), x.flip(-1), x)


class RandomErasing(_Random):
    """With probability `p` a rectangle is overwritten: its share of the picture's area within
    `scale`, its height divided by its width within `ratio`. `value` is a number, one for each
    channel, or "random". A picture in which ten such rectangles do not fit stays whole."""

    _tries = 10

    def __init__(self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, *, generator=None):
        super().__init__(generator)
        self.p = _chance(p, "RandomErasing")
        if not (0 <= scale[0] <= scale[1] <= 1 and 0 < ratio[0] <= ratio[1]):
            raise _C.ValueError(
                f"pf.transforms.RandomErasing: got scale {scale} and ratio {ratio}; expected "
                "ranges, of shares up to 1 and of positive numbers"
            )
        self.scale, self.ratio, self.value = scale, ratio, value

    def _box(self, count, height, width):
        """Top, left, height and width of each picture's rectangle, as integers; nothing for those
        that stay whole."""
        area, shape, down, right = (self._draw(count, self._tries) for _ in range(4))
        area = (area * (self.scale[1] - self.scale[0]) + self.scale[0]) * (height * width)
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        shape = (shape * (high - low) + low).exp()
        tall, wide = (area * shape).sqrt().round(), (area / shape).sqrt().round()
        fits = ((tall < height) & (wide < width)).long()
        first = fits.argmax(1, keepdim=True)
        erased = (self._draw(count) < self.p).unsqueeze(1) & (fits.gather(1, first) > 0)
        tall, wide = (_ops.where(erased, t.gather(1, first), 0.0) for t in (tall, wide))
        top = (down.gather(1, first) * (height - tall + 1)).floor()
        left = (right.gather(1, first) * (width - wide + 1)).floor()
        return top, left, tall, wide

    def _apply(self, x):
        count, _, height, width = x.shape
        if not count:
            return x
        top, left, tall, wide = self._box(count, height, width)
        row, column = (_ops.arange(n, device="cpu").unsqueeze(0) for n in (height, width))
        rows = (row >= top) & (row < top + tall)
        columns = (column >= left) & (column < left + wide)
        hidden = (rows.unsqueeze(2) & columns.unsqueeze(1)).unsqueeze(1).to(x.device)
        if self.value == "random":
            size = tuple(x.shape)
            value = _ops.randn(size, device="cpu", generator=self.generator).to(x.device, x.dtype)
        else:
            value = _ops.tensor(self.value, dtype=x.dtype, device=x.device).reshape(-1, 1, 1)
        return _ops.where(hidden, value, x)


def _hsv(x):
    """Hue, saturation and value, each [N, 1, H, W] from 0 to 1."""
    r, g, b = x.chunk(3, 1)
    value, low = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    spread = value - low
    safe = _ops.where(spread == 0, 1.0, spread)
    third = _ops.where(
        value == r,
        (g - b) / safe,
        _ops.where(value == g, 2.0 + (b - r) / safe, 4.0 + (r - g) / safe),
    )
    saturation = spread / _ops.where(value == 0, 1.0, value)
    return third / 6, saturation, value


def _rgb(hue, saturation, value):
    parts = []
    for n in (5.0, 3.0, 1.0):
        k = (hue * 6 + n) % 6
        parts.append(value - value * saturation * _ops.minimum(k, 4 - k).clamp(0, 1))
    return _ops.cat(parts, 1)


class ColorJitter(_Random):
    """Brightness, contrast, saturation and hue change at random, in this order.

    A number b stands for factors from max(0, 1 - b) to 1 + b (of hue: for turns from -b to b, at
    most half a turn), a pair for the range itself. Pictures are floats from 0 to 1, of three
    channels (or one, which has brightness and contrast only).
    """

    def __init__(self, brightness=0, contrast=0, saturation=0, hue=0, *, generator=None):
        super().__init__(generator)
        self.brightness = self._range(brightness, "brightness")
        self.contrast = self._range(contrast, "contrast")
        self.saturation = self._range(saturation, "saturation")
        self.hue = self._range(hue, "hue", 0.0, (-0.5, 0.5))

    @staticmethod
    def _range(value, what, center=1.0, bounds=(0.0, math.inf)):
        pair = value
        if isinstance(value, (int, float)):
            pair = (max(center - value, -math.inf if center == 0 else 0.0), center + value)
        try:
            low, high = pair
            good = bounds[0] <= low <= high <= bounds[1]
        except (TypeError, ValueError):
            good = False
        if not good:
            raise _C.ValueError(
                f"pf.transforms.ColorJitter: got {what} {value!r}; expected a number or a range "
                f"within {bounds}"
            )
        return None if low == high == center else (float(low), float(high))

    def _factor(self, limits, x):
        low, high = limits
        return _per_item(self._draw(x.shape[0]) * (high - low) + low, x).to(x.dtype)

    def _apply(self, x):
        if not x.is_floating_point() or x.shape[1] not in (1, 3):
            raise _C.ValueError(
                f"pf.transforms.ColorJitter: got {x.dtype} with {x.shape[1]} channels; expected "
                "floats from 0 to 1 with 1 or 3; put ToTensor() before it"
            )
        if self.brightness:
            x = (x * self._factor(self.brightness, x)).clamp(0, 1)
        if self.contrast:
            gray = self._gray(x).mean((1, 2, 3), keepdim=True)
            x = (gray + (x - gray) * self._factor(self.contrast, x)).clamp(0, 1)
        if self.saturation:
            factor, gray = self._factor(self.saturation, x), self._gray(x)
            x = (gray + (x - gray) * factor).clamp(0, 1)
        if self.hue:
            turn = self._factor(self.hue, x)
            if x.shape[1] == 3:
                hue, saturation, value = _hsv(x)
                x = _rgb(hue + turn, saturation, value)
        return x

    @staticmethod
    def _gray(x):
        if x.shape[1] == 1:
            return x
        r, g, b = x.chunk(3, 1)
        return 0.2989 * r + 0.587 * g + 0.114 * b
