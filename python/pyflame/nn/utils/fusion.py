"""A batch norm in evaluation mode as part of the convolution or linear layer before it."""

import copy

from ... import _ops
from ..._named_errors import name_errors as _name_errors
from ..parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def _fused(weight, bias, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape):
    """Both as parameters; `shape` puts a number for each channel beside the weight."""
    dtype = weight.dtype
    wide = _ops.float64 if dtype == _ops.float64 else _ops.float32
    scale = (bn_rv.detach().to(wide) + bn_eps).rsqrt()
    if bn_w is not None:
        scale = scale * bn_w.detach().to(wide)
    shift = -bn_rm.detach().to(wide)
    if bias is not None:
        shift = shift + bias.detach().to(wide)
    shift = shift * scale
    if bn_b is not None:
        shift = shift + bn_b.detach().to(wide)
    fused = (weight.detach().to(wide) * scale.reshape(shape)).to(dtype)
    return (
        Parameter(fused, weight.requires_grad),
        Parameter(shift.to(dtype), weight.requires_grad if bias is None else bias.requires_grad),
    )


def fuse_conv_bn_weights(
    conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w=None, bn_b=None, transpose=False
):
    """Weight and bias of a convolution that does what one with a batch norm behind it does."""
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b=None):
    """Weight and bias of a linear layer that does what one with a batch norm behind it does."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, (-1, 1))


def _check(name, layer, bn):
    if layer.training or bn.training:
        raise AssertionError(
            f"pf.nn.utils.{name}: got modules in training mode; expected evaluation mode, where a "
            "batch norm is a scale and a shift; call .eval() on both first"
        )
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError(
            f"pf.nn.utils.{name}: got a batch norm without running statistics; expected them; use "
            "track_running_stats=True"
        )


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A copy of `conv`, in evaluation mode, that does what `bn(conv(x))` does."""
    _check("fuse_conv_bn_eval", conv, bn)
    if transpose and conv.groups != 1:
        raise ValueError(
            f"pf.nn.utils.fuse_conv_bn_eval: got a transposed convolution of {conv.groups} groups, "
            "whose weight has channels of the result in two places; expected one group"
        )
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


def fuse_linear_bn_eval(linear, bn):
    """A copy of `linear`, in evaluation mode, that does what `bn(linear(x))` does."""
    _check("fuse_linear_bn_eval", linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            f"pf.nn.utils.fuse_linear_bn_eval: got {linear.out_features} features and a batch norm "
            f"of {bn.num_features}; expected as many"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


_name_errors(__name__)
