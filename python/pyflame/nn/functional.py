"""Functions of neural networks. Names, arguments and meaning as in torch.nn.functional.

All come from the table of operations; written here are those whose arguments differ: `inplace`,
`size_average` and `reduce` of older programs, strings.
"""

import warnings

from .. import _C, _ops
from .._named_errors import name_errors as _name_errors


def __getattr__(name):  # rows of the table meant for this module, such as one_hot
    try:
        return _C._functional[name]
    except KeyError:
        raise AttributeError(f"module 'pyflame.nn.functional' has no attribute '{name}'") from None


def __dir__():
    return sorted({n for n in globals() if not n.startswith("_")} | set(_C._functional))


def _unary(name, *params):
    """An activation of the table with torch's `inplace` argument."""
    op = getattr(_ops, name)
    defaults = ", ".join(f"{p}={d!r}" for p, d in params)
    passed = "".join(f", {p}" for p, _ in params)
    text = (
        f"def {name}(input, {defaults + ', ' if defaults else ''}inplace=False):\n"
        f"    return _inplace(input{passed}) if inplace else _op(input{passed})\n"
    )
    # The row's own in-place form keeps the old value where the gradient needs it.
    space = {"_op": op, "_inplace": _C._methods[name + "_"]}
    exec(text, space)  # one definition for all, without *args on the way to the operation
    fn = space[name]
    fn.__doc__ = op.__doc__
    fn.__module__ = __name__
    return fn


relu = _unary("relu")
relu6 = _unary("relu6")
silu = _unary("silu")
mish = _unary("mish")
selu = _unary("selu")
elu = _unary("elu", ("alpha", 1.0))
celu = _unary("celu", ("alpha", 1.0))
leaky_relu = _unary("leaky_relu", ("negative_slope", 0.01))
hardtanh = _unary("hardtanh", ("min_val", -1.0), ("max_val", 1.0))
hardswish = _unary("hardswish")
hardsigmoid = _unary("hardsigmoid")
threshold = _unary("threshold", ("threshold", 0), ("value", 0))

gelu = _ops.gelu
sigmoid = _ops.sigmoid
tanh = _ops.tanh
linear = _ops.linear
softplus = _ops.softplus
softsign = _ops.softsign
logsigmoid = _ops.logsigmoid
scaled_dot_product_attention = _ops.scaled_dot_product_attention
layer_norm = _ops.layer_norm
tanhshrink = _ops.tanhshrink
hardshrink = _ops.hardshrink
softshrink = _ops.softshrink
prelu = _ops.prelu
bilinear = _ops.bilinear
interpolate = _ops.interpolate


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x) / sum(exp(x)) along `dim`."""
    return _C._functional["softmax"](input, dim, dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax of -x."""
    return _C._functional["softmin"](input, dim, dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """log(softmax(x)) along `dim`, without overflow."""
    return _C._functional["log_softmax"](input, dim, dtype)


def dropout(input, p=0.5, training=True, inplace=False):
    """Zeroes each element with probability p and scales the others by 1 / (1 - p)."""
    result = _ops.dropout(input, p, training)
    return input.copy_(result) if inplace else result


def _limited(input, weight, max_norm, norm_type):
    """Scales the rows of `weight` that are looked up to at most max_norm, in place."""
    if max_norm is not None:
        _ops.embedding_renorm_(weight.detach(), input, float(max_norm), float(norm_type))


def embedding(
    input,
    weight,
    padding_idx=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    sparse=False,
):
    """Rows of `weight` picked by the integers `input`. The row padding_idx gets no gradient.

    With max_norm rows that are picked are scaled first, in place, to at most this norm; with
    scale_grad_by_freq the gradient of a row is divided by how often it was picked. With sparse=True
    the gradient is a sparse tensor of the rows that were picked, for SGD, Adagrad and SparseAdam.
    """
    _limited(input, weight, max_norm, norm_type)
    if sparse:
        if padding_idx is None:
            padding_idx = -1
        elif padding_idx < 0 and weight.dim() == 2:
            padding_idx += weight.size(0)
            if padding_idx < 0:
                raise _C.ValueError(
                    f"pf.nn.functional.embedding: got padding_idx {padding_idx - weight.size(0)} for "
                    f"{weight.size(0)} rows; expected one of them; correct it"
                )
        return _C._functions["embedding"](weight, input, padding_idx, scale_grad_by_freq, True)
    return _C._functional["embedding"](input, weight, padding_idx, scale_grad_by_freq)


def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """The sum, mean or maximum (`mode`) of bags of rows of `weight`: [bags, width].

    A bag is a row of `input` [bags, indices]; or input is [indices] and bags begin at `offsets`,
    whose last is the end with include_last_offset. Indices that are padding_idx do not count. Rows
    are multiplied by per_sample_weights, of the shape of input, for mode "sum". An empty bag is 0.
    With sparse=True the gradient of `weight` is a sparse tensor (not for mode "max").
    The two may be passed in the other order, indices of int64 as `weight`, which warns.
    """
    if getattr(weight, "dtype", None) == _C.int64 and input.is_floating_point():
        warnings.warn(
            "pf.nn.functional.embedding_bag: got the weight first; the indices are first",
            stacklevel=2,
        )
        input, weight = weight, input
    _limited(input, weight, max_norm, norm_type)
    return _ops.embedding_bag(
        input, weight, offsets, mode, per_sample_weights, include_last_offset, padding_idx,
        scale_grad_by_freq, sparse,
    )  # fmt: skip


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x²) + eps) * weight over the last dimensions."""
    return _ops.rms_norm(input, normalized_shape, weight, eps)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """input / max(norm of input along dim, eps)"""
    return _ops.normalize(input, p, dim, eps, out=out)


# ---- losses -------------------------------------------------------------------------------------


def _reduction(size_average, reduce, reduction):
    """torch's two old flags, which older programs still pass."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is not None and not reduce:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
    reduction="mean", label_smoothing=0.0,
):  # fmt: skip
    """-log(softmax(input))[target]. Classes are in dimension 1 (or 0 of a 1-d input).

    `target` holds class indices of any integer type, or probabilities of the shape of input.
    """
    reduction = _reduction(size_average, reduce, reduction)
    return _ops.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def nll_loss(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"
):
    """-input[target]: the loss on log-probabilities, classes in dimension 1."""
    reduction = _reduction(size_average, reduce, reduction)
    return _ops.nll_loss(input, target, weight, ignore_index, reduction)


def _broadcasts(name, input, target):
    """Warns where a target of another shape is broadcast: most often predictions have a dimension too many,
    and every one is compared with every target."""
    both = isinstance(input, _C.Tensor) and isinstance(target, _C.Tensor)
    if both and input.shape != target.shape:
        warnings.warn(
            f"pf.nn.functional.{name}: got target of shape {list(target.shape)} for input of shape "
            f"{list(input.shape)}; they are broadcast, which is probably wrong; give both one shape "
            "(squeeze, view)",
            UserWarning,
            stacklevel=3,
        )


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """(input - target)²"""
    _broadcasts("mse_loss", input, target)
    return _ops.mse_loss(input, target, _reduction(size_average, reduce, reduction), weight)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """|input - target|"""
    _broadcasts("l1_loss", input, target)
    return _ops.l1_loss(input, target, _reduction(size_average, reduce, reduction), weight)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Quadratic below `beta`, linear above."""
    _broadcasts("smooth_l1_loss", input, target)
    return _ops.smooth_l1_loss(input, target, _reduction(size_average, reduce, reduction), beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Quadratic below `delta`, linear above, with the slope delta."""
    _broadcasts("huber_loss", input, target)
    return _ops.huber_loss(input, target, reduction, delta, weight)


def binary_cross_entropy(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """-(t*log(p) + (1-t)*log(1-p)); the logarithms are limited to -100, as in PyTorch."""
    reduction = _reduction(size_average, reduce, reduction)
    return _ops.binary_cross_entropy(input, target, weight, reduction)


def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    """binary_cross_entropy of sigmoid(input), without overflow."""
    reduction = _reduction(size_average, reduce, reduction)
    return _ops.binary_cross_entropy_with_logits(input, target, weight, reduction, pos_weight)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target * (log(target) - input), with log-probabilities as input; 0 where target is 0."""
    return _ops.kl_div(input, target, _reduction(size_average, reduce, reduction), log_target)


def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
    reduction="mean",
):  # fmt: skip
    """Negative log-likelihood of counts `target` under a Poisson distribution."""
    reduction = _reduction(size_average, reduce, reduction)
    return _ops.poisson_nll_loss(input, target, log_input, full, eps, reduction)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Negative log-likelihood of `target` under normal distributions (input, var)."""
    if not isinstance(var, _C.Tensor):
        var = _ops.full_like(input, var)
    return _ops.gaussian_nll_loss(input, target, var, full, eps, reduction)


def hinge_embedding_loss(
    input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"
):
    """input where target is 1, max(0, margin - input) where it is -1."""
    reduction = _reduction(size_average, reduce, reduction)
    return _ops.hinge_embedding_loss(input, target, margin, reduction)


def cosine_embedding_loss(
    input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"
):
    """1 - cos where target is 1, max(0, cos - margin) where it is -1."""
    reduction = _reduction(size_average, reduce, reduction)
    return _ops.cosine_embedding_loss(input1, input2, target, margin, reduction)


def margin_ranking_loss(
    input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"
):
    """max(0, -target * (input1 - input2) + margin)"""
    reduction = _reduction(size_average, reduce, reduction)
    return _ops.margin_ranking_loss(input1, input2, target, margin, reduction)


def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, size_average=None,
    reduce=None, reduction="mean",
):  # fmt: skip
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)"""
    reduction = _reduction(size_average, reduce, reduction)
    return _ops.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction)


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target * input)) for targets 1 and -1."""
    return _ops.soft_margin_loss(input, target, _reduction(size_average, reduce, reduction))


def multilabel_soft_margin_loss(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """Binary cross-entropy of each class with logits, averaged over classes."""
    reduction = _reduction(size_average, reduce, reduction)
    return _ops.multilabel_soft_margin_loss(input, target, weight, reduction)


def multi_margin_loss(
    input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """Hinge of every wrong class against the right one."""
    reduction = _reduction(size_average, reduce, reduction)
    return _ops.multi_margin_loss(input, target, p, margin, weight, reduction)


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Hinge of every class that is not in target against each that is; target ends with -1."""
    reduction = _reduction(size_average, reduce, reduction)
    return _C._functional["multilabel_margin_loss"](input, target, reduction)


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """triplet_margin_loss by a distance of your own; pairwise_distance without one."""
    if margin <= 0:
        raise _C.ValueError(
            f"pf.nn.functional.triplet_margin_with_distance_loss: got margin {margin}; expected a "
            "positive number"
        )
    distance = distance_function or _ops.pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _ops.minimum(far, distance(positive, negative))
    return _reduced((near - far + margin).clamp(min=0), reduction)


def _reduced(loss, reduction):
    if reduction not in ("none", "mean", "sum"):
        raise _C.ValueError(f"got reduction={reduction!r}; expected 'none', 'mean' or 'sum'")
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def ctc_loss(
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    blank=0,
    reduction="mean",
    zero_infinity=False,
):
    """Minus the logarithm of the probability that log_probs reads as the targets (Graves, 2006).

    log_probs [T, N, C], of log_softmax, or [T, C]; targets [N, S], or all of them in one dimension;
    lengths of each sequence as lists, tuples or tensors. The mean is that of losses divided by target
    lengths. An input too short for its target has the loss inf, or 0 with zero_infinity. The
    gradient is the one behind log_softmax, as in PyTorch: exp(log_probs) less each class's share.
    """
    batched = log_probs.dim() == 3

    def numbers(lengths):
        if isinstance(lengths, _C.Tensor):
            lengths = lengths.tolist()
        return [int(n) for n in lengths] if hasattr(lengths, "__iter__") else [int(lengths)]

    input_lengths, target_lengths = numbers(input_lengths), numbers(target_lengths)
    if not batched:
        log_probs = log_probs.unsqueeze(1)
    losses = _ops.ctc_losses(
        log_probs, targets, input_lengths, target_lengths, blank, zero_infinity
    )
    if reduction == "mean":
        sizes = _ops.tensor([max(n, 1) for n in target_lengths], dtype=losses.dtype)
        return (losses / sizes.to(losses.device)).mean()
    losses = losses if batched else losses.squeeze(0)
    return _reduced(losses, reduction)


def linear_cross_entropy(
    input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean",
    ignore_index=None, label_smoothing=0.0, options=None,
):  # fmt: skip
    """cross_entropy of linear(input, linear_weight, linear_bias), without all logits at once.

    input [N, in] and target [N] of class indices: some rows are multiplied, looked at and overwritten
    by their gradient before the next; memory holds the logits of `options.batch_chunk_size` rows, by
    default as many as take 512 MiB (128 on the CPU). For reduction "mean" and "sum" the gradients of
    input, linear_weight and linear_bias are made with the loss; for "none" the logits are made
    again in the backward pass. They differ from those of the two functions by roundings: the
    weight's are summed in float32 over groups of rows, and autocast rounds them to 16 bits for each
    group instead of once.

    linear_weight [C, in] or, for several losses of each sample, [C, d1, ..., in]; that, class
    probabilities as target, input of more dimensions, vmap and gradients of gradients take all
    logits. Of `options` (LinearCrossEntropyOptions) only batch_chunk_size counts: gradients of the
    weight are always summed in float32, and a graph may always be retained.
    """
    chunk = None if options is None else options.batch_chunk_size
    wide = isinstance(linear_weight, _C.Tensor) and linear_weight.dim() > 2
    if not wide and not (isinstance(input, _C.Tensor) and input.dim() > 2):
        return _C._functional["linear_cross_entropy"](
            input, linear_weight, target, linear_bias=linear_bias, weight=weight,
            reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing,
            batch_chunk_size=chunk,
        )  # fmt: skip
    classes, *extra, width = linear_weight.shape
    if extra and input.dim() < 2:
        raise _C.ShapeError(
            f"pf.nn.functional.linear_cross_entropy: got linear_weight {list(linear_weight.shape)} for "
            f"input {list(input.shape)}; expected a batch [N, {width}] where there are several losses "
            "of each sample; unsqueeze input and target"
        )
    if ignore_index is not None and target.is_floating_point():
        raise _C.ValueError(
            f"pf.nn.functional.linear_cross_entropy: got ignore_index {ignore_index} for class "
            "probabilities; expected class indices with it; leave it out"
        )
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = _ops.linear(input, linear_weight.reshape(-1, width), bias)
    if extra:
        logits = logits.reshape(*input.shape[:-1], classes, *extra)
    ignore_index = -100 if ignore_index is None else ignore_index
    return _ops.cross_entropy(logits, target, weight, ignore_index, reduction, label_smoothing)


# ---- products ------------------------------------------------------------------------------------


def conv_tbc(input, weight, bias, pad=0):
    """A convolution over time: input [T, B, C], weight [taps, C, out], result [T', B, out]."""
    x = _ops.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return x.permute(2, 0, 1)


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """Products of groups of rows, each with a matrix of its own: experts with shares of the tokens.

    mat_a [tokens, K] and mat_b [groups, K, N]: group i of the tokens ends at offs[i], and the result
    is [tokens, N]; both of three dimensions: one product for each, without offs; mat_a [groups, M, K]
    and mat_b [K, N]: columns of mat_b in groups; both of two: rows of mat_b, and columns of mat_a.
    """
    if (offs is None) != (mat_a.dim() == 3 and mat_b.dim() == 3):
        raise _C.ValueError(
            f"pf.nn.functional.grouped_mm: got shapes {list(mat_a.shape)} and {list(mat_b.shape)} "
            f"{'without' if offs is None else 'with'} offs; expected offs unless both have three "
            "dimensions"
        )
    if offs is None:
        result = mat_a @ mat_b
    else:
        ends = offs.tolist()
        parts = list(zip([0, *ends], ends, range(len(ends))))
        if mat_a.dim() == 2 and mat_b.dim() == 3:
            rest = [mat_a[ends[-1] :] @ mat_b[0] * 0] if ends[-1] < mat_a.shape[0] else []
            result = _ops.cat([*(mat_a[i:j] @ mat_b[n] for i, j, n in parts), *rest])
        elif mat_a.dim() == 3:
            result = _ops.cat([mat_a[n] @ mat_b[:, i:j] for i, j, n in parts], 1)
        else:
            result = _ops.stack([mat_a[:, i:j] @ mat_b[i:j] for i, j, _ in parts])
    if bias is not None:
        result = result + bias
    return result if out_dtype is None else result.to(out_dtype)


from .attention_functions import *  # noqa: E402, F403
from .pool_functions import *  # noqa: E402, F403
from .scaled_products import ScalingType, SwizzleType, scaled_mm  # noqa: E402, F401

# ---- resampling ---------------------------------------------------------------------------------


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """What each tap of a window sees: [N, C, H, W] to [N, C * taps, places]."""
    return _ops.im2col(input, kernel_size, dilation, padding, stride)


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Columns [N, C * taps, places] added up where they meet in [N, C, *output_size]."""
    return _ops.col2im(input, output_size, kernel_size, dilation, padding, stride)


def _old(name, instead):
    warnings.warn(
        f"pf.nn.functional.{name} is deprecated; use nn.functional.{instead}", stacklevel=3
    )


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """interpolate, under its old name."""
    _old("upsample", "interpolate")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate with mode='nearest', under its old name."""
    _old("upsample_nearest", "interpolate")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate with mode='bilinear' and align_corners=True, under its old name."""
    _old("upsample_bilinear", "interpolate")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _corners(name, align_corners):
    if align_corners is None:
        warnings.warn(
            f"pf.nn.functional.{name}: align_corners is False since PyTorch 1.3; pass it to say "
            "that this is what you mean",
            stacklevel=3,
        )
    return bool(align_corners)


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Input [N, C, (D,) H, W] at the places grid [N, ..., 2 or 3], from -1 to 1 over it: x first.

    mode is bilinear, nearest or bicubic; what lies outside (padding_mode) zeros, border, reflection.
    """
    align_corners = _corners("grid_sample", align_corners)
    return _C._special["grid_sampler"](input, grid, mode, padding_mode, align_corners)


def affine_grid(theta, size, align_corners=None):
    """Places for grid_sample: theta [N, 2, 3] or [N, 3, 4] times the places of the result `size`."""
    align_corners = _corners("affine_grid", align_corners)
    return _C._special["affine_grid_generator"](theta, size, align_corners)


# Modes of torch.overrides are asked for the functions that are written here; of an activation they see
# the operation, for one more call would be a tenth of it.
for _name, _value in list(globals().items()):
    if (
        type(_value) is type(_unary)
        and not _name.startswith("_")
        and "_op" not in _value.__globals__
    ):
        globals()[_name] = _C._asking(_value)

_name_errors(
    __name__,
    "ctc_loss",
    "conv_tbc",
    "grouped_mm",
)
