"""Names and signatures beside those of the PyTorch that is installed: tools/compare_names.py.

PyTorch's own lists and stubs are read, so none can grow stale here; of compiled functions every call
that their signatures allow is tried, by position and by keyword. Nothing is computed: `_C._fits` says
whether arguments fit a row of the table.
"""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.cpu_only

TOOL = Path(__file__).resolve().parents[2] / "tools" / "compare_names.py"


@pytest.fixture(scope="module")
def compared():
    """(exceptions, comparisons by name of the module)"""
    spec = importlib.util.spec_from_file_location("compare_names", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    exceptions = tool.Exceptions()
    return exceptions, {c.where: c for c in tool.compare_all(exceptions)}


def test_names(compared):
    """Each module has its share of PyTorch's names, but for those that are left out with a reason."""
    exceptions, results = compared
    low = [
        f"{c.where}: {c.percent:.1f}% of {exceptions.bars.get(c.where, exceptions.bar)}%; "
        f"missing {c.missing}"
        for c in results.values()
        if c.percent < exceptions.bars.get(c.where, exceptions.bar)
    ]
    assert not low, "\n".join(low)


def test_signatures(compared):
    """All arguments of PyTorch's functions and classes are taken, and at their places."""
    _, results = compared
    short = [f"{c.where}.{n}: {what}" for c in results.values() for n, what in c.differs.items()]
    assert sum(c.calls for c in results.values()) > 4000
    assert not short, "\n".join(short)


def test_nothing_is_left_out_for_nothing(compared):
    exceptions, _ = compared
    stale = [n for n in {**exceptions.names, **exceptions.parameters} if n not in exceptions.used]
    assert not stale, f"no name that is missing fits these: {stale}"
    assert set(exceptions.bars) <= set(compared[1])
    assert all(b < exceptions.bar for b in exceptions.bars.values())


def test_defaults_of_keywords():
    """Libraries ask whether a function has an argument as they would of one written in Python."""
    import torch

    import pyflame as pf

    assert pf.meshgrid.__kwdefaults__ == torch.meshgrid.__kwdefaults__ == {"indexing": None}
    assert pf.matmul.__kwdefaults__ is None
