// The cells of recurrent layers, a few neighbouring elements of one state at a time. Products and
// what drives them: recurrent.cpp.
#pragma once

#include <cstdint>

namespace pyflame::cpu {

// n elements, whole vectors, of each of the gates and of the state, of `rows` sequences.
template <class T>
struct CellStep {
  const T* x[4];  // what the input and the state give
  const T* product[4];
  const T *before, *cell;
  T *h, *c, *kept[4];  // c of an LSTM; kept may be null
  int64_t x_row, product_row, state_row, kept_row;
};
template <class T>
struct CellStepBack {
  const T *dout, *sum;  // the gradient of h is their sum; of c, and around products, `carried`
  T* carried;
  const T *kept[4], *before, *behind;  // states, of an LSTM c
  T *dx[4], *dstate[3];                // of a GRU the second
};
// By kernels::RecurrentMode.
template <class T>
struct RecurrentCells {
  void (*step[4])(const CellStep<T>&, int64_t n, int64_t rows);
  void (*step_back[4])(const CellStepBack<T>&, int64_t n);
};
template <class T>
const RecurrentCells<T>& recurrent_cells();

}  // namespace pyflame::cpu
