"""No kernel reads past its inputs or writes outside of its outputs: see guards.py."""

import json
import os
import signal
import subprocess
import sys

import guards
import pytest


def child(*command):
    return subprocess.run([sys.executable, *command], capture_output=True, text=True)


def test_every_operation_stays_within_its_memory(tmp_path):
    log = tmp_path / "log"
    done = child(guards.__file__, str(log))
    text = log.read_text()
    assert done.returncode == 0, f"{done.returncode} in {text.strip()}\n{done.stderr[-2000:]}"
    taken = {schema.split("(")[0]: count for schema, count in json.loads(text).items()}
    never = [name for name, count in taken.items() if not count and name not in guards.FITTING]
    # Arguments made by chance do not suit every row; nearly all must have run.
    assert len(never) < 0.05 * len(taken), f"accepted nothing: {never}"


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
