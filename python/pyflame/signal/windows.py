"""Windows under their names in torch.signal.windows: M samples, symmetric, or (sym=False) one period
of a periodic one."""

import math

from .. import _C

_functions = _C._functions

__path__ = []  # for modules below it: _aliases.py

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip


def _places(name, count, sym, dtype, device, layout):
    """0 to M - 1, and the length that the formula has: of a periodic window one more."""
    if dtype not in (None, _C.float32, _C.float64) or layout not in (None, "strided"):
        raise _C.ValueError(
            f"pf.signal.windows.{name}: got dtype {dtype} and layout {layout}; expected float32 or "
            "float64, and strided; convert the window"
        )
    if count < 0:
        raise _C.ValueError(
            f"pf.signal.windows.{name}: got M {count}; expected at least 0; correct it"
        )
    k = _functions["arange"](count, dtype=dtype or _C.get_default_dtype(), device=device)
    return k, count if sym else count + 1


def _done(window, requires_grad):
    return window.requires_grad_() if requires_grad else window


def general_cosine(M, *, a, sym=True, dtype=None, layout=None, device=None, requires_grad=False):  # noqa: N803
    """sum over i of (-1)^i a[i] cos(2 pi i k / (M - 1))."""
    a = list(a)
    if not a:
        raise _C.ValueError(
            "pf.signal.windows.general_cosine: got no coefficients; expected at least one; pass a"
        )
    k, length = _places("general_cosine", M, sym, dtype, device, layout)
    if M <= 1:
        return _done(_functions["ones_like"](k), requires_grad)
    angle = k * (2 * math.pi / (length - 1))
    window = _functions["full_like"](k, a[0])
    for i, factor in enumerate(a[1:], 1):
        window = window + (-1) ** i * factor * (angle * i).cos()
    return _done(window, requires_grad)


def general_hamming(
    M, *, alpha=0.54, sym=True, dtype=None, layout=None, device=None, requires_grad=False
):  # noqa: N803
    """alpha - (1 - alpha) cos(2 pi k / (M - 1))."""
    return general_cosine(
        M,
        a=[alpha, 1 - alpha],
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


def hamming(M, **how):  # noqa: N803
    """general_hamming with alpha 0.54."""
    return general_hamming(M, **how)


def hann(M, **how):  # noqa: N803
    """general_hamming with alpha 0.5: a raised cosine."""
    return general_hamming(M, alpha=0.5, **how)


def blackman(M, **how):  # noqa: N803
    """general_cosine of 0.42, 0.5 and 0.08."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], **how)


def nuttall(M, **how):  # noqa: N803
    """general_cosine of Nuttall's four coefficients."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], **how)


def bartlett(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):  # noqa: N803
    """A triangle: 1 - |2 k / (M - 1) - 1|."""
    k, length = _places("bartlett", M, sym, dtype, device, layout)
    if M <= 1:
        return _done(_functions["ones_like"](k), requires_grad)
    return _done(1 - (k * (2 / (length - 1)) - 1).abs(), requires_grad)


def cosine(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):  # noqa: N803
    """sin(pi (k + 1/2) / M)."""
    k, length = _places("cosine", M, sym, dtype, device, layout)
    if M <= 1:
        return _done(_functions["ones_like"](k), requires_grad)
    return _done(((k + 0.5) * (math.pi / length)).sin(), requires_grad)


def exponential(
    M, *, center=None, tau=1.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False
):  # noqa: N803
    """exp(-|k - center| / tau), with the center of the window by default."""
    if tau <= 0 or (sym and center is not None):
        raise _C.ValueError(
            f"pf.signal.windows.exponential: got tau {tau} and center {center}; expected tau above "
            "0, and no center of a symmetric window; pass sym=False"
        )
    k, length = _places("exponential", M, sym, dtype, device, layout)
    if M <= 1:
        return _done(_functions["ones_like"](k), requires_grad)
    center = (length - 1) / 2 if center is None else center
    return _done((-(k - center).abs() / tau).exp(), requires_grad)


def gaussian(M, *, std=1.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False):  # noqa: N803
    """exp(-((k - center) / std)^2 / 2)."""
    if std <= 0:
        raise _C.ValueError(
            f"pf.signal.windows.gaussian: got std {std}; expected above 0; correct it"
        )
    k, length = _places("gaussian", M, sym, dtype, device, layout)
    if M <= 1:
        return _done(_functions["ones_like"](k), requires_grad)
    return _done((-0.5 * ((k - (length - 1) / 2) / std) ** 2).exp(), requires_grad)


def kaiser(M, *, beta=12.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False):  # noqa: N803
    """I0(beta sqrt(1 - (2 k / (M - 1) - 1)^2)) / I0(beta)."""
    if beta < 0:
        raise _C.ValueError(
            f"pf.signal.windows.kaiser: got beta {beta}; expected at least 0; correct it"
        )
    k, length = _places("kaiser", M, sym, dtype, device, layout)
    if M <= 1:
        return _done(_functions["ones_like"](k), requires_grad)
    inside = (1 - (k * (2 / (length - 1)) - 1) ** 2).clamp(min=0)
    i0e = _C._special["special_i0e"]
    # exp(x) I0e(x) over exp(beta) I0e(beta): without overflow
    x, most = beta * inside.sqrt(), _functions["full_like"](k, beta)
    return _done((x - beta).exp() * i0e(x) / i0e(most), requires_grad)
