// Gradients of pointwise rows over float.

#define PF_TABLES(X) X(GradientsF32, gradients_f32, GradientTable<float>)
#include "cpu/pointwise_table.h"
