"""Layers: linear, embedding, norms, dropout, shapes. Start values come from C++ (init.h)."""

from .. import _ops
from . import functional as F
from .module import Module
from .parameter import Parameter
from .sizes import whole_numbers


def _parameter(shape, device, dtype):
    return Parameter(_ops.empty(shape, device=device, dtype=dtype))


class Identity(Module):
    """Gives back its input; any arguments are accepted and ignored."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Module):
    """x @ weight.T + bias

    Input [..., in_features], result [..., out_features]. Weight and bias start uniform in
    ±1/sqrt(in_features).
    """

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        whole_numbers(self, in_features=in_features, out_features=out_features)
        self.in_features = in_features
        self.out_features = out_features
        self.weight = _parameter((out_features, in_features), device, dtype)
        if bias:
            self.bias = _parameter((out_features,), device, dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        _ops._init_linear_(self.weight, self.bias)

    def forward(self, input):
        own = self._parameters
        try:  # a parameter as an attribute takes ten times as long to find
            weight, bias = own["weight"], own["bias"]
        except KeyError:  # replaced by a computed attribute
            weight, bias = self.weight, self.bias
        return _ops.linear(input, weight, bias)

    def extra_repr(self):
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """Linear, under the name that PyTorch gives the output of MultiheadAttention."""


class Bilinear(Module):
    """y[..., k] = input1 @ weight[k] @ input2 + bias[k]"""

    def __init__(
        self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None
    ):
        super().__init__()
        if in1_features <= 0:
            raise ValueError(
                f"pf.nn.Bilinear: got in1_features {in1_features}; expected at least 1"
            )
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = _parameter((out_features, in1_features, in2_features), device, dtype)
        if bias:
            self.bias = _parameter((out_features,), device, dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        bound = self.in1_features**-0.5 if self.in1_features else 0.0
        _ops._init_uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            _ops._init_uniform_(self.bias, -bound, bound)

    def forward(self, input1, input2):
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self):
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


def _shape(layer, normalized_shape):
    """normalized_shape as a tuple."""
    if not hasattr(type(normalized_shape), "__iter__") or isinstance(normalized_shape, str):
        whole_numbers(layer, normalized_shape=normalized_shape)
        return (int(normalized_shape),)
    return tuple(normalized_shape)


class LayerNorm(Module):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions."""

    def __init__(
        self,
        normalized_shape,
        eps=1e-5,
        elementwise_affine=True,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.normalized_shape = _shape(self, normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            if wanted:
                setattr(self, name, _parameter(self.normalized_shape, device, dtype))
            else:
                self.register_parameter(name, None)
        self.reset_parameters()

    def reset_parameters(self):
        if self.weight is not None:
            _ops._init_constant_(self.weight, 1.0)
        if self.bias is not None:
            _ops._init_constant_(self.bias, 0.0)

    def forward(self, input):
        return _ops.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """x / sqrt(mean(x²) + eps) * weight over the last dimensions."""

    def __init__(
        self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None
    ):
        super().__init__()
        self.normalized_shape = _shape(self, normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = _parameter(self.normalized_shape, device, dtype)
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self):
        if self.weight is not None:
            _ops._init_constant_(self.weight, 1.0)

    def forward(self, input):
        return _ops.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class Dropout(Module):
    """Zeroes elements with probability p while training, and scales the others by 1 / (1 - p)."""

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if isinstance(p, str):
            raise TypeError(
                f"pf.nn.{type(self).__name__}: got p={p!r}; expected a number; convert it with float()"
            )
        if not 0 <= p <= 1:
            raise ValueError(f"pf.nn.Dropout: p is {p}; expected a probability between 0 and 1")
        self.p = p
        self.inplace = inplace

    def forward(self, input):
        if not self.training or self.p == 0:
            return input
        return F.dropout(input, self.p, True, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class AlphaDropout(Dropout):
    """Dropout behind SELU: mean 0 and variance 1 stay. What is dropped becomes about -1.76."""

    def forward(self, input):
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(Dropout):
    """AlphaDropout of whole channels of [batch, channels, ...]."""

    def forward(self, input):
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)


class Dropout1d(Dropout):
    """Zeroes whole channels of [batch, channels, length]."""

    def forward(self, input):
        result = F.dropout1d(input, self.p, self.training)
        return input.copy_(result) if self.inplace else result


class Dropout2d(Dropout):
    """Zeroes whole channels of [batch, channels, height, width]."""

    def forward(self, input):
        result = F.dropout2d(input, self.p, self.training)
        return input.copy_(result) if self.inplace else result


class Dropout3d(Dropout):
    """Zeroes whole channels of [batch, channels, depth, height, width]."""

    def forward(self, input):
        result = F.dropout3d(input, self.p, self.training)
        return input.copy_(result) if self.inplace else result


class Flatten(Module):
    """Merges the dimensions start_dim..end_dim."""

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self):
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits dimension `dim` into the sizes `unflattened_size` (one may be -1)."""

    def __init__(self, dim, unflattened_size):
        super().__init__()
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)
        for n in self.unflattened_size:
            if not isinstance(n, int) and not isinstance(n, tuple):
                raise TypeError(
                    f"pf.nn.Unflatten: got unflattened_size {unflattened_size!r}; expected a tuple of ints"
                )

    def forward(self, input):
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self):
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class CosineSimilarity(Module):
    """Cosine of the angle between x1 and x2 along `dim`."""

    def __init__(self, dim=1, eps=1e-8):
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1, x2):
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """p-norm of x1 - x2 along the last dimension."""

    def __init__(self, p=2.0, eps=1e-6, keepdim=False):
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1, x2):
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
