// Cells of recurrent layers on vectors (recurrent.h).
#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/recurrent_cells.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include <hwy/highway.h>

#include "cpu/recurrent.h"
#include "cpu/vmath-inl.h"
#include "table/kernels/recurrent.h"

HWY_BEFORE_NAMESPACE();
namespace pyflame::cpu::HWY_NAMESPACE {
namespace {

using Mode = kernels::RecurrentMode;

template <class T>
HWY_INLINE Lanes<T> Get(const T* p, int64_t i) {
  return Lanes<T>(hn::LoadU(typename Lanes<T>::D(), p + i));
}
template <class T>
HWY_INLINE void Put(Lanes<T> v, T* p, int64_t i) {
  hn::StoreU(v.v, typename Lanes<T>::D(), p + i);
}
template <class T>
HWY_INLINE int64_t Width() {
  return static_cast<int64_t>(hn::Lanes(typename Lanes<T>::D()));
}
// g times the slope of a gate, or of tanh, of value y.
template <class T>
HWY_INLINE Lanes<T> BehindGate(Lanes<T> g, Lanes<T> y) {
  return g * (y * (Lanes<T>(1) - y));
}
template <class T>
HWY_INLINE Lanes<T> BehindValue(Lanes<T> g, Lanes<T> y) {
  return g * (Lanes<T>(1) - y * y);
}

template <class T, Mode kMode>
void OneStep(const CellStep<T>& s, int64_t n) {
  for (int64_t i = 0; i < n; i += Width<T>()) {
    const auto sum = [&](int g) HWY_ATTR { return Get(s.x[g], i) + Get(s.product[g], i); };
    if constexpr (kMode == Mode::Tanh) {
      Put(Tanh(sum(0)), s.h, i);
    } else if constexpr (kMode == Mode::Relu) {
      const Lanes<T> v = sum(0), zero(0);
      Put(Select(v <= zero, zero, v), s.h, i);
    } else if constexpr (kMode == Mode::Lstm) {
      const Lanes<T> in = Sigmoid(sum(0)), forget = Sigmoid(sum(1)), fresh = Tanh(sum(2)),
                     out = Sigmoid(sum(3));
      const Lanes<T> c = forget * Get(s.cell, i) + in * fresh;
      Put(out * Tanh(c), s.h, i);
      Put(c, s.c, i);
      if (!s.kept[0]) continue;
      Put(in, s.kept[0], i);
      Put(forget, s.kept[1], i);
      Put(fresh, s.kept[2], i);
      Put(out, s.kept[3], i);
    } else {
      const Lanes<T> reset = Sigmoid(sum(0)), keep = Sigmoid(sum(1)), part = Get(s.product[2], i);
      const Lanes<T> fresh = Tanh(Get(s.x[2], i) + reset * part);
      Put(fresh + keep * (Get(s.before, i) - fresh), s.h, i);
      if (!s.kept[0]) continue;
      Put(reset, s.kept[0], i);
      Put(keep, s.kept[1], i);
      Put(fresh, s.kept[2], i);
      Put(part, s.kept[3], i);
    }
  }
}

template <class T, Mode kMode>
void OneStepBack(const CellStepBack<T>& s, int64_t n) {
  for (int64_t i = 0; i < n; i += Width<T>()) {
    const Lanes<T> g = Get(s.dout, i) + Get(s.sum, i), one(1);
    if constexpr (kMode == Mode::Tanh) {
      Put(BehindValue(g, Get(s.h, i)), s.dx[0], i);
    } else if constexpr (kMode == Mode::Relu) {
      const Lanes<T> zero(0);
      Put(Select(Get(s.h, i) <= zero, zero, g), s.dx[0], i);
    } else if constexpr (kMode == Mode::Lstm) {
      const Lanes<T> in = Get(s.kept[0], i), forget = Get(s.kept[1], i), fresh = Get(s.kept[2], i),
                     out = Get(s.kept[3], i), c = Tanh(Get(s.c, i));
      const Lanes<T> dc = Get<T>(s.carried, i) + BehindValue(g * out, c);
      Put(BehindGate(dc * fresh, in), s.dx[0], i);
      Put(BehindGate(dc * Get(s.cell, i), forget), s.dx[1], i);
      Put(BehindValue(dc * in, fresh), s.dx[2], i);
      Put(BehindGate(g * c, out), s.dx[3], i);
      Put(dc * forget, s.carried, i);
    } else {
      const Lanes<T> reset = Get(s.kept[0], i), keep = Get(s.kept[1], i), fresh = Get(s.kept[2], i),
                     part = Get(s.kept[3], i);
      const Lanes<T> all = g + Get<T>(s.carried, i);
      const Lanes<T> d_fresh = BehindValue(all * (one - keep), fresh),
                     d_keep = BehindGate(all * (Get(s.before, i) - fresh), keep),
                     d_reset = BehindGate(d_fresh * part, reset);
      Put(d_reset, s.dx[0], i);
      Put(d_keep, s.dx[1], i);
      Put(d_fresh, s.dx[2], i);
      Put(d_reset, s.dstate[0], i);
      Put(d_keep, s.dstate[1], i);
      Put(d_fresh * reset, s.dstate[2], i);
      Put(all * keep, s.carried, i);
    }
  }
}

template <class T>
RecurrentCells<T> Make() {
  return {{OneStep<T, Mode::Tanh>, OneStep<T, Mode::Relu>, OneStep<T, Mode::Lstm>,
           OneStep<T, Mode::Gru>},
          {OneStepBack<T, Mode::Tanh>, OneStepBack<T, Mode::Relu>, OneStepBack<T, Mode::Lstm>,
           OneStepBack<T, Mode::Gru>}};
}

}  // namespace

RecurrentCells<float> Cells32() {
  return Make<float>();
}
RecurrentCells<double> Cells64() {
  return Make<double>();
}

}  // namespace pyflame::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pyflame::cpu {

HWY_EXPORT(Cells32);
HWY_EXPORT(Cells64);

template <>
const RecurrentCells<float>& recurrent_cells() {
  static const RecurrentCells<float> k = HWY_DYNAMIC_DISPATCH(Cells32)();
  return k;
}
template <>
const RecurrentCells<double>& recurrent_cells() {
  static const RecurrentCells<double> k = HWY_DYNAMIC_DISPATCH(Cells64)();
  return k;
}

}  // namespace pyflame::cpu
#endif  // HWY_ONCE
