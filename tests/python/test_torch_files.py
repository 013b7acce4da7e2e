"""Files of torch.save: read without unpickling, written without pickling, converted; and hostile
ones."""

import argparse
import collections
import dataclasses
import enum
import io
import os
import pathlib
import pickle
import random
import resource
import struct
import subprocess
import sys
import types
import zipfile

import numpy as np
import pytest

import pyflame as pf
from pyflame import serialization, torch_files
from pyflame.torch_files import convert, opcodes

FileError = pf.FileError


def saved(value, **how):
    f = io.BytesIO()
    torch_files.save(value, f, **how)
    return f.getvalue()


def values(module):
    """One of everything, of PyFlame or PyTorch."""
    base = module.arange(10.0)
    shared = [1, [2.5]]
    return {
        "state": collections.OrderedDict(w=base[2:6], v=base.view(2, 5).t(), b=base[::3]),
        "expanded": module.ones(1).expand(4),
        "dtypes": [module.arange(4).to(getattr(module, d)) for d in (
            "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8",
            "uint8", "bool", "uint16", "uint32", "uint64", "complex64", "complex128",
            "float8_e4m3fn", "float8_e5m2")],
        "param": module.nn.Parameter(module.ones(2)),
        "frozen": module.nn.Parameter(module.ones(2), requires_grad=False),
        "leaf": module.ones(2, requires_grad=True),
        "empty": module.empty(0, 3),
        "scalar": module.tensor(3),
        "size": module.Size([1, 2]),
        "dtype": module.float16,
        "device": module.device("cpu"),
        "numbers": [None, True, False, 0, 255, 256, 65536, -1, 2**31, -(2**31), 2**70, -(2**900),
                    1.5, float("inf"), 1 + 2j],
        "text": ["", "x", "héllo\n", "\ud800"],
        "bytes": [b"", b"\0\xff\n", bytearray(b"ab")],
        "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        "sets": [set(), {1, "a"}, frozenset([1, (2, 3)])],
        "more": [collections.defaultdict(list, {1: [2]}), collections.Counter("aab"),
                 collections.deque([1, 2], 5), range(1, 9, 2), slice(1, None, 2)],
        "spaces": [argparse.Namespace(lr=0.1, name="x"), types.SimpleNamespace(a=[1])],
        "path": pathlib.PosixPath("/a/b c"),
        "numpy": [np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)),
                  np.array([True, False]), np.array(["ab", "c"]), np.array([b"x"]),
                  np.zeros((0, 2), np.int16), np.array(7, np.uint8), np.arange(3, dtype=">f4"),
                  np.float64(2.5), np.bool_(True), np.int8(-3)],
        "keys": {1: "a", "b": 2, None: 3, 2.5: 4, (1, "x"): 5, False: 6},
        "shared": shared,
        "again": shared,
        "nested": {"a": {"b": [{"c": (1, [2])}]}},
        "many": list(range(3000)),
    }  # fmt: skip


def plain(value):
    """A value as text that is the same for both modules."""
    if isinstance(value, np.ndarray):
        # NumPy's own unpickling gives the machine's byte order.
        return f"{value.dtype.newbyteorder('=')} {value.shape} {value.tolist()}"
    if hasattr(value, "requires_grad"):
        # Values of a dtype that NumPy lacks are read as float64.
        wide = value.detach()
        name = str(value.dtype).rpartition(".")[2]
        if name.startswith(("float8", "bfloat")):
            wide = wide.float()
        facts = type(value).__name__, name, tuple(value.shape), tuple(value.stride())
        return f"{facts} {value.requires_grad} {wide.numpy().tolist()}"
    if isinstance(value, dict):
        inner = ", ".join(f"{plain(k)}: {plain(v)}" for k, v in value.items())
        return f"{type(value).__name__}{{{inner}}}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}[{', '.join(map(plain, value))}]"
    return f"{type(value).__name__} {value!r}".replace("pyflame.", "torch.")


def assert_same(a, b):
    assert list(a) == list(b)
    for key in a:
        assert plain(a[key]) == plain(b[key]), key


def test_what_is_written_is_read(tmp_path):
    value, path = values(pf), tmp_path / "x.pt"
    torch_files.save(value, path)
    for back in (pf.load(path), pf.load(path, mmap=True), pf.load(str(path), weights_only=False),
                 pf.load(io.BytesIO(path.read_bytes()))):  # fmt: skip
        assert_same(value, back)
        assert back["shared"] is back["again"]
        w, v = back["state"]["w"], back["state"]["v"]
        w[0] = -5.0
        assert v.flatten().tolist().count(-5.0) == 1  # they still share memory
    assert_same(value, pf.load(path))  # mmap did not write into the file
    with path.open("rb") as f:
        assert_same(value, pf.load(f))
    assert zipfile.ZipFile(path).testzip() is None
    assert saved(value) == saved(value)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5, "old"])
def test_what_pytorch_writes_is_read(tmp_path, protocol):
    torch = pytest.importorskip("torch")
    value, path = values(torch), tmp_path / "x.pt"
    how = {"pickle_protocol": 2 if protocol == "old" else protocol}
    torch.save(value, path, _use_new_zipfile_serialization=protocol != "old", **how)
    for mmap in (False, True):
        back = pf.load(path, mmap=mmap)
        assert_same(value, back)
        assert back["state"]["w"].untyped_storage() == back["state"]["v"].untyped_storage()


def test_pytorch_reads_what_is_written(tmp_path):
    torch = pytest.importorskip("torch")
    torch_files.save(values(pf), tmp_path / "x.pt")
    back = torch.load(tmp_path / "x.pt", weights_only=False, mmap=True)
    assert_same(values(torch), back)
    assert back["shared"] is back["again"]
    plain_ones = {k: v for k, v in values(pf).items() if k in ("state", "dtypes", "param", "leaf")}
    torch_files.save(plain_ones, tmp_path / "y.pt")
    torch.load(tmp_path / "y.pt")  # by its own list of what is harmless


def test_models_and_optimizers_of_pytorch_go_on(tmp_path):
    torch = pytest.importorskip("torch")

    def run(module, state=None):
        nn = module.nn
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = module.optim.AdamW(model.parameters(), lr=0.1)
        if state:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
        for i in range(3):
            optimizer.zero_grad()
            x = module.arange(15.0).reshape(5, 3).sin() + i
            (model(x) - 1).square().mean().backward()
            optimizer.step()
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

    first = run(torch)
    torch.save(first, tmp_path / "x.pt")
    theirs, ours = run(torch, first), run(pf, pf.load(tmp_path / "x.pt"))
    for name, a in theirs["model"].items():
        np.testing.assert_allclose(ours["model"][name].numpy(), a.numpy(), rtol=1e-4, atol=1e-5)


def test_conjugates_of_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    z = torch.tensor([1 + 2j, 3 - 4j])
    torch.save(z.conj(), tmp_path / "x.pt")
    torch.save(z.conj().imag, tmp_path / "y.pt")
    a, b = pf.load(tmp_path / "x.pt"), pf.load(tmp_path / "y.pt")
    assert a.tolist() == [1 - 2j, 3 + 4j] and b.tolist() == [-2.0, 4.0]


def test_the_other_byte_order(tmp_path):
    value = {"f": pf.tensor([1.5, -2.0]), "i": pf.tensor([1, 256]), "b": pf.tensor([True, False])}
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(value))) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("byteorder"):
                data = b"big"
            elif "/data/" in name:
                size = {8: 4, 16: 8, 2: 1}[len(data)]
                data = b"".join(data[i : i + size][::-1] for i in range(0, len(data), size))
            new.writestr(name, data)
    back = pf.load(io.BytesIO(out.getvalue()))
    assert_same(value, back)


def test_map_location(tmp_path):
    path = tmp_path / "x.pt"
    a = pf.ones(4)
    torch_files.save({"a": a, "b": a[1:], "c": pf.zeros(2)}, path)
    asked = []

    def where(tensor, location):
        asked.append((tuple(tensor.shape), location))
        return tensor + 1 if tensor.numel() == 2 else None

    back = pf.load(path, where)
    assert sorted(asked) == [((2,), "cpu"), ((4,), "cpu")] and back["c"].tolist() == [1, 1]
    for location in ("cpu", pf.device("cpu"), {"cuda:0": "cpu"}, {"cpu": "cpu"}, None):
        assert pf.load(path, map_location=location)["b"].tolist() == [1, 1, 1]

    class Own(Exception):
        pass

    def fails(tensor, location):
        raise Own

    with pytest.raises(Own):
        pf.load(path, fails)
    with pytest.raises(TypeError, match="map_location returned"):
        pf.load(path, lambda t, location: 3)


def test_bools_are_bools(tmp_path):
    data = bytearray(saved(pf.tensor([True, False, True])))
    at = data.index(b"\1\0\1")
    data[at : at + 3] = b"\7\0\xff"
    (tmp_path / "x.pt").write_bytes(data)
    for mmap in (False, True):
        t = pf.load(tmp_path / "x.pt", mmap=mmap)
        assert t.sum().item() == 2 and t.view(pf.uint8).tolist() == [1, 0, 1]


# ---- what is refused ------------------------------------------------------------------------------


@dataclasses.dataclass
class Config:
    width: int = 3


class Mode(enum.Enum):
    FAST = 1


Point = collections.namedtuple("Point", "x y")


class Runs:
    """What unpickling would run."""

    def __reduce__(self):
        return os.system, ("touch pwned",)


def as_archive(pickled, storages=None, order="little"):
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as z:
        z.writestr("x/data.pkl", pickled)
        z.writestr("x/byteorder", order)
        for key, data in (storages or {}).items():
            z.writestr(f"x/data/{key}", data)
        z.writestr("x/version", "3\n")
    return f.getvalue()


def load(data):
    return pf.load(io.BytesIO(data))


def test_code_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for protocol in range(6):
        with pytest.raises(FileError, match=r"object of '(posix|nt)\.system'|the opcode"):
            load(as_archive(pickle.dumps({"a": Runs()}, protocol=protocol)))
    assert not os.path.exists("pwned")
    for value, name in ((Config(), "Config"), (Mode.FAST, "Mode"), (Point(1, 2), "Point"),
                        (print, "builtins.print|__builtin__.print"), (np.dtype, "numpy.dtype")):  # fmt: skip
        with pytest.raises(FileError, match=name):
            load(as_archive(pickle.dumps(value, protocol=2)))


def test_allowed_classes_are_made():
    value = [Config(5), Mode.FAST, Point(1, 2)]
    with serialization.safe_globals([Config, Mode, Point]):
        for protocol in (2, 4):
            assert load(as_archive(pickle.dumps(value, protocol=protocol))) == value
        with pytest.raises(FileError, match="Config"):
            load(as_archive(pickle.dumps(Config(), 2).replace(b"width", b"wirth")))


def test_whole_models_are_refused_by_name(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "x.pt")
    with pytest.raises(torch_files.PickledClassError, match=r"linear\.Linear.*state_dict"):
        pf.load(tmp_path / "x.pt", weights_only=False)


def test_other_archives(tmp_path):
    good = saved({"a": pf.ones(3)})
    for data, words in (
        (good[: len(good) - 40], "no directory"),
        (good[:200], "no directory"),
        (b"PK\3\4", "zip archive|no directory"),
        (as_archive(b""), "instruction"),
        (as_archive(b"\x80\x02N"), "instruction"),
        (as_archive(b"\x80\x02i."), "opcode b'i'"),
        (as_archive(b"\x80\x09N."), "protocol"),
    ):
        with pytest.raises(FileError, match=words):
            load(data)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("x/data.pkl", b"\x80\x02N." + b"\0" * 1_000_000)
    with pytest.raises(FileError, match="compressed.*zip -0"):
        load(packed.getvalue())
    with pytest.raises(FileError, match="TorchScript"):
        f = io.BytesIO()
        with zipfile.ZipFile(f, "w") as z:
            z.writestr("x/data.pkl", b"\x80\x02N.")
            z.writestr("x/constants.pkl", b"\x80\x02).")
        load(f.getvalue())


def tensor_text(storage=b"FloatStorage", key=b"0", count=4, offset=0, size=(4,), stride=(1,)):
    """The pickle of a tensor with these facts."""

    def number(n):
        data = n.to_bytes(20, "little", signed=True)
        return b"\x8a\x14" + data

    def numbers(of):
        return b"(" + b"".join(map(number, of)) + b"t"

    def text(s):
        return b"X" + struct.pack("<I", len(s)) + s

    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((" + text(b"storage") + b"ctorch\n" + storage
        + b"\n" + text(key) + text(b"cpu") + number(count) + b"tQ" + number(offset) + numbers(size)
        + numbers(stride) + b"\x89ccollections\nOrderedDict\n)RtR."
    )  # fmt: skip


def test_tensors_that_reach_past_the_file():
    def read(data=bytes(16), **facts):
        return load(as_archive(tensor_text(**facts), {"0": data}))

    assert read().tolist() == [0, 0, 0, 0]
    assert read(size=(2, 2), stride=(2, 1)).shape == (2, 2)
    assert read(size=(0, 5), stride=(5, 1)).shape == (0, 5)
    assert read(size=(9, 4), stride=(0, 1)).shape == (9, 4)
    for facts in (
        {"count": 5},
        {"count": 2**40},
        {"count": -4},
        {"data": bytes(15)},
        {"key": b"1"},
        {"key": b"../0"},
        {"offset": 1},
        {"offset": -1},
        {"size": (5,)},
        {"size": (2, 2)},
        {"size": (2, 3), "stride": (2, 1)},
        {"stride": (-1,)},
        {"stride": (2**61,)},
        {"size": (2**61,), "stride": (0,)},
        {"size": (2**40, 2**40), "stride": (0, 0)},
        {"size": (1,) * 65, "stride": (1,) * 65},
        {"storage": b"QInt8Storage"},
        {"storage": b"Size"},
    ):
        with pytest.raises(FileError):
            read(**facts)


def test_archives_that_give_more_than_they_have():
    """Records over each other, as a bomb has them."""
    good = saved({"a": pf.ones(100), "b": pf.zeros(100)})
    entry = good.index(b"PK\1\2")
    starts = [i for i in range(entry, len(good)) if good[i : i + 4] == b"PK\1\2"]
    bad = bytearray(good)
    one, two = starts[2], starts[3]  # of data/0 and data/1
    bad[two + 42 : two + 46] = good[one + 42 : one + 46]
    with pytest.raises(FileError, match="lies over"):
        load(bytes(bad))
    bad = bytearray(good)
    bad[two + 46 : two + 46 + 16] = good[one + 46 : one + 46 + 16]
    with pytest.raises(FileError, match="twice|not where|no room|not in the file"):
        load(bytes(bad))


def test_values_that_take_more_than_their_bytes(monkeypatch):
    monkeypatch.setattr(opcodes, "_MOST_VALUES", 1000)
    for pickled in (b"\x80\x02" + b"}" * 5000 + b".", b"\x80\x02N" + b"\x94" * 5000 + b".",
                    b"\x80\x02" + b"(" * 5000 + b"."):  # fmt: skip
        with pytest.raises(FileError, match="more than 1000"):
            load(as_archive(pickled))
    for name, args in ((b"list", b"c__builtin__\nxrange\nJ\xff\xff\xff\x7f\x85R\x85"),
                       (b"bytearray", b"J\xff\xff\xff\x7f\x85"),
                       (b"set", b"c__builtin__\nxrange\nJ\xff\xff\xff\x7f\x85R\x85")):  # fmt: skip
        with pytest.raises(FileError, match="make none"):
            load(as_archive(b"\x80\x02c__builtin__\n" + name + b"\n" + args + b"R."))


def test_an_unknown_byte_order_is_refused():
    assert load(as_archive(b"\x80\x02K\x07.", order="big")) == 7
    for order in ("middle", "", "BIG", "little-endian"):
        with pytest.raises(FileError, match="byte order .*neither little nor big"):
            load(as_archive(b"\x80\x02K\x07.", order=order))


def refuse(text):
    raise FileError(text)


def test_values_that_nest_or_hold_themselves(monkeypatch):
    for pickled, words in (
        (b"\x80\x02" + b"]" * 300 + b"a" * 299 + b".", "deeper"),
        (b"\x80\x02N" + b"\x85" * 100_000 + b".", "deeper"),
        (b"\x80\x02}N" + b"\x85" * 100_000 + b"Ns.", "deeper"),
        (b"\x80\x02}N" + b"\x85" * 50 + b"Ns.", "key"),
        (b"\x80\x02]q\0h\0a.", "contains itself"),
        (b"\x80\x02}q\0Nh\0s.", "contains itself"),
        (b"\x80\x02}q\0]q\1h\0aNs.", "key of a dict"),
    ):
        with pytest.raises(FileError, match=words):
            load(as_archive(pickled))
    # As fast as they begin: a file of a megabyte holds a million levels.
    for pickled in (b"N" + b"\x85" * 1_000_000, b"N" + b"(" * 1_000_000, b"(" * 999_999 + b"t" * 999_999,
                    b"]" * 2000 + b"a" * 1999, b"]" + b"(" * 500 + b"]" + b"e](" * 999_999):  # fmt: skip
        reading = opcodes.Pickle(b"\x80\x02" + pickled + b".", None, None, refuse)
        with pytest.raises(FileError, match="deeper|instruction"):
            reading.load()
        assert reading.at < 3000
    # Built from the outermost on, so that nobody knows before the end.
    down = b"]q\0" + b"]q\1a0h\1" * 100_000 + b"h\0."
    looked = []
    monkeypatch.setattr(opcodes, "_inside", lambda v, of=opcodes._inside: looked.append(1) or of(v))
    with pytest.raises(FileError, match="deeper"):
        opcodes.Pickle(down, None, None, refuse).load()
    assert len(looked) < 1000
    doubled = b"\x80\x02N\x85" + b"2\x86" * 60 + b"."  # 2**60 leaves in 60 tuples
    assert load(as_archive(doubled))[0] is not None


# ---- a fuzzer -------------------------------------------------------------------------------------


def mutated(rng, data):
    data = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        kind = rng.randrange(6)
        at = rng.randrange(max(len(data), 1))
        if kind == 0:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del data[at : at + rng.randint(1, 20)]
        elif kind == 2:
            data[at:at] = data[at : at + rng.randint(1, 30)]
        elif kind == 3:
            data[at : at + 4] = struct.pack("<I", rng.choice([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, at]))
        elif kind == 4:
            data[at : at + 1] = rng.choice(list(map(bytes, zip(opcodes._STEPS))))
        else:
            data[at : at + 8] = struct.pack("<Q", rng.choice([0, 2**63, 2**64 - 1, 2**32]))
    return bytes(data)


def fuzz(rounds, seed):
    """Damaged archives, damaged pickles in good archives, damaged old files: each is read, or is a
    FileError."""
    rng = random.Random(seed)
    value = {k: v for k, v in values(pf).items() if k not in ("many", "numbers")}
    whole = saved(value)
    with zipfile.ZipFile(io.BytesIO(whole)) as z:
        root = z.namelist()[0].partition("/")[0]
        pickled = z.read(f"{root}/data.pkl")
        storages = {n.rpartition("/")[2]: z.read(n) for n in z.namelist() if "/data/" in n}
    magic = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2)
    old_tensor = tensor_text()[2:].replace(b"tQ", b"NtQ")
    old = magic + pickle.dumps({"little_endian": True}, 2) + b"\x80\x02" + old_tensor
    old += pickle.dumps(["0"], 2) + struct.pack("<Q", 4) + bytes(16)
    assert pf.load(io.BytesIO(old)).tolist() == [0, 0, 0, 0]
    good = bad = 0
    for i in range(rounds):
        if i % 3 == 0:
            data = mutated(rng, whole)
        elif i % 3 == 1:
            data = as_archive(mutated(rng, pickled), storages)
        else:
            data = mutated(rng, old)
        try:
            back = load(data)
            repr(back)
            good += 1
        except FileError:
            bad += 1
    return good, bad


def test_fuzz_in_little_memory():
    """In a process that may have 1 GB more than it begins with."""
    code = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "import test_torch_files as t; print(*t.fuzz_here(4000, 1))"
    )
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), PYTHONWARNINGS="ignore")
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    good, bad = map(int, done.stdout.split())
    assert good + bad == 4000 and bad > 1500


def fuzz_here(rounds, seed):
    with open("/proc/self/statm") as f:
        now = int(f.read().split()[0]) * resource.getpagesize()
    if now < 1 << 40:  # sanitizers reserve terabytes
        resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 30),) * 2)
    return fuzz(rounds, seed)


# ---- writing --------------------------------------------------------------------------------------


def test_what_such_a_file_cannot_hold():
    for value, words in (
        ({"a": [Config()]}, r"'Config' at obj\['a'\]\[0\]"),
        ([print], "builtin_function_or_method"),
        ({"a": lambda: 0}, "function"),
        ([np.array([1, "x"], object)], "ndarray"),
        ([np.datetime64("2020-01-01")], "datetime64"),
        ({pf.ones(1): 1}, "Tensor"),
    ):
        with pytest.raises(TypeError, match=words):
            saved(value)
    loop = []
    loop.append(loop)
    with pytest.raises(pf.ValueError, match="contains itself"):
        saved(loop)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.pt"
    torch_files.save([1], path)
    with pytest.raises(TypeError):
        torch_files.save([print], path)
    assert pf.load(path) == [1] and os.listdir(tmp_path) == ["x.pt"]
    with pytest.raises(FileError):
        torch_files.save([1], tmp_path / "no" / "x.pt")


def test_convert(tmp_path):
    state = {"w": pf.ones(2, 3), "b": pf.zeros(2)}
    torch_files.save({"model": state, "step": 3}, tmp_path / "x.pt")
    convert.convert(str(tmp_path / "x.pt"), str(tmp_path / "all.safetensors"))
    assert pf.load(tmp_path / "all.safetensors")["step"] == 3
    convert.convert(str(tmp_path / "x.pt"), str(tmp_path / "m.safetensors"), ["model"])
    plain_file = pf.safetensors.load_file(tmp_path / "m.safetensors")
    assert plain_file["w"].shape == (2, 3)
    assert pf.safetensors.metadata(tmp_path / "m.safetensors")[1] == {"format": "pt"}
    convert.convert(str(tmp_path / "m.safetensors"), str(tmp_path / "y.pth"))
    assert pf.load(tmp_path / "y.pth")["b"].tolist() == [0, 0]
    with pytest.raises(pf.ValueError, match="no entry 'x'.*'model'"):
        convert.convert(str(tmp_path / "x.pt"), str(tmp_path / "z.pt"), ["x"])
    with pytest.raises(pf.ValueError, match="ends in .safetensors"):
        convert.convert(str(tmp_path / "x.pt"), str(tmp_path / "z.onnx"))


@pytest.mark.cpu_only
def test_an_old_file_beyond_all_memory(tmp_path):
    """Such files are read as a whole: what is too long for that is said, and not waited for."""
    torch = pytest.importorskip("torch")
    path = tmp_path / "old.pt"
    torch.save({"w": torch.ones(3)}, path, _use_new_zipfile_serialization=False)
    os.truncate(path, 1 << 40)
    program = (
        "import resource, sys, pyflame as pf\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))\n"
        "try: pf.load(sys.argv[1])\n"
        "except pf.OutOfMemoryError as e: print(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    assert "no room for its 1099511627776 bytes" in done.stdout, done.stderr


@pytest.mark.parametrize("what", ["holes", "behind records", "before records", "old", "described"])
def test_files_of_a_terabyte_of_holes_are_refused_unread(tmp_path, what):
    """By what they say of themselves: reading them takes minutes."""
    size, path = 1 << 40, tmp_path / "holes.pt"
    error = FileError
    with open(path, "wb") as f:
        try:
            f.truncate(size)
        except OSError:
            pytest.skip("the file system has no such files")
        if what == "behind records":
            f.write(saved({"a": pf.ones(3)}))
        elif what == "before records":
            f.seek(size)
            f.write(saved({"a": pf.ones(3)}))
        elif what == "old":
            torch = pytest.importorskip("torch")
            torch.save({"a": torch.ones(3)}, f, _use_new_zipfile_serialization=False)
            error = pf.OutOfMemoryError
        elif what == "described":
            head = b'{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size, size)
            head += b" " * (-(8 + len(head)) % 64)
            f.write(struct.pack("<Q", len(head)) + head)
            f.truncate(f.tell() + size)
            error = pf.OutOfMemoryError
    with pytest.raises(error):
        pf.load(path)
    if what == "described":
        assert pf.load(path, mmap=True)["a"][5:7].tolist() == [0, 0]
