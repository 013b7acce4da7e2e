// How tiles of operands come into shared memory on NVIDIA: every thread starts asynchronous copies
// of the same chunks of each tile, ahead of their use.
#ifndef PF_TILES_COPIES_H
#define PF_TILES_COPIES_H
#include "mma.h"
#include "tiles_lines.h"

// Four floats in shared memory become tf32.
PF_DEVICE void pf_round_chunk(pf_shared_at at) {
  pf_u32 w[4];
  pf_load_shared4(at, w);
  PF_UNROLL for (int i = 0; i < 4; ++i) w[i] = pf_tf32_bits(w[i]);
  pf_store_shared4(at, w);
}

// The copies of one operand that a thread starts for each tile. Its chunks lie a fixed number of
// lines apart, a multiple of what the permutation repeats after, so that their places differ by a
// constant.
template <int ALONG_K, int OUTER>
struct pf_stream {
  enum {
    CHUNKS = (ALONG_K ? TILE_K : OUTER) / CHUNK,
    COUNT = OUTER * TILE_K / CHUNK / THREADS,
    LINES = THREADS / CHUNKS,
  };
  static_assert(LINES % (ALONG_K || SIZE == 2 ? 8 : 16 / SIZE) == 0,
                "chunks of a thread must be permuted alike");
  static_assert(ALONG_K || OUTER * SIZE % 128 == 0, "strips are whole");
  const char* base;
  const char* at;  // of the first chunk
  pf_i64 step;     // bytes from one of the thread's chunks to the next
  pf_i64 advance;  // bytes from one tile of k to the next
  int place;       // of the first chunk in shared memory
  int bytes;       // of a chunk: 16, or what is inside of the matrix
  int lines;       // how many of the chunks are in lines of the matrix
  int k;           // of the first chunk

  PF_METHOD void start(const char* base_, pf_i64 first, pf_i64 size, pf_i64 stride) {
    const int r = static_cast<int>(pf_thread()) / CHUNKS,
              c = static_cast<int>(pf_thread()) % CHUNKS;
    base = base_;
    place = pf_place<ALONG_K>(r, c);
    step = stride * (LINES * SIZE);
    if constexpr (ALONG_K) {
      at = base + ((first + r) * stride + c * CHUNK) * SIZE;
      const pf_i64 left = (size - first - r + LINES - 1) / LINES;
      lines = left > COUNT ? COUNT : static_cast<int>(left);
      advance = TILE_K * SIZE;
      bytes = 16;
      k = c * CHUNK;
    } else {
      const pf_i64 left = size - first - c * CHUNK;
      bytes = left >= CHUNK ? 16 : left > 0 ? static_cast<int>(left) * SIZE : 0;
      at = base + (r * stride + first + c * CHUNK) * SIZE;
      lines = COUNT;
      advance = stride * (TILE_K * SIZE);
      k = r;
    }
  }
  // Starts copy i of a tile; `left`: elements of k from the beginning of the tile on.
  PF_METHOD void copy(pf_shared_at tile, int i, pf_i64 left) const {
    int n;
    if constexpr (ALONG_K) {
      const pf_i64 rest = left - k;
      n = i >= lines ? 0 : rest >= CHUNK ? 16 : rest > 0 ? static_cast<int>(rest) * SIZE : 0;
    } else {
      n = left > k + i * LINES ? bytes : 0;
    }
    // An address is legal even where nothing is read from it.
    pf_copy_async(tile + (place + i * (LINES * 128)), n ? at + i * step : base, n);
  }
  PF_METHOD void next(const pf_tiles_args&) { at += advance; }
  // Rounds what this thread has copied to a tile to tf32.
  PF_METHOD void round(pf_shared_at tile) const {
    PF_UNROLL for (int i = 0; i < COUNT; ++i) pf_round_chunk(tile + (place + i * (LINES * 128)));
  }
};

#if PF_GATHERED == 1 || PF_GATHERED == 3
// The same of an operand that is gathered.
template <int OUTER>
struct pf_gathered_stream {
  typedef pf_stream<1, OUTER> plain;
  enum { CHUNKS = plain::CHUNKS, COUNT = plain::COUNT, LINES = plain::LINES };
  const char* base;
  int place;
  pf_gather<COUNT, LINES> lines;

  // Lines from pixel `first` on, before `end`.
  PF_METHOD void start(const pf_conv& q, char* memory, pf_i64 first, pf_i64 end) {
    const int r = static_cast<int>(pf_thread()) / CHUNKS,
              c = static_cast<int>(pf_thread()) % CHUNKS;
    base = static_cast<const char*>(q.gathered);
    place = pf_place<1>(r, c);
    lines.template start<OUTER>(q, memory, first, end, r, c * CHUNK);
  }
  PF_METHOD void copy(pf_shared_at tile, int i, pf_i64) const {
    const bool in = lines.has(i);
    pf_copy_async(tile + (place + i * (LINES * 128)), in ? lines.at(i) : base, in ? 16 : 0);
  }
  PF_METHOD void next(const pf_tiles_args& q) { lines.next(q.conv); }
  PF_METHOD void round(pf_shared_at tile) const {
    PF_UNROLL for (int i = 0; i < COUNT; ++i) pf_round_chunk(tile + (place + i * (LINES * 128)));
  }
};
#elif PF_GATHERED == 2
template <int OUTER>
struct pf_gathered_stream {
  typedef pf_stream<0, OUTER> plain;
  enum { CHUNKS = plain::CHUNKS, COUNT = plain::COUNT, LINES = plain::LINES };
  const char* base;
  int place, k;
  pf_gather_table table;
  pf_gather_column column;

  PF_METHOD void start(const pf_tiles_args& q, const pf_matmul_tile& t, char* memory) {
    const int c = static_cast<int>(pf_thread()) % CHUNKS;
    k = static_cast<int>(pf_thread()) / CHUNKS;
    base = static_cast<const char*>(q.conv.gathered);
    place = pf_place<0>(k, c);
    column.start(q.conv, t.col + c * CHUNK);
    table = pf_gather_share(q, t, memory);
    table.make(q.conv);
  }
  PF_METHOD void copy(pf_shared_at tile, int i, pf_i64) const {
    const pf_gather_line line = table.line(k + i * LINES);
    const bool in = column.has(line);
    pf_copy_async(tile + (place + i * (LINES * 128)), in ? base + column.of(line) : base,
                  in ? 16 : 0);
  }
  PF_METHOD void next(const pf_tiles_args& q) { table.make(q.conv); }
  PF_METHOD void round(pf_shared_at tile) const {
    PF_UNROLL for (int i = 0; i < COUNT; ++i) pf_round_chunk(tile + (place + i * (LINES * 128)));
  }
};
#endif

#if PF_GATHERED != 4
struct pf_pipeline {
#if PF_GATHERED == 1
  typedef pf_gathered_stream<TILE_M> stream_a;
#else
  typedef pf_stream<A_ALONG_K, TILE_M> stream_a;
#endif
#if PF_GATHERED >= 2
  typedef pf_gathered_stream<TILE_N> stream_b;
#else
  typedef pf_stream<B_ALONG_K, TILE_N> stream_b;
#endif
  stream_a a;
  stream_b b;
  pf_i64 left;  // elements of k that no copy was started for yet

  // What the threads have told each other for the next tile can be read.
  static PF_METHOD void started() {
    if constexpr (PF_GATHERED == 2) pf_barrier();
  }
  PF_METHOD void start(const pf_tiles_args& q, const pf_matmul_tile& t, char* memory) {
#if PF_GATHERED == 1
    a.start(q.conv, memory + STAGES * STAGE_BYTES, t.row, q.m);
#else
    a.start(static_cast<const char*>(q.a) + t.a * SIZE, t.row, q.m, A_ALONG_K ? q.a_row : q.a_col);
#endif
#if PF_GATHERED == 2
    b.start(q, t, memory + STAGES * STAGE_BYTES);
    left = b.table.end - b.table.k + TILE_K;
#elif PF_GATHERED == 3
    const pf_i64 before = pf_gather_image(q, t);
    b.start(q.conv, memory + STAGES * STAGE_BYTES, before + t.col, before + q.n);
    left = q.k;
#else
    b.start(static_cast<const char*>(q.b) + t.b * SIZE, t.col, q.n, B_ALONG_K ? q.b_col : q.b_row);
    left = q.k;
#endif
    started();
  }
  // Starts part PART of OF of the next tile's copies.
  template <int PART, int OF>
  PF_METHOD void issue(pf_shared_at stage) const {
    if (left <= 0) return;
    constexpr int a0 = stream_a::COUNT * PART / OF, a1 = stream_a::COUNT * (PART + 1) / OF,
                  b0 = stream_b::COUNT * PART / OF, b1 = stream_b::COUNT * (PART + 1) / OF;
    PF_UNROLL for (int i = a0; i < a1; ++i) a.copy(stage, i, left);
    PF_UNROLL for (int i = b0; i < b1; ++i) b.copy(stage + A_BYTES, i, left);
  }
  PF_METHOD void round(pf_shared_at stage) const {
    a.round(stage);
    b.round(stage + A_BYTES);
  }
  PF_METHOD void commit(const pf_tiles_args& q) {
    a.next(q);
    b.next(q);
    left -= TILE_K;
    pf_copies_end();
  }
};

// The stages in shared memory: where they begin, the one in use, the one to be filled.
struct pf_ring {
  pf_shared_at begin, stage, free;
  PF_METHOD pf_shared_at after(pf_shared_at s) const {
    s += STAGE_BYTES;
    return s == begin + STAGES * STAGE_BYTES ? begin : s;
  }
};
#endif

#endif
