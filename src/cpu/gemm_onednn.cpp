// oneDNN through its C interface, with dlopen. Its two major versions differ in how descriptors
// are made; both are called here through opaque pointers, so no header of it is needed: version 2
// initialises structs in place (given generous buffers), version 3 returns handles.
//
// It has code generated into memory that it does not check, when a primitive is made and when it
// first runs: where an address-space limit leaves too little for that, it is not asked.
#include "cpu/gemm_onednn.h"

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "core/backends.h"
#include "core/lock.h"
#include "core/room.h"
#include "cpu/library_file.h"
#include "cpu/scratch.h"
#include "cpu/signal_stack.h"
#include "cpu/stack.h"
#include "cpu/threads.h"

namespace pyflame::cpu {

#ifndef PYFLAME_OPENMP

// oneDNN runs its own OpenMP threads, which a pool of std::thread cannot keep apart.
bool onednn_available(std::string* text) {
  *text = "this build uses std::thread";
  return false;
}
bool onednn_takes(const Gemm&) {
  return false;
}
bool gemm_onednn(const Gemm&) {
  return false;
}

#else

namespace {

// ---- what we use of dnnl.h -------------------------------------------------------------------

constexpr int kCpu = 1, kInOrder = 1, kScratchpadUser = 1, kQueryImpl = 8, kQueryScratchpad = 136;
constexpr int kF16 = 1, kBf16 = 2, kF32 = 3;
constexpr int kSrc = 1, kDst = 17, kWeights = 33, kBias = 41, kScratchpad = 80;
constexpr int kOutOfMemory = 1, kRuntimeError = 5;  // statuses
constexpr int kMaxDims = 12;
// Opening maps 40 MB; version 2.6 then generates 9 MB of code at its first product, and up to half
// a megabyte for another. With what malloc takes for a thread, and a margin for other versions.
constexpr size_t kRoomToOpen = size_t{160} << 20, kRoomToMake = size_t{64} << 20;
constexpr unsigned kRuntimeOpenMp = 2, kRuntimeSequential = 1;

struct Version {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
};
struct ExecArg {
  int arg;
  void* memory;
};
using DnnlDims = int64_t[kMaxDims];

struct Library {
  std::string text;  // its version, or why there is none
  bool ok = false;
  bool present = false;  // but perhaps not usable
  int major = 0;
  void* engine = nullptr;

  int (*engine_create)(void**, int, size_t);
  int (*stream_create)(void**, void*, unsigned);
  int (*stream_wait)(void*);
  int (*attr_create)(void**);
  int (*attr_destroy)(void*);
  int (*attr_set_scratchpad_mode)(void*, int);
  int (*pd_destroy)(void*);
  int (*pd_query)(const void*, int, int, void*);
  const void* (*pd_query_md)(const void*, int, int);
  size_t (*md_size)(const void*);
  int (*memory_create)(void**, const void*, void*, void*);
  int (*memory_destroy)(void*);
  int (*memory_set_handle)(void*, void*);
  int (*primitive_create)(void**, const void*);
  int (*primitive_destroy)(void*);
  int (*primitive_execute)(const void*, void*, int, const ExecArg*);
  // version 2
  int (*md_init)(void*, int, const int64_t*, int, const int64_t*) = nullptr;
  int (*matmul_init)(void*, const void*, const void*, const void*, const void*) = nullptr;
  int (*pd_create)(void**, const void*, const void*, void*, const void*) = nullptr;
  // version 3
  int (*md_create)(void**, int, const int64_t*, int, const int64_t*) = nullptr;
  int (*md_destroy)(void*) = nullptr;
  int (*matmul_pd_create)(void**, void*, const void*, const void*, const void*, const void*,
                          const void*) = nullptr;

  explicit Library(const char* why) : text(why) {}
  Library() {
    void* so = nullptr;
    const char* path = std::getenv("PYFLAME_ONEDNN_PATH");
    std::string damaged;
    if (path) {
      damaged = damage_of(path);
      if (damaged.empty()) so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    } else {
      auto open = [&](const std::string& name) {
        if (so) return;
        if (std::string why = damage_of_named(name); !why.empty())
          damaged = why;
        else
          so = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      };
      for (const char* name : {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"}) open(name);
      // Debian 13 counts in its name: libdnnl.so.3.6.
      for (int minor = 20; minor >= 0; --minor) open("libdnnl.so.3." + std::to_string(minor));
    }
    present = so || path || !damaged.empty();
    if (!so && !damaged.empty()) {
      text = damaged;
      return;
    }
    if (!so) {
      const char* why = path ? dlerror() : nullptr;
      text = path ? std::string("cannot open ") + path + (why ? std::string(": ") + why : "")
                  : "no libdnnl.so.3, libdnnl.so.2 or libdnnl.so.3.N is installed";
      return;
    }
    bool all = true;
    auto get = [&](auto& fn, const char* name) {
      fn = reinterpret_cast<std::remove_reference_t<decltype(fn)> >(dlsym(so, name));
      all = all && fn;
    };
    const Version* (*version)() = nullptr;
    get(version, "dnnl_version");
    if (!version) {
      text = "libdnnl has no dnnl_version";
      return;
    }
    const Version& v = *version();
    major = v.major;
    text = "onednn " + std::to_string(v.major) + "." + std::to_string(v.minor) + "." +
           std::to_string(v.patch);
    if ((major != 2 && major != 3) ||
        (v.cpu_runtime != kRuntimeOpenMp && v.cpu_runtime != kRuntimeSequential)) {
      text += " has another version or threading than we can use";
      return;
    }
    get(engine_create, "dnnl_engine_create");
    get(stream_create, "dnnl_stream_create");
    get(stream_wait, "dnnl_stream_wait");
    get(attr_create, "dnnl_primitive_attr_create");
    get(attr_destroy, "dnnl_primitive_attr_destroy");
    get(attr_set_scratchpad_mode, "dnnl_primitive_attr_set_scratchpad_mode");
    get(pd_destroy, "dnnl_primitive_desc_destroy");
    get(pd_query, "dnnl_primitive_desc_query");
    get(pd_query_md, "dnnl_primitive_desc_query_md");
    get(md_size, "dnnl_memory_desc_get_size");
    get(memory_create, "dnnl_memory_create");
    get(memory_destroy, "dnnl_memory_destroy");
    get(memory_set_handle, "dnnl_memory_set_data_handle");
    get(primitive_create, "dnnl_primitive_create");
    get(primitive_destroy, "dnnl_primitive_destroy");
    get(primitive_execute, "dnnl_primitive_execute");
    if (major == 2) {
      get(md_init, "dnnl_memory_desc_init_by_strides");
      get(matmul_init, "dnnl_matmul_desc_init");
      get(pd_create, "dnnl_primitive_desc_create");
    } else {
      get(md_create, "dnnl_memory_desc_create_with_strides");
      get(md_destroy, "dnnl_memory_desc_destroy");
      get(matmul_pd_create, "dnnl_matmul_primitive_desc_create");
    }
    if (!all) {
      text += " lacks a function that we need";
      return;
    }
    if (engine_create(&engine, kCpu, 0) != 0) {
      text += " could not make its engine";
      return;
    }
    ok = true;
  }
};

void warn_once(const std::string& why) {
  static std::atomic<bool> told{false};
  if (!told.exchange(true))
    notice(("oneDNN cannot be used (" + why +
            "); products run by PyFlame's own kernel. Mend the installation, or set "
            "PYFLAME_GEMM=own to choose that kernel")
               .c_str());
}

// Opened at the first product; while there is no room for it, one that is not usable.
Library& library() {
  static std::atomic<Library*> opened{nullptr};
  if (Library* l = opened.load(std::memory_order_acquire)) return *l;
  static Mutex mutex;
  std::lock_guard lock(mutex);
  if (Library* l = opened.load(std::memory_order_acquire)) return *l;
  const Room room(kRoomToOpen);
  if (!room) {
    static Library none{"too little memory to open it"};
    return none;
  }
  Library* l = new Library;  // never closed: threads may still hold its objects
  opened.store(l, std::memory_order_release);
  if (l->present && !l->ok) warn_once(l->text);
  return *l;
}

// ---- descriptors -----------------------------------------------------------------------------

// A memory descriptor: a struct of version 2 in `buffer`, or a handle of version 3.
class Md {
 public:
  Md() = default;
  Md(const Md&) = delete;
  Md& operator=(const Md&) = delete;
  ~Md() {
    if (handle_) library().md_destroy(handle_);
  }
  bool make(int ndim, const int64_t* dims, int dtype, const int64_t* strides) {
    Library& l = library();
    set_ = true;
    return l.major == 2 ? l.md_init(buffer_, ndim, dims, dtype, strides) == 0
                        : l.md_create(&handle_, ndim, dims, dtype, strides) == 0;
  }
  const void* get() const { return !set_ ? nullptr : handle_ ? handle_ : buffer_; }

 private:
  alignas(64) char buffer_[4096];  // dnnl_memory_desc_t of version 2 takes about 700
  void* handle_ = nullptr;
  bool set_ = false;
};

struct Key {
  int64_t batch, m, n, k, a_batch, a_row, a_col, b_batch, b_row, b_col, c_batch, c_row;
  int32_t dtype, bias;
  bool operator==(const Key& o) const { return std::memcmp(this, &o, sizeof o) == 0; }
};
struct KeyHash {
  size_t operator()(const Key& k) const {
    uint64_t words[sizeof(Key) / 8], h = 0x9e3779b97f4a7c15u;
    std::memcpy(words, &k, sizeof k);
    for (uint64_t w : words) h = (h ^ w) * 0xff51afd7ed558ccdu, h ^= h >> 29;
    return h;
  }
};

struct Entry {
  bool usable = false;  // it has a good kernel for this product
  bool ran = false;     // it has generated all its code
  void* primitive = nullptr;
  void *a = nullptr, *b = nullptr, *c = nullptr, *bias = nullptr, *scratch = nullptr;
  size_t scratch_bytes = 0;

  Entry() = default;
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry() {
    Library& l = library();
    for (void* m : {a, b, c, bias, scratch})
      if (m) l.memory_destroy(m);
    if (primitive) l.primitive_destroy(primitive);
  }
};

int dnnl_type(DType t) {
  return t == DType::Float32 ? kF32 : t == DType::BFloat16 ? kBf16 : kF16;
}

// False when something failed that may go well another time.
bool build(const Gemm& g, Entry* e) {
  Library& l = library();
  const int nd = g.batch > 1 ? 3 : 2, skip = g.batch > 1 ? 0 : 1;
  const int type = dnnl_type(g.dtype);
  auto make = [&](Md& md, int64_t batch, int64_t rows, int64_t cols, int64_t s0, int64_t s1,
                  int64_t s2) {
    DnnlDims dims = {}, strides = {};
    const int64_t d[3] = {batch, rows, cols}, s[3] = {s0, s1, s2};
    for (int i = 0; i < nd; ++i) dims[i] = d[i + skip], strides[i] = s[i + skip];
    return md.make(nd, dims, type, strides);
  };
  Md a, b, c, bias;
  if (!make(a, g.batch, g.m, g.k, g.a_batch, g.a_row, g.a_col) ||
      !make(b, g.batch, g.k, g.n, g.b_batch, g.b_row, g.b_col) ||
      !make(c, g.batch, g.m, g.n, g.c_batch, g.c_row, 1))
    return true;
  if (g.bias && !make(bias, 1, 1, g.n, g.n, g.n, 1)) return true;

  struct Owned {
    void* p = nullptr;
    int (*free)(void*);
    ~Owned() {
      if (p) free(p);
    }
  } attr{nullptr, l.attr_destroy}, pd{nullptr, l.pd_destroy};
  // Without this, one primitive used by two threads gives wrong products silently.
  if (l.attr_create(&attr.p) != 0 || l.attr_set_scratchpad_mode(attr.p, kScratchpadUser) != 0)
    return false;
  auto gone_for_good = [](int status) { return status != kOutOfMemory && status != kRuntimeError; };
  if (l.major == 2) {
    alignas(64) char desc[16384];  // dnnl_matmul_desc_t of version 2 takes about 3500
    std::memset(desc, 0, sizeof desc);
    if (int s = l.matmul_init(desc, a.get(), b.get(), bias.get(), c.get())) return gone_for_good(s);
    if (int s = l.pd_create(&pd.p, desc, attr.p, l.engine, nullptr)) return gone_for_good(s);
  } else if (int s = l.matmul_pd_create(&pd.p, l.engine, a.get(), b.get(), bias.get(), c.get(),
                                        attr.p)) {
    return gone_for_good(s);
  }
  const char* impl = nullptr;
  if (l.pd_query(pd.p, kQueryImpl, 0, &impl) != 0 || !impl || std::strncmp(impl, "ref", 3) == 0)
    return true;
  const void* scratch = l.pd_query_md(pd.p, kQueryScratchpad, 0);
  e->scratch_bytes = scratch ? l.md_size(scratch) : 0;
  if (l.primitive_create(&e->primitive, pd.p) != 0) return false;
  static char nowhere[64];
  if (l.memory_create(&e->a, a.get(), l.engine, nowhere) != 0 ||
      l.memory_create(&e->b, b.get(), l.engine, nowhere) != 0 ||
      l.memory_create(&e->c, c.get(), l.engine, nowhere) != 0)
    return false;
  if (g.bias && l.memory_create(&e->bias, bias.get(), l.engine, nowhere) != 0) return false;
  if (e->scratch_bytes && l.memory_create(&e->scratch, scratch, l.engine, nowhere) != 0)
    return false;
  e->usable = true;
  return true;
}

// What the library does once for a product, and at its first run for many: it wants more stack than
// some threads have that others made.
template <class F>
bool with_room(F&& once) {
  if (!stack_is_small()) return once();
  bool done = false;
  try {
    std::thread([&] {
      try {
        const SignalStack signals;
        const LibraryAlone alone;
        done = once();
      } catch (const std::exception&) {  // as a failure: of memory
      }
    }).join();
  } catch (const std::system_error&) {  // no thread to be had
  }
  return done;
}

// Everything that execution writes to belongs to one thread.
struct PerThread {
  SignalStack signals;
  std::unordered_map<Key, std::unique_ptr<Entry>, KeyHash> cache;
  void* stream = nullptr;                            // the library's to lose
  std::chrono::steady_clock::time_point next_try{};  // after a failure
};
thread_local PerThread t_state;
[[maybe_unused]] const AtThreadStart kMade([] { AtThreadStart::touch(&t_state); });
constexpr size_t kMaxEntries = 1024;
constexpr size_t kOwnScratch = size_t{16} << 10;
constexpr std::chrono::seconds kPause{1};

// What runs this product on the calling thread, made if need be, and in `room` what its first run
// takes. Null when nothing does, now or ever; nothing of the library's has thrown.
Entry* find(const Gemm& g, std::optional<Room>& room) {
  Library& l = library();
  if (!l.ok) return nullptr;
  PerThread& me = t_state;
  const Key key{g.batch,
                g.m,
                g.n,
                g.k,
                g.a_batch,
                g.a_row,
                g.a_col,
                g.b_batch,
                g.b_row,
                g.b_col,
                g.c_batch,
                g.c_row,
                static_cast<int32_t>(g.dtype),
                g.bias != nullptr};
  auto it = me.cache.find(key);
  if (it == me.cache.end()) {
    if (me.next_try.time_since_epoch().count() != 0 &&
        std::chrono::steady_clock::now() < me.next_try)
      return nullptr;
    room.emplace(kRoomToMake);
    if (!*room) {
      me.cache.clear();  // whoever needs memory now may have it
      return nullptr;
    }
    if (me.cache.size() >= kMaxEntries) me.cache.clear();
    bool done = me.stream || l.stream_create(&me.stream, l.engine, kInOrder) == 0;
    auto entry = std::make_unique<Entry>();
    done = done && with_room([&] { return build(g, entry.get()); });
    if (!done) {
      me.next_try = std::chrono::steady_clock::now() + kPause;
      room.reset();
      if (has_room(2 * kRoomToMake)) warn_once(l.text + " failed");
      return nullptr;
    }
    it = me.cache.emplace(key, std::move(entry)).first;
  }
  Entry* e = it->second.get();
  if (e->usable && !e->ran && !room) room.emplace(kRoomToMake);
  return e->usable && (e->ran || *room) ? e : nullptr;
}

// Failures come as a status, and std::bad_alloc through the C interface where memory is out.
template <class F>
bool try_library(F&& f) {
  try {
    LibraryAlone alone;
    return f();
  } catch (const Error&) {
    throw;  // ours, of memory: the cells of one product are all made by the same library
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

bool onednn_available(std::string* text) {
  Library& l = library();
  *text = l.text;
  return l.ok;
}

bool onednn_takes(const Gemm& g) {
  return try_library([&] {
    std::optional<Room> room;
    return find(g, room) != nullptr;
  });
}

bool gemm_onednn(const Gemm& g) {
  return try_library([&] {
    std::optional<Room> room;
    Entry* found = find(g, room);
    if (!found) return false;
    Entry& e = *found;
    Library& l = library();
    LocalScratch<kOwnScratch> scratch(e.scratch_bytes);
    l.memory_set_handle(e.a, const_cast<void*>(g.a));
    l.memory_set_handle(e.b, const_cast<void*>(g.b));
    l.memory_set_handle(e.c, g.c);
    ExecArg args[5] = {{kSrc, e.a}, {kWeights, e.b}, {kDst, e.c}};
    int n = 3;
    if (g.bias) {
      l.memory_set_handle(e.bias, const_cast<void*>(g.bias));
      args[n++] = {kBias, e.bias};
    }
    if (e.scratch) {
      l.memory_set_handle(e.scratch, scratch.data());
      args[n++] = {kScratchpad, e.scratch};
    }
    const auto execute = [&, stream = t_state.stream] {
      return l.primitive_execute(e.primitive, stream, n, args) == 0 && l.stream_wait(stream) == 0;
    };
    e.ran = e.ran ? execute() : with_room(execute);
    return e.ran;
  });
}

#endif

}  // namespace pyflame::cpu
