"""`pf.kernel`: a user's kernels in either vendor's dialect.

What runs needs a GPU: here the whole file runs again in processes of their own on the stand-in for
AMD's runtime (tests/standin), at both widths of a warp. That the same texts compile for real GPUs
is checked with clang for AMD's and NVRTC for NVIDIA's, where those are installed.
"""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from hangs import HANG
from standin import FOLDER, HIP, PACKAGE, RTC

import pyflame as pf
from pyflame import _kernel

DEVICE = os.environ.get("PYFLAME_TEST_DEVICE", "cpu")
ON_GPU = DEVICE.startswith(("rocm", "cuda", "gpu"))
gpu = pytest.mark.skipif(not ON_GPU, reason="needs a GPU or the stand-in")
here = pytest.mark.skipif(DEVICE != "cpu", reason="runs once, on the CPU")

SCALE = """
#include <cuda_runtime.h>
// __global__ void not_this(int);
__global__ void scale(const float* __restrict__ x, float *y, float by, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = by * x[i];
}
"""

# A block's sum as CUDA's programs write it: 32 lanes, masks of 32 bits.
CUDA_SUM = """
#include <cuda_runtime.h>
#define FULL_MASK 0xffffffff
__device__ __forceinline__ float warp_sum(float v) {
  for (int by = warpSize / 2; by > 0; by /= 2) v += __shfl_down_sync(FULL_MASK, v, by);
  return v;
}
__global__ __launch_bounds__(256) void block_sum(const float* x, float* out, int n) {
  __shared__ float parts[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = warp_sum(i < n ? __ldg(&x[i]) : 0.0f);
  if (lane == 0) parts[warp] = v;
  __syncthreads();
  if (warp == 0) {
    v = lane < blockDim.x / 32 ? parts[lane] : 0.0f;
    for (int by = 16; by > 0; by >>= 1) v += __shfl_xor_sync(0xffffffffu, v, by);
    if (lane == 0) atomicAdd(out, v);
  }
}
"""

# The same in HIP's: the width is the device's.
HIP_SUM = """
#include <hip/hip_runtime.h>
extern "C" __global__ void block_sum(const float* x, float* out, int n) {
  HIP_DYNAMIC_SHARED(float, parts)
  const int lane = hipThreadIdx_x % warpSize, warp = hipThreadIdx_x / warpSize;
  const int i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x;
  float v = i < n ? x[i] : 0.0f;
  for (int by = warpSize / 2; by > 0; by /= 2) v += __shfl_down(v, by);
  if (lane == 0) parts[warp] = v;
  __syncthreads();
  if (hipThreadIdx_x == 0) {
    v = 0.0f;
    for (int w = 0; w < hipBlockDim_x / warpSize; ++w) v += parts[w];
    unsafeAtomicAdd(out, v);
  }
}
"""

LANES = """
__global__ void lanes(int* out, unsigned long long* bits, int width) {
  const int t = threadIdx.x, lane = t % warpSize;
  int* o = out + t * 8;
  o[0] = __shfl(t, 3);
  o[1] = __shfl_up(t, 2);
  o[2] = __shfl_down(t, 2, 16);
  o[3] = __shfl_xor(t, 5);
  o[4] = __shfl(t, 9, width);
  o[5] = __any(lane == 7) + 2 * __all(lane < warpSize) + 4 * __all(lane < 7);
  o[6] = __lane_id();
  o[7] = warpSize;
  bits[t] = __ballot(lane % 3 == 0);
}
"""

CUDA_LANES = """
__global__ void lanes(int* out, unsigned* bits) {
  const unsigned all = __activemask();
  const int t = threadIdx.x, lane = t % 32;
  int* o = out + t * 6;
  o[0] = __shfl_sync(all, t, 3);
  o[1] = __shfl_up_sync(all, t, 2);
  const double d = __shfl_down_sync(all, t + 0.5, 30);
  o[2] = static_cast<int>(d * 2);
  o[3] = __reduce_add_sync(all, t) - __reduce_max_sync(all, t) - __reduce_min_sync(all, t);
  o[4] = __any_sync(all, lane == 31) + 2 * __all_sync(all, t < 40);
  __syncwarp();
  o[5] = warpSize;
  bits[t] = __ballot_sync(all, t % 5 == 0);
}
"""

TILE = """
#define TILE 8
__global__ void turn(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[TILE][TILE + 1];
  int r = blockIdx.y * TILE + threadIdx.y, c = blockIdx.x * TILE + threadIdx.x;
  if (r < rows && c < columns) tile[threadIdx.y][threadIdx.x] = x[r * columns + c];
  __syncthreads();
  r = blockIdx.x * TILE + threadIdx.y, c = blockIdx.y * TILE + threadIdx.x;
  if (r < columns && c < rows) y[r * rows + c] = tile[threadIdx.x][threadIdx.y];
}
"""

HALF = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void mix(const __half* a, const __nv_bfloat16* b, float4* out, __half* h,
                    __nv_bfloat16* sum, __half by) {
  const int i = threadIdx.x;
  const __half2 pair = __floats2half2_rn(__half2float(a[i]), 2.0f);
  out[i] = make_float4(a[i], __bfloat162float(b[i]), __low2float(pair) + __high2float(pair), by);
  h[i] = __hfma(a[i], by, __float2half(1.0f));
  atomicAdd(sum + i % 2, b[i]);
}
"""

WORDS = """
#include <cstdint>
using index_t = int64_t;
typedef unsigned char byte;
__global__ void words(const index_t* at, const byte* flags, int64_t* out, index_t n, uint32_t add,
                      bool twice, double scale) {
  for (index_t i = threadIdx.x; i < n; i += blockDim.x)
    out[i] = flags[i] ? at[i] * (twice ? 2 : 1) + add : static_cast<int64_t>(scale * at[i]);
}
"""

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The same kernel in CUDA's and in HIP's dialect, from the documentation.
FORMS = re.findall(r"^```cpp\n(.*?)^```", (ROOT / "docs" / "gpu.md").read_text(), re.M | re.S)

CONSTANTS = """
extern "C" __global__ void constants(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = i % 2 ? NAN : i % 3 ? INFINITY : FLT_MAX;
}
"""

TEXTS = {
    "constants": CONSTANTS,
    "cuda_form": FORMS[0],
    "hip_form": FORMS[1],
    "scale": SCALE,
    "cuda_sum": CUDA_SUM,
    "hip_sum": HIP_SUM,
    "lanes": LANES,
    "cuda_lanes": CUDA_LANES,
    "tile": TILE,
    "half": HALF,
    "words": WORDS,
}


# ---- on a GPU -----------------------------------------------------------------------------------


@gpu
def test_runs_in_order_with_everything_else():
    k = pf.kernel(SCALE)
    x = pf.randn(1000)
    y = pf.zeros(1000)
    x += 1  # recorded, not run yet
    before = x._version, y._version
    assert k(8, 128, (x, y, 2.0, 1000)) is None
    assert (x._version, y._version) == (before[0], before[1] + 1)
    x *= 0  # what the kernel read is not overwritten before it read it
    z = y + 1
    want = (pf.manual_seed(0), pf.randn(1000).numpy())[1] + np.float32(1)
    assert np.array_equal(z.numpy(), 2 * want + 1)
    k(8, 128, (y, y, 0.5, np.int32(1000)))  # in place
    assert np.array_equal(y.numpy(), want)
    k((0, 1), 128, (y, y, 3.0, 0))  # an empty grid does nothing
    assert np.array_equal(y.numpy(), want)


@gpu
@pytest.mark.parametrize("text", [CUDA_SUM, HIP_SUM])
def test_either_dialect_adds_up(text):
    k = pf.kernel(text)
    x = pf.arange(1000, dtype=pf.float32)
    total = pf.zeros(1)
    k(4, 256, (x, total, 1000), shared_mem=4 * 256)
    assert total.item() == 499500


@gpu
def test_lanes_of_the_device():
    width = int(pf.device_info()["warp_size"])
    threads = 128
    out = pf.empty(threads, 8, dtype=pf.int32)
    bits = pf.empty(threads, dtype=pf.int64)
    pf.kernel(LANES)(1, threads, (out, bits, 16))
    t = np.arange(threads)
    lane, base = t % width, t - t % width
    assert np.array_equal(out[:, 0].numpy(), base + 3)
    assert np.array_equal(out[:, 1].numpy(), np.where(lane < 2, t, t - 2))
    assert np.array_equal(out[:, 2].numpy(), np.where(t % 16 >= 14, t, t + 2))
    assert np.array_equal(out[:, 3].numpy(), t ^ 5)
    assert np.array_equal(out[:, 4].numpy(), t // 16 * 16 + 9)
    assert np.all(out[:, 5].numpy() == 3)
    assert np.array_equal(out[:, 6].numpy(), lane)
    assert np.all(out[:, 7].numpy() == width)
    want = sum(1 << i for i in range(0, width, 3))
    assert all(b % (1 << 64) == want for b in bits.tolist())


@gpu
def test_cuda_text_sees_32_lanes_everywhere():
    threads = 128
    out = pf.empty(threads, 6, dtype=pf.int32)
    bits = pf.empty(threads, dtype=pf.int32)
    k = pf.kernel(CUDA_LANES)
    assert k.warp == 32
    k(1, threads, (out, bits))
    t = np.arange(threads)
    lane, base = t % 32, t // 32 * 32
    assert np.array_equal(out[:, 0].numpy(), base + 3)
    assert np.array_equal(out[:, 1].numpy(), np.where(lane < 2, t, t - 2))
    assert np.array_equal(out[:, 2].numpy(), 2 * np.where(lane >= 2, t, t + 30) + 1)
    assert np.array_equal(out[:, 3].numpy(), base * 32 + 496 - base - 31 - base)
    assert np.array_equal(out[:, 4].numpy(), 1 + 2 * (base == 0))
    assert np.all(out[:, 5].numpy() == 32)
    want = [sum(1 << i for i in range(32) if (b + i) % 5 == 0) for b in base]
    assert [b % (1 << 32) for b in bits.tolist()] == want


@gpu
def test_grids_and_blocks_of_more_dimensions():
    x = pf.randn(19, 27)
    y = pf.kernel(TILE, outputs={"y": (27, 19)})((4, 3), (8, 8), (x, 19, 27))
    assert np.array_equal(y.numpy(), x.numpy().T)


@gpu
def test_halves():
    a = pf.randn(64, dtype=pf.float16)
    b = pf.randint(0, 4, (64,)).to(pf.bfloat16)
    out, h, total = pf.empty(64, 4), pf.empty_like(a), pf.zeros(2, dtype=pf.bfloat16)
    pf.kernel(HALF)(1, 64, (a, b, out, h, total, 0.5))
    na = a.numpy().astype("float32")
    assert np.array_equal(out[:, 0].numpy(), na)
    assert np.array_equal(out[:, 1].numpy(), b.float().numpy())
    assert np.array_equal(out[:, 2].numpy(), na + 2)
    assert np.all(out[:, 3].numpy() == 0.5)
    assert np.array_equal(h.numpy(), (na * np.float32(0.5) + 1).astype("float16"))
    sums = b.float().numpy().reshape(32, 2).sum(0)
    assert np.array_equal(total.float().numpy(), sums)


@gpu
def test_numbers_and_integers():
    at = pf.arange(100) - 50
    flags = pf.tensor([True, False] * 50)
    k = pf.kernel(WORDS, outputs={"out": "at"})
    out = k(1, 32, (at, flags, 100, 7, True, 0.5))
    n = np.arange(100) - 50
    assert np.array_equal(out.numpy(), np.where(n % 2 == 0, 2 * n + 7, (0.5 * n).astype("int64")))
    assert out.dtype == pf.int64


@gpu
def test_outputs():
    k = pf.kernel(SCALE, outputs={"y": lambda x, by, n: (2, n // 2)})
    x = pf.arange(6, dtype=pf.float32)
    y = k(1, 6, (x, -1.0, 6))
    assert y.tolist() == [[0, -1, -2], [-3, -4, -5]] and y.device == x.device
    two = pf.kernel(
        "__global__ void two(const int *x, int y[], int *z) "
        "{ y[threadIdx.x] = z[threadIdx.x] = x[threadIdx.x] + blockDim.x; }",
        outputs={"y": "x", "z": 4},
    )
    y, z = two(1, 4, (pf.arange(4, dtype=pf.int32),))
    assert y.tolist() == z.tolist() == [4, 5, 6, 7]


@gpu
def test_tensors_that_float_come_to_the_gpu():
    pf.set_device("cpu")
    x = pf.arange(6, dtype=pf.float32)  # no device was named
    home, k = pf.zeros(6), pf.kernel(SCALE, outputs={"y": "x"})
    with pytest.raises(pf.NotSupportedError, match="expected a GPU"):
        k(1, 6, (x, 2.0, 6))
    pf.set_device(DEVICE)
    y = k(1, 6, (x, 2.0, 6))
    assert y.device == DEVICE and x.device == "cpu" and y.tolist() == [0, 2, 4, 6, 8, 10]
    x += 1  # the copy there is renewed
    assert k(1, 6, (x, 2.0, 6)).tolist() == [2, 4, 6, 8, 10, 12]
    with pytest.raises(pf.NotSupportedError, match="expected a GPU"):
        pf.kernel(SCALE)(1, 6, (x, home, 2.0, 6))  # what is written stays where it is


@gpu
def test_gradients_through_a_function():
    forward = pf.kernel(
        """
        __global__ void cube(const double* x, double* y, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) y[i] = x[i] * x[i] * x[i];
        }""",
        outputs={"y": "x"},
    )
    backward = pf.kernel(
        """
        __global__ void cube_backward(const double* x, const double* dy, double* dx, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) dx[i] = 3 * x[i] * x[i] * dy[i];
        }""",
        outputs={"dx": "x"},
    )

    class Cube(pf.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(1, 64, (x, x.numel()))

        @staticmethod
        def backward(ctx, dy):
            (x,) = ctx.saved_tensors
            return backward(1, 64, (x, dy.contiguous(), x.numel()))

    x = pf.randn(5, 3, dtype=pf.float64, requires_grad=True)
    assert pf.autograd.gradcheck(Cube.apply, (x,))
    w = pf.randn(3, dtype=pf.float64, requires_grad=True)
    (Cube.apply(x * w).sum() * 2).backward()
    a, b = x.detach().numpy(), w.detach().numpy()
    np.testing.assert_allclose(w.grad.numpy(), (6 * (a * b) ** 2 * a).sum(0), rtol=1e-12)

    with pytest.raises(pf.AutogradError, match=r"kernel cube: .*requires grad.*Function"):
        forward(1, 64, (x, 15))
    with pf.no_grad():
        forward(1, 64, (x, 15))


@gpu
def test_a_saved_tensor_that_a_kernel_changed_is_noticed():
    x = pf.randn(4, requires_grad=True)
    y = x.exp()
    loss = y.sum()
    with pf.no_grad():
        pf.kernel(SCALE)(1, 4, (y, y, 2.0, 4))
    with pytest.raises(pf.AutogradError):
        loss.backward()


@gpu
def test_what_does_not_compile():
    k = pf.kernel("\n__global__ void wrong(float* x) { x[0] = nothing_of_that_name; }")
    with pytest.raises(pf.BackendError, match="'wrong' could not be compiled") as e:
        k(1, 1, (pf.zeros(1),))
    assert "nothing_of_that_name" in str(e.value) and "wrong.cu:2" in str(e.value).replace(
        "(2)", ":2"
    )
    with pytest.raises(pf.BackendError):
        k.compile()
    text = "__global__ void given(float* x) { x[0] = VALUE; }"
    x = pf.zeros(1)
    pf.kernel(text, options=("-DVALUE=3", "--fmad=false"))(1, 1, (x,))
    assert x.item() == 3
    pf.kernel(text, options="-DVALUE=4 -ffp-contract=off").compile()(1, 1, (x,))
    assert x.item() == 4


@gpu
def test_wrong_arguments():
    k = pf.kernel(SCALE)
    x, y = pf.zeros(8), pf.zeros(8)
    cases = [
        (TypeError, "3 arguments; expected 4", (1, 8, (x, y, 1.0))),
        (TypeError, "got a float for the parameter 'const float", (1, 8, (2.0, y, 1.0, 8))),
        (TypeError, "expected a number; pass .item", (1, 8, (x, y, x, 8))),
        (TypeError, "got 'a'", (1, 8, (x, y, "a", 8))),
        (pf.ValueError, "got 1.5 for the parameter 'int n'", (1, 8, (x, y, 1.0, 1.5))),
        (pf.ValueError, "got 2147483648", (1, 8, (x, y, 1.0, 1 << 31))),
        (pf.DTypeError, "float64.*expected float32", (1, 8, (x.double(), y, 1.0, 8))),
        (pf.ValueError, "expected contiguous", (1, 4, (x[::2], y, 1.0, 4))),
        (pf.DeviceError, "expected one device", (1, 8, (x.to(DEVICE), y.cpu(), 1.0, 8))),
        (pf.ValueError, "block of 2048 threads", (1, 2048, (x, y, 1.0, 8))),
        (pf.ValueError, "block of 0 threads", (1, 0, (x, y, 1.0, 8))),
        (pf.ValueError, "65535", ((1, 1 << 16), 8, (x, y, 1.0, 8))),
        (TypeError, "got grid=1.5", (1.5, 8, (x, y, 1.0, 8))),
        (TypeError, "got block=", (1, (1, 1, 1, 1), (x, y, 1.0, 8))),
        (pf.ValueError, "shared_mem=10000000", (1, 8, (x, y, 1.0, 8), 10**7)),
    ]
    for kind, text, args in cases:
        with pytest.raises(kind, match=text):
            k(*args)
    assert y.tolist() == [0] * 8
    pf.kernel(SCALE, strided=True)(1, 4, (x[::2], y, 1.0, 4))
    if int(pf.device_info()["warp_size"]) == 32:
        with pytest.raises(pf.NotSupportedError, match="warps of 64"):
            pf.kernel(SCALE, warp=64)(1, 8, (x, y, 1.0, 8))


@gpu
def test_the_documentation_s_programs():
    text = (ROOT / "docs" / "gpu.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(programs) == 5
    scope = {}
    for program in programs:
        exec(program.replace("'rocm'", repr(DEVICE)), scope)
    a, b = pf.randn(100), pf.randn(100)
    for form in FORMS:
        c = pf.kernel(form, outputs={"c": "a"})(1, 128, (a, b, 100))
        assert np.array_equal(c.numpy(), a.numpy() + b.numpy())


# ---- without one --------------------------------------------------------------------------------


@here
def test_what_a_kernel_declares():
    k = pf.kernel(
        """
        template <class T> __global__ void general(T* x);
        #define real double
        /* __global__ void commented(int); */
        struct Pair { float a, b; };
        namespace { __device__ int helper(int a) { return a; } }
        static const char* text = "__global__ void quoted(int)";
        __global__ void __launch_bounds__(128, 2)
        many(const float* __restrict__ a, float const *b, real* const c, unsigned char* d, T* e,
             const unsigned long long n, size_t m, real r, Pair p, float4* v, int x[], void* any,
             long, float** table, const __half2* h, std::int8_t* i8) {}
        """,
        "many",
    )
    assert [p.name for p in k.parameters] == (
        "a b c d e n m r p v x any".split() + ["", "table", "h", "i8"]
    )
    assert [p.pointer for p in k.parameters] == [c == "*" for c in "*****----***-***"]
    assert [p.name for p in k.parameters if p.written] == "c d e v x any table i8".split()
    dtypes = {p.name: p.dtypes for p in k.parameters}
    assert dtypes["a"] == dtypes["v"] == ("float32",) and dtypes["c"] == ("float64",)
    assert dtypes["d"] == ("uint8", "bool") and dtypes["h"] == ("float16",)
    assert dtypes["e"] is dtypes["any"] is None and dtypes["x"] == ("int32",)
    formats = {p.name: p.format for p in k.parameters}
    assert (formats["n"], formats["m"], formats["r"], formats["p"]) == ("Q", "Q", "d", None)
    assert formats[""] == "q"
    assert pf.kernel("__global__ void none() {}").parameters == ()
    assert "scale(const float* __restrict__ x" in repr(pf.kernel(SCALE))


@here
def test_which_function():
    two = "__global__ void a(int*); __global__ void b(int* x) { }"
    with pytest.raises(pf.ValueError, match="got no name.* are: a, b"):
        pf.kernel(two)
    with pytest.raises(pf.ValueError, match="'c'"):
        pf.kernel(two, "c")
    with pytest.raises(pf.ValueError, match="are: none"):
        pf.kernel("void f() {}")
    with pytest.raises(pf.NotSupportedError, match="template"):
        pf.kernel("template <class T> __global__ void f(T* x) {}")
    with pytest.raises(TypeError, match="as source"):
        pf.kernel(b"")
    with pytest.raises(TypeError, match="option"):
        pf.kernel(SCALE, options=["-D A"])
    with pytest.raises(pf.ValueError, match="warp=16"):
        pf.kernel(SCALE, warp=16)
    for outputs, text in [({"x": "y"}, "not const"), ({"y": "by"}, "tensor parameter")]:
        with pytest.raises(pf.ValueError, match=text):
            pf.kernel(SCALE, outputs=outputs)


@pytest.mark.skipif(ON_GPU, reason="there is one")
def test_needs_a_gpu():
    x = pf.zeros(4)
    with pytest.raises(pf.NotSupportedError, match="expected a GPU"):
        pf.kernel(SCALE)(1, 4, (x, x, 1.0, 4))


@here
def test_bfloat16_numbers_round_as_tensors_do():
    p = _kernel.Parameter("__nv_bfloat16 by", {})
    for v in (0.1, -3.14159, 1 / 3, 65535.0, 1e-40, float("inf"), 256.5, 257.5):
        want = pf.tensor([v]).bfloat16().view(pf.int16).item() & 0xFFFF
        assert int.from_bytes(_kernel._pack(v, p), sys.byteorder) == want, v


@here
@pytest.mark.skipif(not HIP.exists(), reason="built without -DPYFLAME_USE_ROCM=ON")
@pytest.mark.parametrize("plugin, arch", [("rocm", "gfx942"), ("rocm", "gfx1100"), ("cuda", "")])
def test_on_the_stand_in(plugin, arch, tmp_path):
    if not (FOLDER / f"libpyflame_{plugin}.so").exists():
        pytest.skip(f"built without the {plugin} plug-in")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYFLAME_", "HIP_", "ROCR_"))}
    names = ("HIP", "HIPRTC", "CUDA", "NVRTC")
    libraries = (HIP, RTC, "/none", "/none") if plugin == "rocm" else ("/none", "/none", HIP, RTC)
    env |= {f"PYFLAME_{n}_LIBRARY": str(path) for n, path in zip(names, libraries)}
    env |= {
        "PYTHONPATH": str(PACKAGE),
        "PYFLAME_STANDIN_ARCH": arch,
        "PYFLAME_TEST_DEVICE": plugin,
        "XDG_CACHE_HOME": str(tmp_path),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "failed" not in done.stdout


# ---- the texts through the compilers of real GPUs -----------------------------------------------


def prepared(text):
    """What the plug-in gives to the run-time compiler, and the options that the text needs."""
    k = pf.kernel(text)
    source, options = k._prepared
    return f'#include "user.h"\n{source}\nPF_USER_ENTRY({k.name})\n', options


def compilers():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import kernels
    finally:
        sys.path.pop(0)
    return kernels


@here
@pytest.mark.parametrize("name", TEXTS)
def test_compiles_for_amd(name, tmp_path):
    tools = compilers()
    if not tools.find_tool("clang++"):
        pytest.skip("no clang 19")
    source, options = prepared(TEXTS[name])
    path = tmp_path / "text.cpp"
    path.write_text(source)
    for arch in ("gfx942", "gfx1100"):
        defines = [*options, f"-I{ROOT / 'tests' / 'standin'}", "-ffp-contract=fast", "-w"]
        if not any("PF_USER_WARP" in o for o in defines):
            defines.append(f"-DPF_USER_WARP={tools.WARP[arch]}")
        program = tools.Program(str(path), arch, (), tuple(defines))
        command = tools.clang_command(program, tmp_path / "text.s")
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]


@here
@pytest.mark.parametrize("name", TEXTS)
def test_compiles_for_nvidia(name):
    tools = compilers()
    try:
        nvrtc = tools.Nvrtc()
    except (FileNotFoundError, OSError):
        pytest.skip("no NVRTC")
    source, options = prepared(TEXTS[name])
    for arch in ("sm_80", "sm_90"):
        warp = [] if any("PF_USER_WARP" in o for o in options) else ["-DPF_USER_WARP=32"]
        nvrtc.compile(source.encode(), arch, [f"-I{tools.KERNELS}", *options, *warp])
