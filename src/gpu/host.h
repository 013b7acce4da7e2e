// What the core gives the plug-in, and the plug-in's own error text and fault injection.
#pragma once

#include "core/backend_call.h"
#include "gpu/kernel.h"
#include "pyflame/backend.h"

namespace pyflame::gpu {

void set_host(const pf_host* host);
const pf_host* host();

// Device memory of the core's allocator, given back when the calling thread's inner ScratchScope
// ends.
void* scratch(pf_device device, pf_stream stream, size_t bytes);

// Held around every launcher, and inside those that repeat what takes memory.
class ScratchScope {
 public:
  ScratchScope();
  ~ScratchScope();
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

 private:
  size_t outer_;  // what others hold
};

// Runs fn; exceptions become a status and last_error().
template <class F>
pf_status guarded(F&& fn) {
  pf_status status = PF_OK;
  pf_status other = backend::guard([&] {
    try {
      fn();
    } catch (const Failure& f) {
      status = f.status;
      throw;
    }
  });
  return status ? status : other;
}

backend::Faults& faults();

// ---- program.cpp: groups of pointwise nodes ----------------------------------------------------
pf_status program_create(pf_device, const pf_program*, void** kernel);
void program_destroy(pf_device, void* kernel);
pf_status program_launch(pf_device, pf_stream, void* kernel, const pf_launch*);
int program_inputs(const void* kernel);
// Notes what a launch of a program writes.
class GraphRecorder;
void program_writes(const void* kernel, const pf_launch&, GraphRecorder& to);
// See KernelArgs::join().
int64_t row_bytes(const Around&, const JoinedRows&);  // see KernelArgs; 0: no program makes them
Joined join_programs(Device&, Around&, const char* file, const Defines&, const char* entry,
                     const JoinedRows&);

// ---- graph_recorder.cpp ------------------------------------------------------------------------
pf_status graph_begin(pf_device, pf_stream on, pf_graph*, pf_stream* recording);
pf_status graph_item(pf_device, pf_graph, const int32_t* behind, int32_t count);
pf_status graph_end(pf_device, pf_graph, int32_t* nodes);
pf_status graph_update(pf_device, pf_graph, int32_t item);
pf_status graph_launch(pf_device, pf_graph);
void graph_drop(pf_device, pf_graph);

// ---- user_kernel.cpp: kernels of the user's ----------------------------------------------------
pf_status function_create(pf_device, const char* source, const char* options, const char* entry,
                          void** function);
pf_status function_launch(pf_device, pf_stream, void* function, const uint32_t grid[3],
                          const uint32_t block[3], uint32_t shared, void** args, int32_t nargs);

}  // namespace pyflame::gpu
