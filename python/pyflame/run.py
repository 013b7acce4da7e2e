"""Runs a program written for PyTorch with PyFlame in PyTorch's place.

    pyflame run script.py [args]        python -m pyflame.run script.py [args]
    pyflame run -m module [args]
    pyflame run -c "text" [args]
    pyflame run - [args]                the program comes from standard input

In that process `import torch` gives PyFlame, submodules too, and so it is in the processes that it
makes by multiprocessing. Arguments, `__main__`, paths, tracebacks and the exit status are those of
`python script.py`. A program that is its own beginning (a notebook) calls `pyflame.run.install()`
before it imports torch.
"""

import importlib.machinery
import importlib.util
import os
import sys
import types

from ._torch import install, installed

__all__ = ["install", "installed", "main"]

_USAGE = "usage: pyflame run [-m MODULE | -c TEXT | FILE | -] [ARGUMENT ...]\n"
_HELP = f"""{_USAGE}
Runs a Python program in which `import torch` gives PyFlame. docs/pytorch_programs.md says what
is there; `pyflame check PATH` lists what a program needs and PyFlame does not have.

  FILE         a script, or a folder or archive with a __main__.py
  -m MODULE    a module, as `python -m` runs it
  -c TEXT      the text of a program
  -            the program is read from standard input
  ARGUMENT     for the program
"""
_kept = []  # the module that was __main__ before


def _fail(text):
    sys.stderr.write(f"pyflame run: error: {text}\n")
    raise SystemExit(2)


def _main_module(file=None, loader=None, spec=None):
    """A new __main__, as the interpreter makes one."""
    main = types.ModuleType("__main__")
    main.__builtins__ = sys.modules["builtins"]
    main.__loader__, main.__spec__ = loader, spec
    main.__annotations__ = {}
    main.__package__ = None if spec is None else spec.parent
    if file is not None:
        main.__file__, main.__cached__ = file, None if spec is None else spec.cached
    _kept.append(sys.modules["__main__"])
    sys.modules["__main__"] = main
    return main


def _set_path(first):
    """sys.path begins with the program's place, as with python; not where -P forbids it."""
    if getattr(sys.flags, "safe_path", False):
        return
    # What stands there is the place of the command `pyflame`, or of `python -m`.
    sys.path[:1] = [first]


def _compiled(source, name):
    return compile(source, name, "exec", dont_inherit=True)


_LONGEST = 64 << 20  # bytes of a program


def _read(file, path):
    """What a program's file has. A device that never ends is none."""
    source = file.read(_LONGEST + 1)
    if len(source) > _LONGEST:
        _fail(f"can't run {path!r}: it has more than {_LONGEST >> 20} MiB; expected a program")
    return source


def _script(path, args):
    """(code, __main__) of a script, a folder or an archive."""
    if path != "-" and (os.path.isdir(path) or _is_archive(path)):
        place = os.path.abspath(path)
        _set_path(place)
        spec = importlib.machinery.PathFinder.find_spec("__main__", [place])
        if spec is None or spec.loader is None:
            _fail(f"can't find '__main__' module in {path!r}")
        sys.argv = [path, *args]
        code = spec.loader.get_code("__main__")
        return code, _main_module(spec.origin, spec.loader, spec)
    sys.argv = [path, *args]
    if path == "-":
        _set_path("")
        return _compiled(_read(sys.stdin.buffer, path), "<stdin>"), _main_module("<stdin>")
    try:
        with open(path, "rb") as f:
            source = _read(f, path)
    except OSError as e:
        _fail(f"can't open file {os.path.abspath(path)!r}: [Errno {e.errno}] {e.strerror}")
    _set_path(os.path.dirname(os.path.realpath(path)))
    file = os.path.abspath(path)
    loader = importlib.machinery.SourceFileLoader("__main__", file)
    return _compiled(source, file), _main_module(file, loader)


def _is_archive(path):
    import zipfile

    return os.path.isfile(path) and zipfile.is_zipfile(
        path
    )  # it looks for the end of what has none


def _module(name, args):
    """(code, __main__) of a module."""
    _set_path(os.getcwd())
    sys.argv = ["-m", *args]
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            inside = importlib.util.find_spec(f"{name}.__main__")
            if inside is None:
                _fail(f"No module named {name}.__main__; '{name}' is a package and cannot be run")
            spec = inside
    except (ImportError, ValueError) as e:
        _fail(f"Error while finding module specification for {name!r} ({type(e).__name__}: {e})")
    if spec is None:
        _fail(f"No module named {name}")
    code = spec.loader.get_code(spec.name) if hasattr(spec.loader, "get_code") else None
    if code is None:
        _fail(f"No code object available for {spec.name}")
    sys.argv[0] = spec.origin
    return code, _main_module(spec.origin, spec.loader, spec)


def _text(source, args):
    """(code, __main__) of -c."""
    _set_path("")
    sys.argv = ["-c", *args]
    loader = importlib.machinery.BuiltinImporter
    return _compiled(source, "<string>"), _main_module(loader=loader)


def _as_pythons(error):
    """Has the interpreter print a traceback without our frames."""
    hook = sys.excepthook

    def show(kind, value, trace):
        while trace is not None and trace.tb_frame.f_code is not _execute.__code__:
            trace = trace.tb_next
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        hook(kind, value.with_traceback(trace), trace)

    sys.excepthook = show


def _execute(program, args):
    code, main = program(*args)
    # No frame of ours is between this one and the program's.
    exec(code, main.__dict__)


def _parse(argv):
    """(function that makes code and module, its arguments)."""
    if not argv or argv[0] in ("-h", "--help"):
        (sys.stdout if argv else sys.stderr).write(_HELP)
        raise SystemExit(0 if argv else 2)
    first, rest = argv[0], argv[1:]
    for option, program in (("-m", _module), ("-c", _text)):
        if first == option:
            if not rest:
                _fail(f"argument expected for the {option} option")
            return program, (rest[0], rest[1:])
        if first.startswith(option) and not first.startswith("--"):
            return program, (first[2:], rest)
    if first == "--" and rest:
        first, rest = rest[0], rest[1:]
    elif first.startswith("-") and first != "-":
        _fail(f"unknown option {first}; options of the program stand behind its name\n{_USAGE}")
    return _script, (first, rest)


def main(argv=None):
    """Runs a program; returns 0 when it comes to its end, and raises what it raises."""
    program, args = _parse(list(sys.argv[1:] if argv is None else argv))
    install()
    try:
        _execute(program, args)
    except SystemExit:
        raise
    except BaseException as e:
        _as_pythons(e)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
