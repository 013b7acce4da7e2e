// Autocast regions and the precision of products: what python/pyflame/amp is made of.
#include "pyflame/amp.h"

#include "common.h"
#include "ops/attention_switches.h"

namespace pyflame::python {

namespace {

// Kinds of devices as Python numbers them: a GPU of either vendor is a GPU.
DeviceType type_of(int kind) {
  return kind == 0 ? DeviceType::CPU : kind == 1 ? DeviceType::ROCm : DeviceType::Paranoid;
}

// A region as Python enters and leaves it.
struct Region {
  Autocast inner;
  Region(DeviceType type, nb::handle dtype, bool enabled, bool cache)
      : inner(type, dtype.is_none() ? std::nullopt : std::optional(to_dtype(dtype.ptr())), enabled,
              cache) {}
};

}  // namespace

void init_amp(nb::module_& m) {
  m.def("_autocast_enabled", [](int type) { return autocast_enabled(type_of(type)); });
  m.def("_set_autocast_enabled",
        [](int type, bool on) { set_autocast_enabled(type_of(type), on); });
  m.def("_autocast_dtype", [](int type) { return nb::steal(wrap(autocast_dtype(type_of(type)))); });
  m.def("_set_autocast_dtype", [](int type, nb::handle dtype) {
    set_autocast_dtype(type_of(type), to_dtype(dtype.ptr()));
  });
  m.def("is_autocast_cache_enabled", &autocast_cache_enabled,
        "Whether casts of parameters are kept until the outermost region ends.");
  m.def(
      "set_autocast_cache_enabled", [](bool on) { set_autocast_cache_enabled(on); },
      nb::arg("enabled"), "Switches the keeping of casts of parameters.");
  m.def("clear_autocast_cache", &clear_autocast_cache, "Forgets the casts that are kept.");
  m.def(
      "_autocast_enter",
      [](int type, nb::handle dtype, bool enabled, bool cache) {
        return reinterpret_cast<uintptr_t>(new Region(type_of(type), dtype, enabled, cache));
      },
      nb::arg("type"), nb::arg("dtype").none(), nb::arg("enabled"), nb::arg("cache"));
  m.def("_autocast_exit", [](uintptr_t region) { delete reinterpret_cast<Region*>(region); });
  m.def("_deterministic", &deterministic);
  m.def("_set_deterministic", &set_deterministic);
  m.def("_set_attention_library",
        [](int which) { set_attention_library(static_cast<AttentionLibrary>(which)); });
  m.def("_matmul_precision", [] { return static_cast<int>(float32_matmul_precision()); });
  m.def("_set_matmul_precision",
        [](int p) { set_float32_matmul_precision(static_cast<MatmulPrecision>(p)); });
  m.def("_conv_precision", [] { return static_cast<int>(float32_conv_precision()); });
  m.def("_set_conv_precision",
        [](int p) { set_float32_conv_precision(static_cast<MatmulPrecision>(p)); });
}

}  // namespace pyflame::python
