// What is before and after the products of convolutions (conv_args.h): weights packed, so that k is
// their fastest dimension, and the sums of shares, added in their order.
//   -DPF_T=         dtype
//   -DPF_OF_WEIGHT= 1: m counts taps, 0: pixels
//   and what conv_places.h takes
#include "axes.h"
#include "conv_places.h"
#include "multiply_add.h"
#include "rows.h"

typedef PF_T T;
typedef pf_compute<T> C;

PF_KERNEL(pf_conv_finish, 256)(pf_conv q) {
  const pf_i64 all = q.groups * q.n * q.m,
               e = static_cast<pf_i64>(pf_block()) * pf_threads() + pf_thread();
  if (e >= all) return;
  const C* from = static_cast<const C*>(q.partial) + e;
  C sum = from[0];
  for (pf_i64 s = 1; s < q.shares; ++s) sum = pf_sum(sum, from[s * all]);
  const pf_i64 line = pf_quotient(e, q.m), group = pf_quotient(line, q.n);
  const pf_i64 n = line - group * q.n;
  const pf_number at = static_cast<pf_number>(e - line * q.m);
  if (PF_OF_WEIGHT && PF_LAST &&
      at % static_cast<pf_number>(q.channels) >= static_cast<pf_number>(q.kept))
    return;
  const pf_spot m = PF_OF_WEIGHT ? pf_tap(q, at) : pf_pixel(q, at);
  if (q.bias) sum = pf_sum(sum, pf_get_one<T>(q.bias, line));
  pf_put_one<T>(q.out, group * q.out_group + m.other + n * q.out_n, sum);
}

// [n][k]
PF_KERNEL(pf_conv_pack_lines, 256)(pf_conv q, void* packed) {
  const pf_i64 i = static_cast<pf_i64>(pf_block()) * pf_threads() + pf_thread();
  const pf_i64 n = pf_quotient(i, q.k);
  if (n >= q.n) return;
  const pf_number k = static_cast<pf_number>(i - n * q.k);
  const bool kept = k % static_cast<pf_number>(q.channels) < static_cast<pf_number>(q.kept);
  pf_put_one<T>(packed, i,
                kept ? pf_get_one<T>(q.plain, n * q.plain_n + pf_tap(q, k).other) : C(0));
}
