"""DLPack capsules whose numbers are wrong, and processes without a file descriptor: typed errors."""

import ctypes
import subprocess
import sys

import pytest

import pyflame as pf


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


MEMORY = (ctypes.c_float * 8)(*range(8))
KEPT = []


def capsule(shape=(2, 2), strides=None, ndim=None, offset=0, data=True, no_shape=False):
    def numbers(v):
        KEPT.append((ctypes.c_int64 * max(1, len(v)))(*v))
        return ctypes.addressof(KEPT[-1])

    t = Tensor(
        ctypes.addressof(MEMORY) if data else None, 1, 0, len(shape) if ndim is None else ndim, 2, 32, 1,
        None if no_shape else numbers(shape), None if strides is None else numbers(strides), offset,
    )  # fmt: skip
    KEPT.append(t)
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    return make(ctypes.addressof(t), b"dltensor", None)


def test_a_right_capsule():
    assert pf.from_dlpack(capsule(offset=4)).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert pf.from_dlpack(capsule((0, 3), data=False)).shape == (0, 3)
    assert pf.from_dlpack(capsule((), no_shape=True)).item() == 0.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"no_shape": True}, {"ndim": -1}, {"ndim": 1 << 20}, {"offset": 1 << 63},
        {"offset": (1 << 64) - 1}, {"offset": (1 << 63) - 4}, {"shape": (-1, 2)}, {"data": False},
        {"shape": (1 << 40, 1 << 40)}, {"strides": (1 << 62, 1)}, {"shape": (3, 2), "strides": (1 << 62, 1)},
        {"strides": (-2, 1)}, {"shape": (1 << 62,), "strides": (0,), "offset": 1 << 63},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_numbers_are_typed_errors(wrong):
    with pytest.raises((pf.ShapeError, pf.ValueError), match="expected|sizes"):
        pf.from_dlpack(capsule(**wrong))


def test_without_a_descriptor_it_says_so():
    code = (
        "import os, resource, pyflame as pf\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "held = []\n"
        "try:\n"
        "    while True: held.append(os.open('/dev/null', 0))\n"
        "except OSError: pass\n"
        "try: pf.ones(10).sum().item(); print('made')\n"
        "except pf.DeviceError as e: print(e)\n"
        "for fd in held: os.close(fd)\n"
        "print(pf.ones(10).sum().item())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    first, second = done.stdout.splitlines()
    assert "no file descriptor is left" in first and "64" in first and "ulimit -n" in first
    assert second == "10.0"  # and goes on when there are some


def test_what_is_no_capsule_of_dlpack():
    class Gives:
        def __init__(self, value):
            self.value = value

        def __dlpack__(self, **_):
            return self.value

        def __dlpack_device__(self):
            return 1, 0

    for value in (5, None, "x"):
        with pytest.raises(TypeError, match="expected a capsule"):
            pf.from_dlpack(Gives(value))
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    with pytest.raises(pf.ValueError, match="of something else"):
        pf.from_dlpack(Gives(make(ctypes.addressof(MEMORY), b"other", None)))
    used = pf.ones(3, device="cpu").__dlpack__()
    pf.from_dlpack(used)
    with pytest.raises(pf.ValueError, match="used before"):
        pf.from_dlpack(used)
