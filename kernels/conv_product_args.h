// A product of matrices one of whose operands is gathered (conv_gather.h).
#ifndef PF_CONV_PRODUCT_ARGS_H
#define PF_CONV_PRODUCT_ARGS_H
#include "conv_args.h"
#include "matmul_args.h"

struct pf_conv_product : pf_matmul_args {
  pf_conv conv;
};
static_assert(sizeof(pf_conv_product) == 808, "as hosts fill it");

#endif
