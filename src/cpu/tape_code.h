// A compiled program: what tape_compile.cpp makes and tape.cpp runs.
#pragma once

#include <vector>

#include "cpu/tile.h"
#include "pyflame/backend.h"

namespace pyflame::cpu {

// A number as one vector of equal elements.
struct Slot {
  static constexpr uint8_t kConstant = 255;
  uint8_t scalar;  // which scalar of the launch, or kConstant
  Reg type;
  double value;  // of a constant
};
inline constexpr size_t kSlotBytes = 64;

struct Tape {
  std::vector<Instr> code;
  std::vector<Slot> slots;
  // Locations: 0 is none, then inputs, outputs, registers, slots, what each instruction fetches.
  int ninputs = 0, noutputs = 0, nregs = 0, nlocs = 0;
  int in(int i) const { return 1 + i; }
  int out(int i) const { return 1 + ninputs + i; }
  int reg(int i) const { return 1 + ninputs + noutputs + i; }
  int slot(int i) const { return 1 + ninputs + noutputs + nregs + i; }
  int fetched(size_t instr) const { return slot(static_cast<int>(slots.size() + instr)); }

  struct In {
    uint8_t bytes;
    int last_read;  // the last instruction that reads it, -1 if none
  };
  struct Out {
    uint8_t bytes;
    int written;  // the instruction that writes it
    bool reread;  // later instructions read it: it must not bypass the caches
  };
  std::vector<In> ins;
  std::vector<Out> outs;
  // Instructions in the order in which they are given something to fetch; the first `nlong` take so
  // long that it costs nothing.
  std::vector<uint16_t> fetchers;
  size_t nlong = 0;
  int reg_bytes = 4;  // widest element of a register
  int tile = 2048;    // elements
  double cost = 0;    // ns for one element, roughly
};

inline constexpr int kMaxOperands = 64;  // inputs and outputs of one program

// The geometry of a launch with neighbouring dimensions merged where all operands allow it, and
// those of size 1 left out; operands in order inputs, outputs, strides in elements. One element has
// one dimension.
struct Collapsed {
  int ndim = 0;
  int64_t shape[PF_MAX_DIMS];
  int64_t strides[kMaxOperands][PF_MAX_DIMS];
  void collapse(const Tape& tape, const pf_launch& launch);  // tape.cpp
};

// Throws NotSupportedError for a row that cannot run in its compute type.
Tape compile_tape(const pf_program& program);

}  // namespace pyflame::cpu
