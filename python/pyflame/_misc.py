"""Small functions of the package that most programs never call."""

import collections
import string

from . import _C, _precision
from ._named_errors import name_errors as _name_errors


class memory_format(str):
    """How elements lie in memory.

    contiguous_format is row-major; channels_last has dimension 1 of four last in memory, and
    channels_last_3d of five; preserve_format keeps what a tensor has. Results of pointwise operations
    lie as their first operand of the same shape does.
    """

    def __repr__(self):
        return f"{_C._shown_as()}.{self[:]}"

    __str__ = __repr__


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")


class finfo:
    """Limits of a float dtype, or of a complex one's parts: eps, min, max, tiny, smallest_normal,
    resolution, bits."""

    _ROWS = {  # bits of the fraction, smallest exponent, largest exponent, largest fraction
        "float64": (52, -1022, 1023, 2 - 2.0**-52),
        "float32": (23, -126, 127, 2 - 2.0**-23),
        "float16": (10, -14, 15, 2 - 2.0**-10),
        "bfloat16": (7, -126, 127, 2 - 2.0**-7),
        "float8_e4m3fn": (3, -6, 8, 1.75),
        "float8_e5m2": (2, -14, 15, 1.75),
    }

    def __init__(self, type=None):
        dtype = _C.get_default_dtype() if type is None else type
        if getattr(dtype, "is_complex", False):
            dtype = _C.float32 if dtype is _C.complex64 else _C.float64
        if not getattr(dtype, "is_floating_point", False):
            raise _C.DTypeError(
                f"pf.finfo: got {dtype}; expected a float dtype; use pyflame.iinfo for integers"
            )
        fraction, low, high, top = self._ROWS[dtype.name]
        self.bits = dtype.bits
        self.eps = 2.0**-fraction
        self.max = top * 2.0**high
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0**low
        digits = int(fraction * 0.30103)
        self.resolution = 10.0**-digits
        self.dtype = dtype.name

    def __repr__(self):
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{n}={getattr(self, n):g}' for n in names)}, dtype={self.dtype})"


class iinfo:
    """Limits of an integer dtype: min, max, bits."""

    def __init__(self, type):
        if getattr(type, "is_floating_point", True) or type.name == "bool":
            raise _C.DTypeError(
                f"pf.iinfo: got {type}; expected an integer dtype; use pyflame.finfo for floats"
            )
        self.bits = type.bits
        signed = type.is_signed
        self.min = -(1 << (self.bits - 1)) if signed else 0
        self.max = (1 << (self.bits - (1 if signed else 0))) - 1
        self.dtype = type.name

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


_noticed = False


def rocm_device_count():
    """Number of usable AMD GPUs. Never raises."""
    try:
        return _C._device_count("rocm")
    except _C.PyFlameError:
        return 0


def rocm_is_available():
    """True when an AMD GPU is usable. Never raises."""
    global _noticed
    if rocm_device_count() > 0:
        return True
    try:
        other = _C._device_count("cuda")
    except _C.PyFlameError:
        other = 0
    if other and not _noticed:
        import warnings

        _noticed = True
        warnings.warn(
            "no AMD GPU is usable, but a GPU of another vendor is: device('gpu') names it",
            stacklevel=2,
        )
    return False


def rocm_get_device_info(index=0):
    """What is known of an AMD GPU, as a dict.

    name, architecture ("gfx942"), total_memory (bytes), compute_units and more. Raises DeviceError
    when there is no AMD GPU, or none of that number.
    """
    count = rocm_device_count()
    if not 0 <= index < count:
        reason = f"{count} AMD GPU(s)" if count else f"no AMD GPU ({_C.backend_status()['rocm']})"
        raise _C.DeviceError(
            f"pf.rocm_get_device_info: got the number {index}, and found {reason}; expected one "
            "below rocm_device_count(); pf.device_info() tells of the device in use, of any vendor"
        )
    return _C.device_info(f"rocm:{index}")


def typename(obj):
    """Name of a tensor's type, or of an object's class."""
    if isinstance(obj, _C.Tensor):
        return obj.type()
    cls = type(obj)
    return f"{cls.__module__}.{cls.__qualname__}"


def is_storage(obj):
    """True for what Tensor.untyped_storage() returns."""
    from ._tensor import UntypedStorage

    return isinstance(obj, UntypedStorage)


def is_floating_point(input):
    """True when the tensor has a float dtype."""
    return input.is_floating_point()


def is_complex(input):
    """True when the tensor has a complex dtype."""
    return input.is_complex()


def numel(input):
    """Number of elements."""
    return input.numel()


def _category(dtype):
    return (
        3
        if dtype.is_complex
        else 2
        if dtype.is_floating_point
        else 0
        if dtype.bits == 8 and (dtype.name == "bool")
        else 1
    )


def can_cast(from_, to):
    """True when promotion allows the conversion."""
    return _category(from_) <= _category(to)


def result_type(tensor, other):
    """The dtype that an operation of both gives."""
    one = lambda x: _C._functions["zeros"]((), dtype=x.dtype) if isinstance(x, _C.Tensor) else x  # noqa: E731
    if isinstance(tensor, _C.Tensor) and isinstance(other, _C.Tensor):
        a = _C._functions["zeros"]([0] * min(tensor.dim(), 1), dtype=tensor.dtype)
        b = _C._functions["zeros"]([0] * min(other.dim(), 1), dtype=other.dtype)
        return (a + b).dtype
    if isinstance(tensor, _C.Tensor) or isinstance(other, _C.Tensor):
        return (one(tensor) + one(other)).dtype
    return _C.tensor(tensor + other).dtype


def set_default_device(device):
    """The same as set_device."""
    _C.set_device("cpu" if device is None else device)


def get_default_device():
    """The same as get_device."""
    return _C.get_device()


def set_default_tensor_type(t):
    """Sets the default dtype from a tensor type such as pyflame.DoubleTensor or its name."""
    from ._typed import DTYPES

    name = (t if isinstance(t, str) else getattr(t, "__name__", repr(t))).rsplit(".", 1)[-1]
    if name not in DTYPES:
        raise _C.ValueError(
            f"pf.set_default_tensor_type: got {t!r}; expected a type such as pyflame.DoubleTensor "
            "or its name"
        )
    _C.set_default_dtype(getattr(_C, DTYPES[name]))


def set_float32_matmul_precision(precision):
    """What products of float32 tensors may be computed in: "highest", "high" or "medium".

    highest (the default): float32. high: TF32 or sums of bfloat16 parts on GPUs that have them.
    medium: also bfloat16. Inputs and results stay float32. The CPU always computes in float32.
    """
    if not _precision.put_level(precision):
        raise _C.ValueError(
            f"pf.set_float32_matmul_precision: got {precision!r}; expected 'highest', 'high' or "
            "'medium'; pass one of them"
        )


def get_float32_matmul_precision():
    """What set_float32_matmul_precision() has set; "highest" until then."""
    return _precision.level()


warns_only = False  # use_deterministic_algorithms()


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Whether results have the same bits in every run, which is so until this is called with False.

    Then gradients of attention may come from cuDNN, where that is quicker: it adds in the order in
    which blocks end. Everything else repeats anyway. `warn_only` is kept, for who asks, and does nothing.
    """
    global warns_only
    _C._set_deterministic(bool(mode))
    warns_only = bool(warn_only)


def are_deterministic_algorithms_enabled():
    """What use_deterministic_algorithms() has set; True until then."""
    return _C._deterministic()


def set_num_interop_threads(num):
    """Accepted for programs that call it: operations run one after the other."""


def get_num_interop_threads():
    """1."""
    return 1


def set_anomaly_enabled(mode):
    """Switches anomaly mode; see pyflame.autograd.detect_anomaly."""
    _C._set_detect_anomaly(bool(mode))


def broadcast_shapes(*shapes):
    """The shape that tensors of these shapes have together."""
    tensors = [_C._functions["empty"]((s,) if isinstance(s, int) else s) for s in shapes]
    return _C._functions["broadcast_tensors"](tensors)[0].shape if tensors else _C.Size(())


@_C._asking
def detach(input):
    """The same values without history; shares memory."""
    return input.detach()


_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def _subscript(labels):
    """A list of numbers from 0 to 51, perhaps with Ellipsis, as letters."""
    labels = list(labels)
    for x in labels:
        if x is not Ellipsis and not (isinstance(x, int) and 0 <= x < len(_LETTERS)):
            raise _C.ValueError(
                f"pf.einsum: got the label {x!r}; expected numbers from 0 to 51 and Ellipsis; "
                "number the dimensions anew"
            )
    return "".join("..." if x is Ellipsis else _LETTERS[x] for x in labels)


@_C._asking
def einsum(*args):
    """Sum of products by named dimensions.

    ``einsum("ij,jk->ik", a, b)`` is a matrix product; letters that are not in the output are summed
    over, a letter repeated in one operand takes its diagonal, "..." stands for dimensions that
    broadcast. Without "->" the output has the letters that occur once, in alphabetical order.
    ``einsum(a, [0, 1], b, [1, 2], [0, 2])`` says the same with numbers (and Ellipsis).
    """
    if not args or isinstance(args[0], str):
        return _C._functions["einsum"](*args)
    equation = ",".join(_subscript(labels) for labels in args[1::2][: len(args) // 2])
    if len(args) % 2:
        equation += "->" + _subscript(args[-1])
    return _C._functions["einsum"](equation, args[: len(args) // 2 * 2 : 2])


@_C._asking
def tensordot(a, b, dims=2, out=None):
    """Sum of products over several dimensions of a and b.

    dims is a number (the last dims dimensions of a and the first of b) or two lists of dimensions.
    """
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.dim(), b.dim()):
            raise _C.ShapeError(
                f"pf.tensordot: got dims {dims} for {list(a.shape)} and {list(b.shape)}; expected "
                "at most as many as each tensor has; pass fewer"
            )
        dims = range(a.dim() - dims, a.dim()), range(dims)
    first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    return _C._special["tensordot"](a, b, first, second, out=out)


@_C._asking
def histogramdd(input, bins, *, range=None, weight=None, density=False):
    """Weights of points, rows of `input` [..., dimensions], in bins of several dimensions, and the
    edges of the bins.

    bins: a number, one for each dimension, or a tensor of edges for each; range: two numbers for each
    dimension, by default the ends of all values; density: as a density, whose integral is 1. Returns
    the named tuple (hist, bin_edges), bin_edges a tuple of tensors.
    """
    how = {"weight": weight, "density": density}
    if isinstance(bins, (list, tuple)) and bins and _C.is_tensor(bins[0]):
        counts, *edges = _C._special["histogramdd_at"](input, bins, **how)
    else:
        counts, *edges = _C._special["histogramdd"](input, bins, range=range, **how)
    return _HistogramDD(counts, tuple(edges))


_HistogramDD = collections.namedtuple("histogramdd", ("hist", "bin_edges"))


@_C._asking
def gradient(input, *, spacing=1, dim=None, edge_order=1):
    """Derivatives along all dimensions, or `dim`, a tuple with a tensor for each.

    Central differences inside, one-sided ones of edge_order 1 or 2 at the ends. spacing: the distance
    of elements (a number, or one for each dimension), or tensors of coordinates, one for each.
    """
    if isinstance(spacing, (list, tuple)) and spacing and _C.is_tensor(spacing[0]):
        return _C._special["gradient_at"](input, spacing=spacing, dim=dim, edge_order=edge_order)
    if isinstance(spacing, (list, tuple)):
        dims = len(dim) if isinstance(dim, (list, tuple)) else 1 if dim is not None else input.dim()
        if len(spacing) != dims:
            raise _C.ValueError(
                f"pf.gradient: got {len(spacing)} spacings for {dims} dimensions; expected a number, "
                "or a list with one for each; pass spacing"
            )
    return _C._special["gradient"](input, spacing=spacing, dim=dim, edge_order=edge_order)


def is_conj(input):
    """False: conjugates are calculated at once."""
    return False


def is_neg(input):
    """False: negatives are calculated at once."""
    return False


@_C._asking
def nuclear_norm(input, dim=(-2, -1), keepdim=False):
    """The sum of the singular values of matrices: linalg.matrix_norm(input, "nuc")."""
    return _C._special["linalg_matrix_norm"](input, "nuc", dim, keepdim)


_name_errors(
    __name__,
    "can_cast",
    "detach",
    "is_complex",
    "is_floating_point",
    "numel",
    "tensordot",
)
