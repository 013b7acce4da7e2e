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
    order = collections.OrderedDict(a=1.0, b=2.0)

    def turn(n):
        order.move_to_end("a", last=n != 1.0)

    yield "order of an ordered dict", Case(lambda: next(iter(order.values())), turn)
    yield "text", Case(lambda: getattr(Plain, "scale"), lambda n: setattr(Plain, "scale", n))  # noqa: B009
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


class Tools:
    scale = 1.0

    @staticmethod
    def of_static(x):
        return x * Tools.scale

    @classmethod
    def of_class(cls, x):
        return x * cls.scale


@pytest.mark.parametrize("what", ["static", "class", "bound"])
def test_methods_of_classes_that_a_step_names(what, monkeypatch):
    f = {
        "static": lambda x: Tools.of_static(x),
        "class": lambda x: Tools.of_class(x),
        "bound": Tools.of_class,
    }[what]
    check(f, lambda n: monkeypatch.setattr(Tools, "scale", n))


def other_module():
    found, inner = types.ModuleType("other_module"), types.ModuleType("other_module.inner")
    for module in (found, inner):
        text = "number = 1.0\ndef scaled(x): return x * number\nclass Of:\n    number = 1.0"
        exec(text, vars(module))
    found.inner = inner
    return found


other = other_module()


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("what", ["function", "class", "value"])
def test_functions_and_classes_of_other_modules(what, within):
    module = other.inner if within else other
    f = {
        ("function", False): lambda x: other.scaled(x), ("class", False): lambda x: x * other.Of.number,
        ("value", False): lambda x: x * other.number, ("function", True): lambda x: other.inner.scaled(x),
        ("class", True): lambda x: x * other.inner.Of.number, ("value", True): lambda x: x * other.inner.number,
    }[what, within]  # fmt: skip
    owner = module.Of if what == "class" else module
    check(f, lambda n: setattr(owner, "number", n))


class Holds:
    def run(self, x):
        return self.inner(x)

    def inner(self, x):
        return other.layers(x)


@pytest.mark.parametrize("how", ["function", "method", "layer of a class"])
def test_layers_of_other_modules(how, monkeypatch):
    """Of those the mode, the parameters and the hooks are followed."""
    layers = other.layers = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.99))
    monkeypatch.setattr(Holds, "net", layers, raising=False)
    f = {
        "function": lambda x: other.layers(x), "method": Holds().run, "layer of a class": lambda x: Holds.net(x),
    }[how]  # fmt: skip
    c = pf.compile(f, **CAPTURED)
    x = pf.ones(64, 2)
    with pf.no_grad():
        for n in range(24):
            if n == 5:
                layers.eval()
            elif n == 10:
                layers[0].weight = nn.Parameter(pf.ones(2, 2))
            elif n == 15:
                layers.append(nn.Tanh())
            elif n == 20:
                layers.register_forward_hook(lambda *a: a[2] * 2)
            got = c(x)
            if n >= 5:
                assert pf.equal(got, layers(x)), n
    assert calls(c)[0] >= 6, c.report()


@pytest.mark.parametrize("part", ["__defaults__", "__kwdefaults__", "__code__"])
@pytest.mark.parametrize("who", ["itself", "a helper", "a partial"])
def test_parts_of_functions(part, who):
    def inner(x, k=2.0, *, more=1.0):
        return x * k + more

    def other(x, k=2.0, *, more=1.0):
        return x - k * more

    outer = {
        "itself": inner,
        "a helper": lambda x: inner(x) * 2,
        "a partial": functools.partial(inner),
    }[who]
    captured = pf.compile(outer, **CAPTURED)
    now = {"__defaults__": (5.0,), "__kwdefaults__": {"more": 7.0}, "__code__": other.__code__}
    x = pf.ones(3)
    for n in range(10):
        if n == 5:
            setattr(inner, part, now[part])
        assert captured(x).tolist() == outer(x).tolist(), n
    assert captured._step.replays > 3


CHANGES = {
    "a list that grows": (lambda a: [a], lambda v: v.append(v[0] * 2) or v[1] + 1),
    "a list": (lambda a: [a], lambda v: v.__setitem__(0, v[0] * 2) or v[0] + 1),
    "a dict": (lambda a: {"a": a}, lambda v: v.update(b=v["a"] * 2) or v["b"] + 1),
    "a dict that shrinks": (lambda a: {"a": a, "b": a * 2}, lambda v: v["a"] + v.pop("b")),
    "within": (lambda a: ({"a": [a]}, 1), lambda v: v[0]["a"].append(3.5) or v[0]["a"][0] + 1),
}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("what", CHANGES)
def test_arguments_that_the_function_changes(what, late):
    """Lists and dicts are left as the function leaves them at each call, also where its first does not."""
    make, change = CHANGES[what]
    on = [True]

    def f(v):
        return change(v) if on[0] else v

    captured = pf.compile(f, **CAPTURED)
    for n in range(8):
        on[0] = not late or n > 0
        found = []
        for call in (f, captured):
            given = make(pf.full((3,), 1.0 + n))
            result = call(given)
            found.append(str((given, result)))
        assert found[0] == found[1], n
