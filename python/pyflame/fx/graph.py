"""Graphs: nodes in order."""

import copy
import re

from .._named_errors import name_methods as _name_methods
from .code import Namespace, PythonCode, Writer
from .node import Node, map_aggregate, map_arg

__all__ = ["CodeGen", "Graph", "PythonCode"]


class CodeGen:
    """How code is made of a graph: as one function of the placeholders. Subclasses say otherwise, and
    are given to `Graph.set_codegen`."""

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        """The text of the function's head, whose parameters are the placeholders `free_vars`; a line
        within it has four spaces."""
        if not free_vars or free_vars[0] != "self":
            free_vars = ["self", *free_vars]
        return f"def forward({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args):
        """The text of the statement that returns `output_args`: nodes, whose texts are their names,
        values, and containers of them."""
        return f"return {output_args!r}"

    def additional_globals(self):
        """Names that these texts need, and what they are: pairs."""
        return []

    def process_inputs(self, *args):
        """The values of the placeholders, of what the function is called with: for an Interpreter."""
        return args

    def process_outputs(self, outputs):
        """What the function returns, of the graph's result: for an Interpreter."""
        return outputs


class _Restored:
    """Within it a graph's transformer of code is another one."""

    def __init__(self, graph, before):
        self.graph, self.before = graph, before

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.graph._transform_code = self.before


class _Nodes:
    """The nodes of a graph in order, for loops that insert and erase as they go."""

    def __init__(self, graph, backward=False):
        self.graph, self.backward = graph, backward

    def __len__(self):
        return self.graph._count

    def __iter__(self):
        root = self.graph._root
        n = root._before if self.backward else root._after
        while n is not root:
            if not n._erased:
                yield n
            n = n._before if self.backward else n._after

    def __reversed__(self):
        return _Nodes(self.graph, not self.backward)


def _words(name):
    """A class's name in the form of others: CamelCase becomes camel_case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() if name[:1].isupper() else name


class Graph:
    """A program as a list of nodes, each behind those it uses.

    New nodes go to the end, or where `inserting_before` and `inserting_after` say.
    """

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None):
        self._root = Node(self, "", "root", "")
        self._count = 0
        self._place = self._root.prepend
        self._namespace = Namespace()
        self.owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self._transform_code = None

    @property
    def nodes(self):
        """The nodes in order. Erasing and inserting within a loop is fine."""
        return _Nodes(self)

    def output_node(self):
        """The node that says what is returned."""
        return next(n for n in reversed(self.nodes) if n.op == "output")

    def find_nodes(self, *, op, target=None, sort=True):
        """The nodes of a kind, and with a target where there is one, in order."""
        if op == "call_function" and target is None:
            raise AssertionError("pf.fx.Graph.find_nodes: target is needed for call_function")
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    # ---- new nodes ------------------------------------------------------------------------------

    @staticmethod
    def _target_to_str(target):
        name = (
            target
            if isinstance(target, str)
            else getattr(target, "__name__", type(target).__name__)
        )
        if name.startswith("__") and name.endswith("__"):
            name = name[2:-2]
        return _words(name)

    def create_node(self, op, target, args=None, kwargs=None, name=None, type_expr=None):
        """A new node at the place where nodes go now; `name` with a number behind it where it is taken."""
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        name = self._namespace.create_name(name or self._target_to_str(target))
        n = Node(self, name, op, target, args, kwargs, type_expr)
        self._place(n)
        self._count += 1
        return n

    def placeholder(self, name, type_expr=None, default_value=...):
        """An argument of the graph; without `default_value` it must be given."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name, type_expr=None):
        """An attribute of the module that will run the graph, by its path."""
        name = qualified_name.replace(".", "_")
        return self.create_node("get_attr", qualified_name, name=name, type_expr=type_expr)

    def call_module(self, module_name, args=None, kwargs=None, type_expr=None):
        """A call of a submodule, by its path."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name, args=None, kwargs=None, type_expr=None):
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name=None):
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result, type_expr=None):
        """What the graph returns: nodes, values, and containers of them."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node, arg_transform=lambda x: x):
        """A copy of a node of another graph; `arg_transform` gives this graph's node for one of that."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(self, g, val_map, return_output_node=False):
        """Copies the nodes of `g` to here, but those that `val_map` has already, and notes them there.
        Returns what its output node has as argument, in this graph's nodes."""
        for n in g.nodes:
            if n in val_map:
                continue
            if n.op == "output":
                result = map_arg(n.args[0], lambda x: val_map[x])
                return (result, n) if return_output_node else result
            val_map[n] = self.node_copy(n, lambda x: val_map[x])
        return None

    # ---- places ---------------------------------------------------------------------------------

    def _inserting(self, place):
        self._place, before = place, self._place
        graph = self

        class _Restore:
            def __enter__(self):
                return self

            def __exit__(self, *unused):
                graph._place = before

        return _Restore()

    def inserting_before(self, n=None):
        """From here, or within a ``with`` block, new nodes go before `n` (None: the first)."""
        if n is None:
            return self.inserting_after(self._root)
        self._owns(n)
        return self._inserting(n.prepend)

    def inserting_after(self, n=None):
        """From here, or within a ``with`` block, new nodes go behind `n` (None: the last), in order."""
        if n is None:
            return self.inserting_before(self._root)
        self._owns(n)
        at = [n]

        def place(new):
            at[0].append(new)
            at[0] = new

        return self._inserting(place)

    def _owns(self, n):
        if n.graph is not self:
            raise ValueError(
                f"pf.fx.Graph: the node {n} belongs to another graph; expected one of this"
            )

    # ---- changes --------------------------------------------------------------------------------

    def erase_node(self, to_erase):
        """Takes a node away that nobody uses."""
        if to_erase.users:
            raise RuntimeError(
                f"pf.fx.Graph.erase_node: {to_erase} is used by {list(to_erase.users)}; expected a node "
                "without users; call replace_all_uses_with first"
            )
        self._owns(to_erase)
        if to_erase._erased:
            return
        to_erase._take((), {})
        # Its own links stay, so that a loop which stands there goes on.
        to_erase._unlink()
        to_erase._erased = True
        self._count -= 1

    def eliminate_dead_code(self, is_impure_node=None):
        """Erases what nobody uses and what writes nothing; says whether there was any. Placeholders
        stay."""
        impure = is_impure_node or Node.is_impure
        self.lint()
        dead = False
        for n in reversed(self.nodes):
            if not n.users and n.op not in ("placeholder", "output") and not impure(n):
                self.erase_node(n)
                dead = True
        return dead

    def lint(self):
        """Checks the graph: every node is behind those it uses, names are taken once, and targets are
        in the owning module.

        Raises:
            RuntimeError: something is wrong; the message says what.
        """
        before, names = set(), set()
        for n in self.nodes:
            if n.graph is not self:
                raise RuntimeError(f"pf.fx.Graph.lint: the node {n} belongs to another graph")
            for used in n.all_input_nodes:
                if used.graph is not self:
                    raise RuntimeError(
                        f"pf.fx.Graph.lint: {n} uses {used}, which belongs to another graph"
                    )
                if used not in before:
                    raise RuntimeError(
                        f"pf.fx.Graph.lint: {n} uses {used} before it has been defined; expected it "
                        "in front; move one of them"
                    )
            if n.name in names:
                raise RuntimeError(f"pf.fx.Graph.lint: two nodes are called {n.name}")
            names.add(n.name)
            before.add(n)
            if self.owning_module is not None and n.op in ("get_attr", "call_module"):
                self._find(n)

    def _find(self, n):
        value = self.owning_module
        for part in n.target.split("."):
            if not hasattr(value, part):
                raise RuntimeError(
                    f"pf.fx.Graph.lint: {n} has the target {n.target}, and there is no {part}; "
                    "expected an attribute of the owning module; add it"
                )
            value = getattr(value, part)
        if n.op == "call_module" and not callable(value):
            raise RuntimeError(f"pf.fx.Graph.lint: the target {n.target} of {n} is no module")

    # ---- how code is made -----------------------------------------------------------------------

    def set_codegen(self, codegen):
        """Has code made by a `CodeGen`; call `recompile` of the GraphModule afterwards."""
        self._codegen = codegen

    def process_inputs(self, *args):
        """The values of the placeholders, of what the code is called with."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        """What the code returns, of the graph's result."""
        return self._codegen.process_outputs(out)

    def on_generate_code(self, make_transformer):
        """Has the lines of the code's body changed when code is made: by what `make_transformer` returns,
        called with the function that did so before (or None). It gets a list of lines that end in a line
        break, and returns one. As a context manager it puts the one before back.
        """
        before = self._transform_code
        self._transform_code = make_transformer(before)
        return _Restored(self, before)

    # ---- text -----------------------------------------------------------------------------------

    def python_code(self, root_module, **unused):
        """PythonCode: `src`, a function `forward` whose first parameter is called `root_module`, and
        `globals`, what its other names mean."""
        return Writer(self).write(root_module)

    def __str__(self):
        arguments = []
        lines = [n.format_node() for n in self.nodes]
        return "\n    ".join([f"graph({', '.join(arguments)}):", *lines])

    def print_tabular(self):
        """Prints the nodes as a table."""
        head = ("opcode", "name", "target", "args", "kwargs")
        rows = [tuple(map(str, (n.op, n.name, n.target, n.args, n.kwargs))) for n in self.nodes]
        widths = [max(len(r[i]) for r in (head, *rows)) for i in range(len(head))]
        for row in (head, tuple("-" * w for w in widths), *rows):
            print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())

    def __reduce__(self):
        at = {n: _Reference(i) for i, n in enumerate(self.nodes)}
        records = [
            (n.op, n.target, map_arg(n.args, at.get), map_arg(n.kwargs, at.get), n.name, n.type)
            for n in self.nodes
        ]
        return _graph_of, (records, self._codegen)

    def __deepcopy__(self, memo):
        made = Graph(tracer_cls=self._tracer_cls)
        made._codegen = copy.deepcopy(self._codegen, memo)
        of = {}
        for n in self.nodes:
            of[n] = made.node_copy(n, lambda x: of[x])
        return made


class _Reference:
    """Where a node stands, in a pickled graph."""

    def __init__(self, at):
        self.at = at


def _graph_of(records, codegen=None):
    """The graph that was pickled: links between nodes would lead pickle as deep as it is long."""
    graph, nodes = Graph(), []
    if codegen is not None:
        graph._codegen = codegen

    def node(a):
        return nodes[a.at] if isinstance(a, _Reference) else a

    for op, target, args, kwargs, name, kind in records:
        args, kwargs = map_aggregate(args, node), map_aggregate(kwargs, node)
        nodes.append(graph.create_node(op, target, args, kwargs, name, kind))
    return graph


_name_methods(__name__, "Graph")
