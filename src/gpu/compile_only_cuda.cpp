// A GPU of NVIDIA that is not there: its attributes.
#include <cstdlib>

#include "gpu/compile_only.h"

namespace pyflame::gpu {
namespace {

int attribute(int* value, int which, int) {
  const int capability = std::atoi(compile_only().c_str() + 3);
  switch (which) {
    case kMaxThreadsPerBlock:
      *value = 1024;
      break;
    case kWarpSize:
      *value = 32;
      break;
    case kMultiprocessorCount:
      *value = capability >= 90 ? 132 : 108;
      break;
    case kCapabilityMajor:
      *value = capability / 10;
      break;
    case kCapabilityMinor:
      *value = capability % 10;
      break;
    case kMaxSharedOptin:  // sm_86, 87, 89 and 120 have less
      *value = (capability >= 90 && capability < 120 ? 227 : capability == 80 ? 163 : 99) << 10;
      break;
    default:
      *value = 0;
  }
  return kSuccess;
}

}  // namespace

void answer_as_vendor(Runtime& r) {
  do_nothing(r.CtxSetCurrent);
  do_nothing(r.CtxEnablePeerAccess);
  do_nothing(r.TensorMapEncodeTiled);
  do_nothing(r.TensorMapEncodeIm2col);
  r.DeviceGetAttribute = attribute;
  r.DevicePrimaryCtxRetain = [](void** out, int) { return make_absent_handle(out); };
  r.GetErrorName = r.GetErrorString = [](int, const char** text) {
    return *text = "no driver", static_cast<int>(kSuccess);
  };
}

}  // namespace pyflame::gpu
