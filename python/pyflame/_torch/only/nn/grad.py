"""torch.nn.grad: gradients of convolutions by hand."""

from .... import _C
from ....autograd import enable_grad, grad


def _of(conv, what, x, weight, grad_output, options):
    with enable_grad():
        asked = (x if what == "input" else weight).detach().requires_grad_()
        out = conv(asked, weight, None, *options) if what == "input" else conv(
            x, asked, None, *options
        )  # fmt: skip
        return grad(out, asked, grad_output)[0]


def _pair(n):
    conv = _C._functions[f"conv{n}d"]

    def conv_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
        x = _C._functions["zeros"](input_size, dtype=weight.dtype, device=weight.device)
        options = (stride, padding, dilation, groups)
        return _of(conv, "input", x, weight.detach(), grad_output, options)

    def conv_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
        w = _C._functions["zeros"](weight_size, dtype=input.dtype, device=input.device)
        options = (stride, padding, dilation, groups)
        return _of(conv, "weight", input.detach(), w, grad_output, options)

    conv_input.__doc__ = f"The gradient of conv{n}d by its input, of size `input_size`."
    conv_weight.__doc__ = f"The gradient of conv{n}d by its weight, of size `weight_size`."
    conv_input.__name__, conv_weight.__name__ = f"conv{n}d_input", f"conv{n}d_weight"
    return conv_input, conv_weight


conv1d_input, conv1d_weight = _pair(1)
conv2d_input, conv2d_weight = _pair(2)
conv3d_input, conv3d_weight = _pair(3)
