// Fourier transforms of one line, on vectors: fft.cpp cuts tensors into lines, fft_kernels.cpp runs
// over them.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace pyflame::cpu {

// Factors of a length, and its roots of unity. All transforms are forward; an inverse one is that
// of numbers whose parts are exchanged, before and after.
template <class T>
struct FftTables {
  int64_t n = 0;
  std::vector<int> radices;  // of lengths without large prime factors
  std::vector<T> cos, sin;   // exp(-2 pi i k / n) = cos[k] + i sin[k]
  // The same for the first two passes of a line whose length is a power of two, in the order in
  // which vectors read them: w, w^2, w^3, each real and imaginary.
  std::vector<T> first, second;
};

// What one line's transform has of memory: so many elements of T.
int64_t line_scratch(int64_t n);   // a power of two from kLeastLine
int64_t lanes_scratch(int64_t n);  // kMostLanes lines side by side

inline constexpr int64_t kLeastLine = 64, kMostLanes = 16;

struct FftJob {
  bool inverse;
  double scale;
};

// A line of a power of two, from x to y (which may be x), numbers side by side.
void fft_line(const FftTables<float>&, const float* x, float* y, FftJob, float* scratch);
void fft_line(const FftTables<double>&, const double* x, double* y, FftJob, double* scratch);
// `lanes` lines side by side: element j of line l is at (j * step + l * beside) complex numbers.
struct Lanes {
  int64_t step, beside, count;
};
// What element k of line l is multiplied by in the end: far[k] near[k][l], near's real parts of all
// lines before the imaginary ones. Null: nothing.
template <class T>
struct TableRoots {
  const T *far_re = nullptr, *far_im = nullptr, *near = nullptr;
};
void fft_lanes(const FftTables<float>&, const float* x, Lanes from, float* y, Lanes to, FftJob,
               float* scratch, TableRoots<float> = {});
void fft_lanes(const FftTables<double>&, const double* x, Lanes from, double* y, Lanes to, FftJob,
               double* scratch, TableRoots<double> = {});

}  // namespace pyflame::cpu
