"""oneDNN as it may be found: cut off, empty, of another version, without its functions."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hangs import HANG

pytestmark = pytest.mark.cpu_only

PROGRAM = """
import warnings
import pyflame as pf
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for _ in range(3):
        assert (pf.ones(200, 300) @ pf.ones(300, 100)).sum().item() == 200 * 300 * 100
    for _ in range(1000):
        pass
print([(w.category.__name__, str(w.message)) for w in seen])
"""


def warnings_with(path):
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYFLAME_ONEDNN_PATH": str(path), "PYFLAME_GEMM": "onednn"},
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return eval(run.stdout)


def built(folder, text):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler")
    source, library = folder / "it.c", folder / "it.so"
    source.write_text(text)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


VERSION = """
struct V { int major, minor, patch; const char *hash; unsigned cpu, gpu; };
static struct V v = {%d, 1, 2, "x", 2, 0};
const struct V *dnnl_version(void) { return &v; }
"""


def found(kind, folder):
    path = folder / "libdnnl.so"
    if kind == "not there":
        return path
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "a text":
        path.write_text("oneDNN lives elsewhere\n" * 20)
    elif kind.startswith("cut off"):
        whole = Path(built(folder, VERSION % 3 + "char more[100000] = {1};")).read_bytes()
        path.write_bytes(whole[: len(whole) // 2 if kind.endswith("half") else 2000])
    elif kind == "another library":
        return built(folder, "int f(void) { return 1; }")
    elif kind == "another version":
        return built(folder, VERSION % 9)
    else:
        return built(folder, VERSION % 3)
    return path


KINDS = {
    "not there": "cannot open",
    "empty": "is no library",
    "a text": "is no library",
    "cut off at half": "is cut off",
    "cut off early": "is cut off",
    "another library": "no dnnl_version",
    "another version": "9.1.2 has another version",
    "without functions": "lacks a function",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_library_that_cannot_be_used_brings_one_warning(kind, tmp_path):
    ((category, text),) = warnings_with(found(kind, tmp_path))
    assert category == "RuntimeWarning"
    assert KINDS[kind] in text and "PYFLAME_GEMM=own" in text
