"""torch.utils.model_zoo: weights that have been downloaded; see torch.hub."""

from ....hub import load_state_dict_from_url
from ....hub import load_state_dict_from_url as load_url  # noqa: F401

try:
    from tqdm import tqdm
except ImportError:

    class tqdm:
        """A bar that shows nothing, where the package tqdm is missing."""

        def __init__(self, iterable=None, **kwargs):
            self.iterable = iterable

        def __iter__(self):
            return iter(self.iterable)

        def __enter__(self):
            return self

        def __exit__(self, *unused):
            pass

        def update(self, n=1):
            """Does nothing."""


__all__ = ["load_state_dict_from_url", "load_url", "tqdm"]
