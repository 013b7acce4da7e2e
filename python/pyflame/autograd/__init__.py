"""Gradients: backward, grad, custom functions, checks against finite differences."""

from collections.abc import Mapping

from .. import _C
from . import function, graph
from .function import Function
from .grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .gradcheck import GradcheckError, gradcheck, gradgradcheck
from .variable import Variable

Tensor = _C.Tensor

__all__ = [
    "Function",
    "GradcheckError",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "function",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


def __getattr__(name):
    if name in ("forward_ad", "functional"):
        return _C._import(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def _sequence(x):
    return (x,) if isinstance(x, (Tensor, graph.GradientEdge)) else tuple(x)


def _given_inputs(name, inputs):
    """The tensors that gradients are asked of, as a sequence; there must be some."""
    if type(inputs) is dict:
        inputs = tuple(inputs.values())
    elif isinstance(inputs, Mapping):
        raise TypeError(
            f"pf.autograd.{name}: got inputs as {type(inputs).__name__}; expected a dict"
        )
    inputs = _sequence(inputs)
    if len(inputs) == 0:
        raise _C.AutogradError(
            f"pf.autograd.{name}: `inputs` cannot be empty: got no tensors to make gradients of; expected "
            "some"
        )
    return inputs


def backward(
    tensors,
    grad_tensors=None,
    retain_graph=None,
    create_graph=False,
    grad_variables=None,
    inputs=None,
):
    """Adds the gradients of `tensors` to the .grad of the leaves (or of `inputs` only: tensors, or a dict
    of them).

    `tensors` may also be GradientEdges (pf.autograd.graph.get_gradient_edge); `grad_variables` is the old
    name of grad_tensors.
    """
    if grad_tensors is None:
        grad_tensors = grad_variables
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is not None:
        inputs = _given_inputs("backward", inputs)
    _C._backward(tensors, grad_tensors, bool(keep), bool(create_graph), inputs)


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """Gradients of `outputs` with respect to `inputs`, as a tuple, or a dict for a dict of inputs; .grad
    stays as it is.

    Both may also be GradientEdges. With `is_grads_batched` grad_outputs have a first dimension of
    their own, and so have the gradients: one backward pass for all of them.
    """
    keep = create_graph if retain_graph is None else retain_graph
    if materialize_grads and allow_unused is False:
        raise _C.ValueError(
            "pf.autograd.grad: got materialize_grads=True with allow_unused=False; expected "
            "allow_unused=True or None, since zeros are for inputs that are not used"
        )
    unused = materialize_grads if allow_unused is None else allow_unused
    if type(inputs) is dict:
        found = grad(
            outputs, list(inputs.values()), grad_outputs, retain_graph, create_graph, only_inputs,
            allow_unused, is_grads_batched, materialize_grads,
        )  # fmt: skip
        return dict(zip(inputs, found))
    inputs = _given_inputs("grad", inputs)
    if is_grads_batched:
        from ..func.vmap import Level

        given = _sequence(() if grad_outputs is None else grad_outputs)
        sizes = {g.shape[0] for g in given if isinstance(g, Tensor) and g.dim()}
        if len(sizes) != 1:
            raise _C.ValueError(
                f"pf.autograd.grad: got grad_outputs with first dimensions {sorted(sizes)}; expected "
                "one size with is_grads_batched=True"
            )
        with Level(sizes.pop()) as level:
            hidden = [None if g is None else level.hide(g, 0) for g in given]
            found = grad(
                outputs, inputs, hidden, keep, create_graph, only_inputs, unused, False,
                materialize_grads,
            )  # fmt: skip
            return tuple(None if g is None else level.show(g) for g in found)
    result = _C._grad(outputs, inputs, grad_outputs, bool(keep), bool(create_graph), bool(unused))
    if any(getattr(x, "is_nested", False) for x in inputs):
        result = tuple(
            x._with(g) if g is not None and getattr(x, "is_nested", False) else g
            for x, g in zip(inputs, result)
        )
    if materialize_grads:
        zeros = _C._functions["zeros_like"]
        return tuple(zeros(x) if g is None else g for x, g in zip(inputs, result))
    return result


class detect_anomaly:
    """Within it a NaN in a gradient raises and names the operation that made it."""

    def __init__(self, check_nan=True):
        self.mode = bool(check_nan)

    def __enter__(self):
        self._before = _C.is_anomaly_enabled()
        _C._set_detect_anomaly(self.mode)
        return self

    def __exit__(self, *unused):
        _C._set_detect_anomaly(self._before)


class set_detect_anomaly(detect_anomaly):
    """Switches anomaly mode at once; as a context manager it also puts it back."""

    def __init__(self, mode, check_nan=True):
        self._before = _C.is_anomaly_enabled()
        _C._set_detect_anomaly(bool(mode))

    def __enter__(self):
        return self
