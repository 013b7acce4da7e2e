// pyflame.debug: the insides, for tests and for people who look for the
// cause of something.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "core/backends.h"
#include "engine/engine.h"
#include "engine/trace.h"
#include "pyflame/device.h"
#include "pyflame/error.h"
#include "table/kernels/tuning.h"

namespace nb = nanobind;
namespace pf = pyflame;

void bind_debug(nb::module_& m) {
  m.def("_stats", [] {
    nb::dict d;
    for (auto& [key, value] : pf::engine::stats()) d[key.c_str()] = value;
    return d;
  });
  m.def("_trace_start", &pf::engine::trace_start);
  m.def("_trace_stop", [](size_t start) {
    nb::list r;
    for (const auto& e : pf::engine::trace_stop(start)) {
      nb::dict fields;
      for (const auto* map : {&e.fields, &e.details})
        for (const auto& [key, value] : *map) fields[key.c_str()] = value;
      r.append(nb::make_tuple(e.kind, fields, e.count, e.bytes));
    }
    return r;
  });
  m.def("_reset_stats", &pf::engine::reset_stats);
  m.def("_eager", &pf::engine::eager);
  m.def("_set_eager", &pf::engine::set_eager);
  // Lines of "name=value": what a plug-in counts.
  m.def("_device_statistics", [](const std::string& name) {
    pf::engine::flush(pf::engine::Flush::MemoryStats);
    const pf::Device d = pf::parse_device(name);
    const pf_backend* b = pf::usable_backend_of(d);
    char text[1024] = "";
    if (b->version >= 2 && b->statistics) b->statistics(d.index, text, sizeof text);
    return std::string(text);
  });
  // A command for a plug-in's tuning.cpp, and its answer.
  m.def("_tuning",
        [](const std::string& name, int64_t command, int64_t value, const std::string& text) {
          pf::engine::flush(pf::engine::Flush::MemoryStats);
          const pf::Device d = pf::parse_device(name);
          const pf_backend* b = pf::usable_backend_of(d);
          using pf::kernels::Tuning;
          void* kernel = b->kernel_find(Tuning::kInfo.name);
          if (!kernel) return std::string();
          std::string room = text;
          room.resize(size_t{1} << (command == 5 ? 20 : 12));
          pf_tensor t{};
          t.data = room.data();
          t.ndim = 1;
          t.shape[0] = static_cast<int64_t>(room.size());
          const Tuning::Numbers<pf_scalar> numbers{.command = {0, command}, .value = {0, value}};
          const pf_status status = b->kernel_launch(d.index, nullptr, kernel, &t, 1,
                                                    pf::kernels::members<Tuning::Numbers>(numbers),
                                                    pf::kernels::kCount<Tuning::Numbers>, nullptr);
          if (status != PF_OK) pf::raise_status(b, status, "tuning");
          return std::string(room.c_str());
        });
  // Makes the nth next `call` ("allocate", "program_create", "program_launch", "kernel_launch",
  // "copy") on the device fail with `kind` ("oom", "compile", "launch", "lost"); 0 switches it off.
  m.def("_inject_fault", [](const std::string& device, const std::string& call, int64_t nth,
                            const std::string& kind) {
    pf_status status = kind == "oom"       ? PF_OOM
                       : kind == "compile" ? PF_COMPILE
                       : kind == "lost"    ? PF_LOST
                                           : PF_LAUNCH;
    const pf_backend* b = pf::backend_of(pf::parse_device(device));
    PF_CHECK(b->inject_fault, NotSupportedError, "debug", device, " cannot inject faults");
    if (b->inject_fault(call.c_str(), nth, status) != PF_OK)
      pf::raise_status(b, PF_INVALID, "debug");
  });
}
