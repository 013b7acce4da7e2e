#include "cpu/linalg_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "cpu/gemm_own.h"
#include "cpu/scratch.h"
#include "cpu/threads.h"

namespace pyflame::cpu {
namespace {

using micro::Kernels;
using micro::Split;

// About 3 us of work for a range, of so many multiplications each.
int64_t at_once(int64_t cost) {
  return std::max<int64_t>(1, (int64_t{1} << 18) / std::max<int64_t>(cost, 1));
}

// Panels of nr columns, rows beside one another: [panel][row][nr].
template <class T>
void solve(int64_t n, int64_t k, T* b, const std::vector<Triangle<T>>& triangles,
           const int32_t* from, const int32_t* to) {
  const Kernels<T>& kern = micro::kernels<T>();
  const int64_t nr = kern.nr, panels = (k + nr - 1) / nr;
  constexpr int64_t kGroup = 512;  // rows of the triangle that are packed at once
  const int64_t group = std::min(n, kGroup);
  Scratch<T> panel_memory(panels * n * nr), packed_memory(group * n);
  T *const x = panel_memory.get(), *const packed = packed_memory.get();
  const auto some_panels = [&](int64_t cost, auto&& fn) {
    parallel_for(panels, at_once(cost), fn);
  };
  // Row after row of some panels: what lies together is read together.
  some_panels(n * nr * 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = begin; j < end; ++j) {
        const T* row = b + (from ? from[i] : i) * k + j * nr;
        T* into = x + (j * n + i) * nr;
        std::fill(std::copy(row, row + std::min(nr, k - j * nr), into), into + nr, T(0));
      }
  });
  for (const Triangle<T>& t : triangles) {
    const Split tiles(n, kern.mr);
    // Whose columns are known when a tile's rows are solved, and those rows.
    const auto first = [&](int64_t tile) { return t.upper ? tiles.at(tile) : 0; };
    const auto end_of = [&](int64_t tile) { return t.upper ? n : tiles.at(tile + 1); };
    for (int64_t done = 0; done < tiles.count;) {
      const int64_t more = std::min(tiles.count - done, std::max<int64_t>(1, group / kern.mr));
      const int64_t t0 = t.upper ? tiles.count - done - more : done;
      const int64_t top = tiles.at(t0);
      parallel_for(more, at_once(kern.mr * n * 8), [&](int64_t begin, int64_t end) {
        for (int64_t tile = t0 + begin; tile < t0 + end; ++tile) {
          const int64_t r = tiles.at(tile), c = first(tile);
          const int h = static_cast<int>(tiles.at(tile + 1) - r);
          micro::pack(t.f + r * t.row + c * t.column, t.row, t.column, h, end_of(tile) - c, h,
                      packed + (r - top) * n);
        }
      });
      some_panels(more * kern.mr * n * nr, [&](int64_t begin, int64_t end) {
        for (int64_t e = begin * more; e < end * more; ++e) {
          T* const panel = x + e / more * n * nr;
          const int64_t s = e % more;
          const int64_t tile = t.upper ? t0 + more - 1 - s : t0 + s;
          const int64_t r = tiles.at(tile), h = tiles.at(tile + 1) - r;
          const T* a = packed + (r - top) * n;
          if (t.upper)
            kern.triangles[h - 1][1](
                {n - r - h, a + h * h, panel + (r + h) * nr, a, panel + r * nr, t.unit});
          else
            kern.triangles[h - 1][0]({r, a, panel, a + r * h, panel + r * nr, t.unit});
        }
      });
      done += more;
    }
  }
  some_panels(n * nr * 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = begin; j < end; ++j) {
        const T* row = x + (j * n + i) * nr;
        std::copy(row, row + std::min(nr, k - j * nr), b + (to ? to[i] : i) * k + j * nr);
      }
  });
}

// The first element of the largest magnitude. As integers magnitudes have the same order, NaN above
// infinity.
template <class T>
int64_t largest(const T* x, int64_t n) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  const auto magnitude = [&](int64_t i) {
    Bits bits;
    std::memcpy(&bits, x + i, sizeof bits);
    return bits & std::numeric_limits<Bits>::max();
  };
  Bits most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max<Bits>(most, magnitude(i));
  int64_t i = 0;
  while (magnitude(i) != most) ++i;
  return i;
}

// LU of [m, n], n <= m, column after column; pivots from 0.
template <class T>
int64_t narrow_lu(int64_t m, int64_t n, T* a, int64_t lda, int32_t* pivots) {
  int64_t info = 0;
  for (int64_t j = 0; j < n; ++j) {
    T* column = a + j * lda;
    const int64_t p = j + largest(column + j, m - j);
    pivots[j] = static_cast<int32_t>(p);
    if (column[p] == 0) {
      if (!info) info = j + 1;
      continue;
    }
    if (p != j)
      for (int64_t c = 0; c < n; ++c) std::swap(a[j + c * lda], a[p + c * lda]);
    const T pivot = column[j], inverse = T(1) / pivot;
    if (std::abs(pivot) >= std::numeric_limits<T>::min())
      for (int64_t i = j + 1; i < m; ++i) column[i] *= inverse;
    else
      for (int64_t i = j + 1; i < m; ++i) column[i] /= pivot;
    for (int64_t c = j + 1; c < n; ++c) {
      T* other = a + c * lda;
      const T by = -other[j];
      for (int64_t i = j + 1; i < m; ++i) other[i] = std::fma(by, column[i], other[i]);
    }
  }
  return info;
}

template <class T>
void exchange(T* column, const int32_t* pivots, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; ++i) std::swap(column[i], column[pivots[i] - 1]);
}

// A panel of kWidth columns, then what is right of it, tiles of columns shared out to threads: rows
// exchanged, the panel's triangle solved, the product subtracted.
template <class T>
int64_t lu(int64_t m, int64_t n, T* a, int64_t lda, int32_t* pivots) {
  constexpr int64_t kWidth = 32;
  const Kernels<T>& kern = micro::kernels<T>();
  const int64_t nr = kern.nr, count = std::min(m, n);
  // A panel's columns are apart by what is no power of two: a cache keeps few lines that are.
  const int64_t ldp = (m + 15) / 16 * 16 + 16;
  Scratch<T> panel_memory(kWidth * ldp + kWidth * kWidth);
  T *const panel = panel_memory.get(), *const triangle = panel + kWidth * ldp;
  int64_t info = 0;
  for (int64_t k = 0; k < count; k += kWidth) {
    const int64_t w = std::min(kWidth, count - k), rows = m - k;
    T* const corner = a + k + k * lda;
    for (int64_t j = 0; j < w; ++j)
      std::copy(corner + j * lda, corner + j * lda + rows, panel + j * ldp);
    const int64_t here = narrow_lu(rows, w, panel, ldp, pivots + k);
    if (here && !info) info = k + here;
    for (int64_t j = 0; j < w; ++j) {
      std::copy(panel + j * ldp, panel + j * ldp + rows, corner + j * lda);
      pivots[k + j] += static_cast<int32_t>(k + 1);
    }
    const Split tiles(w, kern.mr);
    for (int64_t t = 0; t < tiles.count; ++t) {
      const int64_t r = tiles.at(t), h = tiles.at(t + 1) - r;
      micro::pack(panel + r, 1, ldp, static_cast<int>(h), r + h, static_cast<int>(h),
                  triangle + r * kWidth);
    }
    const int64_t behind = n - k - w;
    parallel_with((behind + nr - 1) / nr, at_once(nr * w * rows),
                  static_cast<size_t>(kWidth * nr) * sizeof(T),
                  [&](int64_t begin, int64_t end, char* memory) {
                    T* const u = reinterpret_cast<T*>(memory);  // [w][nr]
                    for (int64_t s = begin; s < end; ++s) {
                      T* const c = corner + (w + s * nr) * lda;
                      const int64_t columns = std::min(nr, behind - s * nr);
                      for (int64_t j = 0; j < columns; ++j)
                        exchange(c + j * lda - k, pivots, k, k + w);
                      micro::pack(c, lda, 1, static_cast<int>(columns), w, static_cast<int>(nr), u);
                      for (int64_t t = 0; t < tiles.count; ++t) {
                        const int64_t r = tiles.at(t), h = tiles.at(t + 1) - r;
                        const T* f = triangle + r * kWidth;
                        kern.triangles[h - 1][0]({r, f, u, f + r * h, u + r * nr, true});
                      }
                      micro::turn(u, nr, static_cast<int>(w), columns, lda, c);
                      for (int64_t e = 0; e < w * nr; ++e) u[e] = -u[e];
                      const Split across(columns, kern.mr);
                      for (int64_t i = w; i < rows; i += nr)
                        for (int64_t t = 0; t < across.count; ++t) {
                          const int64_t j = across.at(t);
                          micro::Tile<T> tile{};
                          tile.k = w;
                          tile.a = u + j, tile.a_row = 1, tile.a_col = nr;
                          tile.b = panel + i, tile.b_row = ldp;
                          tile.c = c + i + j * lda, tile.c_row = lda;
                          tile.cols = static_cast<int>(std::min(nr, rows - i));
                          tile.accumulate = true;
                          tile.steps = 1;
                          kern.run(static_cast<int>(across.at(t + 1) - j), tile);
                        }
                    }
                  });
  }
  // Columns before a panel take its exchanges in the end, each while it is in the cache.
  parallel_for(count, at_once(count * 16), [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j)
      exchange(a + j * lda, pivots, (j / kWidth + 1) * kWidth, count);
  });
  return info;
}

// Blocks of reflections as I - V T V', and so C + Y V' C with Y = -V T.
template <class T>
void reflect(int64_t m, int64_t n, const Reflections<T>& h, T* c, int64_t ldc) {
  constexpr int64_t kBlock = 64;
  const int64_t k = h.k;
  const int64_t blocks = (k + kBlock - 1) / kBlock;
  const int64_t ld = (m + 15) / 16 * 16 + 16;  // as in lu()
  Scratch<T> memory(2 * k * ld);
  T *const v = memory.get(), *const y = v + k * ld;
  Gemm product{};
  product.batch = 1;
  product.dtype = std::is_same_v<T, double> ? DType::Float64 : DType::Float32;
  parallel_with(blocks, 1, static_cast<size_t>(2 * kBlock * kBlock) * sizeof(T),
                [&](int64_t begin, int64_t end, char* own) {
                  T *const gram = reinterpret_cast<T*>(own), *const t = gram + kBlock * kBlock;
                  for (int64_t b = begin; b < end; ++b) {
                    const int64_t from = b * kBlock, w = std::min(kBlock, k - from);
                    T* const vb = v + from * ld + from;
                    const T* const given = h.a + from * (h.row + h.column);
                    if (h.column == 1)
                      micro::turn(given, h.row, static_cast<int>(m - from), w, ld, vb);
                    else
                      for (int64_t j = 0; j < w; ++j)
                        std::copy(given + j * h.column, given + j * h.column + m - from,
                                  vb + j * ld);
                    for (int64_t j = 0; j < w; ++j) {
                      std::fill(vb + j * ld, vb + j * ld + j, T(0));
                      vb[j * ld + j] = 1;
                    }
                    Gemm g = product;
                    g.m = g.n = w, g.k = m - from;
                    g.a = g.b = vb, g.a_row = g.b_col = ld, g.a_col = g.b_row = 1;
                    g.c = gram, g.c_row = w;
                    gemm_own(g);
                    // T, negative: column j is tau[j] times what is there before, times V' v[j].
                    std::fill(t, t + w * w, T(0));
                    for (int64_t j = 0; j < w; ++j) {
                      const T by = h.tau[from + j];
                      for (int64_t q = 0; q < j; ++q) {
                        const T factor = by * gram[q * w + j];
                        for (int64_t p = 0; p <= q; ++p) t[j * w + p] -= t[q * w + p] * factor;
                      }
                      t[j * w + j] = -by;
                    }
                    g.n = m - from, g.k = w;
                    g.a = t, g.a_row = w, g.a_col = 1;
                    g.b = vb, g.b_row = ld, g.b_col = 1;
                    g.c = y + from * ld + from, g.c_row = ld;
                    gemm_own(g);
                  }
                });
  constexpr int64_t kColumns = 32;
  parallel_for((n + kColumns - 1) / kColumns, at_once(m * k * kColumns),
               [&](int64_t begin, int64_t end) {
                 const int64_t c0 = begin * kColumns, columns = std::min(n, end * kColumns) - c0;
                 Scratch<T> products(columns * kBlock);
                 for (int64_t b = blocks - 1; b >= 0; --b) {
                   const int64_t from = b * kBlock, w = std::min(kBlock, k - from);
                   const T *const vb = v + from * (ld + 1), *const yb = y + from * (ld + 1);
                   Gemm g = product;  // of transposes
                   T* const part = c + c0 * ldc + from;
                   g.m = columns, g.n = w, g.k = m - from;
                   g.a = part, g.a_row = ldc, g.a_col = 1;
                   g.b = vb, g.b_row = 1, g.b_col = ld;
                   g.c = products.get(), g.c_row = w;
                   gemm_own(g);
                   g.n = m - from, g.k = w;
                   g.a = products.get(), g.a_row = w;
                   g.b = yb, g.b_row = ld, g.b_col = 1;
                   g.c = part;
                   g.c_row = ldc, g.add = true;
                   gemm_own(g);
                 }
               });
}

}  // namespace

void reflect_tiles(int64_t m, int64_t n, const Reflections<float>& h, float* c, int64_t ldc) {
  reflect(m, n, h, c, ldc);
}
void reflect_tiles(int64_t m, int64_t n, const Reflections<double>& h, double* c, int64_t ldc) {
  reflect(m, n, h, c, ldc);
}
int64_t lu_tiles(int64_t m, int64_t n, float* a, int64_t lda, int32_t* pivots) {
  return lu(m, n, a, lda, pivots);
}
int64_t lu_tiles(int64_t m, int64_t n, double* a, int64_t lda, int32_t* pivots) {
  return lu(m, n, a, lda, pivots);
}
void solve_tiles(int64_t n, int64_t k, float* b, const std::vector<Triangle<float>>& t,
                 const int32_t* from, const int32_t* to) {
  solve(n, k, b, t, from, to);
}
void solve_tiles(int64_t n, int64_t k, double* b, const std::vector<Triangle<double>>& t,
                 const int32_t* from, const int32_t* to) {
  solve(n, k, b, t, from, to);
}

}  // namespace pyflame::cpu
