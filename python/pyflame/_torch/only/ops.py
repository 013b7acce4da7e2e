"""torch.ops: operators of torch.library by namespace and name, and the profiler's regions. Those that
packages have compiled are ours, or raise when they are called."""

from ... import _C
from ... import overrides as _overrides
from ... import profiler as _profiler
from ...nn import functional as _functional
from .. import extensions as _extensions
from ..absent import absent as _absent
from . import _C as _c
from . import library as _library

_where = {}
# Namespaces of whose operators there is each, since packages compare them.
_PYTORCHS = ("aten", "c10d", "c10d_functional", "_c10d_functional")


class _Operator:
    """What torch.ops.aten has under a name: the function or method of that name. Its overloads, which
    programs compare operators with, are one."""

    def __init__(self, name, function):
        self._name, self._function = name, function
        self.__name__ = name.rpartition(".")[2]

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def __getattr__(self, overload):
        if overload.startswith("_"):
            raise AttributeError(overload)
        made = self.__dict__[overload] = _Operator(f"{self._name}.{overload}", self._function)
        return made

    @property
    def _schema(self):
        return _c.parse_schema(f"{self._name}(...)")

    def overloads(self):
        """The names of those that were asked for."""
        return [n for n, v in vars(self).items() if isinstance(v, _Operator)]

    def __repr__(self):
        return self._name


class _Namespace:
    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        found = _library.find(self._name, name)
        if found is None and self._name in _PYTORCHS and not name.startswith("__"):
            where = (
                (_C._functions, vars(_C.Tensor), vars(_functional)) if self._name == "aten" else ()
            )
            function = next((w[name] for w in where if name in w), None)
            if function is None:  # programs compare operators with it
                function = _absent(f"torch.ops.{self._name}", "call the function of torch")(name)
            found = self.__dict__[name] = _Operator(f"{self._name}.{name}", function)
        if found is None:
            raise AttributeError(
                f"torch.ops.{self._name}.{name} is not in PyFlame; operators of PyTorch's C++ are "
                "not here; call the function of torch, or write one with torch.library.custom_op"
            )
        return found

    def __repr__(self):
        return f"torch.ops.{self._name}"


class _Profiler(_Namespace):
    """Regions of torch.profiler, begun and ended by hand."""

    @staticmethod
    def _record_function_enter(name, args=None):
        return _profiler.record_function(name, args).__enter__()

    _record_function_enter_new = _record_function_enter

    @staticmethod
    def _record_function_exit(handle):
        if _overrides.has_torch_function((handle,)):  # of torch.fx
            function = _where["profiler"]._record_function_exit
            return _overrides.handle_torch_function(function, (handle,), handle)
        return handle.__exit__()


_where["profiler"] = _Profiler("profiler")
for _function in (_Profiler._record_function_enter, _Profiler._record_function_exit):
    _function.has_side_effect = True  # for torch.fx
    # Overloads, which xformers compares with.
    _function._RecordFunction = _function.default = _function


loaded_libraries = set()


def load_library(path):
    """Takes note of a library of operators, which is built against PyTorch: its operators are ours, or
    raise when they are called. FileError, an OSError, where there is no such file."""
    _extensions.load(path, "torch.ops.load_library")
    loaded_libraries.add(path)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _where.setdefault(name, _Namespace(name))
