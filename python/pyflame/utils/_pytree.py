"""Nested containers as a list of leaves and a description, and back; names as in torch.utils._pytree.

Lists, tuples, named tuples, results of operations with names, dicts, OrderedDicts, defaultdicts, deques
and registered classes are containers; everything else, None too, is a leaf. Dicts are walked in their own order.
"""

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._named_errors import name_errors as _name_errors

_registered, _with_keys = {}, {}


def _is_named_tuple(cls):
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


is_namedtuple_class = _is_named_tuple


def is_namedtuple(obj):
    """Whether a value is a named tuple."""
    return _is_named_tuple(type(obj))


is_namedtuple_instance = is_namedtuple


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None,
                         to_dumpable_context=None, from_dumpable_context=None,
                         flatten_with_keys_fn=None):  # fmt: skip
    """Makes values of a class containers: `flatten_fn` gives their values as a list and what else is
    needed to make one of such a list; `unflatten_fn` takes both."""
    _registered[cls] = flatten_fn, unflatten_fn
    if flatten_with_keys_fn is not None:
        _with_keys[cls] = flatten_with_keys_fn


_register_pytree_node = register_pytree_node


def _nothing(value):
    return [], value


def register_constant(cls):
    """Makes values of a class containers of nothing, which are given back as they were."""
    register_pytree_node(cls, _nothing, lambda values, context: context)


def is_constant_class(cls):
    """Whether register_constant() was called with a class."""
    return cls in _registered and _registered[cls][0] is _nothing


_KINDS = {
    list: (lambda v: (list(v), None), lambda values, context: list(values)),
    tuple: (lambda v: (list(v), None), lambda values, context: tuple(values)),
    dict: (lambda v: (list(v.values()), list(v)), lambda values, keys: dict(zip(keys, values))),
    OrderedDict: (
        lambda v: (list(v.values()), list(v)),
        lambda values, keys: OrderedDict(zip(keys, values)),
    ),
    defaultdict: (
        lambda v: (list(v.values()), [v.default_factory, list(v)]),
        lambda values, of: defaultdict(of[0], zip(of[1], values)),
    ),
    deque: (lambda v: (list(v), v.maxlen), lambda values, most: deque(values, maxlen=most)),
}
_NAMED = (lambda v: (list(v), type(v)), lambda values, cls: cls(*values))


def _dict_flatten(d):
    return list(d.values()), list(d)


def _dict_unflatten(values, context):
    return dict(zip(context, values))


@dataclass(frozen=True)
class MappingKey:
    """A step into a dict."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        """The value there."""
        return mapping[self.key]


@dataclass(frozen=True)
class SequenceKey:
    """A step into a list or tuple."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        """The value there."""
        return sequence[self.idx]


@dataclass(frozen=True)
class GetAttrKey:
    """A step to an attribute."""

    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        """The value there."""
        return getattr(obj, self.name)


def _dict_flatten_with_keys(d):
    return [(MappingKey(k), v) for k, v in d.items()], list(d)


def _steps(tree, kind):
    """(step, value) for each value of a container."""
    with_keys = _with_keys.get(type(tree))
    if with_keys is not None:
        return with_keys(tree)[0]
    if isinstance(tree, dict):
        return _dict_flatten_with_keys(tree)[0]
    if _is_named_tuple(type(tree)):
        return [(GetAttrKey(n), v) for n, v in zip(tree._fields, tree)]
    return [(SequenceKey(i), v) for i, v in enumerate(kind[1][0](tree)[0])]


def tree_leaves_with_path(tree, is_leaf=None):
    """(path, leaf) of each leaf; a path is a tuple of steps, whose get() follows them."""
    kind = None if is_leaf is not None and is_leaf(tree) else _kind(tree)
    if kind is None:
        return [((), tree)]
    return [
        ((step, *path), leaf)
        for step, value in _steps(tree, kind)
        for path, leaf in tree_leaves_with_path(value, is_leaf)
    ]


def tree_flatten_with_path(tree, is_leaf=None):
    """(the leaves with their paths as a list, the TreeSpec)."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """tree_map with a function that also gets the path."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [_leaves_up_to(r, spec) for r in rests]
    leaves = [func(path, leaf, *more) for (path, leaf), *more in zip(found, *others)]
    return tree_unflatten(leaves, spec)


def keystr(kp):
    """A path as text."""
    return "".join(map(str, kp))


def key_get(obj, kp):
    """What is at the end of a path."""
    for step in kp:
        obj = step.get(obj)
    return obj


def _kind(value):
    """(its type as a key, how it is taken apart and put together), or None of a leaf."""
    cls = type(value)
    if cls in _registered:
        return cls, _registered[cls]
    if cls in _KINDS:
        return cls, _KINDS[cls]
    if cls.__module__ == "pyflame.return_types":  # what topk() and others give
        _KINDS[cls] = (lambda v: (list(v), None), lambda values, context: cls(values))
        return cls, _KINDS[cls]
    return ("namedtuple", _NAMED) if _is_named_tuple(cls) else None


@dataclass
class TreeSpec:
    """What a tree is without its leaves."""

    type: Any
    context: Any
    children_specs: list
    num_nodes: int = field(init=False)
    num_leaves: int = field(init=False)
    num_children: int = field(init=False)

    def __post_init__(self):
        leaf = self.type is None
        self.num_nodes = 1 + sum(c.num_nodes for c in self.children_specs)
        self.num_leaves = 1 if leaf else sum(c.num_leaves for c in self.children_specs)
        self.num_children = len(self.children_specs)

    def is_leaf(self):
        """Whether it stands for one value."""
        return self.type is None

    def __hash__(self):
        return hash((str(self.type), self.num_nodes, self.num_leaves))

    def unflatten(self, leaves):
        """The tree with these leaves."""
        return tree_unflatten(leaves, self)


class LeafSpec(TreeSpec):
    """What a leaf is without its value: nothing."""

    def __init__(self):
        super().__init__(None, None, [])

    def __repr__(self):
        return "*"


PyTreeSpec = TreeSpec


def tree_is_leaf(tree, is_leaf=None):
    """Whether a value is no container."""
    return (is_leaf is not None and is_leaf(tree)) or _kind(tree) is None


class _Nodes(Mapping):
    """How the classes of containers are taken apart and put together, by class."""

    def _all(self):
        return {"namedtuple": _NAMED, **_KINDS, **_registered}

    def __getitem__(self, cls):
        return NodeDef(cls, *self._all()[cls])

    def __iter__(self):
        return iter(self._all())

    def __len__(self):
        return len(self._all())


NodeDef = namedtuple("NodeDef", "type flatten_fn unflatten_fn")
SUPPORTED_NODES = _Nodes()
PyTree = Any


def _get_node_type(tree):
    kind = _kind(tree)
    return type(tree) if kind is None else kind[0]


def _flatten(tree, leaves, is_leaf):
    kind = None if is_leaf is not None and is_leaf(tree) else _kind(tree)
    if kind is None:
        leaves.append(tree)
        return LeafSpec()
    key, (apart, _) = kind
    values, context = apart(tree)
    return TreeSpec(key, context, [_flatten(v, leaves, is_leaf) for v in values])


def tree_flatten(tree, is_leaf=None):
    """(the leaves as a list, the TreeSpec)."""
    leaves = []
    spec = _flatten(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves, treespec):
    """The tree of a TreeSpec with these leaves; ValueError unless there are as many as it has."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"pf.utils._pytree.tree_unflatten: got {len(leaves)} leaves; expected "
            f"{treespec.num_leaves}, as the tree has"
        )
    return _put_together(iter(leaves), treespec)


def _put_together(leaves, spec):
    if spec.type is None:
        return next(leaves)
    kind = _NAMED if spec.type == "namedtuple" else _registered.get(spec.type) or _KINDS[spec.type]
    return kind[1]([_put_together(leaves, c) for c in spec.children_specs], spec.context)


def tree_leaves(tree, is_leaf=None):
    """The leaves as a list."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree, is_leaf=None):
    """The leaves, one after the other."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree, is_leaf=None):
    """The TreeSpec."""
    return tree_flatten(tree, is_leaf)[1]


def _leaves_up_to(tree, spec):
    """Parts of a tree where another one, of which it has all containers, has leaves."""
    if spec.type is None:
        return [tree]
    kind = _kind(tree)
    if kind is None or kind[0] != spec.type:
        raise ValueError(
            f"pf.utils._pytree.tree_map: got trees of different structure ({type(tree).__name__} "
            f"where the first has {spec.type}); expected the same"
        )
    values, context = kind[1][0](tree)
    if len(values) != spec.num_children:
        raise ValueError(
            f"pf.utils._pytree.tree_map: got trees of different structure ({len(values)} values "
            f"where the first has {spec.num_children}); expected the same"
        )
    if isinstance(tree, dict) and list(tree) != spec.context:
        keys = spec.context[1] if isinstance(tree, defaultdict) else spec.context
        if set(tree) != set(keys):
            raise ValueError("pf.utils._pytree.tree_map: got dicts with different keys")
        values = [tree[k] for k in keys]
    return [leaf for v, c in zip(values, spec.children_specs) for leaf in _leaves_up_to(v, c)]


def tree_map(func, tree, *rests, is_leaf=None):
    """A tree of `func` of each leaf, and of what other trees have in its place."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [_leaves_up_to(r, spec) for r in rests]
    return tree_unflatten([func(*of) for of in zip(leaves, *others)], spec)


def tree_map_(func, tree, *rests, is_leaf=None):
    """Calls `func` with each leaf; returns the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _only(kinds, func):
    if callable(kinds) and not isinstance(kinds, type):
        return lambda x: func(x) if kinds(x) else x
    return lambda x: func(x) if isinstance(x, kinds) else x


def tree_map_only(type_or_types_or_pred, func, tree, is_leaf=None):
    """tree_map over leaves of some types, or for which a predicate is true; others stay."""
    return tree_map(_only(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, func, tree, is_leaf=None):
    """tree_map_ over leaves of some types; returns the tree itself."""
    return tree_map_(_only(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    """Whether a predicate is true for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    """Whether a predicate is true for a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(type_or_types, pred, tree, is_leaf=None):
    """Whether a predicate is true for all leaves of some types."""
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(type_or_types, pred, tree, is_leaf=None):
    """Whether a predicate is true for a leaf of some types."""
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, type_or_types))


_name_errors(__name__)
