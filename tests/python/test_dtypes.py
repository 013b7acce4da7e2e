"""Every dtype of the table: made, copied, moved, converted, filed and printed, against references.

The paranoid device and the stand-in for a GPU check the bytes around every block besides; on the
CPU test_guards.py has the same dtypes against pages that may not be touched.
"""

import copy
import itertools
import json
import math
import os

import guards
import numpy as np
import pytest
from dtype_reference import (
    ALL,
    ARITHMETIC,
    FLOAT8,
    NAMES,
    NUMPY,
    STORED,
    TABLES,
    converted,
    float8_nearest,
    kind_of,
    same,
    samples,
)  # fmt: skip

import pyflame as pf
import pyflame.nn.functional as F

SHAPES = [(), (0,), (1,), (2,), (5,), (17,), (64,), (1000,), (3, 0), (3, 7), (16, 33), (2, 3, 5)]
DTYPES = pytest.mark.parametrize("dtype", ALL, ids=NAMES)
REFUSED = (pf.DTypeError, pf.NotSupportedError)


@pytest.fixture(autouse=True)
def _look_around_every_block():
    yield
    pf.synchronize()


def nested(flat, shape):
    """Nested lists of a shape, the numbers repeated as often as needed."""
    n = math.prod(shape)
    values = list(itertools.islice(itertools.cycle(flat), n))
    for size in reversed(shape[1:]):
        values = (
            [values[i : i + size] for i in range(0, len(values), size)]
            if size
            else [[]] * (n // size if size else math.prod(shape[: shape.index(size)]))
        )
    return values[0] if shape == () else values


def full_list(value, shape):
    return value if not shape else [full_list(value, shape[1:]) for _ in range(shape[0])]


def array_of(values, shape):
    """The same as an array of Python's numbers."""
    a = np.empty(math.prod(shape), object)
    a[:] = list(itertools.islice(itertools.cycle(values), a.size))
    return a.reshape(shape)


def made(dtype, shape, values=None):
    a = array_of(values or samples(dtype), shape)
    return pf.tensor(a.tolist(), dtype=dtype).reshape(shape), a


def check(t, a, what=None):
    assert same(t.tolist(), a.tolist() if isinstance(a, np.ndarray) else a), (what, t, a)


@DTYPES
def test_fresh_tensors_hold_what_was_asked_for(dtype):
    one, three = converted(1, dtype), converted(3, dtype)
    zero = converted(0, dtype) if dtype is not pf.float8_e8m0fnu else None  # it has no 0
    for shape in SHAPES:
        like = pf.empty(shape, dtype=dtype)
        assert like.dtype is dtype and tuple(like.shape) == shape
        results = {
            "full": (pf.full(shape, 3, dtype=dtype), three),
            "full float": (pf.full(shape, 3.0, dtype=dtype), three),
            "full bool": (pf.full(shape, True, dtype=dtype), one),
            "ones": (pf.ones(shape, dtype=dtype), one),
            "ones_like": (pf.ones_like(like), one),
            "full_like": (pf.full_like(like, 3), three),
            "new_full": (like.new_full(shape, 3), three),
            "new_ones": (like.new_ones(shape), one),
            "fill_": (pf.empty(shape, dtype=dtype).fill_(3), three),
        }
        if zero is not None:
            results |= {
                "zeros": (pf.zeros(shape, dtype=dtype), zero),
                "zeros_like": (pf.zeros_like(like), zero),
                "new_zeros": (like.new_zeros(shape), zero),
                "zero_": (pf.ones(shape, dtype=dtype).zero_(), zero),
            }
        for name, (t, value) in results.items():
            assert t.dtype is dtype and tuple(t.shape) == shape
            check(t, full_list(value, shape), (name, shape))
    scalar = pf.scalar_tensor(3, dtype=dtype)
    assert same(scalar.item(), three)


@DTYPES
def test_values_go_in_and_come_out(dtype):
    for shape in SHAPES:
        t, a = made(dtype, shape)
        assert t.dtype is dtype
        check(t, a, shape)
    for v in samples(dtype):
        assert same(pf.tensor(v, dtype=dtype).item(), v)
        assert same(pf.full((3,), v, dtype=dtype)[:2].tolist() if dtype is not pf.complex64 and
                    dtype is not pf.complex128 else [v, v], [v, v])  # fmt: skip


@pytest.mark.parametrize("source", ALL, ids=NAMES)
@pytest.mark.parametrize("dtype", ALL, ids=NAMES)
def test_conversion(source, dtype):
    values = samples(source)
    if source not in ARITHMETIC or dtype not in ARITHMETIC:
        sizes = (1, 5, 16, 17, 1000)
    else:
        sizes = (17,)
    expected = [converted(v, dtype) for v in values]
    for n in sizes:
        x, _ = made(source, (n,))
        check(x.to(dtype), array_of(expected, (n,)), n)
        into = pf.ones(n, dtype=dtype)
        check(into.copy_(x), array_of(expected, (n,)), n)
        like = pf.ones(1, dtype=dtype)
        check(x.type_as(like), array_of(expected, (n,)), n)
    check(made(source, (), values[-1:])[0].to(dtype), expected[-1])
    assert made(source, (0,))[0].to(dtype).tolist() == []
    grid = array_of(expected, (6, 10))
    if source is not pf.int4:
        x, _ = made(source, (6, 10))
        check(x.t().to(dtype), grid.T)
        check(x[1::2, ::3].to(dtype), grid[1::2, ::3])
        check(x[2].expand(3, 10).to(dtype), np.broadcast_to(grid[2], (3, 10)))
        check(x.flip(0).t().to(dtype), grid[::-1].T)
        check(pf.ones(6, 10, dtype=dtype).copy_(x[:, :1]), np.broadcast_to(grid[:, :1], (6, 10)))
    if dtype is not pf.int4:
        x, _ = made(source, (6, 10))
        check(pf.ones(10, 6, dtype=dtype).t().copy_(x), grid)
        wide = pf.ones(12, 10, dtype=dtype)
        wide[1::2] = x
        check(wide[1::2], grid)
        assert same(wide[::2].tolist(), full_list(converted(1, dtype), (6, 10)))


def moved(x, a):
    """Name, tensor, and the reference from an array of Python's numbers of shape [6, 8]."""
    dtype, last = x.dtype, a[-1, -1]
    rows = pf.tensor([4, 0, 4])
    mask_values = np.arange(48).reshape(6, 8) % 3 == 0
    mask = pf.tensor(mask_values.tolist())
    index = np.array([[1, 0, 7], [2, 2, 5]])

    def written(key, value):
        b = a.copy()
        b[key] = value
        return b

    def assigned(key, value):
        t = x.clone()
        t[key] = value
        return t

    scattered = a.copy()
    scattered[np.arange(2)[:, None], index] = a[3:5, :3]
    spread = a.copy()
    spread[mask_values] = a.ravel()[: mask_values.sum()]
    number = pf.tensor(last, dtype=dtype)
    yield "clone", lambda: x.clone(), a
    yield "contiguous", lambda: x.t().contiguous(), a.T
    yield "reshape", lambda: x.reshape(4, 12), a.reshape(4, 12)
    yield "reshape strided", lambda: x.t().reshape(4, 12), a.T.reshape(4, 12)
    yield "select", lambda: x[2], a[2]
    yield "slice", lambda: x[1:5:2, 3:], a[1:5:2, 3:]
    yield "expand", lambda: x[:1].expand(3, 8).contiguous(), np.broadcast_to(a[:1], (3, 8))
    yield (
        "permute",
        lambda: x.reshape(2, 3, 8).permute(2, 0, 1),
        a.reshape(2, 3, 8).transpose(2, 0, 1),
    )
    yield "cat", lambda: pf.cat([x, x[1:3]]), np.concatenate([a, a[1:3]])
    yield "cat columns", lambda: pf.cat([x, x[:, :3]], 1), np.concatenate([a, a[:, :3]], 1)
    yield "stack", lambda: pf.stack([x, x], 2), np.stack([a, a], 2)
    yield "flip", lambda: x.flip(0, 1), a[::-1, ::-1]
    yield "roll", lambda: x.roll(3, 1), np.roll(a, 3, 1)
    yield "rot90", lambda: pf.rot90(x), np.rot90(a)
    yield "repeat", lambda: x.repeat(2, 3), np.tile(a, (2, 3))
    yield "repeat_interleave", lambda: x.repeat_interleave(2, 0), np.repeat(a, 2, 0)
    yield "index", lambda: x[rows], a[[4, 0, 4]]
    yield "index columns", lambda: x[:, rows], a[:, [4, 0, 4]]
    yield "index_select", lambda: x.index_select(1, rows), a[:, [4, 0, 4]]
    yield "gather", lambda: x[:2].gather(1, pf.tensor(index)), np.take_along_axis(a[:2], index, 1)
    yield "take", lambda: pf.take(x, pf.tensor(index)), a.ravel()[index]
    yield "masked_select", lambda: x[mask], a[mask_values]
    yield "unbind", lambda: x.unbind(0)[3], a[3]
    yield "split", lambda: x.split(4, 1)[1], a[:, 4:]
    yield "diagonal", lambda: x.diagonal().contiguous(), np.diagonal(a)
    yield "setitem number", lambda: assigned((slice(1, 3),), last), written(slice(1, 3), last)
    yield (
        "setitem tensor",
        lambda: assigned((slice(None), 2), x[:, 3]),
        written((slice(None), 2), a[:, 3]),
    )
    yield "setitem list", lambda: assigned(0, a[1].tolist()), written(0, a[1])
    yield "index_put", lambda: assigned(pf.tensor([0, 5]), x[2:4]), written([0, 5], a[2:4])
    yield "setitem mask", lambda: assigned(mask, number), written(mask_values, last)
    yield "index_copy", lambda: x.index_copy(0, pf.tensor([3, 1]), x[4:6]), written([3, 1], a[4:6])
    yield "scatter", lambda: x.scatter(1, pf.tensor(index), x[3:5, :3]), scattered
    yield "masked_scatter", lambda: x.masked_scatter(mask, x), spread
    yield "copy_", lambda: pf.empty_like(x).copy_(x), a
    yield "deepcopy", lambda: copy.deepcopy(x), a


@DTYPES
def test_moving_keeps_every_value(dtype):
    x, a = made(dtype, (6, 8))
    refused = []
    for name, run, expected in moved(x, a):
        try:
            check(run(), expected, name)
        except REFUSED:
            refused.append(name)
    if dtype is pf.int4:
        assert {"clone", "reshape", "copy_", "deepcopy"}.isdisjoint(refused)
    else:
        assert not refused
    check(x, a)


@DTYPES
def test_files_keep_every_bit(dtype, tmp_path):
    x, a = made(dtype, (6, 8))
    path = tmp_path / "x.safetensors"
    pf.safetensors.save_file({"x": x, "none": x[:0] if dtype is not pf.int4 else x}, path)
    for mmap in (False, True):
        read = pf.safetensors.load_file(path, mmap=mmap)["x"]
        assert read.dtype is dtype
        check(read, a)
    assert pf.safetensors.metadata(path)[0]["x"] == (dtype, x.shape)
    pf.save({"x": x, "again": [x]}, tmp_path / "tree")
    check(pf.load(tmp_path / "tree")["again"][0], a)


def test_a_file_with_a_dtype_of_others(tmp_path):
    """The rest of the file can be read, and the error says which tensor cannot."""
    path = tmp_path / "x.safetensors"
    header = {
        "good": {"dtype": "F8_E8M0", "shape": [2], "data_offsets": [0, 2]},
        "other": {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [2, 5]},
    }
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes([127, 128, 1, 2, 3]))
    with pytest.raises(pf.FileError, match="'other' has the dtype F6_E2M3"):
        pf.safetensors.load_file(path)
    assert pf.safetensors.load_file(path, names=["good"])["good"].tolist() == [1.0, 2.0]
    found = pf.safetensors.metadata(path)[0]
    assert found["good"][0] is pf.float8_e8m0fnu and found["other"][0] == "F6_E2M3"
    with pytest.raises(pf.ValueError, match="no tensor 'none'"):
        pf.safetensors.load_file(path, names=["none"])


@pytest.mark.cpu_only
@pytest.mark.parametrize("dtype", [d for d in ALL if d in NUMPY])
def test_numpy_shares_memory(dtype):
    x, a = made(dtype, (6, 8))
    n = x.numpy()
    assert n.dtype == NUMPY[dtype]
    assert same(n.tolist(), a.tolist())
    back = pf.from_numpy(n)
    assert back.dtype is dtype
    check(back, a)
    check(pf.tensor(n), a)
    check(back.to(pf.complex128 if dtype.is_complex else pf.float64),
          [[converted(v, pf.complex128 if dtype.is_complex else pf.float64) for v in r] for r in a])  # fmt: skip
    check(pf.from_numpy(n[1::2, ::3]), a[1::2, ::3])
    check(pf.from_dlpack(x), a)
    n[0, 0] = n[1, 1]
    assert same(x[0, 0].item(), a[1, 1]) and same(back[0, 0].item(), a[1, 1])


@pytest.mark.cpu_only
@pytest.mark.parametrize("dtype", [d for d in ALL if d not in NUMPY])
def test_numpy_has_no_such_type(dtype):
    x, a = made(dtype, (6, 8))
    with pytest.raises(pf.DTypeError, match="NumPy has no such type"):
        x.numpy()
    bits = x.view(pf.uint8).numpy()
    check(pf.tensor(bits).view(dtype), a)
    forced = x.numpy(force=True)
    assert forced.astype(float).tolist() == [[float(v) for v in row] for row in a]


def test_int4_lies_packed():
    x = pf.tensor([1, -2, 7, -8, 3, 0], dtype=pf.int4)
    assert x.view(pf.uint8).tolist() == [0xE1, 0x87, 0x03]
    assert pf.tensor([0xE1, 0x87], dtype=pf.uint8).view(pf.int4).tolist() == [1, -2, 7, -8]
    with pytest.raises(pf.NotSupportedError, match="two elements in a byte"):
        x[1:]
    with pytest.raises(pf.NotSupportedError, match="two elements in a byte"):
        x.reshape(2, 3).t()
    with pytest.raises(pf.ValueError, match="int4"):
        pf.tensor([8], dtype=pf.int4)
    odd = pf.tensor([3, -4, 5], dtype=pf.int4)
    with pytest.raises(pf.PyFlameError):
        odd.view(pf.uint8)
    assert odd.fill_(-1).tolist() == [-1] * 3


@pytest.mark.parametrize("dtype", FLOAT8)
def test_float8_is_rounded_to_nearest_even(dtype):
    """Every value, what lies halfway between neighbours, and what lies beside that."""
    finite = sorted(v for v in set(TABLES[dtype]) if math.isfinite(v))
    halves = [np.float32((a + b) / 2) for a, b in itertools.pairwise(finite)]
    beside = [np.nextafter(h, np.float32(s * np.inf)) for h in halves for s in (1, -1)]
    ends = [finite[-1] * f for f in (1, 1.01, 1.03, 1.0625, 1.07, 1.1, 1.25, 1.3, 2, 1e4)]
    rest = [math.inf, -math.inf, math.nan, 0.0, -0.0, 1e-45, -1e-45, 3.4e38, *(-e for e in ends)]
    given = np.array([float(v) for v in [*finite, *halves, *beside, *ends, *rest]])
    with np.errstate(over="ignore"):
        x = given.astype(np.float32)
    t = pf.tensor(x.tolist(), dtype=pf.float32).to(dtype)
    expected = [float8_nearest(v, dtype) for v in x]
    check(t, expected)
    check(t.float(), expected)
    signs = np.signbit(np.array(t.tolist()))
    keep = ~np.isnan(np.array(expected))
    assert (signs == np.signbit(np.array(expected)))[keep].all()
    every = pf.arange(256).to(pf.uint8).view(dtype)
    check(every, TABLES[dtype])
    check(every.double(), TABLES[dtype])


@pytest.mark.cpu_only
@pytest.mark.parametrize("dtype", FLOAT8)
def test_float8_as_pytorch(dtype):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 200_000, dtype=np.uint32)
    bits[:60_000] = (bits[:60_000] & 0x807FFFFF) | rng.integers(105, 145, 60_000).astype(
        np.uint32
    ) << 23
    x = bits.view(np.float32)
    theirs = torch.from_numpy(x).to(getattr(torch, str(dtype).split(".")[-1]))
    ours = pf.from_numpy(x).to(dtype)
    a, b = theirs.view(torch.uint8).numpy(), ours.view(pf.uint8).numpy()
    nan = np.isnan(x)
    assert (a[~nan] == b[~nan]).all()
    assert np.isnan(ours.float().numpy()[nan]).all()


def test_printing():
    assert repr(pf.tensor([2**64 - 1, 1], dtype=pf.uint64).cpu()) == (
        "tensor([18446744073709551615,                    1], dtype=pyflame.uint64)"
    )
    torch = pytest.importorskip("torch")
    for name in ("uint16", "uint32", "uint64", "complex64", "complex128", *(
        str(d).split(".")[-1] for d in FLOAT8)):  # fmt: skip
        d, other = getattr(pf, name), getattr(torch, name)
        values = samples(d)
        ours, theirs = pf.tensor(values, dtype=d), torch.tensor(values, dtype=other)
        if pf.get_device().type == "cpu":
            expected = repr(theirs).replace("torch.", "pyflame.")
            if name != "complex128" and name != "complex64":
                assert repr(ours) == expected
        assert f"dtype=pyflame.{name}" in repr(ours) or name == "complex64"
    assert "int4" in repr(pf.tensor([1, -2, 7], dtype=pf.int4))
    assert repr(pf.tensor(list(range(-8, 8)) * 100, dtype=pf.int4)).startswith(
        "tensor([-8, -7, -6,"
    )


def test_complex_numbers():
    x = pf.tensor([1 + 2j, -0.5])
    assert x.dtype is pf.complex64 and x.tolist() == [1 + 2j, -0.5 + 0j]
    x[1] = 3j
    assert x[1].item() == 3j
    assert pf.tensor(1j, dtype=pf.complex128).item() == 1j
    assert x.view(pf.float32).tolist() == [1.0, 2.0, 0.0, 3.0]
    assert x.to(pf.bool).tolist() == [True, True]
    assert repr(x).startswith("tensor([1.+2.j")
    with pytest.raises(pf.DTypeError, match="complex"):
        pf.tensor([1j], dtype=pf.float32)


def test_unsigned_numbers_past_int64():
    big = [2**63, 2**64 - 1]
    x = pf.tensor(big, dtype=pf.uint64)
    assert x.tolist() == big and x[1].item() == 2**64 - 1
    x[0] = 2**63 + 5
    assert x[0].item() == 2**63 + 5
    assert x.double().tolist() == [float(2**63), float(2**64)]
    assert x.to(pf.int64).tolist() == [-(2**63) + 5, -1]
    assert pf.tensor([1.5e19], dtype=pf.float64).to(pf.uint64).tolist() == [15 * 10**18]
    with pytest.raises(pf.ValueError):
        pf.tensor([2**63])
    with pytest.raises(pf.DTypeError, match="no integer dtype"):
        pf.cat([x, pf.tensor([1])])


# ---- operations --------------------------------------------------------------------------------
WIDE = {"int": pf.int64, "float": pf.float32, "complex": pf.int64}
# Whose values are made by chance, or not at all.
FREE = ("empty", "rand", "bernoulli", "normal", "dropout", "multinomial", "uniform", "exponential",
        "poisson", "geometric", "cauchy", "_zeros_beside", "_init_", "gumbel", "logit")  # fmt: skip


# Of complex numbers they are something else: a quotient by 0 is NaN, no terms are conjugates, and where
# an inverse of real numbers is not defined.
OTHERS = {
    "float_power",  # to the power of infinity
    *("acos", "acosh", "arccos", "arccosh", "arcsin", "arctanh", "asin", "atanh"),
    *(
        "stft",
        "reciprocal",
        "rsqrt",
        "addcdiv",
        "pow",
        "div",
        "divide",
        "true_divide",
        "reciprocal_",
    ),
    *("rsqrt_", "addcdiv_", "pow_", "div_", "divide_", "true_divide_"),
}


UNSIGNED = (pf.uint16, pf.uint32, pf.uint64)


def real(v, dtype=None):
    """Numbers of a result as floats, to be compared over dtypes; as those of one, when it is given."""
    if isinstance(v, list):
        return [real(w, dtype) for w in v]
    v = v if dtype is None else converted(v, dtype)
    return float(v.real if isinstance(v, complex) else v)


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_operations_are_right_or_refused(dtype, monkeypatch):
    """A row given a dtype without arithmetic moves values as it moves those of another, or raises."""
    wide = WIDE[kind_of(dtype)]
    monkeypatch.setattr(
        guards, "tensor", lambda v, d, front: pf.tensor(np.asarray(v).tolist()).to(d)
    )
    taken, share = 0, float(os.environ.get("PYFLAME_TEST_SHARE", "1"))
    dice = np.random.default_rng(1)
    for row in pf.ops.table():
        name = row["name"]
        if row["family"] == "test" or any(f in name for f in FREE) or name == "combinations":
            continue
        if dice.random() > share or (dtype.is_complex and name in OTHERS):
            continue
        if dtype in UNSIGNED and name == "margin_ranking_loss":  # of differences, which wrap
            continue
        for k, shape in enumerate([(6,), (4, 4), (2, 3, 2)]):
            results = []
            for d in (wide, dtype):
                rng = np.random.default_rng(k)
                try:
                    call, made_of = guards.arguments(row, d, shape, False, k == 1, rng)
                    if not made_of:
                        break
                    out = guards.results_of(pf.ops.get(name)(**call))
                    values = [r.tolist() for r in out]
                except (pf.PyFlameError, TypeError):
                    break
                results.append((out, values))
            if len(results) < 2:
                continue
            (_, expected), (out, got) = results
            if not out:
                continue
            taken += 1
            for r, e, g in zip(out, expected, got):
                if dtype is pf.float8_e8m0fnu or name == "view":
                    continue  # it has no 0, which is among the arguments; bytes are other bytes
                rounded = r.dtype if r.dtype in (*FLOAT8, *UNSIGNED) else None
                atol = 1e-6 if dtype.is_complex else 1e-8  # beside complex64
                assert np.allclose(real(e, rounded), real(g), atol=atol, equal_nan=True), (
                    row["schema"],
                    shape,
                )
    assert taken > (40 if share >= 1 else 0) or dtype is pf.int4
    pf.synchronize()


@pytest.mark.parametrize("dtype", [d for d in STORED if d not in UNSIGNED], ids=str)
def test_arithmetic_says_what_is_wrong(dtype):
    x = pf.ones(4, dtype=dtype)
    runs = [
        lambda: x > x, lambda: x.sort(), lambda: pf.arange(4, dtype=dtype),
        lambda: F.softmax(x, 0), lambda: x.unique(), lambda: x.max(), lambda: pf.floor(x),
    ]  # fmt: skip
    if not dtype.is_complex:  # test_complex.py
        runs += [
            lambda: x + x, lambda: x * 2, lambda: -x, lambda: pf.exp(x), lambda: x.sum(),
            lambda: x.cumsum(0),
            lambda: pf.randn(4, dtype=dtype), lambda: pf.ones(3, 4).sum(dtype=dtype),
        ]  # fmt: skip
    for run in runs:
        with pytest.raises((pf.DTypeError, pf.NotSupportedError)):
            r = run()
            assert r is not None
            pf.synchronize()
