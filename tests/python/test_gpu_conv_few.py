"""Convolutions of few channels on the stand-in, forward and by the weight, on every kind of matrix unit:
against float64, with sizes that fill no part and numbers that no window sees."""

import re

import pytest
import standin
from standin import cache, run  # noqa: F401

GPUS = {
    "gfx90a": {"PYFLAME_STANDIN_ARCH": "gfx90a"},
    "gfx942": {"PYFLAME_STANDIN_ARCH": "gfx942"},
    "gfx950": {"PYFLAME_STANDIN_ARCH": "gfx950"},
    "gfx1100": {"PYFLAME_STANDIN_ARCH": "gfx1100"},
    "gfx1201": {"PYFLAME_STANDIN_ARCH": "gfx1201"},
    "sm_90": {**standin.AS_NVIDIA, "PYFLAME_STANDIN_SM": 90},
}

CODE = """
F = pf.nn.functional
rng = np.random.default_rng(5)
CASES = [  # batch, channels, high, wide, results, taps, strides, padding
    (2, 3, 25, 45, 64, (7, 7), (2, 2), (3, 3), pf.bfloat16),
    (3, 4, 19, 22, 72, (5, 3), (1, 2), (0, 1), pf.float16),
    (1, 1, 6, 131, 16, (3, 3), (1, 1), (1, 1), pf.bfloat16),
    (1, 3, 9, 70, 24, (1, 3), (1, 3), (0, 0), pf.float16),
]
for batch, ins, high, wide, outs, taps, stride, padding, dtype in CASES:
    tol = 8e-3 if dtype is pf.bfloat16 else 1e-3
    a = rng.standard_normal((batch, ins, high, wide))
    rest = (wide + 2 * padding[1] - taps[1]) % stride[1]
    if rest and not padding[1]:
        a[..., -rest:] = np.nan  # behind the last window
    x, w = (pf.tensor(v).to(dtype) for v in (a, rng.standard_normal((outs, ins, *taps))))
    u, v = x.double().numpy(), w.double().numpy()
    u = np.pad(u, [(0, 0), (0, 0), *((p, p) for p in padding)])
    seen = np.lib.stride_tricks.sliding_window_view(u, taps, (2, 3))[:, :, :: stride[0], :: stride[1]]
    y = np.einsum("nchwij,ocij->nohw", seen, v)
    g = pf.tensor(rng.standard_normal(y.shape)).to(dtype)
    gw = np.einsum("nchwij,nohw->ocij", seen, g.double().numpy())
    for last in (True, False):
        lies = dict(memory_format=pf.channels_last) if last else {}
        weight = w.to("gpu").requires_grad_()
        got = F.conv2d(x.to("gpu").contiguous(**lies), weight, stride=stride, padding=padding)
        got.backward(g.to("gpu").contiguous(**lies))
        for made, want in ((got.detach(), y), (weight.grad, gw)):
            made = made.cpu().double().numpy()
            assert abs(made - want).max() <= tol * abs(want).max(), (batch, ins, taps, last)
    again = w.to("gpu").requires_grad_()  # sums are added in the same order
    F.conv2d(x.to("gpu").contiguous(memory_format=pf.channels_last), again, stride=stride,
             padding=padding).backward(g.to("gpu").contiguous(memory_format=pf.channels_last))
    first = again.grad.clone()
    again.grad = None
    F.conv2d(x.to("gpu").contiguous(memory_format=pf.channels_last), again, stride=stride,
             padding=padding).backward(g.to("gpu").contiguous(memory_format=pf.channels_last))
    assert pf.equal(first, again.grad)
"""


@standin.MARKS[0]
@standin.MARKS[1]
@pytest.mark.parametrize("gpu", GPUS)
def test_few_channels(run, gpu, tmp_path):  # noqa: F811
    if "PYFLAME_CUDA_LIBRARY" in GPUS[gpu] and not standin.CUDA.exists():
        pytest.skip("no CUDA plug-in")
    texts = tmp_path / "texts"
    texts.mkdir()
    run(CODE, **GPUS[gpu], PYFLAME_GPU_CONV="own", PYFLAME_STANDIN_KEEP=texts, XDG_CACHE_HOME=texts)
    kernels = [re.findall(r"^PF_KERNEL\((\w+)", f.read_text(), re.M) for f in texts.glob("*.cpp")]
    assert sum("pf_conv_few_weight" in k for k in kernels) == 4
    assert sum("pf_conv_few" in k for k in kernels) >= 4
