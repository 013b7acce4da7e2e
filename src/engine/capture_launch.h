// What a capture keeps of one launch: all that the backend gets, what it reads and writes, and
// which line of the program said so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/graph.h"
#include "engine/planner.h"

namespace pyflame::engine {

// A program's launch with all that it points to.
struct CapturedProgram {
  std::shared_ptr<const CompiledProgram> program;
  std::vector<pf_operand> in, out;
  std::vector<pf_scalar> scalars;
  std::vector<int64_t> dims;           // the shape, then the strides of each operand
  std::vector<int32_t> scalar_places;  // where the program's text uses each number; see places()
  pf_launch launch{};
};

// The bytes from `low` to `high` behind an address, of which `count` are a tensor's.
struct Reach {
  int64_t low, high, count;
};

// One address of a launch, as a part of the slot that it lies in.
struct Access {
  int32_t slot;
  bool reads, writes;
  bool whole;  // writes every byte of it
  void** where;
  std::ptrdiff_t offset;
  int32_t noted;  // the slot that it had when it was captured
};

struct CapturedLaunch {
  CapturedProgram before, after;
  const Kernel* kernel = nullptr;
  std::vector<pf_tensor> tensors;
  std::vector<pf_scalar> attrs;
  CallOptions options;
  int keeps = -1;         // slot of the storage of which a form may be kept
  bool together = false;  // the kernel and the programs beside it are one launch
  pf_group group{};
  std::vector<int8_t> feeds, takes;
  std::vector<uint32_t> serials;  // of the storages, in the order in which they were noted
  std::vector<char> bytes;        // of the host, copied to `to`
  void* to = nullptr;
  bool draws = false;  // random numbers, whose counters this part of the capture took:
  size_t drawn_stage = 0, drawn_part = 0;

  // Its numbers are told before each run: of an optimizer's step.
  bool live = false;
  int outputs = 0;                         // so many of the tensors are written
  int copies = 0;                          // the last so many of these: see capture_copies.cpp
  const pf_tensor& noted(size_t i) const;  // tensors without them
  size_t noted_tensors() const { return tensors.size() - static_cast<size_t>(copies); }

  std::vector<Access> accesses;
  int32_t place = 0;  // the line of the program that it comes from

  // What passes have found. Each launch has one fate.
  enum class Fate : uint8_t {
    Runs,
    Dead,     // nobody reads what it makes
    Equal,    // another makes the same
    Constant  // runs when what it reads has changed, but for what writes the result as well
  } fate = Fate::Runs;
  float seconds = 0;  // of the last run that was timed

  const char* name() const;
  bool runs() const { return fate == Fate::Runs || fate == Fate::Constant; }
  // Everything that its results follow from but addresses and what lies there.
  std::string signature() const;
};

}  // namespace pyflame::engine
