#include "pyflame/error.h"

namespace pyflame::detail {

std::string message(std::string_view op, const Part* parts, size_t count) {
  std::ostringstream s;
  s << "pf." << op << ": ";
  for (size_t i = 0; i < count; ++i) parts[i].write(s, parts[i].value);
  return s.str();
}

}  // namespace pyflame::detail
