"""Finds `torch` and the modules below it, and makes them of PyFlame's.

A module under PyTorch's name is a facade: its attributes are those of one or several modules of
ours, its *sources*, the first of which wins. So classes and functions are the same objects under
both names, while the facade says in PyTorch's words what is missing.

Sources are found by name: torch.a.b is `_torch/only/a/b.py`, where that is, and pyflame.a.b. Modules
that PyTorch has cut otherwise stand in a table.
"""

import importlib
import importlib.machinery
import sys
import threading
import types

from .. import _C
from . import missing
from .version import TEXT

_ROOT = "torch"
_ONLY = __name__.rpartition(".")[0] + ".only"
_OURS = __name__.split(".")[0]
_FROZEN = ("<frozen importlib._bootstrap>", importlib._bootstrap.__file__)

# Modules of PyTorch whose names stand elsewhere here: the module, ours, and those below it that
# are the same.
_SAME_TABLE = (
    ("torch.functional", "", ""),
    ("torch.torch_version", "_torch.version", ""),
    ("torch.amp", "amp", "autocast_mode grad_scaler"),
    ("torch.cpu.amp", "cpu.amp", "autocast_mode grad_scaler"),
    ("torch.cuda.amp", "cuda.amp", "autocast_mode grad_scaler common"),
    ("torch.autograd", "autograd", "anomaly_mode function grad_mode gradcheck graph variable"),
    ("torch.cuda.memory", "memory cuda", ""),
    ("torch.cuda", "cuda", "random"),
    ("torch.cuda.streams", "streams", ""),
    ("torch.backends.cudnn", "backends.cudnn", "rnn"),
    ("torch.nn.modules", "nn", "adaptive channelshuffle distance flatten fold linear upsampling"),
    ("torch.nn.modules.activation", "nn nn.activations nn.attention", ""),
    ("torch.nn.modules.batchnorm", "nn nn.normalization", ""),
    ("torch.nn.modules.container", "nn nn.containers", ""),
    ("torch.nn.modules.conv", "nn nn.convolution", ""),
    ("torch.nn.modules.dropout", "nn nn.layers", ""),
    ("torch.nn.modules.instancenorm", "nn nn.normalization", ""),
    ("torch.nn.modules.lazy", "nn.lazy", ""),
    ("torch.nn.modules.loss", "nn nn.losses", ""),
    ("torch.nn.modules.module", "nn.module nn.module_state", ""),
    ("torch.nn.modules.normalization", "nn nn.normalization", ""),
    ("torch.nn.modules.padding", "nn nn.padding", ""),
    ("torch.nn.modules.pixelshuffle", "nn nn.resampling", ""),
    ("torch.nn.modules.pooling", "nn nn.pooling", ""),
    ("torch.nn.modules.rnn", "nn nn.recurrent", ""),
    ("torch.nn.modules.sparse", "nn", ""),
    ("torch.nn.modules.transformer", "nn nn.attention", ""),
    ("torch.nn.utils", "nn.utils", "clip_grad convert_parameters memory_format"),
    ("torch.nn.utils.init", "nn.init", ""),
    (
        "torch.optim",
        "optim",
        "adadelta adagrad adam adamax adamw asgd lbfgs nadam optimizer radam rmsprop rprop sgd "
        "sparse_adam",
    ),
    ("torch.utils.data", "utils.data", "dataloader dataset distributed sampler"),
    ("torch.utils.data._utils", "utils.data", "collate pin_memory worker"),
)
_SAME = {f"torch.onnx.symbolic_opset{n}": [f"{_ONLY}.onnx.symbolic_helper"] for n in range(7, 21)}
for _theirs, _ours, _below in _SAME_TABLE:
    _names = [f"{_OURS}.{n}".rstrip(".") for n in _ours.split(" ")]
    _SAME[_theirs] = _names
    _SAME.update((f"{_theirs}.{n}", _names) for n in _below.split())

# Of a module itself, not of its contents.
_MACHINERY = {
    "__name__", "__doc__", "__package__", "__loader__", "__spec__", "__path__", "__file__",
    "__cached__", "__builtins__", "__all__", "__getattr__", "__dir__",
}  # fmt: skip
_PRIVATE = {"_pytree"}  # of ours, that are PyTorch's, too
_TOOLS = {
    "cli",
    "run",
    "training",
    "explain",
    "debug",
    "version",
}  # no program means these by torch


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


def _plain(value):
    return value is not None and not isinstance(value, types.ModuleType)


def _shown(name, value):
    """Whether a name of a source is one of the facade."""
    if isinstance(value, types.ModuleType):
        return value.__name__.startswith(_OURS + ".") and not name.startswith("_")
    return name not in _MACHINERY


def _sources(facade):
    return FINDER.made.get(facade.__name__, ())


class _Loader:
    """Makes a facade and fills it."""

    def create_module(self, spec):
        return Facade(spec.name)

    def exec_module(self, module):
        names = module.__dict__
        sources = _sources(module)
        for source in reversed(sources):
            names.update(
                (n, v)
                for n, v in vars(source).items()
                if _shown(n, v) and not isinstance(v, types.ModuleType)
            )
        first = sources[0] if module.__name__ != _ROOT else sources[-1]
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
        if name != _ROOT and not name.startswith(_ROOT + "."):
            return None
        sources = self.sources(name)
        if not sources:
            self.refuse(name)
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
        head, _, leaf = name.rpartition(".")
        found = []
        for parent in self.sources(head):
            inside = parent.__name__.startswith(_ONLY)
            private = leaf.startswith("_") and leaf not in _PRIVATE
            if not inside and (private or leaf in _TOOLS):
                continue
            child = f"{parent.__name__}.{leaf}"
            paths = getattr(parent, "__path__", None)
            if paths and importlib.machinery.PathFinder.find_spec(child, paths):
                found.append(importlib.import_module(child))
            else:
                value = vars(parent).get(leaf)
                if isinstance(value, types.ModuleType) and value.__name__.startswith(_OURS + "."):
                    found.append(value)
        for module in map(importlib.import_module, _SAME.get(name, ())):
            if module not in found:
                found.append(module)
        return found

    def refuse(self, name):
        """Says by name what an import statement asks for in vain. Who only asks whether there is
        such a module (importlib.util.find_spec) gets None."""
        frame, listed, imported = sys._getframe(1), False, False
        for _ in range(10):  # through importlib's frames to the statement
            frame = frame.f_back
            if frame is None or frame.f_code.co_filename not in (__file__, *_FROZEN):
                break
            imported |= frame.f_code.co_name == "_find_and_load_unlocked"
            listed |= frame.f_code.co_name == "_handle_fromlist"
        if not imported:
            return
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
