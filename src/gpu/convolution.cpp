// What libraries of convolutions share.
#include "gpu/convolution.h"

#include <algorithm>
#include <cstring>

#include "core/hash.h"
#include "gpu/move.h"

namespace pyflame::gpu {

ConvolutionKey::ConvolutionKey(const Convolution& c) {
  std::memset(this, 0, sizeof *this);
  const Convolution::Operand* all[3] = {&c.x, &c.w, &c.y};
  const auto alignment = [](const void* p) {
    return static_cast<int32_t>(std::min<uintptr_t>(16, -uintptr_t(p) & uintptr_t(p)));
  };
  for (int i = 0; i < 3; ++i) {
    std::copy_n(all[i]->size, c.space + 2, size[i]);
    std::copy_n(all[i]->step, c.space + 2, step[i]);
    align[i] = alignment(all[i]->data);
  }
  std::copy_n(c.stride, c.space, stride);
  std::copy_n(c.padding, c.space, padding);
  std::copy_n(c.dilation, c.space, dilation);
  kind = static_cast<int32_t>(c.kind), dtype = static_cast<int32_t>(c.dtype);
  tf32 = c.tf32, space = c.space, bias = c.bias != nullptr, proposal = c.proposal;
}
bool operator==(const ConvolutionKey& a, const ConvolutionKey& b) {
  return !std::memcmp(&a, &b, sizeof a);
}
size_t ConvolutionHash::operator()(const ConvolutionKey& k) const {
  return hash_bytes(&k, sizeof k);
}

void lay_bias(const KernelArgs& args, const Convolution& c) {
  pf_tensor y{}, bias{};
  y.data = c.y.data;
  bias.data = const_cast<void*>(c.bias);
  y.dtype = bias.dtype = static_cast<int32_t>(c.dtype);
  y.ndim = bias.ndim = c.space + 2;
  for (int d = 0; d < y.ndim; ++d) {
    y.shape[d] = bias.shape[d] = c.y.size[d];
    y.strides[d] = c.y.step[d];
    bias.strides[d] = d == 1;
  }
  copy_tensor(args, y, bias);
}

}  // namespace pyflame::gpu
