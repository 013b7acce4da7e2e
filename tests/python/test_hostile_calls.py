"""What no program means: sizes of 0 and tensors without dimensions in each place of each operation,
hostile arguments, objects without a tensor inside. In child processes (hostile.py), with a page behind
each block that nobody may touch: a result or a typed error, no crash and no hang.

PYFLAME_TEST_SHARE draws less or more; make test-soak draws at random.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hangs import HANG

import pyflame as pf

HERE = Path(__file__).resolve().parent
SHARE = float(os.environ.get("PYFLAME_TEST_SHARE", "1"))
ROWS = sum(not r["name"].startswith("test_") for r in pf.ops.table())


def child(tmp_path, kind, first, end, **env):
    log = tmp_path / "log"
    p = subprocess.run(
        [sys.executable, HERE / "hostile.py", log, kind, "7", str(first), str(end)],
        capture_output=True,
        text=True,
        timeout=HANG,
        env={
            **os.environ,
            "PYFLAME_GUARD_PAGES": "1",
            "PYFLAME_ALLOC_CONF": "caching:False",
            **env,
        },
    )
    at = log.read_text(errors="replace").strip() if log.exists() else ""
    assert p.returncode == 0, (p.returncode, at, p.stdout[-3000:], p.stderr[-2000:])
    made = int(p.stdout.split()[-5])
    assert made > (end - first) * (0.5 if kind != "walk" else 2), p.stdout
    return made


def test_each_size_0_and_no_dimensions(tmp_path):
    child(tmp_path, "walk", 0, int(ROWS * SHARE))


@pytest.mark.parametrize("kind", ["wild", "names"])
def test_hostile_arguments(kind, tmp_path):
    child(tmp_path, kind, 0, int(1500 * SHARE))


@pytest.mark.cpu_only
def test_objects_without_a_tensor(tmp_path):
    child(tmp_path, "empty", 0, 1100)


@pytest.mark.cpu_only
def test_on_a_small_stack(tmp_path):
    """Threads of 128 KB take part, too."""
    child(tmp_path, "walk", 0, int(ROWS * SHARE), PYFLAME_TEST_STACK=str(128 << 10))


@pytest.mark.cpu_only
def test_copies_on_a_small_stack():
    """Of large tensors: strided ones, and such that are turned box by box."""
    code = """
import threading, pyflame as pf
threading.stack_size(128 << 10)
x, sums = pf.randn(16, 64, 56, 56), []
def copies():
    for y in (x[:, ::2, 3:50, 2:40], x.transpose(0, 1), x.permute(3, 2, 0, 1), x.half()[:, 1:]):
        sums.append(pf.equal(y.contiguous().cpu(), y.cpu()))
thread = threading.Thread(target=copies)
thread.start()
thread.join()
assert sums == [True] * 4, sums
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG)


@pytest.mark.cpu_only
@pytest.mark.parametrize("first", [65, 300])
@pytest.mark.parametrize("size", [64, 96, 128])
def test_first_products_on_a_small_stack(size, first):
    """Whatever the libraries of products set up, and what runs then."""
    code = f"""
import threading, pyflame as pf
import pyflame.nn.functional as F
threading.stack_size({size} << 10)
x, w, done = pf.randn(65, 64), pf.randn(8, 3, 3, 3), []
def products():
    square = pf.ones({first}, {first})
    done.append((square @ square)[0, 0].item() == {first})
    for dtype in (pf.float32, pf.float64, pf.bfloat16, pf.float16):
        a = x.to(dtype).clone().requires_grad_()
        for b in (a.detach(), a.detach()[:3]):
            F.linear(a, b, b[:, 0]).relu().sum().backward()
        (a.view(5, 13, 64) @ a.view(5, 64, 13)).sum().backward()
        image = pf.ones(2, 3, 24, 24, dtype=dtype, requires_grad=True)
        F.conv2d(image, w.to(dtype), stride=2).sum().backward()
        done.append(bool(pf.isfinite(a.grad).all()) and bool(pf.isfinite(image.grad).all()))
    want = x.double() @ x.double().T
    done.append((x @ x.T - want).abs().max().item() < 1e-3)
    done.append(pf.linalg.svd(x)[1].sum().item() > 0)
thread = threading.Thread(target=products)
thread.start()
thread.join()
assert done == [True] * 7, done
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG)


@pytest.mark.parametrize("kind", ["chain", "objects", "hooks"])
def test_hostile_programs(kind, tmp_path):
    child(tmp_path, kind, 0, int(200 * SHARE))
