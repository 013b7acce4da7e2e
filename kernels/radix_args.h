// What kernels that sort pairs of a key and a position are given (radix.h).
#ifndef PF_RADIX_ARGS_H
#define PF_RADIX_ARGS_H
#include "integers.h"

// The pairs lie in the first arrays to begin with; every pass that moves takes them to the others.
// digits[(row * passes + pass) * DIGITS + digit], counts[(row * DIGITS + digit) * tiles + tile]
struct pf_radix_args {
  pf_u64* keys[2];
  pf_i64* at[2];
  pf_u32 *digits, *counts;
  pf_u64* moves;  // of each row: byte p is 1 where pass p moves
  pf_i64 n, tiles;
  pf_i32 low, passes;
};
static_assert(sizeof(pf_radix_args) == 80, "as hosts fill it");

// Rows of at most SMALL pairs, by the bits [low, high) of the keys, from the first arrays to the
// others.
struct pf_few_pairs {
  const pf_u64* keys;
  const pf_i64* at;
  pf_u64* keys_out;
  pf_i64* at_out;
  pf_i64 rows;
  pf_i32 n, low, high, padded;
};
static_assert(sizeof(pf_few_pairs) == 56, "as hosts fill it");

#endif
