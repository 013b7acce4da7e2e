"""`pyflame check`: which names of torch a program uses, and which of them are here.

Nothing of the program runs: its text is parsed, imports are followed within each file, and every
dotted name that begins at one is looked up under the same finder that `pyflame run` installs. What a
program calls on tensors (`x.name()`) cannot be known so.
"""

import ast
import json
import os
import types
from collections import Counter

from .. import _C
from ..training.output import say
from . import finder, missing

_ROOT = "torch"
_GUARDS = ("ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException")


class _Names(ast.NodeVisitor):
    """Dotted names of torch in one file: (name, line, guarded)."""

    def __init__(self):
        self.scopes = [{}]
        self.found = []
        self.guards = 0

    # ---- what names mean ------------------------------------------------------------------------

    def meaning(self, name):
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def bind(self, name, dotted):
        self.scopes[-1][name] = dotted

    def note(self, dotted, node):
        self.found.append((dotted, node.lineno, self.guards > 0))

    def visit_Import(self, node):
        for alias in node.names:
            if _of_torch(alias.name):
                self.note(alias.name, node)
                self.bind(alias.asname or _ROOT, alias.name if alias.asname else _ROOT)

    def visit_ImportFrom(self, node):
        if node.level or not _of_torch(node.module or ""):
            return
        for alias in node.names:
            if alias.name == "*":
                self.note(node.module, node)
                for name in _public(node.module):
                    self.bind(name, f"{node.module}.{name}")
                continue
            dotted = f"{node.module}.{alias.name}"
            self.note(dotted, node)
            self.bind(alias.asname or alias.name, dotted)

    # ---- where they are used --------------------------------------------------------------------

    def visit_Attribute(self, node):
        parts, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        base = self.meaning(inner.id) if isinstance(inner, ast.Name) else None
        if base is None:
            self.visit(inner)
        else:
            self.note(".".join([base, *reversed(parts)]), node)

    def visit_Call(self, node):
        # getattr(torch, "name") asks for a name as torch.name does.
        asked = (
            isinstance(node.func, ast.Name)
            and node.func.id == "getattr"
            and len(node.args) == 2
            and isinstance(node.args[0], ast.Name)
            and isinstance(node.args[1], ast.Constant)
            and isinstance(node.args[1].value, str)
        )
        base = self.meaning(node.args[0].id) if asked else None
        if base is not None:
            self.note(f"{base}.{node.args[1].value}", node)
        self.generic_visit(node)

    # ---- scopes ---------------------------------------------------------------------------------

    def function(self, node):
        for part in (*getattr(node, "decorator_list", ()), *node.args.defaults,
                     *(d for d in node.args.kw_defaults if d)):  # fmt: skip
            self.visit(part)
        a = node.args
        every = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
        for argument in every:
            if argument is not None and argument.annotation is not None:
                self.visit(argument.annotation)
        if getattr(node, "returns", None) is not None:
            self.visit(node.returns)
        own = {argument.arg: None for argument in every if argument is not None}
        body = node.body if isinstance(node.body, list) else [node.body]
        for statement in body:
            own.update(_assigned(statement))
        self.scopes.append(own)
        for statement in body:
            self.visit(statement)
        self.scopes.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = function

    def visit_Assign(self, node):
        self.visit(node.value)
        for target in node.targets:
            # `F = torch.nn.functional` is an import by another name.
            if isinstance(target, ast.Name):
                self.bind(target.id, self.dotted(node.value))
            else:
                self.visit(target)

    def dotted(self, node):
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        base = self.meaning(node.id) if isinstance(node, ast.Name) else None
        if base is None:
            return None
        full = ".".join([base, *reversed(parts)])
        found, _ = look_up(full)
        return full if isinstance(found, types.ModuleType) else None

    # ---- what a program does without --------------------------------------------------------------

    def visit_Try(self, node):
        guarded = any(_catches(handler.type) for handler in node.handlers)
        self.guards += guarded
        for statement in node.body:
            self.visit(statement)
        self.guards -= guarded
        for part in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(part)

    visit_TryStar = visit_Try

    def visit_If(self, node):
        self.visit(node.test)
        asked = any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "hasattr"
            for n in ast.walk(node.test)
        )
        self.guards += asked
        for statement in node.body:
            self.visit(statement)
        self.guards -= asked
        for statement in node.orelse:
            self.visit(statement)


def _of_torch(module):
    return module == _ROOT or module.startswith(_ROOT + ".")


def _catches(kind):
    if kind is None:
        return True
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(isinstance(k, ast.Name) and k.id in _GUARDS for k in kinds)


def _assigned(statement):
    """Names that a statement of a function binds to what is no module, functions inside left out."""
    own, todo = {}, [statement]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            own[node.name] = None
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own[node.id] = None
        todo.extend(ast.iter_child_nodes(node))
    return own


def _public(module):
    found, _ = look_up(module)
    names = getattr(found, "__all__", None) or [n for n in dir(found) if not n.startswith("_")]
    return list(names)


_known = {}


def look_up(dotted):
    """(what a dotted name is, None), or (None, (module, name)) of the part that is missing.

    It follows modules and classes: what is behind a value is not known before the program runs.
    """
    if dotted not in _known:
        _known[dotted] = _look_up(dotted)
    return _known[dotted]


def _look_up(dotted):
    import importlib

    finder.install()
    first, *rest = dotted.split(".")
    value, at = importlib.import_module(first), first
    for name in rest:
        if isinstance(value, type):
            if not hasattr(value, name):
                return None, (at, name)
        elif not isinstance(value, types.ModuleType):
            return value, None
        try:
            value = getattr(value, name)
        except AttributeError:
            return None, (at, name)
        at = f"{at}.{name}"
    return value, None


# ---- a tree of files -----------------------------------------------------------------------------


def _files(path):
    if not os.path.isdir(path):
        yield path
        return
    for folder, inside, names in os.walk(path):
        inside[:] = sorted(d for d in inside if not d.startswith(".") and d != "__pycache__")
        for name in sorted(names):
            if name.endswith((".py", ".ipynb")):
                yield os.path.join(folder, name)


_LONGEST = 64 << 20  # bytes of a program


def _text(path):
    """The program of a file: that of a notebook is its cells."""
    with open(path, "rb") as f:
        data = f.read(_LONGEST + 1)
    if len(data) > _LONGEST:
        raise ValueError(f"more than {_LONGEST >> 20} MiB")
    if not path.endswith(".ipynb"):
        return data
    lines = []
    for cell in json.loads(data)["cells"]:
        if cell.get("cell_type") == "code":
            source = "".join(cell["source"])
            # Lines for the notebook's shell are no Python.
            lines += ["pass" if s.lstrip()[:1] in "%!" and s.strip() else s
                      for s in source.split("\n")]  # fmt: skip
    return "\n".join(lines)


def check(*paths):
    """What files, and the Python files of folders, use of torch.

    Returns a dict: `files` (how many), `names` (name: how often), `missing` (a list of dicts with
    name, file, line, advice, guarded), `in_name_only` (the same of names that are here so that programs
    which import them run, and raise when they are used), `unread` (a list of dicts with file, why).
    `guarded` is what stands behind a try or hasattr: the program says what it does without.
    """
    for path in paths:
        if not os.path.lexists(path):
            raise _C.FileError(
                f"pf.check: there is no '{path}'; expected a program or a folder of them; check the path"
            )
    report = {"files": 0, "names": Counter(), "missing": [], "in_name_only": [], "unread": []}
    for file in dict.fromkeys(f for path in paths for f in _files(path)):
        try:
            tree = ast.parse(_text(file), file)
            names = _Names()
            names.visit(tree)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError, KeyError,
                TypeError) as e:  # fmt: skip
            report["unread"].append({"file": file, "why": f"{type(e).__name__}: {e}"})
            continue
        report["files"] += 1
        for dotted, line, guarded in names.found:
            found, lacks = look_up(dotted)
            report["names"][dotted if lacks is None else ".".join(lacks)] += 1
            entry = {"name": dotted, "file": file, "line": line, "guarded": guarded}
            if lacks is not None:
                module, name = lacks
                names_there = dir(look_up(module)[0])
                entry |= {
                    "name": f"{module}.{name}",
                    "advice": missing.reason(module, name, names_there),
                }
                where = report["missing"]
            elif type(found).__name__ == "Absent":
                entry["advice"] = found.why
                where = report["in_name_only"]
            else:
                continue
            if entry not in where:
                where.append(entry)
    report["names"] = dict(sorted(report["names"].items()))
    return report


def command(args):
    """Prints the report; 0 when nothing is missing that the program does not expect to be."""
    report = check(*args.paths)
    needed = [m for m in report["missing"] if not m["guarded"]]
    if args.json:
        say(json.dumps(report, indent=1))
    else:
        for m in report["missing"]:
            guarded = " (the program goes on without)" if m["guarded"] else ""
            say(f"{m['file']}:{m['line']}: {m['name']} is not in PyFlame; {m['advice']}{guarded}")
        for m in report["in_name_only"]:
            say(f"{m['file']}:{m['line']}: {m['name']} is here in name only; {m['advice']}")
        for u in report["unread"]:
            say(f"{u['file']}: cannot be read: {u['why']}")
        absent = len({m["name"] for m in report["missing"]})
        say(
            f"{report['files']} file{'s' * (report['files'] != 1)}, {len(report['names'])} names of torch, "
            f"{len(report['names']) - absent} of them here, {absent} missing"
        )
    return 1 if needed or report["unread"] or not report["files"] else 0


__all__ = ["check", "command", "look_up"]
