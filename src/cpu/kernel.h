// How a CPU kernel is written and registered:
//
//   static void cumsum(const KernelArgs& a) { const pf_tensor& out = a.tensor(0); ... }
//   PF_CPU_KERNEL("cumsum", cumsum)
//
// Tensors arrive as the caller listed them: outputs, then inputs. Addresses are host addresses.
#pragma once

#include "core/dispatch.h"
#include "core/kernel_tensor.h"
#include "pyflame/backend.h"
#include "pyflame/dtype.h"

namespace pyflame::cpu {

struct KernelArgs {
  const pf_tensor* tensors;
  int ntensors;
  const pf_scalar* attrs;
  int nattrs;
  pf_index_error* error;

  const pf_tensor& tensor(int i) const { return tensors[i]; }
  bool has(int i) const { return i < ntensors && tensors[i].data != nullptr; }
  DType dtype(int i) const { return static_cast<DType>(tensors[i].dtype); }
  double f(int i) const { return attrs[i].f; }
  int64_t i(int i) const { return attrs[i].i; }
  template <class T>
  T* data(int i) const {
    return static_cast<T*>(tensors[i].data);
  }
  // Reports a wrong index (the kernel then clamps and goes on); callable from any thread.
  void bad_index(int64_t index, int64_t limit) const;
};

using KernelFn = void (*)(const KernelArgs&);
struct RegisterKernel {
  RegisterKernel(const char* name, KernelFn fn);
};
KernelFn find_kernel(const char* name);

#define PF_CPU_CONCAT2(A, B) A##B
#define PF_CPU_CONCAT(A, B) PF_CPU_CONCAT2(A, B)
#define PF_CPU_KERNEL(NAME, FN) \
  static const ::pyflame::cpu::RegisterKernel PF_CPU_CONCAT(pf_register_, __COUNTER__)(NAME, FN);

}  // namespace pyflame::cpu
