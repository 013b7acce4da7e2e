// What becomes of the sums of a matrix product (matmul_tiles.h, matmul_hopper.h): the bias, one
// rounding, the program behind it, memory. Results of less than 4 bytes go through shared memory,
// so that whole chunks are written.
#ifndef PF_MATMUL_FINISH_H
#define PF_MATMUL_FINISH_H

enum { OUT_SIZE = sizeof(PF_OUT), OUT_CHUNK = 16 / OUT_SIZE };

// Adds the bias of N neighbours of row m from column n on.
template <class Out, int N>
PF_DEVICE void pf_add_bias(const pf_matmul_args& q, pf_i64 m, pf_i64 n, pf_acc (&v)[N]) {
  if (!q.bias) return;
  if constexpr (N == 2 && PF_GATHERED != 3) {
    const auto* at = static_cast<const Out*>(pf_global(q.bias)) + n;
    if (n + 1 < q.n && reinterpret_cast<pf_u64>(at) % (2 * OUT_SIZE) == 0) {
      pf_acc add[2];
      pf_load<Out, 2, false>(at, add);
      v[0] += add[0], v[1] += add[1];
      return;
    }
  }
  PF_UNROLL for (int e = 0; e < N; ++e) {
    pf_acc add = pf_acc(0);
    const bool in = PF_GATHERED == 3 ? m < q.m : n + e < q.n;
    if (in)
      pf_load<Out, 1, false>(
          static_cast<const Out*>(pf_global(q.bias)) + (PF_GATHERED == 3 ? m : n + e), &add);
    v[e] += add;
  }
}

// N neighbours of row m from column n on: written, or (KEPT, or of less than 4 bytes) rounded and
// left at `at` of shared memory.
template <class Out, bool KEPT = false, int N>
PF_DEVICE void pf_finish(char* at, const pf_matmul_args& q, const pf_matmul_tile& t, pf_i64 m,
                         pf_i64 n, pf_acc (&v)[N] PF_EPILOGUE_REF) {
  if constexpr (OUT_SIZE == 4 && KEPT) {
    pf_store<Out, N, false>(at, v);
  } else if constexpr (OUT_SIZE == 4) {
    if (m >= q.m) return;
    Out* c = static_cast<Out*>(pf_global(q.c)) + t.c + m * q.n + n;
#ifdef PF_EPILOGUE
    PF_UNROLL for (int e = 0; e < N; ++e) {
      const pf_acc value[1] = {v[e]};
      if (n + e < q.n) pf_epilogue(epilogue, t.rows + m, n + e, value);
    }
#endif
    if (!pf_result_kept) return;
    if (N == 2 && q.n % 2 == 0) {
      if (n < q.n) pf_store<Out, N, false>(c, v);
    } else {
      PF_UNROLL for (int e = 0; e < N; ++e) if (n + e < q.n) pf_store<Out, 1, false>(c + e, v + e);
    }
  } else if constexpr (pf_pairs<Out>::exist && N == 2) {
    const pf_u32 w = pf_pairs<Out>::of(v[0], v[1]);
    pf_store_words<4, false>(at, &w);
  } else {
    PF_UNROLL for (int e = 0; e < N; ++e) v[e] = pf_dtype<Out>::round(v[e]);
    pf_store<Out, N, false>(at, v);
  }
}

#ifdef PF_EPILOGUE
typedef pf_after<PF_EPILOGUE> pf_chunk_after;
// Whether a chunk is one access of the program.
constexpr bool pf_chunks_go_on = OUT_SIZE == 2 && PF_EPILOGUE == int(OUT_CHUNK);
#else
struct pf_chunk_after {};
#endif
// Whether rows are whole chunks: of 2-byte results what the program takes at a time says so, and
// code for other rows is not made.
PF_DEVICE bool pf_whole_chunks(const pf_matmul_args& q) {
#ifdef PF_EPILOGUE
  if constexpr (OUT_SIZE == 2) return pf_chunks_go_on;
#endif
  return q.n % OUT_CHUNK == 0;
}
// Starts to read what the program behind the product needs for a chunk of row m from column n on,
// where that is one access of it.
PF_DEVICE void pf_load_chunk(const pf_matmul_args& q, const pf_matmul_tile& t, pf_i64 m, pf_i64 n,
                             pf_chunk_after& after PF_EPILOGUE_REF) {
#ifdef PF_EPILOGUE
  if (pf_chunks_go_on && m < q.m && n < q.n) after.load(epilogue, t.rows + m, n);
#endif
}
// That chunk, which lies at `from` of shared memory, goes to memory and to the program.
template <class Out>
PF_DEVICE void pf_write_chunk(const char* from, const pf_matmul_args& q, const pf_matmul_tile& t,
                              pf_i64 m, pf_i64 n, const pf_chunk_after& after PF_EPILOGUE_REF) {
  if (m >= q.m || n >= q.n) return;
  char* c = static_cast<char*>(pf_global(q.c)) + (t.c + m * q.n + n) * OUT_SIZE;
  const bool whole = pf_whole_chunks(q);
  pf_u32 w[4];
  pf_load_words<16, false>(from, w);
  if (whole) {
    if (pf_result_kept) pf_store_words<16, false>(c, w);
  } else {
    PF_UNROLL for (int e = 0; e < OUT_CHUNK; ++e) {
      const pf_u32 x = w[e * OUT_SIZE / 4] >> (e * OUT_SIZE % 4 * 8);
      if (pf_result_kept && n + e < q.n) pf_store_words<OUT_SIZE, false>(c + e * OUT_SIZE, &x);
    }
  }
#ifdef PF_EPILOGUE
  if constexpr (pf_chunks_go_on) {
    pf_acc value[PF_EPILOGUE];
    pf_load<Out, PF_EPILOGUE, false>(from, value);
    after.run(epilogue, t.rows + m, n, value);
  } else {
    PF_UNROLL for (int e = 0; e < OUT_CHUNK; ++e) {
      pf_acc value[1];
      pf_load<Out, 1, false>(from + e * OUT_SIZE, value);
      if (n + e < q.n) pf_epilogue(epilogue, t.rows + m, n + e, value);
    }
  }
#endif
}

#endif
