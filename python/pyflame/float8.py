"""Training of linear layers with products of eight-bit floats.

`convert_to_float8_training(model)` makes every `nn.Linear` a `Float8Linear`, which multiplies in
float8_e4m3fn, and its gradients with the incoming one in float8_e5m2. Each matrix is scaled as a
whole when it is used (dynamic scaling, in the manner of torchao's function of this name). The
parameters stay what they were.
"""

from . import _C, _ops
from ._named_errors import name_errors as _name_errors
from .amp.autocast_mode import get_autocast_dtype, is_autocast_enabled
from .autograd.function import Function, once_differentiable
from .nn.layers import Linear
from .nn.module import Module

__all__ = ["Float8Linear", "convert_to_float8_training"]

_HALF_AND_SINGLE = (_C.float32, _C.float16, _C.bfloat16)
_to_float8 = _ops._to_float8


class _Product(Function):
    """x [m, k], weight [n, k], bias [n] or None: x @ weight.T + bias, of x's dtype."""

    @staticmethod
    def forward(ctx, x, weight, bias, keep):
        for_x, for_weight = keep and ctx.needs_input_grad[0], keep and ctx.needs_input_grad[1]
        # The transposes are what the gradients multiply: products take operands along k alone.
        x8, *x_turned, x_scale = _to_float8(x, _C.float8_e4m3fn, for_weight)
        w8, *w_turned, w_scale = _to_float8(weight, _C.float8_e4m3fn, for_x)
        ctx.save_for_backward(
            x_turned[0] if for_weight else None,
            x_scale,
            w_turned[0] if for_x else None,
            w_scale,
        )
        ctx.dtypes = x.dtype, weight.dtype, None if bias is None else bias.dtype
        row = None if bias is None else bias.to(x.dtype)
        return _ops._scaled_mm(x8, w8.t(), x_scale, w_scale, row, None, x.dtype, True)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x_turned, x_scale, w_turned, w_scale = ctx.saved_tensors
        x_dtype, w_dtype, bias_dtype = ctx.dtypes
        for_x, for_weight, for_bias, _ = ctx.needs_input_grad
        dx = dw = db = None
        if for_x or for_weight:
            g8, *g_turned, g_scale = _to_float8(g, _C.float8_e5m2, for_weight)
            if for_x:
                dx = _ops._scaled_mm(g8, w_turned.t(), g_scale, w_scale, None, None, x_dtype)
            if for_weight:
                dw = _ops._scaled_mm(
                    g_turned[0], x_turned.t(), g_scale, x_scale, None, None, w_dtype
                )
        if for_bias:
            db = g.sum(0).to(bias_dtype)  # summed in float32 and read once, as linear's
        return dx, dw, db, None


class Float8Linear(Linear):
    """A linear layer whose three products are of eight-bit floats.

    Input [..., in_features] of float32, float16 or bfloat16 (of the region's dtype under autocast),
    result [..., out_features] of the same dtype. Input and weight are rounded to float8_e4m3fn, the
    incoming gradient to float8_e5m2, each after it was scaled so that its largest magnitude becomes
    the largest number of the dtype. Sums are float32, and rounded once. A matrix with an infinity or
    NaN is not scaled, and gives NaN where that is multiplied. Has no second derivative.

    A matrix is read twice to be scaled and converted: that pays where products are long, on GPUs that
    have products of eight-bit floats. Elsewhere they are made of bfloat16, and nothing is won.
    """

    @classmethod
    def from_float(cls, module):
        """The layer with the parameters of an `nn.Linear` (the same, no copies)."""
        if not isinstance(module, Linear):
            raise TypeError(
                f"Float8Linear.from_float: got {type(module).__name__}; expected an nn.Linear"
            )
        weight = module.weight
        if weight.dtype not in _HALF_AND_SINGLE:
            raise _C.DTypeError(
                f"Float8Linear.from_float: got a weight of {weight.dtype}; expected float32, float16 "
                "or bfloat16; convert the module with .to(dtype)"
            )
        new = cls.__new__(cls)
        Module.__init__(new)  # no parameters are made
        new.in_features, new.out_features = module.in_features, module.out_features
        new.weight = weight
        if module.bias is None:
            new.register_parameter("bias", None)
        else:
            new.bias = module.bias
        new.train(module.training)
        return new

    def forward(self, input):
        weight, bias = self.weight, self.bias
        if input.dim() < 1 or input.shape[-1] != self.in_features:
            raise _C.ShapeError(
                f"Float8Linear: got input {tuple(input.shape)}; expected "
                f"[..., {self.in_features}]; check in_features of the layer"
            )
        kind = input.device.type
        if is_autocast_enabled(kind):
            input = input.to(get_autocast_dtype(kind))
        if input.dtype not in _HALF_AND_SINGLE:
            raise _C.DTypeError(
                f"Float8Linear: got input of {input.dtype}; expected float32, float16 or bfloat16; "
                "convert it with .to(dtype)"
            )
        x = input.reshape(-1, self.in_features)
        y = _Product.apply(x, weight, bias, _C.is_grad_enabled())
        return y.reshape(*input.shape[:-1], self.out_features)


def convert_to_float8_training(module, module_filter_fn=None):
    """Makes the `nn.Linear` layers of a module `Float8Linear`, in place, and returns the module.

    Parameters stay the same objects, and state dicts the same. `module_filter_fn(layer, name)` says
    which layers to convert; all by default. Layers of classes derived from `nn.Linear` are left as
    they are. Where the module is a linear layer itself, the converted one is returned.
    """
    found = {}  # a layer in two places stays one

    def converted(layer, name):
        if type(layer) is not Linear or (module_filter_fn and not module_filter_fn(layer, name)):
            return None
        if id(layer) not in found:
            found[id(layer)] = Float8Linear.from_float(layer)
        return found[id(layer)]

    for name, parent in list(module.named_modules()):
        for key, child in list(parent._modules.items()):  # also one that is in two places
            new = converted(child, f"{name}.{key}" if name else key)
            if new is not None:
                setattr(parent, key, new)
    return converted(module, "") or module


_name_errors(__name__)
