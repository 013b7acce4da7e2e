// How tiles of operands lie in shared memory on NVIDIA: in strips of 128-byte lines, along k a line
// of TILE_K elements for each row of the tile; otherwise neighbours for each k, strip after strip.
// The chunks of a line are permuted by its number, so that neither copies nor reads meet a bank
// twice: what Hopper's instructions call a swizzle of 128 bytes. Across k the permutation suits how
// tiles_mma.h reads each size.
#ifndef PF_TILES_LINES_H
#define PF_TILES_LINES_H

static_assert(TILE_K * SIZE == 128 && TILE_M % 64 == 0 && TILE_N % 64 == 0, "128-byte lines");

// Where chunk `c` of line `r` of an operand lies.
template <int ALONG_K>
PF_DEVICE int pf_place(int r, int c) {
  if constexpr (ALONG_K) return r * 128 + ((c ^ r) & 7) * 16;
  const int p = SIZE == 4 ? 2 * r : SIZE == 1 ? (r & 1) | (r >> 1 & 6) : r;
  return (c / 8 * TILE_K + r) * 128 + ((c ^ p) & 7) * 16;
}

#endif
