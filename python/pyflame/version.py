"""The version; names as in torch.version."""

from ._C import __version__  # noqa: F401 (the interface)

cuda = None  # of the toolkit that PyFlame was built with: none is needed
hip = None
git_version = None
debug = False
