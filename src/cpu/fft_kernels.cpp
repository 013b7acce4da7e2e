// Stockham's passes: each takes a radix out of the length and leaves results in order. Numbers have
// their parts in vectors of their own while they are here. Within a line vectors run over the
// elements of a pass; of lines side by side over the lines.
#include <algorithm>
#include <cstring>

#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/fft_kernels.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include <hwy/highway.h>

#include "cpu/fft.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
struct Pair {
  hn::Vec<D> re, im;
};
template <class D>
HWY_INLINE Pair<D> Add(Pair<D> a, Pair<D> b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}
template <class D>
HWY_INLINE Pair<D> Sub(Pair<D> a, Pair<D> b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}
template <class D>
HWY_INLINE Pair<D> Mul(Pair<D> a, Pair<D> w) {
  return {hn::NegMulAdd(a.im, w.im, hn::Mul(a.re, w.re)),
          hn::MulAdd(a.im, w.re, hn::Mul(a.re, w.im))};
}
// -i a
template <class D>
HWY_INLINE Pair<D> Turn(Pair<D> a) {
  return {a.im, hn::Neg(a.re)};
}

// Four terms of a transform.
template <class D>
HWY_INLINE void Four(Pair<D>& a, Pair<D>& b, Pair<D>& c, Pair<D>& d) {
  const Pair<D> s = Add(a, c), t = Sub(a, c), u = Add(b, d), v = Turn(Sub(b, d));
  a = Add(s, u);
  b = Add(t, v);
  c = Sub(s, u);
  d = Sub(t, v);
}

// Numbers side by side in memory; parts are exchanged for the inverse.
template <class D, class T>
HWY_INLINE Pair<D> LoadBoth(D d, const T* p, bool inverse) {
  hn::Vec<D> a, b;
  hn::LoadInterleaved2(d, p, a, b);
  return inverse ? Pair<D>{b, a} : Pair<D>{a, b};
}
template <class D, class T>
HWY_INLINE void StoreBoth(D d, Pair<D> v, T* p, bool inverse, hn::Vec<D> scale) {
  const auto re = hn::Mul(v.re, scale), im = hn::Mul(v.im, scale);
  if (inverse)
    hn::StoreInterleaved2(im, re, d, p);
  else
    hn::StoreInterleaved2(re, im, d, p);
}

// ---- one line -----------------------------------------------------------------------------------

// The roots of a pass, one for each lane.
template <class D, class T>
HWY_INLINE Pair<D> Root(D d, const T* w, int64_t quarter, int which, int64_t i) {
  return {hn::LoadU(d, w + (2 * which) * quarter + i),
          hn::LoadU(d, w + (2 * which + 1) * quarter + i)};
}

// Radix 4 with steps of 1: results interleave.
template <class T, bool INV>
void FirstPass(const FftTables<T>& t, const T* x, T* re, T* im) {
  using D = hn::ScalableTag<T>;
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), q = t.n / 4;
  const T* w = t.first.data();
  for (int64_t p = 0; p < q; p += lanes) {
    Pair<D> a = LoadBoth(d, x + 2 * p, INV), b = LoadBoth(d, x + 2 * (p + q), INV),
            c = LoadBoth(d, x + 2 * (p + 2 * q), INV), e = LoadBoth(d, x + 2 * (p + 3 * q), INV);
    Four(a, b, c, e);
    b = Mul(b, Root(d, w, q, 0, p));
    c = Mul(c, Root(d, w, q, 1, p));
    e = Mul(e, Root(d, w, q, 2, p));
    hn::StoreInterleaved4(a.re, b.re, c.re, e.re, d, re + 4 * p);
    hn::StoreInterleaved4(a.im, b.im, c.im, e.im, d, im + 4 * p);
  }
}

// Radix 4 with steps of 4: results interleave in fours.
template <class T>
void SecondPass(const FftTables<T>& t, const T* re, const T* im, T* yre, T* yim) {
  using D = hn::ScalableTag<T>;
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), q = t.n / 4;
  const T* w = t.second.data();
  const auto load = [&](int64_t i) -> Pair<D> {
    return {hn::LoadU(d, re + i), hn::LoadU(d, im + i)};
  };
  constexpr size_t kMost = 64;
  HWY_ALIGN T piece[8][kMost];
  for (int64_t i = 0; i < q; i += lanes) {
    Pair<D> a = load(i), b = load(i + q), c = load(i + 2 * q), e = load(i + 3 * q);
    Four(a, b, c, e);
    b = Mul(b, Root(d, w, q, 0, i));
    c = Mul(c, Root(d, w, q, 1, i));
    e = Mul(e, Root(d, w, q, 2, i));
    if (lanes <= 4) {
      const Pair<D> all[4] = {a, b, c, e};
      for (int k = 0; k < 4; ++k) {
        hn::StoreU(all[k].re, d, yre + 4 * i + 4 * k);
        hn::StoreU(all[k].im, d, yim + 4 * i + 4 * k);
      }
      continue;
    }
    hn::Store(a.re, d, piece[0]);
    hn::Store(b.re, d, piece[1]);
    hn::Store(c.re, d, piece[2]);
    hn::Store(e.re, d, piece[3]);
    hn::Store(a.im, d, piece[4]);
    hn::Store(b.im, d, piece[5]);
    hn::Store(c.im, d, piece[6]);
    hn::Store(e.im, d, piece[7]);
    for (int64_t l = 0; l < lanes; l += 4)
      for (int64_t k = 0; k < 4; ++k) {
        std::memcpy(yre + 4 * (i + l) + 4 * k, piece[k] + l, 4 * sizeof(T));
        std::memcpy(yim + 4 * (i + l) + 4 * k, piece[4 + k] + l, 4 * sizeof(T));
      }
  }
}

// Radix 4 or 2 with steps s of whole vectors; the last one writes numbers side by side.
template <class T, int RADIX, bool LAST, bool INV>
void LaterPass(const FftTables<T>& t, int64_t s, const T* re, const T* im, T* yre, T* yim, T* y,
               T scale) {
  using D = hn::ScalableTag<T>;
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), m = t.n / s / RADIX;
  const auto by = hn::Set(d, scale);
  const auto load = [&](int64_t i) -> Pair<D> {
    return {hn::LoadU(d, re + i), hn::LoadU(d, im + i)};
  };
  const auto store = [&](Pair<D> v, int64_t i) {
    if (LAST) {
      StoreBoth(d, v, y + 2 * i, INV, by);
    } else {
      hn::StoreU(v.re, d, yre + i);
      hn::StoreU(v.im, d, yim + i);
    }
  };
  const auto root = [&](int64_t k) -> Pair<D> {
    return {hn::Set(d, t.cos[static_cast<size_t>(k)]), hn::Set(d, t.sin[static_cast<size_t>(k)])};
  };
  for (int64_t p = 0; p < m; ++p) {
    const Pair<D> w1 = root(p * s), w2 = RADIX == 4 ? root(2 * p * s) : w1,
                  w3 = RADIX == 4 ? root(3 * p * s) : w1;
    for (int64_t q = 0; q < s; q += lanes) {
      const int64_t from = q + s * p, to = q + s * RADIX * p;
      if (RADIX == 2) {
        const Pair<D> a = load(from), b = load(from + s * m);
        store(Add(a, b), to);
        store(p == 0 ? Sub(a, b) : Mul(Sub(a, b), w1), to + s);
      } else {
        Pair<D> a = load(from), b = load(from + s * m), c = load(from + 2 * s * m),
                e = load(from + 3 * s * m);
        Four(a, b, c, e);
        store(a, to);
        store(p == 0 ? b : Mul(b, w1), to + s);
        store(p == 0 ? c : Mul(c, w2), to + 2 * s);
        store(p == 0 ? e : Mul(e, w3), to + 3 * s);
      }
    }
  }
}

template <class T, bool INV>
void Line(const FftTables<T>& t, const T* x, T* y, T scale, T* scratch) {
  T *re = scratch, *im = re + t.n, *re2 = im + t.n, *im2 = re2 + t.n;
  FirstPass<T, INV>(t, x, re, im);
  SecondPass(t, re, im, re2, im2);
  std::swap(re, re2);
  std::swap(im, im2);
  for (int64_t s = 16; s < t.n;) {
    const int64_t left = t.n / s;
    const bool last = left <= 4;
    if (left == 2)
      LaterPass<T, 2, true, INV>(t, s, re, im, re2, im2, y, scale);
    else if (last)
      LaterPass<T, 4, true, INV>(t, s, re, im, re2, im2, y, scale);
    else
      LaterPass<T, 4, false, INV>(t, s, re, im, re2, im2, y, scale);
    std::swap(re, re2);
    std::swap(im, im2);
    s *= left == 2 ? 2 : 4;
  }
}
template <class T>
void LineOf(const FftTables<T>& t, const T* x, T* y, FftJob job, T* scratch) {
  const T scale = static_cast<T>(job.scale);
  if (job.inverse)
    Line<T, true>(t, x, y, scale, scratch);
  else
    Line<T, false>(t, x, y, scale, scratch);
}

// ---- lines side by side -------------------------------------------------------------------------

template <class T>
struct Roots {
  const T *cos, *sin;
  template <class D>
  HWY_INLINE Pair<D> at(D d, int64_t k) const {
    return {hn::Set(d, cos[k]), hn::Set(d, sin[k])};
  }
};

// A pass over memory with [number][real, imaginary][lane].
template <class D>
HWY_INLINE Pair<D> Get(D d, const hn::TFromD<D>* x, int64_t i) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  return {hn::Load(d, x + 2 * i * lanes), hn::Load(d, x + (2 * i + 1) * lanes)};
}
template <class D>
HWY_INLINE void Put(D d, Pair<D> v, hn::TFromD<D>* y, int64_t i) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Store(v.re, d, y + 2 * i * lanes);
  hn::Store(v.im, d, y + (2 * i + 1) * lanes);
}

template <class T>
struct RootsOfTable : TableRoots<T> {
  template <class D>
  HWY_INLINE Pair<D> at(D d, int64_t k, int64_t lane) const {
    const T* w = this->near + 2 * k * kMostLanes + lane;
    return Mul(Pair<D>{hn::LoadU(d, w), hn::LoadU(d, w + kMostLanes)},
               Pair<D>{hn::Set(d, this->far_re[k]), hn::Set(d, this->far_im[k])});
  }
  std::complex<T> at(int64_t k, int64_t lane) const {
    const hn::CappedTag<T, 1> one;
    const auto w = at(one, k, lane);
    return {hn::GetLane(w.re), hn::GetLane(w.im)};
  }
};

// As many vectors as they have lanes: element i of vector j and element j of vector i change
// places.
template <class D>
HWY_INLINE void Transpose(D d, hn::Vec<D>* v) {
  using T = hn::TFromD<D>;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d)), kIn = 16 / sizeof(T),
                kBlocks = kLanes / kIn;
  static_assert(kBlocks == 1 || kBlocks == 2 || kBlocks == 4);
  const hn::Repartition<double, D> wide;
  // Within blocks of 16 bytes: block b of rows[g][e] is column b * kIn + e of rows g * kIn on.
  hn::Vec<D> rows[kBlocks][kIn];
  for (int g = 0; g < kBlocks; ++g) {
    const hn::Vec<D>* r = v + g * kIn;
    const auto low = hn::InterleaveLower(d, r[0], r[1]), high = hn::InterleaveUpper(d, r[0], r[1]);
    if constexpr (kIn == 2) {
      rows[g][0] = low, rows[g][1] = high;
    } else {
      const auto a = hn::BitCast(wide, low), b = hn::BitCast(wide, high),
                 p = hn::BitCast(wide, hn::InterleaveLower(d, r[2], r[3])),
                 q = hn::BitCast(wide, hn::InterleaveUpper(d, r[2], r[3]));
      rows[g][0] = hn::BitCast(d, hn::InterleaveLower(wide, a, p));
      rows[g][1] = hn::BitCast(d, hn::InterleaveUpper(wide, a, p));
      rows[g][2] = hn::BitCast(d, hn::InterleaveLower(wide, b, q));
      rows[g][3] = hn::BitCast(d, hn::InterleaveUpper(wide, b, q));
    }
  }
  for (int e = 0; e < kIn; ++e) {
    if constexpr (kBlocks == 1) {
      v[e] = rows[0][e];
    } else if constexpr (kBlocks == 2) {
      v[e] = hn::ConcatLowerLower(d, rows[1][e], rows[0][e]);
      v[kIn + e] = hn::ConcatUpperUpper(d, rows[1][e], rows[0][e]);
    } else {
      const auto even = [](hn::Vec<D> a, hn::Vec<D> b)
                            HWY_ATTR { return hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a); };
      const auto odd = [](hn::Vec<D> a, hn::Vec<D> b)
                           HWY_ATTR { return hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a)); };
      const auto a = even(rows[0][e], rows[1][e]), b = odd(rows[0][e], rows[1][e]),
                 p = even(rows[2][e], rows[3][e]), q = odd(rows[2][e], rows[3][e]);
      v[e] = hn::ConcatLowerLower(d, p, a);
      v[kIn + e] = hn::ConcatLowerLower(d, q, b);
      v[2 * kIn + e] = hn::ConcatUpperUpper(d, p, a);
      v[3 * kIn + e] = hn::ConcatUpperUpper(d, q, b);
    }
  }
}

// Results times the roots of a pass: none where p is 0, as in all of the last pass.
template <class D, int R>
struct PassRoots {
  Pair<D> root[R];
  bool none;
  HWY_INLINE PassRoots(D d, Roots<hn::TFromD<D>> w, int64_t p, int64_t s) : none(p == 0) {
    for (int k = 1; k < R; ++k) root[k] = w.at(d, k * p * s);
  }
  HWY_INLINE Pair<D> operator()(Pair<D> a, int k) const { return none ? a : Mul(a, root[k]); }
};

template <class D, class GET, class PUT>
void Radix2(D d, Roots<hn::TFromD<D>> w, int64_t s, int64_t m, GET&& get, PUT&& put) {
  for (int64_t p = 0; p < m; ++p) {
    const PassRoots<D, 2> times(d, w, p, s);
    for (int64_t q = 0; q < s; ++q) {
      const Pair<D> a = get(q + s * p), b = get(q + s * (p + m));
      put(Add(a, b), q + s * 2 * p);
      put(times(Sub(a, b), 1), q + s * (2 * p + 1));
    }
  }
}
template <class D, class GET, class PUT>
void Radix4(D d, Roots<hn::TFromD<D>> w, int64_t s, int64_t m, GET&& get, PUT&& put) {
  for (int64_t p = 0; p < m; ++p) {
    const PassRoots<D, 4> times(d, w, p, s);
    for (int64_t q = 0; q < s; ++q) {
      Pair<D> a = get(q + s * p), b = get(q + s * (p + m)), c = get(q + s * (p + 2 * m)),
              e = get(q + s * (p + 3 * m));
      Four(a, b, c, e);
      const int64_t to = q + s * 4 * p;
      put(a, to);
      put(times(b, 1), to + s);
      put(times(c, 2), to + 2 * s);
      put(times(e, 3), to + 3 * s);
    }
  }
}
// exp(-i pi / 4) a
template <class D>
HWY_INLINE Pair<D> Eighth(D d, Pair<D> a) {
  const auto h = hn::Set(d, static_cast<hn::TFromD<D>>(0.70710678118654752440));
  return {hn::Mul(h, hn::Add(a.re, a.im)), hn::Mul(h, hn::Sub(a.im, a.re))};
}
template <class D, class GET, class PUT>
void Radix8(D d, Roots<hn::TFromD<D>> w, int64_t s, int64_t m, GET&& get, PUT&& put) {
  for (int64_t p = 0; p < m; ++p) {
    const PassRoots<D, 8> times(d, w, p, s);
    for (int64_t q = 0; q < s; ++q) {
      Pair<D> x0 = get(q + s * p), x1 = get(q + s * (p + m)), x2 = get(q + s * (p + 2 * m)),
              x3 = get(q + s * (p + 3 * m)), x4 = get(q + s * (p + 4 * m)),
              x5 = get(q + s * (p + 5 * m)), x6 = get(q + s * (p + 6 * m)),
              x7 = get(q + s * (p + 7 * m));
      Four(x0, x2, x4, x6);
      Four(x1, x3, x5, x7);
      x3 = Eighth(d, x3);
      x5 = Turn(x5);
      x7 = Eighth(d, Turn(x7));
      const int64_t to = q + s * 8 * p;
      put(Add(x0, x1), to);
      put(times(Add(x2, x3), 1), to + s);
      put(times(Add(x4, x5), 2), to + 2 * s);
      put(times(Add(x6, x7), 3), to + 3 * s);
      put(times(Sub(x0, x1), 4), to + 4 * s);
      put(times(Sub(x2, x3), 5), to + 5 * s);
      put(times(Sub(x4, x5), 6), to + 6 * s);
      put(times(Sub(x6, x7), 7), to + 7 * s);
    }
  }
}
// Any radix by its definition, with terms that mirror each other taken together.
template <class D, int R, class GET, class PUT>
void RadixOdd(D d, Roots<hn::TFromD<D>> w, int64_t n, int64_t s, int64_t m, GET&& get, PUT&& put) {
  constexpr int kHalf = R / 2;
  Pair<D> unit[R];
  for (int k = 0; k < R; ++k) unit[k] = w.at(d, n / R * k);
  for (int64_t p = 0; p < m; ++p) {
    const PassRoots<D, R> times(d, w, p, s);
    for (int64_t q = 0; q < s; ++q) {
      const Pair<D> first = get(q + s * p);
      Pair<D> sum[kHalf], gap[kHalf], all = first;
      for (int j = 0; j < kHalf; ++j) {
        const Pair<D> a = get(q + s * (p + (j + 1) * m)), b = get(q + s * (p + (R - 1 - j) * m));
        sum[j] = Add(a, b);
        gap[j] = Sub(a, b);
        all = Add(all, sum[j]);
      }
      const int64_t to = q + s * R * p;
      put(all, to);
      for (int k = 1; k <= kHalf; ++k) {
        Pair<D> u = first, v{hn::Zero(d), hn::Zero(d)};
        for (int j = 0; j < kHalf; ++j) {
          const Pair<D>& e = unit[(j + 1) * k % R];
          u = {hn::MulAdd(sum[j].re, e.re, u.re), hn::MulAdd(sum[j].im, e.re, u.im)};
          // i sin * gap
          v = {hn::NegMulAdd(gap[j].im, e.im, v.re), hn::MulAdd(gap[j].re, e.im, v.im)};
        }
        put(times(Add(u, v), k), to + k * s);
        put(times(Sub(u, v), R - k), to + (R - k) * s);
      }
    }
  }
}

template <class D, class GET, class PUT>
void Pass(D d, Roots<hn::TFromD<D>> w, int64_t n, int radix, int64_t s, int64_t m, GET&& get,
          PUT&& put) {
  switch (radix) {
    case 2:
      return Radix2(d, w, s, m, get, put);
    case 4:
      return Radix4(d, w, s, m, get, put);
    case 8:
      return Radix8(d, w, s, m, get, put);
    case 3:
      return RadixOdd<D, 3>(d, w, n, s, m, get, put);
    case 5:
      return RadixOdd<D, 5>(d, w, n, s, m, get, put);
    case 7:
      return RadixOdd<D, 7>(d, w, n, s, m, get, put);
    case 11:
      return RadixOdd<D, 11>(d, w, n, s, m, get, put);
    default:
      return RadixOdd<D, 13>(d, w, n, s, m, get, put);
  }
}

// So many lines as a vector has lanes, or fewer; each in memory as `from` and `to` say.
template <class T>
void SomeLanes(const FftTables<T>& t, const T* x, Lanes from, T* y, Lanes to, FftJob job,
               TableRoots<T> given, T* scratch) {
  using D = hn::ScalableTag<T>;
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t n = t.n;
  T *a = scratch, *b = scratch + 2 * n * lanes;
  const bool inverse = job.inverse;
  const Roots<T> w{t.cos.data(), t.sin.data()};
  const RootsOfTable<T> roots{given};
  const auto scale = hn::Set(d, static_cast<T>(job.scale));
  const bool whole_in = from.beside == 1 && from.count == lanes,
             whole_out = to.beside == 1 && to.count == lanes;
  const int re = inverse ? 1 : 0, im = 1 - re;
  if (!whole_in) {
    int64_t j = 0;
    if (from.step == 1 && from.count == lanes)
      for (; j + lanes <= n; j += lanes) {  // squares of numbers
        hn::Vec<D> u[hn::MaxLanes(d)], v[hn::MaxLanes(d)];
        for (int64_t l = 0; l < lanes; ++l) {
          const Pair<D> both = LoadBoth(d, x + 2 * (j + l * from.beside), inverse);
          u[l] = both.re, v[l] = both.im;
        }
        Transpose(d, u);
        Transpose(d, v);
        for (int64_t l = 0; l < lanes; ++l) Put(d, Pair<D>{u[l], v[l]}, a, j + l);
      }
    for (; j < n; ++j)
      for (int64_t l = 0; l < lanes; ++l) {
        const T* p = x + 2 * (j * from.step + l * from.beside);
        a[2 * j * lanes + l] = l < from.count ? p[re] : T(0);
        a[(2 * j + 1) * lanes + l] = l < from.count ? p[im] : T(0);
      }
  }
  bool read = !whole_in;  // whether numbers are in `a` already
  int64_t s = 1;
  const size_t passes = t.radices.size();
  for (size_t i = 0; i < passes; ++i) {
    const int radix = t.radices[i];
    const int64_t m = n / s / radix;
    const bool last = i + 1 == passes;
    const auto from_memory = [&](int64_t k) { return LoadBoth(d, x + 2 * k * from.step, inverse); };
    const auto from_scratch = [&](int64_t k) { return Get(d, a, k); };
    const auto into_memory = [&](Pair<D> v, int64_t k) {
      if (roots.near) v = Mul(v, roots.at(d, k, 0));
      StoreBoth(d, v, y + 2 * k * to.step, inverse, scale);
    };
    const auto into_scratch = [&](Pair<D> v, int64_t k) { Put(d, v, b, k); };
    if (!read && last && whole_out && x != y)
      Pass(d, w, n, radix, s, m, from_memory, into_memory);
    else if (!read)
      Pass(d, w, n, radix, s, m, from_memory, into_scratch);
    else if (last && whole_out)
      Pass(d, w, n, radix, s, m, from_scratch, into_memory);
    else
      Pass(d, w, n, radix, s, m, from_scratch, into_scratch);
    if (last && whole_out && (read || x != y)) return;
    read = true;
    std::swap(a, b);
    s *= radix;
  }
  // A length of 1, results that are not whole vectors, or a single pass in place.
  const T factor = static_cast<T>(job.scale);
  int64_t j = 0;
  if (read && to.step == 1 && to.count == lanes && !roots.near)
    for (; j + lanes <= n; j += lanes) {
      hn::Vec<D> u[hn::MaxLanes(d)], v[hn::MaxLanes(d)];
      for (int64_t l = 0; l < lanes; ++l) {
        const Pair<D> both = Get(d, a, j + l);
        u[l] = both.re, v[l] = both.im;
      }
      Transpose(d, u);
      Transpose(d, v);
      for (int64_t l = 0; l < lanes; ++l)
        StoreBoth(d, Pair<D>{u[l], v[l]}, y + 2 * (j + l * to.beside), inverse, scale);
    }
  for (; j < n; ++j)
    for (int64_t l = 0; l < to.count; ++l) {
      T* p = y + 2 * (j * to.step + l * to.beside);
      const T* q = x + 2 * (j * from.step + l * from.beside);
      T u = read ? a[2 * j * lanes + l] : q[re], v = read ? a[(2 * j + 1) * lanes + l] : q[im];
      if (roots.near) {
        const std::complex<T> w = roots.at(j, l);
        const T both = u * w.imag() + v * w.real();
        u = u * w.real() - v * w.imag();
        v = both;
      }
      p[re] = u * factor;
      p[im] = v * factor;
    }
}

template <class T>
void LanesOf(const FftTables<T>& t, const T* x, Lanes from, T* y, Lanes to, FftJob job,
             TableRoots<T> roots, T* scratch) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (int64_t l = 0; l < from.count; l += lanes) {
    const int64_t count = std::min(lanes, from.count - l);
    SomeLanes(t, x + 2 * l * from.beside, Lanes{from.step, from.beside, count},
              y + 2 * l * to.beside, Lanes{to.step, to.beside, count}, job, roots, scratch);
    if (roots.near) roots.near += lanes;
  }
}

void LineF(const FftTables<float>& t, const float* x, float* y, FftJob job, float* scratch) {
  LineOf(t, x, y, job, scratch);
}
void LineD(const FftTables<double>& t, const double* x, double* y, FftJob job, double* scratch) {
  LineOf(t, x, y, job, scratch);
}
void LanesF(const FftTables<float>& t, const float* x, Lanes from, float* y, Lanes to, FftJob job,
            TableRoots<float> roots, float* scratch) {
  LanesOf(t, x, from, y, to, job, roots, scratch);
}
void LanesD(const FftTables<double>& t, const double* x, Lanes from, double* y, Lanes to,
            FftJob job, TableRoots<double> roots, double* scratch) {
  LanesOf(t, x, from, y, to, job, roots, scratch);
}

}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {

HWY_EXPORT(LineF);
HWY_EXPORT(LineD);
HWY_EXPORT(LanesF);
HWY_EXPORT(LanesD);

void fft_line(const FftTables<float>& t, const float* x, float* y, FftJob job, float* scratch) {
  HWY_DYNAMIC_DISPATCH(LineF)(t, x, y, job, scratch);
}
void fft_line(const FftTables<double>& t, const double* x, double* y, FftJob job, double* scratch) {
  HWY_DYNAMIC_DISPATCH(LineD)(t, x, y, job, scratch);
}
void fft_lanes(const FftTables<float>& t, const float* x, Lanes from, float* y, Lanes to,
               FftJob job, float* scratch, TableRoots<float> roots) {
  HWY_DYNAMIC_DISPATCH(LanesF)(t, x, from, y, to, job, roots, scratch);
}
void fft_lanes(const FftTables<double>& t, const double* x, Lanes from, double* y, Lanes to,
               FftJob job, double* scratch, TableRoots<double> roots) {
  HWY_DYNAMIC_DISPATCH(LanesD)(t, x, from, y, to, job, roots, scratch);
}

}  // namespace pyflame::cpu
#endif
