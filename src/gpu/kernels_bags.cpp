// Launcher of sums of bags of rows (kernels/bags.h).
#include "gpu/kernel.h"
#include "kernels/bags_args.h"
#include "table/kernels/bags.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

void bag_sums(const KernelArgs& a) {
  constexpr auto at = tensors<BagSums>;
  pf_bags q{};
  q.out = a.data(at.out);
  q.weight = a.data(at.weight);
  q.factors = a.has(at.factors) ? a.data(at.factors) : nullptr;
  q.index = static_cast<const pf_i64*>(a.data(at.index));
  q.ends = static_cast<const pf_i64*>(a.data(at.ends));
  q.bags = a.tensor(at.out).shape[0];
  q.width = a.tensor(at.out).shape[1];
  q.rows = a.tensor(at.weight).shape[0];
  q.count = a.tensor(at.index).shape[0];
  q.skip = a.i(numbers<BagSums>.skip);
  q.error = a.error();
  const Function f = a.compile(
      "bags.h", Defines().type("PF_T", a.dtype(at.out)).text("PF_INDEX", "pf_u64"), "pf_bag_sums");
  a.launch(f, blocks_for(q.bags * q.width, 256, 1 << 16), 256, 0, q);
}

}  // namespace

PF_GPU_KERNEL(BagSums::kInfo, bag_sums)

}  // namespace pyflame::gpu
