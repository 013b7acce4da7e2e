"""Products of a few rows with a weight on the stand-in: each kernel that a launcher picks, at sizes that
fill no part, against float64."""

import re

import pytest
import standin
from standin import cache, run  # noqa: F401

GPUS = {
    "64 lanes": {"PYFLAME_STANDIN_ARCH": "gfx942"},
    "gfx90a, 64 lanes": {"PYFLAME_STANDIN_ARCH": "gfx90a"},
    "32 lanes": {"PYFLAME_STANDIN_ARCH": "gfx1100"},
    "ampere": {**standin.AS_NVIDIA, "PYFLAME_STANDIN_SM": 80},
    "hopper": {**standin.AS_NVIDIA, "PYFLAME_STANDIN_SM": 90},
}

CODE = """
from pyflame.nn import functional as F
rng = np.random.default_rng(2)

def place(x, dtype):
    return pf.tensor(x).to(dtype).to("gpu")

for dtype, tol in ((pf.bfloat16, 1e-2), (pf.float16, 2e-3), (pf.float32, 1e-5)):
    for m, n, k in ((1, 700, 1024), (1, 33, 8448), (1, 45, 2056), (1, 70, 1600), (1, 1, 40000),
                    (2, 700, 264), (3, 45, 2056), (8, 130, 1600), (5, 8, 6400),
                    (2, 1, 9000), (17, 67, 776)):
        if dtype is not pf.bfloat16 and n * k > 200_000:
            continue
        a, w, b, r = (place(rng.standard_normal(s), dtype) for s in ((m, k), (n, k), (n,), (m, n)))
        exact = [t.cpu().double().numpy() for t in (a, w, b)]
        got = F.linear(a, w, b)
        want = exact[0] @ exact[1].T + exact[2]
        assert np.allclose(got.cpu().double().numpy(), want, rtol=tol, atol=tol * k**0.5), (m, n, k)
        # What follows joins, and sees what would have been written.
        assert pf.equal(F.gelu(F.linear(a, w, b), approximate="tanh") + r,
                        F.gelu(got.clone(), approximate="tanh") + r)
        # Rows and columns that lie apart, no bias.
        wide = place(rng.standard_normal((m, 2 * k)), dtype)[:, k:]
        some = place(rng.standard_normal((2 * n, k)), dtype)[::2]
        want = wide.cpu().double().numpy() @ some.cpu().double().numpy().T
        assert np.allclose((wide @ some.t()).cpu().double().numpy(), want, rtol=tol, atol=tol * k**0.5)

# A norm of one row is made within the product that reads it, with the bits of both one behind the
# other; it is there for whoever reads it, too.
def normed(x, k, weight, bias, rms):
    return F.rms_norm(x, (k,), weight) if rms else F.layer_norm(x, (k,), weight, bias)
with pf.no_grad():
    for dtype, m, n, k in ((pf.bfloat16, 1, 70, 1600), (pf.bfloat16, 1, 9, 2048), (pf.float16, 1, 33, 776),
                           (pf.float32, 1, 5, 1000), (pf.bfloat16, 1, 330, 1600), (pf.bfloat16, 1, 3, 17000), (pf.bfloat16, 1, 8, 77),
                           (pf.bfloat16, 2, 70, 1600)):
        x = place(rng.standard_normal((m, k)) * 3 + 1, dtype)
        w, c, r = (place(rng.standard_normal(s), dtype) for s in ((n, k), (n,), (m, n)))
        for weighted, rms in ((True, False), (False, False), (True, True)):
            g, b = (place(rng.standard_normal(k), dtype) if weighted else None for _ in "gb")
            merged = pf.debug.stats()["merged"]
            y = normed(x, k, g, b, rms)
            got = F.gelu(F.linear(y, w, c), approximate="tanh") + r
            got.cpu()
            assert pf.debug.stats()["merged"] - merged == (m == 1)
            again = normed(x, k, g, b, rms)
            again.cpu()
            assert pf.equal(y, again), (dtype, m, n, k)
            assert pf.equal(got, F.gelu(F.linear(again, w, c), approximate="tanh") + r), (dtype, m, n, k)
    # Some of its columns go to a row of a cache in the same launch: where an index says, which is looked at.
    for dtype, n, k in ((pf.bfloat16, 96, 1600), (pf.bfloat16, 336, 1600), (pf.bfloat16, 96, 77),
                        (pf.float32, 480, 1024)):
        x = place(rng.standard_normal((1, 1, k)), dtype)
        w, c = place(rng.standard_normal((n, k)) / k**0.5, dtype), place(rng.standard_normal(n), dtype)
        for at in (0, 5, -1):
            kept = place(rng.standard_normal((7, 2, n // 12, 4)), dtype)
            version, want = kept._version, kept.clone()
            merged = pf.debug.stats()["merged"]
            y = F.linear(F.layer_norm(x, (k,)), w, c).view(1, 3, n // 12, 4)
            kept.index_copy_(0, pf.tensor([at]).to("gpu"), y[:, 1:])
            assert kept._version == version + 1
            kept.cpu()
            assert pf.debug.stats()["merged"] - merged == 2
            want[at] = y[0, 1:]
            assert pf.equal(kept, want)
    wrong = F.linear(F.layer_norm(x, (k,)), w, c).view(1, 3, n // 12, 4)
    try:
        kept.index_copy_(0, pf.tensor([7]).to("gpu"), wrong[:, 1:])
        kept.cpu()
        raise AssertionError("no error")
    except pf.IndexError as e:
        assert "index_copy_: index 7 is out of bounds for a size of 7" in str(e), e
    # What does not fit: several rows, another dtype, columns that lie apart, an index for each element.
    y = F.linear(F.layer_norm(x, (k,)), w, c).view(3, n // 12, 4)
    kept.zero_()
    kept.index_copy_(0, pf.tensor([1, 2]).to("gpu"), y[:2].view(2, 1, n // 12, 4).expand(2, 2, n // 12, 4))
    assert pf.equal(kept[1:3, 0], y[:2])
    y = F.linear(F.layer_norm(x, (k,)), w, c).view(1, n)
    some = pf.zeros(3, n // 2, dtype=dtype, device="gpu")
    some.index_copy_(0, pf.tensor([2]).to("gpu"), y[:, ::2])
    assert pf.equal(some[2:], y[:, ::2])
    y = F.linear(F.layer_norm(x, (k,)), w, c).view(1, n)
    some = pf.zeros(3, n, dtype=dtype, device="gpu")
    some.scatter_(0, (pf.arange(n) % 3).view(1, n).to("gpu"), y)
    assert pf.equal(some.sum(0), y[0])
    # What has no number, or is far from 0; another's row; a product that does not read it.
    x = np.ones((1, 1024)) * 1e4
    for bad in (np.nan, np.inf, -np.inf):
        x[0, 7] = bad
        assert np.isnan(F.linear(F.layer_norm(place(x, pf.float32), (1024,)),
                                 place(np.ones((3, 1024)), pf.float32)).cpu().numpy()).all()
    x = place(rng.standard_normal((1, 1024)), pf.float32)
    w = place(rng.standard_normal((3, 1024)), pf.float32)
    y = F.layer_norm(x, (1024,))
    z = F.linear(x, w)
    assert np.allclose(z.cpu().numpy(), x.cpu().numpy() @ w.cpu().numpy().T, rtol=1e-4, atol=1e-3)
    assert np.allclose(y.cpu().numpy().std(), 1, rtol=1e-3)
x.requires_grad_()
F.linear(F.layer_norm(x, (1024,)), w).sum().backward()  # what gradients need is there
v, g = x.detach().cpu().double().numpy(), w.cpu().double().numpy().sum(0)
h = (v - v.mean()) / v.std()
assert np.allclose(x.grad.cpu().numpy(), (g - g.mean() - h * (g * h).mean()) / v.std(), rtol=1e-3, atol=1e-3)

# No number, infinities, large ones: they stay where they are.
for m in (1, 4, 20):
    x, w = np.ones((m, 2048)), np.full((300, 2048), 0.25)
    x[:, 5] = 1e4
    x[m // 2, 2047] = np.inf
    w[299, 1] = np.nan
    w[7, 2047] = -1e4
    w[8, 2047] = 0
    with np.errstate(invalid="ignore"):
        want = x @ w.T
    got = (place(x, pf.bfloat16) @ place(w, pf.bfloat16).t()).cpu().double().numpy()
    assert np.allclose(got, want, rtol=1e-2, equal_nan=True), m
assert (place(np.ones((0, 2048)), pf.bfloat16) @ place(w, pf.bfloat16).t()).shape == (0, 300)
assert (place(np.ones((1, 2048)), pf.bfloat16) @ place(w[:0], pf.bfloat16).t()).shape == (1, 0)

# A captured step, whose graph may read weights early, but not those that it writes.
w1, w2 = (place(rng.standard_normal((700, 1024)) * 0.05, pf.bfloat16) for _ in "ab")
w3 = place(rng.standard_normal((1024, 704)) * 0.05, pf.bfloat16)
def step(x):
    w2.mul_(0.5)
    y = F.linear(x, w1) + F.linear(x, w2)
    return F.linear(F.pad(y, (0, 4)), w3)
for m in (2, 1):
    fast = pf.compile(step, mode="reduce-overhead")
    for i in range(6):
        x = place(rng.standard_normal((m, 1024)), pf.bfloat16)
        if i == 3:
            w1.copy_(w1 * 2)
        kept = w2.clone()
        with pf.no_grad():
            want = step(x)
            w2.copy_(kept)
            assert pf.equal(fast(x), want), (m, i)
"""


@standin.MARKS[0]
@standin.MARKS[1]
@pytest.mark.parametrize("gpu", GPUS)
def test_few_rows(run, gpu, tmp_path):  # noqa: F811
    if "PYFLAME_CUDA_LIBRARY" in GPUS[gpu] and not standin.CUDA.exists():
        pytest.skip("no CUDA plug-in")
    texts = tmp_path / "texts"
    texts.mkdir()
    run(
        CODE,
        **GPUS[gpu],
        PYFLAME_GPU_GEMM="own",
        PYFLAME_STANDIN_KEEP=texts,
        XDG_CACHE_HOME=texts / "cache",
    )
    options = [
        dict(re.findall(r"-D(\w+)=(\S+)", f.read_text().split("\n", 1)[0]))
        for f in texts.glob("*.cpp")
    ]
    rows = {o["ROWS"] for o in options if "ROWS" in o and "COLUMNS" in o}
    assert rows == ({"2", "4", "8"} if gpu.endswith("lanes") else {"2"})
    streams = {o["CHUNKS"] for o in options if "CHUNKS" in o}
    assert streams == ({"2", "4", "5", "6", "7", "8"} if gpu.endswith("64 lanes") else {*"345678"})
    by_copies = {o["CHUNKS"] for o in options if "CHUNKS" in o and "SLOTS" in o}
    assert by_copies == ({"3", "4", "7", "8"} if gpu == "hopper" else set())
