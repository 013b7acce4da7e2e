"""Names that exist under `torch` only; see the folder's modules for the rest."""

from ..version import TEXT, TorchVersion

__version__ = TorchVersion(TEXT)
