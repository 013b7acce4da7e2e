// Files as memory that Python looks at: NumPy's arrays, tensors of from_file.
#include "core/mapped.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <utility>

#include "common.h"

namespace pyflame::python {
namespace {

// The first bytes of a file, by the buffer protocol.
struct MappedBytes {
  MappedBytes(int fd, size_t size, std::string path, const char* op, MappedFile::Writes writes)
      : file(fd, size, std::move(path), op, writes), readonly(writes == MappedFile::Writes::None) {}
  MappedFile file;
  bool readonly;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  if (!nb::inst_ready(self)) {
    PyErr_SetString(PyExc_BufferError, "pf: got an object without a file inside");
    return -1;
  }
  const auto* m = nb::inst_ptr<MappedBytes>(self);
  return PyBuffer_FillInfo(view, self, m->file.data(), static_cast<Py_ssize_t>(m->file.size()),
                           m->readonly, flags);
}

MappedFile::Writes writes_of(const std::string& text) {
  return text == "none"   ? MappedFile::Writes::None
         : text == "file" ? MappedFile::Writes::ToFile
                          : MappedFile::Writes::ToCopies;
}

}  // namespace

void bind_mapped(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)},
                                {0, nullptr}};
  nb::class_<MappedBytes>(m, "_MappedBytes", nb::type_slots(slots))
      // `op` is what errors begin with; `writes` is "copies", "none" or "file".
      .def(
          "__init__",
          [](MappedBytes* self, int fd, size_t size, std::string path, const std::string& op,
             const std::string& writes) {
            new (self) MappedBytes(fd, size, std::move(path), op.c_str(), writes_of(writes));
          },
          nb::arg("fd"), nb::arg("size"), nb::arg("path"), nb::arg("op"), nb::arg("writes"))
      // After reading: FileError when pages went away meanwhile.
      .def(
          "check",
          [](const MappedBytes& b, const std::string& op) {
            check_mapped(b.file.data(), op.c_str());
          },
          nb::arg("op"));
}

}  // namespace pyflame::python
