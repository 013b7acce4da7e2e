// The safetensors format: 8 bytes of header length, a JSON header, the data without holes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pyflame/io.h"

namespace pyflame::io {

inline constexpr uint64_t kMaxHeader = 100'000'000;
inline constexpr uint64_t kDataAlignment = 64;

// The JSON of a header, padded so that the data after it starts aligned; entries as laid out.
std::string safetensors_header(const std::vector<SafetensorsFile::Entry>& entries,
                               const Metadata& metadata);

}  // namespace pyflame::io
