"""Proxies: what stands for values while a program is traced, and notes what is done to them."""

import dis
import operator
import sys

from .. import _C
from .node import Node, map_aggregate

__all__ = ["Attribute", "GraphAppendingTracer", "Proxy", "TraceError", "TracerBase"]


class TraceError(ValueError):
    """What a program does to a proxy cannot be noted."""


_PLAIN = (str, int, float, bool, complex, bytes, type(None), type(...), _C.dtype, _C.device, range)


class TracerBase:
    """Makes nodes, and proxies of them. What `Tracer` and `GraphAppendingTracer` share."""

    graph = None

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        """A node of the graph. To be overridden by tracers that add something to each."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node):
        """The proxy of a node. To be overridden by tracers with proxies of their own."""
        return Proxy(node, self)

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None,
                     proxy_factory_fn=None):  # fmt: skip
        """A node, with proxies among its arguments, and its proxy."""
        args, kwargs = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a):
        """A value as an argument of a node: proxies become nodes.

        Raises:
            NotImplementedError: it is no value that a graph may hold.
        """
        return map_aggregate(a, self._leaf)

    def _leaf(self, a):
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, (Node, _PLAIN)):
            return a
        if callable(a) or hasattr(a, "value") or isinstance(a, _C.Tensor):
            return a
        raise NotImplementedError(
            f"pf.fx: got an argument of type {type(a).__name__} in what is traced; expected proxies, "
            "numbers, text, dtypes, devices, functions and containers of them; override create_arg "
            "of the tracer to take it"
        )

    def to_bool(self, obj):
        """The truth of a proxy: TraceError. To be overridden by tracers that know it."""
        raise TraceError(
            f"pf.fx: the program branches on {obj.node}, whose value is not known while it is traced; "
            "expected flow that no tensor's values decide; take the branch out of what is traced "
            "(pf.fx.wrap), or give its condition as concrete_args"
        )

    def iter(self, obj):
        """What iterating over a proxy gives: its items where the statement says how many
        (``a, b = x``), else TraceError."""
        frame = sys._getframe(2)  # through Proxy.__iter__ to the program
        at = frame.f_lasti
        for instruction in dis.get_instructions(frame.f_code):
            if instruction.offset == at and instruction.opname == "UNPACK_SEQUENCE":
                return (obj[i] for i in range(instruction.argval))
        raise TraceError(
            f"pf.fx: the program iterates over {obj.node}, whose length is not known while it is "
            "traced; expected loops over known numbers; loop over range(n), or unpack (a, b = x)"
        )

    def keys(self, obj):
        """The keys of a proxy: as a call of its method."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Puts what happens to proxies into a graph that is there already."""

    def __init__(self, graph):
        super().__init__()
        self.graph = graph


class Proxy:
    """Stands for the value of a node. What is done to it becomes nodes of the tracer's graph (by
    default of the node's own), and gives proxies."""

    def __init__(self, node, tracer=None):
        self.node = node
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer

    def __repr__(self):
        return f"Proxy({self.node.name})"

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):  # Python asks for these, no program
            raise AttributeError(name)
        return Attribute(self, name)

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self):
        return self.tracer.iter(self)

    def keys(self):
        """For ``f(**x)``."""
        return self.tracer.keys(self)

    def __bool__(self):
        return self.tracer.to_bool(self)

    def __len__(self):
        raise RuntimeError(
            "pf.fx: 'len' of what is traced is not known; expected sizes as x.shape or x.size(); to note "
            "the call itself, call pf.fx.wrap('len') in the module"
        )

    def __setitem__(self, key, value):
        self.tracer.create_proxy("call_function", operator.setitem, (self, key, value), {})

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tracer = found(args, kwargs).tracer
        if is_method(func):
            return tracer.create_proxy("call_method", func.__name__, args, kwargs)
        return tracer.create_proxy("call_function", func, args, kwargs)

    __hash__ = object.__hash__


class Attribute(Proxy):
    """An attribute of a proxy: calling it is a call of a method, anything else makes a node for it."""

    def __init__(self, root, attr):
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node = None

    @property
    def node(self):
        if self._node is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = made.node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def is_method(func):
    """Whether an operation is one of Tensor alone."""
    return _C._methods.get(getattr(func, "__name__", None)) is func


def found(*values):
    """A proxy within values, or None."""
    proxies = []
    map_aggregate(values, lambda a: proxies.append(a) if isinstance(a, Proxy) else None)
    return proxies[0] if proxies else None


def _operators():
    def forward(function, name):
        def method(self, *args):
            return self.tracer.create_proxy("call_function", function, (self, *args), {})

        method.__name__ = name
        return method

    def reflected(function, name):
        def method(self, other):
            return self.tracer.create_proxy("call_function", function, (other, self), {})

        method.__name__ = name
        return method

    both = "add sub mul truediv floordiv mod pow lshift rshift and_ or_ xor matmul"
    for name in f"{both} eq ne lt le gt ge neg pos invert getitem abs".split():
        special = f"__{name.rstrip('_')}__"
        setattr(Proxy, special, forward(getattr(operator, name), special))
    for name in both.split():
        special = f"__r{name.rstrip('_')}__"
        setattr(Proxy, special, reflected(getattr(operator, name), special))


_operators()
