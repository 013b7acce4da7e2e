// Sorting (key, position) pairs, and running sums: what kernels with an order are built from.
#pragma once

#include "gpu/move.h"

namespace pyflame::gpu {

// Rows of n pairs each; a second pair of arrays is scratch.
struct Pairs {
  int64_t rows, n;
  pf_u64* keys;
  pf_i64* at;
  pf_u64* spare_keys;
  pf_i64* spare_at;
};
Pairs make_pairs(const KernelArgs&, int64_t rows, int64_t n);
// Sorts by the bits [low, high) of the keys, equal ones in their order; keys and at are the result.
void sort_pairs(const KernelArgs&, Pairs&, int low, int high);

// values[i] = values[0] + ... + values[i]. `total`, when given, is an address on the device.
void running_sum(const KernelArgs&, int64_t* values, int64_t n, int64_t* total = nullptr);
// Tile sums become the places of the tiles' first elements.
void running_places(const KernelArgs&, int64_t* sums, int64_t tiles, int64_t* total = nullptr);
inline constexpr int64_t kScanTile = 1024;  // of kernels/select.h
inline constexpr int64_t kSmallRow = 2048;  // of kernels/small_sort.h: what one block sorts

// The tensor without dimension `dim`.
pf_tensor without(const pf_tensor& t, int dim);

}  // namespace pyflame::gpu
