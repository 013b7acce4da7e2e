"""Language models in folders of Hugging Face's layout: config.json and safetensors, whole or in shards.

A model's class says what its weights are called there: `layout(config)` yields, one by one, (own name,
[Part, ...], transposed): the parts lie below each other in the own weight, and `transposed` ones have
their dimensions the other way round in files.
"""

import json
import os
from collections import namedtuple

from .. import _C, _files, _ops, safetensors
from ..autograd import no_grad
from ..serialization import path_text
from . import fields

CONFIG, WHOLE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
_OP = "models.from_pretrained"
_FLOATS = ("float64", "float32", "float16", "bfloat16")


class Part(namedtuple("Part", ["name", "shape", "top"], defaults=[False])):
    """A tensor of a file: its name without the class's `prefix` (with it none belongs: `top`)."""


def _error(path, why, expected, fix="check the folder"):
    return _C.FileError(f"pf.{_OP}: '{path}' {why}; expected {expected}; {fix}")


def _json(path, most):
    try:
        value = json.loads(_files.read_regular(path, _OP, most).decode("utf-8"))
    except _C.FileError:
        raise
    except OSError as e:
        raise _error(path, f"cannot be read ({e.strerror or e})", "a readable file") from None
    except (ValueError, RecursionError) as e:
        raise _error(path, f"is no JSON ({str(e)[:80]})", "an object") from None
    if type(value) is not dict:
        raise _error(path, f"holds a {type(value).__name__}", "an object")
    return value


def _shards(folder):
    """{file name: names that are taken from it, or None for all}."""
    index, whole = (os.path.join(folder, name) for name in (INDEX, WHOLE))
    if os.path.exists(whole) or not os.path.exists(index):
        if not os.path.exists(whole):
            others = [n for n in ("pytorch_model.bin", "model.gguf") if
                      os.path.exists(os.path.join(folder, n))]  # fmt: skip
            has = f"holds {others[0]} and no {WHOLE}" if others else f"holds no {WHOLE}"
            raise _error(
                folder, has, f"safetensors, or {INDEX}",
                "pyflame convert reads files of torch.save" if others else "check the path",
            )  # fmt: skip
        return {WHOLE: None}
    places = _json(index, 1 << 28).get("weight_map")
    if type(places) is not dict or not places:
        raise _error(index, "has no weight_map", "names of weights and of files")
    files = {}
    for name, file in places.items():
        # Only what lies in the folder itself.
        if type(file) is not str or not file or file != os.path.basename(file) or "\0" in file:
            raise _error(index, f"names the file {str(file)[:80]!r}", "a name in the same folder")
        files.setdefault(file, []).append(name)
    return files


class _Weights:
    """The tensors of a folder: where each stands, its dtype and shape. None is read before `get`."""

    def __init__(self, folder):
        self.places, self.open = {}, {}
        for file, names in _shards(folder).items():
            path = os.path.join(folder, file)
            known = safetensors.metadata(path)[0]
            for name in known if names is None else names:
                if name not in known:
                    raise _error(path, f"has no tensor {name[:80]!r}", f"what {INDEX} says of it")
                self.places[name] = (path, *known[name])

    def get(self, name):
        """The tensor, mapped."""
        path = self.places[name][0]
        if path not in self.open:
            names = [n for n, (p, *_) in self.places.items() if p == path and self.wanted(n)]
            self.open[path] = safetensors.load_file(path, mmap=True, names=names)
        return self.open[path][name]

    def match(self, cls, config):
        """[(own name, names in files, transposed)] when every weight is there and has its shape."""
        prefix = cls.prefix
        if not any(name.startswith(prefix) for name in self.places):
            prefix = ""
        found, used = [], set()
        for own, parts, transposed in cls.layout(config):
            names = []
            for part in parts:
                name = part.name if part.top else prefix + part.name
                if name not in self.places:
                    raise self._unfit(f"there is no '{name}'")
                path, dtype, shape = self.places[name]
                kind = str(dtype).rsplit(".", 1)[-1]
                if tuple(shape) != tuple(part.shape):
                    raise self._unfit(
                        f"'{name}' of {os.path.basename(path)} is {list(shape)} and not "
                        f"{list(part.shape)}"
                    )
                if kind not in _FLOATS:
                    raise _C.NotSupportedError(
                        f"pf.{_OP}: '{path}' has '{name}' in {kind}; expected one of "
                        f"{', '.join(_FLOATS)}; quantised weights have to be converted first"
                    )
                names.append(name)
            used.update(names)
            found.append((own, names, transposed))
        tied = {"lm_head.weight"} if config.tied else set()
        rest = [
            n for n in self.places
            if n not in used and n not in tied and not n.endswith(cls.ignored)
        ]  # fmt: skip
        if rest:
            raise self._unfit(f"nothing is known of '{rest[0][:80]}'")
        self.wanted = used.__contains__
        return found

    def _unfit(self, why):
        folder = os.path.dirname(next(iter(self.places.values()))[0]) if self.places else "."
        return _error(folder, f"does not fit its {CONFIG}: {why}", "one model", "check both")


def model_type(folder):
    """What config.json in `folder` says that the model is."""
    return _json(os.path.join(path_text(folder, _OP), CONFIG), 1 << 24).get("model_type")


def read_config(cls, folder):
    """The configuration of the model in `folder`, and what the file says besides."""
    path = os.path.join(folder, CONFIG)
    values = _json(path, 1 << 24)
    kind = values.get("model_type")
    if kind != cls.model_type:
        raise _C.NotSupportedError(
            f"pf.{_OP}: '{path}' is of model_type {str(kind)[:60]!r}; expected "
            f"'{cls.model_type}' for {cls.__name__}; take the class that belongs to it"
        )
    try:
        return cls.config_class.from_file(fields.Given(values, path))
    except (_C.FileError, _C.NotSupportedError):
        raise
    except (ValueError, TypeError, AttributeError) as e:
        raise _error(path, f"cannot be taken ({str(e)[:200]})", "possible sizes") from None


def load(cls, path, *, dtype=None, device=None):
    folder = path_text(path, _OP)
    if not os.path.isdir(folder):
        raise _error(folder, "is no folder", f"one with {CONFIG} and {WHOLE}", "check the path")
    config = read_config(cls, folder)
    weights = _Weights(folder)
    found = weights.match(cls, config)  # before memory is taken
    model = cls(config, device="meta")
    state = {}
    with no_grad():
        for own, names, transposed in found:
            state[own] = _made([weights.get(n) for n in names], transposed, dtype, device)
    if config.tied:
        state["lm_head.weight"] = state[model.tied_to]
    weights.open.clear()
    model.load_state_dict(state, assign=True)
    if config.tied:
        model.lm_head.weight = model.get_parameter(model.tied_to)
    model.loaded(device)
    return model.eval()


def _made(parts, transposed, dtype, device):
    """The own weight of what files have, in memory of its own."""
    if transposed:
        parts = [t.t() for t in parts]
    shape = sum(t.shape[0] for t in parts), *parts[0].shape[1:]
    made = _ops.empty(shape, dtype=dtype or parts[0].dtype, device=device)
    first = 0
    for t in parts:
        made.narrow(0, first, t.shape[0]).copy_(t)
        first += t.shape[0]
    return made


# ---- writing ------------------------------------------------------------------------------------


def _tensors(model):
    """(name in files, tensor) one by one, and views of what is one weight here."""
    state = {name: p.detach() for name, p in model.named_parameters(remove_duplicate=False)}
    for own, parts, transposed in type(model).layout(model.config):
        whole, first = state[own], 0
        for part in parts:
            if len(parts) > 1:
                value = whole.narrow(0, first, part.shape[0])
                first += part.shape[0]
            else:
                value = whole.t() if transposed else whole
            yield part.name if part.top else type(model).prefix + part.name, value


def save(model, path, *, max_shard_bytes, dtype=None):
    folder = path_text(path, "models.save_pretrained")
    if isinstance(max_shard_bytes, bool) or not isinstance(max_shard_bytes, int):
        raise TypeError(
            f"pf.models.save_pretrained: got max_shard_bytes={max_shard_bytes!r}; expected a whole "
            "number of bytes"
        )
    config = model.config.to_file()
    shards, total = [[]], 0
    room = max_shard_bytes
    for name, value in _tensors(model):
        size = (
            value.numel() * (value if dtype is None else value.new_empty(0, dtype=dtype)).itemsize
        )
        if shards[-1] and size > room:
            shards.append([])
            room = max_shard_bytes
        shards[-1].append((name, value))
        room -= size
        total += size
    os.makedirs(folder, exist_ok=True)
    texts = {"format": "pt"}
    places = {}
    for number, shard in enumerate(shards, 1):
        file = WHOLE if len(shards) == 1 else f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        with no_grad():
            values = {
                n: (v if dtype is None else v.to(dtype)).to("cpu").contiguous() for n, v in shard
            }
        safetensors.save_file(values, os.path.join(folder, file), texts)
        places |= dict.fromkeys(values, file)
        kind = next(iter(values.values())).dtype
    config["torch_dtype"] = str(kind).rsplit(".", 1)[-1]
    if len(shards) > 1:
        index = {"metadata": {"total_size": total}, "weight_map": places}
        _write(folder, INDEX, index)
    _write(folder, CONFIG, config)
    # What an earlier model of another size has left would be read instead.
    for file in (WHOLE, INDEX):
        old = os.path.join(folder, file)
        if file not in {*places.values(), INDEX if len(shards) > 1 else None} and os.path.exists(
            old
        ):
            os.remove(old)


def _write(folder, name, value):
    text = json.dumps(value, indent=2, sort_keys=True) + "\n"
    _C._write_file(os.path.join(folder, name), text.encode())
