"""Short programs drawn at random, run under PyTorch and under PyFlame: beside.py runs and compares them, the
modules drawn_*.py draw them, each kind one function, and list the differences that are meant.

PYFLAME_BESIDE says how many programs of each kind are drawn (by default 60).
"""

import importlib
import os

import pytest
from beside import compare, draw

torch = pytest.importorskip("torch")
COUNT = int(os.environ.get("PYFLAME_BESIDE", "60"))
FIRST = int(os.environ.get("PYFLAME_BESIDE_FIRST", "0"))
KINDS = {
    "drawn_distributions": ("plain", "divergence", "transforms", "transformed", "mixture", "constraints"),
    "drawn_layouts": ("coo_csr", "nested", "masked"),
    "drawn_files": ("generators", "saved", "states", "loaders"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module, kind", [(m, k) for m, kinds in KINDS.items() for k in kinds])
def test_as_pytorch(module, kind):
    module = importlib.import_module(module)
    digits = getattr(module, "DIGITS", None)
    digits = digits.get(kind) if isinstance(digits, dict) else digits
    for seed in range(FIRST, FIRST + COUNT):
        lines = draw(getattr(module, kind), seed)
        found = compare(
            torch,
            lines,
            getattr(module, "NAMES", ()),
            kind not in getattr(module, "STRICT", ()),
            digits=digits,
        )
        found = [(i, text) for i, text in found if not module.meant(lines, i, text)]
        assert not found, (
            f"{kind} {seed}\n" + "\n".join(lines[: found[0][0] + 1]) + f"\n{found[0][1]}"
        )
