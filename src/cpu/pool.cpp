// The geometry of windows, and what follows places of largest elements as they come: the gradient
// where they are numbers of elements, and what stands there.
#include "cpu/pool.h"

#include "cpu/scratch.h"
#include "cpu/strided.h"
#include "cpu/threads.h"

namespace pyflame::cpu {
namespace {

constexpr auto kNumber = kernels::numbers<kernels::PoolMax>;
constexpr int64_t kWork = 1 << 14;  // elements for one thread at least

Windows::Space three(const KernelArgs& a, int first) {
  return {a.i(first), a.i(first + 1), a.i(first + 2)};
}

}  // namespace

Windows::Windows(const KernelArgs& a)
    : outer(a.i(kNumber.outer)),
      inner(a.i(kNumber.inner)),
      in(three(a, kNumber.in_d)),
      out(three(a, kNumber.out_d)),
      kernel(three(a, kNumber.kernel_d)),
      stride(three(a, kNumber.stride_d)),
      padding(three(a, kNumber.padding_d)),
      dilation(three(a, kNumber.dilation_d)),
      adaptive(a.i(kNumber.adaptive) != 0),
      divisor(static_cast<double>(a.i(kNumber.divisor))) {
  const bool counts_padding = a.i(kNumber.counts_padding) != 0;
  if (adaptive) {
    // Windows that are all alike are those of a stride.
    adaptive = in[0] % out[0] != 0 || in[1] % out[1] != 0 || in[2] % out[2] != 0;
    padding = {0, 0, 0};
    dilation = {1, 1, 1};
    for (size_t d = 0; d < 3; ++d) kernel[d] = stride[d] = std::max<int64_t>(1, in[d] / out[d]);
  }
  bool whole = divisor == 0;
  for (size_t d = 0; d < 3; ++d) {
    for (int64_t i = 0; i < out[d]; ++i) {
      const Range r = range_of(d, i);
      ranges[d].push_back(r);
      const int64_t all = std::min(kernel[d], in[d] + 2 * padding[d] - i * stride[d]);
      counted[d].push_back(static_cast<double>(!adaptive && counts_padding ? all : r.to - r.from));
      if (adaptive) kernel[d] = std::max(kernel[d], r.to);
    }
    whole = whole && out[d] == 1 && kernel[d] == in[d] && of(d, 0).to - of(d, 0).from == in[d];
  }
  if (!whole) return;
  // One window over everything is one over a line.
  divisor = counted[0][0] * counted[1][0] * counted[2][0];
  in = kernel = stride = {1, 1, inputs()};
  padding = {0, 0, 0};
  dilation = {1, 1, 1};
  adaptive = false;
  ranges = {{{{0, 0, 1}}, {{0, 0, 1}}, {{0, 0, in[2]}}}};
}

Windows::Range Windows::range_of(size_t d, int64_t i) const {
  if (adaptive) {
    const int64_t begin = i * in[d] / out[d];
    return {begin, 0, ((i + 1) * in[d] + out[d] - 1) / out[d] - begin};
  }
  const int64_t at = i * stride[d] - padding[d], step = dilation[d];
  const int64_t from = at < 0 ? (-at + step - 1) / step : 0;
  const int64_t to = at < in[d] ? std::min(kernel[d], (in[d] - at + step - 1) / step) : 0;
  return {at + from * step, from, std::max(from, to)};
}

bool Windows::equal_along() const {
  return divisor != 0 || std::all_of(counted[2].begin(), counted[2].end(),
                                     [this](double n) { return n == counted[2][0]; });
}

Windows::Covered Windows::covered(size_t d) const {
  Covered c;
  c.first.assign(static_cast<size_t>(in[d]) + 1, 0);
  const auto each = [&](auto&& fn) {
    for (int64_t i = 0; i < out[d]; ++i)
      for (int64_t k = of(d, i).from; k < of(d, i).to; ++k)
        fn(static_cast<size_t>(of(d, i).begin + (k - of(d, i).from) * step(d)), Cover{i, k});
  };
  each([&](size_t x, const Cover&) { ++c.first[x + 1]; });
  for (size_t x = 1; x < c.first.size(); ++x) c.first[x] += c.first[x - 1];
  c.covers.resize(static_cast<size_t>(c.first.back()));
  std::vector<int64_t> next(c.first);
  each([&](size_t x, const Cover& cover) { c.covers[static_cast<size_t>(next[x]++)] = cover; });
  for (int64_t x = 0; x < in[d]; ++x)
    if (c.begin(x) < c.end(x))
      c.span = std::max(c.span, (c.end(x) - 1)->window - c.begin(x)->window + 1);
  return c;
}

TapPlaces::TapPlaces(const Windows& w) : w_(w) {
  constexpr int64_t kMost = 4096;
  for (int64_t t = 0; w.taps() <= kMost && t < w.taps(); ++t) by_tap_.push_back(offset(t));
}
int64_t TapPlaces::offset(int64_t t) const {
  const auto& k = w_.kernel;
  return (t / k[2] / k[1] * w_.step(0) * w_.in[1] + t / k[2] % k[1] * w_.step(1)) * w_.in[2] +
         t % k[2] * w_.step(2);
}

namespace {

// Places as numbers of elements, or numbers of taps in bytes.
template <class I>
class Places {
 public:
  explicit Places(const Windows& w) : inputs_(w.inputs()), taps_(w) {}
  int64_t corner(int64_t line, int64_t q) const {
    return sizeof(I) == 1 ? taps_.corner(line, q) : 0;
  }
  int64_t of(int64_t corner, I index) const {
    if constexpr (sizeof(I) == 1)
      return taps_.of(corner, index);
    else
      return index < inputs_ ? index : -1;
  }

 private:
  int64_t inputs_;
  TapPlaces taps_;
};

template <class T>
void add_back(const Windows& w, const T* dy, const int64_t* index, T* dx) {
  using N = Compute<T>;
  const int64_t wide = std::min(w.inner, int64_t{16}), blocks = (w.inner + wide - 1) / wide;
  const size_t room = std::is_same_v<N, T> ? 0 : static_cast<size_t>(w.inputs() * wide) * sizeof(N);
  parallel_with(w.outer * blocks, std::max<int64_t>(1, kWork / (w.inputs() * wide)), room,
                [&](int64_t begin, int64_t end, char* own) {
                  for (int64_t u = begin; u < end; ++u) {
                    const int64_t n = u / blocks, c0 = u % blocks * wide;
                    const int64_t channels = std::min(wide, w.inner - c0);
                    T* const to = dx + n * w.inputs() * w.inner + c0;
                    // 16 bits are added up in float32, apart.
                    N* sums = reinterpret_cast<N*>(own);
                    int64_t pitch = channels;
                    if constexpr (std::is_same_v<N, T>) sums = to, pitch = w.inner;
                    for (int64_t i = 0; i < w.inputs(); ++i)
                      std::fill_n(sums + i * pitch, channels, N(0));
                    for (int64_t line = 0; line < w.lines(); ++line)
                      for (int64_t q = 0; q < w.out[2]; ++q) {
                        const int64_t o = ((n * w.lines() + line) * w.out[2] + q) * w.inner + c0;
                        for (int64_t c = 0; c < channels; ++c)
                          if (const int64_t at = index[o + c]; at >= 0 && at < w.inputs())
                            sums[at * pitch + c] += load(dy[o + c]);
                      }
                    if constexpr (!std::is_same_v<N, T>)
                      for (int64_t i = 0; i < w.inputs(); ++i)
                        for (int64_t c = 0; c < channels; ++c)
                          to[i * w.inner + c] = store<T>(sums[i * pitch + c]);
                  }
                });
}

template <class T, class I>
void pick(const Windows& w, const T* x, const I* index, T* y) {
  const Places<I> places(w);
  parallel_for(w.outer * w.lines(), std::max<int64_t>(1, kWork / (w.out[2] * w.inner)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t u = begin; u < end; ++u) {
                   const T* from = x + u / w.lines() * w.inputs() * w.inner;
                   for (int64_t q = 0; q < w.out[2]; ++q) {
                     const int64_t corner = places.corner(u % w.lines(), q);
                     const int64_t o = (u * w.out[2] + q) * w.inner;
                     for (int64_t c = 0; c < w.inner; ++c) {
                       const int64_t at = places.of(corner, index[o + c]);
                       y[o + c] = at >= 0 ? from[at * w.inner + c] : store<T>(Compute<T>(0));
                     }
                   }
                 }
               });
}

void pool_max_pick(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolMaxPick>;
  const Windows w(a);
  dispatch_float(a.dtype(at.x), [&]<class T>() {
    const auto* x = static_cast<const T*>(a.data<T>(at.x));
    if (a.dtype(at.index) == DType::UInt8)
      pick(w, x, static_cast<const uint8_t*>(a.data<uint8_t>(at.index)), a.data<T>(at.y));
    else
      pick(w, x, static_cast<const int64_t*>(a.data<int64_t>(at.index)), a.data<T>(at.y));
  });
}
PF_CPU_KERNEL(kernels::PoolMaxPick::kInfo, pool_max_pick)

}  // namespace

void pool_add_by_places(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::PoolMaxInput>;
  const Windows w(a);
  dispatch_float(a.dtype(at.dx), [&]<class T>() {
    add_back(w, static_cast<const T*>(a.data<T>(at.dy)),
             static_cast<const int64_t*>(a.data<int64_t>(at.index)), a.data<T>(at.dx));
  });
}

}  // namespace pyflame::cpu
