// What becomes of one sum of a product: the bias is added, it is rounded and stored, and goes to
// the program behind. What that reads is loaded some time before the sum is there: a load that
// begins then takes as long as a small product.
#ifndef PF_MATMUL_RESULT_H
#define PF_MATMUL_RESULT_H
#include "matmul_where.h"
#include "multiply_add.h"

// `row`: of c, all batches one below the other. OUT: of c and the bias.
template <class T, class OUT>
struct pf_result {
  typedef pf_compute<T> C;
  C bias;
#ifdef PF_EPILOGUE
  pf_after<1> program;
#endif
  PF_METHOD void load(const pf_matmul_args& q, pf_i64 row, pf_i64 n PF_EPILOGUE_REF) {
    if (q.bias) pf_load<OUT, 1, false>(static_cast<const OUT*>(pf_global(q.bias)) + n, &bias);
#ifdef PF_EPILOGUE
    program.load(epilogue, row, n);
#else
    (void)row;
#endif
  }
  // What was stored.
  PF_METHOD C finish(const pf_matmul_args& q, pf_i64 row, pf_i64 n, C sum PF_EPILOGUE_REF) {
    if (q.bias) sum = pf_sum(sum, bias);
    const C value[1] = {pf_dtype<OUT>::round(sum)};
    if (pf_result_kept)
      pf_store<OUT, 1, false>(static_cast<OUT*>(pf_global(q.c)) + row * q.n + n, value);
#ifdef PF_EPILOGUE
    program.run(epilogue, row, n, value);
#endif
    return value[0];
  }
};

#endif
