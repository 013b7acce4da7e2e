// Rows of the pointwise table over double.

#define PF_TABLES(X) X(RowsF64, rows_f64, ForwardTable<double>)
#include "cpu/pointwise_table.h"
