// What the launchers of our own matrix products share (product_own.cpp, product_hopper.cpp).
#pragma once

#include "gpu/product.h"
#include "kernels/matmul_args.h"

namespace pyflame::gpu {

pf_matmul_args arguments(const Product&, int tile_m, int tile_n);

inline int64_t blocks(const Product& p, int tile_m, int tile_n) {
  return ceil_div(p.m, tile_m) * ceil_div(p.n, tile_n) * p.batches();
}
// Whether lines that are so far apart can be read 16 bytes at once.
inline bool aligned(const void* at, int64_t stride, int item) {
  return reinterpret_cast<uintptr_t>(at) % 16 == 0 && stride * item % 16 == 0;
}
// So many results at a time go to what follows the product in its launch.
inline int together(const Product& p) {
  return itemsize(p.out) == 2 && p.n % 8 == 0 ? 8 : 1;
}

// One more tile than own_product() has: that of product_and_after().
inline constexpr int kAsideTile = kOwnTiles;

// Whether kernels/matmul_hopper.h takes the sizes and results of a product on this device, wherever
// its operands lie.
bool maps_usable(const Traits&, const Product&);
// float32 at the speed of matrix units, by products of three parts of each number; what does not
// fit is for ordinary arithmetic, which the device decides. False where that is no gain.
bool product_of_parts(const KernelArgs&, const Product&);
// By ordinary arithmetic; `range`: only where numbers have no parts (kernels/float_parts_fit.h).
bool arithmetic_product(const KernelArgs&, const Product&, int tile, const pf_u32* range = nullptr);
// By kernels/matmul_hopper.h, for operands along k or across; false where it is no product for
// that. `tile`: as of own_product().
bool product_by_maps(const KernelArgs&, const Product&, int tile, bool a_along, bool b_along,
                     bool tf32);
// The same of a convolution whose windows are operand a; b is along k. `range`: both are three
// planes of bfloat16.
bool windows_by_maps(const KernelArgs&, const Product&, const pf_conv&, int inverse, bool tf32,
                     const pf_u32* range = nullptr);

}  // namespace pyflame::gpu
