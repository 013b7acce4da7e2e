"""Functions of neural networks. Names, arguments and meaning as in torch.nn.functional.

Most come from the table of operations; written here are those that add Python's conveniences
(`inplace`, string options) or are compositions of operations.
"""

import math as _math

from .. import _C, _ops


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
    passed = ", ".join(p for p, _ in params)
    text = (
        f"def {name}(input, {defaults + ', ' if defaults else ''}inplace=False):\n"
        f"    result = _op(input{', ' + passed if passed else ''})\n"
        f"    return input.copy_(result) if inplace else result\n"
    )
    space = {"_op": op}
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


def glu(input, dim=-1):
    """a * sigmoid(b), where a and b are the halves of the input along `dim`."""
    if input.shape[dim] % 2:
        raise RuntimeError(
            f"pf.nn.functional.glu: dimension {dim} has size {input.shape[dim]}; expected an even "
            "size"
        )
    a, b = input.chunk(2, dim)
    return a * _ops.sigmoid(b)


def _implicit_dim(dim, ndim):
    if dim is None:  # torch's old default
        return 0 if ndim in (0, 1, 3) else 1
    return dim


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x) / sum(exp(x)) along `dim`."""
    return _ops.softmax(input, _implicit_dim(dim, input.dim()), dtype=dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax of -x."""
    return _ops.softmax(-input, _implicit_dim(dim, input.dim()), dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """log(softmax(x)) along `dim`, without overflow."""
    return _ops.log_softmax(input, _implicit_dim(dim, input.dim()), dtype=dtype)


def dropout(input, p=0.5, training=True, inplace=False):
    """Zeroes each element with probability p and scales the others by 1 / (1 - p)."""
    result = _ops.dropout(input, p, training)
    return input.copy_(result) if inplace else result


def embedding(
    input,
    weight,
    padding_idx=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    sparse=False,
):
    """Rows of `weight` picked by the integers `input`. The row padding_idx gets no gradient."""
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise NotImplementedError(
            "pf.nn.functional.embedding: max_norm, scale_grad_by_freq and sparse are not "
            "supported; leave them at their defaults"
        )
    return _ops.embedding(input, weight, padding_idx)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x²) + eps) * weight over the last dimensions."""
    return _ops.rms_norm(input, normalized_shape, weight, eps)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """input / max(norm of input along dim, eps)"""
    if p == 2.0:
        norm = (input * input).sum(dim, keepdim=True).sqrt()
    elif p == 1.0:
        norm = input.abs().sum(dim, keepdim=True)
    elif p == _math.inf:
        norm = input.abs().amax(dim, keepdim=True)
    else:
        norm = input.abs().pow(p).sum(dim, keepdim=True).pow(1.0 / p)
    return input / norm.clamp(min=eps)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """x1·x2 / (max(|x1|, eps) * max(|x2|, eps)) along `dim`."""
    n1 = (x1 * x1).sum(dim, keepdim=True).sqrt().clamp(min=eps)
    n2 = (x2 * x2).sum(dim, keepdim=True).sqrt().clamp(min=eps)
    return ((x1 / n1) * (x2 / n2)).sum(dim)


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """p-norm of x1 - x2 + eps along the last dimension."""
    diff = (x1 - x2 + eps).abs()
    if p == 2.0:
        return (diff * diff).sum(-1, keepdim=keepdim).sqrt()
    return diff.pow(p).sum(-1, keepdim=keepdim).pow(1.0 / p)


def pad(input, pad, mode="constant", value=None):
    """Adds elements around the last dimensions.

    `pad` is (left, right) of the last dimension, then of the one before, and so on; negative
    numbers cut. Modes: constant, reflect, replicate, circular.
    """
    pad = list(pad)
    if len(pad) % 2 or len(pad) // 2 > input.dim():
        raise RuntimeError(
            f"pf.nn.functional.pad: got {len(pad)} numbers for {input.dim()} dimensions; expected "
            "two for each padded dimension"
        )
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise NotImplementedError(
            f"pf.nn.functional.pad: unknown mode '{mode}'; expected constant, reflect, replicate "
            "or circular"
        )
    if mode != "constant" and value not in (None, 0):
        raise ValueError(f"pf.nn.functional.pad: mode '{mode}' takes no value")
    for i in range(len(pad) // 2):
        dim, before, after = input.dim() - 1 - i, pad[2 * i], pad[2 * i + 1]
        size = input.shape[dim]
        if before < 0 or after < 0:
            start, length = max(-before, 0), size - max(-before, 0) - max(-after, 0)
            if length < 0:
                raise RuntimeError(
                    f"pf.nn.functional.pad: cuts {-before} and {-after} from dimension {dim} of "
                    f"size {size}"
                )
            input = input.narrow(dim, start, length)
            before, after, size = max(before, 0), max(after, 0), length
        if before == 0 and after == 0:
            continue
        if mode == "constant":
            parts = [input]
            for at, n in ((0, before), (len(parts) + 1, after)):
                if n:
                    shape = list(input.shape)
                    shape[dim] = n
                    fill = _ops.full(
                        shape, 0 if value is None else value, dtype=input.dtype,
                        device=input.device,
                    )  # fmt: skip
                    parts.insert(at, fill)
            input = _ops.cat(parts, dim)
            continue
        limit = {"reflect": size - 1, "replicate": _math.inf, "circular": size}[mode]
        if size == 0 or max(before, after) > limit:
            raise RuntimeError(
                f"pf.nn.functional.pad: mode '{mode}' cannot add {max(before, after)} elements to "
                f"dimension {dim} of size {size}"
            )
        positions = range(-before, size + after)
        if mode == "replicate":
            positions = [min(max(p, 0), size - 1) for p in positions]
        elif mode == "circular":
            positions = [p % size for p in positions]
        else:
            positions = [abs(p) if p < size else 2 * (size - 1) - p for p in positions]
        index = _ops.tensor(positions, device=input.device)
        input = _ops.index_select(input, dim, index)
    return input


def bilinear(input1, input2, weight, bias=None):
    """y[..., k] = sum over i and j of input1[..., i] * weight[k, i, j] * input2[..., j] + bias"""
    result = _ops.einsum("...i,kij,...j->...k", [input1, weight, input2])
    return result if bias is None else result + bias


# ---- losses ---------------------------------------------------------------------------------


def _reduce(loss, reduction, op):
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(
        f"pf.nn.functional.{op}: reduction is '{reduction}'; expected 'none', 'mean' or 'sum'"
    )


def cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    """-log(softmax(input))[target]. Classes are in dimension 1 (or 0 of a 1-d input).

    `target` holds class indices of any integer type, or probabilities of the shape of input.
    """
    return _ops.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def nll_loss(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
):
    """-input[target]: the loss on log-probabilities, classes in dimension 1."""
    return _ops.nll_loss(input, target, weight, ignore_index, reduction)


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """(input - target)²"""
    if weight is not None:
        loss = (input - target) ** 2 * weight
        if reduction == "mean":
            return loss.sum() / weight.expand_as(loss).sum()
        return _reduce(loss, reduction, "mse_loss")
    return _ops.mse_loss(input, target, reduction)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """|input - target|"""
    return _ops.l1_loss(input, target, reduction)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Quadratic below `beta`, linear above."""
    return _ops.smooth_l1_loss(input, target, reduction, beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Quadratic below `delta`, linear above, with the slope delta."""
    if weight is None:
        return _ops.huber_loss(input, target, reduction, delta)
    return _reduce(_ops.huber_loss(input, target, "none", delta) * weight, reduction, "huber_loss")


def binary_cross_entropy(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """-(t*log(p) + (1-t)*log(1-p)); the logarithms are limited to -100, as in PyTorch."""
    return _ops.binary_cross_entropy(input, target, weight, reduction)


def binary_cross_entropy_with_logits(
    input,
    target,
    weight=None,
    size_average=None,
    reduce=None,
    reduction="mean",
    pos_weight=None,
):
    """binary_cross_entropy of sigmoid(input), without overflow."""
    return _ops.binary_cross_entropy_with_logits(input, target, weight, reduction, pos_weight)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target * (log(target) - input), with log-probabilities as input; 0 where target is 0."""
    return _ops.kl_div(input, target, reduction, log_target)


def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
    reduction="mean",
):  # fmt: skip
    """Negative log-likelihood of counts `target` under a Poisson distribution."""
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        safe = target.clamp(min=1)
        stirling = safe * safe.log() - safe + 0.5 * (2 * _math.pi * safe).log()
        loss = loss + _ops.where(target > 1, stirling, _ops.zeros_like(stirling))
    return _reduce(loss, reduction, "poisson_nll_loss")


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Negative log-likelihood of `target` under normal distributions (input, var)."""
    var = var.clamp(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * _math.log(2 * _math.pi)
    return _reduce(loss, reduction, "gaussian_nll_loss")


def hinge_embedding_loss(
    input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"
):
    """input where target is 1, max(0, margin - input) where it is -1."""
    loss = _ops.where(target == 1, input, (margin - input).clamp(min=0))
    return _reduce(loss, reduction, "hinge_embedding_loss")


def cosine_embedding_loss(
    input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"
):
    """1 - cos where target is 1, max(0, cos - margin) where it is -1."""
    cos = cosine_similarity(input1, input2, dim=-1)
    loss = _ops.where(target == 1, 1 - cos, (cos - margin).clamp(min=0))
    return _reduce(loss, reduction, "cosine_embedding_loss")


def margin_ranking_loss(
    input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"
):
    """max(0, -target * (input1 - input2) + margin)"""
    loss = (-target * (input1 - input2) + margin).clamp(min=0)
    return _reduce(loss, reduction, "margin_ranking_loss")


def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, size_average=None,
    reduce=None, reduction="mean",
):  # fmt: skip
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)"""
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = _ops.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduce((near - far + margin).clamp(min=0), reduction, "triplet_margin_loss")
