// Mixed precision: autocast regions, and what float32 products may be rounded to.
//
// Within a region operations choose their dtype by their class: products run in the region's lower
// dtype, what overflows or cancels in 16 bits runs in float32, what joins several tensors takes
// their widest dtype, and the rest follows its operands. A region is the calling thread's own.
#pragma once

#include <optional>

#include "pyflame/device.h"
#include "pyflame/dtype.h"

namespace pyflame {

// AMD's and NVIDIA's GPUs share one setting: a name of either vendor means both.
bool autocast_enabled(DeviceType);
void set_autocast_enabled(DeviceType, bool);
DType autocast_dtype(DeviceType);            // bfloat16 on the CPU, float16 on GPUs until set
void set_autocast_dtype(DeviceType, DType);  // float16 or bfloat16; DTypeError otherwise
bool autocast_cache_enabled();
void set_autocast_cache_enabled(bool);
void clear_autocast_cache();

// A region: everything until the end of the scope. Regions nest, an inner one with enabled=false
// switches autocast off. Casts of parameters are kept until the outermost region ends.
//   pyflame::Autocast region(DeviceType::CPU);
//   Tensor loss = cross_entropy(model.forward(x), y);
class Autocast {
 public:
  explicit Autocast(DeviceType type, std::optional<DType> dtype = {}, bool enabled = true,
                    bool cache = true);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  DeviceType type_;
  bool enabled_, cache_;  // as they were before
  DType dtype_;
};

// What the products of float32 tensors may be computed in. Highest: float32. High: TF32 or sums of
// bfloat16 parts, where a GPU has them. Medium: also bfloat16. Inputs and results stay float32. The
// CPU always computes in float32.
enum class MatmulPrecision : uint8_t { Highest, High, Medium };
MatmulPrecision float32_matmul_precision();  // of the process; Highest until set
void set_float32_matmul_precision(MatmulPrecision);
// The same of convolutions; High until set, as PyTorch has it (cudnn.allow_tf32).
MatmulPrecision float32_conv_precision();
void set_float32_conv_precision(MatmulPrecision);

}  // namespace pyflame
