#include "cpu/convert.h"

#include <algorithm>
#include <atomic>
#include <complex>
#include <cstdlib>

#include "cpu/kernel.h"
#include "cpu/move.h"
#include "cpu/scratch.h"
#include "cpu/stack.h"
#include "cpu/tape.h"
#include "cpu/threads.h"
#include "pyflame/error.h"
#include "table/kernels/move.h"

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

  const auto move = [&](int64_t begin, int64_t end, char* buffer) {
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
  };
  if (stack_is_small()) return parallel_with(boxes, grain, kBox, move);
  parallel_for(boxes, grain, [&](int64_t begin, int64_t end) {
    alignas(64) char buffer[kBox];
    move(begin, end, buffer);
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

// ---- dtypes without arithmetic: through a buffer of wide values ---------------------------------

// What loses nothing of a value: a double for every float, 64 bits for integers.
template <class S>
struct WidenedAs {
  using type = std::conditional_t<
      std::is_same_v<S, uint64_t>, uint64_t,
      std::conditional_t<std::is_integral_v<S> || std::is_same_v<S, bool8>, int64_t, double>>;
};
template <class R>
struct WidenedAs<std::complex<R>> {
  using type = std::complex<double>;
};
template <class S>
using Widened = typename WidenedAs<S>::type;

template <class S>
Widened<S> widen(S v) {
  if constexpr (kIsFloat8<S> || kIsHalf<S>)
    return static_cast<double>(to_float(v));
  else if constexpr (std::is_same_v<S, bool8>)
    return static_cast<bool>(v);
  else
    return static_cast<Widened<S>>(v);
}

// Integers wrap; floats beyond the range of int64 become its smallest, those beyond uint64 a 0 of
// it; complex numbers lose their imaginary part. A float is rounded to float32 first.
template <class S, class W>
S narrow(W v) {
  if constexpr (std::is_same_v<S, std::complex<float>> || std::is_same_v<S, std::complex<double>>) {
    using R = typename S::value_type;
    if constexpr (std::is_same_v<W, std::complex<double>>)
      return S(static_cast<R>(v.real()), static_cast<R>(v.imag()));
    else
      return S(static_cast<R>(v), R(0));
  } else if constexpr (std::is_same_v<W, std::complex<double>>) {
    if constexpr (std::is_same_v<S, bool8>)
      return v != W(0);
    else
      return narrow<S>(v.real());
  } else if constexpr (std::is_same_v<S, bool8>) {
    return v != W(0);
  } else if constexpr (std::is_integral_v<S>) {
    if constexpr (!std::is_same_v<W, double>)
      return static_cast<S>(v);
    else if constexpr (std::is_same_v<S, uint64_t>)
      return v >= 0x1p63 ? (v < 0x1p64 ? static_cast<S>(v) : S(0))
                         : static_cast<S>(Scalar(v).to_int());
    else
      return static_cast<S>(Scalar(v).to_int());
  } else if constexpr (kIsFloat8<S>) {
    return to_float8<S>(static_cast<float>(v));
  } else if constexpr (std::is_same_v<S, float16>) {
    return to_float16(static_cast<float>(v));
  } else if constexpr (std::is_same_v<S, bfloat16>) {
    return to_bfloat16(static_cast<float>(v));
  } else {
    return static_cast<S>(v);
  }
}

// Two's complement in the low half of a byte for even places, in the high half for odd ones.
int64_t load_int4(const void* p, int64_t i) {
  const auto byte = static_cast<const uint8_t*>(p)[i >> 1];
  return static_cast<int8_t>(static_cast<uint8_t>(i & 1 ? byte : byte << 4)) >> 4;
}
void store_int4(void* p, int64_t i, int64_t v) {
  auto& byte = static_cast<uint8_t*>(p)[i >> 1];
  const auto half = static_cast<uint8_t>(v & 15);
  byte = static_cast<uint8_t>(i & 1 ? (byte & 0x0f) | half << 4 : (byte & 0xf0) | half);
}

constexpr int64_t kPiece = 1024;  // elements that are wide at once
union Wide {
  double real[kPiece];
  int64_t whole[kPiece];
  uint64_t natural[kPiece];
  double complex[2 * kPiece];
  Wide() {}
};
template <class W>
W* wide_as(Wide& w) {
  return reinterpret_cast<W*>(&w);  // of one type from the load to the store
}

// n elements, `step` apart from place `at` on, into `w`.
void load_piece(DType t, const void* p, int64_t at, int64_t step, int64_t n, Wide& w) {
  if (t == DType::Int4) {
    for (int64_t i = 0; i < n; ++i) wide_as<int64_t>(w)[i] = load_int4(p, at + i * step);
    return;
  }
  dispatch_stored(t, [&]<class S>() {
    const S* x = static_cast<const S*>(p) + at;
    auto* to = wide_as<Widened<S>>(w);
    for (int64_t i = 0; i < n; ++i) to[i] = widen(x[i * step]);
  });
}
template <class W>
void store_piece(DType t, void* p, int64_t at, int64_t step, int64_t n, const W* w) {
  if (t == DType::Int4) {
    for (int64_t i = 0; i < n; ++i) store_int4(p, at + i * step, narrow<int64_t>(w[i]));
    return;
  }
  dispatch_stored(t, [&]<class S>() {
    S* x = static_cast<S*>(p) + at;
    for (int64_t i = 0; i < n; ++i) x[i * step] = narrow<S>(w[i]);
  });
}

void stored_elements(const Geometry& g, void* out, DType to, const void* in, DType from) {
  const Dim inner = g.dims[g.ndim - 1];
  const int64_t pieces = (inner.size + kPiece - 1) / kPiece;
  // Neighbours of int4 share a byte: one thread writes them all.
  const int64_t rows = g.numel / inner.size * pieces;
  const int64_t grain = to == DType::Int4 ? rows : std::max<int64_t>(1, 4096 / inner.size);
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    Wide wide;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row % pieces * kPiece, n = std::min(kPiece, inner.size - first);
      int64_t rest = row / pieces, o = first * inner.out, i = first * inner.in;
      for (int d = g.ndim - 2; d >= 0; --d) {
        const int64_t at = rest % g.dims[d].size;
        rest /= g.dims[d].size;
        o += at * g.dims[d].out;
        i += at * g.dims[d].in;
      }
      load_piece(from, in, i, inner.in, n, wide);
      const Kind kind = info(from).kind;
      if (kind == Kind::Complex)
        store_piece(to, out, o, inner.out, n, wide_as<std::complex<double>>(wide));
      else if (kind == Kind::Float)
        store_piece(to, out, o, inner.out, n, wide_as<double>(wide));
      else if (from == DType::UInt64)
        store_piece(to, out, o, inner.out, n, wide_as<uint64_t>(wide));
      else
        store_piece(to, out, o, inner.out, n, wide_as<int64_t>(wide));
    }
  });
}

void copy_kernel_entry(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::Copy>;
  convert(a.tensor(at.out), a.tensor(at.x));
}

void fill_kernel_entry(const KernelArgs& a) {
  constexpr auto at = kernels::tensors<kernels::Fill>;
  constexpr auto number = kernels::numbers<kernels::Fill>;
  const pf_tensor& out = a.tensor(at.out);
  const DType t = a.dtype(at.out);
  const bool exact = is_integral(t);
  double real = a.f(number.value);
  int64_t whole = a.i(number.value);
  pf_tensor one{};
  one.data = exact ? static_cast<void*>(&whole) : &real;
  one.dtype = static_cast<uint8_t>(exact ? DType::Int64 : DType::Float64);
  convert(out, one);
}

}  // namespace

void convert(const pf_tensor& out, const pf_tensor& in) {
  const DType to = static_cast<DType>(out.dtype), from = static_cast<DType>(in.dtype);
  if (numel(out) == 0) return;
  Geometry g(out, in);
  if (to == from && info(to).bits >= 8)
    move_elements(g, out.data, in.data, static_cast<int>(itemsize(to)));
  else if (!info(to).storage_only && !info(from).storage_only)
    cast_elements(g, out.data, to, in.data, from);
  else
    stored_elements(g, out.data, to, in.data, from);
}

PF_CPU_KERNEL(kernels::Copy::kInfo, copy_kernel_entry)
PF_CPU_KERNEL(kernels::Fill::kInfo, fill_kernel_entry)

}  // namespace pyflame::cpu
