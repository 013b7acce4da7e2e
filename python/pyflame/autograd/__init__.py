"""Gradients: backward, grad, custom functions, checks against finite differences."""

import itertools

from .. import _C
from .._grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

Tensor = _C.Tensor

__all__ = [
    "Function",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]


def _sequence(x):
    return (x,) if isinstance(x, Tensor) else tuple(x)


def backward(
    tensors,
    grad_tensors=None,
    retain_graph=None,
    create_graph=False,
    grad_variables=None,
    inputs=None,
):
    """Adds the gradients of `tensors` to the .grad of the leaves (or of `inputs` only).

    `grad_variables` is the old name of grad_tensors.
    """
    if grad_tensors is None:
        grad_tensors = grad_variables
    keep = create_graph if retain_graph is None else retain_graph
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
    """Gradients of `outputs` with respect to `inputs`, as a tuple; .grad stays as it is."""
    keep = create_graph if retain_graph is None else retain_graph
    unused = materialize_grads if allow_unused is None else allow_unused
    inputs = _sequence(inputs)
    result = _C._grad(outputs, inputs, grad_outputs, bool(keep), bool(create_graph), bool(unused))
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


# ---- custom functions ---------------------------------------------------------------------------


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
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"pf.save_for_backward: got a {type(t).__name__}; expected Tensors or None; "
                    "set other values as attributes of ctx"
                )
        self._to_save = tensors

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
    in_place = len(outputs) == 1 and attached[0] is not None and _is_in(attached[0], ctx._dirty)
    backward_fn = cls.backward if cls.backward is not Function.backward else cls.vjp
    _C._attach_function(
        cls.__name__ + "Backward",
        backward_fn or cls.backward,
        ctx,
        args,
        tuple(attached),
        tuple(saved),
        in_place,
        ctx.materialize_grads,
    )


class function:
    """torch.autograd.function: names that programs import from there."""

    Function = Function
    FunctionCtx = FunctionCtx

    @staticmethod
    def once_differentiable(fn):
        """Marks a backward that is not itself differentiable."""

        def wrapper(ctx, *grads):
            with no_grad():
                return fn(ctx, *grads)

        return wrapper


# ---- checks ---------------------------------------------------------------------------------------


class GradcheckError(_C.PyFlameError):
    """A gradient differs from finite differences."""


def _outputs(fn, inputs):
    out = fn(*inputs)
    out = (out,) if isinstance(out, Tensor) else tuple(out)
    return [o for o in out if isinstance(o, Tensor) and o.is_floating_point()]


def _numeric(fn, inputs, x, eps):
    """d outputs / d x, one list of rows per output: row i belongs to element i of x."""
    rows = []
    with no_grad():
        flat = x.detach().reshape(-1)
        shared = flat.untyped_storage() == x.untyped_storage()
        base = x.detach()
        for i, index in enumerate(itertools.product(*map(range, x.shape))):
            before = flat[i].item()
            base[index] = before + eps
            up = [o.clone() for o in _outputs(fn, inputs)]
            base[index] = before - eps
            down = [o.clone() for o in _outputs(fn, inputs)]
            base[index] = before
            rows.append([((u - d) / (2 * eps)).reshape(-1).tolist() for u, d in zip(up, down)])
        del shared
    return rows


def gradcheck(
    func,
    inputs,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_batched_grad=False,
    fast_mode=False,
    **unused,
):
    """Compares gradients of func(*inputs) with finite differences; use float64 inputs.

    Returns True; raises GradcheckError (or returns False) when they differ.
    """
    inputs = _sequence(inputs)
    checked = [(i, x) for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not checked:
        raise _C.ValueError(
            "pf.gradcheck: got no input that requires grad; call requires_grad_() on one"
        )

    def fail(text):
        if raise_exception:
            raise GradcheckError("pf.gradcheck: " + text)
        return False

    outputs = _outputs(func, inputs)
    analytic = []  # [output][checked input] -> list over output elements of flat gradients
    for o in outputs:
        per_input = [[] for _ in checked]
        for k in range(o.numel()):
            seed = [0.0] * o.numel()
            seed[k] = 1.0
            g = _C.tensor(seed, dtype=o.dtype, device=o.device).reshape(o.shape)
            if o.requires_grad:
                found = grad(o, [x for _, x in checked], g, retain_graph=True, allow_unused=True)
            else:
                found = [None] * len(checked)
            for slot, (_, x), f in zip(per_input, checked, found):
                slot.append([0.0] * x.numel() if f is None else f.reshape(-1).tolist())
        analytic.append(per_input)
    for position, (i, x) in enumerate(checked):
        numeric = _numeric(func, inputs, x, eps)
        for n, o in enumerate(outputs):
            for k in range(o.numel()):
                for j in range(x.numel()):
                    a, b = analytic[n][position][k][j], numeric[j][n][k]
                    if not abs(a - b) <= atol + rtol * abs(b):
                        return fail(
                            f"got {a:.6g} as derivative of output {n} element {k} with respect "
                            f"to input {i} element {j}; expected {b:.6g} (finite differences, "
                            f"eps={eps}); check the backward, or whether the function is smooth "
                            "and float64 there"
                        )
    return True


def gradgradcheck(
    func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, **rest
):
    """gradcheck of the gradients of func: second derivatives."""
    inputs = _sequence(inputs)
    outputs = _outputs(func, inputs)
    if grad_outputs is None:
        grad_outputs = []
        for o in outputs:  # fixed, uneven weights
            w = [1.0 + 0.5 * ((3 * k) % 7) / 7 for k in range(o.numel())]
            grad_outputs.append(
                _C.tensor(w, dtype=o.dtype, device=o.device).reshape(o.shape).requires_grad_()
            )
    grad_outputs = _sequence(grad_outputs)
    count = len(inputs)

    def gradients(*args):
        xs, gs = args[:count], args[count:]
        wanted = [x for x in xs if isinstance(x, Tensor) and x.requires_grad]
        with enable_grad():
            outs = _outputs(func, xs)
        pairs = [(o, g) for o, g in zip(outs, gs) if o.requires_grad]
        return grad(
            [o for o, _ in pairs],
            wanted,
            [g for _, g in pairs],
            create_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )

    def differentiable(*args):
        with enable_grad():
            return gradients(*args)

    return gradcheck(
        differentiable,
        (*inputs, *grad_outputs),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
    )
