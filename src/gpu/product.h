// Matrix products on a GPU: one description, several sources (the vendor's library, our kernels).
#pragma once

#include <cstdint>

#include "gpu/kernel.h"

namespace pyflame::gpu {

// c[b] (m x n, dense) = a[b] (m x k) b[b] (k x n) + bias (n), rounded once. Strides in elements;
// the batches are `ndim` dimensions, innermost first, 0 where an operand repeats.
struct Product {
  int64_t m, n, k;
  DType dtype;
  const void* a;
  const void* b;
  const void* bias;  // dense, or null
  void* c;
  int64_t a_row, a_col, b_row, b_col;
  int32_t ndim = 0;
  struct Batch {
    int64_t size, a, b;
  } batch[PF_MAX_DIMS];

  int64_t batches() const {
    int64_t r = 1;
    for (int d = 0; d < ndim; ++d) r *= batch[d].size;
    return r;
  }
};

// Where products run: the library where it can, our kernel otherwise. PYFLAME_GPU_GEMM=own|library
// takes one of them; what the library cannot do always goes to ours.
enum class ProductSource { Auto, Library, Own };

// hipBLASLt or cuBLASLt. False when it is not there, or cannot do this product.
bool library_product(const KernelArgs&, const Product&);
bool product_library_usable();
// "cuBLASLt 13.0.2 (path)", or why there is none.
const char* product_library();

// The matrix instructions on 16-bit floats that our kernels use: 0 if there are none, 1 on NVIDIA,
// on AMD PF_MATRIX_UNIT of kernels/matrix_units.h.
int matrix_unit(const Traits&);

// The kernels of kernels/matmul*.h; takes everything.
void own_product(const KernelArgs&, const Product&);

}  // namespace pyflame::gpu
