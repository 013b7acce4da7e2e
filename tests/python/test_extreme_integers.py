"""No integer argument wraps, crashes or hangs at the ends of 64 bits: see extreme_integers.py."""

import subprocess
import sys

import extreme_integers
import pytest
from hangs import HANG

import pyflame as pf
import pyflame.nn.functional as F


def test_every_integer_argument(tmp_path):
    log = tmp_path / "log"
    child = subprocess.run(
        [sys.executable, extreme_integers.__file__, str(log)],
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    text = log.read_text().strip()
    assert child.returncode == 0, f"{child.returncode} in {text}\n{child.stderr[-2000:]}"
    done, *wrong = child.stdout.strip().split("\n")
    assert not wrong, "\n".join(wrong[:40])
    assert int(done) > (500 if extreme_integers.SHARE >= 1 else -1)


# Everything that takes a tensor of indices.
INDEXED = {
    "index": lambda x, i: x[i],
    "index two": lambda x, i: x[i, i],
    "index_put": lambda x, i: x.index_put((i,), x[:3]),
    "index_put accumulate": lambda x, i: x.index_put((i,), x[:3], accumulate=True),
    "index_select": lambda x, i: x.index_select(0, i),
    "index_add": lambda x, i: x.index_add(0, i, x[:3]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:3]),
    "index_fill": lambda x, i: x.index_fill(0, i, 1.0),
    "gather": lambda x, i: x[0].gather(0, i),
    "scatter": lambda x, i: x[0].scatter(0, i, x[0, :3]),
    "scatter number": lambda x, i: x[0].scatter(0, i, 2.0),
    "scatter_add": lambda x, i: x[0].scatter_add(0, i, x[0, :3]),
    "scatter_reduce": lambda x, i: x[0].scatter_reduce(0, i, x[0, :3], "prod"),
    "take": lambda x, i: pf.take(x, i),
    "put_": lambda x, i: x.clone().put_(i, x[0, :3]),
    "take_along_dim": lambda x, i: pf.take_along_dim(x[0], i, 0),
    "embedding": lambda x, i: F.embedding(i, x),
    "one_hot": lambda x, i: F.one_hot(i, 5),
    "bincount": lambda x, i: pf.bincount(i),
    "cross_entropy": lambda x, i: F.cross_entropy(x[:3], i),
    "nll_loss": lambda x, i: F.nll_loss(x[:3], i),
    "setitem": lambda x, i: x.clone().__setitem__(i, 1.0),
}


@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.parametrize("wrong", [-(2**63), -(2**63) + 1, 2**63 - 1, -(2**62), 2**32, 7, -8])
def test_indices_at_the_ends_are_wrong(name, wrong):
    if name == "bincount" and wrong == 2**32:
        pytest.skip("that many counts are right, and 34 GB")
    x = pf.ones(7, 6)
    for at in range(3):
        index = [0, 1, 2]
        index[at] = wrong
        try:
            result = INDEXED[name](x, pf.tensor(index))
            pf.synchronize()
        except (pf.IndexError, pf.ValueError, pf.OutOfMemoryError, pf.ShapeError):
            continue
        assert (
            name == "bincount"
            and wrong == 7
            or name == "take"
            and wrong in (7, -8)
            or (name == "put_" and wrong in (7, -8))
        ), (name, index, result)
    assert x.sum().item() == 42
