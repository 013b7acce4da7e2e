"""Checkpointing of activations: what a function saves for its gradient is computed again when the
backward pass comes to it, in place of being kept.
"""

import contextlib
import enum
import sys
import threading
import warnings
import weakref

from .. import _C, _live
from .._grad_mode import enable_grad, no_grad, recomputation
from ..autograd import Function, backward
from ..autograd.graph import recompute_cheap, saved_tensors_hooks

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "DefaultDeviceType",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

Tensor = _C.Tensor


class CheckpointError(_C.AutogradError):
    """The function did something else when it ran again."""


class _Stop(BaseException):
    """All that is needed has been computed again; goes past `except Exception` of programs."""


_early_stop = threading.local()


class set_checkpoint_early_stop(contextlib.ContextDecorator):
    """Within it: whether functions that run again stop when all that is needed has been made."""

    def __init__(self, enable):
        self._enable = bool(enable)

    def __enter__(self):
        self._before = getattr(_early_stop, "value", None)
        _early_stop.value = self._enable

    def __exit__(self, *unused):
        _early_stop.value = self._before


class set_checkpoint_debug_enabled(contextlib.ContextDecorator):
    """Accepted and does nothing: errors of checkpoint() name the tensors that differ anyway."""

    def __init__(self, enabled):
        self.enabled = enabled

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        pass


class DefaultDeviceType:
    """Accepted and does nothing: one generator makes the random numbers of all devices."""

    @staticmethod
    def set_device_type(device="cuda"):
        pass

    @staticmethod
    def get_device_type():
        return "cuda"


def noop_context_fn():
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def get_device_states(*args):
    """([], []): the random state is one for all devices (pf.get_rng_state)."""
    return [], []


def set_device_states(devices, states, *, device_type=None):
    """Does nothing, as get_device_states() has nothing."""


def check_backward_validity(inputs):
    """Warns when no tensor among the inputs requires grad."""
    if not any(isinstance(t, Tensor) and t.requires_grad for t in inputs):
        warnings.warn(
            "pf.utils.checkpoint: none of the inputs requires grad, so with use_reentrant=True "
            "the results have no gradients; pass use_reentrant=False",
            stacklevel=3,
        )


def detach_variable(inputs):
    """The inputs, tensors among them as leaves of their own."""
    if not isinstance(inputs, tuple):
        raise TypeError(
            f"pf.utils.checkpoint.detach_variable: got a {type(inputs).__name__}; expected a tuple"
        )
    return tuple(
        t.detach().requires_grad_(t.requires_grad) if isinstance(t, Tensor) else t for t in inputs
    )


def _keeps_all():
    """A region of recompute_cheap that leaves nothing out: what is saved in the first run and in those of
    backward passes, which are rarely within the region around the first, is the same."""
    return recompute_cheap(at_least=sys.maxsize)


class _Surroundings:
    """What the function ran under: random numbers, autocast."""

    def __init__(self, preserve_rng_state):
        # Within it the first run; then it has the numbers that came, also between those of other threads.
        self.random = _C._RandomTrace() if preserve_rng_state else None
        self.cache = _C.is_autocast_cache_enabled()
        self.autocast = [
            (kind, _C._autocast_dtype(kind), _C._autocast_enabled(kind)) for kind in range(3)
        ]

    def first(self):
        return self.random or contextlib.nullcontext()

    @contextlib.contextmanager
    def around(self, random):
        """`random`: the trace of what was drawn; None: as it comes."""
        # Beside other threads, which draw meanwhile; a capture has the state itself to look at.
        aside = random is not None and not _C._capturing()
        if aside:
            before = _C._set_random_source(random.again())
        elif random is not None:
            before = _C._random_state()
            _C._set_random_state(*random.first)
        regions = [_C._autocast_enter(*state, self.cache) for state in self.autocast]
        try:
            yield
        finally:
            for region in reversed(regions):
                _C._autocast_exit(region)
            if aside:
                _C._set_random_source(before)
            elif random is not None:
                _C._set_random_state(*before)

    @contextlib.contextmanager
    def again(self):
        """The same, for what is calculated once more: statistics have seen it."""
        outer, recomputation.on = recomputation.on, True
        captures = _C._set_runs_again(True)
        try:
            with self.around(self.random), enable_grad(), _keeps_all():
                yield
        finally:
            recomputation.on = outer
            _C._set_runs_again(captures)


# ---- use_reentrant=True ---------------------------------------------------------------------------


class CheckpointFunction(Function):
    """checkpoint(use_reentrant=True) as one operation: runs without history, again in backward."""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.surroundings = _Surroundings(preserve_rng_state)
        ctx.where = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.args = [None if isinstance(a, Tensor) else a for a in args]
        ctx.save_for_backward(*(args[i] for i in ctx.where))
        with no_grad(), ctx.surroundings.first():
            return run_function(*args)

    @staticmethod
    def backward(ctx, *grads):
        if _C._pass_has_inputs():
            raise _C.AutogradError(
                "pf.utils.checkpoint: with use_reentrant=True gradients go to the .grad of the "
                "leaves, so neither grad() nor backward(inputs=) can be used; pass "
                "use_reentrant=False"
            )
        args = list(ctx.args)
        for i, t in zip(ctx.where, ctx.saved_tensors):
            args[i] = t
        args = detach_variable(tuple(args))
        with ctx.surroundings.again():
            outputs = ctx.run_function(*args)
        outputs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
        pairs = [
            (o, g) for o, g in zip(outputs, grads) if isinstance(o, Tensor) and o.requires_grad
        ]
        if not pairs:
            raise _C.AutogradError(
                "pf.utils.checkpoint: no result of the function requires grad; expected one that "
                "does; checkpoint is not needed here, or pass use_reentrant=False"
            )
        backward([o for o, _ in pairs], [g for _, g in pairs])
        return None, None, *(a.grad if isinstance(a, Tensor) else None for a in args)


# ---- use_reentrant=False --------------------------------------------------------------------------


class _Holder:
    """Stands for a tensor that was saved. `value`: the tensor, while a backward pass needs it."""

    __slots__ = ("__weakref__", "frame", "value")


def _facts(t):
    return tuple(t.shape), t.dtype, t.device


class _Frame:
    """One call of a function: how to run it again, and what it saved, in order."""

    def __init__(self, run, args, kwargs, surroundings, context, check, early_stop):
        self.run, self.surroundings, self.context = run, surroundings, context
        self.check, self.early_stop = check, early_stop
        # Tensors are saved as an operation saves them, so that outer checkpoints keep them for us.
        self.args = [_keep(a) for a in args]
        self.kwargs = {k: _keep(v) for k, v in kwargs.items()}
        self.holders = []  # weak: what nobody needs any more is not kept
        self.facts = []

    def pack(self, tensor):
        holder = _Holder()
        holder.frame, holder.value = self, None
        self.holders.append(weakref.ref(holder))
        self.facts.append(_facts(tensor))
        return holder

    def wanted(self):
        """How many of the saved tensors a further run has to make."""
        alive = [i for i, ref in enumerate(self.holders) if ref() is not None]
        return alive[-1] + 1 if alive else 0

    def compute(self):
        count, most, saved = 0, self.wanted(), len(self.holders)

        def pack(tensor):
            nonlocal count
            i, count = count, count + 1
            if i >= saved:
                return tensor
            if self.check and _facts(tensor) != self.facts[i]:
                raise CheckpointError(
                    f"pf.utils.checkpoint: tensor {i} that the function saved was "
                    f"{_shown(self.facts[i])} and is {_shown(_facts(tensor))} when it runs again; "
                    "expected the same; a function must do the same each time"
                )
            holder = self.holders[i]()
            if holder is not None:
                holder.value = tensor
            if count == most and self.early_stop:
                raise _Stop
            return tensor

        args = tuple(map(_kept, self.args))
        kwargs = {k: _kept(v) for k, v in self.kwargs.items()}
        try:
            with self.surroundings.again(), self.context(), saved_tensors_hooks(pack, _same):
                self.run(*args, **kwargs)
        except _Stop:
            return
        if count != saved:
            raise CheckpointError(
                f"pf.utils.checkpoint: the function saved {saved} tensors for its gradient and "
                f"{count} when it ran again; expected as many; a function must do the same each "
                "time"
            )

    def drop(self):
        """Lets go of what was computed again, behind a pass that has kept its graph."""
        for ref in self.holders:
            holder = ref()
            if holder is not None:
                holder.value = None


def _unpack(holder):
    if holder.value is None:
        holder.frame.compute()
        _C._when_pass_ends(holder.frame.drop)
        if holder.value is None:
            raise CheckpointError(
                "pf.utils.checkpoint: a tensor that was saved was not made again; a function must "
                "do the same each time"
            )
    return holder.value


def _same(x):
    return x


def _shown(facts):
    shape, dtype, device = facts
    return f"a {dtype} tensor of shape {list(shape)} on {device}"


def _keep(value):
    return _C._SavedTensor(value) if isinstance(value, Tensor) else value


def _kept(value):
    return value.get() if isinstance(value, _C._SavedTensor) else value


def _without_reentry(run, args, kwargs, preserve, context_fn, check, early_stop):
    forward_context, again_context = context_fn()
    if not _C.is_grad_enabled():
        with forward_context:
            return run(*args, **kwargs)

    def context():
        return again_context

    frame = _Frame(run, args, kwargs, _Surroundings(preserve), context, check, early_stop)
    first = frame.surroundings.first()
    with saved_tensors_hooks(frame.pack, _unpack), _keeps_all(), first, forward_context:
        return run(*args, **kwargs)


def checkpoint(
    function,
    *args,
    use_reentrant=None,
    context_fn=noop_context_fn,
    determinism_check="default",
    debug=False,
    early_stop=True,
    **kwargs,
):
    """function(*args, **kwargs), of which nothing but the arguments is kept for the gradient.

    In the backward pass the function runs again, with the random state and the autocast that it had
    (``preserve_rng_state=False`` lets random numbers differ). Batch norms do not count a second run
    in their running statistics.

    Args:
        use_reentrant: False is recommended: any way of taking gradients works, also nested and of
            second order, and the run ends when all that is needed has been made. True: the function
            runs without history; only backward() without inputs, at least one argument that
            requires grad, and no keyword arguments. Left out, it warns and means True.
        context_fn: gives two context managers, for the first run and for the others; not with
            use_reentrant=True.
        determinism_check: "default" compares shapes, dtypes and devices of what is saved with
            those of the first run (CheckpointError); "none" does not.
        early_stop: see use_reentrant; set_checkpoint_early_stop() comes before it.
    """
    if use_reentrant is None:
        warnings.warn(
            "pf.utils.checkpoint: use_reentrant was not passed and is True; pass "
            "use_reentrant=False, which is recommended, or True",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if determinism_check not in ("default", "none"):
        raise _C.ValueError(
            f"pf.utils.checkpoint: got determinism_check {determinism_check!r}; expected 'default' "
            "or 'none'"
        )
    if not use_reentrant:
        stop = getattr(_early_stop, "value", None)
        return _without_reentry(
            function,
            args,
            kwargs,
            preserve,
            context_fn,
            determinism_check == "default",
            early_stop if stop is None else stop,
        )
    if kwargs:
        raise _C.ValueError(
            f"pf.utils.checkpoint: got the keyword arguments {', '.join(kwargs)}; expected none "
            "with use_reentrant=True; pass use_reentrant=False"
        )
    if context_fn is not noop_context_fn or debug:
        raise _C.ValueError(
            "pf.utils.checkpoint: got context_fn or debug with use_reentrant=True; expected "
            "neither; pass use_reentrant=False"
        )
    if _live.recording is not None and _C._capturing() and _C.is_grad_enabled():
        # Its backward pass is several, which end at leaves that are others each time.
        _live.recording.capture.break_off(
            "utils.checkpoint with use_reentrant=True; use_reentrant=False can be captured"
        )
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """Runs modules one after the other, in so many segments of which each is checkpointed.

    The last segment is kept as always: its gradients are the first to be computed. `functions` is
    an nn.Sequential or a list of modules or functions.
    """
    if use_reentrant is None:
        warnings.warn(
            "pf.utils.checkpoint.checkpoint_sequential: use_reentrant was not passed and is True; "
            "pass use_reentrant=False, which is recommended, or True",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise _C.ValueError(
            "pf.utils.checkpoint.checkpoint_sequential: got the keyword arguments "
            f"{', '.join(kwargs)}; expected preserve_rng_state alone"
        )
    functions = list(functions.children() if hasattr(functions, "children") else functions)
    if not 1 <= segments <= max(1, len(functions)):
        raise _C.ValueError(
            f"pf.utils.checkpoint.checkpoint_sequential: got {segments} segments of "
            f"{len(functions)} functions; expected 1 to {max(1, len(functions))}"
        )

    def run(part):
        def forward(x):
            for f in part:
                x = f(x)
            return x

        return forward

    size = len(functions) // segments
    for i in range(segments - 1):
        input = checkpoint(
            run(functions[i * size : (i + 1) * size]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return run(functions[(segments - 1) * size :])(input)


class CheckpointPolicy(enum.Enum):
    """What a policy of selective checkpointing says of an operation; nothing here asks one."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """NotSupportedError: no policy decides operation by operation what is kept."""
    raise _C.NotSupportedError(
        "pf.utils.checkpoint.create_selective_checkpoint_contexts: a checkpoint keeps none of "
        "what a function saves; checkpoint smaller functions, and leave those out whose results "
        "should be kept"
    )
