"""torch.compiler: programs are not compiled as a whole, so all of it changes nothing."""

import contextlib as _contextlib

import pyflame as _pyflame


def compile(*args, **kwargs):
    """torch.compile."""
    from . import compile

    return getattr(_pyflame, "compile", compile)(*args, **kwargs)


def _same(fn=None, *args, **kwargs):
    """What it is given: a decorator, with or without arguments."""
    return fn if callable(fn) else lambda f: f


def disable(fn=None, recursive=True, *, reason=None):
    """The function itself, or a decorator."""
    return _same(fn)


allow_in_graph = assume_constant_result = wrap_numpy = nested_compile_region = _same


def substitute_in_graph(original_fn, *, can_constant_fold_through=False,
                        skip_signature_check=False):  # fmt: skip
    """A decorator that changes nothing."""
    return _same


def is_compiling():
    """False."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def reset():
    """Accepted: there is nothing to forget."""


def cudagraph_mark_step_begin():
    """Accepted: steps are not recorded."""


def list_backends(exclude_tags=("debug", "experimental")):
    """None."""
    return []


def set_default_backend(backend=None):
    """Accepted."""


def get_default_backend():
    """ "eager"."""
    return "eager"


class set_stance(_contextlib.ContextDecorator):
    """Accepted, as a call, a context or a decorator."""

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        self.stance = stance

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        pass
