// What a range of a compiled program's launch has: memory for tiles, and its instructions run.
#pragma once

#include <cstring>

#include "cpu/strided.h"
#include "cpu/tape_code.h"

namespace pyflame::cpu {

inline size_t round_up(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

// What one range has memory for, with tiles of at most n elements of which `staged` are staged:
// locations, slots, registers, staged tiles.
struct Layout {
  size_t slots, splats, regs, stage, total;
  size_t reg_pitch, stage_pitch;
  Layout(const Tape& t, int64_t n, int64_t staged) {
    // Pitches that are no multiple of 4096 keep tiles in different cache sets.
    const auto pitch = [&](int64_t count) {
      const size_t whole = round_up(static_cast<size_t>(count), kTileGrain);
      return round_up(whole * static_cast<size_t>(t.reg_bytes), 64) + 64;
    };
    reg_pitch = pitch(n);
    stage_pitch = pitch(staged);
    slots = round_up(static_cast<size_t>(t.nlocs) * sizeof(Loc), 64);
    splats = slots + t.slots.size() * kSlotBytes;
    regs = splats + t.ins.size() * kSlotBytes;
    stage = regs + static_cast<size_t>(t.nregs) * reg_pitch;
    total = stage + (t.ins.size() + t.outs.size()) * stage_pitch;
  }
};

template <class T>
void fill_slot(char* to, T v) {
  T* p = reinterpret_cast<T*>(to);
  for (size_t i = 0; i < kSlotBytes / sizeof(T); ++i) p[i] = v;
}
inline void fill_slots(const Tape& t, const pf_scalar* scalars, char* at) {
  for (const Slot& s : t.slots) {
    pf_scalar v;
    if (s.scalar == Slot::kConstant)
      v = {s.value, static_cast<int64_t>(s.value)};
    else
      v = scalars[s.scalar];
    switch (s.type) {
      case Reg::F32:
        fill_slot(at, static_cast<float>(v.f));
        break;
      case Reg::F64:
        fill_slot(at, v.f);
        break;
      case Reg::I32:
        fill_slot(at, static_cast<int32_t>(v.i));
        break;
      case Reg::I64:
        fill_slot(at, v.i);
        break;
      default:
        fill_slot(at, static_cast<uint8_t>(v.i != 0 || v.f != 0));
        break;
    }
    at += kSlotBytes;
  }
}

// The memory of a range, with registers, slots and constants in place.
struct Frame {
  const Layout& layout;
  char* base;
  Loc* locs;
  Frame(const Tape& t, const Layout& layout, char* memory) : layout(layout), base(memory) {
    locs = reinterpret_cast<Loc*>(base);
    locs[0] = {nullptr, Loc::kSplat, nullptr};
    char* r = base + layout.regs;
    Loc* l = locs + t.reg(0);
    for (int i = 0; i < t.nregs; ++i, ++l, r += layout.reg_pitch) *l = {r, Loc::kStep, nullptr};
    for (size_t i = 0; i < t.code.size(); ++i) locs[t.fetched(i)] = locs[0];
  }
  void point_at_slots(const Tape& t, const char* slots) {
    Loc* l = locs + t.slot(0);
    for (size_t i = 0; i < t.slots.size(); ++i, ++l)
      *l = {const_cast<char*>(slots) + i * kSlotBytes, Loc::kSplat, nullptr};
  }
  char* splat(int i) { return base + layout.splats + static_cast<size_t>(i) * kSlotBytes; }
  char* staging(int i) { return base + layout.stage + static_cast<size_t>(i) * layout.stage_pitch; }
};

inline void execute(const Tape& t, const Loc* locs, size_t n) {
  for (const Instr& i : t.code) i.fn(n, locs, i);
}

// Inputs that are read after an output has overwritten them within a tile.
inline uint64_t staged_inputs(const Tape& t, const pf_launch& l) {
  uint64_t staged = 0;
  for (int o = 0; o < t.noutputs; ++o)
    for (int i = 0; i < t.ninputs; ++i)
      if (l.inputs[i].data == l.outputs[o].data &&
          t.ins[static_cast<size_t>(i)].last_read > t.outs[static_cast<size_t>(o)].written)
        staged |= uint64_t{1} << i;
  return staged;
}

}  // namespace pyflame::cpu
