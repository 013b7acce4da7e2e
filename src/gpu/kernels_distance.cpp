// Distances between all pairs of rows and their gradient, for the norms 0, 1, 2 and inf.
// Differences are never in memory. Sums are added in the CPU's order (src/cpu/distance.cpp), so
// bits agree.
//   -DPF_T=     dtype
//   -DPF_NORM=  0, 1, 2, or 3 for inf
//   -DPF_TRIANGLE=1: of one operand's pairs only those with j > i, one row of them after the other
#include "kernels/integers.h"

// Strides of the batch, the rows and the columns of a matrix of pairs.
struct pf_pair_steps {
  pf_i64 batch, row, column;
};
struct pf_distances {
  const void *x1, *x2;  // [batch, rows, m], [batch, n, m], contiguous
  const void *grad, *y;
  void* out;  // distances, contiguous; or the gradient of x1
  pf_i64 batch, rows, n, m;
  pf_pair_steps at_grad, at_y;
};
static_assert(sizeof(pf_distances) == 120, "as hosts fill it");

#ifdef PF_DEVICE_TEXT
#include "kernels/math.h"
#include "kernels/space.h"

typedef PF_T T;
typedef pf_compute<T> C;

enum { BLOCK = 256, TILE = 64, DEPTH = 16, CHUNK = 256, EACH = 4 };  // EACH x EACH results a thread

PF_DEVICE pf_i64 pf_pair_at(const pf_pair_steps& p, pf_i64 n, pf_i64 b, pf_i64 i, pf_i64 j) {
  if (!PF_TRIANGLE) return b * p.batch + i * p.row + j * p.column;
  const pf_i64 low = i < j ? i : j, high = i < j ? j : i;
  return (low * (2 * n - low - 1) / 2 + high - low - 1) * p.column;
}
PF_DEVICE C pf_larger(C a, C b) {  // NaN if either is
  return a != a ? a : b != b ? b : a > b ? a : b;
}
PF_DEVICE C pf_add_term(C sum, C d) {
  if (PF_NORM == 0) return sum + (d != C(0) ? C(1) : C(0));
  if (PF_NORM == 1) return sum + pf_abs(d);
  if (PF_NORM == 2) return pf_fma(d, d, sum);
  return pf_larger(sum, pf_abs(d));
}
PF_DEVICE C pf_join_sums(C a, C b) {
  return PF_NORM == 3 ? pf_larger(a, b) : a + b;
}

// A block makes TILE x TILE distances.
PF_KERNEL(pf_distances_of, BLOCK)(pf_distances q) {
  PF_SHARED C left[DEPTH][TILE + 1];
  PF_SHARED C right[DEPTH][TILE + 1];
  const pf_i64 across = (q.n + TILE - 1) / TILE, down = (q.rows + TILE - 1) / TILE;
  const pf_i64 block = pf_block(), b = block / (across * down);
  const pf_i64 i0 = block / across % down * TILE, j0 = block % across * TILE;
  if (PF_TRIANGLE && j0 + TILE <= i0) return;
  const int t = static_cast<int>(pf_thread()), ti = t / 16, tj = t % 16;
  C total[EACH][EACH], sum[EACH][EACH];
  PF_UNROLL for (int r = 0; r < EACH; ++r) PF_UNROLL for (int c = 0; c < EACH; ++c) {
    total[r][c] = C(0);
    sum[r][c] = C(0);
  }
  for (pf_i64 k0 = 0; k0 < q.m; k0 += DEPTH) {
    for (int e = t; e < DEPTH * TILE; e += BLOCK) {
      const int k = e % DEPTH, row = e / DEPTH;
      const bool inside = k0 + k < q.m;
      left[k][row] = inside && i0 + row < q.rows
                         ? pf_get<T>(q.x1, (b * q.rows + i0 + row) * q.m + k0 + k)
                         : C(0);
      right[k][row] =
          inside && j0 + row < q.n ? pf_get<T>(q.x2, (b * q.n + j0 + row) * q.m + k0 + k) : C(0);
    }
    pf_barrier();
    const int depth = q.m - k0 < DEPTH ? static_cast<int>(q.m - k0) : DEPTH;
    for (int k = 0; k < depth; ++k)
      PF_UNROLL for (int r = 0; r < EACH; ++r) PF_UNROLL for (int c = 0; c < EACH; ++c) sum[r][c] =
          pf_add_term(sum[r][c], left[k][ti + 16 * r] - right[k][tj + 16 * c]);
    if ((k0 + DEPTH) % CHUNK == 0 || k0 + DEPTH >= q.m) {
      PF_UNROLL for (int r = 0; r < EACH; ++r) PF_UNROLL for (int c = 0; c < EACH; ++c) {
        total[r][c] = pf_join_sums(total[r][c], sum[r][c]);
        sum[r][c] = C(0);
      }
    }
    pf_barrier();
  }
  PF_UNROLL for (int r = 0; r < EACH; ++r) PF_UNROLL for (int c = 0; c < EACH; ++c) {
    const pf_i64 i = i0 + ti + 16 * r, j = j0 + tj + 16 * c;
    if (i >= q.rows || j >= q.n || (PF_TRIANGLE && j <= i)) continue;
    const C d = PF_NORM == 2 ? pf_sqrt(total[r][c]) : total[r][c];
    pf_put<T>(q.out, pf_pair_at(q.at_y, q.n, b, i, j), d);
  }
}

PF_DEVICE C pf_add_slope(const pf_distances& q, C sum, pf_i64 b, pf_i64 i, pf_i64 j, C mine,
                         pf_i64 k) {
  if (PF_TRIANGLE && i == j) return sum;
  const C grad = pf_get<T>(q.grad, pf_pair_at(q.at_grad, q.n, b, i, j));
  const C far = pf_get<T>(q.y, pf_pair_at(q.at_y, q.n, b, i, j));
  const C d = mine - pf_get<T>(q.x2, (b * q.n + j) * q.m + k);
  if (PF_NORM == 2) return pf_fma(far == C(0) ? C(0) : grad / far, d, sum);
  const C term = d > C(0) ? grad : d < C(0) ? C(0) - grad : C(0) * d;
  return sum + (PF_NORM == 3 && pf_abs(d) != far ? C(0) : term);
}
// A thread makes one element of x1's gradient; neighbours are neighbours in its row.
PF_KERNEL(pf_distances_slopes, BLOCK)(pf_distances q) {
  const pf_u64 all = static_cast<pf_u64>(q.batch * q.rows * q.m);
  for (pf_u64 e = pf_first_item(); e < all; e += pf_item_step()) {
    const pf_i64 at = static_cast<pf_i64>(e), k = at % q.m, i = at / q.m % q.rows;
    const pf_i64 b = at / (q.m * q.rows);
    const C mine = pf_get<T>(q.x1, at);
    C total = C(0);
    for (pf_i64 j0 = 0; j0 < q.n; j0 += CHUNK) {
      const pf_i64 end = q.n - j0 < CHUNK ? q.n : j0 + CHUNK;
      C even = C(0), odd = C(0);
      for (pf_i64 j = j0; j < end; j += 2) {
        even = pf_add_slope(q, even, b, i, j, mine, k);
        if (j + 1 < end) odd = pf_add_slope(q, odd, b, i, j + 1, mine, k);
      }
      total = total + (even + odd);
    }
    pf_put<T>(q.out, at, total);
  }
}

#else  // launchers
#include <cmath>

#include "gpu/kernel.h"
#include "table/kernels/distance.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int kTile = 64;

pf_pair_steps steps_of(const pf_tensor& t, bool triangle) {
  if (triangle) return {0, 0, t.strides[0]};
  return {t.strides[0], t.strides[1], t.strides[2]};
}
template <class Positions>
pf_distances operands(const KernelArgs& a, const Positions& at) {
  const pf_tensor &x1 = a.tensor(at.x1), &x2 = a.tensor(at.x2);
  return {x1.data,     x2.data,     nullptr,     nullptr, nullptr, x1.shape[0],
          x1.shape[1], x2.shape[1], x1.shape[2], {},      {}};
}
constexpr auto kNumber = numbers<Distances>;  // of both
bool triangle(const KernelArgs& a) {
  return a.i(kNumber.triangle) != 0;
}
Function text(const KernelArgs& a, DType t, const char* entry) {
  const double p = a.f(kNumber.p);
  return a.compile("kernels_distance.cpp",
                   Defines()
                       .type("PF_T", t)
                       .value("PF_NORM", std::isinf(p) ? 3 : static_cast<int64_t>(p))
                       .value("PF_TRIANGLE", triangle(a))
                       .text("PF_INDEX", "pf_u64"),
                   entry);
}

void distances(const KernelArgs& a) {
  constexpr auto at = tensors<Distances>;
  pf_distances q = operands(a, at);
  q.out = a.data(at.out);
  q.at_y = steps_of(a.tensor(at.out), triangle(a));
  a.launch(text(a, a.dtype(at.x1), "pf_distances_of"),
           q.batch * ceil_div(q.rows, kTile) * ceil_div(q.n, kTile), kBlock, 0, q);
}
void distances_backward(const KernelArgs& a) {
  constexpr auto at = tensors<DistancesBackward>;
  pf_distances q = operands(a, at);
  q.out = a.data(at.dx);
  q.grad = a.data(at.dout);
  q.y = a.data(at.out);
  q.at_grad = steps_of(a.tensor(at.dout), triangle(a));
  q.at_y = steps_of(a.tensor(at.out), triangle(a));
  a.launch(text(a, a.dtype(at.x1), "pf_distances_slopes"),
           blocks_for(q.batch * q.rows * q.m, kBlock, 1 << 16), kBlock, 0, q);
}

}  // namespace

PF_GPU_KERNEL(Distances::kInfo, distances)
PF_GPU_KERNEL(DistancesBackward::kInfo, distances_backward)

}  // namespace pyflame::gpu
#endif
