// What was recorded and not run, as data: a window of the program's graph. Values are storages seen
// through places; what is run are pointwise nodes and one kernel; edges are references between
// nodes, and storages that one of them writes and another reads.
#pragma once

#include <cstdint>

#include "core/tensor_impl.h"
#include "engine/engine.h"

namespace pyflame::engine {

inline constexpr int kMaxNodes = 32;
inline constexpr int kMaxInputs = 16;
inline constexpr int kMaxScalars = 96;
inline constexpr int kMaxAnchorTensors = 12;
inline constexpr int kMaxAttrs = 16;

// Where an operand lives in memory, as strides over the phase's iteration space.
struct Place {
  Ref<Storage> storage;
  DType dtype;
  bool contiguous;  // row-major over the iteration space
  int64_t offset;
  Dims strides;

  void* address() const {
    return static_cast<char*>(storage->data) + offset * static_cast<int64_t>(itemsize(dtype));
  }
};

// Geometry of `t` over an iteration space of `shape`.
inline bool same_place(const Place& p, const TensorImpl& t, const Dims& shape) {
  if (p.offset != t.offset || p.dtype != t.dtype) return false;
  if (t.shape == shape)
    return (p.contiguous && t.contiguous) ||
           (!p.contiguous && !t.contiguous && p.strides == t.strides);
  return !p.contiguous && p.strides == broadcast_strides(t.shape, t.strides, shape);
}
inline void set_place(Place& p, const TensorImpl& t, const Dims& shape) {
  p.storage = Ref<Storage>::share(t.storage.get());
  p.dtype = t.dtype;
  p.offset = t.offset;
  if (t.shape == shape) {
    p.contiguous = t.contiguous;
    p.strides = t.strides;
  } else {
    p.strides = broadcast_strides(t.shape, t.strides, shape);
    p.contiguous = is_contiguous(shape, p.strides);
  }
}

// What is in a phase.
struct PhaseCounts {
  int nnodes = 0, ninputs = 0, nscalars = 0;
  uint32_t consumed = 0;     // bit per node: a later node reads it
  uint32_t materialise = 0;  // its memory is read later in the window, or it was asked for
  uint32_t superseded = 0;   // a later node overwrites the same memory
};

// Pointwise nodes over one iteration space.
struct Phase : PhaseCounts {
  Dims shape;
  int64_t numel = 0;
  pf_node nodes[kMaxNodes];
  Place outputs[kMaxNodes];  // node i's result
  Place inputs[kMaxInputs];
  pf_scalar scalars[kMaxScalars];
};

struct AnchorCall {
  const Kernel* kernel = nullptr;
  int nouts = 0, ntensors = 0, nattrs = 0;
  uint32_t reads_beside = 0;  // nodes of the phase beside it that it reads: they run before it
  CallOptions options;
  Place tensors[kMaxAnchorTensors];
  Dims shapes[kMaxAnchorTensors];
  pf_scalar attrs[kMaxAttrs];
};

// Storage::writer_node: which part of the window writes it, and which node or output.
enum Part : int { kBefore = 0, kAnchor = 1, kAfter = 2, kBeside = 3 };
constexpr int16_t code_of(int part, int index) {
  return static_cast<int16_t>(part << 8 | index);
}
constexpr int part_of(int code) {
  return code >> 8;
}
constexpr int index_of(int code) {
  return code & 255;
}

struct Window {
  Device device;
  // Before and after the anchor. Beside it: what was behind the first of two kernels that became
  // one, such as a loss's gradient of itself; what of that the kernel does not read runs behind it.
  Phase phases[3];
  AnchorCall anchor;
  bool has_anchor = false;

  bool empty() const { return phases[0].nnodes == 0 && !has_anchor; }
  Phase& active() { return phases[has_anchor ? 1 : 0]; }
  Phase& phase(int part) { return phases[part == kBefore ? 0 : part == kAfter ? 1 : 2]; }
};

}  // namespace pyflame::engine
