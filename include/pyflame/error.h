// Typed errors. Every message reads "pf.<operation>: what was given; what is expected; what to do".
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace pyflame {

// Base of everything PyFlame throws on purpose.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

#define PF_ERROR_CLASS(NAME)  \
  class NAME : public Error { \
   public:                    \
    using Error::Error;       \
  }

PF_ERROR_CLASS(ShapeError);         // sizes, strides or dimensions do not fit
PF_ERROR_CLASS(DTypeError);         // a dtype is not allowed here
PF_ERROR_CLASS(ValueError);         // an argument has a value out of its domain
PF_ERROR_CLASS(IndexError);         // an index or dimension is out of range
PF_ERROR_CLASS(DeviceError);        // a device is missing, unusable, or operands live apart
PF_ERROR_CLASS(OutOfMemoryError);   // an allocation failed; the state stays usable
PF_ERROR_CLASS(AutogradError);      // freed graph, in-place write to a saved tensor, ...
PF_ERROR_CLASS(FileError);          // a file is missing, truncated or malformed
PF_ERROR_CLASS(NotSupportedError);  // a defined combination that this build cannot run
PF_ERROR_CLASS(BackendError);       // a backend reported a failed launch, copy or compile
PF_ERROR_CLASS(LinAlgError);        // a matrix is singular, not positive definite, not finite, ...

#undef PF_ERROR_CLASS

namespace detail {
// A part of a message: what writes it, and the value. Messages have hundreds of types of parts in
// as many orders, so that nothing but this is made for each.
struct Part {
  void (*write)(std::ostream& to, const void* value);
  const void* value;
};
template <class T>
void write_part(std::ostream& to, const void* value) {
  if constexpr (std::is_array_v<T>)
    to << static_cast<const std::remove_extent_t<T>*>(value);
  else
    to << *static_cast<const T*>(value);
}
std::string message(std::string_view op, const Part* parts, size_t count);

template <class E, class... Parts>
[[noreturn]] void throw_error(std::string_view op, const Parts&... parts) {
  const Part list[] = {
      {write_part<std::conditional_t<std::is_array_v<Parts>, char[], Parts>>, &parts}...};
  throw E(message(op, list, sizeof...(Parts)));
}
}  // namespace detail

}  // namespace pyflame

// PF_FAIL(ShapeError, "matmul", "got ", a.shape(), "; expected ...; do ...")
#define PF_FAIL(ERR, OP, ...) ::pyflame::detail::throw_error<::pyflame::ERR>(OP, __VA_ARGS__)
#define PF_CHECK(COND, ERR, OP, ...) \
  do {                               \
    if (!(COND)) [[unlikely]] {      \
      PF_FAIL(ERR, OP, __VA_ARGS__); \
    }                                \
  } while (0)
