"""Programs over torch run as they are under `pyflame run`: tests/python/torch_programs/*.py.

Where PyTorch is installed, what they print is what they print with it: weights and data are made
without random numbers of either.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import test_torch_run

pytestmark = pytest.mark.cpu_only
FOLDER = Path(__file__).parent / "torch_programs"


def ours(name, *args, cwd):
    done = test_torch_run.start("run", FOLDER / name, *args, cwd=cwd)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def theirs(name, *args, cwd):
    """The same with PyTorch, which must be there. Its compiler is not asked: it takes a minute."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(FOLDER / name), *args, "--compile="],
        cwd=cwd, capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def numbers(text):
    return [float(n) for n in re.findall(r"\d+\.\d+", text)]


def test_a_model_of_characters(tmp_path):
    """Trains, stops, goes on from its checkpoint, samples."""
    whole = ours("char_model.py", cwd=tmp_path)
    losses = numbers(whole)
    assert losses[0] > 2.5 and losses[-1] < 0.5
    ours("char_model.py", "--max_iters=20", "--out_dir=half", cwd=tmp_path)
    rest = ours("char_model.py", "--init_from=resume", "--out_dir=half", cwd=tmp_path)
    # Its checkpoint is from before step 20.
    assert rest == whole[whole.index("eval 20") :]
    sampled = ours("char_model.py", "--init_from=sample", cwd=tmp_path)
    assert re.fullmatch(r"sample t[a-z. ]{20}\n", sampled)


def test_a_model_of_characters_beside_pytorch(tmp_path):
    mine = ours("char_model.py", "--max_iters=10", "--out_dir=a", cwd=tmp_path)
    other = theirs("char_model.py", "--max_iters=10", "--out_dir=b", cwd=tmp_path)
    assert re.sub(r"[\d.]+", "", mine) == re.sub(r"[\d.]+", "", other)
    assert numbers(mine) == pytest.approx(numbers(other), rel=2e-3)
    # Each goes on with the other's file.
    back = theirs(
        "char_model.py", "--init_from=resume", "--max_iters=12", "--out_dir=a", cwd=tmp_path
    )
    forth = ours(
        "char_model.py", "--init_from=resume", "--max_iters=12", "--out_dir=b", cwd=tmp_path
    )
    assert numbers(back) == pytest.approx(numbers(forth), rel=5e-3)


def test_a_trainer_of_additions(tmp_path):
    out = ours("adder.py", "--workers=1", cwd=tmp_path)
    first, last = numbers(out)
    assert first > 1.5 and last < 0.1 and int(out.split()[-1]) > 75
    assert (tmp_path / "adder.pt").read_bytes()[:2] == b"PK"


def test_einops_layers(tmp_path):
    pytest.importorskip("einops")
    assert ours("shapes.py", cwd=tmp_path) == "fine 6\n"


METRICS = """\
accuracy [0.75]
f1 [0.719]
matrix [2, 0, 0, 0, 3, 0, 1, 1, 1]
auroc [0.75]
mse [2.0]
mae [1.0]
r2 [0.875]
pearson [0.9226]
macro [0.7778]
micro [0.75]
"""


def test_torchmetrics(tmp_path):
    if importlib.util.find_spec("torchmetrics") is None:
        pytest.skip("torchmetrics is not installed")
    assert ours("metrics.py", cwd=tmp_path) == METRICS
