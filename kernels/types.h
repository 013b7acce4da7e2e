// The arithmetic dtypes on the device: storage, the type to compute with, conversions between
// those, rounding to storage, and vector loads and stores. Part of prelude.h.
#ifndef PF_TYPES_H
#define PF_TYPES_H

// By their bits: NVRTC has neither __builtin_huge_valf nor __builtin_nanf.
#define PF_INF (__builtin_bit_cast(float, 0x7f800000u))
#define PF_NAN (__builtin_bit_cast(float, 0x7fc00000u))
#define PF_INT_MIN (-2147483647 - 1)

// Storage of dtypes that are no C types; one byte, 0 or 1, for bool.
struct pf_bf16 {
  pf_u16 bits;
};
struct pf_f16 {
  pf_u16 bits;
};
struct pf_bool {
  pf_u8 byte;
};

// ---- sixteen bits and floats ------------------------------------------------------------------
// From the bit patterns, for every platform. A NaN stays a NaN; its payload may change.
PF_DEVICE pf_u32 pf_bf16_bits_of(float x) {
  const pf_u32 b = pf_bits<pf_u32>(x);
  const pf_u32 rounded = b + (0x7fffu + (b >> 16 & 1u)), quiet = b | 0x400000u;
  return (x != x ? quiet : rounded) >> 16;
}
PF_DEVICE float pf_bf16_value(pf_u32 bits) {
  return pf_bits<float>(bits << 16);
}
PF_DEVICE pf_u32 pf_f16_bits_by_hand(float x) {
  const pf_u32 b = pf_bits<pf_u32>(x), sign = b >> 16 & 0x8000u, a = b & 0x7fffffffu;
  if (a > 0x7f800000u) return sign | 0x7e00u;
  if (a >= 0x477ff000u) return sign | 0x7c00u;  // from 65520
  if (a < 0x38800000u)                          // below 2^-14: adding 0.5 rounds to 2^-24
    return sign | (pf_bits<pf_u32>(pf_bits<float>(a) + 0.5f) - 0x3f000000u);
  return sign | (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;
}
PF_DEVICE float pf_f16_value_by_hand(pf_u32 bits) {
  const pf_u32 sign = (bits & 0x8000u) << 16, a = (bits & 0x7fffu) << 13;
  float v;
  if ((a & 0x0f800000u) == 0x0f800000u)
    v = pf_bits<float>(a + 0x70000000u);
  else if ((a & 0x0f800000u) == 0)
    v = pf_bits<float>(a + 0x38800000u) - 0x1p-14f;
  else
    v = pf_bits<float>(a + 0x38000000u);
  return pf_bits<float>(pf_bits<pf_u32>(v) | sign);
}

// With the hardware's instructions where they give the same.
#if defined(PF_NVIDIA)
#include "types_nvidia.h"
#else
#include "types_amd.h"
#endif

// ---- between compute types: float, double, int, 64-bit int, bool ------------------------------
// As C on x86 and so as PyTorch on the CPU: what does not fit becomes the smallest integer.
template <class To>
struct pf_cast_to;
template <>
struct pf_cast_to<float> {
  template <class From>
  static PF_METHOD float of(From x) {
    return static_cast<float>(x);
  }
};
template <>
struct pf_cast_to<double> {
  template <class From>
  static PF_METHOD double of(From x) {
    return static_cast<double>(x);
  }
};
template <>
struct pf_cast_to<pf_i32> {
  static PF_METHOD pf_i32 of(float x) {
    return x >= -0x1p31f && x < 0x1p31f ? static_cast<pf_i32>(x) : PF_INT_MIN;
  }
  static PF_METHOD pf_i32 of(double x) {
    return x >= -0x1p31 && x < 0x1p31 ? static_cast<pf_i32>(x) : PF_INT_MIN;
  }
  static PF_METHOD pf_i32 of(pf_i32 x) { return x; }
  static PF_METHOD pf_i32 of(pf_i64 x) { return static_cast<pf_i32>(static_cast<pf_u32>(x)); }
  static PF_METHOD pf_i32 of(bool x) { return x; }
};
template <>
struct pf_cast_to<pf_i64> {
  static PF_METHOD pf_i64 of(float x) {
    return x >= -0x1p63f && x < 0x1p63f ? static_cast<pf_i64>(x) : PF_LONG_MIN;
  }
  static PF_METHOD pf_i64 of(double x) {
    return x >= -0x1p63 && x < 0x1p63 ? static_cast<pf_i64>(x) : PF_LONG_MIN;
  }
  static PF_METHOD pf_i64 of(pf_i32 x) { return x; }
  static PF_METHOD pf_i64 of(pf_i64 x) { return x; }
  static PF_METHOD pf_i64 of(bool x) { return x; }
};
template <>
struct pf_cast_to<bool> {
  template <class From>
  static PF_METHOD bool of(From x) {
    return x != From(0);
  }
};
template <class To, class From>
PF_DEVICE To pf_cast(From x) {
  return pf_cast_to<To>::of(x);
}

// ---- dtypes -----------------------------------------------------------------------------------
// compute: the type of a value in registers. decode: from the stored bits, in the low end of a
// word. encode: of a value that is rounded already. round: to what storage holds.
template <class T>
struct pf_dtype;
template <>
struct pf_dtype<float> {
  typedef float compute;
  static PF_METHOD float decode(pf_u32 b) { return pf_bits<float>(b); }
  static PF_METHOD pf_u32 encode(float x) { return pf_bits<pf_u32>(x); }
  static PF_METHOD float round(float x) { return x; }
};
template <>
struct pf_dtype<double> {
  typedef double compute;
  static PF_METHOD double decode(pf_u64 b) { return pf_bits<double>(b); }
  static PF_METHOD pf_u64 encode(double x) { return pf_bits<pf_u64>(x); }
  static PF_METHOD double round(double x) { return x; }
};
template <>
struct pf_dtype<pf_bf16> {
  typedef float compute;
  static PF_METHOD float decode(pf_u32 b) { return pf_bf16_value(b); }
  static PF_METHOD pf_u32 encode(float x) { return pf_bits<pf_u32>(x) >> 16; }
  static PF_METHOD float round(float x) { return pf_bf16_value(pf_bf16_pair(x, 0.0f) & 0xffffu); }
};
template <>
struct pf_dtype<pf_f16> {
  typedef float compute;
  static PF_METHOD float decode(pf_u32 b) { return pf_f16_value(b); }
  static PF_METHOD pf_u32 encode(float x) { return pf_f16_bits_of(x); }
  static PF_METHOD float round(float x) { return pf_f16_value(pf_f16_bits_of(x)); }
};
template <>
struct pf_dtype<pf_i64> {
  typedef pf_i64 compute;
  static PF_METHOD pf_i64 decode(pf_u64 b) { return static_cast<pf_i64>(b); }
  static PF_METHOD pf_u64 encode(pf_i64 x) { return static_cast<pf_u64>(x); }
  static PF_METHOD pf_i64 round(pf_i64 x) { return x; }
};
template <>
struct pf_dtype<pf_i32> {
  typedef pf_i32 compute;
  static PF_METHOD pf_i32 decode(pf_u32 b) { return static_cast<pf_i32>(b); }
  static PF_METHOD pf_u32 encode(pf_i32 x) { return static_cast<pf_u32>(x); }
  static PF_METHOD pf_i32 round(pf_i32 x) { return x; }
};
template <>
struct pf_dtype<pf_i16> {
  typedef pf_i32 compute;
  static PF_METHOD pf_i32 decode(pf_u32 b) { return static_cast<pf_i16>(b); }
  static PF_METHOD pf_u32 encode(pf_i32 x) { return static_cast<pf_u32>(x) & 0xffffu; }
  static PF_METHOD pf_i32 round(pf_i32 x) { return static_cast<pf_i16>(x); }
};
template <>
struct pf_dtype<pf_i8> {
  typedef pf_i32 compute;
  static PF_METHOD pf_i32 decode(pf_u32 b) { return static_cast<pf_i8>(b); }
  static PF_METHOD pf_u32 encode(pf_i32 x) { return static_cast<pf_u32>(x) & 0xffu; }
  static PF_METHOD pf_i32 round(pf_i32 x) { return static_cast<pf_i8>(x); }
};
template <>
struct pf_dtype<pf_u8> {
  typedef pf_i32 compute;
  static PF_METHOD pf_i32 decode(pf_u32 b) { return static_cast<pf_i32>(b & 0xffu); }
  static PF_METHOD pf_u32 encode(pf_i32 x) { return static_cast<pf_u32>(x) & 0xffu; }
  static PF_METHOD pf_i32 round(pf_i32 x) { return x & 0xff; }
};
template <>
struct pf_dtype<pf_bool> {
  typedef bool compute;
  static PF_METHOD bool decode(pf_u32 b) { return (b & 0xffu) != 0; }
  static PF_METHOD pf_u32 encode(bool x) { return x; }
  static PF_METHOD bool round(bool x) { return x; }
};
template <class T>
using pf_compute = typename pf_dtype<T>::compute;

// Rounds N values that lie in registers; pairs of 16-bit floats with one instruction where there
// is one.
template <class T>
struct pf_pairs {
  enum { exist = 0 };
};
template <>
struct pf_pairs<pf_bf16> {
  enum { exist = 1 };
  static PF_METHOD pf_u32 of(float a, float b) { return pf_bf16_pair(a, b); }
};
template <>
struct pf_pairs<pf_f16> {
  enum { exist = 1 };
  static PF_METHOD pf_u32 of(float a, float b) { return pf_f16_pair(a, b); }
};
template <class T, int N>
PF_DEVICE void pf_round(pf_compute<T> (&x)[N]) {
  if constexpr (pf_pairs<T>::exist && N % 2 == 0) {
    PF_UNROLL for (int i = 0; i < N; i += 2) {
      const pf_u32 b = pf_pairs<T>::of(x[i], x[i + 1]);
      x[i] = pf_dtype<T>::decode(b & 0xffffu);
      x[i + 1] = pf_dtype<T>::decode(b >> 16);
    }
  } else {
    PF_UNROLL for (int i = 0; i < N; ++i) x[i] = pf_dtype<T>::round(x[i]);
  }
}

// Sums, differences and products of two pairs of bfloat16 values at once, rounded to bfloat16.
PF_PAIR(add, +, a, 0x3f803f80u, b)
PF_PAIR(sub, -, b, 0xbf80bf80u, a)
PF_PAIR(mul, *, a, b, 0x80008000u)
#undef PF_PAIR

// ---- memory -----------------------------------------------------------------------------------
// V elements of dtype T from p, aligned to min(WIDEST, V * sizeof(T)); x is a register array.
template <class T, int V, bool PAST, int WIDEST = 16>
PF_DEVICE void pf_load(const void* p, pf_compute<T>* x) {
  constexpr int size = sizeof(T), bytes = V * size, step = bytes < WIDEST ? bytes : WIDEST;
  pf_u32 w[(bytes + 3) / 4];
  PF_UNROLL for (int b = 0; b < bytes; b += step)
      pf_load_words<step, PAST>(static_cast<const char*>(p) + b, w + b / 4);
  PF_UNROLL for (int i = 0; i < V; ++i) {
    if constexpr (size == 8)
      x[i] = pf_dtype<T>::decode(static_cast<pf_u64>(w[2 * i + 1]) << 32 | w[2 * i]);
    else if constexpr (size == 4)
      x[i] = pf_dtype<T>::decode(w[i]);
    else
      x[i] = pf_dtype<T>::decode(w[i * size / 4] >> (8 * (i * size % 4)));
  }
}
// The values are rounded to T already.
template <class T, int V, bool PAST>
PF_DEVICE void pf_store(void* p, const pf_compute<T>* x) {
  constexpr int size = sizeof(T), bytes = V * size, step = bytes < 16 ? bytes : 16;
  pf_u32 w[(bytes + 3) / 4] = {};
  PF_UNROLL for (int i = 0; i < V; ++i) {
    if constexpr (size == 8) {
      const pf_u64 b = pf_dtype<T>::encode(x[i]);
      w[2 * i] = static_cast<pf_u32>(b);
      w[2 * i + 1] = static_cast<pf_u32>(b >> 32);
    } else if constexpr (size == 4) {
      w[i] = pf_dtype<T>::encode(x[i]);
    } else {
      w[i * size / 4] |= pf_dtype<T>::encode(x[i]) << (8 * (i * size % 4));
    }
  }
  PF_UNROLL for (int b = 0; b < bytes; b += step)
      pf_store_words<step, PAST>(static_cast<char*>(p) + b, w + b / 4);
}
// V elements of dtype T, moved into every PITCH-th place of an array of the block.
template <class T, int V, bool PAST, int PITCH>
PF_DEVICE void pf_turn(const void* p, T* to) {
  constexpr int size = sizeof(T), bytes = V * size, step = bytes < 16 ? bytes : 16;
  pf_u32 w[(bytes + 3) / 4];
  PF_UNROLL for (int b = 0; b < bytes; b += step)
      pf_load_words<step, PAST>(static_cast<const char*>(p) + b, w + b / 4);
  PF_UNROLL for (int i = 0; i < V; ++i) {
    if constexpr (size >= 4) {
      pf_store_words<size, false>(to + i * PITCH, w + i * size / 4);
    } else {
      const pf_u32 part = w[i * size / 4] >> (8 * (i * size % 4));
      pf_store_words<size, false>(to + i * PITCH, &part);
    }
  }
}

// ---- positions --------------------------------------------------------------------------------
// n / d for n < 2^31, with d's divisor word: factor below, shift above.
PF_DEVICE pf_u32 pf_multiply_high(pf_u32 a, pf_u32 b) {
  return static_cast<pf_u32>(static_cast<pf_u64>(a) * b >> 32);
}
PF_DEVICE pf_u32 pf_divide(pf_u32 n, pf_u64 divisor) {
  return (pf_multiply_high(n, static_cast<pf_u32>(divisor)) + n) >>
         static_cast<pf_u32>(divisor >> 32);
}

#endif
