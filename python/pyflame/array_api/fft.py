"""The standard's extension for Fourier transforms, on :mod:`pyflame.fft`."""

from .. import fft as _fft

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _along(name):
    ours = getattr(_fft, name)

    def function(x, /, *, n=None, axis=-1, norm="backward"):
        return ours(x, n, axis, norm)

    return function


def _over(name):
    ours = getattr(_fft, name)

    def function(x, /, *, s=None, axes=None, norm="backward"):
        return ours(x, s, axes, norm)

    return function


for _kind, _names in (
    (_along, "fft ifft rfft irfft hfft ihfft"),
    (_over, "fftn ifftn rfftn irfftn"),
):
    for _name in _names.split():
        _f = _kind(_name)
        _f.__name__ = _f.__qualname__ = _name
        _f.__doc__ = f"pyflame.fft.{_name}."
        globals()[_name] = _f
        __all__.append(_name)


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    return _fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    return _fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x, /, *, axes=None):
    return _fft.fftshift(x, axes)


def ifftshift(x, /, *, axes=None):
    return _fft.ifftshift(x, axes)
