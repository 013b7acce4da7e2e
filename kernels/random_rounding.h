// Rounding of a float32 to 16 bits that goes up with the probability of what is cut off, so that it
// is right in the mean. For GPUs and the CPU: the same bits. Stands on integers.h, pf_bits and
// kernels/philox.h; includes nothing, for the CPU has it within a namespace.
//
// Element i takes half (i % 8) of the four words that counter first + i / 8 gives. What lies beyond
// the largest finite number, infinities and NaN are left to rounding to the nearest.
#ifndef PF_RANDOM_ROUNDING_H
#define PF_RANDOM_ROUNDING_H

// `array` has numbers of its own for each array that a step writes of the same elements.
PF_DEVICE pf_words pf_rounding_words(pf_u64 counter, pf_u32 array, pf_u64 seed) {
  return pf_philox_words({{pf_low_word(counter), pf_high_word(counter), array, 0}}, seed);
}

// Chosen by comparisons: an index would have the words lie in memory.
PF_DEVICE pf_u32 pf_half_of(const pf_words& w, int k) {
  const pf_u32 low = k & 2 ? w.w[1] : w.w[0], high = k & 2 ? w.w[3] : w.w[2],
               word = k & 4 ? high : low;
  return k & 1 ? word >> 16 : word & 0xffffu;
}

// r: 16 random bits. The results are values of the dtype.
PF_DEVICE float pf_round_randomly_bf16(float x, pf_u32 r) {
  const pf_u32 w = pf_bits<pf_u32>(x);
  if ((w & 0x7fffffffu) > 0x7f7f0000u) return x;
  return pf_bits<float>((w + r) & 0xffff0000u);
}
PF_DEVICE float pf_round_randomly_f16(float x, pf_u32 r) {
  const pf_u32 w = pf_bits<pf_u32>(x), size = w & 0x7fffffffu;
  if (size > 0x477fe000u) return x;
  if (size >= 0x38800000u) return pf_bits<float>((w + (r >> 3)) & 0xffffe000u);
  // Below the smallest normal number steps are 2^-24.
  const float steps = pf_bits<float>(size) * 16777216.0f;
  const pf_u32 whole = static_cast<pf_u32>(steps);
  const float rest = (steps - static_cast<float>(whole)) * 65536.0f;
  const float y = static_cast<float>(whole + (r < static_cast<pf_u32>(rest) ? 1u : 0u));
  return pf_bits<float>(pf_bits<pf_u32>(y * 5.9604644775390625e-8f) | (w & 0x80000000u));
}

#endif
