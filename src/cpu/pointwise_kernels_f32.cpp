// Rows of the pointwise table over float.

#define PF_TABLES(X) X(RowsF32, rows_f32, ForwardTable<float>)
#include "cpu/pointwise_table.h"
