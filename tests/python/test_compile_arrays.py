"""pf.compile: arrays of NumPy and others that a captured step reaches, which change in place."""

import array
import ctypes
import gc
import types
import weakref

import numpy as np
import pytest
from captured_steps import CAPTURED, calls

import pyflame as pf
from pyflame import nn
from pyflame.compiler import guards

FACTORS = np.ones(3)
SETTINGS = types.ModuleType("settings")
SETTINGS.factors = np.ones(3)
SETTINGS.rates = [np.float32(1)]
LARGE = guards._ALL  # bytes; of larger arrays some elements are looked at


class Kept:
    factors = np.ones(2)


class Scaled(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.scales = [np.ones(2), {"a": np.ones((2, 2))}]

    def forward(self, x):
        return x * float(self.scale.flat[0]) * float(self.scales[1]["a"][1, 0])


def settled(f, want=1.0):
    """f compiled, and replayed without Python."""
    c = pf.compile(f, **CAPTURED)
    for _ in range(6):
        assert c(pf.ones(2)).tolist() == [want] * 2
    assert calls(c) == (3, 2), c.report()
    assert c._step.quick is not None
    return c


def follows(c, *wants):
    """The next call has the new number, and so have replays behind it, which come again."""
    before = calls(c)[0]
    for want in wants:
        assert c(pf.ones(2)).tolist() == [want] * 2
    for _ in range(6):
        assert c(pf.ones(2)).tolist() == [wants[-1]] * 2
    assert calls(c)[0] >= before + 3, c.report()


def test_of_a_module():
    m = Scaled(np.ones(4))
    c = settled(m.forward)
    m.scale[0] = 2
    follows(c, 2)
    m.scale *= 2
    follows(c, 4)
    m.scale = np.full(4, 8.0)  # replaced
    follows(c, 8)
    m.scale[:] = 16  # what has taken its place is looked at, too
    follows(c, 16)
    m.scale = np.full(7, 16.0)
    follows(c, 16)
    m.scales[1]["a"][1, 0] = 2
    follows(c, 32)
    m.scales[1]["a"] = np.ones((2, 2))
    follows(c, 16)
    m.scales[1]["a"][0, 0] = 9  # makes no difference
    follows(c, 16)
    c = pf.compile(Scaled(np.ones(1)), **CAPTURED)
    for _ in range(6):
        c(pf.ones(2))
    c._orig_mod.scale[0] = -3
    follows(c, -3)
    assert "scale is not as it was" in c.report()


def test_of_closures_globals_modules_and_classes(monkeypatch):
    held = np.ones(3)

    def f(x):
        number = held[1] * FACTORS[1] * SETTINGS.factors[1] * SETTINGS.rates[0] * Kept.factors[1]
        return x * float(number)

    c = settled(f)
    for where in (held, FACTORS, SETTINGS.factors, Kept.factors):
        where[1] = 2
        follows(c, 2)
        where[1] = 1
    c = settled(f)
    SETTINGS.rates[0] = np.float32(3)
    follows(c, 3)
    SETTINGS.rates[0] = np.float32(1)
    monkeypatch.setattr(SETTINGS, "factors", np.full(3, 5.0))
    follows(c, 5)
    held = np.full(3, 2.0)
    follows(c, 10)


def test_numbers_of_numpy():
    """The same number in another object is no change; a NaN is itself, and 0 is not -0."""
    state = {"a": np.float64(1), "b": np.int64(1), "c": np.bool_(True), "d": np.float16(1)}

    def f(x):
        return x * float(state["a"] * state["b"] * state["c"] * state["d"])

    c = settled(f)
    always = calls(c)[1]
    for _ in range(20):
        state["a"], state["b"], state["d"] = np.float64(1), np.int64(1), np.float16(1)
        c(pf.ones(2))
    assert calls(c)[1] == always, c.report()
    state["a"] = np.float64(2)
    follows(c, 2)
    state["a"] = np.float32(2)  # of another type
    state["d"] = np.float16(0)
    follows(c, 0)
    state["d"] = np.float16(-0.0)
    assert np.signbit(c(pf.ones(2)).cpu().numpy()).all()
    state["d"] = np.float16("nan")
    for _ in range(4):
        assert np.isnan(c(pf.ones(2)).tolist()).all()
    before = calls(c)[0]
    state["d"] = np.float16("nan")
    c(pf.ones(2))
    assert calls(c)[0] == before + 1
    when = {"t": np.datetime64("2020-01-01", "D")}
    c = settled(lambda x: x * float(when["t"] == np.datetime64("2020-01-01T00", "h")))
    when["t"] = np.datetime64(18262, "h")  # the same bytes, and another time
    follows(c, 0)


def test_defaults_of_arguments():
    def f(x, a=np.ones(2), numbers=[1.0], *, more={"b": np.ones(1)}):  # noqa: B006, B008
        return x * float(a[1] * more["b"][0]) * numbers[0]

    c = settled(f)
    f.__defaults__[0][1] = 2
    follows(c, 2)
    f.__defaults__[1][0] = 2.0
    follows(c, 4)
    f.__kwdefaults__["more"]["b"][0] = 2
    follows(c, 8)
    f.__kwdefaults__["more"]["b"] = np.ones(1)
    follows(c, 4)


def structured():
    return np.array([(1.0, 1, "a"), (1.0, 2, "b")], dtype=[("w", "f4"), ("n", "i8"), ("s", "U3")])


def test_every_kind_of_array():
    record = structured()
    base = np.ones((6, 8))
    read_only = np.ones(4).view()
    read_only.flags.writeable = False
    owner = np.ones(4)
    shown = owner.view()
    shown.flags.writeable = False

    def number(a):
        return float(np.asarray(a).reshape(-1)[1])

    def changed(a):
        a.reshape(-1)[1] = 2 if a.dtype.kind != "M" else np.datetime64(2, "s")

    def with_zero(a):
        a[0] = a[1] = 3

    masked = np.ma.masked_array([1.0, 1.0], mask=[False, False])
    cases = [
        (np.ones(2, np.float16), number, changed, 2),
        (np.ones((2, 2), np.complex64).real, number, lambda a: a.__setitem__((0, 1), 2), 2),
        (np.ones(2, bool), number, lambda a: a.__setitem__(1, False), 0),
        (np.ones(2, np.longdouble), number, changed, 2),
        (np.ones(2, ">i4"), number, changed, 2),
        (np.ones(2, "M8[s]"), lambda a: float(a.astype("i8")[1]), changed, 2),
        (np.array(["1", "1"]), number, lambda a: a.__setitem__(1, "2"), 2),
        (np.array([b"1", b"1"]), number, lambda a: a.__setitem__(1, b"2"), 2),
        (np.array(1.0), float, lambda a: a.__setitem__((), 2), 2),
        (np.ones((3, 4), order="F"), number, lambda a: a.__setitem__((0, 1), 2), 2),
        (base[1::2, ::-2], number, lambda a: a.__setitem__((0, 1), 2), 2),
        (base[::2, ::2], number, lambda a: base.__setitem__((0, 2), 2), 2),  # by another way
        (np.broadcast_to(base[0, :1], (5, 5)), number, lambda a: base.__setitem__((0, 0), 2), 2),
        (record, lambda a: float(a["w"][1]), lambda a: a["w"].__setitem__(1, 2), 2),
        (record["n"], lambda a: float(a[0]), lambda a: a.__setitem__(0, 2), 2),
        (structured()[1], lambda a: float(a["w"]), lambda a: a.__setitem__("w", 2), 2),
        (structured().view(np.recarray), lambda a: float(a.w[1]), lambda a: a.w.__setitem__(1, 2), 2),
        (shown, number, lambda a: owner.__setitem__(1, 2), 2),
        (read_only, number, lambda a: a.base.__setitem__(1, 2), 2),
        (masked, lambda a: float(a.filled(7)[1]), lambda a: a.__setitem__(1, 2), 2),
        (masked[:1].copy(), lambda a: float(a.filled(7)[0]), lambda a: a.__setitem__(0, np.ma.masked), 7),
        ((ctypes.c_double * 2)(1, 1), number, lambda a: a.__setitem__(1, 2), 2),
        (array.array("d", [1, 1]), number, lambda a: a.__setitem__(1, 2), 2),
        (array.array("d", [1]), lambda a: float(len(a)), lambda a: a.append(5), 2),
        (bytearray(b"\x01\x01"), lambda a: float(a[1]), lambda a: a.__setitem__(1, 2), 2),
        (bytearray(b"\x01"), lambda a: float(len(a)), lambda a: a.extend(b"a"), 2),
        (memoryview(bytearray(2)), lambda a: float(a[1] + 1), lambda a: a.__setitem__(1, 1), 2),
        (np.zeros(0), lambda a: float(a.size + 1), lambda a: a.resize(1, refcheck=False), 2),
        (np.zeros((0, 3)), lambda a: float(a.shape[1] - 2), lambda a: setattr(a, "shape", (4, 0)), -2),
        (np.ones(2, np.int32), number, lambda a: setattr(a, "dtype", np.float32), None),
    ]  # fmt: skip
    for a, read, change, want in cases:
        c = settled(lambda x, a=a, read=read: x * read(a))
        change(a)
        if want is None:
            want = read(a)
        follows(c, want)


def test_arrays_of_objects():
    inner = [1.0]
    a = np.empty((2, 2), object)
    a[:] = 1.0
    a[1, 1], a[1, 0] = inner, pf.ones(1)

    def f(x):
        return x * a[0, 1] * a[1, 1][0] * a[1, 0]

    c = settled(f)
    a[0, 1] = 2
    follows(c, 2)
    a[0, 1] = float("2.0")  # of another type
    follows(c, 2)
    inner[0] = 4.0
    follows(c, 8)
    a[1, 1] = [8.0]
    follows(c, 16)
    a[1, 0] = pf.full((1,), 2.0)
    follows(c, 32)
    a[1, 0].fill_(1)  # tensors are read where they are
    assert c(pf.ones(2)).tolist() == [16.0] * 2
    a[0, 0] = None
    follows(c, 16)
    fields = np.array([(1, None)], dtype=[("w", "i4"), ("o", object)])
    c = settled(lambda x: x * len(fields["o"][0] or "a"))
    for n in range(2, 10):  # each in the place of the one before, perhaps
        fields["o"][0] = "a" * n
        assert c(pf.ones(2)).tolist() == [n] * 2
        gc.collect()


def test_huge_arrays():
    """All of those up to 64 KiB; of larger ones elements from the first to the last, and all of what the
    step makes a tensor of, or of a part of it."""
    whole = np.ones(LARGE // 8)
    c = settled(lambda x: x * float(whole[777]))
    whole[777] = 2
    follows(c, 2)
    # With 64 elements a change of all of it is seen, and one of its ends.
    for shape in ((LARGE // 4,), (3, 5, 4000), (100, 300)):
        a = np.ones((*shape, 2))[..., 0]
        assert a.nbytes > LARGE
        c = settled(lambda x, a=a: x * float(a.flat[77]))
        a *= 2
        follows(c, 2)
        c = settled(lambda x, a=a: x * float(a.flat[-1]), 2.0)
        a[(-1,) * a.ndim] = 4
        follows(c, 4)
        c = settled(lambda x, a=a: x * float(a.flat[0]), 2.0)
        a[(0,) * a.ndim] = 3
        follows(c, 3)
    dates = np.zeros(LARGE // 4, "M8[s]")
    c = settled(lambda x: x * (1 + float(dates.astype("i8")[77])))
    dates += np.timedelta64(1, "s")
    follows(c, 2)
    turned = np.ones((LARGE // 16, 2)).T
    c = settled(lambda x: x * float(turned[1, 777]))
    turned[1, 777] = 2
    follows(c, 2)
    wide = np.zeros(3, f"V{LARGE}")
    c = settled(lambda x: x * (1 + wide[1].tobytes()[0]))
    wide[1] = np.void(b"\x01" * LARGE)
    follows(c, 2)


@pytest.mark.cpu_only  # copies to another device are not captured
def test_huge_arrays_that_tensors_are_made_of():
    a = np.ones(LARGE, np.float32)

    def step(x):
        fresh = np.arange(20000.0)  # nobody else can write to it
        return x * pf.tensor(a)[7] * pf.tensor(a[9:20])[1] * pf.tensor(fresh)[1]

    c = pf.compile(step, **CAPTURED)
    for _ in range(6):
        c(pf.ones(2))
    assert calls(c)[0] == 3, c.report()
    a[7] = 2
    follows(c, 2)
    a[10] = 3
    follows(c, 6)
    assert "an array that a tensor is made of" in c.report()
    (variant,) = next(iter(c._step.variants.values()))
    assert variant.state._names.count("an array that a tensor is made of") == 2


def test_a_step_that_writes_to_an_array_runs_as_always():
    count = np.zeros(2)

    def step(x):
        count[0] += 1
        return x * float(count[0])

    c = pf.compile(step, **CAPTURED)
    with pytest.warns(UserWarning, match=r"the program changes .*step\.count"):
        got = [c(pf.ones(1)).item() for _ in range(5)]
    assert got == [1, 2, 3, 4, 5]


def test_what_changes_and_makes_no_difference():
    """Losses that the caller keeps in an array are asked about some times, and no more."""
    losses = np.zeros(100)
    m = Scaled(np.ones(1))
    m.losses = losses
    c = pf.compile(m, **CAPTURED)
    for i in range(60):
        losses[i] = c(pf.ones(1)).item() + i
    assert calls(c)[0] > 25, c.report()
    m.scale[0] = 2
    follows(c, 2)


def test_sets():
    some, objects = {"a", 1}, {Kept(), Kept()}

    def f(x):
        return x * (2.0 if "b" in some else 1.0) * len(objects)

    c = settled(f, 2.0)
    some.discard("a")
    some.add("b")  # as many as before
    follows(c, 4)
    objects.add(Kept())
    follows(c, 6)


def test_arrays_end_with_the_step():
    """What looks at them is found with the cycle that it is part of."""
    dead = []

    def cycle():
        a = np.ones(3)
        dead.append(weakref.ref(a))
        b = {"a": a}
        c = b["again"] = pf.compile(lambda x: x * float(b["a"][0]), **CAPTURED)
        for _ in range(6):
            c(pf.ones(2))
        assert calls(c)[0] == 3

    cycle()
    gc.collect()
    assert dead[0]() is None
