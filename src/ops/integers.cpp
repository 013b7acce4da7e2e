// Divisors of integers that two have in common.
#include "ops/building_blocks.h"
#include "ops/functions.h"
#include "ops/hidden.h"
#include "ops/record.h"
#include "ops/registry.h"
#include "ops/replaced.h"
#include "ops/rows.h"

namespace pyflame {
namespace {

// By Euclid. Where the host need not wait it asks now and then whether all have come to an end.
Tensor divisor(const Tensor& a, const Tensor& b, const char* op) {
  ops::check_defined(a, op);
  ops::check_defined(b, op, "other");
  for (const Tensor* t : {&a, &b})
    PF_CHECK(is_integral((*t)->dtype, false), DTypeError, op, "got dtype ", (*t)->dtype,
             "; expected integers; convert with .to(dtype)");
  const engine::Operand both[] = {a, b};
  const DType type = ops::result_type(both);
  const IntList shape = broadcast_shapes(a->shape, b->shape, op).vec();
  Tensor x = expand(abs(to(a, type)), shape), y = expand(abs(to(b, type)), shape);
  // Of neighbours among Fibonacci's numbers each step makes the pair before.
  const int most = info(type).bits * 3 / 2;
  for (int i = 0; i < most; ++i) {
    const Tensor end = eq(y, 0);
    if (i % 8 == 7 && y->storage->device.is_cpu() && all(ops::all_samples(end)).item<bool>()) break;
    const Tensor rest = where(end, 0, remainder(x, where(end, 1, y)));
    x = where(end, x, y);
    y = rest;
  }
  return abs(x);
}

Tensor gcd(const Tensor& a, const Tensor& b) {
  return divisor(a, b, "gcd");
}
Tensor lcm(const Tensor& a, const Tensor& b) {
  const Tensor both = divisor(a, b, "lcm");
  return abs(mul(floor_divide(abs(to(a, both->dtype)), where(eq(both, 0), 1, both)), b));
}
template <Tensor (*F)(const Tensor&, const Tensor&)>
Tensor written(Tensor t, const Tensor& other, const char* op) {
  return ops::replaced(t, op, [&](const Tensor& x) { return F(x, other); });
}

const ops::Family kIntegers("math", [](ops::Family& f) {
  f.op(&gcd, {"gcd(Tensor input, Tensor other) -> Tensor",
              "The greatest common divisor of integers, not below 0.",
              ops::kFunction | ops::kMethod, false});
  f.op(&lcm, {"lcm(Tensor input, Tensor other) -> Tensor",
              "The least common multiple of integers, not below 0.", ops::kFunction | ops::kMethod,
              false});
  f.op(+[](Tensor t, const Tensor& other) { return written<&gcd>(t, other, "gcd_"); },
       {"gcd_(Tensor input, Tensor other) -> Tensor", "In-place gcd.",
        ops::kFunction | ops::kMethod, false});
  f.op(+[](Tensor t, const Tensor& other) { return written<&lcm>(t, other, "lcm_"); },
       {"lcm_(Tensor input, Tensor other) -> Tensor", "In-place lcm.",
        ops::kFunction | ops::kMethod, false});
});

}  // namespace
}  // namespace pyflame
