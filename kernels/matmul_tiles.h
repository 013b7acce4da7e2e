// Matrix products of 16-bit floats on matrix units: c = a b + bias, summed in float in the order
// of k, one rounding.
//   -DTYPE=pf_bf16|pf_f16 -DTILE_M -DTILE_N -DTILE_K of a thread block, -DWARP_M -DWARP_N of a
//   warp, -DSTAGES of the pipeline, -DA_ALONG_K, -DB_ALONG_K: 1 where the dimension k has stride 1
//   in memory, 0 where the other one has.
// Addresses and strides are multiples of 16 bytes (the launcher looks); sizes are any.
//
// A tile of operands lies in shared memory as rows of 16-byte chunks, which are permuted so that
// neither filling nor reading meets a bank twice. pf_pipeline fills stages ahead of their use;
// pf_tile_sums multiplies one stage. Both exist for each vendor; the kernel is the same.
#include "matmul_args.h"
#include "matrix_units.h"
#include "mma.h"

enum {
  WARPS_N = TILE_N / WARP_N,
  THREADS = (TILE_M / WARP_M) * WARPS_N * PF_WARP,
  CHUNK = 8,  // elements
  A_BYTES = TILE_M * TILE_K * 2,
  B_BYTES = TILE_N * TILE_K * 2,
  STAGE_BYTES = A_BYTES + B_BYTES,
};

// Where chunk `c` of row `r` lies, rows being `chunks` chunks wide.
PF_DEVICE int pf_chunk(int r, int c, int chunks) {
  return (r * chunks + (chunks >= 8 ? c ^ (r & 7) : c ^ (r >> 1 & 3))) * 16;
}

// One chunk of an operand in memory and how many of its elements are inside of the matrix.
struct pf_source {
  const char* p;
  int elements;
};
template <int ALONG_K, int OUTER>
PF_DEVICE pf_source pf_locate(const char* base, pf_i64 first, pf_i64 size, pf_i64 stride, pf_i64 k0,
                              pf_i64 k, int at) {
  constexpr int chunks = (ALONG_K ? TILE_K : OUTER) / CHUNK;
  const int r = at / chunks, c = at % chunks * CHUNK;
  const pf_i64 line = ALONG_K ? first + r : k0 + r, along = ALONG_K ? k0 + c : first + c;
  const pf_i64 left = ALONG_K ? k - along : size - along;
  pf_source s = {base, 0};
  if (line < (ALONG_K ? size : k) && left > 0) {
    s.p = base + (line * stride + along) * 2;
    s.elements = left < CHUNK ? static_cast<int>(left) : CHUNK;
  }
  return s;
}

#if defined(PF_MMA)
// ---- NVIDIA: cp.async fills, ldmatrix reads (transposing where k is not the unit stride) --------
struct pf_pipeline {
  template <int ALONG_K, int OUTER>
  static PF_METHOD void fill(char* tile, const char* base, pf_i64 first, pf_i64 size, pf_i64 stride,
                             pf_i64 k0, pf_i64 k) {
    constexpr int chunks = (ALONG_K ? TILE_K : OUTER) / CHUNK;
    PF_UNROLL for (int i = 0; i < OUTER * TILE_K / CHUNK / THREADS; ++i) {
      const int at = i * THREADS + static_cast<int>(pf_thread());
      const pf_source s = pf_locate<ALONG_K, OUTER>(base, first, size, stride, k0, k, at);
      pf_copy_async(pf_shared_address(tile + pf_chunk(at / chunks, at % chunks, chunks)), s.p,
                    s.elements * 2);
    }
  }
  PF_METHOD void issue(char* stage, const pf_matmul_args& q, const pf_matmul_tile& t, pf_i64 k0) {
    if (k0 < q.k) {
      fill<A_ALONG_K, TILE_M>(stage, static_cast<const char*>(q.a) + t.a * 2, t.row, q.m,
                              A_ALONG_K ? q.a_row : q.a_col, k0, q.k);
      fill<B_ALONG_K, TILE_N>(stage + A_BYTES, static_cast<const char*>(q.b) + t.b * 2, t.col, q.n,
                              B_ALONG_K ? q.b_col : q.b_row, k0, q.k);
    }
    pf_copies_end();
  }
  // Until all but the last `ahead` issues have arrived, for the whole block.
  template <int AHEAD>
  PF_METHOD void wait() {
    pf_copies_wait<AHEAD>();
    pf_barrier();
  }
};

struct pf_tile_sums {
  enum { MS = WARP_M / 16, NS = WARP_N / 8 };
  float c[MS][NS][4];

  // The operands of 16 columns of k, from shared memory to registers.
  static PF_METHOD void read_a(pf_shared_at tile, int warp_row, int kk, int lane,
                               pf_u32 (&r)[MS][4]) {
    PF_UNROLL for (int i = 0; i < MS; ++i) {
      const int row = warp_row + i * 16;
      if constexpr (A_ALONG_K)
        pf_load_matrices<0>(
            tile + pf_chunk(row + lane % 16, kk / CHUNK + lane / 16, TILE_K / CHUNK), r[i]);
      else
        pf_load_matrices<1>(tile + pf_chunk(kk + lane % 8 + lane / 16 * 8,
                                            row / CHUNK + (lane / 8 & 1), TILE_M / CHUNK),
                            r[i]);
    }
  }
  static PF_METHOD void read_b(pf_shared_at tile, int warp_col, int kk, int lane,
                               pf_u32 (&r)[NS][2]) {
    PF_UNROLL for (int j = 0; j < NS; j += 2) {
      const int col = warp_col + j * 8;
      pf_u32 w[4];
      if constexpr (B_ALONG_K)
        pf_load_matrices<0>(tile + pf_chunk(col + lane % 8 + lane / 16 * 8,
                                            kk / CHUNK + (lane / 8 & 1), TILE_K / CHUNK),
                            w);
      else
        pf_load_matrices<1>(
            tile + pf_chunk(kk + lane % 16, col / CHUNK + lane / 16, TILE_N / CHUNK), w);
      r[j][0] = w[0], r[j][1] = w[1], r[j + 1][0] = w[2], r[j + 1][1] = w[3];
    }
  }
  PF_METHOD void multiply(const char* stage, int warp_row, int warp_col, int lane) {
    const pf_shared_at a = pf_shared_address(stage), b = a + A_BYTES;
    pf_u32 x[2][MS][4], y[2][NS][2];  // the next step is read while this one is multiplied
    read_a(a, warp_row, 0, lane, x[0]);
    read_b(b, warp_col, 0, lane, y[0]);
    PF_UNROLL for (int kk = 0; kk < TILE_K; kk += 16) {
      const int now = kk / 16 & 1;
      if (kk + 16 < TILE_K) {
        read_a(a, warp_row, kk + 16, lane, x[now ^ 1]);
        read_b(b, warp_col, kk + 16, lane, y[now ^ 1]);
      }
      PF_UNROLL for (int i = 0; i < MS; ++i) {
        PF_UNROLL for (int j = 0; j < NS; ++j) {
          const int jj = i & 1 ? NS - 1 - j : j;
          pf_mma(PF_T{}, c[i][jj], x[now][i], y[now][jj]);
        }
      }
    }
  }
  // f(row, column, value, value of the next column), within the warp's part
  template <class F>
  PF_METHOD void each_pair(int lane, F f) const {
    PF_UNROLL for (int i = 0; i < MS; ++i) {
      PF_UNROLL for (int j = 0; j < NS; ++j) {
        f(i * 16 + lane / 4, j * 8 + lane % 4 * 2, c[i][j][0], c[i][j][1]);
        f(i * 16 + lane / 4 + 8, j * 8 + lane % 4 * 2, c[i][j][2], c[i][j][3]);
      }
    }
  }
  PF_METHOD void clear() {
    PF_UNROLL for (int i = 0; i < MS; ++i) {
      PF_UNROLL for (int j = 0; j < NS; ++j) {
        PF_UNROLL for (int v = 0; v < 4; ++v) c[i][j][v] = 0.0f;
      }
    }
  }
};

#else
// ---- AMD and the host: through registers; tiles lie along k whatever memory does ----------------
struct pf_pipeline {
  enum { NA = TILE_M * TILE_K / CHUNK / THREADS, NB = TILE_N * TILE_K / CHUNK / THREADS };
  pf_u32 a[NA][4], b[NB][4];

  template <int ALONG_K, int OUTER, int N>
  static PF_METHOD void fetch(pf_u32 (&r)[N][4], const char* base, pf_i64 first, pf_i64 size,
                              pf_i64 stride, pf_i64 k0, pf_i64 k) {
    PF_UNROLL for (int i = 0; i < N; ++i) {
      const int at = i * THREADS + static_cast<int>(pf_thread());
      const pf_source s = pf_locate<ALONG_K, OUTER>(base, first, size, stride, k0, k, at);
      PF_UNROLL for (int w = 0; w < 4; ++w) r[i][w] = 0;
      if (s.elements == CHUNK) {
        pf_load_words<16, false>(s.p, r[i]);
      } else {
        PF_UNROLL for (int e = 0; e < CHUNK; ++e) {
          if (e >= s.elements) continue;
          pf_u32 w;
          pf_load_words<2, false>(s.p + e * 2, &w);
          r[i][e / 2] |= w << (e % 2 * 16);
        }
      }
    }
  }
  template <int ALONG_K, int OUTER, int N>
  static PF_METHOD void put(char* tile, const pf_u32 (&r)[N][4]) {
    constexpr int chunks = TILE_K / CHUNK;
    PF_UNROLL for (int i = 0; i < N; ++i) {
      const int at = i * THREADS + static_cast<int>(pf_thread());
      if constexpr (ALONG_K) {
        pf_store_words<16, false>(tile + pf_chunk(at / chunks, at % chunks, chunks), r[i]);
      } else {
        const int k = at / (OUTER / CHUNK), outer = at % (OUTER / CHUNK) * CHUNK;
        PF_UNROLL for (int e = 0; e < CHUNK; ++e) {
          const pf_u32 w = r[i][e / 2] >> (e % 2 * 16);
          pf_store_words<2, false>(tile + pf_chunk(outer + e, k / CHUNK, chunks) + k % CHUNK * 2,
                                   &w);
        }
      }
    }
  }
  PF_METHOD void load(const pf_matmul_args& q, const pf_matmul_tile& t, pf_i64 k0) {
    fetch<A_ALONG_K, TILE_M>(a, static_cast<const char*>(q.a) + t.a * 2, t.row, q.m,
                             A_ALONG_K ? q.a_row : q.a_col, k0, q.k);
    fetch<B_ALONG_K, TILE_N>(b, static_cast<const char*>(q.b) + t.b * 2, t.col, q.n,
                             B_ALONG_K ? q.b_col : q.b_row, k0, q.k);
  }
  PF_METHOD void store(char* stage) const {
    put<A_ALONG_K, TILE_M>(stage, a);
    put<B_ALONG_K, TILE_N>(stage + A_BYTES, b);
  }
};

struct pf_tile_sums {
  enum { MS = WARP_M / PF_UNIT_M, NS = WARP_N / PF_UNIT_N };
  float c[MS][NS][PF_UNIT_SUMS];

  static PF_METHOD void read(const char* tile, int line, int k, pf_u32 (&w)[PF_UNIT_WORDS]) {
    constexpr int step = PF_UNIT_DEPTH < CHUNK ? PF_UNIT_DEPTH : CHUNK;
    PF_UNROLL for (int e = 0; e < PF_UNIT_DEPTH; e += step) pf_load_words<step * 2, false>(
        tile + pf_chunk(line, (k + e) / CHUNK, TILE_K / CHUNK) + (k + e) % CHUNK * 2, w + e / 2);
  }
  PF_METHOD void multiply(const char* stage, int warp_row, int warp_col, int lane) {
    PF_UNROLL for (int kk = 0; kk < TILE_K; kk += PF_UNIT_K) {
      pf_u32 x[MS][PF_UNIT_WORDS], y[NS][PF_UNIT_WORDS];
      const int k = kk + pf_unit_k(lane);
      PF_UNROLL for (int i = 0; i < MS; ++i)
          read(stage, warp_row + i * PF_UNIT_M + lane % PF_UNIT_M, k, x[i]);
      PF_UNROLL for (int j = 0; j < NS; ++j)
          read(stage + A_BYTES, warp_col + j * PF_UNIT_N + lane % PF_UNIT_N, k, y[j]);
      PF_UNROLL for (int i = 0; i < MS; ++i) {
        PF_UNROLL for (int j = 0; j < NS; ++j) pf_unit_multiply<PF_T>(x[i], y[j], c[i][j]);
      }
    }
  }
  template <class F>
  PF_METHOD void each(int lane, F f) const {
    PF_UNROLL for (int i = 0; i < MS; ++i) {
      PF_UNROLL for (int j = 0; j < NS; ++j) {
        PF_UNROLL for (int v = 0; v < PF_UNIT_SUMS; ++v)
            f(i * PF_UNIT_M + pf_unit_row(lane, v), j * PF_UNIT_N + lane % PF_UNIT_N, c[i][j][v]);
      }
    }
  }
  PF_METHOD void clear() {
    PF_UNROLL for (int i = 0; i < MS; ++i) {
      PF_UNROLL for (int j = 0; j < NS; ++j) {
        PF_UNROLL for (int v = 0; v < PF_UNIT_SUMS; ++v) c[i][j][v] = 0.0f;
      }
    }
  }
};
#endif

// ---- the kernel ---------------------------------------------------------------------------------
PF_KERNEL(pf_matmul_tiles, THREADS)(pf_matmul_args q) {
  char* memory = pf_dynamic_shared();
  const pf_matmul_tile t = pf_matmul_where(q, TILE_M, TILE_N);
  const int lane = static_cast<int>(pf_thread()) % PF_WARP,
            warp = static_cast<int>(pf_thread()) / PF_WARP;
  const int warp_row = warp / WARPS_N * WARP_M, warp_col = warp % WARPS_N * WARP_N;
  pf_tile_sums sums;
  sums.clear();
  pf_pipeline pipe;
  const pf_i64 steps = (q.k + TILE_K - 1) / TILE_K;
#if defined(PF_MMA)
  PF_UNROLL for (int s = 0; s < STAGES - 1; ++s)
      pipe.issue(memory + s * STAGE_BYTES, q, t, static_cast<pf_i64>(s) * TILE_K);
  int slot = 0, free_slot = STAGES - 1;
  for (pf_i64 s = 0; s < steps; ++s) {
    pipe.wait<STAGES - 2>();
    pipe.issue(memory + free_slot * STAGE_BYTES, q, t, (s + STAGES - 1) * TILE_K);
    sums.multiply(memory + slot * STAGE_BYTES, warp_row, warp_col, lane);
    slot = slot + 1 == STAGES ? 0 : slot + 1;
    free_slot = free_slot + 1 == STAGES ? 0 : free_slot + 1;
  }
  pipe.wait<0>();
#else
  pipe.load(q, t, 0);
  pipe.store(memory);
  for (pf_i64 s = 0; s < steps; ++s) {
    pf_barrier();
    if (s + 1 < steps) pipe.load(q, t, (s + 1) * TILE_K);
    sums.multiply(memory + s % 2 * STAGE_BYTES, warp_row, warp_col, lane);
    if (s + 1 < steps) pipe.store(memory + (s + 1) % 2 * STAGE_BYTES);
  }
  pf_barrier();
#endif
  // The tile of c goes through shared memory, so that whole chunks are written.
  constexpr int chunks = TILE_N / CHUNK;
  const PF_T* bias = static_cast<const PF_T*>(q.bias);
#if defined(PF_MMA)
  sums.each_pair(lane, [&](int row, int col, float u, float v) {
    if (bias) {
      float add[2] = {0.0f, 0.0f};
      const pf_i64 n = t.col + warp_col + col;
      if (n < q.n) pf_load<PF_T, 1, false>(bias + n, &add[0]);
      if (n + 1 < q.n) pf_load<PF_T, 1, false>(bias + n + 1, &add[1]);
      u += add[0];
      v += add[1];
    }
    const int at = warp_col + col;
    *reinterpret_cast<pf_u32*>(memory + pf_chunk(warp_row + row, at / CHUNK, chunks) +
                               at % CHUNK * 2) = pf_pairs<PF_T>::of(u, v);
  });
#else
  sums.each(lane, [&](int row, int col, float v) {
    if (bias) {
      float add = 0.0f;
      const pf_i64 n = t.col + warp_col + col;
      if (n < q.n) pf_load<PF_T, 1, false>(bias + n, &add);
      v += add;
    }
    v = pf_dtype<PF_T>::round(v);
    const int at = warp_col + col;
    pf_store<PF_T, 1, false>(memory + pf_chunk(warp_row + row, at / CHUNK, chunks) + at % CHUNK * 2,
                             &v);
  });
#endif
  pf_barrier();
  char* c = static_cast<char*>(q.c) + t.c * 2;
  const bool whole = q.n % CHUNK == 0;
  for (int at = static_cast<int>(pf_thread()); at < TILE_M * chunks; at += THREADS) {
    const int row = at / chunks, col = at % chunks;
    const pf_i64 m = t.row + row, n = t.col + col * CHUNK;
    if (m >= q.m || n >= q.n) continue;
    pf_u32 w[4];
    pf_load_words<16, false>(memory + pf_chunk(row, col, chunks), w);
    if (whole) {
      pf_store_words<16, false>(c + (m * q.n + n) * 2, w);
    } else {
      PF_UNROLL for (int e = 0; e < CHUNK; ++e) {
        const pf_u32 x = w[e / 2] >> (e % 2 * 16);
        if (n + e < q.n) pf_store_words<2, false>(c + (m * q.n + n + e) * 2, &x);
      }
    }
  }
}
