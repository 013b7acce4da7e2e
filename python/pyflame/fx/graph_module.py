"""GraphModule: a module that runs a graph."""

import copy
import itertools
import linecache
import weakref

from .._C import Tensor
from .._named_errors import name_methods as _name_methods
from ..nn import Module, Parameter
from .graph import Graph

__all__ = ["GraphModule"]

_numbers = itertools.count()


def _forget(name):
    linecache.cache.pop(name, None)


def _compiled(code):
    """The function that the text defines. Tracebacks show its lines."""
    name = f"<graph {next(_numbers)}>"
    lines = code.src.splitlines(keepends=True)
    linecache.cache[name] = len(code.src), None, lines, name
    names = dict(code.globals)
    exec(compile(code.src, name, "exec"), names)
    forward = names["forward"]
    weakref.finalize(forward, _forget, name).atexit = False
    return forward


class GraphModule(Module):
    """A module whose `forward` is made of a graph.

    `code` is the text of it; after a change of `graph`, `recompile()` makes it anew. What the graph's
    targets name is taken from `root`: the same submodules and tensors, not copies.

    Args:
        root: a module that has all targets of the graph, or a dict of them by their paths.
        graph: the Graph; it is copied when it belongs to another GraphModule.
        class_name: what repr() calls it.
    """

    def __new__(cls, *args, **kwargs):
        # A class for each object: forward is looked up in classes.
        base = next(c for c in cls.__mro__ if "_of_graph" not in vars(c))
        own = type(base.__name__, (base,), {"_of_graph": True, "__module__": base.__module__})
        return object.__new__(own)

    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        type(self).__name__ = class_name
        self.meta = {}
        if isinstance(root, Module):
            self.training = root.training
        elif not isinstance(root, dict):
            raise RuntimeError(
                f"Unsupported type {type(root).__name__} passed for root; expected a module or a dict"
            )
        for n in graph.nodes:
            if n.op not in ("get_attr", "call_module"):
                continue
            if isinstance(root, Module):
                _copy_attr(root, self, n.target)
            elif n.target in root:
                _put(self, n.target, root[n.target])
            else:
                raise RuntimeError(
                    f"pf.fx.GraphModule: the node {n} has the target {n.target}, which the dict has "
                    "not; add it"
                )
        self._graph = None
        self.graph = graph

    @property
    def graph(self):
        """The graph. What is assigned takes its place and is compiled."""
        return self._graph

    @graph.setter
    def graph(self, graph):
        if not isinstance(graph, Graph):
            raise AssertionError(
                f"pf.fx.GraphModule: got a {type(graph).__name__}; expected a Graph"
            )
        owner = graph.owning_module
        self._graph = copy.deepcopy(graph) if owner not in (None, self) else graph
        self._graph.owning_module = self
        self.recompile()

    @property
    def code(self):
        """The Python code that runs."""
        return self._code

    def recompile(self):
        """Makes the code of the graph anew. Returns the PythonCode."""
        python = self._graph.python_code("self")
        self._code = python.src
        type(self).forward = _compiled(python)
        return python

    # ---- submodules by path ---------------------------------------------------------------------

    def add_submodule(self, target, m):
        """Puts a module at a path, with empty modules on the way. False when something else than a
        module is on the way."""
        at = self
        *owners, name = target.split(".")
        for part in owners:
            inner = getattr(at, part, None)
            if inner is None:
                inner = Module()
                setattr(at, part, inner)
            if not isinstance(inner, Module):
                return False
            at = inner
        at.add_module(name, m)
        return True

    def delete_submodule(self, target):
        """Takes the module at a path away. False when there is none."""
        *owners, name = target.split(".")
        try:
            at = self.get_submodule(".".join(owners))
        except AttributeError:
            return False
        if not isinstance(getattr(at, name, None), Module):
            return False
        delattr(at, name)
        return True

    def delete_all_unused_submodules(self):
        """Takes away the modules that no node calls or reads."""
        used = set()
        for n in self._graph.nodes:
            if n.op in ("call_module", "get_attr"):
                parts = n.target.split(".")
                used.update(".".join(parts[:i]) for i in range(1, len(parts) + 1))
                if n.op == "call_module":
                    inner = self.get_submodule(n.target).named_modules()
                    used.update(f"{n.target}.{name}" for name, _ in inner if name)
        for name in [name for name, _ in self.named_modules()]:
            if name and name not in used:
                self.delete_submodule(name)

    # ---- text, copies ---------------------------------------------------------------------------

    def print_readable(self, print_output=True, **unused):
        """The code, as of a class; prints and returns it."""
        body = self._code.strip("\n").replace("\n", "\n    ")
        text = f"class {type(self).__name__}(Module):\n    {body}\n"
        if print_output:
            print(text)
        return text

    def __str__(self):
        return f"{super().__repr__()}\n{self._code}\n"

    def __reduce__(self):
        attributes = {k: v for k, v in vars(self).items() if k not in ("_graph", "_code")}
        return _module_of, (attributes, self._graph, type(self).__name__)

    def __copy__(self):
        return GraphModule(self, copy.deepcopy(self._graph), type(self).__name__)

    def __deepcopy__(self, memo):
        make, (attributes, graph, name) = self.__reduce__()
        made = make(copy.deepcopy(attributes, memo), copy.deepcopy(graph), name)
        memo[id(self)] = made
        return made


def _module_of(attributes, graph, name):
    """A GraphModule with these attributes, also those that no node names."""
    made = GraphModule(_CodeOnlyModule(attributes), graph, name)
    vars(made).update(attributes)
    return made


def _found(root, path):
    value = root
    for part in path.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise RuntimeError(
                f"pf.fx.GraphModule: a node has the target {path}, and the root has no {part} there; "
                "expected an attribute; add it to the root"
            ) from None
    return value


def _put(module, path, value):
    """Puts a value at a path below a module, with empty modules on the way."""
    *owners, name = path.split(".")
    at = module
    for part in owners:
        if not isinstance(getattr(at, part, None), Module):
            setattr(at, part, Module())
        at = getattr(at, part)
    # Modules of longer paths may be there already, with parts of this one.
    if name in at._modules or getattr(at, name, None) is value:
        return
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        at.register_buffer(name, value)
    else:
        setattr(at, name, value)


def _copy_attr(from_module, to_module, target):
    """Gives a module what another has at a path: the same object."""
    _put(to_module, target, _found(from_module, target))


class _CodeOnlyModule(Module):
    """A module of attributes, for copies."""

    def __init__(self, body):
        super().__init__()
        self.__dict__.update(body)


_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


_name_methods(__name__, "GraphModule")
