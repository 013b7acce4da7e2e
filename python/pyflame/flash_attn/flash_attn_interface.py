"""The package's module of functions, by its name."""

from .interface import *  # noqa: F403
from .interface import __all__ as _interface
from .kvcache import flash_attn_with_kvcache

__all__ = [*_interface, "flash_attn_with_kvcache"]
