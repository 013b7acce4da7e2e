// Where pixels and taps of a convolution meet (conv_args.h). A pixel has a place in the gathered
// tensor and a tap a distance from it; in the gradient of the input pixels are those of the input,
// and divided by the stride: those meet whose remainders are the same.
//
//   -DPF_INVERSE=0   a convolution, or its gradient by the weight
//   -DPF_INVERSE=1   the gradient of the input, all strides are 1
//   -DPF_INVERSE=2   the same, for any strides
//   -DPF_LAST=1      channels before taps, 0: taps first
//   -DPF_INDEX=      pf_u32 where all counts and padded sizes are less than 2^29, else pf_u64
#ifndef PF_CONV_PLACES_H
#define PF_CONV_PLACES_H
#include "conv_args.h"
#include "prelude.h"

typedef PF_INDEX pf_number;
template <class I>
struct pf_step_of {
  typedef pf_i64 type;
};
template <>
struct pf_step_of<pf_u32> {
  typedef pf_i32 type;
};
typedef pf_step_of<pf_number>::type pf_step;
constexpr pf_step pf_far = -(static_cast<pf_step>(1) << (sizeof(pf_step) * 8 - 2));

struct pf_spot {
  pf_i64 gathered, other;  // in elements
  pf_step c[3], r[PF_INVERSE == 2 ? 3 : 1];
};
// What meets nothing.
PF_DEVICE pf_spot pf_nowhere() {
  pf_spot s{};
  s.c[0] = pf_far;
  return s;
}
PF_DEVICE bool pf_meet(const pf_conv& q, const pf_spot& a, const pf_spot& b) {
  bool in = true;
  PF_UNROLL for (int d = 0; d < 3; ++d) {
    in = in && static_cast<pf_number>(a.c[d] + b.c[d]) < static_cast<pf_number>(q.size[d]);
    if constexpr (PF_INVERSE == 2) in = in && a.r[d] == b.r[d];
  }
  return in;
}

PF_DEVICE pf_spot pf_pixel(const pf_conv& q, pf_number i) {
  pf_spot s{};
  PF_UNROLL for (int d = 2; d >= 0; --d) {
    const pf_number size = static_cast<pf_number>(q.pixels[d]), rest = i / size;
    const pf_step p = static_cast<pf_step>(i - rest * size),
                  stride = static_cast<pf_step>(q.stride[d]),
                  padding = static_cast<pf_step>(q.padding[d]);
    i = rest;
    s.other += p * q.pixel_at[d];
    if constexpr (PF_INVERSE == 0) {
      s.c[d] = p * stride - padding;
    } else if constexpr (PF_INVERSE == 1) {
      s.c[d] = p + padding;
    } else {
      s.c[d] = (p + padding) / stride;
      s.r[d] = (p + padding) % stride;
    }
    s.gathered += s.c[d] * q.at[d];
  }
  s.other += static_cast<pf_i64>(i) * q.pixel_batch;
  s.gathered += static_cast<pf_i64>(i) * q.batch;
  return s;
}
// One tap, of no channel.
PF_DEVICE pf_spot pf_tap_of(const pf_conv& q, pf_number i) {
  pf_spot s{};
  PF_UNROLL for (int d = 2; d >= 0; --d) {
    const pf_number size = static_cast<pf_number>(q.taps[d]), rest = i / size;
    const pf_step t = static_cast<pf_step>(i - rest * size),
                  far = t * static_cast<pf_step>(q.dilation[d]),
                  stride = static_cast<pf_step>(q.stride[d]);
    i = rest;
    s.other += t * q.tap_at[d];
    if constexpr (PF_INVERSE == 0) {
      s.c[d] = far;
    } else if constexpr (PF_INVERSE == 1) {
      s.c[d] = -far;
    } else {
      s.c[d] = -(far / stride);
      s.r[d] = far % stride;
    }
    s.gathered += s.c[d] * q.at[d];
  }
  return s;
}
PF_DEVICE pf_number pf_taps(const pf_conv& q) {
  return static_cast<pf_number>(q.taps[0] * q.taps[1] * q.taps[2]);
}
PF_DEVICE pf_spot pf_tap(const pf_conv& q, pf_number i) {
  const pf_number inner = PF_LAST ? static_cast<pf_number>(q.channels) : pf_taps(q),
                  outer = i / inner, within = i - outer * inner;
  pf_spot s = pf_tap_of(q, PF_LAST ? outer : within);
  const pf_i64 c = static_cast<pf_i64>(PF_LAST ? within : outer);
  s.gathered += c * q.channel;
  s.other += c * q.tap_channel;
  return s;
}

#endif
