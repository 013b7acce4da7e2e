"""torch._dynamo.config: settings of PyTorch's compiler, kept and without effect."""

import sys as _sys

from .._settings import Settings as _Settings

_sys.modules[__name__].__class__ = _Settings
