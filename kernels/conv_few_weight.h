// The gradient by the weight of a convolution of up to four channels in two dimensions
// (conv_few.h), for 16-bit floats: sums over pixels of the gradient times what the windows see.
// Blocks stay: each adds up its share of the tiles, ROWS lines of WIDE pixels, and writes the sums
// once.
//   as in conv_few_plan.h, PF_N = 64, -DSPLIT= and PF_THREADS as the kernel's file says
#include "conv_few_plan.h"

struct pf_few_tile {
  pf_i64 image;
  pf_i32 x, y;

  PF_METHOD void start(const pf_few& q, pf_i64 tile) {
    const pf_u32 of_image = static_cast<pf_u32>(q.tiles_x) * static_cast<pf_u32>(q.tiles_y);
    image = tile / of_image;
    const pf_u32 rest = static_cast<pf_u32>(tile - image * of_image),
                 row = rest / static_cast<pf_u32>(q.tiles_x);
    x = static_cast<pf_i32>(rest - row * static_cast<pf_u32>(q.tiles_x)) * WIDE;
    y = static_cast<pf_i32>(row) * ROWS;
  }
};

#ifdef PF_MMA
#include "conv_few_weight_mma.h"
#else
#include "conv_few_weight_units.h"
#endif

// The sums of all shares, added in a fixed order: eight threads an element.
PF_KERNEL(pf_conv_few_weight_finish, 256)(const pf_few q, const pf_i32 shares) {
  PF_SHARED float sums[8][33];
  constexpr int taps = PF_HIGH * PF_WIDE * PF_C;
  const int x = static_cast<int>(pf_thread()) % 32, y = static_cast<int>(pf_thread()) / 32;
  const pf_i32 all = q.outs * taps, e = static_cast<pf_i32>(pf_block()) * 32 + x;
  const float* from = static_cast<const float*>(q.packed) + e;
  float sum = 0.0f;
  if (e < all) {
    PF_FEW_SHARES for (int s = y; s < shares; s += 8) sum += from[static_cast<pf_i64>(s) * all];
  }
  sums[y][x] = sum;
  pf_barrier();
  if (y != 0 || e >= all) return;
  PF_UNROLL for (int i = 1; i < 8; ++i) sum += sums[i][x];
  const pf_i32 n = e / taps, at = e - n * taps, pixel = at / PF_C;
  const float rounded[1] = {pf_dtype<PF_T>::round(sum)};
  pf_store<PF_T, 1, false>(static_cast<char*>(const_cast<void*>(q.weight)) +
                               (n * q.w_out + at % PF_C * q.w_in + pixel / PF_WIDE * q.w_line +
                                pixel % PF_WIDE * q.w_pixel) *
                                   2,
                           rounded);
}
