#!/usr/bin/env python3
"""Compares names and signatures with an installed PyTorch and prints what is left.

    python tools/compare_names.py [--all] [MODULE ...]

For each module of PyTorch: how many names it has, how many of them are left out on purpose
(tools/compare_names.toml, each with its reason), which of the others are missing here, and which
take fewer arguments. `--all` prints what is left out, too. The status is 1 where a module is below
the bar of that file.
"""

import argparse
import ast
import fnmatch
import importlib
import inspect
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path

import tomllib

# Modules and classes whose names are compared, by their path below torch; "" is torch itself.
OWNERS = (
    "", "Tensor", "nn", "nn.Module", "nn.functional", "nn.init", "nn.parameter", "nn.utils",
    "nn.utils.rnn", "nn.utils.parametrize", "nn.utils.parametrizations", "nn.utils.prune",
    "nn.utils.stateless", "nn.utils.clip_grad", "nn.attention", "nn.attention.bias",
    "nn.attention.flex_attention", "nn.attention.varlen", "nn.parallel",
    "nn.common_types", "optim", "optim.Optimizer", "optim.lr_scheduler", "optim.swa_utils",
    "utils.data", "utils.data.dataloader", "utils.data.dataset", "utils.data.sampler",
    "utils.data.distributed", "utils.checkpoint", "autograd", "autograd.functional",
    "autograd.forward_ad", "autograd.graph", "cuda", "amp", "linalg", "fft", "special",
    "signal.windows", "distributions", "func", "random", "accelerator", "cpu", "sparse", "fx",
    "hub", "masked", "nested", "overrides",
)  # fmt: skip

# What only typing, the standard library or a compiler left in a namespace.
_NO_API = (types.ModuleType, type(None))


def _find(root, path):
    """The module or class `root.path`; None where there is none."""
    value = importlib.import_module(root)
    done = root
    for name in path.split(".") if path else ():
        done += "." + name
        try:
            value = getattr(value, name)
        except AttributeError:
            try:
                value = importlib.import_module(done)
            except ImportError:
                return None
    return value


def public_names(owner, root="torch"):
    """The names that a module or class of PyTorch offers."""
    if isinstance(owner, type):
        return [n for n in dir(owner) if not n.startswith("_")]
    listed = set(getattr(owner, "__all__", ()))
    if owner.__name__.endswith("common_types"):  # whose names are all private, and imported so
        return [n for n in dir(owner) if n.endswith("_t")]
    for name, value in vars(owner).items():
        if name.startswith("_") or name == "Tensor" or name in listed or isinstance(value, _NO_API):
            continue
        home = getattr(value, "__module__", None)
        if not isinstance(home, str) or isinstance(value, types.GenericAlias):
            continue
        # What a module itself defines; compiled functions say where they are offered.
        if "__all__" not in vars(owner) and home.startswith(root) and callable(value):
            listed.add(name)
    return sorted(listed)


# ---- signatures ---------------------------------------------------------------------------------

# Where PyTorch's compiled functions are declared, and the class there.
STUBS = {
    "": ("_C/_VariableFunctions.pyi", None),
    "Tensor": ("_C/__init__.pyi", "TensorBase"),
    "nn.functional": ("_C/_nn.pyi", None),
}


def signatures_of_stub(where):
    """name -> list of (parameters with annotations, name of *args, keyword-only ones)."""
    path, owner = STUBS[where]
    folder = Path(importlib.import_module("torch").__file__).parent
    body = ast.parse((folder / path).read_text()).body
    if owner:
        body = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == owner).body
    found = {}
    for f in body:
        if isinstance(f, ast.FunctionDef):
            a = f.args
            plain = [(x.arg, x.annotation and ast.unparse(x.annotation)) for x in a.posonlyargs]
            plain += [(x.arg, x.annotation and ast.unparse(x.annotation)) for x in a.args]
            only = [(x.arg, ast.unparse(x.annotation)) for x in a.kwonlyargs]
            found.setdefault(f.name, []).append((plain, a.vararg and a.vararg.arg, only))
    return found


def forms_of(mine):
    """(positional, keyword-only, takes any) parameters of each form of a callable of ours, by the
    sets of their names; None where nothing is known."""
    from pyflame import _C

    if isinstance(mine, _C.Operation):
        forms = []
        for schema in mine.schemas:
            params = _C._parse_schema(schema)["params"]
            names = [({p["name"], *p["aliases"]}, p["keyword_only"]) for p in params]
            plain = [n for n, only in names if not only]
            forms.append((plain, [n for n, only in names if only], (False, False)))
        return forms
    try:
        parameters = inspect.signature(mine).parameters.values()
    except (ValueError, TypeError):
        return None
    kinds = {p.kind for p in parameters}
    return [
        (
            [
                {p.name}
                for p in parameters
                if p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)
            ],
            [{p.name} for p in parameters if p.kind is p.KEYWORD_ONLY],
            (inspect.Parameter.VAR_POSITIONAL in kinds, inspect.Parameter.VAR_KEYWORD in kinds),
        )
    ]


_EVERYWHERE = {"out", "generator", "memory_format"}  # of every operation


def has(form, name, at, operation):
    """Whether a form has the parameter, and at its place if it is one by position."""
    plain, only, (any_place, any_name) = form
    if (operation and name in _EVERYWHERE) or any(name in n for n in only) or any_name:
        return True
    places = [i for i, n in enumerate(plain) if name in n]
    return places == [at] if at is not None and not any_place else bool(places) or any_place


# A value for each type of the stubs: nothing is computed, only the table is asked whether it fits.
def _kinds():
    import pyflame as pf

    return {
        "Tensor": pf.zeros(2),
        "Number": 2,
        "_int": 1,
        "_float": 0.5,
        "_bool": True,
        "str": "x",
        "_dtype": pf.float32,
        "_layout": pf.strided,
        "memory_format": pf.contiguous_format,
        "DeviceLikeType": "cpu",
        "Generator": pf.Generator(),
        "_size": (1,),
        "Sequence[_int | SymInt]": (1,),
        "Sequence[_int]": [1],
        "tuple[_int, ...]": (1,),
        "Sequence[_float]": (0.5,),
        "tuple[Tensor, ...]": (pf.zeros(2), pf.zeros(2)),
        "list[Tensor]": [pf.zeros(2)],
        "Sequence[Tensor]": [pf.zeros(2)],
    }


_NOT_OURS = ("_complex", "SymInt", "torch.SymInt", "torch.SymFloat", "None")
# A tensor among the numbers of these has one element.
_ONE_ELEMENT = ("linspace", "logspace", "narrow", "randint_like")


def _parts(annotation):
    """The types of a union, brackets kept together."""
    node = ast.parse(annotation, mode="eval").body
    while isinstance(node, ast.BinOp):
        yield ast.unparse(node.right)
        node = node.left
    yield ast.unparse(node)


def _values(kinds, function, name, annotation):
    """One value of each type that a parameter takes; None when a type is unknown."""
    if function in _ONE_ELEMENT and name not in ("input", "out"):
        annotation = annotation.replace("Tensor", "_int")
    found = []
    for part in reversed(list(_parts(annotation))):
        if part not in kinds and part not in _NOT_OURS:
            return None
        if part in kinds:
            found.append(kinds[part])
    return found or None


def calls_of(kinds, name, signature, method):
    """(parameters, arguments, keywords) of calls that a stub allows: by position, by keyword."""
    plain, spread, only = signature
    first = 1 if method else 0
    choices = [[kinds["Tensor"]]] * first
    choices += [_values(kinds, name, n, a) for n, a in plain[first:]]
    extras = {n: _values(kinds, name, n, a) for n, a in only}
    if None in choices or None in extras.values():
        return
    names = [n for n, _ in plain]
    keywords = {n: v[0] for n, v in extras.items()}
    for i in range(max(len(choices), 1)):
        for choice in choices[i] if choices else [None]:
            args = [choice if j == i else c[0] for j, c in enumerate(choices)]
            yield names, args + ([1] if spread else []), {}
            if not spread:
                named = dict(zip(names[first:], args[first:]))
                yield names, args[:first], {**named, **keywords}


class CompiledCalls:
    """PyTorch's compiled functions: whether ours take all that their stubs allow."""

    def __init__(self, where):
        self.stub = signatures_of_stub(where) if where in STUBS else {}
        self.kinds, self.method, self.seen = _kinds(), where == "Tensor", 0

    def has(self, name, yours):
        return name in self.stub and not inspect.isfunction(yours)

    def not_taken(self, name, mine, excepted):
        """Calls that do not fit, as text; `excepted(parameter)` passes over some."""
        from pyflame import _C

        found = []
        for signature in self.stub[name] if isinstance(mine, _C.Operation) else ():
            for names, args, keywords in calls_of(self.kinds, name, signature, self.method):
                if any(excepted(n) for n in {*names, *keywords}):
                    continue
                self.seen += 1
                if not _C._fits(mine, *args, **keywords):
                    kinds = ", ".join(type(a).__name__ for a in args)
                    found.append(f"({kinds}) and {list(keywords)}")
        return found


def missing_parameters(mine, yours):
    """Names of parameters of PyTorch's Python function or class that ours does not take, or not at
    their place; () where there is nothing to compare."""
    if isinstance(yours, type) != isinstance(mine, type) or not callable(yours):
        return ()
    if not isinstance(yours, type) and not inspect.isfunction(inspect.unwrap(yours)):
        return ()
    forms = forms_of(mine)
    try:
        theirs = list(inspect.signature(yours).parameters.values())
    except (ValueError, TypeError):
        return ()
    if not forms:
        return ()
    from pyflame import _C

    operation = isinstance(mine, _C.Operation)
    found, at = [], 0
    for p in theirs:
        place = at if p.kind is p.POSITIONAL_OR_KEYWORD else None
        at += 1
        if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) or p.name.startswith("_"):
            continue
        if p.name == "self" or not any(has(f, p.name, place, operation) for f in forms):
            if p.name != "self":
                found.append(p.name)
    return found


# ---- the comparison -----------------------------------------------------------------------------


class Exceptions:
    """What is left out, and why: tools/compare_names.toml."""

    def __init__(self):
        data = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
        self.bar = data["bar"]
        self.bars = data.get("bars", {})
        self.names = {n: entry["why"] for entry in data["names"] for n in entry["names"]}
        self.parameters = {n: entry["why"] for entry in data["parameters"] for n in entry["names"]}
        self.used = set()

    def _reason(self, table, key):
        for pattern, why in table.items():
            if fnmatch.fnmatchcase(key, pattern):
                self.used.add(pattern)
                return why
        return None

    def of_name(self, name):
        return self._reason(self.names, name)

    def of_parameter(self, name, parameter):
        return self._reason(self.parameters, f"{name}({parameter})")


@dataclass
class Comparison:
    """One module or class."""

    where: str
    names: int = 0
    out: dict = field(default_factory=dict)  # name -> reason
    missing: list = field(default_factory=list)
    differs: dict = field(default_factory=dict)  # name -> parameters, or calls that are not taken
    calls: int = 0  # of compiled functions that were tried

    @property
    def percent(self):
        counted = self.names - len(self.out)
        return 100.0 * (counted - len(self.missing)) / counted if counted else 100.0


def compare(where, exceptions):
    """The Comparison of torch.`where` with ours; None where PyTorch has no such thing."""
    yours = _find("torch", where)
    if yours is None:
        return None
    mine = _find("pyflame", where)
    result = Comparison("torch" + ("." + where if where else ""))
    compiled = CompiledCalls(where)
    for name in public_names(yours):
        full = f"{result.where}.{name}"
        result.names += 1
        if not hasattr(mine, name):
            why = exceptions.of_name(full)
            if why:
                result.out[name] = why
            else:
                result.missing.append(name)
            continue
        ours, theirs = getattr(mine, name), getattr(yours, name, None)
        excepted = lambda p: exceptions.of_parameter(full, p)  # noqa: B023, E731
        if compiled.has(name, theirs):
            parameters = compiled.not_taken(name, ours, excepted)
        else:
            short = missing_parameters(ours, theirs)
            parameters = [p for p in short if not excepted(p)]
        if parameters:
            result.differs[name] = parameters
    result.calls = compiled.seen
    return result


def compare_all(exceptions, owners=OWNERS):
    found = [compare(where, exceptions) for where in owners]
    return [c for c in found if c is not None]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", nargs="*", help="such as nn.functional; all without one")
    parser.add_argument("--all", action="store_true", help="also what is left out, and why")
    args = parser.parse_args()
    exceptions = Exceptions()
    results = compare_all(
        exceptions, [m.removeprefix("torch").lstrip(".") for m in args.module] or OWNERS
    )
    print(f"{'module':<34}{'names':>6}{'out':>5}{'missing':>9}{'differ':>8}{'there':>8}")
    low = 0
    for c in results:
        bar = exceptions.bars.get(c.where, exceptions.bar)
        mark = "" if c.percent >= bar else f"  below {bar}%"
        low += bool(mark)
        print(
            f"{c.where:<34}{c.names:>6}{len(c.out):>5}{len(c.missing):>9}{len(c.differs):>8}"
            f"{c.percent:>7.1f}%{mark}"
        )
    counted, missing = (
        sum(c.names - len(c.out) for c in results),
        sum(len(c.missing) for c in results),
    )
    print(
        f"{'all':<34}{counted:>6} counted {missing:>6} missing {100 - 100 * missing / counted:>14.1f}%"
    )
    for c in results:
        for title, lines in (
            ("missing", c.missing),
            ("differs", [f"{n}: {', '.join(p)}" for n, p in c.differs.items()]),
            ("left out", [f"{n}: {why}" for n, why in c.out.items()] if args.all else []),
        ):
            if lines:
                print(f"\n{c.where}, {title}:")
                print("\n".join("  " + line for line in lines))
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
