"""Module: the base class of layers and models."""

import types
import warnings
import weakref

from .. import _C
from .._C import Tensor
from .._hooks import RemovableHandle, add_hook, check_hook  # noqa: F401 (the first is looked for here)
from .._locks import shared_lock
from .._named_errors import named as _named
from .._named_errors import of_call as _of_call
from ..autograd import no_grad
from .module_state import _WithState, changes
from .parameter import Buffer, Parameter


def _named_target(method):
    return _named(method, f"nn.Module.{method.__name__}", True)


_HookDict = dict  # keeps the order of registration

# Hooks of every module. Calls look at one flag.
_everywhere = {
    "forward": {},
    "forward_pre": {},
    "backward": {},
    "backward_pre": {},
    "buffer": {},
    "module": {},
    "parameter": {},
}
_any_call_hooks = False
_looking = shared_lock()  # of who finds out what that is


def _add_module_hook(*args, **kwargs):
    changes[0] += 1
    return add_hook(*args, **kwargs)


class _CallHookHandle(RemovableHandle):
    def remove(self):
        super().remove()
        _look_at_call_hooks()


def _look_at_call_hooks():
    global _any_call_hooks
    kinds = ("forward", "forward_pre", "backward", "backward_pre")
    with _looking:
        changes[0] += 1
        _any_call_hooks = any(_everywhere[k] for k in kinds)


def is_hooked(module):
    """Whether a call of `module` calls hooks, too."""
    kinds = module._forward_hooks, module._forward_pre_hooks
    return bool(
        _any_call_hooks or any(kinds) or module._backward_hooks or module._backward_pre_hooks
    )


def _add_everywhere(kind, entry):
    table = _everywhere[kind]
    check_hook(entry[0] if isinstance(entry, tuple) else entry)
    handle = _CallHookHandle(table)
    table[handle.id] = entry
    _look_at_call_hooks()
    return handle


def register_module_forward_pre_hook(hook):
    """hook(module, args) before the forward of every module."""
    return _add_everywhere("forward_pre", (hook, False))


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """hook(module, args, output) after the forward of every module."""
    return _add_everywhere("forward", (hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook):
    """hook(module, grad_output) before the gradients pass any module."""
    return _add_everywhere("backward_pre", hook)


def register_module_full_backward_hook(hook):
    """hook(module, grad_input, grad_output) when the gradients have passed any module."""
    return _add_everywhere("backward", hook)


register_module_backward_hook = register_module_full_backward_hook


def register_module_buffer_registration_hook(hook):
    """hook(module, name, buffer) when a buffer is registered; a result takes its place."""
    return _add_everywhere("buffer", hook)


def register_module_module_registration_hook(hook):
    """hook(module, name, submodule) when a module is registered; a result takes its place."""
    return _add_everywhere("module", hook)


def register_module_parameter_registration_hook(hook):
    """hook(module, name, parameter) when a parameter is registered; a result takes its place."""
    return _add_everywhere("parameter", hook)


def _registered(kind, module, name, value):
    for hook in list(_everywhere[kind].values()):
        changed = hook(module, name, value)
        if changed is not None:
            value = changed
    return value


def _addindent(text, spaces):
    return text.replace("\n", "\n" + " " * spaces)


def _tensors_in(value):
    """Tensors in a result: a tensor, or tuples, lists and dicts of them."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in _tensors_in(v)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _tensors_in(v)]
    return []


def _parse_to(*args, device=None, dtype=None, non_blocking=False, memory_format=None):
    """(device, dtype, non_blocking, memory_format) of the arguments of to()."""
    for a in args:
        if isinstance(a, Tensor):
            device, dtype = a.device, a.dtype
        elif isinstance(a, bool):
            non_blocking = a  # a copy never makes the caller wait longer than it must
        elif hasattr(a, "is_floating_point") or type(a).__name__ == "dtype":
            dtype = a
        elif a is not None:
            device = a
    return device, dtype, non_blocking, memory_format


def no_module(place, given):
    """The TypeError for what stands where a module is expected."""
    name = f"pf.nn.{type(place).__name__}"
    if isinstance(given, type) and issubclass(given, Module):
        n = given.__name__
        return TypeError(f"{name}: got the class {n}; expected a module; make one: {n}(...)")
    return TypeError(
        f"{name}: {type(given).__name__} is not a Module subclass; expected modules; put functions into "
        "one whose forward() calls them"
    )


class Module(_WithState):
    """Base class of all layers and models.

    Subclasses call `super().__init__()`, assign parameters and submodules as attributes, and
    define `forward`. Calling the module runs `forward` with its hooks.
    """

    training = True
    dump_patches = False
    call_super_init = False  # PyTorch's switch; calling super().__init__() is always right
    _recomputed = False  # by enable_gradient_checkpointing(): see recomputation.py
    # Which hooks take keyword arguments or run after an exception, where any do.
    _forward_hooks_with_kwargs = _forward_hooks_always_called = types.MappingProxyType({})
    _forward_pre_hooks_with_kwargs = _forward_hooks_with_kwargs

    def __init__(self):
        d = self.__dict__
        d["training"] = True
        d["_parameters"] = {}
        d["_buffers"] = {}
        d["_non_persistent_buffers_set"] = set()
        d["_modules"] = {}
        d["_forward_hooks"] = _HookDict()
        d["_forward_pre_hooks"] = _HookDict()
        d["_backward_hooks"] = _HookDict()
        d["_backward_pre_hooks"] = _HookDict()
        d["_state_dict_pre_hooks"] = _HookDict()
        d["_state_dict_hooks"] = _HookDict()
        d["_load_state_dict_pre_hooks"] = _HookDict()
        d["_load_state_dict_post_hooks"] = _HookDict()

    def forward(self, *args, **kwargs):
        raise NotImplementedError(
            f"pf.nn.{type(self).__name__}: forward() is not defined; expected a method "
            "forward(self, ...); define it in the class"
        )

    def __call__(self, *args, **kwargs):
        try:
            if (
                self._forward_hooks
                or self._forward_pre_hooks
                or self._backward_hooks
                or self._backward_pre_hooks
                or _any_call_hooks
            ):
                return self._call_with_hooks(args, kwargs)
            return self.forward(*args, **kwargs)
        except AttributeError as error:
            wrong = _of_call(self, args, kwargs, error)
            if wrong is error:
                raise
            raise wrong from None

    # ---- attributes ---------------------------------------------------------------------------

    def __setattr__(self, name, value):
        d = self.__dict__
        if isinstance(value, Parameter):
            changes[0] += 1
            self._check_ready("parameters")
            self._forget(name, keep="_parameters")
            if _everywhere["parameter"]:
                value = _registered("parameter", self, name, value)
            d["_parameters"][name] = value
            return
        if isinstance(value, Module):
            changes[0] += 1
            self._check_ready("modules")
            self._forget(name, keep="_modules")
            if _everywhere["module"]:
                value = _registered("module", self, name, value)
            d["_modules"][name] = value
            return
        if isinstance(value, Buffer):
            self._check_ready("buffers")
            self._forget(name, keep="_buffers")
            self.register_buffer(name, value, value.persistent)
            return
        params = d.get("_parameters")
        if params is not None and name in params:
            if value is not None:
                raise TypeError(
                    f"pf.nn.{type(self).__name__}: cannot assign a {type(value).__name__} as "
                    f"parameter '{name}'; expected nn.Parameter or None; wrap the tensor in "
                    "nn.Parameter"
                )
            params[name] = None
            changes[0] += 1
            return
        modules = d.get("_modules")
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"pf.nn.{type(self).__name__}: cannot assign a {type(value).__name__} as "
                    f"child module '{name}'; expected nn.Module or None"
                )
            modules[name] = None
            changes[0] += 1
            return
        buffers = d.get("_buffers")
        if buffers is not None and name in buffers:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"pf.nn.{type(self).__name__}: cannot assign a {type(value).__name__} as "
                    f"buffer '{name}'; expected a Tensor or None"
                )
            buffers[name] = value
            changes[0] += 1
            return
        if name == "training":
            changes[0] += 1
        object.__setattr__(self, name, value)

    def __getattr__(self, name):
        # Only called when ordinary lookup has failed.
        d = self.__dict__
        for kind in ("_parameters", "_modules", "_buffers"):
            table = d.get(kind)
            if table is not None and name in table:
                return table[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name):
        for kind in ("_parameters", "_modules", "_buffers"):
            if name in self.__dict__.get(kind, ()):
                del self.__dict__[kind][name]
                changes[0] += 1
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self):
        names = set(dir(type(self))) | set(self.__dict__)
        names.update(self._parameters, self._modules, self._buffers)
        return sorted(n for n in names if not n[:1].isdigit())

    def _check_ready(self, what):
        if "_parameters" not in self.__dict__:
            raise AttributeError(
                f"cannot assign {what} before Module.__init__() call: call super().__init__() "
                f"first in {type(self).__name__}.__init__"
            )

    def _forget(self, name, keep=None):
        d = self.__dict__
        if name in d:
            del d[name]
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind != keep:
                d[kind].pop(name, None)
        d["_non_persistent_buffers_set"].discard(name)

    def _check_name(self, name, kind):
        self._check_ready(kind)
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string; got {type(name).__name__}")
        if name == "" or "." in name:
            raise KeyError(f"{kind} name can't be empty or contain '.': got '{name}'")
        if hasattr(self, name) and name not in self.__dict__["_" + kind + "s"]:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name, param):
        self._check_name(name, "parameter")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign a {type(param).__name__} as parameter '{name}'; expected "
                "nn.Parameter or None"
            )
        changes[0] += 1
        self._parameters[name] = _registered("parameter", self, name, param)

    def register_buffer(self, name, tensor, persistent=True):
        """A tensor that is part of the state but not trained. Not saved if not persistent."""
        self._check_name(name, "buffer")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign a {type(tensor).__name__} as buffer '{name}'; expected a Tensor "
                "or None"
            )
        changes[0] += 1
        self._buffers[name] = _registered("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_module(self, name, module):
        self.add_module(name, module)

    def add_module(self, name, module):
        self._check_name(name, "module")
        if module is not None and not isinstance(module, Module):
            raise no_module(self, module)
        changes[0] += 1
        self._modules[name] = _registered("module", self, name, module)

    # ---- walking ------------------------------------------------------------------------------

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        if memo is None:
            memo = set()
        if remove_duplicate:
            if self in memo:
                return
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = prefix + "." + name if prefix else name
                yield from module.named_modules(memo, below, remove_duplicate)

    def modules(self, remove_duplicate=True):
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self):
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self):
        for _, module in self.named_children():
            yield module

    def _named_members(self, table, prefix, recurse, remove_duplicate):
        seen = set()
        if recurse:
            owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        else:
            owners = [(prefix, self)]
        for path, module in owners:
            for name, value in module.__dict__[table].items():
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (path + "." + name if path else name), value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        for _, p in self._named_members("_parameters", "", recurse, True):
            yield p

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        for _, b in self._named_members("_buffers", "", recurse, True):
            yield b

    @_named_target
    def get_submodule(self, target):
        module = self
        for name in target.split(".") if target else ():
            child = module._modules.get(name)
            if child is None:
                raise AttributeError(f"{type(module).__name__} has no submodule '{name}'")
            module = child
        return module

    def set_submodule(self, target, module, strict=False):
        """Puts `module` at a dotted path; with `strict` only where there is one already."""
        if not target:
            raise ValueError("pf.nn.Module.set_submodule: got an empty path; expected a name")
        if not isinstance(module, Module):
            raise ValueError(
                f"pf.nn.Module.set_submodule: got a {type(module).__name__}; expected a Module"
            )
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        there = getattr(owner, name, None)
        if (strict and there is None) or (there is not None and not isinstance(there, Module)):
            raise AttributeError(f"{type(owner).__name__} has no submodule '{name}'")
        owner._modules[name] = (
            module if there is None else _registered("module", owner, name, module)
        )

    @_named_target
    def get_parameter(self, target):
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if owner._parameters.get(name) is None:
            raise AttributeError(f"{type(owner).__name__} has no parameter '{name}'")
        return owner._parameters[name]

    @_named_target
    def get_buffer(self, target):
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if owner._buffers.get(name) is None:
            raise AttributeError(f"{type(owner).__name__} has no buffer '{name}'")
        return owner._buffers[name]

    # ---- modes --------------------------------------------------------------------------------

    def train(self, mode=True):
        if not isinstance(mode, bool):
            raise ValueError(
                f"pf.nn.Module.train: got mode={mode!r} (training mode is expected to be boolean); pass "
                "True or False"
            )
        for module in self.modules():
            module.training = mode
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        for p in self.parameters():
            if p.grad is None:
                continue
            if set_to_none:
                p.grad = None
            else:
                # Else it stays the same tensor, as a captured step wants it.
                if p.grad.requires_grad:
                    p.grad = p.grad.detach()
                p.grad.zero_()

    def apply(self, fn):
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # ---- moving and casting -------------------------------------------------------------------

    def _apply(self, fn, recurse=True):
        done = {}  # a tied weight is moved once and stays tied
        with no_grad():
            for module in self.modules() if recurse else (self,):
                for p in module._parameters.values():
                    if p is None or id(p) in done:
                        continue
                    done[id(p)] = p
                    p.data = fn(p.detach())
                    if p.grad is not None:
                        p.grad = fn(p.grad.detach())
                for name, b in module._buffers.items():
                    if b is not None:
                        if id(b) not in done:
                            done[id(b)] = (b, fn(b))  # keeps b alive, so its id stays unique
                        module._buffers[name] = done[id(b)][1]
                        changes[0] += 1
        return self

    def to(self, *args, device=None, dtype=None, non_blocking=False, memory_format=None):
        """to(device), to(dtype), to(device, dtype), to(tensor). Casts floating and complex values only.

        `memory_format` channels_last lays out parameters and buffers of four dimensions so, and
        channels_last_3d those of five; contiguous_format makes both row-major.
        """
        _C._check_memory_format(memory_format, "nn.Module.to")
        device, dtype, _, _ = _parse_to(*args, device=device, dtype=dtype)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"pf.nn.Module.to: got {dtype}; expected a floating point or complex dtype; cast single "
                "tensors instead"
            )

        def move(t):
            if dtype is not None and (t.is_floating_point() or t.is_complex()):
                t = t.to(dtype)
            if device is not None:
                t = t.to(device)
            if t.ndim in dims:
                t = t.to(memory_format=memory_format)
            return t

        dims = {"channels_last": (4,), "channels_last_3d": (5,), "contiguous_format": (4, 5)}
        dims = dims.get(memory_format, ())
        return self._apply(move)

    def _cast(self, name):
        return self._apply(lambda t: getattr(t, name)() if t.is_floating_point() else t)

    def float(self):
        return self._cast("float")

    def double(self):
        return self._cast("double")

    def half(self):
        return self._cast("half")

    def bfloat16(self):
        return self._cast("bfloat16")

    def type(self, dst_type):
        return self._apply(lambda t: t.to(dst_type))

    def cpu(self):
        return self.to(device="cpu")

    def cuda(self, device=None):
        if device is None:
            device = "cuda"
        elif isinstance(device, int):
            device = f"cuda:{device}"
        return self.to(device=device)

    def to_empty(self, *, device, recurse=True):
        """Parameters and buffers on a device, with any values."""
        from .. import _ops

        return self._apply(lambda t: _ops.empty_like(t, device=device), recurse)

    def share_memory(self):
        """Parameters and buffers in memory that processes share, where there is such memory."""
        for t in (*self.parameters(), *self.buffers()):
            t.share_memory_()
        return self

    def compile(self, *args, **kwargs):
        """Calls of this module run as pf.compile() of it would, with its arguments; in place."""
        from ..compiler import compile

        step = getattr(compile(self, *args, **kwargs), "_step", None)
        if step is not None:
            self.__dict__["forward"] = step.instead_of(self)

    def enable_gradient_checkpointing(self, enabled=True):
        """Activations of the repeated part are computed again in the backward pass, not kept.

        What is repeated is in nn.ModuleLists and nn.Sequentials that have no longer one within:
        their entries, each by itself, or, of plain layers in an nn.Sequential, about as many
        segments as a segment has layers. Without any: each child that has children, or the model.
        Results and gradients are the same bits, the forward pass of these parts is paid twice.
        Also by hand: utils.checkpoint.
        """
        from .recomputation import enable

        enable(self, enabled)

    # ---- hooks --------------------------------------------------------------------------------

    _add_hook = staticmethod(_add_module_hook)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """hook(module, args, output) after forward; a result that is not None replaces output."""
        handle = self._add_hook(self._forward_hooks, hook, prepend)
        self._mark_hook("_forward_hooks_with_kwargs", handle, with_kwargs)
        self._mark_hook("_forward_hooks_always_called", handle, always_call)
        return handle

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args) before forward; a result that is not None replaces the arguments."""
        handle = self._add_hook(self._forward_pre_hooks, hook, prepend)
        self._mark_hook("_forward_pre_hooks_with_kwargs", handle, with_kwargs)
        return handle

    def _mark_hook(self, table, handle, wanted):
        """Notes that a hook is called in another way: tables of hooks hold the hooks alone."""
        if wanted:
            self.__dict__.setdefault(table, {})[handle.id] = True

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) when the gradients have passed the module.

        The module's tensor arguments and results are passed through identity operations, so a
        result that is not None replaces the gradients of the arguments.
        """
        return self._add_hook(self._backward_hooks, hook, prepend)

    register_backward_hook = register_full_backward_hook

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """hook(module, grad_output) before the gradients pass the module; a result that is not None
        takes the place of grad_output."""
        return self._add_hook(self._backward_pre_hooks, hook, prepend)

    def _after_hooks(self):
        kept, always = self._forward_hooks_with_kwargs, self._forward_hooks_always_called
        after = [*_everywhere["forward"].values()]
        return after + [
            (hook, k in kept, k in always) for k, hook in [*self._forward_hooks.items()]
        ]

    def _call_with_hooks(self, args, kwargs):
        call = [args, kwargs, None]  # what hooks made of the arguments and the result
        called = []  # hooks of always_call
        try:
            return self._call_between_hooks(call, called)
        except Exception:
            for hook, with_kwargs, always in self._after_hooks():
                if not always or hook in called:
                    continue
                args, kwargs, result = call
                try:
                    changed = (
                        hook(self, args, kwargs, result)
                        if with_kwargs
                        else hook(self, args, result)
                    )
                    call[2] = result if changed is None else changed
                except Exception as e:
                    warnings.warn(
                        f"pf.nn.Module: a forward hook with always_call=True raised {e!r} while "
                        "another error was raised; it is dropped",
                        stacklevel=3,
                    )
            raise

    def _call_between_hooks(self, call, called):
        args, kwargs, _ = call
        kept = self._forward_pre_hooks_with_kwargs
        # Lists, here and above: another thread may add hooks, or remove some.
        before = [*_everywhere["forward_pre"].values()]
        before += [(hook, k in kept) for k, hook in [*self._forward_pre_hooks.items()]]
        for hook, with_kwargs in before:
            if with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
            call[:2] = args, kwargs
        watched = (
            self._backward_hooks
            or self._backward_pre_hooks
            or _everywhere["backward"]
            or _everywhere["backward_pre"]
        )
        watch = _BackwardWatch(self) if watched else None
        if watch:
            args = watch.enter(args)
        if self._recomputed:
            from .recomputation import forward

            result = forward(self, args, kwargs)
        else:
            result = self.forward(*args, **kwargs)
        call[2] = result
        for hook, with_kwargs, always in self._after_hooks():  # those of this call, too
            if always:
                called.append(hook)
            changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
            if changed is not None:
                call[2] = result = changed
        if watch:
            result = watch.leave(result)
        return result

    # ---- printing -----------------------------------------------------------------------------

    def extra_repr(self):
        """What stands between the parentheses of the printed form."""
        return ""

    def _get_name(self):
        return type(self).__name__

    def _child_lines(self):
        """The printed children, each with its name."""
        return [
            f"({name}): " + _addindent(repr(module), 2) for name, module in self._modules.items()
        ]

    def __repr__(self):
        extra = self.extra_repr()
        lines = [line for line in extra.split("\n") if line]
        children = self._child_lines()
        body = lines + children
        if not body:
            return self._get_name() + "()"
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        return self._get_name() + "(\n  " + "\n  ".join(body) + "\n)"


class _BackwardWatch:
    """Collects the gradients that flow into and out of one call of a module."""

    def __init__(self, module):
        self._module = weakref.ref(module)
        self._hooks = (_everywhere["backward"], module._backward_hooks)
        self._pre_hooks = (_everywhere["backward_pre"], module._backward_pre_hooks)
        self._grad_output = None
        self._expects_input = False

    def enter(self, args):
        from ..autograd import Function

        self._where = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
        self._count = len(args)
        if not self._where:
            return args
        self._expects_input = True
        watch = self

        class Inputs(Function):
            @staticmethod
            def forward(ctx, *tensors):
                return tuple(t.view_as(t) for t in tensors)

            @staticmethod
            def backward(ctx, *grads):
                return watch._run(grads)

        passed = Inputs.apply(*[args[i] for i in self._where])
        if isinstance(passed, Tensor):
            passed = (passed,)
        args = list(args)
        for i, t in zip(self._where, passed):
            args[i] = t
        return tuple(args)

    def leave(self, result):
        from ..autograd import Function

        tensors = [t for t in _tensors_in(result) if t.requires_grad]
        if not tensors:
            return result
        watch = self

        class Outputs(Function):
            @staticmethod
            def forward(ctx, *tensors):
                return tuple(t.view_as(t) for t in tensors)

            @staticmethod
            def backward(ctx, *grads):
                for hook in [h for table in watch._pre_hooks for h in [*table.values()]]:
                    changed = hook(watch._module(), grads)
                    if changed is not None:
                        grads = changed if isinstance(changed, tuple) else (changed,)
                watch._grad_output = grads
                if not watch._expects_input:
                    watch._run(())
                return grads if len(grads) > 1 else grads[0]

        passed = Outputs.apply(*tensors)
        passed = iter((passed,) if isinstance(passed, Tensor) else passed)

        def put(value):
            if isinstance(value, Tensor):
                return next(passed) if value.requires_grad else value
            if isinstance(value, (tuple, list)):
                items = [put(v) for v in value]
                if hasattr(value, "_fields"):
                    return type(value)(*items)
                return type(value)(items)
            if isinstance(value, dict):
                return type(value)((k, put(v)) for k, v in value.items())
            return value

        return put(result)

    def _run(self, grads):
        module = self._module()
        full = [None] * getattr(self, "_count", 0)
        for i, g in zip(getattr(self, "_where", ()), grads):
            full[i] = g
        grad_input = tuple(full)
        for hook in [h for table in self._hooks for h in [*table.values()]]:
            changed = hook(module, grad_input, self._grad_output)
            if changed is not None:
                grad_input = changed if isinstance(changed, tuple) else (changed,)
        if not self._expects_input:
            return None
        picked = tuple(grad_input[i] for i in self._where)
        return picked if len(picked) > 1 else picked[0]
