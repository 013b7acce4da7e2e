// A group: what one thread has recorded and not yet run. Pointwise nodes before at most one
// anchor, and pointwise nodes after it.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/allocator.h"
#include "core/lock.h"
#include "core/stream.h"
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

// What is in a phase.
struct PhaseCounts {
  int nnodes = 0, ninputs = 0, nscalars = 0;
  uint32_t consumed = 0;     // bit per node: a later node reads it
  uint32_t materialise = 0;  // its memory is read later in the group, or it was asked for
  uint32_t superseded = 0;   // a later node overwrites the same memory
  uint32_t early = 0;        // after the anchor, but the anchor itself reads it
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
  CallOptions options;
  Place tensors[kMaxAnchorTensors];
  Dims shapes[kMaxAnchorTensors];
  pf_scalar attrs[kMaxAttrs];
};

struct Plan;

class Group {
 public:
  Mutex mutex;
  Device device;
  Phase phases[2];  // before and after the anchor
  AnchorCall anchor;
  bool has_anchor = false;
  size_t output_bytes = 0;   // of everything the group writes
  size_t input_bytes = 0;    // of everything it reads
  std::exception_ptr error;  // of a flush; raised at the next flush() or synchronize()
  std::shared_ptr<const Plan> recent[64];  // plans that this group used last, by hash
  // The recording thread's current streams, by device type and index; of devices that lie beyond
  // the end it is the default stream. They change only while the group is empty.
  std::vector<StreamState*> streams[kDeviceTypes];

  StreamState* stream(Device d) const {
    const auto& of_type = streams[static_cast<size_t>(d.type)];
    const auto i = static_cast<size_t>(d.index);
    return i < of_type.size() ? of_type[i] : nullptr;
  }
  bool empty() const { return phases[0].nnodes == 0 && !has_anchor; }
  Phase& active() { return phases[has_anchor ? 1 : 0]; }
};

namespace detail {
extern constinit thread_local Group* t_group;
Group& make_group();
}  // namespace detail
inline Group& current_group() {  // the calling thread's
  return detail::t_group ? *detail::t_group : detail::make_group();
}
std::vector<Group*> every_group();  // of all threads, with those that wait for a thread
// Marks a storage that several groups have recorded reads of.
Group* many_readers();
void flush_other(Group* g, Flush why);  // which may be another thread's
void flush_all(Flush why);
void submit(Device d);
// Where a tensor lies, once what reads or writes it is done or on its way.
void* writable_data(const Tensor&);

// ---- running: flush.cpp ------------------------------------------------------------------------

// Runs the group; its mutex is held. Never throws: failures poison what should have been written
// and stay in group.error.
void run_group(Group&, Flush why) noexcept;
// The same for all but its last phase, which becomes the first one of the group; what it reads and
// writes is for the caller to note. False where the run failed: the group is empty.
bool run_all_but_last(Group&, Flush why) noexcept;
// Forgets what was recorded: everything that it was to write is poisoned with group.error.
void discard(Group&) noexcept;
// The backend's kernel; null where it has none.
void* find_kernel(const Kernel&, Device);
// Runs one named kernel at once. Throws.
void run_kernel(const Kernel&, Device, StreamState*, std::span<const pf_tensor> tensors,
                std::span<const pf_scalar> attrs, const CallOptions&);
// IndexError when one is set.
void raise_index_error(const pf_index_error&);
// Memory for a storage that has none yet; notes that the stream uses it.
void ensure_memory(Storage&, StreamState*, const MemoryUse&);
// Waits for one stream, or for every stream of a device; raises what failed.
void wait_for_stream(Device, StreamState*, const char* op);
void wait_for_device(Device);
pf_scalar to_kernel_scalar(Scalar);

// Counters behind stats().
struct Counters {
  std::atomic<int64_t> flushes[static_cast<int>(Flush::kCount)]{};
  std::atomic<int64_t> nodes{0}, groups{0}, programs{0}, kernels{0}, joined{0}, merged{0}, plans{0},
      plan_hits{0}, donated{0}, copies_to_host{0}, copies_from_host{0}, moved{0}, moved_bytes{0},
      slow{0};
};
Counters& counters();
inline void bump(std::atomic<int64_t>& c) {
  c.fetch_add(1, std::memory_order_relaxed);
}

// The GIL is released while work runs that takes long, and taken again when the outermost scope
// ends: declare one before taking any engine lock.
class GilScope {
 public:
  GilScope();
  ~GilScope();
  GilScope(const GilScope&) = delete;
  GilScope& operator=(const GilScope&) = delete;
};
// Called (under a lock, too) before work over about this many elements.
void long_work(int64_t elements);

}  // namespace pyflame::engine
