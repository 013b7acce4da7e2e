"""What pf.save accepts, pf.load gives back: equal values, of the same types."""

import argparse
import collections
import dataclasses
import enum
import io
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import types

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyflame as pf
from pyflame import serialization


def through(value, **options):
    """What comes back from a file of `value`."""
    buffer = io.BytesIO()
    pf.save(value, buffer)
    buffer.seek(0)
    return pf.load(buffer, **options)


def same(a, b):
    """Deep equality of types and values; tensors and arrays by bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, pf.Tensor) and (a.is_sparse or a.is_nested):
        if (a.is_sparse, a.is_nested) != (b.is_sparse, b.is_nested):
            return False
        return same(a._plain(), b._plain())
    if isinstance(a, pf.Tensor):
        same_kind = a.dtype == b.dtype and a.requires_grad == b.requires_grad
        return same_kind and a.shape == b.shape and a.tolist() == b.tolist()
    if isinstance(a, (np.ndarray, np.generic)):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, (set, frozenset)):
        return len(a) == len(b) and all(any(same(x, y) for y in b) for x in a)
    if isinstance(a, collections.defaultdict) and a.default_factory is not b.default_factory:
        return False
    if isinstance(a, collections.deque) and a.maxlen != b.maxlen:
        return False
    if isinstance(a, dict):
        # In order, for keys that are NaN are equal to nothing.
        return len(a) == len(b) and all(
            same(k, l) and same(v, w) for (k, v), (l, w) in zip(a.items(), b.items(), strict=True)
        )
    if isinstance(a, (list, tuple, collections.deque)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (argparse.Namespace, types.SimpleNamespace)):
        return same(vars(a), vars(b))
    if isinstance(a, slice):
        return same([a.start, a.stop, a.step], [b.start, b.stop, b.step])
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b) or (a != a and b != b)
    if isinstance(a, pf.Size):
        return list(a) == list(b)
    return a == b


# ---- the property -------------------------------------------------------------------------------

scalars = st.sampled_from(
    [np.float32(1.5), np.float64(-0.0), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True)]
    + [np.float16("nan"), np.complex64(1 + 2j), np.str_("né"), np.str_(""), np.bytes_(b"a")]
    + [np.datetime64("2026-11-22T01:02"), np.timedelta64(5, "h")]
)
hashable = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(-(2**9000), 2**9000),
        st.floats(),
        st.text(st.characters(), max_size=5),  # halves of surrogate pairs too
        st.binary(max_size=5),
        st.complex_numbers(),
        scalars,
        st.sampled_from([pf.float32, pf.int64, pf.device("cpu"), pf.Size([2, 3]), pf.Size([])]),
        st.sampled_from([pathlib.Path("a/b"), pathlib.PurePosixPath("/x"), ..., range(2, 9, 3)]),
        st.just(pathlib.Path("caf\udce9")),
        st.just(pathlib.PureWindowsPath("c:/x")),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=3)
    ),
    max_leaves=4,
)
dtypes = st.sampled_from(
    ["<f4", ">f4", "<f8", "<i4", "|u1", "<u8", "|b1", "<c8", "<U3", "|S2", "<M8[s]"]
)
arrays = st.builds(
    lambda dtype, shape, order: np.zeros(shape, dtype, order=order),
    dtypes, st.sampled_from([(), (0,), (3,), (2, 3), (2, 0, 1)]), st.sampled_from("CF"),
)  # fmt: skip
leaves = st.one_of(
    hashable,
    st.sets(hashable, max_size=3),
    arrays,
    st.binary(max_size=5).map(bytearray),
    st.builds(slice, st.none() | st.integers(), st.integers(), st.none() | st.integers()),
    st.integers(0, 4).map(lambda n: pf.arange(n).float()),
    st.integers(0, 3).map(lambda n: pf.nn.Parameter(pf.ones(n))),
    st.just(pf.nn.Parameter(pf.arange(3), requires_grad=False)),
)


def containers(inner):
    dicts = st.dictionaries(hashable, inner, max_size=3)
    named = st.dictionaries(st.text("ab_ é", max_size=4), inner, max_size=3)
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.builds(collections.deque, st.lists(inner, max_size=3), st.sampled_from([None, 5])),
        dicts,
        st.dictionaries(st.sampled_from(["$", "v", "typed", "of"]), inner, max_size=3),
        dicts.map(collections.OrderedDict),
        dicts.map(collections.Counter),
        st.builds(collections.defaultdict, st.sampled_from([None, list, int]), dicts),
        named.map(lambda d: argparse.Namespace(**d)),
        named.map(lambda d: types.SimpleNamespace(**d)),
    )


@settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck))
@given(st.recursive(leaves, containers, max_leaves=12))
def test_what_is_saved_comes_back_as_it_was(value):
    assert same(through(value), value)


def test_the_same_property_for_every_type_by_itself():
    """Each kind that files know is tried, whatever the examples above draw."""
    from pyflame._kinds import _KINDS, describe

    values = [
        collections.OrderedDict(b=1, a=pf.ones(2)),
        collections.defaultdict(list, a=[1]),
        collections.defaultdict(None, {(1, 2): 3}),
        collections.Counter("abracadabra"),
        collections.deque([1, pf.ones(1)], maxlen=4),
        {1, "a", (2, 3)},
        frozenset([frozenset([1]), 2.5]),
        argparse.Namespace(lr=1e-3, data=pathlib.Path("x")),
        types.SimpleNamespace(a=1),
        pathlib.Path("a/b.txt"),
        pathlib.PurePosixPath("/a"),
        pathlib.PureWindowsPath("c:/a"),
        complex(-0.0, float("nan")),
        bytearray(b"\0\1"),
        ...,
        slice(None, 3),
        range(10, 0, -3),
        pf.bfloat16,
        pf.device("cuda:1"),
        pf.Size([4, 0]),
        "\ud800 and \udcff",
        np.arange(6, dtype=">i2").reshape(2, 3)[:, ::2],
        np.float32(0.1),
        pf.sparse_coo_tensor([[1, 0]], [0.5, 2.0], (3,)),
        pf.nested.nested_tensor([pf.ones(2, 3), pf.zeros(1, 3)], layout=pf.jagged),
    ]
    assert {describe(v)[0] for v in values} == set(_KINDS)
    for value in values:
        assert same(through(value), value), value
        assert same(through({"k": [value]}), {"k": [value]})
    dtypes = [v for v in vars(pf).values() if isinstance(v, pf.dtype)]
    assert through(dtypes) == dtypes


def test_a_parameter_is_one_however_often_it_is_named():
    p = pf.nn.Parameter(pf.arange(3).float())
    back = through(
        {"a": p, "b": p, "data": p.detach(), "frozen": pf.nn.Parameter(pf.ones(1), False)}
    )
    assert type(back["a"]) is pf.nn.Parameter and back["a"].requires_grad and back["a"].is_leaf
    assert back["a"] is back["b"] and not back["frozen"].requires_grad
    with pf.no_grad():
        back["a"][1] = 7.0
    assert back["data"].tolist() == [0, 7, 2]


def test_a_state_dict_is_an_ordered_dict_again():
    model = pf.nn.Linear(2, 3)
    back = through({"model": model.state_dict()})["model"]
    assert type(back) is collections.OrderedDict and list(back) == list(model.state_dict())


def test_arrays_are_ours_and_can_be_written():
    back = through({"a": np.arange(3), "b": np.array([True, False])})
    back["a"][0] = 5
    assert back["a"].tolist() == [5, 1, 2] and back["b"].tolist() == [True, False]


def test_equal_sets_give_equal_bytes():
    texts = [f"key{i}" for i in range(50)]
    files = []
    for seed in range(3):
        random.Random(seed).shuffle(texts)
        buffer = io.BytesIO()
        pf.save({"s": set(texts), "mixed": {1, "a", None, *texts[:0]}}, buffer)
        files.append(buffer.getvalue())
    assert files[0] == files[1] == files[2]


def test_sets_within_sets_give_equal_bytes():
    # The order within a set of text follows the seed of the process.
    code = (
        "import io, sys, pyflame as pf\n"
        "inner = [frozenset(f'k{(7 * i + j) % 11}' for j in range(5)) for i in range(9)]\n"
        "buffer = io.BytesIO()\n"
        "pf.save({'s': set(inner), 't': {(1, f) for f in inner}}, buffer)\n"
        "sys.stdout.buffer.write(buffer.getvalue())"
    )
    files = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)}, check=True, capture_output=True,
        ).stdout
        for seed in (1, 2, 3)
    ]  # fmt: skip
    assert files[0] == files[1] == files[2]


@pytest.mark.parametrize("name", ["cpu", "cuda:1", "rocm:1"])
def test_a_device_keeps_its_backend(name):
    buffer = io.BytesIO()
    pf.save(pf.device(name), buffer)
    buffer.seek(0)
    assert str(pf.load(buffer)) == str(pf.device(name))
    assert pf._kinds.Maker("an older file")("device", ["cuda", 1]) == "cuda:1"


def test_text_of_no_letters_is_damage():
    for value in (np.array(["abcdefgh"]), np.str_("abcdefgh")):
        buffer = io.BytesIO()
        pf.save(value, buffer)
        data = buffer.getvalue()
        if isinstance(value, np.str_):  # among the metadata
            bad = data.replace(b"64000000", b"ffffffff")
        else:
            bad = data.replace(b"d\0\0\0e", b"\xff\xff\xff\xffe")
        assert bad != data
        with pytest.raises(pf.FileError, match="no letters"):
            pf.load(io.BytesIO(bad))


@pytest.mark.parametrize("error", [MemoryError, pf.OutOfMemoryError])
def test_too_little_memory_is_no_damage(error, no_classes, monkeypatch):
    def fail(*unused):
        raise error("no memory")

    pf.serialization.add_safe_globals([Config])
    buffer = io.BytesIO()
    pf.save({1, 2}, buffer)
    buffer.seek(0)
    monkeypatch.setattr(pf._kinds._KINDS["set"], "make", fail)
    with pytest.raises(error, match="no memory"):
        pf.load(buffer)
    maker = pf._kinds.Maker("a file")
    monkeypatch.setattr(pf._kinds, "make_class", fail)
    with pytest.raises(error, match="no memory"):
        maker.object(pf._kinds.name_of(Config), {})


# ---- numbers and sizes --------------------------------------------------------------------------


@pytest.mark.parametrize("digits", [18, 19, 600, 603, 4299, 4300, 4301, 100_000])
def test_whole_numbers_of_any_length(digits):
    for n in (10 ** (digits - 1), -(10**digits) + 1):
        assert through({"n": n, n: "key"}) == {"n": n, n: "key"}


def test_python_may_have_a_lower_limit_of_digits(tmp_path):
    code = (
        "import sys, pyflame as pf\n"
        "sys.set_int_max_str_digits(640)\n"
        "n = 10**4299\npf.save([n, -n, 7**700], sys.argv[1])\n"
        "assert pf.load(sys.argv[1]) == [n, -n, 7**700]"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "x"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert pf.load(tmp_path / "x")[0] == 10**4299


def test_a_dict_of_millions_of_keys(tmp_path):
    value = dict.fromkeys(range(2_200_000), 0)
    pf.save(value, tmp_path / "x")
    assert pf.load(tmp_path / "x") == value


def test_too_many_values_are_refused_when_they_are_saved(tmp_path):
    with pytest.raises(ValueError, match="more than 8388608 values"):
        pf.save([None] * (1 << 23), tmp_path / "x")


def test_many_tensors_at_one_path_take_linear_time():
    value = {(i,): pf.ones(1) for i in range(20_000)}  # all are called "key"
    assert len(through(value)) == 20_000


# ---- classes of the program ---------------------------------------------------------------------


class Colour(enum.Enum):
    RED = 1
    GREEN = "g"


class Flags(enum.IntFlag):
    A = 1
    B = 2


@dataclasses.dataclass(frozen=True)
class Config:
    width: int
    colour: Colour = Colour.RED
    extra: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Never:
    made: int

    def __post_init__(self):
        raise AssertionError("the class's code runs only for those who call it")


Point = collections.namedtuple("Point", "x y")


@pytest.fixture
def no_classes():
    serialization.clear_safe_globals()
    yield
    serialization.clear_safe_globals()


def test_classes_come_back_where_they_are_allowed(no_classes):
    value = [Config(3, Colour.GREEN, {"w": Point(1, (2,))}), Flags.A | Flags.B, Flags.B]
    with pytest.raises(TypeError, match=r"pf\.load: .*add_safe_globals\(\[Colour\]\)"):
        through({"c": Config(3)})
    with serialization.safe_globals([Config, Colour, Point, Flags]):
        assert same(through(value), value)
        assert set(serialization.get_safe_globals()) == {Config, Colour, Point, Flags}
    assert serialization.get_safe_globals() == []
    with pytest.raises(TypeError, match="not allowed"):
        through(value)
    serialization.add_safe_globals([Never])
    never = object.__new__(Never)
    never.made = 5
    assert through(never).made == 5
    with pytest.raises(TypeError, match="expected classes"):
        serialization.add_safe_globals(["os.system"])


def test_a_class_that_has_changed_is_told(no_classes, monkeypatch):
    buffer = io.BytesIO()
    pf.save(Config(3), buffer)
    changed = dataclasses.make_dataclass("Config", ["height"])
    changed.__module__ = Config.__module__
    serialization.add_safe_globals([changed, Colour])
    buffer.seek(0)
    with pytest.raises(pf.FileError, match="has no field"):
        pf.load(buffer)


def test_nothing_is_imported_for_a_file(no_classes, tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("trap:Class", "os:system", "builtins:eval"):
        with pytest.raises(TypeError, match="not allowed"):
            pf.load(io.BytesIO(tree_file(typed("object", [name, {}]))))
    assert "trap" not in sys.modules


class Dict(dict):
    pass


class Text(str):
    pass


@pytest.mark.parametrize(
    "value",
    [Dict(a=1), Text("a"), collections.defaultdict(lambda: 0), pytest, Config, Colour]
    + [memoryview(b"a"), iter([]), collections.ChainMap({}), type("T", (pf.Tensor,), {})],
)
def test_types_that_would_be_lost_are_refused(value):
    with pytest.raises(TypeError, match=r"pf\.save: got .* at obj\['config'\]\[0\]; .*; .*save"):
        through({"config": [value]})


def test_a_class_within_a_function_is_refused():
    @dataclasses.dataclass
    class Inner:
        a: int

    with pytest.raises(TypeError, match="dataclasses.asdict"):
        through(Inner(1))


def test_cycles_through_other_types_are_refused():
    d = collections.OrderedDict()
    d["self"] = d
    n = argparse.Namespace()
    n.n = [n]
    for value in (d, n):
        with pytest.raises(ValueError, match="contains itself"):
            through(value)


# ---- files that name types ----------------------------------------------------------------------


def typed(kind, of):
    return {"$": "typed", "v": kind, "of": of}


def tree_file(tree):
    text = tree if isinstance(tree, str) else json.dumps(tree)
    header = json.dumps({"__metadata__": {"pyflame.tree": text}}).encode()
    return struct.pack("<Q", len(header)) + header


def test_files_of_earlier_versions_load():
    old = {
        "a": {"$": "tuple", "v": [1, {"$": "int", "v": "-" + "9" * 4299}]},
        "b": [None, 1.5, "x"],
    }
    assert pf.load(io.BytesIO(tree_file(old))) == {
        "a": (1, 1 - 10**4299),
        "b": [None, 1.5, "x"],
    }


def test_what_a_newer_version_has_written_is_told():
    for tree in (typed("Quaternion", [1]), {"$": "quaternion", "v": "1"}):
        with pytest.raises(pf.FileError, match=r"pf\.load: .*uaternion.*newer"):
            pf.load(io.BytesIO(tree_file(tree)))


def kinds():
    from pyflame._kinds import _KINDS

    return [*_KINDS, "Parameter"]


@pytest.mark.parametrize("kind", kinds())
def test_wrong_plain_values_are_damage(kind):
    plain = [
        None, True, 5, -1, 1.5, "text", "", [], [1], [1, 2], [1, 2, 3], [1, 2, 3, 4], {}, {"a": 1},
        ["O", b"12345678"], ["<f4", [2**40], None], ["V8", "a"], ["<U3", [1], None], [None, None],
        [["a"]], [[{}]], [{}, []], ["float32"], ["no", 1], [1e308, "x"], ["cpu", -5], [{"x": []}],
        [[1], -1], ["list", 3], ["open", {}],
    ]  # fmt: skip
    for value in plain:
        value = json.loads(json.dumps(value, default=lambda b: {"$": "bytes", "v": b.hex()}))
        try:
            repr(pf.load(io.BytesIO(tree_file(typed(kind, value)))))
        except pf.FileError as e:
            assert "pf.load: " in str(e) and str(e).count("pf.load") == 1


WORDS = ["$", "typed", "of", "v", "tuple", "dict", "int", "hex", "float", "bytes", "tensor", "nan"]


def test_damaged_trees_give_values_or_file_errors():
    """Random trees and random damage to their text, from a seed."""
    rng = random.Random(11)

    def draw(depth):
        pick = rng.randrange(7 if depth < 4 else 4)
        if pick < 4:
            return rng.choice([None, True, 0, -(2**63), 1e300, "", "0x1f", "-0x", "é", *WORDS])
        if pick == 4:
            return [draw(depth + 1) for _ in range(rng.randrange(4))]
        if pick == 5:
            return {rng.choice(WORDS): draw(depth + 1) for _ in range(rng.randrange(3))}
        first = rng.choice([*kinds(), "object", "int", "hex", "tuple", "dict", "bytes"])
        if rng.random() < 0.5:
            return typed(first, draw(depth + 1))
        return {"$": first, "v": draw(depth + 1)}

    good = 0
    for _ in range(4000):
        text = json.dumps(draw(0))
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(text) + 1)
            text = (
                text[:at]
                + rng.choice(["", '"', "{", "]", ",", "9"])
                + text[at + rng.randrange(2) :]
            )
        try:
            repr(pf.load(io.BytesIO(tree_file(text))))
            good += 1
        except (pf.FileError, TypeError) as e:
            assert "pf.load: " in str(e)
            assert isinstance(e, pf.FileError) or "not allowed" in str(e)
    assert 500 < good < 3500
