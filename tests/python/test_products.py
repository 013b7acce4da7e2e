"""Fused equals unfused, bit for bit: the product of products.py, once as usual and once with
PYFLAME_EAGER=1, each in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import products
import pytest

SCRIPT = Path(products.__file__)


def start(out, part, eager):
    env = {**os.environ, "PYFLAME_EAGER": eager, "OMP_NUM_THREADS": "2" if eager == "0" else "1"}
    return subprocess.Popen([sys.executable, str(SCRIPT), str(out), str(part)], env=env)


@pytest.mark.parametrize("part", range(products.PARTS))
def test_every_anchor_with_every_prologue_epilogue_and_layout(tmp_path, part):
    runs = {name: tmp_path / f"{name}.json" for name in ("fused", "eager")}
    children = [start(runs["fused"], part, "0"), start(runs["eager"], part, "1")]
    assert [c.wait() for c in children] == [0, 0]
    fused, eager = (json.loads(path.read_text()) for path in runs.values())
    cases = ["-".join(names) for names in products.all_cases(part)]
    assert list(fused["digests"]) == list(eager["digests"]) == cases
    different = [c for c in cases if fused["digests"][c] != eager["digests"][c]]
    assert not different, f"{len(different)} of {len(cases)} differ: {different[:20]}"
    assert fused["errors"] == eager["errors"]
    if products.SHARE < 0.1:
        return
    # Typed errors are compared too, but most cases must have results.
    assert fused["errors"] < 0.2 * len(cases)
    # And they really ran in two ways.
    assert eager["stats"]["groups"] == eager["stats"]["nodes"]
    assert fused["stats"]["groups"] < 0.4 * fused["stats"]["nodes"]
