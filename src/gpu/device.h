// One GPU: its traits, streams, staging memory, and the modules loaded on it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu/cache.h"
#include "gpu/kernel.h"
#include "gpu/queue.h"
#include "gpu/runtime.h"

namespace pyflame::gpu {

class Stream {
 public:
  Stream(Device& device, int priority);
  // On which nothing runs: what it is given is recorded, to be launched on the other.
  Stream(Device& device, const Stream& on, GraphRecorder&);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  hipStream handle = nullptr;
  Queue queue;
  pf_error error_arg(const char* op, pf_i64 kind) const {
    return {static_cast<pf_u32*>(lock_), static_cast<pf_error_record*>(record_device_),
            reinterpret_cast<pf_i64>(op), kind};
  }
  // Waits, and takes out what a kernel has reported since the last call, if there is a place for
  // it.
  void synchronize(pf_index_error* out);

 private:
  Device& device_;
  // Written by kernels that find a wrong index.
  pf_error_record* record_ = nullptr;  // the host's address
  void* record_device_ = nullptr;      // the same for kernels
  void* lock_ = nullptr;               // device memory
};

// Pinned memory through which pageable copies go: a copy from the host has read its source when
// it returns, and the device need not have run it.
class Staging {
 public:
  explicit Staging(Device& d) : device_(d) {}
  void from_host(Stream& s, void* to, const void* from, size_t bytes);
  void to_host(Stream& s, void* to, const void* from, size_t bytes);

 private:
  static constexpr size_t kChunk = size_t{4} << 20;
  static constexpr int kSlots = 4;
  struct Slot {
    void* memory = nullptr;
    size_t capacity = 0;
    hipEvent event = nullptr;
    bool busy = false;
  };
  Slot& next(size_t bytes);
  Device& device_;
  std::mutex mutex_;
  Slot slots_[kSlots];
  int at_ = 0;
};

// A program on a device. Threads may still be building it (builder.h).
struct Module {
  enum State : int { kBuilding, kLoaded, kFailed };
  std::atomic<int> state{kBuilding};
  hipModule handle = nullptr;  // once loaded
  pf_status status = PF_OK;    // once failed
  std::string why;

  bool building() const { return state.load(std::memory_order_acquire) == kBuilding; }
  bool failed() const { return state.load(std::memory_order_acquire) == kFailed; }
  void fail(const std::exception& e);
};

struct Loaded {
  const Device* device = nullptr;
  const Module* module = nullptr;
  std::string entry;
  std::string name;    // for messages
  bool early = false;  // waits by itself for what was launched before it (kernels/prelude.h)
  mutable std::atomic<hipFunction> function{nullptr};  // found at the first launch
  mutable std::atomic<size_t> shared{0};               // dynamic shared memory that it was allowed
};

// A text of kernels/ with its #include "..." lines replaced by the texts that they name.
const std::string& expanded_text(const std::string& file);

struct Source {
  std::string text;  // `#include "file"` for a text of kernels/, or more
  // Our own text: what it includes is put in and cut down to what is needed, all its kernels or
  // those that are named (with blanks between). Otherwise it is compiled as it is.
  bool ours = false;
  std::string entry = {};
};

// How a code object is made that no cache has.
struct Recipe {
  std::string label;
  Source source;
  std::string defines;
  std::vector<std::string> options;
  CacheKey key;
  bool group = false;  // of pointwise nodes: several may share a program
};

// Kernels by what a call site says of them, addresses of static texts included: found without a
// lock, and without any text being put together. What finds no place is found by its text.
class FoundKernels {
 public:
  // What tells kernels apart: addresses of static texts, and what may stand before them.
  struct Key {
    const char *file, *entry;
    Defines defines;
    KernelArgs::Before before{};
    bool operator==(const Key&) const;
    size_t hash() const;
  };
  Function find(const Key&) const;
  void add(const Key&, Function);  // the lock is held

 private:
  struct Entry {
    Key key;
    Function function;
  };
  static constexpr size_t kSlots = 4096, kProbes = 8;
  std::atomic<const Entry*> slots_[kSlots]{};
  std::vector<std::unique_ptr<const Entry>> entries_;
};

class Device {
 public:
  // The device, made ready at first use. Throws when the kernels cannot run on it.
  static Device& get(pf_device index);
  // The same, or null when it was never used.
  static Device* existing(pf_device index);
  // Of the runtime; throws when there is no runtime.
  static int count();
  // Without making it ready.
  static Traits describe(pf_device index);
  // Why the kernels cannot run on such a device; empty when they can.
  static std::string unusable(const Traits&);

  const int index;
  const Traits traits;
  Staging staging{*this};

  // Makes it the calling thread's device; needed before every call of the runtime.
  void activate() const;
  Stream& stream(pf_stream s) const { return s ? *static_cast<Stream*>(s) : *default_stream_; }

  Stream* add_stream(int priority);
  void remove_stream(Stream*);
  std::vector<Stream*> streams();
  void advance();  // all queues, without waiting
  void drain();    // waits for all streams; failures are for others to see

  // kernels/<file> with options; compiled at first use, as a rule in the background.
  Function find(const char* file, const Defines& defines, const char* entry);
  // A group of pointwise nodes: text whose names are its own (unique_names), and its entry.
  Function group(const Source& source);
  // Any other text of ours.
  Function program(const std::string& label, const Source& source, const std::string& defines);
  // As find(), behind a text that `number` stands for in this process.
  Function find_behind(const KernelArgs::Before&, const char* file, const Defines& defines,
                       const char* entry);
  // Text of the user's, compiled now.
  Function build(const std::string& label, const Source& source, const std::string& defines,
                 const char* entry);
  // Enqueues, or has the stream's queue keep it: then arguments of these sizes are copied. Small
  // ones may be put into a batch.
  void launch(Function f, Stream& s, Grid grid, Grid block, size_t shared, void** args,
              const uint32_t* sizes, int nargs, const char* op, bool small = false);
  void launch_now(Function f, const Stream& s, Grid grid, Grid block, size_t shared,
                  void** args) const;
  // The function, which may use so much shared memory.
  hipFunction ready(Function f, size_t shared) const;
  hipModule load(const std::string& code) const;

  void* context() const { return context_; }
  // Lets this device read the other's memory directly, where the hardware can.
  void enable_peer(const Device& other);

 private:
  explicit Device(pf_device index);
  std::unique_ptr<Module> obtain(Recipe recipe) const;
  Function find_text(const char* file, const std::string& defines, const char* entry);
  Function keep(Recipe recipe);
  std::unique_ptr<Loaded> function(const Module*, const char* entry, std::string label,
                                   bool ours) const;
  void* context_ = nullptr;  // of NVIDIA's driver
  std::unique_ptr<Stream> default_stream_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<Loaded>> functions_;
  std::unordered_map<std::string, std::unique_ptr<Module>> modules_;
  std::unordered_map<std::string, Function>
      kept_;                                     // groups and epilogues, by what they are made of
  std::vector<std::unique_ptr<Module>> others_;  // of groups; that failed
  FoundKernels found_;
  std::vector<std::unique_ptr<Loaded>> failed_;  // whose pointers are still about
  std::mutex streams_mutex_;
  std::vector<std::unique_ptr<Stream>> streams_;  // besides the default one
  std::vector<bool> peers_;
};

// ---- runtime_<vendor>.cpp ----------------------------------------------------------------------
void read_traits(const Runtime&, int device, Traits&);

// ---- compile.cpp -------------------------------------------------------------------------------

// Whether kernels of ours may be launched before those in front of them have ended: where the
// device has instructions to wait with (Hopper and later).
bool begins_early(const Traits& traits);

Recipe recipe_for(const Traits& traits, const std::string& label, const Source& source,
                  const std::string& defines);
bool find_packed(const Recipe& recipe, std::string& code);
bool find_code(const Traits& traits, const Recipe& recipe, std::string& code);  // on disk
// Compiles, and puts it into the disk cache. Several recipes: groups, of which each is put there.
std::string make_code(const Traits& traits, const std::vector<const Recipe*>& recipes);
// The text of a group with names that no other group has, and its entry by that name.
Source unique_names(const std::string& text);

struct CompileStats {
  std::atomic<int64_t> compiled{0}, from_disk{0}, from_pack{0};
};
CompileStats& compile_stats();

// Whether launches of such kernels (Loaded::early) are, which PYFLAME_EARLY_LAUNCHES=0 forbids.
bool early_launches();

// HIP_LAUNCH_BLOCKING or CUDA_LAUNCH_BLOCKING: wait after every launch.
bool launch_blocking();

}  // namespace pyflame::gpu
