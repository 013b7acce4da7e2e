"""Processes in which a GPU plug-in runs on the stand-ins for AMD's runtime and compiler
(tests/standin): what test_gpu_*.py share.

Each test is a process of its own: plug-ins load once. Skipped where the plug-in was not built
(``-DPYFLAME_USE_ROCM=ON``).
"""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
import vendor_libraries
from hangs import HANG

import pyflame as pf

PACKAGE = pathlib.Path(pf.__file__).resolve().parent.parent


def library_folder():
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        if m := re.search(r"(/\S*)/libpyflame\.so", line):
            return pathlib.Path(m[1])
    return pathlib.Path()


FOLDER = library_folder()
HIP = FOLDER / "standin" / "libamdhip64.so"
RTC = FOLDER / "standin" / "libhiprtc.so"
CUDA = FOLDER / "libpyflame_cuda.so"
# For a process in which they stand for NVIDIA's driver and compiler.
AS_NVIDIA = {
    "PYFLAME_CUDA_LIBRARY": str(HIP),
    "PYFLAME_NVRTC_LIBRARY": str(RTC),
    "PYFLAME_HIP_LIBRARY": "/none",
    "PYFLAME_STANDIN_SM": "90",
}
NEEDS_CUDA = pytest.mark.skipif(not CUDA.exists(), reason="built without -DPYFLAME_USE_CUDA=ON")
MARKS = [
    pytest.mark.cpu_only,
    pytest.mark.skipif(
        not (HIP.exists() and RTC.exists() and (FOLDER / "libpyflame_rocm.so").exists()),
        reason="built without -DPYFLAME_USE_ROCM=ON",
    ),
]

START = f"""
import ctypes, os, sys, warnings
import numpy as np
import pyflame as pf
hip = ctypes.CDLL({str(HIP)!r})
rtc = ctypes.CDLL({str(RTC)!r})
pf.backends.cudnn.allow_tf32 = False  # convolutions are compared with float32's
OOM, LOST = 2, 719

def fault(call, nth, error, times=1):
    '''The nth next call fails, and those behind it, `times` in all.'''
    hip.standin_faults(call.encode(), ctypes.c_int64(nth), ctypes.c_int64(times), error)

def faults_left(call):
    return hip.standin_faults_left(call.encode())

def raises(kind, text, fn):
    try:
        fn()
    except kind as e:
        assert text in str(e), str(e)
        return str(e)
    raise AssertionError(f"no {{kind}}")
"""


def users_environment(devices=2, gpu=True):
    """What a user's program sees beside AMD GPUs, or beside none; of this process's variables those that
    are about GPUs are left out."""
    drop = ("PYFLAME_", "HIP_", "ROCR_", "CUDA_", "PYTORCH_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
    return env | {
        "PYTHONPATH": str(PACKAGE),
        "PYFLAME_HIP_LIBRARY": str(HIP) if gpu else "/none",
        "PYFLAME_HIPRTC_LIBRARY": str(RTC),
        "PYFLAME_CUDA_LIBRARY": "/none",
        "PYFLAME_STANDIN_DEVICES": str(devices),
    }


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """Compiled kernels are shared by the tests of one run."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def run(cache):
    def run(code, **env):
        new = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("PYFLAME_", "HIP_", "ROCR_")) or k == "PYFLAME_STANDIN_SANITIZE"
        }
        new |= {
            "PYTHONPATH": str(PACKAGE),
            "PYFLAME_HIP_LIBRARY": str(HIP),
            "PYFLAME_HIPRTC_LIBRARY": str(RTC),
            # Where this machine has a GPU's software, it is not for the stand-in.
            "PYFLAME_CUDA_LIBRARY": "/none",
            **vendor_libraries.NONE,
            "XDG_CACHE_HOME": str(cache),
            "PYFLAME_ALLOC_CONF": "split:False",  # it guards the ends of allocations
        }
        new |= {k: str(v) for k, v in env.items()}
        done = subprocess.run(
            [sys.executable, "-c", START + textwrap.dedent(code)],
            env=new,
            capture_output=True,
            text=True,
            timeout=HANG,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run
