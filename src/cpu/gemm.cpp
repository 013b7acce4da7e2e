// Which source computes a product. The choice is a function of the operands' shapes, strides and
// dtype and of what is installed, never of time or threads. Exceptions: while memory is out, and
// for a second after oneDNN failed to make a kernel (find() of gemm_onednn.cpp), it is ours.
#include "cpu/gemm.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/backends.h"
#include "cpu/gemm_cells.h"
#include "cpu/gemm_onednn.h"
#include "cpu/gemm_own.h"
#include "engine/trace.h"

namespace pyflame::cpu {
namespace {

GemmSource from_environment() {
  const char* text = std::getenv("PYFLAME_GEMM");
  if (text && std::strcmp(text, "onednn") == 0) return GemmSource::OneDnn;
  if (text && std::strcmp(text, "own") == 0) return GemmSource::Own;
  if (text && *text)
    notice((std::string("PYFLAME_GEMM='") + text + "' is ignored: expected onednn or own").c_str());
  return GemmSource::Auto;
}
std::atomic<GemmSource>& source() {
  static std::atomic<GemmSource> s{from_environment()};
  return s;
}

// One unit stride and no overlap in each operand: what oneDNN's fast kernels take.
bool plain(int64_t rows, int64_t cols, int64_t row, int64_t col) {
  return (col == 1 && row >= cols) || (row == 1 && col >= rows);
}

struct Hardware {
  bool avx512 = false, bf16 = false;
};
const Hardware& hardware() {
#if defined(__x86_64__)
  static const Hardware h{__builtin_cpu_supports("avx512f") != 0,
                          __builtin_cpu_supports("avx512bf16") != 0};
#else
  static const Hardware h;
#endif
  return h;
}

// With AVX2 alone oneDNN takes up to twice as long in cells as in one piece; ours takes as long as
// that (1024^3 on an AMD EPYC: 22 ms in one piece, 42 in cells, ours 21).
//
// A transposed b, which is a linear layer's weight, it copies column by column; where these lie
// multiples of 4 KB apart they meet in one set of the first cache. Of a few hundred rows that is
// much of the time (384 x 2048 x 384 on an AMD EPYC: 2.8 ms, ours 1.5; 16 x 1024 x 1024: 0.20, ours
// 0.12).
bool onednn_wants(const Gemm& g, bool asked) {
  if (g.dtype == DType::Float32 && g.m == 1 && g.batch == 1) return false;  // ours reads faster
  constexpr int64_t kMeet = 1024, kFewRows = 16, kManyRows = 512;
  if (!asked && g.dtype == DType::Float32 && g.b_row == 1 && g.b_col > 1 && g.b_col % kMeet == 0 &&
      g.k > 1 && g.m >= kFewRows && g.m <= kManyRows)
    return false;
  if (g.dtype == DType::Float32) return asked || hardware().avx512 || Cells(g).count() == 1;
  return g.dtype == DType::BFloat16 && hardware().bf16;
}

// Strides of dimensions of size 1 mean nothing; give them values that look like a dense matrix.
void normalise(int64_t rows, int64_t cols, int64_t* row, int64_t* col) {
  if (rows == 1) *row = *col == 1 ? cols : 1;
  if (cols == 1) *col = *row == 1 ? rows : 1;
}

}  // namespace

void gemm(const Gemm& given) {
  if (given.batch <= 0 || given.m <= 0 || given.n <= 0) return;
  Gemm g = given;
  if (g.n == 1 && g.m > 1 && g.c_row == 1 && !g.bias) {
    // A column is computed as a row: (a b)^T = b^T a^T.
    std::swap(g.a, g.b);
    std::swap(g.a_batch, g.b_batch);
    std::swap(g.m, g.n);
    const int64_t a_row = g.a_row, a_col = g.a_col;
    g.a_row = g.b_col, g.a_col = g.b_row;
    g.b_row = a_col, g.b_col = a_row;
    g.c_row = g.n;
  }
  const GemmSource s = source().load(std::memory_order_relaxed);
  const double work = double(g.batch) * double(g.m) * double(g.n) * double(g.k);
  const bool asked = s == GemmSource::OneDnn;
  if (s != GemmSource::Own && g.k > 0 && onednn_wants(g, asked) && (work >= 1e5 || asked)) {
    if (std::string why; (engine::tracing() || strict()) && !onednn_available(&why))
      engine::slow_path("matmul", "products run by our own kernel, as oneDNN is not there (" + why +
                                      "); install it, or ask for ours with PYFLAME_GEMM=own");
    normalise(g.m, g.k, &g.a_row, &g.a_col);
    normalise(g.k, g.n, &g.b_row, &g.b_col);
    if (plain(g.m, g.k, g.a_row, g.a_col) && plain(g.k, g.n, g.b_row, g.b_col) &&
        (g.batch == 1 || (g.a_batch > 0 && g.b_batch > 0)) && gemm_in_cells(g))
      return;
  }
  gemm_own(g);
}

void set_gemm_source(GemmSource s) {
  source().store(s, std::memory_order_relaxed);
}

const char* gemm_source() {
  thread_local std::string text;
  if (source().load() == GemmSource::Own) return "own (as asked)";
  std::string why;
  text = onednn_available(&why) ? why : "own (" + why + ")";
  return text.c_str();
}

}  // namespace pyflame::cpu
