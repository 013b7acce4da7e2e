"""inspect.signature of operations, made from their schemas when somebody asks."""

import inspect
import keyword
import math

from . import _C

_NAMES = {"None": None, "True": True, "False": False, "inf": math.inf, "-inf": -math.inf}


def _default(text):
    if text in _NAMES:
        return _NAMES[text]
    try:
        import ast

        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def of(op):
    """The signature of the first form of an operation."""
    parsed = _C._parse_schema(op.schemas[0])
    kinds = inspect.Parameter
    parameters = [
        kinds(
            p["name"] + "_" * keyword.iskeyword(p["name"]),
            kinds.KEYWORD_ONLY if p["keyword_only"] else kinds.POSITIONAL_OR_KEYWORD,
            default=kinds.empty if p["default"] is None else _default(p["default"]),
            annotation=p["annotation"]
            .replace("_int", "int")
            .replace("_float", "float")
            .replace("_bool", "bool"),
        )
        for p in parsed["params"]
    ]
    return inspect.Signature(parameters, return_annotation=parsed["result"] or None)


def kwdefaults(op):
    """What keywords that are only keywords are without being given, as Python's functions say it; None where
    there are none. Programs ask by it whether an argument exists."""
    only = {
        p.name: p.default
        for p in of(op).parameters.values()
        if p.kind is p.KEYWORD_ONLY and p.default is not p.empty
    }
    return only or None
