// Rows of the pointwise table over integers and masks.

#define PF_TABLES(X)                          \
  X(RowsI32, rows_i32, ForwardTable<int32_t>) \
  X(RowsI64, rows_i64, ForwardTable<int64_t>) \
  X(RowsBool, rows_bool, LogicTable)
#include "cpu/pointwise_table.h"
