"""The version; names as in torch.version."""

from . import _C
from ._C import __version__  # noqa: F401 (the interface)

git_version = None
debug = False


def _runtime(backend):
    """Version of a vendor's runtime as text ("6.4.43482", "13.0"), or None without a usable GPU of it:
    nothing was built with it, it is opened when it is there."""
    if not _C._device_count(backend):
        return None
    number = int(_C.device_info(_C.device(backend))["runtime_version"])
    if backend == "cuda":
        return f"{number // 1000}.{number % 1000 // 10}"
    return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"


def __getattr__(name):
    if name in ("cuda", "hip"):
        return _runtime({"hip": "rocm"}.get(name, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), "cuda", "hip"})
