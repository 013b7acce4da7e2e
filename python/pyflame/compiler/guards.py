"""What a captured step depends on, and how changes of it are noticed."""

import functools
import itertools
import types

from .. import _C
from ..nn import module as _module
from ..nn.module import Module
from ..nn.parameter import Buffer, Parameter
from ..optim.optimizer import Optimizer
from ..utils._pytree import tree_flatten

Tensor = _C.Tensor
# Values that are told apart by ==; two of them may be equal and not alike (1 and True).
PLAIN = (type(None), bool, int, float, complex, str, bytes, _C.dtype, _C.device, _C.Size, slice)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_KEPT = (Tensor, Parameter, Buffer)  # other subclasses have operations of their own


class Arguments:
    """The arguments of a call, taken apart: its tensors, and what else they are."""

    __slots__ = ("key", "signature", "rest", "objects", "tensors", "reason")

    def __init__(self, args, kwargs):
        self.reason = None
        self.objects = objects = []  # modules, optimizers and functions
        if not kwargs and all(type(a) is Tensor for a in args):  # mostly
            self.tensors = args
            self._signed(len(args), ())
            return
        leaves, spec = tree_flatten((args, kwargs))
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
        self.signature = _C._capture_signature(self.tensors)
        self.rest = rest
        if self.signature is None and not self.reason:
            self.reason = (
                "arguments that share memory with each other or with other programs, or begin at "
                "an odd address"
            )
        self.key = (self.signature, spec, rest)


def reached(function, objects=()):
    """(modules, optimizers, tensors) that a function can reach by its object, its closure, the
    globals that it names and its defaults, and those among `objects`."""
    modules, optimizers, tensors = {}, {}, {}
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
            for v in list(value)[:1000]:
                look(v, depth + 1)
        elif isinstance(value, dict):
            for v in list(value.values())[:1000]:
                look(v, depth + 1)
        elif isinstance(value, functools.partial):
            for v in (value.func, value.args, value.keywords):
                look(v, depth + 1)
        elif isinstance(value, types.MethodType):
            look(value.__self__, depth + 1)
            look(value.__func__, depth + 1)
        elif isinstance(value, types.FunctionType):
            if value.__module__ and value.__module__.partition(".")[0] == "pyflame":
                return
            for cell in value.__closure__ or ():
                try:
                    look(cell.cell_contents, depth + 1)
                except ValueError:  # not yet filled
                    pass
            for name in value.__code__.co_names:
                if name in value.__globals__:
                    look(value.__globals__[name], depth + 1)
            look(value.__defaults__, depth + 1)
            look(value.__kwdefaults__, depth + 1)
            look(value.__dict__, depth + 1)
        elif hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType)):
            for v in list(vars(value).values())[:1000]:
                look(v, depth + 2)

    look(function, 0)
    for value in objects:
        look(value, 0)
    return list(modules.values()), list(optimizers.values()), list(tensors.values())


class State:
    """What a function can reach of Python's and might change: contents of lists, dicts, sets and
    objects, variables of its closure and its globals. Tensors' values are not of it."""

    def __init__(self, function, objects=()):
        self.kept = []  # (what it is called, how to look at it, [(key, value)] now)
        self._seen = set()
        self._look(function, "", 0)
        for value in objects:
            self._look(value, type(value).__name__, 0)

    def changed(self):
        """What is not as it was, by name; "" if nothing."""
        for name, now, before in self.kept:
            found = now()
            if len(found) != len(before):
                return name
            for (key, value), (old_key, old) in zip(found, before):
                if key is not old_key and key != old_key:
                    return name
                if value is old:
                    continue
                if type(value) in PLAIN and type(value) is type(old) and value == old:
                    continue
                return f"{name}.{key}" if isinstance(key, str) else name
        return ""

    def _keep(self, name, now, depth):
        found = now()
        self.kept.append((name, now, found))
        for key, value in found:
            if type(value) not in PLAIN:
                self._look(value, f"{name}.{key}" if isinstance(key, str) else name, depth + 1)

    def _look(self, value, name, depth):
        if id(value) in self._seen or depth > 4 or len(self.kept) > 10000:
            return
        self._seen.add(id(value))
        kind = type(value)
        if isinstance(value, (Tensor, type, types.ModuleType)):
            return
        if isinstance(value, (list, tuple)):
            self._keep(name or kind.__name__, lambda: list(enumerate(value[:1000])), depth)
        elif isinstance(value, dict):
            self._keep(
                name or kind.__name__, lambda: list(itertools.islice(value.items(), 1000)), depth
            )
        elif isinstance(value, set):
            self._keep(name or kind.__name__, lambda: [(len(value), None)], depth)
        elif isinstance(value, functools.partial):
            for v in (value.func, value.args, value.keywords):
                self._look(v, name, depth + 1)
        elif isinstance(value, types.MethodType):
            self._look(value.__self__, type(value.__self__).__name__, depth + 1)
            self._look(value.__func__, name, depth + 1)
        elif isinstance(value, types.FunctionType):
            if value.__module__ and value.__module__.partition(".")[0] == "pyflame":
                return
            code, scope, cells = value.__code__, value.__globals__, value.__closure__ or ()
            self._keep(
                value.__qualname__,
                lambda: [
                    *[(n, _contents(c)) for n, c in zip(code.co_freevars, cells)],
                    *[(n, scope[n]) for n in code.co_names if n in scope],
                ],
                depth,
            )
        elif isinstance(value, Module):
            for number, module in enumerate(value.modules()):
                self._seen.add(id(module))
                label = type(module).__name__ + (f" {number}" if number else "")
                d = module.__dict__
                self._keep(
                    label, lambda d=d: [(k, v) for k, v in d.items() if k not in _OWN], depth
                )
        elif hasattr(value, "__dict__") and kind.__module__.partition(".")[0] != "pyflame":
            d = vars(value)
            self._keep(kind.__name__, lambda: list(itertools.islice(d.items(), 1000)), depth + 1)


def _contents(cell):
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return None


# Of a module, looked at in other ways.
_OWN = {"_parameters", "_buffers", "_modules", "training", "forward", *_HOOKS}


class Structure:
    """Which parameters, buffers and modules some modules have, and whether they are training."""

    def __init__(self, modules):
        self.modules = modules
        self.changes = _module.changes[0]
        self.print_ = self._of_now()

    def _of_now(self):
        found = []
        for root in self.modules:
            for module in root.modules():
                d = module.__dict__
                found.append((id(module), d["training"], *[len(d[k]) for k in _HOOKS]))
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
