// How a GPU kernel is written and registered. kernels_<subject>.cpp has its text, in the HIP
// dialect for both vendors, and a launcher, which picks the text, its -D options and an entry, and
// launches it:
//
//   #include "kernels/integers.h"
//   struct pf_triangle { ... };                      // what passes between them, for both
//
//   #ifdef PF_DEVICE_TEXT
//   #include "kernels/space.h"
//   PF_KERNEL(triangle, 256)(const pf_triangle q) { ... }
//
//   #else  // launchers
//   #include "gpu/kernel.h"
//   ...
//   static void triangle(const KernelArgs& a) {
//     constexpr auto at = tensors<Triangle>;
//     Function f = a.compile("kernels_triangle.cpp", Defines().type("T", a.dtype(at.out)),
//                            "triangle");
//     a.launch(f, blocks_for(n, 256), 256, 0, pf_triangle{a.data(at.out), a.data(at.x), n});
//   }
//   PF_GPU_KERNEL(Triangle::kInfo, triangle)
//   #endif
//
// Texts that launchers of several files use, or of which one file has several, stand in kernels/
// instead, and the structs that they take in kernels/<subject>_args.h. Tensors arrive in the order
// of the kernel's descriptor (table/kernel.h); addresses are the device's.
// Launchers only enqueue: they never wait, never read device memory, never allocate it but by
// workspace(). They throw (PF_FAIL, or Failure with a status); the caller makes it a status.
// Indices found wrong are reported by the kernel (kernels/index_error.h) through a.error().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/kernel_tensor.h"
#include "kernels/error_args.h"
#include "kernels/space_args.h"
#include "pyflame/backend.h"
#include "pyflame/dtype.h"
#include "table/kernel.h"

namespace pyflame::gpu {

class Device;
struct Loaded;  // a function of a loaded module; lives as long as the process

// A kernel that can be launched on the device it was compiled for.
using Function = const Loaded*;

// What a launcher may want to know of its device. Never write 32 or 64 for `warp`.
struct Traits {
  std::string name;          // "AMD Instinct MI300X"
  std::string architecture;  // "gfx942", "sm_90"
  std::string target;        // full target id: "gfx942:sramecc+:xnack-", "sm_90"
  bool amd = false;
  int warp = 0;
  int compute_units = 0;
  int max_block = 0;              // threads
  int memory_bits = 0;            // that memory moves at a time; 0: not known
  size_t max_shared = 0;          // bytes a block may ask for
  size_t total_memory = 0;        // bytes
  int64_t max_grid = 2147483647;  // blocks in x; y and z take 65535
};

// A failure with its own status; other exceptions become PF_LAUNCH.
struct Failure : std::runtime_error {
  pf_status status;
  Failure(pf_status s, const std::string& text) : std::runtime_error(text), status(s) {}
};

// -D options of a text: names and texts are static, so that a launch formats nothing. Equal options
// in the same order share the compiled kernel.
class Defines {
 public:
  Defines() = default;
  Defines(const Defines& d) { *this = d; }
  Defines& operator=(const Defines& d) {
    count_ = d.count_;
    std::copy_n(d.options_, count_, options_);
    return *this;
  }
  ~Defines() = default;

  // The storage type of a dtype as kernel text spells it (kernels/prelude.h).
  Defines type(const char* name, DType t) &&;
  Defines value(const char* name, int64_t v) && { return std::move(*this).add({name, nullptr, v}); }
  Defines text(const char* name, const char* v) && { return std::move(*this).add({name, v, 0}); }

  std::string str() const;  // "-DT=float -DVEC=4 "
  // What tells options of one call site apart.
  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(options_), static_cast<size_t>(count_) * sizeof(Option)};
  }

 private:
  struct Option {
    const char* name;
    const char* text;  // null: the value
    int64_t value;
  };
  static constexpr int kMost = 16;
  Defines add(Option o) &&;
  Option options_[kMost];
  int count_ = 0;
};

struct Grid {
  uint32_t x = 1, y = 1, z = 1;
  Grid(int64_t x_, int64_t y_ = 1, int64_t z_ = 1)
      : x(static_cast<uint32_t>(x_)), y(static_cast<uint32_t>(y_)), z(static_cast<uint32_t>(z_)) {}
};

// The programs before and after a kernel, which may run them in its own launch. Where launchers are
// asked, nothing is launched: join() alone is of interest.
struct Around {
  struct Part {
    void* program = nullptr;  // none
    const pf_launch* launch = nullptr;
    int operand = -1;     // of the program: the one that passes between it and the kernel
    int tensor = -1;      // the same of the kernel
    bool keep = true;     // somebody else reads that
    bool must = false;    // it was promised
    bool joined = false;  // join() says so
  };
  Part before, after;
  bool asked = false;
};

// A kernel's function with what joined it. The words are an argument for each program, until the
// next join() of this thread.
struct Joined {
  Function function = nullptr;
  const void* words[2] = {};
  uint32_t bytes[2] = {};
};

// Where programs join a kernel: rows x cols elements in row-major order, `vec` at a time, of its
// first output and of tensor `input` (-1: nothing joins before it).
struct JoinedRows {
  int input;
  int64_t rows, cols, vec;
  bool past = false;   // larger than caches
  bool again = false;  // some elements are made more than once: nothing may be stored before it
  bool behind = true;  // false: nothing joins behind it
};

// Elements that a GPU is through with in a few microseconds.
inline constexpr int64_t kSmallWork = 1 << 20;

struct KernelArgs {
  Device& device;
  pf_stream stream;
  const pf_tensor* tensors;
  int ntensors;
  const pf_scalar* attrs;
  int nattrs;
  const char* op;  // static text: the operation's name for errors
  Around* around = nullptr;
  int32_t indices = 0;  // pf_index_error::kind
  bool small = false;   // few elements in all its tensors

  const pf_tensor& tensor(int i) const { return tensors[i]; }
  bool has(int i) const { return i < ntensors && tensors[i].data != nullptr; }
  DType dtype(int i) const { return static_cast<DType>(tensors[i].dtype); }
  double f(int i) const { return attrs[i].f; }
  int64_t i(int i) const { return attrs[i].i; }
  void* data(int i) const { return tensors[i].data; }

  const Traits& traits() const;

  // The kernel `entry` of a text, built with these options: from this process, from the
  // disk cache, or by the run-time compiler, which may still be at it (builder.h).
  Function compile(const char* file, const Defines& defines, const char* entry) const;
  // The same behind a text that only this process knows, by a number.
  struct Before {
    int64_t number;
    std::string (*text)(int64_t number);
  };
  Function compile(const char* file, const Defines& defines, const char* entry,
                   const Before& before) const;
  // Enqueues. Arguments are copied as they are: their types must be those of the entry
  // (pointers, int, long long as int64_t, float, double, structs of the same layout).
  template <class... A>
  void launch(Function f, Grid grid, int block, size_t shared, const A&... args) const {
    static_assert((std::is_trivially_copyable_v<A> && ...));
    void* list[] = {const_cast<void*>(static_cast<const void*>(&args))..., nullptr};
    const uint32_t sizes[] = {static_cast<uint32_t>(sizeof args)..., 0};
    launch_raw(f, grid, block, shared, list, sizes, static_cast<int>(sizeof...(args)));
  }
  // As compile(), with the programs around it that can be part of it (kernels/around.h).
  Joined join(const char* file, const Defines& defines, const char* entry, const JoinedRows&) const;
  // What memory has of a row of the input: its own bytes, or those of what it is made from where a
  // program joins before the kernel.
  int64_t row_bytes(const JoinedRows&) const;
  // Whether a tensor's memory may be read before the kernels in front of this one have ended: those
  // that may still be running then are a graph's, and do not write it. (Nobody writes what is not
  // there.) `own`: this call may, each thread what it has read.
  bool steady(int i, bool own = false) const;
  bool asked() const { return around && around->asked; }
  template <class... A>
  void launch(const Joined& j, Grid grid, int block, size_t shared, const A&... args) const {
    static_assert((std::is_trivially_copyable_v<A> && ...));
    void* list[sizeof...(args) + 3] = {const_cast<void*>(static_cast<const void*>(&args))...};
    uint32_t sizes[sizeof...(args) + 3] = {static_cast<uint32_t>(sizeof args)...};
    int n = static_cast<int>(sizeof...(args));
    for (int k = 0; k < 2; ++k) {
      if (!j.words[k]) continue;
      list[n] = const_cast<void*>(j.words[k]);
      sizes[n++] = j.bytes[k];
    }
    launch_raw(j.function, grid, block, shared, list, sizes, n);
  }
  // Device memory for the kernels of this call, from the core's allocator: free again for later
  // work of the same stream when the launcher returns. Uninitialised, aligned to 256 bytes.
  void* workspace(size_t bytes) const;
  // Sets device memory to a byte.
  void fill(void* data, int byte, size_t bytes) const;
  // Copies within the device.
  void copy(void* to, const void* from, size_t bytes) const;
  // To hand small arrays of the host (a table of pointers) to a kernel: they are copied before
  // this returns. Device address, valid like workspace().
  void* upload(const void* host, size_t bytes) const;
  pf_error error() const;

  void launch_raw(Function, Grid, int block, size_t shared, void** args, const uint32_t* sizes,
                  int nargs) const;
};

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
// What kernels take that want nothing else: threads of a block, and blocks of a grid, from where
// they loop on.
inline constexpr int kBlock = 256;
inline constexpr int64_t kMostBlocks = 1 << 16;
// Blocks of `block` threads for n items, one each (kernels loop on when it is cut at the limit).
inline Grid blocks_for(int64_t n, int block, int64_t limit = 2147483647) {
  int64_t b = ceil_div(n, block);
  return Grid(b < limit ? (b ? b : 1) : limit);
}

// ---- several tensors over one iteration space --------------------------------------------------

// Operands of lower rank are not broadcast here (give equal ranks).
struct Space : pf_space {
  Space() : pf_space{} { numel = 1; }
  bool contiguous(int operand) const;  // one dimension of stride 1 (or no elements at all)
  // All offsets and counts fit into 32 bits: the kernel may index with int.
  bool small() const;
};
Space make_space(std::initializer_list<const pf_tensor*> operands);

using KernelFn = void (*)(const KernelArgs&);
struct KernelEntry {
  KernelFn launch;
  bool over_rows;              // the launcher can be asked what joins it
  bool (*usable)() = nullptr;  // of a library that may be missing
  int outputs = 0;             // tensors that it writes, the first ones
};
struct RegisterKernel {
  RegisterKernel(const kernels::KernelInfo& info, KernelFn fn, bool over_rows = false,
                 bool (*usable)() = nullptr);
};
// Null where there is none, or its library is not there.
const KernelEntry* find_kernel(const char* name);

// Kernels of a file, with blanks between, that are one program on NVIDIA: who asks for one needs
// the others too. NVRTC takes its time for what is in a program, and some for each. (hipRTC takes
// it for each program, whatever is in it: there all kernels of a file are one.) It is said beside
// the launcher, and not found out from what is asked for, since packs and caches know a program by
// what is in it.
struct RegisterTogether {
  RegisterTogether(const char* file, const char* entries);
};
std::string entries_with(const std::string& file, const std::string& entry);

#define PF_GPU_CONCAT2(A, B) A##B
#define PF_GPU_CONCAT(A, B) PF_GPU_CONCAT2(A, B)
#define PF_GPU_KERNEL(INFO, FN) \
  static const ::pyflame::gpu::RegisterKernel PF_GPU_CONCAT(pf_register_, __COUNTER__)(INFO, FN);
#define PF_GPU_ROW_KERNEL(INFO, FN)                                                              \
  static const ::pyflame::gpu::RegisterKernel PF_GPU_CONCAT(pf_register_, __COUNTER__)(INFO, FN, \
                                                                                       true);
// A kernel that a library of the vendor's runs: usable() opens it.
#define PF_GPU_LIBRARY_KERNEL(INFO, FN, USABLE)                                         \
  static const ::pyflame::gpu::RegisterKernel PF_GPU_CONCAT(pf_register_, __COUNTER__)( \
      INFO, FN, false, USABLE);
#define PF_GPU_TOGETHER(FILE, ENTRIES)                                                         \
  static const ::pyflame::gpu::RegisterTogether PF_GPU_CONCAT(pf_together_, __COUNTER__)(FILE, \
                                                                                         ENTRIES);

}  // namespace pyflame::gpu
