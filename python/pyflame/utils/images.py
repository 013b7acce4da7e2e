"""Tensors as PNG pictures. Names as in torchvision.utils."""

import os
import struct
import zlib

from .. import _C, _ops
from .._named_errors import name_errors as _name_errors

__all__ = ["make_grid", "save_image"]


def make_grid(tensor, nrow=8, padding=2, pad_value=0.0):
    """Pictures [N, C, H, W] side by side, `nrow` in a line, with `padding` pixels around each: one
    picture [C, H', W']."""
    if tensor.dim() != 4 or not tensor.shape[0]:
        raise _C.ShapeError(
            f"pf.utils.images.make_grid: got the shape {tuple(tensor.shape)}; expected [N, C, H, W] "
            "with at least one picture"
        )
    count, channels, height, width = tensor.shape
    across = min(nrow, count)
    down = -(-count // across)
    height, width = height + padding, width + padding
    # Each brings what is above and left of it, the whole what is below and right.
    x = _ops.pad(tensor, (padding, 0, padding, 0), value=pad_value)
    x = _ops.pad(x, (0, 0, 0, 0, 0, 0, 0, down * across - count), value=pad_value)
    x = x.reshape(down, across, channels, height, width).permute(2, 0, 3, 1, 4)
    x = x.reshape(channels, down * height, across * width)
    return _ops.pad(x, (0, padding, 0, padding), value=pad_value)


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def save_image(tensor, fp, nrow=8, padding=2, pad_value=0.0):
    """Writes a picture [C, H, W] or a grid of pictures [N, C, H, W] as a PNG file; floats from 0 to
    1, others are cut off. Channels: 1 (grey), 3 (RGB) or 4 (with alpha)."""
    name = os.fspath(fp)
    x = tensor.detach()
    x = make_grid(x, nrow, padding, pad_value) if x.dim() == 4 else x
    kinds = {1: 0, 3: 2, 4: 6}
    if x.dim() != 3 or x.shape[0] not in kinds or 0 in x.shape:
        raise _C.ShapeError(
            f"pf.utils.images.save_image: got the shape {tuple(tensor.shape)}; expected [C, H, W] or "
            "[N, C, H, W] with 1, 3 or 4 channels"
        )
    if x.dtype != _C.uint8:
        x = (_ops.nan_to_num(x.float()).clamp(0, 1) * 255).round().to(_C.uint8)
    channels, height, width = x.shape
    data = x.permute(1, 2, 0).contiguous().cpu().numpy().tobytes()
    step = width * channels
    lines = b"".join(b"\0" + data[i : i + step] for i in range(0, len(data), step))
    header = struct.pack(">IIBBBBB", width, height, 8, kinds[channels], 0, 0, 0)
    _C._write_file(
        name,
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(lines))
        + _chunk(b"IEND", b""),
    )


_name_errors(__name__)
