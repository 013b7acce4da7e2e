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
      frame_(t, layout_, memory),
      n_(t.ins.size() + t.outs.size()) {
  fill_slots(t, l.scalars, memory + layout_.slots);
  frame_.point_at_slots(t, memory + layout_.slots);
  for (int k = 0; k < static_cast<int>(n_); ++k) {
    const bool one = space.strides[k][space.ndim - 1] == 0;
    Loc* const loc = frame_.locs + t.in(k);  // of outputs, too: they are behind the inputs
    *loc = {nullptr, one ? Loc::kSplat : Loc::kStep, nullptr};
    const int64_t bytes = item(t, k);
    operands_[static_cast<size_t>(k)] = {
        loc, nullptr, nullptr, one ? frame_.splat(k) : nullptr, bytes, one ? 0 : bytes};
  }
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
  for (int k = 0; k < static_cast<int>(n_); ++k) {
    Operand& p = operands_[static_cast<size_t>(k)];
    if (p.ring) {
      p.at = p.ring + row_ % kRows * pitch(width_) * p.item;
      continue;
    }
    const int64_t* strides = space_.strides[k];
    int64_t offset = column_ * strides[last];
    for (int d = 0; d < last; ++d) offset += place_[static_cast<size_t>(d)] * strides[d];
    const bool in = k < tape_.ninputs;
    char* const base =
        static_cast<char*>(in ? launch_.inputs[k].data : launch_.outputs[k - tape_.ninputs].data);
    char* const before = row_ == 0 ? nullptr : p.from;
    p.from = base + offset * p.item;
    if (p.pace != 0)
      p.at = p.from;
    else if (p.from != before)
      splat_element(p.at, p.from, static_cast<int>(p.item));
  }
}

void RowProgram::columns(int64_t first, int64_t count) {
  Operand* const end = operands_.data() + n_;
  if (count % static_cast<int64_t>(kTileGrain) == 0) {
    for (Operand* p = operands_.data(); p != end; ++p) p->loc->data = p->at + first * p->pace;
    return execute(tape_, frame_.locs, static_cast<size_t>(count));
  }
  Operand* const outputs = operands_.data() + tape_.ninputs;
  for (int64_t done = 0; done < count; done += kTail) {
    const int64_t n = std::min(kTail, count - done);
    for (Operand* p = operands_.data(); p != end; ++p) {
      if (p->pace == 0) continue;
      p->loc->data = frame_.staging(static_cast<int>(p - operands_.data()));
      if (p < outputs)
        std::memcpy(p->loc->data, p->at + (first + done) * p->pace,
                    static_cast<size_t>(n * p->pace));
    }
    execute(tape_, frame_.locs, static_cast<size_t>(n));
    for (Operand* p = outputs; p != end; ++p)
      std::memcpy(p->at + (first + done) * p->pace, p->loc->data, static_cast<size_t>(n * p->pace));
  }
}

}  // namespace pyflame::cpu
