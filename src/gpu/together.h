// Which kernels of a file are one program. hipRTC takes its time for each program, whatever is in
// it: there all kernels of a file are compiled at once. NVRTC takes it for what is in it: there the
// one that is wanted, and those that go with it.
#pragma once

#include <string>

namespace pyflame::gpu {

// The kernels, with blanks between, that are compiled with `entry` of `file` on NVIDIA.
inline std::string entries_with(const std::string& file, const std::string& entry) {
  static constexpr const char* kTogether[][2] = {
      {"points.h",
       "pf_point_keys pf_space_offsets pf_radix_digits pf_radix_plan pf_radix_count pf_radix_scan "
       "pf_radix_scan_few pf_radix_move pf_radix_settle"},
      {"cross_entropy.h", "entropy_rows entropy_finish"},
      {"cross_entropy.h", "entropy_both entropy_total entropy_both_finish"},
      {"norm_backward.h", "norm_backward norm_params"},
      {"multi_norm.h", "multi_norm multi_norm_finish multi_clip_norm"},
      {"sum.h", "sum_columns sum_finish"},
  };
  for (const auto& [f, together] : kTogether)
    if (file == f &&
        (" " + std::string(together) + " ").find(" " + entry + " ") != std::string::npos)
      return together;
  return entry;
}

}  // namespace pyflame::gpu
