// A function that pyflame/ops.h declares is the one that the library's headers declare, result
// included: the name that the linker sees has no result in it.
#include "ops/functions.h"
#include "ops/complex.h"
#include "ops/matmul.h"
#include "ops/record.h"

#define PF_PLAIN(...) __VA_ARGS__
#define PF_CALL(SCHEMA, RESULT, CALL)
#define PF_DIRECT(SCHEMA, RESULT, NAME, PARAMETERS) \
  static_assert(static_cast<PF_PLAIN RESULT (*)(PF_PLAIN PARAMETERS)>(&NAME) != nullptr);
namespace pyflame {
#include "ops_checks.inc"
}
