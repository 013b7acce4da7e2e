"""torch.library: operators of a program's own, written in Python, found under torch.ops, too.

What traces or compiles programs does not exist here, so that rules for it (register_fake and its like)
are accepted and never asked.
"""

import inspect as _inspect

from ... import _C
from ...autograd import Function as _Function
from .. import extensions as _extensions
from ._library.infer_schema import infer_schema  # noqa: F401

_ops = {}  # "name::op": the operator


class CustomOpDef:
    """An operator: calling it calls the function that stands for it."""

    def __init__(self, name, function, schema=None):
        self._name, self._function, self._schema = name, function, schema
        self._backward = self._setup = None
        self.__doc__ = getattr(function, "__doc__", None)
        self.__name__ = name.rpartition("::")[2]
        self.default = self  # its only overload

    def __repr__(self):
        return f"<CustomOpDef({self._name})>"

    def __call__(self, *args, **kwargs):
        if self._function is None:
            raise _C.NotSupportedError(
                f"torch.ops: the operator {self._name} has no function for tensors; expected one by "
                "impl() or register_kernel()"
            )
        if self._backward is None:
            return self._function(*args, **kwargs)
        if kwargs:
            bound = _inspect.signature(self._function).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        return _WithBackward.apply(self, *args)

    def register_autograd(self, backward, /, *, setup_context=None):
        """The gradient: backward(ctx, *grads), after setup_context(ctx, inputs, output)."""
        self._backward, self._setup = backward, setup_context

    def register_kernel(self, device_types, func=None, /):
        """The function for devices, or a decorator; one function serves all devices."""

        def keep(f):
            if self._function is None or device_types in (None, "cpu"):
                self._function = f
            return f

        return keep(func) if func is not None else keep

    def register_fake(self, fn=None, /):
        """Accepted, as a call or a decorator."""
        return fn if fn is not None else lambda f: f

    register_vmap = register_torch_dispatch = register_fake


class CompiledOp(CustomOpDef):
    """An operator that a package has compiled: ours where there is one, whose gradient is its own, else
    what the package gives it in Python, else it raises."""

    def __init__(self, name, function, why):
        super().__init__(name, function)
        self._why, self._is_ours = why, function is not None

    def __call__(self, *args, **kwargs):
        if self._function is None:
            raise _C.NotSupportedError(f"torch.ops.{self._name.replace('::', '.')}: {self._why}")
        return super().__call__(*args, **kwargs)

    def __getattr__(self, overload):
        if overload.startswith("_"):
            raise AttributeError(overload)
        return self

    def register_autograd(self, backward, /, *, setup_context=None):
        if not self._is_ours:
            super().register_autograd(backward, setup_context=setup_context)

    def register_kernel(self, device_types, func=None, /):
        keep = (
            super().register_kernel
            if not self._is_ours
            else lambda d, f=None: self.register_fake(f)
        )
        return keep(device_types, func)


class _WithBackward(_Function):
    @staticmethod
    def forward(ctx, op, *args):
        ctx.op, ctx.count = op, len(args)
        output = op._function(*args)
        if op._setup is not None:
            op._setup(ctx, args, output)
        return output

    @staticmethod
    def backward(ctx, *grads):
        found = ctx.op._backward(ctx, *grads)
        found = found if isinstance(found, tuple) else (found,)
        return None, *found, *[None] * (ctx.count - len(found))


def find(namespace, name):
    """The operator torch.ops.`namespace`.`name`, or None."""
    full = f"{namespace}::{name}"
    if full not in _ops and (made := _compiled(namespace, name)):
        _ops[full] = made
    return _ops.get(full)


def _compiled(namespace, name):
    function = _extensions.ours(namespace, name)
    why = function is None and not name.startswith("__") and _extensions.reason(namespace, name)
    return CompiledOp(f"{namespace}::{name}", function, why) if function or why else None


def has_namespace(namespace):
    """Whether there is any operator of a namespace."""
    return any(name.startswith(namespace + "::") for name in _ops)


def _get(name):
    return find(*name.split("::", 1)) or _ops.setdefault(name, CustomOpDef(name, None))


def custom_op(name, fn=None, /, *, mutates_args=(), device_types=None, schema=None, tags=None):
    """Makes an operator "namespace::name" of a function, or a decorator that does."""

    def make(f):
        _ops[name] = op = CustomOpDef(name, f, schema)
        return op

    return make(fn) if fn is not None else make


triton_op = custom_op


def define(qualname, schema, *, lib=None, tags=()):
    """Names an operator; impl() gives its function."""
    _get(qualname)


def impl(qualname, types="default", func=None, *, lib=None):
    """The function of an operator, or a decorator; with a Library, a name and a key in place of these, of
    one of its operators."""
    if isinstance(qualname, Library):
        key = func or ""

        def keep(f):
            qualname.impl(types, f, key)
            return f

        return keep
    return _get(qualname).register_kernel(None if types == "default" else types, func)


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=False):
    """Accepted, as a call or a decorator."""
    return func if func is not None else lambda f: f


impl_abstract = register_vmap = register_torch_dispatch = register_autocast = register_fake


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """The function of an operator for devices, or a decorator."""
    op = _get(op) if isinstance(op, str) else op
    return op.register_kernel(device_types, func)


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """The gradient of an operator."""
    op = _get(op) if isinstance(op, str) else op
    op.register_autograd(backward, setup_context=setup_context)


def get_ctx():
    """RuntimeError: nothing asks a rule for shapes, which alone has one."""
    raise RuntimeError("torch.library.get_ctx: got a call outside of a rule of register_fake()")


def opcheck(op, args, kwargs=None, **how):
    """Calls the operator once; there is nothing else to check."""
    op(*args, **(kwargs or {}))
    return {}


class Library:
    """Operators of a namespace, named by schemas and given functions."""

    def __init__(self, ns, kind, dispatch_key=""):
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema, alias_analysis="", *, tags=()):
        """Names an operator."""
        name = schema.partition("(")[0].partition(".")[0]
        _get(f"{self.ns}::{name}")
        return name

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        """The function of an operator. One for CPUs or for all devices is taken; others are accepted."""
        key = dispatch_key or self.dispatch_key
        if key in ("", "CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd"):
            name = str(op_name).rpartition("::")[2].partition(".")[0]
            _get(f"{self.ns}::{name}").register_kernel(None, fn)

    def _register_fake(self, op_name, fn, _stacklevel=1, *, allow_override=False):
        pass

    def _destroy(self):
        pass
