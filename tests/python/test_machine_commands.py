"""`pyflame verify`, `pyflame monitor` and `pyflame env`: what they tell of a machine, and how they end."""

import csv
import ctypes
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hangs import HANG

import pyflame as pf
from pyflame.commands import environment, monitor, verify

PYFLAME = [sys.executable, "-m", "pyflame"]
ENV = dict(
    os.environ,
    PYTHONPATH=os.pathsep.join([os.path.dirname(os.path.dirname(pf.__file__)), *sys.path]),
)


def pyflame(*args, code=0, **env):
    done = subprocess.run(
        [*PYFLAME, *args], env=ENV | env, capture_output=True, text=True, timeout=HANG
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


# ---- verify -------------------------------------------------------------------------------------


def test_verify_reports_each_step_in_order():
    told = pyflame("verify", "--device", "cpu", "--threads", "1").splitlines()
    assert told[0] == f"pyflame {pf.__version__}"
    for number, (line, name) in enumerate(
        zip(told[1:], ["GPU access", "arithmetic", "small model", "small table", "scale up"]), 1
    ):
        assert line.startswith(f"{number}/5 {name}: ok, "), line
    assert told[-1] == "everything works on cpu" and len(told) == 7


@pytest.mark.cpu_only
def test_verify_says_that_there_is_no_gpu(monkeypatch):
    monkeypatch.setattr(pf._C, "_device_count", lambda vendor: 0)
    monkeypatch.setattr(pf._C, "backend_status", lambda: {"cpu": "loaded", "cuda": "no driver"})
    args = type("Args", (), {"device": "auto", "threads": 0})
    for name in ("PYFLAME_BACKEND_PATH", "PYFLAME_HIP_LIBRARY", "PYFLAME_CUDA_LIBRARY"):
        monkeypatch.delenv(name, raising=False)
    assert "no usable GPU, so what follows runs on the CPU (cuda: no driver)" in verify.access(args)
    args.device = "gpu"
    with pytest.raises(verify.StepFailed, match="no usable GPU for 'gpu'"):
        verify.access(args)


def test_verify_fails_with_a_broken_library_path():
    told = pyflame("verify", code=1, PYFLAME_BACKEND_PATH="/nowhere").splitlines()
    assert told[1].startswith("1/5 GPU access: FAILED: PYFLAME_BACKEND_PATH"), told
    assert "is set, and there is no usable GPU" in told[1]
    assert told[2:] == [
        "2/5 arithmetic: not run", "3/5 small model: not run", "4/5 small table: not run", "5/5 scale up: not run"
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["wrong", "nan", "raises"])
def test_verify_finds_a_wrong_kernel(kind, monkeypatch, capsys):
    right = verify.F.softmax

    def softmax(x, dim):
        if kind == "raises":
            raise IndexError("boom")
        return (
            right(x, dim)
            * (1.01 if x.dtype == pf.float32 else 1)
            * (float("nan") if kind == "nan" else 1)
        )

    monkeypatch.setattr(verify.F, "softmax", softmax)
    args = type("Args", (), {"device": "cpu", "threads": 0})
    assert verify.command(args) == 1
    lines = capsys.readouterr().out.splitlines()
    want = "IndexError: boom" if kind == "raises" else "softmax: off by"
    assert f"2/5 arithmetic: FAILED: {want}" in lines[2]
    assert lines[-1] == "5/5 scale up: not run"


# ---- monitor ------------------------------------------------------------------------------------


def rows_of(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def test_monitor_counts_and_writes(tmp_path):
    path = tmp_path / "m.csv"
    for runs in (1, 2):  # the second appends
        told = pyflame("monitor", "--interval", "0.05", "--count", "3", "--csv", str(path))
        assert sum("cpu" in line for line in told.splitlines()) == 3
        rows = [r for r in rows_of(path) if r["device"] == "cpu"]
        assert len(rows) == 3 * runs
    for r in rows:
        assert 0 < int(r["memory_used_bytes"]) < int(r["memory_total_bytes"])
        # An interval in which the kernel counted no time (a machine that stood still) has none.
        assert r["name"] and 0 <= float(r["utilization_percent"] or 0) <= 100
    assert [r["time"] for r in rows] == sorted(r["time"] for r in rows)
    assert int(rows[0]["memory_total_bytes"]) == pf.memory.mem_get_info("cpu")[1]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_monitor_writes_at_once_and_stops_cleanly(how, tmp_path):
    path = tmp_path / "m.csv"
    process = subprocess.Popen(
        [*PYFLAME, "monitor", "--interval", "60", "--csv", str(path)],
        env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert "cpu" in process.stdout.readline()  # the first one does not wait for the interval
        assert len(rows_of(path)) >= 1  # and is in the file while it runs
        process.send_signal(how)
        out, err = process.communicate(timeout=HANG)
    finally:
        process.kill()
    assert process.returncode == 0 and err == "", err


def test_monitor_without_a_reader_ends_and_with_a_file_goes_on(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    command = [*PYFLAME, "monitor", "--interval", "0.02"]
    subprocess.run(command, env=ENV, stdout=writer, stderr=subprocess.DEVNULL, timeout=HANG)
    path = tmp_path / "m.csv"
    subprocess.run([*command, "--count", "4", "--csv", str(path)], env=ENV, stdout=writer,
                   stderr=subprocess.DEVNULL, timeout=HANG)  # fmt: skip
    os.close(writer)
    assert len([r for r in rows_of(path) if r["device"] == "cpu"]) == 4


def test_monitor_leaves_other_files_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine\n")
    for wrong in (path, tmp_path, tmp_path / "no" / "m.csv"):
        done = subprocess.run([*PYFLAME, "monitor", "--csv", str(wrong)], env=ENV, capture_output=True,
                              text=True, timeout=HANG)  # fmt: skip
        assert done.returncode == 1 and "pyflame: error: pf.monitor: " in done.stderr, done.stderr
    assert path.read_text() == "mine\n"
    for option in (("--interval", "0"), ("--interval", "nan"), ("--count", "-1")):
        pyflame("monitor", *option, code=2)


def test_amd_gpus_of_the_kernels_driver(tmp_path):
    def card(name, **files):
        folder = tmp_path / name / "device"
        folder.mkdir(parents=True)
        for key, value in files.items():
            (folder / key).write_text(f"{value}\n")
        return folder

    card("card0", vendor="0x8086")  # another vendor's: no such files
    card("card10", mem_info_vram_total=8 << 30, mem_info_vram_used=1 << 30, device="0x744c")
    first = card("card2", mem_info_vram_total=16 << 30, mem_info_vram_used=5, gpu_busy_percent=42,
                 product_name="AMD Radeon PRO W7900")  # fmt: skip
    card("card2-DP-1", mem_info_vram_total=1, mem_info_vram_used=1)  # a connector
    gpus = monitor.Amd(tmp_path)
    assert list(gpus.rows()) == [
        ("rocm:0", "AMD Radeon PRO W7900", 5, 16 << 30, 42.0),
        ("rocm:1", "AMD 0x744c", 1 << 30, 8 << 30, None),
    ]
    (first / "mem_info_vram_used").unlink()  # it has gone
    assert [r[0] for r in gpus.rows()] == ["rocm:1"]
    assert list(monitor.Amd(tmp_path / "nothing").rows()) == []


class Nvml:
    """NVML as it is called: results by pointers, numbers that say whether it worked."""

    start = 0

    def nvmlInit_v2(self):
        return self.start

    def nvmlDeviceGetCount_v2(self, count):
        count._obj.value = 3
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index, handle):
        handle._obj.value = index.value + 100
        return 15 if index.value == 1 else 0  # one is lost

    def nvmlDeviceGetName(self, handle, name, length):
        name.value = b"NVIDIA H100"
        return 0

    def nvmlDeviceGetMemoryInfo(self, handle, info):
        info._obj.total, info._obj.free, info._obj.used = 80 << 30, 60 << 30, 20 << 30
        return 0

    def nvmlDeviceGetUtilizationRates(self, handle, work):
        work._obj.gpu = 97
        return 3 if handle.value == 102 else 0  # not supported, as within MIG


def test_nvidia_gpus_of_nvml():
    assert ctypes.sizeof(monitor._NvmlMemory) == 24 and ctypes.sizeof(monitor._NvmlWork) == 8
    assert list(monitor.Nvidia(Nvml()).rows()) == [
        ("cuda:0", "NVIDIA H100", 20 << 30, 80 << 30, 97.0),
        ("cuda:2", "NVIDIA H100", 20 << 30, 80 << 30, None),
    ]
    broken = Nvml()
    broken.start = 9
    with pytest.raises(OSError):
        monitor.Nvidia(broken)


def test_how_busy_the_processor_is(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu 100 0 0 300 100 0 0 0 7 7\n")
    host = monitor.Host(stat)
    stat.write_text("cpu 130 0 20 340 110 0 0 0 9 9\ncpu0 1\n")  # 50 of 100 ticks
    (row,) = host.rows()
    assert row[4] == pytest.approx(50)
    (row,) = host.rows()
    assert row[4] is None  # no time has passed


# ---- env ----------------------------------------------------------------------------------------


def test_env_lists_effects_and_warnings(tmp_path):
    listed = json.loads(
        pyflame(
            "env",
            "--json",
            ROCM_PATH=str(tmp_path / "no"),
            CUDA_LAUNCH_BLOCKING="1",
            MASTER_ADDR="::",
        )
    )
    by_name = {v["name"]: v for v in listed}
    seeds = """ROCM_PATH HIP_VISIBLE_DEVICES MIOPEN_FIND_MODE MIOPEN_USER_DB_PATH PYTORCH_ROCM_ARCH
    PYTORCH_HIP_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF HSA_ENABLE_SDMA HSA_ENABLE_INTERRUPT HSA_UNALIGNED_ACCESS_MODE
    GPU_MAX_ALLOC_PERCENT GPU_SINGLE_ALLOC_PERCENT HIP_HIDDEN_FREE_MEM TORCH_COMPILE_BACKEND CUDA_LAUNCH_BLOCKING
    HIP_LAUNCH_BLOCKING CUDA_VISIBLE_DEVICES WORLD_SIZE NCCL_DEBUG NCCL_SOCKET_IFNAME NCCL_NSOCKS_PERTHREAD
    TORCH_BLAS_PREFER_HIPBLASLT ROCM_LOG_LEVEL MASTER_ADDR MASTER_PORT RANK"""
    assert set(seeds.split()) <= set(by_name)
    assert by_name["ROCM_PATH"]["warning"] == "there is no such folder"
    assert "slow" in by_name["CUDA_LAUNCH_BLOCKING"]["warning"]
    assert by_name["RANK"]["read"] and by_name["WORLD_SIZE"]["read"]
    shown = {"name": "MASTER_ADDR", "value": "::", "read": False, "warning": None}
    assert by_name["MASTER_ADDR"] == shown | {"effect": by_name["MASTER_ADDR"]["effect"]}
    text = pyflame("env", MASTER_ADDR="::")
    assert len(text.splitlines()) == len(listed) and "not read" in text
    pyflame("env", "--json", "--export", code=2)


def test_env_says_which_variables_are_read():
    """Nothing of ours names those that are said not to be read; all others are named, but for what
    the vendors' runtimes read."""
    root = Path(__file__).resolve().parent.parent.parent
    files = [p for f in ("python", "src") for p in sorted((root / f).rglob("*.*"))]
    text = "".join(p.read_text() for p in files
                   if p.suffix in (".py", ".cpp", ".h") and p.name != "environment.py")  # fmt: skip
    told = {v["name"]: v["read"] for v in environment.variables()}
    named = {name for name in told if re.search(rf"""["']{name}["']""", text)}
    assert not [name for name, read in told.items() if not read and name in named]
    runtimes = ("HSA_", "AMD_", "HIP_", "ROCR_", "MIOPEN_", "CUDA_")
    assert not [
        n for n, read in told.items() if read and n not in named and not n.startswith(runtimes)
    ]


HOSTILE = "a b'c\"d$(touch hacked)`touch hacked`;&|\n!\\"


def test_the_script_sources_cleanly(tmp_path):
    script = tmp_path / "setup.sh"
    out = pyflame("env", "--export", HSA_ENABLE_SDMA="0", XDG_CACHE_HOME=HOSTILE, PYFLAME_NUM_THREADS="3",
                  HIP_LAUNCH_BLOCKING="1", NCCL_DEBUG="WARN")  # fmt: skip
    script.write_text(out)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"source {shlex.quote(str(script))}; env -0"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, cwd=tmp_path, capture_output=True, timeout=HANG,
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == b"", done.stderr
    told, _, rest = done.stdout.decode().partition("\0")
    lines = told.splitlines()[:2]
    assert lines[0] == "Setting up the environment of PyFlame..."
    assert lines[1].startswith("PyFlame is set up for ")
    got = dict(
        e.split("=", 1) for e in (told.split("\n", 2)[2] + "\0" + rest).split("\0") if "=" in e
    )
    assert got["HSA_ENABLE_SDMA"] == "0" and got["XDG_CACHE_HOME"] == HOSTILE
    assert got["PYFLAME_NUM_THREADS"] == "3"
    assert "NCCL_DEBUG" not in got and got.get("HIP_LAUNCH_BLOCKING", "0") == "0"
    assert not (tmp_path / "hacked").exists()


def test_the_script_names_the_gpus(monkeypatch, tmp_path):
    amd = {"name": "AMD Radeon RX 7900 XTX", "architecture": "gfx1100:sramecc-", "usable": "yes"}
    monkeypatch.setattr(environment, "_gpus", lambda vendor: [amd, amd] if vendor == "rocm" else [])
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    for name in (
        "HIP_VISIBLE_DEVICES",
        "PYTORCH_ROCM_ARCH",
        "PYFLAME_ALLOC_CONF",
        "HIP_LAUNCH_BLOCKING",
    ):
        monkeypatch.delenv(name, raising=False)
    lines = environment.script().splitlines()
    for line in (
        f"export ROCM_PATH={tmp_path}", "export HIP_VISIBLE_DEVICES=0,1", "export PYTORCH_ROCM_ARCH=gfx1100",
        "export PYFLAME_ALLOC_CONF=garbage_collection_threshold:0.8", "export HIP_LAUNCH_BLOCKING=0",
        'echo "PyFlame is set up for 2 GPUs"',
    ):  # fmt: skip
        assert line in lines, line
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")  # what is set stays
    assert "export HIP_VISIBLE_DEVICES=1" in environment.script().splitlines()
