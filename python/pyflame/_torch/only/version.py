"""torch.version: the version, and the vendors' runtimes that are here."""

from ...version import _runtime
from ..version import TEXT, TorchVersion

__version__ = TorchVersion(TEXT)
xpu = None
git_version = "Unknown"
debug = False


def __getattr__(name):
    if name in ("cuda", "hip"):
        return _runtime({"hip": "rocm"}.get(name, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
