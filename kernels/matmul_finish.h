// What becomes of the sums of a matrix product (matmul_tiles.h, matmul_hopper.h): the bias, one
// rounding, the program behind it, memory. Results of less than 4 bytes go through shared memory,
// so that whole chunks are written.
#ifndef PF_MATMUL_FINISH_H
#define PF_MATMUL_FINISH_H

enum { OUT_SIZE = sizeof(PF_OUT), OUT_CHUNK = 16 / OUT_SIZE };

// N neighbours of row m from column n on: written, or (KEPT, or of less than 4 bytes) rounded and
// left at `at` of shared memory.
template <class Out, bool KEPT = false, int N>
PF_DEVICE void pf_finish(char* at, const pf_matmul_args& q, const pf_matmul_tile& t, pf_i64 m,
                         pf_i64 n, pf_acc (&v)[N] PF_EPILOGUE_REF) {
  if (q.bias) {
    PF_UNROLL for (int e = 0; e < N; ++e) {
      pf_acc add = pf_acc(0);
      const bool in = PF_GATHERED == 3 ? m < q.m : n + e < q.n;
      if (in)
        pf_load<Out, 1, false>(
            static_cast<const Out*>(pf_global(q.bias)) + (PF_GATHERED == 3 ? m : n + e), &add);
      v[e] += add;
    }
  }
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

// A chunk of row m from column n on, which lies at `from` of shared memory.
template <class Out>
PF_DEVICE void pf_write_chunk(const char* from, const pf_matmul_args& q, const pf_matmul_tile& t,
                              pf_i64 m, pf_i64 n PF_EPILOGUE_REF) {
  if (m >= q.m || n >= q.n) return;
  char* c = static_cast<char*>(pf_global(q.c)) + (t.c + m * q.n + n) * OUT_SIZE;
  const bool whole = q.n % OUT_CHUNK == 0;
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
  if (whole && OUT_SIZE == 2) {
    pf_acc value[OUT_CHUNK];
    pf_load<Out, OUT_CHUNK, false>(from, value);
    pf_epilogue(epilogue, t.rows + m, n, value);
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
