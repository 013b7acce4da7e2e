// What the stand-in for NVIDIA's driver puts into a tensor map, and how the host copies a box by
// it: for hip.cpp and, through shim.h, for kernels that run on the host.
#ifndef PF_STANDIN_TENSOR_MAP_H
#define PF_STANDIN_TENSOR_MAP_H

struct pf_standin_map {
  enum : unsigned { kMagic = 0x7e4502ab };
  unsigned magic;
  unsigned char rank, item, swizzle, tf32;  // item, swizzle: bytes
  const char* data;
  unsigned size[5];
  unsigned short box[5];
  unsigned long long stride[4];  // bytes, of dimensions 1 and on
};
static_assert(sizeof(pf_standin_map) <= 128, "as large as the driver's");

// Copies the box at `at`, lines permuted; zeros outside of the tensor. Bytes, or 0 where that is no
// map of this rank.
static inline long long pf_copy_box(char* to, const void* map, const int* at, int rank) {
  pf_standin_map m;
  __builtin_memcpy(&m, map, sizeof m);
  if (m.magic != pf_standin_map::kMagic || m.rank != rank) return 0;
  long long elements = 1;
  for (int d = 0; d < rank; ++d) elements *= m.box[d];
  for (long long e = 0; e < elements; ++e) {
    long long rest = e;
    const char* from = m.data;
    bool in = true;
    for (int d = 0; d < rank; ++d) {
      const long long i = rest % m.box[d] + at[d];
      rest /= m.box[d];
      in = in && i >= 0 && i < m.size[d];
      from += i * (d ? static_cast<long long>(m.stride[d - 1]) : m.item);
    }
    const long long byte = e * m.item;
    // Chunks of 16 bytes in lines of 128; of 8, 4 or 2 lines each has another permutation.
    const long long mask = m.swizzle / 16 - (m.swizzle != 0), line = byte / 128;
    const long long chunk = byte / 16 ^ (line & mask);
    char* place = to + chunk * 16 + byte % 16;
    if (!in) {
      __builtin_memset(place, 0, m.item);
    } else if (m.tf32) {  // to the nearest of 10 bits
      unsigned w;
      __builtin_memcpy(&w, from, 4);
      if ((w & 0x7fffffffu) < 0x7f800000u) w += 0x1000u;
      w &= ~0x1fffu;
      __builtin_memcpy(place, &w, 4);
    } else {
      __builtin_memcpy(place, from, m.item);
    }
  }
  return elements * m.item;
}

#endif
