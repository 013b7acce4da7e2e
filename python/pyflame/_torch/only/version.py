"""torch.version: the version, and that no vendor's toolkit was built against."""

from ..version import TEXT, TorchVersion

__version__ = TorchVersion(TEXT)
cuda = None
hip = None
xpu = None
git_version = "Unknown"
debug = False
