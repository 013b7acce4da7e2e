"""pf.compile: whatever of Python's a captured step can reach is looked at before each call."""

import collections
import dataclasses
import functools
import types

import pytest
from captured_steps import CAPTURED, calls

import pyflame as pf
from pyflame import nn

FACTOR = 1.0


def helper(x):
    return x * FACTOR


class Slots:
    __slots__ = ("v", "__w")

    def __init__(self):
        self.v, self.__w = 1.0, 1.0

    def both(self):
        return self.v * self.__w

    def hide(self, w):
        self.__w = w


@dataclasses.dataclass(slots=True)
class Data(Slots):
    more: float = 1.0


class Base(nn.Module):
    scale = 1.0
    table = {"a": [1.0]}

    @property
    def factor(self):
        return self.table["a"][0]

    @staticmethod
    def twice(x):
        return x * 1.0

    @classmethod
    def of_class(cls, x):
        return x * FACTOR


class Net(Base):
    def forward(self, x):
        return self.inner(x) * self.scale * self.factor

    def inner(self, x):
        return self.twice(self.of_class(x))

    def unused(self, x):
        return x * UNUSED


UNUSED = 1.0


class Plain:
    scale = 1.0

    def run(self, x):
        return helper(x) * self.scale


class Listed(list):
    pass


class Mapped(dict):
    def __getattr__(self, name):
        return self[name]


class Case:
    """What a step reads, and how that is changed: to 2, and back to 1."""

    def __init__(self, read, change):
        self.read, self.change = read, change


def cases():
    slots, data = Slots(), Data()
    data.v = 1.0
    data.hide(1.0)
    yield "slots", Case(lambda: slots.v, lambda n: setattr(slots, "v", n))
    yield "private slots", Case(slots.both, slots.hide)
    yield "inherited slots", Case(lambda: data.v * data.more, lambda n: setattr(data, "more", n))
    deque = collections.deque([0.0, 1.0], maxlen=2)
    yield "deque", Case(lambda: deque[1], lambda n: deque.append(n))
    inner = {"a": 1.0}
    shown = types.MappingProxyType(inner)
    yield "a mapping that is shown", Case(lambda: shown["a"], lambda n: inner.update(a=n))
    listed, mapped = Listed([0]), Mapped(a=1.0)
    listed.v = 1.0
    yield "attribute of a list", Case(lambda: listed.v, lambda n: setattr(listed, "v", n))
    yield "dict with attributes", Case(lambda: mapped.a, lambda n: mapped.update(a=n))

    def f():
        return f.k

    f.k = 1.0
    yield "attribute of a function", Case(f, lambda n: setattr(f, "k", n))
    part = functools.partial(lambda k: k, k=1.0)
    yield "keywords of a partial", Case(part, lambda n: part.keywords.update(k=n))
    pair = collections.namedtuple("Pair", "v")
    held = {"p": pair(1.0)}
    yield "namedtuple", Case(lambda: held["p"].v, lambda n: held.update(p=pair(n)))
    deep = [[[1.0]]]
    yield "lists in lists", Case(lambda: deep[0][0][0], lambda n: deep[0][0].__setitem__(0, n))
    space = types.SimpleNamespace(v=types.SimpleNamespace(w=1.0))
    yield "namespaces", Case(lambda: space.v.w, lambda n: setattr(space.v, "w", n))


@pytest.mark.parametrize("what, case", list(cases()), ids=lambda v: v if isinstance(v, str) else "")
def test_containers_and_objects(what, case):
    check(lambda x: x * case.read(), case.change)


def check(f, change):
    c = pf.compile(f, **CAPTURED)
    for n in (1.0, 2.0, 1.0):
        if n != 1.0 or calls(c)[0]:
            change(n)
        for _ in range(6):
            assert c(pf.ones(2)).tolist() == [n] * 2, n
    assert calls(c)[0] >= 9, c.report()


def setter(owner, name):
    return lambda n: setattr(owner, name, n)


@pytest.mark.parametrize("as_module", [False, True])
@pytest.mark.parametrize("what", ["scale", "table", "method", "static", "class", "global", "added"])
def test_classes_of_modules(what, as_module, monkeypatch):
    """Attributes that a class has, its methods and the globals that these name."""
    m = Net()
    f = m if as_module else (lambda x: m(x))
    changes = {
        "scale": lambda n: monkeypatch.setattr(Base, "scale", n),
        "table": lambda n: monkeypatch.setitem(Base.table, "a", [n]),
        "method": lambda n: monkeypatch.setattr(Net, "inner", lambda self, x: x * n),
        "static": lambda n: monkeypatch.setattr(Base, "twice", staticmethod(lambda x: x * n)),
        "class": lambda n: monkeypatch.setattr(Base, "of_class", classmethod(lambda cls, x: x * n)),
        "global": lambda n: monkeypatch.setitem(globals(), "FACTOR", n),
        "added": lambda n: monkeypatch.setattr(Net, "scale", n, raising=False),  # before its base's
    }
    check(f, changes[what])


def test_classes_of_objects(monkeypatch):
    check(Plain().run, lambda n: monkeypatch.setattr(Plain, "scale", n))
    check(Plain().run, lambda n: monkeypatch.setitem(globals(), "FACTOR", n))
    p = Plain()
    check(lambda x: p.run(x), lambda n: monkeypatch.setattr(Plain, "run", lambda self, x: x * n))


def test_what_no_method_names_is_not_looked_at(monkeypatch):
    m = Net()
    c = pf.compile(m, **CAPTURED)
    for i in range(8):
        monkeypatch.setitem(globals(), "UNUSED", float(i))
        c(pf.ones(2))
    assert calls(c) == (5, 2), c.report()


def test_operations_as_variables(monkeypatch):
    """Of the module itself, and of the language."""
    monkeypatch.setitem(globals(), "helper", pf.relu)
    check(lambda x: helper(x), lambda n: monkeypatch.setitem(globals(), "helper", lambda x: x * n))
    call = {"f": abs, "g": pf.nn.functional.scaled_dot_product_attention, "h": pf.Tensor.exp}
    check(lambda x: call["f"](x), lambda n: call.update(f=lambda x: x * n))
