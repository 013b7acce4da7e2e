"""Draws programs: tensors, then one call. `m` stands for the module."""

import inspect
import itertools
import keyword
import math
import random
import re
from dataclasses import dataclass, field

from . import hints

NAN, INF = math.nan, math.inf
FLOATS = ("float32", "float64", "float16", "bfloat16")
COMPLEX = {"complex64": "float32", "complex128": "float64"}  # and what their parts are
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
MAIN = ["float64"] * 10 + ["float32"] * 7 + ["int64"] * 4 + ["bool"] * 2 + ["int32"]
MAIN += ["bfloat16", "bfloat16", "float16", "uint8", "int8", "int16"]
SHAPES = [(), (0,), (1,), (3,), (5,), (17,), (2, 3), (3, 3), (1, 3), (3, 1), (2, 0), (4, 5)]
SHAPES += [(2, 3, 4), (2, 1, 3), (3, 2, 2), (0, 3, 2), (1, 2, 3, 2)]
LIMITS = {"int64": 63, "int32": 31, "int16": 15, "int8": 7}


# ---- signatures -----------------------------------------------------------------------------------
@dataclass
class Param:
    name: str
    type: str  # Tensor, Tensor[], int, int[], float, float[], bool, Scalar, str, dtype, device
    optional: bool
    keyword_only: bool
    has_default: bool


@dataclass
class Form:
    params: list
    source: str


_OURS = {
    "Tensor": "Tensor", "Sequence[Tensor]": "Tensor[]", "_int": "int", "_float": "float",
    "_int | Sequence[_int]": "int[]", "Sequence[_float]": "float[]", "_bool": "bool",
    "_float | Sequence[_float]": "float[]",
    "Number": "Scalar", "str": "str", "dtype": "dtype", "device | str": "device",
}  # fmt: skip
_ATEN = {
    "Tensor": "Tensor", "List[Tensor]": "Tensor[]", "int": "int", "List[int]": "int[]",
    "float": "float", "List[float]": "float[]", "bool": "bool", "number": "Scalar", "str": "str",
    "Device": "device", "List[Optional[Tensor]]": "Tensor[]",
}  # fmt: skip


def our_form(parse, schema):
    params = []
    for p in parse(schema)["params"]:
        kind, optional = p["annotation"], p["annotation"].endswith(" | None")
        kind = _OURS[kind.removesuffix(" | None")]
        params.append(Param(p["name"], kind, optional, p["keyword_only"], p["default"] is not None))
    return Form(params, "registry")


def aten_forms(torch, name):
    """The overloads of aten's operator of that name that Python's arguments can spell."""
    forms = []
    for schema in torch._C._jit_get_schemas_for_operator("aten::" + name):
        params = []
        for a in schema.arguments:
            text = str(a.type)
            optional = text.startswith("Optional[")
            text = text[9:-1] if optional else text
            if a.alias_info is not None and a.alias_info.is_write and a.kwarg_only:
                break  # out=
            kind = "dtype" if a.name == "dtype" else _ATEN.get(text)
            if a.name in ("layout", "pin_memory", "memory_format", "generator") or not kind:
                if a.has_default_value() or optional:
                    continue
                break
            if a.name in ("implicit", "cudnn_enable", "input_scale") or (a.name, name) == (
                "scale",
                "elu_",
            ):
                continue  # aten's own, not meant for callers
            if kind == "str" and "dim" in a.name:
                break  # named dimensions
            params.append(
                Param(a.name, kind, optional, a.kwarg_only, a.has_default_value() or optional)
            )
        else:
            if any(p.type in ("Tensor", "Tensor[]") for p in params) or "size" in str(schema):
                forms.append(Form(params, "aten"))
    return forms


def python_forms(function):
    """The signature of a function that PyTorch writes in Python."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    params = []
    for p in signature.parameters.values():
        text = re.sub(r"torch\.|typing\.", "", inspect.formatannotation(p.annotation))
        optional = "None" in text or text.startswith("Optional[")
        text = re.sub(r" \| None|None \| ", "", text)
        text = text[9:-1] if text.startswith("Optional[") else text
        kind = {"list[int]": "int[]", "List[int]": "int[]", "Tensor": "Tensor", "int": "int"}
        kind |= {"float": "float", "bool": "bool", "str": "str", "DType": "dtype", "dtype": "dtype"}
        kind |= {"list[Tensor]": "Tensor[]", "List[Tensor]": "Tensor[]"}
        has_default = p.default is not inspect.Parameter.empty
        if p.name == "generator" or text not in kind:
            if has_default:
                continue
            return []
        only = p.kind == inspect.Parameter.KEYWORD_ONLY
        params.append(Param(p.name, kind[text], optional, only, has_default))
    return [Form(params, "signature")]


# ---- values ---------------------------------------------------------------------------------------
def number(rng, dtype, mode):
    if dtype == "bool":
        return rng.random() < 0.5
    if dtype in COMPLEX:
        return complex(*[number(rng, COMPLEX[dtype], mode) for _ in range(2)])
    if dtype in FLOATS:
        if mode == "special" and rng.random() < 0.5:
            large = {"float64": 1e300, "float32": 1e38, "bfloat16": 1e38, "float16": 6e4}[dtype]
            return rng.choice([NAN, INF, -INF, 0.0, -0.0, large, -large, 1e-4, 1.0])
        if mode == "small":
            return rng.choice([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
        return round(rng.gauss(0, 2), 2)
    if mode == "special" and rng.random() < 0.4:
        bits = LIMITS.get(dtype)
        return rng.choice([2**bits - 1, -(2**bits), 0]) if bits else rng.choice([255, 128, 0])
    return rng.randint(0, 7) if dtype == "uint8" else rng.randint(-3, 5)


def _identity(shape):
    n = shape[-1] if shape else 1
    rows = shape[-2] if len(shape) > 1 else 1
    return [float(i % n == i // n % rows) for i in range(math.prod(shape))]


# Where factors of gradients vanish or coincide.
DEGENERATE = {
    "zeros": lambda shape: [0.0] * math.prod(shape),
    "ones": lambda shape: [1.0] * math.prod(shape),
    "equal": lambda shape: [0.5] * math.prod(shape),
    "identity": _identity,
    "repeated": lambda shape: [[1.0, 2.0, 2.0, 1.0][i % 4] for i in range(math.prod(shape))],
    "below zero": lambda shape: [-1.0] * math.prod(shape),
}


def literal(value):
    if isinstance(value, complex):
        return f"complex({literal(value.real)}, {literal(value.imag)})"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(literal(v) for v in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    return repr(value)


def nested(values, shape):
    if not shape:
        return values[0]
    step = len(values) // shape[0]
    return [nested(values[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


@dataclass
class T:
    """A drawn tensor: how the program writes it, and what it is."""

    text: str
    shape: tuple
    dtype: str


@dataclass
class Case:
    op: str
    place: str
    source: str
    setup: list = field(default_factory=list)
    call: str = ""
    names: list = field(default_factory=list)  # of the tensors made
    leaves: list = field(default_factory=list)  # those that require grad
    args: dict = field(default_factory=dict)  # drawn tensors and values by parameter
    first: T | None = None
    special: bool = False  # holds infinities, NaN and extremes
    bad: bool = False  # an argument of a wrong type
    out: str = ""  # how out= fits
    undefined: bool = False  # elements hold anything
    unordered: bool = False  # which index equal elements have is open

    def program(self):
        return "\n".join([*self.setup, f"r = {self.call}"])


class Draw:
    """One case in the making."""

    def __init__(self, rng, op, place, form, dtypes=MAIN, degenerate=None):
        self.rng = rng
        self.op = op
        self.base = op.removesuffix("_")
        self.case = Case(op, place, form.source)
        self.dtype = rng.choice(dtypes)
        self.mode = rng.choices(["plain", "small", "special"], [70, 13, 17])[0]
        precise = self.dtype in ("float64", "complex128")
        self.grad = precise and self.mode != "special" and rng.random() < 0.75
        if self.dtype in FLOATS and self.dtype != "float64" and self.mode != "special":
            self.grad = beside(rng).random() < 0.4
        self.degenerate = degenerate
        if degenerate:
            self.mode, self.grad = "plain", self.dtype == "float64"
        self.case.special = self.mode == "special"
        self.first = None  # the first tensor
        self.spread = False  # a list of tensors is written as several arguments
        self.plan = iter(())

    # -- tensors
    def name(self):
        return "abcdefghijklmnop"[len(self.case.names)]

    def tensor(self, shape, dtype=None, values=None, grad=None, layouts=True):
        rng, dtype = self.rng, dtype or self.dtype
        name = self.name()
        if grad is None and self.dtype in ("float64", "complex128"):
            grad = self.grad and dtype in ("float64", "complex128") and rng.random() < 0.75
        elif grad is None:
            grad = self.grad and dtype in FLOATS and beside(rng).random() < 0.75
        layout = rng.choice(["", "", "", "transposed", "strided", "offset", "expanded", "column"])
        if not layouts or not shape or self.degenerate:
            layout = ""
        made, view = tuple(shape), ""
        if layout == "transposed" and len(shape) > 1:
            made = (shape[-1], *shape[1:-1], shape[0])
            view = ".transpose(0, -1)"
        elif layout == "strided":
            made, view = (*shape[:-1], 2 * shape[-1]), "[..., ::2]"
        elif layout == "offset":
            made, view = (shape[0] + 1, *shape[1:]), "[1:]"
        elif layout == "column":
            made, view = (*shape, 2), "[..., 1]"
        elif layout == "expanded" and shape[0] > 0:
            made, view = (1, *shape[1:]), f".expand({literal(tuple(shape))})"
        size = math.prod(made)
        make = values or (lambda: number(rng, dtype, self.mode))
        if self.degenerate and values is None and dtype in FLOATS:
            make = iter(DEGENERATE[self.degenerate](made)).__next__
        extra = f", dtype=m.{dtype}" + (", requires_grad=True" if grad else "")
        if size == 0:
            text = f"m.zeros({literal(made)}{extra})"
        else:
            text = f"m.tensor({literal(nested([make() for _ in range(size)], made))}{extra})"
        self.case.setup.append(f"{name} = {text}")
        self.case.names.append(name)
        if grad:
            self.case.leaves.append(name)
        return T(name + view, tuple(shape), dtype)

    def broadcast(self, shape):
        """A shape that broadcasts with this one."""
        rng = self.rng
        shape = [1 if rng.random() < 0.3 else n for n in shape]
        return tuple(shape[rng.randint(0, len(shape)) :] if rng.random() < 0.4 else shape)

    def plan_shapes(self, count):
        """Shapes for the tensors of the call, in order."""
        rng = self.rng
        template = hints.SHAPES.get(self.op) or hints.SHAPES.get(self.base)
        if template is not None and rng.random() < 0.88:
            letters = {}
            batch = rng.choice([(), (), (), (2,), (3,), (2, 1), (0,)])
            shapes = []
            for part in template.split(","):
                shape = []
                if part.startswith("*"):
                    shape += batch if rng.random() < 0.8 else self.broadcast(batch)
                for c in part.strip("*?"):
                    size = int(c) if c.isdigit() else letters.get(c)
                    if size is None:
                        size = letters[c] = rng.choice([1, 2, 3, 3, 4, 5, 2, 0])
                    shape.append(size)
                if rng.random() < 0.03 and shape:
                    shape[rng.randrange(len(shape))] += 1
                if part.endswith("?") and rng.random() < 0.5:
                    shape = self.broadcast(shape)
                shapes.append(tuple(shape))
            yield from shapes
        base = rng.choice(SHAPES)
        yield base
        while True:
            dice = rng.random()
            if dice < 0.5:
                yield base
            elif dice < 0.8:
                yield self.broadcast(base)
            elif dice < 0.9:
                yield ()
            else:
                yield rng.choice(SHAPES)

    def bound(self, param):
        what = hints.INDEX_OF.get((self.op, param)) or hints.INDEX_OF.get((self.base, param))
        if isinstance(what, int):
            return what
        shape = self.first.shape if self.first else (4,)
        if what == "numel":
            return math.prod(shape)
        if what == "classes":
            return shape[1] if len(shape) > 1 else (shape or (1,))[0]
        if what == "rows of weight":
            return 3
        dim = self.case.args.get("dim", 0)
        if not isinstance(dim, int) or not shape or not -len(shape) <= dim < len(shape):
            dim = 0
        return shape[dim] if shape else 1

    def tensor_argument(self, p):
        rng, key = self.rng, (self.base, p.name)
        shape = next(self.plan)
        is_index = p.name in hints.INDEX or key in hints.INDEX_OF
        if is_index and not (key[1] == "target" and rng.random() < 0.2):
            n = self.bound(p.name)
            low = -n if rng.random() < 0.1 else 0
            if rng.random() < 0.04:
                n += 2
            dtype = rng.choices(["int64", "int32", "uint8", "float32"], [90, 6, 2, 2])[0]
            low = 0 if dtype == "uint8" else low
            return self.tensor(shape, dtype, lambda: rng.randint(low, max(n - 1, low)), False)
        if p.name in hints.BOOL and rng.random() < 0.92:
            return self.tensor(shape, "bool", grad=False)
        if key in hints.SIGNS and rng.random() < 0.9:
            low = 0 if self.dtype in ("uint8", "bool") else -1
            return self.tensor(shape, None, lambda: rng.choice([1, low]))
        dtype = self.dtype
        if rng.random() < 0.1 and self.first is not None:
            dtype = rng.choice(MAIN)
        if key in hints.SORTED and dtype != "bool":
            values = itertools.count(0 if dtype == "uint8" else -3)
            return self.tensor(shape, dtype, lambda: next(values), False, layouts=False)
        if dtype in FLOATS and rng.random() < 0.93:
            if key in hints.UNIT:
                return self.tensor(shape, dtype, lambda: round(rng.random(), 2))
            if key in hints.POSITIVE:
                return self.tensor(shape, dtype, lambda: round(rng.random() * 3, 2) + 0.1)
        return self.tensor(shape, dtype)

    # -- other arguments
    def dim(self):
        rank = len(self.first.shape) if self.first else 2
        rng, n = self.rng, max(rank, 1)
        if rng.random() < 0.06:
            return rng.choice([n, -n - 1, n + 3])
        return rng.randint(-n, n - 1)

    def integer(self, p):
        rng = self.rng
        if p.name in hints.DIMS:
            return self.dim()
        return rng.choice(hints.INTS.get(p.name, [0, 1, 2, 3, -1, 1, 2, -2, 5]))

    def real(self, p):
        rng = self.rng
        if rng.random() < 0.06:
            return rng.choice([NAN, INF, -INF, -1.0, 0.0])
        return rng.choice(hints.FLOATS.get(p.name, [0.5, 1.0, 2.0, 0.1, -1.5, 0.0, 3]))

    def scalar(self, p):
        rng, dice = self.rng, self.rng.random()
        if self.op in hints.LENGTHS:
            return rng.choice([0, 1, 2, 5, -3, 17, 0.5, 2.5, -1.25, NAN, INF])
        if dice < 0.07:
            return rng.random() < 0.5
        if dice < 0.13:
            return rng.choice([NAN, INF, -INF, 1e30, -0.0])
        if dice < 0.16:
            return rng.choice([300, -129, 2**31, -(2**63), 2**40])
        if self.dtype in COMPLEX and dice < 0.3:
            return number(rng, self.dtype, self.mode)
        if dice < (0.4 if self.dtype in FLOATS else 0.8):
            return rng.choice([0, 1, 2, 3, -1, -2, 5])
        return rng.choice([0.5, 1.0, 2.0, -1.5, 0.0, 2.5, 0.3])

    def integers(self, p):
        rng, op, name = self.rng, self.base, p.name
        shape = self.first.shape if self.first else ()
        rank = len(shape)
        if rng.random() < 0.04:
            return [self.integer(p) for _ in range(rng.randint(0, 3))]
        if op == "permute":
            return rng.sample([d - rank * (rng.random() < 0.3) for d in range(rank)], rank)
        if name in hints.DIMS and op not in ("tile",):
            if rank and rng.random() < 0.85:
                some = rng.sample(range(rank), rng.randint(0, min(rank, 3)))
                return [d - rank * (rng.random() < 0.3) for d in some]
            return [self.dim() for _ in range(rng.randint(1, 2))]
        if op in ("view", "reshape", "unflatten") and name in ("shape", "size", "sizes"):
            sizes = list(shape)
            if op == "unflatten":
                sizes = [shape[0] if shape else 1]
            for _ in range(2):
                if len(sizes) > 1 and rng.random() < 0.5:
                    i = rng.randrange(len(sizes) - 1)
                    sizes[i : i + 2] = [sizes[i] * sizes[i + 1]]
                elif rng.random() < 0.4:
                    sizes.insert(rng.randint(0, len(sizes)), 1)
            if sizes and rng.random() < 0.4:
                sizes[rng.randrange(len(sizes))] = -1
            return sizes
        if op in ("expand", "broadcast_to"):
            sizes = [rng.choice([2, 3]) if n == 1 else n for n in shape]
            if op == "expand":
                sizes = [-1 if rng.random() < 0.15 else n for n in sizes]
            return [rng.choice([1, 2])] * rng.randint(0, 1) + sizes
        if op == "sum_to_size":
            return list(self.broadcast(shape))
        if name == "normalized_shape":
            return list(shape[rng.randint(0, max(rank - 1, 0)) :])
        if name in ("repeats", "dims"):  # of repeat, tile
            return [rng.choice([0, 1, 2, 2]) for _ in range(rank + rng.choice([0, 0, 1, -1]))]
        if name == "pad":
            return [rng.choice([0, 1, 2, -1]) for _ in range(2 * rng.randint(0, max(rank, 1)))]
        if "split" in name:
            n = shape[0] if shape else 1
            cut = rng.randint(0, n)
            return [cut, n - cut]
        if name in ("stride", "sizes", "size", "shape"):
            return [rng.choice([0, 1, 1, 2, 3]) for _ in range(rng.randint(0, 3))]
        return [rng.choice([0, 1, 2, -1, 3]) for _ in range(rng.randint(0, 3))]

    def value(self, p):
        rng = self.rng
        if p.type == "int":
            return self.integer(p)
        if p.type == "float":
            return self.real(p)
        if p.type == "bool":
            return rng.random() < 0.5
        if p.type == "Scalar":
            return self.scalar(p)
        if p.type == "int[]":
            some = self.integers(p)
            return (
                some[0]
                if len(some) == 1 and rng.random() < 0.5
                else rng.choice([tuple, list])(some)
            )
        if p.type == "float[]":
            return [self.real(p) for _ in range(rng.randint(0, 3))]
        if p.type == "str":
            texts = hints.TEXTS.get(p.name)
            return rng.choice(texts) if texts and rng.random() < 0.95 else "x"
        raise AssertionError(p.type)

    def argument(self, p):
        """The text of one argument."""
        rng = self.rng
        if p.type == "Tensor":
            t = self.tensor_argument(p)
            self.first = self.first or t
            self.case.args[p.name] = t
            return t.text
        if p.type == "Tensor[]":
            some = []
            for _ in range(rng.choice([0, 1, 2, 2, 3])):
                q = Param(p.name, "Tensor", False, False, False)
                some.append(self.tensor_argument(q))
                self.first = self.first or some[0]
            self.case.args[p.name] = some
            if self.spread:
                return ", ".join(t.text for t in some)
            left, right = rng.choice(["[]", "()"])
            inner = ", ".join(t.text for t in some)
            return left + inner + ("," if left == "(" and len(some) == 1 else "") + right
        if p.type == "dtype":
            dtype = rng.choice(FLOATS + INTEGERS + ("bool",))
            self.case.args[p.name] = dtype
            return "m." + dtype
        if p.type == "device":
            return "'cpu'"
        value = self.value(p)
        self.case.args[p.name] = value
        return literal(value)


BAD = ["'x'", "None", "1.5", "[1.5]", "{}", "m.tensor(2)", "True", "(1, 2)", "[]", "b'x'", "1j"]


def draw(rng, op, place, form, dtypes=MAIN, degenerate=None):
    """A case, or None when the form cannot be written at that place. `degenerate`: a name of DEGENERATE."""
    d = Draw(rng, op, place, form, dtypes, degenerate)
    params = form.params
    present = []
    for p in params:
        if not p.has_default:
            present.append(p)
        elif p.type == "device":
            continue
        elif p.name == "requires_grad":
            if rng.random() < 0.1:
                present.append(p)
        elif rng.random() < 0.45:
            present.append(p)
    if op in hints.VARARGS and rng.random() < 0.7:
        d.spread = True
    if not params or (place == "method" and (not present or present[0].type != "Tensor")):
        return None
    d.plan = d.plan_shapes(sum(p.type == "Tensor" for p in params))
    # Numbers come first where positions within a dimension depend on them.
    texts = {}
    spoiled = rng.choice(present) if present and rng.random() < 0.05 else None
    order = sorted(present, key=lambda p: p.name == "index" or p.name == "indices")
    for p in order:
        if p.optional and p.has_default and rng.random() < 0.1:
            texts[p.name] = "None"
        else:
            texts[p.name] = d.argument(p)
    if spoiled is not None and not (spoiled is present[0] and (place == "method" or op[-1] == "_")):
        texts[spoiled.name] = rng.choice(BAD)
        d.case.bad = True
    d.case.first = d.first
    inplace = op[-1] == "_" or texts.get("inplace") == "True"
    head = texts[present[0].name]
    if inplace and d.case.leaves and head not in BAD:
        head = texts[present[0].name] = head + ".clone()"
    positional, keywords, skipped = [], [], False
    texts = {name: text for name, text in texts.items() if text}  # several tensors, none of them
    name_it = rng.random() < 0.35 and not d.spread
    for i, p in enumerate(params):
        if p.name not in texts:
            skipped = True
            continue
        first = i == 0
        if not p.keyword_only and not skipped and not (name_it and i > 0 and rng.random() < 0.6):
            positional.append(texts[p.name])
            continue
        skipped = True
        name = "input" if p.name == "self" else p.name
        if first and place != "method" and name_it:
            keywords.append(f"{name}={texts[p.name]}")
        elif keyword.iskeyword(name):
            keywords.append(f"**{{'{name}': {texts[p.name]}}}")
        else:
            keywords.append(f"{name}={texts[p.name]}")
    if place == "method":
        if not positional:
            return None
        head, positional = positional[0], positional[1:]
        if re.match(r"-?\d", head):
            return None
        last = positional[-1] if positional else ""
        spread = len(positional) == 1 and last[:1] in "[(" and last[-1:] in "])"
        if spread and params[1].type == "int[]" and len(last) > 2 and rng.random() < 0.4:
            positional = [last[1:-1].rstrip(",")]
        d.case.call = f"{head}.{op}({', '.join(positional + keywords)})"
    elif place == "operator":
        sign = hints.OPERATORS[op]
        if (
            keywords
            or d.first is None
            or not 1 <= len(positional) <= 2
            or (len(positional) == 2) != (op not in ("neg", "bitwise_not"))
        ):
            return None
        if len(positional) == 2 and rng.random() < 0.3 and not d.case.bad:
            positional.reverse()
        d.case.call = sign.join(f"({x})" for x in positional)
        d.case.call = d.case.call if len(positional) == 2 else sign + d.case.call
    else:
        prefix = {"function": "m.", "functional": "m.nn.functional.", "linalg": "m.linalg."}[place]
        name = op.removeprefix("linalg_") if place == "linalg" else op
        d.case.call = f"{prefix}{name}({', '.join(positional + keywords)})"
    return d.case


def with_out(rng, case, shape, dtype):
    """The same call with out=, which may fit or not. The result without it is known."""
    kind = rng.choice(["fits", "fits", "empty", "strided", "dtype", "shape", "input", "overlap"])
    if kind == "input" and not case.names:
        kind = "fits"
    made = literal(tuple(shape))
    text = f"m.zeros({made}, dtype=m.{dtype})"
    if kind == "empty":
        text = f"m.zeros((0,), dtype=m.{dtype})"
    elif kind == "strided" and shape:
        text = f"m.zeros({literal((*shape, 2))}, dtype=m.{dtype})[..., 0]"
    elif kind == "dtype":
        text = f"m.zeros({made}, dtype=m.{rng.choice(FLOATS + INTEGERS + ('bool',))})"
    elif kind == "shape":
        text = f"m.zeros({literal((*shape, 2))}, dtype=m.{dtype})"
    elif kind == "overlap" and shape:
        text = f"m.zeros({literal((1, *shape[1:]))}, dtype=m.{dtype}).expand({made})"
    elif kind == "input":
        text = case.names[0]
    new = Case(case.op, case.place, case.source, list(case.setup), "", list(case.names))
    new.leaves, new.args, new.special = list(case.leaves), case.args, case.special
    new.first, new.undefined, new.unordered = case.first, case.undefined, case.unordered
    new.setup.append(f"out = {text}")
    new.names.append("out")
    new.call = case.call[:-1] + (", " if case.call[-2] != "(" else "") + "out=out)"
    new.out = kind
    return new


def crashes(case):
    """Whether PyTorch itself ends the process at this (2.13.0)."""
    return case.op == "pdist" and case.first is not None and 0 in case.first.shape


def beside(rng):
    """A generator that depends on where `rng` stands, and takes nothing from it."""
    twin = random.Random()
    twin.setstate(rng.getstate())
    return random.Random(twin.random())


def generator(op, seed=0):
    return random.Random(f"{seed}:{op}")
