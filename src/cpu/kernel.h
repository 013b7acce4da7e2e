// How a CPU kernel is written and registered:
//
//   constexpr auto at = tensors<Cumsum>;
//   static void cumsum(const KernelArgs& a) { const pf_tensor& out = a.tensor(at.out); ... }
//   PF_CPU_KERNEL(Cumsum::kInfo, cumsum)         or, with a function that gives its Pieces,
//   PF_CPU_KERNEL(Softmax::kInfo, softmax, softmax_pieces)
//
// or, where it may run the program behind it, PF_CPU_KERNEL(Conv::kInfo, conv, RunsBehind{}).
// PF_CPU_SIMD_KERNEL(Softmax, softmax_pieces) is that of a function Softmax of foreach_target
// files.
//
// Tensors arrive in the order of the kernel's descriptor (table/kernel.h). Addresses are host
// addresses.
#pragma once

#include "core/dispatch.h"
#include "core/kernel_tensor.h"
#include "pyflame/backend.h"
#include "pyflame/dtype.h"
#include "table/kernel.h"

namespace pyflame::cpu {

// Rows of tensors that a program makes when they are asked for, one after the other; see Pieces.
class RowFeed {
 public:
  static constexpr int64_t kRows = 4;       // are there: one takes the place of that so far before
  static constexpr int64_t kColumns = 256;  // are made at once
  virtual void next() = 0;                  // row; of which then columns are asked for in order
  virtual void columns(int64_t first, int64_t count) = 0;

 protected:
  ~RowFeed() = default;
};

// Where the tensors of a call are a few rows of larger ones; see Pieces.
struct Piece {
  int64_t first_row;
  int64_t rows;  // of the whole
  void* workspace;
  char* scratch;
  bool stream;  // results are too many for the caches: they may go around them
  // What will be read later: up to two inputs of the program before the kernel, from where they lie
  // beside the first element of the kernel's rows, and the bytes of an element; null where there is
  // none.
  const char* ahead[2];
  int64_t ahead_bytes[2];
  bool begun;  // every fourth line of that is on its way already
  // Makes the rows of those tensors whose bit is set in `rings`; row r of such a one is the one at
  // r mod RowFeed::kRows of its memory, strides[0] apart. The kernel then stays on this thread.
  RowFeed* feed;
  uint32_t rings;
};

// The program behind a kernel, as one that fills its result bit by bit may run it over what it has
// finished, while that is in a cache. Such a kernel calls take(), and then runs it over each
// element of its result once.
class Behind {
 public:
  void take() { taken_ = true; }
  bool taken() const { return taken_; }
  // Elements of the result by their places in memory: `rows` runs of `width`, `apart` from each
  // other. Callable from any thread.
  virtual void run(int64_t first, int64_t rows, int64_t width, int64_t apart) const = 0;

 protected:
  ~Behind() = default;

 private:
  bool taken_ = false;
};

struct KernelArgs {
  const pf_tensor* tensors;
  int ntensors;
  const pf_scalar* attrs;
  int nattrs;
  pf_index_error* error;
  const Piece* piece = nullptr;
  Behind* behind = nullptr;  // null: nothing is to be run

  const pf_tensor& tensor(int i) const { return tensors[i]; }
  bool has(int i) const { return i < ntensors && tensors[i].data != nullptr; }
  DType dtype(int i) const { return static_cast<DType>(tensors[i].dtype); }
  double f(int i) const { return attrs[i].f; }
  int64_t i(int i) const { return attrs[i].i; }
  template <class T>
  T* data(int i) const {
    return static_cast<T*>(tensors[i].data);
  }
  // Reports an index outside [lowest, limit) (the kernel then clamps and goes on); callable from
  // any thread.
  void bad_index(int64_t index, int64_t lowest, int64_t limit) const;
};

using KernelFn = void (*)(const KernelArgs&);

// How a call can be cut into pieces of whole rows, so that programs before and after it run over
// the same rows while these are in a cache (group.cpp). Tensor i has per_row[i] elements for each
// row, side by side, or is seen whole by every piece (0). The bits of a result must not depend on
// the cut.
struct Pieces {
  int64_t rows = 0;      // 0: it cannot be
  int64_t width = 0;     // elements of the space in a row: what the programs run over
  int64_t elements = 0;  // of the space, if the last row has fewer; 0: rows * width
  int64_t step = 1;      // a piece begins at a multiple of so many rows
  int64_t range = 1;     // and a thread's pieces, which it runs in order, at a multiple of so many
  size_t workspace = 0;  // bytes that the pieces share
  size_t scratch = 0;    // bytes that each thread has, for one piece after the other
  KernelFn run = nullptr;    // over tensors of the shape (rows, per_row); the kernel itself if null
  KernelFn begin = nullptr;  // of the whole call, before the first piece
  KernelFn finish = nullptr;  // and after the last one
  uint32_t feeds = 0;         // bit i: tensor i may come from a RowFeed
  int64_t per_row[12] = {};
};
using PiecesFn = Pieces (*)(const KernelArgs&);  // looks at no memory

// Of kernels in place of Pieces: it may run what is behind it (see Behind), over its first tensor.
struct RunsBehind {};

struct KernelEntry {
  KernelFn run;
  PiecesFn pieces = nullptr;  // may be null
  bool runs_behind = false;
};
struct RegisterKernel {
  RegisterKernel(const kernels::KernelInfo& info, KernelFn fn, PiecesFn pieces = nullptr);
  RegisterKernel(const kernels::KernelInfo& info, KernelFn fn, RunsBehind);
};
const KernelEntry* find_kernel(const char* name);

#define PF_CPU_CONCAT2(A, B) A##B
#define PF_CPU_CONCAT(A, B) PF_CPU_CONCAT2(A, B)
#define PF_CPU_KERNEL(INFO, ...)                                                        \
  static const ::pyflame::cpu::RegisterKernel PF_CPU_CONCAT(pf_register_, __COUNTER__)( \
      INFO, __VA_ARGS__);
#define PF_CPU_SIMD_KERNEL(K, ...)                                                      \
  HWY_EXPORT(K);                                                                        \
  PF_CPU_KERNEL(::pyflame::kernels::K::kInfo, [](const ::pyflame::cpu::KernelArgs& a) { \
    HWY_DYNAMIC_DISPATCH(K)(a);                                                         \
  } __VA_OPT__(, ) __VA_ARGS__)

}  // namespace pyflame::cpu
