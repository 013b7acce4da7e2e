"""No kernel reads past its inputs or writes outside of its outputs: see guards.py."""

import json
import os
import signal
import subprocess
import sys

import guards
import pytest


@pytest.mark.parametrize("part", guards.PARTS)
def test_every_operation_stays_within_its_memory(tmp_path, part):
    log = tmp_path / "log"
    command = [sys.executable, guards.__file__, str(log), part]
    child = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    text = log.read_text()
    assert child.returncode == 0, f"{child.returncode} in {text.strip()}\n{child.stderr[-2000:]}"
    if part == "rows-float32" and guards.SHARE >= 1:
        names = {schema.split("(")[0]: 0 for schema in json.loads(text)}
        for schema, count in json.loads(text).items():
            names[schema.split("(")[0]] += count
        integers = (
            "bitwise_",
            "one_hot",
            "bincount",
            "gcd",
            "lcm",
            "int_mm",
            "_int_mm",
            "_scaled_mm",
        )  # take no floats
        names = {name: n for name, n in names.items() if not name.startswith(integers)}
        never = [name for name, n in names.items() if not n and name not in guards.FITTING]
        # Arguments made by chance do not suit every row; nearly all must have run.
        assert len(never) < 0.05 * len(names), f"accepted nothing: {never}"


@pytest.mark.cpu_only
@pytest.mark.parametrize("at", ["array[-1:].ctypes.data + 4", "array.ctypes.data - 1"])
def test_the_guard_is_there(at):
    front = "True" if "- 1" in at else "False"
    code = (
        "import ctypes, guards, numpy as np\n"
        f"array = guards.at_edge(np.ones(5, 'f4'), {front})\n"
        f"ctypes.string_at({at}, 1)\n"
    )
    env_path = os.path.dirname(guards.__file__)
    done = subprocess.run([sys.executable, "-c", code], cwd=env_path)
    assert done.returncode == -signal.SIGSEGV
