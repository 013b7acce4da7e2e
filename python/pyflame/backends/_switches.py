"""Modules whose attributes are switches: what is assigned is checked, and some of it acts."""

import contextlib
import sys
import types


class Switch:
    """One attribute: its value, of one of the `kinds`, or functions that read and write it."""

    def __init__(self, default, *kinds, get=None, set=None):
        self.value, self.kinds = default, kinds or (type(default),)
        self.get, self.set = get, set

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, module, owner=None):
        if module is None:
            return self
        return self.get() if self.get else self.value

    def __set__(self, module, value):
        if type(value) not in self.kinds:
            expected = " or ".join(k.__name__ for k in self.kinds)
            raise TypeError(
                f"pf.{module.__name__.partition('.')[2]}.{self.name}: got {value!r}; expected a "
                f"value of type {expected}"
            )
        if self.set:
            self.set(value)
        else:
            self.value = value


class SwitchBoard(types.ModuleType):
    """A module with switches."""

    def __dir__(self):
        return sorted({*super().__dir__(), *_switches(type(self))})


def _switches(cls):
    return [n for n, v in vars(cls).items() if isinstance(v, Switch)]


def install(name, **switches):
    """Gives an imported module its switches."""
    sys.modules[name].__class__ = type("SwitchBoard", (SwitchBoard,), switches)


def flags_of(name, **defaults):
    """A function flags(**values): within `with flags(...)` the switches have these values."""

    @contextlib.contextmanager
    def flags(**values):
        module = sys.modules[name]
        unknown = values.keys() - defaults.keys()
        if unknown:
            raise TypeError(
                f"pf.{name.partition('.')[2]}.flags: got {sorted(unknown)}; expected some of "
                f"{sorted(defaults)}"
            )
        before = {n: getattr(module, n) for n in defaults}
        try:
            for n, value in {**defaults, **values}.items():
                setattr(module, n, value)
            yield
        finally:
            for n, value in before.items():
                setattr(module, n, value)

    flags.__doc__ = (
        f"Within it {', '.join(defaults)} have the given values; afterwards the old ones."
    )
    return flags
