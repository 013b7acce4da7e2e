"""The parts of class Tensor that are written in Python."""

import copy
import sys

from . import _C

Tensor = _C.Tensor


class HookHandle:
    """What register_hook of a tensor or a node returns: remove() takes the hook away."""

    def __init__(self, owner, number):
        self._owner, self.id = owner, number

    def remove(self):
        owner, self._owner = self._owner, None
        if isinstance(owner, Tensor):
            _C._remove_hook(owner, self.id)
        elif owner is not None:
            owner._remove_hook(self.id)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.remove()


class UntypedStorage:
    """The memory behind a tensor, as far as programs look at it."""

    def __init__(self, tensor, part=None):
        self._tensor, self._part = tensor, part  # part: the bytes of a slice

    @classmethod
    def from_file(cls, filename, shared=False, nbytes=0):
        """The first bytes of a file. shared: what is written is written to the file."""
        from ._torch_names import from_file

        return cls(from_file(filename, shared, nbytes, dtype=_C.uint8))

    def _bytes(self):
        if self._part is not None:
            return self._part
        t = self._tensor.detach()
        return t.as_strided((self.nbytes() // t.element_size(),), (1,), 0).view(_C.uint8)

    def _row(self):
        return self._bytes()

    def data_ptr(self):
        if self._part is not None:
            return self._part.data_ptr()
        t = self._tensor
        return t.data_ptr() - t.storage_offset() * t.element_size()

    def nbytes(self):
        return self._tensor._storage_bytes() if self._part is None else self._part.numel()

    __len__ = size = nbytes

    def __sizeof__(self):  # sys.getsizeof(x.storage()) tells the memory
        return object.__sizeof__(self) + self.nbytes()

    def __getitem__(self, index):
        part = self._bytes()[index]
        return UntypedStorage(self._tensor, part) if isinstance(index, slice) else part.item()

    def untyped(self):
        return UntypedStorage(self._tensor, self._part)

    device = property(lambda self: self._tensor.device)
    is_cuda = property(lambda self: self._tensor.is_cuda)

    def element_size(self):
        return 1

    def fill_(self, value):
        self._row().fill_(value)
        return self

    def copy_(self, source, non_blocking=False):
        """The elements of another storage of the same class and length."""
        if not isinstance(source, type(self)):
            raise TypeError(
                f"pf.{type(self).__name__}.copy_: got {type(source).__name__}; expected a storage of this "
                "class; call untyped_storage() of its tensor, or storage()"
            )
        self._row().copy_(source._row(), non_blocking)
        return self

    def clone(self):
        return type(self)(self._row().clone())

    def cpu(self):
        return type(self)(self._row().cpu())

    def cuda(self, device="cuda", non_blocking=False):
        return type(self)(self._row().to(device, non_blocking=non_blocking))

    def to(self, device, non_blocking=False):
        return type(self)(self._row().to(device, non_blocking=non_blocking))

    def pin_memory(self, device="cuda"):
        return type(self)(self._row().pin_memory())

    def get_device(self):
        return self.device.index

    def share_memory_(self):
        self._tensor.share_memory_()
        return self

    is_sparse = is_sparse_csr = False

    def is_shared(self):
        return self._tensor.is_shared()

    def is_pinned(self):
        return self._tensor.is_pinned()

    def tolist(self):
        return self._bytes().tolist()

    @property
    def __array_interface__(self):  # asarray() shares the memory
        return self._bytes().numpy().__array_interface__

    def __eq__(self, other):
        return isinstance(other, UntypedStorage) and self._tensor._shares_storage(other._tensor)

    __hash__ = None


class TypedStorage(UntypedStorage):
    """The memory behind a tensor as a row of its elements: what storage() returns."""

    def _row(self):
        t = self._tensor.detach()
        return t.as_strided((self.nbytes() // t.element_size(),), (1,), 0)

    def __len__(self):
        return self.nbytes() // self._tensor.element_size()

    size = __len__
    dtype = property(lambda self: self._tensor.dtype)

    def element_size(self):
        return self._tensor.element_size()

    def tolist(self):
        return self._row().tolist()

    def __iter__(self):
        return iter(self.tolist())

    def __getitem__(self, index):
        if isinstance(index, slice):
            return TypedStorage(self._row()[index].clone())
        return self._row()[index].item()

    def __setitem__(self, index, value):
        with _C._import("pyflame.autograd").no_grad():
            self._row()[index] = value

    def __repr__(self):
        rows = "".join(f" {v}\n" for v in self.tolist())
        kind = f"{_C._shown_as()}.storage.TypedStorage(dtype={self.dtype}, device={self.device})"
        return f"{rows}[{kind} of size {len(self)}]"


def _conversion(name, dtype):
    def convert(self):
        return TypedStorage(self._row().to(dtype))

    convert.__name__, convert.__doc__ = name, f"Its elements, converted to {dtype}, as a storage."
    convert.__qualname__ = f"UntypedStorage.{name}"
    return convert


for _name, _dtype in {
    "bool": _C.bool, "byte": _C.uint8, "char": _C.int8, "short": _C.int16, "int": _C.int32,
    "long": _C.int64, "half": _C.float16, "bfloat16": _C.bfloat16, "float": _C.float32,
    "double": _C.float64, "complex_float": _C.complex64, "complex_double": _C.complex128,
}.items():  # fmt: skip
    setattr(UntypedStorage, _name, _conversion(_name, _dtype))


def _to_real(self):
    """The dtype of the parts of complex numbers; others are what they are."""
    return {_C.complex64: _C.float32, _C.complex128: _C.float64}.get(self, self)


def _to_complex(self):
    """The complex dtype whose parts are of this dtype, complex64 for bfloat16."""
    made = {_C.float32: _C.complex64, _C.bfloat16: _C.complex64, _C.float64: _C.complex128}.get(
        self
    )
    if made is None and not self.is_complex:
        raise _C.DTypeError(
            f"pf.dtype.to_complex: got {self}; expected float32, float64 or bfloat16, whose complex "
            "numbers are there; convert first"
        )
    return made or self


_C.dtype.to_real, _C.dtype.to_complex = _to_real, _to_complex


def module_load(self, other, assign=False):
    """What load_state_dict() would put in this tensor's place: `other`, or this one with its values."""
    if not isinstance(other, _C.Tensor):
        raise TypeError(
            f"pf.Tensor.module_load: got {type(other).__name__}; expected a Tensor, the one that is loaded"
        )
    with _no_grad():
        return other.detach() if assign else self.copy_(other).detach()


def __repr__(self, *, tensor_contents=None):
    from ._format import tensor_repr

    return tensor_repr(self)


def __format__(self, spec):
    if self.dim() == 0 and (spec or type(self) is Tensor):
        return self.item().__format__(spec)
    return object.__format__(self, spec)


def _no_grad():
    return _C._import("pyflame.autograd").no_grad()


def _in_copied_storage(t, memo):
    """The values of `t` in a copy of its storage: one for all that share it in one deepcopy."""
    t = t.detach()
    size = t.element_size() if t.dtype.bits >= 8 else 0
    whole = size and t._storage_bytes() % size == 0 and t.numel() and t.device.type != "meta"
    if not whole or _C._hidden_levels(t):
        return t.clone()
    key = "pyflame storage", t._storage_key()
    if key not in memo:
        # The tensor is kept, too, so that the storage's key stays its own.
        row = t.as_strided((t._storage_bytes() // size,), (1,), 0)
        memo[key] = row.clone(), t
    row = memo[key][0]
    row = row if row.dtype == t.dtype else row.view(t.dtype)
    return row.as_strided(tuple(t.shape), t.stride(), t.storage_offset())


def __copy__(self):
    """A tensor of its own over the same memory."""
    r = self.detach()
    cls = type(self)
    if cls is not Tensor:
        r = Tensor._make_subclass(cls, r)
    r.requires_grad_(self.requires_grad)
    r.__dict__.update(self.__dict__)
    return r


def __deepcopy__(self, memo):
    found = memo.get(id(self))
    if found is not None:
        return found
    if not self.is_leaf:
        raise _C.AutogradError(
            "pf.deepcopy: got a tensor with history; expected a leaf; use detach().clone()"
        )
    with _no_grad():
        data = _in_copied_storage(self, memo)
    cls = type(self)
    r = data if cls is Tensor else Tensor._make_subclass(cls, data)
    r.requires_grad_(self.requires_grad)
    memo[id(self)] = r
    if self.grad is not None:
        r.grad = copy.deepcopy(self.grad, memo)
    for name, value in self.__dict__.items():
        r.__dict__[name] = copy.deepcopy(value, memo)
    return r


def _rebuild(cls, data, dtype, shape, requires_grad, attributes, order=None):
    t = _C.frombuffer(bytearray(data), dtype=dtype) if data else _C._functions["empty"]((0,))
    t = t.to(dtype).reshape(shape).clone()
    if order:  # of the dimensions in memory
        t = t.permute(order).contiguous().permute(sorted(range(len(order)), key=order.__getitem__))
    if cls is not Tensor:
        t = Tensor._make_subclass(cls, t)
    t.requires_grad_(requires_grad)
    t.__dict__.update(attributes)
    return t


def __reduce_ex__(self, protocol):
    state = (self._bytes(), self.dtype, tuple(self.size()))
    order = None if self.is_contiguous() else self.dim_order()
    leaf = self.requires_grad and self.is_leaf
    return _rebuild, (type(self), *state, leaf, dict(self.__dict__), order)


def numpy(self, *, force=False):
    """The elements as a NumPy array: shared memory on the CPU, a copy from any other device.

    ``force=True`` also detaches and converts dtypes that NumPy does not have.
    """
    return _C._numpy(self, bool(force))


def __array__(self, dtype=None, copy=None):
    a = _C._numpy(self, False)
    if dtype is not None and a.dtype != dtype:
        return a.astype(dtype)
    return a.copy() if copy else a


def __array_wrap__(self, array, context=None, return_scalar=False):
    return _C.as_tensor(array)


def __array_interface__(self):
    try:
        return _C._numpy(self, False).__array_interface__
    except (TypeError, _C.PyFlameError) as e:
        raise AttributeError(str(e)) from None


def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    return _C._dlpack(self, stream, max_version, dl_device, copy)


def __array_namespace__(self, /, *, api_version=None):
    """`pyflame.array_api`: the functions of the array API standard of 2024.12, or an older one."""
    versions = ("2021.12", "2022.12", "2023.12", "2024.12")
    if api_version is not None and api_version not in versions:
        raise _C.ValueError(
            f"pf.Tensor.__array_namespace__: got version {api_version!r}; expected one of {versions}"
        )
    return _C._import("pyflame.array_api")


def to_device(self, device, /, *, stream=None):
    """The array API's name of `to(device)`."""
    return self.to(device)


def __dlpack_device__(self):
    return _C._dlpack_device(self)


def __reversed__(self):
    return self.flip(0) if self.dim() else self


def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """A tensor from data with this tensor's dtype and device unless others are given."""
    r = _C.tensor(
        data,
        dtype=self.dtype if dtype is None else dtype,
        device=self.device if device is None else device,
        requires_grad=requires_grad,
    )
    cls = type(self)
    keeps = cls is not Tensor and cls.__torch_function__ is not None
    return Tensor._make_subclass(cls, r, requires_grad) if keeps else r


def share_memory_(self):
    """Moves the tensor into memory that processes share, and returns it: what one of them writes, the
    others see, when they are forked or get it by multiprocessing. Views of it that there are keep the
    memory they have. A tensor of a GPU stays where it is.

    Raises:
        NotSupportedError: its elements are less than a byte.
    """
    return _C._import("pyflame._shared").share(self)


def is_shared(self):
    """Whether the tensor lies in memory that processes share: see share_memory_."""
    shared = sys.modules.get("pyflame._shared")
    return shared is not None and shared.is_shared(self)


def detach_(self):
    """Cuts the tensor from its history, in place."""
    self.data = self.detach()
    _C._forget_history(self)
    return self


def untyped_storage(self):
    """The memory behind the tensor."""
    return UntypedStorage(self)


def storage(self):
    """The memory behind the tensor, as a row of its elements; writing to it writes the tensor."""
    return TypedStorage(self)


def apply_(self, callable):
    """Replaces each element by callable(element), one by one in Python; slow."""
    values = [callable(v) for v in self.detach().reshape(-1).tolist()]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


def _mapped(self, name, callable, *others):
    for t in others:
        if not isinstance(t, _C.Tensor):
            raise TypeError(f"pf.{name}: got {type(t).__name__}; expected a tensor; call pf.tensor")
    if self.requires_grad or any(t.requires_grad for t in others):
        raise _C.AutogradError(
            f"pf.{name}: Can't call {name}() on Variable that requires grad: got a tensor that requires "
            f"grad; expected none; use detach().{name}()"
        )
    for t in others:
        if t.dtype != self.dtype:
            raise _C.DTypeError(
                f"pf.{name}: got a tensor of {t.dtype} beside one of {self.dtype}; expected the same dtype; "
                "convert one of them"
            )
    columns = [t.expand(self.shape).reshape(-1).tolist() for t in (self, *others)]
    # A number beyond the tensor's dtype is cut to it, as in PyTorch.
    kind = float if self.dtype.is_floating_point else complex if self.dtype.is_complex else int
    kind = bool if self.dtype == _C.bool else kind
    values = [callable(*row) for row in zip(*columns)]
    if text := next((v for v in values if isinstance(v, (str, bytes))), None):
        raise TypeError(f"pf.{name}: got {text!r} from the function; expected a number")
    values = [kind(v) for v in values]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


def map_(self, tensor, callable):
    """Replaces each element by callable(element, element of `tensor`), one by one in Python; slow. `tensor`
    is expanded to this shape and has this dtype."""
    return _mapped(self, "map_", callable, tensor)


def map2_(self, x, y, callable):
    """Replaces each element by callable(element, element of x, element of y), as map_."""
    return _mapped(self, "map2_", callable, x, y)


# Methods of _torch_names.py.
_LATER = (
    "new", "new_empty_strided", "nonzero_static", "dim_order", "set_", "is_distributed", "unsafe_chunk",
    "unsafe_split", "unsafe_split_with_sizes", "narrow_copy", "as_strided_", "_is_view", "_is_all_true",
    "_is_any_true",
)  # fmt: skip


def _later(name):
    """A method that is looked up when it is first called."""

    def method(self, *args, **kwargs):
        from . import _torch_names

        return getattr(_torch_names, name)(self, *args, **kwargs)

    method.__name__ = name
    return method


def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The elements that are not 0 as a sparse tensor, of layout pf.sparse_coo unless another is given; the
    first `sparse_dim` dimensions are sparse, all by default."""
    return _sparse("_convert").from_dense(
        self, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim
    )


def to_sparse_coo(self):
    """to_sparse(layout=pf.sparse_coo)"""
    return self.to_sparse()


def to_sparse_csr(self, dense_dim=None):
    """to_sparse(layout=pf.sparse_csr), of a matrix."""
    return self.to_sparse(layout="sparse_csr", dense_dim=dense_dim)


def _of_other_layouts(name):
    def method(self, *args, **kwargs):
        raise _C.NotSupportedError(
            f"pf.Tensor.{name}: got a call; expected a layout that is here, pf.sparse_coo or pf.sparse_csr; call "
            "to_sparse_csr()"
        )

    method.__name__ = name
    method.__doc__ = "Raises NotSupportedError: sparse layouts are COO and CSR, see docs/sparse.md."
    return method


def to_dense(self, dtype=None, *, masked_grad=None):
    """A sparse tensor with all its elements; a dense one is dense already."""
    return self if dtype is None else self.to(dtype)


def sparse_mask(self, mask):
    """The elements in the places of `mask`, a sparse tensor."""
    return _sparse("_convert").from_mask(self, mask)


def sparse_dim(self):
    """Dimensions that coordinates belong to: none of a dense tensor."""
    return 0


def dense_dim(self):
    """Dimensions of each value: all of a dense tensor."""
    return self.dim()


def smm(self, mat):
    """pf.smm(self, mat)"""
    return _C._import("pyflame.sparse").smm(self, mat)


def sspaddmm(self, mat1, mat2, *, beta=1, alpha=1):
    """pf.sspaddmm(self, mat1, mat2)"""
    return _C._import("pyflame.sparse").sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)


def _of_sparse_alone(name):
    def method(self):
        raise _C.NotSupportedError(
            f"pf.Tensor.{name}: got a dense tensor; expected a sparse one; call to_sparse() first"
        )

    method.__name__ = name
    method.__doc__ = "Of sparse tensors: see docs/sparse.md."
    return method


def _sparse(module):
    return _C._import(f"pyflame.sparse.{module}")


_SPARSE_ALONE = (
    "coalesce", "is_coalesced", "indices", "values", "crow_indices", "col_indices", "_indices", "_values",
    "_nnz",
)  # fmt: skip


def install():
    for fn in (
        [
            __repr__,
            __format__,
            __copy__,
            __deepcopy__,
            __reduce_ex__,
            numpy,
            __array__,
            __array_wrap__,
        ]
        + [
            __array_namespace__,
            to_device,
            __dlpack__,
            __dlpack_device__,
            __reversed__,
            new_tensor,
            share_memory_,
            is_shared,
            detach_,
        ]
        + [
            untyped_storage,
            module_load,
            storage,
            apply_,
            map_,
            map2_,
            to_sparse,
            to_sparse_coo,
            to_sparse_csr,
            to_dense,
            sparse_mask,
        ]
        + [sparse_dim, dense_dim, smm, sspaddmm]
        + [_of_sparse_alone(name) for name in _SPARSE_ALONE]
        + [_of_other_layouts(f"to_sparse_{layout}") for layout in ("csc", "bsr", "bsc")]
        + [_later(name) for name in _LATER]
    ):
        fn.__qualname__ = "Tensor." + fn.__name__
        setattr(Tensor, fn.__name__, _C._asking(fn))
    Tensor.__array_interface__ = property(__array_interface__)
