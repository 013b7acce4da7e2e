"""A score_mod as text: what a GPU's kernel of attention computes for each score itself.

The function is called once with a `_Number` in place of each argument, which notes what is done to it. What
cannot be said so (a value that decides what runs, an operation that is none of single numbers, a position
that float32 cannot hold) raises `_Unknown`, and the function runs in operations instead.
"""

import numbers
import operator

from ... import _C, _ops
from ..._C import Tensor

_EXACT = 1 << 24  # float32 holds whole numbers up to this
_TABLES = 4


class _Unknown(Exception):
    """The function is none that a kernel computes."""


class _Number:
    """Text of one number, which is a float32, a whole number between `low` and `high`, or a bool."""

    def __init__(self, text, kind, low=0, high=0, trace=None):
        if kind == "int" and not -_EXACT <= low <= high <= _EXACT:
            raise _Unknown("whole numbers that float32 does not hold")
        self.text, self.kind, self.low, self.high, self.trace = text, kind, low, high, trace

    def __repr__(self):
        return self.text

    def __bool__(self):
        raise _Unknown("a branch on a value")

    __int__ = __float__ = __index__ = __len__ = __iter__ = __bool__

    # What of a tensor a function of one score may ask.
    shape, ndim = (), 0
    requires_grad = False

    @property
    def dtype(self):
        return {"float": _ops.float32, "int": _ops.int64, "bool": _ops.bool}[self.kind]

    @property
    def device(self):
        return self.trace.device

    def dim(self):
        return 0

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: _call(name, (self, *args), kwargs)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return _call(getattr(func, "__name__", "?"), args, kwargs or {})


_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
    "and_": "and", "or_": "or",
}  # fmt: skip
_NAMES = {  # of functions and methods, by those of the operator module
    "subtract": "sub", "multiply": "mul", "div": "truediv", "divide": "truediv",
    "true_divide": "truediv", "floor_divide": "floordiv", "remainder": "mod",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "not_equal": "ne",
    "logical_and": "and_", "bitwise_and": "and_", "logical_or": "or_", "bitwise_or": "or_",
    "minimum": "min", "maximum": "max", "absolute": "abs", "negative": "neg",
    "logical_not": "invert", "bitwise_not": "invert", "clip": "clamp", "__getitem__": "getitem",
}  # fmt: skip
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def _operators():
    def of(name, turned):
        def method(self, other):
            return _call(name, (other, self) if turned else (self, other), {})

        return method

    for name in _OPERATORS:
        plain = name.rstrip("_")
        setattr(_Number, f"__{plain}__", of(name, False))
        if _OPERATORS[name] not in _COMPARISONS:
            setattr(_Number, f"__r{plain}__", of(name, True))
    _Number.__neg__ = lambda self: _call("neg", (self,), {})
    _Number.__abs__ = lambda self: _call("abs", (self,), {})
    _Number.__invert__ = lambda self: _call("invert", (self,), {})
    _Number.__hash__ = None


_operators()


def _trace_of(args):
    for a in args:
        if isinstance(a, _Number):
            return a.trace
        if isinstance(a, (list, tuple)) and (found := _trace_of(a)):
            return found
    return None


def _call(name, args, kwargs):
    """The number that an operation of numbers gives."""
    name = _NAMES.get(name, name)
    trace = _trace_of((*args, *kwargs.values()))
    if name == "getitem":
        return trace.look_up(*args)
    if name in ("float", "to", "type"):
        return _converted(name, args, kwargs)
    if name == "clamp":
        x, low, high = trace.several(_bounds(*args, **kwargs))
        if low is not None:
            x = _extreme(max, x, low)
        return x if high is None else _extreme(min, x, high)
    if kwargs:
        raise _Unknown(f"{name} with {', '.join(kwargs)}")
    x = trace.several(args)
    if name in _OPERATORS and len(x) == 2:
        return _binary(name, *x)
    if name == "neg" and len(x) == 1 and x[0].kind != "bool":
        return _Number(f"(-{x[0]})", x[0].kind, -x[0].high, -x[0].low, trace)
    if name == "abs" and len(x) == 1 and x[0].kind != "bool":
        low = 0 if x[0].low <= 0 <= x[0].high else min(abs(x[0].low), abs(x[0].high))
        return _Number(f"abs({x[0]})", x[0].kind, low, max(abs(x[0].low), abs(x[0].high)), trace)
    if name == "invert" and len(x) == 1 and x[0].kind == "bool":
        return _Number(f"(not {x[0]})", "bool", trace=trace)
    if name in ("min", "max") and len(x) == 2:
        return _extreme(min if name == "min" else max, *x)
    if name == "where" and len(x) == 3 and x[0].kind == "bool":
        return _between(f"where({x[0]}, {x[1]}, {x[2]})", x[1], x[2], min, max)
    if name in _unary() and len(x) == 1 and x[0].kind != "bool":
        return _Number(f"{name}({x[0]})", "float", trace=trace)
    raise _Unknown(f"{name} of {len(args)} arguments")


def _bounds(x, min=None, max=None):
    return x, min, max


def _extreme(pick, a, b):
    """The smaller (`pick` is min) or the larger of two."""
    return _between(f"{pick.__name__}imum({a}, {b})", a, b, pick, pick)


def _between(text, a, b, low, high):
    """One of two numbers; `low` and `high` give the ends of where it lies from theirs."""
    if "bool" in (a.kind, b.kind):
        raise _Unknown("a choice between bools")
    if a.kind == b.kind == "int":
        return _Number(text, "int", low(a.low, b.low), high(a.high, b.high), a.trace)
    return _Number(text, "float", trace=a.trace or b.trace)


def _converted(name, args, kwargs):
    x, *to = args
    to = [*to, *kwargs.values()]
    if to not in ([], [_ops.float32]) and not (to == [x.dtype]):
        raise _Unknown(f"a conversion to {to}")
    if name != "float" and to != [_ops.float32]:
        return x
    return _Number(f"where({x}, 1, 0)" if x.kind == "bool" else x.text, "float", trace=x.trace)


def _binary(name, a, b):
    sign, trace = _OPERATORS[name], a.trace or b.trace
    kinds = {a.kind, b.kind}
    text = f"({a} {sign} {b})"
    if sign in ("and", "or"):
        if kinds != {"bool"}:
            raise _Unknown("bits of numbers")
        return _Number(text, "bool", trace=trace)
    if "bool" in kinds:
        raise _Unknown("arithmetic with bools")
    if sign in _COMPARISONS:
        return _Number(text, "bool", trace=trace)
    if kinds != {"int"} or sign == "/":
        return _Number(text, "float", trace=trace)
    if sign in ("+", "-", "*"):
        op = {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign]
        ends = [op(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    elif b.low == b.high > 0 and sign in ("//", "%"):
        ends = [a.low // b.low, a.high // b.low] if sign == "//" else [0, b.low - 1]
    else:
        raise _Unknown(f"{sign} of whole numbers")
    return _Number(text, "int", min(ends), max(ends), trace)


def _unary():
    """Functions of one number that expressions know by the same name as programs."""
    if not _rows:
        _rows.update(
            row["python"]
            for row in _C._pointwise_rows()
            if row["arity"] == 1 and not row["attrs"] and row["rule"] == "Float"
        )
    return _rows


_rows = set()


class _Trace:
    """What a function looks up while it is traced."""

    def __init__(self, device):
        self.device = device
        self.tables, self.at = [], []

    def several(self, values):
        return [v if v is None else self.number(v) for v in values]

    def number(self, v):
        if isinstance(v, _Number):
            return v
        if isinstance(v, Tensor):
            return self.look_up(v, ())
        if isinstance(v, bool):
            return _Number("(0 < 1)" if v else "(1 < 0)", "bool", trace=self)
        if isinstance(v, numbers.Integral):
            return _Number(f"({int(v)})", "int", int(v), int(v), self)
        if isinstance(v, numbers.Real):
            return _Number(f"({float(v)!r})", "float", trace=self)
        raise _Unknown(f"a {type(v).__name__}")

    def look_up(self, table, index):
        """An element of a tensor."""
        if not isinstance(table, Tensor) or table.dtype != _ops.float32 or table.numel() > _EXACT:
            raise _Unknown("a table that is none of float32")
        if table.numel() == 0 or table.device != self.device:
            raise _Unknown("a table that is empty or elsewhere")
        if _C.is_grad_enabled() and table.requires_grad:
            raise _Unknown("a table whose gradient is wanted")
        index = index if isinstance(index, tuple) else (index,)
        if len(index) != table.dim():
            raise _Unknown("a row of a table")
        text, step = "0", 1
        for i, size in reversed(list(zip(self.several(index), table.shape, strict=True))):
            if i.kind != "int" or not 0 <= i.low <= i.high < size:
                raise _Unknown("an index that may lie outside")
            text, step = f"({i} * {step} + {text})", step * size
        for n, (known, at) in enumerate(zip(self.tables, self.at, strict=True)):
            if known is table and at == text:
                return _Number(f"t{n}", "float", trace=self)
        if len(self.tables) == _TABLES:
            raise _Unknown("many tables")
        self.tables.append(table)
        self.at.append(text)
        return _Number(f"t{len(self.tables) - 1}", "float", trace=self)


def kernel_score(score_mod, query, keys):
    """(number of the function, tables) for a kernel, or None: then operations compute it.

    query [B, H, L, E], keys: how many keys there are."""
    if query.device.type not in ("cuda", "rocm") or query.dtype == _ops.float64:
        return None
    if _C._vmap_active():
        return None
    batch, heads, queries, _ = query.shape
    if 0 in (batch, heads, queries, keys):
        return None
    trace = _Trace(query.device)
    positions = [
        _Number(name, "int", 0, n - 1, trace)
        for name, n in zip("bhij", (batch, heads, queries, keys), strict=True)
    ]
    try:
        result = trace.number(score_mod(_Number("s", "float", trace=trace), *positions))
        if result.kind == "bool":
            result = _converted("float", (result,), {})
    except Exception:
        # Whatever it is, operations tell it, or have an answer.
        return None
    number = _C._define_score(result.text, trace.at)
    return (number, [t.detach() for t in trace.tables]) if number else None
