#!/usr/bin/env python3
"""Writes the type stubs of the package from the operation table and from the package itself.

tools/stubs.py                      python/pyflame/*.pyi, beside the package
tools/stubs.py --module M --out D   with the extension module M, into the directory D (for wheels)
tools/stubs.py --check              that the stubs are complete and that mypy agrees with examples
"""

import argparse
import ast
import inspect
import keyword
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "pyflame"

HEADER = """# Made by tools/stubs.py from the operation table. Do not edit.
import builtins
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload

_int = builtins.int
_float = builtins.float
_bool = builtins.bool
"""

# Methods and properties of Tensor that are no operations, with what they give.
GIVES = {
    "Tensor": "detach detach_ requires_grad_ cpu cuda to type_as clone contiguous float double half "
    "bfloat16 long int short char byte bool T mT data new_tensor new_empty new_full new_ones "
    "new_zeros view_as reshape_as expand_as retain_grad share_memory_ pin_memory "
    "to_sparse to_sparse_coo to_sparse_csr to_dense sparse_mask coalesce indices values crow_indices "
    "col_indices smm sspaddmm",
    "_int": "dim ndim ndimension numel nelement element_size itemsize nbytes data_ptr "
    "storage_offset _version output_nr get_device sparse_dim dense_dim __len__ __int__ __index__",
    "_bool": "is_coalesced requires_grad is_leaf is_contiguous is_cpu is_cuda is_floating_point is_complex "
    "is_pinned is_shared is_signed is_sparse is_sparse_csr is_quantized is_meta is_nested is_inference __bool__ "
    "__contains__",
    "_float": "__float__",
    "_dtype": "dtype",
    "_device": "device",
    "Size": "shape",
    "str": "__repr__ __str__",
    "None": "backward __setitem__",
    "Tensor | None": "grad",
    "Iterator[Tensor]": "__iter__",
}
GIVEN = {name: result for result, names in GIVES.items() for name in names.split()}
BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
COMPARE = "lt le gt ge eq ne".split()
UNARY = "neg pos abs invert".split()


def load(module):
    """The package, with the extension module given (or the one beside it)."""
    if not module:
        sys.path.insert(0, str(PACKAGE.parent))
        import pyflame

        return pyflame
    folder = tempfile.mkdtemp()
    package = Path(folder) / "pyflame"
    package.mkdir()
    for entry in PACKAGE.iterdir():
        if not entry.name.startswith("_C."):
            os.symlink(entry, package / entry.name)
    os.symlink(Path(module).resolve(), package / Path(module).name)
    sys.path.insert(0, folder)
    import pyflame

    return pyflame


def result_type(text, name, tuples):
    if text.startswith("("):
        fields = [part.split() for part in text[1:-1].split(",")]
        if len(fields[0]) == 1:
            return f"tuple[{text[1:-1]}]"
        key = tuple(f[1] for f in fields)
        tuples[key] = f"_{'_'.join(key)}"
        return tuples[key]
    known = {"Tensor": "Tensor", "Tensor[]": "tuple[Tensor, ...]", "None": "None", "": "None"}
    return known.get(text, {"float": "_float", "int": "_int", "bool": "_bool"}.get(text, "Any"))


def signatures(_C, schemas, tuples, method):
    """Parameter lists and results of an operation, one per overload and spelling."""
    out = []
    for schema in schemas:
        parsed = _C._parse_schema(schema)
        params, star, last = [], False, None
        for i, p in enumerate(parsed["params"]):
            if method and i == 0:
                params.append("self")
                continue
            if p["keyword_only"] and not star:
                star = True
                params.append("*")
            name = p["name"] + "_" * keyword.iskeyword(p["name"])
            # Inside Tensor the names dtype and device are its properties.
            annotation = re.sub(r"\b(dtype|device)\b", r"_\1", p["annotation"])
            text = f"{name}: {annotation}"
            if p["default"] is not None:
                text += (
                    f" = {p['default']}" if p["default"] in ("None", "True", "False") else " = ..."
                )
            params.append(text)
            if not p["keyword_only"]:
                last = (len(params) - 1, p)
        result = result_type(parsed["result"], parsed["name"], tuples)
        out.append((", ".join(params), result))
        if last and last[1]["annotation"].startswith("_int | Sequence[_int]"):
            spread = [q for q in params if q != "*"]
            at = spread.index(params[last[0]])
            spread[at] = f"*{last[1]['name']}: _int"
            out.append((", ".join(spread), result))
    return list(dict.fromkeys(out))


def write_overloads(lines, name, sigs, indent=""):
    many = len(sigs) > 1
    for params, result in sigs:
        if many:
            lines.append(f"{indent}@overload  # type: ignore[overload-overlap]")
        lines.append(f"{indent}def {name}({params}) -> {result}: ...")


def plain_function(name, value, indent="", method=False):
    """A stub line for something that is no operation."""
    gives = GIVEN.get(name, "Any") if method else "Any"
    first = "self, " if method else ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return f"{indent}def {name}({first}*args: Any, **kwargs: Any) -> {gives}: ..."
    params, star = [], False
    for i, p in enumerate(signature.parameters.values()):
        if method and i == 0:
            params.append("self")
            continue
        text = p.name + ": Any"
        if p.kind is p.VAR_POSITIONAL:
            text, star = "*" + text, True
        elif p.kind is p.VAR_KEYWORD:
            text = "**" + text
        elif p.kind is p.KEYWORD_ONLY and not star:
            params.append("*")
            star = True
        if p.default is not p.empty:
            text += " = ..."
        params.append(text)
    return f"{indent}def {name}({', '.join(params)}) -> {gives}: ..."


def tensor_class(pf, _C, by_name, tuples):
    lines = ["class Tensor:"]
    add = lines.append
    add("    def __init__(self, *args: Any, **kwargs: Any) -> None: ...")
    for op in BINARY:
        for prefix in ("", "r", "i"):
            add(f"    def __{prefix}{op}__(self, other: Any) -> Tensor: ...")
    for op in COMPARE:
        ignore = "  # type: ignore[override]" if op in ("eq", "ne") else ""
        add(f"    def __{op}__(self, other: Any) -> Tensor: ...{ignore}")
    for op in UNARY:
        add(f"    def __{op}__(self) -> Tensor: ...")
    add("    def __hash__(self) -> _int: ...")
    add("    def __getitem__(self, key: Any) -> Tensor: ...")
    add("    def __setitem__(self, key: Any, value: Any) -> None: ...")
    add("    def __len__(self) -> _int: ...")
    add("    def __iter__(self) -> Iterator[Tensor]: ...")
    add("    def __contains__(self, item: Any) -> _bool: ...")
    for name in ("bool", "int", "float"):
        add(f"    def __{name}__(self) -> _{name}: ...")
    add("    def __index__(self) -> _int: ...")
    add("    def __array__(self, *args: Any, **kwargs: Any) -> Any: ...")
    add("    def __dlpack__(self, **kwargs: Any) -> Any: ...")
    add("    def __dlpack_device__(self) -> tuple[_int, _int]: ...")
    for name in sorted(n for n in vars(pf.Tensor) if not n.startswith("__")):
        value = inspect.getattr_static(pf.Tensor, name)
        if isinstance(value, _C.Operation):
            sigs = signatures(_C, by_name[name], tuples, method=True)
            write_overloads(lines, name, sigs, "    ")
        elif isinstance(value, property) or inspect.isgetsetdescriptor(value):
            kind = GIVEN.get(name, "Any")
            add(f"    @property\n    def {name}(self) -> {kind}: ...")
            if name in ("grad", "data", "requires_grad"):
                add(f"    @{name}.setter\n    def {name}(self, value: Any) -> None: ...")
        elif isinstance(value, (classmethod, staticmethod)) or not callable(value):
            add(f"    {name}: Any")
        else:
            add(plain_function(name, value, "    ", method=True))
    return lines


def named_tuples(tuples):
    lines = []
    for fields, name in sorted(tuples.items()):
        lines += [f"class {name}(NamedTuple):", *(f"    {f}: Tensor" for f in fields), ""]
    return lines


def make(pf):
    """The stubs as a dict of file name to text."""
    from pyflame import _C

    by_name = {}
    for row in _C._table():
        by_name.setdefault(row["name"], []).append(row["schema"])
    files = {}

    tuples = {}
    body = tensor_class(pf, _C, by_name, tuples)
    classes, errors = [], []
    for name, value in sorted(vars(_C).items()):
        if not inspect.isclass(value) or name == "Tensor" or name.startswith("_"):
            continue
        if issubclass(value, BaseException):
            bases = ", ".join(
                b.__name__ if b.__module__ == "pyflame" else f"builtins.{b.__name__}"
                for b in value.__bases__
            )
            errors.append((len(value.__mro__), f"class {name}({bases}): ..."))
        elif name == "Size":
            classes += ["class Size(tuple[_int, ...]):", "    def numel(self) -> _int: ..."]
        else:
            members = [n for n in vars(value) if not n.startswith("_")]
            classes.append(f"class {name}:")
            classes.append("    def __init__(self, *args: Any, **kwargs: Any) -> None: ...")
            classes += [f"    {n}: Any" for n in sorted(members)]
    dtypes = sorted(n for n, v in vars(pf).items() if isinstance(v, pf.dtype))
    files["_C.pyi"] = "\n".join(
        [HEADER, "Number = _int | _float | _bool", ""]
        + [text for _, text in sorted(errors)]
        + [
            "",
            *classes,
            "",
            "_dtype = dtype",
            "_device = device",
            "",
            *named_tuples(tuples),
            *body,
            "",
        ]
        + ["def __getattr__(name: str) -> Any: ..."]
    )

    tuples, functions = {}, []
    imported = [
        n
        for n, v in sorted(vars(_C).items())
        if inspect.isclass(v) and hasattr(pf, n) and not n.startswith("_")
    ]
    done = {"Tensor", *imported, *dtypes}
    lines = [HEADER, "Number = _int | _float | _bool", ""]
    lines.append(f"from ._C import {', '.join(f'{n} as {n}' for n in imported)}")
    lines.append("from ._C import dtype as _dtype, device as _device")
    for module in sorted({*pf._MODULES}):
        done.add(module)
        if (PACKAGE / module).is_dir() or (PACKAGE / f"{module}.py").exists():
            lines.append(f"from . import {module} as {module}")
    for name, module in sorted(pf._LAZY.items()):
        lines.append(f"from .{module} import {name} as {name}")
        done.add(name)
    for name in sorted(n for n in dir(pf) if not n.startswith("_") and n not in done):
        value = getattr(pf, name)
        if isinstance(value, _C.Operation):
            write_overloads(functions, name, signatures(_C, by_name[name], tuples, method=False))
        elif inspect.isclass(value) and value.__module__.startswith("pyflame."):
            module = value.__module__.removeprefix("pyflame.")
            functions.append(f"from .{module} import {value.__name__} as {name}")
        elif callable(value):
            line = plain_function(name, value)
            tensors = {"tensor", "as_tensor", "asarray", "from_numpy", "from_dlpack", "frombuffer"}
            functions.append(line.replace("-> Any", "-> Tensor") if name in tensors else line)
        else:
            functions.append(f"{name}: {type(value).__name__ if value is not None else 'None'}")
    functions = [f.replace(": float", ": _float").replace(": int", ": _int") for f in functions]
    files["__init__.pyi"] = "\n".join(
        [*lines, "", "__version__: str", *(f"{n}: dtype" for n in dtypes), ""]
        + [*named_tuples(tuples), *functions, ""]
    )

    import pyflame.nn.functional as functional

    tuples, functions = {}, []
    for name in sorted({*dir(functional)}):
        value = getattr(functional, name, None)
        if name.startswith("_") or inspect.ismodule(value) or inspect.isclass(value):
            continue
        if isinstance(value, _C.Operation):
            write_overloads(functions, name, signatures(_C, by_name[name], tuples, method=False))
        elif callable(value):
            line = plain_function(name, value)
            functions.append(line.removesuffix("-> Any: ...") + "-> Tensor: ...")
    files["nn/functional.pyi"] = "\n".join(
        [
            HEADER,
            "from .._C import Tensor, device as _device, dtype as _dtype",
            "Number = _int | _float | _bool",
            "",
        ]
        + [*named_tuples(tuples), *functions, ""]
    )
    for name, text in files.items():
        try:
            ast.parse(text)
        except SyntaxError as e:
            raise SystemExit(
                f"{name}:{e.lineno}: {e.msg}: {text.splitlines()[e.lineno - 1]}"
            ) from e
    return files


def check(files):
    """Complains about stubs that lie."""
    for name, text in files.items():
        path = PACKAGE / name
        if not path.exists() or path.read_text() != text:
            print(f"{path} is stale; run tools/stubs.py")
            return 1
    sample = ROOT / "tests" / "typing" / "sample.py"
    command = [sys.executable, "-P", "-m", "mypy", "--no-error-summary", "--check-untyped-defs"]
    command += ["--follow-imports=silent", "--cache-dir", str(ROOT / ".mypy_cache"), str(sample)]
    return subprocess.run(command, env=dict(os.environ, MYPYPATH=str(PACKAGE.parent))).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--module", help="the extension module; else the one beside the package")
    parser.add_argument("--out", default=str(PACKAGE), help="where the stubs go")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    files = make(load(args.module))
    if args.check:
        return check(files)
    for name, text in files.items():
        path = Path(args.out) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
