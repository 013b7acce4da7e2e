"""Convolutions of row-major images on Hopper (kernels/conv_rows_hopper.h), on the stand-in: values and
the gradient of the input, wherever weights are kept, against float64."""

import re

import standin
from standin import cache, run  # noqa: F401

pytestmark = [*standin.MARKS, standin.NEEDS_CUDA]

CODE = """
F = pf.nn.functional
rng = np.random.default_rng(3)

def whole(*shape):
    return rng.integers(-8, 9, shape) / 8

def seen(x, w, padding, dilation):
    '''The slice of the padded input that each tap sees.'''
    wide = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    size = [wide.shape[2 + d] - dilation[d] * (w.shape[2 + d] - 1) for d in (0, 1)]
    for r in range(w.shape[2]):
        for s in range(w.shape[3]):
            i, j = r * dilation[0], s * dilation[1]
            yield r, s, wide, (..., slice(i, i + size[0]), slice(j, j + size[1]))

def reference(x, w, padding, dilation):
    return sum(np.einsum("oc,nchw->nohw", w[:, :, r, s], wide[at])
               for r, s, wide, at in seen(x, w, padding, dilation))

def reference_input(g, x, w, padding, dilation):
    total = 0
    for r, s, wide, at in seen(x, w, padding, dilation):
        part = np.zeros(wide.shape)
        part[at] = np.einsum("oc,nohw->nchw", w[:, :, r, s], g)
        total = total + part
    (top, left), (high, wide) = padding, x.shape[2:]
    return total[:, :, top : top + high, left : left + wide]

def place(v, dtype):
    return pf.tensor(v).to(dtype).to("gpu")

def close(got, want, dtype):
    # Sums of eighths are exact.
    eps = pf.finfo(dtype).eps / 2
    got = got.detach().cpu().double().numpy()
    assert got.shape == want.shape and np.allclose(got, want, rtol=eps, atol=0), abs(got - want).max()
"""

# Input, results, taps, padding, dilation.
CASES = """
CASES = [
    ((2, 64, 5, 56), 64, (3, 3), (1, 1), (1, 1)),
    ((1, 40, 3, 120), 17, (2, 5), (1, 2), (1, 1)),   # several tiles of a line
    ((1, 16, 2, 240), 24, (1, 3), (0, 9), (1, 9)),
    ((2, 24, 9, 24), 72, (3, 3), (1, 1), (1, 1)),    # narrow lines; two blocks of results
    ((3, 130, 5, 16), 8, (1, 2), (2, 2), (2, 2)),    # three runs of channels
    ((1, 72, 2, 8), 24, (3, 3), (2, 2), (1, 1)),     # few lines
    ((1, 16, 6, 48), 130, (3, 3), (0, 0), (1, 1)),   # lines of 46
    ((3, 8, 1, 8), 8, (1, 3), (0, 1), (1, 2)),
    ((1, 64, 5, 8), 8, (3, 2), (4, 3), (1, 2)),      # some windows see padding alone
    ((1, 8, 4, 64), 16, (2, 6), (1, 3), (3, 1)),
]
"""


def test_results(run, tmp_path):  # noqa: F811
    run(
        CODE
        + CASES
        + """
for n, (shape, outs, taps, padding, dilation) in enumerate(CASES):
    dtype = (pf.bfloat16, pf.float16)[n % 2]
    x, w, b = whole(*shape), whole(outs, shape[1], *taps), whole(outs)
    xs, ws, bs = place(x, dtype).requires_grad_(), place(w, dtype), place(b, dtype)
    y = F.conv2d(xs, ws, bs, padding=padding, dilation=dilation)
    want = reference(x, w, padding, dilation) + b[:, None, None]
    close(y, want, dtype)
    g = whole(*want.shape)
    y.backward(place(g, dtype))
    close(xs.grad, reference_input(g, x, w, padding, dilation), dtype)
    # Without a bias; weights that lie otherwise, and no images.
    ws = ws.contiguous(memory_format=pf.channels_last)
    with pf.no_grad():
        close(F.conv2d(xs, ws, None, 1, padding, dilation), want - b[:, None, None], dtype)
        assert F.conv2d(xs[:0], ws, bs, 1, padding, dilation).shape == (0, *want.shape[1:])
        # What follows joins, and sees what would have been written.
        c = F.conv2d(xs, ws, bs, 1, padding, dilation)
        r = place(whole(*want.shape), dtype)
        assert pf.equal(F.relu(F.conv2d(xs, ws, bs, 1, padding, dilation) * 0.5 + r),
                        F.relu(c.clone() * 0.5 + r))
""",
        **standin.AS_NVIDIA,
        XDG_CACHE_HOME=str(tmp_path / "cache"),
        PYFLAME_STANDIN_KEEP=str(tmp_path),
    )
    ways = set()
    for file in tmp_path.glob("*.cpp"):
        text = file.read_text()
        options = dict(re.findall(r"-D(\w+)=(\S+)", text.split("\n", 1)[0]))
        if "pf_conv_rows" in text:
            names = ("PF_PIXELS", "PF_COLUMNS", "PF_RUNS", "PF_INVERSE")
            ways |= {(n, int(options[n])) for n in names if n in options}
    assert ways == {
        *(("PF_PIXELS", n) for n in (64, 128)),
        *(("PF_COLUMNS", n) for n in (16, 32, 64, 128)),
        *(("PF_RUNS", n) for n in (1, 2, 3)),
        *(("PF_INVERSE", n) for n in (0, 1)),
    }


def test_slices_and_extremes(run):  # noqa: F811
    """Images, channels, lines and columns that lie apart, also where the copy unit cannot begin; what is
    outside of a window does not count, be it infinite, and large numbers stay large."""
    run(
        CODE
        + """
dtype = pf.bfloat16
w = whole(24, 16, 3, 3)
big = whole(4, 34, 12, 40)
images = place(big, dtype)
for at in ((slice(None), slice(0, 16)), (slice(None, None, 2), slice(1, 33, 2)),
           (slice(1, 2), slice(3, 19), slice(2, 9), slice(8, 32)), (0, slice(0, 16)),
           (slice(None), slice(0, 16), slice(None), slice(1, 17)),
           (slice(None), slice(0, 16), slice(None, None, 3)),
           (slice(None), slice(0, 16), slice(None), slice(None, None, 2))):
    x = big[at]
    got = F.conv2d(images[at], place(w, dtype), padding=1)
    want = reference(x[None] if x.ndim == 3 else x, w, (1, 1), (1, 1))
    close(got, want[0] if x.ndim == 3 else want, dtype)
x, w = np.zeros((1, 16, 6, 16)), np.ones((8, 16, 3, 3))
x[0, 3, 5, 15], x[0, 4, 0, 0], x[0, 5, 2, 7] = np.inf, np.nan, -1e4
want = np.zeros((1, 8, 6, 16))
want[..., 4:, 14:], want[..., :2, :2], want[..., 1:4, 6:9] = np.inf, np.nan, -1e4
got = F.conv2d(place(x, dtype), place(w, dtype), padding=1).cpu().double().numpy()
assert np.allclose(got, want, rtol=2**-8, equal_nan=True)
""",
        **standin.AS_NVIDIA,
    )
