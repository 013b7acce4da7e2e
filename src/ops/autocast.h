// How operations take part in autocast (include/pyflame/amp.h). An operation says its class in the
// first line of its C++ entry:
//
//   Tensor matmul(const Tensor& a, const Tensor& b) {
//     PF_AUTOCAST("matmul", Lower, matmul, a, b);
//
// Within a region the entry is called again with converted tensors and autocast switched off.
// Pointwise rows have their class from their expression. Everything else follows its operands.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/tensor_impl.h"
#include "engine/autocast_switch.h"
#include "ops/pointwise.h"
#include "pyflame/amp.h"

namespace pyflame::amp {

// Follow: computed in the dtype of its operands. Lower: in the region's dtype. Raise: in float32.
// Promote: in the widest dtype of its tensors. The others are two of these, as PyTorch has
// different lists for GPUs, whose lower dtype is float16 by default, and for the CPU.
enum class Class : uint8_t {
  Follow,
  Lower,
  Raise,
  Promote,
  RaiseElseFollow,  // on GPUs, and on the CPU
  FollowElseRaise,
  PromoteElseRaise,
  LowerElsePromote
};
Class class_on(Slot, Class);    // one of the first four
const char* class_name(Class);  // of those "lower", "raise", "promote"; "" for Follow

// Converts the arguments of one call by its class, with autocast off while it lives.
class Casting : Off {
 public:
  explicit Casting(Class c) : class_(c) { ++t_casting; }
  ~Casting() { --t_casting; }
  // Whether the calling thread is in a call whose arguments were converted.
  static bool runs() { return t_casting != 0; }
  // Where the call will run and, for Promote, in which dtype: seen before a tensor is converted.
  template <class... A>
  void look(const A&... args) {
    (meet(args), ...);
    (widen(args), ...);
  }
  Tensor operator()(const Tensor& t) const;
  std::vector<Tensor> operator()(const std::vector<Tensor>& list) const;
  template <class T>
  const T& operator()(const T& other) const {
    return other;
  }
  // Whether the class is about this tensor, where the call will run.
  bool takes_part(const Tensor& t) const;

 private:
  Slot slot_for(const Tensor& t) const;  // of the device where the call will run
  Tensor converted(const Tensor& t) const;
  void meet(const Tensor& t);
  void meet(const std::vector<Tensor>& list) {
    for (const Tensor& t : list) meet(t);
  }
  template <class T>
  void meet(const T&) {}
  void widen(const Tensor& t);
  void widen(const std::vector<Tensor>& list) {
    for (const Tensor& t : list) widen(t);
  }
  template <class T>
  void widen(const T&) {}

  static inline constinit thread_local int t_casting = 0;
  Class class_;
  bool known_ = false, placed_ = false;
  DType widest_ = DType::Float32;
  Device where_;  // floating tensors are read there
};

template <class F, class... A>
auto recast(Class c, F&& f, const A&... args) {
  Casting cast(c);
  cast.look(args...);
  // In braces: the first one first, so that the activations' cast is in the group that made them.
  const std::tuple<decltype(cast(args))...> converted{cast(args)...};
  return std::apply(f, converted);
}

// The class of a pointwise row: RaiseElseFollow when its expression holds something that leaves the
// range of float16 or is steep without bound (exp, log, pow, 1 / x), else Follow.
Class class_of_row(ops::OpId);
// The class of an operation by its name in the table: declared, or its row's.
Class class_of(std::string_view name);

// Declares at load time; `names` are separated by spaces.
bool declare(const char* names, Class);
template <size_t N>
struct Names {
  char text[N];
  constexpr Names(const char (&s)[N]) { std::copy_n(s, N, text); }
};
template <Names kNames, Class kClass>
struct Declared {
  static inline const bool done = declare(kNames.text, kClass);
};

}  // namespace pyflame::amp

#define PF_AUTOCAST(NAMES, CLASS, FN, ...)                                        \
  if ((void)&::pyflame::amp::Declared<NAMES, ::pyflame::amp::Class::CLASS>::done, \
      ::pyflame::amp::on()) [[unlikely]]                                          \
  return ::pyflame::amp::recast(                                                  \
      ::pyflame::amp::Class::CLASS, [](const auto&... a) { return FN(a...); }, __VA_ARGS__)
