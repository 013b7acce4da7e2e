"""`pyflame monitor`: memory and work of the host and of its GPUs, every so many seconds.

No GPU is opened for it: NVIDIA's numbers are those of NVML, AMD's those of the kernel's driver in
/sys. Devices are counted as these do, which HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES do not change.
"""

import csv
import ctypes
import datetime
import glob
import os
import re
import time

from .. import _C, memory
from ..training import output
from ..training.loop import Interrupts

COLUMNS = (
    "time", "device", "name", "memory_used_bytes", "memory_total_bytes", "utilization_percent",
)  # fmt: skip


class Host:
    """The processor and its memory. Work is that of all cores since the last time it was asked."""

    def __init__(self, stat="/proc/stat"):
        self._stat = stat
        self._last = self._ticks()
        self._name = str(_C.device_info(_C.device("cpu"))["name"])

    def _ticks(self):
        """(idle, all) ticks of all cores since the start of the machine."""
        try:
            with open(self._stat) as f:
                ticks = [int(n) for n in f.readline().split()[1:9]]
            return ticks[3] + ticks[4], sum(ticks)
        except (OSError, ValueError, IndexError):
            return 0, 0

    def rows(self):
        free, total = memory.mem_get_info("cpu")
        idle, ticks = self._ticks()
        passed, waited = ticks - self._last[1], idle - self._last[0]
        self._last = idle, ticks
        busy = None if passed <= 0 else min(max(100 * (1 - waited / passed), 0), 100)
        yield "cpu", self._name, total - free, total, busy


class _NvmlMemory(ctypes.Structure):
    _fields_ = [(n, ctypes.c_ulonglong) for n in ("total", "free", "used")]


class _NvmlWork(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint) for n in ("gpu", "memory")]


class Nvidia:
    """GPUs that NVML knows; `rows` of a GPU that has gone meanwhile are left out."""

    def __init__(self, library=None):
        self._nvml = ctypes.CDLL("libnvidia-ml.so.1") if library is None else library
        if self._nvml.nvmlInit_v2() != 0:
            raise OSError("NVML does not start")
        count = ctypes.c_uint(0)
        self._nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        self._gpus = []
        for i in range(count.value):
            handle, name = ctypes.c_void_p(), ctypes.create_string_buffer(96)
            if (
                self._nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(i), ctypes.byref(handle))
                == 0
            ):
                self._nvml.nvmlDeviceGetName(handle, name, ctypes.c_uint(len(name)))
                self._gpus.append((i, handle, name.value.decode(errors="replace")))

    def rows(self):
        for i, handle, name in self._gpus:
            held, work = _NvmlMemory(), _NvmlWork()
            if self._nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(held)) != 0:
                continue
            known = self._nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(work)) == 0
            yield f"cuda:{i}", name, held.used, held.total, float(work.gpu) if known else None


class Amd:
    """GPUs of the kernel's driver amdgpu."""

    def __init__(self, root="/sys/class/drm"):
        cards = [p for p in glob.glob(os.path.join(root, "card*")) if re.search(r"card\d+$", p)]
        cards.sort(key=lambda p: int(re.search(r"\d+$", p)[0]))
        folders = [os.path.join(p, "device") for p in cards]
        self._folders = [d for d in folders if self._read(d, "mem_info_vram_total") is not None]

    @staticmethod
    def _read(folder, name):
        try:
            with open(os.path.join(folder, name)) as f:
                return f.read().strip()
        except OSError:  # not there, or the GPU does not answer just now
            return None

    def rows(self):
        for i, folder in enumerate(self._folders):
            total, used, busy = (
                self._read(folder, f)
                for f in ("mem_info_vram_total", "mem_info_vram_used", "gpu_busy_percent")
            )
            if total is None or used is None:
                continue
            name = (
                self._read(folder, "product_name") or f"AMD {self._read(folder, 'device') or 'GPU'}"
            )
            yield f"rocm:{i}", name, int(used), int(total), None if busy is None else float(busy)


def sources():
    """The host, and what is there of GPUs."""
    found = [Host()]
    for kind in (Amd, Nvidia):
        try:
            found.append(kind())
        except (OSError, AttributeError):  # no NVML, or one without these functions
            pass
    return found


class _File:
    """Rows of CSV, each in the file when `add` returns. What the file has already stays, if it is
    rows of a monitor."""

    def __init__(self, path):
        self._path = path
        head = ",".join(COLUMNS)
        try:
            self._file = open(path, "a+", newline="", encoding="utf-8")
        except OSError as e:
            raise _C.FileError(
                f"pf.monitor: cannot write '{path}' ({e.strerror}); expected a file in a folder that "
                "is there; correct --csv"
            ) from None
        self._file.seek(0)
        first = self._file.readline(len(head) + 2).rstrip("\r\n") if self._file.seekable() else ""
        if first not in ("", head):
            self._file.close()
            raise _C.FileError(
                f"pf.monitor: '{path}' has other contents than rows of `pyflame monitor`; expected "
                "such a file or none; name another with --csv"
            )
        self._writer = csv.writer(self._file, lineterminator="\n")
        if not first:
            self._writer.writerow(COLUMNS)
        self._file.flush()

    def add(self, rows):
        self._writer.writerows(rows)
        self._file.flush()

    def close(self):
        self._file.close()


def _line(row):
    when, device, name, used, total, busy = row
    work = "     ?" if busy == "" else f"{busy:5.1f}%"
    return f"{when}  {device:<8} {used / 2**30:8.2f} of {total / 2**30:.2f} GiB  {work}  {name}"


def sample(found):
    """Rows of :data:`COLUMNS` now; what is not known is an empty cell."""
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    return [
        (when, device, name, used, total, "" if busy is None else round(busy, 1))
        for source in found
        for device, name, used, total, busy in source.rows()
    ]


def command(args):
    """What `pyflame monitor` does; ends with status 0 on Ctrl-C, SIGTERM or after --count rows of each."""
    file = _File(args.csv) if args.csv else None
    try:
        with Interrupts() as interrupts:
            found = sources()
            due, done = time.monotonic() + min(args.interval, 0.1), 0  # work is that of some time
            while True:
                while interrupts.signal is None and (left := due - time.monotonic()) > 0:
                    time.sleep(min(left, 0.1))
                if interrupts.signal is not None:
                    return 0
                rows = sample(found)
                if file is not None:
                    file.add(rows)
                told = output.write("stdout", "".join(_line(r) + "\n" for r in rows))
                done += 1
                if done == args.count or not (told or file):
                    return 0  # with neither a file nor a reader nobody would see the rest
                due = max(due + args.interval, time.monotonic())
    finally:
        if file is not None:
            file.close()
