"""torch._dynamo: no Python code is looked at. Decorators give what they are given, settings are kept."""

from pyflame.compiler import disable, is_compiling, list_backends, reset  # noqa: F401


def _same(fn=None, *args, **kwargs):
    """What it is given: a decorator, with or without arguments."""
    return fn if callable(fn) else lambda f: f


allow_in_graph = disallow_in_graph = assume_constant_result = run = _same
forbid_in_graph = graph_break = skip = nonstrict_trace = _same


def optimize(backend="inductor", **kwargs):
    """A decorator that changes nothing."""
    return _same


def mark_dynamic(t, *args, **kwargs):
    """Accepted."""


maybe_mark_dynamic = mark_static = mark_static_address = mark_unbacked = mark_dynamic


def __getattr__(name):
    if name == "OptimizedModule":
        from pyflame.compiler import OptimizedModule

        return OptimizedModule
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
