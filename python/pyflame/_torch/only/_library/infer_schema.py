"""torch._library.infer_schema: the signature of a function as torch.library writes it."""

import collections.abc as _abc
import inspect as _inspect
import types as _types
import typing as _typing

from .... import Tensor as _Tensor
from .... import device as _device
from .... import dtype as _dtype

_WORDS = {
    _Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", _dtype: "ScalarType",
    _device: "Device",
}  # fmt: skip
_LISTS = (list, tuple, _abc.Sequence)


def _word(kind):
    origin, inside = _typing.get_origin(kind), _typing.get_args(kind)
    if origin in (_typing.Union, _types.UnionType):
        others = [a for a in inside if a is not type(None)]
        word = (
            "Scalar" if set(others) <= {int, float, bool} and len(others) > 1 else _word(others[0])
        )
        if len(others) == 1 or word == "Scalar":
            return word + ("?" if type(None) in inside else "")
    if origin in _LISTS and inside:
        return _word(inside[0]) + "[]"
    if kind not in _WORDS:
        raise ValueError(
            f"torch.library.infer_schema: got the type {kind}; expected Tensor, int, float, bool, str, dtype, "
            "device, lists of them, or one that may be None"
        )
    return _WORDS[kind]


def _default(value):
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).removeprefix("torch.")


def infer_schema(prototype_function, *, mutates_args=(), op_name=None):
    """Such a text of a function with annotations: "(Tensor x, SymInt n=3) -> Tensor"."""
    signature = _inspect.signature(prototype_function, eval_str=True)
    parts, named = [], False
    for i, p in enumerate(signature.parameters.values()):
        if p.kind is p.KEYWORD_ONLY and not named:
            parts.append("*")
            named = True
        if p.annotation is p.empty:
            raise ValueError(
                f"torch.library.infer_schema: parameter {p.name} has no annotation; give it a type"
            )
        word = _word(p.annotation)
        if mutates_args == "unknown" or p.name in mutates_args:
            if word.startswith("Tensor"):
                word = word.replace("Tensor", f"Tensor(a{i}!)", 1)
        default = "" if p.default is p.empty else f"={_default(p.default)}"
        parts.append(f"{word} {p.name}{default}")
    back = signature.return_annotation
    if back is signature.empty:
        raise ValueError(
            "torch.library.infer_schema: the result has no annotation; give it a type, or None"
        )
    if back is None:
        result = "()"
    elif _typing.get_origin(back) is tuple:
        result = "(" + ", ".join(map(_word, _typing.get_args(back))) + ")"
    else:
        result = _word(back)
    return f"{op_name or ''}({', '.join(parts)}) -> {result}"
