// Groups of pointwise nodes: text from codegen/device_text.h, one kernel for each launch class.
#include <algorithm>
#include <memory>
#include <mutex>

#include "codegen/device_text.h"
#include "gpu/device.h"
#include "gpu/host.h"

namespace pyflame::gpu {
namespace {

struct Program {
  codegen::DeviceProgram text;
  std::mutex mutex;
  struct Variant {
    codegen::LaunchClass key;
    Function function;
  };
  std::vector<Variant> variants;  // the last one used first

  explicit Program(const pf_program& p) : text(p) {}

  Function find(Device& device, const codegen::LaunchClass& key) {
    std::lock_guard lock(mutex);
    for (size_t i = 0; i < variants.size(); ++i)
      if (variants[i].key == key) {
        if (i) std::swap(variants[i], variants[0]);
        return variants[0].function;
      }
    const Function f =
        device.build("pointwise group", {text.text(key), true, codegen::DeviceProgram::kEntry}, "",
                     codegen::DeviceProgram::kEntry);
    variants.insert(variants.begin(), {key, f});
    return f;
  }
};

}  // namespace

pf_status program_create(pf_device device, const pf_program* program, void** kernel) {
  if (pf_status s = faults().check(cpu::Faults::kProgramCreate)) return s;
  return guarded([&] {
    Device::get(device);  // the architecture is checked before anything is built
    *kernel = new Program(*program);
  });
}

void program_destroy(pf_device, void* kernel) {
  delete static_cast<Program*>(kernel);
}

pf_status program_launch(pf_device device, pf_stream stream, void* kernel,
                         const pf_launch* launch) {
  if (pf_status s = faults().check(cpu::Faults::kProgramLaunch)) return s;
  return guarded([&] {
    Device& d = Device::get(device);
    Program& p = *static_cast<Program*>(kernel);
    codegen::DeviceLaunch l;
    p.text.plan(*launch, l);
    if (l.grid == 0) return;
    void* args[] = {l.words, nullptr};
    d.launch(p.find(d, l.key), d.stream(stream), Grid(l.grid), Grid(l.block), 0, args);
  });
}

}  // namespace pyflame::gpu
