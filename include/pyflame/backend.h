// The plug-in interface: what a device must be able to do. A versioned C struct; the core owns
// all policy (allocation, fusion, scheduling). There is no current device: every call names one.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PF_BACKEND_VERSION 6
#define PF_MAX_DIMS 12
#define PF_MAX_OPERANDS 4

typedef enum pf_status {
  PF_OK = 0,
  PF_OOM,          // out of device memory: the core releases its caches and tries once more
  PF_COMPILE,      // a kernel could not be built
  PF_LAUNCH,       // a launch or copy failed; the device is still usable
  PF_LOST,         // the device is gone; nothing on it can be trusted
  PF_UNSUPPORTED,  // this backend cannot do this
  PF_INVALID       // bad arguments: a bug of the caller
} pf_status;

typedef int32_t pf_device;
typedef void* pf_stream;  // NULL is the device's default stream
typedef void* pf_event;
typedef void* pf_graph;

// A number that a kernel takes as argument. Kernels read f for float compute types, i otherwise.
typedef struct pf_scalar {
  double f;
  int64_t i;
} pf_scalar;

// A tensor as a kernel sees it: device address of its first element and strides in elements.
typedef struct pf_tensor {
  void* data;
  int32_t ndim;
  uint8_t dtype;
  int64_t shape[PF_MAX_DIMS];
  int64_t strides[PF_MAX_DIMS];
} pf_tensor;

// What a kernel that checks indices found. The first wrong index wins. The core fills in `op` and
// `kind` at the launch; a backend that runs later keeps them and hands them back when it
// synchronises.
typedef struct pf_index_error {
  int32_t set;
  int32_t kind;  // what the indices are: kernels::Indices of the core
  int64_t index;
  int64_t lowest, limit;  // from the one to below the other it is right
  const char* op;         // static text
} pf_index_error;

// ---- programs: groups of pointwise nodes over one iteration space ------------------------------

typedef enum pf_ref_kind { PF_REF_NONE = 0, PF_REF_INPUT, PF_REF_NODE, PF_REF_SCALAR } pf_ref_kind;
typedef struct pf_ref {
  uint8_t kind;
  uint8_t index;
} pf_ref;

typedef struct pf_node {
  uint16_t op;      // row of the pointwise table
  uint8_t dtype;    // of the result; it is rounded to this
  uint8_t compute;  // compute type of the operands: what the body is evaluated in
  uint8_t nin;
  uint8_t attr0;  // attributes are scalars [attr0, attr0 + nattr)
  uint8_t nattr;
  int8_t store;  // output slot that takes the result, -1 when no one reads it
  pf_ref in[PF_MAX_OPERANDS];
} pf_node;

typedef struct pf_program {
  uint32_t nnodes, ninputs, noutputs, nscalars;
  const pf_node* nodes;
  const uint8_t* input_dtypes;
  const uint8_t* output_dtypes;
} pf_program;

// Where the values of one launch are. Strides are per dimension of `shape`; 0 where broadcast.
typedef struct pf_operand {
  void* data;
  const int64_t* strides;  // ndim entries, in elements
  int32_t contiguous;      // row-major over `shape` without gaps
} pf_operand;

typedef struct pf_launch {
  int32_t ndim;
  const int64_t* shape;
  int64_t numel;
  const pf_operand* inputs;
  const pf_operand* outputs;
  const pf_scalar* scalars;
} pf_launch;

// The address of what is there, but has no memory.
#define PF_NO_MEMORY ((void*)(intptr_t)-64)

// A named kernel, and the programs before and after it (NULL where there is none). What the kernel
// alone reads of `before`, and `after` alone of the kernel, may be without memory.
typedef struct pf_group {
  void* kernel;
  const pf_tensor* tensors;
  int32_t ntensors;
  const pf_scalar* attrs;
  int32_t nattrs;
  pf_index_error* error;
  void* before;
  const pf_launch* before_launch;
  void* after;
  const pf_launch* after_launch;
  // For each output of `before`: the kernel's tensor that is all of it, or -1 where the kernel does
  // not read it.
  const int8_t* feeds;
  int32_t nfeeds;
  // For each input of `after`: the kernel's output that is all of it, or -1.
  const int8_t* takes;
  int32_t ntakes;
  uint32_t unread;   // bit i: nobody but `after` reads the kernel's output i
  uint32_t without;  // bit i: the kernel's tensor i may be, or is, without memory
  uint32_t joins;    // the backend's own: what group_takes tells group_launch
  int32_t* joined;   // gets how many programs ran within the kernel's launch
} pf_group;

typedef struct pf_memory_info {
  size_t free_bytes, total_bytes;
} pf_memory_info;

// What the core gives a plug-in when it loads it.
typedef struct pf_host {
  uint32_t size;     // sizeof(pf_host) of the core
  uint32_t version;  // PF_BACKEND_VERSION of the core
  void* context;
  // Device memory from the core's caching allocator for work of a stream; released memory is used
  // again by later work of the same stream. `block` is what to release it by.
  pf_status (*allocate)(const struct pf_host*, pf_device, pf_stream, size_t bytes, void** out,
                        void** block);
  void (*release)(const struct pf_host*, void* block);
  // Tells the user something once: a line of text.
  void (*notice)(const struct pf_host*, const char* text);
} pf_host;

typedef enum pf_copy {
  PF_COPY_FROM_HOST = 0,  // the host side of these two is pinned memory
  PF_COPY_TO_HOST,
  PF_COPY_WITHIN  // the device
} pf_copy;

// A plug-in is libpyflame_<name>.so with one function, pyflame_plugin(), that gives this.
typedef struct pf_backend {
  uint32_t size;          // sizeof(pf_backend) of the plug-in
  uint32_t version;       // PF_BACKEND_VERSION of the plug-in
  const char* name;       // "cpu", "rocm", "cuda", "paranoid"
  int32_t synchronous;    // every call has finished when it returns; events are no-ops
  int32_t host_readable;  // device addresses may be read by the host

  int32_t (*device_count)(void);
  // Writes "key=value\n" lines: name, architecture, total_memory, compute_units, ...
  pf_status (*device_info)(pf_device, char* text, size_t capacity);
  pf_status (*memory_info)(pf_device, pf_memory_info*);

  pf_status (*allocate)(pf_device, size_t bytes, void** out);
  // Once everything that any stream of the device has been given so far is done with it.
  void (*release)(pf_device, void*, size_t bytes);

  pf_status (*copy_to_host)(pf_device, pf_stream, void* host, const void* dev, size_t bytes);
  pf_status (*copy_from_host)(pf_device, pf_stream, void* dev, const void* host, size_t bytes);
  // Waits for one stream. Wrong indices found since the last call go to where that is not NULL;
  // where it is, launches that have failed since are for a later call to tell.
  pf_status (*synchronize)(pf_device, pf_stream, pf_index_error*);

  pf_status (*event_create)(pf_device, pf_event*);
  pf_status (*event_record)(pf_device, pf_event, pf_stream);
  pf_status (*event_wait)(pf_device, pf_stream, pf_event);
  pf_status (*event_query)(pf_device, pf_event, int32_t* done);
  void (*event_destroy)(pf_device, pf_event);

  // Programs. The kernel owns what it needs of the program; the core caches it and frees it.
  pf_status (*program_create)(pf_device, const pf_program*, void** kernel);
  void (*program_destroy)(pf_device, void* kernel);
  pf_status (*program_launch)(pf_device, pf_stream, void* kernel, const pf_launch*);

  // Named kernels: everything that is no pointwise program. `find` gives NULL when unknown.
  void* (*kernel_find)(const char* name);
  pf_status (*kernel_launch)(pf_device, pf_stream, void* kernel, const pf_tensor* tensors,
                             int32_t ntensors, const pf_scalar* attrs, int32_t nattrs,
                             pf_index_error*);

  // Optional: the reason for the calling thread's last failed call.
  const char* (*last_error)(void);
  // Optional: makes the n-th next call of a kind ("allocate", "program_launch", ...) fail.
  pf_status (*inject_fault)(const char* call, int64_t nth, pf_status);

  // ---- since version 2; all optional -----------------------------------------------------------
  // Called once, before anything else: opens the vendor's runtime. A failure is kept and shown as
  // the reason why the backend is not usable.
  pf_status (*attach)(const pf_host*);
  pf_status (*fill)(pf_device, pf_stream, void* dev, int32_t byte, size_t bytes);

  // Memory of the host that the device reads and writes directly.
  pf_status (*pinned_allocate)(pf_device, size_t bytes, void** out);
  void (*pinned_release)(pf_device, void*);
  pf_status (*pinned_register)(pf_device, void*, size_t bytes);
  pf_status (*pinned_unregister)(pf_device, void*);
  // Returns at once: the host side must be pinned, and stay as it is until the stream is there.
  pf_status (*copy_async)(pf_device, pf_stream, void* to, const void* from, size_t bytes, pf_copy);
  // Between two devices of this backend, after what these two streams of theirs have been given so
  // far, and before what they will be given.
  pf_status (*copy_peer)(pf_device to_device, pf_stream to_stream, void* to, pf_device from_device,
                         pf_stream from_stream, const void* from, size_t bytes);

  pf_status (*stream_create)(pf_device, int32_t priority, pf_stream*);
  void (*stream_destroy)(pf_device, pf_stream);
  pf_status (*stream_query)(pf_device, pf_stream, int32_t* done);
  pf_status (*event_create_timed)(pf_device, pf_event*);
  pf_status (*event_synchronize)(pf_device, pf_event);
  pf_status (*event_elapsed)(pf_device, pf_event from, pf_event to, float* milliseconds);

  // A kernel of the user's, from source text; options are separated by blanks.
  pf_status (*function_create)(pf_device, const char* source, const char* options,
                               const char* entry, void** function);
  // Of each argument 8 bytes are there, of which it may need fewer.
  pf_status (*function_launch)(pf_device, pf_stream, void* function, const uint32_t grid[3],
                               const uint32_t block[3], uint32_t shared_bytes, void** args,
                               int32_t nargs);
  // Writes "key=value\n" lines: kernels compiled, found on disk, ...
  pf_status (*statistics)(pf_device, char* text, size_t capacity);

  // A named kernel with the programs around it, in that order, in as few launches as can be.
  pf_status (*group_launch)(pf_device, pf_stream, const pf_group*);
  // Asked before anything has memory: 0 where the three are better launched by themselves; else it
  // clears in `without` what needs memory all the same.
  int32_t (*group_takes)(pf_device, pf_group*);

  // Hands to the driver what was launched and is kept back, for programs that are still compiled or
  // for launches to go with it: others, who have an address, may wait for the device.
  pf_status (*submit)(pf_device);

  // ---- graphs of the device: all of these or none ----------------------------------------------
  // Launches that are made again and again go to the driver as one. From begin to end, what is
  // launched on `recording` (programs, kernels, fills, copies from the host and within the device)
  // is kept in place of being run, to be launched on `on`. One thread at a time uses a graph.
  pf_status (*graph_begin)(pf_device, pf_stream on, pf_graph* out, pf_stream* recording);
  // What comes next is an item of the graph, up to the next one or the end. It runs behind those of
  // the items before it that are listed, and what they run behind; it may run beside the others.
  pf_status (*graph_item)(pf_device, pf_graph, const int32_t* behind, int32_t count);
  pf_status (*graph_end)(pf_device, pf_graph, int32_t* nodes);
  // Once it has ended: what comes next takes the place of an item, the same with other addresses
  // and numbers, up to the next one or another graph_end(). PF_UNSUPPORTED: it was something else;
  // that and any other failure leaves the graph of no use, to be made anew.
  pf_status (*graph_update)(pf_device, pf_graph, int32_t item);
  pf_status (*graph_launch)(pf_device, pf_graph);
  // Launches that are under way end as they would have.
  void (*graph_drop)(pf_device, pf_graph);

  // Optional: of memory that stays allocated the values are needed no more, so that what lies
  // behind whole pages of it may serve others until it is written again.
  void (*discard)(pf_device, void*, size_t bytes);
} pf_backend;

// Entries that a backend of this size has; what lies beyond is not there.
#define PF_HAS(BACKEND, ENTRY) \
  ((BACKEND)->size >= offsetof(pf_backend, ENTRY) + sizeof((BACKEND)->ENTRY) && (BACKEND)->ENTRY)

#ifdef __cplusplus
}
#endif
