"""Handles of hooks; names as in torch.utils.hooks."""

import warnings

from ..nn.module import RemovableHandle

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f):
    """Marks a hook that is lost when its tensor is copied or saved."""
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor):
    """Warns of hooks that are lost when the tensor is copied or saved."""
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(f"the hook {hook!r} is lost when its tensor is saved", stacklevel=2)
