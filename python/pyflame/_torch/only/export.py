"""torch.export: programs of modules by torch.fx. A graph holds the calls that the module makes (its layers,
functions and methods), for inputs of any shape that it takes; programs are not written to files."""

from ... import _C, fx
from ...nn import Module as _Module


class Dim:
    """A dimension that may differ between calls: every one may, so it is a name."""

    AUTO, DYNAMIC, STATIC = "AUTO", "DYNAMIC", "STATIC"

    def __init__(self, name, *, min=None, max=None):
        self.__name__, self.min, self.max = name, min, max

    def __repr__(self):
        return f"Dim('{self.__name__}', min={self.min}, max={self.max})"


def dims(*names, min=None, max=None):
    """A tuple of Dim."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class ExportedProgram:
    """What export() gives: `module()` to call, `graph` and `graph_module` to look at, `state_dict`,
    `parameters()` and their like of the module, which shares them; `example_inputs`."""

    def __init__(self, graph_module, example_inputs):
        self.graph_module = graph_module
        self.example_inputs = example_inputs
        for name in ("parameters", "named_parameters", "buffers", "named_buffers"):
            setattr(self, name, getattr(graph_module, name))

    graph = property(lambda self: self.graph_module.graph)
    state_dict = property(lambda self: self.graph_module.state_dict())

    def module(self, check_guards=True):
        """The module, to be called."""
        return self.graph_module

    def run_decompositions(self, decomp_table=None, decompose_custom_triton_ops=False):
        """The program itself: its calls are run as they are."""
        return self

    def __call__(self, *args, **kwargs):
        raise RuntimeError("torch.export.ExportedProgram: call program.module()(...)")

    def __str__(self):
        return "ExportedProgram:\n" + str(self.graph_module.code).strip("\n")


def export(
    mod, args, kwargs=None, *, dynamic_shapes=None, strict=False, preserve_module_call_signature=(),
    prefer_deferred_runtime_asserts_over_guards=False,
):  # fmt: skip
    """An ExportedProgram of a module. `args` and `kwargs` are kept as examples; they and `dynamic_shapes`
    restrict nothing.

    Raises:
        fx.TraceError: the module's flow depends on values of tensors.
        ValueError: `mod` is no module.
        TypeError: `args` is no tuple.
    """
    if not isinstance(mod, _Module):
        raise ValueError(f"torch.export.export: got a {type(mod).__name__}; expected an nn.Module")
    if not isinstance(args, tuple):
        raise TypeError(
            f"torch.export.export: got args of type {type(args).__name__}; expected a tuple of inputs"
        )
    return ExportedProgram(fx.symbolic_trace(mod), (args, dict(kwargs or {})))


export_for_training = draft_export = export


def _no_files(*args, **kwargs):
    """NotSupportedError: programs are not written to files."""
    raise _C.NotSupportedError(
        "torch.export: programs are not written to files; save the module's state_dict(), and export it "
        "again where it is loaded"
    )


save = load = _no_files
