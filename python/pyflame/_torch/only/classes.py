"""torch.classes: classes that packages have compiled, which raise when they are called."""

from .. import extensions as _extensions
from ..absent import absent as _absent


def load_library(path):
    """Takes note of a library, as torch.ops.load_library does."""
    _extensions.load(path, "torch.classes.load_library")


class _Namespace:
    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        why = None if name.startswith("__") else _extensions.reason(self._name, name)
        if why is None:
            raise AttributeError(
                f"torch.classes.{self._name}.{name} is not in PyFlame; classes of TorchScript need "
                "PyTorch; write the class in Python"
            )
        made = self.__dict__[name] = _absent(f"torch.classes.{self._name}", why)(name)
        return made


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    made = globals()[name] = _Namespace(name)
    return made
