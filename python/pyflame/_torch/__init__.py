"""`import torch` means PyFlame, in processes that ask for it: see `pyflame.run`.

`finder` maps modules, `missing` says what is not there, and `only` has what exists under PyTorch's
name alone, because a program that says `import pyflame` has no use for it.
"""


def install():
    """From here on `import torch` gives PyFlame's modules, here and in processes made by
    multiprocessing. Nothing happens when that is so already.

    Raises:
        RuntimeError: PyTorch itself has been imported.
    """
    from . import finder

    finder.install()


def installed():
    """Whether `import torch` means PyFlame here."""
    import sys

    finder = sys.modules.get(f"{__name__}.finder")
    return finder is not None and finder.FINDER in sys.meta_path
