// A quick hash of bytes, the same on every machine of one byte order: files of compiled kernels
// keep it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace pyflame {

inline uint64_t hash_bytes(const void* data, size_t size, uint64_t seed = 0) {
  const char* p = static_cast<const char*>(data);
  uint64_t h = seed ^ size;
  const auto mix = [&](uint64_t w) {
    h = (h ^ w) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  };
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    uint64_t w;
    std::memcpy(&w, p + i, 8);
    mix(w);
  }
  uint64_t w = 0;
  std::memcpy(&w, p + i, size - i);
  mix(w);
  return h ^ h >> 32;
}

}  // namespace pyflame
