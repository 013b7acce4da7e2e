"""Layers that add elements around the last dimensions; see nn.functional.pad."""

from . import functional as F
from .module import Module

_KINDS = ("Constant", "Zero", "Reflection", "Replication", "Circular")
__all__ = [f"{kind}Pad{d}d" for kind in _KINDS for d in (1, 2, 3)]


class _Pad(Module):
    """`padding` is one number for all sides, or (left, right[, top, bottom[, front, back]])."""

    _mode = "constant"
    _value = None
    _dims = 1

    def __init__(self, padding):
        super().__init__()
        self.padding = (padding,) * (2 * self._dims) if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != 2 * self._dims:
            raise ValueError(
                f"pf.nn.{type(self).__name__}: got {len(self.padding)} numbers; expected one, or "
                f"{2 * self._dims}: two for each padded dimension"
            )

    def forward(self, input):
        return F.pad(input, self.padding, self._mode, self._value)

    def extra_repr(self):
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = self._value = value

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


def _layer(name, base, dims, **fields):
    doc = f"{name[:-5].capitalize()} padding of the last {dims} dimension{'s' * (dims > 1)}."
    space = {"__doc__": doc, "__module__": __name__, "_dims": dims, **fields}
    return type(name, (base,), space)


for _d in (1, 2, 3):
    globals()[f"ConstantPad{_d}d"] = _layer(f"ConstantPad{_d}d", _ConstantPad, _d)
    globals()[f"ZeroPad{_d}d"] = _layer(f"ZeroPad{_d}d", _Pad, _d)
    for _name, _mode in (
        ("Reflection", "reflect"),
        ("Replication", "replicate"),
        ("Circular", "circular"),
    ):
        globals()[f"{_name}Pad{_d}d"] = _layer(f"{_name}Pad{_d}d", _Pad, _d, _mode=_mode)
