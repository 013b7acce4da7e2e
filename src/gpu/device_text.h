// Pointwise programs as kernel text for GPUs. The text is self-contained HIP-dialect C++ over
// kernels/prelude.h; a plug-in compiles it at run time and caches it by (program, LaunchClass).
//
//   DeviceProgram p(program);                       // once for each pf_program; owns a copy
//   DeviceLaunch l;
//   p.plan(launch, l);                              // geometry, class, arguments, grid
//   if (l.grid == 0) return PF_OK;                  // nothing to do
//   kernel = cache[l.key];                          // else compile p.text(l.key), entry p.kEntry
//   launch(kernel, grid {l.grid, 1, 1}, block {l.block, 1, 1}, no dynamic shared memory,
//          arguments l.words, 8 * l.nwords bytes);
//
// The kernel has one parameter, a struct by value of `nwords` 64-bit words, so the words can be
// handed over as they are (HIP_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_POINTER, or
// kernelParams = {words}). What they hold, in this order:
//
//   addresses   of the inputs, then of the outputs
//   numbers     one word each, in the low bytes, in the type that the kernel computes with
//   geometry    by kind, see DeviceProgram::plan()
//
// The text includes "prelude.h" and "math.h" and needs -DPF_WARP=<width> and no contraction.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "pyflame/backend.h"
#include "pyflame/dtype.h"

namespace pyflame::gpu {

inline constexpr int kDeviceOperands = 48;  // inputs and outputs of one program
inline constexpr int kDeviceWords = 512;    // 4 KB of arguments

// What the text depends on besides the program. Plain bytes without padding: compare and hash
// them as such.
struct LaunchClass {
  enum Kind : uint8_t {
    Flat,   // every operand is dense in the same order, or one number
    Rows,   // dense (or one number) along the inner dimension, anything along the others
    Tiles,  // as Rows, but some inputs are dense along the second innermost dimension instead
    Lines,  // any strides: one element at a time
    Part,   // of another kernel: see plan_part()
  };
  uint8_t kind = Flat;
  uint8_t vec = 1;                      // elements of one access
  uint8_t ndim = 1;                     // dimensions left after merging
  uint8_t wide = 0;                     // positions need 64 bits
  uint8_t stream = 0;                   // larger than the caches: loads and stores say so
  uint8_t ngroups = 0;                  // distinct vectors of strides
  uint8_t group[kDeviceOperands] = {};  // of each operand; kSplat where all strides are 0
  uint8_t walk[kDeviceOperands] = {};   // of each group, for Rows and Tiles: the bits below
  static constexpr uint8_t kSplat = 255;
  static constexpr uint8_t kInner = 1;   // moves along the inner dimension (by 1)
  static constexpr uint8_t kOuter = 2;   // moves along the others
  static constexpr uint8_t kTurned = 4;  // moves by 1 along the second innermost one

  friend bool operator==(const LaunchClass& a, const LaunchClass& b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
};
static_assert(sizeof(LaunchClass) == 6 + 2 * kDeviceOperands);

struct DeviceLaunch {
  LaunchClass key;
  uint32_t grid = 0, block = 0;
  uint32_t nwords = 0;
  uint64_t words[kDeviceWords];
};

// How kernel text spells the storage type of a dtype, and the type of its values in registers.
const char* device_storage(DType);
// The same for every dtype, with those of kernels/stored.h.
const char* device_stored(DType);
const char* device_compute(DType);
// What pf_divide() of kernels/types.h takes to divide numbers below 2^31 by d >= 1.
uint64_t device_divisor(int64_t d);

class DeviceProgram {
 public:
  static constexpr const char* kEntry = "pf_program";

  // NotSupportedError for a row that has no meaning in its compute type, or too many operands.
  explicit DeviceProgram(const pf_program&);

  int inputs() const { return static_cast<int>(inputs_.size()); }
  int outputs() const { return static_cast<int>(outputs_.size()); }

  // Fills `out`. Geometry words:
  //   Flat   elements
  //   Rows   columns, rows, column blocks, log2 of threads along a row; size and divisor of each
  //          outer dimension but the first; strides over the outer dimensions of each group that
  //          moves along them
  //   Tiles  columns, rows, tiles across, tiles down; size and divisor of each dimension before
  //          those two but the first; strides of each group
  //   Lines  elements; size and divisor of each dimension but the first; strides of each group
  // NotSupportedError when that is more than kDeviceWords.
  void plan(const pf_launch&, DeviceLaunch& out) const;

  std::string text(const LaunchClass&, const std::string& entry = kEntry) const;

  // As part of a kernel that makes or reads the rows x cols values of operands `with` (bits:
  // inputs, then outputs), all of them in row-major order, `vec` neighbours of a row at a time.
  // False when the operands are no rows and columns of that, or `vec` of them cannot be read at
  // once. `stream`: as in LaunchClass. Geometry words: strides over rows and columns of each
  // operand.
  bool plan_part(const pf_launch&, uint32_t with, int64_t rows, int64_t cols, int vec, bool stream,
                 DeviceLaunch& out) const;
  // After the kernel, which makes operand `from`. Defines pf_args, and pf_after<N>, N being `vec`
  // or 1: load(args, row, col), and run(args, row, col, const values (&)[N]).
  std::string epilogue_text(const LaunchClass&, int from) const;
  // Before the kernel, which reads the operands `to`, outputs; they go to memory too if others read
  // them (bits `keep`). Defines pf_before_args, and pf_before<N> for what N neighbours are made
  // from: load(args, row, col), and run(args, row, col, values (&)[N], ...) in the order of `to`.
  // With -DPF_KEEP=1 also keep(args, row, col, to, c, vectors) and kept(the same): load() by way of
  // shared memory, where `to` has the row's vectors, of which this is number c; it takes
  // row_bytes().
  std::string prologue_text(const LaunchClass&, std::span<const int> to, uint32_t keep) const;
  int64_t row_bytes(const LaunchClass&, int64_t cols) const;

 private:
  friend class TextPrinter;
  // A number in one type that some node takes it in.
  struct Number {
    uint8_t scalar;
    DType type;  // Float32, Float64, Int32, Int64 or Bool
  };
  int number(uint8_t scalar, DType type) const;
  int operands() const { return static_cast<int>(inputs_.size() + outputs_.size()); }
  DType dtype_of(int operand) const;
  // Of a part: inputs with an element of their own for each place, large elements first.
  std::vector<int> kept_inputs(const LaunchClass&) const;
  // Elements of one thread: vectors of `vec`, that many times.
  int repeats(const LaunchClass&) const;
  // Elements along a side of a tile, and in memory of the block from row to row.
  int tile_side() const { return heavy_ || widest_ > 4 || nodes_.size() > 6 ? 32 : 64; }
  int tile_pitch(DType) const;
  void plan_flat(const pf_launch&, DeviceLaunch&) const;
  void plan_strided(const pf_launch&, DeviceLaunch&) const;
  bool plan_tiles(struct Geometry&, const int* leader, DeviceLaunch&) const;

  std::vector<pf_node> nodes_;
  std::vector<DType> inputs_, outputs_;
  std::vector<uint8_t> needed_;  // nodes that an output depends on
  std::vector<uint8_t> loaded_;  // inputs that those read
  std::vector<Number> numbers_;
  int widest_ = 1;      // bytes of an element
  int vec_ = 1;         // elements of the widest access that pays
  bool heavy_ = false;  // long arithmetic: few elements to a thread
};

}  // namespace pyflame::gpu
