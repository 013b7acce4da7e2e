"""The configuration of a run: read from files that may be damaged, and checked."""

import json
import os

from .. import _C, _files
from ..models import fields
from ..models.fields import number as _number
from ..models.fields import whole as _whole
from ..models.gpt import GPTConfig
from ..models.gpt2 import GPT2Config
from .runs import CONFIG
from .token_files import DTYPES

# What each field must be. Sizes have limits so that nobody waits for what cannot be.
MODEL = {
    "vocab": _whole(256, 256),
    "layers": _whole(1, 10_000),
    "width": _whole(1, 1 << 17),
    "heads": _whole(1, 1 << 17),
    "context": _whole(1, 1 << 24),
    "hidden": _whole(1, 1 << 20),
    "dropout": _number(0, 1),
    "tied": lambda v: type(v) is bool,
}
FIELDS = {
    "steps": _whole(1),
    "batch": _whole(1, 1 << 20),
    "seed": _whole(0, 2**64 - 1),
    "warmup": _whole(1),
    "lr": _number(0, 1e30, without_low=True),
    "clip": _number(0, 1e30, without_low=True),
    "weight_decay": _number(0, 1e30),
    "log_interval": _whole(1),
    "eval_bytes": _whole(1),
    "data": lambda v: v is None or type(v) is str,
    "fingerprint": lambda v: type(v) is str,
}
# Runs of old do not have these.
_LATER = {
    "accumulation": _whole(1, 1 << 20),
    "eval_interval": _whole(0),
    "compile": fields.flag,
    "weights": lambda v: v in ("float32", "bfloat16"),
    "kind": lambda v: v in ("bytes", "gpt2"),
}
_OF_TOKENS = {
    "tokens": lambda v: type(v) is str,
    "dtype": lambda v: v in DTYPES,
    "tokenizer": lambda v: type(v) is str,
    "init": lambda v: v is None or type(v) is str,
}


def _check_fields(values, wanted):
    if why := fields.wrong(values, wanted):
        raise ValueError(why)


def check_model(sizes, kind="bytes"):
    """ValueError when `sizes` cannot be those of a model; else its configuration."""
    if kind != "bytes":
        _check_fields(sizes, GPT2Config.FIELDS)
        if set(sizes) != set(GPT2Config.FIELDS):
            raise ValueError("it has an unknown field")
        return GPT2Config(**sizes)
    _check_fields(sizes, MODEL)
    if unknown := set(sizes) - set(MODEL):
        raise ValueError(f"it has the unknown field {sorted(map(str, unknown))[0][:40]!r}")
    return GPTConfig(**sizes)


def read_config(directory):
    """The configuration of the run in `directory`. FileError says what is wrong with it."""
    path = os.path.join(directory, CONFIG)
    try:
        config = json.loads(_files.read_regular(path, "train", 1 << 20).decode("utf-8"))
        _check_fields(config, FIELDS)
        _check_fields(config, {k: good for k, good in _LATER.items() if k in config})
        kind = config.get("kind", "bytes")
        if kind != "bytes":
            _check_fields(config, _OF_TOKENS)
        check_model(config.get("model"), kind)
    except (OSError, ValueError, RecursionError) as e:
        raise _C.FileError(
            f"pf.train: '{path}' is missing or damaged ({e}); expected the "
            "configuration of a run; start a new run"
        ) from None
    return config


def check_memory(config):
    """ValueError when the model or its batches can surely not be held: before time is spent."""
    sizes, batch = config["model"], config["batch"]
    width, layers, context = sizes["width"], sizes["layers"], sizes["context"]
    weights = layers * width * (4 * width + 2 * sizes["hidden"]) + sizes["vocab"] * width
    # Weights, gradients and two moments; at least a few values kept for each token and layer.
    least = 4 * (4 * weights + batch * context * (2 * width * layers + sizes["vocab"]))
    have = int(_C.device_info()["total_memory"])
    if have and least > have:
        raise _C.ValueError(
            f"pf.train: {layers} layers of width {width} with {batch} windows of {context} bytes "
            f"need at least {least / 2**30:,.0f} GiB, and {_C.get_device()} has "
            f"{have / 2**30:,.0f}; expected what fits; choose smaller --layers, --width, --context "
            "or --batch"
        )
