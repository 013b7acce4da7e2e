"""Our own matrix products on the stand-in, on every kind of matrix unit that the host acts out."""

import pytest
import standin
from standin import cache, run  # noqa: F401

CUDA = {"PYFLAME_CUDA_LIBRARY": standin.HIP, "PYFLAME_NVRTC_LIBRARY": standin.RTC}
UNITS = {
    "mfma": {"PYFLAME_STANDIN_ARCH": "gfx942"},
    "wmma of RDNA 3": {"PYFLAME_STANDIN_ARCH": "gfx1100"},
    "wmma of RDNA 4": {"PYFLAME_STANDIN_ARCH": "gfx1201"},
    "mma.sync": CUDA | {"PYFLAME_STANDIN_SM": 80, "PYFLAME_HIP_LIBRARY": "/none"},
    "wgmma": CUDA | {"PYFLAME_STANDIN_SM": 90, "PYFLAME_HIP_LIBRARY": "/none"},
}


@standin.MARKS[0]
@standin.MARKS[1]
@pytest.mark.parametrize("unit", UNITS)
def test_tiles(run, unit):  # noqa: F811
    """Tiles of each size that the four compute units of the stand-in make it choose, with ends that
    fill no tile, k that fills no step, operands along k and across, a bias."""
    if (
        "PYFLAME_CUDA_LIBRARY" in UNITS[unit]
        and not (standin.FOLDER / "libpyflame_cuda.so").exists()
    ):
        pytest.skip("no CUDA plug-in")
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
        PYFLAME_GPU_GEMM="own",
        **UNITS[unit],
    )
