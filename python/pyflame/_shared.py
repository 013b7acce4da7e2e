"""Tensors in memory that processes share: what one writes, the others see.

The memory is a file without a name. A tensor in it that goes to another process by multiprocessing goes
as that file's descriptor. It is foreign memory to the engine: every operation on it has run when its call
returns.
"""

import ctypes
import mmap
import os
import weakref
from multiprocessing import reduction

from . import _C
from ._C import Tensor

_memories = {}  # address: (weak reference to the bytes, file descriptor)
_files = {}  # (device, number) of a file: address


def _forget(address, key, file):
    _memories.pop(address, None)
    _files.pop(key, None)
    os.close(file)


def _mapped(file):
    """The bytes of a file, which this process maps once; takes the descriptor."""
    status = os.fstat(file)
    key = status.st_dev, status.st_ino
    known = _memories.get(_files.get(key))
    memory = known[0]() if known else None
    if memory is not None:
        os.close(file)
        return memory
    memory = (ctypes.c_char * status.st_size).from_buffer(mmap.mmap(file, status.st_size))
    address = ctypes.addressof(memory)
    _memories[address], _files[key] = (weakref.ref(memory), file), address
    weakref.finalize(memory, _forget, address, key, file).atexit = False
    return memory


def _place(t):
    """(descriptor, bytes before the tensor) of a tensor in shared memory, or None."""
    if not _memories or not t.is_cpu or t.layout != "strided" or not t.numel():
        return None
    at = t.data_ptr()
    for address, (memory, file) in list(_memories.items()):  # other threads share more
        bytes_ = memory()
        if bytes_ is not None and address <= at < address + len(bytes_):
            return file, at - address
    return None


def share(t):
    """Moves a tensor of the CPU into shared memory, in place."""
    if not t.is_cpu or not t.numel() or _place(t) is not None:
        return t
    if t.dtype.bits < 8 or not hasattr(os, "memfd_create"):
        raise _C.NotSupportedError(
            f"pf.Tensor.share_memory_: got a tensor of {t.dtype}; expected a dtype of whole bytes, on "
            "Linux; convert it first"
        )
    size = t.numel() * t.element_size()
    file = os.memfd_create("pyflame-shared", os.MFD_CLOEXEC)
    try:
        os.ftruncate(file, size)
    except BaseException:
        os.close(file)
        raise
    moved = _C.frombuffer(_mapped(file), dtype=t.dtype).reshape(t.shape)
    moved.copy_(t.detach())
    t.data = moved
    _register()
    return t


def is_shared(t):
    """Whether other processes can see what is written into a tensor."""
    return _place(t) is not None


def _register():
    from .nn.parameter import Buffer, Parameter

    for kind in (Tensor, Parameter, Buffer):
        reduction.ForkingPickler.register(kind, _reduce)


def _reduce(t):
    place = _place(t)
    if place is None or not t.is_leaf:
        return t.__reduce_ex__(2)
    file, offset = place
    how = (t.dtype.name, tuple(t.shape), t.stride(), offset, t.requires_grad, dict(t.__dict__))
    return _rebuild, (type(t), reduction.DupFd(file), *how)


def _rebuild(cls, sent, dtype, shape, strides, offset, requires_grad, attributes):
    _register()
    flat = _C.frombuffer(_mapped(sent.detach()), dtype=getattr(_C, dtype), offset=offset)
    t = flat.as_strided(shape, strides)
    if cls is not Tensor:
        t = Tensor._make_subclass(cls, t)
    t.requires_grad_(requires_grad)
    t.__dict__.update(attributes)
    return t
