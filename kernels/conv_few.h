// Convolutions of up to four channels in two dimensions, on matrix units, for 16-bit floats: the
// first layer of a network of pictures. A block makes ROWS lines of up to WIDE pixels of the
// result. It keeps the lines of the input that they see in shared memory, channels side by side, so
// that the taps of one line and all channels are one run of neighbours: operand a is read from
// there as it lies, each element for all the windows that contain it.
//
// k counts chunks of 8 elements: RUN of them for each line of taps, the last one cut (what lies
// behind a run are further pixels: they are masked, since theirs times 0 need not be 0).
//   -DPF_T=pf_bf16|pf_f16
//   -DPF_C=        channels; -DPF_PITCH= the same, or with one more of zeros where windows would
//                  begin in the middle of a word
//   -DPF_HIGH= -DPF_WIDE= taps, -DPF_DOWN= -DPF_RIGHT= strides
//   -DWIDE=        pixels, a multiple of 32; -DPF_N= channels of the result, 32 or 64
//   -DPF_MATRIX_UNIT= on AMD, as in matrix_units.h
#include "conv_few_plan.h"

// Word `w` of chunk `c` of the window that begins at word `at`.
PF_DEVICE pf_u32 pf_word_of(const pf_u32* lines, int at, int c, int w) {
  if (c >= CHUNKS) return 0;
  const pf_u32 word = lines[at + c / RUN * LINE + c % RUN * 4 + w];
  if (TAIL == 8 || c % RUN != RUN - 1) return word;
  return 2 * w + 1 < TAIL ? word : 2 * w < TAIL ? word & 0xffff : 0;
}

PF_KERNEL(pf_conv_few, THREADS)(const pf_few q) {
  char* memory = pf_dynamic_shared();
  pf_u32* columns = reinterpret_cast<pf_u32*>(memory);
  pf_u32* lines = columns + PF_N * COLUMN;
  const int lane = static_cast<int>(pf_thread()) % PF_WARP,
            warp = static_cast<int>(pf_thread()) / PF_WARP;
  pf_u32 block = pf_block();
  const auto deal = [&](pf_i32 n) PF_INLINE {
    const pf_u32 rest = block / static_cast<pf_u32>(n);
    const pf_i32 at = static_cast<pf_i32>(block - rest * static_cast<pf_u32>(n));
    block = rest;
    return at;
  };
  const pf_i32 tile_n = deal(q.tiles_n), x0 = deal(q.tiles_x) * WIDE, y0 = deal(q.tiles_y) * ROWS;
  const pf_i64 image = block;
  {
    const char* from =
        static_cast<const char*>(q.packed) + static_cast<pf_i64>(tile_n) * (PF_N * COLUMN * 4);
    for (int i = static_cast<int>(pf_thread()); i < PF_N * COLUMN / 4; i += THREADS) {
      pf_u32 w[4];
      pf_load_words<16, false>(from + i * 16, w);
      pf_store_words<16, false>(memory + i * 16, w);
    }
  }
  pf_take_lines<LINE * 4>(q, static_cast<const char*>(q.x) + image * q.x_batch * 2,
                          y0 * PF_DOWN - q.top, x0 * PF_RIGHT - q.left,
                          reinterpret_cast<char*>(lines), warp, lane);
  pf_barrier();

  PF_NO_UNROLL for (int part = warp; part < ROWS * (WIDE / PART); part += WARPS) {
    const int row = part / (WIDE / PART), col = part % (WIDE / PART) * PART;
    const pf_i32 y = y0 + row;
    if (y >= q.out_height || x0 + col >= q.out_width) continue;
    const int begin = row * PF_DOWN * LINE;
    float c[MS][NS][UNIT_SUMS];
    PF_UNROLL for (int i = 0; i < MS; ++i) {
      PF_UNROLL for (int j = 0; j < NS; ++j) {
        PF_UNROLL for (int v = 0; v < UNIT_SUMS; ++v) c[i][j][v] = 0.0f;
      }
    }
    const auto window = [&](int pixel)
                            PF_INLINE { return begin + (col + pixel) * (PF_RIGHT * PF_PITCH / 2); };
    PF_FEW_STEPS for (int s = 0; s < STEPS; ++s) pf_few_step<COLUMN>(
        columns, s, lane,
        [&](int pixel, int chunk, int word)
            PF_INLINE { return pf_word_of(lines, window(pixel), chunk, word); },
        c);
    char* to = static_cast<char*>(q.y) + (image * q.y_batch + y * q.y_line) * 2;
    const auto give = [&](int pixel, int n, float v) PF_INLINE {
      const pf_i32 x = x0 + col + pixel, channel = tile_n * PF_N + n;
      if (x >= q.out_width || channel >= q.outs) return;
      if (q.bias) {
        float bias[1];
        pf_load<PF_T, 1, false>(static_cast<const char*>(q.bias) + channel * 2, bias);
        v += bias[0];
      }
      const float rounded[1] = {pf_dtype<PF_T>::round(v)};
      pf_store<PF_T, 1, false>(to + (x * q.y_pixel + channel * q.y_channel) * 2, rounded);
    };
    pf_few_give(q, to, x0 + col, tile_n * PF_N, lane, give, c);
  }
}
