// Sums of bags of rows (src/table/kernels/bags.h): a thread makes one element of a sum, of rows in
// their order; neighbours are neighbours in its row.
//   -DPF_T=  dtype
#include "bags_args.h"
#include "index_error.h"
#include "space.h"

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
