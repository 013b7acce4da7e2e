"""Symbolic tracing: runs a module or function once with proxies and notes what happens."""

import builtins
import importlib
import inspect
import math
import sys
import threading
import types

from .. import _C
from .._torch import installed
from ..nn import Module, Parameter, Sequential
from .graph import Graph
from .graph_module import GraphModule
from .node import has_side_effect
from .proxy import Proxy, TracerBase, found

__all__ = ["PH", "Tracer", "symbolic_trace", "wrap"]


class _PH:
    """Within `concrete_args`: what stays an argument."""

    def __repr__(self):
        return "PH"


PH = _PH()

_lock = threading.RLock()  # tracing changes Module for all threads
_wrapped = {}  # (id of a module's names, name): those names


def wrap(fn_or_name):
    """Has calls of a function noted as they are, instead of what the function does. Called in the module
    that uses it, at its top level: with a name (``wrap("len")``), with a function, or as a decorator.

    Raises:
        NotImplementedError: it is called within a function.
        TypeError: what is given is neither a function nor a name.
    """
    if not isinstance(fn_or_name, str) and not callable(fn_or_name):
        raise TypeError(
            f"pf.fx.wrap: got {type(fn_or_name).__name__}; expected a function of the module, or its "
            "name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("pf.fx.wrap must be called at the top level of a module")
    _wrapped[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


@has_side_effect
def _assert_is(value, expected, name):
    """What was traced for one value of an argument takes no other."""
    same = value is expected or (type(value) is type(expected) and value == expected)
    if not same:
        raise AssertionError(
            f"pf.fx: the argument {name} was {expected!r} when this was traced, and is {value!r} now; "
            "trace again with that in concrete_args"
        )


@has_side_effect
def _assert_same_places(value, expected, name):
    """A container has the places that it was traced with: keys, or how many."""
    places = list(value) if isinstance(value, dict) else len(value)
    if places != expected:
        raise AssertionError(
            f"pf.fx: the argument {name} had the places {expected!r} when this was traced, and has "
            f"{places!r} now; trace again with those in concrete_args"
        )


class _Patches:
    """Names of modules and classes that mean something else for a while."""

    def __init__(self):
        self.undo = []

    def attribute(self, owner, name, value):
        self.undo.append((setattr, owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    def name(self, names, name, value):
        if name in names:
            self.undo.append((dict.__setitem__, names, name, names[name]))
        else:
            self.undo.append((dict.__delitem__, names, name))
        names[name] = value

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        while self.undo:
            do, *args = self.undo.pop()
            do(*args)


def _noting(function):
    """A function that is noted when a proxy is among its arguments, and called otherwise."""

    def call(*args, **kwargs):
        proxy = found(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    call.__name__, call._noted = getattr(function, "__name__", "call"), function
    return call


def _python_functions(module):
    """The public functions of a module that are no operations: these say themselves who calls them."""
    kinds = (types.FunctionType, types.BuiltinFunctionType)
    return [
        v
        for n, v in vars(module).items()
        if (n == "_assert" or not n.startswith("_")) and isinstance(v, kinds)
    ]


class Tracer(TracerBase):
    """Traces modules and functions. Its methods may be overridden: `is_leaf_module`, `call_module`,
    `create_proxy`, `create_node`, `create_arg`, `to_bool`, `iter`.

    Args:
        autowrap_modules: modules whose functions are noted as they are (default: math).
        autowrap_functions: such functions.
        param_shapes_constant: accepted; shapes of parameters are what is noted of them.
    """

    def __init__(
        self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant=False
    ):
        super().__init__()
        import pyflame
        from pyflame.nn import functional

        self._autowrap_modules = [*autowrap_modules, pyflame, functional]
        self._autowrap_functions = list(autowrap_functions)
        self.root, self.submodule_paths = None, {}
        self.proxy_buffer_attributes = False
        self.scope = None

    # ---- what may be overridden -----------------------------------------------------------------

    def is_leaf_module(self, m, module_qualified_name):
        """Whether calls of a module are noted as they are: by default those of pf.nn, but Sequential."""
        ours = type(m).__module__.split(".")[:2] == ["pyflame", "nn"]
        return ours and not isinstance(m, Sequential)

    def path_of_module(self, mod):
        """The path of a module below the root; NameError when it is none of them."""
        if self.submodule_paths is None or mod not in self.submodule_paths:
            for name, other in self.root.named_modules():
                if other is mod:
                    return name
            raise NameError(
                f"pf.fx: a {type(mod).__name__} that is no submodule of the root is called; expected a "
                "registered one; assign it to an attribute in __init__"
            )
        return self.submodule_paths[mod]

    def call_module(self, m, forward, args, kwargs):
        """What a call of a module gives: a node of a leaf, else what `forward` notes."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        """What an attribute of a module is while it is traced: parameters become nodes."""
        tensors = (Parameter, _C.Tensor) if self.proxy_buffer_attributes else (Parameter,)
        if isinstance(attr_val, tensors):
            path = self._path_of_tensor(attr_val)
            if path is not None:
                if path not in parameter_proxy_cache:
                    parameter_proxy_cache[path] = self.create_proxy("get_attr", path, (), {})
                return parameter_proxy_cache[path]
        return attr_val

    def _path_of_tensor(self, t):
        for collection in (self.root.named_parameters(), self.root.named_buffers()):
            for name, value in collection:
                if value is t:
                    return name
        for name, module in self.root.named_modules():
            for key, value in vars(module).items():
                if value is t:
                    return f"{name}.{key}".lstrip(".")
        return None

    def _leaf(self, a):
        if isinstance(a, _C.Tensor):
            path = self._path_of_tensor(a)
            if path is None:
                i = 0
                while hasattr(self.root, path := f"_tensor_constant{i}"):
                    i += 1
                setattr(self.root, path, a)
            return self.create_node("get_attr", path, (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super()._leaf(a)

    # ---- the trace ------------------------------------------------------------------------------

    def _arguments(self, forward, is_module, concrete):
        """Proxies for the parameters of a function: (positional, named)."""
        parameters = list(inspect.signature(forward).parameters.values())
        if is_module:
            parameters = parameters[1:]
        positional, named = [], {}
        for p in parameters:
            starred = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
            default = () if p.default is p.empty or starred else (p.default,)
            kind = p.annotation if p.annotation is not p.empty else None
            made = self.create_proxy("placeholder", starred + p.name, default, {}, type_expr=kind)
            if p.name in concrete:
                made = self._concrete(made, concrete[p.name], p.name)
            if p.kind is p.VAR_POSITIONAL:
                positional.append(made)
            elif p.kind is p.VAR_KEYWORD:
                named[p.name] = made
            elif p.kind is p.KEYWORD_ONLY:
                named[p.name] = made
            else:
                positional.append(made)
        return parameters, positional, named

    def _concrete(self, made, value, name):
        """What the function gets for an argument with a given value: that, and a container with its
        elements for a container, in which PH are proxies."""
        if value is PH:
            return made
        if isinstance(value, (_C.Tensor, Proxy)):
            raise NotImplementedError(
                f"pf.fx: got concrete_args with a {type(value).__name__} for {name}; expected numbers, "
                "texts, bools, None, PH, or containers of them; bind others by functools.partial or a "
                "module"
            )
        if isinstance(value, (list, tuple, dict)):
            keys = list(value) if isinstance(value, dict) else range(len(value))
            places = keys if isinstance(value, dict) else len(value)
            self.create_proxy("call_function", _assert_same_places, (made, places, name), {})
            parts = [self._concrete(made[k], value[k], f"{name}[{k!r}]") for k in keys]
            if isinstance(value, dict):
                return type(value)(zip(keys, parts))
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        self.create_proxy("call_function", _assert_is, (made, value, name), {})
        return value

    def trace(self, root, concrete_args=None):
        """The Graph of a module or function.

        `concrete_args` gives values of arguments (numbers, text, None) by name, or containers of them:
        the graph is made for these, and says so when it is run with others. `PH` in their place stays an
        argument.
        """
        with _lock:
            return self._trace(root, concrete_args or {})

    def _trace(self, root, concrete):
        is_module = isinstance(root, Module)
        self.root = root if is_module else Module()
        function = type(root).forward if is_module else root
        if not callable(function):
            raise TypeError(f"pf.fx: got {type(root).__name__}; expected a module or a function")
        self.submodule_paths = {m: name for name, m in self.root.named_modules()}
        self.graph = Graph(tracer_cls=type(self))
        signature, positional, named = self._arguments(function, is_module, concrete)
        unknown = set(concrete) - {p.name for p in signature}
        if unknown:
            raise ValueError(
                f"pf.fx: got concrete_args for {sorted(unknown)}; expected names of "
                f"{[p.name for p in signature]}"
            )
        code = getattr(inspect.unwrap(function), "__code__", None)
        if code is not None and any(p.kind is p.VAR_POSITIONAL for p in signature):
            function = _with_proxies(function, signature, is_module)
        elif any(p.kind is p.VAR_KEYWORD for p in signature):
            function = _with_proxies(function, signature, is_module)
        first = (root,) if is_module else ()
        with _Patches() as patches:
            self._patch(patches, function)
            result = function(*first, *positional, **named)
        returns = getattr(function, "__annotations__", {}).get("return")
        self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=returns)
        self.submodule_paths = None
        return self.graph

    def _patch(self, patches, function):
        import pyflame

        call, get = Module.__call__, Module.__getattr__
        cache, looked = {}, set()
        ours = threading.get_ident()  # modules of other threads do as always meanwhile

        def traced_call(module, *args, **kwargs):
            if threading.get_ident() != ours:
                return call(module, *args, **kwargs)

            def forward(*args, **kwargs):
                return call(module, *args, **kwargs)

            look(getattr(type(module).forward, "__globals__", {}))
            return self.call_module(module, forward, args, kwargs)

        def traced_get(module, name):
            value = get(module, name)
            if threading.get_ident() != ours:
                return value
            return self.getattr(name, value, cache)

        modules = list(self._autowrap_modules)
        if installed():  # the same functions by other names
            modules += map(importlib.import_module, ("torch", "torch.nn.functional"))
        for m in modules:  # names that would be looked up later, and kept
            for name in pyflame._LAZY if m.__name__ in ("pyflame", "torch") else ():
                getattr(m, name, None)
        noted = {id(f): _noting(f) for m in modules for f in _python_functions(m)}
        noted |= {id(f): _noting(f) for f in self._autowrap_functions}

        def look(names):
            """Replaces functions in a module's names."""
            if id(names) in looked:
                return
            looked.add(id(names))
            values = dict(names)
            if "__name__" not in names:  # code of a graph, which may call wrapped builtins
                for _, name in _wrapped:
                    if name not in values and hasattr(builtins, name):
                        values[name] = getattr(builtins, name)
            for name, value in values.items():
                if id(value) in noted:
                    patches.name(names, name, noted[id(value)])

        for (_, name), names in list(_wrapped.items()):
            value = names.get(name, getattr(builtins, name, None))
            if value is not None and not hasattr(value, "_noted"):
                noted[id(value)] = _noting(value)  # also where code of a graph calls it
                patches.name(names, name, noted[id(value)])
        patches.attribute(Module, "__call__", traced_call)
        patches.attribute(Module, "__getattr__", traced_get)
        for m in modules:
            look(vars(m))
        look(getattr(inspect.unwrap(function), "__globals__", {}))


def _with_proxies(function, signature, is_module):
    """A function with *args or **kwargs, called with one proxy for each of these: its body sees the
    proxies themselves."""
    plain = inspect.unwrap(function)
    flags = plain.__code__.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    code = plain.__code__
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    changed = code.replace(
        co_flags=flags, co_argcount=code.co_argcount + code.co_kwonlyargcount + stars,
        co_kwonlyargcount=0, co_posonlyargcount=0,
    )  # fmt: skip
    made = types.FunctionType(changed, plain.__globals__, plain.__name__, None, plain.__closure__)
    order = list(code.co_varnames[: changed.co_argcount])
    kinds = {p.name: p for p in signature}

    def call(*positional, **named):
        given = list(positional)
        values = {}
        if is_module:
            values[order[0]] = given.pop(0)
        for p in kinds.values():
            values[p.name] = named[p.name] if p.name in named else given.pop(0)
        return made(*(values[name] for name in order))

    call.__wrapped__ = function
    call.__annotations__ = getattr(plain, "__annotations__", {})
    return call


def symbolic_trace(root, concrete_args=None):
    """A `GraphModule` of what a module or function does, as `Tracer` finds it.

    Args:
        root: the module or function.
        concrete_args: values of arguments by name, such as flags that decide a branch; lists, tuples and
            dicts may have `PH` where an element stays an argument.

    Raises:
        TraceError: the program's flow depends on values of tensors.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
