// Adds what blocks of norm_backward.h left, in their order: 32 columns a block, 32 stretches at a
// time. The first `tiles` blocks make dw, the others db.
//
//   -DPF_C=  float or double    -DPF_W=  dtype of the sums
#include "rows.h"

#ifdef PF_C  // else within norm_backward.h
typedef PF_C C;
typedef PF_W W;
#endif

#define PF_SIDE 32

// partial: [stretches][stride]; dw is [0, n) of a line, db what follows.
PF_KERNEL(norm_params, PF_SIDE* PF_SIDE)
(const C* partial, void* dw, void* db, pf_i64 n, pf_i64 stride, pf_i64 stretches, pf_i64 tiles) {
  PF_SHARED C room[PF_SIDE][PF_SIDE + 1];
  const pf_u32 x = pf_thread() % PF_SIDE, y = pf_thread() / PF_SIDE;
  const bool second = pf_block() >= tiles;
  void* out = second ? db : dw;
  if (!out) return;
  if (second) partial += n;
  const pf_i64 column = (pf_block() - (second ? tiles : 0)) * PF_SIDE + x;
  C sum = C(0);
  if (column < n) {
    pf_i64 k = y;
    for (; k + 3 * PF_SIDE < stretches; k += 4 * PF_SIDE) {
      C v[4];
      PF_UNROLL for (int u = 0; u < 4; ++u) v[u] = partial[(k + u * PF_SIDE) * stride + column];
      sum += (v[0] + v[1]) + (v[2] + v[3]);
    }
    for (; k < stretches; k += PF_SIDE) sum += partial[k * stride + column];
  }
  room[y][x] = sum;
  for (pf_u32 h = PF_SIDE / 2; h >= 1; h /= 2) {
    pf_barrier();
    if (y < h) room[y][x] = room[y][x] + room[y + h][x];
  }
  if (y == 0 && column < n) pf_put_one<W>(out, column, static_cast<pf_compute<W>>(room[0][x]));
}
