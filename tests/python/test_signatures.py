"""Every call that PyTorch's own signatures allow is taken, by position and by keyword.

The signatures are read from the stubs that PyTorch installs, so no list of names can grow stale
here. Nothing is computed: `_C._fits` says whether the arguments fit a row of the table.
"""

import ast
import inspect
from pathlib import Path

import pytest

import pyflame as pf
from pyflame import _C

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.cpu_only

# What PyTorch takes and PyFlame does not: (where, name or *, parameter or *): reason.
EXCEPTIONS = {
    ("*", "*", "names"): "named dimensions are not supported",
    ("*", "*", "out_dtype"): "products with a wider result exist for GPUs of PyTorch alone",
    ("function", "binary_cross_entropy_with_logits", "*"): "nn.functional's order, not the private",
    ("function", "layer_norm", "cudnn_enable"): "a switch of one vendor's library",
    ("function", "load", "pickle_module"): "files hold no pickles",
    ("function", "save", "pickle_module"): "files hold no pickles",
    ("function", "save", "pickle_protocol"): "files hold no pickles",
    ("function", "result_type", "*"): "by position only; numbers and tensors in any order",
    ("*", "subtract", "alpha"): "as a keyword, as for sub",
    ("*", "subtract_", "alpha"): "as a keyword, as for sub",
    ("function", "kl_div", "*"): "nn.functional's reduction, not the private number",
    ("method", "new_ones", "dtype"): "by keyword, as for new_zeros",
    ("method", "resize_", "memory_format"): "results are row-major",
    ("method", "resize_as_", "memory_format"): "results are row-major",
    ("*", "stft", "align_to_window"): "frames begin where the signal does",
    ("method", "uniform_", "*"): "PyTorch's stub calls `from` otherwise",
    ("method", "random_", "*"): "PyTorch's stub calls `from` otherwise",
}

STUBS = {
    "function": ("_C/_VariableFunctions.pyi", None),
    "method": ("_C/__init__.pyi", "TensorBase"),
    "functional": ("_C/_nn.pyi", None),
}
OWNERS = {
    "function": (pf, torch),
    "method": (pf.Tensor, torch.Tensor),
    "functional": (pf.nn.functional, torch.nn.functional),
}


def signatures_of_stub(where):
    """name -> list of (parameters with annotations, name of *args, keyword-only ones)."""
    path, owner = STUBS[where]
    body = ast.parse((Path(torch.__file__).parent / path).read_text()).body
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


KINDS = {
    "Tensor": lambda: pf.zeros(2),
    "Number": lambda: 2,
    "_complex": None,
    "_int": lambda: 1,
    "SymInt": None,
    "torch.SymInt": None,
    "torch.SymFloat": None,
    "_float": lambda: 0.5,
    "_bool": lambda: True,
    "str": lambda: "x",
    "_dtype": lambda: pf.float32,
    "_layout": lambda: pf.strided,
    "memory_format": lambda: pf.contiguous_format,
    "DeviceLikeType": lambda: "cpu",
    "Generator": lambda: pf.Generator(),
    "_size": lambda: (1,),
    "Sequence[_int | SymInt]": lambda: (1,),
    "Sequence[_int]": lambda: [1],
    "tuple[_int, ...]": lambda: (1,),
    "Sequence[_float]": lambda: (0.5,),
    "tuple[Tensor, ...]": lambda: (pf.zeros(2), pf.zeros(2)),
    "list[Tensor]": lambda: [pf.zeros(2)],
    "Sequence[Tensor]": lambda: [pf.zeros(2)],
    "None": None,
}


# A tensor among the numbers of these has one element.
ONE_ELEMENT = ("linspace", "logspace", "narrow", "randint_like")


def parts(annotation):
    """The types of a union, brackets kept together."""
    node = ast.parse(annotation, mode="eval").body
    while isinstance(node, ast.BinOp):
        yield ast.unparse(node.right)
        node = node.left
    yield ast.unparse(node)


def values(function, name, annotation):
    """One value of each type that a parameter takes; None when a type is none of ours."""
    found = []
    if function in ONE_ELEMENT:
        annotation = (
            annotation.replace("Tensor", "_int") if name not in ("input", "out") else annotation
        )
    for part in reversed(list(parts(annotation))):
        if part not in KINDS:
            return None
        if KINDS[part]:
            found.append(KINDS[part]())
    return found or None


def excepted(where, name, parameter):
    return any(
        (w, n, p) in EXCEPTIONS
        for w in (where, "*")
        for n in (name, "*")
        for p in (parameter, "*")
        if (n, p) != ("*", "*")
    )


def calls(signature, where, name):
    """Argument lists of one signature: everything by position, everything by keyword."""
    plain, spread, only = signature
    first = 1 if where == "method" else 0
    choices = [[pf.zeros(2)]] * first + [values(name, n, a) for n, a in plain[first:]]
    extras = {n: values(name, n, a) for n, a in only}
    if None in choices or None in extras.values():
        return
    names = [n for n, _ in plain]
    keywords = {n: v[0] for n, v in extras.items()}
    for i in range(max(len(choices), 1)):
        for choice in choices[i] if choices else [None]:
            args = [choice if j == i else c[0] for j, c in enumerate(choices)]
            yield names, args + ([1] if spread else []), {}
            if not spread:
                # the tensor of a function may be called input or self
                named = dict(zip(names[first:], args[first:]))
                yield names, args[:first], {**named, **keywords}


def cases():
    for where, (ours, theirs) in OWNERS.items():
        stub = signatures_of_stub(where)
        for name in sorted(dir(ours)):
            mine, yours = getattr(ours, name, None), getattr(theirs, name, None)
            if name.startswith("_") or inspect.isclass(mine) or not callable(mine) or not yours:
                continue
            signatures = () if inspect.isfunction(yours) else stub.get(name, ())
            yield where, name, mine, yours, signatures


def test_operations():
    """PyTorch's compiled functions: all that their stubs allow."""
    missing, seen = [], 0
    for where, name, mine, _, signatures in cases():
        if not isinstance(mine, _C.Operation):
            continue
        for signature in signatures:
            for names, args, keywords in calls(signature, where, name):
                if any(excepted(where, name, n) for n in {*names, *keywords}):
                    continue
                seen += 1
                if not _C._fits(mine, *args, **keywords):
                    missing.append(f"{where} {name}{tuple(map(show, args))} {list(keywords)}")
    assert seen > 2000
    assert not missing, "\n".join(missing)


def show(value):
    return type(value).__name__


def test_python_functions():
    """PyTorch's Python functions: all names of their parameters, in their order."""
    missing, seen = [], 0
    for where, name, mine, yours, _ in cases():
        if not inspect.isfunction(yours) or not (taken := taken_by(mine)):
            continue
        parameters = list(inspect.signature(yours).parameters.values())
        for i, p in enumerate(parameters):
            if (
                p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
                or p.name.startswith("_")
                or (where == "method" and i == 0)
            ):
                continue
            if excepted(where, name, p.name):
                continue
            seen += 1
            at = i if p.kind is p.POSITIONAL_OR_KEYWORD else None
            if not any(has(plain, only, p.name, at) for plain, only in taken):
                missing.append(f"{where} {name}: {p.name}")
    assert seen > 250
    assert not missing, "\n".join(missing)


def taken_by(mine):
    """(positional, keyword-only) parameters of each form of a callable of ours: sets of names."""
    if isinstance(mine, _C.Operation):
        forms = []
        for schema in mine.schemas:
            params = _C._parse_schema(schema)["params"]
            names = [({p["name"], *p["aliases"]}, p["keyword_only"]) for p in params]
            forms.append(([n for n, k in names if not k], [n for n, k in names if k]))
        return forms
    try:
        parameters = inspect.signature(mine).parameters.values()
    except ValueError:
        return []
    return [
        (
            [{p.name} for p in parameters if p.kind is not p.KEYWORD_ONLY],
            [{p.name} for p in parameters if p.kind is p.KEYWORD_ONLY],
        )
    ]


def has(plain, only, name, at):
    """Whether a form has the parameter, and at its place if it is one by position."""
    extras = {"out", "generator", "memory_format"}  # of every operation
    if name in extras or any(name in n for n in only):
        return True
    places = [i for i, n in enumerate(plain) if name in n]
    return places == [at] if at is not None else bool(places)
