// Gradients of pointwise rows over double.

#define PF_TABLES(X) X(GradientsF64, gradients_f64, GradientTable<double>)
#include "cpu/pointwise_table.h"
