// What pf_cat is given (move.h): rows of the output, `width` units each, from the rows of several
// inputs. Part k has the columns from begin[k] to begin[k + 1] and lies as one piece.
#ifndef PF_MOVE_ARGS_H
#define PF_MOVE_ARGS_H
#include "integers.h"

#define PF_CAT_MOST 16

struct pf_cat_parts {
  pf_i64 rows, width, count;
  const void* data[PF_CAT_MOST];
  pf_i64 begin[PF_CAT_MOST + 1];
};
static_assert(sizeof(pf_cat_parts) == 288, "as hosts fill it");

#endif
