// Device names and the registry of backends.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pyflame {

enum class DeviceType : uint8_t { CPU, ROCm, CUDA, Paranoid, Meta };
inline constexpr int kDeviceTypes = 5;

struct Device {
  DeviceType type = DeviceType::CPU;
  int8_t index = 0;
  // "Wherever the current device is", and this is where it is now: what get_device() returns and
  // what tensors have that were made without naming a device. See docs/devices.md.
  bool floating = false;
  friend bool operator==(Device a, Device b) { return a.type == b.type && a.index == b.index; }
  bool is_cpu() const { return type == DeviceType::CPU; }
  Device placed() const { return {type, index, false}; }
  Device afloat() const { return {type, index, true}; }
  std::string str() const;  // "cpu", "rocm:0"
};
std::ostream& operator<<(std::ostream&, Device);
// Of one type that an index can tell apart.
inline constexpr int kMaxDevices = std::numeric_limits<decltype(Device::index)>::max() + 1;

// Accepts cpu, gpu[:N], rocm[:N], hip[:N], cuda[:N], meta (shapes without values), paranoid[:N].
// DeviceError otherwise.
Device parse_device(std::string_view name);

Device get_device();      // the calling thread's current device, floating
void set_device(Device);  // DeviceError when it is not there
void set_device(std::string_view name);
int device_count(DeviceType);

class DeviceScope {  // scope guard: another current device of the calling thread
 public:
  explicit DeviceScope(Device) noexcept;
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device before_;
};

// Strict mode (PYFLAME_STRICT=1): a copy that nobody asked for, or a slow way of doing something
// that has a quick one, raises instead of happening.
bool strict();
void set_strict(bool);

// What is known of each backend: name -> "loaded", "available" or the reason why not.
std::map<std::string, std::string> backends();
// name, architecture, total_memory (bytes), compute_units and more, as text.
std::map<std::string, std::string> device_info(Device);

// Waits until everything recorded so far has run on every device; raises what failed.
void synchronize();
// Hands everything that this thread has recorded to the devices, without waiting.
void flush();

void set_num_threads(int n);  // CPU threads of one operation
int get_num_threads();

}  // namespace pyflame
