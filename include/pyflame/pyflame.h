// Everything a C++ user of PyFlame needs.
#pragma once

#include "pyflame/amp.h"
#include "pyflame/autograd.h"
#include "pyflame/device.h"
#include "pyflame/dtype.h"
#include "pyflame/error.h"
#include "pyflame/float8.h"
#include "pyflame/init.h"
#include "pyflame/io.h"
#include "pyflame/nn.h"
#include "pyflame/operators.h"
#include "pyflame/ops.h"
#include "pyflame/optim.h"
#include "pyflame/random.h"
#include "pyflame/registry.h"
#include "pyflame/shape.h"
#include "pyflame/tensor.h"
