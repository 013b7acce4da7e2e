"""torch._dynamo.eval_frame: the class of compiled modules, which libraries ask for."""

from . import disable  # noqa: F401


def __getattr__(name):
    if name == "OptimizedModule":
        from pyflame.compiler import OptimizedModule

        return OptimizedModule
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
