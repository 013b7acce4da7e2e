"""Convolutions and transposed convolutions over 1 to 3 dimensions of space; see nn.functional."""

import operator

from .. import _ops
from . import functional as F
from .module import Module
from .parameter import Parameter
from .sizes import whole_numbers

__all__ = [f"Conv{kind}{d}d" for kind in ("", "Transpose") for d in (1, 2, 3)]
_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What convolutions share: their numbers, and start values uniform in ±1/sqrt(fan_in)."""

    _dims = 2
    transposed = False
    output_padding = None

    def __init__(
        self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
        padding_mode, device, dtype,
    ):  # fmt: skip
        super().__init__()
        name = f"pf.nn.{type(self).__name__}"
        whole_numbers(self, in_channels=in_channels, out_channels=out_channels, groups=groups)
        if groups <= 0 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{name}: got {in_channels} and {out_channels} channels in {groups} groups; "
                "expected groups that divide both"
            )
        if padding_mode not in _MODES:
            raise ValueError(f"{name}: got padding_mode {padding_mode!r}; expected one of {_MODES}")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = self._each(kernel_size, "kernel_size")
        self.stride = self._each(stride, "stride")
        self.padding = padding if isinstance(padding, str) else self._each(padding, "padding")
        self.dilation = self._each(dilation, "dilation")
        self.groups = groups
        self.padding_mode = padding_mode
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"{name}: got padding {padding!r}; expected 'same' or 'valid'")
            if padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError(f"{name}: padding='same' needs a stride of 1; got {self.stride}")
        outer = (in_channels, out_channels // groups)
        if not self.transposed:
            outer = (out_channels, in_channels // groups)
        shape = (*outer, *self.kernel_size)
        self.weight = Parameter(_ops.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_ops.empty((out_channels,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _each(self, value, what):
        if hasattr(value, "__index__"):
            return (operator.index(value),) * self._dims
        try:
            value = tuple(map(operator.index, value))
        except TypeError:
            raise TypeError(
                f"pf.nn.{type(self).__name__}: got {what}={value!r}; expected a whole number, or "
                f"{self._dims} of them"
            ) from None
        if len(value) != self._dims:
            raise ValueError(
                f"pf.nn.{type(self).__name__}: got {what} {value}; expected one number or "
                f"{self._dims}"
            )
        return value

    def reset_parameters(self):
        _ops._init_linear_(self.weight, self.bias)

    def _around(self):
        """Padding of both ends of each dimension, the last one first, as nn.functional.pad has it."""
        if self.padding == "valid":
            return (0,) * (2 * self._dims)
        if self.padding == "same":
            whole = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size)]
            return tuple(p for w in reversed(whole) for p in (w // 2, w - w // 2))
        return tuple(p for p in reversed(self.padding) for _ in range(2))

    def extra_repr(self):
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        for name, usual in (
            ("padding", (0,) * self._dims),
            ("dilation", (1,) * self._dims),
            ("output_padding", (0,) * self._dims),
            ("groups", 1),
        ):
            value = getattr(self, name)
            if value is not None and value != usual:
                text += f", {name}={value}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Conv(_ConvNd):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1,
        bias=True, padding_mode="zeros", device=None, dtype=None,
    ):  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input):
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._around(), self.padding_mode), 0
        return self._function(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )


class _ConvTranspose(_ConvNd):
    transposed = True

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0,
        groups=1, bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None,
    ):  # fmt: skip
        if padding_mode != "zeros" or isinstance(padding, str):
            raise ValueError(
                f"pf.nn.{type(self).__name__}: got padding {padding!r} of mode {padding_mode!r}; "
                "expected numbers and 'zeros'"
            )
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip
        self.output_padding = self._each(output_padding, "output_padding")

    def forward(self, input, output_size=None):
        extra = self.output_padding
        if output_size is not None:
            extra = self._padding_for(input, tuple(output_size))
        return self._function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    def _padding_for(self, input, size):
        """The output_padding that gives a result of this size, of all dimensions or those of space."""
        n = self._dims
        if len(size) not in (n, input.ndim):
            raise ValueError(
                f"pf.nn.{type(self).__name__}: got output_size {size}; expected {n} sizes, or "
                f"{input.ndim} with batch and channels"
            )
        extra = []
        for d in range(n):
            least = (input.shape[d - n] - 1) * self.stride[d] - 2 * self.padding[d]
            least += self.dilation[d] * (self.kernel_size[d] - 1) + 1
            want = size[d - n]
            if not least <= want < least + self.stride[d]:
                raise ValueError(
                    f"pf.nn.{type(self).__name__}: got output_size {size} for an input of shape "
                    f"{tuple(input.shape)}; expected {least} to {least + self.stride[d] - 1} in "
                    f"dimension {d} of space"
                )
            extra.append(want - least)
        return tuple(extra)


def _layer(name, base, dims):
    what = "transposed convolution" if base is _ConvTranspose else "convolution"
    function = f"conv{'_transpose' if base is _ConvTranspose else ''}{dims}d"
    doc = (
        f"A {what} over {dims} dimension{'s' * (dims > 1)} of space: nn.functional.{function} with "
        "a weight, and a bias unless bias=False, that start uniform in ±1/sqrt(fan_in)."
    )
    space = {
        "__doc__": doc,
        "__module__": __name__,
        "_dims": dims,
        "_function": staticmethod(getattr(F, function)),
    }
    return type(name, (base,), space)


for _d in (1, 2, 3):
    globals()[f"Conv{_d}d"] = _layer(f"Conv{_d}d", _Conv, _d)
    globals()[f"ConvTranspose{_d}d"] = _layer(f"ConvTranspose{_d}d", _ConvTranspose, _d)
