"""The programs that PyFlame's first readers were promised, as they type them, saying 'rocm'.

On the stand-in for AMD's runtime (tests/standin) with two devices, in a process each; sizes are cut
down, because it takes minutes for what takes a GPU microseconds. Where there is a GPU,
`PYFLAME_SEEDS_ON_GPU=1` runs them on it with the sizes as they are; those that need two AMD devices
are left out there.
"""

import os
import re
import subprocess
import sys

import pytest
from hangs import HANG
from standin import FOLDER, HIP, PACKAGE, users_environment

REAL = bool(os.environ.get("PYFLAME_SEEDS_ON_GPU"))
pytestmark = [
    pytest.mark.cpu_only,
    pytest.mark.skipif(
        not REAL and not (HIP.exists() and (FOLDER / "libpyflame_rocm.so").exists()),
        reason="built without -DPYFLAME_USE_ROCM=ON",
    ),
]
# Sizes and repetitions of the texts below, for the stand-in.
SMALL = {"1024": "48", "10000": "64", "224": "20", "32, 3": "2, 3", "range(100)": "range(3)"}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """The programs share what they compile, with each other only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def environment(devices=2):
    if not REAL:
        return users_environment(devices)
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYFLAME_TEST")}
    return env | {"PYTHONPATH": str(PACKAGE)}


def run(program, devices=2):
    if not REAL:
        for size, small in SMALL.items():
            program = program.replace(size, small)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(devices),
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


VERIFY = """
import pyflame as pf

print(f"ROCm available: {pf.rocm_is_available()}")
print(f"GPU count: {pf.rocm_device_count()}")
if pf.rocm_is_available():
    info = pf.rocm_get_device_info(0)
    print(f"GPU name: {info['name']}")
    print(f"Architecture: {info['architecture']}")
    print(f"Total memory: {info['total_memory'] / 1e9:.1f} GB")
    print(f"Compute units: {info['compute_units']}")
"""


@pytest.mark.skipif(REAL, reason="about AMD devices")
def test_verify_the_installation():  # S3.3
    assert run(VERIFY).splitlines() == [
        "ROCm available: True",
        "GPU count: 2",
        "GPU name: Stand-in for an AMD GPU",
        "Architecture: gfx942",
        "Total memory: 8.6 GB",
        "Compute units: 4",
    ]
    assert run(VERIFY, devices=0).splitlines() == ["ROCm available: False", "GPU count: 0"]


@pytest.mark.skipif(REAL, reason="about AMD devices")
def test_select_a_device():  # S3.4
    out = run(
        """
import pyflame as pf

pf.set_device('rocm')
print(pf.get_device())
pf.set_device('rocm:0')
pf.set_device('rocm:1')
print(pf.get_device())
info = pf.device_info()
print(info)
try:
    pf.set_device('rocm:7')
except pf.DeviceError as e:
    print(e)
try:
    pf.rocm_get_device_info(99)
except RuntimeError as e:
    print(e)
"""
    )
    first, second, info, *errors = out.splitlines()
    assert (first, second) == ("rocm:0", "rocm:1")
    assert "'name': 'Stand-in for an AMD GPU'" in info and "'compute_units': 4" in info
    assert "one of the 2 that are seen" in errors[0] and "2 AMD GPU(s)" in errors[1]


def test_run_operations():  # S3.5
    out = run(
        """
import pyflame as pf

pf.set_device('rocm')

a = pf.randn(1024, 1024)
b = pf.randn(1024, 1024)
c = pf.matmul(a, b)

x = pf.randn(10000)
y_relu = pf.relu(x)
y_gelu = pf.gelu(x)
y_silu = pf.silu(x)

input = pf.randn(32, 3, 224, 224)
weight = pf.randn(64, 3, 7, 7)
output = pf.conv2d(input, weight, stride=2, padding=3)

import numpy as np
u, v = a.cpu().numpy().astype('f8'), b.cpu().numpy().astype('f8')
assert np.allclose(c.cpu().numpy(), u @ v, atol=1e-3)
w = x.cpu().numpy().astype('f8')
assert np.array_equal(y_relu.cpu().numpy(), np.maximum(w, 0))
assert np.allclose(y_silu.cpu().numpy(), w / (1 + np.exp(-w)), atol=1e-6)
assert np.allclose(y_gelu.cpu().numpy()[w > 6], w[w > 6], atol=1e-5)
p = np.pad(input.cpu().numpy().astype('f8'), [(0, 0), (0, 0), (3, 3), (3, 3)])
taps = np.lib.stride_tricks.sliding_window_view(p, (7, 7), (2, 3))[:, :, ::2, ::2]
exact = np.einsum('nchwij,ocij->nohw', taps, weight.cpu().numpy().astype('f8'))
assert np.allclose(output.cpu().numpy(), exact, atol=0.1)  # 147 products of numbers rounded to tf32
print({str(t.device) for t in (a, b, c, x, y_relu, y_gelu, y_silu, output)})
"""
    )
    assert re.fullmatch(r"\{'(rocm|cuda):0'\}\n", out)


def test_run_a_network():  # S3.6
    out = run(
        """
import pyflame as pf
import pyflame.nn as nn

pf.set_device('rocm')

model = nn.Sequential(
    nn.Linear(784, 256),
    nn.ReLU(),
    nn.Linear(256, 128),
    nn.ReLU(),
    nn.Linear(128, 10)
)

x = pf.randn(32, 784)
logits = model(x)

targets = pf.randint(0, 10, (32,))
loss = pf.cross_entropy(logits, targets)

print(logits.shape, logits.device, loss.device, 2.0 < loss.item() < 2.6)
loss.backward()
print(all(p.grad.device == 'rocm' and p.grad.isfinite().all() for p in model.parameters()))
"""
    )
    assert re.fullmatch(r"\S*Size\(\[32, 10\]\) (rocm|cuda):0 (rocm|cuda):0 True\nTrue\n", out), out


def test_wait_for_the_device():  # S3.7
    out = run(
        """
import pyflame as pf
import time

pf.set_device('rocm')

x = pf.randn(10000, 10000)

start = time.time()
for _ in range(100):
    y = pf.matmul(x, x)
pf.synchronize()
elapsed = time.time() - start

print(f"Time: {elapsed:.3f}s")
"""
    )
    assert re.fullmatch(r"Time: \d+\.\d{3}s\n", out)


def test_tuning_cache(tmp_path):  # S3.8; its '/path/to' exists
    out = run(
        f"""
import pyflame as pf
from pyflame.backend.rocm import get_tuning_cache

cache = get_tuning_cache()
cache.enable_exhaustive_search(True)
cache.set_cache_file('{tmp_path}/cache.bin')

pf.set_device('rocm')
a = pf.randn(16, 16)
print(pf.matmul(a, a).shape == (16, 16))
"""
    )
    assert out == "True\n"


def test_pinned_pool():  # S3.9; its batch_size is named
    out = run(
        """
import pyflame as pf
from pyflame.backend.rocm import get_pinned_pool

pf.set_device('rocm')
batch_size = 2
pool = get_pinned_pool()
pool.warmup([batch_size * 3 * 224 * 224 * 4])
print(get_pinned_pool() is pool)
"""
    )
    assert out == "True\n"


@pytest.mark.parametrize("device", ["rocm"] if REAL else ["rocm", "cpu"])
def test_memory_is_warmed_and_given_back(device):  # S3.10 and S3.16
    out = run(
        f"""
import pyflame as pf
from pyflame.backend.rocm import get_memory_manager, warmup_memory_pool

pf.set_device('{device}')
x = pf.ones(64, 64)
pf.synchronize()
before = pf.cuda.memory_reserved()
warmup_memory_pool(batch_size=32, model_size='medium')
print(pf.cuda.memory_reserved() - before > (1 << 20))
get_memory_manager().clear_pool()
print(pf.cuda.memory_reserved() - before <= 0, (x + 1).sum().item() == 2 * 64 * 64)
try:
    warmup_memory_pool(batch_size=32, model_size='huge')
except ValueError as e:
    print('huge' in str(e))
""",
        devices=2 if device == "rocm" else 0,
    )
    assert out.splitlines() == [str(device == "rocm"), "True True", "True"]


def test_gpu_and_cpu_agree():  # S3.17, with operands and a tolerance that its product can keep
    out = run(
        """
import pyflame as pf

pf.set_device('rocm')
a, b = pf.randn(1024, 8), pf.randn(8, 1024)

pf.set_device('rocm')
result_gpu = pf.matmul(a, b).numpy()

pf.set_device('cpu')
result_cpu = pf.matmul(a, b).numpy()

import numpy as np
np.testing.assert_allclose(result_gpu, result_cpu, rtol=1e-5, atol=1e-6)
print(result_gpu.shape == result_cpu.shape)
"""
    )
    assert out == "True\n"


@pytest.mark.skipif(REAL, reason="about AMD devices")
@pytest.mark.parametrize("devices", [0, 2])
def test_every_gpu(devices):  # S3.19
    out = run(
        """
import pyflame as pf

num_gpus = pf.rocm_device_count()
print(f"Available GPUs: {num_gpus}")

for i in range(num_gpus):
    pf.set_device(f'rocm:{i}')
    info = pf.device_info()
    print(f"GPU {i}: {info['name']}")
""",
        devices,
    )
    lines = [f"GPU {i}: Stand-in for an AMD GPU" for i in range(devices)]
    assert out.splitlines() == [f"Available GPUs: {devices}", *lines]


def test_the_build_tells_about_rocm():  # S3.14, with the build's folder named
    command = ["cmake", "-L", "-N", str(FOLDER)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG)
    if not (FOLDER / "CMakeCache.txt").exists():
        pytest.skip("not in a build's folder")
    built = (
        "ON" if (FOLDER / "libpyflame_rocm.so").exists() else "OFF"
    )  # OFF beside a real GPU only
    assert re.search(f"^PYFLAME_USE_ROCM:BOOL={built}$", done.stdout, re.M)
