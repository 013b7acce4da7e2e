// A compiled program as what a kernel over rows reads: it runs over one row after the other, some
// columns at a time, when the kernel's loop comes to them. So what a program makes of memory is
// read from the first cache, and the loop that has arithmetic to do fetches memory meanwhile.
#pragma once

#include <array>

#include "cpu/kernel.h"
#include "cpu/tape_frame.h"

namespace pyflame::cpu {

class RowProgram final : public RowFeed {
 public:
  // Whether it can run so over rows of `width` elements of its space.
  static bool can(const Tape& t, const pf_launch& l, const Collapsed& space, int64_t width);
  static size_t bytes(const Tape& t);  // of memory for one thread
  // Elements between two rows of a ring (kernel.h).
  static int64_t pitch(int64_t width) { return (width + 63) / 64 * 64 + 16; }

  RowProgram(const Tape& t, const pf_launch& l, const Collapsed& space, int64_t width,
             char* memory);
  // Result o has no memory: it goes to a ring.
  void keep(int o, char* ring) { operands_[static_cast<size_t>(tape_.ninputs + o)].ring = ring; }
  // The next row is number `row` of all, which is 0 to the kernel.
  void start(int64_t row);

  void next() override;
  void columns(int64_t first, int64_t count) override;

 private:
  const Tape& tape_;
  const pf_launch& launch_;
  const Collapsed& space_;
  const int64_t width_;
  Layout layout_;
  Frame frame_;
  // What is said of each once a row is little, for it is asked for every few columns.
  struct Operand {
    Loc* loc;
    char *ring, *from, *at;  // its row: where it lies, and where columns are read or written
    int64_t item, pace;      // bytes of an element; to the next column
  };
  std::array<Operand, kMaxOperands> operands_;
  size_t n_;
  int64_t row_ = 0, column_ = 0;  // of the kernel's; where in the last dimension it begins
  std::array<int64_t, PF_MAX_DIMS> place_{};
};

}  // namespace pyflame::cpu
