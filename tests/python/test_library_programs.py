"""Programs of other people's libraries as they are, under `pyflame run`: tests/programs/*.py, each of a
library and its ways of training (checkpointing, mixed precision, accumulation, schedules, going on from
files). What they say is what they say under PyTorch (tests/programs/record.py): the same tokens, the same
losses.

They need packages that the other tests do not; `make test-programs` makes an environment of them.
"""

import ast
import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
import test_torch_run

pytestmark = pytest.mark.cpu_only
FOLDER = Path(test_torch_run.__file__).parents[1] / "programs"
NAMES = sorted(p.stem for p in (FOLDER / "reference").glob("*.jsonl"))
# Rounding: of float32, and of what is calculated in bfloat16.
FLOAT, SHORT = 3e-4, 2e-2


def imported(name):
    """The packages that a program imports, itself or by another program."""
    found = set()
    for node in ast.walk(ast.parse((FOLDER / f"{name}.py").read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
    found = {n.partition(".")[0] for n in found} - {"torch"} - sys.stdlib_module_names
    programs = {n for n in found if (FOLDER / f"{n}.py").exists()}
    return (found - programs).union(*map(imported, programs))


def differences(ours, theirs, name):
    tolerance = SHORT if re.search("bfloat16|bf16", name) else FLOAT
    assert len(ours) == len(theirs), name
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a[:2] != b[:2]:
            yield name, i, a[:2], b[:2]
        elif a[1]:
            if a != b:
                yield name, i, a, b
        elif not (
            abs(a[2] - b[2]) <= tolerance * (b[3] + 1e-6)
            and abs(a[3] - b[3]) <= tolerance * (b[3] + 1e-6)
            and all(abs(u - v) <= 10 * tolerance * (1 + abs(v)) for u, v in zip(a[4], b[4]))
        ):
            yield name, i, a, b


@pytest.mark.parametrize("name", NAMES)
def test_program(name, tmp_path):
    missing = sorted(n for n in imported(name) if importlib.util.find_spec(n) is None)
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed; make test-programs")
    _, *theirs = map(json.loads, (FOLDER / "reference" / f"{name}.jsonl").read_text().splitlines())
    done = test_torch_run.start(
        "run", FOLDER / f"{name}.py", cwd=tmp_path, env={"HF_HUB_OFFLINE": "1"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ours = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["')]
    assert [line[0] for line in ours] == [line[0] for line in theirs]
    found = [d for a, b in zip(ours, theirs) for d in differences(a[1], b[1], a[0])]
    assert not found


def test_what_is_compared():
    """A program that said something else would be noticed."""
    a = [[[2], False, 0.3, 1.0, [0.4, 0.6]]]
    assert not list(differences(a, a, "x"))
    for i, other in ((0, [3]), (1, True), (2, 0.31), (3, 1.01), (4, [0.41, 0.6])):
        b = [[other if j == i else v for j, v in enumerate(a[0])]]
        assert list(differences(a, b, "x"))
    tokens = [[[2], True, 3.0, 3.0, [1, 2]]]
    assert list(differences(tokens, [[[2], True, 3.0001, 3.0, [1, 2]]], "x"))
    assert {"numpy", "transformers"} <= imported("trainer_gpt2") and NAMES
    assert {"numpy", "transformers"} <= imported("model_families")


def test_models_are_compared(tmp_path):
    """tools/compare_models.py: what counts as alike, and what a time-out or NaN leaves."""
    path = FOLDER.parents[1] / "tools" / "compare_models.py"
    spec = importlib.util.spec_from_file_location("compare_models", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    nan, inf = float("nan"), float("inf")
    theirs = {
        "a": [1.0, 2.0],
        "apart": [1.0, 2.0],
        "rough": [1.0, 2.0],
        "rough f64": [1.0, 2.02],
        "kink": [1.0, 2.0],
        "kink f64": [1.0, 2.0],
        "kink f64 2": [1.0, 2.5],
        "kink bf16": [1.0, 3.0],
        "nan": [nan, 1.0],
        "nan here": [1.0, 1.0],
        "inf": [inf, 1.0],
        "dead": [0.0, 0.0],
        "cut here": [1.0],
    }
    ours = {
        "a": [1.0, 2.000001],
        "apart": [1.0, 2.0001],
        "rough": [1.0, 2.03],
        "kink": [1.0, 2.4],
        "kink bf16": [1.0, 9.0],
        "nan": [nan, 1.0],
        "nan here": [1.0, nan],
        "inf": [inf, 1.0],
        "dead": [0.0, 0.0],
        "only here": [1.0],
    }
    for side, values in (("ours", ours), ("theirs", theirs)):
        lines = [json.dumps({"names": ["a", "cut", "raises"]})]
        lines += [json.dumps({"name": k, "values": v}) for k, v in values.items()]
        lines += ["a warning", "3", json.dumps({"name": "a", "forward": 1.0, "step": 2.0})]
        if side == "ours":
            lines += [json.dumps({"name": "raises", "error": "ValueError: x"})]
        else:
            lines += [json.dumps({"name": "raises", "values": [1.0]})]
        (tmp_path / f"{side}.x.0.jsonl").write_text("\n".join(lines) + '\n{"name": "cut", "val')
    found = {
        row[1]: row[0]
        for row in module.rows(*(module.Side(tmp_path, s) for s in ("ours", "theirs")))
    }
    assert found == {
        "a": "alike",
        "inf": "alike",
        "rough": "alike: as rounding goes",
        "kink": "alike: as rounding goes",
        "kink bf16": "apart",
        "apart": "apart",
        "nan": "NaN on both sides",
        "dead": "zeros on both sides",
        "nan here": "NaN here, ran with PyTorch",
        "cut": "cut on both sides",
        "cut here": "not there here, ran with PyTorch",
        "only here": "ran here, not there with PyTorch",
        "raises": "raised here, ran with PyTorch",
    }
    text = list(module.table(tmp_path))
    assert text[2].startswith("-- NaN") and text[-1].startswith("rough")
    places = [
        text.index(t) for t in ("-- apart", "    ValueError: x", "-- cut on both sides", "-- alike")
    ]
    assert places == sorted(places)
    assert any(re.match("a .*1.00 / 1.00 +2.00 / 2.00$", line) for line in text)
