// What the users of cuDNN's graphs share: the library, opened when the first one asks; descriptors
// that end by themselves; and how a plan is found.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/cudnn.h"
#include "gpu/library.h"

namespace pyflame::gpu {

struct CudnnCalls {
  PF_CUDNN_CALLS(PF_CALL_POINTER)
  const char* (*GetErrorString)(int) = nullptr;
  size_t (*GetVersion)() = nullptr;
  template <class F>
  void each(F&& take) {
    const std::string prefix = "cudnn";
    PF_CUDNN_CALLS(PF_CALL_TAKE)
    take(GetErrorString, "cudnnGetErrorString");
    take(GetVersion, "cudnnGetVersion", false);
  }
};

const VendorLibrary<CudnnCalls>& cudnn();
// "cuDNN 91200", or "none".
std::string cudnn_version();

// Throws Refused unless a call went well.
void cudnn_must(int status, const char* call);

class Descriptor {
 public:
  explicit Descriptor(int type) {
    cudnn_must(cudnn().BackendCreateDescriptor(type, &handle_), "BackendCreateDescriptor");
  }
  ~Descriptor() {
    if (handle_) cudnn().BackendDestroyDescriptor(handle_);
  }
  Descriptor(Descriptor&& d) noexcept : handle_(std::exchange(d.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void* get() const { return handle_; }
  void set(int name, int type, const void* values, int64_t count = 1) {
    cudnn_must(cudnn().BackendSetAttribute(handle_, name, type, count, values),
               "BackendSetAttribute");
  }
  void set(int name, const Descriptor& d) { set(name, kDnnTypeDescriptor, &d.handle_); }
  void number(int name, int type, int value) { set(name, type, &value); }
  void number(int name, int64_t value) { set(name, kDnnTypeInt64, &value); }
  void flag(int name) {
    const bool on = true;
    set(name, kDnnTypeBoolean, &on);
  }
  int64_t read(int name, int type, void* values, int64_t wanted = 1) const {
    int64_t count = 0;
    cudnn_must(cudnn().BackendGetAttribute(handle_, name, type, wanted, &count, values),
               "BackendGetAttribute");
    return count;
  }
  void finish() { cudnn_must(cudnn().BackendFinalize(handle_), "BackendFinalize"); }

 private:
  void* handle_ = nullptr;
};

struct CudnnPlan {
  std::deque<Descriptor> parts;  // what the plan stands on
  std::unique_ptr<Descriptor> plan;
  size_t workspace = 0;
};

struct PlanWish {
  size_t workspace;                                      // no more than this
  int proposal;                                          // of the good ones, counted from 0
  std::function<bool(const std::vector<int>&)> numbers;  // whether notes say what is allowed
};
// The plan of a graph: cuDNN's heuristic lists engines, then its list of
// those that always work. Throws Refused where there is none, with the last reason.
void find_plan(CudnnPlan& r, void* handle, const Descriptor& graph, const PlanWish&);
const Descriptor& make_graph(CudnnPlan&, void* handle, const std::vector<void*>& operations);
void run_plan(const CudnnPlan&, void* handle, const std::vector<int64_t>& ids,
              const std::vector<void*>& pointers, void* workspace, hipStream stream);

}  // namespace pyflame::gpu
