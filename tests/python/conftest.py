"""The suite runs on PYFLAME_TEST_DEVICE (default cpu): new tensors are made there.

NumPy cannot read the memory of another device, so there `Tensor.numpy()` copies first. Tests that
are about sharing memory with NumPy say so with `@pytest.mark.cpu_only`.

Random tests run the same cases every time; `--hypothesis-profile=long` runs many others.
PYFLAME_TEST_SHARE=0.1 draws a tenth of the tests, by PYFLAME_TEST_SEED. PYFLAME_TEST_FILES=0/2 takes
every second file, 1/2 the others. PYFLAME_TEST_RACES=1 takes those that are marked for a race checker.
"""

import os
import random
import sys

import pytest
from hypothesis import settings

import pyflame as pf

DEVICE = os.environ.get("PYFLAME_TEST_DEVICE", "cpu")
SHARE = float(os.environ.get("PYFLAME_TEST_SHARE", "1"))
FILES = os.environ.pop("PYFLAME_TEST_FILES", "0/1")  # a test that starts pytest names its file
RACES = os.environ.get("PYFLAME_TEST_RACES", "0") == "1"
MARKERS = """
cpu_only: about memory of the host; skipped elsewhere
kernels(share): a file about what kernels compute, for sanitizers, which draw that share of it
races(*ids): of shared memory, with few and small launches: for a race checker all cases, or these
large: of many millions of numbers, or thousands of launches; sanitizers leave it out
"""

if "standin" in os.environ.get("PYFLAME_HIP_LIBRARY", ""):
    # It guards the ends of allocations: every tensor shall have one of its own.
    os.environ.setdefault("PYFLAME_ALLOC_CONF", "split:False")

settings.register_profile("ci", derandomize=True, database=None, deadline=None)
settings.register_profile("long", max_examples=3000, print_blob=True, deadline=None)
settings.load_profile("ci")


def pytest_addoption(parser):
    parser.addoption(
        "--write-snapshots", action="store_true", help="take over what the engine does now"
    )


def pytest_configure(config):
    for line in MARKERS.strip().splitlines():
        config.addinivalue_line("markers", line)
    if DEVICE != "cpu":
        pf.backends.cudnn.allow_tf32 = False  # convolutions are compared with float32's
        shared = pf.Tensor.numpy
        pf.Tensor.numpy = lambda self, *, force=False: shared(self.cpu(), force=force)


def for_races(item):
    mark = item.get_closest_marker("races")
    return bool(mark) and (not mark.args or item.callspec.id in mark.args)


def pytest_collection_modifyitems(config, items):
    if RACES:
        items[:] = filter(for_races, items)
    part, parts = map(int, FILES.split("/"))
    files = sorted({item.path for item in items})
    taken = set(files[part::parts])
    dice = random.Random(os.environ.get("PYFLAME_TEST_SEED", ""))
    drawn = [(item, item.path in taken and dice.random() < SHARE) for item in items]
    items[:] = [item for item, take in drawn if take]
    config.hook.pytest_deselected(items=[item for item, take in drawn if not take])
    if DEVICE == "cpu":
        return
    skip = pytest.mark.skip(reason="about memory of the host")
    for item in items:
        if item.get_closest_marker("cpu_only"):
            item.add_marker(skip)


@pytest.fixture
def device():
    """The device that the suite runs on."""
    return pf.device(DEVICE)


@pytest.fixture(autouse=True)
def _settings():
    """Every test starts with the same seed and settings, and leaves none behind."""
    pf.set_device(DEVICE)
    pf.manual_seed(0)
    dtype = pf.get_default_dtype()
    yield
    pf.set_default_dtype(dtype)
    assert pf.is_grad_enabled()
    assert not pf.is_anomaly_enabled()


@pytest.fixture
def hasty_switches():
    """A switch of threads after every few steps of Python's, which makes rare orders common."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
