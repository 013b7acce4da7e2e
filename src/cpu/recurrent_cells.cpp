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
template <class V>
HWY_INLINE V pf_gate(V x) {
  return Sigmoid(x);
}
template <class V>
HWY_INLINE V pf_value(V x) {
  return Tanh(x);
}
#define PF_DEVICE HWY_INLINE
#define PF_SELECT(M, A, B) Select(M, A, B)
#undef PF_RECURRENT_CELLS_H
#include "kernels/recurrent_cells.h"
#undef PF_DEVICE
#undef PF_SELECT

template <class T, Mode kMode>
void OneStep(const CellStep<T>& given, int64_t n, int64_t rows) {
  using V = Lanes<T>;
  constexpr int kGates = kernels::gates_of(kMode);
  CellStep<T> s = given;
  for (; rows > 0; --rows) {
    for (int64_t i = 0; i < n; i += Width<T>()) {
      V x[kGates], p[kGates], h(0), c(0);
      for (int g = 0; g < kGates; ++g) x[g] = Get(s.x[g], i), p[g] = Get(s.product[g], i);
      if constexpr (kMode == Mode::Lstm) c = Get(s.cell, i);
      if constexpr (kMode == Mode::Gru) h = Get(s.before, i);
      pf_cell_step<static_cast<int>(kMode)>(x, p, h, c);
      Put(h, s.h, i);
      if constexpr (kMode == Mode::Lstm) Put(c, s.c, i);
      if constexpr (kGates > 1) {
        if (!s.kept[0]) continue;
        for (int g = 0; g < kGates; ++g) Put(x[g], s.kept[g], i);
        if constexpr (kMode == Mode::Gru) Put(p[2], s.kept[3], i);
      }
    }
    for (int g = 0; g < kGates; ++g) s.x[g] += s.x_row, s.product[g] += s.product_row;
    s.h += s.state_row;
    if constexpr (kMode == Mode::Lstm) s.cell += s.state_row, s.c += s.state_row;
    if constexpr (kMode == Mode::Gru) s.before += s.state_row;
    if constexpr (kGates > 1)
      for (int g = 0; s.kept[0] && g < 4; ++g) s.kept[g] += s.kept_row;
  }
}

template <class T, Mode kMode>
void OneStepBack(const CellStepBack<T>& s, int64_t n) {
  using V = Lanes<T>;
  constexpr int kGates = kernels::gates_of(kMode);
  for (int64_t i = 0; i < n; i += Width<T>()) {
    V k[4] = {V(0), V(0), V(0), V(0)}, carried(0), behind(0), before(0), d[kGates], part(0);
    if constexpr (kGates > 1) {
      for (int g = 0; g < 4; ++g) k[g] = Get(s.kept[g], i);
      carried = Get<T>(s.carried, i);
      before = Get(s.before, i);
    }
    if constexpr (kMode != Mode::Gru) behind = Get(s.behind, i);
    pf_cell_back<static_cast<int>(kMode)>(Get(s.dout, i) + Get(s.sum, i), carried, k, behind,
                                          before, d, part);
    for (int g = 0; g < kGates; ++g) Put(d[g], s.dx[g], i);
    if constexpr (kMode == Mode::Gru) {
      Put(d[0], s.dstate[0], i);
      Put(d[1], s.dstate[1], i);
      Put(part, s.dstate[2], i);
    }
    if constexpr (kGates > 1) Put(carried, s.carried, i);
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
