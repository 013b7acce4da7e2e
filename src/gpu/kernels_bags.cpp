// Sums of bags of rows (table/kernels/bags.h): a thread makes one element of a sum, of rows in
// their order; neighbours are neighbours in its row.
//   -DPF_T=  dtype
#include "kernels/error_args.h"
#include "kernels/integers.h"

struct pf_bags {
  void* out;
  const void *weight, *factors;  // the latter or null
  const pf_i64 *index, *ends;
  pf_i64 bags, width, rows, count, skip;
  pf_error error;
};
static_assert(sizeof(pf_bags) == 112, "as hosts fill it");

#ifdef PF_DEVICE_TEXT
#include "kernels/index_error.h"
#include "kernels/space.h"

typedef PF_T T;
typedef pf_compute<T> C;

PF_DEVICE pf_i64 pf_place_of(pf_i64 i, pf_i64 low, pf_i64 high) {
  return i < low ? low : i > high ? high : i;
}

PF_KERNEL(pf_bag_sums, 256)(const pf_bags q) {
  const pf_u64 all = static_cast<pf_u64>(q.bags) * static_cast<pf_u64>(q.width);
  for (pf_u64 e = pf_first_item(); e < all; e += pf_item_step()) {
    const pf_i64 b = static_cast<pf_i64>(e) / q.width, c = static_cast<pf_i64>(e) % q.width;
    const pf_i64 first = pf_place_of(b > 0 ? q.ends[b - 1] : 0, 0, q.count);
    const pf_i64 last = pf_place_of(q.ends[b], first, q.count);
    C sum = C(0);
    for (pf_i64 i = first; i < last; ++i) {
      const pf_i64 row = q.index[i];
      if (row < 0 || row >= q.rows) {
        pf_bad_index(q.error, row, 0, q.rows);
        continue;
      }
      if (row == q.skip) continue;
      C x = pf_get<T>(q.weight, row * q.width + c);
      if (q.factors) x = x * pf_get<T>(q.factors, i);
      sum = sum + x;
    }
    pf_put<T>(q.out, static_cast<pf_i64>(e), sum);
  }
}

#else  // launchers
#include "gpu/kernel.h"
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
  const Function f =
      a.compile("kernels_bags.cpp",
                Defines().type("PF_T", a.dtype(at.out)).text("PF_INDEX", "pf_u64"), "pf_bag_sums");
  a.launch(f, blocks_for(q.bags * q.width, 256, 1 << 16), 256, 0, q);
}

}  // namespace

PF_GPU_KERNEL(BagSums::kInfo, bag_sums)

}  // namespace pyflame::gpu
#endif
