#include "cpu/group.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "cpu/kernel.h"
#include "cpu/move.h"
#include "cpu/row_program.h"
#include "cpu/scratch.h"
#include "cpu/tape.h"
#include "cpu/tape_code.h"
#include "cpu/threads.h"
#include "pyflame/dtype.h"

namespace pyflame::cpu {

double piece_bytes() {
  static const double bytes = [] {
    const long size = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return 0.5 * static_cast<double>(std::clamp(size, 256L << 10, 2048L << 10));
  }();
  return bytes;
}

namespace {

// Below, everything stays in the second cache between two launches anyway.
constexpr int64_t kLeast = 1 << 16;  // elements
// Of what a kernel runs itself: that comes in more launches than there are pieces of the others,
// and costs more than it saves below (conv, batch norm, relu of 64 x 56² on an AMD EPYC: 0.50 ms,
// apart 0.49; of 32 such pictures, channels-last, 16.1 and 17.4).
constexpr int64_t kLeastBehind = 1 << 18;
constexpr int kMostTensors = static_cast<int>(std::size(Pieces().per_row));

KernelArgs args_of(const pf_group& g) {
  return {g.tensors, g.ntensors, g.attrs, g.nattrs, g.error};
}
size_t bytes_of(const pf_tensor& t) {
  return itemsize(static_cast<DType>(t.dtype));
}

// A program over a range of the elements of its launch, in row-major order.
class Ranges {
 public:
  Ranges(void* program, const pf_launch& l) : program_(program), launch_(l) {
    n_ = tape().ninputs + tape().noutputs;
    space_.collapse(tape(), l);
  }

  // Bytes of its operands for each element of the space.
  double bytes() const {
    double sum = 0;
    for (int k = 0; k < n_; ++k)
      if (space_.strides[k][space_.ndim - 1] != 0) sum += item(k);
    return sum;
  }

  // Bytes of its results.
  double written() const {
    double sum = 0;
    for (int k = tape().ninputs; k < n_; ++k) sum += item(k);
    return sum * static_cast<double>(launch_.numel);
  }

  // Where the dense inputs lie from element `first` on: up to two.
  Fetch dense_inputs(int64_t first) const {
    Fetch fetch;
    int found = 0;
    for (int k = 0; k < tape().ninputs && found < 2; ++k)
      if (operand(k).contiguous && operand(k).data != PF_NO_MEMORY) {
        fetch.from[found] = static_cast<const char*>(operand(k).data) + first * item(k);
        fetch.bytes[found++] = item(k);
      }
    return fetch;
  }

  // `others` has, for each operand without memory, where its elements of the range lie one behind
  // the other.
  void run(int64_t first, int64_t count, char* const* others, Part as, Fetch fetch = {}) const {
    const int last = space_.ndim - 1;
    const int64_t width = space_.shape[last], rows = last > 0 ? space_.shape[last - 1] : 1;
    for (int64_t done = 0; done < count;) {
      const int64_t at = first + done, left = count - done;
      int64_t line = at / width;
      const int64_t column = at % width;
      // Whole lines of one plane, or a part of one line.
      const bool lines = column == 0 && left >= width;
      const int64_t high = lines ? std::min(left / width, rows - line % rows) : 1;
      const int64_t wide = lines ? width : std::min(left, width - column);
      std::array<int64_t, PF_MAX_DIMS> place{};
      place[static_cast<size_t>(last)] = column;
      for (int d = last - 1; d >= 0; --d) {
        place[static_cast<size_t>(d)] = line % space_.shape[d];
        line /= space_.shape[d];
      }
      const int64_t shape[2] = {high, wide};
      int64_t steps[kMaxOperands][2];
      pf_operand operands[kMaxOperands];
      for (int k = 0; k < n_; ++k) {
        const int64_t* strides = space_.strides[k];
        int64_t offset = 0;
        for (int d = 0; d <= last; ++d) offset += place[static_cast<size_t>(d)] * strides[d];
        steps[k][0] = last > 0 ? strides[last - 1] : 0;
        steps[k][1] = strides[last];
        const bool dense = (steps[k][1] == 1 || wide == 1) && (steps[k][0] == wide || high == 1);
        char* base = static_cast<char*>(operand(k).data);
        if (base == PF_NO_MEMORY)
          base = others[k] + done * item(k);
        else
          base += offset * item(k);
        operands[k] = {base, steps[k], dense};
      }
      const pf_launch part{
          2, shape, high * wide, operands, operands + tape().ninputs, launch_.scalars};
      program_launch(program_, &part, as, fetch);
      for (int k = 0; k < 2; ++k)
        if (fetch.from[k]) fetch.from[k] += high * wide * fetch.bytes[k];
      done += high * wide;
    }
  }

  // `rows` ranges of `width` elements, `apart` from each other: one launch where a step from one to
  // the next is one along a dimension.
  void run_box(int64_t first, int64_t rows, int64_t width, int64_t apart, Part as) const {
    if (rows * width == launch_.numel) return program_launch(program_, &launch_);
    if (rows == 1 || width == apart) return run(first, rows * width, nullptr, as);
    int64_t place[PF_MAX_DIMS] = {}, inner = 1, at = -1, times = 0;
    for (int d = space_.ndim; d-- > 0; inner *= space_.shape[d]) {
      place[d] = first / inner % space_.shape[d];
      if (apart % inner == 0 && place[d] + (rows - 1) * (apart / inner) < space_.shape[d])
        at = d, times = apart / inner;
    }
    const int last = space_.ndim - 1;
    const int64_t line = space_.shape[last];
    const bool in_line = place[last] + (at == last ? (rows - 1) * apart : 0) + width <= line;
    // Or whole lines of one plane.
    const bool lines = last > 0 && at < last - 1 && place[last] == 0 && width % line == 0 &&
                       place[last - 1] + width / line <= space_.shape[last - 1];
    if (at < 0 || !(in_line || lines)) {
      for (int64_t r = 0; r < rows; ++r) run(first + r * apart, width, nullptr, as);
      return;
    }
    const int64_t shape[3] = {rows, in_line ? 1 : width / line, in_line ? width : line};
    int64_t steps[kMaxOperands][3];
    pf_operand operands[kMaxOperands];
    for (int k = 0; k < n_; ++k) {
      const int64_t* strides = space_.strides[k];
      int64_t offset = 0;
      for (int d = 0; d <= last; ++d) offset += place[d] * strides[d];
      steps[k][0] = strides[at] * times;
      steps[k][1] = last > 0 ? strides[last - 1] : 0;
      steps[k][2] = strides[last];
      operands[k] = {static_cast<char*>(operand(k).data) + offset * item(k), steps[k], 0};
    }
    const pf_launch part{
        3, shape, rows * width, operands, operands + tape().ninputs, launch_.scalars};
    program_launch(program_, &part, as);
  }

  const Tape& tape() const { return *static_cast<const Tape*>(program_); }
  const pf_operand& operand(int k) const {
    return k < tape().ninputs ? launch_.inputs[k] : launch_.outputs[k - tape().ninputs];
  }
  const pf_launch& launch() const { return launch_; }
  const Collapsed& space() const { return space_; }
  int item(int k) const {
    const auto i = static_cast<size_t>(k);
    const auto inputs = static_cast<size_t>(tape().ninputs);
    return i < inputs ? tape().ins[i].bytes : tape().outs[i - inputs].bytes;
  }

 private:
  void* program_;
  const pf_launch& launch_;
  int n_;
  Collapsed space_;
};

// Whether the program before the kernel can run over the same rows; else it runs before them all.
bool before_takes_part(const pf_group& g, const Pieces& p) {
  if (!g.before || g.before_launch->numel != p.elements) return false;
  bool feeds = false;
  for (int o = 0; o < g.nfeeds; ++o) {
    if (g.feeds[o] < 0) continue;
    if (p.per_row[g.feeds[o]] != p.width) return false;
    feeds = true;
  }
  return feeds;
}
// Whether the program behind the kernel can run over the same rows.
bool after_takes_part(const pf_group& g, const Pieces& p) {
  if (!g.after || g.after_launch->numel != p.elements) return false;
  bool takes = false;
  for (int j = 0; j < g.ntakes; ++j) {
    if (g.takes[j] < 0) continue;
    if (p.per_row[g.takes[j]] != p.width) return false;
    takes = true;
  }
  return takes;
}

// Whether the kernel may ask the program before it for one row after the other. What has no memory
// of what that gives is in rings then.
bool feeds_rows(const pf_group& g, const Pieces& p, const Ranges& before) {
  uint32_t fed = 0;
  for (int o = 0; o < g.nfeeds; ++o)
    if (g.feeds[o] >= 0) fed |= 1U << g.feeds[o];
  if ((fed & ~p.feeds) != 0 || p.elements != p.rows * p.width) return false;
  double ring = 0;
  for (int i = 0; i < g.ntensors; ++i)
    if (fed >> i & 1 && g.tensors[i].data == PF_NO_MEMORY)
      ring += static_cast<double>(RowFeed::kRows * p.width) * bytes_of(g.tensors[i]);
  return ring <= piece_bytes() &&
         RowProgram::can(before.tape(), before.launch(), before.space(), p.width);
}

Pieces pieces_of(const pf_group& g) {
  const auto* kernel = static_cast<const KernelEntry*>(g.kernel);
  Pieces p;
  if (g.ntensors <= kMostTensors && kernel->pieces) p = kernel->pieces(args_of(g));
  if (!p.run) p.run = kernel->run;
  if (!p.elements) p.elements = p.rows * p.width;
  return p;
}

// Whether the first tensor of the kernel has all elements that the program behind it goes through;
// else it has a number for each cell of these.
bool is_whole(const pf_group& g) {
  const pf_tensor& y = g.tensors[0];
  int64_t size = 1;
  for (int d = 0; d < y.ndim; ++d) size *= y.shape[d];
  return size == g.after_launch->numel;
}

// Whether the kernel may run the program behind it: that goes through its result, the first tensor,
// in the order of its memory; or, of sums of cells, through what these are of.
bool takes_behind(pf_group& g) {
  if (!g.after) return false;
  g.without = 0;  // results of the program take over the memory
  if (!is_whole(g)) return g.after_launch->numel >= kLeast;
  if (g.before || g.after_launch->numel < kLeastBehind) return false;
  bool takes = false;
  for (int j = 0; j < g.ntakes; ++j) {
    if (g.takes[j] < 0) continue;
    if (g.takes[j] != 0 || !g.after_launch->inputs[j].contiguous) return false;
    takes = true;
  }
  return takes;
}

class OneBehind final : public Behind {
 public:
  explicit OneBehind(const pf_group& g) : ranges_(g.after, *g.after_launch) {}
  void run(int64_t first, int64_t rows, int64_t width, int64_t apart) const override {
    ranges_.run_box(first, rows, width, apart, Part::All);
  }

 private:
  Ranges ranges_;
};
class AroundCells final : public BehindCells {
 public:
  explicit AroundCells(const pf_group& g) : after_(g.after, *g.after_launch) {
    if (g.before) before_.emplace(g.before, *g.before_launch);
    if (after_.written() >= static_cast<double>(streaming_threshold())) as_ = Part::Last;
  }
  void run_before(int64_t first, int64_t rows, int64_t width, int64_t apart) const override {
    if (before_) before_->run_box(first, rows, width, apart, Part::Inner);
  }
  void run(int64_t first, int64_t rows, int64_t width, int64_t apart) const override {
    after_.run_box(first, rows, width, apart, as_);
    if (as_ == Part::Last) finish_streaming();
  }

 private:
  Ranges after_;
  std::optional<Ranges> before_;
  Part as_ = Part::Inner;
};

void launch_with(const pf_group& g, Behind& behind) {
  KernelArgs args = args_of(g);
  args.behind = &behind;
  static_cast<const KernelEntry*>(g.kernel)->run(args);
  const bool taken = behind.taken();
  if (!taken) program_launch(g.after, g.after_launch);
  *g.joined = taken ? 1 + (g.before != nullptr) : 0;
}
void launch_with_behind(const pf_group& g) {
  if (is_whole(g)) {
    OneBehind one(g);
    launch_with(g, one);
  } else {
    AroundCells around(g);
    launch_with(g, around);
  }
}

void launch_pieces(const pf_group& g, const Pieces& p) {
  std::optional<Ranges> before, after;
  if (before_takes_part(g, p))
    before.emplace(g.before, *g.before_launch);
  else if (g.before)
    program_launch(g.before, g.before_launch);
  if (after_takes_part(g, p)) after.emplace(g.after, *g.after_launch);

  // How many rows: what a piece touches stays in the second cache.
  double row_bytes = (before ? before->bytes() : 0) + (after ? after->bytes() : 0);
  for (int i = 0; i < g.ntensors; ++i)
    if (p.per_row[i] == p.width) row_bytes += static_cast<double>(bytes_of(g.tensors[i]));
  row_bytes *= static_cast<double>(p.width);
  int64_t step = std::max<int64_t>(1, static_cast<int64_t>(piece_bytes() / row_bytes));
  step = std::max<int64_t>(1, step / p.step) * p.step;
  const int64_t range = (std::max(step, p.range) + p.range - 1) / p.range * p.range;
  const int64_t ranges = (p.rows + range - 1) / range;

  // What has no memory lies in the thread's, one part for each, behind what the kernel wants.
  const bool feeds = before && feeds_rows(g, p, *before);
  uint32_t rings = 0;
  size_t at[kMostTensors] = {}, room = (p.scratch + 63) / 64 * 64;
  for (int o = 0; feeds && o < g.nfeeds; ++o)
    if (g.feeds[o] >= 0 && g.tensors[g.feeds[o]].data == PF_NO_MEMORY) rings |= 1U << g.feeds[o];
  bool whole = feeds && !after;  // a thread's rows as one piece
  for (int i = 0; i < g.ntensors; ++i) {
    if (g.tensors[i].data != PF_NO_MEMORY) continue;
    at[i] = room;
    const bool ring = rings >> i & 1;
    whole = whole && ring;
    const int64_t n = ring ? RowFeed::kRows * RowProgram::pitch(p.width) : step * p.width;
    room += (static_cast<size_t>(n) * bytes_of(g.tensors[i]) + 63) / 64 * 64 + 64;
  }
  const size_t program_at = room;
  if (feeds) room += RowProgram::bytes(before->tape());
  const Scratch<char> workspace(static_cast<int64_t>(p.workspace));
  const auto of_all = [&](KernelFn fn) {
    Piece all{};
    all.rows = p.rows;
    all.workspace = workspace.get();
    KernelArgs args = args_of(g);
    args.piece = &all;
    if (fn) fn(args);
  };
  of_all(p.begin);
  const bool large = p.elements * 4 >= streaming_threshold();
  // The kernel's loops go in stretches of four vectors, and leave one to the program before it.
  const bool begins_early = before && !feeds && large && p.width % 64 == 0;
  const auto run_piece = [&](int64_t begin, int64_t end, char* own, RowProgram* feed) {
    const int64_t first = begin * p.width, count = std::min(end * p.width, p.elements) - first;
    char* others[kMaxOperands] = {};
    Fetch next;
    if (feed) {
      feed->start(begin);
      next = before->dense_inputs(first + 2 * p.width);
    } else if (before) {
      for (int o = 0; o < g.nfeeds; ++o)
        if (g.feeds[o] >= 0) others[before->tape().ninputs + o] = own + at[g.feeds[o]];
      if (large) next = before->dense_inputs(first + count);
      before->run(first, count, others, large ? Part::First : Part::All,
                  begins_early ? next : Fetch());
    }
    std::array<pf_tensor, kMostTensors> tensors;
    bool out_stays = false;  // in a cache, for the program behind
    for (int i = 0; i < g.ntensors; ++i) {
      pf_tensor& t = tensors[static_cast<size_t>(i)];
      const int64_t each = p.per_row[i];
      if (each == 0 || !g.tensors[i].data) {
        t = g.tensors[i];
        continue;
      }
      t = {};
      t.dtype = g.tensors[i].dtype;
      if (g.tensors[i].data == PF_NO_MEMORY)
        t.data = own + at[i];
      else
        t.data = static_cast<char*>(g.tensors[i].data) +
                 static_cast<size_t>(begin * each) * bytes_of(g.tensors[i]);
      t.ndim = 2;
      t.shape[0] = end - begin;
      t.shape[1] = each;
      t.strides[0] = rings >> i & 1 ? RowProgram::pitch(each) : each;
      t.strides[1] = 1;
      if (each == p.width && count < (end - begin) * each) {  // the last row is no whole one
        t.ndim = 1;
        t.shape[0] = count;
        t.strides[0] = 1;
      }
    }
    for (int j = 0; after && j < g.ntakes; ++j) {
      if (g.takes[j] < 0) continue;
      out_stays = true;
      others[j] = own + at[g.takes[j]];
    }
    const Piece piece{begin,
                      p.rows,
                      workspace.get(),
                      own,
                      large && !out_stays,
                      {next.from[0], next.from[1]},
                      {next.bytes[0], next.bytes[1]},
                      begins_early,
                      feed,
                      rings};
    p.run({tensors.data(), g.ntensors, g.attrs, g.nattrs, g.error, &piece});
    if (after) after->run(first, count, others, large ? Part::Last : Part::All);
  };
  parallel_with(ranges, 1, room, [&](int64_t begin, int64_t end, char* own) {
    std::optional<RowProgram> feed;
    if (feeds) {
      feed.emplace(before->tape(), before->launch(), before->space(), p.width, own + program_at);
      for (int o = 0; o < g.nfeeds; ++o)
        if (g.feeds[o] >= 0 && rings >> g.feeds[o] & 1) feed->keep(o, own + at[g.feeds[o]]);
    }
    RowProgram* const by_rows = feed ? &*feed : nullptr;
    const int64_t length = whole ? (end - begin) * range : step;
    for (int64_t i = begin; i < end; i += whole ? end - begin : 1) {
      const int64_t last = std::min((whole ? end : i + 1) * range, p.rows);
      for (int64_t r = i * range; r < last; r += length)
        run_piece(r, std::min(r + length, last), own, by_rows);
    }
    if (large) finish_streaming();
  });
  of_all(p.finish);
  if (g.after && !after) program_launch(g.after, g.after_launch);
  *g.joined = before.has_value() + after.has_value();
}

}  // namespace

bool group_takes(pf_group& g) {
  if (static_cast<const KernelEntry*>(g.kernel)->runs_behind) return takes_behind(g);
  const int64_t size =
      std::max(g.before ? g.before_launch->numel : 0, g.after ? g.after_launch->numel : 0);
  if (size < kLeast) return false;
  const Pieces p = pieces_of(g);
  // Rows that no cache holds are better shared out within.
  if (p.rows < 2 || static_cast<double>(4 * p.width * p.step) > piece_bytes()) return false;
  const bool gains = before_takes_part(g, p);
  for (int o = 0; o < g.nfeeds; ++o)
    if (!gains && g.feeds[o] >= 0) g.without &= ~(1U << g.feeds[o]);
  if (after_takes_part(g, p)) return true;
  for (int j = 0; j < g.ntakes; ++j)
    if (g.takes[j] >= 0 && g.without >> g.takes[j] & 1) return false;
  return gains;
}

void group_launch(const pf_group& g) {
  const bool behind = static_cast<const KernelEntry*>(g.kernel)->runs_behind;
  behind ? launch_with_behind(g) : launch_pieces(g, pieces_of(g));
}

bool launch_in_pieces(const KernelEntry& kernel, const KernelArgs& a) {
  constexpr int64_t kLeastRanges = 8;
  int32_t joined = 0;
  pf_group g{};
  g.kernel = const_cast<KernelEntry*>(&kernel);
  g.tensors = a.tensors;
  g.ntensors = a.ntensors;
  g.attrs = a.attrs;
  g.nattrs = a.nattrs;
  g.error = a.error;
  g.joined = &joined;
  const Pieces p = pieces_of(g);
  if (p.elements < kLeast || p.rows < kLeastRanges * p.range ||
      static_cast<double>(4 * p.width * p.step) > piece_bytes())
    return false;
  launch_pieces(g, p);
  return true;
}

}  // namespace pyflame::cpu
