"""The tape as programs see it: what is saved for the backward pass, nodes and their hooks."""

import collections
import contextlib
import threading

from .. import _C
from .._tensor import HookHandle

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "recompute_cheap",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]

Tensor = _C.Tensor
Node = _C.Node

_disabled = threading.local()


class saved_tensors_hooks:
    """Within it each tensor that an operation saves for its gradient goes through the hooks.

    ``pack_hook(tensor)`` is called when a tensor is saved and returns anything;
    ``unpack_hook(that)`` when it is needed, and returns a tensor of the same values. The innermost
    pair counts. Neither may change its tensor in place. What is saved so is not checked for writes
    that come later.
    """

    def __init__(self, pack_hook, unpack_hook):
        for name, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
            if not callable(hook):
                raise TypeError(
                    f"pf.autograd.graph.saved_tensors_hooks: got {name} of type "
                    f"{type(hook).__name__}; expected a callable"
                )
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self):
        message = getattr(_disabled, "message", None)
        if message is not None:
            raise _C.AutogradError("pf.autograd.graph.saved_tensors_hooks: " + message)
        _C._push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *unused):
        _C._pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Within it what is saved for gradients lies on the CPU until it is needed.

    ``pin_memory=True``: in memory from which a GPU copies without the host waiting.
    """

    def __init__(self, pin_memory=False, device_type="cuda"):
        def pack(tensor):
            kept = tensor.detach().cpu()
            return tensor.device, kept.pin_memory() if pin_memory else kept

        def unpack(packed):
            device, kept = packed
            return kept.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


class recompute_cheap(contextlib.ContextDecorator):  # noqa: N801 (as its neighbours)
    """Within it what is cheap to make again of what is saved anyway is not kept for the backward pass.

    That is: results of pointwise operations whose gradient keeps what they were made of (GELU's
    before a linear layer), those of layer_norm and rms_norm, and their casts and those of
    parameters. They are made again, by the same operation and with the same bits, where the gradient
    of another operation wants them. A GPT trains in about two thirds of the memory of its
    activations so, for 3 to 5% of its time. A context or a decorator; the forward pass runs in it.

    Args:
        at_least: smaller results, in bytes, are kept.
        above: all are kept while no more than so many bytes of the device's memory are in use: a
            budget, beyond which this begins.

    A write in place to what such a result was made of, before the backward pass, is an AutogradError
    there. A captured call (`pf.compile(mode="reduce-overhead")`) keeps what it is given.
    """

    _unasked = False  # as captured steps do by themselves

    def __init__(self, at_least=1 << 20, above=0):
        for name, value in (("at_least", at_least), ("above", above)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise _C.ValueError(
                    f"pf.autograd.graph.recompute_cheap: got {name}={value!r}; expected a number of "
                    "bytes, 0 or more"
                )
        self.at_least, self.above = at_least, above

    def __enter__(self):
        _C._push_recompute(self.at_least, self.above, self._unasked)
        return self

    def __exit__(self, *unused):
        _C._pop_recompute()


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message):
    """Within it saved_tensors_hooks is an error with this message."""
    before = getattr(_disabled, "message", None)
    _disabled.message = str(error_message)
    try:
        yield
    finally:
        _disabled.message = before


class allow_mutation_on_saved_tensors:
    """Within it tensors that were saved for a gradient may be written in place.

    The gradient sees the values as they were: what is saved is a copy.
    """

    def __enter__(self):
        self._hooks = saved_tensors_hooks(lambda t: t.clone(), lambda t: t)
        self._hooks.__enter__()
        return self

    def __exit__(self, *error):
        self._hooks.__exit__(*error)


class GradientEdge(collections.namedtuple("GradientEdge", "node output_nr ownership_token")):
    """Where a tensor's gradient flows: a node, and which result of it the tensor is.

    backward() and grad() take it in the place of the tensor, which may be gone.
    """

    __slots__ = ()

    def __new__(cls, node, output_nr, ownership_token=None):
        return super().__new__(cls, node, output_nr, ownership_token)


def get_gradient_edge(tensor):
    """The GradientEdge of a tensor that requires grad."""
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"pf.autograd.graph.get_gradient_edge: got a {type(tensor).__name__}; expected a Tensor"
        )
    return GradientEdge(*_C._gradient_edge(tensor))


def increment_version(tensor):
    """Counts a write to a tensor (or to each of several) that the tape could not see.

    A gradient that needs the values from before then raises instead of being wrong.
    """
    for t in (tensor,) if isinstance(tensor, Tensor) else tuple(tensor):
        _C._increment_version(t)


class _Handles(HookHandle):
    """Takes several hooks away at once."""

    def __init__(self, handles):
        self._handles = tuple(handles)
        self.id = self._handles[0].id if self._handles else 0

    def remove(self):
        for h in self._handles:
            h.remove()
        self._handles = ()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls fn when the gradients of several tensors have been computed in a backward pass.

    mode "all": ``fn(grads)`` once, with None for tensors that the pass does not reach. "any":
    ``fn(grad)`` once, with the first that comes. Returns a handle with remove().
    """
    if mode not in ("all", "any"):
        raise _C.ValueError(
            f"pf.autograd.graph.register_multi_grad_hook: got mode {mode!r}; expected 'all' or "
            "'any'"
        )
    tensors = tuple(tensors)
    if not tensors:
        raise _C.ValueError(
            "pf.autograd.graph.register_multi_grad_hook: got no tensors; expected some"
        )
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor) or not t.requires_grad:
            raise _C.AutogradError(
                "pf.autograd.graph.register_multi_grad_hook: tensor "
                f"{i} does not require grad; expected tensors that do"
            )
    passes = {}  # number of a backward pass: the gradients so far, None where none came
    lock = threading.Lock()

    def hook(i):
        def all_of(grad):
            number, expected = _C._current_pass(tensors)
            with lock:
                if number not in passes and len(passes) > 16:  # of passes that raised
                    del passes[next(iter(passes))]
                grads, missing = passes.setdefault(number, ([None] * len(tensors), set(expected)))
                grads[i] = grad
                missing.discard(i)
                complete = not missing
                if complete:
                    del passes[number]
            if complete:
                fn(grads)

        def any_of(grad):
            number, _ = _C._current_pass(())
            with lock:
                first = passes.get("last") != number
                passes["last"] = number
            if first:
                fn(grad)

        return all_of if mode == "all" else any_of

    return _Handles(t.register_hook(hook(i)) for i, t in enumerate(tensors))
