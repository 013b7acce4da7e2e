// pf.kernel's lower half: pyflame/_kernel.py has checked the arguments.
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstring>

#include "common.h"
#include "engine/user_kernel.h"

namespace pyflame::python {

void init_user_kernel(nb::module_& m) {
  using engine::UserArgument;
  using engine::UserKernel;
  nb::class_<UserKernel>(m, "_UserKernel")
      .def(nb::init<std::string, std::string, std::string>())
      .def("compile",
           [](UserKernel& k, nb::handle device) { k.compile(to_usable_device(device.ptr())); })
      .def("target",
           [](const UserKernel& k, const std::vector<Tensor>& written,
              const std::vector<Tensor>& read) { return nb::steal(wrap(k.target(written, read))); })
      // Each argument is (tensor, whether it is written) or bytes.
      .def("launch", [](UserKernel& k, nb::handle device, std::array<uint32_t, 3> grid,
                        std::array<uint32_t, 3> block, uint32_t shared, nb::list args) {
        std::vector<UserArgument> list(args.size());
        for (size_t i = 0; i < list.size(); ++i) {
          nb::handle a = args[i];
          if (nb::isinstance<nb::bytes>(a)) {
            nb::bytes b = nb::borrow<nb::bytes>(a);
            std::memset(list[i].bytes, 0, sizeof list[i].bytes);
            std::memcpy(list[i].bytes, b.c_str(), std::min(b.size(), sizeof list[i].bytes));
          } else {
            nb::tuple t = nb::borrow<nb::tuple>(a);
            list[i].tensor = nb::cast<Tensor>(t[0]);
            list[i].written = nb::cast<bool>(t[1]);
          }
        }
        k.launch(to_device(device.ptr()), grid.data(), block.data(), shared, std::move(list));
      });
}

}  // namespace pyflame::python
