// Loading libpyflame_rocm and libpyflame_cuda: at the first use of a GPU, from beside this library
// or from PYFLAME_BACKEND_PATH. Why one did not load is kept, for pf.backend_status() and for
// errors.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/allocator.h"
#include "core/backends.h"
#include "core/lock.h"
#include "core/plugins.h"
#include "core/room.h"
#include "pyflame/error.h"

namespace pyflame {
namespace {

struct Plugin {
  Plugin(const char* n, DeviceType t) : name(n), type(t) {}
  const char* name;
  DeviceType type;
  const pf_backend* backend = nullptr;
  std::string reason;
  pf_host host{};
  Mutex mutex;
  std::vector<std::string> hiding{};  // what the variables that hide GPUs were when it was tried
  std::atomic<bool> tried{false}, loaded{false}, told{false};
};

Plugin& plugin_of(DeviceType type) {
  static Plugin& rocm = *new Plugin("rocm", DeviceType::ROCm);
  static Plugin& cuda = *new Plugin("cuda", DeviceType::CUDA);
  return type == DeviceType::ROCm ? rocm : cuda;
}

// Folders to look in: PYFLAME_BACKEND_PATH (separated by ':') alone, else this library's own.
std::vector<std::string> folders() {
  std::vector<std::string> r;
  if (const char* path = std::getenv("PYFLAME_BACKEND_PATH"); path && *path) {
    std::string_view rest = path;
    while (!rest.empty()) {
      std::string_view one = rest.substr(0, rest.find(':'));
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
      if (!one.empty()) r.emplace_back(one);
    }
    return r;
  }
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&plugin_of), &self) && self.dli_fname) {
    std::string file = self.dli_fname;
    size_t slash = file.rfind('/');
    r.push_back(slash == std::string::npos ? "." : file.substr(0, slash));
  }
  return r;
}

thread_local std::string t_shortage;  // why there was no workspace last
[[maybe_unused]] const AtThreadStart kMade([] { AtThreadStart::touch(&t_shortage); });

// Blocks go back to the allocator as soon as the work that uses them is enqueued: it gives them to
// later work of the same stream.
pf_status host_allocate(const pf_host* h, pf_device device, pf_stream stream, size_t bytes,
                        void** out, void** block) {
  const Plugin& p = *static_cast<const Plugin*>(h->context);
  const Device d{p.type, static_cast<int8_t>(device)};
  try {
    Block* b = allocate(d, find_stream(d, stream), bytes, {"workspace"});
    *out = b->data;
    *block = b;
    return PF_OK;
  } catch (const std::exception& e) {
    note_shortage(e.what());
    return dynamic_cast<const OutOfMemoryError*>(&e) ? PF_OOM : PF_LAUNCH;
  }
}
void host_release(const pf_host*, void* block) {
  release(static_cast<Block*>(block));
}
void host_notice(const pf_host*, const char* text) {
  notice(text);
}

}  // namespace

void note_shortage(const char* error) {
  constexpr std::string_view kPrefix = "pf.workspace: ";
  const std::string_view why = error;
  t_shortage = why.starts_with(kPrefix) ? why.substr(kPrefix.size()) : why;
}
std::string take_shortage() {
  return std::exchange(t_shortage, {});
}

namespace {

// The variables that hide GPUs, which a vendor's runtime reads once.
std::span<const char* const> hiding(DeviceType type) {
  static constexpr const char* kAmd[] = {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                         "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES"};
  static constexpr const char* kNvidia[] = {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"};
  return type == DeviceType::ROCm ? std::span<const char* const>(kAmd) : kNvidia;
}
std::string text_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? std::string("'") + value + "'" : "not set";
}

void load(Plugin& p) {
  for (const char* name : hiding(p.type)) p.hiding.push_back(text_of(name));
  if (const char* rocm = std::getenv("ROCM_PATH");
      p.type == DeviceType::ROCm && rocm && *rocm && access(rocm, F_OK) != 0)
    notice((std::string("ROCM_PATH='") + rocm +
            "': there is no such folder; AMD's libraries are looked for in the usual places")
               .c_str());
  const std::string file = std::string("libpyflame_") + p.name + ".so";
  std::string path, looked;
  for (const std::string& f : folders()) {
    looked += (looked.empty() ? "" : ", ") + f;
    if (access((f + "/" + file).c_str(), F_OK) == 0) {
      path = f + "/" + file;
      break;
    }
  }
  if (path.empty()) {
    p.reason = "there is no plug-in " + file + " in " + looked + "; build it with -DPYFLAME_USE_" +
               (p.type == DeviceType::ROCm ? "ROCM" : "CUDA") +
               "=ON, or name its folder in PYFLAME_BACKEND_PATH";
    return;
  }
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = dlerror();
    p.reason = path + " could not be loaded: " + (why ? why : "no reason given");
    return;
  }
  auto entry = reinterpret_cast<const pf_backend* (*)()>(dlsym(handle, "pyflame_plugin"));
  const pf_backend* b = entry ? entry() : nullptr;
  if (!b) {
    p.reason = path + " is no PyFlame plug-in: it has no function pyflame_plugin";
    return;
  }
  constexpr size_t kLeast = offsetof(pf_backend, attach);
  if (b->version != PF_BACKEND_VERSION || b->size < kLeast) {
    p.reason = path + " was built for version " + std::to_string(b->version) +
               " of the backend interface (" + std::to_string(b->size) +
               " bytes); this library has " + "version " + std::to_string(PF_BACKEND_VERSION) +
               ": build or install both from the same release";
    return;
  }
  p.host.size = sizeof(pf_host);
  p.host.version = PF_BACKEND_VERSION;
  p.host.context = &p;
  p.host.allocate = host_allocate;
  p.host.release = host_release;
  p.host.notice = host_notice;
  if (PF_HAS(b, attach)) {
    pf_status status = b->attach(&p.host);
    if (status != PF_OK) {
      const char* own = b->last_error ? b->last_error() : nullptr;
      p.reason = own && *own ? own : backend_error(b, status);
      return;
    }
  }
  p.backend = b;
  p.loaded.store(true, std::memory_order_release);
}

}  // namespace

const pf_backend* plugin_backend(DeviceType type) {
  Plugin& p = plugin_of(type);
  if (!p.tried.load(std::memory_order_acquire)) {
    std::lock_guard lock(p.mutex);
    if (!p.tried.load(std::memory_order_relaxed)) {
      load(p);
      p.tried.store(true, std::memory_order_release);
    }
  }
  return p.backend;
}

void tell_what_is_set_late(DeviceType type) {
  Plugin& p = plugin_of(type);
  if (!p.tried.load(std::memory_order_acquire) || p.told.load(std::memory_order_relaxed)) return;
  for (size_t i = 0; i < p.hiding.size(); ++i) {
    const char* name = hiding(type)[i];
    const std::string now = text_of(name);
    if (now == p.hiding[i] || p.told.exchange(true)) continue;
    notice(
        (std::string(name) + " is " + now + " now, and was " + p.hiding[i] +
         " when GPUs were first asked for: the runtime has read it, and the change means nothing; "
         "set it before the program's first use of a GPU")
            .c_str());
  }
}

const pf_backend* plugin_if_loaded(DeviceType type) {
  Plugin& p = plugin_of(type);
  return p.loaded.load(std::memory_order_acquire) ? p.backend : nullptr;
}

std::string plugin_reason(DeviceType type) {
  plugin_backend(type);
  return plugin_of(type).reason;
}

namespace {
std::atomic<void (*)(const char*)> g_notice{nullptr};
}
void set_notice_hook(void (*hook)(const char*)) {
  g_notice.store(hook);
}
void notice(const char* text) {
  if (auto* hook = g_notice.load())
    hook(text);
  else
    std::fprintf(stderr, "pyflame: %s\n", text);
}

}  // namespace pyflame
