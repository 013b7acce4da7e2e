"""Python code of a graph."""

import builtins
import enum
import keyword
import math
import operator
import re
from dataclasses import dataclass, field

from .. import _C
from .node import Node, _own_name, package

_INFIX = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/",
    operator.floordiv: "//", operator.mod: "%", operator.pow: "**", operator.matmul: "@",
    operator.lshift: "<<", operator.rshift: ">>", operator.and_: "&", operator.or_: "|",
    operator.xor: "^", operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=",
    operator.gt: ">", operator.ge: ">=",
}  # fmt: skip
_PREFIX = {operator.neg: "-", operator.pos: "+", operator.invert: "~"}
_IN_PLACE = {
    operator.iadd: "+=", operator.isub: "-=", operator.imul: "*=", operator.itruediv: "/=",
    operator.ifloordiv: "//=", operator.imod: "%=", operator.ipow: "**=", operator.imatmul: "@=",
    operator.ilshift: "<<=", operator.irshift: ">>=", operator.iand: "&=", operator.ior: "|=",
    operator.ixor: "^=",
}  # fmt: skip
RESERVED = {"inf", "nan", "NoneType", "device", "torch", "pyflame"}


class Namespace:
    """Names that are taken."""

    def __init__(self):
        self.used, self.last = set(), {}

    def create_name(self, candidate, obj=None):
        """The candidate, or the candidate with a number, as a name of Python that nothing else has."""
        text = re.sub("[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if text[0].isdigit():
            text = f"_{text}"
        base, number = text, None
        if found := re.fullmatch(r"(.*)_(\d+)", text):
            base, number = found[1], int(found[2])
        name = text if number is None else f"{base}_{number}"
        if not number:
            number = self.last.get(base, 0)
        while name in self.used or self.illegal(name, obj):
            number += 1
            name = f"{base}_{number}"
        self.used.add(name)
        self.last[base] = number
        return name

    @staticmethod
    def illegal(name, obj):
        if keyword.iskeyword(name) or name in RESERVED:
            return True
        return hasattr(builtins, name) and getattr(builtins, name) is not obj


@dataclass
class PythonCode:
    """Code as text, and what its free names mean."""

    src: str
    globals: dict = field(default_factory=dict)


class Writer:
    """Writes the code of one graph."""

    def __init__(self, graph):
        self.graph = graph
        self.globals = {}
        self.names = Namespace()
        self.names.used.update(n.name for n in graph.nodes)

    def free(self, hint, obj):
        """A name for an object that the code needs."""
        for name, value in self.globals.items():
            if value is obj:
                return name
        name = self.names.create_name(hint.replace(".", "_"), obj)
        self.globals[name] = obj
        return name

    def package(self):
        import pyflame

        name = package()
        self.globals[name] = pyflame
        return name

    # ---- values ---------------------------------------------------------------------------------

    def value(self, a):
        """The text of an argument."""
        if isinstance(a, Node):
            return a.name
        if isinstance(a, _C.Size):
            return f"{self.package()}.Size([{', '.join(map(self.value, a))}])"
        if isinstance(a, tuple):
            if hasattr(a, "_fields"):
                return f"{self.function(type(a))}({', '.join(map(self.value, a))})"
            return f"({', '.join(map(self.value, a))}{',' if len(a) == 1 else ''})"
        if isinstance(a, list):
            return f"[{', '.join(map(self.value, a))}]"
        if isinstance(a, dict):
            return "{" + ", ".join(f"{k!r}: {self.value(v)}" for k, v in a.items()) + "}"
        if isinstance(a, slice):
            return f"slice({self.value(a.start)}, {self.value(a.stop)}, {self.value(a.step)})"
        if isinstance(a, range):
            return repr(a)
        if isinstance(a, float) and not math.isfinite(a):
            return (
                self.free(repr(abs(a)), abs(a)) if not a < 0 else f"-{self.free('inf', math.inf)}"
            )
        if isinstance(a, _C.dtype):
            return f"{self.package()}.{a.name}"
        if isinstance(a, _C.device):
            index = "" if a.index is None else f", {a.index}"
            return f"{self.package()}.device({a.type!r}{index})"
        if isinstance(a, enum.Enum):
            return f"{self.function(type(a))}.{a.name}"
        if a is None or a is Ellipsis or isinstance(a, (bool, int, float, complex, str, bytes)):
            return repr(a)
        if callable(a) and hasattr(a, "__name__"):
            return self.function(a)
        return self.free(f"_{type(a).__name__}", a)

    def function(self, f):
        """The text that names a function."""
        name = getattr(f, "__name__", type(f).__name__)
        if getattr(builtins, name, None) is f:
            return name
        own = _own_name(f)
        if own is not None:
            return f"{self.package()}.{own}"
        module = getattr(f, "__module__", None) or ""
        module = "operator" if module == "_operator" else module
        return self.free(f"{module}.{name}", f)

    def arguments(self, args, kwargs):
        parts = [self.value(a) for a in args]
        parts += [f"{k} = {self.value(v)}" for k, v in kwargs.items()]
        return ", ".join(parts)

    # ---- statements -----------------------------------------------------------------------------

    def call(self, n):
        """The right side of a call of a function."""
        args = [self.value(a) for a in n.args]
        if not n.kwargs:
            if n.target in _INFIX and len(args) == 2:
                return f"{args[0]} {_INFIX[n.target]} {args[1]}"
            if n.target in _PREFIX and len(args) == 1:
                return f"{_PREFIX[n.target]}{args[0]}"
            if n.target is operator.getitem and len(args) == 2:
                return f"{args[0]}[{args[1]}]"
            if n.target is getattr and len(args) == 2 and _is_name(n.args[1]):
                return f"{args[0]}.{n.args[1]}"
        return f"{self.function(n.target)}({self.arguments(n.args, n.kwargs)})"

    def statement(self, n, root):
        kind = f" : {self.kind(n.type)}" if n.type is not None else ""
        left = f"{n.name}{kind}"
        if n.op == "call_function":
            if n.target in _IN_PLACE and not n.kwargs:
                a, b = map(self.value, n.args)
                return f"{a} {_IN_PLACE[n.target]} {b};  {left} = {a}"
            return f"{left} = {self.call(n)}"
        if n.op == "call_method":
            where = _path(self.value(n.args[0]), n.target)
            return f"{left} = {where}({self.arguments(n.args[1:], n.kwargs)})"
        if n.op == "call_module":
            return f"{left} = {_path(root, n.target)}({self.arguments(n.args, n.kwargs)})"
        if n.op == "get_attr":
            return f"{left} = {_path(root, n.target)}"
        raise NotImplementedError(f"pf.fx: a node of the kind {n.op} within a graph")

    def kind(self, t):
        if isinstance(t, str):
            return repr(t)
        if isinstance(t, type) and getattr(builtins, t.__name__, None) is t:
            return t.__name__
        if t is _C.Tensor:
            return f"{self.package()}.Tensor"
        return self.free(getattr(t, "__name__", "kind"), t)

    def write(self, root="self"):
        """PythonCode with a function `forward`."""
        nodes = list(self.graph.nodes)
        last = {}  # the node behind which a value is not used any more
        for user in reversed(nodes):
            for n in user.all_input_nodes:
                last.setdefault(n, user)
        ends = {}
        for n, user in last.items():
            ends.setdefault(user, []).append(n)
        from .graph import CodeGen

        codegen = self.graph._codegen
        parameters, body, returns = [], [], ""
        for n in nodes:
            if n.op == "placeholder":
                default = f" = {self.value(n.args[0])}" if n.args else ""
                kind = f" : {self.kind(n.type)}" if n.type is not None else ""
                parameters.append(f"{n.target}{kind}{default}")
                plain = n.target.lstrip("*")
                if plain != n.name:
                    body.append(f"{n.name} = {plain}")
                continue
            if n.op == "output":
                if n.type is not None:
                    returns = f" -> {self.kind(n.type)}"
                plain = type(codegen).generate_output is CodeGen.generate_output
                result = n.args[0]
                body.append(
                    f"return {self.value(result)}" if plain else codegen.generate_output(result)
                )
                continue
            gone = ends.get(n, []) + ([] if n.users else [n])
            let_go = f";  {' = '.join(g.name for g in gone)} = None" if gone else ""
            body.append(self.statement(n, root) + let_go)
        if self.graph._transform_code is not None:
            lines = self.graph._transform_code([f"{line}\n" for line in body or ["pass"]])
            body = "".join(lines).rstrip("\n").split("\n")
        text = "\n".join(f"    {line}" for line in body or ["pass"])
        if type(codegen) is CodeGen:
            head = f"def forward({', '.join([root, *parameters])}){returns}:"
        else:
            self.package()  # which such a text may name
            self.globals.update(codegen.additional_globals())
            head = codegen.gen_fn_def(parameters, returns).lstrip("\n")
        return PythonCode(f"\n\n\n{head}\n{text}\n", self.globals)


def _is_name(text):
    return isinstance(text, str) and text.isidentifier() and not keyword.iskeyword(text)


def _path(owner, path):
    """The text of an attribute of an attribute, whose names may be numbers."""
    for part in path.split("."):
        owner = f"{owner}.{part}" if _is_name(part) else f'getattr({owner}, "{part}")'
    return owner
