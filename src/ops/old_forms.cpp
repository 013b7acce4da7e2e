// Orders of arguments that older programs use: factors stand before the tensors that they multiply.
// Each is a row that hands its arguments, in today's order, to the operation of the same name.
#include <algorithm>
#include <atomic>
#include <memory>

#include "ops/registry.h"

namespace pyflame::ops {
namespace {

constexpr unsigned kMethods = kMethod | kOld, kFunctions = kFunction | kOld;

// Rows are only added, so a number found once stays.
class Todays {
 public:
  explicit Todays(std::string name) : name_(std::move(name)) {}
  const Op& operator()() {
    const std::deque<Op>& rows = table();
    size_t at = at_.load(std::memory_order_relaxed);
    if (at == kUnknown) {
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const Op& op) {
        return op.name == name_ && !(op.where & kOld);
      });
      PF_CHECK(row != rows.end(), NotSupportedError, name_,
               "got an old form of an operation without one of today; expected its row; add it");
      at = static_cast<size_t>(row - rows.begin());
      at_.store(at, std::memory_order_relaxed);
    }
    return rows[at];
  }

 private:
  static constexpr size_t kUnknown = ~size_t{0};
  std::string name_;
  std::atomic<size_t> at_{kUnknown};
};

// `order` says which of the old arguments each of today's is; -1: a factor of 1.
void old_form(const std::string& name, const std::string& params, std::vector<int> order,
              unsigned where) {
  add(Op{name, name + "(" + params + ") -> Tensor", "", "old forms", where, true,
         [now_called = std::make_shared<Todays>(name), order](std::vector<Value>& v) -> Value {
           std::vector<Value> now;
           now.reserve(order.size());
           for (int i : order)
             now.push_back(i < 0 ? Value(Scalar(1)) : std::move(v[static_cast<size_t>(i)]));
           return (*now_called)().call(now);
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
