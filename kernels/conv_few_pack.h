// Weights as conv_few.h reads them, whose options these are.
#include "conv_few_plan.h"

// Weights as blocks read them: [tile of n][column][chunk][8].
PF_KERNEL(pf_conv_few_pack, THREADS)(const pf_few q) {
  const pf_u32 columns = static_cast<pf_u32>(q.tiles_n) * PF_N, all = columns * (COLUMN * 2);
  for (pf_u32 e = pf_block() * THREADS + pf_thread(); e < all; e += pf_blocks() * THREADS) {
    const pf_u32 column = e / (COLUMN * 2), rest = e % (COLUMN * 2), chunk = rest / 8;
    const pf_u32 line = chunk / RUN, at = chunk % RUN * 8 + rest % 8, pixel = at / PF_PITCH,
                 c = at % PF_PITCH;
    const pf_u32 n =
        column / PF_N * PF_N + static_cast<pf_u32>(pf_channel_of(static_cast<int>(column % PF_N)));
    pf_u32 w = 0;
    if (line < PF_HIGH && pixel < PF_WIDE && c < PF_C && n < static_cast<pf_u32>(q.outs))
      pf_load_words<2, false>(
          static_cast<const char*>(q.weight) +
              (n * q.w_out + c * q.w_in + line * q.w_line + pixel * q.w_pixel) * 2,
          &w);
    pf_store_words<2, false>(static_cast<char*>(q.packed) + static_cast<pf_i64>(e) * 2, &w);
  }
}
