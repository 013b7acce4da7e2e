"""Forward-mode derivatives of what runs: tensors with tangents.

`make_dual` gives a variable, `unpack_dual` the derivative of a result along the tangents of the
variables that it comes from (pyflame/func/transforms.py says how).
"""

import collections
import threading

from .. import _C
from .function import forward_mode

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

Tensor = _C.Tensor
_state = threading.local()


class _Level:
    def __init__(self):
        self.duals = []  # (variable, tangent, what it was made of)
        self.grad_mode = _C.is_grad_enabled()
        _C._set_grad_enabled(True)
        self.mode = forward_mode()
        self.mode.__enter__()

    def end(self):
        self.mode.__exit__(None, None, None)
        _C._set_grad_enabled(self.grad_mode)
        _C._func_leave([x for x, *_ in self.duals])


def _level(name):
    found = getattr(_state, "level", None)
    if found is None:
        raise _C.AutogradError(
            f"pf.autograd.forward_ad.{name}: there is no level for dual tensors; call it within "
            "`with dual_level():`"
        )
    return found


def enter_dual_level():
    """Begins a level; `with dual_level():` also ends it. There is one at a time."""
    if getattr(_state, "level", None) is not None:
        raise _C.AutogradError(
            "pf.autograd.forward_ad.enter_dual_level: a level has begun already; there is one at a "
            "time; nest pyflame.func.jvp instead"
        )
    _state.level = _Level()
    return 0


def exit_dual_level(*, level=None):
    """Ends the level: tangents of its tensors are gone."""
    _level("exit_dual_level").end()
    _state.level = None


class dual_level:
    """Within it tensors may have tangents: make_dual and unpack_dual. Gradients are on in it."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *unused):
        exit_dual_level()


def make_dual(tensor, tangent, *, level=None):
    """The tensor with a tangent: results computed from it have one, too."""
    found = _level("make_dual")
    for name, t in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(t, Tensor) or not (t.is_floating_point() or t.is_complex()):
            kind = t.dtype if isinstance(t, Tensor) else type(t).__name__
            raise _C.ValueError(
                f"pf.autograd.forward_ad.make_dual: got {kind} as {name}; expected a floating point "
                "or complex Tensor"
            )
    if tangent.shape != tensor.shape or tangent.dtype != tensor.dtype:
        raise _C.ShapeError(
            f"pf.autograd.forward_ad.make_dual: got a tangent {list(tangent.shape)} of "
            f"{tangent.dtype} for a tensor {list(tensor.shape)} of {tensor.dtype}; expected the same"
        )
    dual = _C._func_enter(tensor)
    found.duals.append((dual, tangent, tensor))
    return dual


UnpackedDualTensor = collections.namedtuple("UnpackedDualTensor", "primal tangent")
UnpackedDualTensor.__doc__ = "What unpack_dual gives: the tensor, and its tangent or None."


def unpack_dual(tensor, *, level=None):
    """(primal, tangent) of a tensor; the tangent is None where it depends on no dual tensor, and outside
    of levels."""
    from ..func.transforms import _Forward

    found = getattr(_state, "level", None)
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"pf.autograd.forward_ad.unpack_dual: got a {type(tensor).__name__}; expected a Tensor"
        )
    if found is None or not tensor.requires_grad or not found.duals:
        return UnpackedDualTensor(tensor, None)
    variables, tangents, _ = map(list, zip(*found.duals))
    given = next((of for x, _, of in found.duals if x is tensor), None)
    _C._func_leave(variables)  # what depends on these alone has no gradient outside
    try:
        (tangent,) = _Forward([tensor], variables).push(tangents)
        if given is not None:  # whose primal has no tangent
            primal = given.view_as(given)
        else:
            primal = tensor.view_as(tensor) if _C._func_depends([tensor]) else tensor.detach()
    finally:
        _C._func_resume(variables)
    return UnpackedDualTensor(primal, tangent)
