// Pointwise programs of every kind, for compiling and running device text: each row of the table
// in each of its dtypes, its gradients, all conversions, and random groups over random layouts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/device_text.h"
#include "pyflame/backend.h"
#include "pyflame/dtype.h"

namespace pyflame::testing {

struct DeviceCase {
  // Memory of an operand: `extent` elements, of which the first is at `offset`.
  struct Operand {
    DType dtype;
    std::vector<int64_t> strides;
    int64_t offset = 0, extent = 0;
  };
  std::string name;
  std::vector<pf_node> nodes;
  std::vector<pf_scalar> scalars;
  std::vector<int64_t> shape;
  std::vector<Operand> inputs, outputs;
  // How far the CPU's result may be, in units of the last place (of 1/64 at least, since sums
  // cancel); 0: the same bits.
  double ulps = 0;
  double low = -4, high = 4;  // where random operands lie

  int64_t numel() const;
  bool contiguous(const Operand&) const;
  // Calls fn(const pf_program&), valid during the call.
  template <class F>
  void with_program(F&& fn) const {
    std::vector<uint8_t> in, out;
    for (const Operand& o : inputs) in.push_back(static_cast<uint8_t>(o.dtype));
    for (const Operand& o : outputs) out.push_back(static_cast<uint8_t>(o.dtype));
    const pf_program p{static_cast<uint32_t>(nodes.size()),
                       static_cast<uint32_t>(in.size()),
                       static_cast<uint32_t>(out.size()),
                       static_cast<uint32_t>(scalars.size()),
                       nodes.data(),
                       in.data(),
                       out.data()};
    fn(p);
  }
  // Calls fn(const pf_launch&) with the operands at these addresses.
  template <class F>
  void with_launch(const std::vector<void*>& at, F&& fn) const {
    std::vector<pf_operand> all;
    for (size_t k = 0; k < inputs.size() + outputs.size(); ++k) {
      const Operand& o = k < inputs.size() ? inputs[k] : outputs[k - inputs.size()];
      all.push_back({at[k], o.strides.data(), contiguous(o)});
    }
    const pf_launch l{static_cast<int32_t>(shape.size()), shape.data(),  numel(), all.data(),
                      all.data() + inputs.size(),         scalars.data()};
    fn(l);
  }
};

// Every row in every dtype that its rule allows.
std::vector<DeviceCase> row_cases();
// The gradients of differentiable rows in the float dtypes, those that are zero left out.
std::vector<DeviceCase> gradient_cases();
std::vector<DeviceCase> cast_cases();
// Groups as models have them, of sizes that a GPU is made for: the kinds of launches one by one.
std::vector<DeviceCase> model_cases();
// A group of up to a dozen nodes over operands of any layout.
DeviceCase random_case(uint64_t seed);

// The launch of one case with operands at well aligned addresses.
gpu::LaunchClass device_case_class(const DeviceCase&);
// Its text, in a namespace of its own so that
// many can share a translation unit; the entry is `entry`.
std::string device_case_text(const DeviceCase&, const std::string& entry);
// The same as the epilogue of a kernel that has nothing else; empty where it cannot be one.
std::string device_epilogue_text(const DeviceCase&, const std::string& entry);

}  // namespace pyflame::testing
