// Recording. An operation is checked by its caller, recorded here into the group of (stream,
// thread), and run when something needs its value. Section 2 of docs/architecture.md.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor_impl.h"
#include "pyflame/backend.h"
#include "table/kernel.h"

namespace pyflame::engine {

using OpId = uint16_t;  // row of the pointwise table (table/rows.h)

// An operand of a pointwise node: a tensor (already of the node's operand dtype, any shape that
// broadcasts to the node's) or a number, passed to the kernel as an argument.
struct Operand {
  const Tensor* tensor = nullptr;
  Scalar scalar;
  Operand(const Tensor& t) : tensor(&t) {}
  Operand(Scalar s) : scalar(s) {}
};

// Records `op` over `operands` and returns its fresh contiguous result. The caller has checked
// types and devices and computed `shape` (the broadcast shape), the result's dtype and the
// compute type. No autograd here.
Tensor pointwise(OpId op, const Dims& shape, DType out, DType compute, Device device,
                 std::span<const Operand> operands, std::span<const Scalar> attrs = {});
// The same with the result written into `dst` (any non-self-overlapping view); bumps its version.
void pointwise_into(OpId op, const Tensor& dst, DType compute, std::span<const Operand> operands,
                    std::span<const Scalar> attrs = {});

using kernels::Anchor;

// A kernel of a backend, by its descriptor (table/kernel.h); made once, by kernel<K>(). The backend
// is asked for it at first use on each device type. Order of tensors at the kernel: outputs, then
// inputs; an undefined tensor arrives with data == nullptr and ndim == 0.
struct Kernel {
  const char* name;
  Anchor anchor;
  kernels::Layout layout;
  kernels::Indices indices;
  bool random;
  int8_t weights;
  int id;
  explicit Kernel(const kernels::KernelInfo&);
};
// The kernel of a descriptor.
template <class K>
const Kernel& kernel() {
  static const Kernel k(K::kInfo);
  return k;
}

// Whether the backend of a device has it; operations that can do without ask.
bool has_kernel(const Kernel&, Device);

// Which dtypes a kernel takes beyond those with arithmetic: none of the storage-only ones, those
// whose elements are whole bytes (it moves them without looking), or all.
enum class Takes : uint8_t { Arithmetic, Bytes, All };

// Records or runs `k`. `outs` are fresh tensors (make_tensor) or existing ones that the kernel
// updates in place (name their positions in `inplace`, their versions are bumped). General
// kernels run at once; anchors stay pending so that pointwise work can join them.
// Kernels with a data-dependent error (indices) report it through pf_index_error.
struct CallOptions {
  uint32_t inplace = 0;  // bit i: outs[i] holds values that the kernel reads or keeps
  // Also a multi-tensor call may have hundreds of outputs: all ones means every one of them.
  static constexpr uint32_t kAllInplace = ~0u;
  const char* op = nullptr;  // name for error messages; the kernel's name by default
  // Of what is checked, where it is not what the kernel's descriptor says.
  kernels::Indices indices = kernels::Indices::None;
  // The argument (outputs first) of which the CPU may keep a form for later calls, -1 for none: it
  // is likely to be read again before it is written.
  int8_t keeps = -1;
  Takes takes =
      Takes::Arithmetic;  // DTypeError for tensors of other dtypes, before anything is done
  // In place of the backend's kernel of that name (user kernels): gets the tensors' addresses,
  // outputs first, when everything recorded before on them has been handed to the device.
  const std::function<void(Device, std::span<const pf_tensor>)>* run = nullptr;
};
void call(const Kernel& k, std::span<const Tensor> outs, std::span<const Tensor> ins,
          std::span<const Scalar> attrs = {}, CallOptions options = {});
// The kernel of a descriptor (table/kernels/) with its tensors and numbers by name.
template <class K>
void call(const typename K::template Tensors<Tensor>& tensors,
          const typename K::template Numbers<Scalar>& numbers, CallOptions options = {}) {
  const Tensor* t = kernels::members<K::template Tensors>(tensors);
  constexpr size_t n = kernels::kCount<K::template Tensors>, outputs = K::kInfo.outputs;
  call(kernel<K>(), {t, outputs}, {t + outputs, n - outputs},
       std::span<const Scalar>(kernels::members<K::template Numbers>(numbers),
                               kernels::kCount<K::template Numbers>),
       options);
}
template <class K>
requires(kernels::kCount<K::template Numbers> ==
         0) void call(const typename K::template Tensors<Tensor>& tensors,
                      CallOptions options = {}) {
  call<K>(tensors, {}, options);
}

// Device address of the first element; runs what is pending on the storage and allocates it.
// Not synchronised. For the host: host_data(), which also waits and refuses unreadable devices.
void* device_data(const Tensor& t);
// The same to be given away: what others enqueue or wait for comes after all that was recorded, and
// so it will be from now on.
void* shared_data(const Tensor& t);
void* host_data(const Tensor& t, const char* op, bool will_write = false);
// Copies between any two devices; shapes and dtypes equal, both contiguous.
// From pinned memory, or to it, and with `async`, the call does not wait.
void copy_bytes(const Tensor& dst, const Tensor& src, bool async = false);
void copy_from_host(const Tensor& dst, const void* src);  // dst contiguous
void copy_to_host(void* dst, const Tensor& src);          // src contiguous; waits
// Makes a storage foreign (its pointer leaves our hands): never pending from now on.
void mark_foreign(const Tensor& t);

enum class Flush : uint8_t {
  CannotJoin,
  Caps,
  AliasHazard,
  DroppedRoot,
  HeldMemory,
  Data,
  Item,
  Print,
  Synchronize,
  Explicit,
  DeviceSwitch,
  OtherThread,
  Foreign,
  General,
  Eager,
  MemoryStats,
  ThreadExit,
  Budget,
  Event,
  StreamSwitch,
  kCount
};
const char* flush_name(Flush);
void flush(Flush why);                    // the calling thread's group
void flush_storage(Storage&, Flush why);  // whichever group has recorded an access to it

// Counters for pf.debug.stats(), by name; reset_stats() sets them to zero.
std::vector<std::pair<std::string, int64_t>> stats();
void reset_stats();
bool eager();  // PYFLAME_EAGER=1: every operation is flushed before its call returns
void set_eager(bool);

// Installed by the Python module: called around work that takes long, without engine locks held
// by the caller's side of the hook.
struct Hooks {
  void* (*release_gil)() = nullptr;
  void (*acquire_gil)(void*) = nullptr;
  bool (*hears)() = nullptr;  // before that: this thread's user may interrupt what it computes
  std::string (*call_site)() = nullptr;  // file and line of the caller's program; "" if unknown
};
std::string call_site();
void set_hooks(Hooks);

}  // namespace pyflame::engine
