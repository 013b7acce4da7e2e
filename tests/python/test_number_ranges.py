"""Numbers that a dtype does not hold are refused where they would be stored, and wrap where they
are calculated with, as in PyTorch."""

import itertools
import math
import operator

import pytest
from dtype_reference import ALL, bits_of, kind_of, signed

import pyflame as pf
import pyflame.nn.functional as F

INTEGERS = [d for d in ALL if kind_of(d) == "int"]
FLOATS = {
    pf.float16: 65504.0, pf.bfloat16: 3.3895313892515355e38, pf.float32: 3.4028234663852886e38,
    pf.float8_e4m3fn: 448.0, pf.float8_e5m2: 57344.0, pf.float8_e4m3fnuz: 240.0,
    pf.float8_e5m2fnuz: 57344.0, pf.complex64: 3.4028234663852886e38,
}  # fmt: skip


def stores(dtype):
    """Name and function(number) of everything that puts a number into a tensor of the dtype."""
    x = pf.ones(4, 4, dtype=dtype)
    y = {
        "full": lambda v: pf.full((4, 4), v, dtype=dtype),
        "full_like": lambda v: pf.full_like(x, v),
        "new_full": lambda v: x.new_full((2,), v),
        "fill_": lambda v: x.clone().fill_(v),
        "scalar_tensor": lambda v: pf.scalar_tensor(v, dtype=dtype),
    }
    if dtype is not pf.int4:
        y["setitem"] = lambda v: x.clone().__setitem__((0, 1), v)
        y["setitem slice"] = lambda v: x.clone().__setitem__(slice(1, 2), v)
        y["pad"] = lambda v: F.pad(x, (1, 1), value=v)
        y["setitem index"] = lambda v: x.clone().__setitem__(pf.tensor([1, 2]), v)
        y["index_fill"] = lambda v: x.index_fill(0, pf.tensor([1]), v)
        y["scatter"] = lambda v: x.scatter(0, pf.tensor([[0, 1]]), v)
        y["fill_diagonal_"] = lambda v: x.clone().fill_diagonal_(v)
    if dtype in (
        pf.int64,
        pf.int32,
        pf.int16,
        pf.int8,
        pf.uint8,
        pf.float16,
        pf.bfloat16,
        pf.float32,
    ):
        mask = pf.tensor([True, False, True, False])
        y["masked_fill"] = lambda v: x.masked_fill(mask, v)
        y["masked_fill_"] = lambda v: x.clone().masked_fill_(mask, v)
        y["setitem mask"] = lambda v: x.clone().__setitem__(mask, v)
        y["where"] = lambda v: pf.where(mask, x, v)
        y["where other"] = lambda v: pf.where(mask, v, x)
        y["clamp"] = lambda v: x.clamp(max=v)
        y["clamp_"] = lambda v: x.clone().clamp_(v, v)
    return y


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_out_of_range(dtype):
    bits = bits_of(dtype)
    high = (1 << (bits - signed(dtype))) - 1
    low = -high - 1 if signed(dtype) else max(-high, -(2**63))  # negatives of unsigned ones wrap
    for name, store in stores(dtype).items():
        for good in (low, high):
            if name in ("clamp", "clamp_") and good < 0 and not signed(dtype):
                with pytest.raises(pf.ValueError, match="at least 0"):
                    store(good)  # nothing would be left
                continue
            store(good)
        for bad in (low - 1, high + 1, 2**40 if bits < 40 else 2**64 + 1, -(2**63) - 1):
            if low <= bad <= high:
                continue
            with pytest.raises((pf.ValueError, OverflowError)):
                store(bad)
                pf.synchronize()
        if name in ("where", "where other", "clamp", "clamp_", "masked_fill", "masked_fill_",
                    "setitem mask", "index_fill", "scatter"):  # fmt: skip
            continue  # give a float tensor, or refuse fractions
        for bad in (math.nan, math.inf, -math.inf, 2.0**65, float(low) * 2 - 2.0**53):
            with pytest.raises(pf.PyFlameError):
                store(bad)
    for bad in (high + 1, -high - 2):
        with pytest.raises((pf.ValueError, OverflowError)):
            pf.tensor([bad], dtype=dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_out_of_range(dtype):
    most = FLOATS[dtype]
    infinite = dtype not in (pf.float8_e4m3fn, pf.float8_e4m3fnuz, pf.float8_e5m2fnuz)
    for store in stores(dtype).values():
        for good in (most, -most, 1, True, math.nan, *((math.inf, -math.inf) if infinite else ())):
            store(good)
        bad = [most * 1.5, -most * 1.5, 1e300, *(() if infinite else (math.inf,))]
        for v in bad:
            with pytest.raises(pf.ValueError):
                store(v)


def test_what_is_calculated_with_wraps():
    x = pf.ones(2, dtype=pf.int8)
    assert (x + 300).tolist() == [45, 45] and (x * 300).tolist() == [44, 44]
    assert (x < 300).tolist() == [True, True] and (x == 300).tolist() == [False, False]
    assert (x // 300).tolist() == [0, 0]
    for run in (lambda: x**300, lambda: pf.add(x, x, alpha=300), lambda: F.hardtanh(x, -300, 300),
                lambda: F.threshold(x, 300, 5), lambda: pf.linspace(0, 300, 3, dtype=pf.int8)):  # fmt: skip
        with pytest.raises(pf.ValueError):
            run()
    y = pf.ones(2, dtype=pf.int32)
    for op in (pf.floor_divide, pf.remainder, pf.fmod):
        with pytest.raises(pf.ValueError):
            op(y, 2**32)  # would be 0
        with pytest.raises(pf.ValueError):
            op(y, 0)
    assert (pf.ones(2) + 2**63).tolist() == [2.0**63] * 2


@pytest.mark.cpu_only
def test_as_pytorch_decides():
    """The same numbers into the same functions: taken by both or refused by both."""
    torch = pytest.importorskip("torch")
    numbers = [0, 1, -1, 127, 128, -128, -129, 255, 256, -255, -256, 300, 32767, 32768, 65535, 65536,
               2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, -(2**31) - 1, -(2**63),
               0.5, 127.5, 300.7, 65504.0, 65520.0, 1e30, 3.4e38, 3.5e38, 1e300, math.inf, math.nan,
               448.0, 449.0, True]  # fmt: skip
    names = ["int8", "uint8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16",
             "bfloat16", "float32", "float64", "bool", "float8_e4m3fn", "float8_e5m2"]  # fmt: skip

    def outcome(m, name, v):
        try:
            return m.full((2,), v, dtype=getattr(m, name)).double().tolist()
        except (RuntimeError, OverflowError, ValueError, TypeError):
            return None

    for name, v in itertools.product(names, numbers):
        if name in ("int64", "uint64") and v in (1e30, 3.4e38, 3.5e38, 1e300):
            continue
        assert str(outcome(pf, name, v)) == str(outcome(torch, name, v)), (name, v)


def test_integers_past_64_bits():
    for run in (lambda: pf.full((2,), 2**64), lambda: pf.ones(2) + 2**64,
                lambda: pf.ones(2).fill_(-(2**70)), lambda: pf.tensor([2**64])):  # fmt: skip
        with pytest.raises((pf.ValueError, OverflowError)):
            run()
    assert pf.tensor(2**64, dtype=pf.float64).item() == 2.0**64


@pytest.mark.parametrize("dtype", [pf.int64, pf.int32, pf.int16, pf.int8, pf.uint8], ids=str)
def test_comparisons_with_any_integer(dtype):
    values = [0, 1, 50, 127] + ([-1, -128] if signed(dtype) else [])
    high = (1 << (bits_of(dtype) - signed(dtype))) - 1
    values += [high, -high - 1 if signed(dtype) else 0]
    numbers = [0, -1, 127, 300, 2**31, -(2**31) - 1, 2**32 + 50, -(2**40), 2**63 - 1, -(2**63),
               2**63, 2**64 - 1]  # fmt: skip
    for x in (pf.tensor(values, dtype=dtype), pf.tensor(values[0], dtype=dtype)):
        listed = x.tolist() if x.ndim else [x.tolist()]
        for n in numbers:
            for name in ("lt", "le", "gt", "ge", "eq", "ne"):
                compare = getattr(operator, name)
                got = [compare(x, n), getattr(x, name)(n)]
                if n != -(2**63):
                    got.append(getattr(x.clone(), name + "_")(n))
                want = [compare(v, n) for v in listed]
                for r in got:
                    r = r.tolist() if x.ndim else [r.tolist()]
                    assert [bool(v) for v in r] == want, (n, name)
                assert compare(n, x).reshape(-1).tolist() == [compare(n, v) for v in listed]
    assert (pf.tensor([[True], [False]]) < 2**63).tolist() == [[True], [True]]
    assert pf.zeros(0, 3, dtype=dtype).lt(2**63).shape == (0, 3)


def test_the_greater_of_a_number_beyond_the_dtype():
    x = pf.ones(2, dtype=pf.int8)
    for name in ("maximum", "minimum", "fmax", "fmin", "heaviside"):
        with pytest.raises(pf.ValueError, match=f"pf.{name}: got 300"):
            getattr(pf, name)(x, 300)
        assert getattr(pf, name)(x, 1).dtype == pf.int8


def test_floats_of_the_upper_half_of_uint64():
    for v in (1e19, 2.0**63, 2.0**64 - 2048, 2.0**63 - 1024, 0.0):
        assert pf.full((2,), v, dtype=pf.uint64).tolist() == [int(v)] * 2
        assert pf.zeros(2, dtype=pf.uint64).fill_(v).tolist() == [int(v)] * 2


def test_factors_of_numbers_beside_integers():
    x, mask = pf.tensor([1, 2]), pf.tensor([True, False])
    calls = [
        lambda a: pf.add(1, x, alpha=a), lambda a: pf.sub(1, x, alpha=a), lambda a: pf.add(x, 3, alpha=a),
        lambda a: pf.sub(x, 3, alpha=a), lambda a: pf.rsub(x, 3, alpha=a), lambda a: x.clone().add_(3, alpha=a),
        lambda a: x.clone().sub_(3, alpha=a),
    ]  # fmt: skip
    want = [[3, 5], [-1, -3], [7, 8], [-5, -4], [1, -1], [7, 8], [-5, -4]]
    for call, w in zip(calls, want):
        with pytest.raises(pf.ValueError, match="alpha 0.5"):
            call(0.5)
        for whole in (2, 2.0):
            r = call(whole)
            assert r.dtype == pf.int64 and r.tolist() == w
    assert pf.add(1.5, x, alpha=0.5).tolist() == [2.0, 2.5]
    assert pf.div(mask, x, rounding_mode="trunc").tolist() == [1, 0]
    assert pf.rsub(pf.tensor([-(2**63)]), 2.5, alpha=-2).tolist() == [-(2.0**64)]
    assert pf.add(x, 1.5, alpha=0.5).tolist() == [1.75, 2.75]
    for call in (lambda: pf.sub(1, mask, alpha=2), lambda: pf.rsub(mask, 1, alpha=2),
                 lambda: pf.sub(x, True, alpha=2), lambda: x.sub_(True, alpha=2)):  # fmt: skip
        with pytest.raises(pf.DTypeError, match="got a bool"):
            call()
