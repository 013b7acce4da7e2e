"""Layers of pooling; see the functions of the same names in nn.functional."""

from . import functional as F
from .module import Module

__all__ = [
    f"{kind}{d}d"
    for kind in (
        "MaxPool", "AvgPool", "AdaptiveMaxPool", "AdaptiveAvgPool", "MaxUnpool", "LPPool",
        "FractionalMaxPool",
    )
    for d in (1, 2, 3)
    if kind != "FractionalMaxPool" or d > 1
]  # fmt: skip


class _MaxPool(Module):
    """The largest element of each window; with return_indices also where it is."""

    def __init__(
        self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False,
        ceil_mode=False,
    ):  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input):
        return getattr(F, self._function)(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
            self.return_indices,
        )  # fmt: skip

    def extra_repr(self):
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class _AvgPool(Module):
    """The average of each window."""

    def __init__(
        self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
        divisor_override=None,
    ):  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input):
        more = (self.divisor_override,) if self._function != "avg_pool1d" else ()
        return getattr(F, self._function)(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, *more,
        )  # fmt: skip

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """nn.functional.avg_pool1d."""

    _function = "avg_pool1d"

    def __init__(
        self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True
    ):
        stride = kernel_size if stride is None else stride
        sizes = (
            tuple(v) if isinstance(v, tuple | list) else (v,)
            for v in (kernel_size, stride, padding)
        )
        super().__init__(*sizes, ceil_mode, count_include_pad)


class _Adaptive(Module):
    """`output_size` windows that cover a dimension evenly; None keeps its size."""

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, input):
        return getattr(F, self._function)(input, self.output_size)

    def extra_repr(self):
        return f"output_size={self.output_size}"


class _AdaptiveMax(_Adaptive):
    def __init__(self, output_size, return_indices=False):
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input):
        return getattr(F, self._function)(input, self.output_size, self.return_indices)


class _MaxUnpool(Module):
    """Values at the places that a max pool gave, zeros elsewhere."""

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding

    def forward(self, input, indices, output_size=None):
        return getattr(F, self._function)(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _LPPool(Module):
    """The norm of each window."""

    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input):
        return getattr(F, self._function)(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self):
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class _FractionalMaxPool(Module):
    """The largest element of windows at random places."""

    def __init__(
        self, kernel_size, output_size=None, output_ratio=None, return_indices=False,
        _random_samples=None,
    ):  # fmt: skip
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"pf.nn.{type(self).__name__}: expected one of output_size and output_ratio, and "
                "not both"
            )
        self.kernel_size = kernel_size
        self.output_size = output_size
        self.output_ratio = output_ratio
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input):
        return getattr(F, self._function)(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            self._random_samples,
        )  # fmt: skip


def _layers(base, kind, function, dims):
    for d in dims:
        name = f"{kind}{d}d"
        body = {"_function": f"{function}{d}d", "__doc__": f"nn.functional.{function}{d}d."}
        globals()[name] = type(name, (base,), {**body, "__module__": __name__})


_layers(_MaxPool, "MaxPool", "max_pool", (1, 2, 3))
_layers(_AvgPool, "AvgPool", "avg_pool", (2, 3))
_layers(_AdaptiveMax, "AdaptiveMaxPool", "adaptive_max_pool", (1, 2, 3))
_layers(_Adaptive, "AdaptiveAvgPool", "adaptive_avg_pool", (1, 2, 3))
_layers(_MaxUnpool, "MaxUnpool", "max_unpool", (1, 2, 3))
_layers(_LPPool, "LPPool", "lp_pool", (1, 2, 3))
_layers(_FractionalMaxPool, "FractionalMaxPool", "fractional_max_pool", (2, 3))
