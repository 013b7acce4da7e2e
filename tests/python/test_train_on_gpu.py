"""`pyflame train gpt` takes the GPU that is there: here the stand-in for AMD's runtime."""

import json
import os
import re
import subprocess
import sys

import pytest
from hangs import HANG
from standin import FOLDER, HIP, PACKAGE, RTC

pytestmark = [
    pytest.mark.cpu_only,
    pytest.mark.skipif(
        not (HIP.exists() and (FOLDER / "libpyflame_rocm.so").exists()),
        reason="built without -DPYFLAME_USE_ROCM=ON",
    ),
]
SMALL = "--layers 1 --width 16 --heads 2 --context 8 --batch 2 --steps 5 --eval-bytes 64 --lr 1e-3".split()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def pyflame(tmp_path, cache):
    (tmp_path / "text.txt").write_text("".join(f"{i} times {i} is {i * i}\n" for i in range(400)))

    def run(*args, **env):
        new = {k: v for k, v in os.environ.items() if not k.startswith(("PYFLAME_", "HIP_"))}
        new |= {
            "PYTHONPATH": str(PACKAGE),
            "PYFLAME_HIP_LIBRARY": str(HIP),
            "PYFLAME_HIPRTC_LIBRARY": str(RTC),
            "PYFLAME_CUDA_LIBRARY": "/none",
            "XDG_CACHE_HOME": str(cache),
        }
        command = [sys.executable, "-m", "pyflame", *args]
        done = subprocess.run(
            command, cwd=tmp_path, env=new | env, capture_output=True, text=True, timeout=HANG
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def held_out(text):
    return float(re.search(r"held-out: ([\d.]+) bits per byte", text)[1])


def test_trains_on_the_gpu_that_is_there(pyflame, tmp_path):
    train = ("train", "gpt", "--data", "text.txt", *SMALL, "--sample", "3")
    fast = pyflame(*train, "--out", "fast")
    assert "device: rocm:0 (Stand-in for an AMD GPU), products in bfloat16" in fast
    exact = pyflame(*train, "--out", "exact", "--precision", "float32")
    assert "products in float32" in exact
    host = pyflame(*train, "--out", "host", "--device", "cpu")
    assert "device: cpu, products in float32" in host
    assert held_out(exact) == pytest.approx(held_out(host), abs=2e-3)
    assert held_out(fast) == pytest.approx(held_out(host), abs=0.05)
    # A run of the GPU is read on the CPU.
    assert pyflame("generate", "--run", "fast", "--bytes", "4", "--device", "cpu")
    assert json.loads((tmp_path / "fast" / "config.json").read_text())["precision"] == "bfloat16"


def test_a_gpu_that_cannot_be_used_is_named_and_left(pyflame):
    train = ("train", "gpt", "--data", "text.txt", *SMALL, "--sample", "0")
    out = pyflame(*train, PYFLAME_HIPRTC_LIBRARY="/nowhere.so")
    assert "note: there is a GPU, but it cannot be used" in out and "/nowhere.so" in out
    assert "device: cpu" in out


def test_two_products_with_other_epilogues(tmp_path):
    """Programs of one entry and other texts are other programs."""
    source = """
import pyflame as pf
pf.set_device("rocm")
a, b = pf.randn(16, 16), pf.randn(16, 48)
r = (a @ b).clone()
pf.synchronize()
for f in (lambda x: x.abs(), lambda x: x * 2, lambda x: x - 1):
    assert (f(a @ b).sum() - f(r).sum()).abs().item() < 1e-2
"""
    env = {
        **os.environ,
        "PYTHONPATH": str(PACKAGE),
        "PYFLAME_HIP_LIBRARY": str(HIP),
        "PYFLAME_HIPRTC_LIBRARY": str(RTC),
        "PYFLAME_CUDA_LIBRARY": "/none",
        "XDG_CACHE_HOME": str(tmp_path),
    }
    done = subprocess.run([sys.executable, "-c", source], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
