"""Our own matrix products on the stand-in, on every kind of matrix unit that the host acts out."""

import os
import re
import shutil

import pytest
import standin
from standin import cache, run  # noqa: F401

CUDA = {"PYFLAME_CUDA_LIBRARY": standin.HIP, "PYFLAME_NVRTC_LIBRARY": standin.RTC}
UNITS = {
    "mfma": {"PYFLAME_STANDIN_ARCH": "gfx942"},
    "mfma of CDNA 2": {"PYFLAME_STANDIN_ARCH": "gfx90a"},
    "mfma of CDNA 4": {"PYFLAME_STANDIN_ARCH": "gfx950"},
    "wmma of RDNA 3": {"PYFLAME_STANDIN_ARCH": "gfx1100"},
    "wmma of RDNA 4": {"PYFLAME_STANDIN_ARCH": "gfx1201"},
    "mma.sync": CUDA | {"PYFLAME_STANDIN_SM": 80, "PYFLAME_HIP_LIBRARY": "/none"},
    "wgmma": CUDA | {"PYFLAME_STANDIN_SM": 90, "PYFLAME_HIP_LIBRARY": "/none"},
}


TF32 = ("mfma", "mma.sync", "wgmma")  # gfx942 calls it xf32
FLOAT32 = ("mfma", "mfma of CDNA 2", "mfma of CDNA 4")


def environment(unit, **more):
    if (
        "PYFLAME_CUDA_LIBRARY" in UNITS[unit]
        and not (standin.FOLDER / "libpyflame_cuda.so").exists()
    ):
        pytest.skip("no CUDA plug-in")
    return UNITS[unit] | {"PYFLAME_GPU_GEMM": "own"} | more


def keep(folder):
    """Compiled anew, with the texts kept: `units` finds out which instructions were used."""
    folder.mkdir()
    return {"XDG_CACHE_HOME": folder / "cache", "PYFLAME_STANDIN_KEEP": folder}


def units(folder):
    """The options PF_T, PF_OUT and PF_TF32 of what was compiled for matrix units, and which had
    wgmma."""
    found = set()
    for file in folder.glob("*.cpp"):
        with file.open() as f:
            options = dict(re.findall(r"-D(\w+)=(\S+)", f.readline()))
        if "STAGES" in options:
            names = ("PF_T", "PF_OUT", "PF_TF32")
            what = [options[n] for n in names if n in options]
            what += ["wgmma"] * (options.get("WARP_M", "16") == "16")
            what += (
                [
                    "maps aside" + " whole" * int(options["WHOLE"])
                    if options.get("ASIDE") == "1"
                    else "maps" + " in turns" * int(options["TURNS"])
                ]
                if "TURNS" in options
                else []
            )
            found.add(" ".join(what))
    return found


# Operands whose k is the unit stride and others, at odd sizes where rows may begin anywhere; the
# stand-in has four compute units, so that tiles of each size are chosen. Strides of 16 bytes.
OPERANDS = """
def operands(make, item):
    step = 16 // item
    up = lambda x: (x + step - 1) // step * step
    for m, n, k, ways in (
        (37, 75, 28, ((0, 0), (0, 1), (1, 0), (1, 1))),
        (261, 136, 100, ((0, 0), (0, 1))),
        (136, 1029, 36, ((0, 0), (1, 0))),
    ):
        k = up(k * 4 // item)
        for a_across, b_across in ways:
            a = make(k, up(m)).T if a_across else make(m, k)
            b = make(k, up(n)) if b_across else make(n, k).T
            yield a, b

# On the device, with the strides that it has here.
def place(x):
    if x.strides[-1] == x.itemsize:
        return pf.tensor(x).to("gpu")
    return pf.tensor(np.ascontiguousarray(x.swapaxes(-1, -2))).to("gpu").transpose(-1, -2)
"""


@standin.MARKS[0]
@standin.MARKS[1]
@pytest.mark.parametrize("unit", UNITS)
def test_tiles(run, unit):  # noqa: F811
    """Tiles of each size that the four compute units of the stand-in make it choose, with ends that
    fill no tile, k that fills no step, operands along k and across, a bias."""
    run(
        """
        rng = np.random.default_rng(3)
        for dtype, tol in ((pf.bfloat16, 8e-3), (pf.float16, 1e-3)):
            for m, n, k in ((40, 72, 24), (264, 136, 200), (136, 520, 72)):
                for a_across, b_across in ((0, 0), (0, 1), (1, 0), (1, 1)):
                    if dtype is pf.float16 and a_across == b_across:
                        continue
                    a = pf.tensor(rng.standard_normal((k, m) if a_across else (m, k))).to(dtype)
                    b = pf.tensor(rng.standard_normal((n, k) if b_across else (k, n))).to(dtype)
                    x, y = (t.to("gpu") for t in (a, b))
                    x, y = x.t() if a_across else x, y.t() if b_across else y
                    want = x.cpu().double().numpy() @ y.cpu().double().numpy()
                    got = (x @ y).cpu().double().numpy()
                    assert np.allclose(got, want, rtol=tol, atol=tol * k**0.5), (m, n, k, dtype)
            bias = pf.tensor(rng.standard_normal(n)).to(dtype)
            got = pf.nn.functional.linear(x, y.t().contiguous(), bias.to("gpu"))
            want = want + bias.double().numpy()
            assert np.allclose(got.cpu().double().numpy(), want, rtol=tol, atol=tol * k**0.5)
        """,
        **environment(unit),
    )


@standin.MARKS[0]
@standin.MARKS[1]
@pytest.mark.parametrize("unit", UNITS)
def test_float32(run, unit, tmp_path):  # noqa: F811
    """float32 to float32's accuracy, on AMD's units or none; with precision "high" operands rounded
    to nearest with 11 bits where a unit takes those. The error is compared with what such operands
    may make of |a| |b|."""
    code = f"""
precise, tf32 = 1e-6, {2.0**-10 if unit in TF32 else 1e-6}
rng = np.random.default_rng(4)
make = lambda *shape: rng.standard_normal(shape).astype("float32")
def check(got, a, b, bound, bias=0):
    a, b = a.astype(float), b.astype(float)
    error = np.abs(got.cpu().numpy() - (a @ b + bias)) / (np.abs(a) @ np.abs(b) + np.abs(bias))
    assert error.max() <= bound * 1.001 + 1e-6, (a.shape, b.shape, error.max(), bound)
    return error.max()
{OPERANDS}
for precision, bound in (("highest", precise), ("high", tf32)):
    pf.set_float32_matmul_precision(precision)
    worst = max(check(place(a) @ place(b), a, b, bound) for a, b in operands(make, 4))
    assert worst > bound / 16 or bound == precise

    # Not cut: what is lost does not add up.
    a, b = 1 + rng.random((64, 64), "float32"), 1 + rng.random((64, 64), "float32")
    got, want = (place(a) @ place(b)).cpu().numpy(), a.astype(float) @ b.astype(float)
    assert abs((got / want - 1).mean()) < 2.0**-15

    a, b = make(3, 37, 28), make(3, 28, 76)
    check(place(a) @ place(b), a, b, bound)
    check(place(a[:, None]) @ place(b), a[:, None], b, bound)
    check(place(a) @ place(b[0]), a, b[0], bound)
    wide = make(37, 60)
    for at in (4, 1):  # the second begins between what units can read
        check(place(wide)[:, at : at + 28] @ place(b[0]), wide[:, at : at + 28], b[0], bound)
    check(place(wide[::3])[:, :28] @ place(b[0]), wide[::3, :28], b[0], bound)

    x, w, bias = make(37, 28), make(75, 28), make(75)
    linear = pf.nn.functional.linear(place(x), place(w), place(bias))
    check(linear, x, w.T, bound, bias)
    for f in (pf.relu, pf.nn.functional.gelu):
        want = f(linear.cpu()).numpy()
        got = f(pf.nn.functional.linear(place(x), place(w), place(bias))).cpu().numpy()
        assert np.allclose(got, want, rtol=1e-5, atol=1e-6)

    assert (place(make(0, 28)) @ place(w).t()).shape == (0, 75)
    assert ((place(x)[:, :0] @ place(w)[:, :0].t()).cpu().numpy() == np.zeros((37, 75))).all()

    x[0, 3], x[1, 5], x[2, 7], x[3] = np.nan, np.inf, -np.inf, 1e30
    x[4], x[5, ::2] = 0, 1e-30
    got = (place(x) @ place(w).t()).cpu().numpy()
    assert np.isnan(got[0]).all() and (got[4] == 0).all()
    assert (got[1] == np.inf * np.sign(w[:, 5])).all()
    assert (got[2] == -np.inf * np.sign(w[:, 7])).all()
    check(pf.tensor(got[3:4]), x[3:4], w.T, bound)
    check(pf.tensor(got[5:]), x[5:], w.T, bound)

# A product that was asked for has the precision of then.
pf.set_float32_matmul_precision("highest")
a, b = make(64, 64), make(64, 64)
x, y = place(a), place(b)
later = x @ y
pf.set_float32_matmul_precision("high")
check(later, a, b, precise)
"""
    kept = tmp_path / "kept"
    run(code, **environment(unit, **keep(kept)))
    assert ("float" in units(kept)) == (unit in FLOAT32)
    assert ("float 1" in units(kept)) == (unit in TF32)
    assert ("float 1 wgmma maps in turns" in units(kept)) == (unit == "wgmma")


@standin.MARKS[0]
@standin.MARKS[1]
@pytest.mark.parametrize("unit", UNITS)
def test_int8(run, unit, tmp_path):  # noqa: F811
    """Every bit: matmul keeps the lowest 8 of a sum, int_mm all 32."""
    code = f"""
rng = np.random.default_rng(5)
make = lambda *shape: rng.integers(-128, 128, shape).astype("int8")
def check(got, want):
    got = got.cpu().numpy()
    assert got.shape == want.shape and (got == want.astype(got.dtype)).all(), (want.shape, got.dtype)
{OPERANDS}
for a, b in operands(make, 1):
    want = a.astype(int) @ b.astype(int)
    check(place(a) @ place(b), want)
    wide = pf.int_mm(place(a), place(b))
    assert wide.dtype is pf.int32
    check(wide, want)

a, b = make(3, 37, 48), make(3, 48, 80)
want = a.astype(int) @ b
check(place(a) @ place(b), want)
check(place(a[:, None]) @ place(b), a[:, None].astype(int) @ b)
wide = make(37, 96)
for at in (16, 1):
    part = wide[:, at : at + 48]
    check(pf.int_mm(place(wide)[:, at : at + 48], place(b[0])), part.astype(int) @ b[0])
x, w, bias = make(37, 48), make(75, 48), make(75)
want = x.astype(int) @ w.T + bias
linear = lambda: pf.nn.functional.linear(place(x), place(w), place(bias))
check(linear(), want)
check(pf.relu(linear()), want.astype("int8").clip(0))

least = np.full((64, 4096), -128, "int8")
check(pf.int_mm(place(least), place(least).t()), np.full((64, 64), 4096 * 128 * 128))
check(place(least) @ place(least).t(), np.zeros((64, 64)))
assert pf.int_mm(place(x[:0]), place(w).t()).shape == (0, 75)
check(pf.int_mm(place(x)[:, :0], place(w)[:, :0].t()), np.zeros((37, 75)))
"""
    kept = tmp_path / "kept"
    run(code, **environment(unit, **keep(kept)))
    assert {"pf_i8", "pf_i8 pf_i32"} <= units(kept)
    assert ("pf_i8 pf_i32 wgmma maps in turns" in units(kept)) == (unit == "wgmma")


@standin.MARKS[0]
@standin.MARKS[1]
def test_float8(run, tmp_path):  # noqa: F811
    """For want of a library Hopper's units multiply eight-bit floats as they are, by each tile and with
    sums of either kind, and pf.explain tells it: nothing goes by way of bfloat16."""
    code = f"""
sys.path.insert(0, {os.path.dirname(__file__)!r})
import test_float8 as t
pf.set_device("gpu")
sizes = ((33, 48, 32), (20, 77, 130), (130, 100, 500), (130, 260, 380))
with pf.explain() as report:
    for (m, k, n), kinds, dtype in zip(sizes, (*t.KINDS, t.KINDS[0]), (*t.OUT, t.OUT[0])):
        for fast in (False, True):
            a, b, sa, sb = t.operands(m, k, n, kinds, by_row=fast)
            bias = pf.randn(n).to(dtype)
            got = pf._scaled_mm(a, b, sa, sb, bias, out_dtype=dtype, use_fast_accum=fast)
            t.check(got, a, b, sa, sb, bias)
by = {{s["by"]: s["count"] for s in report.served if s["op"] == "_scaled_mm"}}
assert by == {{"our kernel for Hopper": 8}}, by
slow = [s["what"] for s in report.slow if s["op"] == "_scaled_mm"]
assert slow and all("our own kernel" in s for s in slow), slow
"""
    kept = tmp_path / "kept"
    run(code, **environment("wgmma", **keep(kept), PYFLAME_GPU_GEMM="auto"))
    e4m3, e5m2 = "pf_e4m3fn", "pf_e5m2"
    assert units(kept) == {
        *(
            f"{e4m3} {t} wgmma maps{how}"
            for t in ("pf_bf16", "pf_f16")
            for how in ("", " in turns")
        ),
        f"{e5m2} float wgmma maps",
    }


@standin.MARKS[0]
@standin.MARKS[1]
def test_copied_by_maps(run, tmp_path):  # noqa: F811
    """Hopper's kernel whose operands are copied by tensor maps: one to three batch dimensions, an operand
    that repeats in some, several tiles a block, steps of k that fill no stage and few that fill no
    ring, columns that are no whole chunk, extremes; what maps cannot say goes to the other kernel,
    and a map that the driver refuses is told."""
    kept = tmp_path / "kept"
    code = """
        rng = np.random.default_rng(8)
        def operand(shape, across, dtype):
            x = rng.standard_normal((*shape[:-2], shape[-1], shape[-2]) if across else shape)
            x = pf.tensor(x).to(dtype).to("gpu")
            return x.transpose(-1, -2) if across else x
        def check(a, b, tol):
            got = (a @ b).cpu().double().numpy()
            a, b = a.cpu().double().numpy(), b.cpu().double().numpy()
            error = np.abs(got - a @ b) / (np.abs(a) @ np.abs(b))
            assert got.shape == (a @ b).shape and error.max() <= tol, (a.shape, b.shape, error.max())
        bf16, f16 = (pf.bfloat16, 2**-8), (pf.float16, 2**-11)
        for batch_a, batch_b, m, n, k, (dtype, tol) in (
            ((), (), 300, 776, 72, bf16),
            ((), (), 520, 264, 712, bf16),
            ((3,), (3,), 136, 200, 136, bf16),
            ((5,), (), 8, 136, 72, f16),  # rows of one product
            ((1, 4), (3, 1), 72, 136, 64, bf16),
            ((2, 1, 3), (2, 2, 3), 72, 136, 80, bf16),
            ((2, 2, 1, 2, 2), (2, 1, 2, 2, 1), 40, 136, 24, bf16),  # more than maps have
        ):
            for across in range(4):
                a = operand((*batch_a, m, k), across & 1, dtype)
                b = operand((*batch_b, k, n), across & 2, dtype)
                check(a, b, tol)
        # Rows of a wider matrix, each second one, and behind a place that is no multiple of 16 bytes.
        wide = operand((400, 400), 0, pf.bfloat16)
        check(wide[::2, 64:264], wide[8:208, :136], 2**-8)
        check(wide[:200, 4:140], wide[:136, :200], 2**-8)
        check(wide[:200, :200].t(), wide[:200, 16:152], 2**-8)

        a = rng.standard_normal((200, 264)).astype("float32")
        a[0, 3], a[1, 5], a[2, 7], a[3] = np.nan, np.inf, -np.inf, 1e4
        a[130], a[131, ::2] = 0, -1e4
        b = rng.standard_normal((264, 392)).astype("float32")
        x, y = pf.tensor(a).to(pf.bfloat16), pf.tensor(b).to(pf.bfloat16)
        got = (x.to("gpu") @ y.to("gpu")).cpu().double().numpy()
        x, y = x.double().numpy(), y.double().numpy()
        want = x @ y
        assert (np.isnan(got) == np.isnan(want)).all() and np.isnan(got[0]).all()
        assert (got[1] == np.inf * np.sign(y[5])).all() and (got[2] == -np.inf * np.sign(y[7])).all()
        bound = 2**-8 * (np.abs(x[3:]) @ np.abs(y))
        assert (np.abs(got[3:] - want[3:]) <= bound).all() and (got[130] == 0).all()
        bias = operand((392,), 0, pf.bfloat16)
        linear = pf.nn.functional.linear(pf.tensor(x[4:]).to(pf.bfloat16).to("gpu"),
                                         pf.tensor(y.T).to(pf.bfloat16).to("gpu"), bias)
        want = x[4:] @ y + bias.cpu().double().numpy()
        assert np.allclose(linear.cpu().double().numpy(), want, rtol=8e-3, atol=0.1)

        # Columns that fill no chunk; the program behind runs in the launch, with what it reads.
        r = operand((len(x) - 4, 390), 0, pf.bfloat16)
        behind = lambda: pf.relu(pf.nn.functional.linear(first, last, bias[:390]) + r)
        first, last = (pf.tensor(v).to(pf.bfloat16).to("gpu") for v in (x[4:], y.T[:390]))
        with pf.debug.eager():
            want = behind().cpu().double().numpy()
        assert (behind().cpu().double().numpy() == want).all() and want.max() > 1

        fault("cuTensorMapEncodeTiled", 1, 1)
        x, y = operand((300, 64), 0, pf.bfloat16), operand((64, 520), 0, pf.bfloat16)
        raises(pf.PyFlameError, "cuTensorMapEncodeTiled", lambda: (x @ y).cpu())
        check(x, y, 2**-8)
    """
    run(code, **environment("wgmma", **keep(kept)))
    bf16 = {"pf_bf16 wgmma maps", "pf_bf16 wgmma maps in turns", "pf_bf16 wgmma"}
    assert bf16 | {"pf_f16 wgmma maps in turns"} <= units(kept)


@standin.MARKS[0]
@standin.MARKS[1]
@pytest.mark.parametrize("unit", ["mfma", "wmma of RDNA 3", "mma.sync", "wgmma"])
def test_epilogues(run, unit):  # noqa: F811
    """What follows a product runs in its launch, to the bit as it would by itself: residuals dense
    and transposed, vectors along rows and columns, numbers, several results, a product that is read
    again, sizes that fill no vector."""
    run(
        """
        F = pf.nn.functional
        pf.set_device("gpu")
        works = {
            "relu": lambda p, r, t, row, col: p.relu(),
            "gelu and a number": lambda p, r, t, row, col: F.gelu(p) * 0.5,
            "residual": lambda p, r, t, row, col: (p + r) * 2.0,
            "transposed residual": lambda p, r, t, row, col: p - t,
            "row and column": lambda p, r, t, row, col: (p * row + col).tanh(),
            "two results": lambda p, r, t, row, col: ((q := p * row), q.exp()),
            "the product too": lambda p, r, t, row, col: (p, p.relu()),
            "other dtype": lambda p, r, t, row, col: p.double() + 1.0,
            "comparison": lambda p, r, t, row, col: p > row,
            "twice": lambda p, r, t, row, col: p.sigmoid() * p,
            "in place": lambda p, r, t, row, col: r.clone().add_(p),
            "view": lambda p, r, t, row, col: p.reshape(-1).relu(),
        }
        joined = []
        some = list(works)[::3]  # the texts differ little between dtypes; compiling them takes long
        for dtype, sizes, names in (
            (pf.bfloat16, [(40, 72, 24)], works),
            (pf.bfloat16, [(33, 47, 20)], some),
            (pf.bfloat16, [(264, 392, 24)], some),
            (pf.float32, [(33, 47, 20), (1, 5, 64), (5, 1, 64)], some),
            (pf.float64, [(33, 47, 20)], some[:2]),
        ):
            for m, n, k in sizes:
                pf.manual_seed(5)
                a, b, r = (pf.randn(*s).to(dtype) for s in ((m, k), (k, n), (m, n)))
                t, row, col = (pf.randn(*s).to(dtype) for s in ((n, m), (n,), (m, 1)))
                for name in names:
                    work = works[name]
                    with pf.debug.eager():
                        want = work(a @ b, r, t.t(), row, col)
                    pf.synchronize()
                    before = pf.debug.stats()["joined"]
                    got = work(a @ b, r, t.t(), row, col)
                    pf.synchronize()
                    if pf.debug.stats()["joined"] > before:
                        joined.append(name)
                    for x, y in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want))):
                        assert x.dtype == y.dtype
                        x, y = (v.cpu().double().numpy().tobytes() for v in (x, y))
                        assert x == y, (name, dtype, m, n)
        assert set(joined) >= set(works) - {"in place", "view"}, joined
        # A batch, with a residual of its own; and what the product reads is written after it.
        x, y, z = pf.randn(3, 20, 17), pf.randn(3, 17, 24), pf.randn(3, 20, 24)
        with pf.debug.eager():
            want = (x @ y + z).relu()
        assert (((x @ y + z).relu() == want).all()).item()
        w, v = pf.randn(24, 24), pf.randn(24, 24)
        want = w + w @ v
        w.add_(w @ v)
        assert (w == want).all().item()
        """,
        **environment(unit),
    )


@standin.MARKS[0]
def test_threads_share_k(run):  # noqa: F811
    """Few tiles and a long k: shares of k that fill no tile, empty ones, integers that wrap."""
    run(
        """
        rng = np.random.default_rng(4)
        for m, n, k in ((16, 16, 17), (3, 5, 300), (32, 40, 784), (1, 1, 1000), (17, 33, 130)):
            a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
            for dtype, tol in ((pf.float32, 1e-5), (pf.float64, 1e-13), (pf.bfloat16, 8e-3)):
                x, y = pf.tensor(a).to(dtype).to("gpu"), pf.tensor(b).to(dtype).to("gpu")
                want = x.cpu().double().numpy() @ y.cpu().double().numpy()
                got = (x @ y).cpu().double().numpy()
                assert np.allclose(got, want, rtol=tol, atol=tol * k**0.5), (m, n, k, dtype)
                got = (x.t().contiguous().t() @ y.t().contiguous().t()).cpu().double().numpy()
                assert np.allclose(got, want, rtol=tol, atol=tol * k**0.5), (m, n, k, dtype)
            c, d = rng.integers(-128, 128, (m, k)), rng.integers(-128, 128, (k, n))
            for dtype in (np.int8, np.int32, np.int64):
                x, y = (pf.tensor(v.astype(dtype)).to("gpu") for v in (c, d))
                assert ((x @ y).cpu().numpy() == (c @ d).astype(dtype)).all(), (m, n, k, dtype)
        """,
        PYFLAME_STANDIN_ARCH="gfx942",
    )


@standin.MARKS[1]
@pytest.mark.parametrize("unit", ["mfma", "mma.sync"])
def test_a_product_on_either_side_of_what_follows(run, unit):  # noqa: F811
    """One plan serves `p + r` and `r + p`: the program has to know which of the two the product is."""
    run(
        """
        pf.set_device("gpu")
        for order in ("pr", "rp"):
            for dtype in (pf.float32, pf.float16, pf.float64):
                for first in order, order[::-1]:
                    a, b = pf.ones(6, 8, dtype=dtype) * 2, pf.ones(8, 5, dtype=dtype)
                    r = pf.arange(30, dtype=dtype).reshape(6, 5)
                    p = a @ b
                    got = p + r if first == "pr" else r + p
                    assert (got.cpu() == r.cpu() + 16).all().item(), (dtype, first)
        """,
        **environment(unit),
    )


@standin.MARKS[0]
@standin.MARKS[1]
@pytest.mark.parametrize("unit", ["mfma", "wmma of RDNA 4", "wgmma"])
def test_few_rows(run, unit, tmp_path):  # noqa: F811
    """Up to eight rows times the rows of a matrix: every number of them, ends that fill no block, a bias, what
    follows in the same launch. One row streams; on AMD's GPUs two have the same bits alone and among
    others (on NVIDIA's the library is quicker from three on)."""
    nvidia = unit == "wgmma"
    code = f"""
    nvidia = {nvidia}
    """
    code += """
    F = pf.nn.functional
    rng = np.random.default_rng(6)
    for dtype, tol in ((pf.bfloat16, 8e-3), (pf.float16, 1e-3), (pf.float32, 3e-6)):
        shapes = (1, 37, 8), (1, 131, 1600), (2, 66, 2056), (3, 37, 264), (5, 4, 4096), (8, 70, 520)
        if nvidia and dtype != pf.float32:  # large enough for copies into shared memory: one part, two, four
            shapes += (1, 401, 1608), (1, 263, 2056), (1, 131, 4104), (1, 66, 8192)
        for m, n, k in shapes:
            x, w, b = (pf.tensor(rng.standard_normal(s)).to(dtype) for s in ((m, k), (n, k), (n,)))
            exact = x.double().numpy() @ w.double().numpy().T
            x, w, b = (t.to("gpu") for t in (x, w, b))
            close = lambda got, want: np.allclose(
                got.cpu().double().numpy(), want, rtol=tol, atol=tol * k**0.5)
            y = F.linear(x, w)
            assert close(y, exact), (dtype, m, n, k)
            with_bias = exact + b.cpu().double().numpy()
            assert close(F.linear(x, w, b), with_bias)
            assert close(F.relu(F.linear(x, w, b)) * 2, np.maximum(with_bias, 0) * 2)
            for i in range(0 if nvidia else m - 1):
                assert pf.equal(F.linear(x[i : i + 2], w), y[i : i + 2]), (dtype, m, n, k, i)
            assert close(F.linear(x.reshape(1, m, k), w)[0], exact)
    # What is infinite, no number or large, where it belongs and nowhere else.
    for n, k in ((9, 64), (401, 1608)):
        x = pf.zeros(2, k).bfloat16()
        w = pf.ones(n, k).bfloat16()
        x[0, 3], x[1, 60], w[4, 3], w[7, 60], w[2, 60] = 1e4, 1.0, -1e4, float("inf"), float("nan")
        want = x.double().numpy() @ w.double().numpy().T
        assert np.isnan(want).sum() == 3
        for rows in (slice(None), slice(1), slice(1, 2)):
            got = F.linear(x[rows].to("gpu"), w.to("gpu")).cpu().double().numpy()
            assert np.array_equal(np.isnan(got), np.isnan(want[rows]))
            assert np.allclose(got, want[rows], rtol=8e-3, equal_nan=True)
    """
    run(code, **environment(unit), **keep(tmp_path / "texts"))
    options = [f.read_text().split("\n", 1)[0] for f in (tmp_path / "texts").glob("*.cpp")]
    found = {dict(re.findall(r"-D(\w+)=(\S+)", o)).get("ROWS") for o in options}
    assert ({"2"} if nvidia else {"2", "4", "8"}) <= found and "1" not in found
    found = [dict(re.findall(r"-D(\w+)=(\S+)", o)) for o in options]
    parts = {o.get("PARTS") for o in found if "SLOTS" in o}
    assert parts == ({"1", "2", "4"} if nvidia else set())
    # A step of k that is no 16 bytes, columns that lie across, nine rows: others' work.
    shutil.rmtree(tmp_path / "texts")
    code = """
    x, w = pf.randn(1, 36, device="gpu").bfloat16(), pf.randn(40, 36, device="gpu").bfloat16()
    for a, b in ((x[:, :33], w[:, :33].t()), (x[:, 1:33], w[:, 1:33].t()), (x[:, :32], w[:32]),
                 (x[:, :32].expand(9, 32), w[:, :32].t()), (x[:, :32:2], w[:, :32:2].t())):
        want = a.cpu().double().numpy() @ b.cpu().double().numpy()
        assert np.allclose((a @ b).cpu().double().numpy(), want, rtol=8e-3, atol=0.05)
    """
    run(code, **environment(unit), **keep(tmp_path / "texts"))
    options = [f.read_text().split("\n", 1)[0] for f in (tmp_path / "texts").glob("*.cpp")]
    assert options and not any("-DROWS=" in o for o in options)


@standin.MARKS[0]
@standin.MARKS[1]
def test_what_follows_is_finished_by_warps_of_its_own(run, tmp_path):  # noqa: F811
    """On Hopper, with at least as many tiles as compute units: the bits of a product and a program by
    themselves, where tiles lie within the matrix and where they do not, where rows are whole chunks and
    where they are not; the product is kept or not, and has a bias, at an odd address, or none; special
    values come through."""
    run(
        """
        import pyflame.nn.functional as F
        from pyflame import debug
        rng = np.random.default_rng(5)
        def parts(m, n, k, dtype, across):
            make = lambda *shape: pf.tensor(rng.standard_normal(shape)).to(dtype).to("gpu")
            x, w = make(m, k), make(k, n).t() if across else make(n, k)
            return x, w, make(n), make(m, n)
        def check(fn, *args):
            got = fn(*args)
            pf.synchronize()
            with debug.eager():
                want = fn(*args)
            for g, w in zip(got, want):
                g, w = g.cpu().float().numpy(), w.cpu().float().numpy()
                assert np.array_equal(g, w, equal_nan=True), fn.__name__
        def kept(x, w, b, o):
            p = F.linear(x, w, b)
            return p, F.gelu(p)
        def unread(x, w, b, o):
            return ((F.linear(x, w) * o).relu(),)
        def biased(x, w, b, o):
            return ((F.linear(x, w, b) * o).relu(),)
        def slope(x, w, b, o):
            leaf = o.clone().requires_grad_()
            y = F.gelu(leaf)
            pf.synchronize()
            return pf.autograd.grad(y, leaf, F.linear(x, w))
        for m, n, k, dtype, across in (
            (256, 384, 136, pf.bfloat16, False), (384, 384, 72, pf.float16, True),
            (200, 376, 136, pf.bfloat16, True), (130, 570, 136, pf.bfloat16, False),
        ):
            x, w, b, o = parts(m, n, k, dtype, across)
            for fn in (kept, unread, biased, slope):
                check(fn, x, w, b, o)
            check(biased, x, w, pf.cat([b[:1], b])[1:], o)
        x[3, 5], x[100, 1], w[7, 2], o[0, 0] = float("nan"), float("inf"), 1e4, float("-inf")
        for fn in (kept, unread, slope):
            check(fn, x, w, b, o)
        a, c = (pf.tensor(rng.standard_normal(s)).to(pf.bfloat16).to("gpu") for s in ((3, 128, 136), (3, 136, 184)))
        check(lambda a, c: (a @ c + 1.0,), a, c)  # batches
        """,
        **environment("wgmma"),
        **keep(tmp_path / "kept"),
    )
    found = units(tmp_path / "kept")
    assert found >= {
        "pf_bf16 wgmma maps aside",
        "pf_bf16 wgmma maps aside whole",
        "pf_f16 wgmma maps aside whole",
    }


@standin.MARKS[0]
@standin.MARKS[1]
def test_float32_of_parts(run):  # noqa: F811
    """At "highest" Hopper multiplies three parts of each number: with float32's accuracy, and its
    infinities, NaN and numbers below normal, which are for ordinary arithmetic; what follows the
    product runs once."""
    run(
        """
rng = np.random.default_rng(5)
make = lambda *shape: rng.standard_normal(shape).astype("float32")
def product(a, b, bias):
    x = pf.tensor(np.ascontiguousarray(a.T)).to("gpu").t()
    w, c = pf.tensor(b).to("gpu"), pf.tensor(bias).to("gpu")
    with pf.explain() as report:
        got = pf.nn.functional.linear(x, w, c).relu() * 2
        got = got.cpu().numpy()
    assert any("parts of bfloat16" in s["by"] for s in report.served), report
    return got
def error(got, a, b, bias):
    a, b = a.astype(float), b.astype(float)
    want = np.maximum(a @ b.T + bias, 0) * 2
    return (np.abs(got - want) / (np.abs(a) @ np.abs(b).T + np.abs(bias))).max()
a, b, bias = make(410, 580), make(403, 580), make(403)
assert error(product(a, b, bias), a, b, bias) < 2.0**-22

a, b = make(516, 132), make(520, 132)
bias = make(520)
a[0, 3], a[1, 5], a[2, 7], a[3] = np.nan, np.inf, -np.inf, 1e30
a[4], a[5] = 0, 1e-39 * a[5]
got = product(a, b, bias)
with np.errstate(invalid="ignore"):
    want = np.maximum(a.astype(float) @ b.astype(float).T + bias, 0) * 2
assert (np.isnan(got) == np.isnan(want)).all() and (np.isinf(got) == np.isinf(want)).all()
rows = [3, 4, 5, 6, 515]
assert error(got[rows], a[rows], b, bias) < 2.0**-20
""",
        **environment("wgmma"),
    )


@standin.MARKS[0]
@standin.MARKS[1]
def test_convolutions_of_parts(run):  # noqa: F811
    """The same of convolutions in float32, of images and of pixels, with a bias and what follows."""
    run(
        """
rng = np.random.default_rng(6)
make = lambda *shape: pf.tensor(rng.standard_normal(shape).astype("float32"))
conv = pf.nn.functional.conv2d
for last, side, outs in ((False, 26, 64), (True, 26, 68), (False, 24, 68), (False, 25, 68)):
    x, w, b = make(2, 48, side, side), make(outs, 48, 3, 3), make(outs)
    if last:
        x[1, 3, 4, 5], x[0, 0, 0, 0] = float("inf"), float("nan")
    X = x.to("gpu").contiguous(memory_format=pf.channels_last if last else pf.contiguous_format)
    with pf.explain() as report:
        got = conv(X, w.to("gpu"), b.to("gpu"), padding=1).relu().cpu().numpy()
    assert any("parts of bfloat16" in s["by"] for s in report.served), report
    with np.errstate(invalid="ignore"):
        want = conv(x.double(), w.double(), b.double(), padding=1).relu().numpy()
        size = conv(*(t.double().abs() for t in (x, w, b)), padding=1).numpy()
        assert (np.isnan(got) == np.isnan(want)).all() and (np.isinf(got) == np.isinf(want)).all()
        fine = np.isfinite(want) & np.isfinite(size)
        assert (np.abs(got - want) / size)[fine].max() < 2.0 ** (-20 if last else -22)
""",
        **environment("wgmma"),
    )


@standin.MARKS[0]
@standin.MARKS[1]
def test_weight_gradients_of_parts(run):  # noqa: F811
    """The same of the gradient by a convolution's weight, whose pixels are shared among blocks."""
    run(
        """
rng = np.random.default_rng(7)
make = lambda *shape: pf.tensor(rng.standard_normal(shape).astype("float32"))
conv = pf.nn.functional.conv2d
def gradient(x, w, g, how, **layout):
    w = w.contiguous(**layout).requires_grad_()
    y = conv(x.contiguous(**layout), w, **how)
    return pf.autograd.grad(y, w, g.contiguous(**layout))[0]
for last, how, size in ((False, {"padding": 1}, 18), (True, {"stride": 2, "padding": 2, "dilation": 2}, 33)):
    layout = {"memory_format": pf.channels_last if last else pf.contiguous_format}
    x, w = make(3, 64, size, size + 1), make(72, 64, 3, 3)
    g = make(*conv(x, w, **how).shape)
    if last:
        x[1, 3, 4, 5], g[0, 7, 0, 0] = float("inf"), float("nan")
    with pf.explain() as report:
        got = gradient(*(t.to("gpu") for t in (x, w, g)), how, **layout).cpu().numpy()
    assert any("parts of bfloat16" in s["by"] for s in report.served), report
    with np.errstate(invalid="ignore"):
        want = gradient(x.double(), w.double(), g.double(), how, **layout).numpy()
        size = gradient(*(t.double().abs() for t in (x, w, g)), how, **layout).numpy()
        assert (np.isnan(got) == np.isnan(want)).all() and (np.isinf(got) == np.isinf(want)).all()
        fine = np.isfinite(want) & np.isfinite(size)
        assert (np.abs(got - want) / size)[fine].max() < 2.0 ** (-20 if last else -22)
""",
        **environment("wgmma"),
    )
