"""Finds `torch` and the modules below it, and makes them of PyFlame's.

A module under PyTorch's name is a facade: its attributes are those of one or several modules of
ours, its *sources*, the first of which wins. So classes and functions are the same objects under
both names, while the facade says in PyTorch's words what is missing.

Sources are found by name: torch.a.b is `_torch/only/a/b.py`, where that is, and pyflame.a.b, a file or
one of the paths that `pyflame._aliases` makes, or a row of `absent`.
"""

import importlib
import importlib.machinery
import sys
import threading
import types

from .. import _C, _aliases
from . import absent, extensions, lenient, missing, started
from .version import TEXT

_ROOT = "torch"
_PACKAGES = {"flash_attn"}  # other packages that programs import, by the names of modules of ours
_ONLY = __name__.rpartition(".")[0] + ".only"
_OURS = __name__.split(".")[0]
_FROZEN = ("<frozen importlib._bootstrap>", importlib._bootstrap.__file__)

# Modules under PyTorch's name alone that are one.
_SAME = {f"torch.onnx.symbolic_opset{n}": f"{_ONLY}.onnx.symbolic_helper" for n in range(7, 21)}
_SAME |= {
    "torch.accelerator.memory": "pyflame.accelerator",
    "torch.cuda.comm": "torch.nn.parallel.comm",
    "torch.distributed._composable.fsdp": "torch.distributed.fsdp",
    "torch.distributed.nn.functional": "torch.distributed.nn",
    "torch.distributed._tensor": "torch.distributed.tensor",
    "torch.distributed._tensor.experimental": "torch.distributed.tensor.experimental",
    "torch.quantization": "torch.ao.quantization",
}

# Of a module itself, not of its contents.
_MACHINERY = {
    "__name__", "__doc__", "__package__", "__loader__", "__spec__", "__path__", "__file__",
    "__cached__", "__builtins__", "__all__", "__getattr__", "__dir__",
    "_sources",
}  # fmt: skip
_PRIVATE = {"_pytree"}  # of ours, that are PyTorch's, too
# No program means these by torch.
_TOOLS = {"cli", "run", "training", "explain", "debug", "version"}


class Facade(types.ModuleType):
    """A module under PyTorch's name."""

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):  # of machinery, not of PyTorch
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        for source in _sources(self):
            try:
                value = getattr(source, name)
            except AttributeError:
                continue
            if not isinstance(value, types.ModuleType):
                if not hasattr(type(source), name):  # switches change their value
                    self.__dict__[name] = value
                return value
        child = f"{self.__name__}.{name}"
        if FINDER.sources(child):
            return importlib.import_module(child)
        if lenient.asked(sys._getframe(1)):
            return lenient.name(self.__name__, name)
        raise missing.MissingName(self, name)

    def __setattr__(self, name, value):
        if isinstance(value, Facade):  # a submodule that was imported, not before a function
            if any(_plain(vars(s).get(name)) for s in _sources(self)):
                return
        elif name not in _MACHINERY:
            for source in _sources(self):
                if name in vars(source) or hasattr(type(source), name):
                    setattr(source, name, value)
                    if hasattr(type(source), name):
                        return
                    break
        super().__setattr__(name, value)

    def __dir__(self):
        names = {*self.__dict__}
        for source in _sources(self):
            names.update(n for n in dir(source) if _shown(n, vars(source).get(n)))
        return sorted(names)


class _CallableFacade(Facade):
    """One whose source may be called: a function and a module of the same name."""

    def __call__(self, *args, **kwargs):
        return next(s for s in _sources(self) if callable(s))(*args, **kwargs)


def _plain(value):
    return value is not None and not isinstance(value, types.ModuleType)


def _shown(name, value):
    """Whether a name of a source is one of the facade."""
    if isinstance(value, types.ModuleType):
        return value.__name__.startswith(_OURS + ".") and not name.startswith("_")
    return name not in _MACHINERY


def _is_alias(source):
    return isinstance(source, _aliases._Alias)


def _sources(facade):
    return FINDER.made.get(facade.__name__, ())


class _Loader:
    """Makes a facade and fills it."""

    def create_module(self, spec):
        called = any(map(callable, FINDER.sources(spec.name)))
        return (_CallableFacade if called else Facade)(spec.name)

    def exec_module(self, module):
        names = module.__dict__
        sources = _sources(module)
        for source in reversed(sources):
            # Libraries go through vars(module): an alias is asked for all it has.
            lazy = [n for n in dir(source) if n not in vars(source)] if _is_alias(source) else ()
            found = vars(source) | {n: getattr(source, n) for n in lazy if hasattr(source, n)}
            names.update(
                (n, v)
                for n, v in found.items()
                if _shown(n, v) and not isinstance(v, types.ModuleType)
            )
        first = sources[0]
        if module.__name__ == _ROOT:
            first = sources[-1]
            names[_ROOT] = module  # torch.torch is torch
        names["__doc__"] = first.__doc__
        names["__file__"] = getattr(first, "__file__", None)
        if hasattr(sources[-1], "__all__"):
            names["__all__"] = [n for n in sources[-1].__all__ if n not in _TOOLS]

    def get_code(self, name):  # `python -m torch.x`
        return None


class _Finder:
    """The finder of `torch`, for sys.meta_path."""

    def __init__(self):
        self.made = {}  # sources by name
        self.lock = threading.RLock()
        self.loader = _Loader()

    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if name in extensions.FUNCTIONS:
            return extensions.with_ours(name, path)
        if root != _ROOT and root not in _PACKAGES:
            return None
        sources = self.sources(name)
        if not sources and root == _ROOT:
            sources = self.refuse(name)
        if not sources:
            return None
        origin = getattr(sources[0], "__file__", None)
        spec = importlib.machinery.ModuleSpec(name, self.loader, origin=origin, is_package=True)
        return spec

    def sources(self, name):
        """Modules of ours whose attributes a module of torch has."""
        with self.lock:
            if name not in self.made:
                found = self.find(name)
                if not found:
                    return []
                self.made[name] = found
            return self.made[name]

    def find(self, name):
        if name == _ROOT:
            return [importlib.import_module(_ONLY), importlib.import_module(_OURS)]
        if name in _PACKAGES:
            return [importlib.import_module(f"{_OURS}.{name}")]
        head, _, leaf = name.rpartition(".")
        found = [module] if (module := absent.module(name)) else []
        for parent in self.sources(head):
            inside = parent.__name__.startswith(_ONLY)
            child = f"{parent.__name__}.{leaf}"
            paths = getattr(parent, "__path__", None)
            if child.partition(".")[2] in _aliases.MODULES:
                found.append(importlib.import_module(child))
                continue
            private = leaf.startswith("_") and leaf not in _PRIVATE
            if not inside and (private or leaf in _TOOLS):
                continue
            if paths and importlib.machinery.PathFinder.find_spec(child, paths):
                found.append(importlib.import_module(child))
            else:
                value = vars(parent).get(leaf)
                if isinstance(value, types.ModuleType) and value.__name__.startswith(_OURS + "."):
                    found.append(value)
        if name in _SAME:
            found.append(importlib.import_module(_SAME[name]))
        return found

    def refuse(self, name):
        """Says by name what an import statement asks for in vain, or gives a module of stand-ins
        (lenient). Who only asks whether there is such a module (importlib.util.find_spec) gets None."""
        frame, listed, imported = sys._getframe(1), False, False
        for _ in range(10):  # through importlib's frames to the statement
            frame = frame.f_back
            if frame is None or frame.f_code.co_filename not in (__file__, *_FROZEN):
                break
            imported |= frame.f_code.co_name == "_find_and_load_unlocked"
            listed |= frame.f_code.co_name == "_handle_fromlist"
        if not imported:
            return None
        if lenient.asked(frame):
            self.made[name] = [types.ModuleType(name, "Not in PyFlame: its names are stand-ins.")]
            return self.made[name]
        head, _, leaf = name.rpartition(".")
        text = missing.message(head, leaf, dir(sys.modules.get(head)))
        if listed:  # `from torch.x import name`
            raise ImportError(text, name=head)
        raise ModuleNotFoundError(text, name=name)

    def find_distributions(self, context=None):
        """What importlib.metadata says of the package torch."""
        name = getattr(context, "name", None)
        if name is not None and name.lower() != _ROOT:
            return
        from .distribution import Torch

        yield Torch()


FINDER = _Finder()


def install():
    """Makes `import torch` mean PyFlame from here on."""
    theirs = sys.modules.get(_ROOT)
    if theirs is not None and not isinstance(theirs, Facade):
        raise RuntimeError(
            "pf.run: PyTorch itself has been imported before; expected to be first; begin the "
            "program with `pyflame run`"
        )
    if FINDER in sys.meta_path:
        return
    sys.meta_path.insert(0, FINDER)
    _C._show_as(_ROOT)  # torch.float32, torch.Size([2])
    _C.Tensor.__module__ = _ROOT
    extensions.install()
    started.install()
    _keep_in_children()


class _InChild:
    """What a child process unpickles first: a statement that installs the finder there.

    It stands in the data that multiprocessing's spawn and forkserver hand to a child before this
    imports the main module. The path comes first, as PyFlame may be found by it.
    """

    def __reduce__(self):
        package = sys.modules[_OURS].__path__[0]
        folder = package.rpartition("/")[0]
        text = (
            f"import sys\nif {folder!r} not in sys.path: sys.path.append({folder!r})\n"
            f"import {_OURS}._torch as t\nt.install()"
        )
        return exec, (text,)


def _keep_in_children():
    from multiprocessing import spawn

    data = spawn.get_preparation_data

    def get_preparation_data(name):
        return {_OURS: _InChild(), **data(name)}

    spawn.get_preparation_data = get_preparation_data


__all__ = ["FINDER", "TEXT", "Facade", "install"]
