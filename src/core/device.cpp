#include "pyflame/device.h"

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <ostream>

#include "core/backends.h"
#include "core/interrupt.h"
#include "core/plugins.h"
#include "core/tensor_impl.h"
#include "pyflame/dtype.h"
#include "pyflame/error.h"

namespace pyflame {
namespace {

constexpr const char* kTypeNames[] = {"cpu", "rocm", "cuda", "paranoid", "meta"};
thread_local Device t_device{DeviceType::CPU, 0, true};

const pf_backend* find_backend(DeviceType type) {
  switch (type) {
    case DeviceType::CPU:
      return pyflame_cpu_backend();
    case DeviceType::Paranoid:
      return pyflame_paranoid_backend();
    case DeviceType::Meta:
      return pyflame_meta_backend();
    case DeviceType::ROCm:
    case DeviceType::CUDA:
      return plugin_backend(type);
  }
  return nullptr;
}

int gpu_count(DeviceType type) {
  const pf_backend* b = plugin_backend(type);
  return b ? b->device_count() : 0;
}

// What is made on the current device floats, but for tensors without values: nothing of theirs
// could be copied to where an operation runs.
Device as_current(Device d) {
  return d.type == DeviceType::Meta ? d.placed() : d.afloat();
}

std::atomic<bool> told_of_names{false};

// With one vendor's GPUs present either name means them, with one notice when it is the other
// vendor's; with both, or none, a name means its own.
DeviceType gpu_named(DeviceType named, std::string_view text) {
  const DeviceType other = named == DeviceType::ROCm ? DeviceType::CUDA : DeviceType::ROCm;
  if (gpu_count(named) > 0 || gpu_count(other) == 0) return named;
  if (!told_of_names.exchange(true)) {
    const std::string is = named == DeviceType::ROCm ? "an NVIDIA" : "an AMD";
    notice(("'" + std::string(text) + "' runs on '" + Device{other, 0}.str() +
            "': the GPU here is " + is +
            " one. The same code runs on either; 'gpu' names whichever is there.")
               .c_str());
  }
  return other;
}

// gpu:N counts AMD's first, then NVIDIA's.
Device any_gpu(int index) {
  const int rocm = gpu_count(DeviceType::ROCm);
  if (index < rocm || gpu_count(DeviceType::CUDA) == 0)
    return {DeviceType::ROCm, static_cast<int8_t>(index)};
  return {DeviceType::CUDA, static_cast<int8_t>(index - rocm)};
}

}  // namespace

void any_name_is_meant() {
  told_of_names.store(true);
}

std::string Device::str() const {
  std::string s = kTypeNames[static_cast<int>(type)];
  if (type != DeviceType::CPU && type != DeviceType::Meta) s += ":" + std::to_string(index);
  return s;
}

std::ostream& operator<<(std::ostream& s, Device d) {
  return s << d.str();
}

namespace {
bool is_dtype(std::string_view text) {
  try {
    dtype_from_name(text);
    return true;
  } catch (const Error&) {
    return false;
  }
}
}  // namespace

Device parse_device(std::string_view text) {
  std::string_view type = text.substr(0, text.find(':'));
  int index = 0;
  if (type.size() < text.size()) {
    std::string_view digits = text.substr(type.size() + 1);
    auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    PF_CHECK(ec == std::errc() && end == digits.data() + digits.size() && index >= 0 &&
                 index < kMaxDevices,
             DeviceError, "device", "got '", text, "'; the index after ':' must be 0 to ",
             kMaxDevices - 1);
  }
  Device d;
  d.index = static_cast<int8_t>(index);
  if (type == "cpu") {
    d.type = DeviceType::CPU;
    PF_CHECK(index == 0, DeviceError, "device", "got '", text, "'; there is one CPU: use 'cpu'");
  } else if (type == "meta") {
    d.type = DeviceType::Meta;
    PF_CHECK(index == 0, DeviceError, "device", "got '", text, "'; there is one: use 'meta'");
  } else if (type == "rocm" || type == "hip") {
    d.type = gpu_named(DeviceType::ROCm, text);
  } else if (type == "cuda") {
    d.type = gpu_named(DeviceType::CUDA, text);
  } else if (type == "gpu") {
    d = any_gpu(index);
  } else if (type == "paranoid") {
    d.type = DeviceType::Paranoid;
  } else {
    PF_FAIL(
        DeviceError, "device", "got '", text,
        "'; expected cpu, gpu, rocm, hip or cuda, with an optional index as in 'rocm:0', or meta",
        is_dtype(text) ? "; it names a dtype: pass pf." + std::string(text) + ", without quotes"
                       : "");
  }
  return d;
}

const pf_backend* backend_of(Device d) {
  const pf_backend* b = find_backend(d.type);
  if (!b) {
    const bool amd = d.type == DeviceType::ROCm;
    const DeviceType other = amd ? DeviceType::CUDA : DeviceType::ROCm;
    tell_what_is_set_late(d.type);
    std::string neither;  // 'gpu' and the other vendor's name would do as well
    if (!find_backend(other))
      neither = std::string("; nor is there a GPU of ") + (amd ? "NVIDIA" : "AMD") + ": " +
                plugin_reason(other);
    PF_FAIL(DeviceError, "device", d.str(), " is not usable: ", plugin_reason(d.type), neither,
            "; use 'cpu', or see pf.backend_status() for what was found");
  }
  return b;
}

const pf_backend* usable_backend_of(Device d) {
  const pf_backend* b = backend_of(d);
  const int n = b->device_count();
  if (d.index >= n) tell_what_is_set_late(d.type);
  const Device first{d.type, 0}, last{d.type, static_cast<int8_t>(n - 1)};
  PF_CHECK(d.index < n, DeviceError, "device", "got ", d.str(), "; expected ",
           n == 1 ? first.str() + ", the only one that is seen"
                  : "one of the " + std::to_string(n) + " that are seen, " + first.str() + " to " +
                        last.str());
  return b;
}

const pf_backend* backend_if_loaded(DeviceType type) {
  return type == DeviceType::ROCm || type == DeviceType::CUDA ? plugin_if_loaded(type)
                                                              : find_backend(type);
}

int device_count(DeviceType type) {
  const pf_backend* b = find_backend(type);
  if (type == DeviceType::ROCm || type == DeviceType::CUDA) tell_what_is_set_late(type);
  return b ? b->device_count() : 0;
}

Device get_device() {
  return t_device;
}

void set_device(Device d) {
  usable_backend_of(d);
  if (!d.is_cpu()) note_second_device();
  t_device = as_current(d);
}

DeviceScope::DeviceScope(Device d) noexcept : before_(t_device) {
  t_device = as_current(d);
}
DeviceScope::~DeviceScope() {
  t_device = before_;
}

namespace {
std::atomic<bool>& strict_flag() {
  static std::atomic<bool> flag = [] {
    const char* v = std::getenv("PYFLAME_STRICT");
    return v && *v && *v != '0';
  }();
  return flag;
}
}  // namespace

bool strict() {
  return strict_flag().load(std::memory_order_relaxed);
}
void set_strict(bool on) {
  strict_flag().store(on);
}

void set_device(std::string_view name) {
  set_device(parse_device(name));
}

std::map<std::string, std::string> backends() {
  std::map<std::string, std::string> r;
  for (DeviceType t : {DeviceType::CPU, DeviceType::ROCm, DeviceType::CUDA}) {
    bool there = find_backend(t) != nullptr;
    r[kTypeNames[static_cast<int>(t)]] = there ? "loaded" : plugin_reason(t);
  }
  return r;
}

std::map<std::string, std::string> device_info(Device d) {
  const pf_backend* b = usable_backend_of(d);
  char text[4096];
  pf_status status = b->device_info(d.index, text, sizeof text);
  if (status != PF_OK) raise_status(b, status, "device_info");
  std::map<std::string, std::string> r;
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    size_t eq = line.find('=');
    if (eq != std::string_view::npos)
      r[std::string(line.substr(0, eq))] = std::string(line.substr(eq + 1));
  }
  return r;
}

std::string backend_error(const pf_backend* b, pf_status status) {
  static constexpr const char* kMeaning[] = {"no error",
                                             "out of memory",
                                             "a kernel could not be built",
                                             "a launch or copy failed",
                                             "the device is lost",
                                             "not supported",
                                             "bad arguments to the backend"};
  std::string s = kMeaning[status];
  const char* own = b->last_error ? b->last_error() : nullptr;
  if (own && *own) s += std::string(": ") + own;
  return s;
}

// A device tells of a kernel that broke it at some later call.
static std::string find_the_kernel(const pf_backend* b) {
  const bool amd = std::string_view(b->name) == "rocm";
  if (!amd && std::string_view(b->name) != "cuda") return "";
  for (const char* set : {"HIP_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL"})
    if (std::getenv(set)) return "";
  return std::string("; with ") + (amd ? "HIP" : "CUDA") +
         "_LAUNCH_BLOCKING=1 the error names the kernel at fault";
}

void raise_status(const pf_backend* b, pf_status status, const char* op) {
  if (take_interrupted()) throw Interrupted();
  const std::string shortage = take_shortage();
  const std::string text = shortage.empty() ? std::string(b->name) + ": " + backend_error(b, status)
                                            : "workspace of the kernel: " + shortage;
  switch (status) {
    case PF_OOM:
      PF_FAIL(OutOfMemoryError, op, text,
              shortage.empty() ? "; use a smaller batch or free tensors" : "");
    case PF_UNSUPPORTED:
      PF_FAIL(NotSupportedError, op, text);
    case PF_LOST:
      PF_FAIL(DeviceError, op, text, "; tensors on it are lost: restart from a checkpoint",
              find_the_kernel(b));
    default:
      PF_FAIL(BackendError, op, text);
  }
}

}  // namespace pyflame
