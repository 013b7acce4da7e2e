"""Why groups were run, in one step of real models: snapshots of the engine's counters.

They are a function of the program alone. A change that is meant is taken over with
`pytest tests/python/test_flush_reasons.py --write-snapshots` on each device, and reviewed as a
diff of tests/data/flush_reasons.json.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import snapshots

FILE = Path(__file__).parent.parent / "data" / "flush_reasons.json"
# Where an index is checked within its call, and which programs run within a kernel and so give
# their memory to no result, is the device's.
KIND = {"cpu": "cpu", "paranoid": "paranoid"}.get(snapshots.DEVICE, "gpu")


def count(threads, path):
    env = {**os.environ, "OMP_NUM_THREADS": threads, "PYFLAME_EAGER": "0"}
    subprocess.run([sys.executable, snapshots.__file__, str(path)], env=env, check=True)
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    return count("2", tmp_path_factory.mktemp("counts") / "counts.json")


def changes(want, got):
    lines = []
    for when in ("first", "steady"):
        # A slow way is what a machine without the vendor's library takes: no decision of the engine.
        for name in sorted({*want[when], *got[when]} - {"slow"}):
            a, b = want[when].get(name, 0), got[when].get(name, 0)
            if a != b:
                lines.append(f"  {when} step: {name} was {a}, is {b}")
    return "\n".join(lines)


@pytest.mark.parametrize("program", [make.__name__ for make in snapshots.PROGRAMS])
def test_snapshot(program, counted, request):
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    if request.config.getoption("--write-snapshots"):
        known.setdefault(KIND, {})[program] = counted[program]
        FILE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    found = changes(known[KIND][program], counted[program])
    assert not found, f"the engine did something else for {program}:\n{found}"


@pytest.mark.parametrize("program", [make.__name__ for make in snapshots.PROGRAMS])
def test_a_steady_step_builds_nothing(program, counted):
    steady = counted[program]["steady"]
    assert steady.get("programs_made", 0) == 0
    assert steady["groups"] < steady["nodes"]
    if program != "evaluation":
        assert steady.get("copies_to_host", 0) == 0


def test_the_number_of_threads_changes_no_decision(counted, tmp_path):
    assert count("1", tmp_path / "one.json") == counted
