"""torch.jit: programs stay Python. Decorators and script() give what they are given; is_scripting() is
False. What would need TorchScript itself (loading and saving its programs) raises NotSupportedError.
"""

import builtins as _builtins
import contextlib as _contextlib
from typing import Final  # noqa: F401 (a name of torch.jit)

from .... import _C
from ....nn import Module as _Module
from ..futures import Future

Error = RuntimeError


class ScriptModule(_Module):
    """A module of TorchScript. What script() and trace() give is none: it is what they were given."""


RecursiveScriptModule = TopLevelTracedModule = ScriptModule


def _needs(name, instead):
    raise _C.NotSupportedError(
        f"torch.jit.{name}: TorchScript's programs need PyTorch; PyFlame runs Python; {instead}"
    )


def script(obj=None, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """`obj` itself: it runs as Python, with the same results."""
    return obj


def trace(func=None, example_inputs=None, optimize=None, check_trace=True, check_inputs=None,
          check_tolerance=1e-5, strict=True, _force_outplace=False, _module_class=None,
          _compilation_unit=None, example_kwarg_inputs=None, _store_inputs=True):  # fmt: skip
    """`func` itself: it runs as Python, so that what depends on values still does."""
    return func


def trace_module(mod, inputs, *args, **kwargs):
    """`mod` itself."""
    return mod


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """`mod` itself, which must be in evaluation mode."""
    return mod


def optimize_for_inference(mod, other_methods=None):
    """`mod` itself."""
    return mod


def save(m, f, _extra_files=None):
    """NotSupportedError: save a state_dict() instead."""
    _needs("save", "save model.state_dict() by torch.save")


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """NotSupportedError: make the model and load its state_dict()."""
    _needs("load", "make the model in Python and load its state_dict()")


def _get_trace_graph(f, args=(), kwargs=None, strict=True, _force_outplace=False, **how):
    """NotSupportedError: nothing is traced."""
    _needs("_get_trace_graph", "torch.fx.symbolic_trace and pyflame.explain show what a model runs")


class TracerWarning(Warning):
    """What PyTorch warns of while it traces."""


class CompilationUnit:
    """NotSupportedError: functions are written in Python."""

    def __init__(self, lang=None, _frames_up=0):
        _needs("CompilationUnit", "write the functions in Python")


ScriptFunction = CompilationUnit


def _same(f=None, *args, **kwargs):
    """What it is given: a decorator."""
    return f if callable(f) or isinstance(f, type) else lambda g: g


export = unused = interface = script_method = script_if_tracing = _script_if_tracing = _same
_overload = _overload_method = _same


def ignore(drop=False, **kwargs):
    """A decorator, with or without arguments; it changes nothing."""
    return drop if callable(drop) else lambda f: f


def is_scripting():
    """False."""
    return False


def is_tracing():
    """False."""
    return False


def annotate(the_type, the_value):
    """`the_value`."""
    return the_value


def isinstance(obj, target_type):
    """isinstance() of Python, for types that it takes."""
    try:
        return _builtins.isinstance(obj, target_type)
    except TypeError:  # List[int] and its like
        return _builtins.isinstance(obj, getattr(target_type, "__origin__", object))


def Attribute(value, type=None):
    """`value`."""
    return value


def fork(func, *args, **kwargs):
    """Calls `func` now; returns a Future with what it gave."""
    made = Future()
    made.set_result(func(*args, **kwargs))
    return made


def wait(future):
    """The value of a Future."""
    return future.wait()


def set_fusion_strategy(strategy):
    """Accepted: PyFlame fuses by itself."""
    return []


def enable_onednn_fusion(enabled):
    """Accepted: PyFlame fuses by itself."""


def onednn_fusion_enabled():
    """False."""
    return False


@_contextlib.contextmanager
def strict_fusion():
    """Accepted: PyFlame fuses by itself; pyflame.explain shows what."""
    yield


fuser = optimized_execution = lambda *args: _contextlib.nullcontext()
