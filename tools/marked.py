"""Which files of tests are about kernels: they say so (pytest.mark.kernels)."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests/python"
MARK = re.compile(r"^pytestmark = pytest\.mark\.kernels(?:\(([\d.]+)\))?$", re.M)
RACES = re.compile(r"^@pytest\.mark\.races\b", re.M)


def files():
    """{name: (share, whether there are tests for a race checker)}, the largest files first."""
    found = {}
    for file in sorted(TESTS.glob("test_*.py"), key=lambda f: -f.stat().st_size):
        text = file.read_text()
        if mark := MARK.search(text):
            races = bool(RACES.search(text))
            found[file.stem.removeprefix("test_")] = (float(mark[1] or 1), races)
    return found
