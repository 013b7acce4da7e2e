// Matrix products on a GPU: one description, several sources (the vendor's library, our kernels).
#pragma once

#include <cstdint>
#include <string>

#include "gpu/kernel.h"
#include "kernels/conv_args.h"
#include "kernels/matmul_stream_args.h"
#include "kernels/norm_args.h"

namespace pyflame::gpu {

// c[b] (m x n, dense) = a[b] (m x k) b[b] (k x n) + bias (n), rounded once. Strides in elements;
// the batches are `ndim` dimensions, innermost first, 0 where an operand repeats.
struct Product {
  int64_t m, n, k;
  DType dtype;  // of a and b
  DType out;    // of c and the bias: the same, Int32 for Int8, or Float32 for narrower floats
  const void* a;
  const void* b;
  const void* bias;  // dense, or null
  void* c;
  int64_t a_row, a_col, b_row, b_col;
  bool steady = false;  // b: KernelArgs::steady()
  bool tf32 = false;    // float32 may be rounded to it
  int32_t ndim = 0;
  struct Batch {
    int64_t size, a, b;
  } batch[PF_MAX_DIMS];

  // Of eight-bit floats (library_scaled_product() and product_by_maps() alone): c is multiplied
  // before the bias is added.
  struct Scaling {
    DType b{};                                    // that of a is `dtype`
    const void *of_a = nullptr, *of_b = nullptr;  // float32, or null for 1
    bool by_row = false;                          // one for each row of a and each column of b
    bool fast_sums = false;                       // of fewer bits
  } scaling{};

  int64_t batches(int from = 0) const {
    int64_t r = 1;
    for (int d = from; d < ndim; ++d) r *= batch[d].size;
    return r;
  }
  // Libraries take the batches of one dimension at once, and so many runs of them one by one.
  Batch inner() const { return ndim ? batch[0] : Batch{1, 0, 0}; }
  int64_t runs() const { return batches(1); }
  struct Run {
    const char *a, *b;
    char* c;
  };
  Run run(int64_t number) const {
    const auto item = static_cast<int64_t>(itemsize(dtype)),
               out_item = static_cast<int64_t>(itemsize(out));
    int64_t at_a = 0, at_b = 0, rest = number;
    for (int d = 1; d < ndim; ++d) {
      const int64_t i = rest % batch[d].size;
      rest /= batch[d].size;
      at_a += i * batch[d].a;
      at_b += i * batch[d].b;
    }
    return {static_cast<const char*>(a) + at_a * item, static_cast<const char*>(b) + at_b * item,
            static_cast<char*>(c) + number * inner().size * m * n * out_item};
  }
};

// One matrix as libraries store it: columns of `rows` elements, `ld` apart, to be transposed or
// not.
struct Stored {
  uint64_t rows, cols;
  int64_t ld;
  bool transposed;
};
// Of a rows x cols matrix with these strides, so that op(stored) is its transpose. False when
// neither stride is 1, or columns overlap.
bool transpose_of(int64_t rows, int64_t cols, int64_t row, int64_t col, Stored* s);

// Where products (and convolutions) run: the library where it can, our kernel otherwise; or the one
// that an environment variable, =own|library, asks for. What the library cannot do always goes to
// ours.
enum class ProductSource { Auto, Library, Own };
ProductSource source_asked(const char* variable);
// Notes that ours run for want of a library, which the variable could have asked for. Failure in
// strict mode.
void note_own(const char* op, const std::string& what, const char* variable);
// Notes for pf.explain who multiplies float32, and in what.
struct Float32By {
  const char *exact, *rounded;
};
void note_float32(const KernelArgs&, DType, bool rounded, const Float32By&);
void note_ours(const KernelArgs&, DType, bool rounded);

ProductSource product_source();  // PYFLAME_GPU_GEMM
// By the one that fits: as was measured, asked for, or is known.
void multiply(const KernelArgs&, Product);

// hipBLASLt (then rocBLAS) or cuBLASLt. False when it is not there, or cannot do this product.
// `proposal`: of the algorithms that its heuristic lists, the first unless somebody measured
// (tuning.h).
bool library_product(const KernelArgs&, const Product&, int proposal = 0);
// The same of eight-bit floats, a and b along k. False with why where the device, or what the
// library asks of sizes, stands against it; with no reason where the library has no such product.
bool library_scaled_product(const KernelArgs&, const Product&, std::string* why);
// Of AMD alone: through rocBLAS: what hipBLASLt cannot do, or all where that is missing.
bool rocblas_product(const KernelArgs&, const Product&);
bool rocblas_usable();
const char* rocblas_text();  // its path, or why there is none
// "cuBLASLt 130002", or "none".
std::string product_library_version(const KernelArgs&);
bool product_library_usable();
// Opens it where products are to run there, which takes a tenth of a second, or several where it
// comes from the disk.
void open_product_library();
// "cuBLASLt 13.0.2 (path)", or why there is none.
const char* product_library();

// The matrix instructions on 16-bit floats and int8 that our kernels use: 0 if there are none, 1 on
// NVIDIA, on AMD PF_MATRIX_UNIT of kernels/matrix_units.h.
int matrix_unit(const Traits&);
// The options and, where AMD's MFMA has other forms than CDNA 3's, which CDNA it is (PF_CDNA).
Defines with_cdna(Defines, const Traits&);

inline constexpr int kMostProposals = 32;  // of a library, that are measured

// The kernels of kernels/matmul*.h; takes everything. `tile`: one of kOwnTiles that somebody
// measured, else (or -1) the one that follows from the product; false when it cannot be taken.
// Three on matrix units, three with ordinary arithmetic, one whose threads share k.
inline constexpr int kOwnTiles = 7, kSmallTile = 5, kSharedTile = 6;
bool own_product(const KernelArgs&, const Product&, int tile = -1);

// With the program that follows it and alone reads it, whose work hides behind that of the next
// tiles (kernels/matmul_hopper.h): quicker than a library's product and the program by itself.
// False where there is no such program, or not enough tiles, and for what that kernel cannot read.
bool product_and_after(const KernelArgs&, const Product&);

// A few rows times the rows of a matrix (a linear layer on one token): false for all others.
bool rows_product(const KernelArgs&, const Product&, bool more = false);

// Of one row, which a norm makes: false where it cannot be made within the product.
struct RowNorm {
  pf_norm r;  // width and rows are not told
  bool rms;
  pf_kept_row kept;  // no data: none
  bool steady;       // its weight and bias: KernelArgs::steady()
};
bool norm_product(const KernelArgs&, const Product&, const RowNorm&);

// The same with matrix units, where operand a (1) or b (2, 3) is gathered (kernels/conv_gather.h;
// `operand`: PF_GATHERED, `inverse`:
// PF_INVERSE). False where those cannot do it, as the first says for all products of a dtype.
bool gathered_product_fits(const Traits&, DType, bool tf32);
bool gathered_product(const KernelArgs&, const Product&, const pf_conv&, int operand, int inverse);

// Whether PYFLAME_GPU_FLOAT32 leaves float32 to ordinary arithmetic.
bool vectors_asked();

// A convolution in float32 of dense pictures, channels last or (`images`) pixels, by parts, as
// product_of_parts(); what has no parts is left undone, and `range` tells on the device. Null where
// it is no gain.
bool convolution_gains(const Traits&, const Product&, const pf_conv&, int inverse);
const pf_u32* convolution_of_parts(const KernelArgs&, const Product&, const pf_conv&, int inverse,
                                   bool images);
// The same of the gradient by the weight: dy (a, across k) by what the windows see, each batch with
// its share of the pixels, into float32.
bool weight_gradient_gains(const Traits&, const Product&, const pf_conv&);
const pf_u32* weight_gradient_of_parts(const KernelArgs&, const Product&, const pf_conv&,
                                       bool x_images, bool y_images);

// For a small product: one of two kernels, so that another batch size compiles nothing.
int small_product_tile(const Traits&, const Product&);

}  // namespace pyflame::gpu
