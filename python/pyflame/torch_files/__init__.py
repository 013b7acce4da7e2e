"""Files of torch.save, read without unpickling and written without pickling.

`pyflame.load` reads them by their first bytes; :func:`save` writes them.
"""

from .reading import PickledClassError

__all__ = ["PickledClassError", "save"]


def save(obj, f):
    """Writes what PyTorch's ``torch.load`` reads; see `pyflame.torch_files.writing`."""
    from .writing import save

    save(obj, f)
