"""Optimizers and learning-rate schedules. Names and formulas as in torch.optim."""

from . import lr_scheduler
from .adafactor import Adafactor
from .adam_sgd import SGD, Adam, AdamW
from .lamb import LAMB
from .lbfgs import LBFGS
from .muon import Muon
from .optimizer import Optimizer
from .rules import ASGD, Adadelta, Adagrad, Adamax, Lion, NAdam, RAdam, RMSprop, Rprop
from .sparse_adam import SparseAdam

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LAMB", "LBFGS", "Lion",
    "Muon", "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler",
    "swa_utils",
]  # fmt: skip

for (
    _name
) in __all__:  # pickles and messages name where programs find a class, not which file it is in
    if isinstance(globals().get(_name), type):
        globals()[_name].__module__ = __name__


def __getattr__(name):  # it needs modules, which an optimizer does not
    if name == "swa_utils":
        from .. import _C

        return _C._import(f"{__name__}.swa_utils")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), "swa_utils"})
