"""The package `torch` as importlib.metadata sees it where `import torch` means PyFlame."""

import importlib.metadata
import pathlib

from .version import TEXT


class Torch(importlib.metadata.Distribution):
    """A distribution without files, of the version that torch.__version__ names."""

    def read_text(self, filename):
        if filename == "METADATA":
            return f"Metadata-Version: 2.1\nName: torch\nVersion: {TEXT}\n"
        return None

    def locate_file(self, path):
        return pathlib.Path(__file__).parent / path
