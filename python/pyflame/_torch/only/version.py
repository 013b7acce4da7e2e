"""torch.version: the version, and the vendors' runtimes that are here."""

from ...version import __getattr__  # noqa: F401 (cuda and hip)
from ..version import TEXT, TorchVersion

__version__ = TorchVersion(TEXT)
xpu = None
git_version = "Unknown"
debug = False
