// A stand-in for hipFFT: the sum that defines the transform, in double, over one to three
// dimensions. The workspace is overwritten, and what a transform to real numbers reads.
#include <cmath>
#include <complex>
#include <vector>

#include "faults.h"
#include "numbers.h"

namespace {
using Z = std::complex<double>;
struct Side {
  long long step = 0, next = 0;
};
struct Plan {
  int rank = 0, type = 0;
  long long n[3] = {1, 1, 1}, batch = 0;
  Side in, out;
  void *stream = nullptr, *work = nullptr;
  bool automatic = true, made = false;
};
enum : int { kSuccess = 0, kInvalid = 1, kInternal = 5 };
enum : int { kC2C = 0x29, kR2C = 0x2a, kC2R = 0x2c, kZ2Z = 0x69, kD2Z = 0x6a, kZ2D = 0x6c };
constexpr size_t kBytes = 1024;

// All terms of the sums over one dimension after the other.
void transform(std::vector<Z>& x, const Plan& p, int direction) {
  const long long all = p.n[0] * p.n[1] * p.n[2];
  long long inner = 1;
  for (int d = p.rank - 1; d >= 0; --d) {
    const long long n = p.n[d];
    std::vector<Z> y(x.size());
    for (long long i = 0; i < all; ++i) {
      const long long k = i / inner % n, base = i - k * inner;
      Z sum = 0;
      for (long long j = 0; j < n; ++j) {
        const double angle = direction * 2 * 3.14159265358979323846 *
                             static_cast<double>(j * k % n) / static_cast<double>(n);
        sum += x[static_cast<size_t>(base + j * inner)] * Z(std::cos(angle), std::sin(angle));
      }
      y[static_cast<size_t>(i)] = sum;
    }
    x = y;
    inner *= n;
  }
}
template <class R>
int run(void* plan, int type, void* from, void* to, int direction) {
  Plan& p = *static_cast<Plan*>(plan);
  if (failing()) return kInternal;
  if (p.automatic || !p.made || !p.work || p.type != type) return kInvalid;
  if (reinterpret_cast<uintptr_t>(from) % (2 * sizeof(R)) ||
      reinterpret_cast<uintptr_t>(to) % (2 * sizeof(R)))
    return kInvalid;
  if (int error = wait_for(p.stream)) return error;
  std::memset(p.work, 0xff, kBytes);
  const bool real_in = type == kR2C || type == kD2Z, real_out = type == kC2R || type == kZ2D;
  if ((real_in || real_out) && p.rank != 1) return kInvalid;
  const long long all = p.n[0] * p.n[1] * p.n[2], half = p.n[0] / 2 + 1;
  R *in = static_cast<R*>(from), *out = static_cast<R*>(to);
  for (long long b = 0; b < p.batch; ++b) {
    std::vector<Z> x(static_cast<size_t>(all));
    for (long long i = 0; i < all; ++i) {
      Z& v = x[static_cast<size_t>(i)];
      long long at = b * p.in.next + i * p.in.step;
      if (real_in) {
        v = static_cast<double>(in[at]);
        continue;
      }
      const bool other = real_out && i >= half;
      if (other) at = b * p.in.next + (all - i) * p.in.step;
      v = {static_cast<double>(in[2 * at]), static_cast<double>(in[2 * at + 1]) * (other ? -1 : 1)};
    }
    if (real_out)
      for (long long i = 0; i < half; ++i)
        in[2 * (b * p.in.next + i * p.in.step)] = static_cast<R>(NAN);
    transform(x, p, direction);
    for (long long i = 0; i < (real_in ? half : all); ++i) {
      const long long at = b * p.out.next + i * p.out.step;
      const Z v = x[static_cast<size_t>(i)];
      if (real_out) {
        out[at] = static_cast<R>(v.real());
        continue;
      }
      out[2 * at] = static_cast<R>(v.real());
      out[2 * at + 1] = static_cast<R>(v.imag());
    }
  }
  return kSuccess;
}
}  // namespace

#define CALL extern "C" __attribute__((visibility("default"))) int

CALL hipfftCreate(void** out) {
  return failing() ? kInternal : (*out = new Plan, kSuccess);
}
CALL hipfftDestroy(void* plan) {
  return delete static_cast<Plan*>(plan), kSuccess;
}
CALL hipfftSetAutoAllocation(void* plan, int on) {
  return failing() ? kInternal : (static_cast<Plan*>(plan)->automatic = on, kSuccess);
}
CALL hipfftMakePlanMany64(void* plan, int rank, long long* n, long long* in_sizes,
                          long long in_step, long long in_next, long long* out_sizes,
                          long long out_step, long long out_next, int type, long long batch,
                          size_t* bytes) {
  if (failing()) return kInternal;
  if (rank < 1 || rank > 3 || !in_sizes || !out_sizes) return kInvalid;
  Plan& p = *static_cast<Plan*>(plan);
  p.rank = rank, p.type = type, p.batch = batch;
  for (int d = 0; d < rank; ++d) {
    if (in_sizes[d] != n[d] || out_sizes[d] != n[d]) return kInvalid;
    p.n[d] = n[d];
  }
  p.in = {in_step, in_next};
  p.out = {out_step, out_next};
  p.made = true;
  return *bytes = kBytes, kSuccess;
}
CALL hipfftSetStream(void* plan, void* stream) {
  return failing() ? kInternal : (static_cast<Plan*>(plan)->stream = stream, kSuccess);
}
CALL hipfftSetWorkArea(void* plan, void* work) {
  return failing() ? kInternal : (static_cast<Plan*>(plan)->work = work, kSuccess);
}
CALL hipfftExecC2C(void* plan, void* from, void* to, int direction) {
  return run<float>(plan, kC2C, from, to, direction);
}
CALL hipfftExecZ2Z(void* plan, void* from, void* to, int direction) {
  return run<double>(plan, kZ2Z, from, to, direction);
}
CALL hipfftExecR2C(void* plan, void* from, void* to) {
  return run<float>(plan, kR2C, from, to, -1);
}
CALL hipfftExecD2Z(void* plan, void* from, void* to) {
  return run<double>(plan, kD2Z, from, to, -1);
}
CALL hipfftExecC2R(void* plan, void* from, void* to) {
  return run<float>(plan, kC2R, from, to, 1);
}
CALL hipfftExecZ2D(void* plan, void* from, void* to) {
  return run<double>(plan, kZ2D, from, to, 1);
}
