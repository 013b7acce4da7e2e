// Kernel text with what it includes put in.
#pragma once

#include <functional>
#include <string>

namespace pyflame::gpu {

// The files of kernels/ (generated at build).
struct Text {
  const char* name;
  const char* text;
};
extern const Text kTexts[];
extern const int kNumTexts;

// The text of a file of kernels/, or null.
using FindText = std::function<const char*(const std::string& file)>;

// The name in a line `#include "name"`, or nothing.
std::string included_file(const std::string& line);

// `text`, which messages call `name`, with its lines `#include "file"` replaced by the files that
// `find` knows, each once, whatever the conditions around the line.
std::string expand_includes(const std::string& name, const std::string& text, const FindText& find);

// `text` with pf_begin() (kernels/prelude.h) as the first statement of each PF_KERNEL at the
// beginning of a line, but for those that begin with pf_next_may_start().
std::string begin_kernels(const std::string& text);

}  // namespace pyflame::gpu
