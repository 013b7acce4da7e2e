// A tensor with its channels side by side, filled up with zeros: [batch][space][channels].
//   -DPF_T=  dtype
#include "axes.h"
#include "conv_turn_args.h"
#include "rows.h"

typedef PF_T T;
typedef pf_compute<T> C;
enum { PIXELS = 64, CHANNELS = 32, BLOCK = 256 };

PF_KERNEL(pf_conv_turn, BLOCK)(pf_turned q) {
  PF_SHARED C room[CHANNELS][PIXELS + 1];
  const pf_i64 pixels = q.size[0] * q.size[1] * q.size[2];
  pf_u32 block = pf_block();
  const auto deal = [&](pf_i64 size) PF_INLINE {
    const pf_u32 n = static_cast<pf_u32>(size), rest = block / n, at = block - rest * n;
    block = rest;
    return static_cast<pf_i64>(at);
  };
  const pf_i64 first_c = deal((q.padded + CHANNELS - 1) / CHANNELS) * CHANNELS,
               first = deal((pixels + PIXELS - 1) / PIXELS) * PIXELS, n = block;
  const int thread = static_cast<int>(pf_thread()), lane = thread % PIXELS;
  const pf_i64 pixel = first + lane, line = pf_quotient(pixel, q.size[2]),
               plane = pf_quotient(line, q.size[1]);
  const pf_i64 at = n * q.batch + plane * q.at[0] + (line - plane * q.size[1]) * q.at[1] +
                    (pixel - line * q.size[2]) * q.at[2];
  PF_UNROLL for (int c = 0; c < CHANNELS; c += BLOCK / PIXELS) {
    const int row = c + thread / PIXELS;
    const pf_i64 channel = first_c + row;
    room[row][lane] = pixel < pixels && channel < q.channels
                          ? pf_get_one<T>(q.from, at + channel * q.channel)
                          : C(0);
  }
  pf_barrier();
  const pf_i64 left = q.padded - first_c;
  const int wide = left < CHANNELS ? static_cast<int>(left) : CHANNELS;
  for (int i = thread; i < wide * PIXELS; i += BLOCK) {
    const int p = i / wide, c = i - p * wide;
    if (first + p < pixels)
      pf_put_one<T>(q.to, (n * pixels + first + p) * q.padded + first_c + c, room[c][p]);
  }
}
