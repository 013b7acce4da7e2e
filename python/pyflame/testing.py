"""Comparing results, for tests of programs; names as in torch.testing."""

import collections.abc
import math
import numbers

from . import _C
from ._named_errors import name_errors as _name_errors

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

_CLOSE = {  # relative and absolute differences that are allowed, by dtype
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def _tolerances(*dtypes, rtol, atol):
    if (rtol is None) != (atol is None):
        raise _C.ValueError(
            f"pf.testing.assert_close: got rtol={rtol} and atol={atol}; expected both or none; give "
            "the other one, too"
        )
    if rtol is not None:
        return rtol, atol
    found = [_CLOSE.get(d.name, (0.0, 0.0)) for d in dtypes]
    return max(r for r, _ in found), max(a for _, a in found)


class _Different(Exception):
    """What differs; the message has a place for where."""


def _as_tensor(value):
    """A tensor of what is one, or may be: numbers and arrays."""
    if isinstance(value, _C.Tensor):
        return value.detach()
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        import numpy as np

        return _C.tensor(np.asarray(value))
    return None


def _compare(actual, expected, how):
    if isinstance(actual, collections.abc.Mapping) and isinstance(
        expected, collections.abc.Mapping
    ):
        if set(actual) != set(expected):
            raise _Different(
                f"The keys of the mappings do not match: {list(actual)} and {list(expected)}"
            )
        for key in actual:
            _inside(actual[key], expected[key], key, how)
        return
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            raise _Different(f"The lengths do not match: {len(actual)} and {len(expected)}")
        for i, (a, b) in enumerate(zip(actual, expected)):
            _inside(a, b, i, how)
        return
    if actual is None or expected is None:
        if actual is not expected:
            raise _Different(f"None mismatch: {actual} is not {expected}")
        return
    if isinstance(actual, numbers.Number) and isinstance(expected, numbers.Number):
        return _compare_numbers(actual, expected, how)
    a, b = _as_tensor(actual), _as_tensor(expected)
    if a is None or b is None:
        raise TypeError(
            f"pf.testing.assert_close: got a {type(actual).__name__} and a "
            f"{type(expected).__name__}; expected tensors, arrays, numbers, or sequences and "
            "mappings of them; convert them first"
        )
    if not how["allow_subclasses"] and type(actual) is not type(expected):
        raise _Different(f"Types do not match: {type(actual)} and {type(expected)}")
    _compare_tensors(a, b, how)


def _is_sequence(value):
    return isinstance(value, collections.abc.Sequence) and not isinstance(value, str)


def _inside(a, b, key, how):
    try:
        _compare(a, b, how)
    except _Different as e:
        e.where = f"[{key!r}]" + getattr(e, "where", "")
        raise


def _compare_numbers(a, b, how):
    kind = _C.complex128 if isinstance(a, complex) or isinstance(b, complex) else (
        _C.float64 if isinstance(a, float) or isinstance(b, float) else _C.int64
    )  # fmt: skip
    if how["check_dtype"] and type(a) is not type(b):
        raise _Different(f"The types of the numbers do not match: {type(a)} and {type(b)}")
    rtol, atol = _tolerances(kind, rtol=how["rtol"], atol=how["atol"])
    if a == b or (how["equal_nan"] and a != a and b != b):
        return
    gap = abs(a - b)
    if math.isinf(abs(a)) or math.isinf(abs(b)) or not gap <= atol + rtol * abs(b):
        near = "equal" if rtol == atol == 0 else "close"
        raise _Different(
            f"Scalars are not {near}!\n\nExpected {b} but got {a}.\n"
            f"Absolute difference: {gap} (up to {atol} allowed)\n"
            f"Relative difference: {gap / abs(b) if b else float('inf')} (up to {rtol} allowed)"
        )


def _compare_tensors(a, b, how):
    if a.shape != b.shape:
        raise _Different(
            f"The values for attribute 'shape' do not match: {tuple(a.shape)} != {tuple(b.shape)}."
        )
    for name in ("dtype", "device", "stride"):
        mine, theirs = getattr(a, name), getattr(b, name)
        mine, theirs = (mine(), theirs()) if name == "stride" else (mine, theirs)
        if how[f"check_{name}"] and mine != theirs:
            raise _Different(f"The values for attribute '{name}' do not match: {mine} != {theirs}.")
    rtol, atol = _tolerances(a.dtype, b.dtype, rtol=how["rtol"], atol=how["atol"])
    import numpy as np

    x, y = _values(a), _values(b)
    if a.dtype != b.dtype:
        wide = np.promote_types(x.dtype, y.dtype)
        x, y = x.astype(wide), y.astype(wide)
    with np.errstate(all="ignore"):
        if x.dtype.kind in "fc" or rtol or atol:
            gap = np.abs(x.astype(np.promote_types(x.dtype, "f8")) - y)
            good = (x == y) | (np.isfinite(y) & (gap <= atol + rtol * np.abs(y)))
            if how["equal_nan"]:
                good |= np.isnan(x) & np.isnan(y)
        else:
            good = x == y
            gap = np.abs(x.astype("f8") - y.astype("f8"))
        if good.all():
            return
        relative = gap / np.abs(y)
    bad = ~good
    worst = np.where(bad & ~np.isnan(gap), gap, -1.0)
    far = np.where(bad & ~np.isnan(relative), relative, -1.0)
    at, at_far = np.unravel_index(worst.argmax(), worst.shape), np.unravel_index(
        far.argmax(), far.shape
    )  # fmt: skip
    near = "equal" if rtol == atol == 0 else "close"
    raise _Different(
        f"Tensor-likes are not {near}!\n\n"
        f"Mismatched elements: {int(bad.sum())} / {bad.size} ({100 * bad.mean():.1f}%)\n"
        f"Greatest absolute difference: {gap[at]} at index {tuple(map(int, at))} "
        f"(up to {atol} allowed)\n"
        f"Greatest relative difference: {relative[at_far]} at index {tuple(map(int, at_far))} "
        f"(up to {rtol} allowed)"
    )


def _values(t):
    """As NumPy sees it; dtypes that it lacks are widened."""
    try:
        return t.cpu().numpy()
    except (TypeError, _C.PyFlameError):
        return t.cpu().to(_C.float32).numpy()


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False,
                 check_device=True, check_dtype=True, check_layout=True, check_stride=False,
                 msg=None):  # fmt: skip
    """Raises AssertionError unless ``|actual - expected| <= atol + rtol * |expected|`` everywhere.

    Both may be tensors, arrays, numbers, None, or sequences and mappings of them. Without rtol and
    atol the differences allowed follow the dtype: 1.3e-6 and 1e-5 for float32, 1e-7 and 1e-7 for
    float64, 1e-3 and 1e-5 for float16, 1.6e-2 and 1e-5 for bfloat16, none for integers. `msg` is text
    in place of the message, or a function of it.
    """
    how = {
        "allow_subclasses": allow_subclasses, "rtol": rtol, "atol": atol, "equal_nan": equal_nan,
        "check_device": check_device, "check_dtype": check_dtype, "check_stride": check_stride,
    }  # fmt: skip
    try:
        _compare(actual, expected, how)
    except _Different as e:
        where = getattr(e, "where", "")
        text = f"{e}\n\nThe failure occurred for item {where}" if where else str(e)
        raise AssertionError(msg(text) if callable(msg) else msg or text) from None


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """assert_close() that converts what it is given: dtypes and devices may differ."""
    if not isinstance(actual, _C.Tensor):
        actual = _C.tensor(actual)
    if not isinstance(expected, _C.Tensor):
        expected = _C.tensor(expected, dtype=actual.dtype)
    if (rtol is None) != (atol is None):
        rtol, atol = rtol or 0.0, atol or 0.0
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=False,
        check_dtype=False, msg=msg or None,
    )  # fmt: skip


def make_tensor(*shape, dtype, device=None, low=None, high=None, requires_grad=False,
                noncontiguous=False, exclude_zero=False, memory_format=None):  # fmt: skip
    """A tensor of random values, evenly between `low` and `high`: -9 to 9 for floats and signed
    integers, 0 to 9 for unsigned ones, both values for bools."""
    from . import rand, randint

    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = tuple(shape[0])
    if not isinstance(dtype, _C.dtype):
        raise TypeError(f"pf.testing.make_tensor: got {dtype!r} as dtype; expected a dtype")
    double = shape[:-1] + (2 * shape[-1],) if noncontiguous and shape else shape
    if dtype is _C.bool:
        t = randint(0, 2, double, device=device).to(dtype)
    elif dtype.is_floating_point:
        low, high = -9.0 if low is None else low, 9.0 if high is None else high
        t = (rand(double, device=device) * (high - low) + low).to(dtype)
    elif dtype.is_complex:
        part = _C.float32 if dtype is _C.complex64 else _C.float64
        both = make_tensor((*double, 2), dtype=part, device=device, low=low, high=high)
        t = _C._functions["view_as_complex"](both)
    else:
        low = (-9 if dtype.is_signed else 0) if low is None else low
        t = randint(low, 10 if high is None else high, double, device=device).to(dtype)
    if exclude_zero:
        t = t.masked_fill(t == 0, 1)
    if noncontiguous and shape:
        t = t[..., ::2]
    if memory_format is not None:
        t = t.contiguous(memory_format=memory_format)
    return t.requires_grad_() if requires_grad else t


_name_errors(__name__, "assert_close")
