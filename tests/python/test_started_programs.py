"""Python programs that a program under `pyflame run` starts by itself (`subprocess`)."""

import os
import sys

import pytest
import test_torch_run

from pyflame._torch import started

pytestmark = pytest.mark.cpu_only
RUN = ["-m", "pyflame", "run"]


@pytest.mark.parametrize(
    "words, expected",
    [
        (["a.py"], [*RUN, "a.py"]),
        (["a.py", "-m", "x"], [*RUN, "a.py", "-m", "x"]),
        (["-u", "-W", "ignore", "a.py"], ["-u", "-W", "ignore", *RUN, "a.py"]),
        (["-Wignore", "-X", "dev", "-m", "tool", "-c"], ["-Wignore", "-X", "dev", *RUN, "-m", "tool", "-c"]),
        (["-c", "pass"], [*RUN, "-c", "pass"]),
        (["-um", "tool"], ["-u", *RUN, "-m", "tool"]),
        (["-"], [*RUN, "-"]),
        # Those that are not about a program, are PyFlame's or pip's, or want nothing from outside.
        *((w, w) for w in (["--version"], [], ["-V"], ["-m", "pip", "list"], ["-m", "pyflame.run", "a.py"],
                           ["-I", "a.py"], ["-Sc", "pass"], ["-E", "-m", "tool"], ["-u"])),
    ],
)  # fmt: skip
def test_commands(words, expected):
    whole = [sys.executable, *words]
    assert started.command(whole) == [sys.executable, *expected]
    assert whole == [sys.executable, *words]  # the program's list stays


def test_other_commands_stay(tmp_path):
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    for args in (["ls", "a.py"], "python a.py", b"python a.py", [3, "a.py"], [str(other), "a.py"],
                 ["nowhere/python", "a.py"]):  # fmt: skip
        assert started.command(args) is args
    name = os.path.basename(sys.executable)
    here = {"PATH": os.path.dirname(sys.executable)}
    assert started.command([name, "a.py"], here) == [name, *RUN, "a.py"]
    assert started.command([name, "a.py"], {"PATH": str(tmp_path)})[1:] == ["a.py"]


PROGRAM = """
import subprocess, sys
import torch

text = "import torch, sys; print(torch.__version__, sys.argv[1:])"
open("other.py", "w").write(text)
print(subprocess.run([sys.executable, "other.py", "--x"], capture_output=True, text=True).stdout, end="")
print(subprocess.check_output([sys.executable, "-c", text, "y"], text=True), end="")
process = subprocess.Popen([sys.executable, "-m", "other"], stdout=subprocess.PIPE, text=True)
print(process.communicate()[0], end="")
print(subprocess.run([sys.executable, "-c", "import sys; sys.exit(3)"]).returncode)
"""


def test_they_get_pyflame(tmp_path):
    out = test_torch_run.run(PROGRAM, cwd=tmp_path).splitlines()
    version = "2.13.0+pyflame"
    assert out == [f"{version} ['--x']", f"{version} ['y']", f"{version} []", "3"]
