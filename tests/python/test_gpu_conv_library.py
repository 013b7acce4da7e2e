"""Convolutions through stand-ins for cuDNN and MIOpen (tests/standin), and what happens where those
fail."""

import pytest
import standin
from standin import cache, run  # noqa: F401

PRODUCTS = standin.FOLDER / "standin" / "products"
LIBRARIES = {
    "cudnn": standin.AS_NVIDIA | {"PYFLAME_CUDNN_LIBRARY": PRODUCTS / "libcudnn.so"},
    "miopen": {"PYFLAME_MIOPEN_LIBRARY": PRODUCTS / "libMIOpen.so"},
}
pytestmark = standin.MARKS

# Weights of the sums are small integers and inputs quarters: every order of a sum gives the same.
START = """
F = pf.nn.functional
library = ctypes.CDLL({0!r})
library.standin_library_fails.restype = ctypes.c_int64
fails = lambda nth=0: library.standin_library_fails(ctypes.c_int64(nth))
rng = np.random.default_rng(5)

def values(*shape):
    return rng.integers(-8, 9, shape) / 4.0

def convolution(x, w, b, dy, dtype, device, last=False, **how):
    '''The result and its gradients.'''
    def place(v):
        t = pf.tensor(v).to(dtype).to(device)
        if last and t.ndim == 4:
            t = t.contiguous(memory_format=pf.channels_last)
        return t.requires_grad_()
    x, w, b = place(x), place(w), None if b is None else place(b)
    y = (F.conv1d, F.conv2d, F.conv3d)[x.ndim - 3](x, w, b, **how)
    y.backward(place(dy(y.shape)).detach())
    results = [y, x.grad, w.grad] + ([] if b is None else [b.grad])
    return [t.detach().cpu().double().numpy() for t in results]

def reasons(report):
    return [line for line in report.to_text().splitlines() if "our own kernels" in line]
"""


def environment(library, **more):
    if library == "cudnn" and not standin.CUDA.exists():
        pytest.skip("no CUDA plug-in")
    return LIBRARIES[library] | {k: str(v) for k, v in more.items()}


def start(library):
    file = next(v for k, v in LIBRARIES[library].items() if k in NAMES)
    return START.format(str(file))


NAMES = ("PYFLAME_CUDNN_LIBRARY", "PYFLAME_MIOPEN_LIBRARY")


@pytest.mark.parametrize("library", LIBRARIES)
def test_results(run, library):  # noqa: F811
    """One to three dimensions, both layouts, strides, paddings, dilations, groups, a bias, every
    float: as on the CPU, with nothing left to our own kernels but the gradient of float32 weights,
    and that only where TF32 is not allowed."""
    run(
        start(library)
        + """
dtypes = [pf.float32, pf.float16, pf.bfloat16] + [pf.float64] * CUDNN
for dtype, precision in [(d, "highest") for d in dtypes] + [(pf.float32, "high")]:
    pf.backends.cudnn.allow_tf32 = precision == "high"
    least = 3 if dtype is pf.float32 and precision == "highest" else 5
    for last in (False, True):
        for shape, taps, how in (
            ((2, 4, 6, 5), (6, 4, 3, 3), dict(padding=1)),
            ((2, 4, 7, 6), (6, 2, 3, 2), dict(stride=2, padding=(1, 0), groups=2)),
            ((1, 3, 9, 8), (2, 3, 3, 3), dict(dilation=2, padding=2)),
            ((3, 5, 5, 5), (7, 5, 1, 1), dict(stride=2)),
            ((2, 3, 9), (4, 3, 3), dict(stride=2, padding=1)),
            ((1, 2, 4, 5, 3), (3, 2, 2, 3, 2), dict(padding=1)),
            ((2, 16, 8, 7), (24, 16, 3, 3), dict(padding=1)),  # images are turned, and back
            ((1, 32, 4, 3, 4), (16, 16, 1, 3, 3), dict(padding=(0, 1, 1), groups=2)),
        ):
            x, w = values(*shape), values(*taps)
            made = []
            def dy(shape):
                if not made:
                    made.append(values(*shape))
                return made[0]
            for b in (values(taps[0]), None):
                want = convolution(x, w, b, dy, dtype, "cpu", **how)
                fails()
                with pf.explain() as report:
                    got = convolution(x, w, b, dy, dtype, "gpu", last, **how)
                calls = fails()
                assert calls > least and not reasons(report), (calls, reasons(report))
                for g, v in zip(got, want):
                    tol = 0.008 if dtype is pf.bfloat16 else 0.001 if dtype is pf.float16 else 1e-6
                    assert np.allclose(g, v, rtol=tol, atol=tol), (dtype, last, shape, how)
""".replace("CUDNN", str(int(library == "cudnn"))),
        **environment(library, PYFLAME_GPU_CONV="library"),
    )


@pytest.mark.parametrize("library", LIBRARIES)
def test_layouts(run, library):  # noqa: F811
    """Slices, expanded gradients, a weight that lies otherwise than its input; transposed ones; a
    result with more pixels than fit is ours, and so are integers and empty batches."""
    run(
        start(library)
        + """
x, w = pf.tensor(values(2, 6, 8, 8)), pf.tensor(values(4, 3, 3, 3))
def each(device):
    a, b = x.float().to(device), w.float().to(device)
    c = a.contiguous(memory_format=pf.channels_last)
    yield F.conv2d(a[:, ::2, 1:7, ::2], b)
    yield F.conv2d(c[:, 1:4], b, padding=1)
    yield F.conv2d(a[:, :3], b.contiguous(memory_format=pf.channels_last))
    yield F.conv2d(c[:, :3, :, :].transpose(2, 3), b)
    yield F.conv_transpose2d(a[:, :4], b, stride=2, padding=1, output_padding=1)
    yield F.conv_transpose2d(c[:, :4], b, stride=1, dilation=2, output_padding=1)
    v = b.clone().requires_grad_()
    F.conv2d(c[:, :3], v).sum().backward()
    yield v.grad
    yield F.conv2d(a[:0, :3], b)
    yield F.conv2d((a[:, :3] * 4).to(pf.int32), (b * 4).to(pf.int32))
fails()
for got, want in zip(each("gpu"), each("cpu")):
    assert got.shape == want.shape
    assert np.allclose(got.cpu().numpy(), want.numpy(), rtol=1e-6, atol=1e-6)
assert fails() > 40
a = pf.tensor(values(2, 16, 5, 5)).float().to("gpu")
a = a.contiguous(memory_format=pf.channels_last)
got = F.conv2d(a, pf.ones(16, 1, 3, 3).to("gpu"), groups=16)
pf.synchronize()
assert fails() == 0, "channels by themselves are ours"
got = F.conv2d(a.half(), pf.ones(8, 16, 3, 3, dtype=pf.float16).to("gpu"))
pf.synchronize()
assert fails() == 0, "small ones are ours"
""",
        **environment(library),
    )


@pytest.mark.parametrize("library", LIBRARIES)
def test_choice(run, library):  # noqa: F811
    code = (
        start(library)
        + """
x, w = pf.tensor(values(2, 3, 6, 6)).float(), pf.tensor(values(4, 3, 3, 3)).float()
want = F.conv2d(x, w).numpy()
fails()
with pf.explain() as report:
    got = F.conv2d(x.to("gpu"), w.to("gpu")).cpu().numpy()
assert np.allclose(got, want)
"""
    )
    run(code + "assert fails() > 0 and not reasons(report)", **environment(library))
    own = environment(library, PYFLAME_GPU_CONV="own")
    run(code + "assert fails() == 0 and not reasons(report)", **own)
    nowhere = dict.fromkeys(NAMES, "/nowhere/lib.so")
    run(
        code + "assert fails() == 0 and '/nowhere/lib.so' in reasons(report)[0]",
        **environment(library) | nowhere,
    )


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_call_fails_once(run, library):  # noqa: F811
    """The nth call of a convolution fails, for every n: the result is right, and where our own kernel
    made it the report says why. The width differs, so that each is prepared anew."""
    run(
        start(library)
        + """
def attempt(kind, width, nth):
    x, w, b = values(1, 4, 3, width), values(4, 4, 3, 3), values(4)
    dy = values(1, 4, 1, width - 2)
    def go(device):
        X, W, B, G = (pf.tensor(v).float().to(device) for v in (x, w, b, dy))
        if kind == 0:
            return F.conv2d(X, W, B)
        if kind == 1:
            return F.conv_transpose2d(G, W)
        W.requires_grad_()
        F.conv2d(X, W).backward(G)
        return W.grad
    want = go("cpu").numpy()
    with pf.debug.eager():
        # Else the gradient of float32 weights is ours; TF32 holds these numbers.
        pf.backends.cudnn.allow_tf32 = kind == 2
        if kind == 2:  # the forward one is prepared before
            F.conv2d(*(pf.tensor(v).float().to("gpu") for v in (x, w)))
            pf.synchronize()
        fails(nth)
        with pf.explain() as report:
            got = go("gpu").cpu().numpy()
        pf.synchronize()
    calls = fails()
    assert np.allclose(got, want, rtol=1e-5, atol=1e-5), (kind, nth)
    return calls, reasons(report)

width, ours = 5, 0
for kind in range(3):
    calls, why = attempt(kind, width, 0)  # also compiles what our own kernels... are not asked for
    assert not why
    nth = 0
    while nth < calls:
        nth, width = nth + 1, width + 1
        _, why = attempt(kind, width, nth)
        assert len(why) <= 1 and all("gave status" in w and "as asked" in w for w in why), why
        ours += len(why)
    calls, why = attempt(kind, width + 1, 0)
    assert not why, "the library is used again"
    width += 2
assert ours > 30, ours
""",
        **environment(library, PYFLAME_COMPILE_THREADS=0),
    )


@pytest.mark.parametrize("library", LIBRARIES)
def test_failing_behind_what_is_still_compiled(run, library, tmp_path):  # noqa: F811
    """Nobody is there to take our own kernel then: who waits is told, and the next one runs."""
    run(
        start(library)
        + """
x, w = pf.tensor(values(1, 3, 6, 6)).float(), pf.tensor(values(4, 3, 3, 3)).float()
X, W = x.to("gpu"), w.to("gpu")
for _ in range(2):
    pf.synchronize()
    fails()
    F.conv2d(X, W)
    pf.synchronize()
calls = fails()
fails(calls)
with pf.debug.eager():
    y = F.conv2d((X * 3 + 1).relu() - 0.25, W)
    raises(RuntimeError, "gave status", y.cpu)
y = F.conv2d((X * 3 + 1).relu() - 0.25, W).cpu().numpy()
assert np.allclose(y, F.conv2d((x * 3 + 1).relu() - 0.25, w).numpy())
""",
        **environment(library, XDG_CACHE_HOME=tmp_path),
    )


def test_no_memory_for_the_library(run):  # noqa: F811
    """Its workspace is refused, and our own kernel needs none."""
    run(
        start("miopen")
        + """
x, w = pf.tensor(values(1, 3, 6, 6)).float(), pf.tensor(values(4, 3, 3, 3)).float()
X, W = x.to("gpu"), w.to("gpu")
want = F.conv2d(x, w).numpy()
with pf.debug.eager(), pf.explain() as report:
    assert np.allclose(F.conv2d(X, W).cpu().numpy(), want) and not reasons(report)
    pf.synchronize()
    fault("hipMalloc", 2, OOM, 2)  # behind the result; the allocator tries again
    got = F.conv2d(X, W)
assert faults_left("hipMalloc") == 0
assert np.allclose(got.cpu().numpy(), want)
(why,) = reasons(report)
assert "no device memory for 4096 bytes" in why, why
""",
        **environment("miopen", PYFLAME_ALLOC_CONF="split:False,caching:False"),
    )


def test_precision(run):  # noqa: F811
    """allow_tf32, which is on until somebody switches it off, lets cuDNN round float32 to TF32, which
    its stand-in does. A convolution of single pixels, which is a product of matrices, follows it, too,
    products do not; captured steps follow what is set."""
    run(
        start("cudnn")
        + """
cudnn, matmul = pf.backends.cudnn, pf.backends.cuda.matmul
def errors(x, w, b):
    '''Of the result and its gradients; and what pf.explain says of them.'''
    dy = pf.tensor(rng.standard_normal(F.conv2d(x, w, padding=1).shape)).float()
    both = []
    for to in (lambda t: t.double(), lambda t: t.to("gpu")):
        a, c, d = (to(t).requires_grad_() for t in (x, w, b))
        with pf.explain() as report:
            y = F.relu(F.conv2d(a, c, d, padding=1))
            y.backward(to(dy))
            both.append([t.detach().cpu().double().numpy() for t in (y, a.grad, c.grad)])
    return [np.abs(g - v).max() for v, g in zip(*both)], {s["by"] for s in report.served}
for taps in (1, 3):
    x, w, b = (pf.tensor(rng.standard_normal(s)).float()
               for s in ((2, 8, 6, 6), (4, 8, taps, taps), (4,)))
    worst, said = errors(x, w, b)
    assert max(worst) < 1e-4 and not any("TF32" in s for s in said), (worst, said)
    matmul.allow_tf32 = True
    assert max(errors(x, w, b)[0]) < 1e-4, "products are not convolutions"
    matmul.allow_tf32 = False
    cudnn.allow_tf32 = True
    worst, said = errors(x, w, b)
    assert 1e-4 < max(worst) < 5e-2, worst
    assert any("TF32" in s for s in said), said
    cudnn.allow_tf32 = False
assert 1e-4 < min(worst) and any("cuDNN" in s for s in said), (worst, said)

x, w = x.to("gpu"), w.to("gpu")
step = pf.compile(lambda a: F.conv2d(a, w).relu().sum((2, 3)), mode="reduce-overhead")
exact = [step(x).cpu().numpy() for _ in range(6)]
cudnn.conv.fp32_precision = "tf32"
rounded = [step(x).cpu().numpy() for _ in range(6)]
cudnn.conv.fp32_precision = "ieee"
again = [step(x).cpu().numpy() for _ in range(6)]
assert all((v == exact[0]).all() for v in exact + again)
assert all((v == rounded[0]).all() for v in rounded) and (rounded[0] != exact[0]).any()
""",
        **environment("cudnn"),
    )


@pytest.mark.parametrize("library", LIBRARIES)
def test_measured_choices(run, library, tmp_path):  # noqa: F811
    """pf.tune() measures ours beside the library's, each of its algorithms whose numbers are ours,
    and keeps what it found; without it nothing is measured."""
    run(
        start(library)
        + """
x, w = pf.tensor(values(2, 4, 6, 5)).float(), pf.tensor(values(6, 4, 3, 3)).float()
want = F.conv2d(x, w, padding=1).numpy()
x, w = x.to("gpu"), w.to("gpu")
def convolution():
    assert np.allclose(F.conv2d(x, w, padding=1).cpu().numpy(), want, rtol=1e-6)
convolution()
cache = pf.get_tuning_cache()
assert len(cache) == 0
with pf.tune():
    convolution()
(entry,) = cache.entries()
assert entry["product"].startswith("conv float32 x 2x4x6x5 w 6x4x3x3 stride"), entry
assert entry["library"].startswith(NAME) and {"library 0", "own -1"} <= set(entry["timed"]), entry
assert entry["choice"] == min(entry["timed"], key=entry["timed"].get)
hits = cache.hits
convolution()
assert cache.hits == hits + 1
F.conv2d(x, w, padding=0)
pf.synchronize()
assert len(cache) == 1, "nothing is measured unasked"
""".replace("NAME", repr({"cudnn": "cuDNN", "miopen": "MIOpen"}[library])),
        **environment(library, XDG_CACHE_HOME=tmp_path),
    )
