"""PyTorch's own samples of its operations: a share of them, drawn by PYFLAME_TEST_SEED.

All of them, with what differs: `python tests/python/pytorch_samples.py`.
"""

import os
import random
import re
import sys
from pathlib import Path

import pytest

import pyflame as pf

torch = pytest.importorskip("torch")

import pytorch_samples as samples  # noqa: E402
from pytorch_samples_known import BAD, BESIDE, MEANT, known, meant  # noqa: E402

pytestmark = pytest.mark.skipif(
    os.environ.get("PYFLAME_TEST_DEVICE", "cpu") != "cpu", reason="children run on the CPU"
)
SHARE = 0.4
PAGE = Path(__file__).parents[2] / "docs" / "pytorch_differences.md"


def test_a_share_of_the_samples():
    everything = samples.names("float32")
    drawn = random.Random(os.environ.get("PYFLAME_TEST_SEED", "")).sample(
        everything, int(SHARE * len(everything))
    )
    wrong, count = [], 0
    for name, answer in samples.run(drawn):
        count += answer.get("count", 0)
        if "crash" in answer:
            wrong.append(f"{name}: {answer['crash']}")
        for sample, kind, text in answer.get("found", ()):
            if kind != "absent" and not meant(kind, text) and not known(name, kind, text):
                wrong.append(f"{name}: {kind}: {text}\n    {sample}")
    assert count > 0
    if wrong:
        pytest.fail("\n".join(wrong[:20]), pytrace=False)


def test_known_differences_are_there_and_have_a_reason():
    page = " ".join(PAGE.read_text().split())
    for reason in [r for *_, r in MEANT] + [
        r for rows in (*BAD.values(), *BESIDE.values()) for *_, r in rows
    ]:
        assert reason in page
    for name, answer in samples.run(list(BAD)):
        found = [f[1:] for f in answer["found"]]
        for kind, pattern, _ in BAD[name]:
            met = any(k == kind and re.search(pattern, text, re.S) for k, text in found)
            assert met, (
                f"{name} differs no more by {pattern}: take it from pytorch_samples_known.py"
            )


def test_differences_are_found(monkeypatch):
    def kinds(name):
        return {kind for _, kind, text in samples.check(name)[1] if not meant(kind, text)}

    assert not kinds("sin") and not kinds("cat")
    monkeypatch.setattr(pf, "sin", pf.cos)
    assert "value" in kinds("sin")
    monkeypatch.setattr(pf, "sin", lambda x, out=None: x + (x.detach().sin() - x.detach()))
    assert "grad" in kinds("sin")
    monkeypatch.setattr(pf, "sin", lambda x, out=None: x.detach().sin())
    assert "history" in kinds("sin")
    cat = pf.cat
    monkeypatch.setattr(pf, "cat", lambda *args, **kwargs: cat(*args, **kwargs).double())
    assert "dtype" in kinds("cat")
    monkeypatch.setattr(pf, "cat", lambda tensors, dim=0, out=None: tensors[0])
    assert {"accepts", "shape"} <= kinds("cat")


def test_a_child_that_ends_is_named():
    text = """import json, os, sys
for name in sys.stdin.read().split("\\n"):
    print(json.dumps({"begin": name}), flush=True)
    if name == "bad":
        os.abort()
    print(json.dumps({"end": name, "count": 1, "found": []}), flush=True)
"""
    answers = dict(samples.run(["one", "bad", "two"], command=[sys.executable, "-c", text]))
    assert list(answers) == ["one", "bad", "two"]
    assert "crash" in answers["bad"] and answers["two"]["count"] == 1
