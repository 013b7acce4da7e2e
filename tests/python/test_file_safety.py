"""What stands around a saved value: file objects, permissions, temporaries, paths, other formats."""

import contextlib
import errno
import gzip
import io
import json
import os
import pickle
import random
import resource
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import zipfile

import numpy as np
import pytest
from hangs import HANG

import pyflame as pf
from pyflame import safetensors

FileError = pf.FileError
VALUE = {"w": pf.arange(2000).float(), "name": "x", "n": [1, 2]}


def same(back):
    return back["w"].tolist() == VALUE["w"].tolist() and back["n"] == [1, 2]


def child(code, *args, **options):
    """A Python process of its own that runs `code`."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


# ---- file objects -------------------------------------------------------------------------------


class Raw(io.RawIOBase):
    """Takes and gives a few bytes at a time, as a pipe may."""

    def __init__(self, data=b"", step=7, room=None):
        self.data, self.step, self.room = bytearray(data), step, room

    def writable(self):
        return True

    def readable(self):
        return True

    def write(self, view):
        if self.room is not None and len(self.data) >= self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        piece = bytes(view)[: self.step if self.room is None else self.room - len(self.data)]
        self.data += piece
        return len(piece)

    def read(self, n=-1):
        piece = bytes(self.data[: min(n, self.step)])
        del self.data[: len(piece)]
        return piece


def test_pieces_are_joined():
    raw = Raw()
    pf.save(VALUE, raw)
    whole = io.BytesIO()
    pf.save(VALUE, whole)
    assert bytes(raw.data) == whole.getvalue()
    assert same(pf.load(raw))


def test_an_unbuffered_file_on_a_full_disk_raises(tmp_path):
    with pytest.raises(FileError, match=r"pf\.save: cannot write .*No space left"):
        pf.save(VALUE, Raw(room=1000))
    for buffering in (0, -1):
        f = open("/dev/full", "wb", buffering=buffering)
        with pytest.raises(FileError, match="No space left"):
            pf.save({"n": 1}, f)
        with contextlib.suppress(OSError):
            f.close()
    out, err = child(
        """
        import resource, signal, sys
        import pyflame as pf
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        with open(sys.argv[1], "wb", buffering=0) as f:
            try:
                pf.save(pf.zeros(100000), f)
            except pf.FileError as e:
                print(e)
        """,
        tmp_path / "x",
    ).communicate(timeout=HANG)
    assert "cannot write" in out, err


@pytest.mark.parametrize("answer", [0, -1, 10**9, "many", 1.5])
def test_a_write_that_makes_no_sense_is_told(answer):
    class Odd:
        def write(self, data):
            return answer

    with pytest.raises(FileError, match=r"write\(\) returned"):
        pf.save(VALUE, Odd())


def test_objects_that_say_nothing_and_keep_what_they_get():
    class List:
        def __init__(self):
            self.parts = []

        def write(self, data):
            self.parts.append(data)

    f = List()
    pf.save(VALUE, f)
    assert same(pf.load(io.BytesIO(b"".join(f.parts))))


def test_non_blocking_pipes_are_told():
    a, b = os.pipe()
    os.set_blocking(a, False)
    os.set_blocking(b, False)
    with open(a, "rb", buffering=0) as out, open(b, "wb", buffering=0) as into:
        with pytest.raises(FileError, match="non-blocking"):
            pf.load(out)
        with pytest.raises(FileError, match="non-blocking"):
            pf.save(pf.zeros(100_000), into)


def test_text_files_are_refused_with_words(tmp_path):
    for mode in ("w", "r"):
        with open(tmp_path / "x", mode) as f:
            with pytest.raises(TypeError, match=r"text file; expected a binary one"):
                pf.save(1, f) if mode == "w" else pf.load(f)

    class Text:
        def read(self, n):
            return "text"

    with pytest.raises(TypeError, match="text file"):
        pf.load(Text())
    with pytest.raises(FileError, match="closed file"):
        f = io.BytesIO()
        f.close()
        pf.save(1, f)
    for bad in (3, None, [], object()):
        for call in (lambda f: pf.save(1, f), pf.load):
            with pytest.raises(TypeError, match="expected a path or a binary file object"):
                call(bad)


def test_a_pipe_gives_one_value_after_the_other():
    """The stream is read as far as the value goes: what follows waits, and nothing blocks."""
    a, b = os.pipe()
    with open(a, "rb") as out, open(b, "wb") as into:

        def write():
            for i in range(3):
                pf.save({**VALUE, "i": i}, into)

        thread = threading.Thread(target=write)
        thread.start()
        for i in range(3):
            back = pf.load(out)
            assert same(back) and back["i"] == i
        thread.join()


def test_a_stream_that_ends_early():
    whole = io.BytesIO()
    pf.save(VALUE, whole)
    data = whole.getvalue()
    for n in [0, 3, 8, 9, 200, len(data) - 1, *range(0, len(data), 997)]:
        with pytest.raises(FileError, match=r"^pf\.load: '<Raw>'"):
            pf.load(Raw(data[:n], step=500))


def test_a_stream_takes_no_memory_for_what_it_only_states():
    header = json.dumps({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}})
    data = struct.pack("<Q", len(header)) + header.encode() + b"\0" * 1000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FileError, match="expected the two to be equal"):
        pf.load(io.BytesIO(data))
    with open("/dev/zero", "rb") as f, pytest.raises(FileError):
        pf.load(f)
    with open("/dev/urandom", "rb") as f, pytest.raises(FileError):
        pf.load(f)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_streams_leave_nothing_in_a_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    f = io.BytesIO()
    pf.save(VALUE, f)
    f.seek(0)
    seen = os.stat(tmp_path).st_mtime_ns
    assert same(pf.load(f))
    assert os.listdir(tmp_path) == [] and os.stat(tmp_path).st_mtime_ns == seen


# ---- permissions --------------------------------------------------------------------------------


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize("write", ["save", "save_file", "_write_file"])
def test_permissions_are_kept_and_new_ones_follow_umask(tmp_path, write):
    def put(path):
        if write == "save":
            pf.save(VALUE, path)
        elif write == "save_file":
            safetensors.save_file({"w": VALUE["w"]}, path)
        else:
            pf._C._write_file(str(path), b"text")

    for umask, wanted in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        before = os.umask(umask)
        try:
            put(tmp_path / f"new{umask}")
            assert mode(tmp_path / f"new{umask}") == wanted
            for kept in (0o600, 0o640, 0o444, 0o666):
                os.chmod(tmp_path / f"new{umask}", kept)
                put(tmp_path / f"new{umask}")
                assert mode(tmp_path / f"new{umask}") == kept
        finally:
            os.umask(before)


def test_what_is_being_written_can_be_read_by_nobody_else(tmp_path):
    """A secret file stays one while it is replaced."""
    pf.save(VALUE, tmp_path / "x")
    os.chmod(tmp_path / "x", 0o600)
    code = """
        import sys
        import pyflame as pf
        while True:
            pf.save(pf.zeros(300000), sys.argv[1])
    """
    p = child(code, tmp_path / "x")
    seen = set()
    end = time.monotonic() + HANG
    while len(seen) < 20 and time.monotonic() < end:
        for entry in os.scandir(tmp_path):
            try:
                info = entry.stat()
            except FileNotFoundError:
                continue
            if entry.name != "x":
                seen.add(entry.name)
            assert stat.S_IMODE(info.st_mode) == 0o600
    p.kill()
    p.communicate()
    assert len(seen) > 3


# ---- temporaries --------------------------------------------------------------------------------


def temporaries(folder):
    return sorted(n for n in os.listdir(folder) if n.endswith(".tmp"))


def killed_in_a_save(folder, name):
    """Leaves a temporary of a dead process."""
    code = """
        import glob, os, signal, sys, threading
        import pyflame as pf

        def die():
            while not glob.glob(sys.argv[1] + "/.*.tmp"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=die).start()
        big = pf.zeros(4_000_000)
        while True:
            pf.save(big, sys.argv[1] + "/" + sys.argv[2])
    """
    p = child(code, folder, name)
    p.communicate(timeout=HANG)
    assert p.returncode == -signal.SIGKILL


def test_temporaries_of_dead_processes_are_removed(tmp_path):
    names = ["x", "ü" * 100, "caf\udce9"]
    for name in names:
        for read in (False, True):
            pf.save(VALUE, tmp_path / name)
            while not temporaries(tmp_path):
                killed_in_a_save(tmp_path, os.fsencode(name).decode("utf-8", "surrogateescape"))
            if read:
                pf.load(tmp_path / name)
            else:
                pf.save(VALUE, tmp_path / name)
            assert temporaries(tmp_path) == []


def test_temporaries_of_the_living_and_of_other_machines_stay(tmp_path):
    host = "".join("-" if c in "/." else c for c in os.uname().nodename[:64])
    living = tmp_path / f".x.{host}.1.0.tmp"
    code = """
        import fcntl, sys
        f = open(sys.argv[1], "wb")
        fcntl.flock(f, fcntl.LOCK_EX)
        print("locked", flush=True)
        sys.stdin.read()
    """
    p = child(code, living, stdin=subprocess.PIPE)
    assert p.stdout.readline() == "locked\n"
    others = [".x.elsewhere.1.0.tmp", f".y.{host}.1.0.tmp", f".x.{host}.notes.tmp", "x.1.0.tmp"]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    # The number of a process that lives, but no lock: its number was used again.
    again = tmp_path / f".x.{host}.{os.getpid()}.7.tmp"
    again.write_bytes(b"")
    os.mkfifo(tmp_path / f".x.{host}.1.9.tmp")  # neither waits nor is harmed by what is no file
    pf.save(VALUE, tmp_path / "x")
    assert not again.exists()
    assert living.exists() and all((tmp_path / name).exists() for name in others)
    p.communicate("")
    pf.load(tmp_path / "x")
    assert not living.exists()


def test_many_writers_of_one_name_do_not_remove_each_others_files(tmp_path):
    code = """
        import sys
        import pyflame as pf
        w = pf.full((30000,), float(sys.argv[2]))
        for _ in range(25):
            pf.save({"w": w}, sys.argv[1])
            got = pf.load(sys.argv[1])["w"]
            assert (got == got[0]).all().item()
    """
    children = [child(code, tmp_path / "x", i) for i in range(3)]
    for p in children:
        _, err = p.communicate(timeout=HANG)
        assert p.returncode == 0, err
    assert os.listdir(tmp_path) == ["x"]


# ---- names of files -----------------------------------------------------------------------------


def test_a_nul_in_a_path_is_refused_everywhere(tmp_path):
    from pyflame.checkpoint import Checkpoints, load_checkpoint, verify

    bad = str(tmp_path / "a\0b")
    calls = [
        lambda: pf.save(1, bad),
        lambda: pf.save(1, bad.encode()),
        lambda: pf.load(bad),
        lambda: safetensors.save_file({}, bad),
        lambda: safetensors.load_file(bad),
        lambda: safetensors.metadata(bad),
        lambda: pf._C._write_file(bad, b""),
        lambda: Checkpoints(bad),
        lambda: load_checkpoint(bad),
        lambda: verify(bad),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="NUL|null"):
            call()
    assert os.listdir(tmp_path) == []


NAMES = ["caf\udce9", b"\xff\xfe".decode("utf-8", "surrogateescape"), "é", "a b\n'\"", "x" * 255]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_file_works(tmp_path, name):
    for path in (tmp_path / name, os.fsencode(tmp_path / name)):
        pf.save(VALUE, path)
        assert same(pf.load(path)) and same(pf.load(path, mmap=True))
        safetensors.save_file({"w": VALUE["w"]}, path)
        assert list(safetensors.load_file(path)) == ["w"]
        assert safetensors.metadata(path)[1] == {}
    assert os.listdir(tmp_path) == [name]
    with open(tmp_path / name, "wb") as f:
        f.write(b"damage")
    with pytest.raises(FileError) as e:
        pf.load(tmp_path / name)
    str(e.value).encode()  # can be printed
    os.remove(tmp_path / name)
    with pytest.raises(FileError) as e:
        pf.load(tmp_path / name)
    str(e.value).encode()
    os.mkdir(tmp_path / "d")
    with pytest.raises(FileError):
        pf.save(1, tmp_path / "d" / name / "x")


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_mapped_file_works(tmp_path, name):
    for path in (tmp_path / name, os.fsencode(tmp_path / name)):
        pf.from_file(path, shared=True, size=4).fill_(2)
        assert pf.from_file(path, size=4).tolist() == [2.0] * 4
        with pytest.raises(FileError) as e:
            pf.from_file(path, size=5)
        str(e.value).encode()
    with open(tmp_path / name, "wb") as f:
        np.save(f, np.arange(6))
    assert pf.datasets.NumPyArrays(tmp_path / name)[1][0] == 1
    np.arange(6, dtype=np.uint16).tofile(tmp_path / name)
    assert pf.datasets.Tokens(tmp_path / name, 2)[0][0].tolist() == [0, 1]
    os.remove(tmp_path / name)
    for read in (pf.from_file, pf.datasets.NumPyArrays, lambda p: pf.datasets.Tokens(p, 2)):
        with pytest.raises(FileError) as e:
            read(tmp_path / name)
        str(e.value).encode()


def test_metadata_must_be_text(tmp_path):
    for bad in ({"a": 1}, {1: "a"}, {"a": None}, {"a": b"x"}):
        with pytest.raises(
            TypeError, match=r"pf\.safetensors\.save_file: .*expected text for both"
        ):
            safetensors.save_file({}, tmp_path / "x", metadata=bad)
    for tensors, metadata in (({}, {"a": "\ud800"}), ({"\ud800": pf.ones(1)}, {})):
        with pytest.raises(ValueError, match="surrogate"):
            safetensors.save_file(tensors, tmp_path / "x", metadata=metadata)
    assert os.listdir(tmp_path) == []


# ---- what is no file ----------------------------------------------------------------------------


def test_fifos_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", "/dev/zero", "/dev/full", tmp_path):
        for read in (pf.load, safetensors.load_file, safetensors.metadata):
            with pytest.raises(FileError, match="not a regular file|a directory"):
                read(path)
        with pytest.raises(FileError, match="not a file|a directory"):
            pf.save(1, path)


# ---- other formats ------------------------------------------------------------------------------


def zipped(*names):
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as z:
        for name in names:
            z.writestr(name, b"x" * 100)
    return f.getvalue()


def npz():
    f = io.BytesIO()
    np.savez(f, a=np.zeros(3))
    return f.getvalue()


def npy():
    f = io.BytesIO()
    np.save(f, np.zeros(3))
    return f.getvalue()


@pytest.mark.parametrize("length", [640, 896, 1152, 0x120108])
def test_a_file_that_is_cut_off_within_its_header(tmp_path, length):
    """Its first bytes, the length, may be those of a pickle or of ONNX."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b'{"a":{"dtype":"F32","shape":[2],"data_off')
    with pytest.raises(pf.FileError, match="cut off"):
        pf.load(path)


FORMATS = {
    "zip": (zipped("readme.txt"), "a zip archive"),
    "npz": (npz(), r"\.npz"),
    "npy": (npy(), r"numpy\.load"),
    "pickle": (pickle.dumps({"a": 1}), "a pickle"),
    "pickle2": (pickle.dumps({"a": 1}, protocol=2) + b" " * 99, "a pickle"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + b"\0" * 600, "HDF5"),
    "gguf": (b"GGUF\3\0\0\0" + b"\0" * 600, "GGUF"),
    "onnx": (b"\x08\x0a\x12\x07pytorch\x1a\x052.0.0" + b"\0" * 600, "ONNX"),
    "gzip": (gzip.compress(b"x" * 1000), "gzip"),
    "html": (b"\n<!DOCTYPE html>\n<html><body>404</body></html>", "web page"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n", "git lfs pull"),
    "json": (b'{"weight_map": {}, "metadata": {"total_size": 1}}', "JSON"),
    "short": (b"GGUF", "GGUF"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_other_formats_are_named(tmp_path, name):
    data, words = FORMATS[name]
    (tmp_path / "x").write_bytes(data)
    for read in (
        lambda: pf.load(tmp_path / "x"),
        lambda: safetensors.load_file(tmp_path / "x"),
        lambda: pf.load(io.BytesIO(data)),
    ):
        with pytest.raises(FileError, match=words) as e:
            read()
        text = str(e.value)
        assert text.count("pf.load") == 1 and "expected a safetensors file" in text
        assert not any(word.isdigit() and len(word) > 9 for word in text.split())


def test_files_of_pytorch_are_no_safetensors(tmp_path):
    """pf.load reads them (test_torch_files.py)."""
    torch = pytest.importorskip("torch")
    for zipfile_too in (True, False):
        torch.save({"a": torch.ones(3)}, tmp_path / "x", _use_new_zipfile_serialization=zipfile_too)
        with pytest.raises(FileError, match=r"torch\.save.*pyflame\.load"):
            safetensors.load_file(tmp_path / "x")


def test_no_message_has_its_prefix_twice(tmp_path):
    """Any damage to the header of a good file: one 'pf.load: ', and the file's name."""
    pf.save(VALUE, tmp_path / "x")
    good = (tmp_path / "x").read_bytes()
    rng = random.Random(3)
    for _ in range(300):
        bad = bytearray(good)
        bad[rng.randrange(300)] = rng.choice(b'{}[],:"0129ax ')
        (tmp_path / "x").write_bytes(bad)
        for read in (pf.load, safetensors.load_file):
            try:
                read(tmp_path / "x")
            except FileError as e:
                assert str(e).startswith(f"pf.load: '{tmp_path}/x'")
                assert str(e).count("pf.load") == 1


# ---- long headers -------------------------------------------------------------------------------


def header_file(path, text):
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)


@pytest.mark.parametrize("shape", ["values", "keys", "entries", "text", "brackets"])
def test_time_and_memory_grow_with_the_header(tmp_path, shape):
    """Twice the header, about twice the work: counted in memory, and in time with much room."""
    pieces = {
        "values": lambda n: tree(b"[" + b"0," * (n // 2) + b"0]"),
        "keys": lambda n: tree(b"{" + b",".join(b'\\"%d\\":1' % i for i in range(n // 14)) + b"}"),
        "entries": lambda n: b"{" + b",".join(
            b'"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % i for i in range(n // 60)
        ) + b"}",
        "text": lambda n: tree(b'\\"' + b"\\\\u00e9" * (n // 7) + b'\\"'),
        "brackets": lambda n: tree(b"[" * n),
    }  # fmt: skip

    def tree(text):
        return b'{"__metadata__":{"pyflame.tree":"' + text + b'"}}'

    code = """
        import resource, sys, time
        import pyflame as pf
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.process_time()
        try:
            pf.load(sys.argv[1])
        except pf.FileError:
            pass
        print(time.process_time() - began)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    seconds, kilobytes = [], []
    for n in (1_000_000, 4_000_000):
        header_file(tmp_path / "x", pieces[shape](n))
        out, err = child(code, tmp_path / "x").communicate(timeout=HANG)
        s, k = out.split()
        seconds.append(float(s))
        kilobytes.append(int(k))
    assert kilobytes[1] < 40 * 4_000_000 / 1024
    assert seconds[1] < 16 * seconds[0] + 0.5  # quadratic work would be 16 times, of much more
