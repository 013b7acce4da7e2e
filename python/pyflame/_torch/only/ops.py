"""torch.ops: operators of extensions, which need PyTorch; of its own only the profiler's regions."""

from ... import profiler as _profiler


class profiler:
    """Regions of torch.profiler, begun and ended by hand."""

    @staticmethod
    def _record_function_enter(name, args=None):
        return _profiler.record_function(name, args).__enter__()

    _record_function_enter_new = _record_function_enter

    @staticmethod
    def _record_function_exit(handle):
        handle.__exit__()


def load_library(path):
    """NotSupportedError: such libraries are built against PyTorch."""
    from ... import _C

    raise _C.NotSupportedError(
        f"torch.ops.load_library: '{path}' is built against PyTorch; write a kernel with "
        "pyflame.kernel, or an operation with pyflame.ops.define"
    )
