"""Checkpoints whose manifest is damaged, whose parts are no files, and that several processes save."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import warnings

import pytest
from hangs import HANG

import pyflame as pf
from pyflame import checkpoint
from pyflame.checkpoint import Checkpoints, CheckpointWarning, load_checkpoint

FileError = pf.FileError


def child(code, *args):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture
def two(tmp_path):
    """A folder with checkpoints of steps 1 and 7, and the manifest of the newer one."""
    c = Checkpoints(tmp_path)
    for step in (1, 7):
        c.save(step, {"step": step}, loss=0.5, note="é", of=[step, None])
    return c, tmp_path / "step-00000007" / "manifest.json"


def mutate(data, rng):
    """1 to 3 changes of a text: bits, bytes, cuts, words."""
    words = [
        b"5",
        b"1e999",
        b"-1",
        b"null",
        b"[]",
        b"{}",
        b'""',
        b"true",
        b"NaN",
        b"[" * 50,
        b"7.0",
    ]
    words += [b" ", b"\n", b"\xff", b"\0", b'"step"', b'"info": 5,', b"9" * 5000, b',"a":1']
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(6)
        if how == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            del data[at:]
        elif how == 2:
            del data[at : at + rng.randrange(9)]
        elif how == 3:
            data[at : at + rng.randrange(4)] = rng.choice(words)
        elif how == 4:
            data[at:at] = data[rng.randrange(len(data) + 1) :][: rng.randrange(40)]
        elif data:
            data[min(at, len(data) - 1)] = rng.randrange(256)
        if not data:
            break
    return bytes(data)


def test_any_change_of_a_manifest_falls_back(two):
    """Not one is accepted, and none raises: the older checkpoint is used, with a reason."""
    c, path = two
    good = path.read_bytes()
    rng = random.Random(8)
    for _ in range(250):
        bad = mutate(good, rng)
        if bad == good:
            continue
        path.write_bytes(bad)
        with pytest.warns(CheckpointWarning, match=r"manifest\.json' is missing or damaged \(.+\)"):
            assert c.load().step == 1
    for _ in range(5000):
        bad = mutate(good, rng)
        if bad != good:
            with pytest.raises((ValueError, RecursionError)):
                checkpoint._parse(bad, path.parent.name)
    for i in range(len(good) * 8):  # every bit by itself
        bad = bytearray(good)
        bad[i // 8] ^= 1 << i % 8
        with pytest.raises(ValueError):
            checkpoint._parse(bytes(bad), path.parent.name)
    path.write_bytes(good)
    assert c.load().step == 7


def earlier(path, **changes):
    """Turns a manifest into one as earlier versions wrote it, and changes fields."""
    manifest = json.loads(path.read_text())
    del manifest["checksum"]
    manifest["format"] = 1
    for key, value in changes.items():
        if value is KeyError:
            del manifest[key]
        else:
            manifest[key] = value
    path.write_text(json.dumps(manifest))


def test_manifests_of_earlier_versions_load(two):
    c, path = two
    earlier(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = c.load()
    assert (found.step, found.info) == (7, {"loss": 0.5, "note": "é", "of": [7, None]})
    earlier_again = json.loads(path.read_text())
    del earlier_again["info"]
    path.write_text(json.dumps(earlier_again))
    assert c.load().info == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"step": 6},  # a flipped bit: the directory says 7
        {"step": "7"}, {"step": 7.0}, {"step": True}, {"step": float("inf")}, {"step": KeyError},
        {"step": None}, {"info": 5}, {"info": [1]}, {"files": []}, {"files": {}}, {"format": 2},
        {"files": {"state.safetensors": 3}}, {"format": 3}, {"format": "1"}, {"format": [1]},
        {"files": {"state.safetensors": {"size": -1, "sha256": "0" * 64}}},
        {"files": {"state.safetensors": {"size": 1e400, "sha256": "0" * 64}}},
        {"files": {"state.safetensors": {"size": 10, "sha256": "xyz"}}},
    ],
)  # fmt: skip
def test_earlier_manifests_are_checked_as_far_as_they_go(two, changes):
    c, path = two
    earlier(path, **changes)
    with pytest.warns(CheckpointWarning, match="manifest"):
        assert c.load().step == 1
    with pytest.raises(FileError):
        load_checkpoint(path.parent)


def test_a_manifest_of_a_newer_version_says_so(two):
    c, path = two
    manifest = json.loads(path.read_text())
    del manifest["checksum"]
    path.write_text(checkpoint._sealed({**manifest, "format": 3}))
    with pytest.warns(CheckpointWarning, match="newer PyFlame"):
        assert c.load().step == 1


@pytest.mark.parametrize("info", [{"a": {1}}, {"a": pf}, {"a": {(1, 2): 3}}, {"a": 10**5000}])
def test_info_that_is_no_json_is_refused_before_anything_is_written(tmp_path, info):
    with pytest.raises(TypeError, match=r"pf\.checkpoint: got info that is no JSON"):
        Checkpoints(tmp_path / "new").save(1, {}, **info)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("step", [-1, 2**63, 1.5, "1", None])
def test_steps_are_whole_numbers(tmp_path, step):
    with pytest.raises((TypeError, ValueError), match=r"pf\.checkpoint: got"):
        Checkpoints(tmp_path).save(step, {})


@pytest.mark.parametrize("part", ["manifest.json", "state.safetensors"])
@pytest.mark.parametrize("what", ["fifo", "directory", "zero", "long", "loop"])
def test_parts_that_are_no_files_fall_back_at_once(two, part, what):
    c, manifest = two
    path = manifest.parent / part
    path.unlink()
    if what == "fifo":
        os.mkfifo(path)
    elif what == "directory":
        path.mkdir()
    elif what == "zero":
        path.symlink_to("/dev/zero")
    elif what == "loop":
        path.symlink_to(path)
    else:
        with open(path, "wb") as f:
            f.truncate(1 << 40)  # a hole: takes no room
    with pytest.warns(CheckpointWarning, match=part):
        assert c.load().step == 1


# ---- several processes --------------------------------------------------------------------------

SAVES = """
    import sys, warnings
    import pyflame as pf
    from pyflame.checkpoint import Checkpoints
    warnings.simplefilter("error")
    c = Checkpoints(sys.argv[1], keep=2)
    for i in range(int(sys.argv[2])):
        c.save(i // 3, {"w": pf.full((50,), float(i))})
        assert c.load() is not None
    print("done")
"""


def test_processes_that_save_in_one_folder_do_not_disturb_each_other(tmp_path):
    children = [child(SAVES, tmp_path, 60) for _ in range(4)]
    for p in children:
        out, err = p.communicate(timeout=HANG)
        assert out == "done\n", err
    c = Checkpoints(tmp_path, keep=2)
    c.save(10**6, "last")
    assert c.load().state == "last"
    assert len(os.listdir(tmp_path)) == 2  # the rest is gone, also what was half removed


def test_a_half_written_checkpoint_goes_when_its_process_has_gone(tmp_path):
    code = """
        import os, signal, sys
        import pyflame as pf
        from pyflame import checkpoint
        def stop(*_):
            print("there", flush=True)
            sys.stdin.read()
        checkpoint._sync_directory = stop
        checkpoint.Checkpoints(sys.argv[1]).save(3, {"w": pf.zeros(10)})
    """
    p = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), tmp_path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert p.stdout.readline() == "there\n"
    (half,) = os.listdir(tmp_path)
    # As if of another machine, and as if its process's number were of a living process.
    other = half.replace(os.uname().nodename, "elsewhere")
    again = half.replace(f"-{p.pid}.", f"-{os.getpid()}.")
    os.mkdir(tmp_path / other)
    os.mkdir(tmp_path / again)
    c = Checkpoints(tmp_path)
    c.save(1, {})
    assert sorted(os.listdir(tmp_path)) == sorted([half, other, "step-00000001"])
    p.send_signal(signal.SIGKILL)
    p.communicate()
    c.save(2, {})
    assert sorted(os.listdir(tmp_path)) == sorted([other, "step-00000001", "step-00000002"])


def test_a_checkpoint_that_goes_while_it_is_loaded_is_no_damage(tmp_path, monkeypatch):
    """Between listing and reading, another process saves newer ones and removes these."""
    c = Checkpoints(tmp_path, keep=1)
    c.save(1, "old")
    real, calls = checkpoint.verify, []

    def late(path):
        if not calls:
            calls.append(path)
            Checkpoints(tmp_path, keep=1).save(2, "new")
        return real(path)

    monkeypatch.setattr(checkpoint, "verify", late)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert c.load().state == "new"


def test_processes_do_not_prune_each_others_newest(tmp_path, monkeypatch):
    """Both have saved before either removes older ones: one checkpoint stays."""
    prune = Checkpoints._prune
    monkeypatch.setattr(Checkpoints, "_prune", lambda self, newest: None)
    a, b = Checkpoints(tmp_path, keep=1), Checkpoints(tmp_path, keep=1)
    saved = a.save(1, "a"), b.save(2, "b")
    prune(a, saved[0])
    prune(b, saved[1])
    assert len(os.listdir(tmp_path)) == 1 and Checkpoints(tmp_path).load() is not None


def test_a_manifest_may_list_anything(two):
    c, path = two
    listed = json.loads(path.read_text())["files"]
    earlier(path, files={**listed, "a\0b": {"size": 1, "sha256": "0" * 64}})
    with pytest.warns(CheckpointWarning, match="manifest"):
        assert c.load().step == 1


def test_a_folder_that_is_removed_while_a_checkpoint_begins(tmp_path, monkeypatch):
    folder, mkdir, removed = tmp_path / "run", os.mkdir, []

    def removing(path, *args, **options):
        if ".tmp" in str(path) and not removed:
            os.rmdir(folder)
            removed.append(path)
        if len(removed) > 100:
            raise AssertionError("it tries for ever")
        removed.extend([path] * bool(removed))
        return mkdir(path, *args, **options)

    monkeypatch.setattr(os, "mkdir", removing)
    c = Checkpoints(folder)
    c.save(1, {"a": 1})
    assert removed and c.load().step == 1
