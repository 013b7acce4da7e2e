"""Names of PyTorch that few programs call: what it has beside nn.functional, where numbers stand for
names, older spellings, and switches that have nothing to switch here."""

import itertools
import math
import os

from . import _C, _files, _misc, _ops
from ._named_errors import name_errors as _name_errors
from .autograd.function import Function
from .nn import functional as F

_upto = range  # which is another function below

AcceleratorError = _C.BackendError
cfloat, cdouble = _C.complex64, _C.complex128

_REDUCTIONS = ("none", "mean", "sum")


def _named(number, names, what):
    """The name that PyTorch's functions have a number for; names are taken, too."""
    if number in names:
        return number
    if isinstance(number, int) and 0 <= number < len(names):
        return names[number]
    raise _C.ValueError(
        f"pf: got {what} {number!r}; expected a number below {len(names)}, of {names}"
    )


# ---- rounding to a grid, and parts of a dimension -------------------------------------------------


class _Rounded(Function):
    """On the grid of a scale and a zero point; what is within the grid has its gradient as it comes."""

    @staticmethod
    def forward(input, scale, zero_point, quant_min, quant_max):
        at = (input * (1 / scale)).round() + zero_point
        inside = (at >= quant_min) & (at <= quant_max)
        return (at.clamp(quant_min, quant_max) - zero_point) * scale, inside

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        return grad * ctx.saved_tensors[0], None, None, None, None


def fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max):
    """(clamp(round(input / scale) + zero_point, quant_min, quant_max) - zero_point) * scale, of the
    shape and dtype of `input`; scale and zero_point are numbers or tensors of one element. The gradient
    passes where nothing was cut away."""
    _grid("fake_quantize_per_tensor_affine", quant_min, quant_max)
    return _Rounded.apply(input, scale, zero_point, quant_min, quant_max)[0]


def fake_quantize_per_channel_affine(input, scale, zero_point, axis, quant_min, quant_max):
    """fake_quantize_per_tensor_affine with a scale and a zero point, [input.shape[axis]], for each
    element of the dimension `axis`."""
    _grid("fake_quantize_per_channel_affine", quant_min, quant_max)
    if scale.shape != (input.shape[axis],) or zero_point.shape != scale.shape:
        raise _C.ShapeError(
            f"pf.fake_quantize_per_channel_affine: got scales {list(scale.shape)} and zero points "
            f"{list(zero_point.shape)} for {input.shape[axis]} channels; expected one for each"
        )
    shape = [1] * input.dim()
    shape[axis] = -1
    scale, zero_point = scale.reshape(shape), zero_point.reshape(shape)
    return _Rounded.apply(input, scale, zero_point, quant_min, quant_max)[0]


def _grid(name, quant_min, quant_max):
    if quant_min > quant_max:
        raise _C.ValueError(
            f"pf.{name}: got quant_min {quant_min} above quant_max {quant_max}; exchange them"
        )


_SEGMENTS = {
    "sum": ("sum", 0.0), "mean": ("sum", 0.0), "max": ("amax", -math.inf), "min": ("amin", math.inf),
    "prod": ("prod", 1.0),
}  # fmt: skip


def segment_reduce(
    data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None
):
    """The sum, mean, max, min or prod of parts of the dimension `axis` that follow each other.

    `lengths` [..., parts] (the dimensions before `axis`, then parts) says how long they are, or
    `offsets` [..., parts + 1] where they begin and end. The result has `parts` in place of `axis`; each
    begins with `initial`; without it an empty part is 0, NaN, -inf, inf or 1.
    """
    if reduce not in _SEGMENTS:
        raise _C.ValueError(f"pf.segment_reduce: got {reduce!r}; expected one of {[*_SEGMENTS]}")
    if indices is not None or (lengths is None) == (offsets is None):
        raise _C.ValueError("pf.segment_reduce: expected either lengths or offsets, and no indices")
    axis = axis + data.dim() if axis < 0 else axis
    lengths = offsets.diff(dim=-1) if lengths is None else lengths
    n, batch = data.shape[axis], data.shape[:axis]
    if lengths.shape[:-1] != batch:
        raise _C.ShapeError(
            f"pf.segment_reduce: got lengths {list(lengths.shape)} for axis {axis} of "
            f"{list(data.shape)}; expected {[*batch, 'parts']}"
        )
    if not unsafe and not bool(((lengths.sum(-1) == n) & (lengths >= 0).all(-1)).all()):
        raise _C.ValueError(f"pf.segment_reduce: expected lengths from 0 on with the sum {n}")
    name, start = _SEGMENTS[reduce]
    shape = (*lengths.shape, *data.shape[axis + 1 :])
    out = data.new_full(shape, start if initial is None else initial)
    at = _ops.arange(n, device=data.device).expand(*batch, n).contiguous()
    at = _ops.searchsorted(lengths.cumsum(-1), at, right=True)
    rest = (1,) * (data.dim() - axis - 1)
    out = out.scatter_reduce(axis, at.reshape(*at.shape, *rest).expand(data.shape), data, name)
    if reduce != "mean":
        return out
    lengths = lengths.reshape(*lengths.shape, *rest)
    empty = math.nan if initial is None else initial
    return _ops.where(lengths > 0, out / lengths.clamp(min=1), empty)


# ---- functions of layers ------------------------------------------------------------------------


def constant_pad_nd(input, pad, value=0):
    """nn.functional.pad with a number."""
    return F.pad(input, pad, "constant", value)


def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """A convolution, or a transposed one, over as many dimensions as the kernel has."""
    dims = weight.dim() - 2
    if dims not in (1, 2, 3):
        raise _C.ShapeError(
            f"pf.convolution: got a weight of shape {list(weight.shape)}; expected a kernel of 1 to 3 "
            "dimensions behind channels"
        )
    if transposed:
        f = getattr(F, f"conv_transpose{dims}d")
        return f(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return getattr(F, f"conv{dims}d")(input, weight, bias, stride, padding, dilation, groups)


def conv_tbc(input, weight, bias, pad=0):
    """A convolution along time of [time, batch, channels] with a weight [kernel, channels in, out]."""
    x = F.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return x.permute(2, 0, 1)


def affine_grid_generator(theta, size, align_corners):
    """nn.functional.affine_grid."""
    return F.affine_grid(theta, size, align_corners)


def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """nn.functional.grid_sample; modes 0 bilinear, 1 nearest, 2 bicubic; 0 zeros, 1 border,
    2 reflection."""
    mode = _named(interpolation_mode, ("bilinear", "nearest", "bicubic"), "interpolation_mode")
    padding = _named(padding_mode, ("zeros", "border", "reflection"), "padding_mode")
    return F.grid_sample(input, grid, mode, padding, align_corners)


grid_sampler_2d = grid_sampler_3d = grid_sampler


def norm_except_dim(v, pow=2, dim=0):
    """Norms over all dimensions but one, which are kept with size 1; dim -1: over all."""
    if dim == -1:
        return _ops.norm(v, pow)
    dims = [d for d in _upto(v.dim()) if d != dim % v.dim()]
    return _ops.norm(v, pow, dims, keepdim=True) if dims else v.abs()


def frobenius_norm(input, dim, keepdim=False):
    """The root of the sum of squares over dimensions; over all where there are none."""
    dims = [dim] if isinstance(dim, int) else list(dim)
    return _ops.linalg_vector_norm(input, 2, dims or None, keepdim)


# ---- losses, whose reduction is a number: 0 none, 1 mean, 2 sum ---------------------------------


def _reduction(reduction):
    return _named(reduction, _REDUCTIONS, "reduction")


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    """nn.functional.cosine_embedding_loss."""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def ctc_loss(
    log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False
):
    """nn.functional.ctc_loss."""
    return F.ctc_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank,
        _reduction(reduction),
        zero_infinity,
    )


def hinge_embedding_loss(input, target, margin=1.0, reduction=1):
    """nn.functional.hinge_embedding_loss."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_reduction(reduction))


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=1):
    """nn.functional.margin_ranking_loss."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-06, swap=False, reduction=1
):
    """nn.functional.triplet_margin_loss."""
    return F.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_reduction(reduction)
    )


# ---- tensors ------------------------------------------------------------------------------------


def empty_strided(
    size, stride, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False
):
    """An uninitialized tensor of these sizes and strides, counted in elements."""
    if len(size) != len(stride):
        raise _C.ShapeError(
            f"pf.empty_strided: got {len(size)} sizes and {len(stride)} strides; expected as many"
        )
    last = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride))
    flat = _ops.empty(last, dtype=dtype, device=device, pin_memory=pin_memory)
    return flat.as_strided(size, stride).requires_grad_(requires_grad)


def empty_permuted(
    size,
    physical_layout,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """An uninitialized tensor without gaps, whose dimensions lie in memory in the order that
    physical_layout says, the outermost first."""
    order = list(physical_layout)
    if sorted(order) != list(_upto(len(size))):
        raise _C.ValueError(
            f"pf.empty_permuted: got the layout {order} for {len(size)} dimensions; expected each once"
        )
    lying = [size[d] for d in order]
    made = _ops.empty(lying, dtype=dtype, device=device, pin_memory=pin_memory)
    return made.permute([order.index(d) for d in _upto(len(order))]).requires_grad_(requires_grad)


def nonzero_static(input, *, size, fill_value=-1):
    """The first `size` rows of nonzero(input), filled up with rows of `fill_value`."""
    if size < 0:
        raise _C.ValueError(f"pf.nonzero_static: got size {size}; expected at least 0")
    found = _ops.nonzero(input)[:size]
    rest = size - found.shape[0]
    return _ops.cat([found, found.new_full((rest, input.dim()), fill_value)]) if rest else found


def range(
    start, end, step=1, *, dtype=None, layout=None, device=None, requires_grad=False, out=None
):
    """Numbers from start to end with both ends; arange leaves the last out."""
    if step == 0 or (end - start) * step < 0:
        raise _C.ValueError(
            f"pf.range: got {start} to {end} by steps of {step}; expected steps that lead there"
        )
    count = math.floor((end - start) / step) + 1
    dtype = _C.get_default_dtype() if dtype is None else dtype
    made = (_ops.arange(count, dtype=_C.float64, device=device) * step + start).to(dtype)
    return out.copy_(made) if out is not None else made.requires_grad_(requires_grad)


def from_file(
    filename, shared=None, size=0, *, dtype=None, layout=None, device=None, requires_grad=False,
    pin_memory=False,
):  # fmt: skip
    """A tensor over the first `size` elements of a file. shared: what is written to the tensor is
    written to the file, which is made as long as it takes; otherwise it stays in memory."""
    dtype = _C.get_default_dtype() if dtype is None else dtype
    if not isinstance(size, int) or size < 0 or size * dtype.itemsize >= 2**63:
        raise _C.ValueError(
            f"pf.from_file: got size {size!r}; expected a number of elements from 0"
        )
    flags = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
    try:
        name = _files.shown(filename)
    except TypeError:
        raise TypeError(
            f"pf.from_file: got a {type(filename).__name__}; expected the path of a file; give one"
        ) from None
    try:
        file = _files.open_regular(filename, "from_file", flags=flags)
    except _C.FileError:
        raise
    except OSError as e:
        from .serialization import MissingFileError

        kind = MissingFileError if isinstance(e, FileNotFoundError) else _C.FileError
        raise kind(
            f"pf.from_file: '{name}' cannot be opened ({e.strerror}); expected a file that can be "
            f"read{' and written' if shared else ''}; check the path"
        ) from None
    try:
        need, have = size * dtype.itemsize, os.fstat(file).st_size
        if have < need and not shared:
            raise _C.FileError(
                f"pf.from_file: '{name}' has {have} bytes; expected {need} for {size} elements of "
                f"{dtype}; pass a smaller size, or shared=True to make it longer"
            )
        if not size:
            return _ops.empty(0, dtype=dtype, device=device).requires_grad_(requires_grad)
        how = "file" if shared else "copies"
        memory = _C._MappedBytes(file, need, name, "from_file", how)
    finally:
        os.close(file)
    made = _C.frombuffer(memory, dtype=dtype)
    return (made if device is None else made.to(device)).requires_grad_(requires_grad)


def detach_(input):
    """Cuts the tensor from its history, in place."""
    return input.detach_()


# ---- what tensors and switches are --------------------------------------------------------------


def is_signed(input):
    """True for dtypes with a sign."""
    return input.dtype.is_signed


def is_inference(input):
    """Whether the tensor was made within inference_mode()."""
    return input.is_inference()


def is_distributed(input):
    """False: a tensor lies in one process."""
    return False


def is_anomaly_check_nan_enabled():
    """True: anomaly mode always looks for NaN."""
    return True


def set_flush_denormal(mode):
    """False: denormal numbers are kept, as the call asks whether they could be flushed."""
    return False


_DEBUG_MODES = ("default", "warn", "error")


def set_deterministic_debug_mode(debug_mode):
    """use_deterministic_algorithms(): False for 0 or "default", True for "warn" (1) and "error" (2)."""
    mode = _named(debug_mode, _DEBUG_MODES, "debug_mode")
    _misc.use_deterministic_algorithms(mode != "default", warn_only=mode == "warn")


def get_deterministic_debug_mode():
    """2, "error", where results have the same bits in every run (1 with `warn_only`), else 0."""
    return (1 if _misc.warns_only else 2) if _C._deterministic() else 0


def is_deterministic_algorithms_warn_only_enabled():
    """What use_deterministic_algorithms() was last given as `warn_only`; it changes nothing."""
    return _misc.warns_only


_warn_always = False


def set_warn_always(b):
    """Accepted for programs that call it: PyFlame's warnings are Python's, whose filters decide."""
    global _warn_always
    _warn_always = bool(b)


def is_warn_always_enabled():
    """What set_warn_always() was given."""
    return _warn_always


# ---- methods of tensors -------------------------------------------------------------------------


def new(self, *args, device=None):
    """An older way to make a tensor of this dtype and device: of sizes (uninitialized), of a list of
    numbers, or of a tensor."""
    device = self.device if device is None else device
    if len(args) == 1 and isinstance(args[0], _C.Tensor):
        return args[0].to(self.dtype)
    if len(args) == 1 and isinstance(args[0], (list, tuple)) and not isinstance(args[0], _C.Size):
        return _C.tensor(args[0], dtype=self.dtype, device=device)
    size = args[0] if len(args) == 1 and isinstance(args[0], _C.Size) else args or (0,)
    return _ops.empty(size, dtype=self.dtype, device=device)


def new_empty_strided(
    self, size, stride, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False
):
    """empty_strided with this tensor's dtype and device unless others are given."""
    return empty_strided(
        size,
        stride,
        dtype=self.dtype if dtype is None else dtype,
        device=self.device if device is None else device,
        requires_grad=requires_grad,
        pin_memory=pin_memory,
    )


def unsafe_chunk(input, chunks, dim=0):
    """chunk(), but the pieces may be written where gradients are wanted: their histories follow, where
    PyTorch leaves that to the program's care."""
    return _writable(input, input.chunk(chunks, dim), dim)


def unsafe_split(input, split_size, dim=0):
    """split(), as unsafe_chunk."""
    return _writable(input, input.split(split_size, dim), dim)


def unsafe_split_with_sizes(input, split_sizes, dim=0):
    """split() into these sizes, as unsafe_chunk."""
    return _writable(input, input.split(list(split_sizes), dim), dim)


def _writable(input, pieces, dim):
    ends = list(itertools.accumulate(p.shape[dim] for p in pieces))
    return input.tensor_split(ends[:-1], dim)


def narrow_copy(input, dim, start, length, *, out=None):
    """narrow() as a copy."""
    if out is not None and out.dtype != input.dtype:
        raise _C.DTypeError(
            f"pf.narrow_copy: got out= of {out.dtype} for a tensor of {input.dtype}; expected that dtype; "
            "convert the result"
        )
    return _ops.cat([input.narrow(dim, start, length)], dim, out=out)


def dim_order(self, *, ambiguity_check=False):
    """The dimensions in the order in which they lie in memory, the outermost first. With
    ambiguity_check what is dense in several orders raises."""
    strides = self.stride()
    order = sorted(_upto(self.dim()), key=lambda d: -strides[d])
    if ambiguity_check:
        sizes = self.shape
        doubt = any(n == 1 for n in sizes) or any(
            strides[a] == strides[b] for a, b in itertools.pairwise(order)
        )
        if doubt and self.dim() > 1:
            raise _C.PyFlameError(
                f"pf.dim_order: got sizes {list(sizes)} and strides {list(strides)}, which lie so in "
                "several orders; expected one; pass ambiguity_check=False"
            )
    return tuple(order)


def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """The tensor looks at the memory of another from now on (at none without one)."""
    if source is None:
        source = _ops.empty(0, dtype=self.dtype, device=self.device)
    if not isinstance(source, _C.Tensor):
        source = source._tensor.detach().reshape(-1)
    if size is not None:
        if stride is None:
            stride = [math.prod(size[d + 1 :]) for d in _upto(len(size))]
        source = source.detach().as_strided(size, stride, storage_offset)
    self.data = source.detach()
    return self


def as_strided_(self, size, stride, storage_offset=None):
    """The tensor becomes such a view of its memory; of a tensor without history."""
    if not isinstance(self, _C.Tensor):
        raise TypeError(
            f"pf.as_strided_: got {type(self).__name__}; expected a Tensor, which becomes the view"
        )
    if self.requires_grad and _C.is_grad_enabled():
        raise _C.AutogradError(
            "pf.as_strided_: got a tensor that requires grad; expected one without history; use "
            "as_strided(), or detach it"
        )
    self.data = self.detach().as_strided(
        size, stride, self.storage_offset() if storage_offset is None else storage_offset
    )
    return self


def _is_view(self):
    """Whether writes to it join the history of another tensor (_base)."""
    return self._base is not None


def _is_all_true(self):
    """all() of a tensor of bool."""
    return self.all()


def _is_any_true(self):
    """any() of a tensor of bool."""
    return self.any()


_name_errors(
    __name__,
    "conv_tbc",
    "convolution",
    "ctc_loss",
    "detach_",
    "fake_quantize_per_channel_affine",
    "fake_quantize_per_tensor_affine",
    "is_inference",
    "is_signed",
    "narrow_copy",
    "norm_except_dim",
    "set_",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
)
