"""Whole steps: `pf.compile`, and what programs ask of torch.compiler."""

import contextlib
import functools
import os
import types

from .. import _C
from .._locks import shared_lock

__all__ = [
    "CaptureError",
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "list_backends",
    "reset",
    "set_default_backend",
    "set_stance",
    "substitute_in_graph",
]

# Modes: whether launches are kept and made again without Python.
_MODES = {
    "default": False,
    "reduce-overhead": True,
    "max-autotune": True,
    "max-autotune-no-cudagraphs": False,
}
_BACKENDS = {"inductor": None, "cudagraphs": True, "eager": False, "aot_eager": False}
VARIANTS = 16  # captures that one function has at most; what comes then runs as always
_default_backend = None
_steps = []  # weak references to what was compiled, for reset()
_noting = shared_lock()  # of who changes them
_stance = "default"


def compile(
    model=None,
    *,
    fullgraph=False,
    dynamic=None,
    backend=None,
    mode=None,
    options=None,
    name=None,
    disable=False,
    recompile_limit=None,
    isolate_recompiles=False,
    shapes_spec=None,
    numerics="exact",
):
    """A function or module that runs in fewer steps of the host; a decorator without `model`.

    * ``mode="default"``: Python runs at every call, and what it records is fused as it always is. So
      numbers, branches and models may change as they like, and the result is `model` itself in all
      but its class.
    * ``mode="reduce-overhead"``: the first call of each kind of arguments runs
      as always, the second is *captured*: each program and kernel, with its sizes, numbers and
      addresses; later calls launch these again and run no Python. Parameters, buffers and arguments
      are read where they are at each call. Steps of optimizers, schedulers and gradient scalers
      within run in Python between the captured launches, with their own numbers; random numbers go
      on as they would have. Results lie in memory of their own. What the function reaches of Python's by
      its closure, globals, lists, dicts, attributes and arrays is looked at before each call, and captured
      anew where it has changed and matters. Any other number is taken to be constant: the third call,
      and every `options["verify_every"]`-th (1000), runs in Python and is compared; a number that has
      changed is a CaptureError, other changes are captured anew.

    * ``mode="max-autotune"``, and "max-autotune-no-cudagraphs" of the first kind: the calls that Python
      runs measure products, convolutions and attention that were not measured before (:func:`pf.tune`),
      which takes seconds once; the choices stay, for later processes and for what is not compiled, too.

    A module may be compiled, to be trained with a loss and an optimizer outside, or a function: an
    inference, or a whole step with backward() and an optimizer in it.

    What cannot be captured (a value that the host reads by ``.item()``, hooks, other devices, arguments
    and results of unknown classes) runs as always; :func:`report` of the result says why.

    Args:
        model: a Module or a function.
        fullgraph: True: CaptureError, where a captured step would run as always.
        dynamic: what happens when `recompile_limit` kinds of arguments (each shape is one) have come.
            None, False: others run as always. True: shapes are expected to change, and the kind that
            was not used for longest makes room.
        backend: "inductor", "cudagraphs" (as mode="reduce-overhead") or "eager" (as "default");
            the environment's PYFLAME_COMPILE_BACKEND where it is not given.
        mode: see above.
        options: {"verify_every": calls}, {"times": True} (each launch is timed, which is slower, for
            report()), {"triton.cudagraphs": True} for mode="reduce-overhead", {"numerics": ...},
            {"activation_memory_budget": x}: below 1 what is cheap to make again is not kept for the
            backward pass (autograd.graph.recompute_cheap), 1: all is kept. Where it is not given, steps
            that are captured on the CPU keep less, but for casts of parameters. Others of PyTorch's
            are accepted.
        disable: True: `model` as it is.
        recompile_limit: how many kinds of arguments are captured; 16 by default.
        name, isolate_recompiles, shapes_spec: accepted.
        numerics: "exact": the bits that the program gives without compile(). "fast": values within a fused
            program that nobody else reads keep float32 where they would be rounded to bfloat16 or
            float16, and kernels of libraries may be used that do not give the same bits each time.

    Raises:
        ValueError: a mode, a backend or numerics of another name, a number out of range.
        CaptureError: see above.
    """
    if model is None:
        return lambda m: compile(
            m, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options,
            disable=disable, recompile_limit=recompile_limit, numerics=numerics,
        )  # fmt: skip
    if not callable(model):
        raise TypeError(
            f"pf.compile: got a {type(model).__name__}; expected a Module or a function"
        )
    captures = _captures(backend, mode, options)
    measures = (mode or "").startswith("max-autotune")
    given = options or {}
    numerics = given.get("numerics", numerics)
    if numerics not in ("exact", "fast"):
        raise _C.ValueError(f"pf.compile: got numerics={numerics!r}; expected 'exact' or 'fast'")
    if disable:
        return model
    how = types.SimpleNamespace(
        fullgraph=fullgraph,
        dynamic=dynamic,
        numerics=numerics,
        verify_every=_positive(given.get("verify_every", 1000), "verify_every", "calls"),
        times=bool(given.get("times")),
        measures=measures,
        limit=_positive(
            VARIANTS if recompile_limit is None else recompile_limit,
            "recompile_limit",
            "kinds of arguments",
        ),
        frugal="activation_memory_budget" not in given,
    )
    from ..nn.module import Module

    region = _saves_less(options)
    ways = [way for way, on in (("fast", numerics == "fast"), ("measured", measures)) if on]
    if isinstance(model, Module):
        plain = _EachCall(model, ways) if ways else None
        step = _step(model, how) if captures else plain
        return __getattr__("OptimizedModule")(model, step, region)
    if region is not None:
        model = region(model)
    if not captures:
        return _as_it_is(_EachCall(model, ways) if ways else model)
    step = _step(model, how)

    @functools.wraps(model)
    def compiled(*args, **kwargs):
        if _stance != "default":
            return model(*args, **kwargs)
        return step(*args, **kwargs)

    compiled.report = step.report
    compiled._step = step
    return compiled


_NOTHING = "mode='default': Python runs at every call; nothing is captured"


def _as_it_is(function):
    @functools.wraps(function)
    def compiled(*args, **kwargs):
        return function(*args, **kwargs)

    compiled.report = lambda **_: _NOTHING
    return compiled


def _positive(n, name, what):
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise _C.ValueError(f"pf.compile: got {name}={n!r}; expected a number of {what}, from 1 on")
    return n


def _saves_less(options):
    budget = (options or {}).get("activation_memory_budget", 1)
    if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not 0 <= budget <= 1:
        raise _C.ValueError(
            f"pf.compile: got activation_memory_budget={budget!r}; expected a number from 0 to 1"
        )
    if budget == 1:
        return None
    from ..autograd.graph import recompute_cheap

    return recompute_cheap()


class _EachCall:
    """Each call of a function by these functions of captured.py."""

    def __init__(self, function, ways):
        from . import captured

        functools.update_wrapper(self, function, updated=())
        self._function, self._ways = function, ways
        for way in ways:
            function = getattr(captured, way)(function)
        self._run = function

    def __call__(self, *args, **kwargs):
        return self._run(*args, **kwargs)

    def __reduce__(self):
        return _EachCall, (self._function, self._ways)

    def report(self, **_):
        return _NOTHING

    def instead_of(self, module):
        return _EachCall(module.forward, self._ways)


def _captures(backend, mode, options):
    backend = backend or _default_backend or os.environ.get("PYFLAME_COMPILE_BACKEND") or "inductor"
    if callable(backend):
        raise _C.NotSupportedError(
            "pf.compile: got a function as backend; expected one of "
            f"{', '.join(_BACKENDS)}: there is no graph of operations to give it"
        )
    if backend not in _BACKENDS:
        raise _C.ValueError(
            f"pf.compile: got backend={backend!r}; expected one of {', '.join(_BACKENDS)}"
        )
    if mode is not None and mode not in _MODES:
        raise _C.ValueError(f"pf.compile: got mode={mode!r}; expected one of {', '.join(_MODES)}")
    by_backend = _BACKENDS[backend]
    if by_backend is not None:
        return by_backend
    return _MODES[mode or "default"] or bool((options or {}).get("triton.cudagraphs"))


def _step(function, how, modules=()):
    import weakref

    from .captured import Step

    step = Step(function, how, modules)
    with _noting:
        _steps[:] = [ref for ref in _steps if ref() is not None]
        _steps.append(weakref.ref(step))
    return step


def _optimized_module():
    from ..nn.module import Module

    class OptimizedModule(Module):
        """A compiled module: the module itself is `_orig_mod`, and its attributes are found here."""

        def __init__(self, module, step=None, region=None):
            super().__init__()
            self._orig_mod = module
            self.__dict__["_step"] = step
            self.__dict__["_region"] = region  # what its calls run in

        def __call__(self, *args, **kwargs):
            step = self.__dict__["_step"]
            run = self._orig_mod if step is None or _stance != "default" else step
            region = self.__dict__["_region"]
            if region is None:
                return run(*args, **kwargs)
            with region:
                return run(*args, **kwargs)

        def forward(self, *args, **kwargs):
            return self(*args, **kwargs)

        def report(self, **what):
            """How calls have run, and why: see pf.compiler.report()."""
            step = self.__dict__["_step"]
            return _NOTHING if step is None else step.report(**what)

        def train(self, mode=True):
            self._orig_mod.train(mode)
            return self

        @property
        def training(self):
            return self._orig_mod.training

        def __getattr__(self, name):
            modules = self.__dict__.get("_modules", {})
            if name in modules:
                return modules[name]
            if "_orig_mod" not in modules:  # while a copy is made
                raise AttributeError(name)
            return getattr(modules["_orig_mod"], name)

        def __setattr__(self, name, value):
            if name in ("_orig_mod", "_step") or "_orig_mod" not in self.__dict__.get(
                "_modules", ()
            ):
                super().__setattr__(name, value)
            else:
                setattr(self._orig_mod, name, value)

        def __dir__(self):
            return sorted({*dir(type(self)), *dir(self._orig_mod)})

    OptimizedModule.__module__ = __name__
    OptimizedModule.__qualname__ = "OptimizedModule"
    return OptimizedModule


def __getattr__(name):
    if name == "OptimizedModule":
        return globals().get(name) or globals().setdefault(name, _optimized_module())
    if name == "CaptureError":
        from .captured import CaptureError

        return CaptureError
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def report(compiled, *, launches=False, plan=False, svg=None):
    """How the calls of what compile() gave have run, and why.

    Args:
        compiled: a compiled function or module.
        launches: also each launch of each capture: what it runs, where the program says so, what has
            become of it and, with options={"times": True}, how long it took the last time.
        plan: also a picture of each capture's memory in characters: addresses upwards, launches to the
            right, a letter for each tensor.
        svg: a path; the picture of the last capture is written there as SVG.

    Returns:
        Text: calls replayed and run by Python; captures with their launches, those that were dropped,
        their memory beside that of the run which was captured; and what ran as always, with the reason
        and the file and line of the call.
    """
    return compiled.report(launches=launches, plan=plan, svg=svg)


# ---- names of torch.compiler --------------------------------------------------------------------


def _same(fn=None, *args, **kwargs):
    """What it is given: a decorator, with or without arguments."""
    return fn if callable(fn) else lambda f: f


def disable(fn=None, recursive=True, *, reason=None):
    """A function that breaks the capture that calls it: the step runs as always. Or a decorator."""
    if fn is None:
        return lambda f: disable(f, recursive, reason=reason)

    @functools.wraps(fn)
    def disabled(*args, **kwargs):
        from .. import _live

        if _live.recording is not None and _C._capturing():
            _live.recording.capture.break_off(
                f"{getattr(fn, '__qualname__', fn)}() is not to be compiled"
                + (f": {reason}" if reason else "")
            )
        return fn(*args, **kwargs)

    return disabled


allow_in_graph = assume_constant_result = wrap_numpy = nested_compile_region = _same


def substitute_in_graph(original_fn, *, can_constant_fold_through=False,
                        skip_signature_check=False):  # fmt: skip
    """A decorator that changes nothing."""
    return _same


def is_compiling():
    """Whether this thread is capturing a step."""
    return _C._capturing()


is_dynamo_compiling = is_compiling


def is_exporting():
    """False."""
    return False


def reset():
    """Forgets all captures; their memory goes when nobody holds a result of them."""
    with _noting:
        steps = list(_steps)
    for ref in steps:
        if (step := ref()) is not None:
            step.forget()


def cudagraph_mark_step_begin():
    """Accepted: results lie in memory of their own, and are not written over."""


def list_backends(exclude_tags=("debug", "experimental")):
    """Names that `backend` takes."""
    return sorted(_BACKENDS)


def set_default_backend(backend=None):
    """The backend of compile() where none is given; None: the environment's, or "inductor"."""
    global _default_backend
    _captures(backend, None, None)
    _default_backend = backend


def get_default_backend():
    """What compile() takes where no backend is given."""
    return _default_backend or os.environ.get("PYFLAME_COMPILE_BACKEND") or "inductor"


class set_stance(contextlib.ContextDecorator):  # noqa: N801 (PyTorch's name)
    """ "force_eager": compiled functions run as always; "default": by their captures. A call, a context
    or a decorator."""

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        global _stance
        if stance not in ("default", "force_eager", "eager_on_recompile", "fail_on_recompile"):
            raise _C.ValueError(
                f"pf.compiler.set_stance: got {stance!r}; expected 'default' or 'force_eager'"
            )
        self._before, self.stance = _stance, stance
        _stance = "force_eager" if stance == "force_eager" else "default"

    def __enter__(self):
        global _stance
        _stance = "force_eager" if self.stance == "force_eager" else "default"
        return self

    def __exit__(self, *unused):
        global _stance
        _stance = self._before
