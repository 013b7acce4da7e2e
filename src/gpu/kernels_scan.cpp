// Running sums, products, extremes and logarithms of sums of exponentials along one dimension, in
// fixed order. A lane is one position in all other dimensions. Long lanes are cut into pieces:
// the first pass finds the total of each piece, scan_totals turns these into what comes before
// each piece, and the second pass writes.
//   scan_rows      a block scans a lane's piece that lies along memory
//   scan_columns   a thread scans a lane's piece; neighbours take neighbouring lanes
//
//   -DPF_T=  dtype    -DPF_OP=  one of the operations below
//   -DPF_TOTALS=0|1   this pass finds totals
#include "kernels/axes_args.h"

struct pf_scan {
  const void* in;
  void* out;
  void* indices;  // extremes
  void* totals;   // [pieces][lanes]: of the pieces, then what comes before each
  pf_axes lanes;  // stride: in, other: out (indices lie as out)
  pf_i64 length, in_stride, out_stride;
  pf_i64 piece, pieces;  // elements of one, how many
};
static_assert(sizeof(pf_scan) == 376, "as hosts fill it");

#ifdef PF_DEVICE_TEXT
#include "kernels/axes.h"
#include "kernels/rows.h"

typedef PF_T T;
typedef pf_compute<T> C;

#define PF_SCAN_THREADS 256
#define PF_SCAN_ITEMS 8  // consecutive elements of a thread

// ---- operations: join(a, b) with b after a ----------------------------------------------------
template <bool FLOAT>
struct pf_scan_wide {
  typedef pf_i64 type;
};
template <>
struct pf_scan_wide<true> {
  typedef double type;
};
template <class A>
struct pf_is_float {
  enum { value = 0 };
};
template <>
struct pf_is_float<float> {
  enum { value = 1 };
};
template <>
struct pf_is_float<double> {
  enum { value = 1 };
};
typedef pf_scan_wide<pf_is_float<C>::value != 0>::type Number;

struct pf_plain {
  typedef Number acc;
  static PF_METHOD acc lift(C x, pf_i64) { return static_cast<acc>(x); }
  static PF_METHOD void store(const pf_scan& s, pf_i64 at, acc a) {
    pf_put_one<T>(pf_global(s.out), at, static_cast<C>(a));
  }
};
PF_DEVICE double pf_wrapping_add(double a, double b) {
  return a + b;
}
PF_DEVICE pf_i64 pf_wrapping_add(pf_i64 a, pf_i64 b) {
  return pf_add(a, b);
}
PF_DEVICE double pf_wrapping_mul(double a, double b) {
  return a * b;
}
PF_DEVICE pf_i64 pf_wrapping_mul(pf_i64 a, pf_i64 b) {
  return pf_mul(a, b);
}
struct pf_scan_sum : pf_plain {
  static PF_METHOD acc start() { return acc(0); }
  static PF_METHOD acc join(acc a, acc b) { return pf_wrapping_add(a, b); }
};
struct pf_scan_product : pf_plain {
  static PF_METHOD acc start() { return acc(1); }
  static PF_METHOD acc join(acc a, acc b) { return pf_wrapping_mul(a, b); }
};
struct pf_scan_logsumexp : pf_plain {
  static PF_METHOD acc start() { return acc(-pf_float<double>::infinity()); }
  static PF_METHOD acc join(acc x, acc y) {
    const double a = static_cast<double>(x), b = static_cast<double>(y);
    if (a != a || b != b) return static_cast<acc>(a + b);
    const double high = a > b ? a : b, low = a > b ? b : a;
    if (pf_isinf(high)) return static_cast<acc>(high);  // also -inf and -inf
    return static_cast<acc>(high + pf_log1p(pf_exp(low - high)));
  }
};
// The last of equals counts, and the last NaN; at < 0: nothing yet.
struct pf_place_of {
  C value;
  pf_i64 at;
};
PF_DEVICE pf_place_of pf_shuffle(pf_place_of p, pf_u32 from) {
  if constexpr (sizeof(C) == 1)
    return {static_cast<C>(pf_shuffle_word(p.value, from) != 0), pf_shuffle<pf_i64>(p.at, from)};
  else
    return {pf_shuffle<C>(p.value, from), pf_shuffle<pf_i64>(p.at, from)};
}
template <bool SMALLEST>
struct pf_scan_extreme {
  typedef pf_place_of acc;
  static PF_METHOD acc start() { return {C(0), -1}; }
  static PF_METHOD acc lift(C x, pf_i64 at) { return {x, at}; }
  static PF_METHOD acc join(acc a, acc b) {
    const C x = b.value, y = a.value;
    const bool later = x != x || (y == y && (SMALLEST ? x <= y : x >= y));
    const bool take = b.at >= 0 && (a.at < 0 || later);
    return {take ? x : y, take ? b.at : a.at};
  }
  static PF_METHOD void store(const pf_scan& s, pf_i64 at, acc a) {
    pf_put_one<T>(pf_global(s.out), at, a.value);
    static_cast<pf_i64*>(pf_global(s.indices))[at] = a.at;
  }
};
typedef pf_scan_extreme<false> pf_scan_max;
typedef pf_scan_extreme<true> pf_scan_min;

typedef PF_OP Op;
typedef Op::acc Acc;

// What lies before this thread's in the block (`total` becomes that of the block). Barriers
// before and after `room` is used.
PF_DEVICE Acc pf_scan_block(Acc own, Acc& total, Acc* room) {
  const pf_u32 lane = pf_lane(), warp = pf_thread() / PF_WARP, warps = pf_threads() / PF_WARP;
  Acc a = own;
  for (pf_u32 by = 1; by < PF_WARP; by *= 2) {
    const Acc before = pf_shuffle(a, lane < by ? lane : lane - by);
    if (lane >= by) a = Op::join(before, a);
  }
  Acc left = pf_shuffle(a, lane == 0 ? 0 : lane - 1);
  if (lane == 0) left = Op::start();
  if (lane == PF_WARP - 1) room[warp] = a;
  pf_barrier();
  Acc before = Op::start();
  total = Op::start();
  for (pf_u32 k = 0; k < warps; ++k) {
    if (k == warp) before = total;
    total = Op::join(total, room[k]);
  }
  pf_barrier();
  return Op::join(before, left);
}

// Null when there is one piece only.
PF_DEVICE Acc* pf_totals_of(const pf_scan& s, pf_i64 piece, pf_i64 lane) {
  Acc* const first = static_cast<Acc*>(s.totals);
  return pf_global(first ? first + piece * s.lanes.count + lane : first);
}

PF_KERNEL(scan_rows, PF_SCAN_THREADS)(const pf_scan s) {
  PF_SHARED Acc room[PF_MAX_WARPS];
  const pf_i64 b = pf_block(), lane = pf_quotient(b, s.pieces), piece = b - lane * s.pieces;
  const pf_i64 begin = piece * s.piece;
  const pf_i64 end = begin + s.piece < s.length ? begin + s.piece : s.length;
  const pf_i64 in = pf_offset(s.lanes, lane), out = pf_other_offset(s.lanes, lane);
  Acc* totals = pf_totals_of(s, piece, lane);
  Acc carry = PF_TOTALS || !totals ? Op::start() : *totals;
  const pf_i64 step = static_cast<pf_i64>(pf_threads()) * PF_SCAN_ITEMS;
  for (pf_i64 first = begin; first < end; first += step) {
    const pf_i64 from = first + pf_thread() * PF_SCAN_ITEMS;
    C x[PF_SCAN_ITEMS];
    PF_UNROLL for (int i = 0; i < PF_SCAN_ITEMS; ++i) x[i] =
        from + i < end ? pf_get_one<T>(pf_global(s.in), in + (from + i) * s.in_stride) : C(0);
    Acc a[PF_SCAN_ITEMS];
    PF_UNROLL for (int i = 0; i < PF_SCAN_ITEMS; ++i) {
      const Acc v = from + i < end ? Op::lift(x[i], from + i) : Op::start();
      a[i] = i == 0 ? v : Op::join(a[i - 1], v);
    }
    Acc total;
    const Acc left = Op::join(carry, pf_scan_block(a[PF_SCAN_ITEMS - 1], total, room));
    if constexpr (!PF_TOTALS)
      PF_UNROLL for (int i = 0; i < PF_SCAN_ITEMS; ++i) if (from + i < end)
          Op::store(s, out + (from + i) * s.out_stride, Op::join(left, a[i]));
    carry = Op::join(carry, total);
  }
  if (PF_TOTALS && pf_thread() == 0) *totals = carry;
}

PF_KERNEL(scan_columns, PF_SCAN_THREADS)(const pf_scan s) {
  const pf_i64 blocks = (s.lanes.count + PF_SCAN_THREADS - 1) / PF_SCAN_THREADS;
  const pf_i64 b = pf_block(), piece = pf_quotient(b, blocks);
  const pf_i64 lane = (b - piece * blocks) * PF_SCAN_THREADS + pf_thread();
  if (lane >= s.lanes.count) return;
  const pf_i64 begin = piece * s.piece;
  const pf_i64 end = begin + s.piece < s.length ? begin + s.piece : s.length;
  const pf_i64 in = pf_offset(s.lanes, lane), out = pf_other_offset(s.lanes, lane);
  Acc* totals = pf_totals_of(s, piece, lane);
  Acc a = PF_TOTALS || !totals ? Op::start() : *totals;
  pf_i64 k = begin;
  for (; k + 4 <= end; k += 4) {
    C x[4];
    PF_UNROLL for (int u = 0; u < 4; ++u) x[u] =
        pf_get_one<T>(pf_global(s.in), in + (k + u) * s.in_stride);
    PF_UNROLL for (int u = 0; u < 4; ++u) {
      a = Op::join(a, Op::lift(x[u], k + u));
      if constexpr (!PF_TOTALS) Op::store(s, out + (k + u) * s.out_stride, a);
    }
  }
  for (; k < end; ++k) {
    a = Op::join(a, Op::lift(pf_get_one<T>(pf_global(s.in), in + k * s.in_stride), k));
    if constexpr (!PF_TOTALS) Op::store(s, out + k * s.out_stride, a);
  }
  if constexpr (PF_TOTALS) *totals = a;
}

// Totals become what comes before each piece: a block a lane.
PF_KERNEL(scan_totals, PF_SCAN_THREADS)(const pf_scan s) {
  PF_SHARED Acc room[PF_MAX_WARPS];
  Acc* totals = static_cast<Acc*>(pf_global(s.totals)) + pf_block();
  Acc carry = Op::start();
  for (pf_i64 first = 0; first < s.pieces; first += pf_threads()) {
    const pf_i64 k = first + pf_thread();
    const Acc own = k < s.pieces ? totals[k * s.lanes.count] : Op::start();
    Acc total;
    const Acc before = pf_scan_block(own, total, room);
    if (k < s.pieces) totals[k * s.lanes.count] = Op::join(carry, before);
    carry = Op::join(carry, total);
  }
}

#else  // launchers
#include <algorithm>

#include "gpu/axes.h"
#include "gpu/kernel.h"
#include "table/kernels/scan.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

constexpr int kThreads = 256, kItems = 8;  // PF_SCAN_THREADS, PF_SCAN_ITEMS

// `accumulator`: bytes of what is kept of a piece.
void run(const KernelArgs& a, const pf_tensor& in, const pf_tensor& out, void* indices, int dim,
         bool back, const char* op, size_t accumulator) {
  if (numel(in) == 0) return;
  const auto item = static_cast<int64_t>(itemsize(static_cast<DType>(in.dtype)));
  pf_scan s{in.data,       out.data,        indices,          nullptr, no_axes(),
            in.shape[dim], in.strides[dim], out.strides[dim], 0,       0};
  for (int d = 0; d < in.ndim; ++d)
    if (d != dim) add_axis(s.lanes, in.shape[d], in.strides[d], out.strides[d]);
  if (back) {
    s.in = static_cast<const char*>(s.in) + (s.length - 1) * s.in_stride * item;
    s.out = static_cast<char*>(s.out) + (s.length - 1) * s.out_stride * item;
    s.in_stride = -s.in_stride;
    s.out_stride = -s.out_stride;
  }
  const int64_t lanes = s.lanes.count;
  // Lanes that lie along memory take a block each, unless they are short.
  const bool rows = s.length > 64 && (s.in_stride == 1 || s.in_stride == -1 || lanes < kThreads);
  const int64_t units = rows ? lanes : ceil_div(lanes, kThreads);
  const int64_t least = rows ? int64_t{4} * kThreads * kItems : 64;
  const int64_t pieces = std::clamp<int64_t>(1024 / units, 1, ceil_div(s.length, least));
  s.piece = ceil_div(ceil_div(s.length, pieces), least) * least;
  s.pieces = ceil_div(s.length, s.piece);
  const char* entry = rows ? "scan_rows" : "scan_columns";
  int threads = kThreads;
  if (rows && s.pieces == 1)
    threads = static_cast<int>(std::clamp<int64_t>(power_of_two_from(ceil_div(s.length, kItems)),
                                                   a.traits().warp, kThreads));
  const auto function = [&](const char* name, int totals) {
    const Defines d = Defines()
                          .type("PF_T", static_cast<DType>(in.dtype))
                          .text("PF_OP", op)
                          .value("PF_TOTALS", totals);
    return a.compile("kernels_scan.cpp", d, name);
  };
  if (s.pieces > 1) {
    s.totals = a.workspace(accumulator * static_cast<size_t>(s.pieces * lanes));
    a.launch(function(entry, 1), Grid(units * s.pieces), threads, 0, s);
    a.launch(function("scan_totals", 1), Grid(lanes), kThreads, 0, s);
  }
  a.launch(function(entry, 0), Grid(units * s.pieces), threads, 0, s);
}

void run(const KernelArgs& a, const char* op) {
  constexpr auto at = tensors<Cumsum>;
  constexpr auto number = numbers<Cumsum>;
  run(a, a.tensor(at.x), a.tensor(at.out), nullptr, static_cast<int>(a.i(number.dim)),
      a.i(number.backwards) != 0, op, 8);
}
void cumsum(const KernelArgs& a) {
  run(a, "pf_scan_sum");
}
void cumprod(const KernelArgs& a) {
  run(a, "pf_scan_product");
}
void logcumsumexp(const KernelArgs& a) {
  run(a, "pf_scan_logsumexp");
}

void cumextreme(const KernelArgs& a) {
  constexpr auto at = tensors<CumExtreme>;
  constexpr auto number = numbers<CumExtreme>;
  run(a, a.tensor(at.x), a.tensor(at.values), a.data(at.indices), static_cast<int>(a.i(number.dim)),
      false, a.i(number.smallest) != 0 ? "pf_scan_min" : "pf_scan_max", 16);
}

}  // namespace

PF_GPU_KERNEL(Cumsum::kInfo, cumsum)
PF_GPU_KERNEL(Cumprod::kInfo, cumprod)
PF_GPU_KERNEL(LogCumsumExp::kInfo, logcumsumexp)
PF_GPU_KERNEL(CumExtreme::kInfo, cumextreme)

}  // namespace pyflame::gpu
#endif
