"""What the dtypes of the table hold, told without PyFlame: in Python's own numbers and NumPy."""

import math

import numpy as np

import pyflame as pf

# Every dtype of the table; a new one is in here by itself, and needs a line below.
ALL = sorted({v for v in vars(pf).values() if isinstance(v, pf.dtype)}, key=str)
NAMES = [str(d).split(".")[-1] for d in ALL]
ARITHMETIC = {
    pf.float64, pf.float32, pf.float16, pf.bfloat16, pf.int64, pf.int32, pf.int16, pf.int8,
    pf.uint8, pf.bool,
}  # fmt: skip
STORED = [d for d in ALL if d not in ARITHMETIC]
NUMPY = {
    pf.float64: np.float64, pf.float32: np.float32, pf.float16: np.float16, pf.bool: np.bool_,
    pf.int64: np.int64, pf.int32: np.int32, pf.int16: np.int16, pf.int8: np.int8,
    pf.uint8: np.uint8, pf.uint16: np.uint16, pf.uint32: np.uint32, pf.uint64: np.uint64,
    pf.complex64: np.complex64, pf.complex128: np.complex128,
}  # fmt: skip
# mantissa bits, bias, has infinity, is of the kind without -0
FLOAT8 = {
    pf.float8_e4m3fn: (3, 7, False, False),
    pf.float8_e5m2: (2, 15, True, False),
    pf.float8_e4m3fnuz: (3, 8, False, True),
    pf.float8_e5m2fnuz: (2, 16, False, True),
    pf.float8_e8m0fnu: None,
}


def float8_value(code, dtype):
    """What a byte stands for."""
    if dtype is pf.float8_e8m0fnu:
        return math.nan if code == 255 else math.ldexp(1.0, code - 127)
    mantissa, bias, infinite, unsigned_zero = FLOAT8[dtype]
    sign = -1.0 if code >= 128 else 1.0
    exponent, m = (code & 127) >> mantissa, code & ((1 << mantissa) - 1)
    top = (127 >> mantissa) == exponent
    if unsigned_zero:
        if code == 128:
            return math.nan
    elif infinite and top:
        return math.nan if m else sign * math.inf
    elif top and m == (1 << mantissa) - 1:
        return math.nan
    if exponent == 0:
        return sign * m * 2.0 ** (1 - bias - mantissa)
    return sign * (1 + m / (1 << mantissa)) * 2.0 ** (exponent - bias)


TABLES = {d: [float8_value(c, d) for c in range(256)] for d in FLOAT8}


def float8_nearest(x, dtype):
    """The value that a float becomes: the nearest one, of two the one with the even code."""
    x = float(np.float32(x))
    table = TABLES[dtype]
    if dtype is pf.float8_e8m0fnu:
        if not math.isfinite(x):
            return math.nan
        x = abs(x)
        m, e = math.frexp(x) if x else (0.5, -1000)  # 0.5 <= m < 1
        if x < 2.0**-126:  # below float32's normal numbers: halfway goes down
            return 2.0**-126 if x > 2.0**-127 else 2.0**-127
        r = e if m >= 0.75 else e - 1
        return math.nan if r > 127 else math.ldexp(1.0, r)
    if math.isnan(x):
        return math.nan
    mantissa, _, infinite, unsigned_zero = FLOAT8[dtype]
    codes = [c for c in range(128) if math.isfinite(table[c])]
    most = table[codes[-1]]
    step = most - table[codes[-2]]
    if abs(x) >= most + step / 2 and (abs(x) > most + step / 2 or codes[-1] % 2):
        if dtype is pf.float8_e4m3fn:
            return math.copysign(most, x)
        return math.copysign(math.inf, x) if infinite else math.nan
    best = min(codes, key=lambda c: (abs(table[c] - abs(x)), c % 2))
    if unsigned_zero and best == 0:
        return 0.0
    return math.copysign(table[best], x)


def wrapped(n, bits, signed):
    n &= (1 << bits) - 1
    return n - (1 << bits) if signed and n >> (bits - 1) else n


def bits_of(dtype):
    return 4 if dtype is pf.int4 else dtype.itemsize * 8


def kind_of(dtype):
    if dtype is pf.bool:
        return "bool"
    if dtype.is_complex:
        return "complex"
    return "float" if dtype.is_floating_point else "int"


def signed(dtype):
    return str(dtype).split(".")[-1].startswith("int")


def converted(x, dtype):
    """A Python number as an element of the dtype, as a Python number."""
    kind = kind_of(dtype)
    if kind == "complex":
        return complex(NUMPY[dtype](x))
    if kind == "bool":
        return x != 0
    if isinstance(x, complex):
        x = x.real
    if kind == "int":
        if isinstance(x, float) and not -(2.0**63) <= x < 2.0**63:
            if dtype is pf.uint64 and x > 0:
                return int(x) if x < 2.0**64 else 0
            x = -(2**63)
        return wrapped(math.trunc(x), bits_of(dtype), signed(dtype))
    with np.errstate(over="ignore"):
        if dtype in FLOAT8:
            return float8_nearest(np.float32(x), dtype)
        if dtype is pf.bfloat16:
            u = int(np.float32(x).view(np.uint32))
            if not math.isnan(x):
                u = (u + 0x7FFF + (u >> 16 & 1)) & 0xFFFF0000
            return float(np.uint32(u).view(np.float32))
        return float(NUMPY[dtype](np.float32(x) if dtype is pf.float16 else x))


def samples(dtype):
    """Numbers that the dtype holds, with its extremes."""
    kind = kind_of(dtype)
    if kind == "bool":
        return [False, True]
    if kind == "complex":
        return [0j, 1 + 2j, -0.5 + 0j, 3j, complex(-1.5, -256.0)]
    if kind == "int":
        bits = bits_of(dtype)
        low = -(1 << (bits - 1)) if signed(dtype) else 0
        high = (1 << (bits - signed(dtype))) - 1
        return sorted({low, low + 1, 0, 1, 2, 3, 5, high // 2, high - 1, high})
    if dtype is pf.float8_e8m0fnu:
        return [1.0, 2.0, 0.5, 2.0**-127, 2.0**127, 8.0]
    table = TABLES.get(dtype)
    if table:
        return [v for v in table[::7] if math.isfinite(v)]
    return [0.0, 1.0, -1.5, 0.5, 256.0, -3.0, 0.125]


def same(a, b):
    """Equal values of equal types, NaN equal to itself."""
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if type(a) is not type(b):
        return False
    if a != a:
        return b != b
    return a == b
