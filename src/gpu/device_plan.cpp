// One launch of a program on a GPU: its class, its arguments and its grid.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "gpu/device_text.h"
#include "pyflame/error.h"

namespace pyflame::gpu {
namespace {

constexpr uint32_t kThreads = 256;
// More than this goes past the caches.
constexpr int64_t kStreamBytes = int64_t{64} << 20;
// Positions and offsets below this take 32 bits.
constexpr int64_t kNarrow = int64_t{1} << 31;
// A grid of fewer blocks leaves a large GPU idle.
constexpr int64_t kManyBlocks = 256;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

bool is_splat(const pf_operand& op, const pf_launch& l) {
  for (int d = 0; d < l.ndim; ++d)
    if (op.strides[d] != 0 && l.shape[d] > 1) return false;
  return true;
}

struct Words {
  DeviceLaunch& to;
  void add(uint64_t w) {
    PF_CHECK(to.nwords < kDeviceWords, NotSupportedError, "pointwise group",
             "its strides take more than ", 8 * kDeviceWords, " bytes of kernel arguments; ",
             "expected fewer operands or dimensions; make the views contiguous first");
    to.words[to.nwords++] = w;
  }
  void add_signed(int64_t w) { add(static_cast<uint64_t>(w)); }
};

uint64_t number_word(const pf_scalar& s, DType type) {
  return type == DType::Float32   ? std::bit_cast<uint32_t>(static_cast<float>(s.f))
         : type == DType::Float64 ? std::bit_cast<uint64_t>(s.f)
         : type == DType::Bool    ? uint64_t{s.i != 0 || s.f != 0}
                                  : static_cast<uint64_t>(s.i);
}

// The stride of the dimensions [first, last) as one; false when they do not continue each other.
bool joined_stride(const pf_launch& l, const int64_t* strides, int first, int last,
                   int64_t* joined) {
  *joined = 0;
  int64_t next = -1;
  for (int d = last - 1; d >= first; --d) {
    if (l.shape[d] == 1) continue;
    if (next < 0)
      *joined = strides[d];
    else if (strides[d] != next)
      return false;
    next = strides[d] * l.shape[d];
  }
  return true;
}

uint32_t grid_of(int64_t blocks) {
  PF_CHECK(blocks < kNarrow, NotSupportedError, "pointwise group", "got a launch of ", blocks,
           " blocks; expected fewer than 2^31; split the tensors");
  return static_cast<uint32_t>(blocks);
}

}  // namespace

uint64_t device_divisor(int64_t d) {
  const uint32_t shift =
      d > 1 ? static_cast<uint32_t>(std::bit_width(static_cast<uint64_t>(d - 1))) : 0;
  const uint64_t factor =
      ((uint64_t{1} << 32) * ((uint64_t{1} << shift) - static_cast<uint64_t>(d))) /
          static_cast<uint64_t>(d) +
      1;
  return static_cast<uint64_t>(shift) << 32 | factor;
}

// Merged dimensions, the output's widest stride first.
struct Geometry {
  int ndim = 0;
  int64_t shape[PF_MAX_DIMS];
  int64_t strides[kDeviceOperands][PF_MAX_DIMS];

  Geometry(const pf_launch& l, int ninputs, int noutputs) {
    const int n = ninputs + noutputs;
    const auto steps = [&](int k) {
      return k < ninputs ? l.inputs[k].strides : l.outputs[k - ninputs].strides;
    };
    int order[PF_MAX_DIMS], count = 0;
    for (int d = 0; d < l.ndim; ++d)
      if (l.shape[d] != 1) order[count++] = d;
    const int64_t* out = l.outputs[0].strides;
    std::sort(order, order + count, [out](int a, int b) {
      const int64_t x = std::abs(out[a]), y = std::abs(out[b]);
      return x != y ? x > y : a < b;
    });
    for (int i = 0; i < count; ++i) {
      const int d = order[i];
      bool joins = ndim > 0;
      for (int k = 0; joins && k < n; ++k) joins = strides[k][ndim - 1] == steps(k)[d] * l.shape[d];
      const int to = joins ? ndim - 1 : ndim++;
      shape[to] = joins ? shape[to] * l.shape[d] : l.shape[d];
      for (int k = 0; k < n; ++k) strides[k][to] = steps(k)[d];
    }
    if (ndim == 0) {
      ndim = 1;
      shape[0] = 1;
      for (int k = 0; k < n; ++k) strides[k][0] = 1;
    }
  }
};

void DeviceProgram::plan(const pf_launch& l, DeviceLaunch& out) const {
  out.key = LaunchClass();
  out.grid = out.nwords = 0;
  out.block = kThreads;
  if (l.numel == 0) return;
  const int ninputs = static_cast<int>(inputs_.size());
  int64_t bytes = 0;
  bool flat = true;
  Words words{out};
  for (int k = 0; k < operands(); ++k) {
    const pf_operand& op = k < ninputs ? l.inputs[k] : l.outputs[k - ninputs];
    words.add(reinterpret_cast<uint64_t>(op.data));
    const bool splat = !op.contiguous && is_splat(op, l);
    if (splat) out.key.group[k] = LaunchClass::kSplat;
    flat = flat && (op.contiguous || (splat && k < ninputs));
    if (!splat) bytes += l.numel * static_cast<int64_t>(itemsize(dtype_of(k)));
  }
  for (const Number& x : numbers_) words.add(number_word(l.scalars[x.scalar], x.type));
  out.key.stream = bytes >= kStreamBytes;
  if (flat)
    plan_flat(l, out);
  else
    plan_strided(l, out);
}

void DeviceProgram::plan_flat(const pf_launch& l, DeviceLaunch& out) const {
  LaunchClass& c = out.key;
  c.kind = LaunchClass::Flat;
  c.ngroups = c.ndim = 1;
  std::fill(std::begin(c.walk), std::end(c.walk), uint8_t{0});
  c.vec = static_cast<uint8_t>(vec_);
  for (int k = 0; k < operands(); ++k) {
    if (c.group[k] == LaunchClass::kSplat) continue;
    const uint64_t align =
        std::min<uint64_t>(16, static_cast<uint64_t>(vec_) * itemsize(dtype_of(k)));
    if (out.words[k] % align != 0) c.vec = 1;
  }
  Words{out}.add_signed(l.numel);
  const int64_t each = int64_t{c.vec} * repeats(c);
  while (out.block > 64 && ceil_div(l.numel, each * out.block) < kManyBlocks) out.block /= 2;
  out.grid = grid_of(ceil_div(l.numel, each * out.block));
}

void DeviceProgram::plan_strided(const pf_launch& l, DeviceLaunch& out) const {
  LaunchClass& c = out.key;
  const int ninputs = static_cast<int>(inputs_.size()), n = operands();
  Geometry g(l, ninputs, n - ninputs);
  const int inner = g.ndim - 1;
  c.ndim = static_cast<uint8_t>(g.ndim);

  // Operands that move alike share a group.
  int leader[kDeviceOperands];
  int64_t reach = l.numel;
  for (int k = 0; k < n; ++k) {
    const int64_t* s = g.strides[k];
    bool still = true;
    int64_t far = 0;
    for (int d = 0; d < g.ndim; ++d) {
      still = still && s[d] == 0;
      far += std::abs(s[d]) * (g.shape[d] - 1);
    }
    reach = std::max(reach, far + 1);
    c.group[k] = LaunchClass::kSplat;
    if (still) continue;
    int j = 0;
    while (j < c.ngroups && !std::equal(s, s + g.ndim, g.strides[leader[j]])) ++j;
    if (j == c.ngroups) leader[c.ngroups++] = k;
    c.group[k] = static_cast<uint8_t>(j);
  }

  const int64_t cols = g.shape[inner], rows = l.numel / cols;
  bool dense = cols < kNarrow && rows < kNarrow;
  for (int j = 0; j < c.ngroups; ++j) {
    const int64_t* s = g.strides[leader[j]];
    bool moves = false;
    for (int d = 0; d < inner; ++d) moves = moves || s[d] != 0;
    c.walk[j] =
        static_cast<uint8_t>((s[inner] != 0) * LaunchClass::kInner + moves * LaunchClass::kOuter);
    dense = dense && (s[inner] == 0 || s[inner] == 1);
  }
  bool outs = true;
  for (int k = ninputs; k < n; ++k) outs = outs && g.strides[k][inner] == 1;
  dense = dense && outs;
  if (dense && inner == 0) return plan_flat(l, out);  // transposed alike

  // Vectors where every row begins at a multiple of them.
  c.vec = static_cast<uint8_t>(cols % vec_ == 0 ? vec_ : 1);
  for (int k = 0; dense && c.vec > 1 && k < n; ++k) {
    if (c.group[k] == LaunchClass::kSplat || g.strides[k][inner] == 0) continue;
    const uint64_t size = itemsize(dtype_of(k));
    const uint64_t align = std::min<uint64_t>(16, static_cast<uint64_t>(vec_) * size);
    uint64_t together = out.words[k];
    for (int d = 0; d < inner; ++d) together |= static_cast<uint64_t>(g.strides[k][d]) * size;
    if (together % align != 0) c.vec = 1;
  }
  const int64_t vectors = cols / c.vec;
  Words words{out};
  if (dense && inner > 0 && vectors >= (c.vec > 1 ? 4 : 16)) {
    c.kind = LaunchClass::Rows;
    // As many threads along a row as waste least, the most of those.
    int shift = 8;
    int64_t best = INT64_MAX;
    for (int s = 8; s >= 2; --s) {
      const int64_t padded = ceil_div(vectors, int64_t{1} << s) << s;
      if (padded >= best || (s < 5 && best < vectors * 5 / 4)) continue;
      best = padded;
      shift = s;
    }
    if (c.stream && shift < 8) out.block = kThreads / 2;
    const int64_t across = ceil_div(vectors, int64_t{1} << shift);
    const int64_t down = (out.block >> shift) * repeats(c);
    words.add_signed(cols);
    words.add_signed(rows);
    words.add_signed(across);
    words.add_signed(shift);
    for (int d = 1; d < inner; ++d) {
      words.add_signed(g.shape[d]);
      words.add(device_divisor(g.shape[d]));
    }
    for (int j = 0; j < c.ngroups; ++j)
      for (int d = 0; d < inner && (c.walk[j] & LaunchClass::kOuter); ++d)
        words.add_signed(g.strides[leader[j]][d]);
    out.grid = grid_of(across * ceil_div(rows, down));
    return;
  }
  if (!dense && outs && inner > 0 && plan_tiles(g, leader, out)) return;
  c.kind = LaunchClass::Lines;
  c.vec = 1;
  c.stream = 0;
  c.wide = reach >= kNarrow;
  std::fill(std::begin(c.walk), std::end(c.walk), uint8_t{0});
  words.add_signed(l.numel);
  for (int d = 1; d < g.ndim; ++d) {
    words.add_signed(g.shape[d]);
    words.add(c.wide ? 0 : device_divisor(g.shape[d]));
  }
  for (int j = 0; j < c.ngroups; ++j)
    for (int d = 0; d < g.ndim; ++d) words.add_signed(g.strides[leader[j]][d]);
  const int64_t each = repeats(c);
  while (out.block > 64 && ceil_div(l.numel, each * out.block) < kManyBlocks) out.block /= 2;
  out.grid = grid_of(ceil_div(l.numel, each * out.block));
}

// Whether the inputs that are not dense along the inner dimension all are along one other.
bool DeviceProgram::plan_tiles(Geometry& g, const int* leader, DeviceLaunch& out) const {
  LaunchClass& c = out.key;
  const int inner = g.ndim - 1, ninputs = static_cast<int>(inputs_.size());
  int turn = -1;
  for (int j = 0; j < c.ngroups; ++j) {
    const int64_t* s = g.strides[leader[j]];
    if (s[inner] == 0 || s[inner] == 1) continue;
    for (int d = 0; d < inner && turn < 0; ++d)
      if (s[d] == 1) turn = d;
    if (turn < 0 || s[turn] != 1) return false;
  }
  constexpr int64_t kShort = 16;
  if (turn < 0 || g.shape[turn] < kShort || g.shape[inner] < kShort || g.shape[turn] >= kNarrow ||
      g.shape[inner] >= kNarrow)
    return false;
  int64_t shared = 0;
  for (int k = 0; k < ninputs; ++k)
    if (c.group[k] != LaunchClass::kSplat && g.strides[k][inner] != 0 && g.strides[k][inner] != 1)
      shared += static_cast<int64_t>(itemsize(inputs_[static_cast<size_t>(k)])) * tile_side() *
                tile_pitch(inputs_[static_cast<size_t>(k)]);
  if (shared > (48 << 10)) return false;

  // That dimension next to the inner one.
  const auto move_back = [&](int64_t* v) { std::rotate(v + turn, v + turn + 1, v + inner); };
  move_back(g.shape);
  for (int k = 0; k < operands(); ++k) move_back(g.strides[k]);
  const int64_t cols = g.shape[inner], rows = g.shape[inner - 1];
  c.kind = LaunchClass::Tiles;
  for (int j = 0; j < c.ngroups; ++j) {
    const int64_t s = g.strides[leader[j]][inner];
    c.walk[j] = s == 0 ? 0 : s == 1 ? LaunchClass::kInner : LaunchClass::kTurned;
  }
  const int vec = tile_side() == 32 ? std::min(vec_, 4) : vec_;
  c.vec = static_cast<uint8_t>(cols % vec == 0 && rows % vec == 0 ? vec : 1);
  for (int k = 0; c.vec > 1 && k < operands(); ++k) {
    if (c.group[k] == LaunchClass::kSplat || c.walk[c.group[k]] == 0) continue;
    const bool turned = c.walk[c.group[k]] & LaunchClass::kTurned;
    const uint64_t size = itemsize(dtype_of(k));
    uint64_t together = out.words[k];
    for (int d = 0; d <= inner; ++d)
      if (d != (turned ? inner - 1 : inner))
        together |= static_cast<uint64_t>(g.strides[k][d]) * size;
    if (together % std::min<uint64_t>(16, static_cast<uint64_t>(vec) * size) != 0) c.vec = 1;
  }
  const int64_t across = ceil_div(cols, tile_side()), down = ceil_div(rows, tile_side());
  int64_t planes = 1;
  Words words{out};
  words.add_signed(cols);
  words.add_signed(rows);
  words.add_signed(across);
  words.add_signed(down);
  for (int d = 0; d < inner - 1; ++d) {
    planes *= g.shape[d];
    if (d == 0) continue;
    words.add_signed(g.shape[d]);
    words.add(device_divisor(g.shape[d]));
  }
  for (int j = 0; j < c.ngroups; ++j)
    for (int d = 0; d <= inner; ++d) words.add_signed(g.strides[leader[j]][d]);
  out.grid = grid_of(across * down * planes);
  return true;
}

bool DeviceProgram::plan_part(const pf_launch& l, uint32_t with, int64_t rows, int64_t cols,
                              int vec, bool stream, DeviceLaunch& out) const {
  out.key = LaunchClass();
  out.grid = out.nwords = 0;
  if (l.numel != rows * cols || operands() > 24) return false;
  const int ninputs = static_cast<int>(inputs_.size());
  int split = l.ndim;  // dimensions from here on are the columns
  for (int64_t n = 1; n != cols; n *= l.shape[--split])
    if (split == 0 || n > cols) return false;
  LaunchClass& c = out.key;
  c.kind = LaunchClass::Part;
  c.stream = stream;
  c.ndim = 2;
  c.vec = static_cast<uint8_t>(vec);
  c.ngroups = static_cast<uint8_t>(operands());
  Words words{out};
  int64_t steps[kDeviceOperands][2];
  for (int k = 0; k < operands(); ++k) {
    const pf_operand& op = k < ninputs ? l.inputs[k] : l.outputs[k - ninputs];
    words.add(reinterpret_cast<uint64_t>(op.data));
    auto& [row, col] = steps[k];
    if (op.contiguous)
      row = cols, col = 1;
    else if (!joined_stride(l, op.strides, 0, split, &row) ||
             !joined_stride(l, op.strides, split, l.ndim, &col))
      return false;
    const bool passes = with >> k & 1;
    if (passes && (row != cols || col != 1)) return false;
    c.group[k] = static_cast<uint8_t>(k);
    c.walk[k] =
        static_cast<uint8_t>((col != 0) * LaunchClass::kInner + (row != 0) * LaunchClass::kOuter);
    // An output, and what the kernel makes, has a value for each place, whatever its strides are.
    if (k >= ninputs || passes) c.walk[k] = LaunchClass::kInner | LaunchClass::kOuter;
    if (c.walk[k] == 0) c.group[k] = LaunchClass::kSplat;
    if (vec == 1 || c.walk[k] == 0 || c.walk[k] == LaunchClass::kOuter || passes) continue;
    const uint64_t size = itemsize(dtype_of(k));
    const uint64_t align = std::min<uint64_t>(16, static_cast<uint64_t>(vec) * size);
    if (col != 1 ||
        (reinterpret_cast<uint64_t>(op.data) | static_cast<uint64_t>(row) * size) % align)
      return false;
  }
  for (const Number& n : numbers_) words.add(number_word(l.scalars[n.scalar], n.type));
  for (int k = 0; k < operands(); ++k)
    for (int64_t step : steps[k]) words.add_signed(step);
  return true;
}

std::vector<int> DeviceProgram::kept_inputs(const LaunchClass& c) const {
  std::vector<int> kept;
  for (int k = 0; k < inputs(); ++k)
    if (loaded_[static_cast<size_t>(k)] && c.walk[k] == (LaunchClass::kInner | LaunchClass::kOuter))
      kept.push_back(k);
  std::stable_sort(kept.begin(), kept.end(),
                   [&](int a, int b) { return itemsize(dtype_of(a)) > itemsize(dtype_of(b)); });
  return kept;
}
int64_t DeviceProgram::row_bytes(const LaunchClass& c, int64_t cols) const {
  int64_t bytes = 0;
  for (int k : kept_inputs(c)) bytes += static_cast<int64_t>(itemsize(dtype_of(k)));
  return bytes * cols;
}

}  // namespace pyflame::gpu
