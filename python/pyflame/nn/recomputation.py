"""Module.enable_gradient_checkpointing(): which parts of a model run again in the backward pass."""

import math

from .._named_errors import name_errors as _name_errors
from .containers import ModuleList, Sequential


def _composite(module):
    return any(True for _ in module.children())


def _containers(module):
    return [m for m in module.modules() if isinstance(m, (ModuleList, Sequential)) and len(m)]


def _widest(module):
    """Containers of which none within has more entries: they hold what is repeated."""
    found = _containers(module)
    if not found:
        return []
    most = max(map(len, found))
    if module is found[0] and len(module) == most:
        return [module]
    return [c for child in module.children() for c in _widest(child)]


def blocks(module):
    """[(module, how)]: how is True (runs again as a whole) or the children of each segment."""
    chosen = []
    for container in _widest(module):
        children = list(container)
        if isinstance(container, ModuleList) or all(map(_composite, children)):
            chosen += [(child, True) for child in children]
        else:
            chosen.append((container, math.isqrt(len(children) - 1) + 1))
    if not chosen:
        chosen = [(child, True) for child in module.children() if _composite(child)]
    return chosen or [(module, True)]


def _nothing(module, args):
    """A hook that brings calls to where _recomputed is looked at: others need not ask for it."""


def enable(module, enabled):
    for m in module.modules():
        m.__dict__.pop("_recomputed", None)
        m._forward_pre_hooks.pop(_nothing.__name__, None)
    if enabled:
        for m, how in blocks(module):
            m.__dict__["_recomputed"] = how
            m._forward_pre_hooks[_nothing.__name__] = _nothing


def forward(module, args, kwargs):
    """module.forward(*args, **kwargs), of which the arguments alone are kept for the gradient."""
    from ..utils.checkpoint import checkpoint

    if module._recomputed is True:
        return checkpoint(module.forward, *args, use_reentrant=False, **kwargs)
    (x,) = (*args, *kwargs.values())
    children = list(module)
    for i in range(0, len(children), module._recomputed):

        def run(x, part=children[i : i + module._recomputed]):
            for child in part:
                x = child(x)
            return x

        x = checkpoint(run, x, use_reentrant=False)
    return x


_name_errors(__name__)
