"""Saved values, safetensors files and checkpoints: what comes back, and what bad files get."""

import io
import json
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import textwrap
import time
import warnings

import numpy as np
import pytest
from hangs import HANG
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyflame as pf
from pyflame import _C, safetensors
from pyflame.checkpoint import Checkpoints, CheckpointWarning, verify

FileError = _C.FileError
DEVICE = os.environ.get("PYFLAME_TEST_DEVICE", "cpu")


def same(a, b):
    """Deep equality, tensors by bits."""
    if isinstance(a, pf.Tensor) or isinstance(b, pf.Tensor):
        assert type(a) is type(b)
        assert a.dtype == b.dtype and tuple(a.shape) == tuple(b.shape)
        return a.numpy().tobytes() == b.numpy().tobytes()
    assert type(a) is type(b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or (a != a and b != b)


keys = st.one_of(st.text(max_size=5), st.integers(), st.tuples(st.integers(), st.text(max_size=3)))
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
    ),
    max_leaves=20,
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(trees)
def test_any_value_comes_back(value):
    buffer = io.BytesIO()
    pf.save(value, buffer)
    buffer.seek(0)
    assert same(pf.load(buffer), value)


def test_order_of_a_dict_is_kept(tmp_path):
    value = {"z": 1, "a": pf.zeros(2), "m": {"y": 1, "b": 2}}
    pf.save(value, tmp_path / "x")
    assert list(pf.load(tmp_path / "x")) == ["z", "a", "m"]


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "int64", "int8", "uint8", "bool"]
)
def test_tensors_of_every_layout(tmp_path, dtype):
    a = pf.from_numpy((np.arange(24) % 2 if dtype == "bool" else np.arange(24)).astype(dtype))
    a = a.reshape(2, 3, 4)
    value = {
        "plain": a,
        "scalar": a[1, 1, 1].clone(),
        "empty": a[:0].clone(),
        "transposed": a.transpose(0, 2),
        "slice": a[:, 1:, ::2],
        "broadcast": pf.ones(1, 3).expand(4, 3),
    }
    pf.save(value, tmp_path / "x")
    for mmap in (False, True):
        back = pf.load(tmp_path / "x", mmap=mmap)
        for name, t in value.items():
            np.testing.assert_array_equal(back[name].numpy(), t.numpy(), err_msg=name)


def test_tensors_of_a_device(tmp_path):
    a = pf.randn(4, 6).to(DEVICE)
    value = {"plain": a, "transposed": a.t(), "row": a[1], "pending": (a * 2 + 1).t()}
    pf.save(value, tmp_path / "x")
    safetensors.save_file(value, tmp_path / "y")
    back = pf.load(tmp_path / "x", map_location=DEVICE)
    plain = safetensors.load_file(tmp_path / "y", device=DEVICE)
    for name, t in value.items():
        for found in (back[name], plain[name]):
            assert found.device == t.device
            np.testing.assert_array_equal(found.cpu().numpy(), t.cpu().numpy(), err_msg=name)
    back["plain"][1, 0] = 5.0
    assert back["row"][0].item() == 5 and back["transposed"][0, 1].item() == 5


def test_bfloat16_keeps_its_bits(tmp_path):
    a = pf.randn(33).to(pf.bfloat16)
    pf.save(a, tmp_path / "x")
    back = pf.load(tmp_path / "x")
    assert back.dtype == pf.bfloat16
    assert (back.cpu().float() == a.cpu().float()).all().item()


def test_tied_weights_stay_tied(tmp_path):
    w = pf.randn(4, 3)
    pf.save({"embedding": w, "head": w, "t": w.t(), "row": w[1]}, tmp_path / "x")
    back = pf.load(tmp_path / "x")
    back["embedding"][1, 2] = 7.0
    assert back["head"][1, 2].item() == 7
    assert back["t"][2, 1].item() == 7
    assert back["row"][2].item() == 7
    assert (tmp_path / "x").stat().st_size < 1200


def test_requires_grad_comes_back(tmp_path):
    w = pf.randn(3, requires_grad=True)
    pf.save([w, pf.randn(2)], tmp_path / "x")
    a, b = pf.load(tmp_path / "x")
    assert a.requires_grad and a.is_leaf and not b.requires_grad
    (a * 2).sum().backward()
    assert a.grad.tolist() == [2, 2, 2]


def test_saving_does_not_extend_a_graph(tmp_path):
    w = pf.randn(3, 2, requires_grad=True)
    pf.save((w * 2).t(), tmp_path / "x")
    with pf.no_grad():
        np.testing.assert_array_equal(
            pf.load(tmp_path / "x").detach().numpy(), (w * 2).t().detach().numpy()
        )


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (object(), ""),
        (lambda: 0, ""),
        ([1, {"a": (2, object())}], r" at obj\[1\]\['a'\]\[1\]"),
        ({"k": open}, r" at obj\['k'\]"),
        ({"k": {"a": {1, open}}}, r" at obj\['k'\]\['a'\]\[[01]\]"),
        (np.array([object()]), ""),
        (np.zeros(2, [("a", "i4")]), ""),
    ],
)
def test_other_values_are_refused(tmp_path, value, where):
    with pytest.raises(TypeError, match=rf"pf\.save: .*'{where}; expected .*; "):
        pf.save(value, tmp_path / "x")
    assert os.listdir(tmp_path) == []


def test_cycles_are_refused(tmp_path):
    a = []
    a.append(a)
    with pytest.raises(ValueError, match="contains itself"):
        pf.save(a, tmp_path / "x")
    d = {}
    d["self"] = [d]
    with pytest.raises(ValueError, match="contains itself"):
        pf.save(d, tmp_path / "x")


def test_missing_file_is_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"pf\.load: .*nothing"):
        pf.load(tmp_path / "nothing")
    with pytest.raises(FileError):
        pf.load(tmp_path)
    with pytest.raises(FileError, match="directory"):
        pf.save(1, tmp_path / "no" / "such")


def test_pickles_are_refused(tmp_path):
    import pickle

    (tmp_path / "p").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(FileError, match="safetensors"):
        pf.load(tmp_path / "p")


def test_map_location(tmp_path):
    pf.save(pf.ones(2), tmp_path / "x")
    assert str(pf.load(tmp_path / "x", map_location="cpu").device) == "cpu"
    assert str(pf.load(tmp_path / "x", map_location={"cuda:0": "cpu"}).device) == "cpu"
    assert str(pf.load(tmp_path / "x", map_location={}).device) == "cpu"
    assert str(pf.load(tmp_path / "x", map_location={"cpu": "cpu", "cuda:0": "cuda:1"}).device) == (
        "cpu"
    )
    with pytest.raises(ValueError, match="one target"):
        pf.load(tmp_path / "x", map_location={"cuda:0": "cuda:1", "cuda:1": "cpu"})
    with pytest.raises(Exception, match="nonsense"):
        pf.load(tmp_path / "x", map_location="nonsense")


def test_map_location_may_be_a_function(tmp_path):
    w = pf.arange(6).float()
    pf.save({"w": w, "row": w.reshape(2, 3)[1], "n": pf.ones(2)}, tmp_path / "x")
    seen = []

    def place(storage, location):
        seen.append((str(storage.device), location))
        return storage.to(DEVICE) if len(seen) == 1 else None

    for source in (tmp_path / "x", io.BytesIO((tmp_path / "x").read_bytes())):
        seen.clear()
        back = pf.load(source, map_location=place)
        assert seen == [("cpu", "cpu")] * 2
        assert str(back["w"].device) == str(back["row"].device) == str(pf.device(DEVICE))
        back["w"][4] = 9.0
        assert back["row"].tolist() == [3, 9, 5]  # they still share memory
    for bad, error in ((lambda s, _: 3, TypeError), (lambda s, _: s[:1], ValueError)):
        with pytest.raises(error, match="map_location"):
            pf.load(tmp_path / "x", map_location=bad)


def test_mapped_tensors_do_not_write_to_the_file(tmp_path):
    safetensors.save_file({"a": pf.zeros(4)}, tmp_path / "x")
    before = (tmp_path / "x").read_bytes()
    t = safetensors.load_file(tmp_path / "x", mmap=True)["a"]
    t += 1
    assert t.tolist() == [1, 1, 1, 1]
    assert (tmp_path / "x").read_bytes() == before


# ---- safetensors as others write and read it ----------------------------------------------------


def read_by_hand(data):
    """An independent reader of the format."""
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + n])
    metadata = header.pop("__metadata__", {})
    types = {"F32": "<f4", "I64": "<i8", "BOOL": "?", "F16": "<f2", "U8": "u1"}
    out = {}
    for name, e in header.items():
        begin, end = e["data_offsets"]
        out[name] = np.frombuffer(data[8 + n + begin : 8 + n + end], types[e["dtype"]]).reshape(
            e["shape"]
        )
    return out, metadata


def write_by_hand(arrays, pad=3):
    names = {"float32": "F32", "int64": "I64", "bool": "BOOL", "float16": "F16", "uint8": "U8"}
    header, blob = {"__metadata__": {"format": "np"}}, b""
    for name, a in arrays.items():
        raw = np.ascontiguousarray(a).tobytes()
        header[name] = {
            "dtype": names[str(a.dtype)],
            "shape": list(a.shape),
            "data_offsets": [len(blob), len(blob) + len(raw)],
        }
        blob += raw
    text = json.dumps(header).encode() + b" " * pad
    return struct.pack("<Q", len(text)) + text + blob


ARRAYS = {
    "b.weight": np.arange(6, dtype=np.uint8),
    "a": np.linspace(0, 1, 7, dtype=np.float32),  # begins at an odd address: no alignment promised
    "mask": np.array([True, False, True]),
    "half": np.ones((2, 0, 3), np.float16),
    "n": np.array(5, np.int64),
}


def test_files_of_others_load(tmp_path):
    (tmp_path / "x").write_bytes(write_by_hand(ARRAYS))
    for mmap in (False, True):
        for found in (
            safetensors.load_file(tmp_path / "x", mmap=mmap),
            pf.load(tmp_path / "x", mmap=mmap),
        ):
            assert set(found) == set(ARRAYS)
            for name, a in ARRAYS.items():
                np.testing.assert_array_equal(found[name].numpy(), a)
    tensors, metadata = safetensors.metadata(tmp_path / "x")
    assert metadata == {"format": "np"}
    assert tensors["half"] == (pf.float16, (2, 0, 3))


def test_others_can_read_ours(tmp_path):
    tensors = {name: pf.from_numpy(a.copy()) for name, a in ARRAYS.items()}
    safetensors.save_file(tensors, tmp_path / "x", metadata={"format": "pt", "note": "é\n"})
    found, metadata = read_by_hand((tmp_path / "x").read_bytes())
    assert metadata == {"format": "pt", "note": "é\n"}
    for name, a in ARRAYS.items():
        np.testing.assert_array_equal(found[name], a)
    pf.save({"model": tensors}, tmp_path / "y")
    found, _ = read_by_hand((tmp_path / "y").read_bytes())
    np.testing.assert_array_equal(found["model.a"], ARRAYS["a"])


def test_the_same_tensors_give_the_same_bytes(tmp_path):
    tensors = {name: pf.from_numpy(a.copy()) for name, a in ARRAYS.items()}
    safetensors.save_file(tensors, tmp_path / "x")
    safetensors.save_file(dict(reversed(tensors.items())), tmp_path / "y")
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


# ---- damage -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "x"
    w = pf.arange(12).float().reshape(3, 4)
    pf.save({"w": w, "t": w.t(), "list": [1, 2.5, None, "text", (True, b"ab")], 3: {"n": 4}}, path)
    return path.read_bytes()


def read_all(path):
    """Reads a damaged file in all ways: each gives values or a FileError, nothing else."""
    for mmap in (False, True):
        for read in (pf.load, safetensors.load_file):
            try:
                value = read(path, mmap=mmap)
            except FileError as e:
                assert str(path) in str(e) and "pf.load" in str(e)
            else:
                repr(value)


@settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_flipped_bits(healthy, tmp_path, data):
    damaged = bytearray(healthy)
    for _ in range(data.draw(st.integers(1, 3))):
        bit = data.draw(st.integers(0, 8 * len(healthy) - 1))
        damaged[bit // 8] ^= 1 << bit % 8
    (tmp_path / "x").write_bytes(damaged)
    read_all(tmp_path / "x")


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_truncations_are_always_noticed(healthy, tmp_path, data):
    n = data.draw(st.integers(0, len(healthy) - 1))
    (tmp_path / "x").write_bytes(healthy[:n])
    for mmap in (False, True):
        with pytest.raises(FileError):
            pf.load(tmp_path / "x", mmap=mmap)


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=400), st.integers(0, 2**64 - 1))
def test_noise(tmp_path, noise, length):
    (tmp_path / "x").write_bytes(noise)
    read_all(tmp_path / "x")
    (tmp_path / "x").write_bytes(struct.pack("<Q", length) + b"{" + noise)
    read_all(tmp_path / "x")


@pytest.mark.parametrize("length", [100_000_001, 2**40, 2**63, 2**64 - 1])
def test_huge_headers_take_no_memory(tmp_path, length):
    with open(tmp_path / "x", "wb") as f:
        f.write(struct.pack("<Q", length) + b"{}")
        f.truncate(200_000_000)  # a hole: takes no room
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FileError, match="header"):
        pf.load(tmp_path / "x")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_sizes_are_checked_before_memory_is_taken(tmp_path):
    header = json.dumps(
        {"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}
    ).encode()
    (tmp_path / "x").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(FileError, match="the header describes"):
        pf.load(tmp_path / "x")


def test_deep_trees_do_not_overflow_the_stack(tmp_path):
    for tree in ("[" * 200_000, '{"a":' * 100_000, '{"$":"tuple","v":[' * 50_000):
        header = json.dumps({"__metadata__": {"pyflame.tree": tree}}).encode()
        (tmp_path / "x").write_bytes(struct.pack("<Q", len(header)) + header)
        with pytest.raises(FileError):
            pf.load(tmp_path / "x")


# ---- full disks and kills -----------------------------------------------------------------------


def child(code, *args, **options):
    """A Python process of its own that runs `code`."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_a_full_disk_leaves_the_old_file(tmp_path):
    pf.save({"a": 1}, tmp_path / "x")
    out, err = child(
        """
        import resource, sys
        import pyflame as pf
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))  # a disk with room for 8 KB
        try:
            pf.save(pf.zeros(100000), sys.argv[1])
        except pf._C.FileError as e:
            print(e)
        """,
        tmp_path / "x",
    ).communicate(timeout=HANG)
    assert "pf.save: cannot write" in out and "free some space" in out, err
    assert pf.load(tmp_path / "x") == {"a": 1}
    assert os.listdir(tmp_path) == ["x"]


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path):
    Checkpoints(tmp_path).save(1, {"a": 1})
    out, err = child(
        """
        import resource, sys
        import pyflame as pf
        from pyflame.checkpoint import Checkpoints
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        try:
            Checkpoints(sys.argv[1], keep=1).save(2, {"a": pf.zeros(100000)})
        except OSError as e:
            print(e)
        """,
        tmp_path,
    ).communicate(timeout=HANG)
    assert "pf.save: cannot write" in out, err
    assert os.listdir(tmp_path) == ["step-00000001"]
    assert Checkpoints(tmp_path).load().state == {"a": 1}


def test_kills_at_any_moment_leave_a_good_checkpoint(tmp_path):
    """A child saves for ever and is killed again and again: the newest good one is never lost."""
    code = """
        import sys
        import pyflame as pf
        from pyflame.checkpoint import Checkpoints
        c = Checkpoints(sys.argv[1], keep=2)
        found = c.load()
        step = found.step if found else 0
        print("ready", flush=True)
        while True:
            step += 1
            c.save(step, {"step": step, "w": pf.full((20000,), float(step))})
            print(step, flush=True)
    """
    rng = random.Random(5)
    done = 0
    for _ in range(6):
        p = child(code, tmp_path)
        assert p.stdout.readline() == "ready\n", p.stderr.read()
        if done == 0:
            done = int(p.stdout.readline())  # however slow the machine: one save has finished
        time.sleep(rng.uniform(0.0, 0.08))
        p.send_signal(signal.SIGKILL)
        lines = p.communicate()[0].split()
        done = max([done, *map(int, lines)])
        with warnings.catch_warnings():
            warnings.simplefilter("error", CheckpointWarning)
            found = Checkpoints(tmp_path).load()
        assert found.step >= done  # what was reported as saved is there
        assert found.state["step"] == found.step
        assert (found.state["w"] == float(found.step)).all().item()
        done = found.step
    assert done > 0
    Checkpoints(tmp_path, keep=1).save(done + 1, {})
    assert os.listdir(tmp_path) == [f"step-{done + 1:08d}"]  # nothing is left of the killed ones


# ---- checkpoints --------------------------------------------------------------------------------


def test_no_checkpoints_yet(tmp_path):
    assert Checkpoints(tmp_path / "none").load() is None
    assert Checkpoints(tmp_path / "none").latest() is None


def test_keeps_the_newest(tmp_path):
    c = Checkpoints(tmp_path, keep=2)
    for step in (1, 2, 10, 9):
        c.save(step, {"step": step}, loss=1.5)
    assert [os.path.basename(p) for p in c.paths()] == ["step-00000009", "step-00000010"]
    found = c.load()
    assert (found.step, found.info, found.state) == (10, {"loss": 1.5}, {"step": 10})
    with pytest.raises(ValueError, match="keep"):
        Checkpoints(tmp_path, keep=0)


def test_the_same_step_again(tmp_path):
    c = Checkpoints(tmp_path, keep=2)
    c.save(1, "old")
    c.save(1, "new")
    assert c.load().state == "new"


def damage(path, how):
    data = bytearray(path.read_bytes())
    if how == "flip":
        data[-3] ^= 4
    elif how == "cut":
        del data[-20:]
    elif how == "empty":
        data = b""
    if how == "remove":
        path.unlink()
    else:
        path.write_bytes(data)


@pytest.mark.parametrize("how", ["flip", "cut", "empty", "remove"])
@pytest.mark.parametrize("file", ["state.safetensors", "manifest.json"])
def test_a_damaged_checkpoint_falls_back(tmp_path, file, how):
    c = Checkpoints(tmp_path)
    for step in (1, 2):
        c.save(step, {"w": pf.full((50,), float(step))})
    damage(tmp_path / "step-00000002" / file, how)
    with pytest.raises(FileError, match=file):
        verify(tmp_path / "step-00000002")
    with pytest.warns(CheckpointWarning, match=file):
        found = c.load()
    assert found.step == 1 and found.state["w"][0].item() == 1
    with pytest.warns(CheckpointWarning, match=file):
        assert c.latest().endswith("step-00000001")


def test_when_all_are_damaged(tmp_path):
    c = Checkpoints(tmp_path)
    c.save(1, 1)
    damage(tmp_path / "step-00000001" / "state.safetensors", "flip")
    with pytest.warns(CheckpointWarning), pytest.raises(FileError, match="all 1 checkpoints"):
        c.load()


@pytest.mark.parametrize(
    "manifest",
    [
        "[]",
        "{}",
        '{"files": 3, "step": 1}',
        '{"files": {"../x": {"size": 0, "sha256": ""}}}',
        "[" * 9999,
    ],
)
def test_strange_manifests(tmp_path, manifest):
    c = Checkpoints(tmp_path)
    path = c.save(1, 1)
    with open(os.path.join(path, "manifest.json"), "w") as f:
        f.write(manifest)
    with pytest.raises(FileError, match=r"manifest\.json"):
        verify(path)


def test_a_checkpoint_of_another_model_says_what_differs(tmp_path):
    nn = pf.nn
    c = Checkpoints(tmp_path)
    c.save(1, nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).state_dict())
    other = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    before = {k: v.clone() for k, v in other.state_dict().items()}
    with pytest.raises(RuntimeError) as e:
        other.load_state_dict(c.load().state)
    text = str(e.value)
    assert "2.weight" in text and "1.weight" in text  # missing, unexpected
    assert "0.weight" in text and "[4, 3]" in text.replace("(", "[").replace(")", "]")
    assert before.keys() == other.state_dict().keys()


def test_a_safetensors_file_is_read_piece_by_piece(tmp_path):
    tensors = {"a": pf.arange(12.0).view(3, 4), "b": pf.tensor([1, 2], dtype=pf.int16)}
    pf.safetensors.save_file(tensors, tmp_path / "w.safetensors", metadata={"made": "here"})
    with pf.safetensors.safe_open(tmp_path / "w.safetensors", framework="pt", device="cpu") as f:
        assert sorted(f.keys()) == ["a", "b"] and f.metadata() == {"made": "here"}
        a = f.get_tensor("a")
        assert pf.equal(a, tensors["a"].cpu()) and f.get_tensor("b").dtype is pf.int16
        part = f.get_slice("a")
        assert part.get_shape() == [3, 4] and part.get_dtype() is pf.float32
        assert part[1:, :2].tolist() == [[4, 5], [8, 9]]
        with pytest.raises(pf.FileError, match="has no tensor 'c'"):
            f.get_tensor("c")
    a.add_(1)
    assert pf.safetensors.load_file(tmp_path / "w.safetensors")["a"][0, 0] == 0


def test_a_module_with_tied_weights_as_safetensors(tmp_path):
    class Tied(pf.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = pf.nn.Linear(3, 3)
            self.last = pf.nn.Linear(3, 3, bias=False)
            self.last.weight = self.first.weight

    a, b = Tied(), Tied()
    pf.safetensors.save_model(a, tmp_path / "m.safetensors")
    assert sorted(pf.safetensors.load_file(tmp_path / "m.safetensors")) == [
        "first.bias",
        "first.weight",
    ]
    assert pf.safetensors.load_model(b, tmp_path / "m.safetensors") == ([], [])
    assert pf.equal(a.last.weight, b.last.weight) and b.last.weight is b.first.weight
    with pytest.raises(RuntimeError, match="last.odd"):
        b.last.odd = pf.nn.Parameter(pf.ones(1))
        pf.safetensors.load_model(b, tmp_path / "m.safetensors")


def test_an_unknown_dtype_leaves_the_others_readable(tmp_path):
    header = {
        "odd": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]},
        "x": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
    }
    text = json.dumps(header).encode()
    data = struct.pack("<Q", len(text)) + text + struct.pack("<fff", 0, 1, 2)
    (tmp_path / "w.safetensors").write_bytes(data)
    with pf.safetensors.safe_open(tmp_path / "w.safetensors") as f:
        assert f.get_tensor("x").tolist() == [1, 2] and f.get_slice("x")[1:].tolist() == [2]
        with pytest.raises(pf.FileError, match="F99"):
            f.get_tensor("odd")
    with pytest.raises(TypeError, match="names='x'"):
        pf.safetensors.load_file(tmp_path / "w.safetensors", names="x")


def test_what_is_read_piece_by_piece_floats_as_the_whole_does(tmp_path):
    path = tmp_path / "w.safetensors"
    pf.safetensors.save_file({"x": pf.ones(2)}, path)
    with (
        pf.safetensors.safe_open(path) as f,
        pf.safetensors.safe_open(path, device="cpu") as placed,
    ):
        floating = [pf.safetensors.load_file(path)["x"], f.get_tensor("x"), f.get_slice("x")[:1]]
        stays = placed.get_tensor("x")
    before = pf.get_device()
    pf.set_device("paranoid")  # the test backend, which is always there
    try:
        assert [(x + 1).device for x in floating] == ["paranoid"] * 3
        assert (stays + 1).device == "cpu"
    finally:
        pf.set_device(before)


def test_a_module_with_other_state_is_refused_before_anything_is_written(tmp_path):
    class Extra(pf.nn.Linear):
        def get_extra_state(self):
            return {"epoch": 3}

        def set_extra_state(self, state):
            pass

    with pytest.raises(TypeError, match="'_extra_state' of type dict"):
        pf.safetensors.save_model(Extra(1, 1), tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


def test_safetensors_in_file_objects():
    tensors = {"w": pf.arange(6.0).reshape(2, 3), "n": pf.tensor([1, 2])}
    data = safetensors.save(tensors, {"format": "pt"})
    f = io.BytesIO()
    safetensors.save_file(tensors, f, {"format": "pt"})
    assert f.getvalue() == data and isinstance(data, bytes)
    f.write(b"more")  # a file object is read to the end of the one value
    f.seek(0)
    assert safetensors.load_file(f)["w"].tolist() == tensors["w"].tolist() and f.read() == b"more"
    f.seek(0)
    assert safetensors.load_file(f, names=["n"])["n"].tolist() == [1, 2]
    f.seek(0)
    assert safetensors.metadata(f)[1] == {"format": "pt"}
    assert safetensors.load(data)["n"].tolist() == [1, 2]
    for bad in (data[:40], b"", b"{}"):
        with pytest.raises(pf.FileError, match="<bytes>"):
            safetensors.load(bad)
    with pytest.raises(TypeError, match="load_file"):
        safetensors.load("x")
