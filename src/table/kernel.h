// Named kernels: what everything other than pointwise rows runs as. A kernel has a descriptor in
// table/kernels/, the one thing that operations, the CPU and GPUs share of it:
//
//   struct LayerNorm {
//     static constexpr KernelInfo kInfo{"layer_norm", Anchor::Rowwise, 3};
//     template <class T>
//     struct Tensors {
//       T y, mean, rstd;         // the first three: written
//       T x, weight{}, bias{};   // read; what has {} may be undefined
//     };
//     template <class T>
//     struct Numbers {
//       T eps;
//     };
//   };
//
// An operation calls it by names, engine::call<LayerNorm>({.y = y, ...}, {.eps = eps}), a backend
// reads its arguments by positions that follow from the names:
//
//   constexpr auto at = tensors<LayerNorm>;
//   constexpr auto number = numbers<LayerNorm>;
//   const pf_tensor& x = a.tensor(at.x);  double eps = a.f(number.eps);
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

namespace pyflame::kernels {

// What a group makes of a kernel. General ones run at once. The others wait, so that pointwise work
// can join them: Library (products), Reduce, Rowwise, Cells (sums whose results are what a program
// over the elements reads of each cell: kernels/cells.h). MultiTensor: many tensors, at once.
enum class Anchor : uint8_t { General, Library, Reduce, Rowwise, Cells, MultiTensor };

// How the tensors that a kernel reads may lie in memory: by any strides, or row-major only, where
// the engine copies what lies otherwise.
enum class Layout : uint8_t { Strided, RowMajor };

// What a kernel that checks indices checks: places in a tensor, or classes, of which one may be
// said not to count. Its errors say so.
enum class Indices : uint8_t { None, Places, Classes };

// Outputs of a kernel over lists of tensors: as many as its caller's lists have.
inline constexpr int kLists = -1;

struct KernelInfo {
  const char* name;
  Anchor anchor;
  int outputs;  // so many of its tensors are written, the first ones
  Layout layout = Layout::Strided;
  Indices indices = Indices::None;
  bool random = false;  // its first two numbers are the generator's seed and offset
  // Of a step over lists: the number that says whether it writes weights of 16 bits, too (Weights
  // in table/kernels/optim.h), which are the last that it writes; -1: it cannot.
  int8_t weights = -1;
};

// How many members an argument list has; all are of one type.
template <template <class> class List>
inline constexpr int kCount = std::is_empty_v<List<char>> ? 0
                                                          : static_cast<int>(sizeof(List<char>));

// The list seen as an array.
template <template <class> class List, class T>
const T* members(const List<T>& list) {
  static_assert(sizeof(List<T>) == sizeof(T) * kCount<List> || kCount<List> == 0);
  return reinterpret_cast<const T*>(&list);
}

// The same with its length, for a call whose list of tensors has any length.
template <template <class> class List, class T>
std::span<const T> span_of(const List<T>& list) {
  return {members(list), kCount<List>};
}

namespace detail {
template <template <class> class List, int... I>
constexpr List<int> positions(std::integer_sequence<int, I...>) {
  return {I...};
}
template <template <class> class List>
inline constexpr List<int> kPositions =
    positions<List>(std::make_integer_sequence<int, kCount<List>>());
}  // namespace detail

// Positions of a kernel's tensors and numbers, by name.
template <class K>
inline constexpr auto tensors = detail::kPositions<K::template Tensors>;
template <class K>
inline constexpr auto numbers = detail::kPositions<K::template Numbers>;

// The argument list of a kernel without numbers.
template <class T>
struct None {};

}  // namespace pyflame::kernels
