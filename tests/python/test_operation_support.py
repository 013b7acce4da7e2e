"""What the operations take and run on: as the library does it, and as the documentation has it."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pyflame as pf

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.cpu_only


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_what_is_said_is_what_is_found():
    """In a process of its own: other tests define operations."""
    tool = ROOT / "tools" / "operation_support.py"
    done = subprocess.run(
        [sys.executable, str(tool), "--check"],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def rows():
    return [r for r in pf.ops.table() if r["family"] != "defined"]


def test_every_operation_says_what_it_is():
    for row in rows():
        assert row["cpu"] and row["gpu"]
        assert row["dtypes"] or row["name"][0] == "_", row["name"]
    assert pf.ops.support("exp")["dtypes"][:2] == ["float64", "float32"]
    assert "int64" not in pf.ops.support("softmax")["dtypes"]
    assert "LAPACK" in pf.ops.support("linalg_svd")["cpu"]
    assert "svd (cuSOLVER or hipSOLVER, or on the host)" in pf.ops.support("linalg_svd")["gpu"]
    assert "fft (cuFFT or hipFFT, or on the host)" in pf.ops.support("fft_fft")["gpu"]
    assert "eig (on the host, copied there and back)" in pf.ops.support("linalg_eig")["gpu"]
    assert "oneDNN" in pf.ops.support("matmul")["cpu"]
    assert pf.ops.support("reshape")["cpu"] == "no work on elements"
    assert len(pf.ops.list(details=True)) == len(pf.ops.list())
    with pytest.raises(AttributeError, match="no operation 'nothing'"):
        pf.ops.support("nothing")


def test_pages_of_operations(tmp_path):
    """Each operation that is a function or a method stands on one page, with its dtypes."""
    count = module(ROOT / "docs" / "generate.py").write_operations(tmp_path / "pages")
    text = "".join(p.read_text() for p in (tmp_path / "pages").glob("*.md"))
    sections = dict(re.findall(r"^## `(\w+)`$(.*?)(?=^## |\Z)", text, re.M | re.S))
    public = {r["name"] for r in rows() if r["function"] or r["method"] or r["functional"]}
    assert set(sections) >= public and f"{count} operations" in text and count == len(sections)
    without = [n for n in public if n[0] != "_" and "\nDtypes: " not in sections[n]]
    assert not without
