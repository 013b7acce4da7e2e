// What a kernel takes to report a wrong index (index_error.h).
#ifndef PF_ERROR_ARGS_H
#define PF_ERROR_ARGS_H
#include "integers.h"

// In memory that the host reads when it synchronises.
struct pf_error_record {
  pf_i64 set, index, lowest, limit, op, kind;
};
static_assert(sizeof(pf_error_record) == 48, "as hosts read it");
struct pf_error {
  pf_u32* lock;  // 0 until the first wrong index
  pf_error_record* record;
  pf_i64 op, kind;  // for the record
};
static_assert(sizeof(pf_error) == 32, "as hosts fill it");

#endif
