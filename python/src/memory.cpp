// Memory of devices, pinned memory of the host, streams and events.
#include "pyflame/memory.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "common.h"
#include "core/backends.h"
#include "engine/engine.h"
#include "pyflame/stream.h"

namespace pyflame::python {

namespace {

nb::dict counter(const MemoryCounter& c) {
  nb::dict d;
  d["current"] = c.current;
  d["peak"] = c.peak;
  d["allocated"] = c.allocated;
  d["freed"] = c.freed();
  return d;
}

nb::dict pool(const PoolStats& p) {
  nb::dict d;
  d["allocation"] = counter(p.allocation);
  d["allocated_bytes"] = counter(p.allocated_bytes);
  d["requested_bytes"] = counter(p.requested_bytes);
  d["segment"] = counter(p.segment);
  d["reserved_bytes"] = counter(p.reserved_bytes);
  auto present = [&d](const char* name, int64_t value) {
    nb::dict one;
    one["current"] = value;
    d[name] = one;
  };
  present("active", p.active);
  present("active_bytes", p.active_bytes);
  present("inactive_split", p.inactive_split);
  present("inactive_split_bytes", p.inactive_split_bytes);
  return d;
}

nb::dict statistics(nb::handle device) {
  const Device on = to_usable_device(device.ptr());
  engine::flush(engine::Flush::MemoryStats);
  const MemoryStats s = memory_stats(on);
  nb::dict d;
  d["allocated"] = s.allocated;
  d["max_allocated"] = s.max_allocated;
  d["reserved"] = s.reserved;
  d["max_reserved"] = s.max_reserved;
  d["allocations"] = s.allocations;
  d["cache_hits"] = s.cache_hits;
  d["retries"] = s.retries;
  d["ooms"] = s.ooms;
  d["device_allocs"] = s.device_allocs;
  d["device_frees"] = s.device_frees;
  d["limit"] = s.limit;
  d["all"] = pool(s.all);
  d["small_pool"] = pool(s.small);
  d["large_pool"] = pool(s.large);
  return d;
}

// The device whose kind of pinned memory is meant when none is named.
Device pinning_device(PyObject* named) {
  if (named && named != Py_None) return to_usable_device(named);
  if (Device d = get_device(); !d.is_cpu()) return d;
  for (DeviceType t : {DeviceType::ROCm, DeviceType::CUDA})
    if (device_count(t) > 0) return {t, 0};
  return {};
}

}  // namespace

Tensor pinned(const Tensor& t, PyObject* device) {
  if (!t->storage->device.is_cpu()) return pin_memory(t, {});  // says what is wrong
  return pin_memory(t, pinning_device(device));
}

PyObject* tensor_pin_memory(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"device", nullptr};
    PyObject* device = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:pin_memory", const_cast<char**>(names),
                                     &device))
      return nullptr;
    Tensor r = pinned(tensor_of(o), device);
    if (r.impl() == tensor_of(o).impl()) {
      Py_INCREF(o);
      return o;
    }
    return wrap(std::move(r));
  });
}

PyObject* tensor_is_pinned(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"device", nullptr};
    PyObject* ignored = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:is_pinned", const_cast<char**>(names),
                                     &ignored))
      return nullptr;
    return PyBool_FromLong(is_pinned(tensor_of(o)));
  });
}

PyObject* tensor_record_stream(PyObject* o, PyObject* stream) {
  return guarded([&]() -> PyObject* {
    nb::object handle = nb::getattr(nb::handle(stream), "_handle", nb::none());
    Stream* s = nullptr;
    if (!nb::try_cast(handle, s) || !s)
      type_error(std::string("pf.record_stream: got an object of type ") +
                 Py_TYPE(stream)->tp_name + "; expected a Stream; pass one");
    record_stream(tensor_of(o), *s);
    Py_RETURN_NONE;
  });
}

void init_memory(nb::module_& m) {
  m.def("_memory_stats", &statistics, nb::arg("device"));
  m.def("_memory_info", [](nb::handle device) {
    const Device d = to_usable_device(device.ptr());
    const pf_backend* b = usable_backend_of(d);
    pf_memory_info info{};
    pf_status status = b->memory_info(d.index, &info);
    if (status != PF_OK) raise_status(b, status, "mem_get_info");
    return nb::make_tuple(info.free_bytes, info.total_bytes);
  });
  m.def("_reset_peak_memory_stats", [](nb::handle d) {
    const Device on = to_usable_device(d.ptr());
    engine::flush(engine::Flush::MemoryStats);
    reset_peak_memory_stats(on);
  });
  m.def("_make_memory_pool",
        [](nb::handle d) { return make_memory_pool(to_usable_device(d.ptr())); });
  m.def("_use_memory_pool", [](nb::handle d, int64_t number) {
    const Device on = to_usable_device(d.ptr());
    engine::flush(engine::Flush::MemoryStats);  // what is recorded belongs to the pool before
    return use_memory_pool(on, number);
  });
  m.def("_memory_pool_stats", [](nb::handle d, int64_t number) {
    const Device on = to_usable_device(d.ptr());
    engine::flush(engine::Flush::MemoryStats);
    return pool(memory_pool_stats(on, number));
  });
  m.def("_drop_memory_pool",
        [](nb::handle d, int64_t number) { drop_memory_pool(to_usable_device(d.ptr()), number); });
  m.def("_reset_accumulated_memory_stats",
        [](nb::handle d) { reset_accumulated_memory_stats(to_usable_device(d.ptr())); });
  m.def("_empty_cache", [](nb::handle d) {
    const Device on = to_usable_device(d.ptr());
    engine::flush(engine::Flush::MemoryStats);
    empty_cache(on);
  });
  m.def("_set_memory_limit",
        [](nb::handle d, int64_t bytes) { set_memory_limit(to_usable_device(d.ptr()), bytes); });
  m.def("_set_memory_fraction", [](nb::handle d, double fraction) {
    set_memory_fraction(to_usable_device(d.ptr()), fraction);
  });
  m.def("_set_allocator_settings", &set_allocator_settings);
  m.def("_memory_snapshot", [](nb::handle d) {
    const Device on = to_usable_device(d.ptr());
    engine::flush(engine::Flush::MemoryStats);
    return memory_snapshot(on);
  });
  m.def("_warmup_memory", [](nb::handle d, const std::vector<int64_t>& sizes) {
    warmup_memory(to_usable_device(d.ptr()), sizes);
  });

  m.def("_pinning_device", [] { return nb::steal(wrap(pinning_device(nullptr))); });
  m.def(
      "_pinned_empty",
      [](int64_t bytes, nb::handle d) { return pinned_empty(bytes, pinning_device(d.ptr())); },
      nb::arg("bytes"), nb::arg("device").none());
  m.def(
      "_pinned_stats",
      [](nb::handle device) {
        const PinnedStats s = pinned_stats(pinning_device(device.ptr()));
        nb::dict d;
        d["allocated"] = s.allocated;
        d["reserved"] = s.reserved;
        d["acquired"] = s.acquired;
        d["hits"] = s.hits;
        return d;
      },
      nb::arg("device").none());
  m.def(
      "_warmup_pinned",
      [](nb::handle d, const std::vector<int64_t>& sizes) {
        warmup_pinned(pinning_device(d.ptr()), sizes);
      },
      nb::arg("device").none(), nb::arg("sizes"));
  m.def(
      "_clear_pinned", [](nb::handle d) { clear_pinned(pinning_device(d.ptr())); },
      nb::arg("device").none());

  nb::class_<Stream>(m, "_Stream")
      .def("__init__", [](Stream* self, nb::handle d,
                          int priority) { new (self) Stream(to_usable_device(d.ptr()), priority); })
      .def_prop_ro("device", [](const Stream& s) { return nb::steal(wrap(s.device())); })
      .def_prop_ro("id", &Stream::id)
      .def_prop_ro("priority", &Stream::priority)
      .def("query", &Stream::query)
      .def("synchronize", &Stream::synchronize)
      .def("wait_event", &Stream::wait_event)
      .def("wait_stream", &Stream::wait_stream)
      .def("same", [](const Stream& a, const Stream& b) { return a == b; });
  nb::class_<Event>(m, "_Event")
      .def(nb::init<bool>())
      .def("record", nb::overload_cast<const Stream&>(&Event::record))
      .def("wait", nb::overload_cast<const Stream&>(&Event::wait, nb::const_))
      .def("query", &Event::query)
      .def("synchronize", &Event::synchronize)
      .def("elapsed_time", &Event::elapsed_time);
  m.def("_current_stream", [](nb::handle d) { return current_stream(to_usable_device(d.ptr())); });
  m.def("_default_stream", [](nb::handle d) { return default_stream(to_usable_device(d.ptr())); });
  m.def("_set_current_stream", &set_current_stream);
  m.def("_synchronize_device", [](nb::handle d) { synchronize(to_usable_device(d.ptr())); });
}

}  // namespace pyflame::python
