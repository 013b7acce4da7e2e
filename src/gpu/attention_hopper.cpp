#include "gpu/attention_hopper.h"

#include <algorithm>
#include <vector>

#include "gpu/attention_operand.h"
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
// The fastest of those tried on an H100 (docs/performance.md). A block of one group and a warp
// leaves room for others, whose beginnings and ends it covers; rows of 128 columns need all
// registers.
constexpr Shape kForward64{4, 64, 3, 3, 1}, kQueries64{4, 64, 3, 3, 1}, kKeys64{8, 64, 2, 1, 0},
    kForward128{8, 128, 2, 1, 0}, kQueries128{8, 64, 3, 1, 0}, kKeys128{8, 64, 2, 1, 0};

// Batch dimensions, the last first, those together that all matrices step through alike.
struct Batch {
  static constexpr int kMost = 3;
  int dims = 0;
  int64_t size[kMost] = {1, 1, 1};
  int from[kMost] = {};  // the dimension of pf_attention whose stride it is
  bool fits = true;

  Batch() = default;
  Batch(const pf_attention& a, const std::vector<const pf_matrix*>& all) {
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

struct Job {
  const KernelArgs& args;
  DType dtype;
  int64_t mask, features, heads, d;
  const KernelArgs::Before* before;  // a function of scores as text
  pf_flash_maps m{};
  Batch batch;

  Job(const KernelArgs& args_, const pf_attention& a, DType t, int64_t mask_, int64_t features_,
      int64_t heads_, const KernelArgs::Before* before_)
      : args(args_), dtype(t), mask(mask_), features(features_), heads(heads_), before(before_) {
    m.at = a;
    constexpr pf_i64 kNear = 1 << 30;  // positions are ints
    m.at.low = std::max(a.low, -kNear);
    m.at.high = std::min(a.high, kNear);
    d = std::max(a.depth, a.depth_v) <= 64 ? 64 : 128;
  }
  // A matter of dtype, shape and features alone: the same numbers, however operands lie.
  bool serves() const {
    const pf_attention& a = m.at;
    constexpr int64_t kMost = 1 << 30, kNone = PF_SEQUENCES | PF_PAGES;
    return tensor_maps(args.traits()) && itemsize(dtype) == 2 && (features & kNone) == 0 &&
           std::max(a.depth, a.depth_v) <= 128 && std::min(a.depth, a.depth_v) > 0 &&
           a.queries > 0 && a.keys > 0 && a.scale > 0 && heads > 0 && heads < kMost &&
           std::max(a.queries, a.keys) < kMost;
  }

  using Operand = AttentionOperand;
  // Afterwards there is a map of each operand, and of the results if they lie well, too.
  void arrange(std::initializer_list<Operand> operands, std::initializer_list<Operand> results) {
    std::vector<const pf_matrix*> all;
    for (const Operand& o : operands) {
      if (!lies_well(m.at, o)) copy_well(args, m.at, dtype, o);
      all.push_back(o.x);
    }
    m.stored = 1;
    for (const Operand& r : results) {
      if (!lies_well(m.at, r)) m.stored = 0;
      all.push_back(r.x);
    }
    if (m.stored) batch = Batch(m.at, all);
    if (!m.stored || !batch.fits) {
      m.stored = 0;
      all.resize(operands.size());
      batch = Batch(m.at, all);
    }
    if (!batch.fits) {
      for (const Operand& o : operands) copy_well(args, m.at, dtype, o);
      batch = Batch(m.at, all);
    }
    for (int i = 0; i < 2; ++i) m.size[i] = static_cast<pf_i32>(batch.size[i]);
  }
  void store(int which, const Operand& o) {
    if (m.stored) m.to[which] = map(*o.x, o.rows, o.cols, 64, m.step_to[which]);
  }
  // The map of a matrix in boxes of `box` rows; `step` as pf_flash_maps has it.
  pf_tensor_map map(const pf_matrix& x, int64_t rows, int64_t cols, int64_t box,
                    pf_i32 (&step)[3]) const {
    constexpr int64_t kAny = 8;  // of a dimension of one place
    TensorView v;
    v.data = x.data;
    v.dtype = dtype;
    v.rank = 2 + Batch::kMost;
    v.size[0] = cols;
    v.size[1] = rows;
    v.stride[0] = 1;
    v.stride[1] = rows == 1 ? kAny : x.row;
    v.box[0] = 64;
    v.box[1] = static_cast<int32_t>(box);
    for (int i = 0; i < Batch::kMost; ++i) {
      const int64_t stride = i < batch.dims ? x.batch[batch.from[i]] : 0;
      step[i] = stride != 0;
      v.size[2 + i] = stride ? batch.size[i] : 1;
      v.stride[2 + i] = stride ? stride : kAny;
      v.box[2 + i] = 1;
    }
    return tensor_map(v);
  }
  Defines defines(const Shape& s) const {
    return Defines()
        .type("PF_T", dtype)
        .value("PF_MASK", mask)
        .value("PF_FEATURES", features)
        .value("PF_D", d)
        .value("PF_OWN", 16)
        .value("PF_WARPS", s.warps)
        .value("PF_OTHER", s.other)
        .value("PF_HELD", 0)
        .value("PF_STAGES", s.stages)
        .value("PF_RESIDENT", s.resident)
        .value("PF_ALONE", s.alone);
  }
  Defines units(const Shape& s) const { return defines(s).value("PF_MATRIX_UNIT", 2); }
  // `own`: tiles of its own rows that a block has; `sums`: bytes of a stage beside its tiles.
  void launch(const Shape& s, const Defines& defines, const char* file, const char* entry,
              int64_t rows, int64_t of, int own, int64_t sums) {
    m.at.tiles = ceil_div(rows, s.block());
    const int64_t shared =
        own * s.block() * d * 2 + s.stages * (2 * s.other * d * 2 + sums) + 8 + s.stages * 4 * 8;
    const Function f =
        before ? args.compile(file, defines, entry, *before) : args.compile(file, defines, entry);
    args.launch(f, Grid(of * m.at.tiles), s.threads(), static_cast<size_t>(shared), m);
  }
};

}  // namespace

bool attention_on_hopper(const KernelArgs& args, const pf_attention& a, DType t, int64_t mask,
                         int64_t features, int64_t heads, const KernelArgs::Before* before) {
  Job j(args, a, t, mask, features, heads, before);
  if (!j.serves()) return false;
  const Shape& s = j.d == 64 ? kForward64 : kForward128;
  pf_attention& at = j.m.at;
  const Job::Operand out{&at.out, a.queries, a.depth_v};
  j.arrange({{&at.q, a.queries, a.depth}, {&at.k, a.keys, a.depth}, {&at.v, a.keys, a.depth_v}},
            {out});
  j.m.q = j.map(at.q, a.queries, a.depth, 64, j.m.step_q);
  j.m.k = j.map(at.k, a.keys, a.depth, s.other, j.m.step_k);
  j.m.v = j.map(at.v, a.keys, a.depth_v, s.other, j.m.step_v);
  j.store(0, out);
  j.launch(s, j.units(s).value("PF_TURNS", j.d == 128), "flash_hopper_forward.h",
           "flash_hopper_forward", a.queries, heads, 1, 0);
  return true;
}

bool attention_backward_on_hopper(const KernelArgs& args, const pf_attention& a, DType t,
                                  int64_t mask, int64_t features, int64_t heads,
                                  const KernelArgs::Before* before) {
  Job j(args, a, t, mask, features, heads, before);
  if (!j.serves()) return false;
  const Shape &queries = j.d == 64 ? kQueries64 : kQueries128,
              &keys = j.d == 64 ? kKeys64 : kKeys128;
  static_assert(kQueries64.other == 64 && kKeys64.other == 64 && kQueries128.other == 64 &&
                    kKeys128.other == 64,
                "as the rows of a group: one map of each matrix does for both kernels");
  auto& m = j.m;
  pf_attention& at = m.at;
  const Job::Operand dq{&at.dq, a.queries, a.depth}, dk{&at.dk, a.keys, a.depth},
      dv{&at.dv, a.keys, a.depth_v};
  j.arrange({{&at.q, a.queries, a.depth},
             {&at.k, a.keys, a.depth},
             {&at.v, a.keys, a.depth_v},
             {&at.dout, a.queries, a.depth_v}},
            {dq, dk, dv});
  m.q = j.map(at.q, a.queries, a.depth, 64, m.step_q);
  m.k = j.map(at.k, a.keys, a.depth, 64, m.step_k);
  m.v = j.map(at.v, a.keys, a.depth_v, 64, m.step_v);
  m.dout = j.map(at.dout, a.queries, a.depth_v, 64, m.step_dout);
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
  v.permuted = 0;
  m.sums = tensor_map(v);

  const char* file = "flash_hopper_backward.h";
  j.store(0, dq);
  j.launch(queries, j.units(queries).value("PF_GIVES", 4), file, "flash_hopper_dq", a.queries,
           heads, 2, 0);
  j.store(0, dk);
  j.store(1, dv);
  j.launch(keys, j.units(keys).value("PF_GIVES", 3), file, "flash_hopper_dkv", a.keys,
           heads / a.group, 2, 2 * keys.other * 4);
  return true;
}

}  // namespace pyflame::gpu
