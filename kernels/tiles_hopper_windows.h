// The product of a convolution on Hopper's wgmma whose operand a, what its windows see, comes into
// shared memory once for all taps: -DPF_GATHERED=4, for 16-bit floats; TILE_K is 64 channels.
// -DTAPS= of a stage; -DPF_SEVERAL=1: a block makes several tiles.
//
// Pixels of the input are lines of 64 channels, with those of the padding between them: a line's
// padding on the right is that of the next one on the left, an image's below that of the next one
// above. So a tap is a distance in lines, the same for all windows. A tile's windows, which may be
// of several images, see the lines from its first one's to its last one's. Warps load their
// fragments from there (whose rows are anywhere) and multiply them by the weights of a tap.
//
// Shared memory: one or two rooms for the lines of a run of 64 channels, two stages of the weights
// of TAPS taps, the results of a tile (or where the rest was), and where each line is in the input.
#ifndef PF_TILES_WINDOWS_H
#define PF_TILES_WINDOWS_H
static_assert(SIZE == 2 && PF_MATRIX_UNIT == 2 && A_ALONG_K && B_ALONG_K && PF_INVERSE != 2, "");
enum { CHUNKS = TILE_K / CHUNK, LINES = THREADS / CHUNKS };
static_assert(LINES % 8 == 0, "chunks of a thread are permuted alike");

// The line of a pixel's first tap, and the place of a line in chunks; -1: padding.
PF_DEVICE pf_i32 pf_window_of(const pf_conv_windows& q, pf_i64 m) {
  const pf_conv& c = q.conv;
  const pf_u32 wide = static_cast<pf_u32>(c.pixels[2]), high = static_cast<pf_u32>(c.pixels[1]);
  const pf_u32 i = static_cast<pf_u32>(m), above = i / wide, x = i - above * wide,
               image = above / high, y = above - image * high;
  const pf_u32 down = PF_INVERSE ? 1 : static_cast<pf_u32>(c.stride[1]),
               right = PF_INVERSE ? 1 : static_cast<pf_u32>(c.stride[2]);
  return static_cast<pf_i32>((image * q.high + y * down) * q.pitch + x * right);
}
PF_DEVICE pf_i32 pf_place_of_line(const pf_conv_windows& q, pf_i32 line) {
  const pf_conv& c = q.conv;
  const pf_u32 i = static_cast<pf_u32>(line), above = i / q.pitch, image = above / q.high;
  const pf_u32 x = i - above * q.pitch - q.left, y = above - image * q.high - q.top;
  if (x >= static_cast<pf_u32>(c.size[2]) || y >= static_cast<pf_u32>(c.size[1]) ||
      image >= q.images)
    return -1;
  return static_cast<pf_i32>((image * c.batch + y * c.at[1] + x * c.at[2]) / CHUNK);
}

// The weights of TAPS taps and 64 channels after the other; taps backwards where windows look back.
struct pf_window_weights {
  enum { COUNT = (TILE_N + LINES - 1) / LINES };
  const char* at;
  pf_i64 step;  // bytes from one of the thread's rows to the next
  pf_i32 row, rows, place, channel, tap;

  PF_METHOD void start(const pf_tiles_args& q, const pf_matmul_tile& t) {
    const int c = static_cast<int>(pf_thread()) % CHUNKS;
    row = static_cast<int>(pf_thread()) / CHUNKS;
    const pf_i64 left = q.n - t.col;
    rows = left > TILE_N ? TILE_N : static_cast<pf_i32>(left);
    place = pf_place<1>(row, c);
    channel = c * CHUNK;
    tap = 0;
    step = q.b_col * (LINES * SIZE);
    at = static_cast<const char*>(q.b) + ((t.col + row) * q.b_col + channel + first(q)) * SIZE;
  }
  static PF_METHOD pf_i32 taps(const pf_tiles_args& q) {
    return static_cast<pf_i32>(pf_taps(q.conv));
  }
  static PF_METHOD pf_i64 first(const pf_tiles_args& q) {
    return PF_INVERSE ? (taps(q) - 1) * q.conv.channels : 0;
  }
  // Starts the copies of the next stage.
  PF_METHOD void issue(const pf_tiles_args& q, pf_shared_at stage) {
    const pf_i64 one = q.conv.channels * (PF_INVERSE ? -SIZE : SIZE);
    PF_UNROLL for (int k = 0; k < TAPS; ++k) {
      if (tap == taps(q)) break;
      PF_UNROLL for (int i = 0; i < COUNT; ++i) {
        if (TILE_N % LINES != 0 && row + i * LINES >= TILE_N) break;
        const bool in = row + i * LINES < rows && channel < q.conv.channels;
        pf_copy_async(stage + (k * B_BYTES + place + i * (LINES * 128)), in ? at + i * step : q.b,
                      in ? 16 : 0);
      }
      at += one;
      ++tap;
    }
    if (tap == taps(q)) {
      tap = 0;
      channel += TILE_K;
      at += TILE_K * SIZE - one * taps(q);
    }
  }
};

// What a warp has of a tap's windows: 16 rows by 64 channels.
typedef pf_u32 pf_window_rows[TILE_K / 16][4];
PF_DEVICE void pf_load_windows(pf_shared_at lines, int line, int lane, pf_window_rows& a) {
  PF_UNROLL for (int kk = 0; kk < TILE_K / 16; ++kk)
      pf_load_matrices<0>(lines + pf_place<1>(line, kk * 2 + lane / 16), a[kk]);
}
#if defined(PF_NVIDIA)
PF_DEVICE void pf_multiply_windows(pf_tile_sums& sums, const pf_window_rows& a, pf_shared_at b) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  const pf_u64 y = pf_matrix_at(b);
  PF_UNROLL for (int kk = 0; kk < TILE_K / 16; ++kk)
      pf_wgmma_rows(PF_T{}, sums.c, a[kk], y + kk * (32 >> 4));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// The unit reads its registers until it is waited for.
PF_DEVICE void pf_keep_windows(const pf_window_rows& a) {
  PF_UNROLL for (int kk = 0; kk < TILE_K / 16; ++kk) asm volatile("" ::"r"(a[kk][0]), "r"(a[kk][1]),
                                                                  "r"(a[kk][2]), "r"(a[kk][3]));
}
PF_DEVICE void pf_see_copies() {
  asm volatile("fence.proxy.async;" ::: "memory");
}
#else
PF_DEVICE void pf_multiply_windows(pf_tile_sums& sums, const pf_window_rows& a, pf_shared_at b) {
  for (int kk = 0; kk < TILE_K / 16; ++kk)
    for (int j = 0; j < pf_tile_sums::NS; ++j) {
      pf_u32 y[2] = {0, 0};
      for (int v = 0; v < 2; ++v)
        for (int h = 0; h < 2; ++h) {
          const int k = kk * 16 + v * 8 + static_cast<int>(pf_lane()) % 4 * 2 + h;
          pf_u32 w;
          pf_load_words<2, false>(
              b + pf_place<1>(j * 8 + static_cast<int>(pf_lane()) / 4, k / CHUNK) + k % CHUNK * 2,
              &w);
          y[v] |= w << (16 * h);
        }
      pf_mma(PF_T{}, sums.c[j], a[kk], y);
    }
}
PF_DEVICE void pf_keep_windows(const pf_window_rows&) {}
PF_DEVICE void pf_see_copies() {}
#endif

// The sums of the tiles of a block, one after the other: while one is made, the lines and weights
// of the next one come.
struct pf_windows {
  const pf_tiles_args& q;
  pf_shared_at room, ring;  // of lines, of weights
  pf_i32* table;            // of the places of lines, of two tiles
  pf_i32 room_bytes, taps, runs, stages, far, right, down, wide;
  pf_i32 first, lines;       // of the tile at hand
  pf_i32 tile, turn, stage;  // which of two tables, rooms and stages are in use
  pf_window_weights weights;

  PF_METHOD pf_windows(const pf_tiles_args& q_, char* memory) : q(q_) {
    const pf_conv& c = q.conv;
    taps = static_cast<pf_i32>(pf_taps(c));
    stages = (taps + TAPS - 1) / TAPS;
    runs = static_cast<pf_i32>((c.channels + TILE_K - 1) / TILE_K);
    wide = static_cast<pf_i32>(c.taps[2]);
    right = static_cast<pf_i32>(c.dilation[2]);
    down = static_cast<pf_i32>(c.dilation[1] * q.pitch) - wide * right;
    far = (static_cast<pf_i32>(c.taps[1]) - 1) * (down + wide * right) + (wide - 1) * right;
    room = pf_shared_address(memory);
    room_bytes = q.room * 128;
    ring = room + q.rooms * room_bytes;
    table = reinterpret_cast<pf_i32*>(memory + q.places);
    tile = turn = stage = 0;
  }
  PF_METHOD pf_i32 window(pf_i64 m) const { return pf_window_of(q, m < q.m ? m : q.m - 1); }
  PF_METHOD pf_i32* places() const { return table + tile * q.room; }
  // Which lines a tile sees, and where they are; to be read after a barrier.
  PF_METHOD void look(const pf_matmul_tile& t) {
    first = window(t.row);
    lines = window(t.row + TILE_M - 1) + far + 1 - first;
    for (int i = static_cast<int>(pf_thread()); i < lines; i += THREADS)
      places()[i] = pf_place_of_line(q, first + i);
  }
  // Starts part `part` of `parts` of the copies of a run's lines.
  PF_METHOD void copy_lines(pf_shared_at to, pf_i32 run, pf_i32 part, pf_i32 parts) const {
    const pf_i32 at = static_cast<pf_i32>(pf_thread()) % CHUNKS,
                 channel = run * TILE_K + at * CHUNK, copies = (lines + LINES - 1) / LINES,
                 each = (copies + parts - 1) / parts,
                 end = (part + 1) * each < copies ? (part + 1) * each : copies;
    const char* base = static_cast<const char*>(q.conv.gathered);
    for (pf_i32 i = part * each; i < end; ++i) {
      const pf_i32 line = static_cast<pf_i32>(pf_thread()) / CHUNKS + i * LINES;
      if (line >= lines) break;
      const pf_i32 place = places()[line];
      const bool in = place >= 0 && channel < q.conv.channels;
      pf_copy_async(to + pf_place<1>(line, at),
                    in ? base + (static_cast<pf_i64>(place) + channel / CHUNK) * 16 : base,
                    in ? 16 : 0);
    }
  }
  PF_METHOD void start(const pf_matmul_tile& t) {
    look(t);
    weights.start(q, t);
    pf_barrier();
    copy_lines(room, 0, 0, 1);
    weights.issue(q, ring);
    pf_copies_end();
  }
  // The sums of tile t; `more`: `next` is the one after it.
  PF_METHOD void sum(pf_tile_sums& sums, const pf_matmul_tile& t, bool more,
                     const pf_matmul_tile& next, int warp_row, int lane) {
    const pf_i32 mine = window(t.row + warp_row + lane % 16) - first;
    for (pf_i32 run = 0; run < runs; ++run) {
      const bool last = run + 1 == runs;
      const pf_shared_at here = room + (turn & (q.rooms - 1)) * room_bytes,
                         there = room + ((turn + 1) & (q.rooms - 1)) * room_bytes;
      pf_i32 far_now = 0, column = 0;
      const auto load = [&](pf_window_rows& a) PF_INLINE {
        pf_load_windows(here, mine + far_now, lane, a);
        far_now += right;
        if (++column == wide) column = 0, far_now += down;
      };
      for (pf_i32 s = 0; s < stages; ++s) {
        pf_copies_wait<0>();
        pf_see_copies();
        pf_barrier();
        const pf_shared_at now = ring + stage * (TAPS * B_BYTES);
        stage ^= 1;
        const pf_i32 count = taps - s * TAPS;
        pf_window_rows a[2];
        load(a[0]);
        PF_UNROLL for (int i = 0; i < TAPS; ++i) {
          if (i >= count) break;
          // The unit's registers are not touched while it is at work (the compiler would have it
          // wait for each instruction): those of the next tap are loaded before it starts.
          if (i + 1 < TAPS && i + 1 < count) load(a[(i + 1) % 2]);
          pf_multiply_windows(sums, a[i % 2], now + i * B_BYTES);
          if (i == 0) {
            // What comes next has the time of this stage. (A fence for the unit waits for all
            // copies that are on their way.)
            if (!last || s + 1 < stages) {
              weights.issue(q, ring + stage * (TAPS * B_BYTES));
            } else if (more) {
              weights.start(q, next);
              weights.issue(q, ring + stage * (TAPS * B_BYTES));
            }
            if (!last) {
              copy_lines(there, run + 1, s, stages);
            } else if (more && s == 0) {
              tile ^= 1;
              look(next);
            } else if (more) {
              copy_lines(there, 0, s - 1, stages - 1);
            }
            pf_copies_end();
          }
          pf_multiply_wait<0>();
          pf_keep_windows(a[i % 2]);
        }
      }
      ++turn;
    }
  }
};

#endif
