#include "cpu/convert.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/kernel.h"
#include "cpu/move.h"
#include "cpu/tape.h"
#include "cpu/threads.h"
#include "pyflame/error.h"

namespace pyflame::cpu {
namespace {

// One dimension of a copy, strides in elements.
struct Dim {
  int64_t size, out, in;
};

// The common geometry, in the order of the output's memory, neighbours merged.
struct Geometry {
  Dim dims[PF_MAX_DIMS];
  int ndim = 0;
  int64_t numel = 1;

  Geometry(const pf_tensor& out, const pf_tensor& in) {
    Dim all[PF_MAX_DIMS];
    int n = 0;
    const int shift = out.ndim - in.ndim;
    for (int d = 0; d < out.ndim; ++d) {
      numel *= out.shape[d];
      if (out.shape[d] == 1) continue;
      const bool spread = d < shift || in.shape[d - shift] == 1;
      const Dim dim = {out.shape[d], out.strides[d], spread ? 0 : in.strides[d - shift]};
      int at = n++;  // by decreasing stride of the output; equal ones stay in order
      for (; at > 0 && std::abs(all[at - 1].out) < std::abs(dim.out); --at) all[at] = all[at - 1];
      all[at] = dim;
    }
    for (int d = 0; d < n; ++d) {
      Dim& last = dims[ndim > 0 ? ndim - 1 : 0];
      if (ndim > 0 && last.out == all[d].out * all[d].size && last.in == all[d].in * all[d].size)
        last = {last.size * all[d].size, all[d].out, all[d].in};
      else
        dims[ndim++] = all[d];
    }
    if (ndim == 0) dims[ndim++] = {1, 1, 1};
  }
};

// ---- same dtype: only moves --------------------------------------------------------------------
constexpr int64_t kBox = 128 << 10;   // bytes of a buffered box
constexpr int64_t kChunk = 64 << 10;  // bytes moved between two looks at the geometry

void move_elements(Geometry& g, void* out, const void* in, int bytes) {
  // The input's own inner dimension comes second, so that boxes are read along it.
  Dim* dims = g.dims;
  int best = g.ndim - 1;
  for (int d = 0; d < g.ndim; ++d)
    if (dims[d].in != 0 && std::abs(dims[d].in) < std::abs(dims[best].in)) best = d;
  const bool rows_match = best == g.ndim - 1 || dims[g.ndim - 1].in == 0;
  if (!rows_match) std::rotate(dims + best, dims + best + 1, dims + g.ndim - 1);

  const Dim inner = dims[g.ndim - 1];
  const Dim second = g.ndim > 1 ? dims[g.ndim - 2] : Dim{1, 0, 0};
  const int outer = std::max(0, g.ndim - 2);
  const bool direct = inner.out == 1 && inner.in == 1;
  const int64_t cell = std::max<int64_t>(1, kChunk / bytes);
  // A transposed box goes through a buffer in the second cache: four lines of the output by half
  // a thousand elements that lie next to each other in the input.
  const int64_t side = 256 / bytes, rest = kBox / bytes;
  const int64_t nc = std::min(inner.size, direct ? cell : rows_match ? cell / 4 : side);
  const int64_t nr = std::min(second.size, std::max<int64_t>(1, (direct ? cell : rest) / nc));
  const int64_t row_boxes = (second.size + nr - 1) / nr, col_boxes = (inner.size + nc - 1) / nc;
  int64_t boxes = row_boxes * col_boxes;
  for (int d = 0; d < outer; ++d) boxes *= dims[d].size;
  const bool stream = g.numel * bytes >= streaming_threshold();
  const int64_t grain = std::max<int64_t>(1, (32 << 10) / (nr * nc * bytes));

  parallel_for(boxes, grain, [&](int64_t begin, int64_t end) {
    alignas(64) char buffer[kBox];
    for (int64_t b = begin; b < end; ++b) {
      // Along the input: its pages are few and its next box is near.
      const int64_t r0 = b % row_boxes * nr;
      int64_t rest = b / row_boxes;
      const int64_t c0 = rest % col_boxes * nc;
      rest /= col_boxes;
      int64_t to = r0 * second.out + c0 * inner.out, from = r0 * second.in + c0 * inner.in;
      for (int d = outer - 1; d >= 0; --d) {
        const int64_t at = rest % dims[d].size;
        rest /= dims[d].size;
        to += at * dims[d].out;
        from += at * dims[d].in;
      }
      const int64_t h = std::min(nr, second.size - r0), w = std::min(nc, inner.size - c0);
      char* dst = static_cast<char*>(out) + to * bytes;
      const char* src = static_cast<const char*>(in) + from * bytes;
      if (direct) {
        for (int64_t r = 0; r < h; ++r)
          scatter_box(dst + r * second.out * bytes, src + r * second.in * bytes, bytes, 1, w, 0, 1,
                      stream);
      } else {
        gather_box(buffer, src, bytes, h, w, second.in, inner.in);
        scatter_box(dst, buffer, bytes, h, w, second.out, inner.out, stream);
      }
    }
    if (stream) finish_streaming();
  });
}

// ---- between arithmetic dtypes: a tape of one cast ---------------------------------------------
void* cast_tape(DType to, DType from) {
  static std::atomic<void*> tapes[kNumDTypes][kNumDTypes];
  std::atomic<void*>& at = tapes[static_cast<int>(to)][static_cast<int>(from)];
  void* tape = at.load(std::memory_order_acquire);
  if (tape) return tape;
  pf_node node{};
  node.op = 0;
  node.dtype = static_cast<uint8_t>(to);
  node.compute = static_cast<uint8_t>(compute_type(to));
  node.nin = 1;
  node.store = 0;
  node.in[0] = {PF_REF_INPUT, 0};
  const uint8_t in = static_cast<uint8_t>(from), out = static_cast<uint8_t>(to);
  const pf_program program{1, 1, 1, 0, &node, &in, &out};
  program_create(&program, &tape);
  void* other = nullptr;
  if (at.compare_exchange_strong(other, tape, std::memory_order_acq_rel)) return tape;
  program_destroy(tape);
  return other;
}

void cast_elements(const Geometry& g, void* out, DType to, const void* in, DType from) {
  int64_t shape[PF_MAX_DIMS], outs[PF_MAX_DIMS], ins[PF_MAX_DIMS];
  bool dense_out = true, dense_in = true;
  int64_t expect = 1;
  for (int d = g.ndim - 1; d >= 0; --d) {
    shape[d] = g.dims[d].size;
    outs[d] = g.dims[d].out;
    ins[d] = g.dims[d].in;
    dense_out = dense_out && outs[d] == expect;
    dense_in = dense_in && ins[d] == expect;
    expect *= shape[d];
  }
  const pf_operand input{const_cast<void*>(in), ins, dense_in}, output{out, outs, dense_out};
  const pf_launch launch{g.ndim, shape, g.numel, &input, &output, nullptr};
  program_launch(cast_tape(to, from), &launch);
}

// ---- storage-only dtypes: one element at a time ------------------------------------------------

// A value of any dtype without loss.
struct Any {
  double re = 0, im = 0;
  uint64_t bits = 0;  // of an integer, two's complement
  enum { kFloat, kSigned, kUnsigned } kind = kFloat;
};

float from_float8(uint8_t b, int mantissa, int bias, bool infinite) {
  const int exponent = (b & 0x7f) >> mantissa, m = b & ((1 << mantissa) - 1);
  const int top = (1 << (7 - mantissa)) - 1;
  const float sign = b & 0x80 ? -1.0f : 1.0f;
  if (exponent == top) {
    if (infinite && m == 0) return sign * std::numeric_limits<float>::infinity();
    if (infinite || m == (1 << mantissa) - 1)
      return std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(m), 1 - bias - mantissa);
  return sign * std::ldexp(static_cast<float>(m + (1 << mantissa)), exponent - bias - mantissa);
}
// Round to nearest even; what is too large becomes inf, or NaN where the format has no inf.
uint8_t to_float8(float x, int mantissa, int bias, bool infinite) {
  const uint8_t sign = std::signbit(x) ? 0x80 : 0;
  const int top = (1 << (7 - mantissa)) - 1;
  const uint8_t nan = static_cast<uint8_t>(sign | 0x7f);
  const uint8_t inf = infinite ? static_cast<uint8_t>(sign | top << mantissa) : nan;
  if (std::isnan(x)) return nan;
  if (std::isinf(x)) return inf;
  const float a = std::fabs(x);
  if (a == 0) return sign;
  const int exponent = std::max(std::ilogb(a), 1 - bias);
  const float scaled = std::nearbyint(std::ldexp(a, mantissa - exponent));
  int code = static_cast<int>(scaled) + ((exponent + bias - 1) << mantissa);
  const int last = infinite ? top << mantissa : 0x7f;  // inf, or the only NaN
  if (code >= last) return inf;
  return static_cast<uint8_t>(sign | code);
}

Any load_any(const char* p, DType t) {
  Any a;
  dispatch_stored(t, [&]<class S>() {
    using Raw = std::conditional_t<std::is_same_v<S, bool>, uint8_t, S>;
    Raw v;
    std::memcpy(&v, p, sizeof v);
    if constexpr (std::is_same_v<S, bool>)
      a = {static_cast<double>(v != 0), 0, v != 0, Any::kUnsigned};
    else if constexpr (std::is_integral_v<S>)
      a = {static_cast<double>(v), 0, static_cast<uint64_t>(v),
           std::is_signed_v<S> ? Any::kSigned : Any::kUnsigned};
    else if constexpr (std::is_same_v<S, float8_e4m3>)
      a.re = from_float8(v.bits, 3, 7, false);
    else if constexpr (std::is_same_v<S, float8_e5m2>)
      a.re = from_float8(v.bits, 2, 15, true);
    else if constexpr (kIsHalf<S>)
      a.re = to_float(v);
    else if constexpr (std::is_floating_point_v<S>)
      a.re = v;
    else
      a = {v.real(), v.imag(), 0, Any::kFloat};
  });
  return a;
}

void store_any(char* p, DType t, const Any& a) {
  // Integers wrap; floats beyond the range of int64 become its smallest.
  const auto bits = [&]() -> uint64_t {
    if (a.kind != Any::kFloat) return a.bits;
    if (t == DType::UInt64 && a.re >= 0x1p63 && a.re < 0x1p64) return static_cast<uint64_t>(a.re);
    if (a.re >= -0x1p63 && a.re < 0x1p63) return static_cast<uint64_t>(static_cast<int64_t>(a.re));
    return uint64_t{1} << 63;
  };
  // Rounded once: an integer may have more digits than a double.
  const auto as_float = [&]() -> float {
    return a.kind == Any::kFloat    ? static_cast<float>(a.re)
           : a.kind == Any::kSigned ? static_cast<float>(static_cast<int64_t>(a.bits))
                                    : static_cast<float>(a.bits);
  };
  dispatch_stored(t, [&]<class S>() {
    const auto put = [p](const auto& v) {
      static_assert(sizeof v == sizeof(S));
      std::memcpy(p, &v, sizeof v);
    };
    if constexpr (std::is_same_v<S, bool>)
      put(static_cast<uint8_t>(a.re != 0 || a.im != 0));
    else if constexpr (std::is_integral_v<S>)
      put(static_cast<S>(bits()));
    else if constexpr (std::is_same_v<S, float8_e4m3>)
      put(to_float8(as_float(), 3, 7, false));
    else if constexpr (std::is_same_v<S, float8_e5m2>)
      put(to_float8(as_float(), 2, 15, true));
    else if constexpr (std::is_same_v<S, float16>)
      put(to_float16(as_float()));
    else if constexpr (std::is_same_v<S, bfloat16>)
      put(to_bfloat16(as_float()));
    else if constexpr (std::is_same_v<S, float>)
      put(as_float());
    else if constexpr (std::is_same_v<S, double>)
      put(a.re);
    else if constexpr (std::is_same_v<S, std::complex<float>>)
      put(S(as_float(), static_cast<float>(a.im)));
    else
      put(S(a.re, a.im));
  });
}

void any_elements(const Geometry& g, void* out, DType to, const void* in, DType from) {
  const int64_t ob = static_cast<int64_t>(itemsize(to)), ib = static_cast<int64_t>(itemsize(from));
  const Dim inner = g.dims[g.ndim - 1];
  parallel_for(g.numel / inner.size, std::max<int64_t>(1, 1024 / inner.size),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   int64_t rest = row, o = 0, i = 0;
                   for (int d = g.ndim - 2; d >= 0; --d) {
                     const int64_t at = rest % g.dims[d].size;
                     rest /= g.dims[d].size;
                     o += at * g.dims[d].out;
                     i += at * g.dims[d].in;
                   }
                   char* dst = static_cast<char*>(out) + o * ob;
                   const char* src = static_cast<const char*>(in) + i * ib;
                   for (int64_t c = 0; c < inner.size; ++c)
                     store_any(dst + c * inner.out * ob, to,
                               load_any(src + c * inner.in * ib, from));
                 }
               });
}

void copy_kernel_entry(const KernelArgs& a) {
  convert(a.tensor(0), a.tensor(1));
}

// One number everywhere, for dtypes without arithmetic. attrs: the number
void fill_kernel_entry(const KernelArgs& a) {
  const bool exact = is_integral(a.dtype(0));
  double real = a.f(0);
  int64_t whole = a.i(0);
  pf_tensor one{};
  one.data = exact ? static_cast<void*>(&whole) : &real;
  one.dtype = static_cast<uint8_t>(exact ? DType::Int64 : DType::Float64);
  convert(a.tensor(0), one);
}

}  // namespace

void convert(const pf_tensor& out, const pf_tensor& in) {
  const DType to = static_cast<DType>(out.dtype), from = static_cast<DType>(in.dtype);
  if (numel(out) == 0) return;
  if (to == DType::Int4 || from == DType::Int4) {
    // Two elements share a byte: only whole dense tensors move.
    PF_CHECK(to == from && contiguous(out) && contiguous(in) && numel(out) == numel(in),
             NotSupportedError, "copy", "got int4 that is converted, strided or broadcast; ",
             "expected a contiguous int4 tensor of the same shape; unpack it first");
    std::memcpy(out.data, in.data, nbytes(to, numel(out)));
    return;
  }
  Geometry g(out, in);
  if (to == from)
    move_elements(g, out.data, in.data, static_cast<int>(itemsize(to)));
  else if (!info(to).storage_only && !info(from).storage_only)
    cast_elements(g, out.data, to, in.data, from);
  else
    any_elements(g, out.data, to, in.data, from);
}

PF_CPU_KERNEL("copy", copy_kernel_entry)
PF_CPU_KERNEL("fill", fill_kernel_entry)

}  // namespace pyflame::cpu
