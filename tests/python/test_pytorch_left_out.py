"""Every public name of PyTorch works under `pyflame run`, or stands in docs/pytorch_left_out.md."""

import json
import pathlib
import re
import subprocess
import sys

import pytest
import test_torch_run

pytest.importorskip("torch")
pytestmark = pytest.mark.cpu_only

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "pytorch_left_out.md"

ASK = """
import importlib, json, sys, warnings
import torch
sys.path.insert(0, {here!r})
import pytorch_names

warnings.simplefilter("ignore")
missing = []
for where, name in json.load(open({names!r})):
    say = pytorch_names.OBJECTS.get(where.partition(".")[2])
    try:
        owner = eval(say) if say else importlib.import_module(where)
        getattr(owner, name)
    except (AttributeError, ModuleNotFoundError) as e:
        missing.append((where + "." + name, str(e)))
    except (RuntimeError, ValueError):  # it is there, and says what it needs
        pass
print(json.dumps(missing))
"""


@pytest.fixture(scope="module")
def missing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    listed = subprocess.run(
        [sys.executable, str(HERE / "pytorch_names.py")], capture_output=True, text=True, check=True
    ).stdout
    assert len(json.loads(listed)) > 4000
    names = folder / "names.json"
    names.write_text(listed)
    out = test_torch_run.run(ASK.format(here=str(HERE), names=str(names)), cwd=folder)
    return dict(json.loads(out.splitlines()[-1]))


def listed():
    """(module or class, name) of all in the table; the name * is whatever a module has."""
    rows = re.findall(r"^\| (`.*?) \| (`.*?) \| (.*) \|$", PAGE.read_text(), re.M)
    assert rows and all(reason.strip() for *_, reason in rows)
    quoted = re.compile("`(.*?)`").findall
    return {(w, n) for where, names, _ in rows for w in quoted(where) for n in quoted(names)}


def test_each_name_is_there_or_listed(missing):
    known, unknown = listed(), []
    for full in missing:
        where, _, name = full.rpartition(".")
        if not {(where, name), (where, "*")} & known:
            unknown.append(full)
    assert not unknown, unknown


def test_nothing_is_listed_that_is_there(missing):
    modules = {full.rpartition(".")[0] for full in missing}
    stale = [
        f"{where}.{name}"
        for where, name in listed()
        if (where not in modules if name == "*" else f"{where}.{name}" not in missing)
    ]
    assert not stale, stale


def test_what_is_missing_is_named(missing):
    """What modules lack says its name and what to do."""
    for full in (
        "torch.FloatStorage",
        "torch.cuda.temperature",
        "torch.dsmm",
        "torch.utils.weak.WeakIdRef",
    ):
        text = missing[full]
        assert "is not in PyFlame; " in text and text.startswith(full.rpartition(".")[0]), text
