#!/usr/bin/env python3
"""Checks that rooms (folders of src/) include only what lies below them, public headers of rooms
above too, and that no file includes itself by way of others, nor a module of Python while it is
imported. The order is the one of docs/architecture.md."""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Each room with what it may include besides itself and include/pyflame. A room's own list is all
# that it sees: rooms on one floor do not see each other. kernels/ is text for GPUs first; hosts
# include what they share with it: functions over a value type, structs of arguments.
ROOMS = {
    "core": "",
    "files": "core",
    "table": "core",
    "engine": "core table",
    "ops": "core table engine",
    "cpu": "core table engine kernels",
    "gpu": "core files table engine kernels",
    "meta": "core",
    "paranoid": "core table cpu",
    "nn": "core table engine ops",
    "optim": "core table engine ops",
    "io": "core files table engine ops",
}
# Public headers of rooms above the engine, and the one that includes them all, which no room does;
# the others are everybody's.
PUBLIC = {
    "everything": "pyflame",
    "ops": "ops losses special statistics optim_ops float8",
    "nn": "nn init",
    "optim": "optim",
    "io": "io",
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def included(path, folders):
    for name in INCLUDE.findall(path.read_text()):
        for folder in (path.parent, *folders):
            if (folder / name).is_file():
                yield (folder / name).resolve()
                break


def graph(root, *folders):
    files = [p for p in root.rglob("*") if p.suffix in (".h", ".cpp", ".def")]
    return {p.resolve(): list(included(p, folders)) for p in files}


def imported(node):
    """(level, module, name) of what is imported when a module is; functions run later."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            yield from ((child.level, child.module or "", a.name) for a in child.names)
        elif isinstance(child, ast.Import):
            yield from ((0, a.name, "") for a in child.names)
        elif not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from imported(child)


def modules(package):
    """The graph of a package's files. What a file imports of the package itself (`from . import _C`)
    is there before the package is complete, so it counts only where it is a file."""
    files = {p.relative_to(package.parent).with_suffix("").parts: p for p in package.rglob("*.py")}
    named = {k[:-1] if k[-1] == "__init__" else k: p for k, p in files.items()}
    edges = {}
    for parts, path in files.items():
        edges[path] = []
        for level, module, name in imported(ast.parse(path.read_text())):
            base = (*(parts[:-level] if level else ()), *filter(None, module.split(".")))
            target = named.get((*base, name)) or (named.get(base) if len(base) > 1 else None)
            if target and target != path:
                edges[path].append(target)
    return edges


def room_of(file, src):
    """None: a public header that is everybody's."""
    if file.is_relative_to(src):
        return file.relative_to(src).parts[0]
    if file.is_relative_to(ROOT / "kernels"):
        return "kernels"
    return next((room for room, names in PUBLIC.items() if file.stem in names.split()), None)


def wrong_rooms(edges, src):
    for file, targets in edges.items():
        room = room_of(file, src)
        if room not in (None, *ROOMS):
            continue  # main() says so
        allowed = {None, room, *ROOMS.get(room, "").split()}
        for target in targets:
            if room_of(target, src) not in allowed:
                yield f"{file.relative_to(ROOT)} includes {target.relative_to(ROOT)}"


def circles(edges):
    """Each circle once, as a list of files."""
    state, path, found = {}, [], []

    def visit(file):
        state[file] = "open"
        path.append(file)
        for target in edges.get(file, ()):
            if state.get(target) == "open":
                found.append([*path[path.index(target) :], target])
            elif target not in state:
                visit(target)
        path.pop()
        state[file] = "done"

    for file in edges:
        if file not in state:
            visit(file)
    return found


def main():
    src = ROOT / "src"
    missing = {p.name for p in src.iterdir()} ^ set(ROOMS)
    errors = [f"tools/rooms.py and src/ differ in {name}" for name in sorted(missing)]
    edges = graph(src, src, ROOT / "include", ROOT) | graph(ROOT / "include", ROOT / "include")
    errors += sorted(wrong_rooms(edges, src))
    edges |= graph(ROOT / "kernels") | modules(ROOT / "python" / "pyflame")
    for circle in circles(edges):
        errors.append(" -> ".join(str(p.relative_to(ROOT)) for p in circle))
    for error in errors:
        print(f"rooms.py: {error}", file=sys.stderr)
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
