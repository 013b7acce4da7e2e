// Rectangles of strided memory to and from dense tiles.
#pragma once

#include <cstdint>

namespace pyflame::cpu {

// dst[r * nc + c] = src[r * rs + c * cs]; strides in elements of `bytes` (1, 2, 4, 8 or 16).
void gather_box(void* dst, const void* src, int bytes, int64_t nr, int64_t nc, int64_t rs,
                int64_t cs);
// dst[r * rs + c * cs] = src[r * nc + c]. With `stream`, rows that allow it bypass the caches.
void scatter_box(void* dst, const void* src, int bytes, int64_t nr, int64_t nc, int64_t rs,
                 int64_t cs, bool stream);
// Fills one slot of 64 bytes with one element.
void splat_element(void* slot, const void* src, int bytes);
// Orders streaming stores before what follows.
void finish_streaming();
// Outputs of this many bytes in all exceed the caches.
int64_t streaming_threshold();

}  // namespace pyflame::cpu
