"""torch._dynamo: programs are not captured. Decorators give what they are given, settings are kept."""


def _same(fn=None, *args, **kwargs):
    """What it is given: a decorator, with or without arguments."""
    return fn if callable(fn) else lambda f: f


disable = allow_in_graph = disallow_in_graph = assume_constant_result = run = _same
forbid_in_graph = graph_break = skip = nonstrict_trace = _same


def optimize(backend="inductor", **kwargs):
    """A decorator that changes nothing."""
    return _same


def reset():
    """Accepted: there is nothing to forget."""


def is_compiling():
    """False."""
    return False


def mark_dynamic(t, index, **kwargs):
    """Accepted."""


maybe_mark_dynamic = mark_static = mark_static_address = mark_unbacked = mark_dynamic


def list_backends(exclude_tags=()):
    """None."""
    return []


class OptimizedModule:
    """What PyTorch's compiler makes of a module; here nothing is one."""
