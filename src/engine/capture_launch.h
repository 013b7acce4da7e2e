// What a capture keeps of one launch: all that the backend gets.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/graph.h"
#include "engine/planner.h"

namespace pyflame::engine {

// A program's launch with all that it points to.
struct CapturedProgram {
  std::shared_ptr<const CompiledProgram> program;
  std::vector<pf_operand> in, out;
  std::vector<pf_scalar> scalars;
  std::vector<int64_t> dims;  // the shape, then the strides of each operand
  pf_launch launch{};
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

  // Its numbers are told before each run: of an optimizer's step.
  bool live = false;

  const char* name() const;
};

}  // namespace pyflame::engine
