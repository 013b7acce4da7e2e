// Fourier transforms by the vendor's library (cuFFT, hipFFT), and the factor that it does not know.
//   -DPF_C=   float or double: of the numbers' parts
//   -DPF_V=   of them one access has
#include "kernels/integers.h"

struct pf_spectrum {
  const void* from;
  void* to;
  pf_i64 items;  // threads' work
  pf_i64 count;  // fft_scale: parts. fft_half: lines of `terms` complex numbers
  pf_i64 terms;
  pf_i64 even;  // lines stand for an even number of real ones
  double scale;
};
static_assert(sizeof(pf_spectrum) == 56, "as hosts fill it");

#ifdef PF_DEVICE_TEXT
#include "kernels/math.h"
#define PF_INDEX pf_u64
#include "kernels/space.h"

typedef PF_C C;

PF_KERNEL(fft_scale, 256)(pf_spectrum s) {
  const C by = static_cast<C>(s.scale);
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(s.items); e += pf_item_step()) {
    const pf_i64 at = static_cast<pf_i64>(e) * PF_V;
    if (at + PF_V <= s.count) {
      C x[PF_V];
      pf_load<C, PF_V, false>(static_cast<const C*>(s.to) + at, x);
      PF_UNROLL for (int i = 0; i < PF_V; ++i) x[i] = x[i] * by;
      pf_store<C, PF_V, false>(static_cast<C*>(s.to) + at, x);
    } else {
      PF_NO_UNROLL for (pf_i64 i = at; i < s.count; ++i)
          pf_put<C>(s.to, i, pf_get<C>(s.to, i) * by);
    }
  }
}
// Half of the terms of real numbers, of which the first and (of an even number) the last are real.
PF_KERNEL(fft_half, 256)(pf_spectrum s) {
  for (pf_u64 e = pf_first_item(); e < static_cast<pf_u64>(s.items); e += pf_item_step()) {
    const pf_i64 at = static_cast<pf_i64>(e), line = pf_quotient(at, s.terms);
    const pf_i64 term = at - line * s.terms;
    const bool real = term == 0 || (s.even && term == s.terms - 1);
    pf_put<C>(s.to, 2 * at, pf_get<C>(s.from, 2 * at));
    pf_put<C>(s.to, 2 * at + 1, real ? C(0) : pf_get<C>(s.from, 2 * at + 1));
  }
}

#else  // launchers
#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "gpu/compile_only.h"
#include "gpu/device.h"
#include "gpu/fft_library.h"
#include "gpu/kernel.h"
#include "gpu/library.h"
#include "table/kernels/fft.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr size_t kMostPlans = 64;  // of a device

struct FftCalls {
  PF_FFT_CALLS(PF_CALL_POINTER)
  template <class F>
  void each(F&& take) {
    const std::string prefix = PF_RT("hipfft", "cufft");
    PF_FFT_CALLS(PF_CALL_TAKE)
  }
};

const VendorLibrary<FftCalls>& library() {
  static const VendorLibrary<FftCalls> l(
      PF_RT("hipFFT", "cuFFT"), PF_RT("PYFLAME_HIPFFT_LIBRARY", "PYFLAME_CUFFT_LIBRARY"),
      PF_RT("libhipfft", "libcufft"), {PF_RT(".so.0", ".so.12"), PF_RT(".so.1", ".so.11")});
  return l;
}
bool usable() {
  return !compile_only().empty() || library().usable;
}

void must(int status, const char* call) {
  // 2: memory, of the device or of the host
  if (status != 0)
    throw Failure(status == 2 ? PF_OOM : PF_LAUNCH, std::string(PF_RT("hipfft", "cufft")) + call +
                                                        " gave status " + std::to_string(status));
}

// Transforms over up to three dimensions that follow each other: so many, `next` apart; the
// elements of one are `step` apart.
struct Shape {
  int rank;
  long long n[3];
  long long in_step, in_next, out_step, out_next, batch;
  int type;
  bool operator==(const Shape&) const = default;
};

class Plans {
 public:
  struct Plan {
    Shape shape;
    FftPlan handle;
    size_t workspace;
  };
  std::mutex mutex;  // a plan has one stream and one workspace at a time

  // The lock is held.
  const Plan& find(const Shape& s) {
    for (auto it = plans_.begin(); it != plans_.end(); ++it)
      if (it->shape == s) {
        plans_.splice(plans_.begin(), plans_, it);
        return plans_.front();
      }
    if (plans_.size() == kMostPlans) {
      library().Destroy(plans_.back().handle);
      plans_.pop_back();
    }
    Plan p{s, {}, 0};
    must(library().Create(&p.handle), "Create");
    try {
      long long n[3], *sizes = n;
      std::copy_n(s.n, 3, n);
      must(library().SetAutoAllocation(p.handle, 0), "SetAutoAllocation");
      // Sizes of memory are those of the transform but for real ones, which have one dimension.
      must(library().MakePlanMany64(p.handle, s.rank, n, sizes, s.in_step, s.in_next, sizes,
                                    s.out_step, s.out_next, s.type, s.batch, &p.workspace),
           "MakePlanMany64");
    } catch (...) {
      library().Destroy(p.handle);
      throw;
    }
    plans_.push_front(p);
    return plans_.front();
  }

 private:
  std::list<Plan> plans_;  // the last used first
};
Plans& plans_of(const Device& d) {
  static std::mutex mutex;
  static auto* all = new std::map<int, std::unique_ptr<Plans> >;
  std::lock_guard lock(mutex);
  auto& p = (*all)[d.index];
  if (!p) p = std::make_unique<Plans>();
  return *p;
}

// run(plan) under the lock, behind all that the stream has.
template <class F>
void with_plan(const KernelArgs& a, const Shape& s, F&& run) {
  if (!compile_only().empty()) return;
  Stream& stream = a.device.stream(a.stream);
  stream.queue.finish();
  a.device.activate();
  Plans& plans = plans_of(a.device);
  std::lock_guard lock(plans.mutex);
  const Plans::Plan& p = plans.find(s);
  must(library().SetStream(p.handle, stream.handle), "SetStream");
  if (p.workspace > 0)
    must(library().SetWorkArea(p.handle, a.workspace(p.workspace)), "SetWorkArea");
  run(p.handle);
}

const char* part_of(bool wide) {
  return wide ? "double" : "float";
}
void multiply(const KernelArgs& a, void* y, int64_t parts, bool wide, double scale) {
  if (scale == 1) return;
  const int64_t vector = wide ? 2 : 4;
  pf_spectrum s{};
  s.to = y, s.count = parts, s.items = ceil_div(parts, vector), s.scale = scale;
  a.launch(a.compile("kernels_fft.cpp", Defines().text("PF_C", part_of(wide)).value("PF_V", vector),
                     "fft_scale"),
           blocks_for(s.items, kBlock), kBlock, 0, s);
}
int64_t numel(const pf_tensor& t) {
  int64_t n = 1;
  for (int d = 0; d < t.ndim; ++d) n *= t.shape[d];
  return n;
}

void fft(const KernelArgs& a) {
  constexpr auto at = tensors<Fft>;
  constexpr auto number = numbers<Fft>;
  const pf_tensor& x = a.tensor(at.x);
  const bool wide = a.dtype(at.x) == DType::Complex128;
  const int64_t item = wide ? 16 : 8, all = numel(x), dims = a.i(number.dims);
  const int direction = a.i(number.inverse) ? kFftBackward : kFftForward;
  char* const y = static_cast<char*>(a.data(at.y));
  char* from = static_cast<char*>(a.data(at.x));
  const auto chosen = [&](int d) { return (dims >> d & 1) && x.shape[d] > 1; };
  int64_t inner = 1;
  for (int end = x.ndim - 1; end >= 0;) {
    if (!chosen(end)) {
      inner *= x.shape[end--];
      continue;
    }
    int begin = end;
    while (begin > 0 && end - begin < 2 && chosen(begin - 1)) --begin;
    Shape s{};
    int64_t size = 1;
    for (int d = begin; d <= end; ++d) {
      s.n[s.rank++] = x.shape[d];
      size *= x.shape[d];
    }
    s.type = wide ? kFftZ2Z : kFftC2C;
    s.in_step = s.out_step = inner;
    // One call does all that are beside each other, or all that follow each other: whatever makes
    // fewer calls.
    const int64_t outer = all / size / inner;
    const bool beside = inner > 1 && inner >= outer;
    s.in_next = s.out_next = beside ? 1 : size * inner;
    s.batch = beside ? inner : outer;
    const int64_t calls = beside ? outer : inner, step = beside ? size * inner : 1;
    with_plan(a, s, [&](FftPlan plan) {
      for (int64_t i = 0; i < calls; ++i) {
        const int64_t offset = i * step * item;
        if (wide)
          must(library().ExecZ2Z(plan, from + offset, y + offset, direction), "ExecZ2Z");
        else
          must(library().ExecC2C(plan, from + offset, y + offset, direction), "ExecC2C");
      }
    });
    from = y;
    inner *= size;
    end = begin - 1;
  }
  if (from != y) a.copy(y, from, static_cast<size_t>(all * item));
  multiply(a, y, 2 * all, wide, a.f(number.scale));
}

// n real numbers a line, and their terms.
Shape of_lines(int64_t n, int64_t lines, int type, bool back) {
  Shape s{};
  s.rank = 1;
  s.n[0] = n;
  s.in_step = s.out_step = 1;
  s.in_next = back ? n / 2 + 1 : n;
  s.out_next = back ? n : n / 2 + 1;
  s.batch = lines;
  s.type = type;
  return s;
}

void rfft(const KernelArgs& a) {
  constexpr auto at = tensors<Rfft>;
  const pf_tensor &x = a.tensor(at.x), &y = a.tensor(at.y);
  const bool wide = a.dtype(at.x) == DType::Float64;
  const int64_t n = x.shape[x.ndim - 1], lines = numel(x) / n, item = wide ? 8 : 4;
  void* from = x.data;
  if (reinterpret_cast<uintptr_t>(from) % static_cast<uintptr_t>(2 * item) != 0) {
    // The library reads real numbers two at a time.
    const auto bytes = static_cast<size_t>(n * lines * item);
    void* copy = a.workspace(bytes);
    a.copy(copy, from, bytes);
    from = copy;
  }
  with_plan(a, of_lines(n, lines, wide ? kFftD2Z : kFftR2C, false), [&](FftPlan plan) {
    if (wide)
      must(library().ExecD2Z(plan, from, y.data), "ExecD2Z");
    else
      must(library().ExecR2C(plan, from, y.data), "ExecR2C");
  });
  multiply(a, y.data, 2 * numel(y), wide, a.f(numbers<Rfft>.scale));
}

void irfft(const KernelArgs& a) {
  constexpr auto at = tensors<Irfft>;
  const pf_tensor &x = a.tensor(at.x), &y = a.tensor(at.y);
  const bool wide = a.dtype(at.y) == DType::Float64;
  const int64_t n = y.shape[y.ndim - 1], lines = numel(y) / n, item = wide ? 8 : 4;
  // The library writes into what it reads, and trusts that real terms are.
  pf_spectrum s{};
  s.from = x.data;
  s.items = numel(x), s.count = lines, s.terms = n / 2 + 1, s.even = n % 2 == 0;
  s.to = a.workspace(static_cast<size_t>(s.items * item * 2));
  a.launch(a.compile("kernels_fft.cpp",
                     Defines().text("PF_C", part_of(wide)).value("PF_V", wide ? 2 : 4), "fft_half"),
           blocks_for(s.items, kBlock), kBlock, 0, s);
  void* to = y.data;
  const bool odd = reinterpret_cast<uintptr_t>(to) % static_cast<uintptr_t>(2 * item) != 0;
  const auto bytes = static_cast<size_t>(n * lines * item);
  if (odd) to = a.workspace(bytes);
  with_plan(a, of_lines(n, lines, wide ? kFftZ2D : kFftC2R, true), [&](FftPlan plan) {
    if (wide)
      must(library().ExecZ2D(plan, s.to, to), "ExecZ2D");
    else
      must(library().ExecC2R(plan, s.to, to), "ExecC2R");
  });
  if (odd) a.copy(y.data, to, bytes);
  multiply(a, y.data, n * lines, wide, a.f(numbers<Irfft>.scale));
}

}  // namespace

PF_GPU_LIBRARY_KERNEL(Fft::kInfo, fft, usable)
PF_GPU_LIBRARY_KERNEL(Rfft::kInfo, rfft, usable)
PF_GPU_LIBRARY_KERNEL(Irfft::kInfo, irfft, usable)

}  // namespace pyflame::gpu
#endif
