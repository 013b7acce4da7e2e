// Kernels of the user's: their text behind kernels/user.h, in either vendor's dialect, and the
// compilers' options under either vendor's spelling.
#include <cstring>
#include <sstream>
#include <vector>

#include "gpu/device.h"
#include "gpu/host.h"

namespace pyflame::gpu {
namespace {

struct Spelling {
  const char *amd, *nvidia;  // empty: that compiler needs no such option
};
constexpr Spelling kSpellings[] = {
    {"-ffp-contract=off", "--fmad=false"},
    {"-ffp-contract=fast", "--fmad=true"},
    {"-ffast-math", "--use_fast_math"},
    {"-O3", ""},
    {"-g", "--device-debug"},
    {"-gline-tables-only", "--generate-line-info"},
    {"-gline-tables-only", "-lineinfo"},
    {"-ffast-math", "-use_fast_math"},
    {"-ffp-contract=off", "-fmad=false"},
    {"-ffp-contract=fast", "-fmad=true"},
};

std::string as_spelled_here(const std::string& option) {
  if (option.rfind("--maxrregcount", 0) == 0 || option.rfind("-maxrregcount", 0) == 0)
    return kAmd ? "" : option;
  for (const Spelling& s : kSpellings)
    if (option == s.amd || option == s.nvidia) return kAmd ? s.amd : s.nvidia;
  return option;
}

}  // namespace

pf_status function_create(pf_device device, const char* source, const char* options,
                          const char* entry, void** function) {
  if (pf_status s = faults().check(backend::Faults::kProgramCreate)) return s;
  return guarded([&] {
    Device& d = Device::get(device);
    // Contraction as the vendors' compilers have it by default, unless the options say otherwise.
    std::string all = PF_RT("-ffp-contract=fast ", "--fmad=true ");
    if (std::strstr(options ? options : "", "-DPF_USER_WARP=") == nullptr)
      all += "-DPF_USER_WARP=" + std::to_string(d.traits.warp) + " ";
    std::istringstream words(options ? options : "");
    for (std::string word; words >> word;)
      if (std::string o = as_spelled_here(word); !o.empty()) all += o + " ";
    const std::string label = entry;
    const std::string text = expanded_text("user.h") + "#line 1 \"" + label + ".cu\"\n" + source +
                             "\nPF_USER_ENTRY(" + label + ")\n";
    *function = const_cast<Loaded*>(d.build(label, {text}, all, entry));
  });
}

pf_status function_launch(pf_device device, pf_stream stream, void* function,
                          const uint32_t grid[3], const uint32_t block[3], uint32_t shared,
                          void** args, int32_t nargs) {
  if (pf_status s = faults().check(backend::Faults::kKernelLaunch)) return s;
  return guarded([&] {
    Device& d = Device::get(device);
    const std::vector<uint32_t> sizes(static_cast<size_t>(nargs), 8);
    d.launch(static_cast<Function>(function), d.stream(stream), Grid(grid[0], grid[1], grid[2]),
             Grid(block[0], block[1], block[2]), shared, args, sizes.data(), nargs, "kernel");
  });
}

}  // namespace pyflame::gpu
