// No library of AMD's has attention behind an interface in C: our own kernels do it.
#include "gpu/attention_library.h"

namespace pyflame::gpu {

bool library_attention(const KernelArgs&, const AttentionWork&, std::string& why) {
  return why = attention_library(), false;
}
bool attention_library_usable() {
  return false;
}
const char* attention_library() {
  return "there is no library for attention on AMD's GPUs";
}
std::string attention_library_version() {
  return "none";
}

}  // namespace pyflame::gpu
