// Decompositions by the vendor's library (cuSOLVER, hipSOLVER), and what it does not do: the other
// triangle, the adjoint of a matrix, NaN and infinities, and numbers whose squares have no place.
//   -DPF_R=      float or double: of the numbers' parts
//   -DPF_PARTS=  1, or 2 of complex numbers
#include "kernels/integers.h"

struct pf_matrices {
  const void* from;
  void* to;
  void* scale;  // of each: what it was multiplied by
  pf_i32* bad;  // of each, or each part: it holds NaN or an infinity (and of prepare is 0 now)
  pf_i32* info;
  const pf_i32* pivots;         // rows that are exchanged, from 1
  pf_i32* places;               // where rows come from then; null: all stay
  pf_i64 count, rows, columns;  // the last are those that lie side by side
  pf_i32
      which;  // elements [r][c]: all (0), of c <= r (1) or of c >= r (2); or back; or parts of each
  pf_i32 conjugate;
};
static_assert(sizeof(pf_matrices) == 88, "as hosts fill it");

#ifdef PF_DEVICE_TEXT
#include "kernels/math.h"
#define PF_INDEX pf_u64
#include "kernels/rows.h"
#include "kernels/space.h"

typedef PF_R R;
enum { PARTS = PF_PARTS };

// Whether an element of matrix i is of what is asked for: with info of Cholesky's only what lies in
// the leading minor in front of the one that is not positive.
PF_DEVICE bool pf_wanted(const pf_matrices& m, pf_u64 i, pf_u64 r, pf_u64 c) {
  if (m.info && m.info[i] > 0) {
    const pf_u64 kept = static_cast<pf_u64>(m.info[i]) - 1;
    if (r >= kept || c >= kept) return false;
  }
  return m.which == 0 || (m.which == 1 ? c <= r : c >= r);
}
// What is not of the triangle becomes 0.
PF_KERNEL(linalg_triangle, 256)(pf_matrices m) {
  const pf_u64 n = static_cast<pf_u64>(m.columns);
  const pf_u64 all = static_cast<pf_u64>(m.count) * static_cast<pf_u64>(m.rows) * n;
  for (pf_u64 e = pf_first_item(); e < all; e += pf_item_step()) {
    const pf_u64 line = e / n, c = e - line * n, i = line / static_cast<pf_u64>(m.rows);
    if (pf_wanted(m, i, line - i * static_cast<pf_u64>(m.rows), c)) continue;
    PF_UNROLL for (int p = 0; p < PARTS; ++p)
        pf_put<R>(m.to, static_cast<pf_i64>(e) * PARTS + p, R(0));
  }
}

// [count, rows, columns] to the transposes, [count, columns, rows], or to their conjugates; what is
// not of their triangle is 0.
PF_KERNEL(linalg_transpose, 256)(pf_matrices m) {
  const pf_u64 rows = static_cast<pf_u64>(m.rows), columns = static_cast<pf_u64>(m.columns);
  const pf_u64 all = static_cast<pf_u64>(m.count) * rows * columns;
  for (pf_u64 e = pf_first_item(); e < all; e += pf_item_step()) {
    const pf_u64 line = e / rows, r = e - line * rows, i = line / columns, c = line - i * columns;
    const pf_i64 from = static_cast<pf_i64>((i * rows + r) * columns + c) * PARTS;
    const pf_i64 to = static_cast<pf_i64>(e) * PARTS;
    const bool wanted = pf_wanted(m, i, c, r);
    pf_put<R>(m.to, to, wanted ? pf_get<R>(m.from, from) : R(0));
    if constexpr (PARTS == 2) {
      const R v = wanted ? pf_get<R>(m.from, from + 1) : R(0);
      pf_put<R>(m.to, to + 1, m.conjugate ? -v : v);
    }
  }
}

struct pf_larger {
  template <class A>
  static PF_METHOD A join(A a, A b) {
    return a > b ? a : b;
  }
};
// A block looks at a part of a matrix: whether it holds NaN (2) or an infinity (1).
PF_KERNEL(linalg_mark, 256)(pf_matrices m) {
  PF_SHARED pf_i32 room[PF_MAX_WARPS];
  const pf_i64 size = m.rows * m.columns * PARTS, parts = m.which;
  const pf_i64 i = pf_quotient(pf_block(), parts), part = pf_block() - i * parts;
  const R* x = static_cast<const R*>(m.to) + i * size;
  pf_i32 odd = 0;
  PF_NO_UNROLL for (pf_i64 e = part * pf_threads() + pf_thread(); e < size;
                    e += parts * pf_threads()) {
    const R v = pf_get<R>(x, e);
    odd = pf_larger::join<pf_i32>(odd, v != v ? 2 : !(v - v == R(0)));
  }
  odd = pf_group_join<pf_larger>(odd, pf_threads(), room);
  if (pf_thread() == 0) m.bad[pf_block()] = odd;
}
// Libraries say what they like of matrices that hold NaN or infinities: pivots that are none, that
// one is singular, with zeros for factors, or finite factors as if NaN were 0 (cuSOLVER 12). Such
// rows stay, and such factors are NaN, as they are on the CPU.
PF_KERNEL(linalg_pivots, 256)(pf_matrices m) {
  const pf_i64 few = m.rows < m.columns ? m.rows : m.columns, size = m.rows * m.columns * PARTS;
  pf_i32* pivots = m.places + pf_block() * few;
  PF_NO_UNROLL for (pf_i64 i = pf_thread(); i < few; i += pf_threads()) {
    const pf_i32 row = pivots[i];
    if (row <= i || row > m.rows) pivots[i] = static_cast<pf_i32>(i + 1);
  }
  PF_SHARED pf_i32 room[PF_MAX_WARPS];
  pf_i32 bad = 0;
  PF_NO_UNROLL for (pf_i64 part = pf_thread(); part < m.which; part += pf_threads()) bad =
      pf_larger::join(bad, m.bad[static_cast<pf_i64>(pf_block()) * m.which + part]);
  bad = pf_group_join<pf_larger>(bad, pf_threads(), room);
  const bool odd = bad == 2 || (bad && m.info[pf_block()] > 0);
  pf_barrier();  // all have read info
  if (!odd) return;
  R* x = static_cast<R*>(m.to) + pf_block() * size;
  PF_NO_UNROLL for (pf_i64 e = pf_thread(); e < size; e += pf_threads())
      pf_put<R>(x, e, pf_float<R>::infinity() - pf_float<R>::infinity());
  if (pf_thread() == 0) m.info[pf_block()] = 0;
}
PF_DEVICE void pf_exchange(pf_i32* places, const pf_i32* pivots, pf_i64 n) {
  PF_NO_UNROLL for (pf_i64 i = 0; i < n; ++i) {
    const pf_i32 other = pivots[i] - 1, mine = places[i];
    places[i] = places[other];
    places[other] = mine;
  }
}
// A block follows the exchanges of one matrix: from its rows' places to where each row comes from.
PF_KERNEL(linalg_places, 256)(pf_matrices m) {
  constexpr int kNear = 4096;
  PF_SHARED pf_i32 room[kNear];
  const pf_i64 first = static_cast<pf_i64>(pf_block()) * m.rows;
  pf_i32* places = m.places + first;
  const pf_i32* pivots = m.pivots + first;
  const bool near = m.rows <= kNear;
  PF_NO_UNROLL for (pf_i64 i = pf_thread(); i < m.rows; i += pf_threads()) {
    if (near)
      room[i] = static_cast<pf_i32>(i);
    else
      places[i] = static_cast<pf_i32>(i);
  }
  pf_barrier();
  if (pf_thread() == 0) {
    if (near)
      pf_exchange(room, pivots, m.rows);
    else
      pf_exchange(places, pivots, m.rows);
  }
  pf_barrier();
  if (near)
    PF_NO_UNROLL for (pf_i64 i = pf_thread(); i < m.rows; i += pf_threads()) places[i] = room[i];
}
// Rows in their new places, or back (`which`), conjugates of them where it is said.
PF_KERNEL(linalg_permute, 256)(pf_matrices m) {
  const pf_u64 rows = static_cast<pf_u64>(m.rows), columns = static_cast<pf_u64>(m.columns);
  const pf_u64 all = static_cast<pf_u64>(m.count) * rows * columns;
  for (pf_u64 e = pf_first_item(); e < all; e += pf_item_step()) {
    const pf_u64 line = e / columns, c = e - line * columns, first = line - line % rows;
    const pf_u64 other = m.places ? first + static_cast<pf_u64>(m.places[line]) : line;
    const pf_i64 there = static_cast<pf_i64>(other * columns + c) * PARTS;
    const pf_i64 here = static_cast<pf_i64>(e) * PARTS;
    const pf_i64 from = m.which ? here : there, to = m.which ? there : here;
    pf_put<R>(m.to, to, pf_get<R>(m.from, from));
    if constexpr (PARTS == 2) {
      const R v = pf_get<R>(m.from, from + 1);
      pf_put<R>(m.to, to + 1, m.conjugate ? -v : v);
    }
  }
}

// Magnitudes have the order of their bits, NaN above infinity.
PF_DEVICE pf_u64 pf_magnitude(R x) {
  if constexpr (sizeof(R) == 4)
    return pf_bits<pf_u32>(x) & 0x7fffffffu;
  else
    return pf_bits<pf_u64>(x) & 0x7fffffffffffffffull;
}
// A power of two by which numbers up to this one can be multiplied so that their squares neither
// overflow nor vanish; 1 where they do not anyway.
PF_DEVICE R pf_scale_for(pf_u64 most) {
  constexpr int kBits = sizeof(R) == 4 ? 23 : 52, kBias = sizeof(R) == 4 ? 127 : 1023;
  constexpr int kFar = sizeof(R) == 4 ? 32 : 480;
  const int exponent = static_cast<int>(most >> kBits) - kBias;
  if (most == 0 || (exponent >= -kFar && exponent < kFar)) return R(1);
  const int back = kBias - exponent, kept = back < 1 ? 1 : back > 2 * kBias ? 2 * kBias : back;
  if constexpr (sizeof(R) == 4)
    return pf_bits<R>(static_cast<pf_u32>(kept) << kBits);
  else
    return pf_bits<R>(static_cast<pf_u64>(kept) << kBits);
}
// A block looks at one matrix, or at one triangle of it, and scales it.
PF_KERNEL(linalg_prepare, 256)(pf_matrices m) {
  PF_SHARED pf_u64 room[PF_MAX_WARPS];
  const pf_i64 one = m.rows * m.columns, first = static_cast<pf_i64>(pf_block()) * one;
  R* x = static_cast<R*>(m.to) + first * PARTS;
  pf_u64 most = 0;
  PF_NO_UNROLL for (pf_i64 e = pf_thread(); e < one; e += pf_threads()) {
    const pf_i64 r = pf_quotient(e, m.columns), c = e - r * m.columns;
    if (m.which == 1 ? c > r : m.which == 2 && c < r) continue;
    PF_UNROLL for (int p = 0; p < PARTS; ++p) most =
        pf_larger::join(most, pf_magnitude(pf_get<R>(x, e * PARTS + p)));
  }
  most = pf_group_join<pf_larger>(most, pf_threads(), room);
  const bool bad = most >= pf_magnitude(pf_float<R>::infinity());
  const R by = bad ? R(0) : pf_scale_for(most);
  if (by != R(1))
    PF_NO_UNROLL for (pf_i64 e = pf_thread(); e < one * PARTS; e += pf_threads())
        pf_put<R>(x, e, bad ? R(0) : pf_get<R>(x, e) * by);
  if (pf_thread() == 0) {
    pf_put<R>(m.scale, pf_block(), bad ? R(1) : by);
    m.bad[pf_block()] = bad;
  }
}
// Values of what was scaled, [count, columns], and what is said of what was bad.
PF_KERNEL(linalg_settle, 256)(pf_matrices m) {
  const R by = pf_get<R>(m.scale, pf_block());
  R* x = static_cast<R*>(m.to) + static_cast<pf_i64>(pf_block()) * m.columns;
  if (by != R(1))
    PF_NO_UNROLL for (pf_i64 e = pf_thread(); e < m.columns; e += pf_threads())
        pf_put<R>(x, e, pf_get<R>(x, e) / by);
  if (pf_thread() == 0 && m.bad[pf_block()]) m.info[pf_block()] = -1;
}

#else  // launchers
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/compile_only.h"
#include "gpu/device.h"
#include "gpu/kernel.h"
#include "gpu/library.h"
#include "gpu/solver_library.h"
#include "table/kernels/linalg.h"

namespace pyflame::gpu {
namespace {

using namespace kernels;

// Matrices of so many columns go to the library together: one by one each would wait for another.
constexpr int64_t kFewColumns = 256;
// The same of singular values and eigenvalues.
constexpr int kTinyMatrix = 32;

#define PF_TAKE_FOUR(CALL, PREFIX, S, D, C, Z) \
  take(CALL[0], PREFIX #S);                    \
  take(CALL[1], PREFIX #D);                    \
  take(CALL[2], PREFIX #C);                    \
  take(CALL[3], PREFIX #Z);

struct SolverCalls {
#define X(OURS, S, D, C, Z, ARGS) int(*OURS[4]) ARGS = {};
  PF_SOLVER_ROUTINES(X)
#undef X
#define X(NAME, ARGS) int(*NAME) ARGS = nullptr;
  PF_SOLVER_CALLS(X)
#undef X
  template <class F>
  void each(F&& take) {
#define X(OURS, S, D, C, Z, ARGS) PF_TAKE_FOUR(OURS, PF_RT("hipsolverDn", "cusolverDn"), S, D, C, Z)
    PF_SOLVER_ROUTINES(X)
#undef X
#define X(NAME, ARGS) take(NAME, PF_RT("hipsolverDn" #NAME, "cusolverDn" #NAME));
    PF_SOLVER_CALLS(X)
#undef X
  }
};
struct BlasCalls {
#define X(OURS, S, D, C, Z, ARGS) int(*OURS[4]) ARGS = {};
  PF_SOLVER_BLAS_ROUTINES(X)
#undef X
#define X(OURS, NAME, ARGS) int(*OURS) ARGS = nullptr;
  PF_SOLVER_BLAS_CALLS(X)
#undef X
  template <class F>
  void each(F&& take) {
#define X(OURS, S, D, C, Z, ARGS) PF_TAKE_FOUR(OURS, PF_RT("hipblas", "cublas"), S, D, C, Z)
    PF_SOLVER_BLAS_ROUTINES(X)
#undef X
#define X(OURS, NAME, ARGS) take(OURS, PF_RT("hipblas" #NAME, "cublas" #NAME));
    PF_SOLVER_BLAS_CALLS(X)
#undef X
  }
};

const VendorLibrary<SolverCalls>& solver() {
  static const VendorLibrary<SolverCalls> l(
      PF_RT("hipSOLVER", "cuSOLVER"),
      PF_RT("PYFLAME_HIPSOLVER_LIBRARY", "PYFLAME_CUSOLVER_LIBRARY"),
      PF_RT("libhipsolver", "libcusolver"), {PF_RT(".so.1", ".so.12"), PF_RT(".so.0", ".so.11")});
  return l;
}
const VendorLibrary<BlasCalls>& blas() {
  static const VendorLibrary<BlasCalls> l(
      PF_RT("hipBLAS", "cuBLAS"), PF_RT("PYFLAME_HIPBLAS_LIBRARY", "PYFLAME_CUBLAS_LIBRARY"),
      PF_RT("libhipblas", "libcublas"), {PF_RT(".so.3", ".so.13"), PF_RT(".so.2", ".so.12")});
  return l;
}
bool solver_usable() {
  return !compile_only().empty() || solver().usable;
}
bool blas_usable() {
  return !compile_only().empty() || blas().usable;
}
bool both_usable() {
  return solver_usable() && blas_usable();
}

void must(int status, const char* library, const char* call) {
  if (status == 0) return;
  // cuSOLVER and cuBLAS say 2 and 3 for memory, hipSOLVER and hipBLAS 2.
  const bool memory = status == 2 || (!kAmd && status == 3 && library == std::string("cuBLAS"));
  throw Failure(memory ? PF_OOM : PF_LAUNCH,
                std::string(library) + "'s " + call + " gave status " + std::to_string(status));
}
void must_solve(int status, const char* call) {
  must(status, PF_RT("hipSOLVER", "cuSOLVER"), call);
}
void must_multiply(int status, const char* call) {
  must(status, PF_RT("hipBLAS", "cuBLAS"), call);
}

// Of a device; the lock is held by who calls the libraries, whose handles have one stream each.
struct Handles {
  std::mutex mutex;
  void *solver = nullptr, *blas = nullptr, *svd = nullptr, *eigh = nullptr;
};
Handles& handles_of(const Device& d) {
  static std::mutex mutex;
  static auto* all = new std::map<int, std::unique_ptr<Handles> >;
  std::lock_guard lock(mutex);
  auto& h = (*all)[d.index];
  if (!h) h = std::make_unique<Handles>();
  return *h;
}
// run(handles) behind all that the stream has.
template <class F>
void with_handles(const KernelArgs& a, F&& run) {
  if (!compile_only().empty()) return;
  Stream& stream = a.device.stream(a.stream);
  stream.queue.finish();
  a.device.activate();
  Handles& h = handles_of(a.device);
  std::lock_guard lock(h.mutex);
  run(h, stream.handle);
}
// The same with the solver's, or that of products, made and on the stream.
template <class F>
void with_solver(const KernelArgs& a, F&& run) {
  with_handles(a, [&](Handles& h, auto stream) {
    if (!h.solver) must_solve(solver().Create(&h.solver), "Create");
    must_solve(solver().SetStream(h.solver, stream), "SetStream");
    run(h);
  });
}
template <class F>
void with_blas(const KernelArgs& a, F&& run) {
  with_handles(a, [&](Handles& h, auto stream) {
    if (!h.blas) must_multiply(blas().Create(&h.blas), "Create");
    must_multiply(blas().SetStream(h.blas, stream), "SetStream");
    run(h);
  });
}

// A batch of matrices without gaps: of a tensor by columns `fast` is the number of rows.
struct Matrices {
  int64_t count = 1;
  int slow, fast;
  explicit Matrices(const pf_tensor& t)
      : slow(static_cast<int>(t.shape[t.ndim - 2])), fast(static_cast<int>(t.shape[t.ndim - 1])) {
    for (int d = 0; d + 2 < t.ndim; ++d) count *= t.shape[d];
  }
  int64_t size() const { return int64_t{slow} * fast; }
};

// Which of four routines, and the bytes of an element.
struct Kind {
  int at;
  bool complex, wide;
  int64_t item;
  explicit Kind(DType t)
      : at(t == DType::Float32     ? 0
           : t == DType::Float64   ? 1
           : t == DType::Complex64 ? 2
                                   : 3),
        complex(at >= 2),
        wide(at % 2 == 1),
        item((wide ? 8 : 4) * (complex ? 2 : 1)) {}
};
struct Batch {
  char* data;
  int64_t step;  // bytes
  void* operator[](int64_t i) const { return data + i * step; }
};
Batch batch_of(void* data, int64_t elements, const Kind& k) {
  return {static_cast<char*>(data), elements * k.item};
}
// A table of the matrices' addresses, on the device.
void** addresses(const KernelArgs& a, const Batch& b, int64_t count) {
  std::vector<void*> p(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) p[static_cast<size_t>(i)] = b[i];
  return static_cast<void**>(
      const_cast<void*>(static_cast<const void*>(a.upload(p.data(), p.size() * sizeof(void*)))));
}
void* work_of(const KernelArgs& a, int elements, const Kind& k) {
  return a.workspace(static_cast<size_t>(std::max<int64_t>(elements, 1) * k.item));
}

void launch(const KernelArgs& a, const char* entry, const Kind& k, const pf_matrices& m,
            int64_t threads) {
  const Defines defines =
      Defines().text("PF_R", k.wide ? "double" : "float").value("PF_PARTS", k.complex ? 2 : 1);
  a.launch(a.compile("kernels_linalg.cpp", defines, entry), blocks_for(threads, kBlock), kBlock, 0,
           m);
}

void cholesky(const KernelArgs& a) {
  constexpr auto at = tensors<Cholesky>;
  const Matrices m(a.tensor(at.a));
  const Kind k(a.dtype(at.a));
  const int n = m.fast;
  // An upper triangle that is row-major for us is the library's lower one, which it takes half of
  // the time for (H100): ours is turned.
  const bool upper = a.i(numbers<Cholesky>.upper) != 0;
  void* const data = a.data(at.a);
  pf_matrices t{};
  t.count = m.count, t.rows = t.columns = n;
  Batch x = batch_of(data, m.size(), k);
  if (!upper) {
    x = batch_of(a.workspace(static_cast<size_t>(m.count * m.size() * k.item)), m.size(), k);
    t.from = data, t.to = x.data;
    launch(a, "linalg_transpose", k, t, m.count * m.size());
  }
  auto* info = static_cast<int*>(a.data(at.info));
  const bool together = m.count > 1 && n <= kFewColumns;
  void** table = together ? addresses(a, x, m.count) : nullptr;
  with_solver(a, [&](Handles& h) {
    if (together)
      return must_solve(solver().potrf_batched[k.at](h.solver, kSolverLower, n, table, n, info,
                                                     static_cast<int>(m.count)),
                        "potrfBatched");
    int elements = 0;
    must_solve(solver().potrf_size[k.at](h.solver, kSolverLower, n, x[0], n, &elements),
               "potrf_bufferSize");
    void* work = work_of(a, elements, k);
    for (int64_t i = 0; i < m.count; ++i)
      must_solve(solver().potrf[k.at](h.solver, kSolverLower, n, x[i], n, work, elements, info + i),
                 "potrf");
  });
  t.from = x.data, t.to = data, t.which = upper ? 2 : 1, t.info = info;
  launch(a, upper ? "linalg_triangle" : "linalg_transpose", k, t, m.count * m.size());
}

void lu_factor(const KernelArgs& a) {
  constexpr auto at = tensors<LuFactor>;
  const Matrices m(a.tensor(at.a));
  const Kind k(a.dtype(at.a));
  const int rows = m.fast, columns = m.slow, few = std::min(rows, columns);
  const Batch x = batch_of(a.data(at.a), m.size(), k);
  auto *info = static_cast<int*>(a.data(at.info)), *pivots = static_cast<int*>(a.data(at.pivots));
  pf_matrices p{};
  p.places = pivots, p.count = m.count, p.rows = rows, p.columns = columns;
  p.to = x.data, p.info = info;
  // A block would look at 512 x 512 for 190 us (H100): parts of 4 numbers a thread, up to 256.
  p.which = static_cast<pf_i32>(std::clamp<int64_t>(m.size() / (4 * kBlock), 1, 256));
  p.bad = static_cast<pf_i32*>(a.workspace(static_cast<size_t>(m.count * p.which) * 4));
  launch(a, "linalg_mark", k, p, m.count * p.which * kBlock);
  if (m.count > 1 && rows == columns && rows <= kFewColumns) {
    void** table = addresses(a, x, m.count);
    with_blas(a, [&](Handles& h) {
      must_multiply(blas().getrf_batched[k.at](h.blas, rows, table, rows, pivots, info,
                                               static_cast<int>(m.count)),
                    "getrfBatched");
    });
    return launch(a, "linalg_pivots", k, p, m.count * kBlock);
  }
  with_solver(a, [&](Handles& h) {
    int elements = 0;
    must_solve(solver().getrf_size[k.at](h.solver, rows, columns, x[0], rows, &elements),
               "getrf_bufferSize");
    void* work = work_of(a, elements, k);
    for (int64_t i = 0; i < m.count; ++i)
      must_solve(solver().getrf[k.at](h.solver, rows, columns, x[i], rows, work, pivots + i * few,
                                      info + i),
                 "getrf");
  });
  launch(a, "linalg_pivots", k, p, m.count * kBlock);
}

// X of X' op(F) = B', F by columns, for every matrix of a batch.
struct Triangle {
  int uplo, op, unit;
};
void solve_right(const KernelArgs& a, const Kind& k, const Triangle& t, int64_t count, int n,
                 int columns, void* f, void* b) {
  const Batch first = batch_of(f, int64_t{n} * n, k), second = batch_of(b, int64_t{n} * columns, k);
  const double one[2] = {1, 0};
  const float one_f[2] = {1, 0};
  const void* alpha = k.wide ? static_cast<const void*>(one) : one_f;
  void **table = nullptr, **other = nullptr;
  if (count > 1) table = addresses(a, first, count), other = addresses(a, second, count);
  with_blas(a, [&](Handles& h) {
    if (count > 1)
      must_multiply(
          blas().trsm_batched[k.at](h.blas, kSolverRight, t.uplo, t.op, t.unit, columns, n, alpha,
                                    table, n, other, columns, static_cast<int>(count)),
          "trsmBatched");
    else
      must_multiply(blas().trsm[k.at](h.blas, kSolverRight, t.uplo, t.op, t.unit, columns, n, alpha,
                                      f, n, b, columns),
                    "trsm");
  });
}

// B is row-major, and so B' by columns: X' U' L' P' = B', of the transpose X' P L U = B', of the
// adjoint the same of conjugates.
void lu_solve(const KernelArgs& a) {
  constexpr auto at = tensors<LuSolve>;
  const Matrices m(a.tensor(at.b));
  const Kind k(a.dtype(at.b));
  const int n = m.slow, columns = m.fast;
  const int64_t mode = a.i(numbers<LuSolve>.mode);
  void *lu = a.data(at.lu), *b = a.data(at.b);
  const auto bytes = static_cast<size_t>(m.count * m.size() * k.item);
  pf_matrices p{};
  p.pivots = static_cast<const pf_i32*>(a.data(at.pivots));
  p.places = static_cast<pf_i32*>(a.workspace(static_cast<size_t>(m.count * n * 4)));
  p.count = m.count, p.rows = n, p.columns = columns;
  p.conjugate = mode == 2 && k.complex;
  launch(a, "linalg_places", k, p, m.count * kBlock);
  void* other = a.workspace(bytes);
  const auto permute = [&](void* to, const void* from, bool back) {
    p.from = from, p.to = to, p.which = back;
    launch(a, "linalg_permute", k, p, m.count * m.size());
  };
  const auto solve = [&](int uplo, int op, int unit, void* x) {
    solve_right(a, k, {uplo, op, unit}, m.count, n, columns, lu, x);
  };
  if (mode == 0) {
    permute(other, b, false);
    solve(kSolverLower, kSolverTransposed, kSolverUnit, other);
    solve(kSolverUpper, kSolverTransposed, kSolverNotUnit, other);
    a.copy(b, other, bytes);
    return;
  }
  if (p.conjugate) {
    // The identity's places: a copy of conjugates.
    pf_matrices c = p;
    c.places = nullptr, c.from = b, c.to = other;
    launch(a, "linalg_permute", k, c, m.count * m.size());
  } else {
    a.copy(other, b, bytes);
  }
  solve(kSolverUpper, kSolverPlain, kSolverNotUnit, other);
  solve(kSolverLower, kSolverPlain, kSolverUnit, other);
  permute(b, other, true);
}

void triangular_solve(const KernelArgs& a) {
  constexpr auto at = tensors<TriangularSolve>;
  constexpr auto number = numbers<TriangularSolve>;
  const Matrices m(a.tensor(at.b));
  const Kind k(a.dtype(at.b));
  const int n = m.slow, columns = m.fast;
  const bool upper = a.i(number.upper) != 0, transposed = a.i(number.transposed) != 0;
  const int unit = a.i(number.unit) ? kSolverUnit : kSolverNotUnit;
  // X' A' = B'. The memory of a row-major A is A' by columns, that of its transpose A itself.
  const int uplo = upper == transposed ? kSolverUpper : kSolverLower;
  const int op = transposed ? kSolverTransposed : kSolverPlain;
  solve_right(a, k, {uplo, op, unit}, m.count, n, columns, a.data(at.a), a.data(at.b));
}

void geqrf(const KernelArgs& a) {
  constexpr auto at = tensors<Geqrf>;
  const Matrices m(a.tensor(at.a));
  const Kind k(a.dtype(at.a));
  const int rows = m.fast, columns = m.slow;
  const Batch x = batch_of(a.data(at.a), m.size(), k),
              tau = batch_of(a.data(at.tau), std::min(rows, columns), k);
  auto* info = static_cast<int*>(a.workspace(sizeof(int)));
  with_solver(a, [&](Handles& h) {
    int elements = 0;
    must_solve(solver().geqrf_size[k.at](h.solver, rows, columns, x[0], rows, &elements),
               "geqrf_bufferSize");
    void* work = work_of(a, elements, k);
    for (int64_t i = 0; i < m.count; ++i)
      must_solve(
          solver().geqrf[k.at](h.solver, rows, columns, x[i], rows, tau[i], work, elements, info),
          "geqrf");
  });
}
void orgqr(const KernelArgs& a) {
  constexpr auto at = tensors<Orgqr>;
  const Matrices m(a.tensor(at.a));
  const Kind k(a.dtype(at.a));
  const pf_tensor& t = a.tensor(at.tau);
  const int rows = m.fast, columns = m.slow, vectors = static_cast<int>(t.shape[t.ndim - 1]);
  const Batch x = batch_of(a.data(at.a), m.size(), k), tau = batch_of(t.data, vectors, k);
  auto* info = static_cast<int*>(a.workspace(sizeof(int)));
  with_solver(a, [&](Handles& h) {
    int elements = 0;
    must_solve(
        solver().orgqr_size[k.at](h.solver, rows, columns, vectors, x[0], rows, tau[0], &elements),
        "orgqr_bufferSize");
    void* work = work_of(a, elements, k);
    for (int64_t i = 0; i < m.count; ++i)
      must_solve(solver().orgqr[k.at](h.solver, rows, columns, vectors, x[i], rows, tau[i], work,
                                      elements, info),
                 "orgqr");
  });
}
void ormqr(const KernelArgs& a) {
  constexpr auto at = tensors<Ormqr>;
  constexpr auto number = numbers<Ormqr>;
  const Matrices m(a.tensor(at.c)), v(a.tensor(at.a));
  const Kind k(a.dtype(at.c));
  const pf_tensor& t = a.tensor(at.tau);
  const int rows = m.fast, columns = m.slow, vectors = static_cast<int>(t.shape[t.ndim - 1]);
  const int side = a.i(number.left) ? kSolverLeft : kSolverRight;
  const int op = !a.i(number.transpose) ? kSolverPlain
                 : k.complex            ? kSolverAdjoint
                                        : kSolverTransposed;
  const Batch c = batch_of(a.data(at.c), m.size(), k), x = batch_of(a.data(at.a), v.size(), k),
              tau = batch_of(t.data, vectors, k);
  auto* info = static_cast<int*>(a.workspace(sizeof(int)));
  with_solver(a, [&](Handles& h) {
    int elements = 0;
    must_solve(solver().ormqr_size[k.at](h.solver, side, op, rows, columns, vectors, x[0], v.fast,
                                         tau[0], c[0], rows, &elements),
               "ormqr_bufferSize");
    void* work = work_of(a, elements, k);
    for (int64_t i = 0; i < m.count; ++i)
      must_solve(solver().ormqr[k.at](h.solver, side, op, rows, columns, vectors, x[i], v.fast,
                                      tau[i], c[i], rows, work, elements, info),
                 "ormqr");
  });
}

// What iterates is given finite numbers alone, of which none is far from 1: values are settled
// afterwards.
pf_matrices prepare(const KernelArgs& a, const Matrices& m, const Kind& k, void* x, int which) {
  pf_matrices p{};
  p.to = x, p.count = m.count, p.rows = m.slow, p.columns = m.fast, p.which = which;
  p.scale = a.workspace(static_cast<size_t>(m.count * 8));
  p.bad = static_cast<pf_i32*>(a.workspace(static_cast<size_t>(m.count * 4)));
  launch(a, "linalg_prepare", k, p, m.count * kBlock);
  return p;
}
void settle(const KernelArgs& a, pf_matrices p, const Kind& k, void* values, int64_t each,
            int* info) {
  p.to = values, p.columns = each, p.info = info;
  launch(a, "linalg_settle", Kind(k.wide ? DType::Float64 : DType::Float32), p, p.count * kBlock);
}

void svd(const KernelArgs& a) {
  constexpr auto at = tensors<Svd>;
  const Matrices m(a.tensor(at.a));
  const Kind k(a.dtype(at.a));
  const int rows = m.fast, n = m.slow;  // rows >= n
  const bool vectors = a.has(at.u), full = a.i(numbers<Svd>.full) != 0;
  // Of a matrix that is not square cuSOLVER 12 has no values without vectors (status 6).
  const bool made = vectors || rows != n, few = !(vectors && full);
  const bool together =
      m.count > 1 && rows <= kTinyMatrix && (full || !vectors || rows == n);  // all columns of U
  const int job = made ? kSolverVectors : kSolverValues;
  const Batch x = batch_of(a.data(at.a), m.size(), k);
  const Batch s{static_cast<char*>(a.data(at.s)), int64_t{n} * (k.wide ? 8 : 4)};
  const pf_matrices p = prepare(a, m, k, x.data, 0);
  const int64_t square = int64_t{n} * n, of_u = int64_t{rows} * (together || !few ? rows : n);
  const auto room = [&](int64_t elements) {
    return made ? a.workspace(static_cast<size_t>(m.count * elements * k.item)) : nullptr;
  };
  const Batch u = batch_of(vectors ? a.data(at.u) : room(of_u), made ? of_u : 0, k);
  const Batch v = batch_of(room(square), made ? square : 0, k);
  auto* info = static_cast<int*>(a.data(at.info));
  with_solver(a, [&](Handles& h) {
    if (!h.svd) must_solve(solver().CreateGesvdjInfo(&h.svd), "CreateGesvdjInfo");
    int elements = 0;
    if (together) {
      const int count = static_cast<int>(m.count);
      must_solve(solver().gesvdj_batched_size[k.at](h.solver, job, rows, n, x[0], rows, s[0], u[0],
                                                    rows, v[0], n, &elements, h.svd, count),
                 "gesvdjBatched_bufferSize");
      void* work = work_of(a, elements, k);
      return must_solve(
          solver().gesvdj_batched[k.at](h.solver, job, rows, n, x[0], rows, s[0], u[0], rows, v[0],
                                        n, work, elements, info, h.svd, count),
          "gesvdjBatched");
    }
    must_solve(solver().gesvdj_size[k.at](h.solver, job, few, rows, n, x[0], rows, s[0], u[0], rows,
                                          v[0], n, &elements, h.svd),
               "gesvdj_bufferSize");
    void* work = work_of(a, elements, k);
    for (int64_t i = 0; i < m.count; ++i)
      must_solve(solver().gesvdj[k.at](h.solver, job, few, rows, n, x[i], rows, s[i], u[i], rows,
                                       v[i], n, work, elements, info + i, h.svd),
                 "gesvdj");
  });
  if (vectors) {
    pf_matrices t{};
    t.from = v.data, t.to = a.data(at.vh), t.count = m.count, t.rows = t.columns = n;
    t.conjugate = 1;
    launch(a, "linalg_transpose", k, t, m.count * square);
  }
  settle(a, p, k, s.data, n, info);
}

void eigh(const KernelArgs& a) {
  constexpr auto at = tensors<Eigh>;
  constexpr auto number = numbers<Eigh>;
  const Matrices m(a.tensor(at.a));
  const Kind k(a.dtype(at.a));
  const int n = m.fast;
  const bool upper = a.i(number.upper) != 0;
  const int uplo = upper ? kSolverUpper : kSolverLower;
  const int job = a.i(number.vectors) ? kSolverVectors : kSolverValues;
  const Batch x = batch_of(a.data(at.a), m.size(), k);
  const Batch w{static_cast<char*>(a.data(at.w)), int64_t{n} * (k.wide ? 8 : 4)};
  auto* info = static_cast<int*>(a.data(at.info));
  // By columns: [c][r] of memory.
  const pf_matrices p = prepare(a, m, k, x.data, upper ? 1 : 2);
  with_solver(a, [&](Handles& h) {
    int elements = 0;
    if (m.count > 1 && n <= kTinyMatrix) {
      if (!h.eigh) must_solve(solver().CreateSyevjInfo(&h.eigh), "CreateSyevjInfo");
      const int count = static_cast<int>(m.count);
      must_solve(solver().syevj_batched_size[k.at](h.solver, job, uplo, n, x[0], n, w[0], &elements,
                                                   h.eigh, count),
                 "syevjBatched_bufferSize");
      void* work = work_of(a, elements, k);
      return must_solve(solver().syevj_batched[k.at](h.solver, job, uplo, n, x[0], n, w[0], work,
                                                     elements, info, h.eigh, count),
                        "syevjBatched");
    }
    must_solve(solver().syevd_size[k.at](h.solver, job, uplo, n, x[0], n, w[0], &elements),
               "syevd_bufferSize");
    void* work = work_of(a, elements, k);
    for (int64_t i = 0; i < m.count; ++i)
      must_solve(
          solver().syevd[k.at](h.solver, job, uplo, n, x[i], n, w[i], work, elements, info + i),
          "syevd");
  });
  settle(a, p, k, w.data, n, info);
}

}  // namespace

PF_GPU_LIBRARY_KERNEL(Cholesky::kInfo, cholesky, solver_usable)
PF_GPU_LIBRARY_KERNEL(LuFactor::kInfo, lu_factor, both_usable)
PF_GPU_LIBRARY_KERNEL(LuSolve::kInfo, lu_solve, both_usable)
PF_GPU_LIBRARY_KERNEL(TriangularSolve::kInfo, triangular_solve, blas_usable)
PF_GPU_LIBRARY_KERNEL(Geqrf::kInfo, geqrf, solver_usable)
PF_GPU_LIBRARY_KERNEL(Orgqr::kInfo, orgqr, solver_usable)
PF_GPU_LIBRARY_KERNEL(Ormqr::kInfo, ormqr, solver_usable)
PF_GPU_LIBRARY_KERNEL(Svd::kInfo, svd, solver_usable)
PF_GPU_LIBRARY_KERNEL(Eigh::kInfo, eigh, solver_usable)

}  // namespace pyflame::gpu
#endif
