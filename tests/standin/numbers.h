// What the stand-ins for libraries of products share: numbers of any dtype (0 float32, 1 float64,
// 2 float16, 3 int8, 10 int32, 28 and 29 float8, else bfloat16), and waiting for a stream of the
// stand-in's runtime.
#pragma once
#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <utility>

namespace {

inline bool is_float8(int type) {
  return type == 28 || type == 29;
}
// e4m3fn or e5m2.
inline double float8(uint8_t bits, bool wide) {
  const int mantissa = wide ? 2 : 3, exponent = (bits & 0x7f) >> mantissa,
            m = bits & ((1 << mantissa) - 1);
  const double sign = bits & 0x80 ? -1 : 1;
  if (wide && exponent == 31) return m ? NAN : sign * INFINITY;
  if (!wide && (bits & 0x7f) == 0x7f) return NAN;
  const int scale = (exponent ? exponent : 1) - (wide ? 15 : 7) - mantissa;
  return sign * std::ldexp(m + (exponent ? 1 << mantissa : 0), scale);
}
inline double get(const void* p, int64_t i, int type) {
  if (type == 1) return static_cast<const double*>(p)[i];
  if (type == 2) return static_cast<double>(static_cast<const _Float16*>(p)[i]);
  if (type == 0) return static_cast<const float*>(p)[i];
  if (type == 3) return static_cast<const int8_t*>(p)[i];
  if (is_float8(type)) return float8(static_cast<const uint8_t*>(p)[i], type == 29);
  const uint32_t bits = uint32_t{static_cast<const uint16_t*>(p)[i]} << 16;
  float v;
  std::memcpy(&v, &bits, 4);
  return v;
}
inline void put(void* p, int64_t i, int type, double v) {
  if (type == 1) {
    static_cast<double*>(p)[i] = v;
  } else if (type == 2) {
    static_cast<_Float16*>(p)[i] = static_cast<_Float16>(v);
  } else if (type == 0) {
    static_cast<float*>(p)[i] = static_cast<float>(v);
  } else if (type == 10) {
    static_cast<int32_t*>(p)[i] = static_cast<int32_t>(v);
  } else {
    const float f = static_cast<float>(v);
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    bits = f != f ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
    static_cast<uint16_t*>(p)[i] = static_cast<uint16_t>(bits >> 16);
  }
}
inline double as_tf32(double x) {
  float f = static_cast<float>(x);
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  bits = (bits + 0x1000u) & ~0x1fffu;
  std::memcpy(&f, &bits, 4);
  return f;
}
inline void* of_runtime(const char* name) {
  static void* const runtime = [] {
    void* r = nullptr;
    for (const char* variable : {"PYFLAME_HIP_LIBRARY", "PYFLAME_CUDA_LIBRARY"})
      if (const char* file = std::getenv(variable); file && !r) r = dlopen(file, RTLD_NOW);
    return r;
  }();
  return dlsym(runtime, name);
}
inline int wait_for(void* stream) {
  static const auto synchronize =
      reinterpret_cast<int (*)(void*)>(of_runtime("hipStreamSynchronize"));
  return synchronize(stream);
}
// Behind what the stream has: now, or at each launch of the graph that the stream captures. The job
// refers to nothing that the call does not own.
inline int on_stream(void* stream, std::function<void()> job) {
  static const auto captured =
      reinterpret_cast<int (*)(void*, std::function<void()>*)>(of_runtime("standin_captured"));
  auto kept = std::make_unique<std::function<void()>>(std::move(job));
  if (captured(stream, kept.get())) return kept.release(), 0;
  if (int error = wait_for(stream)) return error;
  (*kept)();
  return 0;
}

}  // namespace
