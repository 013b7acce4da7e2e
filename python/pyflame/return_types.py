"""The classes of named tuples that operations with several results give, by the operation's name:
``pyflame.return_types.topk`` is the class of what ``topk()`` returns. Names as in torch.return_types."""

from . import _C

_classes = _C._return_types()
globals().update(_classes)
__all__ = sorted(name for name in _classes if not name.startswith("_"))
