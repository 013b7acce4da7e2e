"""Sharing memory with NumPy, the buffer protocol and DLPack."""

import array
import ctypes
import gc
import sys
import types
import weakref

import numpy as np
import pytest

import pyflame as pf

pytestmark = pytest.mark.cpu_only
TYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]


@pytest.mark.parametrize("name", TYPES)
def test_from_numpy_shares(name):
    a = np.ones((2, 3), name)
    t = pf.from_numpy(a)
    assert t.dtype is getattr(pf, name) and t.shape == (2, 3)
    a[0, 1] = 0
    assert t[0, 1].item() == 0
    t[1, 2] = 0
    assert a[1, 2] == 0
    back = t.numpy()
    assert back.dtype == a.dtype and back.ctypes.data == a.ctypes.data


@pytest.mark.parametrize("name", TYPES)
def test_numpy_shares(name):
    t = pf.ones(2, 3).to(getattr(pf, name))
    a = t.numpy()
    assert a.dtype == name and a.shape == (2, 3) and a.flags.writeable
    a[0, 0] = 0
    assert t[0, 0].item() == 0
    t.zero_()
    assert not a.any()
    del t
    gc.collect()
    assert not a.any()  # the memory lives as long as the array


def test_layouts():
    a = np.arange(24.0).reshape(2, 3, 4)
    for view in (a.T, a[:, 1:], a[..., ::2], a[0, 0, 0:1], a[1, 2, 3], a[:0], np.array(3.0)):
        t = pf.from_numpy(np.asarray(view))
        np.testing.assert_array_equal(t.numpy(), view)
        np.testing.assert_array_equal((t + 0).numpy(), view)
    x = pf.arange(24).reshape(2, 3, 4)
    for t in (x.permute(2, 0, 1), x[:, 1:], x[..., ::2], x[1, 2, 3], x[:0], x.expand(2, 2, 3, 4)):
        n = t.numpy()
        assert n.shape == t.shape and n.tolist() == t.tolist()


def test_aliasing_is_seen_in_order():
    buf = np.ones(1000, np.float32)
    x = pf.from_numpy(buf)
    y = x * 2
    z = y + x
    buf[:] = 5
    assert set(y.tolist()) == {2.0} and set(z.tolist()) == {3.0} and set(x.tolist()) == {5.0}
    x += 1
    assert set(buf.tolist()) == {6.0}
    out = pf.zeros(4)
    shown = out.numpy()
    out.add_(3)
    assert shown.tolist() == [3] * 4
    later = out * 2
    shown[:] = 0
    assert later.tolist() == [6] * 4
    source = np.ones(3)
    copy = pf.tensor(source)
    source[:] = 0
    assert copy.tolist() == [1, 1, 1]


def test_owner_lives_and_dies():
    a = np.ones(5)
    ref = weakref.ref(a)
    t = pf.from_numpy(a)
    u = t[2:]
    del a, t
    gc.collect()
    assert ref() is not None and u.tolist() == [1, 1, 1]
    del u
    gc.collect()
    pf.ones(1).sum()
    assert ref() is None
    before = sys.getrefcount(b := np.ones(3))
    for _ in range(1000):
        (pf.from_numpy(b) * 2).sum()
    pf.synchronize()
    pf.ones(1).sum()
    assert sys.getrefcount(b) <= before + 1


def test_read_only():
    a = np.ones(3)
    a.flags.writeable = False
    t = pf.from_numpy(a)
    assert (t + 1).tolist() == [2, 2, 2]
    with pytest.raises(pf.PyFlameError, match="read-only"):
        t.add_(1)
    with pytest.raises(pf.PyFlameError, match="read-only"):
        t[0] = 5
    assert not t.numpy().flags.writeable
    assert pf.frombuffer(b"\1\2\3\4", dtype=pf.uint8).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda: np.array(["a"]), TypeError),
        (lambda: np.array([None]), TypeError),
        (lambda: np.array([1], ">f4"), TypeError),
        (lambda: np.array(["2020-01-01"], "M8[D]"), TypeError),
        (lambda: np.arange(3)[::-1], ValueError),
        (lambda: [1, 2], TypeError),
        (lambda: 3, TypeError),
        (lambda: np.frombuffer(b"\0" * 9, np.uint8)[1:].view(np.float32), ValueError),
    ],
)
def test_bad_arrays(make, error):
    with pytest.raises(error, match="pf.from_numpy"):
        pf.from_numpy(make())


def test_tensor_copies_odd_arrays():
    assert pf.tensor(np.arange(3)[::-1]).tolist() == [2, 1, 0]
    odd = np.frombuffer(b"\0" * 9, np.uint8)[1:].view(np.float32)
    assert pf.tensor(odd).tolist() == [0, 0]
    assert pf.as_tensor(np.arange(3)).numpy().tolist() == [0, 1, 2]
    assert pf.tensor(array.array("f", [1, 2])).dtype is pf.float32


def test_what_numpy_cannot_have():
    x = pf.ones(2, requires_grad=True)
    with pytest.raises(pf.AutogradError, match="detach"):
        x.numpy()
    with pytest.raises(pf.AutogradError, match="detach"):
        np.asarray(x)
    assert x.detach().numpy().tolist() == [1, 1] and x.numpy(force=True).tolist() == [1, 1]
    with pytest.raises(pf.DTypeError, match="float"):
        pf.ones(2).bfloat16().numpy()
    assert pf.ones(2).bfloat16().numpy(force=True).dtype == np.float32


def test_numpy_functions_and_operators():
    x = pf.tensor([1.0, 4.0])
    assert np.asarray(x).tolist() == [1, 4] and np.array(x, np.float64).dtype == np.float64
    assert np.sqrt(x).tolist() == [1, 2] and np.asarray(x, dtype=int).dtype.kind == "i"
    a = np.ones(2, np.float32)
    for r in (x + a, a + x, x * a, a * x, a - x, np.float32(2) * x, x * np.float64(2)):
        assert isinstance(r, pf.Tensor)
    assert (np.float32(2) * x).dtype is pf.float32 and (x * np.float64(2)).dtype is pf.float32
    assert (np.array([1.0, 9.0]) > x).tolist() == [False, True]
    assert np.array([pf.tensor(1.0), pf.tensor(2.0)]).tolist() == [1, 2]
    assert x.__array_interface__["shape"] == (2,)


def test_buffer_protocol():
    x = pf.arange(6).reshape(2, 3)
    m = memoryview(x)
    assert m.shape == (2, 3) and m.format in "lq" and m.tolist() == [[0, 1, 2], [3, 4, 5]]
    m[0, 0] = 9
    assert x[0, 0].item() == 9
    assert bytes(pf.tensor([1, 2], dtype=pf.uint8)) == b"\1\2"
    with pytest.raises(BufferError):
        memoryview(pf.ones(2).bfloat16())
    with pytest.raises(BufferError):
        memoryview(pf.ones(2, requires_grad=True))
    del x
    assert m[1, 2] == 5


def test_frombuffer():
    raw = bytearray(np.arange(4, dtype=np.float32).tobytes())
    t = pf.frombuffer(raw, dtype=pf.float32)
    assert t.tolist() == [0, 1, 2, 3]
    raw[0:4] = np.float32(7).tobytes()
    assert t[0].item() == 7
    assert pf.frombuffer(raw, dtype=pf.float32, count=2, offset=4).tolist() == [1, 2]
    assert pf.frombuffer(raw, dtype=pf.bfloat16).dtype is pf.bfloat16
    for bad in ({"count": 5}, {"offset": 1}, {"offset": 100}, {"offset": -4}):
        with pytest.raises(ValueError, match="pf.frombuffer"):
            pf.frombuffer(raw, dtype=pf.float32, **bad)


@pytest.mark.parametrize("name", TYPES)
def test_dlpack_with_numpy(name):
    a = np.ones((2, 3), name)
    t = pf.from_dlpack(a)
    assert t.dtype is getattr(pf, name)
    a[0, 0] = 0
    assert t[0, 0].item() == 0
    b = np.from_dlpack(t.T)
    assert b.shape == (3, 2) and b[0, 0] == 0
    b = np.from_dlpack(pf.arange(6).reshape(2, 3)[:, 1:])
    gc.collect()
    assert b.tolist() == [[1, 2], [4, 5]]


def test_dlpack_rules():
    x = pf.ones(3)
    assert x.__dlpack_device__() == (1, 0)
    y = pf.from_dlpack(x)
    y[0] = 5
    assert x[0].item() == 5
    capsule = x.__dlpack__()
    assert "dltensor" in repr(capsule)
    pf.from_dlpack(capsule)
    with pytest.raises(pf.ValueError, match="used"):
        pf.from_dlpack(capsule)
    x.__dlpack__(max_version=(1, 0))  # never taken: freed with the capsule
    with pytest.raises(pf.ValueError, match="detach"):
        pf.ones(1, requires_grad=True).__dlpack__()
    with pytest.raises(TypeError, match="__dlpack__"):
        pf.from_dlpack([1])
    assert pf.from_dlpack(x.bfloat16()).dtype is pf.bfloat16
    copied = np.from_dlpack(x, copy=True) if np.__version__ >= "2.1" else None
    assert copied is None or copied.tolist() == [5, 1, 1]


def test_data_pointer():
    a = np.ones(4)
    t = pf.from_numpy(a)
    assert t.data_ptr() == a.ctypes.data and t[1:].data_ptr() == a.ctypes.data + 8
    x = pf.ones(4)
    p = x.data_ptr()
    x.add_(1)
    assert x.data_ptr() == p and x.untyped_storage().data_ptr() == p
    assert x[1:].untyped_storage().data_ptr() == p and x.untyped_storage().nbytes() >= 16


def test_views_keep_foreign_memory_in_order():
    a = np.zeros(10, np.float32)
    t = pf.from_numpy(a)[2:8]
    t += 1
    assert a.tolist() == [0, 0] + [1] * 6 + [0, 0]
    r = pf.from_numpy(a).reshape(2, 5).T * 3
    a[:] = 9
    assert r.max().item() == 3


@pytest.mark.parametrize("version", [(), ("a", 0), (1,), 5, "1.0", [1, 0]])
def test_wrong_versions_of_dlpack(version):
    with pytest.raises(TypeError):
        pf.ones(2).__dlpack__(max_version=version)


def test_a_producer_is_told_when_its_memory_cannot_be_taken():
    class DLManagedTensor(ctypes.Structure):
        _fields_ = [
            ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
            ("dtype", ctypes.c_uint8 * 4), ("shape", ctypes.POINTER(ctypes.c_int64)),
            ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
            ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ]  # fmt: skip

    deleted = []
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda p: deleted.append(p))
    shape = (ctypes.c_int64 * 2)(2**40, 2**40)  # more than there can be
    managed = DLManagedTensor(
        0, (1, 0), 2, (2, 32, 1, 0), shape, None, 0, None, ctypes.cast(deleter, ctypes.c_void_p)
    )
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    capsule = new(ctypes.addressof(managed), b"dltensor", None)
    with pytest.raises(pf.PyFlameError):
        pf.from_dlpack(capsule)
    pf.ones(1) + 1  # what was freed meanwhile is dropped at a call
    gc.collect()
    assert "used_dltensor" in repr(capsule) and len(deleted) == 1


def test_a_dtype_may_have_any_name():
    class Odd(np.ndarray):
        @property
        def dtype(self):
            return types.SimpleNamespace(name="\ud800")

    x = np.arange(3.0).view(Odd)
    assert pf.from_numpy(x).tolist() == [0, 1, 2]
