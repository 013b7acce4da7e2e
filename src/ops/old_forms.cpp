// Orders of arguments that older programs use: factors stand before the tensors that they multiply.
// Each is a row that hands its arguments, in today's order, to the operation of the same name.
#include <algorithm>

#include "ops/registry.h"

namespace pyflame::ops {
namespace {

constexpr unsigned kMethods = kMethod | kOld, kFunctions = kFunction | kOld;

const Op& todays(const std::string& name) {
  const std::vector<Op>& rows = table();
  return *std::find_if(rows.begin(), rows.end(),
                       [&](const Op& op) { return op.name == name && !(op.where & kOld); });
}

// `order` says which of the old arguments each of today's is; -1: a factor of 1.
void old_form(const std::string& name, const std::string& params, std::vector<int> order,
              unsigned where) {
  add(Op{name, name + "(" + params + ") -> Tensor", "", "old forms", where, true,
         [name, order](std::vector<Value>& v) -> Value {
           std::vector<Value> now;
           now.reserve(order.size());
           for (int i : order)
             now.push_back(i < 0 ? Value(Scalar(1)) : std::move(v[static_cast<size_t>(i)]));
           return todays(name).call(now);
         }});
}

const bool registered = [] {
  for (const std::string name : {"add", "sub"}) {
    old_form(name, "Tensor input, Scalar alpha, Tensor other", {0, 2, 1}, kFunctions | kMethods);
    old_form(name + "_", "Tensor input, Scalar alpha, Tensor other", {0, 2, 1}, kMethods);
  }
  for (const std::string name : {"addcmul", "addcdiv"}) {
    const char* params = "Tensor input, Scalar value, Tensor tensor1, Tensor tensor2";
    old_form(name, params, {0, 2, 3, 1}, kFunctions | kMethods);
    old_form(name + "_", params, {0, 2, 3, 1}, kMethods);
  }
  static constexpr const char* kProducts[][2] = {{"addmm", ", Tensor mat1, Tensor mat2"},
                                                 {"addmv", ", Tensor mat, Tensor vec"},
                                                 {"addr", ", Tensor vec1, Tensor vec2"},
                                                 {"baddbmm", ", Tensor batch1, Tensor batch2"},
                                                 {"addbmm", ", Tensor batch1, Tensor batch2"}};
  for (const auto& [op, tensors] : kProducts) {
    const std::string name = op, pair = tensors;
    old_form(name, "Scalar beta, Tensor input, Scalar alpha" + pair, {1, 3, 4, 0, 2}, kFunctions);
    old_form(name, "Scalar beta, Tensor input" + pair, {1, 2, 3, 0, -1}, kFunctions);
    for (const char* suffix : {"", "_"}) {
      old_form(name + suffix, "Tensor input, Scalar beta, Scalar alpha" + pair, {0, 3, 4, 1, 2},
               kMethods);
      old_form(name + suffix, "Tensor input, Scalar beta" + pair, {0, 2, 3, 1, -1}, kMethods);
    }
  }
  return true;
}();

}  // namespace
}  // namespace pyflame::ops
