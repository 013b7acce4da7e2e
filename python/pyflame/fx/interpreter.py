"""Runs graphs node by node, and makes graphs of graphs."""

from .._named_errors import name_errors as _name_errors
from ..nn import Module
from .graph import Graph
from .graph_module import GraphModule
from .node import Node, map_aggregate
from .proxy import Proxy
from .tracing import Tracer

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph node by node. Its methods, one for each kind of node, may be overridden.

    Args:
        module: a GraphModule, or a module in which the targets of `graph` are.
        garbage_collect_values: lets go of each value behind its last use.
        graph: the graph to run in place of the module's.
    """

    def __init__(self, module, garbage_collect_values=True, graph=None):
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph = module.graph if graph is None else graph
        self.env = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.user_to_last_uses = {}
        seen = set()
        for user in reversed(list(self.graph.nodes)):
            for n in user.all_input_nodes:
                if n not in seen:
                    seen.add(n)
                    self.user_to_last_uses.setdefault(user, []).append(n)

    def run(self, *args, initial_env=None, enable_io_processing=True):
        """What the graph gives for arguments. `initial_env` has values of nodes that need not run; with
        `enable_io_processing` arguments and result are those of the graph's `CodeGen`."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        for n in self.graph.nodes:
            if n in self.env:
                continue
            self.env[n] = self.run_node(n)
            if self.garbage_collect_values:
                for done in self.user_to_last_uses.get(n, ()):
                    del self.env[done]
            if n.op == "output":
                result = self.env[n]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def run_node(self, n):
        """The value of a node, whose inputs have been run."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target, args, kwargs):
        """The next argument, or the default in `args`."""
        if target.startswith("**"):
            return {}
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"pf.fx.Interpreter: got no value for the argument {target}; expected one for each "
                "placeholder without a default"
            ) from None

    def get_attr(self, target, args, kwargs):
        """An attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target, args, kwargs):
        """What the function gives."""
        return target(*args, **kwargs)

    def call_method(self, target, args, kwargs):
        """What the method of the first argument gives."""
        self_obj, *rest = args
        return getattr(self_obj, target)(*rest, **kwargs)

    def call_module(self, target, args, kwargs):
        """What the submodule gives."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target, args, kwargs):
        """What the graph returns."""
        return args[0]

    def fetch_attr(self, target):
        """An attribute of the module by its path; RuntimeError when there is none."""
        value = self.module
        for part in target.split("."):
            if not hasattr(value, part):
                raise RuntimeError(
                    f"pf.fx.Interpreter: the target {target} is not there: no {part}"
                )
            value = getattr(value, part)
        return value

    def fetch_args_kwargs_from_env(self, n):
        """The values of a node's arguments: (args, kwargs)."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args, n):
        """Arguments of the node `n` with values in place of nodes, in plain lists and dicts."""

        def value(node):
            if node not in self.env:
                raise RuntimeError(
                    f"pf.fx.Interpreter: {n} needs {node}, which has not been run; run lint()"
                )
            return self.env[node]

        return _plain(args, value)


def _plain(a, value):
    if isinstance(a, Node):
        return value(a)
    if isinstance(a, tuple):
        made = tuple(_plain(x, value) for x in a)
        return type(a)(*made) if hasattr(a, "_fields") else made
    if isinstance(a, list):
        return [_plain(x, value) for x in a]
    if isinstance(a, dict):
        return {k: _plain(v, value) for k, v in a.items()}
    if isinstance(a, slice):
        return slice(*(_plain(x, value) for x in (a.start, a.stop, a.step)))
    return a


class _TransformerTracer(Tracer):
    def is_leaf_module(self, m, module_qualified_name):
        return True


class Transformer(Interpreter):
    """An Interpreter whose values are proxies: what its methods do becomes a new graph. Override
    `call_function` and others to change what stands there, and call `transform()`."""

    def __init__(self, module):
        super().__init__(module)
        self.new_graph = Graph(tracer_cls=getattr(module.graph, "_tracer_cls", None))
        self.tracer = _TransformerTracer()
        self.tracer.graph, self.tracer.root = self.new_graph, module
        self.tracer.submodule_paths = {m: name for name, m in module.named_modules()}

    def placeholder(self, target, args, kwargs):
        return self.tracer.create_proxy("placeholder", target, args, {})

    def get_attr(self, target, args, kwargs):
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target, args, kwargs):
        return self.tracer.call_module(self.fetch_attr(target), None, args, kwargs)

    def call_function(self, target, args, kwargs):
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target, args, kwargs):
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self):
        """The GraphModule of what the methods did."""
        result = super().run()
        if result is not None:
            self.new_graph.output(
                map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a)
            )
        for old, new in zip(self.graph.nodes, self.new_graph.nodes, strict=False):
            if old.op == new.op == "placeholder":
                new.type = old.type
        if not isinstance(self.module, Module):
            raise TypeError("pf.fx.Transformer: expected a module")
        return GraphModule(self.module, self.new_graph, type(self.module).__name__)


_name_errors(__name__)
