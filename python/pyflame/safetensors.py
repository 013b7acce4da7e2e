"""Plain safetensors files: names and tensors, as other programs write and read them.

The functions have the names and arguments of the ``safetensors.torch`` module, and ``safe_open`` those
of the ``safetensors`` package: a program that imports these needs PyTorch, one that imports this does
not.
"""

import io

from . import _C
from ._named_errors import name_errors as _name_errors
from .serialization import _name_of, _read_stream, _writer, path_text

__all__ = [
    "load",
    "load_file",
    "load_model",
    "metadata",
    "safe_open",
    "save",
    "save_file",
    "save_model",
]


def _texts(metadata, op):
    metadata = dict(metadata or {})
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(
                f"pf.safetensors.{op}: got metadata with {key!r}: {value!r}; expected text for both; "
                "convert with str() or json.dumps()"
            )
    return metadata


def _source(filename):
    """(a path, None), or (the bytes of one file, its name) of a file object."""
    if hasattr(filename, "read"):
        name = _name_of(filename)
        return _read_stream(filename, name), name
    return path_text(filename, "load"), None


def save_file(tensors, filename, metadata=None):
    """Writes a dict of names and tensors to a path or a binary file object; `metadata` is a dict of text
    to text.

    Tensors that share memory are written once each. The same tensors give the same bytes.
    """
    texts = _texts(metadata, "save_file")
    try:
        tensors = dict(tensors)
    except (TypeError, ValueError):
        raise TypeError(
            f"pf.safetensors.save_file: got {type(tensors).__name__}; expected a dict of str to "
            "Tensor; use pf.save for other values"
        ) from None
    if hasattr(filename, "write"):
        write, flush = _writer(filename)
        _C._save_safetensors(tensors, write, texts)
        flush()
    else:
        _C._save_safetensors(tensors, path_text(filename, "save"), texts)


def save(tensors, metadata=None):
    """What save_file() would write, as bytes."""
    out = io.BytesIO()
    save_file(tensors, out, metadata)
    return out.getvalue()


def load(data):
    """The tensors of the bytes of a file, as a dict on the CPU."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"pf.safetensors.load: got a {type(data).__name__}; expected bytes; use load_file for "
            "paths and file objects"
        )
    return _C._load_safetensors(data, None, False, None, "<bytes>")


def load_file(filename, device=None, *, mmap=False, names=None):
    """The tensors of a path or a binary file object as a dict, on `device` (the CPU by default).

    With `mmap` the tensors show the pages of the file itself; writes do not reach it. With `names`
    only these are read: `FileError` is raised for a tensor whose dtype PyFlame does not have, and
    the others of its file can be had so.
    """
    if isinstance(names, str):
        raise TypeError(
            f"pf.safetensors.load_file: got names={names!r}; expected several names; put it in a "
            "list"
        )
    source, name = _source(filename)
    return _C._load_safetensors(source, device, bool(mmap), names, name)


def metadata(filename):
    """Names with (dtype, shape), and the text metadata of a file, without reading its data.

    A dtype that PyFlame does not have is given as the file's text.
    """
    return _C._inspect_safetensors(*_source(filename))


def save_model(model, filename, metadata=None, force_contiguous=True):
    """Writes the state of a module; a weight that is tied is written once, under its first name.

    Which names stand for the same weight is said in the metadata. `force_contiguous` is accepted:
    files hold tensors row-major.
    """
    state, kept, texts = model.state_dict(keep_vars=True), {}, _texts(metadata, "save_model")
    first = {}  # id of a value: its first name
    for name, value in state.items():
        if not isinstance(value, _C.Tensor):
            raise TypeError(
                f"pf.safetensors.save_model: got a state with {name!r} of type "
                f"{type(value).__name__}; expected tensors alone, for such a file holds nothing "
                "else; use pf.save(model.state_dict(), ...)"
            )
        if first.setdefault(id(value), name) == name:
            kept[name] = value.detach()
        else:
            texts[name] = first[id(value)]
    save_file(kept, filename, texts)


def load_model(model, filename, strict=True, device=None):
    """Reads what save_model() wrote into a module; returns (missing keys, unexpected keys).

    RuntimeError when `strict` and there are any.
    """
    state, known = load_file(filename, device), model.state_dict()
    for name, same in metadata(filename)[1].items():
        if same in state and name in known:
            state.setdefault(name, state[same])
    found = model.load_state_dict(state, strict=strict)
    return found.missing_keys, found.unexpected_keys


class safe_open:
    """A file whose tensors are read one by one, as they are asked for:

        with safe_open("weights.safetensors") as f:
            for name in f.keys():
                tensor = f.get_tensor(name)

    `framework` is accepted ("pt"); tensors are PyFlame's, on `device` (the CPU by default).
    """

    def __init__(self, filename, framework="pt", device=None):
        self._path = path_text(filename, "load")
        self._device = None if device is None else _C.device(device)
        self._known, self._metadata = _C._inspect_safetensors(self._path, None)
        self._tensors = {}

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._tensors = {}

    def keys(self):
        """The names of the tensors."""
        return list(self._known)

    offset_keys = keys

    def metadata(self):
        """The text metadata, None when there is none."""
        return self._metadata or None

    def _get(self, name):
        if name not in self._known:
            raise _C.FileError(
                f"pf.safetensors.safe_open: '{self._path}' has no tensor {name!r}; expected one of "
                f"{self.keys()[:8]}; keys() lists all"
            )
        if name not in self._tensors:
            self._tensors |= load_file(self._path, mmap=True, names=[name])
        return self._tensors[name]

    def get_tensor(self, name):
        """One tensor, read into memory of its own."""
        return _own(self._get(name), self._device)

    def get_slice(self, name):
        """A tensor of which only the parts that are indexed are read."""
        return _Slice(self._get(name), self._device)


def _own(tensor, device):
    """A copy; placed where a device was named, else it floats as what load_file() gives."""
    return tensor.clone() if device is None else tensor.clone().to(device)


class _Slice:
    """What safe_open.get_slice() returns."""

    def __init__(self, tensor, device):
        self._tensor, self._device = tensor, device

    def get_shape(self):
        """The sizes as a list."""
        return list(self._tensor.shape)

    def get_dtype(self):
        """The dtype."""
        return self._tensor.dtype

    def __getitem__(self, key):
        return _own(self._tensor[key], self._device)


_name_errors(__name__)
