// Which format a file has that is no safetensors file, by its first bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace pyflame::io {

inline constexpr size_t kFormatHead = 512;

struct Format {
  std::string_view name;     // "a file of torch.save (a zip archive with a pickle)"; empty: unknown
  std::string_view way_out;  // "read it with numpy.load and pf.from_numpy"
};
// `head` are the first kFormatHead bytes, or all of a shorter file.
Format foreign_format(std::string_view head);

}  // namespace pyflame::io
