// Runs compiled tapes. Three ways through memory: flat, where every operand is contiguous or one
// number; boxes over the two inner dimensions, where rows are broadcast, transposed or sliced; and
// lines, for many short inner dimensions.
#include "cpu/tape.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "cpu/move.h"
#include "cpu/scratch.h"
#include "cpu/stack.h"
#include "cpu/strided.h"
#include "cpu/tape_code.h"
#include "cpu/tape_frame.h"
#include "cpu/threads.h"

namespace pyflame::cpu {
namespace {

// Beside elements [first, first + n).
inline void fetch_ahead(const Fetch& f, int64_t first, int64_t n) {
  for (int k = 0; k < 2; ++k) {
    if (!f.from[k]) continue;
    const int64_t end = (first + n) * f.bytes[k];
    for (int64_t at = first * f.bytes[k] / 256 * 256 + 192; at < end; at += 256)
      __builtin_prefetch(f.from[k] + at, 0, 2);
  }
}

// How one launch goes through memory; its geometry is made where it is no flat one.
struct Run : Collapsed {
  const Tape* tape;
  const pf_launch* launch;
  const char* slots;  // filled, shared by the threads
  int64_t tile;
  bool stream;
  Fetch fetch;      // beside the first element
  bool fetches;     // the next tile, beside this one
  bool goes_on;     // behind the end of a dense input lies what comes next
  uint64_t staged;  // inputs that are copied first: an output overwrites them too early
  // Boxes of nr x nc over the two inner dimensions, which are a plane.
  int64_t rows, cols, nr, nc, row_boxes, col_boxes;
  int64_t planes;
  bool planes_first;  // a box of all planes before the next one: what planes share is staged once
};

// Which instruction fetches the next tile of which operand, while it works on this one: those that
// are taken from and to memory as they lie.
class Fetchers {
 public:
  Fetchers(const Run& run, const Frame& f) : run_(run), f_(f) {
    const Tape& t = *run.tape;
    left_ = run.fetches && t.code.size() > 1 ? t.fetchers.size() : t.nlong;
    if (!run.fetches && !run.goes_on) left_ = 0;
  }
  // Operand k has its next tile there.
  void set(int k, const char* next) {
    Loc*& at = at_[static_cast<size_t>(k)];
    if (!at) {
      if (used_ == left_) return;
      at = f_.locs + run_.tape->fetched(run_.tape->fetchers[used_++]);
    }
    at->ahead = next;
  }

 private:
  const Run& run_;
  const Frame& f_;
  size_t left_, used_ = 0;
  std::array<Loc*, kMaxOperands> at_{};
};

bool streams(const Run& run, int out, const char* data) {
  const Tape::Out& o = run.tape->outs[static_cast<size_t>(out)];
  return run.stream && !o.reread && reinterpret_cast<uintptr_t>(data) % 64 == 0;
}

// ---- flat --------------------------------------------------------------------------------------
// Longer ones are cut: kernels work on whole vectors, and a tail goes through padded copies.
constexpr int64_t kLongestTail = 32 * static_cast<int64_t>(kTileGrain);

void run_flat(const Run& run, const Layout& layout, int64_t begin, int64_t end, char* memory) {
  const Tape& t = *run.tape;
  const pf_launch& l = *run.launch;
  Frame f(t, layout, memory);
  f.point_at_slots(t, run.slots);
  Fetchers fetchers(run, f);
  for (int i = 0; i < t.ninputs; ++i) {
    if (l.inputs[i].contiguous) continue;
    splat_element(f.splat(i), l.inputs[i].data, t.ins[static_cast<size_t>(i)].bytes);
    f.locs[t.in(i)] = {f.splat(i), Loc::kSplat, nullptr};
  }
  for (int64_t at = begin, n = 0; at < end; at += n) {
    constexpr int64_t kWhole = static_cast<int64_t>(kTileGrain);
    n = std::min(run.tile, end - at);
    if (n > kLongestTail) n = n / kWhole * kWhole;
    const bool tail = n % kWhole != 0;
    for (int i = 0; i < t.ninputs; ++i) {
      if (!l.inputs[i].contiguous) continue;
      const int64_t bytes = t.ins[static_cast<size_t>(i)].bytes;
      char* src = static_cast<char*>(l.inputs[i].data) + at * bytes;
      Loc& loc = f.locs[t.in(i)];
      loc.walk = Loc::kStep;
      if (bytes >= 4) fetchers.set(i, run.goes_on || at + n < end ? src + n * bytes : nullptr);
      if (tail || ((run.staged >> i) & 1)) {
        loc.data = f.staging(i);
        std::memcpy(loc.data, src, static_cast<size_t>(n * bytes));
      } else {
        loc.data = src;
      }
    }
    for (int o = 0; o < t.noutputs; ++o) {
      char* dst = static_cast<char*>(l.outputs[o].data) + at * t.outs[static_cast<size_t>(o)].bytes;
      f.locs[t.out(o)] = {tail ? f.staging(t.ninputs + o) : dst,
                          !tail && streams(run, o, dst) ? Loc::kStream : Loc::kStep, nullptr};
      const int64_t bytes = t.outs[static_cast<size_t>(o)].bytes;
      if (bytes >= 4 && !run.goes_on && !streams(run, o, dst))
        fetchers.set(t.ninputs + o, at + n < end ? dst + n * bytes : nullptr);
    }
    execute(t, f.locs, static_cast<size_t>(n));
    fetch_ahead(run.fetch, at, n);
    if (tail) {
      for (int o = 0; o < t.noutputs; ++o) {
        const int64_t bytes = t.outs[static_cast<size_t>(o)].bytes;
        std::memcpy(static_cast<char*>(l.outputs[o].data) + at * bytes, f.staging(t.ninputs + o),
                    static_cast<size_t>(n * bytes));
      }
    }
  }
  // Of a part that is not shared out, whoever runs the parts does it once (group.cpp).
  if (run.stream && !(run.goes_on && end - begin == l.numel)) finish_streaming();
}

// ---- boxes --------------------------------------------------------------------------------------

// How an operand appears in a box.
struct BoxOperand {
  enum How : uint8_t { kDirect, kSplat, kStaged } how;
  bool constant;  // the same for every box: brought in once
  bool shared;    // the same in every plane
  int64_t rs, cs;
};
BoxOperand box_operand(const Run& run, int k) {
  const int64_t* s = run.strides[k];
  BoxOperand b;
  b.cs = run.ndim > 0 ? s[run.ndim - 1] : 0;
  b.rs = run.ndim > 1 ? s[run.ndim - 2] : 0;
  b.shared = std::all_of(s, s + std::max(run.ndim - 2, 0), [](int64_t step) { return step == 0; });
  if (b.cs == 1 && (run.nr == 1 || (b.rs == run.cols && run.nc == run.cols)))
    b.how = BoxOperand::kDirect;
  else if (b.cs == 0 && (run.nr == 1 || b.rs == 0))
    b.how = BoxOperand::kSplat;
  else
    b.how = BoxOperand::kStaged;
  b.constant =
      b.shared && b.rs == 0 &&
      (b.how == BoxOperand::kSplat || (b.how == BoxOperand::kStaged && run.nc == run.cols));
  return b;
}

void run_boxes(const Run& run, const Layout& layout, int64_t begin, int64_t end, char* memory) {
  const Tape& t = *run.tape;
  const pf_launch& l = *run.launch;
  const int nops = t.ninputs + t.noutputs;
  Frame f(t, layout, memory);
  f.point_at_slots(t, run.slots);
  Fetchers fetchers(run, f);
  BoxOperand ops[kMaxOperands];
  for (int k = 0; k < nops; ++k) ops[k] = box_operand(run, k);
  uint64_t done = 0, always = 0;  // operands that are in place; those for every full box
  const int64_t boxes = run.row_boxes * run.col_boxes;
  const int64_t box = run.planes_first ? begin / run.planes : begin % boxes;
  int64_t c0 = box % run.col_boxes * run.nc, r0 = box / run.col_boxes * run.nr;
  int64_t at[PF_MAX_DIMS];
  for (int64_t d = run.ndim - 3, rest = run.planes_first ? begin % run.planes : begin / boxes;
       d >= 0; --d) {
    at[d] = rest % run.shape[d];
    rest /= run.shape[d];
  }
  // Whether it was the last one.
  const auto next_box = [&] {
    done = always;
    if ((c0 += run.nc) < run.cols) return false;
    c0 = 0;
    if ((r0 += run.nr) < run.rows) return false;
    r0 = 0;
    return true;
  };
  const auto next_plane = [&] {
    int d = run.ndim - 3;
    for (; d >= 0 && ++at[d] == run.shape[d]; --d) at[d] = 0;
    return d < 0;
  };
  const auto next = [&] {
    if (run.planes_first) {
      if (next_plane()) next_box();
    } else if (next_box()) {
      next_plane();
    }
  };
  const auto to_next = [&](int k, int64_t n) {
    return run.planes_first ? run.strides[k][run.ndim - 3] : n;
  };
  for (int64_t b = begin; b < end; ++b, next()) {
    const int64_t nr = std::min(run.nr, run.rows - r0), nc = std::min(run.nc, run.cols - c0);
    const int64_t n = nr * nc;
    const bool tail = n % static_cast<int64_t>(kTileGrain) != 0;
    const auto address = [&](int k, const pf_operand& op, int64_t bytes) {
      int64_t offset = r0 * ops[k].rs + c0 * ops[k].cs;
      for (int d = 0; d + 2 < run.ndim; ++d) offset += at[d] * run.strides[k][d];
      return static_cast<char*>(op.data) + offset * bytes;
    };
    for (int i = 0; i < t.ninputs; ++i) {
      if ((done >> i) & 1) continue;
      const int bytes = t.ins[static_cast<size_t>(i)].bytes;
      char* src = address(i, l.inputs[i], bytes);
      Loc& loc = f.locs[t.in(i)];
      if (ops[i].how == BoxOperand::kSplat) {
        splat_element(f.splat(i), src, bytes);
        loc.data = f.splat(i);
        loc.walk = Loc::kSplat;
      } else if (ops[i].how == BoxOperand::kDirect && !tail && !((run.staged >> i) & 1)) {
        loc.data = src;
        loc.walk = Loc::kStep;
        if (bytes >= 4 && ops[i].rs != 0)
          fetchers.set(i, run.goes_on || b + 1 < end ? src + to_next(i, n) * bytes : nullptr);
      } else {
        // What serves every box is brought in at full height, the last box of a plane is lower.
        const int64_t height = ops[i].constant ? run.nr : nr;
        gather_box(f.staging(i), src, bytes, height, nc, ops[i].rs, ops[i].cs);
        loc.data = f.staging(i);
        loc.walk = Loc::kStep;
      }
      if (ops[i].constant) always |= uint64_t{1} << i;
      if (ops[i].constant || (run.planes_first && ops[i].shared)) done |= uint64_t{1} << i;
    }
    for (int o = 0; o < t.noutputs; ++o) {
      const int k = t.ninputs + o;
      char* dst = address(k, l.outputs[o], t.outs[static_cast<size_t>(o)].bytes);
      if (ops[k].how == BoxOperand::kDirect && !tail) {
        const bool stream = streams(run, o, dst);
        f.locs[t.out(o)] = {dst, stream ? Loc::kStream : Loc::kStep, nullptr};
        const int bytes = t.outs[static_cast<size_t>(o)].bytes;
        if (bytes >= 4 && !run.goes_on && !stream)
          fetchers.set(k, b + 1 < end ? dst + to_next(k, n) * bytes : nullptr);
      } else
        f.locs[t.out(o)] = {f.staging(k), Loc::kStep, nullptr};
    }
    execute(t, f.locs, static_cast<size_t>(n));
    fetch_ahead(run.fetch, b * run.nr * run.nc, n);
    for (int o = 0; o < t.noutputs; ++o) {
      const int k = t.ninputs + o;
      if (ops[k].how == BoxOperand::kDirect && !tail) continue;
      const int bytes = t.outs[static_cast<size_t>(o)].bytes;
      scatter_box(address(k, l.outputs[o], bytes), f.staging(k), bytes, nr, nc, ops[k].rs,
                  ops[k].cs, run.stream);
    }
  }
  if (run.stream && !(run.goes_on && end - begin == run.planes * boxes)) finish_streaming();
}

// ---- lines -------------------------------------------------------------------------------------
// Row-major positions [at, at + n) of one operand, to or from a dense tile, row by row.
template <class F>
void each_line(const Run& run, int k, int64_t at, int64_t n, F&& fn) {
  const int last = run.ndim - 1;
  const int64_t width = run.shape[last];
  int64_t pos[PF_MAX_DIMS], offset = 0, rest = at / width, c = at % width;
  for (int d = last - 1; d >= 0; --d) {
    pos[d] = rest % run.shape[d];
    rest /= run.shape[d];
    offset += pos[d] * run.strides[k][d];
  }
  for (int64_t done = 0; done < n;) {
    const int64_t run_length = std::min(width - c, n - done);
    fn(done, offset + c * run.strides[k][last], run_length);
    done += run_length;
    c = 0;
    for (int d = last - 1; d >= 0; --d) {
      offset += run.strides[k][d];
      if (++pos[d] < run.shape[d]) break;
      offset -= run.strides[k][d] * run.shape[d];
      pos[d] = 0;
    }
  }
}

void run_lines(const Run& run, const Layout& layout, int64_t begin, int64_t end, char* memory) {
  const Tape& t = *run.tape;
  const pf_launch& l = *run.launch;
  Frame f(t, layout, memory);
  f.point_at_slots(t, run.slots);
  const int last = run.ndim - 1;
  for (int64_t at = begin; at < end; at += run.tile) {
    const int64_t n = std::min(run.tile, end - at);
    for (int i = 0; i < t.ninputs; ++i) {
      const int bytes = t.ins[static_cast<size_t>(i)].bytes;
      const char* data = static_cast<const char*>(l.inputs[i].data);
      char* to = f.staging(i);
      each_line(run, i, at, n, [&](int64_t done, int64_t offset, int64_t count) {
        gather_box(to + done * bytes, data + offset * bytes, bytes, 1, count, 0,
                   run.strides[i][last]);
      });
      f.locs[t.in(i)] = {to, Loc::kStep, nullptr};
    }
    for (int o = 0; o < t.noutputs; ++o)
      f.locs[t.out(o)] = {f.staging(t.ninputs + o), Loc::kStep, nullptr};
    execute(t, f.locs, static_cast<size_t>(n));
    for (int o = 0; o < t.noutputs; ++o) {
      const int k = t.ninputs + o;
      const int bytes = t.outs[static_cast<size_t>(o)].bytes;
      char* data = static_cast<char*>(l.outputs[o].data);
      const char* from = f.staging(k);
      each_line(run, k, at, n, [&](int64_t done, int64_t offset, int64_t count) {
        scatter_box(data + offset * bytes, from + done * bytes, bytes, 1, count, 0,
                    run.strides[k][last], false);
      });
    }
  }
}

// ---- choosing ----------------------------------------------------------------------------------
bool is_splat(const pf_operand& op, const pf_launch& l) {
  for (int d = 0; d < l.ndim; ++d)
    if (op.strides[d] != 0 && l.shape[d] > 1) return false;
  return true;
}
bool is_flat(const Tape& t, const pf_launch& l) {
  for (int o = 0; o < t.noutputs; ++o)
    if (!l.outputs[o].contiguous) return false;
  for (int i = 0; i < t.ninputs; ++i)
    if (!l.inputs[i].contiguous && !is_splat(l.inputs[i], l)) return false;
  return true;
}

// Of tiles that are in use at once.
constexpr int64_t kHeldBytes = int64_t{40} << 10;

// Two threads pay from about two microseconds of work.
constexpr double kThreadNs = 1000;

// Tiles of a few operands fit on the stack: small launches take no memory.
constexpr size_t kOwnBytes = size_t{64} << 10;

template <class F>
[[gnu::noinline]] void run_on_stack(const F& fn, int64_t begin, int64_t end) {
  alignas(64) char own[kOwnBytes];
  fn(begin, end, own);
}

// fn(begin, end, memory) over ranges of n.
template <class F>
void run_ranges(int64_t n, int64_t grain, size_t bytes, F&& fn) {
  if (bytes > kOwnBytes || stack_is_small()) return parallel_with(n, grain, bytes, fn);
  parallel_for(n, grain, [&](int64_t begin, int64_t end) { run_on_stack(fn, begin, end); });
}

int64_t grain_of(double unit_ns) {
  return std::max<int64_t>(1, static_cast<int64_t>(kThreadNs / std::max(unit_ns, 1.0)));
}

void choose_boxes(Run& run) {
  const int nops = run.tape->ninputs + run.tape->noutputs;
  run.cols = run.shape[run.ndim - 1];
  run.rows = run.ndim > 1 ? run.shape[run.ndim - 2] : 1;
  bool transposed = false, gathered_once = false;  // a strided row that all rows share
  for (int k = 0; k < nops; ++k) {
    const int64_t* const s = run.strides[k];
    const int64_t cs = s[run.ndim - 1], rs = run.ndim > 1 ? s[run.ndim - 2] : 0;
    const bool strided = cs != 0 && cs != 1;
    transposed = transposed || (rs == 1 && strided);
    gathered_once =
        gathered_once ||
        (strided && std::all_of(s, s + run.ndim - 1, [](int64_t step) { return step == 0; }));
  }
  if (transposed) {
    run.nc = std::min<int64_t>(run.cols, 64);
    run.nr = std::min(run.rows, std::max<int64_t>(1, run.tile / run.nc / 16 * 16));
    run.nr = std::max<int64_t>(run.nr, 1);
  } else if (run.cols >= 512) {
    // Whole vectors; a row's tail, which goes through padded copies, alone.
    constexpr int64_t kWhole = static_cast<int64_t>(kTileGrain);
    const int64_t pieces = (run.cols + run.tile - 1) / run.tile;
    run.nr = 1;
    if (pieces > 1)
      run.nc = (run.cols / pieces + kWhole) / kWhole * kWhole;
    else
      run.nc = gathered_once ? run.cols : run.cols / kWhole * kWhole;
  } else {
    run.nc = run.cols;
    run.nr = std::max<int64_t>(1, run.tile / run.cols);
    // Whole vectors, if a change that is not too large gives them.
    constexpr int64_t kWhole = static_cast<int64_t>(kTileGrain);
    const int64_t unit = kWhole / std::gcd(run.cols, kWhole);
    if (run.nr >= unit || unit * run.cols <= 2 * run.tile)
      run.nr = std::max<int64_t>(1, run.nr / unit) * unit;
    run.nr = std::min(run.nr, run.rows);
  }
  run.row_boxes = (run.rows + run.nr - 1) / run.nr;
  run.col_boxes = (run.cols + run.nc - 1) / run.nc;
  run.planes = 1;
  for (int d = 0; d + 2 < run.ndim; ++d) run.planes *= run.shape[d];
  run.planes_first = false;
  for (int k = 0; run.planes > 1 && run.nr > 1 && !transposed && k < run.tape->ninputs; ++k) {
    const BoxOperand b = box_operand(run, k);
    run.planes_first |= b.shared && !b.constant && b.how == BoxOperand::kStaged;
  }
}

}  // namespace

void Collapsed::collapse(const Tape& t, const pf_launch& l) {
  const int nops = t.ninputs + t.noutputs;
  const auto steps = [&](int k) {
    return k < t.ninputs ? l.inputs[k].strides : l.outputs[k - t.ninputs].strides;
  };
  ndim = 0;
  for (int d = 0; d < l.ndim; ++d) {
    if (l.shape[d] == 1) continue;
    bool joins = ndim > 0;
    for (int k = 0; joins && k < nops; ++k)
      joins = strides[k][ndim - 1] == steps(k)[d] * l.shape[d];
    const int to = joins ? ndim - 1 : ndim++;
    shape[to] = joins ? shape[to] * l.shape[d] : l.shape[d];
    for (int k = 0; k < nops; ++k) strides[k][to] = steps(k)[d];
  }
  if (ndim > 0) return;
  ndim = 1;
  shape[0] = 1;
  for (int k = 0; k < nops; ++k) strides[k][0] = 1;
}

pf_status program_create(const pf_program* program, void** kernel) {
  if (program->ninputs + program->noutputs > kMaxOperands) return PF_UNSUPPORTED;
  *kernel = new Tape(compile_tape(*program));
  return PF_OK;
}

void program_destroy(void* kernel) {
  delete static_cast<Tape*>(kernel);
}

void program_launch(void* kernel, const pf_launch* launch, Part part, const Fetch& fetch) {
  const Tape& t = *static_cast<const Tape*>(kernel);
  const pf_launch& l = *launch;
  if (l.numel == 0) return;
  Run run;
  run.tape = &t;
  run.launch = launch;
  run.tile = t.tile;
  run.stream = run.fetches = false;
  run.goes_on = part == Part::First || part == Part::Last;
  run.fetch = fetch;
  run.staged = staged_inputs(t, l);

  // Scalars are filled once, in memory of this thread that outlives the launch's ranges.
  LocalScratch<32 * kSlotBytes> slots(t.slots.size() * kSlotBytes);
  fill_slots(t, l.scalars, slots.data());
  run.slots = slots.data();

  // What passes by and what is kept of a tile share the first cache.
  int held = t.nregs + t.noutputs;
  for (int i = 0; i < t.ninputs; ++i) held += !is_splat(l.inputs[i], l);
  while (run.tile > 512 && held * run.tile * t.reg_bytes > kHeldBytes) run.tile /= 2;
  const bool flat = is_flat(t, l);
  const auto run_all_flat = [&](int64_t tiles, int64_t grain) {
    const int64_t n = std::min(run.tile, l.numel);
    const Layout layout(t, n, run.staged ? n : std::min(n, kLongestTail));
    run_ranges(tiles, grain, layout.total, [&](int64_t b, int64_t e, char* memory) {
      run_flat(run, layout, b * run.tile, std::min(e * run.tile, l.numel), memory);
    });
  };
  if (flat && l.numel <= run.tile) return run_all_flat(1, 1);
  int64_t out_bytes = 0;
  for (const Tape::Out& o : t.outs) out_bytes += o.bytes * l.numel;
  run.stream = part == Part::Last || (part == Part::All && out_bytes >= streaming_threshold());
  run.fetches = part == Part::Inner ||
                (part == Part::All && l.numel * t.reg_bytes >= streaming_threshold() / 8);
  const double total_ns = t.cost * static_cast<double>(l.numel);
  if (flat) {
    // Enough tiles to share out evenly.
    while (run.tile > 256 && l.numel < 8 * run.tile && total_ns > 2 * kThreadNs) run.tile /= 2;
    return run_all_flat((l.numel + run.tile - 1) / run.tile,
                        grain_of(t.cost * static_cast<double>(run.tile)));
  }
  run.collapse(t, l);
  choose_boxes(run);
  if (run.nr * run.nc >= 256 || run.nr * run.nc >= l.numel) {
    const int64_t boxes = run.planes * run.row_boxes * run.col_boxes;
    const Layout layout(t, run.nr * run.nc, run.nr * run.nc);
    run_ranges(boxes, grain_of(1.5 * t.cost * static_cast<double>(run.nr * run.nc)), layout.total,
               [&](int64_t b, int64_t e, char* memory) { run_boxes(run, layout, b, e, memory); });
    return;
  }
  run.stream = false;
  const int64_t tiles = (l.numel + run.tile - 1) / run.tile;
  const Layout layout(t, run.tile, run.tile);
  run_ranges(tiles, grain_of(2 * t.cost * static_cast<double>(run.tile)), layout.total,
             [&](int64_t b, int64_t e, char* memory) {
               run_lines(run, layout, b * run.tile, std::min(e * run.tile, l.numel), memory);
             });
}

}  // namespace pyflame::cpu
