#include "gpu/attention_hopper.h"

#include <algorithm>
#include <array>

#include "gpu/tensor_map.h"
#include "kernels/flash_hopper_args.h"

namespace pyflame::gpu {
namespace {

// -D options of kernels/flash_hopper.h.
struct Shape {
  int warps, other, stages, resident, alone;
  int64_t block() const { return warps * 16; }
  int threads() const { return warps * 32 + (alone ? 32 : 128); }
};
// The fastest of those tried on an H100 that neither spill nor make products wait for registers
// (docs/performance.md). A block of one group and a warp leaves room for others, whose beginnings
// and ends it covers; rows of 128 columns need the registers of all.
constexpr Shape kForward64{4, 64, 3, 3, 1}, kQueries64{4, 64, 3, 3, 1}, kKeys64{8, 64, 2, 1, 0},
    kForward128{8, 128, 2, 1, 0}, kQueries128{8, 64, 3, 1, 0}, kKeys128{8, 64, 2, 1, 0};

// Batch dimensions, the last first, those together that all matrices step through alike.
struct Batch {
  static constexpr int kMost = 3;
  int dims = 0;
  int64_t size[kMost] = {1, 1, 1};
  int from[kMost] = {};  // the dimension of pf_attention whose stride it is
  bool fits = true;

  Batch(const pf_attention& a, std::initializer_list<const pf_matrix*> all) {
    for (int d = a.batch - 1; d >= 0; --d) {
      if (a.size[d] == 1) continue;
      const auto joins = [&](const pf_matrix* m) {
        return m->batch[d] == m->batch[from[dims - 1]] * size[dims - 1];
      };
      if (dims > 0 && std::all_of(all.begin(), all.end(), joins)) {
        size[dims - 1] *= a.size[d];
      } else if (dims == kMost) {
        fits = false;
        return;
      } else {
        size[dims] = a.size[d];
        from[dims++] = d;
      }
    }
  }
};

struct Maps {
  const pf_attention& a;
  DType dtype;
  Batch batch;
  bool fit = true;

  // The map of a matrix in boxes of `box` rows; `step` as pf_flash_maps has it.
  pf_tensor_map of(const pf_matrix& m, int64_t rows, int64_t cols, int64_t box, pf_i32 (&step)[3]) {
    constexpr int64_t kAny = 8;  // of a dimension of one place
    TensorView v;
    v.data = m.data;
    v.dtype = dtype;
    v.rank = 2 + Batch::kMost;
    v.size[0] = cols;
    v.size[1] = rows;
    v.stride[0] = cols == 1 ? 1 : m.col;
    v.stride[1] = rows == 1 ? kAny : m.row;
    v.box[0] = 64;
    v.box[1] = static_cast<int32_t>(box);
    for (int d = 0; d < Batch::kMost; ++d) {
      const int64_t stride = d < batch.dims ? m.batch[batch.from[d]] : 0;
      step[d] = stride != 0;
      v.size[2 + d] = stride ? batch.size[d] : 1;
      v.stride[2 + d] = stride ? stride : kAny;
      v.box[2 + d] = 1;
    }
    // Rows that are all the same are read many times, not mapped.
    fit = fit && v.stride[1] != 0 && tensor_map_fits(v);
    return fit ? tensor_map(v) : pf_tensor_map{};
  }
};

struct Job {
  const KernelArgs& args;
  DType dtype;
  int64_t mask, heads, d;
  pf_flash_maps m{};
  Maps maps;
  bool serves;

  Job(const KernelArgs& args_, const pf_attention& a, DType t, int64_t mask_, int64_t heads_,
      std::initializer_list<const pf_matrix*> all)
      : args(args_), dtype(t), mask(mask_), heads(heads_), maps{m.at, t, Batch(a, all)} {
    m.at = a;
    d = std::max(a.depth, a.depth_v) <= 64 ? 64 : 128;
    for (int i = 0; i < Batch::kMost; ++i) m.size[i] = static_cast<pf_i32>(maps.batch.size[i]);
    serves = tensor_maps(args.traits()) && itemsize(t) == 2 && maps.batch.fits &&
             std::max(a.depth, a.depth_v) <= 128 && std::min(a.depth, a.depth_v) > 0 &&
             a.queries > 0 && a.keys > 0 && a.scale > 0 && heads > 0 && heads < 1 << 30 &&
             std::max(a.queries, a.keys) < 1 << 30;
  }
  Defines defines(const Shape& s) const {
    return Defines()
        .type("PF_T", dtype)
        .value("PF_MASK", mask)
        .value("PF_D", d)
        .value("PF_OWN", 16)
        .value("PF_WARPS", s.warps)
        .value("PF_OTHER", s.other)
        .value("PF_HELD", 0)
        .value("PF_STAGES", s.stages)
        .value("PF_RESIDENT", s.resident)
        .value("PF_ALONE", s.alone)
        .value("PF_MATRIX_UNIT", 2);
  }
  // `own`: tiles of its own rows that a block has; `sums`: bytes of a stage beside its tiles.
  void launch(const Shape& s, Defines defines, const char* file, const char* entry, int64_t rows,
              int own, int64_t sums) {
    m.at.tiles = ceil_div(rows, s.block());
    const int64_t shared =
        own * s.block() * d * 2 + s.stages * (2 * s.other * d * 2 + sums) + 8 + s.stages * 4 * 8;
    args.launch(args.compile(file, defines, entry), Grid(heads * m.at.tiles), s.threads(),
                static_cast<size_t>(shared), m);
  }
};

}  // namespace

bool attention_on_hopper(const KernelArgs& args, const pf_attention& a, DType t, int64_t mask,
                         int64_t heads) {
  Job j(args, a, t, mask, heads, {&a.q, &a.k, &a.v});
  if (!j.serves) return false;
  const Shape& s = j.d == 64 ? kForward64 : kForward128;
  auto& m = j.m;
  m.q = j.maps.of(a.q, a.queries, a.depth, 64, m.step_q);
  m.k = j.maps.of(a.k, a.keys, a.depth, s.other, m.step_k);
  m.v = j.maps.of(a.v, a.keys, a.depth_v, s.other, m.step_v);
  if (!j.maps.fit) return false;
  j.launch(s, j.defines(s).value("PF_TURNS", j.d == 128), "flash_hopper_forward.h",
           "flash_hopper_forward", a.queries, 1, 0);
  return true;
}

bool attention_backward_on_hopper(const KernelArgs& args, const pf_attention& a, DType t,
                                  int64_t mask, int64_t heads) {
  Job j(args, a, t, mask, heads, {&a.q, &a.k, &a.v, &a.dout});
  if (!j.serves) return false;
  const Shape &queries = j.d == 64 ? kQueries64 : kQueries128,
              &keys = j.d == 64 ? kKeys64 : kKeys128;
  static_assert(kQueries64.other == 64 && kKeys64.other == 64 && kQueries128.other == 64 &&
                    kKeys128.other == 64,
                "as the rows of a group: one map of each matrix does for both kernels");
  auto& m = j.m;
  m.q = j.maps.of(a.q, a.queries, a.depth, 64, m.step_q);
  m.k = j.maps.of(a.k, a.keys, a.depth, 64, m.step_k);
  m.v = j.maps.of(a.v, a.keys, a.depth_v, 64, m.step_v);
  m.dout = j.maps.of(a.dout, a.queries, a.depth_v, 64, m.step_dout);
  if (!j.maps.fit) return false;
  m.padded = static_cast<pf_i32>(ceil_div(a.queries, 128) * 128);
  const int64_t rows = heads * m.padded;
  auto* sums = static_cast<float*>(args.workspace(static_cast<size_t>(2 * rows) * sizeof(float)));
  m.rows = sums;
  TensorView v;
  v.data = sums;
  v.rank = 2;
  v.size[0] = m.padded;
  v.size[1] = 2 * heads;
  v.stride[0] = 1;
  v.stride[1] = m.padded;
  v.box[0] = keys.other;
  v.box[1] = 2;
  v.permuted = false;
  m.sums = tensor_map(v);

  const char* file = "flash_hopper_backward.h";
  const int64_t each = 256 / (j.d / 8);  // rows of a block
  args.launch(args.compile(file, j.defines(keys).value("PF_GIVES", 0), "flash_hopper_sums"),
              Grid(ceil_div(rows, each)), 256, 0, m.at, sums, m.padded, rows);
  j.launch(queries, j.defines(queries).value("PF_GIVES", 4), file, "flash_hopper_dq", a.queries, 2,
           0);
  j.launch(keys, j.defines(keys).value("PF_GIVES", 3), file, "flash_hopper_dkv", a.keys, 2,
           2 * keys.other * 4);
  return true;
}

}  // namespace pyflame::gpu
