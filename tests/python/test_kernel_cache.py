"""`pyflame cache`: the disk cache shown, cleared, filled in advance and packed, on the stand-in."""

import os
import subprocess
import sys

import pytest
import standin
from hangs import HANG

from pyflame import kernel_cache

pytestmark = standin.MARKS
cache, run = standin.cache, standin.run  # fixtures

SCRIPT = """
import pyflame as pf
x = pf.arange(12).float().view(3, 4) + 0.5
(x * 3).sum(1).tolist()
pf.softmax(x, 1).sum().item()
"""
USE = """
pf.set_device("rocm")
x = pf.arange(12).float().view(3, 4) + 0.5
assert (x * 3).sum(1).tolist() == [24, 72, 120]
assert abs(pf.softmax(x, 1).sum().item() - 3) < 1e-5
statistics = pf.debug.device_statistics("rocm")
print(statistics["kernels_compiled"], statistics["kernels_from_disk"], statistics["kernels_from_pack"])
"""


@pytest.fixture
def pyflame(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)

    def call(*args, code=0, **env):
        done = subprocess.run(
            [sys.executable, "-m", "pyflame", "cache", *map(str, args)],
            env=os.environ
            | {
                "PYTHONPATH": str(standin.PACKAGE),
                "PYFLAME_HIP_LIBRARY": str(standin.HIP),
                "PYFLAME_HIPRTC_LIBRARY": str(standin.RTC),
                "PYFLAME_CUDA_LIBRARY": "/none",
                "XDG_CACHE_HOME": str(tmp_path),
            }
            | env,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=HANG,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return call


def test_warm_show_clear(run, pyflame, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "0 programs" in pyflame("show")
    assert "0 were there already" in pyflame("warm", "--script", "script.py")
    assert "compiled 0 programs" in pyflame("warm", "--script", "script.py")
    # On a GPU that is not there: nothing is asked of the runtime.
    pyflame("warm", "--script", "script.py", "--arch", "gfx1100", PYFLAME_HIP_LIBRARY="/nowhere.so")
    shown = pyflame("show")
    assert "rocm gfx942" in shown and "compiler 6." in shown and "rocm gfx1100" in shown
    assert "softmax.h" in shown and "pointwise group" in shown and "last used 20" in shown
    found = kernel_cache.entries()
    here = [e for e in found if e.target.startswith("gfx942")]
    assert len({e.target for e in found}) == 2 and all(e.code() for e in found)
    used = run(USE, XDG_CACHE_HOME=tmp_path).split()
    assert used[0] == used[2] == "0" and int(used[1]) > 3
    used = run(USE, XDG_CACHE_HOME=tmp_path, PYFLAME_STANDIN_ARCH="gfx1100").split()
    assert used[0] == "0" and int(used[1]) > 3
    # When one was last used is kept, to an hour.
    os.utime(here[0].path, (1, 1))
    run(USE, XDG_CACHE_HOME=tmp_path)
    assert os.stat(here[0].path).st_mtime > 1
    with open(here[1].path, "r+b") as f:
        f.truncate(100)
    assert len(kernel_cache.entries()) == len(found)  # listed, and known to be damaged
    assert sum(not e.whole for e in kernel_cache.entries()) == 1
    pyflame("clear", "--target", "gfx942")
    assert {e.target for e in kernel_cache.entries()} == {"gfx1100"}
    assert f"deleted {len(found) - len(here)} programs" in pyflame("clear")
    assert not kernel_cache.entries()
    assert "0 programs" in pyflame("clear")


def test_pack(run, pyflame, tmp_path):
    pyflame("pack", "--arch", "gfx942", "gfx1100", "--script", "script.py", "--out", "some.pack")
    assert not (tmp_path / "pyflame").exists()  # the user's cache is left alone
    pack = tmp_path / "some.pack"
    # Any features of the target, no compiler at all.
    for arch in ("gfx942:sramecc+:xnack-", "gfx1100"):
        used = run(
            USE,
            PYFLAME_KERNEL_PACK=pack,
            PYFLAME_STANDIN_ARCH=arch,
            PYFLAME_HIPRTC_LIBRARY="/nowhere.so",
            XDG_CACHE_HOME=tmp_path,
        ).split()
        assert used[:2] == ["0", "0"] and int(used[2]) > 3
    used = run(USE, PYFLAME_KERNEL_PACK=pack, PYFLAME_STANDIN_ARCH="gfx1201").split()
    assert used[2] == "0"
    whole = pack.read_bytes()
    for damaged in (
        whole[:-1] + bytes([whole[-1] ^ 1]),  # of one program
        whole[:100] + bytes([whole[100] ^ 1]) + whole[101:],  # of the list
        whole[: len(whole) // 2],
        b"",
        claiming(whole, bytes=1 << 60),
        claiming(whole, at=1 << 60),
        claiming(whole, places=1 << 56),
    ):
        pack.write_bytes(damaged)
        used = run(USE, PYFLAME_KERNEL_PACK=pack).split()
        assert int(used[0]) + int(used[1]) > 0
    os.mkfifo(tmp_path / "fifo")
    for odd in (tmp_path / "fifo", "/dev/zero", tmp_path):
        used = run(USE, PYFLAME_KERNEL_PACK=odd).split()
        assert int(used[0]) + int(used[1]) > 0


def claiming(pack, places=None, **fields):
    """The pack with other numbers, and right checksums."""
    size, one = kernel_cache._PACK.size, kernel_cache._PLACE.size
    _, count, _ = kernel_cache._PACK.unpack_from(pack)
    rows = []
    for i in range(count):
        key, at, length, total = kernel_cache._PLACE.unpack_from(pack, size + i * one)
        rows.append(
            kernel_cache._PLACE.pack(key, fields.get("at", at), fields.get("bytes", length), total)
        )
    listed = b"".join(rows)
    head = kernel_cache._PACK.pack(
        kernel_cache._PACK_MAGIC,
        count if places is None else places,
        kernel_cache.checksum(listed),
    )
    return head + listed + pack[size + count * one :]


def test_no_file_in_the_cache_is_waited_for(pyflame, tmp_path):
    folder = tmp_path / "pyflame" / "kernels"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "gfx942-0.bin")
    entry = kernel_cache.Entry(folder / "gfx942-0.bin")
    assert not entry.whole
    with pytest.raises(ValueError, match="damaged"):
        entry.code()
    assert "1 programs" in pyflame("show", XDG_CACHE_HOME=tmp_path)
    # A program whose place a pipe takes before it is read.
    path = folder / "gfx942-1.bin"
    code = b"code"
    path.write_bytes(
        kernel_cache._HEADER.pack(b"PFKERN2\n", 0, 4, kernel_cache.checksum(code)) + code
    )
    entry = kernel_cache.Entry(path)
    assert entry.whole and entry.code() == code
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ValueError, match="damaged"):
        entry.code()


def test_failures_say_what_to_do(pyflame, tmp_path):
    assert "'arm64'" in pyflame("warm", "--arch", "arm64", code=1)
    text = pyflame(
        "warm", "--arch", "gfx942", code=1, PYFLAME_HIPRTC_LIBRARY="/none", PYFLAME_CLANG="/none"
    )
    assert "PYFLAME_CLANG" in text
    text = pyflame("warm", code=1, PYFLAME_HIP_LIBRARY="/none")
    assert "pf.kernel_cache.warm" in text and "--arch" in text
    text = pyflame("warm", "--arch", "gfx999", code=1)
    assert "got architecture 'gfx999'" in text and "gfx120x" in text, text
    text = pyflame("pack", "--arch", "gfx942", "--out", "none/x.pack", code=1)
    assert "no folder" in text and "not compiled" not in text, text
    (tmp_path / "bad.py").write_text("import pyflame\n\n1 / 0\n")
    text = pyflame("warm", "--script", "bad.py", code=1)
    assert "bad.py failed" in text and "line 3" in text and "--arch" not in text, text


def test_checksum_is_the_plugins():
    assert kernel_cache.checksum(b"") != kernel_cache.checksum(b"\0")
    assert kernel_cache.checksum(b"12345678") != kernel_cache.checksum(b"12345679")


@pytest.fixture
def clang(tmp_path):
    """A compiler that takes no time, for what need not run."""
    path = tmp_path / "clang"
    path.write_text(
        '#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = -o ] && echo code >"$2"; shift; done\n'
    )
    path.chmod(0o755)
    return {"PYFLAME_HIPRTC_LIBRARY": "/none", "PYFLAME_CLANG": str(path)}


def keys_of(pack):
    """Of the programs in a pack."""
    data = pack.read_bytes()
    count = kernel_cache._PACK.unpack_from(data)[1]
    places = [
        kernel_cache._PLACE.unpack_from(
            data, kernel_cache._PACK.size + i * kernel_cache._PLACE.size
        )
        for i in range(count)
    ]
    return {key.rstrip(b"\0").decode() for key, *_ in places}


def test_the_common_pack_has_what_training_needs(run, pyflame, clang, tmp_path):
    """All programs of a step of `pyflame train gpt`, but for a smaller batch and less context."""
    pyflame("pack", "--arch", "gfx942", "--out", "common.pack", **clang)
    where = tmp_path / "fresh"
    run(
        """
        from types import SimpleNamespace
        from pyflame.training.gpt import Trainer
        pf.set_device("rocm")
        text = SimpleNamespace(train=pf.tensor(list(range(256)) * 2, dtype=pf.uint8))
        for precision in "float32", "bfloat16":
            model = dict(vocab=256, layers=1, width=384, heads=6, context=128, dropout=0.0)
            config = dict(model=model, seed=0, batch=2, weight_decay=0.1, lr=1e-3, warmup=2,
                          steps=9, clip=1.0, precision=precision)
            trainer = Trainer(config, text)
            for _ in range(2):
                trainer.train_step().item()
        """,
        XDG_CACHE_HOME=where,
        PYFLAME_GPU_GEMM="library",  # as for products of ordinary sizes
        PYFLAME_HIPBLASLT_LIBRARY=standin.FOLDER / "standin" / "products" / "libhipblaslt.so",
    )
    used = kernel_cache.entries(where / "pyflame" / "kernels")
    packed = keys_of(tmp_path / "common.pack")
    assert len(used) > 20
    missing = [e.kernel for e in used if f"gfx942-{e.portable}" not in packed]
    assert not missing, missing


def test_a_pack_that_the_driver_cannot_load_is_passed_over(run, pyflame, clang, tmp_path):
    pyflame("pack", "--arch", "gfx942", "--script", "script.py", "--out", "bad.pack", **clang)
    assert len(keys_of(tmp_path / "bad.pack")) > 3
    used = run(USE, PYFLAME_KERNEL_PACK=tmp_path / "bad.pack", XDG_CACHE_HOME=tmp_path).split()
    assert int(used[0]) > 3 and used[2] == "0"


def test_pack_of_what_can_be_compiled(pyflame, clang, tmp_path):
    text = pyflame(
        *("pack", "--available", "--script", "script.py", "--out", "some.pack", "--arch"),
        *("gfx906", "gfx1100", "sm_90", "native"),
        **clang | {"PYFLAME_NVRTC_LIBRARY": "/none"},
    )
    assert "left out gfx906" in text and "usable are gfx908" in text
    assert "left out sm_90" in text and "/none" in text
    assert {k.split("-")[0] for k in keys_of(tmp_path / "some.pack")} == {"gfx1100", "gfx942"}
    text = pyflame(
        *("pack", "--available", "--out", "none.pack", "--arch", "native"),
        PYFLAME_HIP_LIBRARY="/none",
    )
    assert "there is no GPU here" in text and not keys_of(tmp_path / "none.pack")
    text = pyflame("pack", "--arch", "native", code=1, PYFLAME_HIP_LIBRARY="/none")
    assert "no GPU here" in text
