// Row arithmetic of attention.
#pragma once

#include <cstdint>

namespace pyflame::cpu::attention {

// Rows may be read and written up to the next multiple of this.
inline constexpr int64_t kRowPad = 16;

// s[j] = exp(s[j] * scale - m) where m is the largest s[j] * scale; returns the sum of these and
// m. A row of nothing but -inf gives zeros. Sixteen interleaved sums, whatever the vector width.
template <class T>
struct RowSum {
  T sum, max;
};
RowSum<float> softmax_row(float* s, int64_t n, float scale);
RowSum<double> softmax_row(double* s, int64_t n, double scale);
// s[j] = exp(s[j] * scale - lse); zeros when lse is -inf.
void probability_row(float* s, int64_t n, float scale, float lse);
void probability_row(double* s, int64_t n, double scale, double lse);

// s[j] = cap * tanh(s[j] * inner); slope[j], if not null, is 1 - tanh^2. Whole vectors, as above.
void cap_row(float* s, int64_t n, float inner, float cap, float* slope);
void cap_row(double* s, int64_t n, double inner, double cap, double* slope);

// Sum of x[j] * y[j] in sixteen interleaved sums.
float dot(const float* x, const float* y, int64_t n);
double dot(const double* x, const double* y, int64_t n);

}  // namespace pyflame::cpu::attention
