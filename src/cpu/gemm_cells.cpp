#include "cpu/gemm_cells.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <optional>

#include "cpu/gemm_onednn.h"
#include "cpu/gemm_own.h"
#include "cpu/scratch.h"
#include "cpu/threads.h"

namespace pyflame::cpu {
namespace {

// Numbers of cells that two to four threads, and mostly six and eight, share evenly.
constexpr int64_t kCounts[] = {6144, 1536, 384, 96, 48, 24, 12, 8, 6, 4, 2, 1};
int64_t floor_count(double most) {
  for (int64_t n : kCounts)
    if (double(n) <= most) return n;
  return 1;
}

// How many cells a product of so many multiplications gets. A cell costs about a microsecond, and
// packs what its neighbours pack too: 3% of a product of 1024 in 24 cells, more in smaller ones.
// Between cells a product may be interrupted: they take some tenths of a second at most.
int64_t wanted(double work) {
  if (work < 5e5) return 1;
  const double most = work < 2e9      ? 24
                      : work < 2e10   ? 48
                      : work < 1e12   ? 96
                      : work < 4e12   ? 384
                      : work < 1.6e13 ? 1536
                                      : 6144;
  return floor_count(std::min(most, std::max(2.0, std::sqrt(work / 5e5))));
}

constexpr int64_t kRows = 48, kCols = 64;            // a cell has at least so many, if it was cut
constexpr int64_t kTerms = 2048, kManyTerms = 8192;  // of a part, and of what is cut in parts
constexpr double kItems = 1e6;                       // multiplications worth a cell of their own

// Boundaries at multiples of `step`, which kernels like.
int64_t edge(int64_t n, int64_t i, int64_t count, int64_t step) {
  return i == count ? n : n * i / count / step * step;
}

}  // namespace

Cells::Cells(const Gemm& g) {
  const double item = double(g.m) * double(g.n) * double(g.k), work = item * double(g.batch);
  const int64_t want = wanted(work);
  if (want == 1) return;
  if (g.batch >= want) {
    const double most = std::max(96.0, double(want));
    const double worth = std::min({double(g.batch), work / kItems, most});
    batch = std::max(want, floor_count(worth));
    return;
  }
  batch = g.batch;
  // Squarish cells pack least.
  const int64_t most = (want + g.batch - 1) / g.batch;
  for (const int64_t* n = std::begin(kCounts); rows * cols == 1 && n != std::end(kCounts); ++n) {
    double best = INFINITY;
    for (int64_t r = 1; r <= *n && *n <= most; ++r) {
      const int64_t c = *n / r;
      if (r * c != *n || (r > 1 && g.m / r < kRows) || (c > 1 && g.n / c < kCols)) continue;
      const double packed = double(g.m) / double(r) + double(g.n) / double(c);
      if (packed < best) best = packed, rows = r, cols = c;
    }
  }
  if (g.dtype == DType::Float32 && g.batch == 1 && rows * cols <= 2 && g.k >= kManyTerms)
    parts = std::max<int64_t>(1, std::min(want / (rows * cols), g.k / kTerms));
}

Gemm Cells::at(const Gemm& g, int64_t i, float* sums) const {
  Gemm r = g;
  const int64_t part = i % parts, col = i / parts % cols, row = i / parts / cols % rows,
                item = i / parts / cols / rows;
  const int64_t b0 = edge(g.batch, item, batch, 1), m0 = edge(g.m, row, rows, 8),
                n0 = edge(g.n, col, cols, 16), k0 = edge(g.k, part, parts, 256);
  r.batch = edge(g.batch, item + 1, batch, 1) - b0;
  r.m = edge(g.m, row + 1, rows, 8) - m0;
  r.n = edge(g.n, col + 1, cols, 16) - n0;
  r.k = edge(g.k, part + 1, parts, 256) - k0;
  const int64_t size = static_cast<int64_t>(itemsize(g.dtype));
  auto moved = [size](const void* p, int64_t n) { return static_cast<const char*>(p) + n * size; };
  r.a = moved(g.a, b0 * g.a_batch + m0 * g.a_row + k0 * g.a_col);
  r.b = moved(g.b, b0 * g.b_batch + k0 * g.b_row + n0 * g.b_col);
  if (parts > 1) {
    r.c = sums + part * g.m * g.n + m0 * g.n + n0;
    r.c_row = g.n;
    r.bias = nullptr;
  } else {
    r.c = const_cast<char*>(moved(g.c, b0 * g.c_batch + m0 * g.c_row + n0));
    if (g.bias) r.bias = moved(g.bias, n0);
  }
  return r;
}

bool gemm_in_cells(const Gemm& g) {
  const Cells cells(g);
  const int64_t count = cells.count();
  if (count == 1) return gemm_onednn(g);
  if (!onednn_takes(cells.at(g, 0, nullptr))) return false;
  std::optional<Scratch<float>> parts;
  if (cells.parts > 1) {
    try {
      parts.emplace(cells.parts * g.m * g.n);
    } catch (const std::exception&) {
      return false;  // ours needs less
    }
  }
  float* const sums = parts ? parts->get() : nullptr;
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (const Gemm cell = cells.at(g, i, sums); !gemm_onednn(cell)) gemm_own(cell);
  });
  if (!sums) return true;
  parallel_for(g.m, 1 + 65536 / (g.n * cells.parts), [&](int64_t begin, int64_t end) {
    const float* bias = static_cast<const float*>(g.bias);
    for (int64_t i = begin; i < end; ++i) {
      float* c = static_cast<float*>(g.c) + i * g.c_row;
      std::copy_n(sums + i * g.n, g.n, c);
      for (int64_t p = 1; p < cells.parts; ++p) {
        const float* more = sums + (p * g.m + i) * g.n;
        for (int64_t j = 0; j < g.n; ++j) c[j] += more[j];
      }
      for (int64_t j = 0; bias && j < g.n; ++j) c[j] += bias[j];
    }
  });
  return true;
}

}  // namespace pyflame::cpu
