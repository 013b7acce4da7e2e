#include "cpu/row_program.h"

#include <algorithm>
#include <cstring>

#include "cpu/move.h"

namespace pyflame::cpu {
namespace {

// What does not fill whole vectors goes through padded copies.
constexpr int64_t kTail = 64;

int item(const Tape& t, int k) {
  const auto i = static_cast<size_t>(k), inputs = static_cast<size_t>(t.ninputs);
  return i < inputs ? t.ins[i].bytes : t.outs[i - inputs].bytes;
}

}  // namespace

bool RowProgram::can(const Tape& t, const pf_launch& l, const Collapsed& space, int64_t width) {
  // Of narrower ones several make a tile that pays for its instructions.
  if (width < kColumns || staged_inputs(t, l) != 0) return false;
  const int last = space.ndim - 1;
  if (space.shape[last] % width != 0) return false;
  for (int k = 0; k < t.ninputs + t.noutputs; ++k)
    if (const int64_t step = space.strides[k][last]; step != 1 && (step != 0 || k >= t.ninputs))
      return false;
  return true;
}

size_t RowProgram::bytes(const Tape& t) {
  return round_up(Layout(t, kColumns, kTail).total, 64);
}

RowProgram::RowProgram(const Tape& t, const pf_launch& l, const Collapsed& space, int64_t width,
                       char* memory)
    : tape_(t),
      launch_(l),
      space_(space),
      width_(width),
      layout_(t, kColumns, kTail),
      frame_(t, layout_, memory) {
  fill_slots(t, l.scalars, memory + layout_.slots);
  frame_.point_at_slots(t, memory + layout_.slots);
  for (int i = 0; i < t.ninputs; ++i) {
    const bool one = space.strides[i][space.ndim - 1] == 0;
    frame_.locs[t.in(i)] = {frame_.splat(i), one ? Loc::kSplat : Loc::kStep, nullptr};
  }
  for (int o = 0; o < t.noutputs; ++o) frame_.locs[t.out(o)] = {nullptr, Loc::kStep, nullptr};
}

void RowProgram::start(int64_t row) {
  row_ = -1;
  const int64_t wide = space_.shape[space_.ndim - 1] / width_;
  column_ = row % wide * width_ - width_;
  int64_t rest = row / wide;
  for (int d = space_.ndim - 2; d >= 0; --d) {
    place_[static_cast<size_t>(d)] = rest % space_.shape[d];
    rest /= space_.shape[d];
  }
}

void RowProgram::next() {
  const int last = space_.ndim - 1;
  ++row_;
  column_ += width_;
  if (column_ == space_.shape[last]) {
    column_ = 0;
    for (int d = last - 1; d >= 0; --d) {
      int64_t& p = place_[static_cast<size_t>(d)];
      if (++p < space_.shape[d]) break;
      p = 0;
    }
  }
  for (int k = 0; k < tape_.ninputs + tape_.noutputs; ++k) {
    char*& at = at_[static_cast<size_t>(k)];
    const int64_t* strides = space_.strides[k];
    const bool in = k < tape_.ninputs;
    if (!in && rings_[static_cast<size_t>(k - tape_.ninputs)]) {
      at = rings_[static_cast<size_t>(k - tape_.ninputs)] +
           row_ % kRows * pitch(width_) * item(tape_, k);
      continue;
    }
    int64_t offset = column_ * strides[last];
    for (int d = 0; d < last; ++d) offset += place_[static_cast<size_t>(d)] * strides[d];
    char* const base =
        static_cast<char*>(in ? launch_.inputs[k].data : launch_.outputs[k - tape_.ninputs].data);
    char* const now = base + offset * item(tape_, k);
    if (strides[last] == 0 && (row_ == 0 || now != at))
      splat_element(frame_.splat(k), now, item(tape_, k));
    at = now;
  }
}

void RowProgram::columns(int64_t first, int64_t count) {
  const Tape& t = tape_;
  const auto step = [&](int k) { return space_.strides[k][space_.ndim - 1]; };
  if (count % static_cast<int64_t>(kTileGrain) == 0) {
    for (int i = 0; i < t.ninputs; ++i)
      if (step(i) != 0)
        frame_.locs[t.in(i)].data = at_[static_cast<size_t>(i)] + first * item(t, i);
    for (int o = 0; o < t.noutputs; ++o) {
      const int k = t.ninputs + o;
      frame_.locs[t.out(o)].data = at_[static_cast<size_t>(k)] + first * item(t, k);
    }
    execute(t, frame_.locs, static_cast<size_t>(count));
    return;
  }
  for (int64_t done = 0; done < count; done += kTail) {
    const int64_t n = std::min(kTail, count - done), from = first + done;
    const auto bytes = [&](int k) { return static_cast<size_t>(n * item(t, k)); };
    for (int i = 0; i < t.ninputs; ++i) {
      if (step(i) == 0) continue;
      char* const copy = frame_.staging(i);
      std::memcpy(copy, at_[static_cast<size_t>(i)] + from * item(t, i), bytes(i));
      frame_.locs[t.in(i)].data = copy;
    }
    for (int o = 0; o < t.noutputs; ++o) frame_.locs[t.out(o)].data = frame_.staging(t.ninputs + o);
    execute(t, frame_.locs, static_cast<size_t>(n));
    for (int k = t.ninputs; k < t.ninputs + t.noutputs; ++k)
      std::memcpy(at_[static_cast<size_t>(k)] + from * item(t, k), frame_.staging(k), bytes(k));
  }
}

}  // namespace pyflame::cpu
