// What kernels over lists of tensors take (table.h), and steps of optimizers (sgd.h, adamw.h,
// optim_step.h).
#ifndef PF_OPTIM_ARGS_H
#define PF_OPTIM_ARGS_H
#include "integers.h"

#define PF_TABLE_ARRAYS 6

struct pf_entry_of {
  void* data[PF_TABLE_ARRAYS];
  pf_i64 count;
  pf_u64 random;   // the counter of its first element, of what is rounded at random
  pf_i32 dtype;    // of data[0]
  pf_i32 aligned;  // all addresses to 16 bytes
};
static_assert(sizeof(pf_entry_of) == 72, "as hosts fill it");
struct pf_list {
  const pf_entry_of* tensors;
  const pf_i64* first;  // the first block of each tensor, and of the end
  pf_i32 count;
  // Nobody writes this table and what steps read but gradients meanwhile: it may be read before
  // the kernel has waited.
  pf_i32 steady;
  pf_i64 chunk;  // elements of a block
};
static_assert(sizeof(pf_list) == 32, "as hosts fill it");

// C: the compute type.
template <class C>
struct pf_sgd {
  pf_u64 seed;
  C rate, momentum, undamped, decay, sign;
  pf_i32 decays, nesterov, first, unused;
};
static_assert(sizeof(pf_sgd<float>) == 48 && sizeof(pf_sgd<double>) == 64, "as hosts fill it");

template <class C>
struct pf_adam {
  pf_u64 seed;
  C c1, b2, c2, eps, decay, root, size, sign;
  pf_i32 decays, decoupled;
};
static_assert(sizeof(pf_adam<float>) == 48 && sizeof(pf_adam<double>) == 80, "as hosts fill it");

// Of optim_rules.h. Decays: 1 adds decay * parameter to the gradient, 2 multiplies the parameter.
#define PF_STEP_NUMBERS 8
template <class C>
struct pf_step {
  C numbers[PF_STEP_NUMBERS], decay, sign;
  pf_i32 decays, unused;
};
static_assert(sizeof(pf_step<float>) == 48 && sizeof(pf_step<double>) == 88, "as hosts fill it");

#endif
