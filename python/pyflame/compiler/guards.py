"""What a captured step depends on, and how changes of it are noticed."""

import collections
import functools
import itertools
import sys
import types

from .. import _C
from .._grad_mode import no_grad
from ..amp import GradScaler
from ..nn import module as _module
from ..nn.module import Module
from ..nn.parameter import Buffer, Parameter
from ..optim.lr_scheduler import LRScheduler
from ..optim.optimizer import Optimizer
from ..utils._pytree import tree_flatten, tree_unflatten

Tensor = _C.Tensor
# Values that are told apart by ==; two of them may be equal and not alike (1 and True).
PLAIN = (type(None), bool, int, float, complex, str, bytes, _C.dtype, _C.device, _C.Size, slice)
MOST = 1000  # values that are looked at of one list, dict or object
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
# Bytes of an array of which everything is looked at; of a larger one, some elements.
_ALL, _ALL_OF_STRIDED = 1 << 16, 1 << 12
_BY_TEXT = frozenset(("getattr", "globals", "vars"))  # with names of what they give as texts
_DEEP = 6  # containers and objects within each other
_HEAP_TYPE = 1 << 9  # of a class's __flags__: it was made while the program runs
VALUES = frozenset((*PLAIN, Tensor, Parameter, Buffer))
_KEPT = (Tensor, Parameter, Buffer)  # other subclasses have operations of their own
# Python calls them, or their numbers are asked for.
_FOLLOWED = (Optimizer, LRScheduler, GradScaler)


class Arguments:
    """The arguments of a call, taken apart: its tensors, and what else they are.

    Tensors that lie where no capture may read them (two in one memory, NumPy's, an odd address: `x[:-1]`
    and `x[1:]`) are `tensors` as copies; `originals` are those of the call. A step that writes to such
    arguments is not captured: see wrote()."""

    __slots__ = (
        "args", "copies", "key", "kwargs", "leaves", "objects", "originals", "overlap", "reason", "rest",
        "signature", "tensors",
    )  # fmt: skip

    def __init__(self, args, kwargs):
        self.args, self.kwargs = args, kwargs
        self.reason = self.leaves = None
        self.copies = {}  # id of an original -> (it, its copy, that copy's version)
        self.objects = objects = []  # modules, optimizers and functions
        if not kwargs and all(type(a) is Tensor for a in args):  # mostly
            self.tensors = args
            self._signed(len(args), ())
            return
        leaves, spec = tree_flatten((args, kwargs))
        self.leaves = leaves, spec
        self.tensors = tensors = []
        rest = []
        for leaf in leaves:
            kind = type(leaf)
            if isinstance(leaf, Tensor):
                if kind not in _KEPT:
                    self.reason = f"an argument of class {kind.__name__}"
                rest.append(kind)
                tensors.append(leaf)
            elif kind in PLAIN:
                rest.append((kind, repr(leaf) if kind in (slice, float, complex) else leaf))
            elif isinstance(leaf, (Module, Optimizer)) or callable(leaf):
                rest.append((kind, id(leaf)))
                objects.append(leaf)
            else:
                self.reason = f"an argument of class {kind.__name__}"
        self._signed(str(spec), tuple(rest))

    def _signed(self, spec, rest):
        self.originals = self.tensors
        self.signature = _C._capture_signature(self.tensors)
        if self.signature is None and not self.reason:
            if _C._modes() or _C._saves_hooked():
                self.reason = "a mode or hooks of saved tensors, which are to see what runs"
            elif _C._vmap_active():
                self.reason = (
                    "vmap(), which draws its own random numbers and may have samples anywhere"
                )
            else:
                self._copy()
                rest = (*rest, "copied", *(id(t) in self.copies for t in self.originals))
        self.rest = rest
        self.key = (self.signature, spec, rest)

    def _copy(self):
        of = collections.Counter(_C._storage_number(t) for t in once(self.originals))
        self.overlap = max(of.values()) > 1
        for t in self.originals:
            alone = of[_C._storage_number(t)] == 1 and _C._capture_signature([t]) is not None
            if not alone and type(t) is Tensor and not t.requires_grad:
                copy = t.detach().clone()
                self.copies.setdefault(id(t), (t, copy, _C._storage_version(copy)))
        self.tensors = [self.copies.get(id(t), (t, t))[1] for t in self.originals]
        self.signature = _C._capture_signature(self.tensors)
        if self.signature is None:
            self.reason = (
                "arguments that want gradients, or parameters, and share memory with each other or with "
                "other programs, or begin at an odd address"
            )

    def refilled(self):
        """Whether lists and dicts among them have other contents than at the call."""
        if self.leaves is None:
            return False
        leaves, spec = tree_flatten((self.args, self.kwargs))
        same = spec == self.leaves[1] and len(leaves) == len(self.leaves[0])
        return not same or any(a is not b for a, b in zip(leaves, self.leaves[0]))

    def versions(self):
        """They tell of writes to the originals of copies."""
        return [_C._storage_version(t) for t, *_ in self.copies.values()]

    def shown_in(self, result):
        """Whether a result looks at an original of which a capture has a copy."""
        theirs = {_C._storage_number(t) for t, *_ in self.copies.values()}
        return any(
            isinstance(v, Tensor) and id(v) not in self.copies and _C._storage_number(v) in theirs
            for v in (tree_flatten(result)[0] if theirs else ())
        )

    def taken(self):
        """(args, kwargs) with the copies."""
        if not self.copies:
            return self.args, self.kwargs
        leaves, spec = tree_flatten((self.args, self.kwargs))
        return tree_unflatten([self.copies.get(id(v), (v, v))[1] for v in leaves], spec)

    def handed_back(self, result):
        """What the function gave of taken(), with the originals."""
        if not self.copies:
            return result
        originals = {id(copy): t for t, copy, _ in self.copies.values()}
        leaves, spec = tree_flatten(result)
        return tree_unflatten([originals.get(id(v), v) for v in leaves], spec)

    def wrote(self):
        """Whether the copies were written to. The originals have it then, too."""
        written = [
            (t, c) for t, c, version in self.copies.values() if _C._storage_version(c) != version
        ]
        with no_grad():
            for t, copy in written:
                t.copy_(copy)
        return bool(written)


def once(tensors):
    """Each of them once."""
    return list({id(t): t for t in tensors}.values()) if len(tensors) > 1 else tensors


def reached(function, objects, state):
    """(modules, optimizers, tensors) that a function can reach by its object, its closure, the
    globals that it names and its defaults, those among `objects`, and those that a State found."""
    modules = {id(m): m for m in state.modules}
    optimizers = {id(o): o for o in state.optimizers}
    tensors = {id(t): t for t in state.tensors}
    seen = set()

    def look(value, depth):
        if id(value) in seen or depth > 4:
            return
        seen.add(id(value))
        if isinstance(value, Tensor):
            tensors[id(value)] = value
        elif isinstance(value, Module):
            modules[id(value)] = value
        elif isinstance(value, Optimizer):
            optimizers[id(value)] = value
        elif isinstance(value, (list, tuple, set)):
            for v in list(value)[:MOST]:
                look(v, depth + 1)
        elif isinstance(value, dict):
            for v in list(value.values())[:MOST]:
                look(v, depth + 1)
        elif isinstance(value, functools.partial):
            for v in (value.func, value.args, value.keywords):
                look(v, depth + 1)
        elif isinstance(value, types.MethodType):
            look(value.__self__, depth + 1)
            look(value.__func__, depth + 1)
        elif isinstance(value, types.FunctionType):
            if _is_ours(value.__module__):
                return
            for cell in value.__closure__ or ():
                try:
                    look(cell.cell_contents, depth + 1)
                except ValueError:  # not yet filled
                    pass
            for name in _names_in(value.__code__):
                if name in value.__globals__:
                    look(value.__globals__[name], depth + 1)
            look(value.__defaults__, depth + 1)
            look(value.__kwdefaults__, depth + 1)
            look(value.__dict__, depth + 1)
        elif hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType)):
            for v in list(vars(value).values())[:MOST]:
                look(v, depth + 2)

    look(function, 0)
    for value in objects:
        look(value, 0)
    return list(modules.values()), list(optimizers.values()), list(tensors.values())


class State:
    """What a function can reach of Python's and might change: contents of lists, dicts, sets and
    objects, variables of its closure and its globals. Tensors' values are not of it."""

    def __init__(self, function, objects=(), ignored=()):
        self._names, self._places = [], []  # what containers are called; (how, container, keys)
        self._alive = []  # tensors, so that no other one comes to their place
        self._ignored = ignored
        self._seen = set()
        self._whole = set()  # ids of arrays of which everything is looked at
        # Names that the functions have, of attributes and globals, and what is called without a name.
        self._used = {"__call__", "forward", "backward", "setup_context", "jvp", "vmap"}
        self._classes = {}  # that were found, or objects of them: {class: names that are looked at}
        self.modules, self.optimizers, self.tensors = [], [], []  # that were found
        self._look(function, "", 0)
        for value in objects:
            self._look(value, type(value).__name__, 0)
        self._look_at_classes()
        self.places = _C._Surroundings(self._places, PLAIN, MOST)
        del self._seen, self._places, self._used, self._classes

    def add_copied(self, arrays):
        """Those that the step makes tensors of are looked at as a whole, if others may write to them: it
        takes no longer than copying them did."""
        found = [object(), *{id(a): a for a in arrays}.values()]
        arrays.clear()
        name = "an array that a tensor is made of"
        for n, array in enumerate(found):
            if n == 0:
                alone = sys.getrefcount(array)
            elif (
                (getattr(array, "base", None) is not None or sys.getrefcount(array) > alone)
                and id(array) not in self._whole
                and name not in self._ignored
            ):
                self._names.append(name)
                self.places.add([("elements", array, sys.maxsize)])
        return self

    def changed(self):
        """What is not as it was, by name; "" if nothing."""
        if (found := self.places.changed()) is None:
            return ""
        place, key = found
        name = self._names[place]
        return f"{name}.{key}" if isinstance(key, str) else name

    def stays(self):
        """Is asked from now on whether all is as it is; keeps no tensor from ending."""
        self._alive.clear()
        self.modules.clear(), self.optimizers.clear(), self.tensors.clear()
        return self

    def _keep(self, name, how, container, keys, pairs, depth):
        if name in self._ignored:
            return
        self._names.append(name)
        self._places.append((how, container, keys))
        for key, value in pairs:
            if isinstance(value, Tensor):
                self._alive.append(value)
                self.tensors.append(value)
            elif type(value) not in PLAIN:
                self._look(value, f"{name}.{key}" if isinstance(key, str) else name, depth + 1)

    def _keep_entries(self, name, d, depth, left_out=()):
        pairs = list(itertools.islice(d.items(), MOST))
        few = [(k, v) for k, v in pairs if k not in left_out and f"{name}.{k}" not in self._ignored]
        if len(few) == len(pairs):
            self._keep(name, "entries", d, (), pairs, depth)
        else:
            self._keep(name, "attributes", d, tuple(k for k, _ in few), few, depth)

    def _keep_variables(self, name, function, depth):
        code, scope, closure = function.__code__, function.__globals__, function.__closure__ or ()
        cells = [(n, _contents(c)) for n, c in zip(code.co_freevars, closure)]
        if cells and not any(f"{name}.{n}" in self._ignored for n, _ in cells):
            self._keep(name, "cells", closure, code.co_freevars, cells, depth)
        defaults = function.__defaults__ or ()
        named = zip(code.co_varnames[code.co_argcount - len(defaults) :], defaults)
        self._keep(name, "function", function, (), list(named), depth)
        if function.__kwdefaults__:
            self._keep_entries(name, function.__kwdefaults__, depth)
        names = _names_in(code)
        self._used.update(names)
        self._keep_names(name, scope, names, depth)
        for n in names:
            self._keep_module(n, scope.get(n), names, depth)

    def _keep_module(self, name, module, names, depth):
        """What a module has by these names, in modules of its own, too."""
        if not isinstance(module, types.ModuleType) or _is_ours(module.__name__) or depth > _DEEP:
            return
        d = vars(module)
        fixed = module.__name__.partition(".")[0] in sys.stdlib_module_names
        inner = [n for n in names if isinstance(d.get(n), types.ModuleType)]
        few = [n for n in names if n in d and n not in inner and (not fixed or _is_value(d[n]))]
        self._keep_names(name, d, few, depth)
        for n in () if fixed else inner:
            self._keep_module(f"{name}.{n}", d[n], names, depth + 1)

    def _keep_names(self, name, scope, names, depth):
        names = [n for n in names if n in scope and f"{name}.{n}" not in self._ignored]
        if names:
            self._keep(name, "names", scope, tuple(names), [(n, scope[n]) for n in names], depth)

    def _look_at_classes(self):
        """What objects have by their classes, and what the methods use that are called by some name."""
        known = None
        while known != (known := (len(self._used), len(self._classes))):
            for kind, kept in list(self._classes.items()):
                d = vars(kind)
                found = (n for k in kind.__mro__ if k in self._classes for n in vars(k))
                new = dict.fromkeys(n for n in found if n in self._used and n not in kept)
                kept.update(new)  # those that a base has may come to be here
                if new:
                    pairs = [(n, _within(d[n])) for n in new if n in d]
                    self._keep(kind.__qualname__, "names", kind, tuple(new), pairs, 0)

    def _keep_class(self, value):
        for kind in value.__mro__:
            if kind not in self._classes and not _is_ours(kind.__module__) and not _is_fixed(kind):
                self._classes[kind] = set()

    def _look(self, value, name, depth):
        if id(value) in self._seen or depth > _DEEP or len(self._places) > 10000:
            return
        self._seen.add(id(value))
        kind = type(value)
        if isinstance(value, type):
            self._keep_class(value)
            return
        if isinstance(value, Optimizer):
            self._keep_groups(kind.__name__, value, depth)
        if isinstance(value, (Tensor, types.ModuleType, *_FOLLOWED)):
            return
        if isinstance(value, (list, tuple)):
            self._keep(
                name or kind.__name__, "items", value, (), list(enumerate(value[:MOST])), depth
            )
        elif isinstance(value, dict):
            self._keep_entries(name or kind.__name__, value, depth)
        elif isinstance(value, types.MappingProxyType):
            pairs = list(itertools.islice(value.items(), MOST))
            self._keep(name, "attributes", value, tuple(k for k, _ in pairs), pairs, depth)
        elif isinstance(value, collections.deque):
            few = list(enumerate(itertools.islice(value, MOST)))
            self._keep(name or kind.__name__, "sequence", value, (), few, depth)
        elif isinstance(value, set):
            whole = frozenset(value) if len(value) <= MOST and _all_plain(value) else ()
            self._keep(name or kind.__name__, "size", value, whole, (), depth)
        elif isinstance(value, functools.partial):
            for v in (value.func, value.args, value.keywords):
                self._look(v, name, depth + 1)
        elif isinstance(value, types.MethodType):
            self._look(value.__self__, type(value.__self__).__name__, depth + 1)
            self._look(value.__func__, name, depth + 1)
        elif isinstance(value, types.FunctionType):
            if not _is_ours(value.__module__):
                self._keep_variables(value.__qualname__, value, depth)
                if value.__dict__:
                    self._keep_entries(value.__qualname__, value.__dict__, depth)
        elif isinstance(value, Module):
            self.modules.append(value)
            modules = list(value.modules())
            self._seen.update(map(id, modules))
            for number, module in enumerate(modules):
                self._keep_class(type(module))
                label = type(module).__name__ + (f" {number}" if number else "")
                self._keep_entries(label, module.__dict__, depth, _OWN)
                if module._modules:
                    self._keep_entries(label, module._modules, depth)
        elif not _is_ours(kind.__module__):
            if (most := _elements(value)) is not None:
                self._keep_elements(name or kind.__name__, value, most, depth)
            self._keep_attributes(value, depth)
        if isinstance(value, (list, tuple, dict, set)) and hasattr(value, "__dict__"):
            self._keep_attributes(value, depth)

    def _keep_groups(self, name, optimizer, depth):
        """Which parameters it has: `zero_grad` is for these."""
        self.optimizers.append(optimizer)
        self._keep(f"{name}.param_groups", "items", optimizer.param_groups, (), (), depth)
        for group in optimizer.param_groups:
            self._keep(f"{name}.params", "items", group["params"], (), (), depth)

    def _keep_attributes(self, value, depth):
        self._keep_class(type(value))
        if hasattr(value, "__dict__"):
            self._keep_entries(type(value).__name__, vars(value), depth)
        slots = [n for k in type(value).__mro__ for n in _slots_of(k) if hasattr(value, n)]
        if slots:
            pairs = [(n, getattr(value, n)) for n in slots]
            self._keep(type(value).__name__, "slots", value, tuple(slots), pairs, depth)

    def _keep_elements(self, name, array, most, depth):
        if getattr(getattr(array, "dtype", None), "char", "") == "O":
            few = list(enumerate(itertools.islice(array.flat, MOST)))
            self._keep(name, "objects", array, (), few, depth)
            return
        if most:
            self._whole.add(id(array))
        self._keep(name, "elements", array, most, (), depth)


def _elements(value):
    """How many bytes of an array (of NumPy or another module) are looked at, as its elements may change in
    place: all, or 0, which is some of them. None of what is no array."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return value.nbytes if isinstance(value, numpy.void) else None
    try:
        memory = memoryview(value)
        n = memory.nbytes
        return n if n <= (_ALL if memory.contiguous else _ALL_OF_STRIDED) else 0
    except TypeError:
        return None
    except (BufferError, ValueError):  # a dtype that others do not know
        return n if (n := getattr(value, "nbytes", 0)) <= _ALL else 0


def _is_value(v):
    return type(v) in VALUES or type(v) in (list, tuple, dict, set) or _elements(v) is not None


def _all_plain(values):
    return all(type(v) in PLAIN for v in values)


def _slots_of(kind):
    """Names of its `__slots__`, if the class is written in Python."""
    d = vars(kind)
    if "__slots__" not in d:
        return []
    return [n for n, v in d.items() if isinstance(v, types.MemberDescriptorType)]


def _within(attribute):
    """The function that an attribute of a class calls, or the attribute."""
    if isinstance(attribute, (staticmethod, classmethod)):
        return attribute.__func__
    return attribute.fget if isinstance(attribute, property) else attribute


def _is_fixed(kind):
    """Of the language, its library or an extension: not written to."""
    home = kind.__module__
    return (
        not kind.__flags__ & _HEAP_TYPE
        or not isinstance(home, str)
        or home.partition(".")[0] in sys.stdlib_module_names
    )


def _is_ours(module):
    return isinstance(module, str) and module.partition(".")[0] == "pyflame"


def _names_in(code):
    """Names that a function, and those written within it, use of globals or as attributes."""
    inner = [_names_in(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    if not _BY_TEXT.isdisjoint(code.co_names):
        inner.append(c for c in code.co_consts if isinstance(c, str) and c.isidentifier())
    return tuple(dict.fromkeys(itertools.chain(code.co_names, *inner)))


def _contents(cell):
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return None


# Of a module, looked at in other ways.
_OWN = frozenset(
    {
        "_parameters",
        "_buffers",
        "_modules",
        "training",
        "forward",
        "_non_persistent_buffers_set",
        *_HOOKS,
    }
    | {f"_{what}state_dict_{when}hooks" for what in ("", "load_") for when in ("", "pre_", "post_")}
)


class Structure:
    """Which parameters, buffers and modules some modules have, and whether they are training."""

    def __init__(self, modules):
        self.modules = modules
        self.changes = _module.changes[0]
        self.print_ = self._of_now()

    def _of_now(self):
        found = [_module._any_call_hooks]
        for root in self.modules:
            for module in root.modules():
                d = module.__dict__
                found.append((module, d["training"], *[len(d[k]) for k in _HOOKS]))
                found.extend((n, id(p)) for n, p in d["_parameters"].items())
                found.extend((n, id(b)) for n, b in d["_buffers"].items())
        return found

    def same(self):
        """Whether all is as it was; quick while nothing anywhere was assigned."""
        if self.changes == _module.changes[0]:
            return True
        if self._of_now() != self.print_:
            return False
        self.changes = _module.changes[0]
        return True

    def hooked(self):
        """A module with hooks, or None."""
        for root in self.modules:
            for module in root.modules():
                if any(module.__dict__[k] for k in _HOOKS):
                    return module
        return None

    def tensors(self):
        return [t for root in self.modules for t in (*root.parameters(), *root.buffers())]
