// Scaled dot-product attention and its gradients: 16-bit floats with up to 256 columns, and on
// NVIDIA float32 with up to 128, on matrix units (kernels/flash*.h), the rest on ordinary
// arithmetic (kernels/attention*.h). Which of them is a matter of the dtype and the numbers of
// columns alone.
#include <algorithm>
#include <cmath>

#include "engine/trace.h"
#include "gpu/attention_hopper.h"
#include "gpu/attention_library.h"
#include "gpu/axes.h"
#include "gpu/kernel.h"
#include "gpu/product.h"
#include "kernels/attention_args.h"
#include "pyflame/amp.h"
#include "table/kernels/attention.h"
#include "table/score.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int kThreads = 256;  // PF_ATTENTION_THREADS

// Tensor i over the batch dimensions of `like`; those of size 1 are repeated.
pf_matrix matrix(const KernelArgs& a, int i, const pf_tensor& like) {
  pf_matrix m{};
  if (!a.has(i)) return m;
  const pf_tensor& t = a.tensor(i);
  const auto stride = [&](int d) { return d < 0 || t.shape[d] == 1 ? 0 : t.strides[d]; };
  m.data = t.data;
  m.row = stride(t.ndim - 2);
  m.col = stride(t.ndim - 1);
  const auto item = static_cast<int64_t>(itemsize(a.dtype(i))), chunk = 16 / item;
  bool whole = (item == 2 || item == 4) && m.col == 1 && m.row % chunk == 0 &&
               reinterpret_cast<uintptr_t>(m.data) % 16 == 0;
  for (int d = 0; d + 2 < like.ndim; ++d) {
    m.batch[d] = stride(d + t.ndim - like.ndim);
    whole = whole && m.batch[d] % chunk == 0;
  }
  m.whole = whole;
  return m;
}

enum class Pass { Forward, Queries, Keys, Mask };  // Queries: dq; Keys: dk and dv

constexpr int64_t kFar = int64_t{1} << 60;  // as far as a query sees where nothing says less

// Of the kernels on matrix units: PF_OWN, PF_WARPS, PF_OTHER and PF_HELD of kernels/flash.h.
struct Shape {
  int own, warps, other, held;
  int ahead = 0, resident = 0;  // of float32 in parts: PF_AHEAD, PF_RESIDENT where not 0
  bool operator==(const Shape&) const = default;
};

// float32 as sums of bfloat16: how many (PF_PARTS), or 0 where ordinary arithmetic multiplies. Two
// are what PyTorch's "high" allows beside TF32, and have more bits than that.
int parts_of_float32(const Traits& t) {
  if (vectors_asked() || t.amd || matrix_unit(t) == 0 || t.max_shared < 99 * 1024) return 0;
  return float32_matmul_precision() == MatmulPrecision::Highest ? 3 : 2;
}
// Of float32 in parts: what fits into registers and 99 KB of shared memory. Of gradients more warps
// share a tile where there is more memory (Hopper), for its parts are made once for all of them.
// `plain`: three parts, no mask, no features.
Shape shape_in_parts(const Traits& t, Pass pass, int64_t d, bool plain) {
  const bool roomy = t.max_shared >= 227 * 1024;
  if (pass == Pass::Forward) return {16, 4, d <= 64 ? 32 : 16, 0, 1};
  if (d > 64 && !roomy) return {16, d > 96 ? 2 : 4, 16, 0};
  if (d > 64) return {16, 8, 16, 0, pass == Pass::Queries};
  if (pass == Pass::Queries && !(roomy && plain)) return {16, 4, 32, 0, 1};
  if (pass == Pass::Queries) return {16, 4, 32, 0, 0, 3};
  return {16, roomy ? 8 : 4, 32, 0};
}

// Columns that matrix units take, likewise.
int64_t most_columns(const Traits& t) {
  return !t.amd ? 256 : t.warp == 64 ? 192 : 128;
}
// What fits into registers and 64 KB of LDS (100 KB of shared memory): tools/kernels.py looks.
Shape shape_of(const Traits& t, Pass pass, int64_t d) {
  if (pass == Pass::Mask)
    return {t.warp / 2, t.warp == 32 ? 4 : d > 128 ? 1 : 2, t.amd && t.warp == 32 ? 16 : 32, 0};
  const bool narrow = d <= 64;
  if (!t.amd) {
    if (d > 128) return {16, 4, pass == Pass::Forward ? 32 : 16, 0};
    if (pass == Pass::Forward) return {16, 4, 64, narrow};
    return {16, 4, narrow && pass == Pass::Queries ? 64 : 32, 0};
  }
  if (t.warp == 64) return {32, 4, pass == Pass::Keys || d > 128 ? 32 : 64, 1};
  if (pass == Pass::Forward)
    return {16, 4, narrow ? 64 : 32, narrow && t.architecture.rfind("gfx12", 0) == 0};
  return {16, 4, narrow ? 32 : 16, 0};
}

// The function of scores as text before a kernel, and its slope. HALF: for results of 16 bits.
template <bool HALF>
std::string score_text(int64_t number) {
  const table::ScoreFunction& f = table::score_function(number);
  std::vector<std::string> names{"s", "b", "h", "i", "j"};
  std::string looked_up;
  for (size_t t = 0; t < f.at.size(); ++t) {
    const std::string n = std::to_string(t);
    looked_up += c_statements(f.at[t], "float", "at" + n, names) + "const float t" + n +
                 " = pf_look_up(a.table[" + n + "], at" + n + ");\n";
  }
  for (size_t t = 0; t < f.at.size(); ++t) names.push_back("t" + std::to_string(t));
  const auto function = [&](const char* name, const table::Expr& e) {
    return std::string("PF_DEVICE float ") + name +
           "(const pf_attention& a, float s, float b, float h, float i, float j) {\n" +
           (HALF ? "PF_HALF_MATH\n" : "") + looked_up + c_statements(e, "float", "r", names) +
           "return r;\n}\n";
  };
  return "#include \"attention_heads.h\"\n#define PF_SCORE_TEXT\n" +
         function("pf_score_value", f.value) + function("pf_score_slope", f.slope);
}

struct Job {
  pf_attention at{};
  Defines defines;
  DType dtype;
  int64_t kind;  // of the mask: PF_MASK
  int64_t features = 0;
  KernelArgs::Before score{0, &score_text<false>};
  int64_t heads = 1;  // with their sequences
  int64_t tile;       // queries or keys of one block
  int64_t width;      // columns of results of one block

  // `in`: the positions of what both kernels have.
  template <class Positions>
  Job(const KernelArgs& a, const Positions& in) {
    const pf_tensor& like = a.tensor(in.out);
    const DType t = dtype = a.dtype(in.out);
    at.out = matrix(a, in.out, like);
    at.q = matrix(a, in.q, like);
    at.k = matrix(a, in.k, like);
    at.v = matrix(a, in.v, like);
    at.mask = matrix(a, in.mask, like);
    at.lse = a.data(in.lse);
    at.batch = like.ndim - 2;
    for (int d = 0; d < at.batch; ++d) heads *= at.size[d] = like.shape[d];
    at.queries = like.shape[like.ndim - 2];
    at.depth_v = like.shape[like.ndim - 1];
    at.keys = a.tensor(in.k).shape[a.tensor(in.k).ndim - 2];
    at.depth = a.tensor(in.q).shape[a.tensor(in.q).ndim - 1];
    at.scale = a.f(numbers<Sdpa>.scale);
    at.max_queries = at.queries, at.max_keys = at.keys, at.sequences = 1, at.group = 1;
    read_features(a, in);
    tile = t == DType::Float64 ? 32 : 64;
    kind = !a.has(in.mask) ? 0 : a.dtype(in.mask) == DType::Bool ? 1 : 2;
    define();
  }
  void define() {
    const int64_t wide = std::max(at.depth, at.depth_v) > 64 ? 2 : 1;
    width = 64 * wide;
    defines = Defines()
                  .type("PF_T", dtype)
                  .value("PF_MASK", kind)
                  .value("PF_FEATURES", features)
                  .value("PF_WIDE", wide);
  }
  // What goes beyond a mask.
  template <class Positions>
  void read_features(const KernelArgs& a, const Positions& in) {
    constexpr auto number = numbers<Sdpa>;
    const int64_t left = a.i(number.left), right = a.i(number.right);
    const bool cut = a.has(in.starts_q);
    at.bottom_right = a.i(number.bottom_right) != 0;
    const int64_t shift = at.bottom_right && !cut ? at.keys - at.queries : 0;
    at.causal = right >= 0;
    at.low = left < 0 ? -kFar : shift - std::min(left, kFar / 2);
    at.high = right < 0 ? kFar : shift + std::min(right, kFar / 2);
    if (left >= 0) features |= PF_WINDOW;
    if ((at.soft_cap = a.f(number.soft_cap)) > 0) features |= PF_SOFT_CAP;
    if (a.has(in.slopes)) {
      features |= PF_SLOPES;
      at.slopes = matrix(a, in.slopes, a.tensor(in.out));
    }
    if (cut) {
      features |= PF_SEQUENCES;
      at.starts_q = static_cast<const pf_i32*>(a.data(in.starts_q));
      at.starts_k = static_cast<const pf_i32*>(a.data(in.starts_k));
      at.used_k = a.has(in.used_k) ? static_cast<const pf_i32*>(a.data(in.used_k)) : nullptr;
      at.sequences = a.tensor(in.starts_q).shape[0] - 1;
      at.max_queries = std::min<int64_t>(at.queries, a.i(number.max_queries));
      at.max_keys = a.i(number.max_keys);
      heads *= at.sequences;
      if (a.has(in.pages)) {
        features |= PF_PAGES;
        at.pages = static_cast<const pf_i32*>(a.data(in.pages));
        at.pages_row = a.tensor(in.pages).shape[1];
        at.page = a.i(number.page);
      }
    }
    if ((score.number = a.i(number.score)) != 0) {
      features |= PF_SCORE;
      if (itemsize(dtype) == 2) score.text = &score_text<true>;
      const int tables[] = {in.table0, in.table1, in.table2, in.table3};
      for (int t = 0; t < table::kScoreTables; ++t)
        if (a.has(tables[t]))
          at.table[t] = {static_cast<const float*>(a.data(tables[t])), numel(a.tensor(tables[t]))};
      at.score_heads = a.i(number.score_heads);
      at.first_query = a.i(number.first_query);
      at.first_key = a.i(number.first_key);
    }
    const double dropout = a.f(number.dropout);
    if (dropout <= 0) return;
    features |= PF_DROPOUT;
    at.seed = static_cast<pf_u64>(a.i(number.seed));
    at.offset = static_cast<pf_u64>(a.i(number.offset));
    at.drawn_rows = (at.queries + 15 * at.sequences) / 16 * 8;
    at.drawn = (at.max_keys + 15) / 16 * 4;
    at.threshold = std::lround(dropout * 65536);
    at.keeping = at.threshold < 65536 ? 65536.0 / static_cast<double>(65536 - at.threshold) : 0;
  }
  const KernelArgs::Before* before() const { return score.number ? &score : nullptr; }
  Function compile(const KernelArgs& a, const char* file, const Defines& d,
                   const char* entry) const {
    return before() ? a.compile(file, d, entry, score) : a.compile(file, d, entry);
  }
  // The gradient of a mask, in tiles of so many rows and columns of queries and keys.
  void launch_mask(const KernelArgs& a, Function f, int64_t rows, int64_t columns, int threads,
                   int64_t shared) {
    int64_t sharing = 1;  // heads that have the same mask
    for (int d = 0; d < at.batch; ++d)
      if (at.dmask.batch[d] == 0) sharing *= at.size[d];
    at.tiles = at.dmask.row == 0 ? 1 : ceil_div(at.queries, rows);
    at.chunks = at.dmask.col == 0 ? 1 : ceil_div(at.keys, columns);
    const int64_t blocks = heads / std::max<int64_t>(sharing, 1) * at.tiles * at.chunks;
    if (blocks > 0) a.launch(f, Grid(blocks), threads, static_cast<size_t>(shared), at, sharing);
  }
  void launch_flash_mask(const KernelArgs& a, const Shape& s, int64_t d) {
    const Traits& t = a.traits();
    const int64_t block = s.own * s.warps, own = t.amd && s.held ? 0 : block * d * 2;
    Function f = compile(a, "flash_mask.h",
                         with_cdna(Defines()
                                       .type("PF_T", dtype)
                                       .value("PF_MASK", kind)
                                       .value("PF_FEATURES", features & ~PF_GROUPS)
                                       .value("PF_D", d)
                                       .value("PF_OWN", s.own)
                                       .value("PF_WARPS", s.warps)
                                       .value("PF_OTHER", s.other)
                                       .value("PF_HELD", s.held)
                                       .value("PF_MATRIX_UNIT", matrix_unit(t)),
                                   t),
                         "flash_dmask");
    launch_mask(a, f, block, s.other, s.warps * t.warp,
                std::max(2 * own + 4 * s.other * d, block * (s.other + 1) * 4));
  }
  // A kernel over tiles of `rows` that gives `columns`, of so many heads.
  void launch(const KernelArgs& a, const char* file, const char* entry, int64_t rows,
              int64_t columns, int64_t of) {
    at.tiles = ceil_div(rows, tile);
    at.chunks = std::max<int64_t>(1, ceil_div(columns, width));
    const int64_t blocks = of * at.tiles * at.chunks;
    if (blocks > 0) a.launch(compile(a, file, defines, entry), Grid(blocks), kThreads, 0, at);
  }

  bool on_matrix_units(const KernelArgs& a) const {
    constexpr int64_t kLongest = 1 << 30;  // positions are ints
    const int64_t columns = std::max(at.depth, at.depth_v);
    return (itemsize(dtype) == 2
                ? columns <= most_columns(a.traits())
                : dtype == DType::Float32 && columns <= 128 && parts_of_float32(a.traits()) != 0) &&
           std::max(at.queries, at.keys) < kLongest && matrix_unit(a.traits()) != 0 &&
           at.page % 64 == 0;  // a tile of keys lies on one page
  }
  // No more than a triangle from the first query and key on, or a mask.
  bool plain() const { return features == 0 && (at.high == kFar || at.high == 0) && !at.logs; }
  // For pf.explain.
  void note_units(const KernelArgs& a) const {
    note_float32(a, dtype, parts_of_float32(a.traits()) == 2,
                 {"our kernels on matrix units, in float32 by parts of bfloat16",
                  "our kernels on matrix units, in two parts of bfloat16"});
    if (dtype != DType::Float32) engine::note_served(a.op, "our kernels on matrix units");
  }
  void launch_flash(const KernelArgs& a, Pass pass) {
    constexpr int64_t kNear = 1 << 30;
    if (!at.starts_q) {
      at.low = std::max<int64_t>(at.low, -kNear);
      at.high = std::min<int64_t>(at.high, kNear);
    }
    const Traits& t = a.traits();
    const int64_t d = std::max<int64_t>(1, ceil_div(std::max(at.depth, at.depth_v), 32)) * 32;
    const int64_t parts = dtype == DType::Float32 ? parts_of_float32(t) : 0;
    const Shape s = parts ? shape_in_parts(t, pass, d, parts == 3 && features == 0 && kind == 0)
                          : shape_of(t, pass, d);
    if (pass == Pass::Mask) return launch_flash_mask(a, s, d);  // a row, where there are no queries
    const int64_t rows = pass == Pass::Keys ? at.max_keys : at.max_queries, block = s.own * s.warps;
    at.tiles = ceil_div(rows, block);
    if (heads * at.tiles == 0) return;
    const int64_t blocks = (pass == Pass::Keys ? heads / at.group : heads) * at.tiles;
    const char *file = pass == Pass::Forward ? "flash_forward.h" : "flash_backward.h",
               *entry = pass == Pass::Forward   ? "flash_forward"
                        : pass == Pass::Queries ? "flash_dq"
                                                : "flash_dkv";
    // Two stages of tiles with mma (of parts one); turned copies of some tiles on AMD.
    const int64_t item = 2 * std::max<int64_t>(1, parts), head = parts ? 16 : 0;
    const int64_t own = t.amd && s.held ? 0 : block * d * item, tile = s.other * d * item,
                  sums = s.other * 8;
    const int64_t shared = parts ? head + (pass == Pass::Forward ? 1 : 2) * own + 2 * tile + sums
                           : pass == Pass::Forward ? own + (t.amd ? 2 : 4) * tile
                           : pass == Pass::Queries ? 2 * own + (t.amd ? 3 : 4) * tile
                           : t.amd                 ? 2 * own + 4 * tile + sums
                                                   : 2 * own + 2 * (2 * tile + sums);
    // What a program of flash_backward.h makes (PF_GIVES): both its kernels where they have the
    // same shape. Wide dk and dv do not fit into registers together.
    const bool apart = d > (t.amd               ? 64
                            : parts && features ? 96
                                                : 128),
               one =
                   !apart && !parts && shape_of(t, Pass::Queries, d) == shape_of(t, Pass::Keys, d);
    for (int gives = pass == Pass::Forward   ? 0
                     : one                   ? 7
                     : pass == Pass::Queries ? 4
                     : apart                 ? 2
                                             : 3;
         ; gives = 1) {
      Defines options = with_cdna(Defines()
                                      .type("PF_T", dtype)
                                      .value("PF_MASK", kind)
                                      .value("PF_FEATURES", features)
                                      .value("PF_D", d)
                                      .value("PF_OWN", s.own)
                                      .value("PF_WARPS", s.warps)
                                      .value("PF_OTHER", s.other)
                                      .value("PF_HELD", s.held)
                                      .value("PF_GIVES", gives)
                                      .value("PF_MATRIX_UNIT", matrix_unit(t)),
                                  t);
      if (parts) options = std::move(options).value("PF_PARTS", parts).value("PF_AHEAD", s.ahead);
      if (s.resident) options = std::move(options).value("PF_RESIDENT", s.resident);
      a.launch(compile(a, file, options, entry), Grid(blocks), s.warps * t.warp,
               static_cast<size_t>(std::max(shared, head + block * d * item)), at);
      if (gives != 2) break;
    }
  }
};

// One query for each head that sees all keys: a block a head, whose threads share the keys; of long
// sequences several.
bool by_one_query(const KernelArgs& a, const Job& j) {
  constexpr int64_t kKeys = 512;  // of a block
  const pf_attention& at = j.at;
  const int64_t d = at.depth, lanes = d / 8;
  if (at.max_queries != 1 || j.kind != 0 || (j.features & ~PF_SEQUENCES) != 0 || at.high != kFar ||
      itemsize(j.dtype) != 2 || d != at.depth_v || d % 8 != 0 || lanes > 32 ||
      (lanes & (lanes - 1)) != 0 || lanes == 0 || !at.q.whole || !at.k.whole || !at.v.whole)
    return false;
  if (j.heads == 0) return true;
  const Defines options = Defines()
                              .type("PF_T", j.dtype)
                              .value("PF_D", d)
                              .value("PF_FEATURES", j.features)
                              .value("PF_KEYS", kKeys)
                              .value("PF_RESIDENT", 4);  // beside products that begin early
  const int64_t blocks = std::max<int64_t>(1, ceil_div(at.max_keys, kKeys));
  float* parts = nullptr;
  if (blocks > 1)
    parts = static_cast<float*>(
        a.workspace(static_cast<size_t>(j.heads * blocks * (d + 2)) * sizeof(float)));
  const auto n = static_cast<uint32_t>(blocks);
  constexpr auto in = tensors<Sdpa>;
  a.launch(a.compile("attention_one.h", options, "sdpa_one"), Grid(j.heads * blocks), 256, 0, at,
           parts, n, pf_u32{a.steady(in.starts_q) && a.steady(in.starts_k) && a.steady(in.used_k)});
  if (parts)
    a.launch(a.compile("attention_one.h", options, "sdpa_one_join"), Grid(j.heads), 256, 0, at,
             parts, n);
  return true;
}

AttentionWish wish_of(const KernelArgs& a) {
  const int64_t library = a.i(numbers<Sdpa>.library);
  return {library == 1, library == 2, a.i(numbers<Sdpa>.repeats) != 0};
}

void served(const KernelArgs& a, const char* by) {
  engine::note_served(a.op, by);
}

void by_ours(const KernelArgs& a, Job j) {
  if (attention_on_hopper(a, j.at, j.dtype, j.kind, j.features, j.heads, j.before()))
    return served(a, "our kernels for Hopper");
  if (j.on_matrix_units(a)) {
    j.note_units(a);
    return j.launch_flash(a, Pass::Forward);
  }
  served(a, "our kernels");
  j.launch(a, "attention_forward.h", "sdpa", j.at.max_queries, j.at.depth_v, j.heads);
}

void sdpa(const KernelArgs& a) {
  Job j(a, tensors<Sdpa>);
  j.at.logs = a.data(tensors<Sdpa>.logs);
  if (by_one_query(a, j)) return served(a, "our kernel for one query");
  if (!attention_by_library(a, j.at, j.dtype, j.kind, j.features, false, wish_of(a),
                            [&] { by_ours(a, j); }))
    by_ours(a, j);
}

void backward_by_ours(const KernelArgs& a, Job j) {
  constexpr auto at = tensors<SdpaBackward>;
  if (!a.has(at.dmask) &&
      attention_backward_on_hopper(a, j.at, j.dtype, j.kind, j.features, j.heads, j.before()))
    return served(a, "our kernels for Hopper");
  const bool mask = a.has(at.dmask);
  const int64_t rows = j.heads / std::max<int64_t>(1, j.at.sequences) * j.at.queries;
  if (j.on_matrix_units(a)) {
    j.note_units(a);
    j.at.delta = a.workspace(static_cast<size_t>(std::max<int64_t>(1, rows)) * sizeof(float));
    j.launch_flash(a, Pass::Queries);
    if (mask && j.dtype == DType::Float32)
      j.launch_mask(a, j.compile(a, "attention_backward.h", j.defines, "sdpa_dmask"), j.tile,
                    j.tile, kThreads, 0);
    else if (mask)
      j.launch_flash(a, Pass::Mask);
    return j.launch_flash(a, Pass::Keys);
  }
  served(a, "our kernels");
  const char* file = "attention_backward.h";
  if (rows > 0) {
    j.at.delta = a.workspace(static_cast<size_t>(rows) * sizeof(double));
    a.launch(j.compile(a, file, j.defines, "sdpa_delta"), Grid(ceil_div(rows, kThreads / 16)),
             kThreads, 0, j.at, rows);
  }
  j.launch(a, file, "sdpa_dq", j.at.max_queries, j.at.depth, j.heads);
  if (mask)
    j.launch_mask(a, j.compile(a, file, j.defines, "sdpa_dmask"), j.tile, j.tile, kThreads, 0);
  j.launch(a, file, "sdpa_dkv", j.at.max_keys, std::max(j.at.depth, j.at.depth_v),
           j.heads / j.at.group);
}

void sdpa_backward(const KernelArgs& a) {
  constexpr auto at = tensors<SdpaBackward>;
  Job j(a, at);
  const pf_tensor& like = a.tensor(at.out);
  j.at.dq = matrix(a, at.dq, like);
  j.at.dk = matrix(a, at.dk, like);
  j.at.dv = matrix(a, at.dv, like);
  j.at.dout = matrix(a, at.dout, like);
  j.at.dmask = matrix(a, at.dmask, like);
  const pf_tensor& dk = a.tensor(at.dk);
  if (like.ndim > 2 && dk.ndim == like.ndim && like.shape[like.ndim - 3] > 1 &&
      dk.shape[like.ndim - 3] == 1) {
    j.at.group = like.shape[like.ndim - 3];
    j.features |= PF_GROUPS;
    j.define();
  }
  if (!attention_by_library(a, j.at, j.dtype, j.kind, j.features, true, wish_of(a),
                            [&] { backward_by_ours(a, j); }))
    backward_by_ours(a, j);
}

}  // namespace

PF_GPU_KERNEL(Sdpa::kInfo, sdpa)
PF_GPU_KERNEL(SdpaBackward::kInfo, sdpa_backward)

}  // namespace pyflame::gpu
