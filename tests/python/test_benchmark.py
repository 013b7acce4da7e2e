"""The command lines of benchmarks, on the CPU, where their cases are small."""

import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import types

import pytest
from hangs import HANG

import pyflame as pf

ROOT = pathlib.Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.cpu_only


def test_rocm_benchmark(tmp_path):
    package = pathlib.Path(pf.__file__).resolve().parent.parent
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYFLAME_")}
    command = [
        sys.executable,
        ROOT / "benchmarks" / "rocm_benchmark.py",
        "--device",
        "cpu",
    ]
    command += ["--case", "matmul_bfloat16_1024", "--case", "layer_norm", "--no-torch"]
    command += ["--iterations", "12", "--warmup", "2", "--seconds", "0.001"]
    command += ["--json", tmp_path / "result.json"]
    done = subprocess.run(
        list(map(str, command)),
        env=env | {"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    facts = result["facts"]
    assert (facts["device"], facts["iterations"], facts["warmup"]) == ("cpu", 12, 2)
    assert facts["small"]
    rows = {r["case"]: r["sides"]["pyflame"] for r in result["results"]}
    assert set(rows) == {"matmul_bfloat16_1024", "layer_norm"}
    assert all(side["seconds"] > 0 for side in rows.values())
    assert 0 < rows["layer_norm"]["fraction"]


@pytest.mark.parametrize(
    "answers, want",
    [
        ({"torch": [None], "pyflame": [1.0]}, (True, True)),  # no such operation: left out
        ({"torch": [2.0, 2.0], "pyflame": [None]}, (False, True)),  # ours fails: listed
        ({"torch": [2.0, 2.0], "pyflame": [1.0, None]}, (False, True)),
        ({"torch": [2.0, 2.0], "pyflame": [1.0, 1.0]}, (False, False)),
    ],
)
def test_the_sweep_tells_apart_who_failed(answers, want):
    spec = importlib.util.spec_from_file_location("sweep", ROOT / "tools" / "sweep.py")
    sweep = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sweep)

    class Answers(sweep.Pair):
        def side(self, module):
            return types.SimpleNamespace(ask=lambda command: answers[module].pop(0))

    t = Answers("", "cpu", 1).times("add", 1, "forward", 0.01, 2)
    assert (math.isnan(t["torch"]), math.isnan(t["pyflame"])) == want
