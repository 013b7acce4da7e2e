"""The operators of torchvision.io that are compiled there: files of bytes, and pictures, which Pillow
reads and writes."""

import io

import numpy as np

import pyflame as pf

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def _pillow(operation):
    try:
        from PIL import Image, ImageOps
    except ImportError as e:
        raise pf.NotSupportedError(
            f"torchvision.io.{operation}: pictures are read by Pillow, which is not there; "
            "pip install pillow"
        ) from e
    return Image, ImageOps


def read_file(path):
    """A file's bytes as a tensor of uint8."""
    with open(path, "rb") as f:
        return pf.tensor(np.frombuffer(f.read(), np.uint8).copy())


def write_file(path, data):
    """Writes a tensor of uint8."""
    if data.dtype != pf.uint8 or data.ndim != 1:
        raise RuntimeError(
            f"torchvision.io.write_file: got {data.dtype} of shape {list(data.shape)}; expected uint8 [n]"
        )
    with open(path, "wb") as f:
        f.write(data.cpu().numpy().tobytes())


def _tensor(picture, mode):
    if mode in _MODES:
        picture = picture.convert(_MODES[mode])
    elif picture.mode == "P":
        picture = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
    elif picture.mode == "1":
        picture = picture.convert("L")
    array = np.asarray(picture)
    if picture.mode.startswith("I"):
        array = array.astype(np.uint16)
    array = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
    return pf.tensor(np.ascontiguousarray(array))


def _decoder(operation, formats):
    def decode(data, mode=0, apply_exif_orientation=False):
        if data.dtype != pf.uint8 or data.ndim != 1 or not data.numel():
            raise RuntimeError(
                f"torchvision.io.{operation}: got {data.dtype} of shape {list(data.shape)}; expected the "
                "bytes of a file, uint8 [n]"
            )
        image, turns = _pillow(operation)
        try:
            picture = image.open(io.BytesIO(data.cpu().numpy().tobytes()), formats=formats)
            picture.load()
        except (OSError, SyntaxError, ValueError) as e:
            raise RuntimeError(
                f"torchvision.io.{operation}: the bytes are no such picture: {e}"
            ) from e
        if picture.format == "GIF":
            return _frames(picture)
        return _tensor(turns.exif_transpose(picture) if apply_exif_orientation else picture, mode)

    decode.__name__ = operation
    return decode


def _frames(picture):
    every = []
    for i in range(getattr(picture, "n_frames", 1)):
        picture.seek(i)
        every.append(_tensor(picture, 3))
    return pf.stack(every) if len(every) > 1 else every[0]


def _encoder(operation, kind, name):
    def encode(image, value):
        if image.dtype != pf.uint8 or image.ndim != 3 or image.shape[0] not in (1, 3):
            raise RuntimeError(
                f"torchvision.io.{operation}: got {image.dtype} of shape {list(image.shape)}; expected "
                "uint8 [1 or 3, height, width]"
            )
        pictures, _ = _pillow(operation)
        array = image.cpu().numpy()
        array = array[0] if len(array) == 1 else np.ascontiguousarray(array.transpose(1, 2, 0))
        out = io.BytesIO()
        pictures.fromarray(array).save(out, kind, **{name: int(value)})
        return pf.tensor(np.frombuffer(out.getvalue(), np.uint8).copy())

    encode.__name__ = operation
    return encode


OPERATORS = {
    "read_file": read_file,
    "write_file": write_file,
    "decode_image": _decoder("decode_image", ["PNG", "JPEG", "GIF", "WEBP"]),
    "decode_png": _decoder("decode_png", ["PNG"]),
    "decode_jpeg": _decoder("decode_jpeg", ["JPEG"]),
    "decode_gif": _decoder("decode_gif", ["GIF"]),
    "decode_webp": _decoder("decode_webp", ["WEBP"]),
    "encode_png": _encoder("encode_png", "PNG", "compress_level"),
    "encode_jpeg": _encoder("encode_jpeg", "JPEG", "quality"),
}
