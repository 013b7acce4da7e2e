"""Custom functions: forward and backward written in Python."""

import functools

from .. import _C
from .._grad_mode import no_grad

Tensor = _C.Tensor

__all__ = [
    "Function",
    "FunctionCtx",
    "InplaceFunction",
    "once_differentiable",
]


class FunctionCtx:
    """What forward leaves for backward: saved tensors and any attributes."""

    _to_save = ()
    _saved = None  # set around backward by the engine
    _dirty = ()
    _no_grad = ()
    materialize_grads = True
    needs_input_grad = ()

    def save_for_backward(self, *tensors):
        """Keeps tensors (inputs or outputs; None is allowed) for backward."""
        self._to_save = _tensors_or_none(tensors, "save_for_backward")

    def save_for_forward(self, *tensors):
        """Keeps tensors for jvp, which finds them in ctx.saved_tensors."""
        self._for_forward = _tensors_or_none(tensors, "save_for_forward")

    @property
    def saved_tensors(self):
        """What save_for_backward kept. An error when one was changed in place since."""
        if self._saved is not None:
            return self._saved
        if self._to_save is None:
            raise _C.AutogradError(
                "pf.saved_tensors: the tensors can be read within backward only; read them there"
            )
        return tuple(self._to_save)

    def mark_dirty(self, *tensors):
        """Names the inputs that forward changed in place."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        """Names the outputs that have no gradient."""
        self._no_grad = tensors

    def set_materialize_grads(self, value):
        """False: gradients that are zero arrive as None in backward."""
        self.materialize_grads = bool(value)


def _tensors_or_none(tensors, name):
    for t in tensors:
        if t is not None and not isinstance(t, Tensor):
            raise TypeError(
                f"pf.{name}: got a {type(t).__name__}; expected Tensors or None; set other "
                "values as attributes of ctx"
            )
    return tensors


def _is_in(t, tensors):
    return any(t is other for other in tensors)


class Function:
    """A custom operation: static methods forward(ctx, ...) and backward(ctx, *grads).

    Call it with `apply`. Instead of taking ctx, forward may leave it to
    setup_context(ctx, inputs, output).
    """

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("pf.autograd.Function: write forward() as a static method")

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError

    @staticmethod
    def backward(ctx, *grad_outputs):
        raise NotImplementedError("pf.autograd.Function: write backward() as a static method")

    vjp = None

    @classmethod
    def apply(cls, *args):
        """Runs forward and records backward."""
        ctx = FunctionCtx()
        needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        ctx.needs_input_grad = needs
        record = _C.is_grad_enabled() and any(needs)
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args)
        several = isinstance(output, (tuple, list))
        outputs = list(output) if several else [output]
        if record:
            _record(cls, ctx, args, outputs)
        ctx._to_save = None
        if not several:
            return outputs[0]
        return tuple(outputs)


def _record(cls, ctx, args, outputs):
    tensors = [a for a in args if isinstance(a, Tensor)]
    saved = list(ctx._to_save)
    attached = []
    for i, out in enumerate(outputs):
        plain = not isinstance(out, Tensor) or not out.is_floating_point()
        if plain or _is_in(out, ctx._no_grad):
            attached.append(None)
            continue
        if _is_in(out, tensors) and not _is_in(out, ctx._dirty):
            # An input that is returned as it came: the result is another view of it.
            fresh = out.detach()
            saved = [fresh if s is out else s for s in saved]
            outputs[i] = out = fresh
        attached.append(out)
    dirty = tuple(out is not None and _is_in(out, ctx._dirty) for out in attached)
    backward_fn = cls.backward if cls.backward is not Function.backward else cls.vjp
    _C._attach_function(
        cls.__name__ + "Backward",
        backward_fn or cls.backward,
        ctx,
        args,
        tuple(attached),
        tuple(saved),
        dirty,
        ctx.materialize_grads,
    )


class InplaceFunction(Function):
    """A Function whose instances know whether they work in place; nothing else."""

    def __init__(self, inplace=False):
        self.inplace = inplace


class _NoSecond(Function):
    """Gives its first arguments back; gradients of them are an error."""

    @staticmethod
    def forward(ctx, name, count, *tensors):
        ctx.name = name
        return tuple(None if t is None else t.detach() for t in tensors[:count])

    @staticmethod
    def backward(ctx, *grads):
        raise _C.AutogradError(
            f"pf.backward: {ctx.name} is marked once_differentiable and has no second derivative; "
            "write its backward in differentiable operations and leave the mark away"
        )


def once_differentiable(fn):
    """Marks a backward that is not itself differentiable: a second derivative is an error."""

    @functools.wraps(fn)
    def wrapper(ctx, *grads):
        with no_grad():
            result = fn(ctx, *grads)
        needs = [g for g in grads if isinstance(g, Tensor) and g.requires_grad]
        if not (_C.is_grad_enabled() and needs):
            return result
        several = isinstance(result, (tuple, list))
        results = tuple(result) if several else (result,)
        out = _NoSecond.apply(fn.__qualname__, len(results), *results, *needs)
        return out if several else out[0]

    return wrapper
