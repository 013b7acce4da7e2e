// Programs that a backend has compiled, kept by what they depend on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>

#include "core/hash.h"
#include "engine/graph.h"

namespace pyflame::engine {

// Everything that a program depends on, as bytes; compared whole on a hit. Shapes, strides and
// numbers are arguments of a launch.
struct ProgramKey {
  uint8_t nnodes = 0, ninputs = 0, noutputs = 0, nscalars = 0, device = 0;
  uint8_t reserved = 0;  // in place of padding, whose bytes would be anything
  uint8_t input_dtypes[kMaxInputs]{};
  pf_node nodes[kMaxNodes];

  size_t size() const { return offsetof(ProgramKey, nodes) + nnodes * sizeof(pf_node); }
  uint64_t hash() const {
    static_assert(sizeof(pf_node) == 16 && offsetof(ProgramKey, nodes) == 6 + kMaxInputs);
    return hash_bytes(this, size());
  }
};

struct CompiledProgram {
  ProgramKey key;
  uint64_t hash = 0;
  Device device;
  void* kernel = nullptr;
  mutable std::atomic<bool> used{true};  // since the hand of the cache came by

  CompiledProgram() = default;
  CompiledProgram(const CompiledProgram&) = delete;
  CompiledProgram& operator=(const CompiledProgram&) = delete;
  ~CompiledProgram();
  void touch() const {
    if (!used.load(std::memory_order_relaxed)) used.store(true, std::memory_order_relaxed);
  }
};

// Programs that a group used last, by hash: found without a lock.
struct RecentPrograms {
  std::shared_ptr<const CompiledProgram> of[64];
};

// From the group's recent ones, from all, or from the backend. Throws.
const std::shared_ptr<const CompiledProgram>& find_program(RecentPrograms&, Device,
                                                           const ProgramKey&,
                                                           const uint8_t* output_dtypes);

}  // namespace pyflame::engine
