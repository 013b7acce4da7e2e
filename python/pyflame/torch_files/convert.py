"""`pyflame convert`: files of torch.save to safetensors, and back."""

import os

from .. import _C, safetensors, serialization
from ..training.output import say
from . import save

_TORCH = (".pt", ".pth", ".bin", ".ckpt", ".tar")


def _chosen(value, keys, source):
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            found = sorted(map(str, value))[:20] if isinstance(value, dict) else "no dict"
            raise _C.ValueError(
                f"pf.convert: '{source}' has no entry {key!r}; expected one of {found}; name it "
                "with --key"
            )
        value = value[key]
    return value


def _tensors(value):
    """How many tensors a value holds."""
    if isinstance(value, _C.Tensor):
        return 1
    if isinstance(value, dict):
        return sum(map(_tensors, value.values()))
    return sum(map(_tensors, value)) if isinstance(value, (list, tuple)) else 0


def convert(source, target, keys=()):
    """Reads a file that `pyflame.load` knows, and writes its value in the format that the name of
    `target` says: .safetensors, or .pt, .pth and .bin for PyTorch. `keys` lead to a part of it.

    A dict of names and tensors becomes a plain safetensors file, anything else one of
    `pyflame.save`. Returns the value.
    """
    suffix = os.path.splitext(target)[1].lower()
    if suffix not in (".safetensors", *_TORCH):
        raise _C.ValueError(
            f"pf.convert: got the target '{target}'; expected a name that ends in .safetensors, "
            f"{', '.join(_TORCH[:3])}; the format follows from it"
        )
    value = _chosen(serialization.load(source, mmap=True), keys, source)
    if suffix in _TORCH:
        save(value, target)
    elif _is_flat(value):
        flat = {name: t.detach() for name, t in value.items()}
        safetensors.save_file(flat, target, {"format": "pt"})
    else:
        serialization.save(value, target)
    return value


def _is_flat(value):
    return (
        isinstance(value, dict)
        and all(type(name) is str and name != "__metadata__" for name in value)
        and all(isinstance(t, _C.Tensor) for t in value.values())
    )


def command(args):
    value = convert(args.source, args.target, args.key or ())
    size = os.path.getsize(args.target)
    say(f"{args.target}: {_tensors(value)} tensors, {size / 1e6:.1f} MB")
    return 0
