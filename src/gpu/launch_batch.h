// Small launches that are handed to the driver together.
//
// A driver takes 2 to 4 microseconds for a launch, which is more than small kernels run, and more
// than recording them takes. A graph takes 0.4 for each of its kernels, arguments included, and its
// kernels follow each other more closely. So each stream gathers its small launches, and runs them
// as a graph when there are enough, or as soon as anything else wants to be in order with them.
// Graphs are made once for each number of kernels; then only functions, grids and arguments change.
//
// On AMD only with PYFLAME_LAUNCH_BATCHES=1: nobody has measured it there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gpu/kernel.h"

namespace pyflame::gpu {

class Stream;

class LaunchBatch {
 public:
  LaunchBatch(const Device&, const Stream&);
  ~LaunchBatch();
  // Whether there is such a thing: graphs in the driver, and neither PYFLAME_LAUNCH_BATCHES nor
  // launches that block forbid them.
  static bool available();

  int count() const { return count_; }
  bool full() const { return count_ >= target_; }
  // False where it does not fit to what was gathered: run that first.
  bool add(Function, Grid grid, Grid block, size_t shared, void** args, const uint32_t* sizes,
           int nargs, const char* op);
  // Hands it over; `op` names what fails. Nothing is gathered afterwards, whatever happens.
  void run(const char*& op);
  // Somebody waits for the stream: it will have nothing to do, and is not kept waiting for long.
  void restart() { target_ = kFirst; }

 private:
  static constexpr int kMost = 16, kFirst = 4;
  static constexpr size_t kBytes = 8192;  // of arguments
  static constexpr int kMostArgs = 128;
  struct Entry {
    Function function;
    Grid grid = Grid(1), block = Grid(1);
    size_t shared;
    const char* op;
    int first;  // of its arguments
  };
  struct Graphs;

  const Device& device_;
  const Stream& stream_;
  int count_ = 0, target_ = kFirst, args_used_ = 0;
  size_t bytes_used_ = 0;
  Entry entries_[kMost];
  void* args_[kMostArgs];
  alignas(16) char bytes_[kBytes];
  std::unique_ptr<Graphs> graphs_;
};

}  // namespace pyflame::gpu
