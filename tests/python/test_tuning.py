"""Measured choices of products: pf.tune, get_tuning_cache, `pyflame tune`, on the stand-in."""

import os
import subprocess
import sys

import pytest
import standin

import pyflame as pf
from pyflame.backend.rocm import get_tuning_cache

cache, run = standin.cache, standin.run  # fixtures

PRODUCT = """
a = np.random.default_rng(0).standard_normal((70, 40)).astype("float32")
x = pf.tensor(a, device="rocm")
def product():
    out = (x @ x.t()).cpu().numpy()
    assert np.allclose(out, a @ a.T, atol=1e-4)
cache = pf.get_tuning_cache()
"""


def test_without_a_gpu(tmp_path):
    """The seeds' block runs everywhere: /path/to need not exist before something is saved."""
    tuning = get_tuning_cache()
    assert tuning is pf.get_tuning_cache()
    if tuning._state():
        pytest.skip("there is a GPU")
    tuning.enable_exhaustive_search(True)
    tuning.set_cache_file("/path/to/miopen_cache.bin")
    with pf.tune() as same:
        assert same is tuning
        assert (pf.ones(2, 3) @ pf.ones(3, 2)).tolist() == [[3, 3], [3, 3]]
    assert tuning.hits == tuning.timed == len(tuning) == 0 and tuning.entries() == []
    with pytest.warns(UserWarning, match="miopen_cache.bin was not written"):
        assert not tuning.save()
    tuning.enable_exhaustive_search(False)
    tuning._path = None
    done = subprocess.run(
        [sys.executable, "-m", "pyflame", "tune"],
        env={"PYTHONPATH": str(standin.PACKAGE), "PYFLAME_HIP_LIBRARY": "/none",
             "PYFLAME_CUDA_LIBRARY": "/none"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1 and "no usable GPU" in done.stderr


@standin.MARKS[0]
@standin.MARKS[1]
def test_measured_once_and_remembered(run, tmp_path):
    file = tmp_path / "made" / "later" / "choices.txt"
    run(
        PRODUCT
        + f"""
product()
assert cache.hits == cache.timed == len(cache) == 0  # nothing is measured unasked
cache.set_cache_file({str(file)!r})
with pf.tune():
    product()
    timed = cache.timed
    assert timed >= 1 and len(cache) == 1
    product()
    assert cache.timed == timed and cache.hits >= 1  # not again
(entry,) = cache.entries()
assert "matmul float32 70x40x70" in entry["product"] and "gfx942" in entry["device"]
assert entry["library"] == "none" and entry["choice"].startswith("own ")
hits = cache.hits
product()
assert cache.hits == hits + 1
cache.clear()
cache.enable_exhaustive_search(True)
with pf.tune():
    product()
    assert cache.timed > timed, (cache.timed, timed)  # more candidates
"""
    )
    assert (
        file.read_text().startswith("pyflame-tuning 1\n") and len(list(file.parent.iterdir())) == 1
    )
    again = PRODUCT + "product()\nprint('hits', cache.hits, len(cache), cache.timed)\n"
    assert "hits 1 1 0" in run(again, PYFLAME_TUNING_FILE=file)
    assert "hits 0 0 0" in run(again, PYFLAME_TUNING_FILE=file, PYFLAME_TUNING="0")
    # Choices are of one kind of device.
    assert "hits 0 1 0" in run(again, PYFLAME_TUNING_FILE=file, PYFLAME_STANDIN_ARCH="gfx1100")
    whole = file.read_text()
    for damaged in (
        whole.replace("own", "owm"),
        whole[:-20],
        "nonsense",
        whole.replace("1\n", "2\n", 1),
    ):
        file.write_text(damaged)
        out = run(again, PYFLAME_TUNING_FILE=file)
        assert "hits 0 0 0" in out and "is ignored" in out and str(file) in out


def signed(text):
    """As the file is written: with its checksum (Digest of src/gpu/cache.h)."""
    a, b, word = 0xCBF29CE484222325, 0x84222325CBF29CE4, (1 << 64) - 1
    for c in text.encode():
        a = ((a ^ c) * 0x100000001B3) & word
        b = ((b ^ c) * 0x9E3779B97F4A7C15) & word
        b ^= b >> 31
    a = ((a ^ len(text)) * 0x100000001B3) & word
    return f"{text}checksum {a:016x}{b:016x}\n"


@standin.MARKS[0]
@standin.MARKS[1]
def test_what_a_file_may_not_say(run, tmp_path):
    """Entries with a right checksum that name no kernel, and things that are no files."""
    file = tmp_path / "choices.txt"
    run(PRODUCT + f"cache.set_cache_file({str(file)!r})\nwith pf.tune():\n    product()\n")
    body = file.read_text()[: file.read_text().rindex("checksum ")]
    assert signed(body) == file.read_text()
    start, line = body.splitlines()
    device, library, product, choice, time = line.split("\t")
    code = """
for path in sys.argv[1].split(":"):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cache.set_cache_file(path)
    product()
    assert len(cache) == 0, (path, cache.entries())
"""
    bad = []
    for i, (c, t) in enumerate(
        [("own 2147483647", time), ("own 7", time), ("own -2", time), ("library -1", time),
         ("library 32", time), ("own 99999999999999999999", time), ("own", time), ("own ", time),
         ("mine 0", time), ("own 5x", time), (choice, "nan"), (choice, "inf"), (choice, "-1"),
         (choice, ""), (choice, "1e99")]
    ):  # fmt: skip
        path = tmp_path / f"bad{i}"
        path.write_text(signed(f"{start}\n" + "\t".join([device, library, product, c, t]) + "\n"))
        bad.append(str(path))
    os.mkfifo(tmp_path / "fifo")
    run(
        PRODUCT
        + code.replace("sys.argv[1]", repr(":".join([*bad, str(tmp_path / "fifo"), "/dev/zero"])))
        + f"""
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    cache.set_cache_file({str(tmp_path / "fifo")!r})
    with pf.tune():
        product()
assert any("not a regular file" in str(w.message) for w in caught), caught
"""
    )
    assert (tmp_path / "fifo").is_fifo()
    big = tmp_path / "big"
    with open(big, "wb") as f:
        f.truncate(1 << 40)
    assert "larger than 16 MB" in run(PRODUCT + "product()\n", PYFLAME_TUNING_FILE=big)


@standin.MARKS[0]
@standin.MARKS[1]
def test_exhaustive_search_alone_measures(run, tmp_path):
    """Without `with pf.tune()`, until it is switched off; the choices outlive the process."""
    file = tmp_path / "choices.txt"
    run(
        PRODUCT
        + """
cache.enable_exhaustive_search(True)
product()
(entry,) = cache.entries()
assert len(entry["timed"]) == cache.timed == 5 and cache.exhaustive_search
product()
assert cache.timed == 5 and cache.hits >= 1  # measured once
""",
        PYFLAME_TUNING_FILE=file,
    )
    assert "70x40x70" in file.read_text()
    other = "y = pf.ones(5, 6, device='rocm')\n(y @ y.t()).sum().item()\n"
    run(
        PRODUCT
        + f"""
product()
assert cache.timed == 0 and cache.hits == 1
cache.enable_exhaustive_search(True)
cache.enable_exhaustive_search(False)
{other}
assert cache.timed == 0 and len(cache) == 1
with pf.tune(exhaustive=True):
    pass
{other}
assert cache.timed == 0
""",
        PYFLAME_TUNING_FILE=file,
    )


def test_regions_of_threads_that_overlap(monkeypatch):
    """It is measured until the last of them has ended, and no longer."""
    cache, told = pf.tuning.TuningCache(), []
    monkeypatch.setattr(cache, "_do", lambda command, on: told.append(on) or f"1 {len(told)}")
    assert [cache._measure(more) for more in (1, 1, -1, -1)] == [1, 2, 3, 4]
    assert told == [True, True, True, False]


@standin.MARKS[0]
@standin.MARKS[1]
@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs"])
def test_compiled_steps_that_measure(run, tmp_path, mode):
    """Calls that Python runs measure; what the program does beside them does not, and the file has the choices."""
    file = tmp_path / "choices.txt"
    code = f"""
model = pf.nn.Linear(40, 70).to("rocm")
compiled = pf.compile(model, mode={mode!r})
def step(n=70):
    x_n = x[:n].clone()
    model.weight.grad = None
    out = compiled(x_n)
    out.square().sum().backward()
    return out.detach().cpu(), model.weight.grad.cpu()
plain = (x @ x.t()).sum().item()
assert cache.timed == 0
first = step()
timed, choices = cache.timed, len(cache)
assert timed >= 1, cache
for _ in range(4):
    again = step()
    assert all(pf.allclose(p, q, rtol=1e-5, atol=1e-5) for p, q in zip(first, again))
print("choices", choices, len(cache))
step(50)
assert cache.timed > timed
timed = cache.timed
(x[:30] @ x.t()).sum().item()
assert cache.timed == timed, "not what is outside"
with pf.tune():
    compiled(x[:50].clone()).sum().item()
    timed = cache.timed
    (x[:30] @ x.t()).sum().item()
    assert cache.timed > timed, "what was asked for goes on behind it"
timed = cache.timed
(x[:20] @ x.t()).sum().item()
assert cache.timed == timed, "and ends with its region"
"""
    out = run(PRODUCT + code, PYFLAME_TUNING_FILE=file)
    # The captured backward pass is measured where it is captured.
    assert "choices 1 2" in out if mode == "max-autotune" else "choices 1 1" in out, out
    assert "70x40" in file.read_text()
    # A later process finds them: nothing is measured.
    later = code.split("timed, choices")[0] + "print('timed', cache.timed)\n"
    assert "timed 0" in run(PRODUCT + later, PYFLAME_TUNING_FILE=file)


@standin.MARKS[0]
@standin.MARKS[1]
def test_the_fastest_is_chosen(run, tmp_path):
    run(
        PRODUCT
        + """
with pf.tune(exhaustive=True):
    product()
(entry,) = cache.entries()
timed = entry["timed"]
assert len(timed) == cache.timed == 5 and all(t > 0 for t in timed.values())
assert entry["choice"] == min(timed, key=timed.get)
assert entry["microseconds"] == timed[entry["choice"]]
cache.set_cache_file("/proc/nowhere/choices")
assert len(cache) == 0
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with pf.tune():
        product()
assert any("were not kept" in str(w.message) for w in caught)
""",
        XDG_CACHE_HOME=tmp_path,
    )
    assert (tmp_path / "pyflame" / "tuning.txt").exists()


PRODUCTS = standin.FOLDER / "standin" / "products"

# Every dtype, transposed operands, batches that repeat, a bias.
ALL_PRODUCTS = """
rng = np.random.default_rng(1)
for dtype, tol in ((pf.float32, 1e-5), (pf.float64, 1e-12), (pf.float16, 2e-3), (pf.bfloat16, 2e-2)):
    make = lambda *s: pf.tensor(rng.standard_normal(s)).to(dtype)
    for a, b, bias in (
        (make(7, 5), make(5, 6), None),
        (make(5, 7).t(), make(6, 5).t(), None),
        (make(3, 7, 5), make(3, 5, 6), None),
        (make(2, 3, 7, 5), make(5, 6), None),
        (make(2, 1, 7, 5), make(3, 5, 6), None),
        (make(7, 5), make(6, 5).t(), make(6)),
    ):
        here = lambda t: t.to("rocm")
        want = a.double().numpy() @ b.double().numpy()
        if bias is None:
            got = here(a) @ here(b)
        else:
            got = pf.nn.functional.linear(here(a), here(b.t()), here(bias))
            want = want + bias.double().numpy()
        assert got.dtype is dtype
        assert np.allclose(got.cpu().double().numpy(), want, rtol=tol, atol=tol), (dtype, a.shape)
for dtype in pf.float16, pf.bfloat16:  # a weight's gradient is made in float32
    make = lambda *s: pf.tensor(rng.standard_normal(s)).to("rocm", dtype)
    x, g, w = make(7, 8), make(7, 6), make(6, 8).float().requires_grad_()
    with pf.autocast("cuda", dtype):
        y = pf.nn.functional.linear(x, w)
    y.backward(g)
    want = g.cpu().double().numpy().T @ x.cpu().double().numpy()
    assert np.allclose(w.grad.cpu().numpy(), want, rtol=1e-5, atol=1e-5)
"""


@standin.MARKS[0]
@standin.MARKS[1]
def test_the_library(run, tmp_path):
    """Products through a stand-in for hipBLASLt, and the choice among its proposals."""
    run(
        ALL_PRODUCTS
        + """
x = pf.ones(4, 4, device="rocm")
product = lambda: (x @ x).sum().item()
assert product() == 64
cache = pf.get_tuning_cache()
assert len(cache) == 0
with pf.tune():
    assert product() == 64
(entry,) = cache.entries()
assert entry["library"] == "hipBLASLt 900" and list(entry["timed"])[:3] == [f"library {i}" for i in range(3)]
assert entry["choice"] == min(entry["timed"], key=entry["timed"].get) != "library 0"
hits = cache.hits
assert product() == 64 and cache.hits == hits + 1
        """,
        PYFLAME_HIPBLASLT_LIBRARY=PRODUCTS / "libhipblaslt.so",
        PYFLAME_GPU_GEMM="library",  # also products as small as these
        XDG_CACHE_HOME=tmp_path,
    )


@standin.MARKS[0]
@standin.MARKS[1]
def test_precision_and_int8_of_the_library(run):
    """Precision "high" reaches the library (whose stand-in then rounds operands to tf32), and int8
    does where sums are asked for; what it does not take goes to our own kernel."""
    run(
        """
rng = np.random.default_rng(2)
a, b = rng.standard_normal((2, 48, 48)).astype("float32")
x, y = pf.tensor(a, device="rocm"), pf.tensor(b, device="rocm")
worst = lambda: np.abs((x @ y).cpu().numpy() - a.astype(float) @ b).max()
assert worst() < 1e-5
pf.set_float32_matmul_precision("high")
assert 1e-4 < worst() < 1e-2
for m, n, k in ((8, 12, 16), (7, 12, 16), (8, 13, 16), (8, 12, 18)):
    a, b = rng.integers(-128, 128, (m, k)), rng.integers(-128, 128, (n, k))
    x, y = (pf.tensor(t.astype("int8"), device="rocm") for t in (a, b))
    for other in (y.t(), y.t().contiguous()):
        with pf.tune():
            assert (pf.int_mm(x, other).cpu().numpy() == a @ b.T).all()
        assert ((x @ other).cpu().numpy() == (a @ b.T).astype("int8")).all()
timed = [e["timed"] for e in pf.get_tuning_cache().entries() if "int8 to int32" in e["product"]]
assert len(timed) == 4 and all("library 0" in t for t in timed)
        """,
        PYFLAME_HIPBLASLT_LIBRARY=PRODUCTS / "libhipblaslt.so",
        PYFLAME_GPU_GEMM="library",
        PYFLAME_STANDIN_ARCH="gfx1100",  # our own kernel computes in float32 there
    )


@standin.MARKS[0]
@standin.MARKS[1]
def test_the_second_library(run, tmp_path):
    """Without hipBLASLt products go to rocBLAS, which is given its workspace; none to ours."""
    run(
        ALL_PRODUCTS,
        PYFLAME_HIPBLASLT_LIBRARY="/nowhere/libhipblaslt.so",
        PYFLAME_ROCBLAS_LIBRARY=PRODUCTS / "librocblas.so",
        PYFLAME_GPU_GEMM="library",
        XDG_CACHE_HOME=tmp_path,
    )
    programs = [f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()]
    assert programs and not any(b"matmul" in p for p in programs)


@standin.MARKS[0]
@standin.MARKS[1]
def test_two_processes_keep_both_their_choices(run, tmp_path):
    file = tmp_path / "choices.txt"
    code = """
x = pf.ones({0}, {0}, device="rocm")
with pf.tune() as cache:
    assert (x @ x).sum().item() == {0} ** 3
    cache._do(1)
"""
    run(code.format(8), PYFLAME_TUNING_FILE=file)
    run(code.format(9), PYFLAME_TUNING_FILE=file)
    text = file.read_text()
    assert "8x8x8" in text and "9x9x9" in text


@standin.MARKS[0]
@standin.MARKS[1]
def test_command(run, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import pyflame as pf\npf.synchronize()\n(pf.ones(5, 6) @ pf.ones(6, 4)).sum().item()\n"
    )
    out = run(
        f"""
        from pyflame.cli import main
        assert main(["tune", "--script", {str(script)!r}]) == 0
        """,
        XDG_CACHE_HOME=tmp_path,
    )
    assert "matmul float32 5x6x4" in out and "1 choices" in out
