// What the stand-in for NVIDIA's driver puts into a tensor map, and how the host copies a box by
// it: for hip.cpp and, through shim.h, for kernels that run on the host.
#ifndef PF_STANDIN_TENSOR_MAP_H
#define PF_STANDIN_TENSOR_MAP_H

struct pf_standin_map {
  enum : unsigned { kTiled = 0x7e4502ab, kWindows = 0x7e4502ac };
  unsigned kind;
  unsigned char rank, item, swizzle, tf32;  // item, swizzle: bytes
  const char* data;
  unsigned size[5];
  unsigned short box[5];         // of windows: channels, and pixels of a copy
  short low[2], high[2];         // where windows begin, from the first and the last pixel
  unsigned char step[2];         // from one window to the next
  unsigned long long stride[4];  // bytes, of dimensions 1 and on
};
static_assert(sizeof(pf_standin_map) <= 128, "as large as the driver's");

// The place of element e of a copy of lines: chunks of 16 bytes are permuted in lines of 128.
static inline char* pf_standin_place(char* to, const pf_standin_map& m, long long e) {
  const long long byte = e * m.item, mask = m.swizzle / 16 - (m.swizzle != 0);
  return to + (byte / 16 ^ (byte / 128 & mask)) * 16 + byte % 16;
}
static inline void pf_standin_put(char* place, const pf_standin_map& m, const char* from, bool in) {
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
// f(place in the box, address in the tensor, whether it is inside) of each element of the box at
// `at`. Bytes, or 0 where that is no map of this rank, or a place within 16 bytes, where the unit
// finds an instruction illegal.
template <class F>
static inline long long pf_standin_box(char* box, const void* map, const int* at, int rank, F f) {
  pf_standin_map m;
  __builtin_memcpy(&m, map, sizeof m);
  if (m.kind != pf_standin_map::kTiled || m.rank != rank || at[0] * m.item % 16 != 0) return 0;
  long long elements = 1;
  for (int d = 0; d < rank; ++d) elements *= m.box[d];
  for (long long e = 0; e < elements; ++e) {
    long long rest = e;
    char* there = const_cast<char*>(m.data);
    bool in = true;
    for (int d = 0; d < rank; ++d) {
      const long long i = rest % m.box[d] + at[d];
      rest /= m.box[d];
      in = in && i >= 0 && i < m.size[d];
      there += i * (d ? static_cast<long long>(m.stride[d - 1]) : m.item);
    }
    f(m, pf_standin_place(box, m, e), there, in);
  }
  return elements * m.item;
}
// Copies the box at `at`; zeros outside of the tensor.
static inline long long pf_copy_box(char* to, const void* map, const int* at, int rank) {
  return pf_standin_box(to, map, at, rank,
                        [](const pf_standin_map& m, char* place, char* there, bool in) {
                          pf_standin_put(place, m, there, in);
                        });
}
// The other way.
static inline long long pf_store_box(char* from, const void* map, const int* at, int rank) {
  return pf_standin_box(from, map, at, rank,
                        [](const pf_standin_map& m, char* place, char* there, bool in) {
                          if (in) __builtin_memcpy(there, place, m.item);
                        });
}

// Copies a pixel of each window, from the one that begins at `at` on: channel, x, y, picture.
static inline long long pf_copy_windows(char* to, const void* map, const int* at, const int* far) {
  pf_standin_map m;
  __builtin_memcpy(&m, map, sizeof m);
  if (m.kind != pf_standin_map::kWindows) return 0;
  long long x = at[1], y = at[2], picture = at[3];
  for (int pixel = 0; pixel < m.box[1]; ++pixel) {
    const long long px = x + far[0], py = y + far[1];
    const bool in = px >= 0 && px < m.size[1] && py >= 0 && py < m.size[2] && picture < m.size[3];
    for (int c = 0; c < m.box[0]; ++c) {
      const long long channel = at[0] + c;
      const char* from = m.data + channel * m.item + px * static_cast<long long>(m.stride[0]) +
                         py * static_cast<long long>(m.stride[1]) +
                         picture * static_cast<long long>(m.stride[2]);
      pf_standin_put(pf_standin_place(to, m, static_cast<long long>(pixel) * m.box[0] + c), m, from,
                     in && channel < m.size[0]);
    }
    x += m.step[0];
    if (x <= static_cast<long long>(m.size[1]) - 1 + m.high[0]) continue;
    x = m.low[0];
    y += m.step[1];
    if (y <= static_cast<long long>(m.size[2]) - 1 + m.high[1]) continue;
    y = m.low[1];
    ++picture;
  }
  return static_cast<long long>(m.box[0]) * m.box[1] * m.item;
}

#endif
