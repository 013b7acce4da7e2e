// What is made within inference_mode(): it may not be kept for a backward pass, nor be written or
// made to require grad outside of it. The memory says so, since views of it are the same; views of
// other memory are tensors as always.
#pragma once

#include "core/tensor_impl.h"

namespace pyflame {

namespace detail {
extern std::atomic<int> g_inferring;  // threads within the mode
}
bool inference_mode();  // of the calling thread
void set_inference_mode(bool on);

inline constexpr uint32_t kMadeForInference = 1u
                                              << 31;  // in Storage::born, whose numbers stay below

inline bool made_for_inference(const TensorImpl& t) {
  return (t.storage->born & kMadeForInference) != 0;
}
// The same, and this thread is not within the mode.
inline bool kept_from_autograd(const TensorImpl& t) {
  return made_for_inference(t) && !inference_mode();
}

}  // namespace pyflame
