#include "gpu/device.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "core/hash.h"
#include "gpu/builder.h"
#include "gpu/compile_only.h"
#include "gpu/graph_recorder.h"
#include "gpu/product.h"
#include "pyflame/device.h"

namespace pyflame::gpu {
namespace {

std::array<std::atomic<Device*>, kMaxDevices>& devices() {
  static auto* a = new std::array<std::atomic<Device*>, kMaxDevices>{};
  return *a;
}

bool set(const char* name) {
  const char* v = std::getenv(name);
  return v && *v && std::strcmp(v, "0") != 0;
}

// A child of fork() has none of the driver's threads: whatever it asked the driver would hang.
std::atomic<bool> forked{false};
void refuse_after_fork() {
  static const int once = pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
  (void)once;
  if (forked.load(std::memory_order_relaxed))
    throw Failure(PF_LOST,
                  "this process was forked from one that used the GPU, which does not survive a "
                  "fork; start workers with the 'spawn' method, or fork before the first use");
}

}  // namespace

bool early_launches() {
  static const bool yes = [] {
    const char* v = std::getenv("PYFLAME_EARLY_LAUNCHES");
    return !(v && *v == '0') && runtime().early_launches();
  }();
  return yes;
}

bool launch_blocking() {
  // AMD_SERIALIZE_KERNEL: 1 waits before a launch, 2 after it, 3 does both.
  static const bool on = set("HIP_LAUNCH_BLOCKING") || set("CUDA_LAUNCH_BLOCKING") ||
                         (kAmd && set("AMD_SERIALIZE_KERNEL"));
  return on;
}

// ---- which devices there are -------------------------------------------------------------------

int Device::count() {
  static std::mutex mutex;
  static int n = -1;
  std::lock_guard lock(mutex);
  if (n >= 0) return n;
  const Runtime& r = runtime();
  int error = r.Init(0), found = 0;
  if (error == kSuccess) error = r.GetDeviceCount(&found);
  if (error == kErrorNoDevice) error = kSuccess, found = 0;
  if (error != kSuccess)
    throw Failure(PF_UNSUPPORTED,
                  r.library + " was opened, but it found no usable GPU: " + error_text(error) +
                      PF_RT("; is the amdgpu driver loaded, and may this user open /dev/kfd (group "
                            "render)?",
                            "; is the NVIDIA driver loaded, and not older than the library?"));
  return n = std::min(found, kMaxDevices);
}

Traits Device::describe(pf_device index) {
  const Runtime& r = runtime();
  Traits t;
  t.amd = kAmd;
  char name[256] = "";
  check(r.DeviceGetName(name, sizeof name, index), PF_RT("hipDeviceGetName", "cuDeviceGetName"));
  t.name = name;
  read_traits(r, index, t);
  return t;
}

std::string Device::unusable(const Traits& t) {
  const bool said = t.name.find(t.architecture) != std::string::npos;
  const std::string found = said ? t.name : t.name + " (" + t.architecture + ")";
  if (kAmd) {
    // CDNA, and RDNA 2 to 4: what the kernels are compiled for in our checks, and their families.
    for (const char* family :
         {"gfx908", "gfx90a", "gfx94", "gfx95", "gfx103", "gfx110", "gfx115", "gfx120"})
      if (t.architecture.rfind(family, 0) == 0 && (t.warp == 32 || t.warp == 64)) return "";
    return found +
           " is of an architecture that the kernels cannot run on; usable are gfx908, gfx90a, "
           "gfx94x, gfx95x (Instinct) and gfx103x, gfx110x, gfx115x, gfx120x (Radeon); choose "
           "another GPU with HIP_VISIBLE_DEVICES";
  }
  if (std::atoi(t.architecture.c_str() + 3) >= 70 && t.warp == 32) return "";
  return found +
         " is of an architecture that the kernels cannot run on: compute capability 7.0 or newer "
         "is needed; choose another GPU with CUDA_VISIBLE_DEVICES";
}

Device* Device::existing(pf_device index) {
  if (index < 0 || index >= kMaxDevices) return nullptr;
  return devices()[static_cast<size_t>(index)].load(std::memory_order_acquire);
}

Device& Device::get(pf_device index) {
  if (Device* d = existing(index)) {
    if (forked.load(std::memory_order_relaxed)) [[unlikely]]
      refuse_after_fork();
    return *d;
  }
  refuse_after_fork();
  if (index < 0 || index >= count())
    throw Failure(PF_UNSUPPORTED, std::string("there is no ") + kVendorName + ":" +
                                      std::to_string(index) + "; found " + std::to_string(count()) +
                                      " device(s)");
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  auto& slot = devices()[static_cast<size_t>(index)];
  Device* d = slot.load(std::memory_order_acquire);
  if (!d) slot.store(d = new Device(index), std::memory_order_release);
  return *d;
}

Device::Device(pf_device i) : index(i), traits(describe(i)) {
  if (std::string why = unusable(traits); !why.empty()) throw Failure(PF_UNSUPPORTED, why);
  check(runtime().hold(i, &context_), PF_RT("", "cuDevicePrimaryCtxRetain"));
  activate();
  default_stream_ = std::make_unique<Stream>(*this, 0);
  peers_.resize(static_cast<size_t>(count()));
  // While a model is made, so that its first product does not wait for it.
  Builder::get().add([] {
    try {
      open_product_library();
    } catch (const std::exception&) {
      // Who multiplies is told.
    }
  });
}

void Device::activate() const {
  check(runtime().make_current(index, context_), PF_RT("hipSetDevice", "cuCtxSetCurrent"));
}

void Device::enable_peer(const Device& other) {
  std::lock_guard lock(mutex_);
  if (peers_[static_cast<size_t>(other.index)]) return;
  peers_[static_cast<size_t>(other.index)] = true;
  const Runtime& r = runtime();
  int can = 0;
  if (r.DeviceCanAccessPeer(&can, index, other.index) != kSuccess || !can) return;
  activate();
  // A failure (enabled already, or a limit) is none: the copy then goes another way.
  (void)r.enable_peer(other.index, other.context());
}

Stream* Device::add_stream(int priority) {
  activate();
  auto s = std::make_unique<Stream>(*this, priority);
  std::lock_guard lock(streams_mutex_);
  streams_.push_back(std::move(s));
  return streams_.back().get();
}
void Device::remove_stream(Stream* s) {
  activate();
  std::lock_guard lock(streams_mutex_);
  std::erase_if(streams_, [s](const auto& one) { return one.get() == s; });
}
std::vector<Stream*> Device::streams() {
  std::vector<Stream*> r{default_stream_.get()};
  std::lock_guard lock(streams_mutex_);
  for (const auto& s : streams_) r.push_back(s.get());
  return r;
}
void Device::advance() {
  default_stream_->queue.advance();
  std::lock_guard lock(streams_mutex_);
  for (const auto& s : streams_) s->queue.advance();
}
void Device::drain() {
  for (Stream* s : streams()) {
    s->queue.finish();
    runtime().StreamSynchronize(s->handle);
  }
}

// ---- launches ----------------------------------------------------------------------------------

hipModule Device::load(const std::string& code) const {
  activate();
  hipModule module = nullptr;
  check(runtime().ModuleLoadData(&module, code.data()),
        PF_RT("hipModuleLoadData", "cuModuleLoadData"));
  return module;
}

void Module::fail(const std::exception& e) {
  const auto* f = dynamic_cast<const Failure*>(&e);
  status = f ? f->status : PF_COMPILE;
  why = e.what();
  state.store(kFailed, std::memory_order_release);
}

// From a cache, or handed to the threads; throws where callers compile themselves.
std::unique_ptr<Module> Device::obtain(Recipe recipe) const {
  auto m = std::make_unique<Module>();
  std::string code;
  if (find_packed(recipe, code)) {
    try {
      m->handle = load(code);
      m->state.store(Module::kLoaded, std::memory_order_release);
      ++compile_stats().from_pack;
      return m;
    } catch (const Failure&) {
      // Of a compiler newer than the driver, say: the one that is here makes another.
    }
  }
  if (find_code(traits, recipe, code)) {
    m->handle = load(code);
    m->state.store(Module::kLoaded, std::memory_order_release);
  } else if (Builder::most_threads() > 0) {
    Builder::get().add(*this, std::move(recipe), *m);
  } else {
    make_module(*this, recipe, *m);
    if (m->failed()) throw Failure(m->status, m->why);
  }
  return m;
}

std::unique_ptr<Loaded> Device::function(const Module* module, const char* entry, std::string label,
                                         bool ours) const {
  auto f = std::make_unique<Loaded>();
  f->device = this;
  f->module = module;
  f->entry = entry;
  f->name = std::move(label);
  f->early = ours && begins_early(traits);
  return f;
}

size_t FoundKernels::Key::hash() const {
  const std::string_view bytes = defines.bytes();
  return hash_bytes(bytes.data(), bytes.size(),
                    reinterpret_cast<uintptr_t>(file) * 31 + reinterpret_cast<uintptr_t>(entry) +
                        static_cast<uintptr_t>(before.number) * 37);
}
bool FoundKernels::Key::operator==(const Key& k) const {
  return file == k.file && entry == k.entry && before.number == k.before.number &&
         before.text == k.before.text && defines.bytes() == k.defines.bytes();
}
Function FoundKernels::find(const Key& key) const {
  const size_t at = key.hash();
  for (size_t i = 0; i < kProbes; ++i) {
    const Entry* e = slots_[(at + i) % kSlots].load(std::memory_order_acquire);
    if (!e) return nullptr;
    if (e->key == key) return e->function->module->failed() ? nullptr : e->function;
  }
  return nullptr;
}
void FoundKernels::add(const Key& key, Function f) {
  const size_t at = key.hash();
  for (size_t i = 0; i < kProbes; ++i) {
    std::atomic<const Entry*>& slot = slots_[(at + i) % kSlots];
    const Entry* e = slot.load(std::memory_order_relaxed);
    if (e && !(e->key == key)) continue;
    if (e && e->function == f) return;
    entries_.push_back(std::make_unique<const Entry>(Entry{key, f}));
    return slot.store(entries_.back().get(), std::memory_order_release);
  }
}

Function Device::find(const char* file, const Defines& defines, const char* entry) {
  const FoundKernels::Key key{file, entry, defines};
  if (const Function f = found_.find(key)) [[likely]]
    return f;
  const std::string text = defines.str();
  std::lock_guard lock(mutex_);
  const Function f = find_text(file, text, entry);
  found_.add(key, f);
  return f;
}
Function Device::find_text(const char* file, const std::string& defines, const char* entry) {
  const std::string key = std::string(file) + '\0' + entry + '\0' + defines;
  auto it = functions_.find(key);
  if (it != functions_.end()) {
    if (!it->second->module->failed()) [[likely]]
      return it->second.get();
    failed_.push_back(std::move(it->second));  // once more, then
    functions_.erase(it);
  }
  const std::string entries = kAmd ? "" : entries_with(file, entry);
  const std::string label =
      std::string(file) + (entries.empty() ? "" : " " + entries) + " " + defines;
  auto module = modules_.find(label);
  if (module != modules_.end() && module->second->failed()) {
    others_.push_back(std::move(module->second));
    modules_.erase(module);
    module = modules_.end();
  }
  if (module == modules_.end()) {
    const Source source{"#include \"" + std::string(file) + "\"\n", true, entries};
    module = modules_.emplace(label, obtain(recipe_for(traits, label, source, defines))).first;
  }
  return functions_
      .emplace(key, function(module->second.get(), entry,
                             std::string(file) + " " + entry + " " + defines, true))
      .first->second.get();
}

// As long as the process, for launches may be under way; the engine, which forgets plans that were
// not used for long, gets the same one again.
Function Device::keep(Recipe recipe) {
  std::string entry = recipe.source.entry, label = recipe.label;
  const bool ours = recipe.source.ours;
  const std::string key = recipe.key.portable + " " + entry;  // the digest comes later
  {
    std::lock_guard lock(mutex_);
    if (auto it = kept_.find(key); it != kept_.end() && !it->second->module->failed())
      return it->second;
  }
  std::unique_ptr<Module> m = obtain(std::move(recipe));
  auto f = function(m.get(), entry.c_str(), std::move(label), ours);
  std::lock_guard lock(mutex_);
  others_.push_back(std::move(m));  // it may be compiled at this moment
  Function& kept = kept_[key];
  if (kept && !kept->module->failed()) return kept;  // another thread's
  return kept = f.release();
}
Function Device::group(const Source& source) {
  Recipe recipe = recipe_for(traits, "pointwise group", source, "");
  recipe.group = compile_only().empty();  // packs hold each by itself
  return keep(std::move(recipe));
}
Function Device::program(const std::string& label, const Source& source,
                         const std::string& defines) {
  return keep(recipe_for(traits, label, source, defines));
}

Function Device::find_behind(const KernelArgs::Before& before, const char* file,
                             const Defines& defines, const char* entry) {
  const FoundKernels::Key key{file, entry, defines, before};
  if (const Function f = found_.find(key)) [[likely]]
    return f;
  const Source source{before.text(before.number) + "#include \"" + file + "\"\n", true, entry};
  const Function f =
      program(std::string(file) + " " + entry + " with a text before it", source, defines.str());
  std::lock_guard lock(mutex_);
  found_.add(key, f);
  return f;
}

Function Device::build(const std::string& label, const Source& source, const std::string& defines,
                       const char* entry) {
  const Recipe recipe = recipe_for(traits, label, source, defines);
  auto m = std::make_unique<Module>();
  std::string code;
  if (!find_code(traits, recipe, code)) code = make_code(traits, {&recipe});
  m->handle = load(code);
  m->state.store(Module::kLoaded, std::memory_order_release);
  Function f = function(m.get(), entry, label, source.ours).release();
  std::lock_guard lock(mutex_);
  others_.push_back(std::move(m));
  return f;
}

void Device::launch(Function f, Stream& s, Grid grid, Grid block, size_t shared, void** args,
                    const uint32_t* sizes, int nargs, const char* op, bool small) {
  if (shared > traits.max_shared)
    throw Failure(PF_LAUNCH, f->name + " asks for " + std::to_string(shared) +
                                 " bytes of shared memory; " + traits.name + " has " +
                                 std::to_string(traits.max_shared));
  if (GraphRecorder* r = s.queue.recorder()) [[unlikely]]
    return r->kernel(f, grid, block, shared, args, sizes, nargs);
  if (!f->module->building()) [[likely]] {
    if (small && LaunchBatch::available() && !f->module->failed()) {
      if (s.queue.batch(f, grid, block, shared, args, sizes, nargs, op)) return;
    } else if (s.queue.settled()) {
      return launch_now(f, s, grid, block, shared, args);
    }
  }
  // Arguments begin at multiples of 16 bytes of a copy.
  struct Word {
    alignas(16) char bytes[16];
  };
  std::vector<size_t> starts;
  starts.reserve(static_cast<size_t>(nargs));
  size_t words = 0;
  for (int i = 0; i < nargs; ++i) {
    starts.push_back(words);
    words += (sizes[i] + 15) / 16;
  }
  std::vector<Word> copy(words);
  for (size_t i = 0; i < starts.size(); ++i) std::memcpy(&copy[starts[i]], args[i], sizes[i]);
  s.queue.add(f, op, [=, this, &s, copy = std::move(copy), starts = std::move(starts)] {
    std::vector<void*> list;
    list.reserve(starts.size() + 1);
    for (size_t at : starts) list.push_back(const_cast<Word*>(copy.data() + at));
    list.push_back(nullptr);
    launch_now(f, s, grid, block, shared, list.data());
  });
}

hipFunction Device::ready(Function f, size_t shared) const {
  const Runtime& r = runtime();
  hipFunction function = f->function.load(std::memory_order_acquire);
  if (!function) {
    if (f->module->failed()) throw Failure(f->module->status, f->module->why);
    check(r.ModuleGetFunction(&function, f->module->handle, f->entry.c_str()),
          PF_RT("hipModuleGetFunction", "cuModuleGetFunction"));
    f->function.store(function, std::memory_order_release);
  }
  if (shared > kStaticShared && shared > f->shared.load(std::memory_order_relaxed)) {
    check(r.allow_shared(function, shared), PF_RT("hipFuncSetAttribute", "cuFuncSetAttribute"));
    f->shared.store(shared, std::memory_order_relaxed);
  }
  return function;
}

void Device::launch_now(Function f, const Stream& s, Grid grid, Grid block, size_t shared,
                        void** args) const {
  const Runtime& r = runtime();
  activate();
  hipFunction function = ready(f, shared);
  const unsigned blocks[] = {grid.x, grid.y, grid.z}, threads[] = {block.x, block.y, block.z};
  int error =
      f->early && early_launches()
          ? r.launch_early(function, blocks, threads, static_cast<unsigned>(shared), s.handle, args)
          : r.ModuleLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                 static_cast<unsigned>(shared), s.handle, args, nullptr);
  if (error == kSuccess && launch_blocking()) error = r.StreamSynchronize(s.handle);
  if (error != kSuccess) [[unlikely]]
    throw Failure(status_of(error), "launching " + f->name + ": " + error_text(error));
}

// ---- streams -----------------------------------------------------------------------------------

Stream::Stream(Device& device, int priority) : queue(device, *this), device_(device) {
  const Runtime& r = runtime();
  check(r.StreamCreateWithPriority(&handle, kStreamNonBlocking, priority),
        PF_RT("hipStreamCreateWithPriority", "cuStreamCreateWithPriority"));
  void* p = nullptr;
  check(r.HostMalloc(&p, sizeof(pf_error_record), kHostPortableMapped),
        PF_RT("hipHostMalloc", "cuMemHostAlloc"));
  record_ = new (p) pf_error_record{};
  check(r.HostGetDevicePointer(&record_device_, p, 0),
        PF_RT("hipHostGetDevicePointer", "cuMemHostGetDevicePointer"));
  check(r.Malloc(&lock_, 256), PF_RT("hipMalloc", "cuMemAlloc"));
  check(r.MemsetD8Async(lock_, 0, 256, handle), PF_RT("hipMemsetD8Async", "cuMemsetD8Async"));
}

Stream::Stream(Device& device, const Stream& on, GraphRecorder& recorder)
    : queue(device, *this, &recorder),
      device_(device),
      record_device_(on.record_device_),
      lock_(on.lock_) {
  check(runtime().StreamCreateWithPriority(&handle, kStreamNonBlocking, 0),
        PF_RT("hipStreamCreateWithPriority", "cuStreamCreateWithPriority"));
}

Stream::~Stream() {
  const Runtime& r = runtime();
  if (queue.recorder()) {
    r.StreamDestroy(handle);
    return;
  }
  r.StreamSynchronize(handle);
  r.StreamDestroy(handle);
  r.Free(lock_);
  r.HostFree(record_);
}

void Stream::synchronize(pf_index_error* out) {
  const Runtime& r = runtime();
  device_.activate();
  check(r.StreamSynchronize(handle), PF_RT("hipStreamSynchronize", "cuStreamSynchronize"));
  auto* record = const_cast<volatile pf_error_record*>(record_);
  if (!out) return;
  *out = {};
  if (!record->set) return;
  out->set = 1;
  out->kind = static_cast<int32_t>(record->kind);
  out->index = record->index;
  out->lowest = record->lowest;
  out->limit = record->limit;
  out->op = reinterpret_cast<const char*>(record->op);
  record->set = 0;
  check(r.MemsetD8Async(lock_, 0, 256, handle), PF_RT("hipMemsetD8Async", "cuMemsetD8Async"));
}

// ---- staging -----------------------------------------------------------------------------------

Staging::Slot& Staging::next(size_t bytes) {
  const Runtime& r = runtime();
  Slot& s = slots_[at_];
  at_ = (at_ + 1) % kSlots;
  if (!s.event)
    check(r.EventCreateWithFlags(&s.event, kEventDisableTiming),
          PF_RT("hipEventCreateWithFlags", "cuEventCreate"));
  if (s.busy)
    check(r.EventSynchronize(s.event), PF_RT("hipEventSynchronize", "cuEventSynchronize"));
  s.busy = false;
  if (s.capacity < bytes) {
    if (s.memory) r.HostFree(s.memory);
    s.memory = nullptr;
    s.capacity = 0;
    size_t want = std::max<size_t>(bytes, 64 << 10);
    check(r.HostMalloc(&s.memory, want, kHostPortableMapped),
          PF_RT("hipHostMalloc", "cuMemHostAlloc"));
    s.capacity = want;
  }
  return s;
}

void Staging::from_host(Stream& stream, void* to, const void* from, size_t bytes) {
  const Runtime& r = runtime();
  device_.activate();
  std::lock_guard lock(mutex_);
  for (size_t done = 0; done < bytes;) {
    size_t n = std::min(bytes - done, kChunk);
    Slot& s = next(n);
    std::memcpy(s.memory, static_cast<const char*>(from) + done, n);
    check(r.MemcpyHtoDAsync(static_cast<char*>(to) + done, s.memory, n, stream.handle),
          PF_RT("hipMemcpyHtoDAsync", "cuMemcpyHtoDAsync"));
    check(r.EventRecord(s.event, stream.handle), PF_RT("hipEventRecord", "cuEventRecord"));
    s.busy = true;
    done += n;
  }
}

void Staging::to_host(Stream& stream, void* to, const void* from, size_t bytes) {
  const Runtime& r = runtime();
  device_.activate();
  std::lock_guard lock(mutex_);
  // One chunk is copied out of pinned memory while the next arrives there.
  Slot* pending = nullptr;
  size_t pending_at = 0, pending_bytes = 0;
  auto finish = [&] {
    if (!pending) return;
    check(r.EventSynchronize(pending->event), PF_RT("hipEventSynchronize", "cuEventSynchronize"));
    pending->busy = false;
    std::memcpy(static_cast<char*>(to) + pending_at, pending->memory, pending_bytes);
    pending = nullptr;
  };
  for (size_t done = 0; done < bytes;) {
    size_t n = std::min(bytes - done, kChunk);
    Slot& s = next(n);
    check(r.MemcpyDtoHAsync(s.memory, static_cast<const char*>(from) + done, n, stream.handle),
          PF_RT("hipMemcpyDtoHAsync", "cuMemcpyDtoHAsync"));
    check(r.EventRecord(s.event, stream.handle), PF_RT("hipEventRecord", "cuEventRecord"));
    s.busy = true;
    finish();
    pending = &s;
    pending_at = done;
    pending_bytes = n;
    done += n;
  }
  finish();
}

}  // namespace pyflame::gpu
