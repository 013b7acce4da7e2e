// LAPACK and BLAS through their Fortran interface, opened when the first decomposition runs, never
// linked. A call has one thread: what the library computes with several depends on how many there
// are. Parallel work is cut by us, by shapes alone (linalg_blocked.h).
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <type_traits>

#include "cpu/threads.h"

namespace pyflame::cpu {

// clang-format off
//    in C++   real     complex  (without the letter of the type)
#define PF_LAPACK_ROUTINES(X)                                                                     \
  X(gemm,  "gemm",  "gemm")  X(trsm,  "trsm",  "trsm")  X(potrf, "potrf", "potrf")                \
  X(getrf, "getrf", "getrf") X(geqrf, "geqrf", "geqrf") X(orgqr, "orgqr", "ungqr")                \
  X(ormqr, "ormqr", "unmqr") X(gesdd, "gesdd", "gesdd") X(syevd, "syevd", "heevd")                \
  X(geev,  "geev",  "geev")  X(gels,  "gels",  "gels")  X(gelsd, "gelsd", "gelsd")                \
  X(gelsy, "gelsy", "gelsy") X(gelss, "gelss", "gelss") X(sytrf, "sytrf", "sytrf")                \
  X(sytrs, "sytrs", "sytrs") X(hetrf, "sytrf", "hetrf") X(hetrs, "sytrs", "hetrs")                \
  X(gebrd, "gebrd", "gebrd") X(bdsdc, "bdsdc", "")      X(ormbr, "ormbr", "unmbr")                \
  X(sytrd, "sytrd", "hetrd") X(stedc, "stedc", "stedc") X(ormtr, "ormtr", "unmtr")                \
  X(laed1, "laed1", "")      X(lasd0, "lasd0", "")      X(lasd1, "lasd1", "")
// clang-format on
enum class Routine : uint8_t {
#define X(NAME, ...) NAME,
  PF_LAPACK_ROUTINES(X)
#undef X
      kCount
};

class Lapack {
 public:
  // Whether there is one; `text` says which, or why not and what to install.
  static bool available(std::string* text);
  static const Lapack& get(const char* op);  // NotSupportedError, OutOfMemoryError

  // Integers in arrays have 64 bits, not 32. Single ones are passed as int64 to either: only
  // their lower half is read by a library whose integers are short.
  bool wide_integers() const { return wide_; }

  // A routine of BLAS.
  template <class T, class... A>
  void blas(Routine r, const A&... a) const {
    invoke(function<T>(r), a...);
  }
  // A routine of LAPACK: the last argument, info, is what it returns.
  template <class T, class... A>
  int64_t operator()(Routine r, const A&... a) const {
    int64_t info = 0;
    invoke(function<T>(r), a..., &info);
    return static_cast<int32_t>(info);
  }

  // While it lives the library takes no threads of its own for calls of this thread.
  class Alone {
   public:
    explicit Alone(const Lapack& l);
    ~Alone();
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    const Lapack& lapack_;
    LibraryAlone openmp_;
  };

 private:
  Lapack();
  static const Lapack* open();
  void take(void* so, const std::string& path);
  template <class A>
  static auto passed(const A& a) {
    if constexpr (std::is_pointer_v<A>) {
      return const_cast<void*>(static_cast<const void*>(a));
    } else {
      static_assert(!std::is_integral_v<A> || sizeof(A) == 8 || std::is_same_v<A, char>);
      return const_cast<void*>(static_cast<const void*>(&a));
    }
  }
  // Lengths of strings follow the arguments, as Fortran's compilers have it (at most four).
  template <class... A>
  static void invoke(void* fn, const A&... a) {
    using Fn = void (*)(decltype(passed(a))..., size_t, size_t, size_t, size_t);
    reinterpret_cast<Fn>(fn)(passed(a)..., 1, 1, 1, 1);
  }
  template <class T>
  void* function(Routine r) const {
    constexpr int kType = std::is_same_v<T, float>                 ? 0
                          : std::is_same_v<T, double>              ? 1
                          : std::is_same_v<T, std::complex<float>> ? 2
                                                                   : 3;
    return functions_[static_cast<int>(r)][kType];
  }

  std::string text_;
  bool ok_ = false, wide_ = false;
  void* functions_[static_cast<int>(Routine::kCount)][4] = {};
  void (*set_threads_)(int) = nullptr;  // of a library with threads of its own
  int (*get_threads_)() = nullptr;
};

}  // namespace pyflame::cpu
