"""Containers of modules and parameters."""

import itertools
import operator
from collections import OrderedDict

from .._C import Tensor
from .module import Module, _addindent, no_module
from .parameter import Parameter


def _position(index, length, what):
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"{what}: index {index} is out of range for {length} entries")
    return index % length


class _Numbered(Module):
    """Modules under the names "0", "1", ...: what Sequential and ModuleList share."""

    def _renumber(self, modules):
        self._modules.clear()
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def _key(self, index):
        return list(self._modules)[_position(index, len(self), type(self).__name__)]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __setitem__(self, index, module):
        key = self._key(index)
        if not isinstance(module, Module):
            raise no_module(self, module)
        self._modules[key] = module

    def __delitem__(self, index):
        keys = list(self._modules)
        gone = keys[index] if isinstance(index, slice) else [self._key(index)]
        for key in gone:
            del self._modules[key]
        self._renumber(list(self._modules.values()))

    def append(self, module):
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        if not hasattr(type(modules), "__iter__"):
            raise TypeError(
                f"pf.nn.{type(self).__name__}: got one {type(modules).__name__}; expected several modules; "
                "pass a list of them"
            )
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index, module):
        if not isinstance(module, Module):
            raise no_module(self, module)
        modules = list(self)
        if isinstance(self, Sequential) and not -len(modules) <= index <= len(modules):
            raise IndexError(
                f"pf.nn.Sequential: got {index} for an insertion; expected it within the "
                f"{len(modules)} modules"
            )
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def pop(self, index):
        module = self[index]
        del self[index]
        return module

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]


class Sequential(_Numbered):
    """Runs its modules one after the other.

    `Sequential(a, b)`, `Sequential([a, b])` or `Sequential(OrderedDict(name=a, ...))`.
    """

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
            return
        if len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = args[0]
        if len(args) == 1 and isinstance(args[0], dict):
            raise TypeError(
                "pf.nn.Sequential: dict is not a Module subclass; expected modules, a list or one "
                "OrderedDict of them; write Sequential(OrderedDict(...))"
            )
        for i, module in enumerate(args):
            self.add_module(str(i), module)

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __add__(self, other):
        return Sequential(*self, *other)

    def __iadd__(self, other):
        return self.extend(other)

    def _times(self, count):
        if not isinstance(count, int):
            raise TypeError(
                f"pf.nn.Sequential: got {type(count).__name__} as a factor; expected an int"
            )
        if count <= 0:
            raise ValueError(f"pf.nn.Sequential: got the factor {count}; expected at least 1")
        return count

    def __mul__(self, count):
        """The same modules (their parameters, too) `count` times."""
        return Sequential(*list(self) * self._times(count))

    __rmul__ = __mul__

    def __imul__(self, count):
        return self.extend(list(self) * (self._times(count) - 1))


class ModuleList(_Numbered):
    """A list of modules whose parameters are found."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[self._key(index)]

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return ModuleList([*self, *other])

    def _child_lines(self):
        """As usual, but neighbours that print the same stand in one line, with their number."""
        lines, first = [], 0
        for text, same in itertools.groupby(repr(module) for module in self):
            n = len(list(same))
            where = f"({first})" if n == 1 else f"({first}-{first + n - 1})"
            lines.append(f"{where}: " + _addindent(text if n == 1 else f"{n} x {text}", 2))
            first += n
        return lines


class ModuleDict(Module):
    """A dictionary of modules whose parameters are found."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        if key in self._modules:
            if module is not None and not isinstance(module, Module):
                raise no_module(self, module)
            self._modules[key] = module
        else:
            self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        self._modules.clear()

    def pop(self, key):
        return self._modules.pop(key)

    def keys(self):
        return self._modules.keys()

    def items(self):
        return self._modules.items()

    def values(self):
        return self._modules.values()

    def update(self, modules):
        for key, module in modules.items() if hasattr(modules, "items") else modules:
            self[key] = module


def _as_parameter(value):
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _describe(value, elements):
    """A value in a list or dict; `elements` says how PyTorch writes its dtype there."""
    if isinstance(value, Tensor):
        kind = "Parameter" if isinstance(value, Parameter) else type(value).__name__
        size = "x".join(str(s) for s in value.shape)
        return f"{kind} containing: [{elements(value)} of size {size}]"
    return f"Object of type: {type(value).__name__}"


class ParameterList(Module):
    """A list of parameters. Plain tensors become parameters."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter([self[i] for i in range(self._size)])

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(*index.indices(self._size))])
        return getattr(self, str(_position(index, self._size, "ParameterList")))

    def __setitem__(self, index, value):
        setattr(self, str(_position(index, self._size, "ParameterList")), _as_parameter(value))

    def append(self, value):
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values):
        if isinstance(values, Tensor):
            raise TypeError(
                "pf.nn.ParameterList: got a tensor to extend by; expected a list of tensors; write append"
            )
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values):
        return self.extend(values)

    def extra_repr(self):
        return "\n".join(
            f"  ({i}): {_describe(value, lambda t: t.dtype)}" for i, value in enumerate(self)
        )


class ParameterDict(Module):
    """A dictionary of parameters. Plain tensors become parameters."""

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key):
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, str(key))

    def __setitem__(self, key, value):
        self._keys[key] = None
        setattr(self, str(key), _as_parameter(value))

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, str(key))

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __contains__(self, key):
        return key in self._keys

    def keys(self):
        return self._keys.keys()

    def values(self):
        return [self[k] for k in self._keys]

    def items(self):
        return [(k, self[k]) for k in self._keys]

    def get(self, key, default=None):
        return self[key] if key in self._keys else default

    def pop(self, key):
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """The last key and its value, which leave the dictionary."""
        key = next(reversed(self), None)
        if key is None:
            raise KeyError("pf.nn.ParameterDict.popitem: the dictionary is empty")
        return key, self.pop(key)

    def setdefault(self, key, default=None):
        if key not in self._keys:
            self[key] = default
        return self[key]

    def clear(self):
        for key in list(self._keys):
            del self[key]

    def copy(self):
        """Another dictionary of the same parameters."""
        return ParameterDict(self.items())

    def fromkeys(self, keys, default=None):
        return ParameterDict((key, default) for key in keys)

    def update(self, parameters):
        for key, value in parameters.items() if hasattr(parameters, "items") else parameters:
            self[key] = value

    def __reversed__(self):
        return reversed(list(self._keys))

    def __or__(self, other):
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other):
        return {**other, **dict(self.items())}

    def __ior__(self, other):
        self.update(other)
        return self

    def extra_repr(self):
        return "\n".join(
            f"  ({key}): {_describe(value, lambda t: t.type())}" for key, value in self.items()
        )
