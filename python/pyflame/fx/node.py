"""Nodes: the operations of a graph."""

import builtins
import operator
import types

from .._named_errors import name_errors as _name_errors
from .immutable_collections import immutable_dict, immutable_list

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
Target = Argument = object  # for annotations

_side_effects = {setattr, operator.setitem, operator.delitem}
_IN_PLACE = {
    getattr(operator, name)
    for name in ("iadd iand ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv "
                 "ixor iconcat").split()
}  # fmt: skip


def has_side_effect(fn):
    """Notes that calls of a function stay in graphs though nobody uses their result; returns it."""
    _side_effects.add(fn)
    return fn


def map_aggregate(a, fn):
    """`fn` of every value that is no container; tuples, lists, dicts and slices are made again."""
    if isinstance(a, tuple):
        made = tuple(map_aggregate(x, fn) for x in a)
        return type(a)(*made) if hasattr(a, "_fields") else made
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict([(k, map_aggregate(v, fn)) for k, v in a.items()])
    if isinstance(a, slice):
        return slice(*(map_aggregate(x, fn) for x in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a, fn):
    """`fn` of every node within an argument; the rest stays."""
    if not callable(fn):
        raise TypeError(f"pf.fx.map_arg: got fn of type {type(fn).__name__}; expected a function")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def package():
    """What this package is called in code and in printed graphs: torch, where that name is in use."""
    from .._torch import installed

    return "torch" if installed() else "pyflame"


def _own_name(target):
    """The name below the package of an operation or function of ours, or None."""
    import pyflame
    from pyflame.nn import functional

    name = getattr(target, "__name__", "")
    for owner, where in (
        (pyflame, ""),
        (functional, "nn.functional."),
        (pyflame.Tensor, "Tensor."),
    ):
        if getattr(owner, name, None) is target:
            return where + name
    return None


def qualified_name(target):
    """Where a function is found: "torch.add", "operator.mul", "my_module.my_function"."""
    name = getattr(target, "__name__", type(target).__name__)
    if getattr(builtins, name, None) is target:
        return f"builtins.{name}"
    own = _own_name(target)
    if own is not None:
        return f"{package()}.{own}"
    module = getattr(target, "__module__", None) or "builtins"
    return f"{'operator' if module == '_operator' else module}.{name}"


class Node:
    """One operation of a graph.

    `op` says what kind it is, and `target` what it calls: "placeholder" (an argument of the graph; its
    name), "get_attr" (a parameter or other attribute; its path), "call_function" (a function),
    "call_module" (a submodule; its path), "call_method" (a method of the first argument; its name),
    "output" (what the graph returns). `args` and `kwargs` are the arguments, in which nodes stand for
    their results; `users` are the nodes that use this one. `meta` is a dict for whoever rewrites.
    """

    def __init__(self, graph, name, op, target, args=(), kwargs=None, return_type=None):
        if op not in OPS:
            raise ValueError(f"pf.fx.Node: got op {op!r}; expected one of {', '.join(OPS[:-1])}")
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"pf.fx.Node: got target {target!r} of a call_function; expected a function"
                )
        elif not isinstance(target, str):
            raise ValueError(f"pf.fx.Node: got target {target!r} of a {op}; expected text")
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.type = return_type
        self.users, self._inputs = {}, {}
        self.meta = {}
        self._before = self._after = self
        self._erased = False
        self._args, self._kwargs = (), immutable_dict()
        self._take(args, kwargs or {})

    # ---- arguments ------------------------------------------------------------------------------

    def _take(self, args, kwargs):
        if not isinstance(args, (tuple, list)) or not isinstance(kwargs, dict):
            raise TypeError("pf.fx.Node: args are a tuple and kwargs a dict")
        for used in self._inputs:
            used.users.pop(self, None)
        self._inputs = {}

        def note(n):
            self._inputs[n] = None
            n.users[self] = None
            return n

        self._args, self._kwargs = map_arg(tuple(args), note), map_arg(dict(kwargs), note)

    @property
    def args(self):
        return self._args

    @args.setter
    def args(self, args):
        self._take(args, self._kwargs)

    @property
    def kwargs(self):
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs):
        self._take(self._args, kwargs)

    @property
    def all_input_nodes(self):
        """The nodes that stand in args and kwargs, each once."""
        return list(self._inputs)

    @property
    def _input_nodes(self):
        return self._inputs

    def update_arg(self, idx, arg):
        """Puts `arg` into the place `idx` of args."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx, arg):
        """Puts `arg` before the place `idx` of args."""
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key, arg):
        """Puts `arg` under `key` of kwargs."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input, new_input):
        """Uses `new_input` wherever this node uses `old_input`."""
        self._take(
            map_arg(self._args, lambda n: new_input if n is old_input else n),
            map_arg(self._kwargs, lambda n: new_input if n is old_input else n),
        )

    def replace_all_uses_with(self, replace_with, delete_user_cb=lambda user: True, *,
                              propagate_meta=False):  # fmt: skip
        """Has the users of this node use `replace_with`; those alone for which `delete_user_cb` is true.
        Returns the nodes that were users."""
        if propagate_meta:
            if replace_with.meta:
                raise ValueError(
                    "pf.fx.Node.replace_all_uses_with: propagate_meta=True, and the new node has meta "
                    "of its own; expected none"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # ---- order ----------------------------------------------------------------------------------

    @property
    def next(self):
        """The node behind this one."""
        return self._after

    @property
    def prev(self):
        """The node before this one."""
        return self._before

    def _unlink(self):
        self._before._after, self._after._before = self._after, self._before

    def prepend(self, x):
        """Moves the node `x` to the place before this one."""
        if x.graph is not self.graph:
            raise ValueError("pf.fx.Node: nodes of two graphs have no order; expected one graph")
        if x is self:
            return
        x._unlink()
        before = self._before
        before._after, x._before = x, before
        x._after, self._before = self, x

    def append(self, x):
        """Moves the node `x` to the place behind this one."""
        if x is not self:
            self._after.prepend(x)

    def __lt__(self, other):
        return self._position() < other._position()

    def __gt__(self, other):
        return other < self

    def __le__(self, other):
        return self is other or self < other

    def __ge__(self, other):
        return self is other or other < self

    def _position(self):
        return next(i for i, n in enumerate(self.graph.nodes) if n is self)

    # ---- what it is -----------------------------------------------------------------------------

    def is_impure(self, impure_random=True):
        """Whether it stays in a graph though nobody uses it: arguments, outputs, what writes (methods
        and functions whose names end with _) and what `has_side_effect` was told of."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_method":
            return self.target.endswith("_") and not self.target.endswith("__")
        if self.op == "call_function":
            name = getattr(self.target, "__name__", "")
            return (
                self.target in _side_effects
                or getattr(self.target, "has_side_effect", False)
                or self.target in _IN_PLACE
                or (name.endswith("_") and hasattr(self.target, "schemas"))
                or bool(self._kwargs.get("inplace", False))
                or self._kwargs.get("out") is not None
            )
        if self.op == "call_module":
            owner = self.graph.owning_module
            module = owner.get_submodule(self.target) if owner is not None else None
            return bool(getattr(module, "is_impure", False) or getattr(module, "inplace", False))
        return False

    @property
    def stack_trace(self):
        """Where the program made it, as `meta` says."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace):
        self.meta["stack_trace"] = trace

    def _pretty_print_target(self, target):
        return target if isinstance(target, str) else qualified_name(target)

    def format_node(self, placeholder_names=None, maybe_return_typename=None):
        """The node as text: a line of the printed graph; for an argument and the output what they are
        when a list takes arguments' names."""
        kind = f" {self.type}" if self.type else ""
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(f"{self.target}{kind}")
                return None
            default = f"(default={self.args[0]!r})" if self.args else ""
            head = f"%{self.name} : [num_users={len(self.users)}] = placeholder"
            return f"{head}[target={self.target}]{default}"
        if self.op == "output":
            return f"return {self.args[0]!r}" if self.args else "return"
        head = f"%{self.name} : [num_users={len(self.users)}] = {self.op}"
        head += f"[target={self._pretty_print_target(self.target)}]"
        if self.op == "get_attr":
            return head
        return f"{head}(args = {_shown(self.args)}, kwargs = {_shown(self.kwargs)})"

    def __repr__(self):
        return self.name

    def __deepcopy__(self, memo):
        raise TypeError("pf.fx.Node: a node belongs to a graph; copy the graph, or use node_copy")


def _shown(a):
    if isinstance(a, tuple):
        inner = ", ".join(map(_shown, a))
        return f"({inner},)" if len(a) == 1 else f"({inner})"
    if isinstance(a, list):
        return f"[{', '.join(map(_shown, a))}]"
    if isinstance(a, dict):
        return "{" + ", ".join(f"{k}: {_shown(v)}" for k, v in a.items()) + "}"
    if isinstance(a, (types.FunctionType, types.BuiltinFunctionType)):
        return qualified_name(a)
    return f"%{a}" if isinstance(a, Node) else str(a)


_name_errors(__name__, "map_aggregate")
