"""Custom functions: forward and backward written in Python."""

import collections
import contextlib
import functools
import inspect
import threading

from .. import _C
from .._grad_mode import enable_grad, no_grad

Tensor = _C.Tensor

__all__ = [
    "Function",
    "FunctionCtx",
    "InplaceFunction",
    "once_differentiable",
]

_mode = threading.local()


@contextlib.contextmanager
def forward_mode():
    """Within it a Function that has a jvp is differentiated by that."""
    before = getattr(_mode, "forward", False)
    _mode.forward = True
    try:
        yield
    finally:
        _mode.forward = before


class FunctionCtx:
    """What forward leaves for backward: saved tensors and any attributes."""

    _to_save = ()
    _for_forward = ()
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
            if isinstance(
                self._saved, Exception
            ):  # one was changed: who does not read them may go on
                raise self._saved
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
    setup_context(ctx, inputs, output). `jvp(ctx, *tangents)`, where it is defined, gives the tangents
    of the results for forward-mode derivatives; without backward, gradients are made of it, too.
    `vmap(info, in_dims, *args)` gives (results, out_dims) over a batch; without it, forward and
    backward run over hidden dimensions as everything does.
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

    @staticmethod
    def jvp(ctx, *grad_inputs):
        raise NotImplementedError("pf.autograd.Function: write jvp() as a static method")

    @staticmethod
    def vmap(info, in_dims, *args):
        raise NotImplementedError("pf.autograd.Function: write vmap() as a static method")

    generate_vmap_rule = False
    boxed_grads_call = False  # backward(ctx, grads) gets a list of them, which it may empty early

    @classmethod
    def apply(cls, *args, **kwargs):
        """Runs forward and records backward, which gives a gradient for each argument in their order;
        setup_context gets defaults, too."""
        if cls.setup_context is not Function.setup_context and (
            kwargs or len(args) < _most_places(cls.forward)
        ):
            bound = inspect.signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        elif kwargs:
            bound = inspect.signature(cls.forward).bind(None, *args, **kwargs)
            args, kwargs = bound.args[1:], bound.kwargs
        if cls.vmap is not Function.vmap:
            level = _newest_level(args)
            if level:
                return _over_samples(cls, level, args)
        ctx = FunctionCtx()
        needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        ctx.needs_input_grad = needs
        record = _C.is_grad_enabled() and any(needs)
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                output = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args, **kwargs)
        several = isinstance(output, (tuple, list))
        outputs = list(output) if several else [output]
        if not all(_is_in(t, outputs) for t in ctx._dirty):
            raise _C.AutogradError(
                f"pf.autograd.Function: {cls.__name__}.forward() named a tensor in mark_dirty() that it "
                "does not return; expected each changed input among the results; return it"
            )
        if record:
            _record(cls, ctx, args, outputs)
        else:
            for i, out in enumerate(outputs):  # no result is an argument, as where it is recorded
                if isinstance(out, Tensor) and _is_in(out, args) and not _is_in(out, ctx._dirty):
                    outputs[i] = out.detach()
        ctx._to_save = None
        if not several:
            return outputs[0]
        return tuple(outputs) if isinstance(output, tuple) else outputs


VmapInfo = collections.namedtuple("VmapInfo", "batch_size randomness")


def _newest_level(args):
    """(id, size) of the innermost vmap over which an argument differs."""
    levels = [l for a in args if isinstance(a, Tensor) for l in _C._hidden_levels(a)]
    return max(levels, default=None)


def _over_samples(cls, level, args):
    """What vmap() of a function gives for arguments that differ over a level."""
    ident, size = level
    hidden = [isinstance(a, Tensor) and level in _C._hidden_levels(a) for a in args]
    shown = [_C._show(a, 0, ident, size) if h else a for a, h in zip(args, hidden)]
    info = VmapInfo(size, _C._vmap_randomness(ident))
    in_dims = tuple(0 if h else None for h in hidden)
    result = cls.vmap(info, in_dims, *shown)
    if not isinstance(result, tuple) or len(result) != 2:
        raise _C.ValueError(
            f"pf.autograd.Function: got no pair from {cls.__name__}.vmap(); expected (results, "
            "out_dims)"
        )
    outputs, dims = result
    if isinstance(outputs, Tensor):
        return outputs if dims is None else _C._hide(outputs, dims, ident)
    dims = (dims,) * len(outputs) if dims is None or isinstance(dims, int) else dims
    return tuple(
        _C._hide(o, d, ident) if isinstance(o, Tensor) and d is not None else o
        for o, d in zip(outputs, dims)
    )


def _transposed(cls, ctx, args):
    """A backward made of jvp, which is linear in the tangents: the gradient of that."""

    def backward(ctx, *grads):
        from . import grad

        with enable_grad():
            tangents = [
                _C._func_enter(_C._functions["zeros_like"](a)) if need else None
                for a, need in zip(args, ctx.needs_input_grad)
            ]
            outs = cls.jvp(ctx, *tangents)
        outs = (outs,) if isinstance(outs, Tensor) else tuple(outs)
        pairs = [
            (o, g)
            for o, g in zip(outs, grads)
            if isinstance(o, Tensor) and o.requires_grad and g is not None
        ]
        wanted = [t for t in tangents if t is not None]
        found = [None] * len(wanted)
        if pairs:
            found = grad(
                [o for o, _ in pairs],
                wanted,
                [g for _, g in pairs],
                create_graph=_C.is_grad_enabled(),
                allow_unused=True,
            )
        found = iter(found)
        return tuple(None if t is None else next(found) for t in tangents)

    args = tuple(a.detach() if isinstance(a, Tensor) else a for a in args)
    return backward


def _boxed(backward, ctx, *grads):
    return backward(ctx, list(grads))


@functools.cache
def _most_places(forward):
    """How many arguments a forward() takes by position."""
    kinds = [p.kind for p in inspect.signature(forward).parameters.values()]
    return sum(
        k in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for k in kinds
    )


def _record(cls, ctx, args, outputs):
    tensors = [a for a in args if isinstance(a, Tensor)]
    has_backward = cls.backward is not Function.backward or cls.vjp is not None
    forward = cls.jvp is not Function.jvp and (getattr(_mode, "forward", False) or not has_backward)
    saved = list(ctx._for_forward if forward and ctx._for_forward else ctx._to_save)
    attached = []
    for i, out in enumerate(outputs):
        plain = not isinstance(out, Tensor) or not (out.is_floating_point() or out.is_complex())
        plain = plain or _is_in(out, ctx._no_grad)
        if _is_in(out, tensors) and not _is_in(out, ctx._dirty):
            # An input that is returned as it came: the result is another view of it.
            fresh = out.detach()
            if not plain:
                saved = [fresh if s is out else s for s in saved]
            outputs[i] = out = fresh
        attached.append(None if plain else out)
    dirty = tuple(out is not None and _is_in(out, ctx._dirty) for out in attached)
    backward_fn = cls.backward if cls.backward is not Function.backward else cls.vjp
    if cls.boxed_grads_call and backward_fn:
        backward_fn = functools.partial(_boxed, backward_fn)
    if forward:
        backward_fn = _transposed(cls, ctx, args)
    _C._attach_function(
        cls.__name__ + "Backward",
        backward_fn or cls.backward,
        ctx,
        args,
        tuple(attached),
        tuple(outputs),
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
