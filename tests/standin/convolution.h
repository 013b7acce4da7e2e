// What the stand-ins for libraries of convolutions share: plain loops in double. Types are those of
// numbers.h.
#pragma once
#include <cstdint>
#include <cstring>

#include "faults.h"
#include "numbers.h"

namespace {

struct Operand {
  int64_t size[5] = {1, 1, 1, 1, 1}, step[5] = {};  // [N, C, depth, height, width]
  int type = 0;
};
struct Shape {
  int64_t stride[3] = {1, 1, 1}, padding[3] = {}, dilation[3] = {1, 1, 1};
};
enum class Kind { Forward, Input, Weight };

// `space` numbers of the caller's as the last of three.
template <class From, class To>
void last_of(To* to, const From* from, int space) {
  for (int d = 0; d < space; ++d) to[3 - space + d] = from[d];
}
template <class From, class To>
void operand_of(To* to, const From* from, int space) {
  to[0] = from[0], to[1] = from[1];
  last_of(to + 2, from + 2, space);
}

// What is written is beta times what it was and the sum.
inline void convolve(Kind kind, const Shape& s, const Operand& x, const Operand& w,
                     const Operand& y, void* x_at, void* w_at, void* y_at, double beta, bool tf32) {
  const Operand& out = kind == Kind::Forward ? y : kind == Kind::Input ? x : w;
  void* const to = kind == Kind::Forward ? y_at : kind == Kind::Input ? x_at : w_at;
  int64_t count = 1;
  for (int64_t n : out.size) count *= n;
  const auto place = [](const Operand& t, const int64_t* i) {
    int64_t at = 0;
    for (int d = 0; d < 5; ++d) at += i[d] * t.step[d];
    return at;
  };
  auto* sums = new double[static_cast<size_t>(count)]();
  const auto number = [&](const int64_t* i) {
    int64_t n = 0;
    for (int d = 0; d < 5; ++d) n = n * out.size[d] + i[d];
    return n;
  };
  const auto read = [&](const void* p, const Operand& t, const int64_t* i) {
    const double v = get(p, place(t, i), t.type);
    return tf32 ? as_tf32(v) : v;
  };
  const int64_t ins = w.size[1], groups = x.size[1] / ins, outs = y.size[1] / groups;
  int64_t i[5], k[5], j[5];
  const auto each = [](const Operand& t, int64_t* at, auto&& body) {
    for (at[0] = 0; at[0] < t.size[0]; ++at[0])
      for (at[1] = 0; at[1] < t.size[1]; ++at[1])
        for (at[2] = 0; at[2] < t.size[2]; ++at[2])
          for (at[3] = 0; at[3] < t.size[3]; ++at[3])
            for (at[4] = 0; at[4] < t.size[4]; ++at[4]) body();
  };
  each(y, i, [&] {
    Operand taps = w;  // of one channel of the output
    taps.size[0] = 1;
    each(taps, k, [&] {
      int64_t tap[5] = {i[1], k[1], k[2], k[3], k[4]};
      j[0] = i[0], j[1] = i[1] / outs * ins + k[1];
      for (int d = 0; d < 3; ++d) {
        j[d + 2] = i[d + 2] * s.stride[d] + k[d + 2] * s.dilation[d] - s.padding[d];
        if (j[d + 2] < 0 || j[d + 2] >= x.size[d + 2]) return;
      }
      if (kind == Kind::Forward)
        sums[number(i)] += read(x_at, x, j) * read(w_at, w, tap);
      else if (kind == Kind::Input)
        sums[number(j)] += read(y_at, y, i) * read(w_at, w, tap);
      else
        sums[number(tap)] += read(y_at, y, i) * read(x_at, x, j);
    });
  });
  each(out, i, [&] {
    const int64_t at = place(out, i);
    const double was = beta != 0 ? beta * get(to, at, out.type) : 0;
    put(to, at, out.type, was + sums[number(i)]);
  });
  delete[] sums;
}

}  // namespace
