"""torch._jit_internal: marks for TorchScript, which change nothing."""

from typing import Final  # noqa: F401

from .jit import export, ignore, is_scripting, unused  # noqa: F401


def _copy_to_script_wrapper(fn):
    return fn


_overload = _overload_method = _copy_to_script_wrapper
