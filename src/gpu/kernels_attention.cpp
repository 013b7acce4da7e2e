// Scaled dot-product attention and its gradients (kernels/attention*.h).
#include <algorithm>

#include "gpu/axes.h"
#include "gpu/kernel.h"

namespace pyflame::gpu {
namespace {

constexpr int kThreads = 256, kMaxBatch = 10;  // PF_ATTENTION_THREADS, PF_MAX_BATCH

// pf_matrix and pf_attention of kernels/attention.h.
struct Matrix {
  void* data = nullptr;
  int64_t row = 0, col = 0;
  int64_t batch[kMaxBatch] = {};
};
struct Attention {
  Matrix q, k, v, out, mask;
  Matrix dout, dq, dk, dv;
  void* lse = nullptr;
  void* delta = nullptr;
  int64_t size[kMaxBatch] = {};
  int32_t batch = 0, causal = 0;
  int64_t queries = 0, keys = 0, depth = 0, depth_v = 0, tiles = 0, chunks = 0;
  double scale = 1;
};

// Tensor i over the batch dimensions of `like`; those of size 1 are repeated.
Matrix matrix(const KernelArgs& a, int i, const pf_tensor& like) {
  Matrix m;
  if (!a.has(i)) return m;
  const pf_tensor& t = a.tensor(i);
  const auto stride = [&](int d) { return d < 0 || t.shape[d] == 1 ? 0 : t.strides[d]; };
  m.data = t.data;
  m.row = stride(t.ndim - 2);
  m.col = stride(t.ndim - 1);
  for (int d = 0; d + 2 < like.ndim; ++d) m.batch[d] = stride(d + t.ndim - like.ndim);
  return m;
}

struct Job {
  Attention at;
  Defines defines;
  int64_t heads = 1;
  int64_t tile;   // queries or keys of one block
  int64_t width;  // columns of results of one block

  // Tensor numbers of the output, query, key, value and mask. attrs: scale, causal.
  Job(const KernelArgs& a, int out, int q, int k, int v, int mask) {
    const pf_tensor& like = a.tensor(out);
    const DType t = a.dtype(out);
    at.out = matrix(a, out, like);
    at.q = matrix(a, q, like);
    at.k = matrix(a, k, like);
    at.v = matrix(a, v, like);
    at.mask = matrix(a, mask, like);
    at.batch = like.ndim - 2;
    for (int d = 0; d < at.batch; ++d) heads *= at.size[d] = like.shape[d];
    at.queries = like.shape[like.ndim - 2];
    at.depth_v = like.shape[like.ndim - 1];
    at.keys = a.tensor(k).shape[a.tensor(k).ndim - 2];
    at.depth = a.tensor(q).shape[a.tensor(q).ndim - 1];
    at.scale = a.f(0);
    at.causal = a.i(1) != 0;
    tile = t == DType::Float64 ? 32 : 64;
    const int64_t wide = std::max(at.depth, at.depth_v) > 64 ? 2 : 1;
    width = 64 * wide;
    const int64_t kind = !a.has(mask) ? 0 : a.dtype(mask) == DType::Bool ? 1 : 2;
    defines = Defines().type("PF_T", t).value("PF_MASK", kind).value("PF_WIDE", wide);
  }
  // A kernel over tiles of `rows` that gives `columns`.
  void launch(const KernelArgs& a, const char* file, const char* entry, int64_t rows,
              int64_t columns) {
    at.tiles = ceil_div(rows, tile);
    at.chunks = std::max<int64_t>(1, ceil_div(columns, width));
    const int64_t blocks = heads * at.tiles * at.chunks;
    if (blocks > 0) a.launch(a.compile(file, defines, entry), Grid(blocks), kThreads, 0, at);
  }
};

// out, lse | q, k, v, mask | scale, causal
void sdpa(const KernelArgs& a) {
  Job j(a, 0, 2, 3, 4, 5);
  j.at.lse = a.data(1);
  j.launch(a, "attention_forward.h", "sdpa", j.at.queries, j.at.depth_v);
}

// dq, dk, dv | q, k, v, out, lse, dout, mask | scale, causal
void sdpa_backward(const KernelArgs& a) {
  Job j(a, 6, 3, 4, 5, 9);
  const pf_tensor& like = a.tensor(6);
  j.at.dq = matrix(a, 0, like);
  j.at.dk = matrix(a, 1, like);
  j.at.dv = matrix(a, 2, like);
  j.at.lse = a.data(7);
  j.at.dout = matrix(a, 8, like);
  const int64_t rows = j.heads * j.at.queries;
  const char* file = "attention_backward.h";
  if (rows > 0) {
    j.at.delta = a.workspace(static_cast<size_t>(rows) * sizeof(double));
    a.launch(a.compile(file, j.defines, "sdpa_delta"), Grid(ceil_div(rows, kThreads / 16)),
             kThreads, 0, j.at, rows);
  }
  j.launch(a, file, "sdpa_dq", j.at.queries, j.at.depth);
  j.launch(a, file, "sdpa_dkv", j.at.keys, std::max(j.at.depth, j.at.depth_v));
}

}  // namespace

PF_GPU_KERNEL("sdpa", sdpa)
PF_GPU_KERNEL("sdpa_backward", sdpa_backward)

}  // namespace pyflame::gpu
