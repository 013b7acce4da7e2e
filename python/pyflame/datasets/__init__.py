"""Datasets from files: for pyflame.utils.data.DataLoader, which takes whole batches from them.

What a file holds is checked before it is used; what is wrong with it is a FileError that names it.
Mapped files are not read before they are needed, and must not be made shorter meanwhile.
"""

from .arrays import NumPyArrays
from .digits import Digits
from .images import ImageFolder, load_image
from .table import CSV
from .tokens import Tokens

__all__ = ["CSV", "Digits", "ImageFolder", "NumPyArrays", "Tokens", "load_image"]
