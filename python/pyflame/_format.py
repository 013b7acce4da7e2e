"""How tensors are printed."""

import math

from . import _C


class _Options:
    precision = 4
    threshold = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode = None


def set_printoptions(
    precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None
):
    """Sets how tensors are printed; names as in torch.set_printoptions."""
    o = _Options
    profiles = {
        "default": (4, 1000, 3, 80),
        "short": (2, 1000, 2, 80),
        "full": (4, math.inf, 3, 80),
    }
    if profile is not None:
        o.precision, o.threshold, o.edgeitems, o.linewidth = profiles[profile]
        o.sci_mode = None
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems}
    given |= {"linewidth": linewidth, "sci_mode": sci_mode}
    for name, value in given.items():
        if value is not None:
            setattr(o, name, value)


def _shown(t, summarize):
    """Values as nested lists; Ellipsis stands for what is left out."""
    if t.dim() == 0:
        return t.item()
    n, edge = t.size(0), _Options.edgeitems
    if t.dim() == 1:
        if summarize and n > 2 * edge:
            return [*t[:edge].tolist(), Ellipsis, *t[n - edge :].tolist()]
        return t.tolist()
    if summarize and n > 2 * edge:
        head = [_shown(t[i], True) for i in range(edge)]
        return [*head, Ellipsis, *(_shown(t[i], True) for i in range(n - edge, n))]
    if not summarize:
        return t.tolist()
    return [_shown(t[i], True) for i in range(n)]


def _flat(values):
    if isinstance(values, list):
        for v in values:
            yield from _flat(v)
    elif values is not Ellipsis:
        yield values


class _Complex:
    """Real and imaginary parts, each in a column of its own."""

    def __init__(self, values):
        self.real = _Formatter([v.real for v in values], True)
        self.imag = _Formatter([v.imag for v in values], True)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, v):
        imag = self.imag(v.imag).strip()
        return self.real(v.real) + ("" if imag[0] == "-" else "+") + imag + "j"


class _Formatter:
    def __init__(self, values, is_float):
        self.is_float = is_float
        if not is_float:
            self.width = max((len(str(v)) for v in values), default=1)
            return
        p = _Options.precision
        some = [v for v in values if math.isfinite(v) and v != 0]
        self.whole = all(v == math.ceil(v) for v in some)
        self.scientific = False
        self.width = 1
        if some:
            big, small = max(map(abs, some)), min(map(abs, some))
            self.scientific = big / small > 1000 or big > 1e8 or (not self.whole and small < 1e-4)
        if _Options.sci_mode is not None:
            self.scientific = _Options.sci_mode
        if self.scientific:
            self.text = f"{{:.{p}e}}".format
        elif self.whole:
            self.text = "{:.0f}".format
        else:
            self.text = f"{{:.{p}f}}".format
        point = 1 if self.whole and not self.scientific else 0
        self.width = max((len(self.text(v)) + point for v in some), default=1)

    def __call__(self, v):
        if not self.is_float:
            s = str(v)
        else:
            s = self.text(v)
            if self.whole and not self.scientific and math.isfinite(v):
                s += "."
        return s.rjust(self.width)


def _layout(values, depth, fmt, indent):
    if depth == 0:
        return fmt(values)
    if depth == 1:
        per_line = max(1, (_Options.linewidth - indent) // (fmt.width + 2))
        items = [" ..." if v is Ellipsis else fmt(v) for v in values]
        lines = [items[i : i + per_line] for i in range(0, len(items), per_line)]
        gap = ",\n" + " " * (indent + 1)
        return "[" + gap.join(", ".join(line) for line in lines) + "]"
    parts = ["..." if v is Ellipsis else _layout(v, depth - 1, fmt, indent + 1) for v in values]
    return "[" + ("," + "\n" * (depth - 1) + " " * (indent + 1)).join(parts) + "]"


def tensor_text(plain, indent):
    """The values of a tensor that has no history."""
    if plain.numel() == 0:
        return "[]"
    if plain.dtype is _C.int4:  # its elements have no addresses, to show some of them
        plain = plain.to(_C.int8)
    values = _shown(plain, plain.numel() > _Options.threshold)
    flat, dtype = list(_flat(values)), plain.dtype
    fmt = _Complex(flat) if dtype.is_complex else _Formatter(flat, dtype.is_floating_point)
    return _layout(values, plain.dim(), fmt, indent)


def with_suffixes(text, suffixes, indent, force_newline=False):
    """What stands behind the values, in lines of the width that is set, and the parenthesis."""
    last = len(text) - text.rfind("\n") + 1
    for s in suffixes:
        if force_newline or last + len(s) + 2 > _Options.linewidth:
            text += ",\n" + " " * indent
            last = indent + len(s)
            force_newline = False
        else:
            text += ", "
            last += len(s) + 2
        text += s
    return text + ")"


def tensor_repr(t):
    """Text of a tensor as torch prints it; a subclass's begins with its name."""
    cls = type(t)
    own = cls is _C.Tensor or cls.__module__.partition(".")[0] == "pyflame"
    start = "tensor(" if own else cls.__name__ + "("
    dtype, device = t.dtype, t.device
    levels = _C._hidden_levels(t)
    if levels:
        return f"{start}..., size={tuple(t.shape)}, dtype={dtype}, differs over vmap of {[n for _, n in levels]})"
    grad_fn = t.grad_fn
    requires_grad = t.requires_grad
    on = _C.is_grad_enabled()
    _C._set_grad_enabled(False)
    try:
        # As a plain tensor: a subclass's __torch_function__ may print what it is called with.
        plain = _C.Tensor.as_subclass(t, _C.Tensor).detach()
        plain = plain if t.is_meta else plain.cpu()
        body = "..." if t.is_meta else tensor_text(plain, len(start))
    finally:
        _C._set_grad_enabled(on)
    suffixes = []
    if device.type != "cpu":
        suffixes.append(f"device='{device}'")
    plain_types = [_C.get_default_dtype(), _C.int64, _C.bool]
    plain_types.append(_C.complex128 if plain_types[0] is _C.float64 else _C.complex64)
    if plain.numel() == 0 or t.is_meta:
        if plain.dim() != 1 or t.is_meta:
            suffixes.append(f"size={tuple(t.shape)}")
        if dtype is not plain_types[0]:
            suffixes.append(f"dtype={dtype}")
    elif dtype not in plain_types:
        suffixes.append(f"dtype={dtype}")
    if grad_fn is not None:
        suffixes.append(f"grad_fn=<{grad_fn.name()}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    return with_suffixes(start + body, suffixes, len(start))
